#include "router/placement/router_core_parts.h"

#include <assert.h>

enum status core_lacks(const struct router_core *core)
{
    if (worker_table_n_ready(&core->workers, WORKER_GENERATION) == 0)
        return STATUS_NO_GENERATION_WORKER;
    if (!core->options.local_prefill && worker_table_n_pairs(&core->workers, 1) == 0)
        return STATUS_NO_CONTEXT_WORKER;
    return STATUS_OK;
}

enum status core_lacks_for(const struct router_core *core, const struct route *route)
{
    const uint64_t adapter = route->request.adapter;
    TRY(core_lacks(core));
    if (worker_table_n_with_adapter(&core->workers, WORKER_GENERATION, adapter) == 0)
        return STATUS_MODEL_NOT_FOUND;
    if (!core->options.local_prefill &&
        worker_table_n_with_adapter(&core->workers, WORKER_CONTEXT, adapter) == 0)
        return STATUS_NO_CONTEXT_WORKER;
    return STATUS_OK;
}

static uint32_t n_blocks_of(const struct router_core *core, uint64_t n_tokens)
{
    return (uint32_t)((n_tokens + core->options.block_tokens - 1) / core->options.block_tokens);
}

static uint32_t blocks_wanted(const struct router_core *core, const struct route_request *request)
{
    return n_blocks_of(core, (uint64_t)request->n_tokens + request->max_tokens);
}

bool core_waits_for_context(const struct router_core *core, const struct route *route)
{
    uint64_t limit_ns = core->options.wait_limit_ns;
    uint64_t since_ns = route->has_limit ? route->wait_until_ns - limit_ns : core->now_ns;
    bool is_in_the_way = core->stats.waiting >= core->options.wait_max &&
                         (core->has_newcomer || core->options.wait_max == 0);
    return !is_in_the_way && !core->is_draining && core->now_ns - since_ns < limit_ns / PATIENCE;
}

enum status core_choose(struct router_core *core, struct route *route, struct pair *pair_out)
{
    const struct worker_question question = {
        .n_tokens = route->request.n_tokens,
        .n_blocks = blocks_wanted(core, &route->request),
        .n_prompt_blocks = n_blocks_of(core, route->request.n_tokens),
        .may_be_alone = core->options.local_prefill,
        .waits_for_context = core_waits_for_context(core, route),
        .adapter = route->request.adapter,
        .beside = route->request.beside,
        .tried = route->tried,
        .n_tried = route->n_tried,
    };
    prompt_places_find(&core->places, &route->request, &core->workers);
    enum status status = worker_table_choose(&core->workers, &question, pair_out);
    route->wants_context = status == STATUS_NO_CONTEXT_WORKER;
    return route->wants_context ? STATUS_QUEUE_FULL : status;
}

static void count_placement(struct router_core *core, const struct route *route)
{
    uint32_t hit_tokens = core_worker_at(core, route->pair.generation_worker)->hit_tokens;
    core->stats.placed++;
    if (route->n_attempts > 1)
        core->stats.retried++;
    core->stats.prefix_query_tokens += route->request.n_tokens;
    core->stats.prefix_hit_tokens += hit_tokens;
    *(hit_tokens > 0 ? &core->stats.placed_by_prefix : &core->stats.placed_by_load) += 1;
    if (route->pair.context_worker == NOBODY)
        core->stats.placed_without_context++;
}

static void core_stop_waiting(struct router_core *core, struct route *route)
{
    assert(route->is_waiting && core->stats.waiting > 0);
    assert(core->stats.waiting_tokens >= route->request.n_tokens);
    route->is_waiting = false;
    core->stats.waiting--;
    core->stats.waiting_tokens -= route->request.n_tokens;
}

void core_start(struct router_core *core, struct route *route, const struct pair *pair)
{
    assert(route->stream && route->attempt == 0);
    assert(route->n_attempts < core->options.attempts_max && route->n_tried <= route->n_attempts);
    if (route->is_waiting)
        core_stop_waiting(core, route);
    waiting_room_start(&core->room, core_item_of(core, route), route->request.n_tokens);
    route->pair = *pair;
    route->n_attempts++;
    route->tried[route->n_tried++] = *pair;
    route->attempt = route_table_number(&core->routes, route);
    worker_table_count(&core->workers, pair, blocks_wanted(core, &route->request));
    count_placement(core, route);

    const char *context_worker = pair->context_worker == NOBODY
                                     ? ""
                                     : core_worker_at(core, pair->context_worker)->address;
    core->ops.start_decode(core->ops.arg, route->stream, route->attempt,
                           core_worker_at(core, pair->generation_worker)->address, context_worker);
}

void core_free_route(struct router_core *core, struct route *route)
{
    bool is_promised = !route->is_waiting && !route->has_sent && route->attempt != 0;
    assert(route->stream && core->stats.requests > core->stats.waiting - route->is_waiting);
    waiting_room_leave(&core->room, core_item_of(core, route), route->attempt == 0,
                       is_promised ? route->request.n_tokens : 0);
    if (route->is_waiting)
        core_stop_waiting(core, route);
    route_table_free(route);
    core->stats.requests--;
}

void core_finish(struct router_core *core, struct route *route, enum status status,
                 const char *sentence, const void *payload)
{
    void *stream = route->stream;
    assert((status != STATUS_OK || route->n_attempts > 0) && "only a worker's call ends well");
    core_free_route(core, route);
    core->stats.finished++;
    core->ops.finish(core->ops.arg, stream, status, sentence, payload);
}
