#include "router/router_core.h"

#include "base/clock.h"
#include "router/attempt_end.h"
#include "router/prompt_places.h"
#include "router/route_table.h"
#include "router/waiting_room.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A request waits so great a part of wait_limit_ns for room where it has not been. */
#define PATIENCE 10u

struct router_core {
    struct router_core_options options;
    struct router_core_ops ops;
    struct worker_table workers;
    struct route_table routes;
    struct waiting_room room; /* its items are the routes' slots */
    uint64_t now_ns;          /* of the last step */
    bool is_draining;
    bool has_newcomer; /* who comes just now wants a place to wait */
    struct prompt_places places;
    struct router_core_stats stats;
};

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

static struct worker *worker_at(struct router_core *core, uint32_t worker)
{
    assert(worker < core->workers.n_slots);
    return &core->workers.workers[worker];
}

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

uint32_t router_core_n_pairs(const struct router_core *core)
{
    return worker_table_n_pairs(&core->workers, UINT32_MAX);
}

enum status router_core_lacks(const struct router_core *core)
{
    if (worker_table_n_ready(&core->workers, WORKER_GENERATION) == 0)
        return STATUS_NO_GENERATION_WORKER;
    if (!core->options.local_prefill && worker_table_n_pairs(&core->workers, 1) == 0)
        return STATUS_NO_CONTEXT_WORKER;
    return STATUS_OK;
}

/* ---- placement ---- */

static uint32_t n_blocks_of(const struct router_core *core, uint64_t n_tokens)
{
    return (uint32_t)((n_tokens + core->options.block_tokens - 1) / core->options.block_tokens);
}

static uint32_t blocks_wanted(const struct router_core *core, const struct route_request *request)
{
    return n_blocks_of(core, (uint64_t)request->n_tokens + request->max_tokens);
}

/* For a context worker with room, rather than have a generation worker compute a long prompt: a part of the whole wait, and
 * only while nobody is refused for it. */
static bool waits_for_context(const struct router_core *core, const struct route *route)
{
    uint64_t limit_ns = core->options.wait_limit_ns;
    uint64_t since_ns = route->has_limit ? route->wait_until_ns - limit_ns : core->now_ns;
    bool is_in_the_way = core->stats.waiting >= core->options.wait_max &&
                         (core->has_newcomer || core->options.wait_max == 0);
    return !is_in_the_way && !core->is_draining && core->now_ns - since_ns < limit_ns / PATIENCE;
}

/* As worker_table_choose, with QUEUE_FULL where that says NO_CONTEXT_WORKER. */
static enum status choose(struct router_core *core, struct route *route, struct pair *pair_out)
{
    const struct worker_question question = {
        .n_tokens = route->request.n_tokens,
        .n_blocks = blocks_wanted(core, &route->request),
        .n_prompt_blocks = n_blocks_of(core, route->request.n_tokens),
        .may_be_alone = core->options.local_prefill,
        .waits_for_context = waits_for_context(core, route),
        .tried = route->tried,
        .n_tried = route->n_tried,
    };
    prompt_places_find(&core->places, &route->request, &core->workers);
    enum status status = worker_table_choose(&core->workers, &question, pair_out);
    route->wants_context = status == STATUS_NO_CONTEXT_WORKER;
    return route->wants_context ? STATUS_QUEUE_FULL : status;
}

static uint32_t item_of(const struct router_core *core, const struct route *route)
{
    return route_table_slot(&core->routes, route);
}

static void count_placement(struct router_core *core, const struct route *route)
{
    uint32_t hit_tokens = worker_at(core, route->pair.generation_worker)->hit_tokens;
    core->stats.placed++;
    if (route->n_attempts > 1)
        core->stats.retried++;
    core->stats.prefix_query_tokens += route->request.n_tokens;
    core->stats.prefix_hit_tokens += hit_tokens;
    *(hit_tokens > 0 ? &core->stats.placed_by_prefix : &core->stats.placed_by_load) += 1;
    if (route->pair.context_worker == NOBODY)
        core->stats.placed_without_context++;
}

static void stop_waiting(struct router_core *core, struct route *route)
{
    assert(route->is_waiting && core->stats.waiting > 0);
    assert(core->stats.waiting_tokens >= route->request.n_tokens);
    route->is_waiting = false;
    core->stats.waiting--;
    core->stats.waiting_tokens -= route->request.n_tokens;
}

/* It waits for its turn, or this is it: starts the call. */
static void start(struct router_core *core, struct route *route, const struct pair *pair)
{
    assert(route->stream && route->attempt == 0);
    assert(route->n_attempts < core->options.attempts_max && route->n_tried <= route->n_attempts);
    if (route->is_waiting)
        stop_waiting(core, route);
    waiting_room_start(&core->room, item_of(core, route), route->request.n_tokens);
    route->pair = *pair;
    route->n_attempts++;
    route->tried[route->n_tried++] = *pair;
    route->attempt = route_table_number(&core->routes, route);
    worker_table_count(&core->workers, pair, blocks_wanted(core, &route->request));
    count_placement(core, route);

    const char *context_worker = pair->context_worker == NOBODY
                                     ? ""
                                     : worker_at(core, pair->context_worker)->address;
    core->ops.start_decode(core->ops.arg, route->stream, route->attempt,
                           worker_at(core, pair->generation_worker)->address, context_worker);
}

/* ---- waiting ---- */

static void limit_wait(struct router_core *core, struct route *route)
{
    if (!route->has_limit)
        route->wait_until_ns = core->now_ns + core->options.wait_limit_ns;
    route->has_limit = true;
}

/* It is in the room already. */
static void start_waiting(struct router_core *core, struct route *route)
{
    assert(!route->is_waiting && route->attempt == 0);
    limit_wait(core, route);
    route->is_waiting = true;
    route->waits_since_ns = core->now_ns;
    core->stats.waiting++;
    core->stats.waiting_tokens += route->request.n_tokens;
    core->stats.waited++;
}

/* Of some pair; where a request has been, and for whom it waits, shows only the choice. */
static bool has_room(const struct router_core *core)
{
    return core->options.local_prefill
               ? worker_table_n_with_room(&core->workers, WORKER_GENERATION) > 0
               : worker_table_has_open_pair(&core->workers);
}

/* Where it has been already, only when there is nothing else or that stays full: a pair that fails all its calls has room all
 * the time. */
static enum status choose_waiting(struct router_core *core, struct route *route,
                                  struct pair *pair_out)
{
    enum status status = choose(core, route, pair_out);
    uint64_t until_ns = route->waits_since_ns + core->options.wait_limit_ns / PATIENCE;
    if (status == STATUS_OK || route->n_tried == 0 ||
        (status == STATUS_QUEUE_FULL && core->now_ns < until_ns))
        return status;
    route->n_tried = 0;
    return choose(core, route, pair_out);
}

/* Who finds no room though there is some keeps nobody of another tenant from it; nor of its own, who waits for a context
 * worker or for one that it has not tried. While no pair has room, who waits for that need not look for one. */
static void place_waiting(struct router_core *core)
{
    struct pair pair;
    if (core->stats.waiting == 0 || !has_room(core))
        return;
    bool has_pairs = worker_table_n_pairs(&core->workers, 1) > 0;
    bool is_open = worker_table_has_open_pair(&core->workers);
    uint32_t item = waiting_room_first(&core->room);
    while (item != WAITING_NONE) {
        struct route *route = &core->routes.routes[item];
        assert(route->is_waiting && "the room's waiting are the core's");
        bool is_vain = route->wants_context && has_pairs && !is_open &&
                       waits_for_context(core, route);
        if (!is_vain && choose_waiting(core, route, &pair) == STATUS_OK) {
            start(core, route, &pair);
            is_open = worker_table_has_open_pair(&core->workers);
            item = has_room(core) ? waiting_room_after_start(&core->room) : WAITING_NONE;
        } else {
            item = route->wants_context || route->n_tried > 0
                       ? waiting_room_behind(&core->room, item)
                       : waiting_room_after_pass(&core->room);
        }
    }
}

void router_core_ask(struct router_core *core, uint32_t worker)
{
    worker_table_ask(&core->workers, worker);
}

void router_core_report(struct router_core *core, uint32_t worker,
                        const struct worker_report *report)
{
    worker_table_report(&core->workers, worker, report);
    place_waiting(core);
}

void router_core_set_fit(struct router_core *core, uint32_t generation_worker,
                         uint32_t context_worker, bool fits)
{
    worker_table_set_fit(&core->workers, generation_worker, context_worker, fits);
    place_waiting(core);
}

/* ---- requests ---- */

static void free_route(struct router_core *core, struct route *route)
{
    bool is_promised = !route->is_waiting && !route->has_sent && route->attempt != 0;
    assert(route->stream && core->stats.requests > core->stats.waiting - route->is_waiting);
    waiting_room_leave(&core->room, item_of(core, route), route->attempt == 0,
                       is_promised ? route->request.n_tokens : 0);
    if (route->is_waiting)
        stop_waiting(core, route);
    route_table_free(route);
    core->stats.requests--;
}

static void finish(struct router_core *core, struct route *route, enum status status,
                   const char *sentence, const void *payload)
{
    void *stream = route->stream;
    assert((status != STATUS_OK || route->n_attempts > 0) && "only a worker's call ends well");
    free_route(core, route);
    core->stats.finished++;
    core->ops.finish(core->ops.arg, stream, status, sentence, payload);
}

/* For one of that standing, who has n_more than are in the room. False: nobody has more for its weight. */
static bool make_way(struct router_core *core, const struct standing *standing, uint32_t n_more)
{
    uint32_t item = waiting_room_who_gives_way(&core->room, standing, n_more);
    if (item == WAITING_NONE)
        return false;
    finish(core, &core->routes.routes[item], STATUS_QUEUE_FULL, WAITING_ROOM_GAVE_WAY, NULL);
    return true;
}

/* NULL: all are taken. */
static struct route *take_route(struct router_core *core, void *stream,
                                const struct route_request *request)
{
    bool is_full = core->stats.requests == core->options.requests_max;
    if (is_full && !make_way(core, &request->standing, 1))
        return NULL;
    struct route *route = route_table_take(&core->routes);
    route->stream = stream;
    route->request = *request;
    core->stats.requests++;
    waiting_room_join(&core->room, item_of(core, route), &request->standing, core->now_ns);
    return route;
}

/* A new one that cannot be placed at once. */
static enum status may_wait(struct router_core *core, const struct route *route)
{
    enum status lacks = router_core_lacks(core);
    if (core->options.wait_max == 0)
        return lacks != STATUS_OK ? lacks : STATUS_QUEUE_FULL;
    if (core->is_draining)
        return STATUS_DRAINING;
    if (core->stats.waiting >= core->options.wait_max &&
        !make_way(core, &route->request.standing, 0))
        return STATUS_QUEUE_FULL;
    return STATUS_OK;
}

/* It has no call and does not wait: starts one, unless others are to have their turn first. As worker_table_choose,
 * and what lacks. */
static enum status place(struct router_core *core, struct route *route)
{
    struct pair pair;
    TRY(router_core_lacks(core));
    TRY(choose(core, route, &pair));
    if (core->stats.waiting > 0)
        return STATUS_QUEUE_FULL;
    start(core, route, &pair);
    return STATUS_OK;
}

enum status router_core_generate(struct router_core *core, void *stream,
                                 const struct route_request *request)
{
    assert(stream);
    if (request->n_tokens > core->options.prompt_tokens_max)
        return STATUS_INVALID_ARGUMENT;
    core->has_newcomer = true;
    if (core->stats.waiting >= core->options.wait_max)
        place_waiting(core); /* who waits for a context worker goes without, then */
    core->has_newcomer = false;
    struct route *route = take_route(core, stream, request);
    if (!route)
        return STATUS_QUEUE_FULL;
    if (place(core, route) == STATUS_OK)
        return STATUS_OK;
    enum status status = may_wait(core, route);
    if (status != STATUS_OK) {
        free_route(core, route);
        return status;
    }
    start_waiting(core, route);
    place_waiting(core);
    return STATUS_OK;
}

/* ---- what comes back ---- */

/* "2 generation workers are ready and full: waited 10000 ms" */
static void say_full(const struct router_core *core, char *out, size_t bytes)
{
    bool is_context = worker_table_n_with_room(&core->workers, WORKER_GENERATION) > 0;
    uint32_t n = router_core_n_ready(core, is_context ? WORKER_CONTEXT : WORKER_GENERATION);
    snprintf(out, bytes, "%u %s worker%s ready and full: waited %llu ms", n,
             is_context ? "context" : "generation", n == 1 ? " is" : "s are",
             core->options.wait_limit_ns / NS_PER_MS);
}

static void end_wait(struct router_core *core, struct route *route)
{
    char sentence[96];
    enum status lacks = router_core_lacks(core);
    assert(route->is_waiting);
    if (core->is_draining) {
        finish(core, route, STATUS_DRAINING, "", NULL);
    } else if (core->now_ns >= route->request.deadline_ns) {
        finish(core, route, STATUS_TIMED_OUT, "", NULL);
    } else {
        if (lacks != STATUS_OK)
            snprintf(sentence, sizeof sentence, "%s: waited %llu ms for one", status_text(lacks),
                     core->options.wait_limit_ns / NS_PER_MS);
        else
            say_full(core, sentence, sizeof sentence);
        finish(core, route, lacks != STATUS_OK ? lacks : STATUS_QUEUE_FULL, sentence, NULL);
    }
}

void router_core_step(struct router_core *core, uint64_t now_ns)
{
    core->now_ns = now_ns;
    for (uint32_t i = 0; core->stats.waiting > 0 && i < core->options.requests_max; i++) {
        struct route *route = &core->routes.routes[i];
        if (route->is_waiting &&
            (now_ns >= route->wait_until_ns || now_ns >= route->request.deadline_ns))
            end_wait(core, route);
    }
    place_waiting(core); /* whose patience has ended */
}

void router_core_drain(struct router_core *core)
{
    core->is_draining = true;
    for (uint32_t i = 0; core->stats.waiting > 0 && i < core->options.requests_max; i++)
        if (core->routes.routes[i].is_waiting)
            end_wait(core, &core->routes.routes[i]);
    assert(core->stats.waiting == 0 && core->stats.waiting_tokens == 0);
}

/* The prompt has been computed there. */
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
    finish(core, route, STATUS_CANCELLED, "", NULL);
    place_waiting(core);
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
        waiting_room_prompt_served(&core->room, item_of(core, route), route->request.n_tokens);
    }
    waiting_room_served(&core->room, item_of(core, route), n_tokens);
    core->ops.tokens(core->ops.arg, route->stream, payload);
    if (is_first)
        place_waiting(core);
}

/* Places it elsewhere, or lets it wait. False: everybody has been tried, or it may not wait. */
static bool place_again(struct router_core *core, struct route *route)
{
    assert(!route->has_sent && "the client would have the first tokens twice");
    enum status status = place(core, route);
    if (status == STATUS_OK)
        return true;
    if (status == STATUS_NOT_FOUND || core->options.wait_max == 0 || core->is_draining)
        return false;
    if (status != STATUS_QUEUE_FULL)
        route->n_tried = 0; /* nobody is there: who comes is not who was tried */
    start_waiting(core, route);
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
    limit_wait(core, route);
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
    waiting_room_give_back(&core->room, item_of(core, route), route->request.n_tokens);
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
        worker_at(core, route->pair.generation_worker)->is_ready = false;
    if (status == STATUS_OK)
        remember(core, route);

    if (!goes_on(core, route, status))
        finish(core, route, attempt_end_for_client(status), sentence, payload);
    place_waiting(core);
}

void router_core_read_stats(const struct router_core *core, struct router_core_stats *stats_out)
{
    assert(core->stats.waiting <= core->stats.requests);
    assert(core->stats.requests <= core->options.requests_max);
    *stats_out = core->stats;
}
