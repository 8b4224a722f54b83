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

/* (any) As of the end of the last step. */
void ctx_engine_read_stats(struct ctx_engine *engine, struct ctx_engine_stats *stats_out);
