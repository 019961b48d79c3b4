/* The thread pool: the loop that runs the launches of a program, and the threads that share each launch.

   pool.h describes launches and the functions. `python -m mxforge.tools.make_native` compiles this file; the package
   contains the objects, so that users need no C compiler. It needs the C library and nothing of Python.

   Chunks. A launch of more than `grain` units is divided into chunks, which threads take one by one. It has up to 8
   chunks per thread, or 32, each of at least `grain` units. With n < 8 threads, for which a chunk costs less, chunks can
   be smaller by n / 8. The number of chunks is a multiple of the threads if it is not less. Their sizes differ by at most
   one. Chunks of 1024 units and more start at multiples of 64, and can be smaller by this rounding, so that aligned
   vectors stay aligned. The launch ends when all chunks are finished.

   Halves. Threads with even numbers take the chunks of the first half in order, the others those of the second half. A
   thread whose half is empty takes chunks from the end of the other. So a thread finds in its own cache what it read and
   wrote there in the launch before. A launch of the same kernel as the launch before runs in the opposite order, so it
   begins with the data that was read last. One of n threads takes an n-th of the chunks that are left in a half at a
   time, and at least one: taking chunks one by one costs a thread up to 0.2 microseconds each.

   Workers. The caller of mxf_run is worker 0; the others are numbered from 1. A call from inside a kernel, or during a
   launch of another thread, runs its launch alone as worker 0. So within one run the numbers of working threads are
   always distinct. Two threads must not run the same records and memory at once, because both could be their worker 0.
   While as many callers run launches as there are threads, each runs its launches alone: workers would take cores from
   callers.

   Who may access what. The owner of `busy` is one thread at a time. It alone writes the description of the launch (the
   plain fields of `struct pool`), and writes it only while no chunk is left untaken or unfinished. Others read it only
   between taking a chunk and counting it as done. The order of these accesses follows from two atomic fields:

     - the owner writes the description and then stores `ranges` with release; taking chunks is a compare-and-swap of
       `ranges` with acquire. It succeeds only on what the owner stored, or on what other such compare-and-swaps made of
       it, which belong to the same release sequence. So who has a chunk sees the description of its launch. This also
       holds if `ranges` had the same value in an earlier launch, because the description is read afterwards;
     - a thread reads the description and then adds to `done` with release; the owner loads `done` with acquire, and
       writes the next description only after it has seen all chunks. So nobody reads a description while it changes.

   A late worker finds no chunk, or takes chunks of the next launch. The owner waits for chunks and never for workers, so a
   worker that the system has suspended outside of a chunk causes no delay.

   Sleeping. A thread that goes to sleep announces it and then compares a word; who wakes it changes the word and then
   looks for the announcement. All four accesses are sequentially consistent, so at least one of the two sees the other.
   The comparison of an idle worker is the one in the system's call, which is ordered after the announcement.

   Forks. The state is zero in a forked child. Threads do not survive a fork, and zero means "not started", so the child
   starts its own threads with its first launch. The settings are outside of this memory. A thread that forks inside of a
   shared launch must not return to it in the child.

   Pinning. Workers are pinned to one CPU each, and one CPU is left for the caller. On some systems an unpinned thread
   wakes up on the CPU of its waker, where it waits for milliseconds. If the caller has moved to a worker's CPU, that
   worker moves to the free CPU. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "pool.h"

#define CACHE_LINE 128
#define INDEX_BITS 15 /* of the number of a chunk in `ranges` */

_Static_assert(sizeof(struct mxf_record) == 8 * MXF_RECORD_WORDS, "programs write records as words");
_Static_assert(sizeof(struct mxf_piece) == sizeof(struct mxf_record), "programs write pieces in the same way");
_Static_assert(MXF_CHUNKS_OF_THREAD * MXF_LARGEST_POOL < 1 << INDEX_BITS, "the end of the chunks is a valid number");
_Static_assert(MXF_MOST_CHUNKS_OF_FEW < 1 << INDEX_BITS, "the end of the chunks is a valid number");

/* ---------------------------------------------------------------- what differs between systems and processors */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

typedef pthread_t system_thread;

static void *zeroed_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void yield_cpu(void)
{
    sched_yield();
}

/* Starts a thread with all signals blocked: the threads of the program handle them. */
static bool begin_thread(system_thread *thread, void *(*function)(void *))
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    bool begun = pthread_create(thread, NULL, function, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return begun;
}

static void await_end(system_thread thread)
{
    pthread_join(thread, NULL);
}

#if defined(__linux__)

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_CPUS CPU_SETSIZE
#define EVERY_SLEEPER INT_MAX

typedef cpu_set_t system_cpus;

/* Zeroed memory that is zero again in a forked child; NULL and `errno` if the system refuses (Linux before 4.14). */
static void *memory_wiped_by_fork(size_t bytes)
{
    void *memory = zeroed_memory(bytes);
    return memory == NULL || madvise(memory, bytes, MADV_WIPEONFORK) ? NULL : memory;
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* Sleeps while the word is `value`. Can return early. */
static void sleep_while(_Atomic int32_t *word, int32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL);
}

static void wake(_Atomic int32_t *word, int32_t most)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most);
}

/* The CPUs that this thread may use; none if the system has more than MOST_CPUS. */
static void allowed_cpus(system_cpus *cpus)
{
    CPU_ZERO(cpus);
    sched_getaffinity(0, sizeof *cpus, cpus);
}

static bool has_cpu(const system_cpus *cpus, int32_t cpu)
{
    return CPU_ISSET(cpu, cpus);
}

static int32_t current_cpu(void)
{
    return sched_getcpu();
}

static void pin(system_thread thread, int32_t cpu)
{
    system_cpus cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    pthread_setaffinity_np(thread, sizeof cpus, &cpus);
}

#elif defined(__APPLE__)

#define MOST_CPUS 0 /* the system pins no threads, so `has_cpus` is false and nobody calls `pin` */
#define EVERY_SLEEPER INT32_MAX

typedef int32_t system_cpus;

/* macOS has no public call that waits for a word: all sleepers share a condition, and each wake-up wakes all. */
static pthread_mutex_t sleeping = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t awake = PTHREAD_COND_INITIALIZER;

static struct {
    void *memory;
    size_t bytes;
} wiped;

/* Runs in a forked child, whose only thread this is. */
static void wipe(void)
{
    memset(wiped.memory, 0, wiped.bytes);
    sleeping = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    awake = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}

/* Zeroed memory that is zero again in a forked child; NULL and `errno` if there is none. */
static void *memory_wiped_by_fork(size_t bytes)
{
    wiped.memory = zeroed_memory(bytes);
    wiped.bytes = bytes;
    return wiped.memory == NULL || (errno = pthread_atfork(NULL, NULL, wipe)) ? NULL : wiped.memory;
}

static int64_t now(void)
{
    return (int64_t)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
}

/* Sleeps while the word is `value`. Can return early. */
static void sleep_while(_Atomic int32_t *word, int32_t value)
{
    pthread_mutex_lock(&sleeping);
    if (atomic_load(word) == value)
        pthread_cond_wait(&awake, &sleeping);
    pthread_mutex_unlock(&sleeping);
}

/* The lock orders this after a sleeper's look at the word. */
static void wake(_Atomic int32_t *word, int32_t most)
{
    (void)word, (void)most;
    pthread_mutex_lock(&sleeping);
    pthread_cond_broadcast(&awake);
    pthread_mutex_unlock(&sleeping);
}

static void allowed_cpus(system_cpus *cpus)
{
    *cpus = 0;
}

static bool has_cpu(const system_cpus *cpus, int32_t cpu)
{
    return cpu < *cpus;
}

static int32_t current_cpu(void)
{
    return 0;
}

static void pin(system_thread thread, int32_t cpu)
{
    (void)thread, (void)cpu;
}

#else
#error "the thread pool has no section for this system: write the functions above for it"
#endif

/* Tells the processor that this is a loop that waits. */
static inline void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
#error "the thread pool has no instruction for waiting loops of this processor"
#endif
}

/* ---------------------------------------------------------------- the state */

struct worker {
    system_thread thread;
    int32_t cpu; /* if workers are pinned */
};

/* Fields on one line are written together; those that are written often have their own line. */
static struct pool {
    /* 1 for the duration of a launch that threads share; a thread that cannot set it runs its launch alone */
    _Alignas(CACHE_LINE) _Atomic int32_t busy;
    /* the threads that run a launch alone because of that. If they are all threads but one, the owner runs alone too */
    _Alignas(CACHE_LINE) _Atomic int32_t alone;
    /* counts launches. Idle workers poll it and then sleep on it */
    _Alignas(CACHE_LINE) _Atomic int32_t epoch;
    /* the chunks not yet taken: bits 0 to 14 are the first of the first half and bits 16 to 30 its end, bits 32 to 46 and
       48 to 62 those of the second half. Bit 63 is set if the launch runs in the opposite order */
    _Alignas(CACHE_LINE) _Atomic uint64_t ranges;
    /* chunks finished; the caller sleeps on it */
    _Alignas(CACHE_LINE) _Atomic int32_t done;
    _Atomic int32_t caller_sleeps;
    /* the number of workers that sleep: a new launch wakes them if it is not 0 */
    _Alignas(CACHE_LINE) _Atomic int32_t sleepers;

    /* the description of the launch. Its axis has `units` of 1 << shift, of which the last can be smaller */
    _Alignas(CACHE_LINE) mxf_kernel kernel;
    void *arguments;
    int64_t count;
    uint64_t units;
    int32_t chunks, shift;
    bool reversed;

    /* the workers, which the owner of `busy` starts and stops */
    _Alignas(CACHE_LINE) struct worker *table;
    int32_t workers, free_cpu; /* how many run; the CPU that none of them is pinned to */
    bool started, pinned;
    _Atomic int32_t stopping, next_id;
} *pool;

_Atomic int32_t mxf_threads = 1;
static int64_t spin_nanoseconds;

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int32_t number_of_threads(void)
{
    return atomic_load_explicit(&mxf_threads, memory_order_relaxed);
}

/* Polls the word until it differs from `value` (differ = true) or equals it (differ = false); false after the time to
   spin. The clock is read for the first time after 16 turns, and then counts. */
static inline bool spin(_Atomic int32_t *word, int32_t value, bool differ)
{
    int64_t start = 0;
    for (int32_t turn = 1;; turn++) {
        if ((atomic_load_explicit(word, memory_order_acquire) != value) == differ)
            return true;
        pause_cpu();
        if (turn % 16 == 0) {
            int64_t time = now();
            if (start == 0)
                start = time;
            if (time - start > spin_nanoseconds)
                return false;
        }
    }
}

/* ---------------------------------------------------------------- chunks */

/* The start of chunk `index`: index * units / chunks units, but not more than the count. */
static inline int64_t chunk_begin(uint64_t index, int32_t chunks)
{
    uint64_t units = index * pool->units / (uint32_t)chunks;
    return least((int64_t)(units << pool->shift), pool->count);
}

/* The chunks [first, end) that a thread has taken; none if both are 0. If `falls`, the last of them runs first. */
struct taken {
    int32_t first, end;
    bool falls;
};

static inline int32_t chunk_at(uint64_t ranges, int position)
{
    return (int32_t)(ranges >> position & ((1 << INDEX_BITS) - 1));
}

/* The number of chunks in the half of `ranges` that starts at bit `half`. */
static inline int32_t untaken(uint64_t ranges, int half)
{
    return chunk_at(ranges, half + 16) - chunk_at(ranges, half);
}

static inline struct taken take(int32_t id)
{
    uint64_t ranges = atomic_load_explicit(&pool->ranges, memory_order_acquire);
    for (;;) {
        int half = id & 1 ? 32 : 0;
        bool away = untaken(ranges, half) == 0;
        if (away)
            half ^= 32;
        int32_t left = untaken(ranges, half);
        if (left == 0)
            return (struct taken){0, 0, false};
        uint64_t size = (uint64_t)most(left / number_of_threads(), 1);
        bool falls = (ranges >> 63) != away;
        uint64_t next = falls ? ranges - (size << (half + 16)) : ranges + (size << half);
        if (atomic_compare_exchange_weak_explicit(
                &pool->ranges, &ranges, next, memory_order_seq_cst, memory_order_acquire)) {
            int32_t first = falls ? chunk_at(next, half + 16) : chunk_at(ranges, half);
            return (struct taken){first, first + (int32_t)size, falls};
        }
    }
}

/* Takes and runs chunks until none are left. Who finishes the last one wakes the caller. */
static void take_chunks(int32_t id)
{
    for (;;) {
        struct taken found = take(id);
        int32_t size = found.end - found.first;
        if (size == 0)
            return;
        int32_t chunks = pool->chunks;
        mxf_kernel kernel = pool->kernel;
        void *arguments = pool->arguments;
        for (int32_t i = 0; i < size; i++) {
            uint64_t index = (uint64_t)(found.falls ? found.end - 1 - i : found.first + i);
            kernel(arguments, chunk_begin(index, chunks), chunk_begin(index + 1, chunks), id);
        }
        if (atomic_fetch_add(&pool->done, size) + size == chunks && atomic_load(&pool->caller_sleeps))
            wake(&pool->done, 1);
    }
}

/* ---------------------------------------------------------------- workers */

static void *work(void *unused)
{
    (void)unused;
    int32_t id = atomic_fetch_add(&pool->next_id, 1) + 1;
    for (;;) {
        int32_t epoch = atomic_load(&pool->epoch);
        if (atomic_load(&pool->stopping))
            return NULL;
        take_chunks(id);
        if (!spin(&pool->epoch, epoch, true)) {
            atomic_fetch_add(&pool->sleepers, 1);
            sleep_while(&pool->epoch, epoch);
            atomic_fetch_sub(&pool->sleepers, 1);
        }
    }
}

/* The first of the CPUs from `from` on, other than `except`; MOST_CPUS if there is none. */
static int32_t next_cpu(const system_cpus *cpus, int32_t from, int32_t except)
{
    while (from < MOST_CPUS && (from == except || !has_cpu(cpus, from)))
        from++;
    return from;
}

/* True if there are so many CPUs beside `except`. */
static bool has_cpus(const system_cpus *cpus, int32_t needed, int32_t except)
{
    int32_t found = -1;
    for (; needed > 0 && found < MOST_CPUS; needed--)
        found = next_cpu(cpus, found + 1, except);
    return found < MOST_CPUS;
}

/* Starts the workers. If the system cannot start all, the others work without them. */
__attribute__((noinline, cold)) static void start(int32_t threads)
{
    int32_t needed = threads - 1, cpu = -1;
    system_cpus cpus;
    allowed_cpus(&cpus);
    pool->table = calloc((size_t)needed, sizeof *pool->table);
    pool->free_cpu = current_cpu();
    pool->pinned = has_cpus(&cpus, needed, pool->free_cpu);
    pool->started = true;
    pool->workers = 0;
    atomic_store(&pool->next_id, 0);
    atomic_store(&pool->stopping, 0);
    if (pool->table == NULL)
        return;
    for (struct worker *worker = pool->table; pool->workers < needed; worker++) {
        if (!begin_thread(&worker->thread, work))
            return;
        pool->workers++;
        if (pool->pinned) {
            worker->cpu = cpu = next_cpu(&cpus, cpu + 1, pool->free_cpu);
            pin(worker->thread, cpu);
        }
    }
}

/* Called before sleepers are woken: a worker on the caller's CPU moves to the free CPU. */
__attribute__((noinline, cold)) static void repin(void)
{
    int32_t here = current_cpu();
    if (!pool->pinned || here == pool->free_cpu)
        return;
    for (struct worker *worker = pool->table; worker < pool->table + pool->workers; worker++)
        if (worker->cpu == here) {
            worker->cpu = pool->free_cpu;
            pool->free_cpu = here;
            pin(worker->thread, worker->cpu);
            return;
        }
}

/* Waits until no launch is running and prevents new ones. */
static void acquire(void)
{
    int32_t free;
    while (free = 0, !atomic_compare_exchange_strong(&pool->busy, &free, 1))
        yield_cpu();
}

static void release(void)
{
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
}

/* Stops the workers and waits for their end. The caller owns `busy`. */
static void end_workers(void)
{
    atomic_store(&pool->stopping, 1);
    atomic_fetch_add(&pool->epoch, 1);
    wake(&pool->epoch, EVERY_SLEEPER);
    for (int32_t i = 0; i < pool->workers; i++)
        await_end(pool->table[i].thread);
    free(pool->table);
    pool->table = NULL;
    pool->workers = 0;
    pool->started = false;
}

/* ---------------------------------------------------------------- launches */

/* The number of chunks of a launch, of which `fitting` chunks of the size of its grain fit into the count. */
static inline int64_t number_of_chunks(int64_t count, int64_t fitting, int32_t threads)
{
    int64_t finest = least(most(MXF_CHUNKS_OF_THREAD * fitting / threads, fitting), count);
    int64_t chunks = least(finest, most(MXF_CHUNKS_OF_THREAD * threads, MXF_MOST_CHUNKS_OF_FEW));
    return chunks < threads ? chunks : chunks - chunks % threads;
}

/* Describes the launch and lets threads take its chunks. The caller owns `busy`. */
static inline void post(mxf_kernel kernel, void *arguments, int64_t count, int64_t chunks)
{
    int32_t shift = count / chunks >= MXF_LONG_CHUNK ? __builtin_ctz(MXF_CHUNK_ALIGNMENT) : 0;
    pool->reversed = kernel == pool->kernel && !pool->reversed;
    pool->kernel = kernel;
    pool->arguments = arguments;
    pool->count = count;
    pool->chunks = (int32_t)chunks;
    pool->shift = shift;
    pool->units = (uint64_t)(count + (INT64_C(1) << shift) - 1) >> shift;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed); /* `ranges` orders it as the description */
    uint64_t end = (uint64_t)chunks, middle = end / 2, order = pool->reversed;
    uint64_t ranges = middle << 16 | middle << 32 | end << 48 | order << 63;
    atomic_store_explicit(&pool->ranges, ranges, memory_order_release);
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        repin();
        wake(&pool->epoch, (int32_t)chunks - 1);
    }
}

/* Waits until all chunks are finished. */
static inline void await_chunks(int32_t chunks)
{
    if (spin(&pool->done, chunks, false))
        return;
    int32_t done;
    do {
        atomic_store(&pool->caller_sleeps, 1);
        done = atomic_load(&pool->done);
        if (done != chunks)
            sleep_while(&pool->done, done);
        atomic_store(&pool->caller_sleeps, 0);
    } while (atomic_load_explicit(&pool->done, memory_order_acquire) != chunks);
}

__attribute__((noinline)) static void launch(mxf_kernel kernel, void *arguments, int64_t count, int64_t grain)
{
    int64_t fitting = count / most(grain, 1);
    if (fitting < 2 || number_of_threads() < 2) {
        kernel(arguments, 0, count, 0);
        return;
    }
    int32_t free = 0;
    if (!atomic_compare_exchange_strong(&pool->busy, &free, 1)) {
        atomic_fetch_add(&pool->alone, 1);
        kernel(arguments, 0, count, 0);
        atomic_fetch_sub(&pool->alone, 1);
        return;
    }
    int32_t threads = number_of_threads(); /* only the owner of `busy` changes it */
    if (threads - atomic_load_explicit(&pool->alone, memory_order_relaxed) < 2) {
        kernel(arguments, 0, count, 0);
    } else {
        if (!pool->started)
            start(threads);
        int64_t chunks = number_of_chunks(count, fitting, threads);
        post(kernel, arguments, count, chunks);
        take_chunks(0);
        await_chunks((int32_t)chunks);
    }
    release();
}

/* ---------------------------------------------------------------- the functions of pool.h */

void mxf_run(const struct mxf_record *records, int64_t n)
{
    for (const struct mxf_record *end = records + n; records < end; records++) {
        struct mxf_record record = *records;
        if (record.count > record.grain)
            launch(record.kernel, record.arguments, record.count, record.grain);
        else if (record.count > 0)
            record.kernel(record.arguments, 0, record.count, 0);
    }
}

void mxf_pieces(void *pieces, int64_t begin, int64_t end, int32_t worker)
{
    const struct mxf_piece *piece = pieces;
    for (int64_t i = begin; i < end; i++)
        piece[i].kernel(piece[i].arguments, piece[i].begin, piece[i].end, worker);
}

void mxf_copy(void *arguments, int64_t begin, int64_t end, int32_t worker)
{
    (void)worker;
    char *const *pointers = arguments;
    memcpy(pointers[0] + begin, pointers[1] + begin, (size_t)(end - begin));
}

void mxf_fill(void *arguments, int64_t begin, int64_t end, int32_t worker)
{
    (void)worker;
    char *const *pointers = arguments;
    memset(pointers[0] + begin, 0, (size_t)(end - begin));
}

static void move(const struct mxf_loop_table *loop, int64_t times)
{
    for (int64_t i = 0; i < loop->moves; i++)
        *loop->move[i].word += times * loop->move[i].stride;
}

void mxf_loop(void *table, int64_t begin, int64_t end, int32_t worker)
{
    (void)begin, (void)end, (void)worker;
    const struct mxf_loop_table *loop = table;
    int64_t done = 0;
    for (; done < loop->count && (loop->flag == NULL || *loop->flag != 0); done++) {
        mxf_run(loop->records, loop->n);
        move(loop, 1);
    }
    move(loop, -done);
}

void mxf_branch(void *table, int64_t begin, int64_t end, int32_t worker)
{
    (void)begin, (void)end, (void)worker;
    const struct mxf_branch_table *branch = table;
    int taken = *branch->flag != 0 ? 0 : 1;
    mxf_run(branch->lists[taken].records, branch->lists[taken].n);
}

int32_t mxf_open(int32_t threads, int64_t spin_ns)
{
    pool = memory_wiped_by_fork(sizeof *pool);
    if (pool == NULL)
        return errno;
    spin_nanoseconds = spin_ns;
    atomic_store(&mxf_threads, threads);
    return 0;
}

void mxf_resize(int32_t threads)
{
    acquire();
    end_workers();
    atomic_store(&mxf_threads, threads);
    release();
}

void mxf_stop(void)
{
    acquire(); /* and never released, so that launches that still run do so alone */
    end_workers();
}
