/*
 * admin_service - AdminService on a control port: state, drain, log level, prefix cache, adapters.
 *
 * Thread: handlers run on the queue thread; the ops are called there and must not block.
 */
#pragma once

#include "process/process.h"

struct admin_service {
    struct process *process;
    /* Adds what the role knows to what process_fill_state wrote. */
    void (*fill_state)(void *arg, struct process_state *state_out);
    /* Evicts the prefix cache and answers the call with admin_service_flushed, now or later (then
     * it shares the call). NULL: the role has no cache. */
    void (*flush)(void *arg, struct rpc_call *call);
    /* Answer the call with admin_service_loaded, admin_service_unloaded or a failure, now or later. They are not called while the
     * process loads or drains. NULL: the role has no adapters. Strings are borrowed for the call of the function. */
    void (*load_adapter)(void *arg, struct rpc_call *call, const char *name, const char *folder);
    void (*unload_adapter)(void *arg, struct rpc_call *call, const char *name);
    void *arg;
};

/* The row of a server's table; service must outlive the server. */
struct rpc_service admin_service_row(struct admin_service *service);

/* A row with GetState only, for a public port; there, too, it needs the cluster key. */
struct rpc_service admin_service_state_row(struct admin_service *service);

void admin_service_flushed(struct rpc_call *call, uint32_t n_blocks);
/* adapter_bytes: of all adapters of the worker. */
void admin_service_loaded(struct rpc_call *call, const struct adapter_id *id,
                          uint64_t adapter_bytes);
void admin_service_unloaded(struct rpc_call *call, uint64_t adapter_bytes);
