#include "base/trace_context.h"

#include "base/hex.h"

#include <assert.h>
#include <string.h>

/* Where the fields begin; each but the first follows a "-". */
enum { AT_TRACE = 3, AT_SPAN = 36, AT_FLAGS = 53 };

#define FLAG_SAMPLED 0x01u
#define NO_VERSION   0xffu

static bool is_zero(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i])
            return false;
    return true;
}

bool trace_context_is_some(const struct trace_context *context)
{
    return context && !is_zero(context->trace_id, TRACE_ID_BYTES);
}

static bool has_dashes(const char *text)
{
    return text[AT_TRACE - 1] == '-' && text[AT_SPAN - 1] == '-' && text[AT_FLAGS - 1] == '-';
}

bool traceparent_parse(const char *text, size_t bytes, struct trace_context *context_out)
{
    struct trace_context context;
    uint8_t version, flags;
    if (bytes < TRACEPARENT_BYTES || !has_dashes(text) || !hex_parse(text, 2, &version, 1) ||
        !hex_parse(text + AT_TRACE, AT_SPAN - 1 - AT_TRACE, context.trace_id, TRACE_ID_BYTES) ||
        !hex_parse(text + AT_SPAN, AT_FLAGS - 1 - AT_SPAN, context.span_id, SPAN_ID_BYTES) ||
        !hex_parse(text + AT_FLAGS, 2, &flags, 1))
        return false;
    if (version == NO_VERSION || is_zero(context.trace_id, TRACE_ID_BYTES) ||
        is_zero(context.span_id, SPAN_ID_BYTES))
        return false;
    if (bytes > TRACEPARENT_BYTES && (version == 0 || text[TRACEPARENT_BYTES] != '-'))
        return false;
    context.is_sampled = flags & FLAG_SAMPLED;
    *context_out = context;
    return true;
}

void trace_id_format(const struct trace_context *context, char text_out[TRACE_ID_TEXT])
{
    assert(trace_context_is_some(context));
    hex_format(context->trace_id, TRACE_ID_BYTES, text_out);
}

void traceparent_format(const struct trace_context *context, char text_out[TRACEPARENT_BYTES + 1])
{
    assert(trace_context_is_some(context));
    memcpy(text_out, "00-", AT_TRACE);
    hex_format(context->trace_id, TRACE_ID_BYTES, text_out + AT_TRACE);
    text_out[AT_SPAN - 1] = '-';
    hex_format(context->span_id, SPAN_ID_BYTES, text_out + AT_SPAN);
    memcpy(text_out + AT_FLAGS - 1, context->is_sampled ? "-01" : "-00", 4);
}
