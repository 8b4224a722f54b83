/*
 * ctx_backlog - tells each reader that waits for a prompt how many tokens there are to compute and how long a token takes. A
 * reader sets its timeouts by that (gen_worker/handover.h).
 *
 *     between steps    the measured time of a token, for prompts in the queue, prompts whose constraint is being compiled, and
 *                      prompts that are computed
 *     during a step    after a layer, for these and for prompts in the inbox: the time of a token if the other layers take
 *                      as long as the finished ones, where that is more than the measured time
 *
 * Log-probabilities of prompts follow the layers: how long the rest of them takes is not known, so it is not in the time.
 *
 * So readers wait for a step that takes longer than all timeouts, such as the first one with weights that come from a disk, as
 * long as its layers get done. A step that makes no progress sends nothing, just as a stopped process.
 *
 * A backlog is sent only when it is BACKLOG_TELL_NS or more, at most once in that time, and only to readers that know the
 * message. A shorter step sends nothing.
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
    const struct request_queue *queue, *pending;
    const struct prefill_set *slots;
    const struct engine_inbox *inbox; /* of struct ctx_message */
    uint32_t n_layers;                /* of a step */
    /* Of the step under way: */
    uint32_t n_tokens, n_done; /* n_done: layers, and behind them parts of scores */
    uint64_t began_ns;
    uint64_t tell_ns; /* not before */
};

/* Tokens that are still to be computed, without those of prompts in the inbox. */
uint64_t ctx_backlog_tokens(const struct ctx_backlog *backlog);
/* Between steps. token_ns: as measured; 0: nothing was measured, and nothing is sent. */
void ctx_backlog_tell(const struct ctx_backlog *backlog, const struct prefill_home *home,
                      uint64_t token_ns, uint64_t now_ns);

/* A step of n_tokens begins. */
void ctx_backlog_step(struct ctx_backlog *backlog, uint32_t n_tokens, uint64_t now_ns);
/* One more layer of the step is done, or one more part of its scores. token_ns: as above. */
void ctx_backlog_layer(struct ctx_backlog *backlog, const struct prefill_home *home,
                       uint64_t token_ns, uint64_t now_ns);
