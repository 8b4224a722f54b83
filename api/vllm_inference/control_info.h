/*
 * control_info - the methods of vllm.Control that tell of the engine.
 *
 * Thread: any; handlers run on the queue thread.
 */
#pragma once

#include "api/engine/engine_place.h"
#include "rpc/server/call.h"

void control_info_server(const struct engine_place *place, struct rpc_call *rpc);
void control_info_model(const struct engine_place *place, struct rpc_call *rpc);
