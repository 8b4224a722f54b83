/* transfer_plan: every element goes to its place once, whatever the block sizes and types, as a naive walk over tokens says. */
#include "kvtransfer/transfer_plan.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, HEADS = 3, DIM = 8, TOKENS = 256 };

static const uint32_t SIZES[] = {8, 16, 32, 64, 128};
enum { N_SIZES = sizeof SIZES / sizeof *SIZES };

/* One row a token and layer, which is K and V. */
static struct geometry latents_of(uint32_t block_tokens, enum kv_dtype dtype)
{
    return (struct geometry){.n_layers = LAYERS,
                             .n_kv_heads = 1,
                             .head_dim = DIM,
                             .block_tokens = block_tokens,
                             .dtype = dtype,
                             .latent_dim = DIM - 1};
}

static struct geometry geometry_of(uint32_t block_tokens, enum kv_dtype dtype)
{
    return (struct geometry){.n_layers = LAYERS,
                             .n_kv_heads = HEADS,
                             .head_dim = DIM,
                             .block_tokens = block_tokens,
                             .dtype = dtype};
}

/* A number of its own for each element; its value in a type of two bytes is the lower half. */
static uint32_t element(uint32_t row, uint32_t token, uint32_t dim, uint32_t n_dims)
{
    return (row * TOKENS + token) * n_dims + dim + 1;
}

static void put_element(enum kv_dtype dtype, uint8_t *at, uint32_t value)
{
    memcpy(at, &value, kv_dtype_bytes(dtype)); /* little-endian */
}

static void convert(enum kv_dtype from_dtype, const void *from, enum kv_dtype to_dtype, void *to,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t value = 0;
        memcpy(&value, (const uint8_t *)from + i * kv_dtype_bytes(from_dtype),
               kv_dtype_bytes(from_dtype));
        put_element(to_dtype, (uint8_t *)to + i * kv_dtype_bytes(to_dtype), value);
    }
}

/* Two groups whose layers have other heads: blocks of 5 places of 8 elements have padding. */
static struct geometry unequal_of(uint32_t block_tokens, enum kv_dtype dtype)
{
    struct geometry geometry = geometry_of(block_tokens, dtype);
    geometry.n_layers = 6;
    geometry.groups = (struct cache_groups){2, 5, {{1, 0, {1, 24}}, {5, 0, {1, 8}}}, 0};
    return geometry;
}

/* All blocks of the sequence and the group, one behind the other. */
static uint8_t *naive(const struct geometry *geometry, uint32_t group, uint32_t first, uint32_t end)
{
    const struct cache_heads heads = geometry_heads(geometry, group);
    const size_t block_bytes = geometry_block_bytes(geometry);
    const size_t bytes = kv_dtype_bytes(geometry->dtype);
    const uint32_t n_rows = geometry_layers_of_block(geometry, group) * geometry_rows(geometry) *
                            heads.n;
    uint8_t *blocks = malloc(TOKENS / geometry->block_tokens * block_bytes);
    memset(blocks, 0xee, TOKENS / geometry->block_tokens * block_bytes);
    for (uint32_t token = first; token < end; token++)
        for (uint32_t row = 0; row < n_rows; row++)
            for (uint32_t dim = 0; dim < heads.dim; dim++) {
                const size_t within = ((size_t)row * geometry->block_tokens +
                                       token % geometry->block_tokens) *
                                          heads.dim +
                                      dim;
                put_element(geometry->dtype,
                            blocks + token / geometry->block_tokens * block_bytes + within * bytes,
                            element(row, token, dim, heads.dim));
            }
    return blocks;
}

static void check_group(const struct geometry *theirs, const struct geometry *ours, uint32_t group,
                        uint32_t first, uint32_t end)
{
    const struct transfer_plan plan = transfer_plan_of(theirs, ours, convert);
    const size_t from_bytes = geometry_block_bytes(theirs), to_bytes = geometry_block_bytes(ours);
    const size_t all_bytes = TOKENS / ours->block_tokens * to_bytes;
    const uint32_t first_span = first / ours->block_tokens;
    uint8_t *sent = naive(theirs, group, 0, TOKENS), *expected = naive(ours, group, first, end);
    uint8_t *got = malloc(all_bytes), *spans[TOKENS / GEOMETRY_BLOCK_TOKENS_MIN];
    memset(got, 0xee, all_bytes);
    for (uint32_t i = first_span; i < TOKENS / ours->block_tokens; i++)
        spans[i - first_span] = got + i * to_bytes;
    for (uint32_t at = first / theirs->block_tokens * theirs->block_tokens; at < end;
         at += theirs->block_tokens)
        transfer_plan_put(&plan, group, sent + at / theirs->block_tokens * from_bytes, at,
                          &(struct transfer_target){first, end, first_span, spans});
    cr_assert_arr_eq(got, expected, all_bytes, "blocks of %u %s to %u %s, tokens %u to %u",
                     theirs->block_tokens, kv_dtype_name(theirs->dtype), ours->block_tokens,
                     kv_dtype_name(ours->dtype), first, end);
    free(sent);
    free(expected);
    free(got);
}

static void check(const struct geometry *theirs, const struct geometry *ours, uint32_t first,
                  uint32_t end)
{
    for (uint32_t group = 0; group < cache_groups_count(&theirs->groups); group++)
        check_group(theirs, ours, group, first, end);
}

Test(transfer_plan, each_element_is_where_a_naive_walk_puts_it)
{
    static const enum kv_dtype TYPES[][2] = {{KV_BF16, KV_BF16},
                                             {KV_F32, KV_F32},
                                             {KV_F16, KV_F32},
                                             {KV_F32, KV_BF16},
                                             {KV_INT8, KV_INT8}};
    static const uint32_t ENDS[] = {1, 7, 8, 100, 129, 255, 256};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (size_t a = 0; a < N_SIZES; a++)
            for (size_t b = 0; b < N_SIZES; b++)
                for (size_t e = 0; e < sizeof ENDS / sizeof *ENDS; e++) {
                    const struct geometry theirs = geometry_of(SIZES[a], TYPES[t][0]);
                    const struct geometry ours = geometry_of(SIZES[b], TYPES[t][1]);
                    check(&theirs, &ours, 0, ENDS[e]);
                    for (uint32_t held = SIZES[b]; held < ENDS[e]; held += SIZES[b])
                        check(&theirs, &ours, held, ENDS[e]);
                }
}

Test(transfer_plan, so_it_is_with_one_row_a_token_and_layer)
{
    static const enum kv_dtype TYPES[][2] = {{KV_BF16, KV_BF16}, {KV_F16, KV_F32}};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (size_t a = 0; a < N_SIZES; a++)
            for (size_t b = 0; b < N_SIZES; b++) {
                const struct geometry theirs = latents_of(SIZES[a], TYPES[t][0]);
                const struct geometry ours = latents_of(SIZES[b], TYPES[t][1]);
                for (uint32_t held = 0; held < 200; held += SIZES[b])
                    check(&theirs, &ours, held, 200);
            }
}

Test(transfer_plan, so_it_is_with_groups_whose_heads_differ)
{
    static const enum kv_dtype TYPES[][2] = {{KV_BF16, KV_BF16}, {KV_F16, KV_F32}};
    for (size_t t = 0; t < sizeof TYPES / sizeof *TYPES; t++)
        for (size_t a = 0; a < N_SIZES; a++)
            for (size_t b = 0; b < N_SIZES; b++) {
                const struct geometry theirs = unequal_of(SIZES[a], TYPES[t][0]);
                const struct geometry ours = unequal_of(SIZES[b], TYPES[t][1]);
                for (uint32_t held = 0; held < 200; held += SIZES[b])
                    check(&theirs, &ours, held, 200);
            }
}

/* A bit for each element of the block of theirs. */
Test(transfer_plan, the_runs_of_a_block_have_each_element_once)
{
    for (size_t a = 0; a < N_SIZES; a++)
        for (size_t b = 0; b < N_SIZES; b++) {
            const struct geometry theirs = geometry_of(SIZES[a], KV_BF16);
            const struct geometry ours = geometry_of(SIZES[b], KV_F32);
            const struct transfer_plan plan = transfer_plan_of(&theirs, &ours, convert);
            const size_t run = (size_t)plan.run_tokens * DIM * 2,
                         bytes = geometry_block_bytes(&theirs);
            uint8_t *times = calloc(1, bytes);
            for (uint32_t i = 0; i < transfer_plan_n_runs(&plan, 0); i++) {
                const struct transfer_run at = transfer_plan_run(&plan, 0, 128, i);
                cr_assert_leq(at.to + (size_t)plan.run_tokens * DIM * 4,
                              geometry_block_bytes(&ours));
                for (size_t k = 0; k < run; k++)
                    times[at.from + k]++;
            }
            for (size_t k = 0; k < bytes; k++)
                cr_assert_eq(times[k], 1);
            free(times);
        }
}
