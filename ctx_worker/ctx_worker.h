/*
 * ctx_worker - the process of the context phase: `kvferry ctx-worker MODEL`.
 *
 *     main                 signals, watchdog, start and stop
 *     rpc-server           queue thread: ContextWorker, AdminService, health
 *     engine               ctx_engine: chunks of prompts, with the compute pool under it
 *     transfer             kv_sender: answers pulls over UCX
 *
 * Thread: main.
 */
#pragma once

#include "process/role.h"

extern const struct role ctx_worker_role;

/* Runs until SIGTERM or SIGINT; returns the exit status of the process. */
int ctx_worker_main(const struct config_input *input);
