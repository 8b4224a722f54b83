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
 * schedule/ decides which requests are admitted, paused and resumed, and what a step computes, by capacity_policy. With no-evict
 * an admitted request runs to its end. With max-utilization the youngest one is paused when blocks run out, and continues later
 * with the same tokens (sequence.h). Requests start in the order of their arrival. A request that was never admitted waits at
 * most queue_limit_ns, a paused one until its deadline.
 *
 * A prompt is computed here when no context worker was named, or when the prefix cache lacks at most local_prefill_max_tokens of
 * it. Otherwise the context worker computes it, and its blocks are fetched into this worker's blocks meanwhile. Fetched blocks
 * are used only after every block was verified and the commit was answered OK. After any failure before that the prompt is
 * computed here, but for what this worker's prefix cache has. This needs local_prefill, else the request ends with a typed
 * status; it pauses until there are blocks that no transfer may still write. The first token of a context worker is sent to the
 * client at once. The token that a fall-back computes must be the same, else the request ends with TRANSFER_FAILED.
 *
 * KV of a context worker with other numerics (which an operator has allowed) serves that one request. It stays out of the prefix
 * cache, as does all that is computed from it, because the cache has only KV of this worker's numerics. The first token of such
 * a context worker counts, whatever a fall-back computes.
 *
 * Stream handles are the caller's pointers, with the rules of ctx_engine.h: for each generate that returned OK finish is called
 * exactly once, and it is the engine's last use of the handle; stream_ended is called at most once, before the handle is freed.
 * Prefill handles are numbers that the engine draws and never reuses, so late messages for one are recognised and dropped.
 *
 * Bounds: queue_max requests that wait, paused ones included; sequences_max that are admitted; prefills_max prefills until their
 * prefill_end has come and their blocks are quiet (beyond it a prompt is computed here, or waits); events_max messages from
 * context workers; streams_max stream handles. A token allocates nothing. The engine thread never waits for the network.
 *
 * Thread: create, destroy, step and wait on the engine thread; the functions marked (any) from any.
 */
#pragma once

#include "base/clock.h"
#include "engine/prefill_event.h"
#include "gen_worker/gen_described.h"
#include "gen_worker/gen_ops.h"
#include "gen_worker/gen_options.h"
#include "gen_worker/gen_request.h"
#include "gen_worker/gen_stats.h"

struct gen_engine;

/* ops is copied. INVALID_ARGUMENT: error names the option. */
MUST_CHECK enum status gen_engine_create(const struct gen_engine_options *options,
                                         const struct gen_engine_ops *ops, struct error *error,
                                         struct gen_engine **engine_out);
/* All requests have ended, and all transfers are quiet: drain or stop first. NULL is fine. */
void gen_engine_destroy(struct gen_engine *engine);
/* What its prefix cache has, for readers; NULL: no kv_events_max, or no cache. Until destroy. Any thread. */
struct span_events *gen_engine_spans(const struct gen_engine *engine);

/* (any) Checks and copies the request. Not OK: the engine keeps nothing, finish is not called.
 * INVALID_ARGUMENT, PROMPT_TOO_LONG, QUEUE_FULL (streams_max handles), NO_MEMORY; error gets a
 * sentence. Later failures come by finish: DUPLICATE_REQUEST, QUEUE_FULL, NO_BLOCKS, DRAINING,
 * TIMED_OUT, CANCELLED, SLOW_READER, TRANSFER_FAILED and what a context worker said. */
MUST_CHECK enum status gen_engine_generate(struct gen_engine *engine, void *stream,
                                           const struct gen_request *request, struct error *error);
/* (any) The client has left. Never fails. */
void gen_engine_stream_ended(struct gen_engine *engine, void *stream);

/* (any) Which worker computes the prefill; before its first event. described is copied. has_other_numerics: its KV is accepted,
 * and may have other bits than KV of this worker: see above. QUEUE_FULL: as below. */
MUST_CHECK enum status gen_engine_described(struct gen_engine *engine, uint64_t prefill,
                                            const struct gen_described *described);
/* (any) QUEUE_FULL (events_max are waiting), NO_MEMORY: the event is lost, and so is the prefill: cancel its stream and call
 * prefill_end with that status. */
MUST_CHECK enum status gen_engine_prefill_event(struct gen_engine *engine, uint64_t prefill,
                                                const struct prefill_event *event);
/* (any) The last event of a prefill, exactly once for each start_prefill. Never fails. STALE_PEER: the receiver drops what it
 * keeps for that incarnation. */
void gen_engine_prefill_end(struct gen_engine *engine, uint64_t prefill, enum status status,
                            const char *sentence);
/* (any) Exactly once for each commit. Never fails. */
void gen_engine_commit_result(struct gen_engine *engine, uint64_t prefill, enum status status,
                              const char *sentence);
/* (any) That incarnation of a context worker has ended: a newer one answers at its address. QUEUE_FULL: as above; the memory
 * for the old one is then kept. */
MUST_CHECK enum status gen_engine_drop_peer(struct gen_engine *engine, uint64_t incarnation);

/* (any) That incarnation of a context worker has contradicted itself (trust.h). QUEUE_FULL: as above; call it again. */
MUST_CHECK enum status gen_engine_distrust(struct gen_engine *engine, uint64_t incarnation);

/* (any) Evicts every cached block that is not in use. QUEUE_FULL: no reply comes. */
MUST_CHECK enum status gen_engine_flush(struct gen_engine *engine, void *call);
/* (any) From now on new requests end with DRAINING; running ones continue. */
void gen_engine_drain(struct gen_engine *engine);
/* (any) Drains, and ends every request with DRAINING: at the end of the drain limit. */
void gen_engine_stop(struct gen_engine *engine);

/* One round. Returns the time of the next call: now_ns when there is more to do, DEADLINE_NONE when only a message or an event
 * of the receiver can bring work. */
uint64_t gen_engine_step(struct gen_engine *engine, uint64_t now_ns);
/* Sleeps until a message, a wake or until_ns. */
void gen_engine_wait(struct gen_engine *engine, uint64_t until_ns);
/* (any) For kv_receiver_on_event. engine is a struct gen_engine. */
void gen_engine_wake(void *engine);

/* (any) As of the end of the last step. */
void gen_engine_read_stats(struct gen_engine *engine, struct gen_engine_stats *stats_out);
