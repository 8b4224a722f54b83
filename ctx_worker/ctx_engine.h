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
 * A prompt waits in a queue, at most queue_limit_ns, until it is next and a slot and all its blocks are free. After that time
 * it ends with what it lacked: QUEUE_FULL for a slot or for its caller's share of them, or NO_BLOCKS. Its blocks are pinned
 * while its stream is open. Blocks from the prefix cache are published at once, the others chunk by chunk. The first token is
 * sampled here.
 *
 * schedule.h chooses what starts and what is computed (NO_EVICT; no new tokens). The caller that was served least is first;
 * each caller may have caller_share percent, beside what it has already, and callers take turns with the chunks of a batch.
 * The prompts of one caller start and compute in the order of their arrival.
 *
 * The lease ends with the stream, with a commit that was answered OK, when that commit does not come in time, at the deadline,
 * or by an abort. Then the blocks are fenced until kv_sender says QUIET. Until then the slot counts for its caller.
 *
 * A step may take minutes. During a step commits are answered (held_transfers.h), and readers that wait learn after a layer
 * that the step makes progress (ctx_backlog.h). Everything else waits for the end of the step.
 *
 * Stream handles are the caller's pointers. For each prefill that returned OK finish is called exactly once, and it is the
 * engine's last use of the handle. stream_ended may be called at most once, while the caller still owns the handle (before it
 * is freed). After the engine has taken that message, only finish follows, with CANCELLED. A stream_ended that arrives after
 * finish is ignored. Call handles of abort and flush end with their reply, exactly once for each call that returned OK.
 *
 * Time, transport (under the sender), rpc (ops) and secrets (key, incarnation) are arguments: a process and tests/sim run the
 * same code.
 *
 * Bounds: queue_max prompts that wait; slots_max that compute, are sealed or are not yet quiet; streams_max handles at once;
 * calls_max unary calls. A request allocates one copy of its prompt; a token allocates nothing.
 *
 * Thread: create, destroy, step and wait on the engine thread (the pool's, the forward's); the
 * functions marked (any) from any.
 */
#pragma once

#include "base/clock.h"
#include "ctx_worker/ctx_ops.h"
#include "ctx_worker/ctx_options.h"
#include "ctx_worker/ctx_request.h"
#include "ctx_worker/ctx_stats.h"
#include "ctx_worker/held_transfers.h"

struct ctx_engine;

/* ops is copied. INVALID_ARGUMENT: error names the option. */
MUST_CHECK enum status ctx_engine_create(const struct ctx_engine_options *options,
                                         const struct ctx_engine_ops *ops, struct error *error,
                                         struct ctx_engine **engine_out);
/* Streams that are still open get no finish: end them first (drain, or ctx_engine_stop). NULL is fine. */
void ctx_engine_destroy(struct ctx_engine *engine);
/* What its prefix cache has, for readers; NULL: no kv_events_max, or no cache. Until destroy. Any thread. */
struct span_events *ctx_engine_spans(const struct ctx_engine *engine);

/* (any) Checks and copies the request. Not OK: the engine keeps nothing, finish is not called.
 * INVALID_ARGUMENT, PROMPT_TOO_LONG, STALE_PEER, QUEUE_FULL (streams_max handles), NO_MEMORY; error
 * gets a sentence for the caller. Later failures come by finish: DUPLICATE_REQUEST, QUEUE_FULL,
 * SHARE_FULL, NO_BLOCKS, DRAINING, TIMED_OUT, CANCELLED, SLOW_READER. */
MUST_CHECK enum status ctx_engine_prefill(struct ctx_engine *engine, void *stream,
                                          const struct ctx_prefill_request *request,
                                          struct error *error);
/* (any) The reader has left. Never fails. */
void ctx_engine_stream_ended(struct ctx_engine *engine, void *stream);
/* (any) OK only if the transfer is sealed, was held all the time, and has kv_bytes to transfer; its stream then finishes with
 * OK. NOT_HELD, CANCELLED, STALE_PEER: error says why. Does not wait for the step. */
MUST_CHECK enum status ctx_engine_commit(struct ctx_engine *engine,
                                         const struct held_commit *commit, struct error *error);
/* (any) QUEUE_FULL: calls_max are waiting; no reply comes. */
MUST_CHECK enum status ctx_engine_abort(struct ctx_engine *engine, void *call,
                                        const char *request_id);
/* (any) Evicts every cached block that is not in use. QUEUE_FULL: as above. */
MUST_CHECK enum status ctx_engine_flush(struct ctx_engine *engine, void *call);
/* (any) From now on new prefills end with DRAINING; running ones continue. */
void ctx_engine_drain(struct ctx_engine *engine);
/* (any) Drains, and ends every stream with DRAINING: at the end of the drain limit. */
void ctx_engine_stop(struct ctx_engine *engine);

/* One round: events of the sender, messages, timeouts, then at most one batch of chunks. Returns the time of the next call:
 * now_ns when there is more to do, DEADLINE_NONE when only a message or an event of the sender can bring work. */
uint64_t ctx_engine_step(struct ctx_engine *engine, uint64_t now_ns);
/* Sleeps until a message, a wake or until_ns. */
void ctx_engine_wait(struct ctx_engine *engine, uint64_t until_ns);
/* (any) For kv_sender_on_event. engine is a struct ctx_engine. */
void ctx_engine_wake(void *engine);

/* (any) As of the end of the last step. */
void ctx_engine_read_stats(struct ctx_engine *engine, struct ctx_engine_stats *stats_out);
