/*
 * gen_record - the log and the trace of one Decode at its end: an access line, and the spans queue, reserve
 * (until the context worker has its blocks, too), transfer, prefill (of a prompt computed here) and decode.
 *
 * Thread: any; no state.
 */
#pragma once

#include "gen_worker/gen_engine.h"
#include "trace/tracer.h"

/* Borrowed. */
struct gen_record {
    const struct request_origin *origin;
    const struct trace_place *place;
    struct tracer *tracer;     /* may be NULL */
    const char *request_id;    /* the attempt's */
    const char *transport;     /* a literal; NULL: nothing was transferred */
    const char *prefill_place; /* a literal */
    uint64_t arrived_ns;
};

void gen_record_tell(const struct gen_record *record, const struct gen_finish *finish,
                     uint64_t now_ns);
