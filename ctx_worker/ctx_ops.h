/*
 * ctx_ops - the functions by which a context worker's engine reports on its streams and calls.
 *
 * Thread: the engine's.
 */
#pragma once

#include "base/status.h"
#include "engine/prefill_event.h"

/* QUEUED: also one whose constraint is being compiled. */
enum ctx_abort_found { CTX_FOUND_NOTHING, CTX_FOUND_QUEUED, CTX_FOUND_RUNNING, CTX_FOUND_SEALED };

/* Called on the engine thread, from step only. They must not block; they may call the functions marked (any). now_ns is the
 * clock of step's argument, which advances during a step. A stream gets at most 3 events and one for each block of its prompt,
 * besides BACKLOG; if it wants scores, also one for each PROMPT_SCORES_MAX tokens and chunk. */
struct ctx_engine_ops {
    void *arg;
    uint64_t (*now_ns)(void *arg);
    void (*event)(void *arg, void *stream, const struct prefill_event *event);
    /* sentence "" when the status says all; good during the call. */
    void (*finish)(void *arg, void *stream, enum status status, const char *sentence);
    void (*abort_reply)(void *arg, void *call, enum ctx_abort_found found);
    void (*flush_reply)(void *arg, void *call, uint32_t blocks_evicted);
};
