/*
 * relayed_parts - what relayed.c is made of, beside itself: the lists that a connection is in, what its two sides say
 * (relayed_take.c), and what is sent and kept for them.
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
/* After what is kept already. False: no memory. */
bool relayed_keep(struct relayed_common *common, struct relayed_bytes *kept, const uint8_t *bytes,
                  size_t n);

/* What cannot be sent now is kept; a client that takes nothing any more is dropped. The core has closed its end:
 * what the client goes on to say is for nobody. */
void relayed_to_core(struct relayed_common *common, struct relayed *relayed, const uint8_t *bytes,
                     size_t n, uint64_t now_ns);
void relayed_to_client(struct relayed_common *common, struct relayed *relayed, const uint8_t *bytes,
                       size_t n, uint64_t now_ns);
/* What TLS has to say. */
void relayed_send_output(struct relayed_common *common, struct relayed *relayed,
                         struct tls_link *link, uint64_t now_ns);
/* What was kept; false: that side takes nothing any more. */
bool relayed_send_unsent(struct relayed_common *common, struct relayed *relayed,
                         enum relayed_side side, uint64_t now_ns);
/* To the client what its socket takes at once, nothing is kept; n 0: the end of TLS. */
void relayed_say_last(struct relayed *relayed, const uint8_t *bytes, size_t n);

/* RST_STREAM into both directions, now or when the core's frame has ended. */
void relayed_reset_stream(struct relayed_common *common, struct relayed *relayed,
                          const struct session_event *event, uint64_t now_ns);
/* A GOAWAY for its client: now, or as the resets. */
void relayed_mark_away(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* n of the common buffer, of a handshake. */
void relayed_feed_handshake(struct relayed_common *common, struct relayed *relayed, size_t n,
                            uint64_t now_ns);
/* Neither is over nor has to wait for its handshake: what its client says counts. */
bool relayed_is_heard(const struct relayed *relayed);
/* Its client is not read meanwhile. */
bool relayed_is_held(const struct relayed *relayed);
/* Does what its session says. */
void relayed_follow(struct relayed_common *common, struct relayed *relayed,
                    const struct session_event *event, uint64_t now_ns);
/* n of the common buffer, of its client. While it is paused or waits, none are taken. */
void relayed_take(struct relayed_common *common, struct relayed *relayed, size_t n,
                  uint64_t now_ns);
/* The same, still encrypted. */
void relayed_take_encrypted(struct relayed_common *common, struct relayed *relayed, size_t n,
                            uint64_t now_ns);
/* What was kept of its client's. */
void relayed_take_unwalked(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
void relayed_take_of_core(struct relayed_common *common, struct relayed *relayed,
                          const uint8_t *bytes, size_t n, uint64_t now_ns);
/* What has come encrypted already. */
void relayed_take_decrypted(struct relayed_common *common, struct relayed *relayed,
                            uint64_t now_ns);
/* The core is told now; the client has a moment to read what was said. */
void relayed_linger(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* After anything has happened to it. */
void relayed_settle(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
/* Whether a frame of the relay's own that may be put waits for the end of one of the core's. */
bool relayed_has_waiting(const struct relayed *relayed);
/* There the core's has ended. */
void relayed_send_waiting(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns);
