/* Starts a list of launches on a CUDA stream, one by one or as a graph, in one call from Python. A launch through the
   bindings of Python takes 4 us, and a change of a node of a graph 1.3 us; most of that is not the driver's.

   This needs no function of any library: the list has the addresses of the driver's functions. runtime/cuda/native.py
   writes it; all members take 8 bytes. */
#include <stddef.h>
#include <stdint.h>

enum { KERNEL, COPY, FILL };

/* The functions of the driver, as cuda.h declares them. All return 0 or an error. */
struct driver {
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                  unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra);
    int (*copy)(uint64_t target, uint64_t source, size_t bytes, void *stream);
    int (*fill)(uint64_t target, unsigned char value, size_t bytes, void *stream);
    int (*set_kernel)(void *executable, void *node, const void *parameters);
    int (*set_copy)(void *executable, void *node, const void *parameters, void *context);
    int (*set_fill)(void *executable, void *node, const void *parameters, void *context);
    int (*start)(void *executable, void *stream);
};

/* The first members of CUDA_MEMCPY3D up to what a copy changes. */
struct copy_node {
    size_t source_x, source_y, source_z, source_level;
    int64_t source_type;
    const void *source_host;
    uint64_t source;
    void *source_array, *reserved;
    size_t source_pitch, source_height, target_x, target_y, target_z, target_level;
    int64_t target_type;
    void *target_host;
    uint64_t target;
};

/* The first member of CUDA_MEMSET_NODE_PARAMS. */
struct fill_node {
    uint64_t target;
};

/* One launch, with the words [first, end) of the list as its arguments. `size` is the grid, or bytes. `node` and
   `node_parameters` belong to the graph: nodes of kernels have pointers to the words as parameters. */
struct launch {
    int64_t kind;
    void *function;
    int64_t size, threads, shared;
    void **parameters;
    int64_t first, end;
    void *node, *node_parameters;
};

/* `seen` are the words for which the graph was made or changed. */
struct list {
    const struct driver *driver;
    void *stream, *context, *executable;
    const int64_t *words;
    int64_t *seen, launches;
    struct launch launch[];
};

static int64_t failed(int error, int64_t number)
{
    return (number + 1) << 32 | (uint32_t)error;
}

static int start(const struct list *list, const struct launch *launch)
{
    const struct driver *driver = list->driver;
    const int64_t *words = list->words + launch->first;
    switch (launch->kind) {
    case KERNEL:
        return driver->launch(launch->function, (unsigned)launch->size, 1, 1, (unsigned)launch->threads, 1, 1,
                              (unsigned)launch->shared, list->stream, launch->parameters, NULL);
    case COPY:
        return driver->copy((uint64_t)words[0], (uint64_t)words[1], (size_t)launch->size, list->stream);
    default:
        return driver->fill((uint64_t)words[0], 0, (size_t)launch->size, list->stream);
    }
}

static int change(const struct list *list, const struct launch *launch)
{
    const struct driver *driver = list->driver;
    const int64_t *words = list->words + launch->first;
    struct copy_node *copy = launch->node_parameters;
    struct fill_node *fill = launch->node_parameters;
    switch (launch->kind) {
    case KERNEL:
        return driver->set_kernel(list->executable, launch->node, launch->node_parameters);
    case COPY:
        copy->target = (uint64_t)words[0];
        copy->source = (uint64_t)words[1];
        return driver->set_copy(list->executable, launch->node, copy, list->context);
    default:
        fill->target = (uint64_t)words[0];
        return driver->set_fill(list->executable, launch->node, fill, list->context);
    }
}

/* Starts all launches. 0, or an error and, in the upper half, the number of its launch plus 1. */
int64_t mxf_cuda_start(const struct list *list)
{
    for (int64_t i = 0; i < list->launches; i++) {
        int error = start(list, &list->launch[i]);
        if (error)
            return failed(error, i);
    }
    return 0;
}

/* Starts the graph, after a change of the nodes whose words have changed. The result is as above; the number of launches
   plus 1 if the graph did not start. */
int64_t mxf_cuda_replay(const struct list *list)
{
    for (int64_t i = 0; i < list->launches; i++) {
        const struct launch *launch = &list->launch[i];
        int changed = 0;
        for (int64_t word = launch->first; word < launch->end; word++) {
            changed |= list->seen[word] != list->words[word];
            list->seen[word] = list->words[word];
        }
        int error = changed ? change(list, launch) : 0;
        if (error)
            return failed(error, i);
    }
    int error = list->driver->start(list->executable, list->stream);
    return error ? failed(error, list->launches) : 0;
}

#ifdef MXF_SOURCES /* as in pool.h */
__attribute__((section(MXF_SOURCES_SECTION), used)) static const char mxf_sources[] = MXF_SOURCES;
#endif
