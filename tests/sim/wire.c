#include "tests/sim/wire.h"

#include <stdlib.h>

#define NS_PER_MS 1000000ull

struct wire_block {
    struct wire_block *next;
    max_align_t memory[];
};

struct end {
    uint32_t node;
    uint64_t life;
    bool is_over;
    uint64_t last_due_ns; /* of what is on its way to it */
    const struct wire_listener *listener;
    void *arg;
};

struct wire_call {
    struct wire *wire;
    struct wire_call *next;
    struct end ends[2];
};

struct delivery {
    struct wire_call *call;
    enum wire_side to;
    struct wire_message *message; /* NULL: broken */
};

void wire_init(struct wire *wire, struct timeline *timeline, uint64_t seed)
{
    *wire = (struct wire){.timeline = timeline, .delay_min_ns = 1000, .delay_max_ns = 1000};
    random_init(&wire->random, seed);
}

void wire_finish(struct wire *wire)
{
    for (struct wire_block *block = wire->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    *wire = (struct wire){0};
}

void *wire_alloc(struct wire *wire, size_t bytes)
{
    struct wire_block *block = calloc(1, sizeof *block + bytes);
    if (!block)
        abort();
    block->next = wire->blocks;
    wire->blocks = block;
    return block->memory;
}

static uint64_t draw_between(struct wire *wire, uint64_t min_ns, uint64_t max_ns)
{
    return min_ns + random_below(&wire->random, max_ns - min_ns + 1);
}

static bool is_here(const struct wire_call *call, enum wire_side side)
{
    const struct end *end = &call->ends[side];
    return !end->is_over && call->wire->nodes[end->node].life == end->life;
}

bool wire_is_over(const struct wire_call *call, enum wire_side side)
{
    return !is_here(call, side);
}

bool wire_is_frozen(const struct wire *wire, uint32_t node)
{
    return wire->nodes[node].frozen_until_ns > wire->timeline->now_ns;
}

static void on_late(void *arg)
{
    struct wire_call *call = arg;
    struct end *end = &call->ends[WIRE_CLIENT];
    if (!is_here(call, WIRE_CLIENT))
        return;
    if (wire_is_frozen(call->wire, end->node)) {
        timeline_at(call->wire->timeline, call->wire->nodes[end->node].frozen_until_ns, on_late,
                    call);
        return;
    }
    wire_close(call, WIRE_CLIENT);
    call->wire->nodes[end->node].is_due = true;
    end->listener->late(end->arg);
}

struct wire_call *wire_open(struct wire *wire, uint32_t client, uint32_t server,
                            uint64_t deadline_ns)
{
    struct wire_call *call = wire_alloc(wire, sizeof *call);
    call->wire = wire;
    call->next = wire->calls;
    wire->calls = call;
    call->ends[WIRE_CLIENT] = (struct end){.node = client, .life = wire->nodes[client].life};
    call->ends[WIRE_SERVER] = (struct end){.node = server, .life = wire->nodes[server].life};
    if (deadline_ns != TIMELINE_NEVER)
        timeline_at(wire->timeline, deadline_ns, on_late, call);
    return call;
}

void wire_listen(struct wire_call *call, enum wire_side side, const struct wire_listener *listener,
                 void *arg)
{
    call->ends[side].listener = listener;
    call->ends[side].arg = arg;
}

static void on_delivery(void *arg)
{
    struct delivery *delivery = arg;
    struct wire_call *call = delivery->call;
    struct wire *wire = call->wire;
    struct end *end = &call->ends[delivery->to];
    if (!is_here(call, delivery->to))
        return;
    if (wire_is_frozen(wire, end->node)) {
        timeline_at(wire->timeline, wire->nodes[end->node].frozen_until_ns, on_delivery, delivery);
        return;
    }
    wire->nodes[end->node].is_due = true;
    if (!delivery->message || delivery->message->is_last)
        end->is_over = true;
    if (!end->listener)
        return; /* its first message never came */
    if (delivery->message)
        end->listener->message(end->arg, delivery->message);
    else
        end->listener->broken(end->arg);
}

static void deliver(struct wire_call *call, enum wire_side to, struct wire_message *message,
                    uint64_t delay_ns)
{
    struct wire *wire = call->wire;
    struct end *end = &call->ends[to];
    uint64_t due_ns = wire->timeline->now_ns + delay_ns;
    if (due_ns <= end->last_due_ns)
        due_ns = end->last_due_ns + 1;
    end->last_due_ns = due_ns;
    struct delivery *delivery = wire_alloc(wire, sizeof *delivery);
    *delivery = (struct delivery){call, to, message};
    timeline_at(wire->timeline, due_ns, on_delivery, delivery);
}

/* The end will learn that the call is no more. */
static void break_end(struct wire_call *call, enum wire_side side, uint64_t delay_max_ns)
{
    deliver(call, side, NULL, draw_between(call->wire, 0, delay_max_ns));
}

void wire_send(struct wire_call *call, enum wire_side from, struct wire_message *message)
{
    struct wire *wire = call->wire;
    enum wire_side to = from == WIRE_CLIENT ? WIRE_SERVER : WIRE_CLIENT;
    struct end *there = &call->ends[to];
    if (!is_here(call, from))
        return;
    if (wire->nodes[there->node].life != there->life || there->life == 0) {
        break_end(call, from, 2 * NS_PER_MS); /* connection refused */
    } else if (wire->cut[call->ends[from].node][there->node]) {
        break_end(call, from, WIRE_KEEP_ALIVE_NS);
        break_end(call, to, WIRE_KEEP_ALIVE_NS);
    } else {
        deliver(call, to, message, draw_between(wire, wire->delay_min_ns, wire->delay_max_ns));
    }
    if (message->is_last)
        call->ends[from].is_over = true;
}

void wire_close(struct wire_call *call, enum wire_side side)
{
    enum wire_side other = side == WIRE_CLIENT ? WIRE_SERVER : WIRE_CLIENT;
    call->ends[side].is_over = true;
    bool is_cut = call->wire->cut[call->ends[0].node][call->ends[1].node];
    break_end(call, other, is_cut ? WIRE_KEEP_ALIVE_NS : call->wire->delay_max_ns);
}

/* Breaks the ends across from node, and node's own too when both_ends. */
static void break_calls(struct wire *wire, uint32_t node, bool both_ends, uint64_t delay_max_ns)
{
    for (struct wire_call *call = wire->calls; call; call = call->next)
        for (enum wire_side side = WIRE_CLIENT; side <= WIRE_SERVER; side++) {
            enum wire_side other = side == WIRE_CLIENT ? WIRE_SERVER : WIRE_CLIENT;
            const struct end *end = &call->ends[side];
            if (end->node != node || end->life != wire->nodes[node].life)
                continue;
            break_end(call, other, delay_max_ns);
            if (both_ends)
                break_end(call, side, delay_max_ns);
        }
}

void wire_node_died(struct wire *wire, uint32_t node)
{
    /* Mostly the kernel says so at once; a lost host is found by keep-alive. */
    bool is_silent = random_below(&wire->random, 8) == 0;
    break_calls(wire, node, false, is_silent ? WIRE_KEEP_ALIVE_NS : 2 * NS_PER_MS);
    wire->nodes[node].life = 0;
    wire->nodes[node].frozen_until_ns = 0;
}

void wire_node_freeze(struct wire *wire, uint32_t node, uint64_t until_ns)
{
    bool is_long = until_ns - wire->timeline->now_ns > WIRE_KEEP_ALIVE_NS;
    wire->nodes[node].frozen_until_ns = until_ns;
    if (is_long)
        break_calls(wire, node, true, WIRE_KEEP_ALIVE_NS);
}

void wire_cut_link(struct wire *wire, uint32_t a, uint32_t b, bool is_cut)
{
    wire->cut[a][b] = wire->cut[b][a] = is_cut;
    for (struct wire_call *call = wire->calls; is_cut && call; call = call->next) {
        uint32_t client = call->ends[WIRE_CLIENT].node, server = call->ends[WIRE_SERVER].node;
        if ((client == a && server == b) || (client == b && server == a)) {
            break_end(call, WIRE_CLIENT, WIRE_KEEP_ALIVE_NS);
            break_end(call, WIRE_SERVER, WIRE_KEEP_ALIVE_NS);
        }
    }
}
