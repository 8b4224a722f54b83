#include "kernels/cuda/cuda.h"
#include "model/config/layer_shape.h"
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <math.h>

void forward_norm(const struct forward *forward, const struct tensor *weight,
                  const struct tensor *bias, struct rows x, struct rows y, uint32_t n_rows)
{
    const uint32_t hidden = forward->config->hidden;
    const float eps = forward->config->norm_eps;
    if (forward->config->decoder.norm == NORM_LAYER)
        forward->kernels->layer_norm(forward->threads, &(struct layer_norm){
                                                           .x = x.data,
                                                           .x_dtype = x.dtype,
                                                           .x_stride = hidden,
                                                           .w = weight->data,
                                                           .w_dtype = weight->dtype,
                                                           .bias = bias->data,
                                                           .bias_dtype = bias->dtype,
                                                           .y = y.data,
                                                           .y_dtype = y.dtype,
                                                           .y_stride = hidden,
                                                           .n_tokens = n_rows,
                                                           .n = hidden,
                                                           .eps = eps,
                                                       });
    else
        forward->kernels->rms_norm(
            forward->threads,
            &(struct rms_norm){
                .x = x.data,
                .x_dtype = x.dtype,
                .x_stride = hidden,
                .w = weight->data,
                .w_dtype = weight->dtype,
                .y = y.data,
                .y_dtype = y.dtype,
                .y_stride = hidden,
                .n_tokens = n_rows,
                .n = hidden,
                .eps = eps,
                .is_unit_offset = forward->config->decoder.norm == NORM_RMS_PLUS_ONE,
            });
}

/* The rows that a branch reads: hidden, or its norm in normed. */
struct rows forward_before_branch(const struct forward *forward, const struct tensor *weight,
                                  const struct tensor *bias, uint32_t n_rows)
{
    const enum norm_place place = forward->config->decoder.norm_place;
    if (place == NORM_AFTER || place == NORM_AFTER_SUM)
        return forward->hidden;
    forward_norm(forward, weight, bias, forward->hidden, forward->normed, n_rows);
    return forward->normed;
}

struct rows forward_before_attention(const struct forward *forward, uint32_t layer, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    return forward_before_branch(forward, &weights->attention_norm, &weights->attention_norm_bias,
                                 n_rows);
}

void forward_add_branch(const struct forward *forward, const struct tensor *after, uint32_t n_rows)
{
    static const struct tensor NO_BIAS = {0};
    const struct decoder *decoder = &forward->config->decoder;
    const uint32_t hidden = forward->config->hidden;
    if (!forward->branch.data)
        return;
    if (decoder->norm_place != NORM_BEFORE)
        forward_norm(forward, after, &NO_BIAS, forward->branch, forward->branch, n_rows);
    forward->kernels->scaled_add(
        forward->threads,
        &(struct scaled_add){.x = forward->branch.data,
                             .x_stride = hidden,
                             .y = forward->hidden.data,
                             .y_stride = hidden,
                             .n_tokens = n_rows,
                             .n = hidden,
                             .scale = decoder->residual_scale != 0 ? decoder->residual_scale : 1});
}

/* hidden <- norm(hidden), where norms stand behind the sum. */
static void norm_sum(const struct forward *forward, const struct tensor *weight,
                     const struct tensor *bias, uint32_t n_rows)
{
    if (forward->config->decoder.norm_place == NORM_AFTER_SUM)
        forward_norm(forward, weight, bias, forward->hidden, forward->hidden, n_rows);
}

/* Where the last product of a branch goes. */
struct rows forward_end_of_branch(const struct forward *forward)
{
    return forward->branch.data ? forward->branch : forward->hidden;
}

struct rows forward_rows_from(struct rows rows, size_t at)
{
    return (struct rows){(uint8_t *)rows.data + at * dtype_bytes(rows.dtype), rows.dtype};
}

struct gemm forward_product(const struct tensor *weight, const struct tensor *bias, struct rows x,
                            struct rows y, uint32_t n_rows)
{
    return (struct gemm){
        .x = x.data,
        .x_dtype = x.dtype,
        .x_stride = weight->n_in,
        .w = weight->data,
        .w_dtype = weight->dtype,
        .w_scales = weight->scales,
        .w_scale_rows = tensor_scale_rows(weight),
        .w_scale_columns = weight->scale_columns,
        .w_is_packed = weight->is_packed,
        .bias = bias->data,
        .bias_dtype = bias->dtype,
        .y = y.data,
        .y_dtype = y.dtype,
        .y_stride = weight->n_out,
        .n_tokens = n_rows,
        .n_in = weight->n_in,
        .n_out = weight->n_out,
    };
}

void forward_multiply(const struct forward *forward, struct gemm *products, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        products[i].workspace = forward->workspace.data;
        products[i].workspace_bytes = forward->workspace_bytes;
        products[i].x_is_int8 = forward->options.block_activations == BLOCK_ACTIVATIONS_INT8;
    }
    forward->kernels->gemm(forward->threads, products, n);
}

void forward_norm_rows(const struct forward *forward, const struct tensor *weight, struct rows x,
                       float eps, uint32_t n_rows)
{
    forward->kernels->rms_norm(forward->threads, &(struct rms_norm){
                                                     .x = x.data,
                                                     .x_dtype = x.dtype,
                                                     .x_stride = forward->qkv_width,
                                                     .w = weight->data,
                                                     .w_dtype = weight->dtype,
                                                     .y = x.data,
                                                     .y_dtype = x.dtype,
                                                     .y_stride = forward->qkv_width,
                                                     .n_tokens = n_rows,
                                                     .n = weight->n_out,
                                                     .eps = eps,
                                                 });
}

/* hidden += o(attended) */
static void project_by(const struct forward *forward, const struct tensor *o,
                       const struct tensor *bias, struct rows attended, uint32_t n_rows)
{
    struct gemm output = forward_product(o, bias, attended, forward_end_of_branch(forward), n_rows);
    output.accumulate = !forward->branch.data;
    forward_multiply(forward, &output, 1);
}

static void project(const struct forward *forward, uint32_t layer, struct rows attended,
                    uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    project_by(forward, &weights->o, &weights->o_bias, attended, n_rows);
    forward_adapt(forward, layer, attended,
                  &(struct adapted){ADAPTER_O, forward_end_of_branch(forward), weights->o.n_out}, 1,
                  0, n_rows);
    forward_add_branch(forward, &weights->attention_after_norm, n_rows);
    norm_sum(forward, &weights->attention_norm, &weights->attention_norm_bias, n_rows);
}

static void project_cross(const struct forward *forward, uint32_t layer, struct rows attended,
                          uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    project_by(forward, &weights->cross_o, &weights->cross_o_bias, attended, n_rows);
    norm_sum(forward, &weights->cross_norm, &weights->cross_norm_bias, n_rows);
}

/* Rows first .. first + n_rows - 1, at most mlp_rows_max: the end of the branch gets down(act(gate(x)) * up(x)), or
 * down(act(up(x))). */
void forward_mlp_rows(const struct forward *forward, const struct layer_weights *weights,
                      struct rows all, uint32_t first, uint32_t n_rows)
{
    const size_t at = (size_t)first * forward->config->hidden;
    const uint32_t ffn = weights->up.n_out;
    const struct rows x = forward_rows_from(all, at);
    const bool has_gate = !forward->config->decoder.has_no_gate;
    const uint32_t layer = (uint32_t)(weights - forward->weights->layers);
    const struct adapted adapted[] = {{ADAPTER_UP, has_gate ? forward->up : forward->gate, ffn},
                                      {ADAPTER_GATE, forward->gate, ffn}};
    const struct rows end = forward_rows_from(forward_end_of_branch(forward), at);
    struct gemm inner[] = {
        forward_product(&weights->gate, &weights->gate_bias, x, forward->gate, n_rows),
        forward_product(&weights->up, &weights->up_bias, x, has_gate ? forward->up : forward->gate,
                        n_rows),
    };
    if (has_gate)
        forward_multiply(forward, inner, 2);
    else
        forward_multiply(forward, &inner[1], 1);
    forward_adapt(forward, layer, x, adapted, has_gate ? 2 : 1, first, n_rows);
    forward->kernels->gated(forward->threads, &(struct gated){
                                                  .gate = forward->gate.data,
                                                  .up = has_gate ? forward->up.data : NULL,
                                                  .gate_stride = ffn,
                                                  .up_stride = ffn,
                                                  .y = forward->gate.data,
                                                  .dtype = forward->gate.dtype,
                                                  .y_stride = ffn,
                                                  .n_tokens = n_rows,
                                                  .n = ffn,
                                                  .activation = forward->config->decoder.activation,
                                              });
    struct gemm outer = forward_product(&weights->down, &weights->down_bias, forward->gate, end,
                                        n_rows);
    outer.accumulate = !forward->branch.data;
    forward_multiply(forward, &outer, 1);
    forward_adapt(forward, layer, forward->gate,
                  &(struct adapted){ADAPTER_DOWN, end, weights->down.n_out}, 1, first, n_rows);
}

/* The rows that the MLP reads. Of parallel branches these are made before attention's are added to hidden. */
static struct rows before_mlp(const struct forward *forward, uint32_t layer, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    return forward->config->decoder.residual == RESIDUAL_PARALLEL
               ? forward_before_attention(forward, layer, n_rows)
               : forward_before_branch(forward, &weights->mlp_norm, &weights->mlp_norm_bias,
                                       n_rows);
}

static void mlp(const struct forward *forward, uint32_t layer, struct rows x, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t n_max = forward->mlp_rows_max;
    for (uint32_t first = 0; first < n_rows; first += n_max) {
        const uint32_t n = n_rows - first < n_max ? n_rows - first : n_max;
        if (forward->config->experts_are_beside_mlp)
            forward_rows_beside(forward, layer, x, first, n);
        else if (forward->config->has_experts[layer])
            forward_expert_rows(forward, layer, x, first, n);
        else
            forward_mlp_rows(forward, weights, x, first, n);
    }
    forward_add_branch(forward, &weights->mlp_after_norm, n_rows);
    if (layer + 1 < forward->config->n_layers) /* the last norm is the final one: score */
        norm_sum(forward, &weights->mlp_norm, &weights->mlp_norm_bias, n_rows);
}

/* hidden += what the layer's last attention, and its MLP, make of it. */
static void add_branches(const struct forward *forward, uint32_t layer, struct rows attended,
                         uint32_t n_rows)
{
    if (forward->config->decoder.residual == RESIDUAL_IN_TURN) {
        if (forward->encoder)
            project_cross(forward, layer, attended, n_rows);
        else
            project(forward, layer, attended, n_rows);
        mlp(forward, layer, before_mlp(forward, layer, n_rows), n_rows);
        return;
    }
    const struct rows x = before_mlp(forward, layer, n_rows);
    project(forward, layer, attended, n_rows);
    mlp(forward, layer, x, n_rows);
}

struct rows forward_gather(const struct forward *forward, const struct packed_step *packed,
                           struct rows x, size_t width, void *y)
{
    forward->kernels->embedding(forward->threads, &(struct embedding){
                                                      .table = x.data,
                                                      .dtype = x.dtype,
                                                      .ids = packed->logit_rows,
                                                      .y = y,
                                                      .y_dtype = x.dtype,
                                                      .y_stride = width,
                                                      .n_tokens = packed->n_logits,
                                                      .n = (uint32_t)width,
                                                      .n_rows = packed->n_tokens,
                                                  });
    return (struct rows){y, x.dtype};
}

/* After the last attention only the wanted rows are needed: gathers them. This saves the last layer's MLP for the other
 * rows and changes no bits, since no operator mixes rows. Returns the gathered rows of attended, which are in qkv: its
 * contents are not needed any more. hidden and normed swap their memory until the end of the step. */
static struct rows keep_rows(struct forward *forward, const struct packed_step *packed)
{
    const size_t width = forward->weights->layers[forward->config->n_layers - 1].o.n_in;
    if (packed->n_logits == packed->n_tokens || packed->n_logits == 0)
        return forward->attended; /* all rows are wanted, in this order, or none is */
    assert(width <= forward->qkv_width && forward->qkv.dtype == forward->attended.dtype);
    void *hidden = forward->hidden.data;
    forward->hidden = forward_gather(forward, packed, forward->hidden, forward->config->hidden,
                                     forward->normed.data);
    forward->normed.data = hidden;
    return forward_gather(forward, packed, forward->attended, width, forward->qkv.data);
}

/* x <- cap(factor * x); a factor of 0 is 1. */
static void scale(const struct forward *forward, struct rows x, uint32_t n_rows, uint32_t n,
                  float factor, float cap)
{
    if (factor == 0 && cap == 0)
        return;
    forward->kernels->scale(forward->threads, &(struct scale){.x = x.data,
                                                              .x_stride = n,
                                                              .n_tokens = n_rows,
                                                              .n = n,
                                                              .scale = factor != 0 ? factor : 1,
                                                              .soft_cap = cap});
}

void forward_scale(const struct forward *forward, struct rows x, uint32_t n_rows, uint32_t width,
                   float factor)
{
    forward->kernels->scale(
        forward->threads,
        &(struct scale){
            .x = x.data, .x_stride = width, .n_tokens = n_rows, .n = width, .scale = factor});
}

float forward_embedding_scale(const struct forward *forward, enum dtype dtype, float factor)
{
    const struct decoder *decoder = &forward->config->decoder;
    if (decoder->rounds_embedding_scale && (dtype == DTYPE_BF16 || dtype == DTYPE_F16)) {
        dtype_store(dtype, &factor, 0, factor);
        factor = dtype_load(dtype, &factor, 0);
    }
    return factor;
}

/* hidden += rows of the learned table, which are read into normed. */
static void add_positions(const struct forward *forward, const struct packed_step *packed)
{
    const uint32_t hidden = forward->config->hidden;
    const struct tensor *table = &forward->weights->positions;
    const size_t skipped = (size_t)forward->config->decoder.position_offset * hidden;
    forward->kernels->embedding(
        forward->threads,
        &(struct embedding){.table = (const char *)table->data +
                                     skipped * dtype_bytes(table->dtype),
                            .dtype = table->dtype,
                            .ids = packed->positions,
                            .y = forward->normed.data,
                            .y_dtype = forward->normed.dtype,
                            .y_stride = hidden,
                            .n_tokens = packed->n_tokens,
                            .n = hidden,
                            .n_rows = table->n_out - forward->config->decoder.position_offset});
    forward->kernels->scaled_add(forward->threads,
                                 &(struct scaled_add){.x = forward->normed.data,
                                                      .x_stride = hidden,
                                                      .y = forward->hidden.data,
                                                      .y_stride = hidden,
                                                      .n_tokens = packed->n_tokens,
                                                      .n = hidden,
                                                      .scale = 1});
}

/* hidden <- rows of the embedding, scaled, with positions, normalised: what the decoder has of these */
static void embed(const struct forward *forward, const struct packed_step *packed)
{
    const struct model_config *config = forward->config;
    const struct weights *weights = forward->weights;
    forward->kernels->embedding(forward->threads, &(struct embedding){
                                                      .table = forward->weights->embedding.data,
                                                      .dtype = forward->weights->embedding.dtype,
                                                      .ids = packed->token_ids,
                                                      .y = forward->hidden.data,
                                                      .y_dtype = forward->hidden.dtype,
                                                      .y_stride = config->hidden,
                                                      .n_tokens = packed->n_tokens,
                                                      .n = config->hidden,
                                                      .n_rows = config->vocabulary,
                                                  });
    scale(
        forward, forward->hidden, packed->n_tokens, config->hidden,
        forward_embedding_scale(forward, weights->embedding.dtype, config->decoder.embedding_scale),
        0);
    if (config->decoder.has_positions)
        add_positions(forward, packed);
    if (config->decoder.has_embedding_norm)
        forward_norm(forward, &weights->embedding_norm, &weights->embedding_norm_bias,
                     forward->hidden, forward->hidden, packed->n_tokens);
}

void forward_head(const struct forward *forward, struct rows x, uint32_t n_rows, struct rows logits)
{
    const struct decoder *decoder = &forward->config->decoder;
    struct gemm gemm = forward_product(&forward->weights->head, &forward->weights->head_bias, x,
                                       logits, n_rows);
    forward_multiply(forward, &gemm, 1);
    scale(forward, logits, n_rows, forward->config->vocabulary, decoder->logit_scale,
          decoder->logit_cap);
}

/* logits <- head(norm(hidden)) of the wanted rows. Where all rows are kept, these are gathered from normed, which stays for
 * forward_rows; hidden is not needed any more, and has the room. */
static void score(const struct forward *forward, const struct packed_step *packed, uint32_t n_rows,
                  struct rows logits)
{
    const struct weights *weights = forward->weights;
    const struct layer_weights *last = &weights->layers[forward->config->n_layers - 1];
    const bool is_last = forward->config->decoder.norm_place == NORM_AFTER_SUM;
    struct rows x = forward->normed;
    forward_norm(forward, is_last ? &last->mlp_norm : &weights->norm,
                 is_last ? &last->mlp_norm_bias : &weights->norm_bias, forward->hidden,
                 forward->normed, n_rows);
    if (packed->keeps_rows && packed->n_logits > 0)
        x = forward_gather(forward, packed, x, forward->config->hidden, forward->hidden.data);
    if (packed->n_logits > 0)
        forward_head(forward, x, packed->n_logits, logits);
}

void forward_count_layer(struct forward *forward)
{
    atomic_fetch_add_explicit(&forward->layers_done, 1, memory_order_relaxed);
    if (forward->on_layer)
        forward->on_layer(forward->on_layer_arg);
}

/* What comes behind the branches of a layer. */
static void finish_layer(const struct forward *forward, uint32_t layer, struct rows inputs,
                         uint32_t n_rows)
{
    const struct tensor *factor = &forward->weights->layers[layer].scale;
    forward_add_input(forward, layer, inputs, n_rows);
    if (forward->config->decoder.has_layer_scale)
        forward_scale(forward, forward->hidden, n_rows, forward->config->hidden,
                      dtype_load(factor->dtype, factor->data, 0));
}

void forward_compute(struct forward *forward, const struct packed_step *packed, struct rows logits)
{
    uint32_t n_rows = packed->n_tokens, n_layers = forward->config->n_layers;
    const struct rows hidden = forward->hidden, normed = forward->normed;
    struct rows inputs = forward->inputs;
    embed(forward, packed);
    forward_make_inputs(forward, packed);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        struct rows attended = forward->attended;
        if (forward->config->is_recurrent[layer])
            forward_recur(forward, packed, layer);
        else if (forward->latent)
            forward_latent_attend(forward, packed, layer);
        else
            forward_attend(forward, packed, layer);
        if (forward->encoder) {
            project(forward, layer, attended, n_rows);
            forward_cross_attend(forward, packed, layer);
        }
        if (layer + 1 == n_layers && !packed->keeps_rows) {
            attended = keep_rows(forward, packed);
            inputs = forward_keep_inputs(forward, packed);
            forward_keep_adapters(forward);
            n_rows = packed->n_logits;
        }
        if (n_rows > 0) {
            add_branches(forward, layer, attended, n_rows);
            finish_layer(forward, layer, inputs, n_rows);
        }
        forward_count_layer(forward);
    }
    if (n_rows == 0)
        return;
    score(forward, packed, n_rows, logits);
    forward->hidden = hidden; /* every step begins with the same addresses */
    forward->normed = normed;
}
/* Plans the products of a step of n tokens. They must be those that the functions above compute. */
enum status forward_plan_step(const struct forward *forward, uint32_t n, struct error *error)
{
    static const struct tensor NO_BIAS = {0};
    const struct model_config *config = forward->config;
    const struct layer_weights *layer = &forward->weights->layers[0];
    const uint32_t q_width = config->n_heads * config->head_dim;
    const struct rows x = forward->normed, q = forward->qkv, k = forward_rows_from(q, q_width);
    struct gemm gemms[] = {
        forward_product(&layer->q, &layer->q_bias, x, q, n),
        forward_product(&layer->k, &layer->k_bias, x, k, n),
        forward_product(&layer->o, &layer->o_bias, forward->attended, forward->hidden, n),
        forward_product(&layer->gate, &layer->gate_bias, x, forward->gate, n),
        forward_product(&layer->down, &layer->down_bias, forward->gate, forward->hidden, n),
        forward_product(&forward->weights->head, &NO_BIAS, x, forward->logits, n),
    };
    const uint32_t n_gemms = n > forward->options.sequences_max ? 5 : 6;
    gemms[0].y_stride = gemms[1].y_stride = forward->qkv_width;
    gemms[2].accumulate = gemms[4].accumulate = true;
    for (uint32_t g = 0; g < n_gemms; g++)
        TRY(cuda_gemm_plan(&gemms[g], error));
    return STATUS_OK;
}
