/*
 * ctx_ops - the functions by which a context worker's engine reports on its streams and calls.
 *
 * Thread: the engine's.
 */
#pragma once

#include "base/status.h"
#include "engine/backlog.h"
#include "kvcache/block_pool.h"
#include "model/draws.h"
#include "sampling_params/prompt_scores.h"

enum ctx_event_kind {
    CTX_BACKLOG,
    CTX_ACCEPTED,
    CTX_READY,
    CTX_SCORES,
    CTX_FIRST_TOKEN,
    CTX_SEALED
};

struct ctx_event {
    enum ctx_event_kind kind;
    union {
        struct backlog backlog; /* ctx_backlog.h */
        struct {
            uint32_t n_blocks; /* to transfer: those of the prompt after held_tokens */
            uint32_t block_tokens;
        } accepted;
        struct {
            uint32_t first_block; /* counted from the prompt's beginning */
            uint32_t n_blocks;
            const block_id *block_ids; /* [n_blocks], good during the call */
            const uint32_t *digests;   /* [n_blocks], or NULL when digests are off */
        } ready;
        struct prompt_scores scores; /* its array is good during the call */
        struct {
            uint32_t token_id;
            bool has_logprobs;
            struct token_logprobs logprobs;
        } first_token;
        struct {
            uint32_t n_tokens;
            uint32_t cached_tokens; /* found in this worker's prefix cache */
            uint64_t queue_us, compute_us;
        } sealed;
    };
};

/* QUEUED: also one whose constraint is being compiled. */
enum ctx_abort_found { CTX_FOUND_NOTHING, CTX_FOUND_QUEUED, CTX_FOUND_RUNNING, CTX_FOUND_SEALED };

/* Called on the engine thread, from step only. They must not block; they may call the functions marked (any). now_ns is the
 * clock of step's argument, which advances during a step. A stream gets at most 3 events and one for each block of its prompt,
 * besides BACKLOG; if it wants scores, also one for each PROMPT_SCORES_MAX tokens and chunk. */
struct ctx_engine_ops {
    void *arg;
    uint64_t (*now_ns)(void *arg);
    void (*event)(void *arg, void *stream, const struct ctx_event *event);
    /* sentence "" when the status says all; good during the call. */
    void (*finish)(void *arg, void *stream, enum status status, const char *sentence);
    void (*abort_reply)(void *arg, void *call, enum ctx_abort_found found);
    void (*flush_reply)(void *arg, void *call, uint32_t blocks_evicted);
};
