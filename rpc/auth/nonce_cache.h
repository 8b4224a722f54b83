/*
 * nonce_cache - remembers the nonces of recent calls, so that a replayed call is refused.
 *
 *     epochs   [.. | first, first + 1, ... | ..]   EPOCH_MS each, by the time in the call
 *
 * A nonce is kept until every call of its epoch is too old. A call from a dropped epoch is refused,
 * whatever the clock says later. So after a clock was set back by more than NONCE_WINDOW_MS, calls are
 * refused until the clock has caught up.
 *
 * Bound: nonces_max, allocated at start; when full, QUEUE_FULL instead of dropping one.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define NONCE_BYTES     16u
#define NONCE_WINDOW_MS 30000u /* the largest age of a call, and the furthest in the future */

struct nonce_cache;

MUST_CHECK enum status nonce_cache_create(uint32_t nonces_max, struct nonce_cache **cache_out);
void nonce_cache_destroy(struct nonce_cache *cache); /* NULL is fine */

/* made_ms: when its call was made, within the window around now_ms. DUPLICATE_REQUEST: it was used, or
 * its epoch was dropped. QUEUE_FULL. */
MUST_CHECK enum status nonce_cache_use(struct nonce_cache *cache, const uint8_t nonce[NONCE_BYTES],
                                       uint64_t made_ms, uint64_t now_ms);
