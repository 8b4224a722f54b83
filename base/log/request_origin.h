/*
 * request_origin - whose request something is done for: what every process on its way logs.
 *
 * Inner calls carry it as metadata (rpc/server/call.h, rpc/client/client.h). The ids that workers know attempts by are
 * others, and stand in the messages.
 *
 * Thread: plain data.
 */
#pragma once

#include "base/log/log.h"

#define REQUEST_ORIGIN_ID_MAX 128u /* bytes */

struct request_origin {
    char request_id[REQUEST_ORIGIN_ID_MAX + 1]; /* the client's, or drawn for it; "": unknown */
    struct trace_context trace;                 /* span_id: whose child is what is done now */
};

/* Borrows from origin. */
static inline struct log_about log_about_origin(const struct request_origin *origin)
{
    return (struct log_about){.request_id = origin->request_id, .trace = &origin->trace};
}
