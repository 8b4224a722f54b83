#include "kernels/reference/attention.h"

#include "kernels/attention_features.h"
#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/attention_metadata.h"
#include "kernels/backend/attention_step_check.h"
#include "kernels/reference/attention_call.h"

#include <assert.h>
#include <stdlib.h>

static void metadata_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    if (metadata->workspace) {
        free(metadata->workspace->scores);
        free(metadata->workspace->new_keys);
        free(metadata->workspace->k);
        free(metadata->workspace->v);
        free(metadata->workspace->is_loaded);
    }
    free(metadata->workspace);
    attention_metadata_destroy(metadata);
}

static enum status metadata_create(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error)
{
    struct attention_metadata *metadata;
    TRY(attention_metadata_create(limits, pool, &metadata, error));
    struct attention_workspace *workspace = calloc(1, sizeof *workspace);
    metadata->workspace = workspace;
    if (!workspace)
        goto fail;
    size_t n_keys = limits->keys == KEYS_SELF ? limits->n_tokens_max : limits->n_kv_tokens_max;
    size_t key_bytes = (size_t)limits->n_kv_heads * 2 * limits->head_dim * sizeof(float);
    workspace->scores = calloc(limits->kv_len_max, sizeof(double));
    workspace->new_keys = calloc(n_keys + 1, key_bytes);
    workspace->k = calloc(limits->kv_len_max, limits->head_dim * sizeof(double));
    workspace->v = calloc(limits->kv_len_max, limits->head_dim * sizeof(double));
    workspace->is_loaded = calloc(limits->kv_len_max, sizeof(bool));
    if (!workspace->scores || !workspace->new_keys || !workspace->k || !workspace->v ||
        !workspace->is_loaded)
        goto fail;
    *metadata_out = metadata;
    return STATUS_OK;

fail:
    metadata_destroy(metadata);
    return attention_metadata_no_memory(limits, error);
}

static enum status kv_update(const struct attention *attention,
                             const struct attention_metadata *metadata,
                             const struct attention_io *io, struct error *error)
{
    const struct attention_call call = {bare_attention_layer(attention), metadata, io};
    TRY(attention_io_check_kv(call.layer, metadata, io, error));
    if (metadata->is_dummy || io->is_written)
        return STATUS_OK;
    attention_keys_make(&call);
    attention_keys_update(&call);
    return STATUS_OK;
}

/* Computes rows that use the same keys: all queries of one beam, and all heads of one kv head. */
static void attend_group(const struct attention_call *call, uint32_t s, uint32_t beam,
                         uint32_t kv_head)
{
    const struct attention_metadata *metadata = call->metadata;
    const struct attention_sequence *sequence = &metadata->sequences[s];
    struct attention_row row = {
        .call = call,
        .sequence = sequence,
        .sequence_index = s,
        .kv_head = kv_head,
        .beam = beam,
        .key_index = sequence->key_index,
        .math = sequence->phase == PHASE_CONTEXT ? call->layer->config.math : MATH_COMPUTE,
    };
    assert(s < metadata->n_sequences && kv_head < call->layer->config.n_kv_heads);
    attention_keys_forget(call);
    for (row.query = 0; row.query < sequence->query_len; row.query++) {
        row.token = metadata->token_starts[s] + beam * sequence->query_len + row.query;
        assert(row.token < metadata->n_tokens);
        row.index = metadata->indices[row.token];
        for (uint32_t i = 0; i < call->layer->group; i++) {
            row.head = kv_head * call->layer->group + i;
            attention_row_run(&row);
        }
    }
}

static void attend(const struct attention_call *call)
{
    const struct attention_metadata *metadata = call->metadata;
    for (uint32_t s = 0; s < metadata->n_sequences; s++)
        for (uint32_t beam = 0; beam < sequence_n_beams(&metadata->sequences[s]); beam++)
            for (uint32_t h = 0; h < call->layer->config.n_kv_heads; h++)
                attend_group(call, s, beam, h);
}

static enum status forward(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io,
                           struct error *error)
{
    const struct attention_call call = {bare_attention_layer(attention), metadata, io};
    bool writes_cache = !metadata->is_dummy && !io->is_written;
    bool is_cyclic = call.layer->config.is_cyclic;
    TRY(attention_io_check(call.layer, metadata, io, error));
    if (writes_cache)
        attention_keys_make(&call);
    if (writes_cache && !is_cyclic)
        attention_keys_update(&call);
    attend(&call);
    if (writes_cache && is_cyclic)
        attention_keys_update(&call);
    return STATUS_OK;
}

const struct attention_backend reference_attention = {
    .name = "reference",
    .features = ATTENTION_FEATURES_ALL,
    .create = bare_attention_create,
    .destroy = bare_attention_destroy,
    .metadata_create = metadata_create,
    .metadata_destroy = metadata_destroy,
    .metadata_prepare = attention_metadata_prepare,
    .metadata_make_static = attention_metadata_make_static,
    .metadata_arena_bytes = attention_metadata_arena_bytes,
    .metadata_use_arena = attention_metadata_use_arena,
    .kv_update = kv_update,
    .forward = forward,
};
