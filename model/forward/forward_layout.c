#include "base/log/log.h"
#include "model/forward/forward_parts.h"

#include <assert.h>

static size_t aligned(size_t bytes)
{
    return (bytes + ATTENTION_ARENA_ALIGNMENT - 1) / ATTENTION_ARENA_ALIGNMENT *
           ATTENTION_ARENA_ALIGNMENT;
}

/* What wide layers have otherwise. ropes: those of the others. */
static struct attention_limits wide_limits(const struct forward *forward,
                                           const struct attention_limits *limits)
{
    struct attention_limits wide = *limits;
    wide.head_dim = forward->config->wide_head_dim;
    wide.n_kv_heads = forward->config->wide_kv_heads;
    return wide;
}

/* Of the ropes those for heads of that size; the rest is NULL. */
static void choose_ropes(struct attention_limits *limits)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ATTENTION_ROPES_MAX; i++) {
        const struct rope *rope = limits->ropes[i];
        limits->ropes[i] = NULL;
        if (rope && rope_head_dim(rope) == limits->head_dim)
            limits->ropes[n++] = rope;
    }
}

static enum status create_metadata(struct forward *forward, const struct attention_limits *limits,
                                   struct step_layout *layout, struct error *error)
{
    const struct attention_backend *backend = forward->backend;
    struct attention_limits narrow = *limits, wide = wide_limits(forward, limits);
    choose_ropes(&narrow);
    choose_ropes(&wide);
    TRY(backend->metadata_create(&narrow, forward->threads, &layout->metadata, error));
    return forward->config->wide_head_dim > 0
               ? backend->metadata_create(&wide, forward->threads, &layout->wide, error)
               : STATUS_OK;
}

static enum status add_layout(struct forward *forward, const struct attention_limits *limits,
                              struct error *error)
{
    assert(forward->n_layouts < STEP_LAYOUTS_MAX);
    struct step_layout *layout = &forward->layouts[forward->n_layouts];
    forward->n_layouts++; /* destroyed with what it has */
    if (!forward->latent)
        TRY(create_metadata(forward, limits, layout, error));
    layout->logit_rows_at = aligned(limits->n_tokens_max * sizeof(uint32_t));
    layout->wishes_at = layout->logit_rows_at + aligned(limits->n_sequences_max * sizeof(uint32_t));
    layout->metadata_at = layout->wishes_at;
    if (forward_finds(forward))
        layout->metadata_at += aligned(forward_wishes_bytes(limits->n_sequences_max));
    layout->bytes = layout->metadata_at;
    if (layout->metadata)
        layout->bytes += forward->backend->metadata_arena_bytes(layout->metadata);
    layout->wide_at = aligned(layout->bytes);
    if (layout->wide)
        layout->bytes = layout->wide_at + forward->backend->metadata_arena_bytes(layout->wide);
    return STATUS_OK;
}

/* Adds a layout for steps of n sequences that generate one token each. */
static enum status add_bucket(struct forward *forward, const struct attention_limits *limits,
                              uint32_t n, struct error *error)
{
    struct attention_limits of_bucket = *limits;
    of_bucket.n_sequences_max = of_bucket.n_tokens_max = n;
    of_bucket.beside = forward->layouts[0].metadata;
    TRY(add_layout(forward, &of_bucket, error));
    struct step_layout *layout = &forward->layouts[forward->n_layouts - 1];
    assert(layout->bytes <= forward->layouts[0].bytes);
    return forward->backend->metadata_make_static(layout->metadata, n, 1, error);
}

static enum status say_no_stage(struct device *device, uint64_t bytes, struct error *error)
{
    struct error cause = {""};
    enum status status = device_no_memory(device, "arenas that steps are laid out in", bytes,
                                          &cause);
    return error_set(error, status, "%s%s", cause.text,
                     device_reads_host(device) || status != STATUS_NO_MEMORY
                         ? ""
                         : ", and as much of the host's memory that can be pinned");
}

enum status forward_layouts_create(struct forward *forward, const struct attention_limits *limits,
                                   struct error *error)
{
    struct device *device = forward->options.device;
    uint32_t n_max = limits->n_sequences_max < limits->n_tokens_max ? limits->n_sequences_max
                                                                    : limits->n_tokens_max;
    uint32_t n = 1;
    TRY(add_layout(forward, limits, error));
    for (; device_wants_static_steps(device) && n < n_max; n *= 2)
        TRY(add_bucket(forward, limits, n, error));
    if (device_wants_static_steps(device))
        TRY(add_bucket(forward, limits, n_max, error));
    size_t bytes = forward->layouts[0].bytes;
    if (forward_finds(forward))
        bytes += forward_penalties_bytes(forward, limits->n_sequences_max);
    enum status status = stage_create(device, DEVICE_COMPUTE, bytes, &forward->stage);
    return status == STATUS_NO_MEMORY ? say_no_stage(device, STAGE_ARENAS * bytes, error) : status;
}

void forward_drop_graphs(struct forward *forward)
{
    for (uint32_t i = 0; i < forward->n_layouts; i++) {
        struct step_layout *layout = &forward->layouts[i];
        for (uint32_t g = 0; g < layout->n_graphs; g++)
            device_graph_destroy(forward->options.device, layout->graphs[g].graph);
        layout->n_graphs = 0;
    }
}

void forward_layouts_destroy(struct forward *forward)
{
    forward_drop_graphs(forward);
    for (uint32_t i = forward->n_layouts;
         i-- > 0;) { /* the first one last: the others use its metadata */
        if (forward->layouts[i].wide)
            forward->backend->metadata_destroy(forward->layouts[i].wide);
        if (forward->layouts[i].metadata)
            forward->backend->metadata_destroy(forward->layouts[i].metadata);
    }
    stage_destroy(forward->stage);
}

const struct step_layout *forward_layout_of(const struct forward *forward, uint32_t n_sequences,
                                            uint32_t n_contexts)
{
    for (uint32_t i = 1; i < forward->n_layouts && n_contexts == 0; i++)
        if (n_sequences <= forward->layouts[i].metadata->n_static)
            return &forward->layouts[i];
    return &forward->layouts[0];
}

enum status forward_send(struct forward *forward, const struct step_layout *layout,
                         const struct attention_step *step, uint8_t *view, const uint8_t **sent_out)
{
    const struct attention_backend *backend = forward->backend;
    struct error error = {""};
    if (!layout->metadata)
        return stage_send_part(forward->stage, layout->bytes, sent_out);
    backend->metadata_use_arena(layout->metadata, view + layout->metadata_at);
    enum status status = backend->metadata_prepare(layout->metadata, step, &forward->kv, &error);
    if (status == STATUS_OK && layout->wide) {
        backend->metadata_use_arena(layout->wide, view + layout->wide_at);
        status = backend->metadata_prepare(layout->wide, step, &forward->wide_kv, &error);
    }
    if (status != STATUS_OK) {
        log_error("a step that cannot be computed: %s", error.text);
        assert(status == STATUS_OK);
        stage_drop(forward->stage);
        return status;
    }
    /* Penalties have a fixed place behind the largest metadata, so that graphs find them. */
    const uint8_t *sent;
    size_t bytes = stage_taken(forward->stage);
    if (bytes == layout->bytes && !layout->wide)
        bytes = layout->metadata_at + layout->metadata->arena_used;
    TRY(stage_send_part(forward->stage, bytes, &sent));
    backend->metadata_use_arena(layout->metadata, (uint8_t *)sent + layout->metadata_at);
    if (layout->wide)
        backend->metadata_use_arena(layout->wide, (uint8_t *)sent + layout->wide_at);
    *sent_out = sent;
    return STATUS_OK;
}
