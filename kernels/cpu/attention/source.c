#include "kernels/cpu/attention/source.h"

#include "kernels/backend/kv_address.h"
#include "kernels/cpu/attention/kv_update_step.h"

#include <assert.h>

size_t source_gathered_bytes(uint32_t head_dim)
{
    return (size_t)2 * TILE_KEYS * head_dim * sizeof(float);
}

/* Finds the keys that no row sees in a StreamingLLM generation step: all its rows see the same keys. */
static void find_absent(struct source *source)
{
    const struct attention_config *config = &source->call->attention->host.config;
    const uint32_t window = attention_window_of(source->sequence, config->window);
    if (config->sink_tokens == 0 || source->sequence->phase == PHASE_CONTEXT ||
        source->sequence->kv_len <= window)
        return;
    source->absent = config->sink_tokens;
    source->present = source->sequence->kv_len - (window - config->sink_tokens);
}

void source_init(const struct attention_call *call, const struct row_block *block,
                 const char *staged, char *gathered, struct source *source_out)
{
    const struct attention_layer *layer = &call->attention->host;
    const struct attention_metadata *metadata = call->metadata;
    const struct attention_sequence *sequence = &metadata->sequences[block->sequence];
    enum attention_math math = block_math(call, block);
    bool is_narrow = dtype_is_8bit(layer->config.cache);
    bool turns = layer->config.sink_tokens != 0 && layer->n_rotary != 0;
    struct source source = {
        .call = call,
        .block = block,
        .sequence = sequence,
        .block_ids = kv_block_ids(&layer->config, sequence, block->beam),
        .n_keys = attention_math_is_int8(math) ? sequence->kv_len : block->end_key,
        .turns = turns,
        .rounds_k = math == MATH_FP8 && (layer->config.cache != DTYPE_E4M3 || turns),
        .rounds_v = (math == MATH_FP8 || math == MATH_INT8_PV_FP8) &&
                    layer->config.cache != DTYPE_E4M3,
        .k_unit = is_narrow ? 1 : layer->config.k_scale,
        .v_unit = math == MATH_INT8_PV_FP8 ? 0
                  : is_narrow              ? 1
                                           : layer->config.v_scale,
        .gathered = gathered,
    };
    if (is_staged(call, block->sequence)) {
        source.staged_first = sequence->kv_len - sequence->query_len;
        assert(staged);
        source.staged_stride = staged_stride(layer);
        source.head_bytes = staged_head_bytes(layer);
        source.staged = staged + metadata->kv_starts[block->sequence] * source.staged_stride +
                        2 * block->kv_head * source.head_bytes;
    }
    assert(block->kv_head < layer->config.n_kv_heads && source.n_keys <= sequence->kv_len);
    find_absent(&source);
    source.is_linear = !layer->config.is_cyclic && !sequence->cache_source && !source.turns &&
                       !source.rounds_k && !source.rounds_v;
    *source_out = source;
}

static const char *linear_key(const struct source *source, uint32_t index)
{
    return kv_slot_address(&source->call->metadata->kv,
                           source->call->attention->host.config.layer_index, source->block_ids,
                           source->block->kv_head, index);
}

/* The address of K of any key; *v_out is that of its V. */
static const char *find_key(const struct source *source, uint32_t index, const char **v_out)
{
    if (source->staged && index >= source->staged_first) {
        const char *k = source->staged + (index - source->staged_first) * source->staged_stride;
        *v_out = k + source->head_bytes;
        return k;
    }
    const char *k = kv_key_address(&source->call->attention->host, source->call->metadata,
                                   source->block->sequence, source->block->beam,
                                   source->block->kv_head, index);
    *v_out = k + source->call->metadata->kv.kv_stride;
    return k;
}

/* Divides a row by unit and rounds it to E4M3. */
static void round_row(uint32_t n, float unit, float *row)
{
    for (uint32_t i = 0; i < n; i++)
        row[i] = round_e4m3(row[i] / unit);
}

/* The same with a unit that depends on the row, and multiplies by it again. */
static void round_row_freely(uint32_t n, float *row)
{
    float largest = 0;
    for (uint32_t i = 0; i < n; i++)
        largest = fabsf(row[i]) > largest ? fabsf(row[i]) : largest;
    if (largest == 0)
        return;
    float unit = largest / 448;
    round_row(n, unit, row);
    for (uint32_t i = 0; i < n; i++)
        row[i] *= unit;
}

static void gather_k(const struct source *source, uint32_t index, const char *k, char *to)
{
    const struct attention_layer *layer = &source->call->attention->host;
    const struct attention_metadata *metadata = source->call->metadata;
    const struct attention_config *config = &layer->config;
    if (!source->turns && !source->rounds_k) {
        memcpy(to, k, config->head_dim * dtype_bytes(config->cache));
        return;
    }
    float *row = (float *)(void *)to;
    row_widen(config->cache, k, config->head_dim, row);
    if (source->turns) {
        uint32_t position = index < source->absent ? index
                                                   : index - (source->present - source->absent);
        size_t angle = (size_t)position * (layer->n_rotary / 2);
        row_turn(metadata->position_cos + angle, metadata->position_sin + angle, layer->n_rotary,
                 layer->is_interleaved, row);
    }
    if (source->rounds_k)
        round_row(config->head_dim, source->k_unit, row);
}

static void gather_v(const struct source *source, const char *v, char *to)
{
    const struct attention_config *config = &source->call->attention->host.config;
    if (!source->rounds_v) {
        memcpy(to, v, config->head_dim * dtype_bytes(config->cache));
        return;
    }
    float *row = (float *)(void *)to;
    row_widen(config->cache, v, config->head_dim, row);
    if (source->v_unit == 0)
        round_row_freely(config->head_dim, row);
    else
        round_row(config->head_dim, source->v_unit, row);
}

static void gather_strip(const struct source *source, uint32_t start, uint32_t strip,
                         struct tile *tile)
{
    uint32_t head_dim = source->call->attention->host.config.head_dim;
    size_t row_bytes = head_dim * sizeof(float);
    char *k_to = source->gathered + (size_t)strip * STRIP_KEYS * row_bytes;
    char *v_to = k_to + TILE_KEYS * row_bytes;
    tile->k.strips[strip] = k_to;
    tile->v.strips[strip] = v_to;
    tile->k.strides[strip] = tile->v.strides[strip] = row_bytes;
    for (uint32_t i = 0; i < STRIP_KEYS; i++, k_to += row_bytes, v_to += row_bytes) {
        uint32_t index = start + strip * STRIP_KEYS + i;
        if (index >= source->n_keys)
            return;
        if (index >= source->absent && index < source->present) {
            memset(k_to, 0, row_bytes);
            memset(v_to, 0, row_bytes);
            continue;
        }
        const char *v;
        const char *k = find_key(source, index, &v);
        gather_k(source, index, k, k_to);
        gather_v(source, v, v_to);
    }
}

/* Lists K of each strip of the keys start .. end - 1. Returns their number. */
static uint32_t list_strips(const struct source *source, uint32_t start, uint32_t end,
                            const char *strips_out[TILE_STRIPS])
{
    const struct kv_view *kv = &source->call->metadata->kv;
    uint32_t n_strips = 0;
    assert(end - start <= TILE_KEYS);
    for (uint32_t index = start; index < end;) {
        const char *strip = linear_key(source, index);
        uint32_t block_end = kv->is_contiguous ? end : (index | (kv->block_tokens - 1)) + 1;
        block_end = block_end < end ? block_end : end;
        for (; index < block_end; index += STRIP_KEYS, strip += STRIP_KEYS * kv->token_stride)
            strips_out[n_strips++] = strip;
    }
    return n_strips;
}

static void place_strips(const struct source *source, uint32_t start, uint32_t end,
                         struct tile *tile)
{
    const struct kv_view *kv = &source->call->metadata->kv;
    const uint32_t n_strips = list_strips(source, start, end, tile->k.strips);
    for (uint32_t strip = 0; strip < n_strips; strip++) {
        tile->v.strips[strip] = tile->k.strips[strip] + kv->kv_stride;
        tile->k.strides[strip] = tile->v.strides[strip] = kv->token_stride;
    }
}

static uint32_t tile_end(const struct source *source, uint32_t start)
{
    return start + TILE_KEYS < source->n_keys ? start + TILE_KEYS : source->n_keys;
}

/* Lists the keys of the next tile for prefetching. Blocks are short and at random places: prefetched one tile early, they
 * arrive nearly twice as fast. */
static void look_ahead(const struct source *source, uint32_t start, struct tile_ahead *ahead_out)
{
    const struct kv_view *kv = &source->call->metadata->kv;
    uint32_t n = 0;
    if (source->is_linear && start < source->n_keys)
        n = list_strips(source, start, tile_end(source, start), ahead_out->strips);
    for (uint32_t strip = 0; strip < n; strip++)
        ahead_out->strips[n + strip] = ahead_out->strips[strip] + kv->kv_stride;
    ahead_out->n_strips = 2 * n;
    ahead_out->strip = 0;
    ahead_out->bytes = STRIP_KEYS * kv->token_stride;
    ahead_out->byte = 0;
}

/* It sets fields one by one: to clear the others would take as long as to find the keys. */
void source_tile(const struct source *source, uint32_t start, struct tile *tile_out)
{
    const enum dtype cache = source->call->attention->host.config.cache;
    const uint32_t end = tile_end(source, start);
    tile_out->k.dtype = source->turns || source->rounds_k ? DTYPE_F32 : cache;
    tile_out->v.dtype = source->rounds_v ? DTYPE_F32 : cache;
    look_ahead(source, start + TILE_KEYS, &tile_out->ahead);
    if (source->is_linear) {
        place_strips(source, start, end, tile_out);
        return;
    }
    for (uint32_t strip = 0; start + strip * STRIP_KEYS < end; strip++)
        gather_strip(source, start, strip, tile_out);
}
