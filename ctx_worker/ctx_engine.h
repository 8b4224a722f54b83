/*
 * ctx_engine - the core of a context worker: computes prompts chunk by chunk and holds their KV
 * blocks for as long as the stream that reads them is open.
 *
 *     any thread                         engine thread                    transfer thread
 *     prefill, stream_ended, --ring-->   step (engine_core.h): QUIET, --> kv_sender_progress
 *     abort, drain                       messages, timers, admission,
 *     commit --held_transfers, ring-->   one batch of chunks
 *                                        ops: event, finish, replies
 *
 *     QUEUED -> COMPUTING -> SEALED -> RELEASED        exits at any state: ABORTED, EXPIRED
 *                                                      (both end in RELEASED)
 *
 * A prompt waits in a queue until a slot and all its blocks are free and it is next, at most queue_limit_ns; it
 * ends then with what it lacked, QUEUE_FULL for a slot or its caller's share of them, or NO_BLOCKS. Its blocks are
 * pinned while its stream lives; the blocks found in the prefix cache are published at once, the others chunk by
 * chunk. Who starts and who computes is schedule.h's choice (NO_EVICT; no new tokens), by caller: the one that was
 * served least first, each up to caller_share percent beside what it has already, the chunks of a batch in turn;
 * of one caller first in, first out, and first computed. The first token is sampled here. The lease ends with the stream, with a commit that was answered
 * OK, when that commit does not come in time, at the deadline, or by an abort; then the blocks are
 * fenced until kv_sender says QUIET, and until then the slot counts for its caller.
 *
 * A step may take minutes. Commits are answered meanwhile (held_transfers.h), and who waits is told behind a layer that it goes on
 * (ctx_backlog.h); everything else waits for its end.
 *
 * Stream handles are the caller's pointers. For each prefill that returned OK finish is called exactly
 * once, and it is the engine's last use of the handle. stream_ended may be called at most once, by
 * whoever still owns the handle (that is: before it is freed); after the engine has taken it, only
 * finish follows, with CANCELLED. One that crosses finish on its way is ignored. Call handles of
 * abort and flush end with their reply, exactly once for each that returned OK.
 *
 * Everything that decides is an argument: time, transport (under the sender), rpc (ops), secrets
 * (key, incarnation); a process and tests/sim run this same code.
 *
 * Bounds: queue_max waiting, slots_max computing, sealed or not yet quiet; streams_max handles known
 * at once, calls_max unary calls. One copy of the prompt is allocated a request, nothing a token.
 *
 * Thread: create, destroy, step and wait on the engine thread (the pool's, the forward's); the
 * functions marked (any) from any.
 */
#pragma once

#include "base/clock.h"
#include "base/ring.h"
#include "ctx_worker/held_transfers.h"
#include "engine/backlog.h"
#include "engine/engine_request.h"
#include "kvcache/prefix_tree.h"
#include "kvtransfer/kv_sender.h"
#include "model/draws.h"
#include "model/forward.h"

struct ctx_engine;

struct ctx_engine_options {
    const char *name; /* for logs: the worker's address; borrowed */
    uint64_t incarnation;
    struct prefix_key prefix_key;
    /* Borrowed until destroy. geometry is the pool's: block_bytes and block_tokens agree. */
    const struct model *model;
    struct forward
        *forward; /* warmed up, pool attached, for ctx_engine_step_tokens and slots_max sequences */
    struct device *device; /* where the pool is; its compute queue is this engine's */
    struct block_pool *pool;
    struct kv_sender *sender; /* created with transfers_max >= slots_max, blocks_max >= blocks of
                                 context_tokens */
    struct geometry geometry;
    uint32_t vocabulary;
    uint32_t context_tokens; /* longest prompt */
    uint32_t chunk_tokens;   /* of one prompt in a step at most; a multiple of block_tokens */
    uint64_t step_target_ns; /* schedule.h */
    uint32_t
        batch_tokens; /* of all prompts in a step; >= chunk_tokens; one more where that is one block */
    uint32_t slots_max;
    uint32_t queue_max;
    uint32_t streams_max; /* >= queue_max + slots_max */
    uint32_t calls_max;
    uint32_t caller_share;       /* percent of slots, blocks and queue that one caller may have */
    uint32_t priority_aging_ms;  /* schedule.h */
    uint64_t queue_limit_ns;     /* 0: a prompt that cannot start at once is refused */
    uint64_t lease_limit_ns;     /* from sealed to commit: this, some steps of the reader, ... */
    uint64_t lease_limit_mib_ns; /* ... and for each MiB that crosses this */
    bool kv_digest;              /* ready events carry a CRC32C a block */
    bool prefix_cache;
};

struct ctx_prefill_request {
    struct engine_request_input input;
    struct transfer_id transfer_id;
    uint32_t held_tokens; /* leading ones whose KV the caller holds: a multiple of block_tokens */
    uint64_t caller;      /* who asks (caller.h): what one of them may have is bounded */
    uint64_t caller_incarnation;
    uint64_t callee_incarnation; /* must be this life's */
    bool takes_backlog;          /* knows CTX_BACKLOG */
    uint64_t reader_step_ns;     /* between which it fetches and commits; 0: it does not say */
};

enum ctx_event_kind { CTX_BACKLOG, CTX_ACCEPTED, CTX_READY, CTX_FIRST_TOKEN, CTX_SEALED };

struct ctx_event {
    enum ctx_event_kind kind;
    union {
        struct backlog backlog; /* ctx_backlog.h */
        struct {
            uint32_t n_blocks; /* that will cross: those of the prompt after held_tokens */
            uint32_t block_tokens;
        } accepted;
        struct {
            uint32_t first_block; /* counted from the prompt's beginning */
            uint32_t n_blocks;
            const block_id *block_ids; /* [n_blocks], good during the call */
            const uint32_t *digests;   /* [n_blocks], or NULL when digests are off */
        } ready;
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

enum ctx_abort_found { CTX_FOUND_NOTHING, CTX_FOUND_QUEUED, CTX_FOUND_RUNNING, CTX_FOUND_SEALED };

/* What the engine says and to whom; called on the engine thread, from step only. They must not
 * block; they may call the functions marked (any). now_ns is the clock that step is given, and goes on during it. At most
 * 3 + blocks of the prompt events a stream, and BACKLOGs. */
struct ctx_engine_ops {
    void *arg;
    uint64_t (*now_ns)(void *arg);
    void (*event)(void *arg, void *stream, const struct ctx_event *event);
    /* sentence "" when the status says all; good during the call. */
    void (*finish)(void *arg, void *stream, enum status status, const char *sentence);
    void (*abort_reply)(void *arg, void *call, enum ctx_abort_found found);
    void (*flush_reply)(void *arg, void *call, uint32_t blocks_evicted);
};

/* Tokens of a step at most, which the forward pass is made for. */
uint32_t ctx_engine_step_tokens(uint32_t batch_tokens, uint32_t block_tokens);
/* ops is copied. INVALID_ARGUMENT: error names the option. */
MUST_CHECK enum status ctx_engine_create(const struct ctx_engine_options *options,
                                         const struct ctx_engine_ops *ops, struct error *error,
                                         struct ctx_engine **engine_out);
/* Streams that are still open get no finish any more: end them first (drain, or ctx_engine_stop).
 * NULL is fine. */
void ctx_engine_destroy(struct ctx_engine *engine);

/* (any) Checks and copies the request. Not OK: the engine keeps nothing, finish is not called.
 * INVALID_ARGUMENT, PROMPT_TOO_LONG, STALE_PEER, QUEUE_FULL (streams_max handles), NO_MEMORY; error
 * gets a sentence for the caller. What only the engine can know comes by finish: DUPLICATE_REQUEST,
 * QUEUE_FULL, SHARE_FULL, NO_BLOCKS, DRAINING, TIMED_OUT, CANCELLED, SLOW_READER. */
MUST_CHECK enum status ctx_engine_prefill(struct ctx_engine *engine, void *stream,
                                          const struct ctx_prefill_request *request,
                                          struct error *error);
/* (any) The reader is gone. Never fails. */
void ctx_engine_stream_ended(struct ctx_engine *engine, void *stream);
/* (any) OK only if the transfer is sealed and was held throughout, and kv_bytes is what crosses; its stream is then
 * finished with OK. NOT_HELD, CANCELLED, STALE_PEER: error says why. Waits for no step. */
MUST_CHECK enum status ctx_engine_commit(struct ctx_engine *engine,
                                         const struct held_commit *commit, struct error *error);
/* (any) QUEUE_FULL: calls_max are waiting; no reply comes. */
MUST_CHECK enum status ctx_engine_abort(struct ctx_engine *engine, void *call,
                                        const char *request_id);
/* (any) Evicts every cached block that nobody uses. QUEUE_FULL as above. */
MUST_CHECK enum status ctx_engine_flush(struct ctx_engine *engine, void *call);
/* (any) From now on prefills end with DRAINING; those that run go on. */
void ctx_engine_drain(struct ctx_engine *engine);
/* (any) Drains, and ends every stream with DRAINING: at the end of the drain limit. */
void ctx_engine_stop(struct ctx_engine *engine);

/* One round: messages, timers, sender's events, then at most one batch of chunks. Returns when it
 * wants to be called again: now_ns when there is more to do, DEADLINE_NONE when only a message or
 * a sender event can bring work. */
uint64_t ctx_engine_step(struct ctx_engine *engine, uint64_t now_ns);
/* Sleeps until a message, a wake or until_ns. */
void ctx_engine_wait(struct ctx_engine *engine, uint64_t until_ns);
/* (any) For kv_sender_on_event. engine is a struct ctx_engine. */
void ctx_engine_wake(void *engine);

struct ctx_engine_stats {
    uint32_t room; /* prompts that it would take now, to compute or to wait */
    uint32_t queued, computing, sealed, closing; /* closing: released, not yet quiet */
    uint64_t waiting_tokens; /* of prompts that are queued or computing: those not computed yet */
    uint64_t computing_tokens,
        computed_tokens;     /* of those that are computing: all, and those with KV */
    uint32_t blocks_unowned; /* block_owners.h */
    uint32_t blocks[BLOCK_STATES];
    uint32_t n_blocks;
    bool is_draining;
    uint64_t requests_finished; /* finish calls, any status */
    uint64_t requests_ok;       /* of these: committed or released after sealed by the reader */
    uint64_t commits_ok, commits_refused;
    uint64_t steps, prompt_tokens_computed, prompt_tokens_cached, prefix_query_tokens;
    uint64_t blocks_published, blocks_evicted;
    uint64_t rows_not_finite;  /* prompts that ended without a first token */
    uint64_t leases_expired;   /* deadline passed, or no commit came, while blocks were held */
    uint64_t last_progress_ns; /* of the last step that computed or had nothing to compute */
};

/* (any) As of the end of the last step. */
void ctx_engine_read_stats(struct ctx_engine *engine, struct ctx_engine_stats *stats_out);
