/*
 * dispatch_parts - what dispatch is made of: its lists, the Decode calls to workers (dispatch_attempt.c), and what people see
 * of it (dispatch_watch.c).
 *
 * Lock: the mutex, for all of it.
 */
#pragma once

#include "process/process_state.h"
#include "router/placement/router_core.h"
#include "router/requests/generation.h"
#include "router/watch/watch.h"
#include "router/watch/watch_history.h"
#include "rpc/client/client.h"

#include <pthread.h>

/* One Decode call, from start_decode to its end. */
struct attempt {
    struct attempt *next, *previous;
    struct dispatch *dispatch;
    struct rpc_client_call *call;
    uint64_t id;
    struct request_origin origin;
    struct decode_end end;
    bool is_search;   /* its last message has the replies */
    const char *rule; /* the first of its request's rules, a literal; NULL: it has none */
};

/* By the core's number of it. */
struct dispatch_worker {
    char address[ADDRESS_TEXT_MAX];
    struct rpc_channel *channel; /* NULL: it left, or is no generation worker */
    bool is_unfit;
};

struct dispatch {
    pthread_mutex_t mutex;
    struct router_core *core;
    struct router_metrics *metrics;
    const struct watch *watch;     /* NULL: nobody watches */
    struct watch_history *history; /* the same */
    uint64_t n_requests;
    struct reply_scratch scratch;
    struct hash_key id_key;
    struct dispatch_worker workers[PROCESS_PEERS_MAX];
    struct generation *generations;
    struct attempt *attempts;
    struct choice *failed;    /* whose call could not be started */
    struct generation *swept; /* some of whose choices are to be started, or ended */
};

void dispatch_lock(struct dispatch *dispatch);
/* Does first what the core's ops have left to do. */
void dispatch_unlock(struct dispatch *dispatch);

/* Calls the worker that was chosen for the choice; messages and the end come by callbacks, which take the mutex. As
 * rpc_channel_start. */
MUST_CHECK enum status attempt_start(struct dispatch *dispatch, const struct choice *choice,
                                     uint64_t id);
/* For the page: a request has ended; a choice has got, or may have got, figures of its KV. */
void dispatch_watch_end(struct dispatch *dispatch, const struct generation *generation,
                        uint64_t now_ns);
void dispatch_watch_kv(struct dispatch *dispatch, struct choice *choice);
/* One of the core's ops: arg is the dispatch. */
void attempt_cancel(void *arg, uint64_t id);
