#include "kvcache/geometry.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_TOKENS_MIN = GEOMETRY_BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX = GEOMETRY_BLOCK_TOKENS_MAX };
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

static uint32_t n_places(const struct geometry *g)
{
    return g->groups.n > 0 ? g->groups.places : g->n_layers;
}

/* Rows of a token, head and place: K and V, or one of latents. */
uint32_t geometry_rows(const struct geometry *geometry)
{
    return geometry->latent_dim > 0 ? 1 : 2;
}

struct cache_heads geometry_heads(const struct geometry *geometry, uint32_t group)
{
    assert(group < cache_groups_count(&geometry->groups));
    return cache_groups_have_heads(&geometry->groups)
               ? geometry->groups.all[group].heads
               : (struct cache_heads){geometry->n_kv_heads, geometry->head_dim};
}

uint32_t geometry_layers_of_block(const struct geometry *geometry, uint32_t group)
{
    return n_places(geometry) / cache_group_width(&geometry->groups, group);
}

/* False: over BLOCK_BYTES_MAX. The caller has checked the dtype. */
static bool block_bytes(const struct geometry *g, uint64_t *bytes_out)
{
    const bool is_unequal = cache_groups_have_heads(&g->groups);
    const uint64_t factors[] = {n_places(g),
                                geometry_rows(g),
                                is_unequal ? cache_groups_unit(&g->groups) : g->n_kv_heads,
                                g->block_tokens,
                                is_unequal ? 1 : g->head_dim,
                                kv_dtype_bytes(g->dtype)};
    uint64_t bytes = 1;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        if (__builtin_mul_overflow(bytes, factors[i], &bytes) || bytes > BLOCK_BYTES_MAX)
            return false;
    *bytes_out = bytes;
    return true;
}

static enum status check_window(const char *of, uint32_t window, struct error *error)
{
    if (window <= GEOMETRY_WINDOW_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: %s is %" PRIu32 ", at most %u", of,
                     window, GEOMETRY_WINDOW_MAX);
}

static enum status check_sinks(const struct geometry *g, struct error *error)
{
    const struct sink_window *sinks = &g->sinks;
    if (sinks->sinks >= sinks->window && (sinks->sinks > 0 || sinks->window > 0))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: sink_tokens are %" PRIu32 " of a window of %" PRIu32,
                         sinks->sinks, sinks->window);
    TRY(check_window("sink_window", sinks->window, error));
    if (sinks->window > 0 && !cache_groups_is_plain(&g->groups))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: sink_tokens are %" PRIu32 " with %" PRIu32
                         " groups of layers and %" PRIu32
                         " blocks of recurrent state: expected one and none",
                         sinks->sinks, g->groups.n, g->groups.n_state);
    return STATUS_OK;
}

/* Of all groups or of none, and then as long as those of the model may be. */
static enum status check_heads(const struct geometry *g, struct error *error)
{
    const struct cache_groups *groups = &g->groups;
    const bool have_heads = cache_groups_have_heads(groups);
    for (uint32_t i = 0; i < groups->n; i++) {
        const struct cache_heads heads = groups->all[i].heads;
        if ((heads.n > 0) != have_heads || (heads.dim > 0) != have_heads ||
            (uint64_t)heads.n * heads.dim > UINT32_MAX)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "KV layout: group %" PRIu32 " has n_kv_heads %" PRIu32
                             " and head_dim %" PRIu32 ", wanted both %s",
                             i, heads.n, heads.dim, have_heads ? "above 0" : "0");
    }
    if (have_heads && g->latent_dim > 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: latent_dim is %" PRIu32 " with heads of groups",
                         g->latent_dim);
    return STATUS_OK;
}

static enum status check_groups(const struct geometry *g, struct error *error)
{
    const struct cache_groups *groups = &g->groups;
    uint64_t n_layers = 0;
    if (groups->n > CACHE_GROUPS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: groups are %" PRIu32 ", at most %u", groups->n,
                         CACHE_GROUPS_MAX);
    TRY(check_heads(g, error));
    for (uint32_t i = 0; i < groups->n; i++) {
        const struct cache_group *group = &groups->all[i];
        const uint32_t n_fit = groups->places / cache_group_width(groups, i);
        if (group->n_layers == 0 || group->n_layers > n_fit)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "KV layout: group %" PRIu32 " has %" PRIu32
                             " layers, wanted 1 to %" PRIu32,
                             i, group->n_layers, n_fit);
        if (i > 0 && group->window == 0 && groups->all[i - 1].window != 0)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "KV layout: group %" PRIu32 " has window 0 behind one with a window",
                             i);
        TRY(check_window("the window of a group", group->window, error));
        n_layers += group->n_layers;
    }
    if (groups->n_state > CACHE_STATE_BLOCKS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: a sequence's recurrent state has %" PRIu32
                         " blocks, at most %u: raise kv_block_tokens",
                         groups->n_state, CACHE_STATE_BLOCKS_MAX);
    if (groups->n > 0 && n_layers != g->n_layers)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: groups have %" PRIu64 " layers of n_layers %" PRIu32, n_layers,
                         g->n_layers);
    return STATUS_OK;
}

enum status geometry_check(const struct geometry *g, struct error *error)
{
    if (g->n_layers == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: n_layers is 0");
    if (g->n_kv_heads == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: n_kv_heads is 0");
    if (g->head_dim == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "KV layout: head_dim is 0");
    if (g->latent_dim >= g->head_dim || (g->latent_dim > 0 && g->n_kv_heads != 1))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "KV layout: latent_dim is %" PRIu32 " with n_kv_heads %" PRIu32
                         " and head_dim %" PRIu32 ", wanted one head that is longer",
                         g->latent_dim, g->n_kv_heads, g->head_dim);
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
    TRY(check_groups(g, error));
    TRY(check_sinks(g, error));
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

uint32_t geometry_spans(const struct geometry *geometry, uint32_t n_tokens)
{
    return cache_spans(geometry->block_tokens, n_tokens);
}

static uint32_t counted(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

uint32_t geometry_blocks(const struct geometry *geometry, uint32_t n_tokens)
{
    return counted(cache_groups_blocks(&geometry->groups, geometry->block_tokens, n_tokens));
}

uint32_t geometry_step_blocks(const struct geometry *geometry, const struct cache_step *step)
{
    return counted(cache_groups_step_blocks(&geometry->groups, geometry->block_tokens, step));
}

uint64_t geometry_sequence_bytes(const struct geometry *geometry, uint32_t n_tokens,
                                 uint64_t *if_whole_out)
{
    const uint64_t block = geometry_block_bytes(geometry);
    uint64_t n_used = geometry->groups.n > 0 ? 0 : geometry->n_layers;
    for (uint32_t i = 0; i < geometry->groups.n; i++)
        n_used += (uint64_t)geometry->groups.all[i].n_layers *
                  cache_group_width(&geometry->groups, i);
    *if_whole_out = block / n_places(geometry) * n_used * geometry_spans(geometry, n_tokens);
    return geometry_blocks(geometry, n_tokens) * block;
}

enum status geometry_check_reply_window(const struct geometry *geometry, uint32_t window,
                                        struct error *error)
{
    const struct sink_window *sinks = &geometry->sinks;
    if (window == 0 || (window > sinks->sinks && window <= sinks->window))
        return STATUS_OK;
    if (sinks->window == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling.reply_window is %" PRIu32 "; the workers have no sink_tokens",
                         window);
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "sampling.reply_window is %" PRIu32 "; it must be over sink_tokens, %" PRIu32
                     ", and at most the workers' attention_window, %" PRIu32,
                     window, sinks->sinks, sinks->window);
}

uint32_t geometry_sequence_tokens(const struct geometry *geometry, uint32_t context_tokens)
{
    return geometry->sinks.window > 0 && context_tokens < SINK_SEQUENCE_TOKENS
               ? SINK_SEQUENCE_TOKENS
               : context_tokens;
}

static enum status differ(struct error *error, const char *field, uint32_t ours, uint32_t theirs)
{
    return error_set(error, STATUS_GEOMETRY_MISMATCH,
                     "KV layout: %s is %" PRIu32 " here and %" PRIu32 " there", field, ours,
                     theirs);
}

/* A kind of layers as text: "3 + 3 of all tokens, 5 of window 512". */
static void groups_text(const struct geometry *g, char *text_out, size_t bytes)
{
    size_t used = 0;
    const uint32_t n = cache_groups_count(&g->groups);
    for (uint32_t i = 0; i < n && used < bytes; i++) {
        const uint32_t n_layers = g->groups.n > 0 ? g->groups.all[i].n_layers : g->n_layers;
        const uint32_t window = cache_group_window(&g->groups, i);
        const bool is_last = i + 1 == n || cache_group_window(&g->groups, i + 1) != window;
        int more = snprintf(text_out + used, bytes - used, "%" PRIu32 "%s", n_layers,
                            is_last ? "" : " + ");
        used += (size_t)more;
        if (!is_last || used >= bytes)
            continue;
        more = window ? snprintf(text_out + used, bytes - used, " of window %" PRIu32 "%s", window,
                                 i + 1 < n ? ", " : "")
                      : snprintf(text_out + used, bytes - used, " of all tokens%s",
                                 i + 1 < n ? ", " : "");
        used += (size_t)more;
    }
}

/* One group of all layers may be told or not. */
static enum status match_groups(const struct geometry *ours, const struct geometry *theirs,
                                struct error *error)
{
    const uint32_t n = cache_groups_count(&ours->groups);
    bool is_equal = n == cache_groups_count(&theirs->groups) && n_places(ours) == n_places(theirs);
    for (uint32_t i = 0; i < n && is_equal && ours->groups.n > 0 && theirs->groups.n > 0; i++)
        is_equal = ours->groups.all[i].n_layers == theirs->groups.all[i].n_layers;
    for (uint32_t i = 0; i < n && is_equal; i++)
        is_equal = cache_group_window(&ours->groups, i) == cache_group_window(&theirs->groups, i);
    if (is_equal && ours->groups.n_state == theirs->groups.n_state)
        return STATUS_OK;
    if (is_equal)
        return differ(error, "blocks of recurrent state", ours->groups.n_state,
                      theirs->groups.n_state);
    char here[128], there[128];
    groups_text(ours, here, sizeof here);
    groups_text(theirs, there, sizeof there);
    return error_set(error, STATUS_GEOMETRY_MISMATCH,
                     "KV layout: groups of layers are %s here and %s there", here, there);
}

static enum status match_heads(const struct geometry *ours, const struct geometry *theirs,
                               struct error *error)
{
    char field[48];
    for (uint32_t i = 0; i < cache_groups_count(&ours->groups); i++) {
        const struct cache_heads here = geometry_heads(ours, i), there = geometry_heads(theirs, i);
        snprintf(field, sizeof field, "%s of group %" PRIu32 " of layers",
                 here.n != there.n ? "n_kv_heads" : "head_dim", i);
        if (here.n != there.n)
            return differ(error, field, here.n, there.n);
        if (here.dim != there.dim)
            return differ(error, field, here.dim, there.dim);
    }
    return STATUS_OK;
}

static const char KV_CONVERT[] = "; with kv_convert it is accepted";

static enum status match_sinks(const struct sink_window *ours, const struct sink_window *theirs,
                               struct error *error)
{
    if (ours->sinks != theirs->sinks)
        return differ(error, "sink_tokens", ours->sinks, theirs->sinks);
    return ours->window == theirs->window
               ? STATUS_OK
               : differ(error, "the window with sinks", ours->window, theirs->window);
}

/* A window's first block would have tokens that nobody sent. */
static enum status match_block_tokens(const struct geometry *ours, const struct geometry *theirs,
                                      bool converts, struct error *error)
{
    const bool has_window = cache_groups_has_window(&ours->groups) ||
                            cache_groups_has_window(&theirs->groups) || ours->sinks.window > 0;
    const bool has_state = ours->groups.n_state + theirs->groups.n_state > 0;
    const bool may = !has_window && !has_state && !ours->has_encoder;
    if (ours->block_tokens == theirs->block_tokens || (converts && may))
        return STATUS_OK;
    return error_set(error, STATUS_GEOMETRY_MISMATCH,
                     "KV layout: block_tokens is %" PRIu32 " here and %" PRIu32 " there%s",
                     ours->block_tokens, theirs->block_tokens,
                     has_state           ? ", and layers have recurrent state"
                     : ours->has_encoder ? ", and an encoder's texts end with a block"
                     : has_window        ? ", and layers have windows"
                                         : KV_CONVERT);
}

static enum status match_dtype(const struct geometry *ours, const struct geometry *theirs,
                               bool converts, struct error *error)
{
    const bool is_known = (unsigned)theirs->dtype < N_DTYPES;
    const bool may = is_known && !kv_dtype_is_8bit(ours->dtype) &&
                     !kv_dtype_is_8bit(theirs->dtype) && ours->sinks.window == 0 &&
                     ours->groups.n_state + theirs->groups.n_state == 0;
    if (ours->dtype == theirs->dtype || (converts && may))
        return STATUS_OK;
    return error_set(error, STATUS_GEOMETRY_MISMATCH, "KV layout: dtype is %s here and %s there%s",
                     kv_dtype_name(ours->dtype),
                     is_known ? kv_dtype_name(theirs->dtype) : "unknown", may ? KV_CONVERT : "");
}

bool geometry_has_equal_blocks(const struct geometry *ours, const struct geometry *theirs)
{
    return ours->block_tokens == theirs->block_tokens && ours->dtype == theirs->dtype;
}

enum status geometry_match(const struct geometry *ours, const struct geometry *theirs,
                           const char *allow_numerics, struct error *error)
{
    return geometry_match_converting(ours, theirs, allow_numerics, false, error);
}

enum status geometry_match_converting(const struct geometry *ours, const struct geometry *theirs,
                                      const char *allow_numerics, bool converts,
                                      struct error *error)
{
    if (ours->n_layers != theirs->n_layers)
        return differ(error, "n_layers", ours->n_layers, theirs->n_layers);
    if (ours->n_kv_heads != theirs->n_kv_heads)
        return differ(error, "n_kv_heads", ours->n_kv_heads, theirs->n_kv_heads);
    if (ours->head_dim != theirs->head_dim)
        return differ(error, "head_dim", ours->head_dim, theirs->head_dim);
    if (ours->latent_dim != theirs->latent_dim)
        return differ(error, "latent_dim", ours->latent_dim, theirs->latent_dim);
    TRY(match_block_tokens(ours, theirs, converts, error));
    TRY(match_dtype(ours, theirs, converts, error));
    if (ours->model_digest[0] != theirs->model_digest[0] ||
        ours->model_digest[1] != theirs->model_digest[1])
        return error_set(error, STATUS_GEOMETRY_MISMATCH,
                         "KV layout: model_digest is %016" PRIx64 "%016" PRIx64
                         " here and %016" PRIx64 "%016" PRIx64 " there: the models differ",
                         ours->model_digest[0], ours->model_digest[1], theirs->model_digest[0],
                         theirs->model_digest[1]);
    TRY(match_groups(ours, theirs, error));
    TRY(match_heads(ours, theirs, error));
    TRY(match_sinks(&ours->sinks, &theirs->sinks, error));
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
