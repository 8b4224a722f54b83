/*
 * router - the process that clients talk to: `kvferry router MODEL`.
 *
 *     main            signals, polls of workers, health, start and stop
 *     rpc-server      queue thread: the services of the doors, AdminService, health; Decode and GetState of workers
 *     text            tokenizes long texts
 *
 * It reads only the tokenizer and generation_config.json of MODEL, and asks the workers for the
 * rest.
 *
 * Thread: main.
 */
#pragma once

#include "process/role.h"
#include "router/doors.h"

extern const struct role router_role;

/* Runs until SIGTERM or SIGINT; returns the exit status of the process. */
int router_main(const struct config_input *input, const struct door_table *doors);
