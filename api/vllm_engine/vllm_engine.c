#include "api/vllm_engine/vllm_engine.h"

#include "api/engine/engine_door.h"
#include "api/vllm_engine/engine_info.h"
#include "api/vllm_engine/engine_reply.h"
#include "api/vllm_engine/engine_request.h"
#include "api/vllm_engine/kv_event_stream.h"
#include "api/vllm_engine/tokenizer_stream.h"
#include "base/clock.h"
#include "proto/smg/grpc/common/common.pb-c.h"

static void generate(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    struct engine_door *door = arg;
    struct rpc_error error = {0};
    enum status status = engine_request_read((const Vllm__Grpc__Engine__GenerateRequest *)message,
                                             &door->ask, &error);
    engine_calls_take(&door->calls, rpc, &door->ask, &engine_reply_form, status, &error);
}

static void abort_calls(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    struct engine_door *door = arg;
    const Vllm__Grpc__Engine__AbortRequest *request = (const Vllm__Grpc__Engine__AbortRequest *)
        message;
    Vllm__Grpc__Engine__AbortResponse response = VLLM__GRPC__ENGINE__ABORT_RESPONSE__INIT;
    for (size_t i = 0; i < request->n_request_ids; i++)
        engine_calls_abort(&door->calls, request->request_ids[i]);
    rpc_call_reply(rpc, &response.base);
}

static void health(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)message;
    engine_info_health(&((struct engine_door *)arg)->place, rpc);
}

static void model(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)message;
    engine_info_model(&((struct engine_door *)arg)->place, rpc);
}

static void server(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)message;
    engine_info_server(&((struct engine_door *)arg)->calls, rpc, clock_now_ns());
}

static void loads(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)message;
    engine_info_loads(&((struct engine_door *)arg)->place, rpc);
}

static void tokenizer(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)message;
    tokenizer_stream_start(&((struct engine_door *)arg)->place, rpc);
}

static void kv_events(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    const Smg__Grpc__Common__SubscribeKvEventsRequest
        *request = (const Smg__Grpc__Common__SubscribeKvEventsRequest *)message;
    kv_event_stream_open(((struct engine_door *)arg)->kv_events, rpc,
                         request->start_sequence_number, request->load_records_before_first_batch);
}

static void flush(void *arg, struct rpc_call *rpc, const ProtobufCMessage *message)
{
    (void)arg, (void)message;
    engine_info_flush(rpc);
}

#define PATH(method) .path = "/vllm.grpc.engine.VllmEngine/" method

/* A call that tells of the engine, while it drains, too. */
#define INFO(method, message, function)                                                            \
    {                                                                                              \
        PATH(method), .kind = RPC_UNARY,                                                           \
                      .request = &vllm__grpc__engine__##message##_request__descriptor,             \
                      .response = &vllm__grpc__engine__##message##_response__descriptor,           \
                      .request_bytes_max = ENGINE_SMALL_BYTES_MAX, .while_draining = true,         \
                      .handler = function                                                          \
    }

static const struct rpc_method METHODS[] = {
    {PATH("Generate"), .kind = RPC_SERVER_STREAM,
     .request = &vllm__grpc__engine__generate_request__descriptor,
     .response = &vllm__grpc__engine__generate_response__descriptor, .elements_max = ENGINE_IDS_MAX,
     .handler = generate},
    {PATH("Abort"), .kind = RPC_UNARY, .request = &vllm__grpc__engine__abort_request__descriptor,
     .response = &vllm__grpc__engine__abort_response__descriptor, .while_draining = true,
     .handler = abort_calls},
    INFO("HealthCheck", health_check, health),
    INFO("GetModelInfo", get_model_info, model),
    INFO("GetServerInfo", get_server_info, server),
    INFO("GetLoads", get_loads, loads),
    {PATH("GetTokenizer"), .kind = RPC_SERVER_STREAM,
     .request = &smg__grpc__common__get_tokenizer_request__descriptor,
     .response = &smg__grpc__common__get_tokenizer_chunk__descriptor,
     .request_bytes_max = ENGINE_SMALL_BYTES_MAX, .calls_max = TOKENIZER_STREAMS_MAX,
     .handler = tokenizer},
    {PATH("SubscribeKvEvents"), .kind = RPC_SERVER_STREAM,
     .request = &smg__grpc__common__subscribe_kv_events_request__descriptor,
     .response = &smg__grpc__common__kv_event_batch__descriptor,
     .request_bytes_max = ENGINE_SMALL_BYTES_MAX, .idles = true, .handler = kv_events},
    {PATH("FlushCache"), .kind = RPC_UNARY,
     .request = &smg__grpc__common__flush_cache_request__descriptor,
     .response = &smg__grpc__common__flush_cache_response__descriptor,
     .request_bytes_max = ENGINE_SMALL_BYTES_MAX, .handler = flush},
};

/* ---- the door ---- */

static void destroy(void *arg)
{
    struct engine_door *door = arg;
    if (door)
        kv_event_stream_destroy(door->kv_events);
    engine_door_destroy(door);
}

static enum status create(const struct door_place *place, struct error *error, void **door_out)
{
    void *made;
    TRY(engine_door_create(place, error, &made));
    struct engine_door *door = made;
    if (kv_event_stream_create(&door->place, &door->kv_events) != STATUS_OK) {
        destroy(door);
        return error_set(error, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    }
    *door_out = door;
    return STATUS_OK;
}

static size_t engine_services(void *arg, struct rpc_service *services_out)
{
    services_out[0] = (struct rpc_service){.name = "vllm.grpc.engine.VllmEngine",
                                           .methods = METHODS,
                                           .n_methods = sizeof METHODS / sizeof *METHODS,
                                           .arg = arg};
    return 1;
}

const struct door vllm_engine_door = {.name = "vllm.grpc.engine",
                                      .create = create,
                                      .engine_services = engine_services,
                                      .destroy = destroy};
