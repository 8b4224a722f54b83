#include "model/files/gguf_weights.h"

#include "gguf/gguf_architecture.h"

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

/* Of those that the architecture has. */
static bool is_of_experts(const struct gguf_architecture *architecture,
                          const struct gguf_tensor *tensor)
{
    char name[NAME_BYTES_MAX];
    gguf_architecture_name(architecture, tensor->name, 0, name, sizeof name);
    return name[0] && gguf_architecture_is_of_experts(tensor->name);
}

/* A matrix of an expert has an even number of rows: first gate, then up. */
static bool is_gate_up(const struct gguf_tensor *tensor)
{
    return gguf_architecture_is_gate_up(tensor->name) && tensor->n_dims == 3 &&
           tensor->dims[1] % 2 == 0 && tensor->dims[2] > 0;
}

/* The dimensions of GGUF begin with the length of a row. part: of a tensor that has n_parts matrices, those of experts. */
static enum status list_one(const struct gguf_architecture *architecture,
                            const struct gguf_tensor *from, uint32_t part, uint64_t n_parts,
                            struct safetensor *to)
{
    char name[NAME_BYTES_MAX];
    gguf_architecture_name(architecture, from->name, part, name, sizeof name);
    to->name = name[0] ? strdup(name) : strndup(from->name.bytes, from->name.n);
    if (!to->name)
        return STATUS_NO_MEMORY;
    to->dtype = dtype_of(from->type);
    to->n_dims = from->n_dims - (name[0] && gguf_architecture_is_of_experts(from->name));
    for (uint32_t i = 0; i < to->n_dims; i++)
        to->shape[i] = from->dims[to->n_dims - 1 - i];
    if (to->n_dims == 3 && gguf_architecture_is_of_heads(from->name)) { /* rows of all heads */
        to->shape[0] *= to->shape[1];
        to->shape[1] = to->shape[2];
        to->n_dims = 2;
    }
    if (to->n_dims == 2 && gguf_architecture_is_convolution(from->name)) {
        to->shape[2] = to->shape[1];
        to->shape[1] = 1;
        to->n_dims = 3;
    }
    if (to->n_dims == 1 && gguf_architecture_is_one_row(from->name)) {
        to->shape[1] = to->shape[0];
        to->shape[0] = 1;
        to->n_dims = 2;
    }
    if (n_parts > 1 && is_gate_up(from))
        to->shape[0] /= 2;
    to->bytes = from->bytes / n_parts;
    to->data = from->data + part * to->bytes;
    return STATUS_OK;
}

/* How many tensors one of the file becomes: one for each expert, or two: gate and up. */
static uint64_t n_parts_of(const struct gguf_architecture *architecture,
                           const struct gguf_tensor *tensor)
{
    if (tensor->n_dims < 2 || !is_of_experts(architecture, tensor))
        return 1;
    const uint64_t n_experts = tensor->dims[tensor->n_dims - 1];
    return n_experts > 0 ? n_experts * (is_gate_up(tensor) ? 2 : 1) : 1;
}

static enum status list_all(const struct gguf_architecture *architecture,
                            const struct gguf_file *file, struct safetensors *tables)
{
    for (uint32_t i = 0; i < file->n_tensors; i++) {
        const struct gguf_tensor *tensor = &file->tensors[i];
        struct safetensors *table = &tables[tensor->part];
        const uint64_t n = n_parts_of(architecture, tensor);
        for (uint32_t part = 0; part < n; part++) {
            TRY(list_one(architecture, tensor, part, n, &table->tensors[table->n_tensors]));
            table->n_tensors++;
        }
    }
    return STATUS_OK;
}

enum status gguf_weights_list(const struct gguf_file *file, struct safetensors *tables_out,
                              struct error *error)
{
    const struct gguf_architecture *architecture = NULL;
    uint64_t n = 0;
    TRY(gguf_architecture_find(file, &architecture, error));
    for (uint32_t i = 0; i < file->n_tensors && n <= TENSORS_MAX; i++)
        n += n_parts_of(architecture, &file->tensors[i]);
    if (n > TENSORS_MAX)
        return error_set(error, STATUS_UNSUPPORTED,
                         "the file has more than %u tensors and matrices of experts", TENSORS_MAX);
    for (uint32_t part = 0; part < file->n_parts; part++) {
        tables_out[part].tensors = calloc(n + 1, sizeof *tables_out[part].tensors);
        if (!tables_out[part].tensors)
            return STATUS_NO_MEMORY;
    }
    return list_all(architecture, file, tables_out);
}
