/*
 * engine_info - the methods of VllmEngine that tell of the engine.
 *
 * Thread: any; handlers run on the queue thread.
 */
#pragma once

#include "api/engine/engine_calls.h"
#include "rpc/server/call.h"

#define ENGINE_DEFAULTS_MAX 192u /* bytes of JSON, NUL included */

struct generation_defaults;

void engine_info_health(const struct engine_place *place, struct rpc_call *rpc);
void engine_info_model(const struct engine_place *place, struct rpc_call *rpc);
void engine_info_server(const struct engine_calls *calls, struct rpc_call *rpc, uint64_t now_ns);
void engine_info_loads(const struct engine_place *place, struct rpc_call *rpc);
/* Workers have no such call: it says so. */
void engine_info_flush(struct rpc_call *rpc);

/* As JSON the sampling parameters that the model's folder gives, of those that gateways apply; "": it gives none. */
void engine_info_defaults(const struct generation_defaults *defaults,
                          char text_out[ENGINE_DEFAULTS_MAX]);
