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
#include "gen_worker/gen_ops.h"
#include "gen_worker/gen_options.h"
#include "gen_worker/gen_request.h"
#include "gen_worker/gen_stats.h"

struct gen_engine;

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

/* (any) As of the end of the last step. */
void gen_engine_read_stats(struct gen_engine *engine, struct gen_engine_stats *stats_out);
