#include "model/files/gguf_weights.h"

#include "gguf/gguf_config.h"

#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 320

static enum safetensors_dtype dtype_of(enum gguf_type type)
{
    static const enum dtype BLOCKS[] = {
        [GGUF_TYPE_Q4_0] = DTYPE_Q4_0,   [GGUF_TYPE_Q4_1] = DTYPE_Q4_1,
        [GGUF_TYPE_Q5_0] = DTYPE_Q5_0,   [GGUF_TYPE_Q5_1] = DTYPE_Q5_1,
        [GGUF_TYPE_Q8_0] = DTYPE_Q8_0,   [GGUF_TYPE_Q2_K] = DTYPE_Q2_K,
        [GGUF_TYPE_Q3_K] = DTYPE_Q3_K,   [GGUF_TYPE_Q4_K] = DTYPE_Q4_K,
        [GGUF_TYPE_Q5_K] = DTYPE_Q5_K,   [GGUF_TYPE_Q6_K] = DTYPE_Q6_K,
        [GGUF_TYPE_MXFP4] = DTYPE_MXFP4,
    };
    if (type == GGUF_TYPE_F32)
        return SAFETENSORS_F32;
    if (type == GGUF_TYPE_F16)
        return SAFETENSORS_F16;
    if (type == GGUF_TYPE_BF16)
        return SAFETENSORS_BF16;
    return safetensors_of_blocks(BLOCKS[type]);
}

/* The dimensions of GGUF begin with the length of a row. */
static enum status list_one(const struct gguf_tensor *from, struct safetensor *to)
{
    char name[NAME_BYTES_MAX];
    gguf_tensor_name(from->name, name, sizeof name);
    to->name = name[0] ? strdup(name) : strndup(from->name.bytes, from->name.n);
    if (!to->name)
        return STATUS_NO_MEMORY;
    to->dtype = dtype_of(from->type);
    to->n_dims = from->n_dims;
    for (uint32_t i = 0; i < from->n_dims; i++)
        to->shape[i] = from->dims[from->n_dims - 1 - i];
    to->data = from->data;
    to->bytes = from->bytes;
    return STATUS_OK;
}

enum status gguf_weights_list(const struct gguf_file *file, struct safetensors *tables_out)
{
    for (uint32_t part = 0; part < file->n_parts; part++) {
        tables_out[part].tensors = calloc(file->n_tensors + 1, sizeof *tables_out[part].tensors);
        if (!tables_out[part].tensors)
            return STATUS_NO_MEMORY;
    }
    for (uint32_t i = 0; i < file->n_tensors; i++) {
        struct safetensors *table = &tables_out[file->tensors[i].part];
        TRY(list_one(&file->tensors[i], &table->tensors[table->n_tensors]));
        table->n_tensors++;
    }
    return STATUS_OK;
}
