/* What the compiler writes about the files of a model, for predict.c. tools/library/write.py writes it: all members take 8
   bytes. */
#ifndef MXF_PREDICT_H
#define MXF_PREDICT_H

#include "mxforge.h"

typedef struct mxf_context mxf_context;

/* The name of a file, its size and its CRC-32. The size is -1 if the model has no such file. */
struct predict_file {
    const char *name;
    int64_t bytes, crc32;
};

struct predict {
    struct predict_file symbol, parameters;
};

extern const struct predict predict_data __attribute__((visibility("hidden")));

/* The functions of model.c. */
mxf_context *model_create(const mxf_options *options);
void model_destroy(mxf_context *context);
mxf_status model_set(mxf_context *context, const char *input, const void *data, size_t bytes);
mxf_status model_shape(mxf_context *context, const char *input, const int64_t *shape, int64_t rank);
mxf_status model_run(mxf_context *context);
const mxf_tensor *model_inputs(mxf_context *context, int64_t *count);
const mxf_tensor *model_outputs(mxf_context *context, int64_t *count);
const char *model_error(const mxf_context *context);

#endif
