/*
 * worker_client - the workers of a router: a channel each, and what they last said of themselves.
 *
 * Every worker is asked for its state each poll_ms; one that is silent for poll_limit_ms, loading,
 * draining, has another tokenizer than the router, or serves another model than the first ready
 * generation worker is not ready, and its reason says why; nor is a context worker that fits none of the
 * generation workers known. Each pair is judged by itself, at every report of one of the two. Two addresses
 * of one process are one worker: the second is not ready, and says which is the first.
 *
 * Bounds: PROCESS_PEERS_MAX workers. One that left keeps its place until the last question has ended.
 *
 * Thread: worker_clients_poll and _follow on main; the others any.
 */
#pragma once

#include "process/process_state.h"
#include "router/discovery/address_set.h"
#include "router/worker_client_options.h"

/* Knows no worker at first. NO_MEMORY. */
MUST_CHECK enum status worker_clients_create(const struct worker_clients_options *options,
                                             struct worker_clients **clients_out);
/* Before the rpc client is destroyed, which waits for the calls under way; no more polls then. */
void worker_clients_close(struct worker_clients *clients); /* NULL is fine */
/* After it. NULL is fine. */
void worker_clients_destroy(struct worker_clients *clients);

/* From now on these, and no others, are the workers of that role: new ones are asked, those that are not among
 * them have left. Returns how many of them there is no room for, or memory: to be tried again. */
uint32_t worker_clients_follow(struct worker_clients *clients, enum worker_role role,
                               const struct address_set *wanted);
/* How often a worker that answered answered no more. */
uint32_t worker_clients_losses(struct worker_clients *clients);

/* Asks every worker that has answered the last question. Returns how many workers are known. */
uint32_t worker_clients_poll(struct worker_clients *clients, uint64_t now_ns);

/* What is served, as the first ready generation worker said. False: none was ready yet. */
bool worker_clients_card(struct worker_clients *clients, struct model_card *card_out);
/* Those that were never ready, with the reason, separated by "; ", cut to size; "" when there is none. */
void worker_clients_unseen(struct worker_clients *clients, char *text_out, size_t text_bytes);
uint32_t worker_clients_peers(struct worker_clients *clients, struct process_peer *peers_out,
                              uint32_t n);
