#include "model/weights/weight_types.h"

#include <stddef.h>
#include <string.h>

_Static_assert(offsetof(struct layer_weights, attention_norm) == 0, "the first of them");
_Static_assert(offsetof(struct expert_weights, gate) == 0, "the first of them");

static uint64_t divide_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

static uint64_t scale_bytes(const struct tensor *tensor)
{
    if (!tensor->scales || tensor->scale_columns == 0)
        return 0;
    const uint64_t rows = divide_up(tensor->n_out, tensor->scale_rows ? tensor->scale_rows : 1);
    const uint64_t n = rows * divide_up(tensor->n_in, tensor->scale_columns);
    return tensor->dtype == DTYPE_E2M1 ? n : n * sizeof(float);
}

static void add(const struct tensor *tensor, uint64_t *bytes)
{
    if (!tensor->data)
        return;
    bytes[tensor->dtype] += tensor->is_packed
                                ? tensor->packed_bytes
                                : dtype_array_bytes(tensor->dtype,
                                                    (size_t)tensor->n_out * tensor->n_in) +
                                      scale_bytes(tensor);
}

static void add_all(const struct tensor *tensors, size_t n, uint64_t *bytes)
{
    for (size_t i = 0; i < n; i++)
        add(&tensors[i], bytes);
}

void weight_types_count(const struct weights *weights, uint32_t n_layers, uint32_t n_experts,
                        uint64_t bytes_out[DTYPE_LAST + 1])
{
    enum {
        PER_LAYER = sizeof(struct layer_weights) / sizeof(struct tensor),
        PER_EXPERT = sizeof(struct expert_weights) / sizeof(struct tensor)
    };
    memset(bytes_out, 0, (DTYPE_LAST + 1) * sizeof *bytes_out);
    const struct tensor *const of_model[] = {
        &weights->embedding, &weights->embedding_norm, &weights->embedding_norm_bias,
        &weights->positions, &weights->norm,           &weights->norm_bias,
        &weights->head_bias};
    for (size_t i = 0; i < sizeof of_model / sizeof *of_model; i++)
        add(of_model[i], bytes_out);
    if (weights->head.data != weights->embedding.data)
        add(&weights->head, bytes_out);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        add_all(&weights->layers[layer].attention_norm, PER_LAYER, bytes_out);
        for (uint32_t e = 0; weights->experts[layer] && e < n_experts; e++)
            add_all(&weights->experts[layer][e].gate, PER_EXPERT, bytes_out);
    }
}
