#include "text/constraint/lark_terminals.h"

#include "text/constraint/regex_weight.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS_MAX 200 /* each takes weights at least one reference further */
#define NO_ONE     UINT32_MAX

static enum status add(struct terminal_list *list, const struct terminal *item)
{
    if (list->n_items == list->items_max) {
        const uint32_t items_max = 2 * list->items_max + 32;
        struct terminal *items = realloc(list->items, items_max * sizeof *items);
        if (!items)
            return STATUS_NO_MEMORY;
        list->items = items;
        list->items_max = items_max;
    }
    list->items[list->n_items++] = *item;
    return STATUS_OK;
}

enum status lark_terminals_define(struct lark_terminals *terminals, const char *name, size_t n_name,
                                  size_t line)
{
    return add(&terminals->definitions,
               &(struct terminal){.name = name, .n_name = (uint32_t)n_name, .line = line});
}

enum status lark_terminals_refer(struct lark_terminals *terminals, const char *name, size_t n_name)
{
    if (terminals->definitions.n_items == 0)
        return STATUS_OK;
    return add(&terminals->references,
               &(struct terminal){.name = name,
                                  .n_name = (uint32_t)n_name,
                                  .of = terminals->definitions.n_items - 1});
}

static void put_weight(struct terminal *terminal, size_t weight)
{
    weight += terminal->weight;
    terminal->weight = weight > REGEX_WEIGHT_MAX ? REGEX_WEIGHT_MAX + 1 : (uint32_t)weight;
}

void lark_terminals_weigh(struct lark_terminals *terminals, size_t weight)
{
    if (terminals->definitions.n_items)
        put_weight(&terminals->definitions.items[terminals->definitions.n_items - 1], weight);
}

static int compare(const struct terminal *a, const struct terminal *b)
{
    const int order = memcmp(a->name, b->name, a->n_name < b->n_name ? a->n_name : b->n_name);
    return order ? order : (a->n_name > b->n_name) - (a->n_name < b->n_name);
}

static int by_name(const void *left, const void *right, void *arg)
{
    const struct terminal *items = arg;
    return compare(&items[*(const uint32_t *)left], &items[*(const uint32_t *)right]);
}

static uint32_t find(const struct terminal_list *definitions, const uint32_t *order,
                     const struct terminal *reference)
{
    uint32_t low = 0, high = definitions->n_items;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int found = compare(&definitions->items[order[middle]], reference);
        if (found == 0)
            return order[middle];
        if (found < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NO_ONE;
}

/* One more reference's way. totals of the round before; true: nothing changed. */
static bool spread(const struct lark_terminals *terminals, const uint32_t *targets,
                   struct terminal *totals)
{
    const struct terminal_list *definitions = &terminals->definitions;
    bool is_same = true;
    uint32_t at = terminals->references.n_items;
    for (uint32_t i = definitions->n_items; i-- > 0;) {
        struct terminal total = definitions->items[i];
        for (; at > 0 && terminals->references.items[at - 1].of == i; at--)
            if (targets[at - 1] != NO_ONE)
                put_weight(&total, totals[targets[at - 1]].weight);
        is_same &= total.weight == totals[i].weight;
        totals[i] = total;
    }
    return is_same;
}

static enum status check_totals(const struct lark_terminals *terminals, const uint32_t *targets,
                                struct terminal *totals, struct error *error)
{
    const struct terminal_list *definitions = &terminals->definitions;
    uint32_t n_rounds = 0;
    memcpy(totals, definitions->items, definitions->n_items * sizeof *totals);
    while (n_rounds < ROUNDS_MAX && !spread(terminals, targets, totals))
        n_rounds++;
    for (uint32_t i = 0; i < definitions->n_items; i++)
        if (totals[i].weight > REGEX_WEIGHT_MAX)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "line %zu: more than %d parts of this may be empty", totals[i].line,
                             REGEX_WEIGHT_MAX);
    if (n_rounds == ROUNDS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "terminals refer to one another in too long a chain");
    return STATUS_OK;
}

enum status lark_terminals_check(struct lark_terminals *terminals, struct error *error)
{
    const struct terminal_list *definitions = &terminals->definitions;
    const struct terminal_list *references = &terminals->references;
    uint32_t *order = calloc((size_t)definitions->n_items + 1, sizeof *order);
    uint32_t *targets = calloc((size_t)references->n_items + 1, sizeof *targets);
    struct terminal *totals = calloc((size_t)definitions->n_items + 1, sizeof *totals);
    enum status status = STATUS_NO_MEMORY;
    if (order && targets && totals && definitions->n_items) {
        for (uint32_t i = 0; i < definitions->n_items; i++)
            order[i] = i;
        qsort_r(order, definitions->n_items, sizeof *order, by_name, definitions->items);
        for (uint32_t i = 0; i < references->n_items; i++)
            targets[i] = find(definitions, order, &references->items[i]);
        status = check_totals(terminals, targets, totals, error);
    } else if (order && targets && totals) {
        status = STATUS_OK;
    }
    free(order);
    free(targets);
    free(totals);
    return status;
}

void lark_terminals_finish(struct lark_terminals *terminals)
{
    free(terminals->definitions.items);
    free(terminals->references.items);
}
