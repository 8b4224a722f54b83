/*
 * gen_engine - the core of a generation worker: takes a tokenized request, gets its prompt's KV from a
 * context worker or computes it, and decodes in a continuous batch.
 *
 *     any thread                          engine thread                       transfer thread
 *     generate, stream_ended, --ring-->   step: messages, timers,      <----> kv_receiver_progress
 *     described, prefill_event,           receiver events, admission,
 *     prefill_end, commit_result          one batch: chunks of local prompts, then all decoding
 *                                         ops: tokens, finish; start_prefill, cancel_prefill, commit
 *
 *     QUEUED -> RESERVED -> FETCHING -> COMMITTING -> DECODING -> DONE
 *                ^ |           |            |          |   ^
 *                | +-----------+------------+-> LOCAL_PREFILL      exits: FAILED; blocks of a failed
 *                +---------- PAUSED <------------------+           transfer: QUARANTINED until QUIET
 *
 * Who is admitted, paused and resumed, and what is computed in a step, says schedule/ by capacity_policy: with
 * no-evict whoever is admitted gets to its end, with max-utilization the youngest is paused when blocks run out,
 * and goes on later with the same tokens (sequence.h). First in, first out. What was never admitted waits at
 * most queue_limit_ns, a paused one until its deadline. The prompt is computed here when no context
 * worker was named or when no more than local_prefill_max_tokens of it are unknown to the prefix
 * cache; otherwise the context worker computes it, and its blocks are fetched into this worker's
 * own while it does. Fetched blocks are used only after every block was verified and the commit was
 * answered OK. Any failure before that falls back to computing here all that was not in this
 * worker's own prefix cache (when local_prefill allows; paused until there are blocks that nobody may still
 * write), else the request ends with a typed status. A
 * first token that came from the context worker was sent on at once; the one computed in a fall-back
 * must be the same, else the request ends with TRANSFER_FAILED.
 *
 * KV of a context worker with other numerics (which an operator has allowed) decodes that one request: it
 * and what is computed on it stay out of the prefix cache, where all is of this worker's own id; and the
 * first token of such a one counts, whatever a fall-back computes.
 *
 * Stream handles are the caller's pointers, with the rules of a context worker's: for each generate
 * that returned OK finish is called exactly once, the engine's last use of the handle; stream_ended at
 * most once, before the handle is freed. Prefill handles are numbers drawn by the engine and never
 * reused, so that what comes late for one is recognised and dropped.
 *
 * Bounds: queue_max waiting, the paused among them, sequences_max admitted; prefills_max prefills whose prefill_end has not
 * come or whose blocks are not quiet (at it a prompt is computed here, or waits); events_max messages
 * from context workers not yet taken; streams_max stream handles. Nothing is allocated a
 * token. The engine thread never waits for the network.
 *
 * Thread: as ctx_engine: create, destroy, step and wait on the engine thread; (any) from any.
 */
#pragma once

#include "base/clock.h"
#include "base/log/request_origin.h"
#include "base/ring.h"
#include "engine/backlog.h"
#include "engine/engine_request.h"
#include "gen_worker/gen_place.h"
#include "kvcache/prefix_tree.h"
#include "kvtransfer/kv_receiver.h"
#include "model/draws.h"
#include "model/forward.h"
#include "schedule/schedule.h"

#define GEN_ADDRESS_MAX 256u /* bytes of a context worker's host:port */
#define GEN_EOS_IDS_MAX 256u

struct gen_engine;

struct gen_engine_options {
    const char *name; /* for logs and timing; borrowed */
    uint64_t incarnation;
    struct prefix_key prefix_key;
    /* Borrowed until destroy. */
    const struct model *model;
    struct forward *
        forward; /* warmed up, pool attached, for batch_tokens + sequences_max tokens of sequences_max */
    struct device *device; /* where the pool is; its compute queue is this engine's */
    struct block_pool *pool;
    /* Created with transfers_max >= prefills_max, blocks_max >= blocks of context_tokens. */
    struct kv_receiver *receiver;
    struct geometry geometry;
    uint32_t vocabulary;
    uint32_t context_tokens; /* prompt plus generated */
    uint32_t n_eos_ids;
    uint32_t eos_ids[GEN_EOS_IDS_MAX];
    uint32_t chunk_tokens;   /* of one local prompt in a step at most; a multiple of block_tokens */
    uint64_t step_target_ns; /* schedule.h */
    /* Of all local prompts in a step, >= chunk_tokens; a step has room for a token of each sequence
     * besides, which prompts use too while fewer decode. */
    uint32_t batch_tokens;
    uint32_t sequences_max;
    uint32_t queue_max;
    enum schedule_policy capacity_policy;
    uint32_t headroom_blocks; /* schedule.h, as the next */
    uint32_t priority_aging_ms;
    uint32_t streams_max; /* >= queue_max + sequences_max */
    uint32_t prefills_max;
    uint32_t events_max;
    bool local_prefill;                /* may compute a prompt when the hand-over failed */
    uint32_t local_prefill_max_tokens; /* up to so many unknown tokens are never handed over */
    bool prefix_cache;
    uint64_t queue_limit_ns;
    uint64_t context_limit_ns;     /* within it a context worker owes a word, or of a prompt ... */
    uint32_t context_limit_tokens; /* ... so many more tokens announced */
    uint64_t context_limit_max_ns; /* until then one that says that it takes longer is waited for */
    uint64_t transfer_limit_ns;    /* for announced blocks to arrive: this, plus for each MiB ... */
    uint64_t transfer_limit_mib_ns;
    uint64_t commit_limit_ns; /* fixed: it waits for no step, ctx_worker/held_transfers.h */
};

struct gen_request {
    struct engine_request_input input;   /* sampling is complete: seed drawn, max_tokens set */
    const struct request_origin *origin; /* told on to the context worker; NULL: nothing is */
    const char *context_worker;          /* "" or NULL: compute here, */
    enum gen_place why_local;            /* for this reason; UNKNOWN: there is none */
    bool wants_progress;                 /* until the first token */
    bool ends_when_context_full;         /* with NO_CONTEXT_WORKER, rather than compute here */
};

enum gen_finish_reason { GEN_FINISH_NONE, GEN_FINISH_STOP, GEN_FINISH_LENGTH };

struct gen_timing {
    uint64_t queue_us; /* here and in the context worker */
    uint64_t wait_us;  /* of these, here */
    uint64_t prefill_us, transfer_us, decode_us, first_token_us;
    uint64_t commit_us; /* of transfer_us, from asking for the commit to its answer */
    uint64_t kv_bytes_received;
    uint32_t kv_tokens_received;
    uint32_t kv_tokens_recomputed; /* prompt tokens computed here */
};

/* When what happened to a request; 0: it did not. */
struct gen_marks {
    uint64_t arrived_ns;
    uint64_t admitted_ns;    /* its blocks were reserved */
    uint64_t accepted_ns;    /* the context worker said that it has reserved its own */
    uint64_t first_ready_ns; /* blocks of the prompt could be fetched, */
    uint64_t received_ns;    /* and all were here and committed */
    uint64_t failed_ns;      /* the hand-over was given up */
    uint64_t local_ns;       /* the prompt's computation began here, */
    uint64_t computed_ns;    /* and ended */
    uint64_t first_token_ns, last_token_ns;
};

struct gen_finish {
    enum status status;
    const char *sentence;          /* "" when the status says all */
    enum gen_finish_reason reason; /* NONE unless status is OK */
    /* The token that stops a generation (end of sequence, stop id) is one of generated_tokens. */
    uint32_t prompt_tokens, generated_tokens;
    /* Prompt tokens that nobody computed for this request: which the worker that computed its prompt
     * found in its own prefix cache. */
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
    /* What finish would say now, with the first tokens after the prompt's KV is here; else NULL. A
     * caller who ends the stream early has the figures of the hand-over by it. */
    const struct gen_finish *so_far;
};

struct gen_prefill_request {
    const char *request_id;
    const struct request_origin *origin;
    struct transfer_id transfer_id;
    const uint32_t *token_ids;
    uint32_t n_tokens;
    uint32_t held_tokens;
    const struct sampling_params *sampling;
    const void *salt;
    size_t salt_bytes;
    uint64_t deadline_ns;
    struct standing standing; /* as the router told it */
    uint64_t step_ns;         /* what this worker's steps take; 0: none was yet */
};

enum gen_prefill_event_kind {
    GEN_PREFILL_BACKLOG,
    GEN_PREFILL_ACCEPTED,
    GEN_PREFILL_READY,
    GEN_PREFILL_FIRST_TOKEN,
    GEN_PREFILL_SEALED
};

/* An event of a context worker as it came over the wire: nothing in it is believed unchecked. */
struct gen_prefill_event {
    enum gen_prefill_event_kind kind;
    union {
        struct backlog backlog;
        struct {
            uint32_t n_blocks;
            uint32_t block_tokens;
        } accepted;
        struct {
            uint32_t first_block;
            uint32_t n_blocks;
            const uint32_t *block_ids; /* [n_blocks]; copied */
            const uint32_t *digests;   /* [n_blocks], or NULL; copied */
        } ready;
        struct {
            uint32_t token_id;
            bool has_logprobs;
            struct token_logprobs logprobs;
        } first_token;
        struct {
            uint32_t n_tokens;
            uint32_t cached_tokens;
            uint64_t queue_us, compute_us;
        } sealed;
    };
};

/* Called on the engine thread, from step only. They must not block; they may call the functions
 * marked (any). Pointers are good during the call. */
struct gen_engine_ops {
    void *arg;
    uint64_t (*now_ns)(void *arg);
    /* 128 bits that nobody can guess. */
    void (*draw_transfer_id)(void *arg, struct transfer_id *id_out);

    /* SLOW_READER: the stream has no room; the request ends with it. */
    enum status (*tokens)(void *arg, void *stream, const struct gen_tokens *tokens);
    /* Of a prompt's tokens n_done have their KV; to who wants progress, when it is begun and behind each chunk, before the
     * first token. A stream without room ends as it may by itself. */
    void (*progress)(void *arg, void *stream, uint32_t n_done, uint32_t n_prompt);
    void (*finish)(void *arg, void *stream, const struct gen_finish *finish);

    /* Describes the worker unless it is known and opens its Prefill stream; calls
     * gen_engine_described before the first event. gen_engine_prefill_end follows exactly once for
     * each start, whatever happens: also when there is no such worker, its geometry differs, or it
     * was cancelled. */
    void (*start_prefill)(void *arg, uint64_t prefill, const char *context_worker,
                          const struct gen_prefill_request *request);
    /* Ends the stream: the lease. May come after prefill_end is on its way. */
    void (*cancel_prefill)(void *arg, uint64_t prefill);
    /* gen_engine_commit_result follows exactly once. incarnation is the described worker's. */
    void (*commit)(void *arg, uint64_t prefill, const char *context_worker,
                   const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation);
    void (*flush_reply)(void *arg, void *call, uint32_t blocks_evicted);
};

/* ops is copied. INVALID_ARGUMENT: error names the option. */
MUST_CHECK enum status gen_engine_create(const struct gen_engine_options *options,
                                         const struct gen_engine_ops *ops, struct error *error,
                                         struct gen_engine **engine_out);
/* Everything must have ended and be quiet: drain or stop first. NULL is fine. */
void gen_engine_destroy(struct gen_engine *engine);

/* (any) Checks and copies the request. Not OK: the engine keeps nothing, finish is not called.
 * INVALID_ARGUMENT, PROMPT_TOO_LONG, QUEUE_FULL (streams_max handles), NO_MEMORY; error gets a
 * sentence. By finish come also DUPLICATE_REQUEST, QUEUE_FULL, NO_BLOCKS, DRAINING, TIMED_OUT,
 * CANCELLED, SLOW_READER, TRANSFER_FAILED and what a context worker said. */
MUST_CHECK enum status gen_engine_generate(struct gen_engine *engine, void *stream,
                                           const struct gen_request *request, struct error *error);
/* (any) The client is gone. Never fails. */
void gen_engine_stream_ended(struct gen_engine *engine, void *stream);

/* (any) Who answers for the prefill; before its first event. address is copied. has_other_numerics: its
 * KV is taken, and may have other bits than KV from here: see above. QUEUE_FULL: as below. */
MUST_CHECK enum status gen_engine_described(struct gen_engine *engine, uint64_t prefill,
                                            const struct transport_address *address,
                                            bool has_other_numerics);
/* (any) QUEUE_FULL (events_max are waiting), NO_MEMORY: the event is lost, so the prefill is: cancel
 * its stream and say prefill_end with that status. */
MUST_CHECK enum status gen_engine_prefill_event(struct gen_engine *engine, uint64_t prefill,
                                                const struct gen_prefill_event *event);
/* (any) Exactly once for each start_prefill, its last event. Never fails. STALE_PEER drops what the
 * receiver keeps of that worker's life. */
void gen_engine_prefill_end(struct gen_engine *engine, uint64_t prefill, enum status status,
                            const char *sentence);
/* (any) Exactly once for each commit. Never fails. */
void gen_engine_commit_result(struct gen_engine *engine, uint64_t prefill, enum status status,
                              const char *sentence);
/* (any) That life of a context worker has ended: a newer one answered at its address. QUEUE_FULL: as
 * above; nothing is lost by it but memory of a dead peer. */
MUST_CHECK enum status gen_engine_drop_peer(struct gen_engine *engine, uint64_t incarnation);

/* (any) That life of a context worker has contradicted itself (trust.h says what that means here).
 * QUEUE_FULL: as above; say it again. */
MUST_CHECK enum status gen_engine_distrust(struct gen_engine *engine, uint64_t incarnation);

/* (any) Evicts every cached block that nobody uses. QUEUE_FULL: no reply comes. */
MUST_CHECK enum status gen_engine_flush(struct gen_engine *engine, void *call);
/* (any) From now on requests end with DRAINING; those that run go on. */
void gen_engine_drain(struct gen_engine *engine);
/* (any) Drains, and ends every request with DRAINING: at the end of the drain limit. */
void gen_engine_stop(struct gen_engine *engine);

/* One round. Returns when it wants to be called again: now_ns when there is more to do,
 * DEADLINE_NONE when only a message or a receiver event can bring work. */
uint64_t gen_engine_step(struct gen_engine *engine, uint64_t now_ns);
/* Sleeps until a message, a wake or until_ns. */
void gen_engine_wait(struct gen_engine *engine, uint64_t until_ns);
/* (any) For kv_receiver_on_event. engine is a struct gen_engine. */
void gen_engine_wake(void *engine);

struct gen_engine_stats {
    uint32_t room; /* requests that it would take now, to run or to wait */
    uint32_t queued, reserved, fetching, committing, local_prefill, decoding;
    uint32_t paused;                /* admitted before, and waiting for blocks again */
    uint32_t quarantined_transfers; /* closed, not yet quiet */
    uint64_t waiting_tokens;        /* of the prompts that are queued */
    uint32_t prefills;              /* prompts that are computed here or elsewhere, */
    uint64_t prefill_tokens, prefill_done_tokens; /* their tokens, and those of them with KV */
    uint32_t blocks_unowned;                      /* block_owners.h */
    uint32_t blocks[BLOCK_STATES];
    uint32_t n_blocks;
    bool is_draining;
    uint64_t requests_finished, requests_ok;
    uint64_t generated_tokens;
    uint64_t pauses;       /* by the schedule, so that others get on */
    uint64_t tokens_again; /* computed or fetched once more, after a pause */
    uint64_t rows_fetched; /* draws_n_fetched */
    uint64_t rows_not_finite;
    uint64_t prompt_tokens_computed, prompt_tokens_cached, prompt_tokens_remote;
    uint64_t prefix_query_tokens;
    uint64_t prefix_lookups;       /* for those that wait, before they are admitted */
    uint64_t kv_bytes_received;    /* of transfers, verified or not */
    uint64_t kv_tokens_received;   /* of committed transfers */
    uint64_t kv_tokens_recomputed; /* prompt tokens computed here after a failed hand-over */
    uint64_t handovers_started, handovers_committed, handovers_failed, handovers_fell_back;
    uint64_t handovers_failed_by[STATUS_COUNT];
    uint64_t prompts[GEN_PLACES]; /* computed, by where */
    uint64_t steps, steps_decode, blocks_evicted;
    uint32_t batch_sequences;  /* that decoded in the last step that computed */
    uint64_t last_progress_ns; /* of the last step that computed or had nothing to compute */
};

/* (any) As of the end of the last step. */
void gen_engine_read_stats(struct gen_engine *engine, struct gen_engine_stats *stats_out);
