/*
 * watch_view - what a router shows of itself, as plain data: a copy of one moment.
 *
 * Bounds: live_max requests that run, ended_max that have ended, WATCH_WORKERS_MAX workers, WATCH_FLOWS_MAX flows. The
 * memory of the two lists of requests is the view's.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "process/process_state.h"
#include "rpc/rpc_error.h"

#define WATCH_WORKERS_MAX PROCESS_PEERS_MAX
#define WATCH_FLOWS_MAX   256u
#define WATCH_TENANT_MAX  65u /* bytes, NUL included */

enum watch_worker_state { WATCH_READY, WATCH_NOT_READY, WATCH_DRAINING, WATCH_NO_ANSWER };

struct watch_worker {
    char address[ADDRESS_TEXT_MAX];
    char name[PROCESS_NAME_MAX]; /* "": it has not answered yet */
    bool is_context;
    enum watch_worker_state state;
    bool is_used;                 /* the router sends requests to it */
    char reason[PEER_REASON_MAX]; /* why not, or why not with every other; "": it does */
    bool has_state;               /* the members below are of its last answer */
    uint32_t running, waiting;
    struct process_blocks blocks;
    struct process_prefills prefills;
    uint64_t kv_bytes_received, kv_bytes_sent; /* since its start */
    uint64_t uptime_ms;
    char transport[24];
};

enum watch_phase {
    WATCH_WAITING,  /* in the router, for a worker */
    WATCH_PLACED,   /* on its workers, which have not told of progress */
    WATCH_PREFILL,  /* n_done of the prompt's tokens have their KV */
    WATCH_TRANSFER, /* has its first token; the figures of its KV have not come yet */
    WATCH_DECODE,
};

struct watch_request {
    uint64_t number; /* of the router's life, from 1 */
    char id[RPC_REQUEST_ID_MAX + 1];
    char tenant[WATCH_TENANT_MAX]; /* "": there are none */
    enum watch_phase phase;
    uint64_t age_us;
    /* After its arrival; 0: not yet. */
    uint64_t placed_us, first_token_us, kv_there_us;
    uint32_t n_prompt, n_done, n_generated, n_choices, n_attempts;
    char context_worker[ADDRESS_TEXT_MAX]; /* "": none */
    char generation_worker[ADDRESS_TEXT_MAX];
};

/* A request that has ended. */
struct watch_ended {
    uint64_t number;
    char id[RPC_REQUEST_ID_MAX + 1];
    char tenant[WATCH_TENANT_MAX];
    enum status status;
    uint64_t ended_ns; /* monotonic, of this process */
    uint64_t first_token_us, kv_there_us, total_us, queue_us, prefill_us, transfer_us, decode_us;
    uint64_t kv_bytes;
    uint32_t n_prompt, n_cached, n_generated, n_choices, n_attempts;
    char context_worker[ADDRESS_TEXT_MAX]; /* "": the prompt was computed by the other */
    char generation_worker[ADDRESS_TEXT_MAX];
    char transport[24];
    Kvferry__V1__PrefillPlace place;
};

/* KV that was transferred from a context worker to a generation worker, as ended transfers tell. */
struct watch_flow {
    char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX];
    uint64_t bytes, transfers; /* since the start of the router */
    uint64_t used;             /* the greater, the later */
};

/* Of all requests that run, also those that are not in the list. */
struct watch_counts {
    uint32_t live, waiting, prefilling, transferring, decoding;
    uint64_t ended, failed, tokens; /* since the start of the router */
};

struct watch_view {
    char name[PROCESS_NAME_MAX], model[PROCESS_NAME_MAX];
    bool is_serving, is_draining; /* neither: it loads, or has no worker: lacks */
    enum status lacks;
    uint64_t now_ns, uptime_ms;
    struct watch_counts counts;
    uint32_t n_early; /* wait for the first worker, or for the tokenizer; not in counts */
    uint32_t n_workers, n_flows, n_live, n_ended;
    uint32_t live_max, ended_max;
    struct watch_worker workers[WATCH_WORKERS_MAX];
    struct watch_flow flows[WATCH_FLOWS_MAX];
    struct watch_request *live; /* [live_max] the newest first */
    struct watch_ended *ended;  /* [ended_max] the last first */
};
