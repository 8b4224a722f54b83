#include "router/worker_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What one request under way costs a new one, in prompt tokens: about a step of each. */
#define LOAD_TOKENS 128u
/* A worker without room for the request comes after all that have it. */
#define NO_ROOM_TOKENS (1ull << 40)

/* ---- slots ---- */

enum status worker_table_init(struct worker_table *table, uint32_t workers_max)
{
    *table = (struct worker_table){.workers_max = workers_max};
    table->workers = calloc(workers_max, sizeof *table->workers);
    table->misfits = calloc((size_t)workers_max * workers_max, sizeof *table->misfits);
    table->contexts = calloc(workers_max, sizeof *table->contexts);
    table->costs = calloc(workers_max, sizeof *table->costs);
    return table->workers && table->misfits && table->contexts && table->costs ? STATUS_OK
                                                                               : STATUS_NO_MEMORY;
}

void worker_table_finish(struct worker_table *table)
{
    free(table->workers);
    free(table->misfits);
    free(table->contexts);
    free(table->costs);
    *table = (struct worker_table){0};
}

static bool is_known_as(const struct worker *worker, enum worker_role role, const char *address)
{
    return worker->is_known && worker->role == role && strcmp(worker->address, address) == 0;
}

/* The first that nobody has and no call of ours is on; workers_max: there is none. */
static uint32_t free_slot(struct worker_table *table)
{
    for (uint32_t i = 0; i < table->n_slots; i++)
        if (!table->workers[i].is_known && table->workers[i].n_calls == 0)
            return i;
    return table->n_slots < table->workers_max ? table->n_slots++ : table->workers_max;
}

enum status worker_table_add(struct worker_table *table, enum worker_role role, const char *address,
                             uint32_t *worker_out)
{
    size_t bytes = strnlen(address, ROUTER_ADDRESS_MAX);
    if (bytes == 0 || bytes == ROUTER_ADDRESS_MAX)
        return STATUS_INVALID_ARGUMENT;
    for (uint32_t i = 0; i < table->n_slots; i++)
        if (is_known_as(&table->workers[i], role, address))
            return STATUS_INVALID_ARGUMENT;
    uint32_t slot = free_slot(table);
    if (slot == table->workers_max)
        return STATUS_QUEUE_FULL;
    struct worker *worker = &table->workers[slot];
    assert(slot < table->n_slots && worker->n_calls == 0);
    *worker = (struct worker){.is_known = true, .role = role};
    memcpy(worker->address, address, bytes + 1);
    *worker_out = slot;
    return STATUS_OK;
}

static bool *misfit(const struct worker_table *table, uint32_t generation_worker,
                    uint32_t context_worker)
{
    assert(generation_worker < table->workers_max && context_worker < table->workers_max);
    return &table->misfits[(size_t)generation_worker * table->workers_max + context_worker];
}

void worker_table_remove(struct worker_table *table, uint32_t worker)
{
    assert(worker < table->n_slots && table->workers[worker].is_known);
    table->workers[worker].is_known = table->workers[worker].is_ready = false;
    for (uint32_t i = 0; i < table->n_slots; i++)
        *misfit(table, worker, i) = *misfit(table, i, worker) = false;
}

void worker_table_set_fit(struct worker_table *table, uint32_t generation_worker,
                          uint32_t context_worker, bool fits)
{
    assert(generation_worker < table->n_slots && table->workers[generation_worker].is_known);
    assert(context_worker < table->n_slots && table->workers[context_worker].is_known);
    assert(table->workers[generation_worker].role == WORKER_GENERATION &&
           table->workers[context_worker].role == WORKER_CONTEXT);
    *misfit(table, generation_worker, context_worker) = !fits;
}

/* ---- what can be used ---- */

static bool is_usable(const struct worker *worker, enum worker_role role)
{
    assert((worker->is_known || !worker->is_ready) && "who left is not ready");
    return worker->role == role && worker->is_ready;
}

uint32_t worker_table_n_ready(const struct worker_table *table, enum worker_role role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < table->n_slots; i++)
        n += is_usable(&table->workers[i], role);
    return n;
}

static uint32_t n_pairs_of(const struct worker_table *table, uint32_t generation_worker)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < table->n_slots; i++)
        n += is_usable(&table->workers[i], WORKER_CONTEXT) && !*misfit(table, generation_worker, i);
    return n;
}

uint32_t worker_table_n_pairs(const struct worker_table *table, uint32_t n_max)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < table->n_slots && n < n_max; i++)
        if (is_usable(&table->workers[i], WORKER_GENERATION))
            n += n_pairs_of(table, i);
    return n < n_max ? n : n_max;
}

/* ---- what it costs ---- */

static uint64_t load_tokens(const struct worker *worker)
{
    uint64_t n = (uint64_t)worker->report.running + worker->report.waiting;
    if (n < worker->n_calls)
        n = worker->n_calls;
    return n * LOAD_TOKENS;
}

static struct worker_cost cost_of(const struct worker *worker,
                                  const struct worker_question *question)
{
    assert(worker->hit_tokens <= question->n_tokens);
    struct worker_cost cost = {question->n_tokens - worker->hit_tokens + load_tokens(worker),
                               worker->used};
    uint64_t blocks = (uint64_t)worker->blocks_taken + question->n_blocks;
    if (worker->role == WORKER_GENERATION && blocks > worker->report.blocks_usable)
        cost.tokens += NO_ROOM_TOKENS;
    return cost;
}

static struct worker_cost sum(struct worker_cost a, struct worker_cost b)
{
    return (struct worker_cost){a.tokens + b.tokens, a.used + b.used};
}

static bool is_less(struct worker_cost a, struct worker_cost b)
{
    return a.tokens < b.tokens || (a.tokens == b.tokens && a.used < b.used);
}

/* ---- the choice ---- */

struct choice {
    bool is_made;
    struct worker_cost cost;
    struct pair pair;
};

static bool can_win(const struct choice *choice, struct worker_cost cost)
{
    return !choice->is_made || is_less(cost, choice->cost);
}

static bool has_tried(const struct worker_question *question, struct pair pair)
{
    for (uint32_t i = 0; i < question->n_tried; i++)
        if (question->tried[i].generation_worker == pair.generation_worker &&
            question->tried[i].context_worker == pair.context_worker)
            return true;
    return false;
}

static void consider(struct choice *choice, const struct worker_question *question,
                     struct pair pair, struct worker_cost cost)
{
    if (can_win(choice, cost) && !has_tried(question, pair))
        *choice = (struct choice){.is_made = true, .cost = cost, .pair = pair};
}

/* The usable context workers and their costs, into the scratch. */
static uint32_t list_contexts(const struct worker_table *table,
                              const struct worker_question *question, struct worker_cost *least_out)
{
    uint32_t n = 0;
    *least_out = (struct worker_cost){UINT64_MAX / 2, 0};
    for (uint32_t i = 0; i < table->n_slots; i++) {
        if (!is_usable(&table->workers[i], WORKER_CONTEXT))
            continue;
        table->contexts[n] = i;
        table->costs[n] = cost_of(&table->workers[i], question);
        if (is_less(table->costs[n], *least_out))
            *least_out = table->costs[n];
        n++;
    }
    return n;
}

bool worker_table_choose(const struct worker_table *table, const struct worker_question *question,
                         struct pair *pair_out)
{
    struct choice choice = {0};
    struct choice alone = {0};
    struct worker_cost least;
    uint32_t n_contexts = list_contexts(table, question, &least);
    for (uint32_t i = 0; i < table->n_slots; i++) {
        if (!is_usable(&table->workers[i], WORKER_GENERATION))
            continue;
        struct worker_cost cost = cost_of(&table->workers[i], question);
        if (question->may_be_alone)
            consider(&alone, question, (struct pair){i, NOBODY}, cost);
        if (!can_win(&choice, sum(cost, least)))
            continue;
        for (uint32_t c = 0; c < n_contexts; c++)
            if (!*misfit(table, i, table->contexts[c]))
                consider(&choice, question, (struct pair){i, table->contexts[c]},
                         sum(cost, table->costs[c]));
    }
    if (!choice.is_made)
        choice = alone;
    *pair_out = choice.pair;
    return choice.is_made;
}

void worker_table_count(struct worker_table *table, const struct pair *pair, uint32_t n_blocks)
{
    struct worker *generation_worker = &table->workers[pair->generation_worker];
    assert(generation_worker->is_ready && generation_worker->role == WORKER_GENERATION);
    table->n_used++;
    generation_worker->n_calls++;
    generation_worker->blocks_taken += n_blocks;
    generation_worker->used = table->n_used;
    if (pair->context_worker == NOBODY)
        return;
    assert(table->workers[pair->context_worker].role == WORKER_CONTEXT);
    table->workers[pair->context_worker].n_calls++;
    table->workers[pair->context_worker].used = table->n_used;
}

void worker_table_uncount(struct worker_table *table, const struct pair *pair)
{
    assert(table->workers[pair->generation_worker].n_calls > 0);
    table->workers[pair->generation_worker].n_calls--;
    if (pair->context_worker == NOBODY)
        return;
    assert(table->workers[pair->context_worker].n_calls > 0);
    table->workers[pair->context_worker].n_calls--;
}
