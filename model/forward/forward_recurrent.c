#include "kernels/recurrent.h"
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <stdlib.h>

#define DELTA_NORM_EPS 1e-6f /* of q and k: in no config */

/* ---- sizes ---- */

static uint32_t keys_of(const struct model_config *config)
{
    return config->recurrent.n_key_heads * config->recurrent.key_dim;
}

uint32_t forward_recurrent_values(const struct model_config *config)
{
    return config->recurrent.n_heads * config->recurrent.value_dim;
}

uint32_t forward_recurrent_channels(const struct model_config *config)
{
    return 2 * keys_of(config) + forward_recurrent_values(config);
}

/* [q | k | v | z | decay | beta] */
uint32_t forward_recurrent_width(const struct model_config *config)
{
    return forward_recurrent_channels(config) + forward_recurrent_values(config) +
           2 * config->recurrent.n_heads;
}

/* How many of the layers below this one have a state. */
static uint32_t states_before(const struct model_config *config, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < layer; i++)
        n += config->is_recurrent[i];
    return n;
}

/* ---- operators of a step; without rows they only describe the layer ---- */

static struct causal_conv conv_of(const struct forward *forward, uint32_t layer)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t n_channels = forward_recurrent_channels(forward->config);
    return (struct causal_conv){.x = forward->qkv.data,
                                .x_stride = forward->qkv_width,
                                .w = weights->conv.data,
                                .w_dtype = weights->conv.dtype,
                                .y = forward->convolved.data,
                                .y_stride = n_channels,
                                .n_channels = n_channels,
                                .width = forward->config->recurrent.conv_width};
}

/* In place: decay where its product is, beta behind it. */
static struct delta_gate gate_of(const struct forward *forward, uint32_t layer, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const struct model_config *config = forward->config;
    float *decay = forward_rows_from(forward->qkv, forward_recurrent_channels(config) +
                                                       forward_recurrent_values(config))
                       .data;
    float *beta = decay + config->recurrent.n_heads;
    return (struct delta_gate){.a = decay,
                               .b = beta,
                               .a_stride = forward->qkv_width,
                               .b_stride = forward->qkv_width,
                               .a_log = weights->decay_log.data,
                               .dt_bias = weights->decay_bias.data,
                               .a_log_dtype = weights->decay_log.dtype,
                               .dt_bias_dtype = weights->decay_bias.dtype,
                               .decay = decay,
                               .beta = beta,
                               .decay_stride = forward->qkv_width,
                               .beta_stride = forward->qkv_width,
                               .n_rows = n_rows,
                               .n_heads = config->recurrent.n_heads};
}

/* The result takes the place of v. */
static struct delta_rule rule_of(const struct forward *forward, const struct delta_gate *gate)
{
    const struct recurrent_sizes *sizes = &forward->config->recurrent;
    const uint32_t keys = keys_of(forward->config);
    const uint32_t n_channels = forward_recurrent_channels(forward->config);
    float *q = forward->convolved.data;
    return (struct delta_rule){.q = q,
                               .k = forward_rows_from(forward->convolved, keys).data,
                               .v = forward_rows_from(forward->convolved, 2 * (size_t)keys).data,
                               .q_stride = n_channels,
                               .k_stride = n_channels,
                               .v_stride = n_channels,
                               .decay = gate->decay,
                               .beta = gate->beta,
                               .decay_stride = gate->decay_stride,
                               .beta_stride = gate->beta_stride,
                               .o = forward_rows_from(forward->convolved, 2 * (size_t)keys).data,
                               .o_stride = n_channels,
                               .n_heads = sizes->n_heads,
                               .n_key_heads = sizes->n_key_heads,
                               .key_dim = sizes->key_dim,
                               .value_dim = sizes->value_dim,
                               .norm_eps = DELTA_NORM_EPS,
                               .heads_are_tiled = sizes->heads_are_tiled};
}

static struct gated_norm norm_of(const struct forward *forward, uint32_t layer,
                                 const struct delta_rule *rule, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    return (struct gated_norm){
        .x = rule->o,
        .z = forward_rows_from(forward->qkv, forward_recurrent_channels(forward->config)).data,
        .x_stride = rule->o_stride,
        .z_stride = forward->qkv_width,
        .w = weights->state_norm.data,
        .w_dtype = weights->state_norm.dtype,
        .y = forward->attended.data,
        .y_stride = forward_recurrent_values(forward->config),
        .n_rows = n_rows,
        .n_heads = rule->n_heads,
        .n = rule->value_dim,
        .eps = forward->config->norm_eps};
}

/* ---- creation ---- */

static enum status check_layer(const struct forward *forward, uint32_t layer, struct error *error)
{
    const struct causal_conv conv = conv_of(forward, layer);
    const struct delta_gate gate = gate_of(forward, layer, 0);
    const struct delta_rule rule = rule_of(forward, &gate);
    const struct gated_norm norm = norm_of(forward, layer, &rule, 0);
    TRY(causal_conv_check(&conv, error));
    TRY(delta_gate_check(&gate, error));
    TRY(delta_rule_check(&rule, error));
    return gated_norm_check(&norm, error);
}

enum status forward_create_recurrent(struct forward *forward, struct error *error)
{
    const struct model_config *config = forward->config;
    const size_t n = forward->options.sequences_max;
    struct recurrent_batch *batch = &forward->recurrent;
    if (state_layout_bytes(config) == 0)
        return STATUS_OK;
    assert(forward->kernels->delta_rule && "model_load refuses devices without it");
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        if (config->is_recurrent[layer])
            TRY(check_layer(forward, layer, error));
    batch->lens = calloc(n, sizeof *batch->lens);
    batch->blocks = calloc(n, sizeof *batch->blocks);
    batch->begins = calloc(n, sizeof *batch->begins);
    batch->parts = calloc(n * config->recurrent.n_heads, sizeof *batch->parts);
    if (batch->lens && batch->blocks && batch->begins && batch->parts)
        return STATUS_OK;
    return error_set(error, STATUS_NO_MEMORY, "no memory for the states of a step");
}

void forward_destroy_recurrent(struct forward *forward)
{
    state_layout_finish(&forward->recurrent.layout);
    free(forward->recurrent.lens);
    free((void *)forward->recurrent.blocks);
    free(forward->recurrent.begins);
    free(forward->recurrent.parts);
    forward->recurrent = (struct recurrent_batch){0};
}

enum status forward_attach_recurrent(struct forward *forward, const struct block_pool *pool,
                                     struct error *error)
{
    struct recurrent_batch *batch = &forward->recurrent;
    TRY(state_layout_create(forward->config, block_pool_block_bytes(pool), error, &batch->layout));
    if (batch->layout.n_blocks != forward->options.groups.n_state)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a sequence's recurrent state has %u blocks, the cache's groups have %u",
                         batch->layout.n_blocks, forward->options.groups.n_state);
    batch->pool = pool;
    return STATUS_OK;
}

/* ---- a step ---- */

void forward_take_state(struct forward *forward, const struct forward_sequence *sequence,
                        uint32_t i)
{
    assert(sequence->state_blocks && "the model has layers with recurrent state");
    forward->recurrent.lens[i] = sequence->n_query;
    forward->recurrent.blocks[i] = sequence->state_blocks;
    forward->recurrent.begins[i] = sequence->n_past == 0;
}

/* Points to the parts first .. first + n - 1 of the layer's states. */
static void point_at(const struct forward *forward, uint32_t n_sequences, uint32_t state,
                     uint32_t first, uint32_t n)
{
    const struct recurrent_batch *batch = &forward->recurrent;
    for (uint32_t i = 0; i < n_sequences; i++)
        for (uint32_t k = 0; k < n; k++) {
            const struct state_part part = state_layout_part(&batch->layout, state, first + k);
            uint8_t *block = block_pool_data(batch->pool, batch->blocks[i][part.block]);
            batch->parts[(size_t)i * n + k] = (float *)(void *)(block + part.at);
        }
}

/* [q | k | v | z | decay | beta] of each row */
static void project_inputs(const struct forward *forward, uint32_t layer, uint32_t n_rows)
{
    static const struct tensor NO_BIAS = {0};
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const struct tensor *const matrices[] = {&weights->q,     &weights->k,
                                             &weights->v,     &weights->output_gate,
                                             &weights->decay, &weights->beta};
    enum { N = sizeof matrices / sizeof *matrices };
    const struct rows x = forward_before_attention(forward, layer, n_rows);
    struct rows y = forward->qkv;
    struct gemm products[N];
    for (uint32_t i = 0; i < N; i++) {
        products[i] = forward_product(matrices[i], &NO_BIAS, x, y, n_rows);
        products[i].y_stride = forward->qkv_width;
        y = forward_rows_from(y, matrices[i]->n_out);
    }
    forward_multiply(forward, products, N);
}

void forward_recur(const struct forward *forward, const struct packed_step *packed, uint32_t layer)
{
    const struct kernels *kernels = forward->kernels;
    const struct recurrent_batch *batch = &forward->recurrent;
    const struct model_config *config = forward->config;
    const uint32_t n_rows = packed->n_tokens, n_sequences = packed->n_sequences;
    const uint32_t state = states_before(config, layer);
    project_inputs(forward, layer, n_rows);

    struct causal_conv conv = conv_of(forward, layer);
    conv.n_sequences = n_sequences;
    conv.lens = batch->lens;
    conv.begins = batch->begins;
    conv.states = batch->parts;
    point_at(forward, n_sequences, state, 0, 1);
    kernels->causal_conv(forward->threads, &conv);

    const struct delta_gate gate = gate_of(forward, layer, n_rows);
    kernels->delta_gate(forward->threads, &gate);

    struct delta_rule rule = rule_of(forward, &gate);
    rule.n_sequences = n_sequences;
    rule.lens = batch->lens;
    rule.begins = batch->begins;
    rule.states = batch->parts;
    point_at(forward, n_sequences, state, 1, config->recurrent.n_heads);
    kernels->delta_rule(forward->threads, &rule);

    const struct gated_norm norm = norm_of(forward, layer, &rule, n_rows);
    kernels->gated_norm(forward->threads, &norm);
}
