#include "kernels/cpu/attention/query.h"

#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/attention_step_check.h"

#include <assert.h>

/* a - b, at least 0, at most n. */
static uint32_t clamped(uint64_t a, uint64_t b, uint32_t n)
{
    uint64_t difference = a > b ? a - b : 0;
    return difference < n ? (uint32_t)difference : n;
}

/* The keys that mask and window let a row see. */
static void find_keys(const struct attention_config *config,
                      const struct attention_sequence *sequence, struct query_row *row)
{
    uint64_t index = row->index;
    uint32_t n_keys = sequence->kv_len;
    if (config->mask == MASK_CAUSAL)
        row->end = clamped(index + 1, sequence->key_index, n_keys);
    else if (config->mask == MASK_CAUSAL_UPPER_LEFT)
        row->end = clamped((uint64_t)row->query + 1, sequence->key_index, n_keys);
    else
        row->end = n_keys;
    if (config->window != 0 && config->sink_tokens == 0)
        row->first = clamped(index + 1, (uint64_t)config->window + sequence->key_index, row->end);
    const uint32_t window = attention_window_of(sequence, config->window);
    if (config->sink_tokens != 0 && sequence->phase == PHASE_GENERATION && index >= window) {
        row->absent = config->sink_tokens;
        row->present = row->index + 1 - (window - config->sink_tokens);
    }
    assert(row->first <= row->end && row->end <= n_keys);
}

/* Draft tokens are the last of the sequence: the mask decides which of them a row sees. */
static void find_draft(const struct attention_config *config,
                       const struct attention_sequence *sequence, struct query_row *row)
{
    row->draft = row->end;
    if (!sequence->draft_mask)
        return;
    uint32_t first = row->index - row->query; /* draft token 0 */
    row->draft_mask = sequence->draft_mask[row->query];
    row->draft = (int64_t)first - sequence->key_index;
    row->end = clamped((uint64_t)first + sequence->query_len, sequence->key_index,
                       sequence->kv_len);
    if (config->window == 0)
        row->first = 0;
}

struct query_row query_row_at(const struct attention_call *call, const struct row_block *block,
                              uint32_t r)
{
    const struct attention_metadata *metadata = call->metadata;
    const struct attention_config *config = &call->attention->host.config;
    const struct attention_sequence *sequence = &metadata->sequences[block->sequence];
    uint32_t query = (block->row + r) / block->n_heads;
    assert(r < block->n_rows && query < sequence->query_len);
    uint32_t token = metadata->token_starts[block->sequence] + block->beam * sequence->query_len +
                     query;
    struct query_row row = {.token = token,
                            .head = block->first_head + (block->row + r) % block->n_heads,
                            .query = query,
                            .index = metadata->indices[token]};
    find_keys(config, sequence, &row);
    find_draft(config, sequence, &row);
    return row;
}

/* The factor of Q. It includes k_scale, since cached K is in units of k_scale. */
static float query_factor(const struct attention_call *call, const struct row_block *block)
{
    const struct attention_layer *layer = &call->attention->host;
    float factor = layer->scale;
    if (block_math(call, block) == MATH_FP8)
        return factor * layer->config.q_scale * layer->config.k_scale;
    return dtype_is_8bit(layer->config.cache) ? factor * layer->config.k_scale : factor;
}

void query_load(const struct attention_call *call, const struct row_block *block,
                const struct query_row *row, float *q_out)
{
    const struct attention_layer *layer = &call->attention->host;
    const struct attention_config *config = &layer->config;
    const struct attention_metadata *metadata = call->metadata;
    const uint32_t n = config->head_dim;
    uint64_t at = metadata->token_rows[row->token] * call->io->q_stride + (uint64_t)row->head * n;
    row_widen(config->compute, (const char *)call->io->q + at * dtype_bytes(config->compute), n,
              q_out);
    if (layer->q_bias)
        for (uint32_t i = 0; i < n; i++)
            q_out[i] += layer->q_bias[(size_t)row->head * n + i];
    if (layer->q_norm)
        row_norm(q_out, DTYPE_F32, layer->q_norm, n, config->norm_eps, q_out);
    if (layer->n_rotary != 0) {
        uint32_t rope = attention_rope_index(layer, metadata);
        size_t angle = (size_t)row->token * (layer->n_rotary / 2);
        row_turn(metadata->q_cos[rope] + angle, metadata->q_sin[rope] + angle, layer->n_rotary,
                 layer->is_interleaved, q_out);
    }
    if (block_math(call, block) == MATH_FP8)
        for (uint32_t i = 0; i < n; i++)
            q_out[i] = round_e4m3(q_out[i] / config->q_scale);
    float factor = query_factor(call, block);
    for (uint32_t i = 0; i < n; i++)
        q_out[i] *= factor;
}
