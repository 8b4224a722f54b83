/*
 * ctx_backlog - tells who waits for a prompt, wherever it is, how much there is to compute and how long a
 * token takes: a reader's limits follow that (gen_worker/handover.h).
 *
 *     between steps    what a token was measured to take, to those in the queue and those that are computed
 *     during one       behind a layer, to these and to those in the inbox: what a token takes if the other layers take what
 *                      those took that are done, if that is more than what was measured
 *
 * So a step that takes longer than all limits, as the first one of weights that come from a disk, is waited for while its layers get
 * done, and one that stands still says nothing, as a stopped process does.
 *
 * Only when it comes to BACKLOG_TELL_NS or more, and so often at most; only to readers that know the word. A step that is
 * shorter than that says nothing.
 *
 * Thread: the engine's.
 */
#pragma once

#include "base/clock.h"
#include "ctx_worker/prefill_set.h"
#include "engine/engine_inbox.h"
#include "engine/request_queue.h"

#define BACKLOG_TELL_NS NS_PER_S

struct ctx_backlog {
    const struct request_queue *queue;
    const struct prefill_set *slots;
    const struct engine_inbox *inbox; /* of struct ctx_message */
    uint32_t n_layers;                /* of a step */
    /* Of the step under way: */
    uint32_t n_tokens, n_done; /* n_done: layers */
    uint64_t began_ns;
    uint64_t tell_ns; /* not before */
};

/* That are still to be computed, those of prompts in the inbox not among them. */
uint64_t ctx_backlog_tokens(const struct ctx_backlog *backlog);
/* Between steps. token_ns as measured; 0: nothing was, and nobody is told anything. */
void ctx_backlog_tell(const struct ctx_backlog *backlog, const struct prefill_home *home,
                      uint64_t token_ns, uint64_t now_ns);

/* A step of so many tokens begins; */
void ctx_backlog_step(struct ctx_backlog *backlog, uint32_t n_tokens, uint64_t now_ns);
/* one more layer of it is done. token_ns as above. */
void ctx_backlog_layer(struct ctx_backlog *backlog, const struct prefill_home *home,
                       uint64_t token_ns, uint64_t now_ns);
