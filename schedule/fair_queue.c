#include "schedule/fair_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status fair_queue_init(struct fair_queue *queue, uint32_t items_max)
{
    memset(queue, 0, sizeof *queue);
    queue->items_max = items_max;
    queue->items = calloc(items_max, sizeof *queue->items);
    queue->tenants = calloc(items_max, sizeof *queue->tenants);
    return queue->items && queue->tenants ? STATUS_OK : STATUS_NO_MEMORY;
}

void fair_queue_finish(struct fair_queue *queue)
{
    free(queue->items);
    free(queue->tenants);
    memset(queue, 0, sizeof *queue);
}

/* ---- tenants ---- */

static uint32_t find(const struct fair_queue *queue, uint64_t tenant_id)
{
    for (uint32_t i = 0; i < queue->n_tenants; i++)
        if (queue->tenants[i].id == tenant_id)
            return i;
    return FAIR_NONE;
}

const struct fair_tenant *fair_queue_find(const struct fair_queue *queue, uint64_t tenant_id)
{
    uint32_t index = find(queue, tenant_id);
    return index == FAIR_NONE ? NULL : &queue->tenants[index];
}

/* The tenant without items whose time is smallest: the clock has passed it, or soon will, so forgetting
 * it changes the least. */
static uint32_t oldest_idle(const struct fair_queue *queue)
{
    uint32_t oldest = FAIR_NONE;
    for (uint32_t i = 0; i < queue->n_tenants; i++)
        if (queue->tenants[i].n_items == 0 &&
            (oldest == FAIR_NONE || queue->tenants[i].time < queue->tenants[oldest].time))
            oldest = i;
    return oldest;
}

static uint32_t find_or_make(struct fair_queue *queue, uint64_t tenant_id)
{
    uint32_t index = find(queue, tenant_id);
    if (index != FAIR_NONE)
        return index;
    index = queue->n_tenants < queue->items_max ? queue->n_tenants++ : oldest_idle(queue);
    assert(index != FAIR_NONE); /* there cannot be more tenants with items than items */
    queue->tenants[index] = (struct fair_tenant){
        .id = tenant_id, .head = FAIR_NONE, .tail = FAIR_NONE, .time = queue->clock};
    return index;
}

struct fair_tenant *fair_queue_tenant_of(const struct fair_queue *queue, uint32_t item)
{
    assert(item < queue->items_max && queue->items[item].tenant < queue->n_tenants);
    return &queue->tenants[queue->items[item].tenant];
}

uint64_t fair_queue_key(const struct fair_tenant *tenant)
{
    return tenant->time + tenant->promised * tenant->unit;
}

void fair_queue_charge(struct fair_queue *queue, uint32_t item, uint32_t n_tokens)
{
    struct fair_tenant *tenant = fair_queue_tenant_of(queue, item);
    tenant->time += (uint64_t)n_tokens * tenant->unit;
}

void fair_queue_promise(struct fair_queue *queue, uint32_t item, int64_t n_tokens)
{
    struct fair_tenant *tenant = fair_queue_tenant_of(queue, item);
    assert(n_tokens >= 0 || tenant->promised >= (uint64_t)-n_tokens);
    tenant->promised += (uint64_t)n_tokens;
}

/* ---- waiting items ---- */

bool fair_queue_is_before(const struct fair_queue *queue, uint32_t a, uint32_t b)
{
    const struct fair_item *first = &queue->items[a], *second = &queue->items[b];
    return first->rank < second->rank || (first->rank == second->rank && first->seq < second->seq);
}

/* Most items arrive in the order of their rank, so the search starts at the end. */
static void link_in(struct fair_queue *queue, struct fair_tenant *tenant, uint32_t item)
{
    struct fair_item *items = queue->items;
    uint32_t previous = tenant->tail;
    while (previous != FAIR_NONE && fair_queue_is_before(queue, item, previous))
        previous = items[previous].previous;
    uint32_t next = previous == FAIR_NONE ? tenant->head : items[previous].next;
    items[item].previous = previous;
    items[item].next = next;
    *(previous == FAIR_NONE ? &tenant->head : &items[previous].next) = item;
    *(next == FAIR_NONE ? &tenant->tail : &items[next].previous) = item;
}

static void unlink_from(struct fair_queue *queue, struct fair_tenant *tenant, uint32_t item)
{
    struct fair_item *items = queue->items;
    uint32_t previous = items[item].previous, next = items[item].next;
    assert(tenant->n_waiting > 0 && queue->n_waiting > 0);
    *(previous == FAIR_NONE ? &tenant->head : &items[previous].next) = next;
    *(next == FAIR_NONE ? &tenant->tail : &items[next].previous) = previous;
    tenant->n_waiting--;
    queue->n_waiting--;
}

void fair_queue_return(struct fair_queue *queue, uint32_t item)
{
    struct fair_tenant *tenant = fair_queue_tenant_of(queue, item);
    uint64_t key = fair_queue_key(tenant);
    if (tenant->n_waiting == 0 && key < queue->clock)
        tenant->time += queue->clock - key;
    link_in(queue, tenant, item);
    tenant->n_waiting++;
    queue->n_waiting++;
}

void fair_queue_join(struct fair_queue *queue, uint32_t item, uint64_t tenant_id, uint32_t weight,
                     int64_t rank)
{
    assert(item < queue->items_max && weight > 0);
    uint32_t tenant = find_or_make(queue, tenant_id);
    queue->tenants[tenant].unit = FAIR_TIME_UNIT / weight;
    queue->tenants[tenant].n_items++;
    queue->items[item] = (struct fair_item){
        .tenant = tenant, .rank = rank, .seq = queue->next_seq++};
    fair_queue_return(queue, item);
}

void fair_queue_leave(struct fair_queue *queue, uint32_t item, bool is_waiting)
{
    struct fair_tenant *tenant = fair_queue_tenant_of(queue, item);
    assert(tenant->n_items > 0);
    if (is_waiting)
        unlink_from(queue, tenant, item);
    tenant->n_items--;
}

void fair_queue_start(struct fair_queue *queue, uint32_t item)
{
    struct fair_tenant *tenant = fair_queue_tenant_of(queue, item);
    uint64_t key = fair_queue_key(tenant);
    unlink_from(queue, tenant, item);
    if (queue->clock < key)
        queue->clock = key;
}
