/*
 * gen_ops - the functions by which a generation worker's engine reports on streams and calls, and starts and commits prefills.
 *
 * Thread: the engine's.
 */
#pragma once

#include "gen_worker/gen_place.h"
#include "gen_worker/gen_prefill.h"
#include "sampling_params/prompt_scores.h"

struct beam_search;

enum gen_finish_reason { GEN_FINISH_NONE, GEN_FINISH_STOP, GEN_FINISH_LENGTH };

struct gen_timing {
    uint64_t queue_us; /* here and in the context worker */
    uint64_t wait_us;  /* of these, here */
    uint64_t prefill_us, transfer_us, decode_us, first_token_us;
    uint64_t commit_us; /* of transfer_us, from the commit to its answer */
    uint64_t kv_bytes_received;
    uint32_t kv_tokens_received;
    uint32_t kv_tokens_recomputed; /* prompt tokens computed here */
};

/* The time of each event of a request; 0: it did not happen. */
struct gen_marks {
    uint64_t arrived_ns;
    uint64_t admitted_ns;    /* its blocks were reserved */
    uint64_t accepted_ns;    /* the context worker has reserved its blocks, too */
    uint64_t first_ready_ns; /* the first blocks could be fetched, */
    uint64_t received_ns;    /* and all were here and committed */
    uint64_t failed_ns;      /* the hand-over failed */
    uint64_t local_ns;       /* the prompt's computation began here, */
    uint64_t computed_ns;    /* and ended */
    uint64_t first_token_ns, last_token_ns;
};

struct gen_finish {
    enum status status;
    const char *sentence;          /* "" when the status says all */
    enum gen_finish_reason reason; /* NONE unless status is OK */
    bool is_complete; /* STOP because the constraint is complete: the last token is no stop token */
    /* The token that stops a generation (end of sequence, stop id) is one of generated_tokens. */
    uint32_t prompt_tokens, generated_tokens;
    const struct beam_search *
        search; /* NULL, or with status OK it is over: its n_best replies; the figures are the best one's */
    uint32_t n_best;
    uint32_t draft_tokens, accepted_tokens; /* guessed; of these, among generated_tokens */
    /* Prompt tokens that the worker that computed the prompt found in its prefix cache. */
    uint32_t cached_tokens;
    struct gen_timing timing;
    struct gen_marks marks;
    const char *context_worker; /* that computed the prompt; "": it was computed here, */
    enum gen_place place;       /* for this reason, */
    const char *place_reason;   /* in words */
};

struct gen_tokens {
    uint32_t n_tokens;
    const uint32_t *token_ids;
    const struct token_logprobs *logprobs; /* [n_tokens], or NULL when none were asked for */
    /* With the first tokens after the prompt's KV is here: what finish would report now. Else NULL. So a caller that ends the
     * stream early has the figures of the hand-over. */
    const struct gen_finish *so_far;
};

/* Called on the engine thread, from step only. They must not block; they may call the functions
 * marked (any). Pointers are good during the call. */
struct gen_engine_ops {
    void *arg;
    uint64_t (*now_ns)(void *arg);
    /* 128 bits from a secure random source. */
    void (*draw_transfer_id)(void *arg, struct transfer_id *id_out);

    /* SLOW_READER: the stream has no room; the request ends with that status. */
    enum status (*tokens)(void *arg, void *stream, const struct gen_tokens *tokens);
    /* Scores of the prompt's tokens, in order and each once, before the first token; only for requests that ask for them. As tokens. */
    enum status (*scores)(void *arg, void *stream, const struct prompt_scores *scores);
    /* n_done of the prompt's n_prompt tokens have their KV. For requests that want progress: at the start and after each chunk,
     * until the first token. A stream without room ends by itself. */
    void (*progress)(void *arg, void *stream, uint32_t n_done, uint32_t n_prompt);
    void (*finish)(void *arg, void *stream, const struct gen_finish *finish);

    /* Describes the worker unless it is known, and opens its Prefill stream. gen_engine_described comes before the first event.
     * gen_engine_prefill_end follows exactly once for each start, also when there is no such worker, its geometry differs, or
     * the prefill was cancelled. */
    void (*start_prefill)(void *arg, uint64_t prefill, const char *context_worker,
                          const struct gen_prefill_request *request);
    /* Ends the stream, and with it the lease. May be called when prefill_end is already in the inbox. */
    void (*cancel_prefill)(void *arg, uint64_t prefill);
    /* gen_engine_commit_result follows exactly once. incarnation is the described worker's. */
    void (*commit)(void *arg, uint64_t prefill, const char *context_worker,
                   const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation);
    void (*flush_reply)(void *arg, void *call, uint32_t blocks_evicted);
};
