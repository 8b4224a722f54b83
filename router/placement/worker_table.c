#include "router/placement/worker_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The cost of a running request for a new one, in prompt tokens: about one step. */
#define LOAD_TOKENS 128u
/* A worker without blocks for the request comes after all workers with blocks, */
#define NO_BLOCKS_TOKENS (1ull << 40)
/* and a worker that the request has tried comes last. */
#define TRIED_TOKENS (1ull << 44)

/* ---- slots ---- */

enum status worker_table_init(struct worker_table *table, uint32_t workers_max)
{
    *table = (struct worker_table){.workers_max = workers_max};
    table->workers = calloc(workers_max, sizeof *table->workers);
    table->misfits = calloc((size_t)workers_max * workers_max, sizeof *table->misfits);
    table->shares = calloc((size_t)workers_max * workers_max, sizeof *table->shares);
    table->contexts = calloc(workers_max, sizeof *table->contexts);
    table->costs = calloc(workers_max, sizeof *table->costs);
    bool is_whole = table->workers && table->misfits && table->shares && table->contexts &&
                    table->costs;
    return is_whole ? STATUS_OK : STATUS_NO_MEMORY;
}

void worker_table_finish(struct worker_table *table)
{
    free(table->workers);
    free(table->misfits);
    free(table->shares);
    free(table->contexts);
    free(table->costs);
    *table = (struct worker_table){0};
}

static size_t pair_index(const struct worker_table *table, uint32_t generation_worker,
                         uint32_t context_worker)
{
    assert(generation_worker < table->workers_max && context_worker < table->workers_max);
    return (size_t)generation_worker * table->workers_max + context_worker;
}

static bool *misfit(const struct worker_table *table, uint32_t generation_worker,
                    uint32_t context_worker)
{
    return &table->misfits[pair_index(table, generation_worker, context_worker)];
}

static struct pair_share *share(const struct worker_table *table, uint32_t generation_worker,
                                uint32_t context_worker)
{
    return &table->shares[pair_index(table, generation_worker, context_worker)];
}

static bool is_known_as(const struct worker *worker, enum worker_role role, const char *address)
{
    return worker->is_known && worker->role == role && strcmp(worker->address, address) == 0;
}

/* The first free slot without calls; workers_max: none. */
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
    /* Calls on the former worker of this slot may have been refused since it left. */
    for (uint32_t i = 0; i < table->n_slots; i++)
        *share(table, slot, i) = *share(table, i, slot) = (struct pair_share){0};
    *worker_out = slot;
    return STATUS_OK;
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

/* ---- usable workers ---- */

static bool is_usable(const struct worker *worker, enum worker_role role)
{
    assert((worker->is_known || !worker->is_ready) && "who left is not ready");
    return worker->role == role && worker->is_ready;
}

static bool has_adapter(const struct worker *worker, uint64_t adapter)
{
    const struct worker_report *report = &worker->report;
    for (uint32_t i = 0; i < report->n_adapters; i++)
        if (report->adapters[i] == adapter)
            return true;
    return adapter == 0;
}

/* For that request. */
static bool can_serve(const struct worker *worker, enum worker_role role,
                      const struct worker_question *question)
{
    return is_usable(worker, role) && has_adapter(worker, question->adapter);
}

uint32_t worker_table_n_ready(const struct worker_table *table, enum worker_role role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < table->n_slots; i++)
        n += is_usable(&table->workers[i], role);
    return n;
}

uint32_t worker_table_n_with_adapter(const struct worker_table *table, enum worker_role role,
                                     uint64_t adapter)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < table->n_slots; i++)
        n += is_usable(&table->workers[i], role) && has_adapter(&table->workers[i], adapter);
    return n;
}

/* Its remaining places, as far as is known. */
static bool has_room(const struct worker *worker)
{
    const struct worker_report *report = &worker->report;
    assert(worker->n_there <= worker->n_calls);
    if (worker->is_full || (report->calls_max > 0 && worker->n_calls >= report->calls_max))
        return false;
    int64_t n_new = (int64_t)worker->n_there - worker->n_reported;
    return !report->tells_room || n_new < (int64_t)report->room;
}

uint32_t worker_table_n_with_room(const struct worker_table *table, enum worker_role role)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < table->n_slots; i++)
        n += is_usable(&table->workers[i], role) && has_room(&table->workers[i]);
    return n;
}

bool worker_table_has_room_with(const struct worker_table *table, uint64_t adapter)
{
    for (uint32_t i = 0; i < table->n_slots; i++) {
        const struct worker *worker = &table->workers[i];
        if (is_usable(worker, WORKER_GENERATION) && has_room(worker) &&
            has_adapter(worker, adapter))
            return true;
    }
    return false;
}

/* It fits that generation worker. */
static bool has_room_for(const struct worker_table *table, uint32_t generation_worker,
                         uint32_t context_worker)
{
    return has_room(&table->workers[context_worker]) &&
           !share(table, generation_worker, context_worker)->is_full;
}

static bool has_open_pair_of(const struct worker_table *table, uint32_t generation_worker)
{
    for (uint32_t i = 0; i < table->n_slots; i++)
        if (is_usable(&table->workers[i], WORKER_CONTEXT) &&
            !*misfit(table, generation_worker, i) && has_room_for(table, generation_worker, i))
            return true;
    return false;
}

bool worker_table_has_open_pair(const struct worker_table *table)
{
    for (uint32_t i = 0; i < table->n_slots; i++)
        if (is_usable(&table->workers[i], WORKER_GENERATION) && has_room(&table->workers[i]) &&
            has_open_pair_of(table, i))
            return true;
    return false;
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

bool worker_table_contexts_are_full(const struct worker_table *table, uint32_t generation_worker)
{
    return n_pairs_of(table, generation_worker) > 0 && !has_open_pair_of(table, generation_worker);
}

/* ---- reports ---- */

static struct worker *known(struct worker_table *table, uint32_t worker)
{
    assert(worker < table->n_slots && table->workers[worker].is_known);
    return &table->workers[worker];
}

void worker_table_ask(struct worker_table *table, uint32_t worker)
{
    struct worker *at = known(table, worker);
    at->is_asked = true;
    at->n_asked = at->n_there;
    at->has_refused = false;
    for (uint32_t i = 0; i < table->n_slots; i++)
        share(table, i, worker)->has_refused = false;
}

/* A report has no shares: a generation worker that was refused its share may ask again. */
static void forget_shares(struct worker_table *table, uint32_t worker, bool is_asked)
{
    for (uint32_t i = 0; i < table->n_slots; i++) {
        struct pair_share *of = share(table, i, worker);
        of->is_full = of->is_full && is_asked && of->has_refused;
        of->has_refused = false;
    }
}

void worker_table_report(struct worker_table *table, uint32_t worker,
                         const struct worker_report *report)
{
    struct worker *at = known(table, worker);
    bool has_room_again = !report->tells_room || report->room > 0;
    at->is_ready = report->is_ready;
    if (report->is_repeated)
        return;
    at->n_reported = at->is_asked ? at->n_asked : at->n_there;
    if (has_room_again && !(at->is_asked && at->has_refused))
        at->is_full = false;
    forget_shares(table, worker, at->is_asked);
    at->is_asked = at->has_refused = false;
    at->report = *report;
    at->blocks_taken = 0;
}

void worker_table_refused(struct worker_table *table, uint32_t worker)
{
    assert(worker < table->n_slots);
    table->workers[worker].is_full = table->workers[worker].has_refused = true;
}

void worker_table_share_refused(struct worker_table *table, const struct pair *pair)
{
    *share(table, pair->generation_worker, pair->context_worker) = (struct pair_share){true, true};
}

/* ---- costs ---- */

static uint64_t load_tokens(const struct worker *worker)
{
    const struct worker_report *report = &worker->report;
    int64_t n = (int64_t)report->running + report->waiting + worker->n_there - worker->n_reported;
    if (n < (int64_t)worker->n_there)
        n = worker->n_there;
    return (uint64_t)n * LOAD_TOKENS;
}

static bool has_been_at(const struct worker_question *question, uint32_t worker)
{
    for (uint32_t i = 0; i < question->n_tried; i++)
        if (question->tried[i].generation_worker == worker ||
            question->tried[i].context_worker == worker)
            return true;
    return false;
}

static bool lacks_blocks(const struct worker *worker, const struct worker_question *question)
{
    uint64_t n_blocks = (uint64_t)worker->blocks_taken + question->n_blocks;
    if (worker->role == WORKER_GENERATION)
        return n_blocks > worker->report.blocks_usable;
    return worker->report.n_blocks > 0 && question->n_prompt_blocks > worker->report.n_blocks;
}

static struct worker_cost cost_of(const struct worker_table *table, uint32_t index,
                                  const struct worker_question *question)
{
    const struct worker *worker = &table->workers[index];
    assert(worker->hit_tokens <= question->n_tokens);
    struct worker_cost cost = {question->n_tokens - worker->hit_tokens + load_tokens(worker),
                               worker->used};
    if (lacks_blocks(worker, question))
        cost.tokens += NO_BLOCKS_TOKENS;
    if (has_been_at(question, index))
        cost.tokens += TRIED_TOKENS;
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
    bool lacks_room;    /* a pair that was not tried is full */
    bool lacks_context; /* a generation worker could do it, but should wait for a context worker */
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
                     struct pair pair, struct worker_cost cost, bool is_full)
{
    if (!(is_full || can_win(choice, cost)) || has_tried(question, pair))
        return;
    if (is_full)
        choice->lacks_room = true;
    else
        *choice = (struct choice){.is_made = true,
                                  .lacks_room = choice->lacks_room,
                                  .lacks_context = choice->lacks_context,
                                  .cost = cost,
                                  .pair = pair};
}

/* Whether a context worker of one pair that was not tried is only full: a prompt that costs more than others would then
 * wait for it. */
static bool waits_for(const struct worker_table *table, const struct worker_question *question,
                      uint32_t generation_worker, uint32_t n_contexts)
{
    uint32_t hit_tokens = table->workers[generation_worker].hit_tokens;
    if (!question->waits_for_context || question->n_tokens - hit_tokens <= LOAD_TOKENS)
        return false;
    for (uint32_t c = 0; c < n_contexts; c++) {
        struct pair pair = {generation_worker, table->contexts[c]};
        if (!*misfit(table, generation_worker, pair.context_worker) &&
            !has_room_for(table, generation_worker, pair.context_worker) &&
            !has_tried(question, pair))
            return true;
    }
    return false;
}

/* The usable context workers with room, or without any, and their costs, into the scratch from n on. Returns behind the last. */
static uint32_t add_contexts(const struct worker_table *table,
                             const struct worker_question *question, bool have_room, uint32_t n)
{
    for (uint32_t i = 0; i < table->n_slots; i++) {
        const struct worker *worker = &table->workers[i];
        if (!can_serve(worker, WORKER_CONTEXT, question) || has_room(worker) != have_room)
            continue;
        table->contexts[n] = i;
        table->costs[n] = cost_of(table, i, question);
        n++;
    }
    return n;
}

static struct worker_cost least_cost(const struct worker_cost *costs, uint32_t n)
{
    struct worker_cost least = {UINT64_MAX / 2, 0};
    for (uint32_t i = 0; i < n; i++)
        if (is_less(costs[i], least))
            least = costs[i];
    return least;
}

static bool may_be_beside(const struct worker_table *table, const struct worker_question *question)
{
    if (question->beside == NOBODY)
        return false;
    assert(question->beside < table->n_slots);
    const struct worker *worker = &table->workers[question->beside];
    return can_serve(worker, WORKER_GENERATION, question) && has_room(worker) &&
           !has_tried(question, (struct pair){question->beside, NOBODY});
}

enum status worker_table_choose(const struct worker_table *table,
                                const struct worker_question *question, struct pair *pair_out)
{
    struct choice choice = {0};
    struct choice alone = {0};
    if (may_be_beside(table, question)) {
        *pair_out = (struct pair){question->beside, NOBODY};
        return STATUS_OK;
    }
    uint32_t n_with_room = add_contexts(table, question, true, 0);
    uint32_t n_contexts = add_contexts(table, question, false, n_with_room);
    struct worker_cost least = least_cost(table->costs, n_with_room);
    for (uint32_t i = 0; i < table->n_slots; i++) {
        if (!can_serve(&table->workers[i], WORKER_GENERATION, question))
            continue;
        bool is_full = !has_room(&table->workers[i]);
        struct worker_cost cost = cost_of(table, i, question);
        if (choice.is_made && (is_full || !can_win(&choice, sum(cost, least))))
            continue;
        for (uint32_t c = 0; c < n_contexts; c++)
            if (!*misfit(table, i, table->contexts[c]))
                consider(&choice, question, (struct pair){i, table->contexts[c]},
                         sum(cost, table->costs[c]),
                         is_full || !has_room_for(table, i, table->contexts[c]));
        if (!question->may_be_alone || choice.is_made)
            continue;
        bool waits = !is_full && waits_for(table, question, i, n_contexts);
        choice.lacks_context |= waits;
        consider(&alone, question, (struct pair){i, NOBODY}, cost, is_full || waits);
    }
    if (!choice.is_made && alone.is_made)
        choice = alone;
    if (!choice.is_made && choice.lacks_context)
        return STATUS_NO_CONTEXT_WORKER;
    if (!choice.is_made)
        return choice.lacks_room || alone.lacks_room ? STATUS_QUEUE_FULL : STATUS_NOT_FOUND;
    *pair_out = choice.pair;
    return STATUS_OK;
}

/* ---- calls ---- */

void worker_table_count(struct worker_table *table, const struct pair *pair, uint32_t n_blocks)
{
    struct worker *generation_worker = &table->workers[pair->generation_worker];
    assert(generation_worker->is_ready && generation_worker->role == WORKER_GENERATION);
    table->n_used++;
    generation_worker->n_calls++;
    generation_worker->n_there++;
    generation_worker->blocks_taken += n_blocks;
    generation_worker->used = table->n_used;
    if (pair->context_worker == NOBODY)
        return;
    struct worker *context_worker = &table->workers[pair->context_worker];
    assert(context_worker->role == WORKER_CONTEXT);
    context_worker->n_calls++;
    context_worker->n_there++;
    context_worker->used = table->n_used;
}

void worker_table_leave_context(struct worker_table *table, const struct pair *pair)
{
    if (pair->context_worker == NOBODY)
        return;
    assert(table->workers[pair->context_worker].n_there > 0);
    table->workers[pair->context_worker].n_there--;
}

void worker_table_uncount(struct worker_table *table, const struct pair *pair,
                          bool has_left_context)
{
    struct worker *generation_worker = &table->workers[pair->generation_worker];
    assert(generation_worker->n_calls > 0 && generation_worker->n_there > 0);
    generation_worker->n_calls--;
    generation_worker->n_there--;
    if (!has_left_context)
        worker_table_leave_context(table, pair);
    if (pair->context_worker == NOBODY)
        return;
    assert(table->workers[pair->context_worker].n_calls > 0);
    table->workers[pair->context_worker].n_calls--;
}
