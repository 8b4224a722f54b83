#include "kernels/context_parallel.h"

#include "kernels/backend/attention_layer.h"
#include "kernels/backend/attention_metadata.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct context_ring {
    const struct attention_backend *backend;
    struct context_group group;
    struct attention_limits limits;
    struct kv_view shards;  /* those of this rank; set by prepare */
    struct kv_view visitor; /* the shard of one layer in visiting; all layers use this place */
    size_t shard_bytes;     /* K and V of a layer */
    uint32_t n_tokens;      /* of this rank */
    struct attention_metadata **rounds; /* [n_ranks] the keys of rank - round */
    bool *is_seen; /* [n_ranks] whether a query of this rank may see their keys */
    char *visiting[2];
    float *lse; /* [n_tokens_max][n_heads] of the merged result, if the caller passes none */
    struct context_partial partial;
};

static void merge_row(uint32_t head_dim, const float *next, float next_lse, float *total,
                      float *total_lse)
{
    if (next_lse == -INFINITY)
        return;
    const float largest = fmaxf(next_lse, *total_lse);
    const float keep = expf(*total_lse - largest), gain = expf(next_lse - largest);
    const float sum = keep + gain;
    for (uint32_t i = 0; i < head_dim; i++)
        total[i] = (total[i] * keep + next[i] * gain) / sum;
    *total_lse = largest + logf(sum);
}

void context_merge(const struct context_partial *next, struct context_partial *total)
{
    const size_t n_heads = total->n_heads, head_dim = total->head_dim;
    assert(next->n_rows == total->n_rows && next->n_heads == n_heads && next->head_dim == head_dim);
    for (size_t row = 0; row < total->n_rows; row++)
        for (size_t head = 0; head < n_heads; head++)
            merge_row(total->head_dim, next->output + row * next->output_stride + head * head_dim,
                      next->lse[row * n_heads + head],
                      total->output + row * total->output_stride + head * head_dim,
                      &total->lse[row * n_heads + head]);
}

void context_add_sinks(const float *sinks, struct context_partial *total)
{
    static const float nothing[HEAD_DIM_MAX];
    const size_t n_heads = total->n_heads, head_dim = total->head_dim;
    assert(head_dim <= HEAD_DIM_MAX);
    for (size_t row = 0; row < total->n_rows; row++)
        for (size_t head = 0; head < n_heads; head++)
            merge_row(total->head_dim, nothing, sinks[head],
                      total->output + row * total->output_stride + head * head_dim,
                      &total->lse[row * n_heads + head]);
}

/* The floats of one rank in the workspace: outputs without gaps, then the sums. */
static size_t packed_floats(const struct context_partial *partial)
{
    return (size_t)partial->n_rows * partial->n_heads * (partial->head_dim + 1);
}

size_t context_gather_floats(const struct context_group *group,
                             const struct context_partial *partial)
{
    return (group->n_ranks + 1) * packed_floats(partial);
}

enum status context_gather_merge(const struct context_group *group, float *workspace,
                                 struct context_partial *partial)
{
    const size_t n_rows = partial->n_rows, n_sums = n_rows * partial->n_heads;
    const size_t width = (size_t)partial->n_heads * partial->head_dim;
    const size_t n_floats = packed_floats(partial);
    assert(group->rank < group->n_ranks && partial->output_stride >= width);
    float *gathered = workspace + n_floats;
    for (size_t row = 0; row < n_rows; row++)
        memcpy(workspace + row * width, partial->output + row * partial->output_stride,
               width * sizeof(float));
    memcpy(workspace + n_rows * width, partial->lse, n_sums * sizeof(float));
    TRY(group->gather(group->arg, workspace, gathered, n_floats * sizeof(float)));
    for (size_t row = 0; row < n_rows; row++)
        memset(partial->output + row * partial->output_stride, 0, width * sizeof(float));
    for (size_t i = 0; i < n_sums; i++)
        partial->lse[i] = -INFINITY;
    struct context_partial next = *partial;
    next.output_stride = width;
    for (uint32_t rank = 0; rank < group->n_ranks; rank++) {
        next.output = gathered + rank * n_floats;
        next.lse = next.output + n_rows * width;
        context_merge(&next, partial);
    }
    return STATUS_OK;
}

static enum status check(const struct attention_limits *limits, const struct context_group *group,
                         struct error *error)
{
    if (group->n_ranks == 0 || group->rank >= group->n_ranks)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rank is %u, must be below n_ranks %u",
                         group->rank, group->n_ranks);
    if (limits->keys != KEYS_SHARD)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "keys is %d, must be KEYS_SHARD for a ring", (int)limits->keys);
    if (limits->mask == MASK_CAUSAL_UPPER_LEFT)
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "mask is MASK_CAUSAL_UPPER_LEFT: it counts the queries of a rank, not of the prompt");
    return STATUS_OK;
}

static enum status create_buffers(struct context_ring *ring, struct error *error)
{
    const struct attention_limits *limits = &ring->limits;
    const size_t n_rows = (size_t)limits->n_tokens_max * limits->n_heads;
    ring->visitor = kv_view_contiguous(NULL, 1, limits->n_kv_heads, limits->kv_len_max,
                                       limits->head_dim, limits->cache);
    ring->shard_bytes = 2 * ring->visitor.kv_stride;
    ring->rounds = calloc(ring->group.n_ranks, sizeof(struct attention_metadata *));
    ring->is_seen = calloc(ring->group.n_ranks, sizeof *ring->is_seen);
    ring->visiting[0] = calloc(1, ring->shard_bytes);
    ring->visiting[1] = calloc(1, ring->shard_bytes);
    ring->lse = calloc(n_rows, sizeof *ring->lse);
    ring->partial.lse = calloc(n_rows, sizeof *ring->partial.lse);
    ring->partial.output = calloc(n_rows * limits->head_dim, sizeof *ring->partial.output);
    ring->partial.output_stride = (uint64_t)limits->n_heads * limits->head_dim;
    ring->partial.n_heads = limits->n_heads;
    ring->partial.head_dim = limits->head_dim;
    return ring->rounds && ring->is_seen && ring->visiting[0] && ring->visiting[1] && ring->lse &&
                   ring->partial.lse && ring->partial.output
               ? STATUS_OK
               : attention_metadata_no_memory(limits, error);
}

enum status context_ring_create(const struct attention_backend *backend,
                                const struct attention_limits *limits,
                                const struct context_group *group, struct thread_pool *pool,
                                struct context_ring **ring_out, struct error *error)
{
    TRY(check(limits, group, error));
    struct context_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return attention_metadata_no_memory(limits, error);
    ring->backend = backend;
    ring->group = *group;
    ring->limits = *limits;
    enum status status = create_buffers(ring, error);
    for (uint32_t round = 0; round < group->n_ranks && status == STATUS_OK; round++)
        status = backend->metadata_create(limits, pool, &ring->rounds[round], error);
    if (status != STATUS_OK) {
        context_ring_destroy(ring);
        return status;
    }
    *ring_out = ring;
    return STATUS_OK;
}

void context_ring_destroy(struct context_ring *ring)
{
    if (!ring)
        return;
    for (uint32_t round = 0; ring->rounds && round < ring->group.n_ranks; round++)
        ring->backend->metadata_destroy(ring->rounds[round]);
    free(ring->rounds);
    free(ring->is_seen);
    free(ring->visiting[0]);
    free(ring->visiting[1]);
    free(ring->lse);
    free(ring->partial.lse);
    free(ring->partial.output);
    free(ring);
}

static enum status check_shards(const struct context_ring *ring, const struct kv_view *shards,
                                struct error *error)
{
    const struct kv_view *dense = &ring->visitor;
    if (!shards->is_contiguous || shards->block_tokens != dense->block_tokens ||
        shards->token_stride != dense->token_stride || shards->head_stride != dense->head_stride ||
        shards->kv_stride != dense->kv_stride)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the shards' view must be contiguous, of %u tokens, without gaps",
                         dense->block_tokens);
    return STATUS_OK;
}

static uint32_t source_of(const struct context_ring *ring, uint32_t round)
{
    return (ring->group.rank + ring->group.n_ranks - round) % ring->group.n_ranks;
}

static uint32_t start_of(const uint32_t *lens, uint32_t rank)
{
    uint32_t start = 0;
    for (uint32_t i = 0; i < rank; i++)
        start += lens[i];
    return start;
}

static enum status prepare_round(struct context_ring *ring, const uint32_t *lens, uint32_t round,
                                 struct error *error)
{
    static const uint32_t only_block = 0;
    const uint32_t rank = ring->group.rank, source = source_of(ring, round);
    assert(round < ring->group.n_ranks && source < ring->group.n_ranks);
    struct kv_view view = round == 0 ? ring->shards : ring->visitor;
    if (round > 0) {
        view.base = ring->visiting[round % 2];
        view.layer_stride = 0; /* all layers use this place in turn */
    }
    const struct attention_sequence sequence = {
        .phase = PHASE_CONTEXT,
        .query_len = lens[rank],
        .kv_len = lens[source],
        .prompt_len = start_of(lens, ring->group.n_ranks),
        .block_ids = &only_block,
        .n_blocks = 1,
        .new_len = round == 0 ? lens[rank] : 0,
        .query_index = start_of(lens, rank),
        .key_index = start_of(lens, source),
    };
    const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    ring->is_seen[round] = ring->limits.mask != MASK_CAUSAL || source <= rank;
    return ring->backend->metadata_prepare(ring->rounds[round], &step, &view, error);
}

enum status context_ring_prepare(struct context_ring *ring, const uint32_t *lens,
                                 const struct kv_view *shards, struct error *error)
{
    TRY(check_shards(ring, shards, error));
    ring->shards = *shards;
    ring->n_tokens = ring->partial.n_rows = lens[ring->group.rank];
    for (uint32_t round = 0; round < ring->group.n_ranks; round++)
        TRY(prepare_round(ring, lens, round, error));
    return STATUS_OK;
}

/* Receives the keys of the next rank in the ring. Round 1 sends this rank's own keys. */
static enum status shift(struct context_ring *ring, uint32_t layer_index, uint32_t round)
{
    assert(round > 0 && round < ring->group.n_ranks);
    const char *own = (const char *)ring->shards.base + layer_index * ring->shards.layer_stride;
    const char *send = round == 1 ? own : ring->visiting[(round - 1) % 2];
    return ring->group.shift(ring->group.arg, send, ring->visiting[round % 2], ring->shard_bytes);
}

enum status context_ring_create_layer(const struct context_ring *ring,
                                      const struct attention_config *config,
                                      struct thread_pool *pool, struct attention **attention_out,
                                      struct error *error)
{
    if (config->compute != DTYPE_F32 || config->output_scale != 0)
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "compute is %d and output_scale %g, must be F32 and 0: partials are merged in F32",
            (int)config->compute, (double)config->output_scale);
    if (config->sinks)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sinks are set: a ring adds them once, in context_ring_forward");
    if (config->keys != KEYS_SHARD || config->mask != ring->limits.mask)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "keys %d, mask %d: the ring has keys %d, mask %d", (int)config->keys,
                         (int)config->mask, (int)ring->limits.keys, (int)ring->limits.mask);
    return ring->backend->create(config, pool, attention_out, error);
}

enum status context_ring_forward(struct context_ring *ring, const struct attention *attention,
                                 uint32_t layer_index, const float *sinks,
                                 const struct attention_io *io, struct error *error)
{
    struct attention_io own = *io;
    own.lse = io->lse ? io->lse : ring->lse;
    struct context_partial total = ring->partial;
    total.output = own.output;
    total.output_stride = own.output_stride;
    total.lse = own.lse;
    TRY(ring->backend->forward(attention, ring->rounds[0], &own, error));
    for (uint32_t round = 1; round < ring->group.n_ranks; round++) {
        TRY(shift(ring, layer_index, round));
        if (!ring->is_seen[round])
            continue;
        struct attention_io visit = *io;
        visit.output = ring->partial.output;
        visit.output_stride = ring->partial.output_stride;
        visit.lse = ring->partial.lse;
        TRY(ring->backend->forward(attention, ring->rounds[round], &visit, error));
        context_merge(&ring->partial, &total);
    }
    if (sinks)
        context_add_sinks(sinks, &total);
    return STATUS_OK;
}
