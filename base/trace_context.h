/*
 * trace_context - which trace a request belongs to, as W3C Trace Context tells it.
 *
 *     traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *                  |  trace id                         parent's span id |
 *                  version                                              flags: bit 0 sampled
 *
 * Read as the recommendation wants it (https://www.w3.org/TR/trace-context/): small hexadecimal digits
 * alone; ids of zeros and version ff are refused; a version above 00 may go on behind the flags, after a
 * "-". Other flags are unknown to us, and not passed on. Whoever gets a text that is refused goes on as if
 * none had come.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACEPARENT_KEY   "traceparent"
#define TRACEPARENT_BYTES 55u
#define TRACE_ID_BYTES    16u
#define SPAN_ID_BYTES     8u
#define TRACE_ID_TEXT     (2 * TRACE_ID_BYTES + 1) /* NUL included */

/* Of zeros: there is none. */
struct trace_context {
    uint8_t trace_id[TRACE_ID_BYTES];
    uint8_t span_id[SPAN_ID_BYTES]; /* of who called, or calls */
    bool is_sampled;                /* whoever takes part is to record */
};

/* context may be NULL. */
bool trace_context_is_some(const struct trace_context *context);
/* False: refused, context_out is left alone. text need not end with NUL. */
bool traceparent_parse(const char *text, size_t bytes, struct trace_context *context_out);
/* Of one that is some. */
void traceparent_format(const struct trace_context *context, char text_out[TRACEPARENT_BYTES + 1]);
void trace_id_format(const struct trace_context *context, char text_out[TRACE_ID_TEXT]);
