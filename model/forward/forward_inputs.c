/* The embedding that each layer has of its own (struct layer_inputs in model/config/decoder.h). Rows of a token:
 *
 *     inputs        [n_layers][width], of all layers: made once a step
 *     input_rows    the same of some tokens: rows of the table, or what the last layer needs of inputs
 *     input_gate    [width]
 */
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <math.h>

static uint32_t width_of(const struct forward *forward)
{
    return forward->config->decoder.layer_inputs.width;
}

static uint32_t row_width(const struct forward *forward)
{
    return forward->config->n_layers * width_of(forward);
}

/* inputs <- RMS of each layer's part of projection(hidden) / sqrt(hidden size) */
static void project_inputs(const struct forward *forward, uint32_t n_rows)
{
    static const struct tensor NO_BIAS = {0};
    const struct weights *weights = forward->weights;
    const uint32_t width = width_of(forward), n_layers = forward->config->n_layers;
    struct gemm projection = forward_product(&weights->input_projection, &NO_BIAS, forward->hidden,
                                             forward->inputs, n_rows);
    forward_multiply(forward, &projection, 1);
    forward_scale(forward, forward->inputs, n_rows, row_width(forward),
                  1 / sqrtf((float)forward->config->hidden));
    forward->kernels->rms_norm(forward->threads, &(struct rms_norm){
                                                     .x = forward->inputs.data,
                                                     .x_dtype = forward->inputs.dtype,
                                                     .x_stride = width,
                                                     .w = weights->input_norm.data,
                                                     .w_dtype = weights->input_norm.dtype,
                                                     .y = forward->inputs.data,
                                                     .y_dtype = forward->inputs.dtype,
                                                     .y_stride = width,
                                                     .n_tokens = n_rows * n_layers,
                                                     .n = width,
                                                     .eps = forward->config->norm_eps,
                                                 });
}

/* inputs += sqrt(width) table[id], of tokens first .. first + n - 1 */
static void add_table(const struct forward *forward, const struct packed_step *packed,
                      uint32_t first, uint32_t n)
{
    const struct tensor *table = &forward->weights->layer_inputs;
    const uint32_t row = row_width(forward);
    forward->kernels->embedding(forward->threads, &(struct embedding){
                                                      .table = table->data,
                                                      .dtype = table->dtype,
                                                      .ids = packed->token_ids + first,
                                                      .y = forward->input_rows.data,
                                                      .y_dtype = forward->input_rows.dtype,
                                                      .y_stride = row,
                                                      .n_tokens = n,
                                                      .n = row,
                                                      .n_rows = table->n_out,
                                                  });
    forward->kernels->scaled_add(
        forward->threads, &(struct scaled_add){
                              .x = forward->input_rows.data,
                              .x_stride = row,
                              .y = forward_rows_from(forward->inputs, (size_t)first * row).data,
                              .y_stride = row,
                              .n_tokens = n,
                              .n = row,
                              .scale = forward_embedding_scale(forward, table->dtype,
                                                               sqrtf((float)width_of(forward))),
                          });
}

void forward_make_inputs(const struct forward *forward, const struct packed_step *packed)
{
    const uint32_t n_rows = packed->n_tokens;
    if (width_of(forward) == 0)
        return;
    project_inputs(forward, n_rows);
    for (uint32_t first = 0; first < n_rows; first += INPUT_ROWS)
        add_table(forward, packed, first,
                  n_rows - first < INPUT_ROWS ? n_rows - first : INPUT_ROWS);
    forward_scale(forward, forward->inputs, n_rows, row_width(forward), sqrtf(0.5f));
}

struct rows forward_keep_inputs(const struct forward *forward, const struct packed_step *packed)
{
    const bool are_all = packed->n_logits == packed->n_tokens || packed->n_logits == 0;
    return width_of(forward) == 0 || are_all
               ? forward->inputs
               : forward_gather(forward, packed, forward->inputs, row_width(forward),
                                forward->input_rows.data);
}

void forward_add_input(const struct forward *forward, uint32_t layer, struct rows inputs,
                       uint32_t n_rows)
{
    static const struct tensor NO_BIAS = {0};
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t width = width_of(forward);
    if (width == 0)
        return;
    assert(forward->branch.data && weights->input_out.n_in == width);
    struct gemm gate = forward_product(&weights->input_gate, &NO_BIAS, forward->hidden,
                                       forward->input_gate, n_rows);
    forward_multiply(forward, &gate, 1);
    forward->kernels->gated(forward->threads,
                            &(struct gated){
                                .gate = forward->input_gate.data,
                                .up = forward_rows_from(inputs, (size_t)layer * width).data,
                                .gate_stride = width,
                                .up_stride = row_width(forward),
                                .y = forward->input_gate.data,
                                .dtype = forward->input_gate.dtype,
                                .y_stride = width,
                                .n_tokens = n_rows,
                                .n = width,
                                .activation = forward->config->decoder.activation,
                            });
    struct gemm out = forward_product(&weights->input_out, &NO_BIAS, forward->input_gate,
                                      forward->branch, n_rows);
    forward_multiply(forward, &out, 1);
    forward_add_branch(forward, &weights->input_after_norm, n_rows);
}
