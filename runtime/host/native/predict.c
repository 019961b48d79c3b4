/* MXNet's C predict API (c_predict_api.h of 1.9.1) for a library that has one model.

   The model and its parameters are those of the library. `MXPredCreate` gets the files of the model as before, and fails if
   they are not the ones that the library was compiled from. Differences from MXNet: shapes are those that the library was
   compiled for, the device is the CPU, and outputs are those of the model. `predict.h` describes what the compiler writes.

   The functions return 0, or -1 with a text for MXGetLastError, which each thread has for itself. */
#define _GNU_SOURCE
#include "lists.h"
#include "predict.h"

#define CPU 1
#define CPU_PINNED 3

enum { MOST_AXES = 64 };

/* An MXPredictor. */
struct predictor {
    mxf_context *context;
    void **inputs; /* copies of what the caller set */
    uint32_t shape[MOST_AXES];
};

/* The number of a dtype in MXNet, by its name. */
static const char *const dtypes[] = {
    "float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool", "int16", "uint16", "uint32", "uint64",
    "bfloat16",
};

/* ---------------------------------------------------------------- errors */

static int fail_as(const mxf_context *context)
{
    return fail("%s", model_error(context));
}

const char *MXGetLastError(void)
{
    const char *text = own_text();
    return text != NULL ? text : "there is no memory";
}

/* ---------------------------------------------------------------- the files of the model */

static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void make_crc_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value & 1 ? value >> 1 ^ UINT32_C(0xEDB88320) : value >> 1;
        crc_table[0][i] = value;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            crc_table[k][i] = crc_table[k - 1][i] >> 8 ^ crc_table[0][crc_table[k - 1][i] & 255];
}

/* The CRC-32 of zlib, eight bytes at a time. */
static uint32_t crc32_of(const unsigned char *data, size_t bytes)
{
    pthread_once(&crc_once, make_crc_table);
    uint32_t crc = UINT32_MAX;
    for (; bytes >= 8; data += 8, bytes -= 8) {
        uint32_t mixed = crc ^ (data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = crc_table[7][mixed & 255] ^ crc_table[6][mixed >> 8 & 255] ^ crc_table[5][mixed >> 16 & 255]
            ^ crc_table[4][mixed >> 24] ^ crc_table[3][data[4]] ^ crc_table[2][data[5]] ^ crc_table[1][data[6]]
            ^ crc_table[0][data[7]];
    }
    for (; bytes > 0; data++, bytes--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *data) & 255];
    return ~crc;
}

static bool is_file(const struct predict_file *file, const void *data, size_t bytes)
{
    return (size_t)file->bytes == bytes && crc32_of(data, bytes) == (uint32_t)file->crc32;
}

/* 0 if these are the files that the library was compiled from. */
static int check_files(const char *json, const void *parameters, int bytes)
{
    if (json == NULL)
        return fail("the symbol is NULL");
    if (!is_file(&predict_data.symbol, json, strlen(json)))
        return fail("this symbol is not %s, which the library was compiled from", predict_data.symbol.name);
    if (bytes < 0 || (parameters == NULL && bytes != 0))
        return fail("the parameters are NULL, or have a negative size");
    if (predict_data.parameters.bytes < 0 || bytes == 0) /* the library has them */
        return 0;
    if (!is_file(&predict_data.parameters, parameters, (size_t)bytes))
        return fail("these parameters are not %s, which the library was compiled from", predict_data.parameters.name);
    return 0;
}

/* ---------------------------------------------------------------- predictors */

static const mxf_tensor *inputs_of(const struct predictor *predictor, int64_t *count)
{
    return model_inputs(predictor->context, count);
}

/* The position of an input; -1 if there is none of this name. */
static int64_t find_input(const mxf_tensor *inputs, int64_t count, const char *key)
{
    for (int64_t i = 0; key != NULL && i < count; i++)
        if (!strcmp(inputs[i].name, key))
            return i;
    return -1;
}

int MXPredFree(void *handle)
{
    struct predictor *predictor = handle;
    if (predictor == NULL)
        return fail("the predictor is NULL");
    int64_t count = 0;
    inputs_of(predictor, &count);
    model_destroy(predictor->context);
    for (int64_t i = 0; predictor->inputs != NULL && i < count; i++)
        free(predictor->inputs[i]);
    free(predictor->inputs);
    free(predictor);
    return 0;
}

/* Sets the shapes of inputs. MXNet ignores names that the model does not have, such as those of labels. */
static int set_shapes(struct predictor *predictor, uint32_t n, const char **keys, const uint32_t *starts, const uint32_t *extents)
{
    int64_t count;
    const mxf_tensor *inputs = inputs_of(predictor, &count);
    for (uint32_t k = 0; k < n; k++) {
        if (find_input(inputs, count, keys[k]) < 0)
            continue;
        int64_t shape[MOST_AXES];
        uint32_t rank = starts[k + 1] - starts[k];
        if (starts[k + 1] < starts[k] || rank > MOST_AXES)
            return fail("the shape of input '%s' has an invalid number of axes", keys[k]);
        for (uint32_t axis = 0; axis < rank; axis++)
            shape[axis] = extents[starts[k] + axis];
        if (model_shape(predictor->context, keys[k], shape, rank) != MXF_OK)
            return fail_as(predictor->context);
    }
    return 0;
}

/* A predictor with these shapes; inputs without one have that of `other`, or the default. */
static int create(const struct predictor *other, uint32_t n, const char **keys, const uint32_t *starts, const uint32_t *extents,
                  void **out)
{
    if (out == NULL || (n && (keys == NULL || starts == NULL || extents == NULL)))
        return fail("an argument is NULL");
    struct predictor *predictor = calloc(1, sizeof *predictor);
    if (predictor == NULL)
        return fail("there is no memory");
    predictor->context = model_create(NULL);
    if (predictor->context == NULL) {
        free(predictor);
        return fail_as(NULL);
    }
    int64_t count;
    inputs_of(predictor, &count);
    predictor->inputs = calloc((size_t)count + 1, sizeof *predictor->inputs);
    int status = predictor->inputs == NULL ? fail("there is no memory") : 0;
    const mxf_tensor *before = other != NULL ? inputs_of(other, NULL) : NULL;
    if (status == 0 && other != NULL && before == NULL)
        status = fail_as(other->context);
    for (int64_t i = 0; status == 0 && before != NULL && i < count; i++)
        if (model_shape(predictor->context, before[i].name, before[i].shape, before[i].rank) != MXF_OK)
            status = fail_as(predictor->context);
    if (status == 0)
        status = set_shapes(predictor, n, keys, starts, extents);
    if (status == 0 && model_outputs(predictor->context, NULL) == NULL)
        status = fail_as(predictor->context);
    const mxf_tensor *inputs = inputs_of(predictor, NULL);
    for (int64_t i = 0; status == 0 && i < count; i++) { /* inputs that the caller does not set are zeros, as in MXNet */
        predictor->inputs[i] = calloc(inputs[i].bytes + 1, 1);
        if (predictor->inputs[i] == NULL)
            status = fail("there is no memory");
        else if (model_set(predictor->context, inputs[i].name, predictor->inputs[i], inputs[i].bytes) != MXF_OK)
            status = fail_as(predictor->context);
    }
    if (status == 0)
        *out = predictor;
    else
        MXPredFree(predictor);
    return status;
}

int MXPredCreateEx(const char *json, const void *parameters, int bytes, int device, int device_id, uint32_t n, const char **keys,
                   const uint32_t *starts, const uint32_t *extents, uint32_t n_dtypes, const char **names, const int *numbers,
                   void **out)
{
    (void)device_id;
    if (device != CPU && device != CPU_PINNED)
        return fail("device type %d: the library runs on the CPU (1)", device);
    if (n_dtypes && (names == NULL || numbers == NULL))
        return fail("an argument is NULL");
    if (check_files(json, parameters, bytes) || create(NULL, n, keys, starts, extents, out))
        return -1;
    int64_t count;
    const mxf_tensor *inputs = inputs_of(*out, &count);
    for (uint32_t k = 0; k < n_dtypes; k++) {
        int64_t i = find_input(inputs, count, names[k]);
        const char *own = i < 0 ? "" : inputs[i].dtype;
        bool known = numbers[k] >= 0 && (size_t)numbers[k] < sizeof dtypes / sizeof *dtypes;
        if (i >= 0 && (!known || strcmp(dtypes[numbers[k]], own))) {
            fail("input '%s' has the dtype %s in the library", names[k], own);
            MXPredFree(*out);
            *out = NULL;
            return -1;
        }
    }
    return 0;
}

int MXPredCreate(const char *json, const void *parameters, int bytes, int device, int device_id, uint32_t n, const char **keys,
                 const uint32_t *starts, const uint32_t *extents, void **out)
{
    return MXPredCreateEx(json, parameters, bytes, device, device_id, n, keys, starts, extents, 0, NULL, NULL, out);
}

/* True if the key names an output, as `name_output` or as the node `name`. */
static bool names_output(const char *name, const char *key)
{
    size_t length = strlen(key);
    return !strncmp(name, key, length) && (name[length] == 0 || !strcmp(name + length, "_output"));
}

int MXPredCreatePartialOut(const char *json, const void *parameters, int bytes, int device, int device_id, uint32_t n,
                           const char **keys, const uint32_t *starts, const uint32_t *extents, uint32_t n_outputs,
                           const char **output_keys, void **out)
{
    if (n_outputs && output_keys == NULL)
        return fail("an argument is NULL");
    if (MXPredCreate(json, parameters, bytes, device, device_id, n, keys, starts, extents, out))
        return -1;
    struct predictor *predictor = *out;
    int64_t count;
    const mxf_tensor *outputs = model_outputs(predictor->context, &count);
    for (uint32_t k = 0; k < n_outputs; k++)
        if (output_keys[k] == NULL || k >= count || !names_output(outputs[k].name, output_keys[k])) {
            fail("the library has the outputs of the model, not '%s'", output_keys[k] != NULL ? output_keys[k] : "NULL");
            MXPredFree(predictor);
            *out = NULL;
            return -1;
        }
    return 0;
}

int MXPredCreateMultiThread(const char *json, const void *parameters, int bytes, int device, int device_id, uint32_t n,
                            const char **keys, const uint32_t *starts, const uint32_t *extents, int threads, void **out)
{
    if (threads < 0 || out == NULL)
        return fail("the number of threads is negative, or an argument is NULL");
    for (int i = 0; i < threads; i++)
        if (MXPredCreate(json, parameters, bytes, device, device_id, n, keys, starts, extents, out + i)) {
            while (i-- > 0)
                MXPredFree(out[i]);
            return -1;
        }
    return 0;
}

int MXPredReshape(uint32_t n, const char **keys, const uint32_t *starts, const uint32_t *extents, void *handle, void **out)
{
    return handle == NULL ? fail("the predictor is NULL") : create(handle, n, keys, starts, extents, out);
}

int MXPredSetInput(void *handle, const char *key, const float *data, uint32_t size)
{
    struct predictor *predictor = handle;
    if (predictor == NULL || key == NULL || (data == NULL && size))
        return fail("an argument is NULL");
    int64_t count;
    const mxf_tensor *inputs = inputs_of(predictor, &count);
    if (inputs == NULL) /* another thread is using the predictor */
        return fail_as(predictor->context);
    int64_t i = find_input(inputs, count, key);
    if (i < 0)
        return fail("the model has no input '%s'", key);
    const mxf_tensor *input = inputs + i;
    uint64_t elements = 1;
    for (int64_t axis = 0; axis < input->rank; axis++)
        elements *= (uint64_t)input->shape[axis];
    if (elements != size)
        return fail("input '%s' has %llu elements, not %u", key, (unsigned long long)elements, (unsigned)size);
    if (size)
        memcpy(predictor->inputs[i], data, input->bytes);
    return model_set(predictor->context, key, predictor->inputs[i], input->bytes) == MXF_OK ? 0 : fail_as(predictor->context);
}

int MXPredForward(void *handle)
{
    struct predictor *predictor = handle;
    if (predictor == NULL)
        return fail("the predictor is NULL");
    return model_run(predictor->context) == MXF_OK ? 0 : fail_as(predictor->context);
}

/* A run is one step. */
int MXPredPartialForward(void *handle, int step, int *step_left)
{
    if (step_left == NULL)
        return fail("an argument is NULL");
    *step_left = 0;
    return step > 1 ? 0 : MXPredForward(handle);
}

/* An output; NULL with an error. */
static const mxf_tensor *output_of(struct predictor *predictor, uint32_t index)
{
    int64_t count;
    if (predictor == NULL) {
        fail("the predictor is NULL");
        return NULL;
    }
    const mxf_tensor *outputs = model_outputs(predictor->context, &count);
    if (outputs == NULL)
        fail_as(predictor->context);
    else if (index >= count)
        fail("output %u: the model has %lld", (unsigned)index, (long long)count);
    else
        return outputs + index;
    return NULL;
}

int MXPredGetOutputShape(void *handle, uint32_t index, uint32_t **shape, uint32_t *rank)
{
    struct predictor *predictor = handle;
    const mxf_tensor *output = output_of(predictor, index);
    if (output == NULL)
        return -1;
    if (shape == NULL || rank == NULL)
        return fail("an argument is NULL");
    for (int64_t axis = 0; axis < output->rank; axis++)
        predictor->shape[axis] = (uint32_t)output->shape[axis];
    *shape = predictor->shape;
    *rank = (uint32_t)output->rank;
    return 0;
}

int MXPredGetOutputType(void *handle, uint32_t index, int *dtype)
{
    const mxf_tensor *output = output_of(handle, index);
    if (output == NULL)
        return -1;
    if (dtype == NULL)
        return fail("an argument is NULL");
    for (int i = 0; i < (int)(sizeof dtypes / sizeof *dtypes); i++)
        if (!strcmp(dtypes[i], output->dtype)) {
            *dtype = i;
            return 0;
        }
    return fail("output %u has the dtype %s, which MXNet does not have", (unsigned)index, output->dtype);
}

int MXPredGetOutput(void *handle, uint32_t index, float *data, uint32_t size)
{
    const mxf_tensor *output = output_of(handle, index);
    if (output == NULL)
        return -1;
    uint64_t elements = 1;
    for (int64_t axis = 0; axis < output->rank; axis++)
        elements *= (uint64_t)output->shape[axis];
    if (elements != size || (data == NULL && size))
        return fail("output %u has %llu elements, not %u, or the memory is NULL", (unsigned)index,
                    (unsigned long long)elements, (unsigned)size);
    if (size)
        memcpy(data, output->data, output->bytes);
    return 0;
}

#ifdef MXF_SOURCES /* as in pool.h */
__attribute__((section(MXF_SOURCES_SECTION), used)) static const char mxf_sources[] = MXF_SOURCES;
#endif
