/*
 * ctx_record - the log and the trace of one Prefill: an access line at its end, the spans queue and prefill, and in prefill a
 * span for each chunk whose blocks were announced.
 *
 * Thread: the queue thread until the engine knows the stream, then the engine's.
 */
#pragma once

#include "ctx_worker/ctx_engine.h"
#include "trace/tracer.h"

struct ctx_record {
    /* Set before ctx_record_begin. */
    struct request_origin origin;
    char request_id[ENGINE_REQUEST_ID_MAX + 1]; /* the attempt's */
    char peer[64];
    struct tracer *tracer; /* may be NULL */
    uint32_t n_tokens;     /* of the prompt */

    uint64_t block_bytes; /* before the first event */
    struct trace_place place, prefill;
    uint64_t arrived_ns;
    uint64_t accepted_ns, sealed_ns; /* 0: not yet */
    uint64_t chunk_ns;               /* the end of the last chunk */
    uint32_t n_published;            /* blocks */
    uint32_t cached_tokens;
    uint64_t queue_us, compute_us;
};

void ctx_record_begin(struct ctx_record *record, uint64_t now_ns);
void ctx_record_note(struct ctx_record *record, const struct prefill_event *event, uint64_t now_ns);
void ctx_record_tell(const struct ctx_record *record, enum status status, const char *sentence,
                     uint64_t now_ns);
