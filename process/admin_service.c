#include "process/admin_service.h"

#include "base/log/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* It is too large for the stack of gRPC's thread. */
struct answer {
    struct process_state state;
    struct process_peer peers[PROCESS_PEERS_MAX];
    struct process_state_message message;
};

static void get_state(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    (void)request;
    struct admin_service *service = arg;
    struct answer *answer = malloc(sizeof *answer);
    if (!answer) {
        rpc_call_fail_status(call, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
        return;
    }
    struct process_state *state = &answer->state;
    *state = (struct process_state){.peers = answer->peers, .peers_max = PROCESS_PEERS_MAX};
    process_fill_state(service->process, state);
    service->fill_state(service->arg, state);
    assert(state->peers == answer->peers && state->n_peers <= PROCESS_PEERS_MAX);
    assert(state->incarnation == service->process->incarnation && "a role adds its part only");
    state->is_ready = state->is_ready && process_refuses(service->process) == STATUS_OK &&
                      !process_is_leaving(service->process);
    assert(!(state->is_ready && state->is_draining));
    process_state_encode(state, &answer->message);
    rpc_call_reply(call, &answer->message.response.base);
    free(answer);
}

static void drain(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    (void)request;
    struct admin_service *service = arg;
    log_info("drain requested by a call");
    process_ask_drain(service->process);
    Kvferry__Internal__V1__DrainResponse response = KVFERRY__INTERNAL__V1__DRAIN_RESPONSE__INIT;
    rpc_call_reply(call, &response.base);
}

static void set_log_level(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    (void)arg;
    const Kvferry__Internal__V1__SetLogLevelRequest
        *message = (const Kvferry__Internal__V1__SetLogLevelRequest *)request;
    enum log_level level;
    if (log_level_parse(message->level, &level) != STATUS_OK) {
        struct rpc_error error;
        rpc_error_set(&error, STATUS_INVALID_ARGUMENT, "level", message->level,
                      "level is \"%.40s\"; it must be error, warn, info or debug", message->level);
        rpc_call_fail(call, &error);
        return;
    }
    log_set_level(level);
    Kvferry__Internal__V1__SetLogLevelResponse response =
        KVFERRY__INTERNAL__V1__SET_LOG_LEVEL_RESPONSE__INIT;
    rpc_call_reply(call, &response.base);
}

static void flush(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    (void)request;
    struct admin_service *service = arg;
    enum status refusal = process_refuses(service->process);
    if (!service->flush)
        admin_service_flushed(call, 0);
    else if (refusal == STATUS_LOADING)
        rpc_call_fail_status(call, refusal, "%s", status_text(refusal));
    else
        service->flush(service->arg, call);
}

void admin_service_flushed(struct rpc_call *call, uint32_t n_blocks)
{
    Kvferry__Internal__V1__FlushPrefixCacheResponse response =
        KVFERRY__INTERNAL__V1__FLUSH_PREFIX_CACHE_RESPONSE__INIT;
    response.blocks_evicted = n_blocks;
    rpc_call_reply(call, &response.base);
}

/* ---- adapters ---- */

/* Whether the role has adapters, and its model is there to stay. */
static bool may_change_adapters(const struct admin_service *service, struct rpc_call *call,
                                bool has_them)
{
    const enum status refusal = process_refuses(service->process);
    if (!has_them)
        rpc_call_fail_status(call, STATUS_UNSUPPORTED,
                             "only workers load adapters: call each context and generation worker");
    else if (refusal != STATUS_OK)
        rpc_call_fail_status(call, refusal, "%s", status_text(refusal));
    return has_them && refusal == STATUS_OK;
}

static void load_adapter(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct admin_service *service = arg;
    const Kvferry__Internal__V1__LoadAdapterRequest
        *message = (const Kvferry__Internal__V1__LoadAdapterRequest *)request;
    if (may_change_adapters(service, call, service->load_adapter))
        service->load_adapter(service->arg, call, message->name, message->folder);
}

static void unload_adapter(void *arg, struct rpc_call *call, const ProtobufCMessage *request)
{
    struct admin_service *service = arg;
    const Kvferry__Internal__V1__UnloadAdapterRequest
        *message = (const Kvferry__Internal__V1__UnloadAdapterRequest *)request;
    if (may_change_adapters(service, call, service->unload_adapter))
        service->unload_adapter(service->arg, call, message->name);
}

void admin_service_loaded(struct rpc_call *call, const struct adapter_id *id,
                          uint64_t adapter_bytes)
{
    Kvferry__Internal__V1__LoadAdapterResponse response =
        KVFERRY__INTERNAL__V1__LOAD_ADAPTER_RESPONSE__INIT;
    struct adapter_message adapter;
    adapter_encode(id, &adapter);
    response.adapter = &adapter.message;
    response.adapter_bytes = adapter_bytes;
    rpc_call_reply(call, &response.base);
}

void admin_service_unloaded(struct rpc_call *call, uint64_t adapter_bytes)
{
    Kvferry__Internal__V1__UnloadAdapterResponse response =
        KVFERRY__INTERNAL__V1__UNLOAD_ADAPTER_RESPONSE__INIT;
    response.adapter_bytes = adapter_bytes;
    rpc_call_reply(call, &response.base);
}

/* ---- the table ---- */

/* Callers that do not know this process's incarnation call GetState first. */
#define ADMIN_METHOD(name, lower, function, of_roles)                                              \
    {                                                                                              \
        .path = "/kvferry.internal.v1.AdminService/" #name, .kind = RPC_UNARY,                     \
        .request = &kvferry__internal__v1__##lower##_request__descriptor,                          \
        .response = &kvferry__internal__v1__##lower##_response__descriptor,                        \
        .request_bytes_max = 4096, .handler = function, .takes_any_life = (function) == get_state, \
        .roles = (of_roles),                                                                       \
    }

static struct rpc_service row(struct admin_service *service, size_t n_methods)
{
    static const struct rpc_method METHODS[] = {
        ADMIN_METHOD(GetState, get_state, get_state, TLS_ROLES_ALL),
        ADMIN_METHOD(Drain, drain, drain, TLS_ROLE_BIT(OPERATOR)),
        ADMIN_METHOD(SetLogLevel, set_log_level, set_log_level, TLS_ROLE_BIT(OPERATOR)),
        ADMIN_METHOD(FlushPrefixCache, flush_prefix_cache, flush, TLS_ROLE_BIT(OPERATOR)),
        ADMIN_METHOD(LoadAdapter, load_adapter, load_adapter, TLS_ROLE_BIT(OPERATOR)),
        ADMIN_METHOD(UnloadAdapter, unload_adapter, unload_adapter, TLS_ROLE_BIT(OPERATOR)),
    };
    const size_t n_all = sizeof METHODS / sizeof *METHODS;
    assert(service->process && service->fill_state && "set before its row is asked for");
    return (struct rpc_service){
        .name = "kvferry.internal.v1.AdminService",
        .methods = METHODS,
        .n_methods = n_methods < n_all ? n_methods : n_all,
        .arg = service,
    };
}

struct rpc_service admin_service_row(struct admin_service *service)
{
    return row(service, SIZE_MAX);
}

struct rpc_service admin_service_state_row(struct admin_service *service)
{
    struct rpc_service state = row(service, 1);
    assert(state.methods[0].handler == get_state && "its row is the first");
    state.is_inner = true;
    return state;
}
