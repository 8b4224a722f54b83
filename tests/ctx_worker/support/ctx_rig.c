#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static uint64_t now_ns(void *arg)
{
    struct ctx_rig *rig = arg;
    uint64_t layers = forward_layers_done(rig->base.forward);
    rig->now_ns += (layers - rig->layers_passed) * rig->layer_ns;
    rig->layers_passed = layers;
    if (rig->meanwhile)
        rig->meanwhile(rig);
    return rig->now_ns;
}

static void on_event(void *arg, void *handle, const struct prefill_event *event)
{
    struct rig_stream *stream = handle;
    (void)arg;
    cr_assert_eq(stream->n_finishes, 0, "an event after the end");
    cr_assert_lt(stream->n_events, RIG_EVENTS_MAX);
    if (event->kind == EVENT_SCORES) {
        cr_assert_eq(event->scores.first, stream->n_scored, "each once and in order");
        cr_assert_leq(stream->n_scored + event->scores.n, RIG_CONTEXT_TOKENS);
        memcpy(stream->scores + stream->n_scored, event->scores.logprobs,
               event->scores.n * sizeof *stream->scores);
        stream->n_scored += event->scores.n;
    }
    stream->kinds[stream->n_events] = event->kind;
    stream->events[stream->n_events++] = *event;
}

static void on_finish(void *arg, void *handle, enum status status, const char *sentence)
{
    struct rig_stream *stream = handle;
    (void)arg;
    cr_assert_not_null(sentence);
    cr_assert_eq(stream->n_finishes++, 0, "finished twice");
    stream->status = status;
}

static void on_abort(void *arg, void *handle, enum ctx_abort_found found)
{
    struct rig_call *call = handle;
    (void)arg;
    call->n_replies++;
    call->found = found;
}

static void on_flush(void *arg, void *handle, uint32_t n_evicted)
{
    struct rig_call *call = handle;
    (void)arg;
    call->n_replies++;
    call->n_evicted = n_evicted;
}

static void open_transfer(struct ctx_rig *rig)
{
    const struct sim_options network = {.seed = 1};
    cr_assert_eq(sim_fabric_create(&network, &rig->fabric), STATUS_OK);
    cr_assert_eq(sim_transport_open(rig->fabric, 1, RIG_INCARNATION, &rig->transport), STATUS_OK);
    rig->direct = *rig->transport->ops;
    rig->direct.is_direct = true;
    if (rig->options.is_read_alone)
        rig->transport->ops = &rig->direct;
    const struct kv_sender_options sender = {.transfers_max = rig->options.slots_max,
                                             .blocks_max = RIG_CONTEXT_TOKENS / RIG_BLOCK_TOKENS,
                                             .device = rig->base.device,
                                             .pool_base = block_pool_base(rig->base.pool),
                                             .block_bytes = block_pool_block_bytes(rig->base.pool),
                                             .n_blocks = rig->options.n_blocks};
    cr_assert_eq(kv_sender_create(&sender, rig->transport, &rig->sender), STATUS_OK);
}

void ctx_rig_open(struct ctx_rig *rig, struct ctx_rig_options options)
{
    struct error error = {""};
    *rig = (struct ctx_rig){.options = options, .now_ns = 1000};
    engine_rig_open(&rig->base,
                    &(struct engine_rig_options){.n_blocks = options.n_blocks,
                                                 .sequences_max = options.slots_max,
                                                 .step_tokens = RIG_BATCH_TOKENS,
                                                 .device = options.device,
                                                 .overflows = options.overflows,
                                                 .overflow_token = options.overflow_token});
    open_transfer(rig);
    const struct ctx_engine_options engine = {
        .name = "ctx",
        .incarnation = RIG_INCARNATION,
        .model = rig->base.model,
        .forward = rig->base.forward,
        .device = rig->base.device,
        .pool = rig->base.pool,
        .desk = options.desk,
        .sender = rig->sender,
        .geometry = rig->base.geometry,
        .vocabulary = RIG_VOCABULARY,
        .context_tokens = RIG_CONTEXT_TOKENS,
        .chunk_tokens = 2 * RIG_BLOCK_TOKENS,
        .step_target_ns = options.step_target_ns,
        .batch_tokens = RIG_BATCH_TOKENS,
        .slots_max = options.slots_max,
        .queue_max = options.queue_max,
        .streams_max = options.slots_max + options.queue_max + 4,
        .calls_max = 4,
        .caller_share = options.caller_share ? options.caller_share : 100,
        .priority_aging_ms = RIG_AGING_MS,
        .queue_limit_ns = options.queue_limit_ns,
        .lease_limit_ns = RIG_LEASE_LIMIT_NS,
        .kv_digest = !options.without_digests,
        .prefix_cache = true,
    };
    const struct ctx_engine_ops ops = {.arg = rig,
                                       .now_ns = now_ns,
                                       .event = on_event,
                                       .finish = on_finish,
                                       .abort_reply = on_abort,
                                       .flush_reply = on_flush};
    cr_assert_eq(ctx_engine_create(&engine, &ops, &error, &rig->engine), STATUS_OK, "%s",
                 error.text);
}

void ctx_rig_close(struct ctx_rig *rig)
{
    ctx_engine_destroy(rig->engine);
    kv_sender_destroy(rig->sender);
    rig->transport->ops->close(rig->transport);
    sim_fabric_destroy(rig->fabric);
    engine_rig_close(&rig->base);
}

struct transfer_id ctx_rig_id(const char *name)
{
    struct transfer_id id = {{0}};
    memcpy(id.bytes, name, strnlen(name, sizeof id.bytes));
    return id;
}

struct ctx_prefill_request ctx_rig_request(const char *name, uint32_t seed, uint32_t n_tokens)
{
    return (struct ctx_prefill_request){.input = {.request_id = name,
                                                  .token_ids = engine_rig_tokens(seed, n_tokens),
                                                  .n_tokens = n_tokens,
                                                  .sampling = &SAMPLING_GREEDY,
                                                  .deadline_ns = DEADLINE_NONE},
                                        .transfer_id = ctx_rig_id(name),
                                        .caller = 1,
                                        .caller_incarnation = RIG_READER,
                                        .callee_incarnation = RIG_INCARNATION};
}

enum status ctx_rig_prefill(struct ctx_rig *rig, struct rig_stream *stream, const char *name,
                            uint32_t seed, uint32_t n_tokens)
{
    const struct ctx_prefill_request request = ctx_rig_request(name, seed, n_tokens);
    return ctx_engine_prefill(rig->engine, stream, &request, NULL);
}

enum status ctx_rig_commit(struct ctx_rig *rig, const char *name, uint32_t n_blocks)
{
    struct error error = {""};
    const struct held_commit commit = {.id = ctx_rig_id(name),
                                       .kv_bytes = n_blocks *
                                                   block_pool_block_bytes(rig->base.pool),
                                       .incarnation = RIG_INCARNATION};
    enum status status = ctx_engine_commit(rig->engine, &commit, &error);
    cr_assert_eq(status == STATUS_OK, error.text[0] == '\0', "a refusal says why");
    return status;
}

void ctx_rig_step(struct ctx_rig *rig)
{
    ctx_engine_step(rig->engine, rig->now_ns);
}

void ctx_rig_settle(struct ctx_rig *rig)
{
    for (int i = 0; i < 64; i++) {
        uint64_t next_ns = ctx_engine_step(rig->engine, rig->now_ns);
        unsigned work = kv_sender_progress(rig->sender, rig->now_ns);
        if (work == 0 && next_ns > rig->now_ns)
            break;
    }
    ctx_engine_step(rig->engine, rig->now_ns);
}

uint32_t ctx_rig_blocks(const struct ctx_rig *rig, enum block_state state)
{
    return block_pool_count(rig->base.pool, state);
}
