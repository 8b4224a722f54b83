/*
 * fair_share - who starts next, so that no caller gets so much of a context worker that others wait for
 * it. A caller is a host, or on the loopback a connection (caller.h). What it computed and nobody reads counts until its lease
 * ends.
 *
 * Who has something already waits when it would have more than caller_share percent of the slots, and
 * when fewer than the other blocks would stay free or cached; who has nothing never does. Of those who
 * need not wait, the caller that has the fewest blocks comes first (when that is even, not the one that
 * was first the last time), and of its prompts the oldest.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/prefill.h"
#include "engine/request_queue.h"

#define NO_PROMPT UINT32_MAX

/* Whether that caller may have one more prompt in the queue: caller_share percent of its places. */
bool fair_share_may_wait(const struct ctx_engine_options *options,
                         const struct request_queue *queue, uint64_t caller);

/* The index in the queue of the prompt that is next; prefills: [slots_max]. NO_PROMPT: none may start. */
uint32_t fair_share_next(const struct ctx_engine_options *options,
                         const struct request_queue *queue, const struct prefill *prefills,
                         uint64_t last_caller);
