#include "kernels/cpu/attention/output.h"

#include <assert.h>

static void write_row(const struct attention_call *call, uint32_t token, uint32_t head,
                      const float *values, float lse)
{
    const struct attention_config *config = &call->attention->host.config;
    const struct attention_io *io = call->io;
    const bool is_e4m3 = config->output_scale != 0;
    const enum dtype dtype = is_e4m3 ? DTYPE_E4M3 : config->compute;
    assert(token < call->metadata->n_tokens && head < config->n_heads);
    uint64_t row = call->metadata->token_rows[token];
    uint64_t at = row * io->output_stride + (uint64_t)head * config->head_dim;
    row_narrow(values, config->head_dim, is_e4m3 ? config->output_scale : 1, dtype,
               (char *)io->output + at * dtype_bytes(dtype));
    if (io->lse)
        io->lse[row * config->n_heads + head] = lse;
}

/* The unit of cached V. */
static float value_unit(const struct attention_call *call, const struct row_block *block)
{
    const struct attention_config *config = &call->attention->host.config;
    bool is_scaled = dtype_is_8bit(config->cache) || block_math(call, block) == MATH_FP8;
    return is_scaled ? config->v_scale : 1;
}

void output_block(const struct attention_call *call, const struct row_block *block,
                  const struct partial *total)
{
    const struct attention_layer *layer = &call->attention->host;
    const uint32_t head_dim = layer->config.head_dim;
    const uint32_t dim = dim_padded(head_dim);
    const float unit = value_unit(call, block);
    for (uint32_t r = 0; r < block->n_rows; r++) {
        const struct query_row row = query_row_at(call, block, r);
        float values[HEAD_DIM_MAX];
        float largest = total->largest[r];
        float sum = vec_sum(vec_load(total->sums + (size_t)r * LANES));
        float keep = 1;
        if (layer->sinks && !(largest > layer->sinks[row.head])) {
            keep = expf(largest - layer->sinks[row.head]);
            largest = layer->sinks[row.head];
        }
        sum = sum * keep + (layer->sinks ? expf(layer->sinks[row.head] - largest) : 0);
        bool is_empty = largest == -INFINITY;
        float factor = is_empty ? 0 : keep * unit / sum;
        for (uint32_t i = 0; i < head_dim; i++)
            values[i] = total->out[(size_t)r * dim + i] * factor;
        write_row(call, row.token, row.head, values, is_empty ? -INFINITY : largest + logf(sum));
    }
}

void output_empty(const struct attention_call *call, uint32_t first)
{
    static const float zeros[HEAD_DIM_MAX];
    for (uint32_t token = first; token < call->metadata->n_tokens; token++)
        for (uint32_t head = 0; head < call->attention->host.config.n_heads; head++)
            write_row(call, token, head, zeros, -INFINITY);
}
