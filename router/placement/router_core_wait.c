#include "base/clock.h"
#include "router/placement/router_core_parts.h"

#include <assert.h>
#include <stdio.h>

void core_limit_wait(struct router_core *core, struct route *route)
{
    if (!route->has_limit)
        route->wait_until_ns = core->now_ns + core->options.wait_limit_ns;
    route->has_limit = true;
}

void core_start_waiting(struct router_core *core, struct route *route)
{
    assert(!route->is_waiting && route->attempt == 0);
    core_limit_wait(core, route);
    route->is_waiting = true;
    route->waits_since_ns = core->now_ns;
    core->stats.waiting++;
    core->stats.waiting_tokens += route->request.n_tokens;
    core->stats.waited++;
}

/* Whether some pair has room. Which pairs this request has tried, and which it waits for, only core_choose tells. */
static bool has_room(const struct router_core *core)
{
    return core->options.local_prefill
               ? worker_table_n_with_room(&core->workers, WORKER_GENERATION) > 0
               : worker_table_has_open_pair(&core->workers);
}

/* A pair that the request has tried comes last: only when there is no other, or the others stay full. A pair that fails all
 * its calls always has room. */
static enum status choose_waiting(struct router_core *core, struct route *route,
                                  struct pair *pair_out)
{
    enum status status = core_choose(core, route, pair_out);
    uint64_t until_ns = route->waits_since_ns + core->options.wait_limit_ns / PATIENCE;
    if (status == STATUS_OK || route->n_tried == 0 ||
        (status == STATUS_QUEUE_FULL && core->now_ns < until_ns))
        return status;
    route->n_tried = 0;
    return core_choose(core, route, pair_out);
}

/* Told before core_choose, which hashes the whole prompt: of many that wait for the same full worker at each event. */
static bool lacks_room_with_adapter(const struct router_core *core, const struct route *route)
{
    const uint64_t adapter = route->request.adapter;
    return adapter != 0 && !worker_table_has_room_with(&core->workers, adapter);
}

void core_place_waiting(struct router_core *core)
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
                       core_waits_for_context(core, route);
        is_vain = is_vain || lacks_room_with_adapter(core, route);
        if (!is_vain && choose_waiting(core, route, &pair) == STATUS_OK) {
            core_start(core, route, &pair);
            is_open = worker_table_has_open_pair(&core->workers);
            item = has_room(core) ? waiting_room_after_start(&core->room) : WAITING_NONE;
        } else {
            /* Workers with its adapter may be full, or away, while others have room. */
            item = route->wants_context || route->n_tried > 0 || route->request.adapter != 0
                       ? waiting_room_behind(&core->room, item)
                       : waiting_room_after_pass(&core->room);
        }
    }
}

/* "2 generation workers are ready and full: waited 10000 ms" */
static void say_full(const struct router_core *core, char *out, size_t bytes)
{
    bool is_context = worker_table_n_with_room(&core->workers, WORKER_GENERATION) > 0;
    uint32_t n = worker_table_n_ready(&core->workers,
                                      is_context ? WORKER_CONTEXT : WORKER_GENERATION);
    snprintf(out, bytes, "%u %s worker%s ready and full: waited %llu ms", n,
             is_context ? "context" : "generation", n == 1 ? " is" : "s are",
             core->options.wait_limit_ns / NS_PER_MS);
}

/* lacks: the adapter, of all that are ready. Of MODEL_NOT_FOUND the rest of a sentence: generation_lacks_adapter. */
static void say_lacks_adapter(const struct router_core *core, enum status lacks, char *out,
                              size_t bytes)
{
    snprintf(out, bytes,
             lacks == STATUS_MODEL_NOT_FOUND
                 ? "waited %llu ms for one that has it"
                 : "no ready context worker has the adapter: waited %llu ms",
             core->options.wait_limit_ns / NS_PER_MS);
}

void core_end_wait(struct router_core *core, struct route *route)
{
    char sentence[96];
    const enum status of_all = core_lacks(core), lacks = core_lacks_for(core, route);
    assert(route->is_waiting);
    if (core->is_draining) {
        core_finish(core, route, STATUS_DRAINING, "", NULL);
    } else if (core->now_ns >= route->request.deadline_ns) {
        core_finish(core, route, STATUS_TIMED_OUT, "", NULL);
    } else {
        if (of_all != STATUS_OK)
            snprintf(sentence, sizeof sentence, "%s: waited %llu ms for one", status_text(of_all),
                     core->options.wait_limit_ns / NS_PER_MS);
        else if (lacks != STATUS_OK)
            say_lacks_adapter(core, lacks, sentence, sizeof sentence);
        else
            say_full(core, sentence, sizeof sentence);
        core_finish(core, route, lacks != STATUS_OK ? lacks : STATUS_QUEUE_FULL, sentence, NULL);
    }
}
