/*
 * session_parts - the streams and budgets of a session (session.c), which its parts share: the client's half
 * (session_client.c, session_data.c), the core's half (session_core.c) and time limits (session_time.c).
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/session.h"

void session_set_close(struct session *session, enum relay_limit limit, enum frame_error error,
                       struct session_event *event);
/* Sets the timer to this time, if it is earlier. */
void session_set_due(struct session *session, uint64_t due_ns);
/* stream may be NULL: it is over already. */
void session_mark(struct session *session, struct open_stream *stream, uint8_t is);
void session_remove_stream(struct session *session, struct open_stream *stream);
void session_pay_resets(struct session *session, uint32_t n, uint64_t now_ns);
void session_pay_control(struct session *session, uint64_t now_ns);
void session_pay_ping(struct session *session, uint64_t now_ns);
/* While there are too many resets, unproven connections wait before each new stream. */
void session_wait_for_others(struct session *session, uint64_t now_ns);
/* A header list that passed all limits opens a stream. */
void session_add_stream(struct session *session, const struct frame_head *head, uint64_t now_ns,
                        struct session_event *event);
/* The client has ended its half of a stream; NULL: the stream is over already. */
void session_end_request(struct session *session, struct open_stream *stream, uint64_t now_ns);
/* The head of a DATA frame of the client, session->frame, has arrived; then more of its payload. */
void session_begin_data(struct session *session, uint64_t now_ns);
void session_take_data(struct session *session, const uint8_t *bytes, size_t n, uint64_t now_ns,
                       struct session_event *event);
bool session_must_pause(const struct session *session, uint64_t now_ns,
                        struct session_event *event);
void session_release_room(struct session *session, struct open_stream *stream);
struct request_rooms session_rooms(struct session *session);
