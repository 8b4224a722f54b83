#include "router/placement/route_table.h"

#include <assert.h>
#include <stdlib.h>

enum status route_table_init(struct route_table *table, uint32_t routes_max, uint32_t attempts_max)
{
    assert(routes_max > 0 && routes_max < ROUTES_MAX && attempts_max > 0);
    *table = (struct route_table){.routes_max = routes_max, .attempts_max = attempts_max};
    table->routes = calloc(routes_max, sizeof *table->routes);
    table->tried = calloc((size_t)routes_max * attempts_max, sizeof *table->tried);
    if (!table->routes || !table->tried)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < routes_max; i++)
        table->routes[i].tried = table->tried + (size_t)i * attempts_max;
    return STATUS_OK;
}

void route_table_finish(struct route_table *table)
{
    free(table->routes);
    free(table->tried);
    *table = (struct route_table){0};
}

struct route *route_table_take(struct route_table *table)
{
    uint32_t slot = 0;
    while (slot < table->routes_max && table->routes[slot].stream)
        slot++;
    assert(slot < table->routes_max && table->routes[slot].n_attempts == 0);
    return &table->routes[slot];
}

void route_table_free(struct route *route)
{
    *route = (struct route){.tried = route->tried};
}

uint32_t route_table_slot(const struct route_table *table, const struct route *route)
{
    return (uint32_t)(route - table->routes);
}

uint64_t route_table_number(struct route_table *table, const struct route *route)
{
    return ++table->n_attempts << ROUTE_SLOT_BITS | route_table_slot(table, route);
}

struct route *route_table_find(const struct route_table *table, uint64_t attempt)
{
    uint32_t slot = (uint32_t)attempt & (ROUTES_MAX - 1);
    assert(attempt != 0 && attempt >> ROUTE_SLOT_BITS <= table->n_attempts);
    if (slot >= table->routes_max || table->routes[slot].attempt != attempt ||
        !table->routes[slot].stream)
        return NULL;
    return &table->routes[slot];
}

struct route *route_table_find_stream(const struct route_table *table, const void *stream)
{
    for (uint32_t i = 0; i < table->routes_max; i++)
        if (table->routes[i].stream == stream)
            return &table->routes[i];
    return NULL;
}

void route_table_forget_worker(struct route_table *table, uint32_t worker)
{
    size_t n = (size_t)table->routes_max * table->attempts_max;
    for (size_t i = 0; i < n; i++)
        if (table->tried[i].generation_worker == worker || table->tried[i].context_worker == worker)
            table->tried[i] = (struct pair){NOBODY, NOBODY};
}
