#include "kernels/cpu/attention/attend_products.h"

void attend_multiply_keys(const struct attend *attend, const struct seen *seen,
                          struct tile_ahead *ahead)
{
    const struct attend_scratch *scratch = attend->scratch;
    const uint32_t head_dim = attend->call->attention->host.config.head_dim;
    for (uint32_t r = 0, n; r < attend->block->n_rows; r += n) {
        n = tile_group_rows(attend->block->n_rows - r);
        struct seen group = seen_together(seen + r, n);
        if (group.end > 0)
            tile_qk(n, group.end, head_dim, scratch->q + (size_t)r * head_dim, scratch->k_t, ahead,
                    scratch->scores + (size_t)r * TILE_KEYS);
    }
}

void attend_multiply_values(const struct attend *attend, const struct seen *seen, const float *keep,
                            const struct tile_rows *v, struct tile_ahead *ahead,
                            struct partial *partial)
{
    const uint32_t dim = dim_padded(attend->call->attention->host.config.head_dim);
    for (uint32_t r = 0, n; r < attend->block->n_rows; r += n) {
        n = tile_group_rows(attend->block->n_rows - r);
        struct seen group = seen_together(seen + r, n);
        if (group.end == 0)
            continue;
        struct tile_weighted op = {.v = v,
                                   .ahead = ahead,
                                   .weights = attend->scratch->scores + (size_t)r * TILE_KEYS,
                                   .keep = keep + r,
                                   .out = partial->out + (size_t)r * dim,
                                   .first = group.first,
                                   .end = group.end,
                                   .dim = dim};
        tile_pv(n, &op);
    }
}
