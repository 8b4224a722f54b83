/*
 * request_origin - which client request a call belongs to: every process that handles it logs this.
 *
 * Calls between processes carry it as metadata (rpc/server/call.h, rpc/client/client.h). The ids by which workers know
 * attempts are different, and are in the messages.
 *
 * Thread: plain data.
 */
#pragma once

#include "base/log/log.h"

#define REQUEST_ORIGIN_ID_MAX 128u /* bytes */

struct request_origin {
    char request_id[REQUEST_ORIGIN_ID_MAX + 1]; /* the client's, or drawn; "": unknown */
    struct trace_context trace; /* span_id: the parent of the spans of this process */
};

/* Borrows from origin. */
static inline struct log_about log_about_origin(const struct request_origin *origin)
{
    return (struct log_about){.request_id = origin->request_id, .trace = &origin->trace};
}
