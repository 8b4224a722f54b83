#include "gen_worker/gen_record.h"

#include <string.h>

static const char *finish_name(enum gen_finish_reason reason)
{
    static const char *const NAMES[] = {
        [GEN_FINISH_NONE] = NULL, [GEN_FINISH_STOP] = "stop", [GEN_FINISH_LENGTH] = "length"};
    return NAMES[reason];
}

static double ms(uint64_t us)
{
    return (double)us / 1000;
}

static void log_end(const struct gen_record *record, const struct gen_finish *finish,
                    uint64_t now_ns)
{
    const struct gen_timing *timing = &finish->timing;
    const struct log_about about = log_about_origin(record->origin);
    bool is_renamed = strcmp(record->request_id, record->origin->request_id) != 0;
    log_access(
        &about, "decode done", LOG_TEXT("status", status_name(finish->status)),
        LOG_U64("code", (uint64_t)status_grpc_code(finish->status)),
        LOG_TEXT("reason", status_reason(finish->status)),
        LOG_TEXT("attempt_id", is_renamed ? record->request_id : NULL),
        LOG_TEXT("finish", finish_name(finish->reason)),
        LOG_U64("prompt_tokens", finish->prompt_tokens),
        LOG_U64("cached_tokens", finish->cached_tokens),
        LOG_U64("generated_tokens", finish->generated_tokens),
        LOG_F64("ttft_ms", ms(timing->first_token_us)),
        LOG_F64("total_ms", (double)(now_ns - record->arrived_ns) / (double)NS_PER_MS),
        LOG_F64("queue_ms", ms(timing->queue_us)), LOG_F64("prefill_ms", ms(timing->prefill_us)),
        LOG_F64("transfer_ms", ms(timing->transfer_us)),
        LOG_F64("decode_ms", ms(timing->decode_us)), LOG_U64("kv_bytes", timing->kv_bytes_received),
        LOG_U64("kv_tokens_received", timing->kv_tokens_received),
        LOG_U64("kv_tokens_recomputed", timing->kv_tokens_recomputed),
        LOG_TEXT("context_worker", finish->context_worker),
        LOG_TEXT("place", record->prefill_place), LOG_TEXT("why", finish->sentence));
}

/* A part that began. One that has not ended ends now. */
static void tell_part(const struct gen_record *record, struct span *span)
{
    if (span->start_ns)
        tracer_tell(record->tracer, record->place, span);
}

static uint64_t or_now(uint64_t at_ns, uint64_t now_ns)
{
    return at_ns ? at_ns : now_ns;
}

static void tell_parts(const struct gen_record *record, const struct gen_finish *finish,
                       uint64_t now_ns)
{
    const struct gen_marks *marks = &finish->marks;
    bool has_asked = marks->accepted_ns || marks->received_ns || marks->failed_ns;
    uint64_t received_ns = marks->received_ns ? marks->received_ns : marks->failed_ns;
    struct span span;
    span_init(&span, "queue", marks->arrived_ns, or_now(marks->admitted_ns, now_ns));
    tell_part(record, &span);

    span_init(&span, "reserve", has_asked ? marks->admitted_ns : 0,
              marks->accepted_ns ? marks->accepted_ns : marks->failed_ns);
    tell_part(record, &span);

    span_init(&span, "transfer", marks->first_ready_ns, or_now(received_ns, now_ns));
    span.status = marks->received_ns ? STATUS_OK : STATUS_TRANSFER_FAILED;
    span_add_text(&span, "kvferry.transport", record->transport);
    span_add_number(&span, "kvferry.kv_bytes", finish->timing.kv_bytes_received);
    span_add_number(&span, "kvferry.kv_tokens", finish->timing.kv_tokens_received);
    tell_part(record, &span);

    span_init(&span, "prefill", marks->local_ns, or_now(marks->computed_ns, now_ns));
    span_add_number(&span, "kvferry.computed_tokens", finish->timing.kv_tokens_recomputed);
    tell_part(record, &span);

    span_init(&span, "decode", marks->first_token_ns, marks->last_token_ns);
    span_add_number(&span, "kvferry.generated_tokens", finish->generated_tokens);
    tell_part(record, &span);
}

static void tell_spans(const struct gen_record *record, const struct gen_finish *finish,
                       uint64_t now_ns)
{
    struct span span;
    if (!record->place->is_recorded)
        return;
    tell_parts(record, finish, now_ns);
    span_init(&span, "kvferry.internal.v1.GenerationWorkerService/Decode", record->arrived_ns,
              now_ns);
    span.is_server = true;
    span.status = finish->status;
    memcpy(span.request_id, record->origin->request_id, sizeof span.request_id);
    span_add_number(&span, "kvferry.prompt_tokens", finish->prompt_tokens);
    span_add_number(&span, "kvferry.cached_tokens", finish->cached_tokens);
    span_add_number(&span, "kvferry.generated_tokens", finish->generated_tokens);
    span_add_text(&span, "kvferry.finish_reason", finish_name(finish->reason));
    span_add_text(&span, "kvferry.prefill_place", record->prefill_place);
    tracer_tell_own(record->tracer, record->place, &span);
}

void gen_record_tell(const struct gen_record *record, const struct gen_finish *finish,
                     uint64_t now_ns)
{
    log_end(record, finish, now_ns);
    tell_spans(record, finish, now_ns);
}
