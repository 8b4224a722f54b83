#include "api/vllm_inference/vllm_inference.h"

#include "api/engine/engine_door.h"
#include "api/vllm_inference/control_info.h"
#include "api/vllm_inference/inference_reply.h"
#include "api/vllm_inference/inference_request.h"
#include "proto/vllm/control.pb-c.h"

static void take(struct engine_door *door, struct rpc_call *rpc, const ProtobufCMessage *message,
                 bool is_unary)
{
    struct rpc_error error = {0};
    const struct inference_limits limits = {
        .is_unary = is_unary, .priority_max = (int32_t)door->place.config->priority_max};
    enum status status = inference_request_read((const Vllm__GenerateRequest *)message, &limits,
                                                &door->ask, &error);
    engine_calls_take(&door->calls, rpc, &door->ask, &inference_reply_form, status, &error);
}

static void generate(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    take(arg, rpc, message, true);
}

static void generate_stream(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    take(arg, rpc, message, false);
}

static void server(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)message;
    control_info_server(&((struct engine_door *)arg)->place, rpc);
}

static void model(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)message;
    control_info_model(&((struct engine_door *)arg)->place, rpc);
}

static void abort_calls(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    struct engine_door *door = arg;
    const Vllm__AbortRequest *request = (const Vllm__AbortRequest *)message;
    Vllm__AbortResponse response = VLLM__ABORT_RESPONSE__INIT;
    for (size_t i = 0; i < request->n_request_ids; i++)
        engine_calls_abort(&door->calls, request->request_ids[i]);
    rpc_call_reply(rpc, &response.base);
}

/* None is offered: the router itself knows which worker has which prefix. */
static void event_sources(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)arg, (void)message;
    Vllm__GetKvEventSourcesResponse response = VLLM__GET_KV_EVENT_SOURCES_RESPONSE__INIT;
    rpc_call_reply(rpc, &response.base);
}

static const struct rpc_method INFERENCE[] = {
    {.path = "/vllm.Inference/Generate",
     .kind = RPC_UNARY,
     .request = &vllm__generate_request__descriptor,
     .response = &vllm__generate_response__descriptor,
     .elements_max = ENGINE_IDS_MAX,
     .handler = generate},
    {.path = "/vllm.Inference/GenerateStream",
     .kind = RPC_SERVER_STREAM,
     .request = &vllm__generate_request__descriptor,
     .response = &vllm__generate_response__descriptor,
     .elements_max = ENGINE_IDS_MAX,
     .handler = generate_stream},
};

static const struct rpc_method CONTROL[] = {
    {.path = "/vllm.Control/GetServerInfo",
     .kind = RPC_UNARY,
     .request = &vllm__get_server_info_request__descriptor,
     .response = &vllm__server_info__descriptor,
     .request_bytes_max = ENGINE_SMALL_BYTES_MAX,
     .while_draining = true,
     .handler = server},
    {.path = "/vllm.Control/GetModelInfo",
     .kind = RPC_UNARY,
     .request = &vllm__get_model_info_request__descriptor,
     .response = &vllm__model_info__descriptor,
     .request_bytes_max = ENGINE_SMALL_BYTES_MAX,
     .while_draining = true,
     .handler = model},
    {.path = "/vllm.Control/Abort",
     .kind = RPC_UNARY,
     .request = &vllm__abort_request__descriptor,
     .response = &vllm__abort_response__descriptor,
     .while_draining = true,
     .handler = abort_calls},
    {.path = "/vllm.Control/GetKvEventSources",
     .kind = RPC_UNARY,
     .request = &vllm__get_kv_event_sources_request__descriptor,
     .response = &vllm__get_kv_event_sources_response__descriptor,
     .request_bytes_max = ENGINE_SMALL_BYTES_MAX,
     .while_draining = true,
     .handler = event_sources},
};

/* ---- the door ---- */

static size_t engine_services(void *arg, struct rpc_service *services_out)
{
    services_out[0] = (struct rpc_service){.name = "vllm.Inference",
                                           .methods = INFERENCE,
                                           .n_methods = sizeof INFERENCE / sizeof *INFERENCE,
                                           .arg = arg};
    services_out[1] = (struct rpc_service){.name = "vllm.Control",
                                           .methods = CONTROL,
                                           .n_methods = sizeof CONTROL / sizeof *CONTROL,
                                           .arg = arg};
    return 2;
}

const struct door vllm_inference_door = {.name = "vllm.Inference",
                                         .create = engine_door_create,
                                         .engine_services = engine_services,
                                         .destroy = engine_door_destroy};
