#include "model/forward.h"

#include "base/log/log.h"
#include "device/device_fetch.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/sampling_parameters.h"
#include "model/forward_parts.h"
#include "model/kernel_choice.h"

#include <assert.h>

/* A packed step; ids and rows are device addresses. */
struct packed {
    const struct attention_metadata *metadata;
    const uint8_t *sent; /* the arena, with: */
    const uint32_t *token_ids, *logit_rows;
    uint32_t n_sequences, n_tokens,
        n_logits; /* in a static step the other counts include padding rows, n_logits does not */
    bool keeps_rows;
};

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

/* Lays the batch out for the kernels: fills sequences, token_ids and logit_rows (the packed token of each wanted row). */
static void pack(struct forward *forward, const struct forward_sequence *sequences,
                 uint32_t n_contexts, uint32_t *token_ids, uint32_t *logit_rows,
                 struct packed *packed)
{
    uint32_t n_tokens = 0, n_logits = 0;
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
            .block_ids = sequence->blocks,
            .n_blocks = sequence->n_blocks,
        };
        for (uint32_t t = 0; t < sequence->n_query; t++) {
            assert(sequence->token_ids[t] < forward->config->vocabulary);
            token_ids[n_tokens + t] = sequence->token_ids[t];
        }
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
                struct packed *packed)
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
                           uint32_t n_contexts, struct packed *packed_out)
{
    struct packed packed = {.metadata = layout->metadata, .n_sequences = n_sequences};
    const uint8_t *sent;
    uint8_t *view;
    size_t bytes = layout->bytes;
    if (forward_finds(forward))
        bytes += forward_sent_penalties_bytes(sequences, n_sequences);
    TRY(stage_take(forward->stage, bytes, &view));
    uint32_t *token_ids = (uint32_t *)(void *)view;
    pack(forward, sequences, n_contexts, token_ids,
         (uint32_t *)(void *)(view + layout->logit_rows_at), &packed);
    pad(forward, layout->metadata->n_static, token_ids, &packed);
    if (forward_finds(forward))
        forward_lay_out_wishes(layout, sequences, n_sequences, view);
    const struct attention_step step = {.sequences = forward->sequences,
                                        .n_sequences = packed.n_sequences};
    TRY(forward_send(forward, layout, &step, view, &sent));
    packed.sent = sent;
    packed.token_ids = (const uint32_t *)(const void *)sent;
    packed.logit_rows = (const uint32_t *)(const void *)(sent + layout->logit_rows_at);
    *packed_out = packed;
    return STATUS_OK;
}

static void norm(const struct forward *forward, const struct tensor *weight, uint32_t n_rows)
{
    const uint32_t hidden = forward->config->hidden;
    forward->kernels->rms_norm(forward->threads, &(struct rms_norm){
                                                     .x = forward->hidden.data,
                                                     .x_dtype = forward->hidden.dtype,
                                                     .x_stride = hidden,
                                                     .w = weight->data,
                                                     .w_dtype = weight->dtype,
                                                     .y = forward->normed.data,
                                                     .y_dtype = forward->normed.dtype,
                                                     .y_stride = hidden,
                                                     .n_tokens = n_rows,
                                                     .n = hidden,
                                                     .eps = forward->config->norm_eps,
                                                 });
}

/* The rows, beginning at element at. */
static struct rows rows_from(struct rows rows, size_t at)
{
    return (struct rows){(uint8_t *)rows.data + at * dtype_bytes(rows.dtype), rows.dtype};
}

/* y[row] = weight x[row] + bias; the caller may change y_stride and accumulate. */
static struct gemm product(const struct tensor *weight, const struct tensor *bias, struct rows x,
                           struct rows y, uint32_t n_rows)
{
    return (struct gemm){
        .x = x.data,
        .x_dtype = x.dtype,
        .x_stride = weight->n_in,
        .w = weight->data,
        .w_dtype = weight->dtype,
        .w_scales = weight->scales,
        .w_scale_rows = 1,
        .w_scale_columns = weight->scale_columns,
        .w_is_packed = weight->is_packed,
        .bias = bias->data,
        .bias_dtype = bias->dtype,
        .y = y.data,
        .y_dtype = y.dtype,
        .y_stride = weight->n_out,
        .n_tokens = n_rows,
        .n_in = weight->n_in,
        .n_out = weight->n_out,
    };
}

static void multiply(const struct forward *forward, struct gemm *products, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        products[i].workspace = forward->workspace.data;
        products[i].workspace_bytes = forward->workspace_bytes;
    }
    forward->kernels->gemm(forward->threads, products, n);
}

/* hidden -> attended: norm, Q K V, rotate, append to the cache, attend.
 * qkv row: [Q heads][K heads][V heads], so three products write side by side. */
static void attend(const struct forward *forward, const struct packed *packed, uint32_t layer)
{
    const uint32_t n_rows = packed->n_tokens;
    const struct model_config *config = forward->config;
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t q_width = config->n_heads * config->head_dim;
    const uint32_t kv_width = config->n_kv_heads * config->head_dim;
    const struct rows q = forward->qkv, k = rows_from(q, q_width), v = rows_from(k, kv_width);

    norm(forward, &weights->attention_norm, n_rows);
    struct gemm products[] = {
        product(&weights->q, &weights->q_bias, forward->normed, q, n_rows),
        product(&weights->k, &weights->k_bias, forward->normed, k, n_rows),
        product(&weights->v, &weights->v_bias, forward->normed, v, n_rows),
    };
    for (int i = 0; i < 3; i++)
        products[i].y_stride = forward->qkv_width;
    multiply(forward, products, 3);

    struct attention_io io = attention_io_fused(&forward->shape, q.data, forward->qkv_width,
                                                forward->attended.data, q_width);
    enum status status = forward->backend->forward(forward->attention[layer], packed->metadata, &io,
                                                   NULL);
    assert(status == STATUS_OK);
    (void)status;
}

/* hidden += o(attended) */
static void project(const struct forward *forward, uint32_t layer, struct rows attended,
                    uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    struct gemm output = product(&weights->o, &weights->o_bias, attended, forward->hidden, n_rows);
    output.accumulate = true;
    multiply(forward, &output, 1);
}

/* Rows first .. first + n_rows - 1, at most mlp_rows_max: hidden += down(silu(gate(normed)) * up(normed)) */
static void mlp_rows(const struct forward *forward, const struct layer_weights *weights,
                     uint32_t first, uint32_t n_rows)
{
    const size_t at = (size_t)first * forward->config->hidden;
    const uint32_t ffn = forward->config->ffn;
    const struct rows x = rows_from(forward->normed, at);
    struct gemm inner[] = {
        product(&weights->gate, &weights->gate_bias, x, forward->gate, n_rows),
        product(&weights->up, &weights->up_bias, x, forward->up, n_rows),
    };
    multiply(forward, inner, 2);
    forward->kernels->gated(forward->threads, &(struct gated){
                                                  .gate = forward->gate.data,
                                                  .up = forward->up.data,
                                                  .gate_stride = ffn,
                                                  .up_stride = ffn,
                                                  .y = forward->gate.data,
                                                  .dtype = forward->gate.dtype,
                                                  .y_stride = ffn,
                                                  .n_tokens = n_rows,
                                                  .n = ffn,
                                                  .activation = ACTIVATION_SILU,
                                              });
    struct gemm outer = product(&weights->down, &weights->down_bias, forward->gate,
                                rows_from(forward->hidden, at), n_rows);
    outer.accumulate = true;
    multiply(forward, &outer, 1);
}

static void mlp(const struct forward *forward, uint32_t layer, uint32_t n_rows)
{
    const struct layer_weights *weights = &forward->weights->layers[layer];
    const uint32_t n_max = forward->mlp_rows_max;
    norm(forward, &weights->mlp_norm, n_rows);
    for (uint32_t first = 0; first < n_rows; first += n_max)
        mlp_rows(forward, weights, first, n_rows - first < n_max ? n_rows - first : n_max);
}

/* y[i] = x[rows[i]]; y has the type of x. */
static struct rows gather(const struct forward *forward, const struct packed *packed, struct rows x,
                          size_t width, void *y)
{
    forward->kernels->embedding(forward->threads, &(struct embedding){
                                                      .table = x.data,
                                                      .dtype = x.dtype,
                                                      .ids = packed->logit_rows,
                                                      .y = y,
                                                      .y_dtype = x.dtype,
                                                      .y_stride = width,
                                                      .n_tokens = packed->n_logits,
                                                      .n = (uint32_t)width,
                                                      .n_rows = packed->n_tokens,
                                                  });
    return (struct rows){y, x.dtype};
}

/* After the last attention only the wanted rows are needed: gathers them. This saves the last layer's MLP for the other
 * rows and changes no bits, since no operator mixes rows. Returns the gathered rows of attended, which are in qkv: its
 * contents are not needed any more. hidden and normed swap their memory until the end of the step. */
static struct rows keep_rows(struct forward *forward, const struct packed *packed)
{
    const size_t q_width = (size_t)forward->config->n_heads * forward->config->head_dim;
    if (packed->n_logits == packed->n_tokens || packed->n_logits == 0)
        return forward->attended; /* all rows are wanted, in this order, or none is */
    assert(q_width <= forward->qkv_width && forward->qkv.dtype == forward->attended.dtype);
    void *hidden = forward->hidden.data;
    forward->hidden = gather(forward, packed, forward->hidden, forward->config->hidden,
                             forward->normed.data);
    forward->normed.data = hidden;
    return gather(forward, packed, forward->attended, q_width, forward->qkv.data);
}

/* hidden <- rows of the embedding */
static void embed(const struct forward *forward, const struct packed *packed)
{
    const struct model_config *config = forward->config;
    forward->kernels->embedding(forward->threads, &(struct embedding){
                                                      .table = forward->weights->embedding.data,
                                                      .dtype = forward->weights->embedding.dtype,
                                                      .ids = packed->token_ids,
                                                      .y = forward->hidden.data,
                                                      .y_dtype = forward->hidden.dtype,
                                                      .y_stride = config->hidden,
                                                      .n_tokens = packed->n_tokens,
                                                      .n = config->hidden,
                                                      .n_rows = config->vocabulary,
                                                  });
}

/* logits <- head(x) */
static void head(const struct forward *forward, struct rows x, uint32_t n_rows, struct rows logits)
{
    static const struct tensor NO_BIAS = {0};
    struct gemm gemm = product(&forward->weights->head, &NO_BIAS, x, logits, n_rows);
    multiply(forward, &gemm, 1);
}

/* logits <- head(norm(hidden)) of the wanted rows. Where all rows are kept, these are gathered from normed, which stays for
 * forward_rows; hidden is not needed any more, and has the room. */
static void score(const struct forward *forward, const struct packed *packed, uint32_t n_rows,
                  struct rows logits)
{
    struct rows x = forward->normed;
    norm(forward, &forward->weights->norm, n_rows);
    if (packed->keeps_rows && packed->n_logits > 0)
        x = gather(forward, packed, x, forward->config->hidden, forward->hidden.data);
    if (packed->n_logits > 0)
        head(forward, x, packed->n_logits, logits);
}

static void layer_done(struct forward *forward)
{
    atomic_fetch_add_explicit(&forward->layers_done, 1, memory_order_relaxed);
    if (forward->on_layer)
        forward->on_layer(forward->on_layer_arg);
}

/* Enqueues the step. logits is memory that kernels can write. */
static void compute(struct forward *forward, const struct packed *packed, struct rows logits)
{
    uint32_t n_rows = packed->n_tokens, n_layers = forward->config->n_layers;
    const struct rows hidden = forward->hidden, normed = forward->normed;
    embed(forward, packed);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        struct rows attended = forward->attended;
        attend(forward, packed, layer);
        if (layer + 1 == n_layers && !packed->keeps_rows) {
            attended = keep_rows(forward, packed);
            n_rows = packed->n_logits;
        }
        if (n_rows > 0) {
            project(forward, layer, attended, n_rows);
            mlp(forward, layer, n_rows);
        }
        layer_done(forward);
    }
    if (n_rows == 0)
        return;
    score(forward, packed, n_rows, logits);
    forward->hidden = hidden; /* every step begins with the same addresses */
    forward->normed = normed;
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
    struct packed packed = {0};
    assert(layout->n_graphs < STAGE_ARENAS && forward->logits.data);
    TRY(lay_out(forward, layout, NULL, 0, 0, &packed));
    assert(packed.n_tokens == layout->metadata->n_static);
    packed.n_logits = packed.n_tokens;
    device_capture_begin(device);
    compute(forward, &packed, forward->logits);
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
    struct packed packed = {0};
    assert(step->sequences && n_sequences >= 1 && n_sequences <= forward->options.sequences_max);
    assert(step->n_contexts <= n_sequences && forward->kv.base && "a pool is attached");
    device_bind(device);
    forward->n_found = forward->n_kept = 0;
    const struct step_layout *layout = forward_layout_of(forward, n_sequences, step->n_contexts);
    TRY(lay_out(forward, layout, step->sequences, n_sequences, step->n_contexts, &packed));
    if (packed.n_logits == n_sequences && layout->n_graphs > 0) {
        device_replay(device, graph_of(layout, packed.sent));
    } else {
        compute(forward, &packed, step->logits);
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
    head(forward, rows_from(forward->normed, (size_t)first * forward->config->hidden), n, logits);
    layer_done(forward);
    if (!is_fetched)
        return device_wait(device, device_record(device, DEVICE_COMPUTE));
    return device_fetch(device, logits.data,
                        n * (size_t)forward->config->vocabulary * sizeof *logits_out, logits_out);
}

/* ---- planning of products ---- */

/* Plans the products of a step of n tokens. They must be those that the functions above compute. */
static enum status plan_step(const struct forward *forward, uint32_t n, struct error *error)
{
    static const struct tensor NO_BIAS = {0};
    const struct model_config *config = forward->config;
    const struct layer_weights *layer = &forward->weights->layers[0];
    const uint32_t q_width = config->n_heads * config->head_dim;
    const struct rows x = forward->normed, q = forward->qkv, k = rows_from(q, q_width);
    struct gemm gemms[] = {
        product(&layer->q, &layer->q_bias, x, q, n),
        product(&layer->k, &layer->k_bias, x, k, n),
        product(&layer->o, &layer->o_bias, forward->attended, forward->hidden, n),
        product(&layer->gate, &layer->gate_bias, x, forward->gate, n),
        product(&layer->down, &layer->down_bias, forward->gate, forward->hidden, n),
        product(&forward->weights->head, &NO_BIAS, x, forward->logits, n),
    };
    const uint32_t n_gemms = n > forward->options.sequences_max ? 5 : 6;
    gemms[0].y_stride = gemms[1].y_stride = forward->qkv_width;
    gemms[2].accumulate = gemms[4].accumulate = true;
    for (uint32_t g = 0; g < n_gemms; g++)
        TRY(cuda_gemm_plan(&gemms[g], error));
    return STATUS_OK;
}

static enum status plan_steps(const struct forward *forward, struct error *error)
{
    const struct forward_options *options = &forward->options;
    for (uint32_t n = 1; n < options->tokens_max; n *= 2)
        TRY(plan_step(forward, n, error));
    TRY(plan_step(forward, options->tokens_max, error));
    if (options->sequences_max < options->tokens_max)
        TRY(plan_step(forward, options->sequences_max, error));
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
