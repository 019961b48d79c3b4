/* A program without Python that uses the thread pool from several threads at once: runs, nested runs, groups, copies, loops,
   sleeping and waking, other numbers of threads, and runs after the pool has stopped. The memory of kernels is not atomic,
   so that ThreadSanitizer reports two threads that work on the same part, or a part that is seen before it is written.

   usage: pool_stress ROUNDS      prints the chunks of some launches, then "done"; ends with status 1 at a wrong result */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pool.h"

enum { THREADS = 4, CALLERS = 3, SPIN_NS = 20000, ELEMENTS = 6000, LAUNCHES = 160, PATIENCE_NS = 50000000 };

static int rounds;

static void fail(const char *what)
{
    fprintf(stderr, "wrong: %s\n", what);
    exit(1);
}

static void pause_ns(long nanoseconds)
{
    nanosleep(&(struct timespec){0, nanoseconds}, NULL);
}

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

/* What a kernel works on. `of_worker` is memory of one worker, which two threads must not use at once. */
struct cells {
    int64_t values[ELEMENTS], begins[ELEMENTS + 1], of_worker[THREADS];
    _Atomic int32_t arrived;
};

static void add(void *arguments, int64_t begin, int64_t end, int32_t worker)
{
    struct cells *cells = arguments;
    for (int64_t i = begin; i < end; i++)
        cells->values[i]++;
    cells->of_worker[worker] += end - begin;
}

static void add_slowly(void *arguments, int64_t begin, int64_t end, int32_t worker)
{
    for (int64_t stop = now() + 3 * SPIN_NS; now() < stop;)
        ;
    add(arguments, begin, end, worker);
}

/* One of two units. Waits for the other one, so that two threads take part unless the launch runs on its caller alone. */
static void meet(void *arguments, int64_t begin, int64_t end, int32_t worker)
{
    struct cells *cells = arguments;
    cells->arrived++;
    for (int64_t stop = now() + PATIENCE_NS; end - begin < 2 && cells->arrived < 2 && now() < stop;)
        sched_yield();
    add(arguments, begin, end, worker);
}

static void note_begin(void *arguments, int64_t begin, int64_t end, int32_t worker)
{
    struct cells *cells = arguments;
    cells->begins[begin] = end - begin;
    cells->of_worker[worker] += end - begin;
}

/* Each unit is a record that runs inside of this launch. */
static void run_inside(void *arguments, int64_t begin, int64_t end, int32_t worker)
{
    (void)worker;
    mxf_run((struct mxf_record *)arguments + begin, end - begin);
}

static void check(const struct cells *cells, int64_t count, int64_t times)
{
    int64_t work = 0;
    for (int64_t i = 0; i < count; i++)
        if (cells->values[i] != times)
            fail("an element was not processed once by each launch");
    for (int i = 0; i < THREADS; i++)
        work += cells->of_worker[i];
    if (work != count * times)
        fail("two threads were the same worker at once");
}

static void in_order(void)
{
    struct cells *cells = calloc(1, sizeof *cells);
    struct mxf_record records[20];
    for (int i = 0; i < 20; i++)
        records[i] = (struct mxf_record){add, cells, ELEMENTS, 1 + i * 10};
    mxf_run(records, 20);
    check(cells, ELEMENTS, 20);
    free(cells);
}

static void nested(void)
{
    enum { INNER = 8 };
    struct cells *cells = calloc(INNER, sizeof *cells);
    struct mxf_record inner[INNER];
    for (int i = 0; i < INNER; i++)
        inner[i] = (struct mxf_record){add, cells + i, 100, 1};
    struct mxf_record outer = {run_inside, inner, INNER, 1};
    mxf_run(&outer, 1);
    mxf_run(&outer, 1);
    for (int i = 0; i < INNER; i++)
        check(cells + i, 100, 2);
    free(cells);
}

static void groups(void)
{
    struct cells *cells = calloc(1, sizeof *cells);
    struct mxf_piece pieces[LAUNCHES];
    for (int i = 0; i < LAUNCHES; i++)
        pieces[i] = (struct mxf_piece){add, cells, i * 10, i * 10 + 10};
    struct mxf_record group = {mxf_pieces, pieces, LAUNCHES, 1};
    for (int i = 0; i < 3; i++)
        mxf_run(&group, 1);
    check(cells, LAUNCHES * 10, 3);
    free(cells);
}

/* What one launch wrote, the next one copies, and the one after that reads. */
static void copies(void)
{
    struct cells *from = calloc(1, sizeof *from), *to = calloc(1, sizeof *to);
    void *pointers[2] = {to->values, from->values};
    struct mxf_record records[3] = {
        {add, from, ELEMENTS, 1},
        {mxf_copy, pointers, sizeof from->values, 64},
        {add, to, ELEMENTS, 1},
    };
    mxf_run(records, 3);
    check(from, ELEMENTS, 1);
    for (int i = 0; i < ELEMENTS; i++)
        if (to->values[i] != 2)
            fail("a copy");
    free(from);
    free(to);
}

/* Iterations of a loop share the threads, and words that moved are back at their places. */
static void loops(void)
{
    struct cells *cells = calloc(1, sizeof *cells);
    struct mxf_loop_table *loop = calloc(1, sizeof *loop + sizeof(struct mxf_move));
    struct mxf_record all = {add, cells, ELEMENTS, 1}, record = {mxf_loop, loop, 1, 1};
    int64_t word = 5;
    *loop = (struct mxf_loop_table){NULL, 3, &all, 1, 1};
    loop->move[0] = (struct mxf_move){&word, 8};
    mxf_run(&record, 1);
    check(cells, ELEMENTS, 3);
    if (word != 5)
        fail("a word that moved");
    free(loop);
    free(cells);
}

static void meeting(void)
{
    struct cells *cells = calloc(1, sizeof *cells);
    struct mxf_record record = {meet, cells, 2, 1};
    for (int i = 1; i <= 3; i++) {
        cells->arrived = 0;
        mxf_run(&record, 1);
        check(cells, 2, i);
    }
    free(cells);
}

/* Workers sleep between the launches, and the caller during a launch of few long chunks. */
static void sleeping(void)
{
    struct cells *cells = calloc(1, sizeof *cells);
    struct mxf_record record = {add, cells, 64, 1}, slow = {add_slowly, cells, 3, 1};
    for (int i = 0; i < 3; i++) {
        pause_ns(2 * SPIN_NS);
        mxf_run(&record, 1);
    }
    mxf_run(&slow, 1);
    for (int i = 0; i < 64; i++)
        if (cells->values[i] != (i < 3 ? 4 : 3))
            fail("a launch that woke threads");
    free(cells);
}

static void (*const PARTS[])(void) = {in_order, nested, groups, copies, loops, meeting, sleeping};

static void *call(void *first)
{
    for (int i = 0; i < rounds; i++)
        PARTS[(i + (int)(intptr_t)first) % 6]();
    return NULL;
}

static _Atomic int32_t finished;

static void *resize(void *unused)
{
    while (!finished)
        for (int32_t threads = 1; threads <= THREADS; threads++) {
            mxf_resize(threads);
            pause_ns(5000000);
        }
    return unused;
}

static void print_chunks(void)
{
    static const int64_t SPLITS[][2] = {{2, 1}, {7, 3}, {100, 1}, {100, 60}, {5000, 7}, {6000, 1}};
    struct cells *cells = calloc(1, sizeof *cells);
    for (int32_t threads = 1; threads <= THREADS; threads++) {
        mxf_resize(threads);
        for (unsigned i = 0; i < sizeof SPLITS / sizeof *SPLITS; i++) {
            struct mxf_record record = {note_begin, cells, SPLITS[i][0], SPLITS[i][1]};
            memset(cells, 0, sizeof *cells);
            mxf_run(&record, 1);
            printf("%d threads, %ld units, grain %ld:", threads, (long)record.count, (long)record.grain);
            for (int k = 0; k < ELEMENTS; k++)
                if (cells->begins[k])
                    printf(" %d+%d", k, (int)cells->begins[k]);
            printf("\n");
        }
    }
    free(cells);
}

int main(int argc, char **argv)
{
    rounds = argc > 1 ? atoi(argv[1]) : 100;
    in_order(); /* alone: the pool is not open */
    if (mxf_open(THREADS, SPIN_NS))
        fail("mxf_open");
    print_chunks();
    call((void *)0); /* one caller, whose launches are all shared */
    pthread_t callers[CALLERS], resizer;
    for (intptr_t i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], NULL, call, (void *)i);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    pthread_create(&resizer, NULL, resize, NULL);
    for (intptr_t i = 0; i < CALLERS; i++)
        pthread_create(&callers[i], NULL, call, (void *)i);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    finished = 1;
    pthread_join(resizer, NULL);
    mxf_stop();
    call((void *)0);
    printf("done\n");
    return 0;
}
