/*
 * handshakes - a thread that computes TLS handshakes, step by step, and begins a limited number per second.
 * So many handshakes at once never delay connected clients.
 *
 *     owner's thread: step(link) ... take -> link, result          one step of a link at a time
 *     owner's thread: forget        at any time
 *
 * Only the first step needs budget; the steps of handshakes that have begun are computed first.
 *
 * Thread: the owner's, one. Bound: the number of handshakes that the owner has.
 */
#pragma once

#include "base/status.h"
#include "rpc/tls/tls_link.h"

#include <stdbool.h>
#include <stdint.h>

struct handshakes;
struct handshake;

/* wake: a base/wake, sent when take has a result; borrowed. NO_MEMORY, NO_THREAD with a sentence. */
MUST_CHECK enum status handshakes_start(uint32_t per_s, int wake, struct error *error,
                                        struct handshakes **handshakes_out);
/* Frees the handshakes that were not taken. NULL is fine. */
void handshakes_stop(struct handshakes *handshakes);

/* Becomes the owner of link. NO_MEMORY: link is freed. */
MUST_CHECK enum status handshake_create(struct tls_link *link, void *owner,
                                        struct handshake **handshake_out);
/* Use the link only between take and step. */
struct tls_link *handshake_link(struct handshake *handshake);
void handshakes_step(struct handshakes *handshakes, struct handshake *handshake);
/* False: no step is finished. Else owner_out is the owner of a finished step, whose link may be
 * used again. */
bool handshakes_take(struct handshakes *handshakes, void **owner_out,
                     enum tls_progress *progress_out);
/* Ends a handshake that is not being computed; the caller owns the link. */
struct tls_link *handshake_finish(struct handshake *handshake);
/* At any time; frees the handshake and its link. */
void handshakes_forget(struct handshakes *handshakes, struct handshake *handshake);
