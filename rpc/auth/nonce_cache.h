/*
 * nonce_cache - the nonces that were used within the time in which a call may be sent, so that none
 * comes twice.
 *
 *     epochs   [.. | first, first + 1, ... | ..]   EPOCH_MS each, by the time that a call says it was made
 *
 * A nonce is kept until its epoch's last call would be too old, and forgotten with it; a call of an epoch
 * that was forgotten is refused, whatever the clock says later. So a clock that is set back by more than
 * NONCE_WINDOW_MS has calls refused until it has caught up.
 *
 * Bound: nonces_max, allocated at start; then QUEUE_FULL rather than forget one.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define NONCE_BYTES     16u
#define NONCE_WINDOW_MS 30000u /* how old a call, or how far ahead, may be */

struct nonce_cache;

MUST_CHECK enum status nonce_cache_create(uint32_t nonces_max, struct nonce_cache **cache_out);
void nonce_cache_destroy(struct nonce_cache *cache); /* NULL is fine */

/* made_ms: when its call was made, within the window of now_ms. DUPLICATE_REQUEST: it was used, or is of
 * a time that is forgotten. QUEUE_FULL. */
MUST_CHECK enum status nonce_cache_use(struct nonce_cache *cache, const uint8_t nonce[NONCE_BYTES],
                                       uint64_t made_ms, uint64_t now_ms);
