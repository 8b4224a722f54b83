#include "kernels/reference/attention.h"

#include "kernels/reference/attention_call.h"

#include <stdlib.h>

struct attention {
    struct host_layer layer;
};

static enum status create(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error)
{
    (void)pool;
    struct attention *attention = calloc(1, sizeof *attention);
    if (!attention)
        return STATUS_NO_MEMORY;
    enum status status = host_layer_init(config, &attention->layer, error);
    if (status != STATUS_OK) {
        free(attention);
        return status;
    }
    *attention_out = attention;
    return STATUS_OK;
}

static void destroy(struct attention *attention)
{
    if (!attention)
        return;
    host_layer_finish(&attention->layer);
    free(attention);
}

static void metadata_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    if (metadata->workspace) {
        free(metadata->workspace->scores);
        free(metadata->workspace->new_keys);
    }
    free(metadata->workspace);
    host_metadata_destroy(metadata);
}

static enum status metadata_create(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error)
{
    (void)pool;
    struct attention_metadata *metadata;
    TRY(host_metadata_create(limits, &metadata, error));
    struct attention_workspace *workspace = calloc(1, sizeof *workspace);
    metadata->workspace = workspace;
    if (!workspace)
        goto fail;
    size_t n_keys = limits->keys == KEYS_SELF ? limits->n_tokens_max : limits->n_kv_tokens_max;
    size_t key_bytes = (size_t)limits->n_kv_heads * 2 * limits->head_dim * sizeof(float);
    workspace->scores = calloc(limits->kv_len_max, sizeof(double));
    workspace->new_keys = calloc(n_keys + 1, key_bytes);
    if (!workspace->scores || !workspace->new_keys)
        goto fail;
    *metadata_out = metadata;
    return STATUS_OK;

fail:
    metadata_destroy(metadata);
    return STATUS_NO_MEMORY;
}

static void kv_update(const struct attention *attention, const struct attention_metadata *metadata,
                      const struct attention_io *io)
{
    const struct attention_call call = {&attention->layer, metadata, io};
    host_check_io(call.layer, metadata, io);
    attention_keys_make(&call);
    if (!metadata->is_dummy)
        attention_keys_append(&call);
}

static enum status forward(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io)
{
    const struct attention_call call = {&attention->layer, metadata, io};
    bool appends = !metadata->is_dummy;
    bool is_cyclic = attention->layer.config.is_cyclic;
    host_check_io(call.layer, metadata, io);
    attention_keys_make(&call);
    if (appends && !is_cyclic)
        attention_keys_append(&call);
    for (uint32_t token = 0; token < metadata->n_tokens; token++)
        for (uint32_t head = 0; head < call.layer->config.n_heads; head++)
            attention_row_run(&call, token, head);
    if (appends && is_cyclic)
        attention_keys_append(&call);
    return STATUS_OK;
}

const struct attention_backend reference_attention = {
    .name = "reference",
    .create = create,
    .destroy = destroy,
    .metadata_create = metadata_create,
    .metadata_destroy = metadata_destroy,
    .metadata_prepare = host_metadata_prepare,
    .metadata_make_static = host_metadata_make_static,
    .kv_update = kv_update,
    .forward = forward,
};
