/*
 * worker_client_parts - the clients of workers inside: who comes, is asked and goes (worker_client.c), and what their answers
 * come to (worker_judge.c).
 *
 * Lock: the clients' mutex, for all of it.
 */
#pragma once

#include "process/process_state.h"
#include "router/discovery/reminder.h"
#include "router/worker_client_options.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* A slot: of a known worker, of one that left and whose last question is still under way, or free. */
struct worker_client {
    struct worker_clients *clients;
    bool is_known;
    struct process_peer peer;
    enum worker_role role;
    uint32_t id; /* in the core */
    struct rpc_channel *channel;
    bool is_asked;                /* a GetState is under way */
    bool was_asked;               /* one has ended */
    enum status answered;         /* OK: it brought a message that could be read */
    struct error error;           /* of one that could not */
    struct process_state state;   /* of the last answer; its peers are those that it refused */
    char reason[PEER_REASON_MAX]; /* of its own why it is not ready, beside those of its pairs */
    bool is_heard;                /* the last question was answered */
    bool is_twin;                 /* by the process that another address leads to, too */
    bool would_serve;             /* it says that it is ready */
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
    struct process_peer heard_peers[PROCESS_PEERS_MAX]; /* of the answer that is being read */
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

/* Where a generation worker has the bit of a context worker that does not fit it, and which that is. */
uint64_t *worker_judge_misfit_word(struct worker_client *generation,
                                   const struct worker_client *context);
uint64_t worker_judge_misfit_bit(const struct worker_client *context);

/* Of an answer that has come: what it says for itself, and whether the process answers at another address already. */
void worker_judge_alone(struct worker_client *worker);
void worker_judge_twin(struct worker_client *worker);
/* It has just answered, or not in time: it is told and reported, its pairs first. */
void worker_judge_settle(struct worker_client *worker);
/* What a generation worker that came or went means for each context worker. */
void worker_judge_settle_contexts(struct worker_clients *clients);
/* Into the gauges. */
void worker_judge_count(struct worker_clients *clients);
