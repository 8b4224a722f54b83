#include "model/forward/forward.h"

#include "device/device_fetch.h"
#include "kernels/cuda/sampling_parameters.h"
#include "model/forward/forward_parts.h"
#include "model/kernel_choice.h"

#include <assert.h>

static void check_sequence(const struct forward *forward, const struct forward_sequence *sequence,
                           bool is_context)
{
    const struct forward_options *options = &forward->options;
    uint64_t kv_tokens = (uint64_t)sequence->n_past + sequence->n_query;
    assert(sequence->n_query >= 1 && (is_context || sequence->n_query == 1));
    assert(kv_tokens <= forward->kv_tokens_max);
    assert(sequence->n_blocks <= options->blocks_max);
    assert((uint64_t)sequence->n_blocks * options->block_tokens >= kv_tokens);
}

/* Copies the tables of sequence i, which kernels check: a block that the window hides becomes one that the sequence has. Returns
 * them, [n_groups][n_blocks] as before. */
static const block_id *fill_tables(struct forward *forward, const struct forward_sequence *sequence,
                                   uint32_t i)
{
    const struct forward_options *options = &forward->options;
    const uint32_t n_groups = cache_groups_count(&options->groups), stride = sequence->n_blocks;
    const uint32_t kv_len = sequence->n_past + sequence->n_query;
    const uint32_t n_spans = cache_spans(options->block_tokens, kv_len);
    block_id *tables = forward->tables + (size_t)i * n_groups * options->blocks_max;
    for (uint32_t group = 0; group < n_groups; group++) {
        const block_id *from = sequence->blocks + (size_t)group * stride;
        block_id *to = tables + (size_t)group * stride;
        const uint32_t first = cache_group_first_span(&options->groups, group,
                                                      options->block_tokens, sequence->n_past);
        for (uint32_t span = 0; span < n_spans; span++)
            to[span] = from[span > first ? span : first];
    }
    return tables;
}

/* Lays the batch out for the kernels: fills sequences, token_ids and logit_rows (the packed token of each wanted row). */
static void pack(struct forward *forward, const struct forward_sequence *sequences,
                 uint32_t n_contexts, uint32_t *token_ids, uint32_t *logit_rows,
                 struct packed_step *packed)
{
    uint32_t n_tokens = 0, n_logits = 0;
    forward_forget_adapters(forward);
    for (uint32_t i = 0; i < packed->n_sequences; i++) {
        const struct forward_sequence *sequence = &sequences[i];
        uint32_t kv_len = sequence->n_past + sequence->n_query;
        check_sequence(forward, sequence, i < n_contexts);
        assert(sequence->n_query <= forward->options.tokens_max - n_tokens);
        forward->sequences[i] = (struct attention_sequence){
            .request_id = sequence->request_id,
            .phase = i < n_contexts ? PHASE_CONTEXT : PHASE_GENERATION,
            .query_len = sequence->n_query,
            .kv_len = kv_len,
            .prompt_len = sequence->prompt_len,
            .block_ids = forward->tables ? fill_tables(forward, sequence, i) : sequence->blocks,
            .n_blocks = sequence->n_blocks,
            .window = sequence->window,
        };
        if (forward->recurrent.lens)
            forward_take_state(forward, sequence, i);
        for (uint32_t t = 0; t < sequence->n_query; t++) {
            assert(sequence->token_ids[t] < forward->config->vocabulary);
            token_ids[n_tokens + t] = sequence->token_ids[t];
        }
        forward_take_adapter(forward, sequence, n_tokens, n_logits);
        n_tokens += sequence->n_query;
        packed->keeps_rows |= sequence->keeps_rows;
        if (sequence->wants_logits)
            logit_rows[n_logits++] = n_tokens - 1;
    }
    packed->n_tokens = n_tokens;
    packed->n_logits = n_logits;
}

/* Fills a bucket with padding rows of any token. Their results are not read, and they use no block. */
static void pad(struct forward *forward, uint32_t n_sequences, uint32_t *token_ids,
                struct packed_step *packed)
{
    for (uint32_t i = packed->n_sequences; i < n_sequences; i++) {
        forward->sequences[i] = (struct attention_sequence){
            .phase = PHASE_GENERATION, .query_len = 1, .kv_len = 1, .is_dummy = true};
        token_ids[packed->n_tokens++] = 0;
    }
    if (packed->n_sequences < n_sequences)
        packed->n_sequences = n_sequences;
}

/* Writes the step into an arena and sends it to the device. DEVICE_LOST. */
static enum status lay_out(struct forward *forward, const struct step_layout *layout,
                           const struct forward_sequence *sequences, uint32_t n_sequences,
                           uint32_t n_contexts, struct packed_step *packed_out)
{
    struct packed_step packed = {
        .metadata = layout->metadata, .wide = layout->wide, .n_sequences = n_sequences};
    const uint8_t *sent;
    uint8_t *view;
    size_t bytes = layout->bytes;
    if (forward_finds(forward))
        bytes += forward_sent_penalties_bytes(sequences, n_sequences);
    TRY(stage_take(forward->stage, bytes, &view));
    uint32_t *token_ids = (uint32_t *)(void *)view;
    pack(forward, sequences, n_contexts, token_ids,
         (uint32_t *)(void *)(view + layout->logit_rows_at), &packed);
    pad(forward, layout->metadata ? layout->metadata->n_static : 0, token_ids, &packed);
    if (forward_finds(forward))
        forward_lay_out_wishes(layout, sequences, n_sequences, view);
    const struct attention_step step = {.sequences = forward->sequences,
                                        .n_sequences = packed.n_sequences};
    TRY(forward_send(forward, layout, &step, view, &sent));
    packed.positions = forward->latent ? forward_latent_prepare(forward, packed.n_sequences)
                                       : layout->metadata->positions;
    if (forward->encoder)
        packed.cross = forward_prepare_cross(forward, sequences, n_sequences, n_contexts);
    packed.sent = sent;
    packed.token_ids = (const uint32_t *)(const void *)sent;
    packed.logit_rows = (const uint32_t *)(const void *)(sent + layout->logit_rows_at);
    *packed_out = packed;
    return STATUS_OK;
}
uint64_t forward_layers_done(const struct forward *forward)
{
    return atomic_load_explicit(&forward->layers_done, memory_order_relaxed);
}

void forward_on_layer(struct forward *forward, forward_layer_done done, void *arg)
{
    forward->on_layer = done;
    forward->on_layer_arg = arg;
}
/* ---- graphs ---- */

static struct device_graph *graph_of(const struct step_layout *layout, const uint8_t *sent)
{
    uint32_t i = 0;
    while (layout->graphs[i].sent != sent)
        i++;
    assert(i < layout->n_graphs && "each arena has one");
    return layout->graphs[i].graph;
}

/* Captures a step with only padding rows. It has the same launches as every step of its bucket: steps differ only in
 * the contents of the arena. */
static enum status capture_step(struct forward *forward, struct step_layout *layout)
{
    struct device *device = forward->options.device;
    struct step_graph *captured = &layout->graphs[layout->n_graphs];
    struct packed_step packed = {0};
    assert(layout->n_graphs < STAGE_ARENAS && forward->logits.data);
    TRY(lay_out(forward, layout, NULL, 0, 0, &packed));
    assert(packed.n_tokens == layout->metadata->n_static);
    packed.n_logits = packed.n_tokens;
    device_capture_begin(device);
    forward_compute(forward, &packed, forward->logits);
    if (forward_finds(forward))
        forward_enqueue_find(forward, layout, packed.sent, packed.n_logits);
    enum status status = device_capture_end(device, &captured->graph);
    stage_keep(forward->stage, device_record(device, DEVICE_COMPUTE));
    TRY(status);
    captured->sent = packed.sent;
    layout->n_graphs++;
    return STATUS_OK;
}

enum status forward_capture(struct forward *forward, uint32_t n_arenas, struct error *error)
{
    struct device *device = forward->options.device;
    enum status status = STATUS_OK;
    uint32_t n = 0;
    if (!device_captures(device) || forward->n_layouts == 1)
        return STATUS_OK;
    device_bind(device);
    for (; status == STATUS_OK && n < (forward->n_layouts - 1) * n_arenas; n++)
        status = capture_step(forward, &forward->layouts[1 + n / n_arenas]);
    if (status == STATUS_OK)
        status = device_wait(device, device_record(device, DEVICE_COMPUTE));
    if (status == STATUS_NO_MEMORY)
        return device_no_memory(device, "graphs of the steps that generate", 0, error);
    if (status != STATUS_OK)
        return error_set(error, status, "the device was lost when steps were captured");
    return STATUS_OK;
}

/* ---- a step ---- */

struct step {
    const struct forward_sequence *sequences;
    uint32_t n_sequences, n_contexts;
    struct rows logits; /* memory that kernels can write */
    bool finds;
    uint32_t n_logits; /* set when the step is enqueued */
    struct device_ticket ticket;
};

static enum status enqueue(struct forward *forward, struct step *step)
{
    struct device *device = forward->options.device;
    const uint32_t n_sequences = step->n_sequences;
    struct packed_step packed = {0};
    assert(step->sequences && n_sequences >= 1 && n_sequences <= forward->options.sequences_max);
    assert(step->n_contexts <= n_sequences && forward->kv.base && "a pool is attached");
    device_bind(device);
    forward->n_found = forward->n_kept = 0;
    const struct step_layout *layout = forward_layout_of(forward, n_sequences, step->n_contexts);
    TRY(lay_out(forward, layout, step->sequences, n_sequences, step->n_contexts, &packed));
    if (packed.n_logits == n_sequences && layout->n_graphs > 0) {
        device_replay(device, graph_of(layout, packed.sent));
    } else {
        forward_compute(forward, &packed, step->logits);
        if (step->finds)
            forward_enqueue_find(forward, layout, packed.sent, packed.n_logits);
    }
    step->n_logits = packed.n_logits;
    forward->n_kept = packed.keeps_rows ? packed.n_tokens : 0;
    step->ticket = device_record(device, DEVICE_COMPUTE);
    stage_keep(forward->stage, step->ticket);
    return STATUS_OK;
}

enum status forward_run(struct forward *forward, const struct forward_sequence *sequences,
                        uint32_t n_sequences, uint32_t n_contexts, float *logits_out)
{
    const bool is_fetched = forward->logits.data;
    struct step step = {
        .sequences = sequences,
        .n_sequences = n_sequences,
        .n_contexts = n_contexts,
        .logits = is_fetched ? forward->logits : (struct rows){logits_out, DTYPE_F32},
    };
    TRY(enqueue(forward, &step));
    if (!is_fetched || step.n_logits == 0)
        return device_wait(forward->options.device, step.ticket);
    size_t row_bytes = forward->config->vocabulary * sizeof *logits_out;
    return device_fetch(forward->options.device, forward->logits.data, step.n_logits * row_bytes,
                        logits_out);
}

enum status forward_find(struct forward *forward, const struct forward_sequence *sequences,
                         uint32_t n_sequences, uint32_t n_contexts,
                         struct sampling_result *found_out)
{
    struct device *device = forward->options.device;
    struct step step = {
        .sequences = sequences,
        .n_sequences = n_sequences,
        .n_contexts = n_contexts,
        .logits = forward->logits,
        .finds = true,
    };
    assert(forward_finds(forward));
    TRY(enqueue(forward, &step));
    if (step.n_logits == 0)
        return device_wait(device, step.ticket);
    TRY(device_fetch(device, forward->found.data, step.n_logits * sizeof *found_out, found_out));
    forward->n_found = step.n_logits;
    return STATUS_OK;
}

enum status forward_rows(struct forward *forward, uint32_t first, uint32_t n, float *logits_out)
{
    struct device *device = forward->options.device;
    const bool is_fetched = forward->logits.data;
    const struct rows logits = is_fetched ? forward->logits : (struct rows){logits_out, DTYPE_F32};
    assert(n >= 1 && n <= forward->options.sequences_max);
    assert(first < forward->n_kept && n <= forward->n_kept - first && "rows of the last step");
    device_bind(device);
    forward->n_found = 0;
    forward_head(forward,
                 forward_rows_from(forward->normed, (size_t)first * forward->config->hidden), n,
                 logits);
    forward_count_layer(forward);
    if (!is_fetched)
        return device_wait(device, device_record(device, DEVICE_COMPUTE));
    return device_fetch(device, logits.data,
                        n * (size_t)forward->config->vocabulary * sizeof *logits_out, logits_out);
}

/* ---- planning of products ---- */

static enum status plan_steps(const struct forward *forward, struct error *error)
{
    const struct forward_options *options = &forward->options;
    for (uint32_t n = 1; n < options->tokens_max; n *= 2)
        TRY(forward_plan_step(forward, n, error));
    TRY(forward_plan_step(forward, options->tokens_max, error));
    if (options->sequences_max < options->tokens_max)
        TRY(forward_plan_step(forward, options->sequences_max, error));
    return STATUS_OK;
}

enum status forward_plan_products(struct forward *forward, struct error *error)
{
    struct device *device = forward->options.device;
    if (!kernel_choice_is_fast(forward->kernels))
        return STATUS_OK;
    device_bind(device);
    enum status planned = plan_steps(forward, error); /* even if it failed, kernels may still run */
    enum status done = device_wait(device, device_record(device, DEVICE_COMPUTE));
    return planned == STATUS_OK ? done : planned;
}
