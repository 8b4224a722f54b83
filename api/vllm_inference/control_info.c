#include "api/vllm_inference/control_info.h"

#include "api/engine/engine_view.h"
#include "base/build_info.h"
#include "proto/vllm/control.pb-c.h"
#include "rpc/borrow.h"

#include <inttypes.h>
#include <stdio.h>

/* Dynamo's sidecar refuses an engine with another word. */
#define API_VERSION   "vllm"
#define PROTO_VERSION "0.6.0"

void control_info_server(const struct engine_place *place, struct rpc_call *rpc)
{
    Vllm__ServerInfo response = VLLM__SERVER_INFO__INIT;
    Vllm__ParallelismInfo parallelism = VLLM__PARALLELISM_INFO__INIT;
    struct engine_view view;
    struct model_card card;
    char instance[24];
    if (engine_view_card(place, rpc, &card) != STATUS_OK)
        return;
    engine_view_read(place, &view);
    snprintf(instance, sizeof instance, "%016" PRIx64, place->process->incarnation);
    parallelism.tensor_parallel_size = 1;
    parallelism.pipeline_parallel_size = 1;
    parallelism.data_parallel_size = 1;
    parallelism.world_size = 1;
    response.engine_version = borrow(build_version());
    response.api_version = borrow(API_VERSION);
    response.proto_version = borrow(PROTO_VERSION);
    response.instance_id = instance;
    response.parallelism = &parallelism;
    response.max_model_len = card.context_tokens;
    response.kv_block_size = view.block_tokens;
    response.total_kv_blocks = view.blocks;
    response.max_running_requests = view.running_max;
    rpc_call_reply(rpc, &response.base);
}

void control_info_model(const struct engine_place *place, struct rpc_call *rpc)
{
    Vllm__ModelInfo response = VLLM__MODEL_INFO__INIT;
    response.model_id = borrow(place->folder);
    response.served_model_name = borrow(place->model->name);
    response.supports_text_input = true;
    response.supports_token_ids_input = true;
    rpc_call_reply(rpc, &response.base);
}
