/*
 * session_parts - what the client's half of a session (session_client.c, of which session_data.c has the requests' bytes),
 * the core's (session_core.c) and time (session_time.c) have in common: its streams and budgets (session.c).
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/session.h"

void session_set_close(struct session *session, enum relay_limit limit, enum frame_error error,
                       struct session_event *event);
/* The timer is due then at the latest. */
void session_set_due(struct session *session, uint64_t due_ns);
/* stream may be NULL: over already. */
void session_mark(struct session *session, struct open_stream *stream, uint8_t is);
void session_remove_stream(struct session *session, struct open_stream *stream);
void session_pay_resets(struct session *session, uint32_t n, uint64_t now_ns);
void session_pay_control(struct session *session, uint64_t now_ns);
void session_pay_ping(struct session *session, uint64_t now_ns);
/* While more is cancelled than may be, who has shown nothing yet waits with each stream. */
void session_wait_for_others(struct session *session, uint64_t now_ns);
/* Its head, of which limits have been judged, opens it. */
void session_add_stream(struct session *session, const struct frame_head *head, uint64_t now_ns,
                        struct session_event *event);
/* The client's half of a stream; NULL: over already. */
void session_end_request(struct session *session, struct open_stream *stream, uint64_t now_ns);
/* The client's DATA frame, which is session->frame: its head has come; and more of its payload. */
void session_begin_data(struct session *session, uint64_t now_ns);
void session_take_data(struct session *session, const uint8_t *bytes, size_t n, uint64_t now_ns,
                       struct session_event *event);
bool session_must_pause(const struct session *session, uint64_t now_ns,
                        struct session_event *event);
void session_release_room(struct session *session, struct open_stream *stream);
struct request_rooms session_rooms(struct session *session);
