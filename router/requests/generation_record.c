#include "router/requests/generation_record.h"

#include "base/log/log.h"
#include "process/process_state.h"
#include "router/admission/refusal.h"
#include "router/requests/choice_end.h"

#include <assert.h>
#include <string.h>

static double ms(uint64_t us)
{
    return (double)us / 1000;
}

static const char *finish_name(Kvferry__V1__FinishReason reason)
{
    switch (reason) {
    case KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP:
        return "stop";
    case KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH:
        return "length";
    default:
        return NULL;
    }
}

/* Its figures are those of the first choice, whose prompt was computed. */
static void log_end(const struct generation *generation, const struct reply_end *end,
                    uint32_t n_generated, uint64_t now_ns)
{
    const Kvferry__V1__Timing *timing = &end->timing;
    enum status status = generation->status;
    char peer[64];
    generation->call->ops->peer(generation->call, peer, sizeof peer);
    const struct log_about about = {
        .request_id = generation->request_id, .trace = &generation->place.context, .peer = peer};
    log_access(
        &about, "request done", LOG_TEXT("status", status_name(status)),
        LOG_U64("code", (uint64_t)status_grpc_code(status)),
        LOG_TEXT("reason", status_reason(status)),
        LOG_TEXT("tenant", generation_tenant(generation)),
        LOG_TEXT("finish", status == STATUS_OK ? finish_name(end->reason) : NULL),
        LOG_U64("prompt_tokens", generation->n_tokens),
        LOG_U64("cached_tokens", end->usage.cached_tokens),
        LOG_U64("generated_tokens", n_generated), LOG_U64("choices", generation->n_choices),
        LOG_F64("ttft_ms", ms(timing->first_token_us)),
        LOG_F64("total_ms", (double)(now_ns - generation->began_ns) / (double)NS_PER_MS),
        LOG_F64("queue_ms", ms(timing->queue_us)), LOG_F64("prefill_ms", ms(timing->prefill_us)),
        LOG_F64("transfer_ms", ms(timing->transfer_us)),
        LOG_F64("decode_ms", ms(timing->decode_us)), LOG_U64("kv_bytes", timing->kv_bytes_received),
        LOG_U64("attempts", generation->choices[0].n_attempts),
        LOG_TEXT("generation_worker", timing->generation_worker),
        LOG_TEXT("context_worker", timing->context_worker),
        LOG_TEXT("place", prefill_place_name(timing->prefill_place)));
}

static void tell_part(const struct generation *generation, const char *name, uint64_t start_ns,
                      uint64_t end_ns)
{
    struct span span;
    span_init(&span, name, start_ns, end_ns);
    tracer_tell(generation->tracer, &generation->place, &span);
}

static uint64_t placed_ns(const struct generation *generation)
{
    return generation->choices ? generation->choices[0].placed_ns : 0;
}

/* end NULL: it was refused. */
static void tell_spans(const struct generation *generation, enum status status,
                       const struct reply_end *end, uint32_t n_generated, uint64_t now_ns)
{
    struct span span;
    uint64_t queued_ns = placed_ns(generation);
    assert((!queued_ns || generation->dispatched_ns) && "placed by dispatch only");
    if (!generation->place.is_recorded)
        return;
    uint64_t routed_ns = generation->dispatched_ns ? generation->dispatched_ns : now_ns;
    tell_part(generation, "route", generation->began_ns, routed_ns);
    if (generation->dispatched_ns)
        tell_part(generation, "queue", routed_ns, queued_ns ? queued_ns : now_ns);
    span_init(&span, "request", generation->began_ns, now_ns);
    span.is_server = true;
    span.status = status;
    memcpy(span.request_id, generation->request_id, sizeof span.request_id);
    span_add_number(&span, "kvferry.prompt_tokens", generation->n_tokens);
    span_add_number(&span, "kvferry.generated_tokens", n_generated);
    span_add_number(&span, "kvferry.choices", generation->n_choices);
    span_add_number(&span, "kvferry.attempts", end ? generation->choices[0].n_attempts : 0);
    if (end) {
        const Kvferry__V1__Timing *timing = &end->timing;
        span_add_number(&span, "kvferry.cached_tokens", end->usage.cached_tokens);
        span_add_number(&span, "kvferry.kv_bytes", timing->kv_bytes_received);
        span_add_text(&span, "kvferry.prefill_place", prefill_place_name(timing->prefill_place));
        span_add_text(&span, "kvferry.finish_reason",
                      status == STATUS_OK ? finish_name(end->reason) : NULL);
    }
    tracer_tell_own(generation->tracer, &generation->place, &span);
}

void generation_tell(const struct generation *generation, uint32_t n_generated, uint64_t now_ns)
{
    struct reply_end end;
    choice_end_make(&generation->choices[0], &end);
    log_end(generation, &end, n_generated, now_ns);
    tell_spans(generation, generation->status, &end, n_generated, now_ns);
}

static void log_refusal(struct door_call *call, const struct trace_context *trace,
                        enum status status, const char *sentence)
{
    char peer[64];
    call->ops->peer(call, peer, sizeof peer);
    const struct log_about about = {
        .request_id = call->ops->request_id(call), .trace = trace, .peer = peer};
    refusal_tell(&about, status, door_call_tenant(call), sentence);
}

void generation_tell_refusal(const struct generation *generation, enum status status,
                             const char *sentence, uint64_t now_ns)
{
    log_refusal(generation->call, &generation->place.context, status, sentence);
    tell_spans(generation, status, NULL, 0, now_ns);
}

void call_tell_refusal(struct door_call *call, enum status status, const char *sentence)
{
    struct request_origin origin;
    call->ops->origin(call, &origin);
    log_refusal(call, &origin.trace, status, sentence);
}
