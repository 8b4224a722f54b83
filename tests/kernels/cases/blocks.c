#include "tests/kernels/cases/blocks.h"

#include "tests/kernels/support/values.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPARE_BLOCKS = 2 };

static uint32_t n_slots(const struct attention_case *c, uint32_t s, uint32_t window)
{
    uint32_t n = case_keys(c, s);
    return window != 0 && n > window ? window : n;
}

static void shuffle(uint32_t *ids, uint32_t n, uint64_t seed)
{
    uint64_t state = values_hash(seed);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = values_below(&state, i), id = ids[j];
        ids[j] = ids[i - 1];
        ids[i - 1] = id;
    }
}

/* Ids for every sequence and beam out of a shuffled pool. */
static uint32_t *deal_blocks(const struct attention_case *c, struct case_blocks *blocks,
                             uint32_t *n_blocks_out)
{
    uint32_t n = SPARE_BLOCKS;
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        uint32_t slots = n_slots(c, s, blocks->window);
        blocks->n_blocks[s] = c->is_contiguous ? 1
                                               : (slots + c->block_tokens - 1) / c->block_tokens;
        n += blocks->n_blocks[s] * c->sequences[s].n_beams;
    }
    uint32_t *ids = malloc(n * sizeof *ids);
    assert(ids);
    shuffle(ids, n, c->seed + 5);
    *n_blocks_out = n;
    uint32_t next = 0;
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        uint32_t n_of_sequence = blocks->n_blocks[s] * c->sequences[s].n_beams;
        uint32_t n_shared = c->sequences[s].prefix_len / c->block_tokens; /* of beam 0 */
        blocks->block_ids[s] = malloc(n_of_sequence * sizeof(uint32_t) + 1);
        assert(blocks->block_ids[s]);
        for (uint32_t i = 0; i < n_of_sequence; i++)
            blocks->block_ids[s][i] = i < n_shared ? blocks->block_ids[0][i] : ids[next++];
    }
    return ids;
}

/* Every stride larger than what lies inside: rows of a token, tokens, heads, K and V, layers. */
static void add_gaps(struct kv_view *kv, uint32_t n_kv_heads, uint64_t element)
{
    kv->token_stride += element;
    kv->head_stride = kv->token_stride * kv->block_tokens + 2 * element;
    kv->kv_stride = kv->head_stride * n_kv_heads + 3 * element;
    kv->layer_stride = kv->kv_stride * 2 + 4 * element;
    kv->block_stride = kv->layer_stride * kv->n_layers + 5 * element;
}

void case_blocks_init(const struct case_data *data, uint32_t group, struct case_blocks *blocks_out)
{
    const struct attention_case *c = data->test_case;
    uint32_t n_layers = 1, n_blocks, block_tokens = c->block_tokens;
    *blocks_out = (struct case_blocks){0};
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        if (data->layer_groups[layer] == group) {
            n_layers++;
            blocks_out->window = c->is_cyclic ? data->layer_windows[layer] : 0;
        }
    free(deal_blocks(c, blocks_out, &n_blocks));
    if (c->is_contiguous) {
        block_tokens = 1;
        for (uint32_t s = 0; s < c->n_sequences; s++)
            if (n_slots(c, s, blocks_out->window) > block_tokens)
                block_tokens = n_slots(c, s, blocks_out->window);
    }
    blocks_out->kv = kv_view_dense(NULL, n_blocks, n_layers, c->n_kv_heads, block_tokens,
                                   c->head_dim, c->cache);
    blocks_out->kv.is_contiguous = c->is_contiguous;
    if (c->has_gaps)
        add_gaps(&blocks_out->kv, c->n_kv_heads, dtype_bytes(c->cache));
    blocks_out->memory = guarded_create(n_blocks * blocks_out->kv.block_stride);
    blocks_out->kv.base = blocks_out->memory.data;
    blocks_out->is_written = calloc(n_blocks, block_tokens);
    assert(blocks_out->is_written);
}

void case_blocks_finish(struct case_blocks *blocks)
{
    for (uint32_t s = 0; s < CASE_SEQUENCES_MAX; s++)
        free(blocks->block_ids[s]);
    free(blocks->is_written);
}

/* The number in is_written of the slot of a key of a sequence's beam. */
static size_t slot_at(const struct case_data *data, uint32_t s, uint32_t beam, uint32_t index,
                      const struct case_blocks *blocks)
{
    uint32_t slot = kv_slot(index, blocks->window, data->test_case->sink_tokens);
    uint32_t block_tokens = blocks->kv.block_tokens;
    uint32_t id = blocks->block_ids[s][beam * blocks->n_blocks[s] + slot / block_tokens];
    return (size_t)id * block_tokens + slot % block_tokens;
}

void case_blocks_note(const struct case_data *data, uint32_t s, uint32_t beam, uint32_t index,
                      struct case_blocks *blocks)
{
    blocks->is_written[slot_at(data, s, beam, index, blocks)] = 1;
}

static bool is_poison(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0xff)
            return false;
    return true;
}

static size_t row_bytes(const struct case_data *data)
{
    return data->test_case->head_dim * dtype_bytes(data->test_case->cache);
}

/* Where the rows of a token are, from the first byte of the pool. half: 0 K, 1 V. */
static size_t row_at(const struct kv_view *kv, uint32_t block, uint32_t layer, uint32_t token,
                     uint32_t half, uint32_t head)
{
    return block * kv->block_stride + layer * kv->layer_stride + half * kv->kv_stride +
           head * kv->head_stride + token * kv->token_stride;
}

void case_blocks_forget(const struct case_data *data, uint32_t s, uint32_t end,
                        struct case_blocks *blocks)
{
    const struct kv_view *kv = &blocks->kv;
    const struct attention_case *c = data->test_case;
    uint8_t *pool = kv->base;
    for (uint32_t beam = 0; beam < c->sequences[s].n_beams; beam++)
        for (uint32_t index = 0; index < end; index++) {
            const size_t at = slot_at(data, s, beam, index, blocks);
            const uint32_t block = (uint32_t)(at / kv->block_tokens);
            if (!blocks->is_written[at])
                continue;
            blocks->is_written[at] = 0;
            for (uint32_t layer = 0; layer < kv->n_layers; layer++)
                for (uint32_t i = 0; i < 2 * c->n_kv_heads; i++)
                    memset(pool + row_at(kv, block, layer, (uint32_t)(at % kv->block_tokens), i % 2,
                                         i / 2),
                           0xff, row_bytes(data));
        }
}

static bool is_untouched(const struct case_data *data, const struct case_blocks *blocks,
                         uint32_t block, uint32_t layer, uint32_t token)
{
    const uint8_t *pool = blocks->kv.base;
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t head = 0; head < data->test_case->n_kv_heads; head++)
            if (!is_poison(pool + row_at(&blocks->kv, block, layer, token, half, head),
                           row_bytes(data)))
                return false;
    return true;
}

/* A copy of the pool whose rows are poisoned again is poison all over. */
static bool are_gaps_untouched(const struct case_data *data, const struct case_blocks *blocks)
{
    const struct kv_view *kv = &blocks->kv;
    const size_t bytes = kv->n_blocks * kv->block_stride;
    uint8_t *copy = malloc(bytes);
    assert(copy);
    memcpy(copy, kv->base, bytes);
    for (uint32_t block = 0; block < kv->n_blocks; block++)
        for (uint32_t layer = 0; layer < kv->n_layers; layer++)
            for (uint32_t token = 0; token < kv->block_tokens; token++)
                for (uint32_t half = 0; half < 2; half++)
                    for (uint32_t head = 0; head < data->test_case->n_kv_heads; head++)
                        memset(copy + row_at(kv, block, layer, token, half, head), 0xff,
                               row_bytes(data));
    bool is_same = is_poison(copy, bytes);
    free(copy);
    return is_same;
}

/* Layer 0 of the pool is nobody's. */
void case_blocks_check(const struct case_data *data, const struct case_blocks *blocks,
                       struct case_result *result)
{
    const struct kv_view *kv = &blocks->kv;
    for (uint32_t block = 0; block < kv->n_blocks; block++)
        for (uint32_t token = 0; token < kv->block_tokens; token++)
            for (uint32_t layer = 0; layer < kv->n_layers; layer++) {
                bool may_be = layer > 0 && blocks->is_written[block * kv->block_tokens + token];
                if (may_be == is_untouched(data, blocks, block, layer, token))
                    case_complain(result, "slot %u of block %u, layer %u of its group: %s", token,
                                  block, layer, may_be ? "not written" : "written by mistake");
            }
    if (data->test_case->has_gaps && !are_gaps_untouched(data, blocks))
        case_complain(result, "a gap of the cache was written");
}
