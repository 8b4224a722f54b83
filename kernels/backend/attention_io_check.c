#include "kernels/backend/attention_io_check.h"

#include "kernels/backend/kv_view_check.h"

uint32_t attention_rope_index(const struct attention_layer *layer,
                              const struct attention_metadata *metadata)
{
    const struct rope *const *ropes = metadata->limits.ropes;
    uint32_t r = 0;
    while (layer->config.rope && r < ATTENTION_ROPES_MAX && ropes[r] != layer->config.rope)
        r++;
    return r;
}

/* Checks the fields that all layers of a group share. */
static enum status check_group(const struct attention_config *config,
                               const struct attention_limits *limits, struct error *error)
{
    const bool is_slotted = config->is_cyclic || config->sink_tokens != 0; /* reads the window */
    const struct {
        const char *field;
        uint32_t of_layer, of_limits;
    } same[] = {
        {"n_heads", config->n_heads, limits->n_heads},
        {"n_kv_heads", config->n_kv_heads, limits->n_kv_heads},
        {"head_dim", config->head_dim, limits->head_dim},
        {"cache dtype", config->cache, limits->cache},
        {"keys", config->keys, limits->keys},
        {"mask", config->mask, limits->mask},
        {"is_cyclic", config->is_cyclic, limits->is_cyclic},
        {"sink_tokens", config->sink_tokens, limits->sink_tokens},
        {"window", config->window, is_slotted ? limits->window : config->window},
    };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (same[i].of_layer != same[i].of_limits)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s is %u in the layer, %u in the metadata's limits", same[i].field,
                             same[i].of_layer, same[i].of_limits);
    return STATUS_OK;
}

/* Checks that the layer supports all that the limits allow, and that the limits name what the layer needs. */
static enum status check_room(const struct attention_config *config,
                              const struct attention_limits *limits, struct error *error)
{
    const bool has_table = config->bias.table != NULL;
    const struct {
        const char *field;
        uint32_t of_limits, of_layer;
    } most[] = {
        {"n_beams_max", limits->n_beams_max, config->n_beams_max > 1 ? config->n_beams_max : 1},
        {"n_draft_max", limits->n_draft_max, config->n_draft_max > 1 ? config->n_draft_max : 1},
        {"bias_queries", limits->bias_queries, has_table ? config->bias.n_queries : UINT32_MAX},
        {"bias_keys", limits->bias_keys, has_table ? config->bias.n_keys : UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof most / sizeof most[0]; i++)
        if (most[i].of_limits > most[i].of_layer)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s is %u in the metadata's limits, the layer takes %u", most[i].field,
                             most[i].of_limits, most[i].of_layer);
    const struct {
        const char *field;
        bool is_missing;
        const char *why;
    } unsaid[] = {
        {"bias_keys", has_table && limits->bias_keys == 0, "bias.table"},
        {"has_short_path", config->path == PATH_SHORT && !limits->has_short_path, "PATH_SHORT"},
        {"has_multi_block", config->multi_block == CHOICE_ON && !limits->has_multi_block,
         "multi_block CHOICE_ON"},
    };
    for (size_t i = 0; i < sizeof unsaid / sizeof unsaid[0]; i++)
        if (unsaid[i].is_missing)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s is 0 in the metadata's limits, the layer has %s", unsaid[i].field,
                             unsaid[i].why);
    return STATUS_OK;
}

/* Checks that the layer and the prepared step fit together. */
static enum status check_layer(const struct attention_layer *layer,
                               const struct attention_metadata *metadata, struct error *error)
{
    const struct attention_config *config = &layer->config;
    TRY(check_group(config, &metadata->limits, error));
    TRY(check_room(config, &metadata->limits, error));
    uint32_t rope = attention_rope_index(layer, metadata);
    if (rope == ATTENTION_ROPES_MAX || (rope != 0 && config->sink_tokens != 0))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the layer's rope is not among the metadata's limits.ropes%s",
                         config->sink_tokens != 0 ? " as the first" : "");
    if (config->table >= attention_n_tables(&metadata->limits))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "table is %u, n_tables is %u in the metadata's limits", config->table,
                         metadata->limits.n_tables);
    if (!metadata->is_dummy && !kv_view_has_layer(&metadata->kv, config->layer_index))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "layer_index is %u, kv.n_layers is %u and kv.layer_stride %llu",
                         config->layer_index, metadata->kv.n_layers,
                         (unsigned long long)metadata->kv.layer_stride);
    return STATUS_OK;
}

/* The rows of a tensor. */
struct tensor {
    const char *name;
    const void *first;
    uint64_t stride, width; /* elements */
    uint64_t n_rows;
};

/* Whether an offset fits in 64 bits. No element is wider than a float; a mask adds two offsets. */
static bool is_in_64_bits(uint64_t stride, uint64_t n_rows)
{
    uint64_t n;
    return !__builtin_mul_overflow(stride, n_rows, &n) && n <= UINT64_MAX / 4 / sizeof(float);
}

static enum status check_tensor(const struct tensor *tensor, struct error *error)
{
    if (tensor->n_rows == 0)
        return STATUS_OK;
    if (!tensor->first)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is NULL, the step has %llu rows",
                         tensor->name, (unsigned long long)tensor->n_rows);
    if (tensor->stride < tensor->width)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s_stride is %llu, a row has %llu elements", tensor->name,
                         (unsigned long long)tensor->stride, (unsigned long long)tensor->width);
    if (!is_in_64_bits(tensor->stride, tensor->n_rows))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s_stride is %llu: the size of %llu rows does not fit in 64 bits",
                         tensor->name, (unsigned long long)tensor->stride,
                         (unsigned long long)tensor->n_rows);
    return STATUS_OK;
}

static enum status check_mask(const struct attention_config *config,
                              const struct attention_metadata *metadata,
                              const struct attention_io *io, struct error *error)
{
    if ((io->mask != NULL) != (config->mask_input != MASK_INPUT_NONE))
        return error_set(error, STATUS_INVALID_ARGUMENT, "mask is %s, mask_input is %d",
                         io->mask ? "given" : "NULL", (int)config->mask_input);
    if (io->mask && (!is_in_64_bits(io->mask_sequence_stride, metadata->n_sequences) ||
                     !is_in_64_bits(io->mask_query_stride, metadata->n_tokens)))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "mask_sequence_stride %llu of %u sequences, mask_query_stride %llu of %u "
                         "queries: the size does not fit in 64 bits",
                         (unsigned long long)io->mask_sequence_stride, metadata->n_sequences,
                         (unsigned long long)io->mask_query_stride, metadata->n_tokens);
    return STATUS_OK;
}

enum status attention_io_check_kv(const struct attention_layer *layer,
                                  const struct attention_metadata *metadata,
                                  const struct attention_io *io, struct error *error)
{
    const uint64_t n_rows = metadata->is_dummy || io->is_written ? 0 : metadata->n_kv_rows;
    const uint64_t width = (uint64_t)layer->config.n_kv_heads * layer->config.head_dim;
    TRY(check_layer(layer, metadata, error));
    if (io->is_written && layer->config.is_cyclic)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "is_written with is_cyclic: its own keys are staged beside the cache");
    TRY(check_tensor(&(struct tensor){"k", io->k, io->k_stride, width, n_rows}, error));
    return check_tensor(&(struct tensor){"v", io->v, io->v_stride, width, n_rows}, error);
}

/* A dummy step reads nothing. */
enum status attention_io_check(const struct attention_layer *layer,
                               const struct attention_metadata *metadata,
                               const struct attention_io *io, struct error *error)
{
    const uint64_t n_rows = metadata->n_rows;
    const uint64_t width = (uint64_t)layer->config.n_heads * layer->config.head_dim;
    TRY(attention_io_check_kv(layer, metadata, io, error));
    TRY(check_tensor(&(struct tensor){"output", io->output, io->output_stride, width, n_rows},
                     error));
    if (metadata->is_dummy)
        return STATUS_OK;
    TRY(check_tensor(&(struct tensor){"q", io->q, io->q_stride, width, n_rows}, error));
    return check_mask(&layer->config, metadata, io, error);
}
