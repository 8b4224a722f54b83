#include "router/placement/waiting_room.h"

#include "base/clock.h"

#include <assert.h>

/* A step of priority is so much of waiting: as the workers' priority_aging_ms is by default. */
#define PRIORITY_AGING_MS 1000

enum status waiting_room_init(struct waiting_room *room, uint32_t items_max)
{
    *room = (struct waiting_room){0};
    TRY(fair_queue_init(&room->queue, items_max));
    return fair_turns_init(&room->turns, items_max);
}

void waiting_room_finish(struct waiting_room *room)
{
    fair_queue_finish(&room->queue);
    fair_turns_finish(&room->turns);
}

static uint32_t weight_of(const struct standing *standing)
{
    return standing->weight > 0 ? standing->weight : 1;
}

void waiting_room_join(struct waiting_room *room, uint32_t item, const struct standing *standing,
                       uint64_t now_ns)
{
    int64_t rank = (int64_t)(now_ns / NS_PER_MS) - (int64_t)standing->priority * PRIORITY_AGING_MS;
    fair_queue_join(&room->queue, item, standing->tenant, weight_of(standing), rank);
}

void waiting_room_start(struct waiting_room *room, uint32_t item, uint32_t n_prompt)
{
    fair_queue_start(&room->queue, item);
    fair_queue_promise(&room->queue, item, n_prompt);
}

void waiting_room_give_back(struct waiting_room *room, uint32_t item, uint32_t n_prompt)
{
    fair_queue_promise(&room->queue, item, -(int64_t)n_prompt);
    fair_queue_return(&room->queue, item);
}

void waiting_room_prompt_served(struct waiting_room *room, uint32_t item, uint32_t n_prompt)
{
    fair_queue_promise(&room->queue, item, -(int64_t)n_prompt);
    fair_queue_charge(&room->queue, item, n_prompt);
}

void waiting_room_served(struct waiting_room *room, uint32_t item, uint32_t n_tokens)
{
    fair_queue_charge(&room->queue, item, n_tokens);
}

void waiting_room_leave(struct waiting_room *room, uint32_t item, bool is_waiting,
                        uint32_t n_promised)
{
    assert((!is_waiting || n_promised == 0) && "what waits was promised nothing");
    if (n_promised > 0)
        fair_queue_promise(&room->queue, item, -(int64_t)n_promised);
    fair_queue_leave(&room->queue, item, is_waiting);
}

/* ---- turns ---- */

static uint32_t first_of_round(const struct waiting_room *room)
{
    const struct fair_turn *turn = fair_turns_first(&room->turns);
    return turn ? room->queue.tenants[turn->tenant].head : WAITING_NONE;
}

uint32_t waiting_room_first(struct waiting_room *room)
{
    const struct fair_queue *queue = &room->queue;
    fair_turns_clear(&room->turns);
    for (uint32_t i = 0; i < queue->n_tenants; i++) {
        const struct fair_tenant *tenant = &queue->tenants[i];
        if (tenant->n_waiting > 0)
            fair_turns_add(&room->turns, &(struct fair_turn){.key = fair_queue_key(tenant),
                                                             .seq = queue->items[tenant->head].seq,
                                                             .tenant = i});
    }
    return first_of_round(room);
}

uint32_t waiting_room_after_start(struct waiting_room *room)
{
    const struct fair_queue *queue = &room->queue;
    const struct fair_tenant *tenant = &queue->tenants[fair_turns_first(&room->turns)->tenant];
    if (tenant->n_waiting == 0)
        fair_turns_drop_first(&room->turns);
    else
        fair_turns_move_first(&room->turns, fair_queue_key(tenant), queue->items[tenant->head].seq);
    return first_of_round(room);
}

uint32_t waiting_room_behind(struct waiting_room *room, uint32_t item)
{
    uint32_t next = room->queue.items[item].next;
    assert(fair_queue_tenant_of(&room->queue, item) ==
           &room->queue.tenants[fair_turns_first(&room->turns)->tenant]);
    return next != WAITING_NONE ? next : waiting_room_after_pass(room);
}

uint32_t waiting_room_after_pass(struct waiting_room *room)
{
    fair_turns_drop_first(&room->turns);
    return first_of_round(room);
}

/* ---- a full room ---- */

uint32_t waiting_room_who_gives_way(const struct waiting_room *room,
                                    const struct standing *standing, uint32_t n_more)
{
    const struct fair_queue *queue = &room->queue;
    const struct fair_tenant *own = fair_queue_find(queue, standing->tenant);
    uint32_t n_own = own ? own->n_waiting : 0;
    /* Waiting requests over weight: the unit of virtual time is one over the weight. */
    uint64_t most = (uint64_t)(n_own + n_more) * FAIR_TIME_UNIT / weight_of(standing);
    uint32_t item = WAITING_NONE;
    for (uint32_t i = 0; i < queue->n_tenants; i++) {
        const struct fair_tenant *tenant = &queue->tenants[i];
        uint64_t share = (uint64_t)tenant->n_waiting * tenant->unit;
        if (share <= most || tenant->id == standing->tenant)
            continue;
        most = share;
        item = tenant->tail;
    }
    return item;
}
