/* Attention over K and V of heads: hidden -> attended. */
#include "model/config/layer_shape.h"
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <math.h>

/* Layer norm of each head (Command R+). weight: [heads][head_dim]. */
static void norm_heads(const struct forward *forward, const struct tensor *weight, struct rows x,
                       uint32_t n_rows)
{
    const uint32_t d = weight->n_in;
    for (uint32_t head = 0; head < weight->n_out; head++) {
        const struct rows part = forward_rows_from(x, (size_t)head * d);
        forward->kernels->layer_norm(forward->threads,
                                     &(struct layer_norm){
                                         .x = part.data,
                                         .x_dtype = part.dtype,
                                         .x_stride = forward->qkv_width,
                                         .w = (const uint8_t *)weight->data +
                                              dtype_array_bytes(weight->dtype, (size_t)head * d),
                                         .w_dtype = weight->dtype,
                                         .y = part.data,
                                         .y_dtype = part.dtype,
                                         .y_stride = forward->qkv_width,
                                         .n_tokens = n_rows,
                                         .n = d,
                                         .eps = forward->config->norm_eps,
                                     });
    }
}

/* Q *= 1 + query_growth log(1 + turns), turns = floor(position / query_positions). Rows side by side with the same
 * factor are scaled together. */
static void scale_queries(const struct forward *forward, const struct packed_step *packed,
                          struct rows q, uint32_t width)
{
    const struct decoder *decoder = &forward->config->decoder;
    const uint32_t *positions = packed->positions;
    for (uint32_t first = 0, end; first < packed->n_tokens; first = end) {
        const uint32_t turns = positions[first] / decoder->query_positions;
        for (end = first + 1; end < packed->n_tokens; end++)
            if (positions[end] / decoder->query_positions != turns)
                break;
        if (turns == 0)
            continue;
        forward->kernels->scale(
            forward->threads,
            &(struct scale){.x = forward_rows_from(q, (size_t)first * forward->qkv_width).data,
                            .x_stride = forward->qkv_width,
                            .n_tokens = end - first,
                            .n = width,
                            .scale = 1 + decoder->query_growth * logf((float)(1 + turns))});
    }
}

/* attended *= sigmoid(gate) */
static void gate_output(const struct forward *forward, struct rows gate, uint32_t width,
                        uint32_t n_rows)
{
    forward->kernels->gated(forward->threads, &(struct gated){
                                                  .gate = gate.data,
                                                  .up = forward->attended.data,
                                                  .gate_stride = forward->qkv_width,
                                                  .up_stride = width,
                                                  .y = forward->attended.data,
                                                  .dtype = gate.dtype,
                                                  .y_stride = width,
                                                  .n_tokens = n_rows,
                                                  .n = width,
                                                  .activation = ACTIVATION_SIGMOID,
                                              });
}

/* V <- RMS of each head of V, or of K where that is V, too. */
static void norm_values(const struct forward *forward, struct rows from, struct rows v,
                        uint32_t n_kv_heads, uint32_t head_dim, uint32_t n_rows)
{
    for (uint32_t head = 0; head < n_kv_heads; head++)
        forward->kernels->rms_norm(
            forward->threads,
            &(struct rms_norm){.x = forward_rows_from(from, (size_t)head * head_dim).data,
                               .x_dtype = from.dtype,
                               .x_stride = forward->qkv_width,
                               .y = forward_rows_from(v, (size_t)head * head_dim).data,
                               .y_dtype = v.dtype,
                               .y_stride = forward->qkv_width,
                               .n_tokens = n_rows,
                               .n = head_dim,
                               .eps = forward->config->norm_eps});
}

/* x -> Q, K, V and the gate of the output, as far as the layer has them. */
static void project_qkv(const struct forward *forward, uint32_t layer, struct rows x, struct rows q,
                        struct rows k, struct rows v, struct rows gate, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const struct {
        const struct tensor *weight, *bias;
        struct rows y;
    } all[] = {{&weights->q, &weights->q_bias, q},
               {&weights->k, &weights->k_bias, k},
               {&weights->v, &weights->v_bias, v},
               {&weights->output_gate, &weights->output_gate_bias, gate}};
    struct gemm products[sizeof all / sizeof *all];
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!all[i].weight->data)
            continue;
        products[n] = forward_product(all[i].weight, all[i].bias, x, all[i].y, n_rows);
        products[n++].y_stride = forward->qkv_width;
    }
    forward_multiply(forward, products, n);
}

/* hidden -> attended: norm, Q K V, rotate, append to the cache, attend.
 * qkv row: [Q heads][K heads][V heads], then the gate of the output if there is one, so all products write side by side. */
void forward_attend(const struct forward *forward, const struct packed_step *packed, uint32_t layer)
{
    const uint32_t n_rows = packed->n_tokens;
    const struct model_config *config = forward->config;
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const struct attention_config shape = forward_shape_of(forward, layer);
    const uint32_t q_width = shape.n_heads * shape.head_dim;
    const uint32_t kv_width = shape.n_kv_heads * shape.head_dim;
    const struct rows q = forward->qkv, k = forward_rows_from(q, q_width),
                      v = forward_rows_from(k, kv_width), gate = forward_rows_from(v, kv_width);
    const bool has_kv = layer_has_kv(config, layer);

    const struct rows x = forward_before_attention(forward, layer, n_rows);
    project_qkv(forward, layer, x, q, k, v, gate, n_rows);
    forward_adapt(forward, layer, x,
                  (const struct adapted[]){{ADAPTER_Q, q, forward->qkv_width},
                                           {ADAPTER_K, k, forward->qkv_width},
                                           {ADAPTER_V, v, forward->qkv_width}},
                  3, 0, n_rows);
    if (config->decoder.has_v_norm && has_kv)
        norm_values(forward, config->v_is_k[layer] ? k : v, v, shape.n_kv_heads, shape.head_dim,
                    n_rows);
    if (config->decoder.qk_norm == QK_NORM_ROW) { /* before the attention operator (OLMo 2) */
        forward_norm_rows(forward, &weights->q_norm, q, config->norm_eps, n_rows);
        forward_norm_rows(forward, &weights->k_norm, k, config->norm_eps, n_rows);
    }
    if (config->decoder.qk_norm == QK_NORM_EACH_HEAD) {
        norm_heads(forward, &weights->q_norm, q, n_rows);
        norm_heads(forward, &weights->k_norm, k, n_rows);
    }
    if (config->decoder.query_growth != 0)
        scale_queries(forward, packed, q, q_width);

    struct attention_io io = attention_io_fused(&shape, q.data, forward->qkv_width,
                                                forward->attended.data, q_width);
    io.is_written = !has_kv;
    enum status status = forward->backend->forward(
        forward->attention[layer], config->is_wide[layer] ? packed->wide : packed->metadata, &io,
        NULL);
    assert(status == STATUS_OK);
    (void)status;
    if (config->decoder.has_output_gate)
        gate_output(forward, gate, q_width, n_rows);
}
