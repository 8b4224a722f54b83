/*
 * trace_context - the trace of a request, in the format of W3C Trace Context.
 *
 *     traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *                  |  trace id                         parent's span id |
 *                  version                                              flags: bit 0 sampled
 *
 * Parsed by the rules of https://www.w3.org/TR/trace-context/: only lower-case hexadecimal digits; ids of
 * zeros and version ff are refused; with a version above 00 more text may follow the flags, after a "-".
 * Other flags are not known and not passed on. After a refused text the request is handled as if it had
 * none.
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

/* All zeros: no context. */
struct trace_context {
    uint8_t trace_id[TRACE_ID_BYTES];
    uint8_t span_id[SPAN_ID_BYTES]; /* the span that calls this process, or calls from it */
    bool is_sampled;                /* all processes of this trace record it */
};

/* context may be NULL. */
bool trace_context_is_some(const struct trace_context *context);
/* False: refused, context_out does not change. text need not end with NUL. */
bool traceparent_parse(const char *text, size_t bytes, struct trace_context *context_out);
/* The context must not be empty. */
void traceparent_format(const struct trace_context *context, char text_out[TRACEPARENT_BYTES + 1]);
void trace_id_format(const struct trace_context *context, char text_out[TRACE_ID_TEXT]);
