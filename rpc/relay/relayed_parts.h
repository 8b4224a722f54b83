/*
 * relayed_parts - the parts of relayed.c in other files: the lists that a connection is in, the input from both sides
 * (relayed_take.c), and the output (relayed_send.c).
 *
 * Thread: the relay's.
 */
#pragma once

#include "rpc/relay/relayed.h"

void relayed_enter_lists(struct relayed_common *common, struct relayed *relayed);
void relayed_enter_unproven(struct relayed_common *common, struct relayed *relayed);
void relayed_leave_unproven(struct relayed_common *common, struct relayed *relayed);
void relayed_enter_waiting(struct relayed_common *common, struct relayed *relayed);
void relayed_leave_waiting(struct relayed_common *common, struct relayed *relayed);
void relayed_leave_lists(struct relayed_common *common, struct relayed *relayed);

void relayed_keep_none(struct relayed_common *common, struct relayed_bytes *kept);
/* Appends to the kept bytes. False: no memory. */
bool relayed_keep(struct relayed_common *common, struct relayed_bytes *kept, const uint8_t *bytes,
                  size_t n);

/* Bytes that cannot be sent now are kept. A client whose socket has failed is dropped. Further input for a core
 * that has closed its end is discarded. */
void relayed_to_core(struct relayed_common *common, struct relayed *relayed, const uint8_t *bytes,
                     size_t n, uint64_t now_ns);
void relayed_to_client(struct relayed_common *common, struct relayed *relayed, const uint8_t *bytes,
                       size_t n, uint64_t now_ns);
/* Sends the output of TLS. */
void relayed_send_output(struct relayed_common *common, struct relayed *relayed,
                         struct tls_link *link, uint64_t now_ns);
/* Sends the kept bytes; false: that side cannot be written any more. */
bool relayed_send_unsent(struct relayed_common *common, struct relayed *relayed,
                         enum relayed_side side, uint64_t now_ns);
/* Sends to the client what its socket takes at once, and keeps nothing; n 0: only the end of TLS. */
void relayed_say_last(struct relayed *relayed, const uint8_t *bytes, size_t n);

/* Sends RST_STREAM in both directions, now or after the core's present frame. */
void relayed_reset_stream(struct relayed_common *common, struct relayed *relayed,
                          const struct session_event *event, uint64_t now_ns);
/* Sends its client a GOAWAY, now or after the core's present frame. */
void relayed_mark_away(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Takes n bytes of the common buffer as input of a handshake. */
void relayed_feed_handshake(struct relayed_common *common, struct relayed *relayed, size_t n,
                            uint64_t now_ns);
/* It is neither ended nor in its handshake: the client's input is processed. */
bool relayed_is_heard(const struct relayed *relayed);
/* True: the client is not read now. */
bool relayed_is_held(const struct relayed *relayed);
/* Does what an event of its session asks for. */
void relayed_follow(struct relayed_common *common, struct relayed *relayed,
                    const struct session_event *event, uint64_t now_ns);
/* Processes n bytes of the common buffer from its client; none while it is paused or waits. */
void relayed_take(struct relayed_common *common, struct relayed *relayed, size_t n,
                  uint64_t now_ns);
/* The same for encrypted bytes. */
void relayed_take_encrypted(struct relayed_common *common, struct relayed *relayed, size_t n,
                            uint64_t now_ns);
/* Processes the kept bytes from its client. */
void relayed_take_unwalked(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
void relayed_take_of_core(struct relayed_common *common, struct relayed *relayed,
                          const uint8_t *bytes, size_t n, uint64_t now_ns);
/* Processes the bytes that TLS has already received. */
void relayed_take_decrypted(struct relayed_common *common, struct relayed *relayed,
                            uint64_t now_ns);
/* Closes the core's end now; the client has a moment to read the last output. */
void relayed_linger(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Updates lists, epoll events and timer; to be called after every change. */
void relayed_settle(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Whether a frame that the relay adds waits for the end of the core's present frame. */
bool relayed_has_waiting(const struct relayed *relayed);
/* Sends the waiting frames; the core's frame has ended. */
void relayed_send_waiting(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
