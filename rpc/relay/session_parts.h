/*
 * session_parts - what session.c and session_core.c, the client's half and the core's, have in common.
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/session.h"

/* The timer is due then at the latest. */
void session_set_due(struct session *session, uint64_t due_ns);
/* stream may be NULL: over already. */
void session_mark(struct session *session, struct open_stream *stream, uint8_t is);
void session_remove_stream(struct session *session, struct open_stream *stream);
void session_pay_resets(struct session *session, uint32_t n, uint64_t now_ns);
bool session_must_pause(const struct session *session, uint64_t now_ns,
                        struct session_event *event);
struct request_rooms session_rooms(struct session *session);
