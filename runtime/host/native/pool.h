/* The interface of the thread pool (pool.c) for compiled programs, the runtime and python_calls.c.

   codegen/llvm/pool.py has the same numbers for Python; a test compares them. */
#ifndef MXF_POOL_H
#define MXF_POOL_H

#include <stdatomic.h>
#include <stdint.h>

#define MXF_RECORD_WORDS 4        /* 8-byte words of a record */
#define MXF_LARGEST_POOL 1024     /* the most threads */
#define MXF_CHUNKS_OF_THREAD 8    /* the most chunks of a launch are so many for each thread, ... */
#define MXF_MOST_CHUNKS_OF_FEW 32 /* ... or so many if that is more */
#define MXF_LONG_CHUNK 1024       /* chunks of so many units and more start ... */
#define MXF_CHUNK_ALIGNMENT 64    /* ... at multiples of this */

/* A kernel runs [begin, end) of its parallel axis as the worker of this number. */
typedef void (*mxf_kernel)(void *arguments, int64_t begin, int64_t end, int32_t worker);

/* A launch of `kernel` over [0, count). More than `grain` units can be divided among threads. */
struct mxf_record {
    mxf_kernel kernel;
    void *arguments;
    int64_t count, grain;
};

/* A part of a launch: [begin, end). */
struct mxf_piece {
    mxf_kernel kernel;
    void *arguments;
    int64_t begin, end;
};

/* A word of a table, which a loop moves by `stride` after each iteration. */
struct mxf_move {
    int64_t *word;
    int64_t stride;
};

/* Runs records `count` times, and not again when `*flag` is 0 before an iteration. `flag` can be null. */
struct mxf_loop_table {
    const volatile uint8_t *flag;
    int64_t count;
    const struct mxf_record *records;
    int64_t n, moves;
    struct mxf_move move[];
};

/* Runs the first list of records if `*flag` is not 0, else the second. */
struct mxf_branch_table {
    const volatile uint8_t *flag;
    struct {
        const struct mxf_record *records;
        int64_t n;
    } lists[2];
};

/* The number of threads that share a launch, with the caller's. Only the functions below write it. */
extern _Atomic int32_t mxf_threads;

/* Prepares the pool for `threads` threads. Idle threads poll for `spin_ns` nanoseconds before they sleep. Returns 0 or an
   error number of the system. It is called once, before other calls except of mxf_run, which until then uses one thread. */
int32_t mxf_open(int32_t threads, int64_t spin_ns);

/* Runs n launches in order, each finished before the next. */
void mxf_run(const struct mxf_record *records, int64_t n);

/* Uses so many threads (1 to MXF_LARGEST_POOL) from the next launch on. A kernel must not call it. */
void mxf_resize(int32_t threads);

/* Stops the workers; later launches run on their callers alone. A kernel must not call it, and it is called once. */
void mxf_stop(void);

/* Kernels that programs can launch. mxf_pieces runs the pieces [begin, end) of a table of mxf_piece; mxf_copy copies the
   bytes [begin, end) of the second of two pointers to the first, and mxf_fill writes zeros there. mxf_loop and mxf_branch
   run the records of their tables, as mxf_run does; they are launched with one unit. */
void mxf_pieces(void *pieces, int64_t begin, int64_t end, int32_t worker);
void mxf_copy(void *arguments, int64_t begin, int64_t end, int32_t worker);
void mxf_fill(void *arguments, int64_t begin, int64_t end, int32_t worker);
void mxf_loop(void *table, int64_t begin, int64_t end, int32_t worker);
void mxf_branch(void *table, int64_t begin, int64_t end, int32_t worker);

#ifdef MXF_SOURCES /* the digest of the C sources, by which a test finds outdated objects */
__attribute__((section(MXF_SOURCES_SECTION), used)) static const char mxf_sources[] = MXF_SOURCES;
#endif

#endif
