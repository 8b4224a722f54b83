/*
 * attention_row - computes softmax(scores) V of one query head, by the formulas of attention.h.
 */
#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/position_bias.h"
#include "kernels/reference/attention_call.h"
#include "kernels/reference/head.h"

#include <assert.h>
#include <math.h>

#define LOG_2 0.69314718055994530942

/* MATH_BF16, MATH_FP16: the factor of Q before it is rounded. Cached K is in units of k_scale. */
static double q_factor(const struct attention_layer *layer)
{
    bool is_scaled = dtype_is_8bit(layer->config.cache);
    return (double)layer->scale * (is_scaled ? (double)layer->config.k_scale : 1);
}

/* Applies bias, norm and RoPE to the query. */
static void make_q(const struct attention_row *row, double *q_out)
{
    const struct attention_layer *layer = row->call->layer;
    const struct attention_metadata *metadata = row->call->metadata;
    uint32_t n = layer->config.head_dim;
    size_t first = (size_t)row->head * n;
    enum dtype half;
    uint32_t rope = attention_rope_index(layer, metadata);
    size_t angle = (size_t)row->token * (layer->n_rotary / 2);
    head_load(layer->config.compute, row->call->io->q,
              metadata->token_rows[row->token] * row->call->io->q_stride + first, n, q_out);
    if (layer->q_bias)
        head_add(DTYPE_F32, layer->q_bias + first, n, q_out);
    if (layer->q_norm)
        head_norm(layer->q_norm, n, (double)layer->config.norm_eps, q_out);
    if (layer->n_rotary)
        head_turn(metadata->q_cos[rope] + angle, metadata->q_sin[rope] + angle, layer->n_rotary,
                  layer->is_interleaved, q_out);
    if (row->math == MATH_FP8)
        head_round_e4m3((double)layer->config.q_scale, n, q_out);
    if (attention_math_half(row->math, &half))
        head_round_half(half, 1 / q_factor(layer), n, q_out);
}

/* A24, A33: key is an index in the sequence. */
static bool mask_shows(const struct attention_row *row, uint32_t key)
{
    const struct attention_sequence *sequence = row->sequence;
    uint32_t first_query = row->index - row->query;
    if (sequence->draft_mask && key >= first_query)
        return key - first_query < sequence->query_len &&
               (sequence->draft_mask[row->query] >> (key - first_query) & 1);
    switch (row->call->layer->config.mask) {
    case MASK_CAUSAL:
        return key <= row->index;
    case MASK_CAUSAL_UPPER_LEFT:
        return key <= row->query;
    case MASK_BIDIRECTIONAL:
        break;
    }
    return true;
}

/* A13: the last window keys. A16: the sinks and the last window - sink_tokens keys; in a context all keys. */
static bool window_shows(const struct attention_row *row, uint32_t key)
{
    const struct attention_config *config = &row->call->layer->config;
    bool is_streaming = config->sink_tokens != 0;
    if (config->window == 0 || (is_streaming && row->sequence->phase == PHASE_CONTEXT))
        return true;
    if (key < config->sink_tokens || key > row->index)
        return true;
    return row->index - key <
           attention_window_of(row->sequence, config->window) - config->sink_tokens;
}

/* A24: the summand of the given mask; -inf hides the key. */
static double mask_input(const struct attention_row *row, uint32_t key)
{
    const struct attention_io *io = row->call->io;
    uint32_t query = row->token - row->call->metadata->token_starts[row->sequence_index];
    uint64_t at = row->sequence_index * io->mask_sequence_stride + query * io->mask_query_stride +
                  key;
    switch (row->call->layer->config.mask_input) {
    case MASK_INPUT_BOOL:
        return ((const uint8_t *)io->mask)[at] ? 0 : -INFINITY;
    case MASK_INPUT_FLOAT:
        return (double)((const float *)io->mask)[at];
    case MASK_INPUT_NONE:
        break;
    }
    return 0;
}

/* A19, A22, A23 */
static double position_bias(const struct attention_row *row, uint32_t key)
{
    const struct attention_layer *layer = row->call->layer;
    const struct attention_bias *bias = &layer->config.bias;
    int64_t distance = (int64_t)key - (int64_t)row->index;
    double sum = 0;
    if (layer->slopes)
        sum += (double)layer->slopes[row->head] * (double)distance;
    if (bias->table)
        sum += (double)bias
                   ->table[((size_t)row->head * bias->n_queries + row->index) * bias->n_keys + key];
    if (bias->buckets)
        sum += (double)bias->buckets[(size_t)row->head * bias->n_buckets +
                                     t5_bucket(distance, bias->n_buckets, bias->distance_max,
                                               bias->is_bidirectional)];
    return sum;
}

/* s[i][j] of the key with this index in the cache. -inf: the row does not see it; then K is not read. */
static double score(const struct attention_row *row, const double *q, uint32_t index)
{
    const struct attention_layer *layer = row->call->layer;
    uint32_t key = row->key_index + index;
    double mask = mask_shows(row, key) && window_shows(row, key) ? mask_input(row, key) : -INFINITY;
    if (mask == -INFINITY)
        return mask;
    const double *k = attention_keys_k(row, index);
    double dot = 0;
    for (uint32_t i = 0; i < layer->config.head_dim; i++)
        dot += q[i] * k[i];
    double cap = (double)layer->config.soft_cap;
    double scaled = dot * (double)layer->scale;
    return (cap != 0 ? cap * tanh(scaled / cap) : scaled) + position_bias(row, key) + mask;
}

/* Fills the row of scores. Returns the largest. */
static double make_scores(const struct attention_row *row, double *scores_out)
{
    double q[HEAD_DIM_MAX];
    double largest = -INFINITY;
    make_q(row, q);
    for (uint32_t j = 0; j < row->sequence->kv_len; j++) {
        scores_out[j] = score(row, q, j);
        largest = fmax(largest, scores_out[j]);
    }
    return largest;
}

static void store_row(const struct attention_row *row, const double *sums, double total, double lse)
{
    const struct attention_config *config = &row->call->layer->config;
    const struct attention_io *io = row->call->io;
    uint64_t output_row = row->call->metadata->token_rows[row->token];
    uint64_t first = output_row * io->output_stride + (uint64_t)row->head * config->head_dim;
    for (uint32_t i = 0; i < config->head_dim; i++) {
        float x = total == 0 ? 0 : (float)(sums[i] / total);
        if (config->output_scale != 0)
            dtype_store(DTYPE_E4M3, io->output, first + i, x / config->output_scale);
        else
            dtype_store(config->compute, io->output, first + i, x);
    }
    if (io->lse)
        io->lse[output_row * config->n_heads + row->head] = (float)lse;
}

/* m of exp(s - m): the largest score; for MATH_FP8, MATH_BF16 and MATH_FP16 see enum attention_math. */
static double reference_score(const struct attention_row *row, double largest)
{
    const float *sinks = row->call->layer->sinks;
    enum dtype half;
    bool is_whole = row->math == MATH_FP8 || attention_math_half(row->math, &half);
    if (is_whole && largest != -INFINITY)
        return ceil(largest / LOG_2) * LOG_2;
    return sinks ? fmax(largest, (double)sinks[row->head]) : largest;
}

static void attend(const struct attention_row *row)
{
    const struct attention_layer *layer = row->call->layer;
    double *scores = row->call->metadata->workspace->scores;
    double sums[HEAD_DIM_MAX] = {0};
    enum dtype half;
    const bool rounds_p = attention_math_half(row->math, &half);
    double m = reference_score(row, make_scores(row, scores));
    const bool has_sink = layer->sinks && layer->sinks[row->head] != -INFINITY;
    double total = has_sink ? exp((double)layer->sinks[row->head] - m) : 0;
    for (uint32_t j = 0; j < row->sequence->kv_len; j++) {
        if (scores[j] == -INFINITY)
            continue;
        double p = exp(scores[j] - m);
        total += p;
        if (row->math == MATH_FP8)
            p = (double)e4m3_to_f32(e4m3_from_f32((float)(256 * p))) / 256;
        if (rounds_p)
            head_round_half(half, 1, 1, &p);
        const double *v = attention_keys_v(row, j);
        for (uint32_t i = 0; i < layer->config.head_dim; i++)
            sums[i] += p * v[i];
    }
    store_row(row, sums, total, total == 0 ? -INFINITY : m + log(total));
}

void attention_row_run(const struct attention_row *row)
{
    static const double nothing[HEAD_DIM_MAX];
    assert(row->query < row->sequence->query_len);
    assert(row->head / row->call->layer->group == row->kv_head);
    if (row->call->metadata->is_dummy || row->sequence->is_dummy)
        store_row(row, nothing, 0, -INFINITY);
    else
        attend(row);
}
