/*
 * gen_worker_state - what the process of a generation worker holds.
 *
 * Thread: main's, but for what belongs to the threads that it starts.
 */
#pragma once

#include "engine/engine_thread.h"
#include "gen_worker/context_client.h"
#include "gen_worker/gen_config.h"
#include "gen_worker/gen_service.h"
#include "kvtransfer/transfer_thread.h"
#include "worker_common/adapter_loader.h"
#include "worker_common/kv_event_service.h"
#include "worker_common/worker.h"

struct gen_worker {
    struct gen_config config;
    const char *folder;
    struct process process;
    struct worker worker;
    struct rpc_runtime *client_runtime;
    struct rpc_client *rpc;
    struct context_client *contexts;
    struct kv_receiver *receiver;
    struct gen_engine *engine;
    struct transfer_thread *transfer_thread;
    struct engine_thread *engine_thread;
    struct gen_service service;
    struct admin_service admin;
    struct adapter_loader *loader;
    struct kv_event_service events;
    struct port_figures data_port; /* main's */
    char way[24];                  /* how KV comes: "am-tcp", "am-tcp, staged" */
};
