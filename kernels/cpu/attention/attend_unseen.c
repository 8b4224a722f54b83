#include "kernels/cpu/attention/attend_unseen.h"

#include "kernels/cpu/attention/attend_tile.h"

#include <assert.h>

static_assert(TILE_KEYS == 64, "a bit a key");

/* The keys that every row sees. It has no branches, because every tile calls it. */
static struct seen seen_by_all(const struct seen *seen, uint32_t n_rows)
{
    uint32_t first = 0, end = TILE_KEYS, sees_nothing = 0;
    for (uint32_t i = 0; i < n_rows; i++) {
        first = seen[i].first > first ? seen[i].first : first;
        end = seen[i].end < end ? seen[i].end : end;
        sees_nothing |= seen[i].first == seen[i].end;
    }
    return first < end && !sees_nothing ? (struct seen){first, end} : (struct seen){0, 0};
}

/* Whether the score of a key that is inside the interval of a row may be -inf. */
static bool hides_keys(const struct attend *attend)
{
    const struct attention_config *config = &attend->call->attention->host.config;
    const struct attention_sequence *sequence = attend->source.sequence;
    return config->mask_input != MASK_INPUT_NONE || config->bias.table || config->bias.buckets ||
           sequence->draft_mask;
}

/* Adds 0 times each element of a key's V: this gives 0, or NaN if the element is not finite. */
INLINE void add_poison(const enum dtype dtype, const struct tile_rows *v, uint32_t key,
                       uint32_t head_dim, vec *poison)
{
    const size_t bytes = dtype_bytes(dtype);
    const char *row = v->strips[key / STRIP_KEYS] + key % STRIP_KEYS * v->strides[key / STRIP_KEYS];
    uint32_t i = 0;
    for (; i + LANES <= head_dim; i += LANES)
        *poison = vec_fma(vec_load_as(dtype, row + i * bytes), vec_zero(), *poison);
    if (i < head_dim)
        *poison = vec_fma(vec_load_some(dtype, row + i * bytes, head_dim - i), vec_zero(), *poison);
}

/* Whether V is finite in keys, without the keys of all. */
static bool are_finite(const struct tile_rows *v, struct seen keys, struct seen all,
                       uint32_t head_dim)
{
    vec poison = vec_zero();
    for (uint32_t j = keys.first; j < keys.end; j++)
        if (j < all.first || j >= all.end)
            FOR_DTYPE(v->dtype, add_poison, v, j, head_dim, &poison);
    return vec_sum(poison) == 0;
}

static uint64_t hidden_keys(uint64_t keys, struct seen seen, const float *scores)
{
    uint64_t hidden = 0;
    for (; keys != 0; keys &= keys - 1) {
        uint32_t j = (uint32_t)__builtin_ctzll(keys);
        if (j < seen.first || j >= seen.end || scores[j] == -INFINITY)
            hidden |= 1ull << j;
    }
    return hidden;
}

bool unseen_find(const struct attend *attend, const struct seen *seen, const struct tile_rows *v,
                 struct unseen *unseen_out)
{
    const uint32_t n_rows = attend->block->n_rows;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const struct seen some = seen_together(seen, n_rows), none = {0, 0};
    const struct seen all = hides_keys(attend) ? none : seen_by_all(seen, n_rows);
    unseen_out->keys = 0;
    if (v->dtype == DTYPE_INT8 || (some.first == all.first && some.end == all.end) ||
        are_finite(v, some, all, head_dim))
        return false;
    for (uint32_t j = some.first; j < some.end; j++)
        if (!are_finite(v, (struct seen){j, j + 1}, all, head_dim))
            unseen_out->keys |= 1ull << j;
    return true;
}

void unseen_hide(const struct attend *attend, const struct seen *seen, struct unseen *unseen)
{
    assert(unseen->keys != 0);
    for (uint32_t r = 0; r < attend->block->n_rows; r++)
        unseen->hidden[r] = hidden_keys(unseen->keys, seen[r],
                                        attend->scratch->scores + (size_t)r * TILE_KEYS);
}

/* Widens V of the tile into scratch->v, with zeros for hidden keys. */
static void widen_shown(const struct attend *attend, uint64_t hidden, uint32_t n_keys,
                        const struct tile_rows *v, struct tile_rows *wide_out)
{
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    const size_t dim = dim_padded(head_dim);
    struct tile_ahead nothing = {.n_strips = 0};
    tile_widen(v, n_keys, head_dim, &nothing, attend->scratch->v, wide_out);
    for (; hidden != 0; hidden &= hidden - 1)
        memset(attend->scratch->v + (size_t)__builtin_ctzll(hidden) * dim, 0, dim * sizeof(float));
}

void unseen_outputs(const struct attend *attend, const struct unseen *unseen, uint32_t start,
                    const struct seen *seen, const float *keep, struct tile *tile,
                    struct partial *partial)
{
    const uint32_t n_rows = attend->block->n_rows;
    const uint32_t n_keys = seen_together(seen, n_rows).end;
    const size_t dim = dim_padded(attend->call->attention->host.config.head_dim);
    struct row_block block = *attend->block;
    struct attend_scratch scratch = *attend->scratch;
    struct attend one = *attend;
    one.block = &block;
    one.scratch = &scratch;
    block.n_rows = 1;
    for (uint32_t r = 0; r < n_rows; r++) {
        struct partial row = {.largest = partial->largest + r,
                              .sums = partial->sums + r * (size_t)LANES,
                              .out = partial->out + r * dim};
        struct tile shown = {.ahead = {.n_strips = 0}};
        widen_shown(attend, unseen->hidden[r], n_keys, &tile->v, &shown.v);
        attend_outputs(&one, start, seen + r, keep + r, &shown, &row);
        scratch.scores += TILE_KEYS;
    }
}
