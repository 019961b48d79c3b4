/* Instances of programs: their memory, their launch records, and how a context runs them. Only model.c includes this. */
#ifndef MXF_INSTANCE_H
#define MXF_INSTANCE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "model.h"
#include "processors.h"

#define ALIGNMENT 64
#define TEXT_BYTES 512
#define SPIN_NANOSECONDS 200000

typedef int64_t __attribute__((may_alias)) word; /* of a record, which is read as the members of `mxf_record` */

struct instance {
    const struct model_program *program;
    word *words;         /* one block: words, and addresses of operands */
    char *own, *outputs; /* memory between launches that later runs read, and the outputs with the flags */
    const char *scratch; /* the address in the records */
    mxf_tensor *results; /* as in the program, with memory */
    const void **placed; /* the addresses of inputs in the records, then those of outputs */
};

struct mxf_context {
    mxf_options options;
    atomic_flag busy;
    struct instance *instances; /* one for each program; those that never ran have no program */
    struct instance *current;   /* NULL: a shape has changed */
    mxf_tensor *inputs;
    int64_t (*shapes)[MXF_MOST_AXES];
    void **bound; /* the caller's memory of outputs; NULL: the context has its own */
    char *scratch;
    size_t scratch_bytes;
    uint32_t key[4];
    bool shares; /* it uses the threads of the library */
    char error[TEXT_BYTES];
};

/* ---------------------------------------------------------------- what all contexts of the library share */

static struct {
    pthread_mutex_t lock;
    bool open, text_open;
    pthread_key_t text;       /* the error of the last call of a thread that has no context */
    int64_t contexts, shared; /* how many there are, and how many of them use the threads */
    char **prepared;          /* by number; NULL: not prepared */
    char machine[TEXT_BYTES]; /* what the processor lacks */
} library = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t text_once = PTHREAD_ONCE_INIT;

static void open_text(void)
{
    library.text_open = pthread_key_create(&library.text, NULL) == 0;
}

/* Keeps the text, which is constant, as the error of this thread; NULL removes it. */
static void refuse(const char *text)
{
    pthread_once(&text_once, open_text);
    if (library.text_open)
        pthread_setspecific(library.text, text);
}

static mxf_status fail(mxf_context *context, mxf_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->error, sizeof context->error, format, arguments);
    va_end(arguments);
    return status;
}

/* True if this processor has all that the code needs; else the text says what it lacks. The caller has the lock. */
static bool machine_suffices(void)
{
    const struct model *model = &model_data;
    size_t end = 0;
    for (int64_t i = 0; i < model->n_needs; i++) {
        if (has(&model->needs[i]))
            continue;
        const char *start = end ? ", " : "this processor lacks instructions that the library uses: ";
        int n = snprintf(library.machine + end, sizeof library.machine - end, "%s%s", start, model->needs[i].name);
        end += n < 0 ? 0 : (size_t)n;
        if (end >= sizeof library.machine)
            break;
    }
    return end == 0;
}

/* ---------------------------------------------------------------- memory */

static size_t padded(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void *system_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Zeroed memory at a multiple of ALIGNMENT; NULL if there is none. */
static void *take_memory(const mxf_options *options, size_t bytes)
{
    if (options->allocate == NULL)
        return system_memory(bytes);
    void *memory = options->allocate(options->memory_user, bytes ? bytes : 1);
    if (memory != NULL && (uintptr_t)memory % ALIGNMENT) {
        options->release(options->memory_user, memory, bytes ? bytes : 1);
        return NULL;
    }
    return memory == NULL ? NULL : memset(memory, 0, bytes);
}

static void give_memory(const mxf_options *options, void *memory, size_t bytes)
{
    if (memory == NULL)
        return;
    if (options->allocate == NULL)
        munmap(memory, bytes ? bytes : 1);
    else
        options->release(options->memory_user, memory, bytes ? bytes : 1);
}

/* ---------------------------------------------------------------- runs */

/* A launch that the caller's threads share. */
struct shared_launch {
    const struct mxf_record *record;
    int64_t tasks;
};

static int64_t share(const struct shared_launch *launch, int64_t number)
{
    int64_t count = launch->record->count, end = count * number / launch->tasks;
    return number < launch->tasks && count / launch->tasks >= MXF_LONG_CHUNK ? end - end % MXF_CHUNK_ALIGNMENT : end;
}

static void run_share(void *argument, int32_t number)
{
    const struct shared_launch *launch = argument;
    int64_t begin = share(launch, number), end = share(launch, number + 1);
    if (begin < end)
        launch->record->kernel(launch->record->arguments, begin, end, number);
}

static void move_words(const struct mxf_loop_table *loop, int64_t times)
{
    for (int64_t i = 0; i < loop->moves; i++)
        *loop->move[i].word += times * loop->move[i].stride;
}

/* Runs records without the threads of the library: as mxf_run does, with its loops and branches. */
static void run_records(const mxf_context *context, const struct mxf_record *records, int64_t n)
{
    const mxf_options *options = &context->options;
    for (const struct mxf_record *record = records; record < records + n; record++) {
        struct shared_launch launch = {record, record->count / (record->grain > 0 ? record->grain : 1)};
        if (record->kernel == mxf_loop) {
            const struct mxf_loop_table *loop = record->arguments;
            int64_t done = 0;
            for (; done < loop->count && (loop->flag == NULL || *loop->flag != 0); done++) {
                run_records(context, loop->records, loop->n);
                move_words(loop, 1);
            }
            move_words(loop, -done);
        } else if (record->kernel == mxf_branch) {
            const struct mxf_branch_table *branch = record->arguments;
            int taken = *branch->flag != 0 ? 0 : 1;
            run_records(context, branch->lists[taken].records, branch->lists[taken].n);
        } else if (options->parallel != NULL && options->threads > 1 && launch.tasks > 1) {
            if (launch.tasks > options->threads)
                launch.tasks = options->threads;
            options->parallel(options->parallel_user, (int32_t)launch.tasks, run_share, &launch);
        } else if (record->count > 0) {
            record->kernel(record->arguments, 0, record->count, 0);
        }
    }
}

static void run_all(const mxf_context *context, const word *words, int64_t n)
{
    const struct mxf_record *records = (const struct mxf_record *)words;
    if (context->shares)
        mxf_run(records, n);
    else
        run_records(context, records, n);
}

/* Writes the addresses of a block that begins at `address`. */
static void place(const struct instance *instance, const struct model_block *block, const char *address)
{
    for (int64_t i = 0; i < block->n; i++)
        instance->words[block->words[i]] = (int64_t)(intptr_t)address + instance->program->words[block->words[i]];
}

static void place_space(const struct instance *instance, enum model_space space, const char *address)
{
    const struct model_program *program = instance->program;
    for (const struct model_block *block = program->blocks; block < program->blocks + program->n_blocks; block++)
        if (block->space == space)
            place(instance, block, address);
}

/* Places the blocks of an instance that never move. */
static void place_fixed(const mxf_context *context, const struct instance *instance)
{
    const struct model_program *program = instance->program;
    size_t flags = (size_t)program->output_bytes - padded((size_t)program->n_checks);
    memcpy(instance->words, program->words, 8 * (size_t)program->n_words);
    for (int64_t i = 0; i < program->n_kernels; i++)
        instance->words[program->kernels[2 * i]] = (int64_t)(intptr_t)model_data.kernels[program->kernels[2 * i + 1]];
    for (int64_t i = 0; i < program->n_links; i++)
        instance->words[program->links[2 * i]] = (int64_t)(intptr_t)(instance->words + program->links[2 * i + 1]);
    for (const struct model_block *block = program->blocks; block < program->blocks + program->n_blocks; block++) {
        if (block->space == SPACE_FIXED)
            place(instance, block, block->fixed);
        else if (block->space == SPACE_KEY)
            place(instance, block, (const char *)context->key);
        else if (block->space == SPACE_OWN)
            place(instance, block, instance->own - program->scratch_bytes);
        else if (block->space == SPACE_FLAG)
            place(instance, block, instance->outputs + flags + block->index);
    }
}

/* Lets an instance read prepared memory, which is filled once. */
static mxf_status prepare(mxf_context *context, const struct instance *instance)
{
    const struct model_program *program = instance->program;
    if (program->prepared < 0)
        return MXF_OK;
    pthread_mutex_lock(&library.lock);
    char **prepared = &library.prepared[program->prepared];
    bool known = *prepared != NULL;
    if (!known)
        *prepared = system_memory((size_t)model_data.prepared_bytes[program->prepared]);
    if (*prepared != NULL) {
        place_space(instance, SPACE_PREPARED, *prepared);
        if (!known)
            run_all(context, instance->words, program->prepare);
    }
    pthread_mutex_unlock(&library.lock);
    return *prepared == NULL ? fail(context, MXF_NO_MEMORY, "there is no memory for what is prepared of weights") : MXF_OK;
}

/* Lets an instance use the memory for values that no later run reads, which all instances of a context share. */
static mxf_status place_scratch(mxf_context *context, struct instance *instance)
{
    size_t bytes = (size_t)instance->program->scratch_bytes;
    if (bytes > context->scratch_bytes) {
        give_memory(&context->options, context->scratch, context->scratch_bytes);
        context->scratch_bytes = 0;
        context->scratch = take_memory(&context->options, bytes);
        if (context->scratch == NULL)
            return fail(context, MXF_NO_MEMORY, "there is no memory for %zu bytes between launches", bytes);
        context->scratch_bytes = bytes;
    }
    if (instance->scratch != context->scratch) {
        instance->scratch = context->scratch;
        place_space(instance, SPACE_SCRATCH, context->scratch);
    }
    return MXF_OK;
}

static size_t words_bytes(const struct model_program *program)
{
    return 8 * (size_t)(program->n_words + model_data.inputs + model_data.outputs);
}

static void give_instance(const mxf_context *context, struct instance *instance)
{
    const struct model_program *program = instance->program;
    if (program == NULL)
        return;
    give_memory(&context->options, instance->words, words_bytes(program));
    give_memory(&context->options, instance->own, (size_t)program->own_bytes);
    give_memory(&context->options, instance->outputs, (size_t)program->output_bytes);
    give_memory(&context->options, instance->results, sizeof(mxf_tensor) * (size_t)model_data.outputs);
    memset(instance, 0, sizeof *instance);
}

static mxf_status take_instance(mxf_context *context, struct instance *instance, const struct model_program *program)
{
    const mxf_options *options = &context->options;
    instance->program = program;
    instance->words = take_memory(options, words_bytes(program));
    instance->own = take_memory(options, (size_t)program->own_bytes);
    instance->outputs = take_memory(options, (size_t)program->output_bytes);
    instance->results = take_memory(options, sizeof(mxf_tensor) * (size_t)model_data.outputs);
    if (!instance->words || !instance->own || !instance->outputs || !instance->results) {
        give_instance(context, instance);
        return fail(context, MXF_NO_MEMORY, "there is no memory for a run of %s", model_data.name);
    }
    instance->placed = (const void **)(instance->words + program->n_words);
    place_fixed(context, instance);
    char *memory = instance->outputs;
    for (int64_t i = 0; i < model_data.outputs; i++) {
        instance->results[i] = program->outputs[i];
        instance->results[i].data = memory;
        memory += padded(program->outputs[i].bytes);
    }
    mxf_status status = place_scratch(context, instance);
    if (status == MXF_OK)
        status = prepare(context, instance);
    if (status != MXF_OK)
        give_instance(context, instance);
    return status;
}

static bool has_shape(const mxf_tensor *tensor, const mxf_tensor *other)
{
    return tensor->rank == other->rank && !memcmp(tensor->shape, other->shape, 8 * (size_t)tensor->rank);
}

/* Writes a shape as text. */
static void describe(const mxf_tensor *tensor, char *text, size_t bytes)
{
    size_t end = (size_t)snprintf(text, bytes, "%s (", tensor->name);
    for (int64_t i = 0; i < tensor->rank && end < bytes; i++)
        end += (size_t)snprintf(text + end, bytes - end, i ? ", %lld" : "%lld", (long long)tensor->shape[i]);
    if (end < bytes)
        snprintf(text + end, bytes - end, ")");
}

/* The instance for the shapes of the inputs, which becomes the current one. */
static mxf_status choose(mxf_context *context)
{
    for (int64_t p = 0; context->current == NULL && p < model_data.n_programs; p++) {
        const struct model_program *program = &model_data.programs[p];
        bool fits = true;
        for (int64_t i = 0; i < model_data.inputs && fits; i++)
            fits = has_shape(&context->inputs[i], &program->inputs[i]);
        if (!fits)
            continue;
        struct instance *instance = &context->instances[p];
        if (instance->program == NULL) {
            mxf_status status = take_instance(context, instance, program);
            if (status != MXF_OK)
                return status;
        }
        context->current = instance;
    }
    if (context->current != NULL)
        return MXF_OK;
    char text[TEXT_BYTES / 2] = "";
    for (int64_t i = 0; i < model_data.inputs; i++) {
        size_t end = strlen(text);
        end += (size_t)snprintf(text + end, sizeof text - end, i ? ", " : "");
        if (end < sizeof text)
            describe(&context->inputs[i], text + end, sizeof text - end);
    }
    return fail(context, MXF_INVALID, "%s has no program for %s; it takes %s", model_data.name, text, model_data.takes);
}

#endif
