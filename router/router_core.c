#include "router/router_core.h"

#include "base/clock.h"
#include "router/prefix_map.h"
#include "router/worker_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lower bits of an attempt's number: the request's slot. */
#define SLOT_BITS 20u
#define SLOT_MASK ((1u << SLOT_BITS) - 1)

struct route {
    void *stream; /* NULL: the slot is free */
    struct route_request request;
    uint64_t attempt; /* 0: the call has ended */
    struct pair pair;
    struct pair *tried; /* [attempts_max] */
    uint32_t n_tried;   /* since it last waited */
    uint32_t n_attempts;
    bool has_sent;
    bool is_waiting;
    uint64_t wait_until_ns;
    struct route *next_waiting, *previous_waiting;
};

struct router_core {
    struct router_core_options options;
    struct router_core_ops ops;
    struct worker_table workers;
    struct route *routes; /* [requests_max] */
    struct pair *tried;   /* [requests_max][attempts_max] */
    struct route *first_waiting, *last_waiting;
    uint64_t now_ns; /* of the last step */
    bool is_draining;
    struct prefix_map *prefixes;
    struct prefix_hash *hashes; /* [prompt_tokens_max / block_tokens] scratch */
    uint64_t next_attempt;
    struct router_core_stats stats;
};

/* ---- making ---- */

enum status router_core_create(const struct router_core_options *options,
                               const struct router_core_ops *ops, struct router_core **core_out)
{
    if (options->workers_max == 0 || options->requests_max == 0 ||
        options->requests_max > SLOT_MASK || options->attempts_max == 0 ||
        options->block_tokens == 0 || options->prompt_tokens_max == 0)
        return STATUS_INVALID_ARGUMENT;
    struct router_core *core = calloc(1, sizeof *core);
    if (!core)
        return STATUS_NO_MEMORY;
    core->options = *options;
    core->ops = *ops;
    core->next_attempt = 1;
    core->routes = calloc(options->requests_max, sizeof *core->routes);
    core->tried = calloc((size_t)options->requests_max * options->attempts_max,
                         sizeof *core->tried);
    core->hashes = calloc(options->prompt_tokens_max / options->block_tokens + 1,
                          sizeof *core->hashes);
    enum status status = prefix_map_create(options->prefixes_max, &core->prefixes);
    if (status == STATUS_OK)
        status = worker_table_init(&core->workers, options->workers_max);
    if (!core->routes || !core->tried || !core->hashes)
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        router_core_destroy(core);
        return status;
    }
    for (uint32_t i = 0; i < options->requests_max; i++)
        core->routes[i].tried = core->tried + (size_t)i * options->attempts_max;
    *core_out = core;
    return STATUS_OK;
}

void router_core_destroy(struct router_core *core)
{
    if (!core)
        return;
    prefix_map_destroy(core->prefixes);
    worker_table_finish(&core->workers);
    free(core->routes);
    free(core->tried);
    free(core->hashes);
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

/* Whoever takes its slot was not tried. */
static void forget_tried(struct router_core *core, uint32_t worker)
{
    size_t n = (size_t)core->options.requests_max * core->options.attempts_max;
    for (size_t i = 0; i < n; i++)
        if (core->tried[i].generation_worker == worker || core->tried[i].context_worker == worker)
            core->tried[i] = (struct pair){NOBODY, NOBODY};
}

void router_core_remove_worker(struct router_core *core, uint32_t worker)
{
    worker_table_remove(&core->workers, worker);
    prefix_map_forget(core->prefixes, worker);
    forget_tried(core, worker);
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

static uint32_t hash_prompt(struct router_core *core, const struct route_request *request)
{
    uint32_t block_tokens = core->options.block_tokens;
    assert(request->n_tokens <= core->options.prompt_tokens_max && "hashes has room");
    prefix_hash_blocks(&core->options.prefix_key, request->salt, request->salt_bytes,
                       request->token_ids, request->n_tokens, block_tokens, core->hashes);
    return request->n_tokens / block_tokens;
}

static void count_hit(struct router_core *core, uint32_t worker, uint32_t n_tokens)
{
    if (worker != NOBODY && worker_at(core, worker)->hit_tokens < n_tokens)
        worker_at(core, worker)->hit_tokens = n_tokens;
}

/* How much of the prompt each worker has seen. */
static void find_hits(struct router_core *core, const struct route_request *request)
{
    for (uint32_t i = 0; i < core->workers.n_slots; i++)
        worker_at(core, i)->hit_tokens = 0;
    uint32_t n = hash_prompt(core, request);
    struct prefix_place place;
    for (uint32_t i = 0; i < n; i++) {
        if (!prefix_map_find(core->prefixes, &core->hashes[i], &place))
            continue;
        count_hit(core, place.generation_worker, (i + 1) * core->options.block_tokens);
        count_hit(core, place.context_worker, (i + 1) * core->options.block_tokens);
    }
}

static uint32_t blocks_wanted(const struct router_core *core, const struct route_request *request)
{
    uint64_t n_tokens = (uint64_t)request->n_tokens + request->max_tokens;
    return (uint32_t)((n_tokens + core->options.block_tokens - 1) / core->options.block_tokens);
}

static bool choose(const struct router_core *core, const struct route *route, struct pair *pair_out)
{
    const struct worker_question question = {
        .n_tokens = route->request.n_tokens,
        .n_blocks = blocks_wanted(core, &route->request),
        .may_be_alone = core->options.local_prefill,
        .tried = route->tried,
        .n_tried = route->n_tried,
    };
    return worker_table_choose(&core->workers, &question, pair_out);
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

/* Chooses a pair and starts the call. False: all have been tried. */
static bool place(struct router_core *core, struct route *route)
{
    assert(route->stream && route->attempt == 0 && !route->is_waiting);
    find_hits(core, &route->request);
    if (!choose(core, route, &route->pair))
        return false;
    assert(route->n_attempts < core->options.attempts_max && route->n_tried <= route->n_attempts);
    route->n_attempts++;
    route->tried[route->n_tried++] = route->pair;
    route->attempt = core->next_attempt++ << SLOT_BITS | (uint64_t)(route - core->routes);
    worker_table_count(&core->workers, &route->pair, blocks_wanted(core, &route->request));
    count_placement(core, route);

    const char *context_worker = route->pair.context_worker == NOBODY
                                     ? ""
                                     : worker_at(core, route->pair.context_worker)->address;
    core->ops.start_decode(core->ops.arg, route->stream, route->attempt,
                           worker_at(core, route->pair.generation_worker)->address, context_worker);
    return true;
}

/* ---- waiting ---- */

static void stop_waiting(struct router_core *core, struct route *route)
{
    assert(route->is_waiting && core->stats.waiting > 0);
    assert(core->stats.waiting_tokens >= route->request.n_tokens);
    struct route *next = route->next_waiting;
    struct route *previous = route->previous_waiting;
    *(next ? &next->previous_waiting : &core->last_waiting) = previous;
    *(previous ? &previous->next_waiting : &core->first_waiting) = next;
    route->is_waiting = false;
    core->stats.waiting--;
    core->stats.waiting_tokens -= route->request.n_tokens;
    assert(!core->first_waiting == (core->stats.waiting == 0));
}

/* Behind the others. Not OK: it may not. */
static enum status start_waiting(struct router_core *core, struct route *route)
{
    const struct router_core_options *options = &core->options;
    assert(!route->is_waiting && route->attempt == 0);
    if (options->wait_max == 0)
        return router_core_lacks(core);
    if (core->is_draining)
        return STATUS_DRAINING;
    if (core->stats.waiting == options->wait_max)
        return STATUS_QUEUE_FULL;
    route->is_waiting = true;
    route->n_tried = 0;
    route->wait_until_ns = core->now_ns + options->wait_limit_ns;
    route->next_waiting = NULL;
    route->previous_waiting = core->last_waiting;
    *(core->last_waiting ? &core->last_waiting->next_waiting : &core->first_waiting) = route;
    core->last_waiting = route;
    core->stats.waiting++;
    core->stats.waiting_tokens += route->request.n_tokens;
    core->stats.waited++;
    return STATUS_OK;
}

static void place_waiting(struct router_core *core)
{
    while (core->first_waiting && router_core_lacks(core) == STATUS_OK) {
        struct route *route = core->first_waiting;
        stop_waiting(core, route);
        bool is_placed = place(core, route);
        assert(is_placed && "nothing was tried since it waits");
    }
}

void router_core_report(struct router_core *core, uint32_t worker,
                        const struct worker_report *report)
{
    struct worker *at = worker_at(core, worker);
    assert(at->is_known);
    at->report = *report;
    at->is_ready = report->is_ready;
    at->blocks_taken = 0;
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
    struct pair *tried = route->tried;
    assert(route->stream && core->stats.requests > core->stats.waiting - route->is_waiting);
    if (route->is_waiting)
        stop_waiting(core, route);
    *route = (struct route){.tried = tried};
    core->stats.requests--;
}

enum status router_core_generate(struct router_core *core, void *stream,
                                 const struct route_request *request)
{
    assert(stream);
    if (request->n_tokens > core->options.prompt_tokens_max)
        return STATUS_INVALID_ARGUMENT;
    uint32_t slot = 0;
    while (slot < core->options.requests_max && core->routes[slot].stream)
        slot++;
    if (slot == core->options.requests_max)
        return STATUS_QUEUE_FULL;
    struct route *route = &core->routes[slot];
    assert(core->stats.requests < core->options.requests_max && route->n_attempts == 0);
    route->stream = stream;
    route->request = *request;
    core->stats.requests++;
    if (router_core_lacks(core) == STATUS_OK) {
        assert(!core->first_waiting && "else those that wait would have been placed");
        bool is_placed = place(core, route);
        assert(is_placed && "nothing was tried");
        return STATUS_OK;
    }
    enum status status = start_waiting(core, route);
    if (status != STATUS_OK)
        free_route(core, route);
    return status;
}

/* ---- what comes back ---- */

static void finish(struct router_core *core, struct route *route, enum status status,
                   const char *sentence, const void *payload)
{
    void *stream = route->stream;
    assert((status != STATUS_OK || route->n_attempts > 0) && "only a worker's call ends well");
    free_route(core, route);
    core->stats.finished++;
    core->ops.finish(core->ops.arg, stream, status, sentence, payload);
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
        assert(lacks != STATUS_OK && "else it would have been placed");
        snprintf(sentence, sizeof sentence, "%s: waited %llu ms for one", status_text(lacks),
                 core->options.wait_limit_ns / NS_PER_MS);
        finish(core, route, lacks, sentence, NULL);
    }
}

void router_core_step(struct router_core *core, uint64_t now_ns)
{
    core->now_ns = now_ns;
    struct route *next;
    for (struct route *route = core->first_waiting; route; route = next) {
        next = route->next_waiting;
        if (now_ns >= route->wait_until_ns || now_ns >= route->request.deadline_ns)
            end_wait(core, route);
    }
}

void router_core_drain(struct router_core *core)
{
    core->is_draining = true;
    while (core->first_waiting)
        end_wait(core, core->first_waiting);
    assert(core->stats.waiting == 0 && core->stats.waiting_tokens == 0);
}

static uint32_t known_or_nobody(struct router_core *core, uint32_t worker)
{
    return worker != NOBODY && worker_at(core, worker)->is_known ? worker : NOBODY;
}

/* The prompt has been computed there. */
static void remember(struct router_core *core, const struct route *route)
{
    const struct prefix_place place = {known_or_nobody(core, route->pair.generation_worker),
                                       known_or_nobody(core, route->pair.context_worker)};
    if (place.generation_worker == NOBODY && place.context_worker == NOBODY)
        return;
    uint32_t n = hash_prompt(core, &route->request); /* again: the scratch is any request's */
    for (uint32_t i = 0; i < n; i++)
        prefix_map_put(core->prefixes, &core->hashes[i], &place);
}

bool router_core_cancel(struct router_core *core, void *stream)
{
    for (uint32_t i = 0; i < core->options.requests_max; i++) {
        struct route *route = &core->routes[i];
        if (route->stream != stream)
            continue;
        assert(route->is_waiting == (route->attempt == 0) && "it waits or has a call under way");
        if (!route->is_waiting) { /* the call's own end comes later, and finds no route */
            worker_table_uncount(&core->workers, &route->pair);
            if (route->has_sent)
                remember(core, route);
            core->ops.cancel_decode(core->ops.arg, route->attempt);
        }
        finish(core, route, STATUS_CANCELLED, "", NULL);
        return true;
    }
    return false;
}

/* NULL: that call is no longer anybody's. */
static struct route *find_route(struct router_core *core, uint64_t attempt)
{
    uint32_t slot = (uint32_t)attempt & SLOT_MASK;
    assert(attempt != 0 && attempt >> SLOT_BITS < core->next_attempt);
    if (slot >= core->options.requests_max || core->routes[slot].attempt != attempt ||
        !core->routes[slot].stream)
        return NULL;
    return &core->routes[slot];
}

void router_core_tokens(struct router_core *core, uint64_t attempt, uint32_t n_tokens,
                        const void *payload)
{
    struct route *route = find_route(core, attempt);
    if (!route)
        return;
    assert(!route->is_waiting);
    route->has_sent |= n_tokens > 0;
    core->ops.tokens(core->ops.arg, route->stream, payload);
}

/* May succeed with another pair. A duplicate of an attempt of ours, whose end the worker has not
 * noticed yet, is no fault of the client. */
static bool is_retryable(const struct route *route, enum status status)
{
    switch (status) {
    case STATUS_DUPLICATE_REQUEST:
        return route->n_attempts > 1;
    case STATUS_NO_BLOCKS:
    case STATUS_QUEUE_FULL:
    case STATUS_LOADING:
    case STATUS_DRAINING:
    case STATUS_NO_CONTEXT_WORKER:
    case STATUS_TRANSFER_FAILED:
    case STATUS_STALE_PEER:
    case STATUS_PEER_LOST:
    case STATUS_DEVICE_LOST:
    case STATUS_NO_MEMORY:
        return true;
    default:
        return false;
    }
}

/* What a broken call says about the generation worker holds until its next report; one that was started
 * anew refuses calls for its former life. */
static void suspect(struct router_core *core, const struct route *route, enum status status)
{
    if (status == STATUS_PEER_LOST || status == STATUS_LOADING || status == STATUS_DRAINING ||
        status == STATUS_STALE_PEER || status == STATUS_DEVICE_LOST)
        worker_at(core, route->pair.generation_worker)->is_ready = false;
}

/* Places it elsewhere, or lets it wait for a worker when there is none. */
static bool try_again(struct router_core *core, struct route *route)
{
    assert(!route->has_sent && "the client would have the first tokens twice");
    if (route->n_attempts == core->options.attempts_max)
        return false;
    return router_core_lacks(core) == STATUS_OK ? place(core, route)
                                                : start_waiting(core, route) == STATUS_OK;
}

void router_core_ended(struct router_core *core, uint64_t attempt, enum status status,
                       const char *sentence, const void *payload)
{
    struct route *route = find_route(core, attempt);
    if (!route)
        return;
    assert(!route->is_waiting && route->n_attempts > 0 && "it was placed, and not yet ended");
    /* Before the next choice, which is to see what this end says of the workers. */
    route->attempt = 0;
    worker_table_uncount(&core->workers, &route->pair);
    suspect(core, route, status);
    if (status == STATUS_OK)
        remember(core, route);

    bool may_help = is_retryable(route, status) && !route->has_sent;
    if (may_help && try_again(core, route))
        return;
    if (may_help && status == STATUS_DUPLICATE_REQUEST)
        status = STATUS_PEER_LOST;
    finish(core, route, status, sentence, payload);
}

void router_core_read_stats(const struct router_core *core, struct router_core_stats *stats_out)
{
    assert(core->stats.waiting <= core->stats.requests);
    assert(core->stats.requests <= core->options.requests_max);
    *stats_out = core->stats;
}
