#include "kvtransfer/drivers/sim/sim_fabric.h"

#include "kvtransfer/drivers/sim/sim_fabric_state.h"

#include <assert.h>
#include <stdlib.h>

enum { MESSAGES_DEFAULT = 65536 };

/* ---- messages ---- */

static void drop(struct sim_fabric *fabric, const struct sim_message *message)
{
    free(message->bytes);
    fabric->n_lost++;
}

void sim_fabric_push(struct sim_endpoint *to, struct sim_message message)
{
    struct sim_fabric *fabric = to->fabric;
    message.sequence = ++fabric->sequence;
    if (sim_messages_push(&to->messages, &message))
        fabric->n_messages++;
    else
        drop(fabric, &message);
}

struct sim_message sim_fabric_pop(struct sim_endpoint *from)
{
    from->fabric->n_messages--;
    return sim_messages_pop(&from->messages);
}

/* ---- the network ---- */

struct sim_endpoint *sim_fabric_find(const struct sim_fabric *fabric, uint32_t place)
{
    for (struct sim_endpoint *at = fabric->endpoints; at; at = at->next)
        if (at->place == place && !at->is_dead)
            return at;
    return NULL;
}

bool sim_fabric_is_cut(const struct sim_fabric *fabric, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < fabric->n_cuts; i++)
        if ((fabric->cuts[i][0] == a && fabric->cuts[i][1] == b) ||
            (fabric->cuts[i][0] == b && fabric->cuts[i][1] == a))
            return true;
    return false;
}

bool sim_fabric_happens(struct sim_fabric *fabric, double probability)
{
    return probability > 0 && random_unit(&fabric->random) < probability;
}

uint64_t sim_fabric_delay(struct sim_fabric *fabric, uint64_t max_ns)
{
    return max_ns > 0 ? random_below(&fabric->random, max_ns + 1) : 0;
}

void sim_fabric_send(struct sim_endpoint *from, uint32_t to_place, struct sim_message message,
                     uint64_t bytes)
{
    struct sim_fabric *fabric = from->fabric;
    const struct sim_options *options = &fabric->options;
    struct sim_endpoint *to = sim_fabric_find(fabric, to_place);
    uint32_t messages_max = options->messages_max ? options->messages_max : MESSAGES_DEFAULT;
    if (!to || sim_fabric_is_cut(fabric, from->place, to_place) ||
        fabric->n_messages >= messages_max || sim_fabric_happens(fabric, options->loss)) {
        drop(fabric, &message);
        return;
    }
    if (from->link_free_ns < fabric->now_ns)
        from->link_free_ns = fabric->now_ns;
    if (options->bytes_per_s > 0)
        from->link_free_ns += (uint64_t)((double)bytes * 1e9 / (double)options->bytes_per_s);
    message.from_place = from->place;
    message.due_ns = from->link_free_ns + options->latency_ns +
                     sim_fabric_delay(fabric, options->jitter_ns);
    sim_fabric_push(to, message);
}

void sim_fabric_add(struct sim_fabric *fabric, struct sim_endpoint *endpoint)
{
    assert(!sim_fabric_find(fabric, endpoint->place));
    endpoint->fabric = fabric;
    endpoint->next = fabric->endpoints;
    fabric->endpoints = endpoint;
}

void sim_fabric_remove(struct sim_endpoint *endpoint)
{
    struct sim_endpoint **link = &endpoint->fabric->endpoints;
    while (*link != endpoint) {
        assert(*link);
        link = &(*link)->next;
    }
    *link = endpoint->next;
}

/* ---- the fabric ---- */

enum status sim_fabric_create(const struct sim_options *options, struct sim_fabric **fabric_out)
{
    struct sim_fabric *fabric = calloc(1, sizeof *fabric);
    if (!fabric)
        return STATUS_NO_MEMORY;
    fabric->options = *options;
    random_init(&fabric->random, options->seed);
    *fabric_out = fabric;
    return STATUS_OK;
}

void sim_fabric_destroy(struct sim_fabric *fabric)
{
    assert(!fabric || !fabric->endpoints);
    free(fabric);
}

void sim_fabric_set_options(struct sim_fabric *fabric, const struct sim_options *options)
{
    fabric->options = *options;
}

uint64_t sim_fabric_next_ns(const struct sim_fabric *fabric)
{
    uint64_t next_ns = UINT64_MAX;
    for (const struct sim_endpoint *at = fabric->endpoints; at; at = at->next) {
        if (at->is_dead || at->messages.n == 0)
            continue;
        uint64_t due_ns = at->messages.heap[0].due_ns;
        if (due_ns < at->stalled_until_ns)
            due_ns = at->stalled_until_ns;
        if (due_ns < next_ns)
            next_ns = due_ns;
    }
    return next_ns;
}

void sim_fabric_cut(struct sim_fabric *fabric, uint32_t place_a, uint32_t place_b, bool cut)
{
    if (cut && !sim_fabric_is_cut(fabric, place_a, place_b)) {
        assert(fabric->n_cuts < SIM_CUTS_MAX);
        fabric->cuts[fabric->n_cuts][0] = place_a;
        fabric->cuts[fabric->n_cuts++][1] = place_b;
        return;
    }
    for (uint32_t i = 0; !cut && i < fabric->n_cuts; i++) {
        if (!((fabric->cuts[i][0] == place_a && fabric->cuts[i][1] == place_b) ||
              (fabric->cuts[i][0] == place_b && fabric->cuts[i][1] == place_a)))
            continue;
        const uint32_t *last = fabric->cuts[--fabric->n_cuts];
        fabric->cuts[i][0] = last[0];
        fabric->cuts[i][1] = last[1];
        return;
    }
}
