/*
 * ctx_backlog - tells who waits for a prompt, in the queue or while it is computed, how much there is to compute and how long a
 * token takes: a reader's limits follow that (gen_worker/handover.h).
 *
 * Only when it comes to BACKLOG_TELL_NS or more, and so often at most; only to readers that know the word.
 *
 * Thread: the engine's.
 */
#pragma once

#include "ctx_worker/prefill_set.h"
#include "engine/request_queue.h"

#define BACKLOG_TELL_NS NS_PER_S

struct ctx_backlog {
    const struct request_queue *queue;
    const struct prefill_set *slots;
};

/* That are still to be computed. */
uint64_t ctx_backlog_tokens(const struct ctx_backlog *backlog);
/* token_ns 0: nothing was measured, and nobody is told anything. */
void ctx_backlog_tell(const struct ctx_backlog *backlog, const struct prefill_home *home,
                      uint64_t token_ns, uint64_t now_ns);
