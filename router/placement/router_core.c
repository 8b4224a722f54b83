#include "router/placement/router_core.h"

#include "router/placement/attempt_end.h"
#include "router/placement/router_core_parts.h"

#include <assert.h>
#include <stdlib.h>

/* ---- making ---- */

enum status router_core_create(const struct router_core_options *options,
                               const struct router_core_ops *ops, struct router_core **core_out)
{
    if (options->workers_max == 0 || options->requests_max == 0 ||
        options->requests_max >= ROUTES_MAX || options->attempts_max == 0 ||
        options->block_tokens == 0 || options->prompt_tokens_max == 0)
        return STATUS_INVALID_ARGUMENT;
    struct router_core *core = calloc(1, sizeof *core);
    if (!core)
        return STATUS_NO_MEMORY;
    core->options = *options;
    core->ops = *ops;
    enum status status = prompt_places_init(&core->places, options);
    if (status == STATUS_OK)
        status = worker_table_init(&core->workers, options->workers_max);
    if (status == STATUS_OK)
        status = waiting_room_init(&core->room, options->requests_max);
    if (status == STATUS_OK)
        status = route_table_init(&core->routes, options->requests_max, options->attempts_max);
    if (status != STATUS_OK) {
        router_core_destroy(core);
        return status;
    }
    *core_out = core;
    return STATUS_OK;
}

void router_core_destroy(struct router_core *core)
{
    if (!core)
        return;
    prompt_places_finish(&core->places);
    worker_table_finish(&core->workers);
    waiting_room_finish(&core->room);
    route_table_finish(&core->routes);
    free(core);
}

/* ---- workers ---- */

enum status router_core_add_worker(struct router_core *core, enum worker_role role,
                                   const char *address, uint32_t *worker_out)
{
    return worker_table_add(&core->workers, role, address, worker_out);
}

void router_core_remove_worker(struct router_core *core, uint32_t worker)
{
    worker_table_remove(&core->workers, worker);
    prompt_places_forget(&core->places, worker);
    route_table_forget_worker(&core->routes, worker);
}

uint32_t router_core_n_ready(const struct router_core *core, enum worker_role role)
{
    return worker_table_n_ready(&core->workers, role);
}

enum status router_core_lacks(const struct router_core *core)
{
    return core_lacks(core);
}

uint32_t router_core_n_pairs(const struct router_core *core)
{
    return worker_table_n_pairs(&core->workers, UINT32_MAX);
}

void router_core_ask(struct router_core *core, uint32_t worker)
{
    worker_table_ask(&core->workers, worker);
}

void router_core_report(struct router_core *core, uint32_t worker,
                        const struct worker_report *report)
{
    worker_table_report(&core->workers, worker, report);
    core_place_waiting(core);
}

void router_core_set_fit(struct router_core *core, uint32_t generation_worker,
                         uint32_t context_worker, bool fits)
{
    worker_table_set_fit(&core->workers, generation_worker, context_worker, fits);
    core_place_waiting(core);
}

/* ---- requests ---- */

/* For one of that standing, who has n_more than are in the room. False: nobody has more for its weight. */
static bool make_way(struct router_core *core, const struct standing *standing, uint32_t n_more)
{
    uint32_t item = waiting_room_who_gives_way(&core->room, standing, n_more);
    if (item == WAITING_NONE)
        return false;
    core_finish(core, &core->routes.routes[item], STATUS_QUEUE_FULL, WAITING_ROOM_GAVE_WAY, NULL);
    return true;
}

/* NULL: all are taken. */
static struct route *take_route(struct router_core *core, void *stream,
                                const struct route_request *request)
{
    assert(!request->is_reserved || core->n_reserved > 0);
    if (request->is_reserved)
        core->n_reserved--;
    bool is_full = core->stats.requests + core->n_reserved >= core->options.requests_max;
    if (is_full && !make_way(core, &request->standing, 1))
        return NULL;
    struct route *route = route_table_take(&core->routes);
    route->stream = stream;
    route->request = *request;
    core->stats.requests++;
    waiting_room_join(&core->room, core_item_of(core, route), &request->standing, core->now_ns);
    return route;
}

/* A new one that cannot be placed at once. */
static enum status may_wait(struct router_core *core, const struct route *route)
{
    enum status lacks = core_lacks_for(core, route);
    if (core->options.wait_max == 0)
        return lacks != STATUS_OK ? lacks : STATUS_QUEUE_FULL;
    if (core->is_draining)
        return STATUS_DRAINING;
    if (!route->request.is_reserved && core->stats.waiting >= core->options.wait_max &&
        !make_way(core, &route->request.standing, 0))
        return STATUS_QUEUE_FULL;
    return STATUS_OK;
}

/* It has no call and does not wait: starts one, unless others are to have their turn first. is_last: they have just had it, and none
 * can take what there is. As worker_table_choose, and what lacks. */
static enum status place(struct router_core *core, struct route *route, bool is_last)
{
    struct pair pair;
    TRY(core_lacks(core));
    TRY(core_choose(core, route, &pair));
    if (core->stats.waiting > 0 && !is_last)
        return STATUS_QUEUE_FULL;
    core_start(core, route, &pair);
    return STATUS_OK;
}

enum status router_core_reserve(struct router_core *core, uint32_t n)
{
    uint32_t n_max = core->options.requests_max;
    assert(core->stats.requests + core->n_reserved <= n_max);
    if (n > 0 &&
        core->stats.requests + core->n_reserved + n >= n_max) /* and one for who reserves */
        return STATUS_QUEUE_FULL;
    core->n_reserved += n;
    return STATUS_OK;
}

void router_core_unreserve(struct router_core *core, uint32_t n)
{
    assert(core->n_reserved >= n);
    core->n_reserved -= n;
}

uint32_t router_core_place(const struct router_core *core, const void *stream)
{
    const struct route *route = route_table_find_stream(&core->routes, stream);
    return route && route->attempt != 0 ? route->pair.generation_worker : NOBODY;
}

enum status router_core_generate(struct router_core *core, void *stream,
                                 const struct route_request *request)
{
    assert(stream);
    if (request->n_tokens > core->options.prompt_tokens_max)
        return STATUS_INVALID_ARGUMENT;
    core->has_newcomer = true;
    const bool is_full = core->stats.waiting >= core->options.wait_max;
    if (is_full)
        core_place_waiting(core); /* who waits for a context worker goes without, then */
    core->has_newcomer = false;
    struct route *route = take_route(core, stream, request);
    if (!route)
        return STATUS_QUEUE_FULL;
    if (place(core, route, is_full) == STATUS_OK)
        return STATUS_OK;
    enum status status = may_wait(core, route);
    if (status != STATUS_OK) {
        core_free_route(core, route);
        return status;
    }
    core_start_waiting(core, route);
    core_place_waiting(core);
    return STATUS_OK;
}

/* ---- what comes back ---- */

void router_core_step(struct router_core *core, uint64_t now_ns)
{
    core->now_ns = now_ns;
    for (uint32_t i = 0; core->stats.waiting > 0 && i < core->options.requests_max; i++) {
        struct route *route = &core->routes.routes[i];
        if (route->is_waiting &&
            (now_ns >= route->wait_until_ns || now_ns >= route->request.deadline_ns))
            core_end_wait(core, route);
    }
    core_place_waiting(core); /* whose patience has ended */
}

void router_core_drain(struct router_core *core)
{
    core->is_draining = true;
    for (uint32_t i = 0; core->stats.waiting > 0 && i < core->options.requests_max; i++)
        if (core->routes.routes[i].is_waiting)
            core_end_wait(core, &core->routes.routes[i]);
    assert(core->stats.waiting == 0 && core->stats.waiting_tokens == 0);
}

/* The pair has computed the prompt. */
static void remember(struct router_core *core, const struct route *route)
{
    prompt_places_remember(&core->places, &route->request, &core->workers, &route->pair);
}

bool router_core_cancel(struct router_core *core, void *stream)
{
    struct route *route = route_table_find_stream(&core->routes, stream);
    if (!route)
        return false;
    assert(route->is_waiting == (route->attempt == 0) && "it waits or has a call under way");
    if (!route->is_waiting) { /* the call's own end comes later, and finds no route */
        worker_table_uncount(&core->workers, &route->pair, route->has_sent);
        if (route->has_sent)
            remember(core, route);
        core->ops.cancel_decode(core->ops.arg, route->attempt);
    }
    core_finish(core, route, STATUS_CANCELLED, "", NULL);
    core_place_waiting(core);
    return true;
}

void router_core_tokens(struct router_core *core, uint64_t attempt, uint32_t n_tokens,
                        const void *payload)
{
    struct route *route = route_table_find(&core->routes, attempt);
    if (!route)
        return;
    assert(!route->is_waiting);
    bool is_first = n_tokens > 0 && !route->has_sent;
    if (is_first) {
        route->has_sent = true;
        worker_table_leave_context(&core->workers, &route->pair);
        waiting_room_prompt_served(&core->room, core_item_of(core, route), route->request.n_tokens);
    }
    waiting_room_served(&core->room, core_item_of(core, route), n_tokens);
    core->ops.tokens(core->ops.arg, route->stream, payload);
    if (is_first)
        core_place_waiting(core);
}

/* Places it elsewhere, or lets it wait. False: everybody has been tried, or it may not wait. */
static bool place_again(struct router_core *core, struct route *route)
{
    assert(!route->has_sent && "the client would have the first tokens twice");
    enum status status = place(core, route, false);
    if (status == STATUS_OK)
        return true;
    if (status == STATUS_NOT_FOUND || core->options.wait_max == 0 || core->is_draining)
        return false;
    if (status != STATUS_QUEUE_FULL)
        route->n_tried = 0; /* nobody is there: who comes is not who was tried */
    core_start_waiting(core, route);
    return true;
}

static bool try_again(struct router_core *core, struct route *route)
{
    if (route->n_attempts == core->options.attempts_max)
        return false;
    route->has_limit = false; /* it had a place: another wait is a new one */
    route->n_refused = 0;
    return place_again(core, route);
}

/* The attempt does not count. */
static bool refused(struct router_core *core, struct route *route, enum status status)
{
    bool has_context = route->pair.context_worker != NOBODY;
    if (status == STATUS_SHARE_FULL && has_context)
        worker_table_share_refused(&core->workers, &route->pair);
    else if (status == STATUS_NO_CONTEXT_WORKER && has_context)
        worker_table_refused(&core->workers, route->pair.context_worker);
    else
        worker_table_refused(&core->workers, route->pair.generation_worker);
    core->ops.refused(core->ops.arg, route->stream);
    assert(route->n_attempts > 0 && route->n_tried > 0);
    route->n_attempts--;
    route->n_tried--;
    route->n_refused++;
    core->stats.refused++;
    core_limit_wait(core, route);
    /* Reports that promise room for ever keep nobody for ever. */
    bool is_late = core->now_ns >= route->wait_until_ns &&
                   route->n_refused > core->options.workers_max;
    return !is_late && place_again(core, route);
}

static bool goes_on(struct router_core *core, struct route *route, enum status status)
{
    bool lacks_room = attempt_end_lacks_room(status);
    if (route->has_sent || !(lacks_room || attempt_end_is_retryable(status)))
        return false;
    route->attempt = 0;
    waiting_room_give_back(&core->room, core_item_of(core, route), route->request.n_tokens);
    return lacks_room ? refused(core, route, status) : try_again(core, route);
}

bool router_core_contexts_are_full(const struct router_core *core, uint64_t attempt)
{
    const struct route *route = route_table_find(&core->routes, attempt);
    return route && worker_table_contexts_are_full(&core->workers, route->pair.generation_worker);
}

void router_core_ended(struct router_core *core, uint64_t attempt, enum status status,
                       const char *sentence, const void *payload)
{
    struct route *route = route_table_find(&core->routes, attempt);
    if (!route)
        return;
    assert(!route->is_waiting && route->n_attempts > 0 && "it was placed, and not yet ended");
    /* Before the next choice, which is to see what this end says of the workers. */
    worker_table_uncount(&core->workers, &route->pair, route->has_sent);
    if (attempt_end_takes_out(status))
        core_worker_at(core, route->pair.generation_worker)->is_ready = false;
    if (status == STATUS_OK)
        remember(core, route);

    if (!goes_on(core, route, status))
        core_finish(core, route, attempt_end_for_client(status), sentence, payload);
    core_place_waiting(core);
}

void router_core_read_stats(const struct router_core *core, struct router_core_stats *stats_out)
{
    assert(core->stats.waiting <= core->stats.requests);
    assert(core->stats.requests <= core->options.requests_max);
    *stats_out = core->stats;
}
