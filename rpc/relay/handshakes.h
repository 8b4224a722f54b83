/*
 * handshakes - a thread that computes TLS handshakes, step by step, and begins so many a second: a crowd of
 * them never holds up who is connected already.
 *
 *     owner's thread: step(link) ... take -> link, how it went     one step of a link at a time
 *     owner's thread: forget        whatever it is doing
 *
 * Only a first step needs budget; the steps of a handshake that has begun come before it.
 *
 * Thread: the owner's, one. Bounds: those of what the owner gives.
 */
#pragma once

#include "base/status.h"
#include "rpc/tls/tls_link.h"

#include <stdbool.h>
#include <stdint.h>

struct handshakes;
struct handshake;

/* wake: of base/wake, sent when take has something; borrowed. NO_MEMORY, NO_THREAD with a sentence. */
MUST_CHECK enum status handshakes_start(uint32_t per_s, int wake, struct error *error,
                                        struct handshakes **handshakes_out);
/* Frees what has not been taken. NULL is fine. */
void handshakes_stop(struct handshakes *handshakes);

/* Takes over link. NO_MEMORY: link is freed. */
MUST_CHECK enum status handshake_create(struct tls_link *link, void *owner,
                                        struct handshake **handshake_out);
/* The link may be fed and asked between take and step only. */
struct tls_link *handshake_link(struct handshake *handshake);
void handshakes_step(struct handshakes *handshakes, struct handshake *handshake);
/* False: none has been computed. Else its owner, whose link may be asked and fed again. */
bool handshakes_take(struct handshakes *handshakes, void **owner_out,
                     enum tls_progress *progress_out);
/* Ends a handshake that is not being computed: the link is the caller's. */
struct tls_link *handshake_finish(struct handshake *handshake);
/* Whatever it is doing; the handshake and its link are freed. */
void handshakes_forget(struct handshakes *handshakes, struct handshake *handshake);
