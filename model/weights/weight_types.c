#include "model/weights/weight_types.h"

#include <stddef.h>

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
    const uint64_t rows = divide_up(tensor->n_out, tensor_scale_rows(tensor));
    const uint64_t n = rows * divide_up(tensor->n_in, tensor->scale_columns);
    return tensor->dtype == DTYPE_E2M1 ? n : n * sizeof(float);
}

static uint64_t tensor_bytes(const struct tensor *tensor)
{
    if (!tensor->data)
        return 0;
    return tensor->is_packed
               ? tensor->packed_bytes
               : dtype_array_bytes(tensor->dtype, (size_t)tensor->n_out * tensor->n_in) +
                     scale_bytes(tensor);
}

/* Returns their bytes. */
static uint64_t add(const struct tensor *tensors, size_t n, struct weight_counts *counts)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t bytes = tensor_bytes(&tensors[i]);
        if (bytes > 0)
            counts->bytes[tensors[i].dtype] += bytes;
        all += bytes;
    }
    return all;
}

void weight_types_count(const struct weights *weights, uint32_t n_layers, uint32_t n_experts,
                        uint32_t n_chosen, struct weight_counts *counts_out)
{
    enum {
        PER_LAYER = sizeof(struct layer_weights) / sizeof(struct tensor),
        PER_EXPERT = sizeof(struct expert_weights) / sizeof(struct tensor)
    };
    struct weight_counts counts = {.token_bytes = 0};
    const struct tensor *const of_ends[] = {&weights->embedding_norm, &weights->embedding_norm_bias,
                                            &weights->norm,           &weights->norm_bias,
                                            &weights->head_bias,      &weights->input_projection,
                                            &weights->input_norm};
    uint64_t expert_bytes = 0;
    add(&weights->embedding, 1, &counts);
    add(&weights->positions, 1, &counts);
    add(&weights->encoder.embedding_norm, sizeof weights->encoder / sizeof(struct tensor), &counts);
    add(&weights->layer_inputs, 1, &counts);
    for (size_t i = 0; i < sizeof of_ends / sizeof *of_ends; i++)
        counts.token_bytes += add(of_ends[i], 1, &counts);
    counts.token_bytes += weights->head.data == weights->embedding.data
                              ? tensor_bytes(&weights->head)
                              : add(&weights->head, 1, &counts);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        counts.token_bytes += add(&weights->layers[layer].attention_norm, PER_LAYER, &counts);
        for (uint32_t e = 0; weights->experts[layer] && e < n_experts; e++)
            expert_bytes += add(&weights->experts[layer][e].gate, PER_EXPERT, &counts);
    }
    for (uint32_t layer = 0; layer < weights->n_encoder_layers; layer++)
        add(&weights->layers[n_layers + layer].attention_norm, PER_LAYER, &counts);
    if (n_experts > 0)
        counts.token_bytes += expert_bytes / n_experts * n_chosen;
    *counts_out = counts;
}
