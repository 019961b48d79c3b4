/* MXNDList: the arrays of a file that `nd.save` wrote, such as a mean image. Only predict.c includes this.

   The format is that of frontend/artifacts/params.py. Arrays are dense and float32; a file with others is refused. The file
   comes from outside: each size is compared with what is left before it is used. */
#ifndef MXF_LISTS_H
#define MXF_LISTS_H

#include <stdint.h>

#include "predict_error.h"

#define LIST_MAGIC UINT64_C(0x112)
#define V1_MAGIC UINT32_C(0xF993FAC8)
#define V2_MAGIC UINT32_C(0xF993FAC9)
#define V3_MAGIC UINT32_C(0xF993FACA)

enum { LIST_AXES = 32 };

struct listed {
    char *name;
    float *data;
    uint32_t rank, shape[LIST_AXES];
};

struct list {
    uint64_t n;
    struct listed arrays[];
};

struct reader {
    const char *next;
    size_t left;
};

/* Copies so many bytes, and skips them. False if there are fewer. */
static bool read_bytes(struct reader *reader, void *into, uint64_t bytes)
{
    if (bytes > reader->left)
        return false;
    if (bytes)
        memcpy(into, reader->next, (size_t)bytes);
    reader->next += bytes;
    reader->left -= (size_t)bytes;
    return true;
}

/* Reads the shape: axes of 8 bytes, or of 4 in the oldest version. Sets the number of elements. */
static bool read_shape(struct reader *reader, uint32_t rank, bool wide, struct listed *array, uint64_t *elements)
{
    if (rank > LIST_AXES)
        return false;
    array->rank = rank;
    *elements = 1;
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint64_t extent = 0;
        if (!read_bytes(reader, &extent, wide ? 8 : 4) || extent > reader->left || *elements * extent > reader->left)
            return false;
        array->shape[axis] = (uint32_t)extent;
        *elements *= extent;
    }
    return true;
}

/* Reads an array, which is empty if the file has none at its place. False if it is damaged or of another kind. */
static bool read_array(struct reader *reader, struct listed *array)
{
    uint32_t magic, rank;
    int32_t storage = 0, device[2], dtype;
    uint64_t elements;
    if (!read_bytes(reader, &magic, 4))
        return false;
    bool has_storage = magic == V2_MAGIC || magic == V3_MAGIC, is_wide = has_storage || magic == V1_MAGIC;
    if (has_storage && (!read_bytes(reader, &storage, 4) || storage != 0))
        return false;
    rank = magic;
    if (is_wide && !read_bytes(reader, &rank, 4))
        return false;
    if (!read_shape(reader, rank, is_wide, array, &elements))
        return false;
    if (rank == 0 && magic != V3_MAGIC)
        return true;
    if (!read_bytes(reader, device, 8) || !read_bytes(reader, &dtype, 4) || dtype != 0 || elements > reader->left / 4)
        return false;
    array->data = malloc((size_t)elements * 4 + 1);
    return array->data != NULL && read_bytes(reader, array->data, elements * 4);
}

static bool read_name(struct reader *reader, struct listed *array)
{
    uint64_t length;
    if (!read_bytes(reader, &length, 8) || length > reader->left)
        return false;
    array->name = calloc((size_t)length + 1, 1);
    return array->name != NULL && read_bytes(reader, array->name, length);
}

int MXNDListFree(void *handle)
{
    struct list *list = handle;
    if (list == NULL)
        return fail("the list is NULL");
    for (uint64_t i = 0; i < list->n; i++) {
        free(list->arrays[i].name);
        free(list->arrays[i].data);
    }
    free(list);
    return 0;
}

static bool read_list(struct reader *reader, struct list *list)
{
    uint64_t names;
    for (uint64_t i = 0; i < list->n; i++)
        if (!read_array(reader, &list->arrays[i]))
            return false;
    if (!read_bytes(reader, &names, 8) || (names != 0 && names != list->n))
        return false;
    for (uint64_t i = 0; i < names; i++)
        if (!read_name(reader, &list->arrays[i]))
            return false;
    return true;
}

int MXNDListCreate(const char *file, int bytes, void **out, uint32_t *length)
{
    if (file == NULL || bytes < 0 || out == NULL || length == NULL)
        return fail("an argument is NULL, or the size is negative");
    struct reader reader = {file, (size_t)bytes};
    uint64_t header[3];
    if (!read_bytes(&reader, header, sizeof header) || header[0] != LIST_MAGIC || header[2] > reader.left / 4)
        return fail("this is not a file of arrays, or it is damaged");
    struct list *list = calloc(1, sizeof *list + (size_t)header[2] * sizeof *list->arrays);
    if (list == NULL)
        return fail("there is no memory");
    list->n = header[2];
    if (!read_list(&reader, list)) {
        MXNDListFree(list);
        return fail("the file of arrays is damaged, or has arrays that are sparse or not float32");
    }
    *out = list;
    *length = (uint32_t)list->n;
    return 0;
}

int MXNDListGet(void *handle, uint32_t index, const char **key, const float **data, const uint32_t **shape, uint32_t *rank)
{
    struct list *list = handle;
    if (list == NULL || key == NULL || data == NULL || shape == NULL || rank == NULL)
        return fail("an argument is NULL");
    if (index >= list->n)
        return fail("array %u: the list has %llu", (unsigned)index, (unsigned long long)list->n);
    struct listed *array = &list->arrays[index];
    *key = array->name != NULL ? array->name : "";
    *data = array->data;
    *shape = array->shape;
    *rank = array->rank;
    return 0;
}

#endif
