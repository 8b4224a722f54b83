/*
 * gen_worker - the process of the generation phase: `kvferry gen-worker MODEL`.
 *
 *     main                 signals, watchdog, start and stop
 *     rpc-server           queue thread: GenerationWorker, AdminService, health
 *     rpc-client           queue thread: Describe, Prefill, Commit to context workers
 *     engine               gen_engine: the batch, with the compute pool under it
 *     transfer             kv_receiver: pulls over UCX
 *
 * Thread: main.
 */
#pragma once

#include "process/role.h"

extern const struct role gen_worker_role;

/* Runs until SIGTERM or SIGINT; returns the exit status of the process. */
int gen_worker_main(const struct config_input *input);
