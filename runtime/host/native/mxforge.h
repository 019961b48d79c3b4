/* Types of the libraries that `mxforge compile --emit` writes. Each library has a header of its own, with its functions.

   A context runs a model. Threads can use different contexts at the same time, and one context after another. A function
   that fails returns a status other than MXF_OK, or NULL, and its `error` function says why. */
#ifndef MXFORGE_H
#define MXFORGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mxf_status {
    MXF_OK = 0,
    MXF_INVALID = 1,   /* an argument: a name, a shape, a size, NULL */
    MXF_NO_MEMORY = 2, /* the system or the caller's allocator has none */
    MXF_MACHINE = 3,   /* this processor or system cannot run the library */
    MXF_BUSY = 4,      /* another thread is using the context */
    MXF_NOT_SET = 5,   /* an input has no value */
    MXF_VALUES = 6     /* an operator is not defined for these values, such as an index outside of an array */
} mxf_status;

/* An input or an output. The elements are in row-major order; those of bfloat16 are its bits. */
typedef struct mxf_tensor {
    const char *name;
    const char *dtype; /* float32, float64, float16, bfloat16, uint8, int8, int32, int64, bool ... */
    int64_t rank;
    const int64_t *shape;
    size_t bytes;
    void *data; /* the memory of the elements; NULL for an input without a value */
} mxf_tensor;

/* Calls `task(argument, number)` for each number from 0 to `tasks` - 1, at the same time or not, on any threads, and
   returns after all have returned. */
typedef void mxf_parallel(void *user, int32_t tasks, void (*task)(void *argument, int32_t number), void *argument);

/* Returns memory of so many bytes, at a multiple of 64, or NULL. */
typedef void *mxf_allocate(void *user, size_t bytes);
typedef void mxf_release(void *user, void *memory, size_t bytes);

/* What a context uses. Start with MXF_OPTIONS, which is zeros and the size: zeros are the defaults. */
typedef struct mxf_options {
    size_t size;
    /* 1: the caller's thread alone, and no other thread is started. 0: threads of the library, one for each processor that
       this process may use, at most as many as the library was compiled for. n > 1: n threads, of the library or of
       `parallel`. All contexts of a library share its threads; the last n that a context asked for holds. */
    int32_t threads;
    /* not NULL: the caller's threads do the work; the library starts none */
    mxf_parallel *parallel;
    void *parallel_user;
    /* not NULL: the memory of the context is the caller's. Both or none */
    mxf_allocate *allocate;
    mxf_release *release;
    void *memory_user;
    /* random numbers are those of mx.random.seed(seed) */
    uint64_t seed;
} mxf_options;

#define MXF_OPTIONS {sizeof(mxf_options), 0, NULL, NULL, NULL, NULL, NULL, 0}

#ifdef __cplusplus
}
#endif

#endif
