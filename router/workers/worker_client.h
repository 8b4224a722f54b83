/*
 * worker_client - the workers of a router: a channel to each, and its last report.
 *
 * Every worker is asked for its state each poll_ms. A worker is not ready, with a reason, if it is silent
 * for poll_limit_ms, loads, drains, has another tokenizer than the router, or serves another model than the
 * first ready generation worker; also a context worker that is compatible with no known generation worker.
 * Each pair is checked separately, at every report of one of the two. Two addresses of one process are one
 * worker: the second is not ready, and its reason names the first.
 *
 * Bounds: PROCESS_PEERS_MAX workers. A worker that left keeps its slot until its last GetState call has
 * ended.
 *
 * Thread: worker_clients_poll and _follow on main; the others any.
 */
#pragma once

#include "discovery/address_set.h"
#include "process/process_state.h"
#include "router/watch/watch_view.h"
#include "router/workers/worker_client_options.h"

/* It has no workers at first. NO_MEMORY. */
MUST_CHECK enum status worker_clients_create(const struct worker_clients_options *options,
                                             struct worker_clients **clients_out);
/* Call it before the rpc client is destroyed, which waits for open calls; no polls after it. */
void worker_clients_close(struct worker_clients *clients); /* NULL is fine */
/* Call it after the rpc client is destroyed. NULL is fine. */
void worker_clients_destroy(struct worker_clients *clients);

/* Sets the workers of that role: new ones are polled, those that are not in the set have left. Returns how
 * many could not be added without room or memory; try them again. */
uint32_t worker_clients_follow(struct worker_clients *clients, enum worker_role role,
                               const struct address_set *wanted);
/* How often a worker stopped answering. */
uint32_t worker_clients_losses(struct worker_clients *clients);

/* Polls every worker that has answered the last poll. Returns how many workers are known. */
uint32_t worker_clients_poll(struct worker_clients *clients, uint64_t now_ns);

/* The served model, from the first ready generation worker, with the adapters that generation workers have told. False: none was
 * ready yet. */
bool worker_clients_card(struct worker_clients *clients, struct model_card *card_out);
/* KV blocks of the generation workers that are ready, as they reported last. */
struct worker_room {
    uint32_t n_workers;
    uint64_t blocks, blocks_usable; /* free or cached */
};
void worker_clients_room(struct worker_clients *clients, struct worker_room *room_out);
/* The workers that were never ready, with reasons, separated by "; " and cut to size; "": none. */
void worker_clients_unseen(struct worker_clients *clients, char *text_out, size_t text_bytes);
/* For people: all that are known, in the order of their slots; returns how many. */
uint32_t worker_clients_watch(struct worker_clients *clients,
                              struct watch_worker workers_out[PROCESS_PEERS_MAX]);
uint32_t worker_clients_peers(struct worker_clients *clients, struct process_peer *peers_out,
                              uint32_t n);
