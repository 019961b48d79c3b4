/* Runs a compiled model for programs in C: the functions of the libraries that `mxforge compile --emit` writes.

   A library consists of this, the thread pool (pool.c), the machine code of the model, and `model_data`, which describes
   it. The functions get the name of the model as their prefix instead of `model_`. mxforge.h describes their types, and
   the header of a library describes the functions.

   A context has an *instance* of each program that it ran: launch records, memory between launches, and memory for the
   outputs. Contexts share the code, the weights, and what is prepared from weights. Nothing here needs an instruction
   that not all processors of an architecture have: the first context checks the processor. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "model.h"

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

#if defined(__x86_64__)
static bool has(const struct model_need *need)
{
    unsigned words[4] = {0};
    if (need->leaf == -1) { /* the registers that the system saves */
        __cpuid_count(1, 0, words[0], words[1], words[2], words[3]);
        if (!(words[2] & bit_OSXSAVE))
            return false;
        __asm__("xgetbv" : "=a"(words[0]), "=d"(words[3]) : "c"(0));
        return (words[0] & need->mask) == need->mask;
    }
    if (!__get_cpuid_count((unsigned)need->leaf, (unsigned)need->subleaf, &words[0], &words[1], &words[2], &words[3]))
        return false;
    return (words[need->word] & need->mask) == need->mask;
}
#else
static bool has(const struct model_need *need)
{
    return (getauxval((unsigned long)need->leaf) & (unsigned long)need->mask) == (unsigned long)need->mask;
}
#endif

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

/* The processors that the cgroup of this process may use, rounded up; INT_MAX without such a limit. More threads would use
   up the quota by waiting. */
static int32_t quota(void)
{
    long long time, period;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file == NULL)
        return INT_MAX;
    bool limited = fscanf(file, "%lld %lld", &time, &period) == 2 && period > 0 && time > 0;
    fclose(file);
    return limited ? (int32_t)((time + period - 1) / period) : INT_MAX;
}

/* The processors that this process may use. */
static int32_t processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int32_t allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set), most = quota();
    return allowed < most ? allowed : most;
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
        describe(&context->inputs[i], text + end, sizeof text - end);
    }
    return fail(context, MXF_INVALID, "%s has no program for %s; it takes %s", model_data.name, text, model_data.takes);
}

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
