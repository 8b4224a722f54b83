/*
 * worker_client_parts - the inside of worker_client: adding, polling and removing workers (worker_client.c), and
 * evaluating their answers (worker_judge.c).
 *
 * Lock: the clients' mutex, for everything.
 */
#pragma once

#include "discovery/reminder.h"
#include "process/process_state.h"
#include "router/workers/worker_client_options.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A slot: for a known worker, for one that left and whose last GetState is still open, or free. */
struct worker_client {
    struct worker_clients *clients;
    bool is_known;
    struct process_peer peer;
    enum worker_role role;
    uint32_t id; /* in the core */
    struct rpc_channel *channel;
    bool is_asked;                /* a GetState is open */
    bool was_asked;               /* a GetState has ended */
    enum status answered;         /* OK: with a valid message */
    struct error error;           /* of an invalid one */
    struct process_state state;   /* the last answer; its peers are those that it refused */
    char reason[PEER_REASON_MAX]; /* why it is not ready, apart from its pairs */
    bool is_heard;                /* the last poll was answered */
    bool is_twin;                 /* another address leads to the same process */
    bool would_serve;             /* it reports ready */
    bool was_ready;
    struct reminder reminder;
    uint64_t
        misfits[PROCESS_PEERS_MAX / 64]; /* a generation worker's: slots of context workers that
                                                 do not fit it, a bit each */
};

struct worker_clients {
    struct worker_clients_options options;
    pthread_mutex_t mutex; /* before dispatch's */
    struct worker_client workers[PROCESS_PEERS_MAX];
    struct process_peer heard_peers[PROCESS_PEERS_MAX]; /* of the present answer */
    uint32_t n_losses;
    struct model_card card;
    bool has_card;
};

/* The known worker after that one, or the first; NULL: there is none. */
static inline struct worker_client *worker_clients_next(struct worker_clients *clients,
                                                        struct worker_client *after)
{
    struct worker_client *worker = after ? after + 1 : clients->workers;
    while (worker < clients->workers + PROCESS_PEERS_MAX && !worker->is_known)
        worker++;
    return worker < clients->workers + PROCESS_PEERS_MAX ? worker : NULL;
}

static inline struct worker_client *worker_clients_first(struct worker_clients *clients)
{
    return worker_clients_next(clients, NULL);
}

/* The word and the bit of an incompatible context worker in a generation worker's misfits. */
uint64_t *worker_judge_misfit_word(struct worker_client *generation,
                                   const struct worker_client *context);
uint64_t worker_judge_misfit_bit(const struct worker_client *context);

/* Evaluates an answer: the worker's own state, and whether the process already answers at another address. */
void worker_judge_alone(struct worker_client *worker);
void worker_judge_twin(struct worker_client *worker);
/* It has just answered, or not in time: logs and reports it, its pairs first. */
void worker_judge_settle(struct worker_client *worker);
/* Updates each context worker after a generation worker came or left. */
void worker_judge_settle_contexts(struct worker_clients *clients);
/* Updates the gauges. */
void worker_judge_count(struct worker_clients *clients);
