#include "kernels/cuda/attention_call.h"

#include "kernels/backend/attention_io_check.h"
#include "kernels/backend/attention_metadata.h"
#include "kernels/cuda/attention_step.h"

#include <assert.h>

static void fill_step(const struct call *call, struct attention_parameters *p)
{
    const struct attention_metadata *metadata = call->metadata;
    const struct attention_workspace *workspace = metadata->workspace;
    const uint32_t rope = attention_rope_index(&call->attention->layer, metadata);
    p->counts = workspace->step.counts;
    p->sequences = workspace->step.sequences;
    p->tiles = workspace->step.tiles;
    p->block_ids = workspace->step.block_ids;
    p->sources = workspace->step.sources;
    p->draft_masks = workspace->step.draft_masks;
    p->token_sequences = metadata->token_sequences;
    p->token_rows = metadata->token_rows;
    p->indices = metadata->indices;
    p->kv_sequences = metadata->kv_sequences;
    p->kv_rows = metadata->kv_rows;
    p->kv_indices = metadata->kv_indices;
    p->kv_beams = metadata->kv_beams;
    p->q_cos = metadata->q_cos[rope];
    p->q_sin = metadata->q_sin[rope];
    p->k_cos = metadata->k_cos[rope];
    p->k_sin = metadata->k_sin[rope];
    p->position_cos = workspace->position_cos;
    p->position_sin = workspace->position_sin;
    p->queries = workspace->queries;
    p->new_keys = workspace->new_keys;
}

static void fill_tensors(const struct call *call, struct attention_parameters *p)
{
    const struct attention_io *io = call->io;
    p->q = io->q;
    p->k = io->k;
    p->v = io->v;
    p->output = io->output;
    p->lse = io->lse;
    p->mask = io->mask;
    p->q_stride = io->q_stride;
    p->k_stride = io->k_stride;
    p->v_stride = io->v_stride;
    p->output_stride = io->output_stride;
    p->mask_sequence_stride = io->mask_sequence_stride;
    p->mask_query_stride = io->mask_query_stride;
}

static void fill_cache(const struct call *call, struct attention_parameters *p)
{
    const struct kv_view *kv = &call->metadata->kv;
    const struct attention_config *config = &call->attention->layer.config;
    p->block_table = config->table;
    if (kv->base) /* NULL before a pool is attached: dummy steps only */
        p->kv_base = (char *)kv->base + config->layer_index * kv->layer_stride;
    p->block_bytes = kv->block_stride;
    p->kv_bytes = kv->kv_stride;
    p->head_bytes = kv->head_stride;
    p->token_bytes = kv->token_stride;
    p->block_tokens = kv->block_tokens;
    p->is_contiguous = kv->is_contiguous;
    p->cache = config->cache;
    p->k_scale = config->k_scale;
    p->v_scale = config->v_scale;
    p->window = config->window;
    p->is_cyclic = config->is_cyclic;
    p->sink_tokens = config->sink_tokens;
}

static void fill_arrays(const struct attention *attention, struct attention_parameters *p)
{
    const struct attention_config *config = &attention->layer.config;
    p->qkv_bias = config->qkv_bias;
    p->bias_dtype = config->qkv_bias_dtype;
    p->q_norm = config->q_norm;
    p->k_norm = config->k_norm;
    p->norm_dtype = config->norm_dtype;
    p->norm_eps = config->norm_eps;
    p->slopes = attention->slopes;
    p->sinks = attention->sinks;
    p->table = attention->table;
    p->table_queries = config->bias.n_queries;
    p->table_keys = config->bias.n_keys;
    p->buckets = attention->buckets;
    p->bucket_starts = attention->bucket_starts;
    p->n_buckets = config->bias.n_buckets;
    p->is_bidirectional = config->bias.is_bidirectional;
}

static void fill_layer(const struct attention *attention, struct attention_parameters *p)
{
    const struct attention_layer *layer = &attention->layer;
    const struct attention_config *config = &layer->config;
    assert(config->n_kv_heads > 0 && config->n_heads % config->n_kv_heads == 0);
    p->n_heads = config->n_heads;
    p->n_kv_heads = config->n_kv_heads;
    p->head_dim = config->head_dim;
    p->n_rotary = layer->n_rotary;
    p->is_interleaved = layer->is_interleaved;
    p->is_self = config->keys == KEYS_SELF;
    p->mask_kind = config->mask;
    p->mask_input = config->mask_input;
    p->math = config->math;
    p->compute = config->compute;
    p->scale = layer->scale;
    p->soft_cap = config->soft_cap;
    p->q_scale = config->q_scale;
    p->output_scale = config->output_scale;
}

/* A captured launch has room for the new keys of every step; the device reads their number. */
static uint32_t n_keys_of_grid(const struct attention_metadata *metadata)
{
    const struct attention_limits *limits = &metadata->limits;
    return metadata->is_static && limits->keys != KEYS_SELF ? limits->n_kv_tokens_max
                                                            : metadata->n_kv_tokens;
}

struct attention_parameters cuda_attention_parameters(const struct call *call)
{
    struct attention_parameters p = {.n_queries = call->metadata->n_tokens,
                                     .n_keys = n_keys_of_grid(call->metadata),
                                     .reads_workspace = call->attention->layer.config.is_cyclic};
    assert(p.n_queries <= call->metadata->limits.n_tokens_max);
    assert(p.n_keys <= call->metadata->limits.n_kv_tokens_max ||
           call->metadata->limits.keys == KEYS_SELF);
    fill_step(call, &p);
    fill_tensors(call, &p);
    fill_cache(call, &p);
    fill_arrays(call->attention, &p);
    fill_layer(call->attention, &p);
    return p;
}
