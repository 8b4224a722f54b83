#include "kvcache/geometry.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { BLOCK_TOKENS_MIN = 8, BLOCK_TOKENS_MAX = 128 };
#define BLOCK_BYTES_MAX (1ull << 30)

static const struct {
    const char *name;
    size_t bytes;
} DTYPES[] = {[KV_F32] = {"f32", 4},
              [KV_BF16] = {"bf16", 2},
              [KV_F16] = {"f16", 2},
              [KV_INT8] = {"int8", 1},
              [KV_E4M3] = {"e4m3", 1}};

enum { N_DTYPES = sizeof DTYPES / sizeof *DTYPES };

size_t kv_dtype_bytes(enum kv_dtype dtype)
{
    assert((unsigned)dtype < N_DTYPES);
    return DTYPES[dtype].bytes;
}

const char *kv_dtype_name(enum kv_dtype dtype)
{
    assert((unsigned)dtype < N_DTYPES);
    return DTYPES[dtype].name;
}

enum status kv_dtype_parse(const char *name, enum kv_dtype *dtype_out)
{
    for (unsigned i = 0; i < N_DTYPES; i++) {
        if (strcmp(name, DTYPES[i].name) == 0) {
            *dtype_out = (enum kv_dtype)i;
            return STATUS_OK;
        }
    }
    return STATUS_INVALID_ARGUMENT;
}

/* False: over BLOCK_BYTES_MAX. The caller has checked the dtype. */
static bool block_bytes(const struct geometry *g, uint64_t *bytes_out)
{
    const uint64_t factors[] = {g->n_layers,     2,           g->n_kv_heads,
                                g->block_tokens, g->head_dim, kv_dtype_bytes(g->dtype)};
    uint64_t bytes = 1;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (__builtin_mul_overflow(bytes, factors[i], &bytes) || bytes > BLOCK_BYTES_MAX)
            return false;
    *bytes_out = bytes;
    return true;
}

enum status geometry_check(const struct geometry *g, struct error *error)
{
    if (g->n_layers == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: n_layers is 0");
    if (g->n_kv_heads == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: n_kv_heads is 0");
    if (g->head_dim == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: head_dim is 0");
    if (g->block_tokens < BLOCK_TOKENS_MIN || g->block_tokens > BLOCK_TOKENS_MAX ||
        (g->block_tokens & (g->block_tokens - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: block_tokens is %" PRIu32 ", not a power of two from %d to %d",
                         g->block_tokens, BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    if ((unsigned)g->dtype >= N_DTYPES)
        return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: dtype %u is unknown",
                         (unsigned)g->dtype);
    if (kv_dtype_is_8bit(g->dtype) != (g->kv_scales != 0))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: kv_scales is %016" PRIx64 " with dtype %s", g->kv_scales,
                         kv_dtype_name(g->dtype));
    uint64_t bytes;
    if (!block_bytes(g, &bytes))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: a block of %" PRIu32 " layers, %" PRIu32 " kv heads, %" PRIu32
                         " tokens and head_dim %" PRIu32 " is over %llu bytes",
                         g->n_layers, g->n_kv_heads, g->block_tokens, g->head_dim, BLOCK_BYTES_MAX);
    return STATUS_OK;
}

uint64_t geometry_block_bytes(const struct geometry *geometry)
{
    uint64_t bytes = 0;
    bool fits = block_bytes(geometry, &bytes);
    assert(fits && bytes > 0);
    return bytes;
}

uint32_t geometry_blocks(const struct geometry *geometry, uint32_t n_tokens)
{
    return n_tokens / geometry->block_tokens + (n_tokens % geometry->block_tokens != 0);
}

static enum status differ(struct error *error, const char *field, uint32_t ours, uint32_t theirs)
{
    return error_set(error, STATUS_GEOMETRY_MISMATCH,
                     "KV layout: %s is %" PRIu32 " here and %" PRIu32 " there", field, ours,
                     theirs);
}

enum status geometry_match(const struct geometry *ours, const struct geometry *theirs,
                           const char *allow_numerics, struct error *error)
{
    if (ours->n_layers != theirs->n_layers)
        return differ(error, "n_layers", ours->n_layers, theirs->n_layers);
    if (ours->n_kv_heads != theirs->n_kv_heads)
        return differ(error, "n_kv_heads", ours->n_kv_heads, theirs->n_kv_heads);
    if (ours->head_dim != theirs->head_dim)
        return differ(error, "head_dim", ours->head_dim, theirs->head_dim);
    if (ours->block_tokens != theirs->block_tokens)
        return differ(error, "block_tokens", ours->block_tokens, theirs->block_tokens);
    if (ours->dtype != theirs->dtype)
        return error_set(error, STATUS_GEOMETRY_MISMATCH,
                         "KV layout: dtype is %s here and %s there", kv_dtype_name(ours->dtype),
                         (unsigned)theirs->dtype < N_DTYPES ? kv_dtype_name(theirs->dtype)
                                                            : "unknown");
    if (ours->model_digest[0] != theirs->model_digest[0] ||
        ours->model_digest[1] != theirs->model_digest[1])
        return error_set(error, STATUS_GEOMETRY_MISMATCH,
                         "KV layout: model_digest is %016" PRIx64 "%016" PRIx64
                         " here and %016" PRIx64 "%016" PRIx64 " there: the models differ",
                         ours->model_digest[0], ours->model_digest[1], theirs->model_digest[0],
                         theirs->model_digest[1]);
    if (ours->kv_scales != theirs->kv_scales)
        return error_set(error, STATUS_GEOMETRY_MISMATCH,
                         "KV layout: kv_scales is %016" PRIx64 " here and %016" PRIx64
                         " there: K and V are stored in other units",
                         ours->kv_scales, theirs->kv_scales);
    if (numerics_fit(ours->numerics, theirs->numerics, allow_numerics) == NUMERICS_REFUSED)
        return error_set(error, STATUS_GEOMETRY_MISMATCH,
                         "KV layout: numerics is %s here and %s there; allow_numerics is %.40s",
                         ours->numerics, theirs->numerics[0] ? theirs->numerics : "not told",
                         allow_numerics);
    return STATUS_OK;
}
