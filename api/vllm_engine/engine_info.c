#include "api/vllm_engine/engine_info.h"

#include "api/engine/engine_view.h"
#include "base/build_info.h"
#include "base/clock.h"
#include "proto/smg/grpc/common/common.pb-c.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"
#include "rpc/borrow.h"

#include <stdio.h>
#include <time.h>

/* Counts are signed there. */
static int32_t count(uint64_t n)
{
    return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

void engine_info_health(const struct engine_place *place, struct rpc_call *rpc)
{
    Vllm__Grpc__Engine__HealthCheckResponse response =
        VLLM__GRPC__ENGINE__HEALTH_CHECK_RESPONSE__INIT;
    struct engine_view view;
    engine_view_read(place, &view);
    enum status status = process_refuses(place->process);
    const char *why = status != STATUS_OK                  ? status_text(status)
                      : process_is_leaving(place->process) ? status_text(STATUS_DRAINING)
                                                           : status_text(STATUS_NOT_READY);
    response.healthy = view.is_ready;
    response.message = borrow(view.is_ready ? "ok" : why);
    rpc_call_reply(rpc, &response.base);
}

/* "name": value, with what separates it; nothing where value is what a gateway takes anyway. */
static void add(char text[ENGINE_DEFAULTS_MAX], size_t *used, const char *name, double value,
                double neutral)
{
    if (value == neutral)
        return;
    int n = snprintf(text + *used, ENGINE_DEFAULTS_MAX - *used, "%s\"%s\": %g",
                     *used > 0 ? ", " : "{", name, value);
    *used += (size_t)n;
}

void engine_info_defaults(const struct generation_defaults *defaults,
                          char text_out[ENGINE_DEFAULTS_MAX])
{
    size_t used = 0;
    text_out[0] = '\0';
    add(text_out, &used, "temperature", (double)defaults->temperature, 1);
    add(text_out, &used, "top_p", (double)defaults->top_p, 1);
    add(text_out, &used, "top_k", defaults->top_k, 0);
    add(text_out, &used, "repetition_penalty", (double)defaults->repetition_penalty, 1);
    if (used > 0)
        snprintf(text_out + used, ENGINE_DEFAULTS_MAX - used, "}");
}

void engine_info_model(const struct engine_place *place, struct rpc_call *rpc)
{
    Vllm__Grpc__Engine__GetModelInfoResponse response =
        VLLM__GRPC__ENGINE__GET_MODEL_INFO_RESPONSE__INIT;
    const struct engine_model *facts = &place->facts;
    struct model_card card;
    char defaults[ENGINE_DEFAULTS_MAX];
    if (engine_view_card(place, rpc, &card) != STATUS_OK)
        return;
    char *architectures[] = {card.architecture};
    engine_info_defaults(place->intake->defaults, defaults);
    response.model_path = borrow(place->folder);
    response.tokenizer_path = borrow(place->folder);
    response.is_generation = true;
    response.max_context_length = card.context_tokens;
    response.max_req_input_len = count(card.context_tokens - 1);
    response.vocab_size = card.vocabulary;
    response.served_model_name = card.name;
    response.model_type = borrow(facts->type);
    response.n_architectures = 1;
    response.architectures = architectures;
    response.n_eos_token_ids = facts->n_eos;
    response.eos_token_ids = borrow(facts->eos_ids);
    response.bos_token_id = facts->bos_id;
    response.pad_token_id = facts->pad_id;
    response.default_sampling_params_json = defaults;
    rpc_call_reply(rpc, &response.base);
}

void engine_info_server(const struct engine_calls *calls, struct rpc_call *rpc, uint64_t now_ns)
{
    Vllm__Grpc__Engine__GetServerInfoResponse response =
        VLLM__GRPC__ENGINE__GET_SERVER_INFO_RESPONSE__INIT;
    const struct engine_place *place = calls->place;
    struct engine_view view;
    engine_view_read(place, &view);
    response.active_requests = view.running + view.waiting;
    response.last_receive_timestamp = (double)atomic_load(&calls->last_unix_ms) / 1000;
    response.uptime_seconds = (double)(now_ns - place->process->started_ns) / (double)NS_PER_S;
    response.server_type = borrow("vllm-grpc");
    response.data_parallel_size = 1;
    response.block_size = count(view.block_tokens);
    response.kv_cache_dtype = view.dtype;
    response.model_dtype = view.dtype;
    response.max_num_seqs = count(view.running_max);
    rpc_call_reply(rpc, &response.base);
}

void engine_info_loads(const struct engine_place *place, struct rpc_call *rpc)
{
    Vllm__Grpc__Engine__GetLoadsResponse response = VLLM__GRPC__ENGINE__GET_LOADS_RESPONSE__INIT;
    Vllm__Grpc__Engine__SchedulerLoad load = VLLM__GRPC__ENGINE__SCHEDULER_LOAD__INIT;
    Vllm__Grpc__Engine__SchedulerLoad *loads[] = {&load};
    struct engine_view view;
    char now[32] = "";
    struct tm utc;
    const time_t unix_s = (time_t)(clock_unix_ms() / 1000);
    if (gmtime_r(&unix_s, &utc))
        (void)strftime(now, sizeof now, "%Y-%m-%dT%H:%M:%SZ", &utc);
    engine_view_read(place, &view);
    load.num_running_reqs = count(view.running);
    load.num_waiting_reqs = count(view.waiting);
    load.num_total_reqs = count((uint64_t)view.running + view.waiting);
    load.num_used_tokens = count(view.blocks_used * view.block_tokens);
    load.max_total_num_tokens = count(view.blocks * view.block_tokens);
    load.token_usage = view.blocks > 0 ? (double)view.blocks_used / (double)view.blocks : 0;
    load.utilization = (double)view.running / view.running_max;
    load.max_running_requests = count(view.running_max);
    response.timestamp = now;
    response.version = borrow(build_version());
    response.dp_rank_count = 1;
    response.n_loads = 1;
    response.loads = loads;
    rpc_call_reply(rpc, &response.base);
}

void engine_info_flush(struct rpc_call *rpc)
{
    Smg__Grpc__Common__FlushCacheResponse response = SMG__GRPC__COMMON__FLUSH_CACHE_RESPONSE__INIT;
    response.message = borrow("the workers' prefix caches cannot be emptied by a call; a request "
                              "with a new cache salt finds nothing in them");
    rpc_call_reply(rpc, &response.base);
}
