#include "ctx_worker/ctx_record.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

void ctx_record_begin(struct ctx_record *record, uint64_t now_ns)
{
    assert(record->arrived_ns == 0 && now_ns > 0);
    record->arrived_ns = now_ns;
    tracer_enter(record->tracer, &record->origin.trace, &record->place);
    tracer_enter(record->tracer, &record->place.context, &record->prefill);
}

static void tell_chunk(struct ctx_record *record, uint32_t n_blocks, uint64_t now_ns)
{
    struct span span;
    if (!record->prefill.is_recorded)
        return;
    span_init(&span, "chunk", record->chunk_ns, now_ns);
    span_add_number(&span, "kvferry.blocks", n_blocks);
    tracer_tell(record->tracer, &record->prefill, &span);
    record->chunk_ns = now_ns;
}

void ctx_record_note(struct ctx_record *record, const struct prefill_event *event, uint64_t now_ns)
{
    switch (event->kind) {
    case EVENT_BACKLOG:
    case EVENT_SCORES:
        break;
    case EVENT_ACCEPTED:
        assert(!record->accepted_ns && "a prompt is accepted once");
        record->accepted_ns = record->chunk_ns = now_ns;
        break;
    case EVENT_READY:
        assert(record->accepted_ns && event->ready.n_blocks > 0);
        record->n_published += event->ready.n_blocks;
        tell_chunk(record, event->ready.n_blocks, now_ns);
        break;
    case EVENT_FIRST_TOKEN:
        assert(record->accepted_ns && !record->sealed_ns && "it comes before the last blocks");
        break;
    case EVENT_SEALED:
        assert(record->accepted_ns && !record->sealed_ns);
        record->sealed_ns = now_ns;
        /* Of an encoder's text, with what fills its last block. */
        record->cached_tokens = event->sealed.cached_tokens < record->n_tokens
                                    ? event->sealed.cached_tokens
                                    : record->n_tokens;
        record->queue_us = event->sealed.queue_us;
        record->compute_us = event->sealed.compute_us;
        break;
    }
}

static double ms(uint64_t us)
{
    return (double)us / 1000;
}

/* kv_bytes: of the blocks that were published, whether they were read or not. */
static void log_end(const struct ctx_record *record, enum status status, const char *sentence,
                    uint64_t now_ns)
{
    struct log_about about = log_about_origin(&record->origin);
    bool is_renamed = strcmp(record->request_id, record->origin.request_id) != 0;
    about.peer = record->peer;
    log_access(
        &about, "prefill done", LOG_TEXT("status", status_name(status)),
        LOG_U64("code", (uint64_t)status_grpc_code(status)),
        LOG_TEXT("reason", status_reason(status)),
        LOG_TEXT("attempt_id", is_renamed ? record->request_id : NULL),
        LOG_U64("prompt_tokens", record->n_tokens), LOG_U64("cached_tokens", record->cached_tokens),
        LOG_F64("total_ms", (double)(now_ns - record->arrived_ns) / (double)NS_PER_MS),
        LOG_F64("queue_ms", ms(record->queue_us)), LOG_F64("prefill_ms", ms(record->compute_us)),
        LOG_U64("kv_bytes", record->n_published * record->block_bytes), LOG_TEXT("why", sentence));
}

static void tell_spans(const struct ctx_record *record, enum status status, uint64_t now_ns)
{
    struct span span;
    if (!record->place.is_recorded)
        return;
    span_init(&span, "queue", record->arrived_ns,
              record->accepted_ns ? record->accepted_ns : now_ns);
    tracer_tell(record->tracer, &record->place, &span);
    if (record->accepted_ns) {
        span_init(&span, "prefill", record->accepted_ns,
                  record->sealed_ns ? record->sealed_ns : now_ns);
        span.status = record->sealed_ns ? STATUS_OK : status;
        span_add_number(&span, "kvferry.prompt_tokens", record->n_tokens);
        span_add_number(&span, "kvferry.cached_tokens", record->cached_tokens);
        tracer_tell_own(record->tracer, &record->prefill, &span);
    }
    span_init(&span, "kvferry.internal.v1.ContextWorkerService/Prefill", record->arrived_ns,
              now_ns);
    span.is_server = true;
    span.status = status;
    memcpy(span.request_id, record->origin.request_id, sizeof span.request_id);
    span_add_number(&span, "kvferry.prompt_tokens", record->n_tokens);
    span_add_number(&span, "kvferry.kv_bytes", record->n_published * record->block_bytes);
    tracer_tell_own(record->tracer, &record->place, &span);
}

void ctx_record_tell(const struct ctx_record *record, enum status status, const char *sentence,
                     uint64_t now_ns)
{
    assert(record->arrived_ns > 0 && record->arrived_ns <= now_ns);
    assert(record->sealed_ns || status != STATUS_OK);
    log_end(record, status, sentence, now_ns);
    tell_spans(record, status, now_ns);
}
