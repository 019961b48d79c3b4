/* Runs a compiled model for programs in C: the functions of the libraries that `mxforge compile --emit` writes.

   A library consists of this, the thread pool (pool.c), the machine code of the model, and `model_data`, which describes
   it. The functions get the name of the model as their prefix instead of `model_`. mxforge.h describes their types, and
   the header of a library describes the functions.

   A context has an *instance* of each program that it ran: launch records, memory between launches, and memory for the
   outputs. Contexts share the code, the weights, and what is prepared from weights. Nothing here needs an instruction
   that not all processors of an architecture have: the first context checks the processor. */
#define _GNU_SOURCE
#include "instance.h"

/* ---------------------------------------------------------------- calls */

/* Makes this thread the user of the context. MXF_BUSY if another one is, MXF_INVALID for NULL. */
static mxf_status enter(mxf_context *context)
{
    if (context == NULL) {
        refuse("the context is NULL");
        return MXF_INVALID;
    }
    if (atomic_flag_test_and_set_explicit(&context->busy, memory_order_acquire)) {
        refuse("another thread is using the context: each thread needs one of its own");
        return MXF_BUSY;
    }
    context->error[0] = 0;
    refuse(NULL);
    return MXF_OK;
}

static mxf_status leave(mxf_context *context, mxf_status status)
{
    atomic_flag_clear_explicit(&context->busy, memory_order_release);
    return status;
}

/* The position of a tensor; -1 with an error if there is none of this name. */
static int64_t find(mxf_context *context, const mxf_tensor *tensors, int64_t n, const char *name, const char *kind)
{
    if (name == NULL) {
        fail(context, MXF_INVALID, "the name of an %s is NULL", kind);
        return -1;
    }
    for (int64_t i = 0; i < n; i++)
        if (!strcmp(tensors[i].name, name))
            return i;
    char names[TEXT_BYTES / 2] = "";
    for (int64_t i = 0; i < n; i++) {
        size_t end = strlen(names);
        snprintf(names + end, sizeof names - end, i ? ", %s" : "%s", tensors[i].name);
    }
    fail(context, MXF_INVALID, "%s has no %s '%s': it has %s", model_data.name, kind, name, names);
    return -1;
}

static mxf_status set(mxf_context *context, const char *name, const void *data, size_t bytes)
{
    int64_t i = find(context, context->inputs, model_data.inputs, name, "input");
    if (i < 0)
        return MXF_INVALID;
    mxf_tensor *input = &context->inputs[i];
    if (data == NULL && bytes)
        return fail(context, MXF_INVALID, "the memory of input '%s' is NULL", name);
    if (bytes != input->bytes) {
        char text[TEXT_BYTES / 2];
        describe(input, text, sizeof text);
        return fail(context, MXF_INVALID, "input '%s' has %zu bytes: %s of %s takes %zu", name, bytes, text, input->dtype,
                    input->bytes);
    }
    if (model_data.states[i])
        memcpy(input->data, data, bytes);
    else
        input->data = (void *)(uintptr_t)data;
    return MXF_OK;
}

static mxf_status reshape(mxf_context *context, const char *name, const int64_t *shape, int64_t rank)
{
    int64_t i = find(context, context->inputs, model_data.inputs, name, "input");
    if (i < 0)
        return MXF_INVALID;
    if (rank < 0 || rank > MXF_MOST_AXES || (shape == NULL && rank))
        return fail(context, MXF_INVALID, "the shape of input '%s' is NULL, or has an invalid rank", name);
    mxf_tensor asked = context->inputs[i];
    asked.rank = rank;
    asked.shape = shape;
    const mxf_tensor *known = NULL;
    for (int64_t p = 0; p < model_data.n_programs && known == NULL; p++)
        if (has_shape(&model_data.programs[p].inputs[i], &asked))
            known = &model_data.programs[p].inputs[i];
    if (known == NULL) {
        char text[TEXT_BYTES / 2];
        describe(&asked, text, sizeof text);
        return fail(context, MXF_INVALID, "%s does not take %s: it takes %s", model_data.name, text, model_data.takes);
    }
    mxf_tensor *input = &context->inputs[i];
    if (has_shape(input, known))
        return MXF_OK;
    if (model_data.states[i])
        return fail(context, MXF_INVALID, "input '%s' is a state, whose shape cannot change", name);
    memcpy(context->shapes[i], known->shape, 8 * (size_t)rank);
    input->rank = rank;
    input->bytes = known->bytes;
    input->data = NULL;
    context->current = NULL;
    memset(context->bound, 0, sizeof(void *) * (size_t)model_data.outputs);
    return MXF_OK;
}

static mxf_status bind(mxf_context *context, const char *name, void *data, size_t bytes)
{
    mxf_status status = choose(context);
    if (status != MXF_OK)
        return status;
    const mxf_tensor *results = context->current->results;
    int64_t i = find(context, results, model_data.outputs, name, "output");
    if (i < 0)
        return MXF_INVALID;
    if (data != NULL && bytes != results[i].bytes)
        return fail(context, MXF_INVALID, "output '%s' has %zu bytes, not %zu", name, results[i].bytes, bytes);
    context->bound[i] = data;
    return MXF_OK;
}

/* Writes the addresses of operands that have moved since the last run of the instance. */
static void place_operands(const mxf_context *context, struct instance *instance)
{
    const struct model_program *program = instance->program;
    for (const struct model_block *block = program->blocks; block < program->blocks + program->n_blocks; block++) {
        if (block->space != SPACE_INPUT && block->space != SPACE_OUTPUT)
            continue;
        bool input = block->space == SPACE_INPUT;
        const char *address = input ? context->inputs[block->index].data : instance->results[block->index].data;
        const void **placed = &instance->placed[block->index + (input ? 0 : model_data.inputs)];
        if (*placed != address) {
            *placed = address;
            place(instance, block, address);
        }
    }
}

static mxf_status run(mxf_context *context)
{
    mxf_status status = choose(context);
    if (status != MXF_OK)
        return status;
    struct instance *instance = context->current;
    const struct model_program *program = instance->program;
    for (int64_t i = 0; i < model_data.inputs; i++)
        if (context->inputs[i].data == NULL && context->inputs[i].bytes)
            return fail(context, MXF_NOT_SET, "input '%s' has no value", context->inputs[i].name);
    char *memory = instance->outputs;
    for (int64_t i = 0; i < model_data.outputs; i++) {
        instance->results[i].data = context->bound[i] != NULL ? context->bound[i] : memory;
        memory += padded(program->outputs[i].bytes);
    }
    status = place_scratch(context, instance);
    if (status != MXF_OK)
        return status;
    place_operands(context, instance);
    run_all(context, instance->words + MXF_RECORD_WORDS * program->prepare, program->groups);
    context->key[2] += (uint32_t)program->draws;
    for (int64_t i = 0; i < program->n_checks; i++)
        if (!memory[i])
            return fail(context, MXF_VALUES, "%s", program->checks[i].message);
    return MXF_OK;
}

/* ---------------------------------------------------------------- contexts */

/* Spreads a small seed over 64 bits, as runtime/random_keys.py does. */
static uint64_t mixed(uint64_t seed)
{
    uint64_t word = seed + UINT64_C(0x9E3779B97F4A7C15);
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static void set_seed(mxf_context *context, uint64_t seed)
{
    uint64_t word = mixed(seed);
    context->key[0] = (uint32_t)word;
    context->key[1] = (uint32_t)(word >> 32);
    context->key[2] = context->key[3] = 0;
}

/* Why these options are invalid; NULL if they are valid. */
static const char *invalid_options(const mxf_options *options)
{
    if (options->size != sizeof(mxf_options))
        return "the size of the options is not that of mxf_options: begin with MXF_OPTIONS";
    if (options->threads < 0)
        return "the number of threads is negative";
    if ((options->allocate == NULL) != (options->release == NULL))
        return "the options have one of allocate and release: both or none are needed";
    return NULL;
}

/* Opens what all contexts share, for a context with these options. The caller has the lock. NULL, or why not. */
static const char *open_library(mxf_context *context)
{
    mxf_options *options = &context->options;
    if (!library.open) {
        if (!machine_suffices())
            return library.machine;
        if (mxf_open(1, SPIN_NANOSECONDS))
            return "the system refuses memory that forks clear: Linux 4.14 or newer is needed";
        library.open = true;
    }
    if (library.prepared == NULL && model_data.n_prepared) {
        library.prepared = system_memory(sizeof(char *) * (size_t)model_data.n_prepared);
        if (library.prepared == NULL)
            return "there is no memory";
    }
    int32_t most = (int32_t)model_data.threads, asked = options->threads, threads = asked;
    if (threads == 0)
        threads = options->parallel != NULL ? most : processors();
    options->threads = threads = threads < most ? threads : most;
    context->shares = threads > 1 && options->parallel == NULL;
    if (context->shares && threads != atomic_load(&mxf_threads) && (asked || !library.shared))
        mxf_resize(threads);
    library.shared += context->shares;
    library.contexts++;
    return NULL;
}

/* Closes what only a context of this kind needed: without contexts there are no threads. */
static void close_library(const mxf_context *context)
{
    pthread_mutex_lock(&library.lock);
    if (context->shares && --library.shared == 0)
        mxf_resize(1);
    if (--library.contexts == 0 && library.prepared != NULL) {
        for (int64_t i = 0; i < model_data.n_prepared; i++)
            if (library.prepared[i] != NULL)
                munmap(library.prepared[i], (size_t)model_data.prepared_bytes[i]);
        munmap(library.prepared, sizeof(char *) * (size_t)model_data.n_prepared);
        library.prepared = NULL;
    }
    pthread_mutex_unlock(&library.lock);
}

/* The size of a context, and where its arrays are. */
static size_t lay_out(mxf_context *context)
{
    size_t inputs = (size_t)model_data.inputs, outputs = (size_t)model_data.outputs;
    size_t sizes[] = {
        sizeof *context,
        inputs * sizeof *context->inputs,
        inputs * sizeof *context->shapes,
        outputs * sizeof *context->bound,
        (size_t)model_data.n_programs * sizeof *context->instances,
    };
    size_t starts[sizeof sizes / sizeof *sizes], end = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        starts[i] = end;
        end += padded(sizes[i]);
    }
    if (context == NULL)
        return end;
    char *memory = (char *)context;
    context->inputs = (mxf_tensor *)(memory + starts[1]);
    context->shapes = (int64_t(*)[MXF_MOST_AXES])(memory + starts[2]);
    context->bound = (void **)(memory + starts[3]);
    context->instances = (struct instance *)(memory + starts[4]);
    return end;
}

static void free_context(mxf_context *context)
{
    mxf_options options = context->options;
    for (int64_t p = 0; p < model_data.n_programs; p++)
        give_instance(context, &context->instances[p]);
    for (int64_t i = 0; i < model_data.inputs; i++)
        if (model_data.states[i])
            give_memory(&options, context->inputs[i].data, context->inputs[i].bytes);
    give_memory(&options, context->scratch, context->scratch_bytes);
    give_memory(&options, context, lay_out(NULL));
}

/* Sets the shapes of the first program, and takes memory for states. */
static bool begin_inputs(mxf_context *context)
{
    bool complete = true;
    for (int64_t i = 0; i < model_data.inputs; i++) {
        const mxf_tensor *known = &model_data.programs->inputs[i];
        context->inputs[i] = *known;
        context->inputs[i].shape = context->shapes[i];
        memcpy(context->shapes[i], known->shape, 8 * (size_t)known->rank);
        if (model_data.states[i]) {
            context->inputs[i].data = take_memory(&context->options, known->bytes);
            complete &= context->inputs[i].data != NULL;
        }
    }
    return complete;
}

mxf_context *model_create(const mxf_options *options)
{
    static const mxf_options defaults = MXF_OPTIONS;
    options = options != NULL ? options : &defaults;
    refuse(NULL);
    const char *problem = invalid_options(options);
    if (problem != NULL) {
        refuse(problem);
        return NULL;
    }
    mxf_context *context = take_memory(options, lay_out(NULL));
    if (context == NULL) {
        refuse("there is no memory for a context, or the caller's is not at a multiple of 64");
        return NULL;
    }
    context->options = *options;
    lay_out(context);
    atomic_flag_clear(&context->busy);
    set_seed(context, options->seed);
    problem = begin_inputs(context) ? NULL : "there is no memory for states";
    if (problem == NULL) {
        pthread_mutex_lock(&library.lock);
        problem = open_library(context);
        pthread_mutex_unlock(&library.lock);
    }
    if (problem != NULL) {
        refuse(problem);
        free_context(context);
        return NULL;
    }
    return context;
}

void model_destroy(mxf_context *context)
{
    if (context == NULL)
        return;
    close_library(context);
    free_context(context);
}

mxf_status model_set(mxf_context *context, const char *input, const void *data, size_t bytes)
{
    mxf_status status = enter(context);
    return status != MXF_OK ? status : leave(context, set(context, input, data, bytes));
}

mxf_status model_shape(mxf_context *context, const char *input, const int64_t *shape, int64_t rank)
{
    mxf_status status = enter(context);
    return status != MXF_OK ? status : leave(context, reshape(context, input, shape, rank));
}

mxf_status model_bind(mxf_context *context, const char *output, void *data, size_t bytes)
{
    mxf_status status = enter(context);
    return status != MXF_OK ? status : leave(context, bind(context, output, data, bytes));
}

mxf_status model_seed(mxf_context *context, uint64_t seed)
{
    mxf_status status = enter(context);
    if (status != MXF_OK)
        return status;
    set_seed(context, seed);
    return leave(context, MXF_OK);
}

mxf_status model_run(mxf_context *context)
{
    mxf_status status = enter(context);
    return status != MXF_OK ? status : leave(context, run(context));
}

const mxf_tensor *model_inputs(mxf_context *context, int64_t *count)
{
    if (count != NULL)
        *count = model_data.inputs;
    if (enter(context) != MXF_OK)
        return NULL;
    leave(context, MXF_OK);
    return context->inputs;
}

const mxf_tensor *model_outputs(mxf_context *context, int64_t *count)
{
    if (count != NULL)
        *count = model_data.outputs;
    if (enter(context) != MXF_OK)
        return NULL;
    const mxf_tensor *results = choose(context) == MXF_OK ? context->current->results : NULL;
    leave(context, MXF_OK);
    return results;
}

const mxf_tensor *model_get(mxf_context *context, const char *output)
{
    if (enter(context) != MXF_OK)
        return NULL;
    const mxf_tensor *result = NULL;
    if (choose(context) == MXF_OK) {
        int64_t i = find(context, context->current->results, model_data.outputs, output, "output");
        result = i < 0 ? NULL : &context->current->results[i];
    }
    leave(context, MXF_OK);
    return result;
}

const char *model_error(const mxf_context *context)
{
    pthread_once(&text_once, open_text);
    const char *text = library.text_open ? pthread_getspecific(library.text) : NULL;
    if (text != NULL)
        return text;
    return context != NULL ? context->error : "";
}
