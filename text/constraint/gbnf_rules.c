#include "text/constraint/gbnf_rules.h"

#include <stdlib.h>
#include <string.h>

static int compare_names(const struct gbnf_tree *tree, uint32_t a, uint32_t n_a, uint32_t b,
                         uint32_t n_b)
{
    const int order = memcmp(tree->text + a, tree->text + b, n_a < n_b ? n_a : n_b);
    return order ? order : (n_a > n_b) - (n_a < n_b);
}

static int by_name(const void *left, const void *right, void *arg)
{
    const struct gbnf_tree *tree = arg;
    const struct gbnf_rule *a = &tree->rules[*(const uint32_t *)left],
                           *b = &tree->rules[*(const uint32_t *)right];
    const int order = compare_names(tree, a->name, a->n_name, b->name, b->n_name);
    return order ? order : (a->name > b->name) - (a->name < b->name);
}

/* order: rules by name. GBNF_NONE: there is none of that name. */
static uint32_t find_rule(const struct gbnf_tree *tree, const uint32_t *order, uint32_t name,
                          uint32_t n_name)
{
    uint32_t low = 0, high = tree->n_rules;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct gbnf_rule *rule = &tree->rules[order[middle]];
        const int found = compare_names(tree, rule->name, rule->n_name, name, n_name);
        if (found == 0)
            return order[middle];
        if (found < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return GBNF_NONE;
}

static uint32_t find_root(const struct gbnf_tree *tree)
{
    for (uint32_t i = 0; i < tree->n_rules; i++)
        if (tree->rules[i].n_name == 4 && memcmp(tree->text + tree->rules[i].name, "root", 4) == 0)
            return i;
    return GBNF_NONE;
}

/* What each reference means. */
static const char *name_rules(struct gbnf_tree *tree, uint32_t *order, uint32_t *at_out)
{
    for (uint32_t i = 0; i < tree->n_rules; i++)
        order[i] = i;
    qsort_r(order, tree->n_rules, sizeof *order, by_name, tree);
    for (uint32_t i = 1; i < tree->n_rules; i++) {
        const struct gbnf_rule *a = &tree->rules[order[i - 1]], *b = &tree->rules[order[i]];
        *at_out = b->name;
        if (compare_names(tree, a->name, a->n_name, b->name, b->n_name) == 0)
            return ": there is a rule of this name already";
    }
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        struct gbnf_node *node = &tree->nodes[i];
        if (node->kind != GBNF_REFERENCE)
            continue;
        node->rule = find_rule(tree, order, node->begin, node->end - node->begin);
        *at_out = node->begin;
        if (node->rule == GBNF_NONE)
            return ": there is no rule of this name";
    }
    *at_out = tree->n_bytes;
    tree->root = find_root(tree);
    return tree->root == GBNF_NONE ? "there is no rule \"root\"" : NULL;
}

/* ---- rules that refer to themselves ---- */

static bool refers_to(const struct gbnf_tree *tree, uint32_t node, uint32_t rule)
{
    return node != GBNF_NONE && tree->nodes[node].kind == GBNF_REFERENCE &&
           tree->nodes[node].rule == rule;
}

static uint32_t last_item(const struct gbnf_tree *tree, uint32_t sequence)
{
    uint32_t item = tree->nodes[sequence].first;
    while (item != GBNF_NONE && tree->nodes[item].next != GBNF_NONE)
        item = tree->nodes[item].next;
    return item;
}

static enum gbnf_loop find_loop(const struct gbnf_tree *tree, uint32_t rule)
{
    const struct gbnf_rule *of = &tree->rules[rule];
    uint32_t n_all = 0, n_first = 0, n_last = 0, n_sequences = 0;
    for (uint32_t i = of->nodes; i < of->body; i++)
        n_all += refers_to(tree, i, rule);
    for (uint32_t i = tree->nodes[of->body].first; i != GBNF_NONE; i = tree->nodes[i].next) {
        n_first += refers_to(tree, tree->nodes[i].first, rule);
        n_last += refers_to(tree, last_item(tree, i), rule);
        n_sequences++;
    }
    if (n_all == 0 || n_all == n_sequences)
        return GBNF_LOOP_NONE;
    if (n_all == n_last)
        return GBNF_LOOP_LAST;
    return n_all == n_first ? GBNF_LOOP_FIRST : GBNF_LOOP_NONE;
}

/* ---- regular rules ---- */

/* The references of all rules, but those of loops. */
struct uses {
    uint32_t *starts; /* [n_rules + 1] in users */
    uint32_t *users;  /* of a rule: the rules that refer to it, once for each reference */
    uint32_t *n_open; /* [n_rules] references to rules that are not known to be regular */
    uint32_t *
        ready; /* [n_rules] regular rules whose users do not know yet; before that, how many users are filled in */
};

static bool is_use(const struct gbnf_tree *tree, uint32_t rule, uint32_t node)
{
    return tree->nodes[node].kind == GBNF_REFERENCE &&
           (tree->nodes[node].rule != rule || tree->rules[rule].loop == GBNF_LOOP_NONE);
}

static void collect_uses(const struct gbnf_tree *tree, struct uses *uses)
{
    for (uint32_t rule = 0; rule < tree->n_rules; rule++)
        for (uint32_t i = tree->rules[rule].nodes; i < tree->rules[rule].body; i++)
            if (is_use(tree, rule, i)) {
                uses->n_open[rule]++;
                uses->starts[tree->nodes[i].rule + 1]++;
            }
    for (uint32_t rule = 0; rule < tree->n_rules; rule++)
        uses->starts[rule + 1] += uses->starts[rule];
    for (uint32_t rule = 0; rule < tree->n_rules; rule++)
        for (uint32_t i = tree->rules[rule].nodes; i < tree->rules[rule].body; i++)
            if (is_use(tree, rule, i))
                uses->users[uses->ready[tree->nodes[i].rule]++ +
                            uses->starts[tree->nodes[i].rule]] = rule;
}

static void spread_regular(struct gbnf_tree *tree, struct uses *uses)
{
    uint32_t n_ready = 0;
    for (uint32_t rule = 0; rule < tree->n_rules; rule++)
        if (uses->n_open[rule] == 0)
            uses->ready[n_ready++] = rule;
    for (uint32_t i = 0; i < n_ready; i++) {
        const uint32_t rule = uses->ready[i];
        tree->rules[rule].is_regular = true;
        for (uint32_t k = uses->starts[rule]; k < uses->starts[rule + 1]; k++)
            if (--uses->n_open[uses->users[k]] == 0)
                uses->ready[n_ready++] = uses->users[k];
    }
}

static enum status find_regular(struct gbnf_tree *tree)
{
    struct uses uses = {.starts = calloc((size_t)tree->n_rules + 1, sizeof *uses.starts),
                        .users = calloc((size_t)tree->n_nodes + 1, sizeof *uses.users),
                        .n_open = calloc((size_t)tree->n_rules + 1, sizeof *uses.n_open),
                        .ready = calloc((size_t)tree->n_rules + 1, sizeof *uses.ready)};
    enum status status = STATUS_NO_MEMORY;
    if (uses.starts && uses.users && uses.n_open && uses.ready) {
        collect_uses(tree, &uses);
        spread_regular(tree, &uses);
        status = STATUS_OK;
    }
    free(uses.starts);
    free(uses.users);
    free(uses.n_open);
    free(uses.ready);
    return status;
}

/* Of nodes: those below come first. */
static void mark_nodes(struct gbnf_tree *tree)
{
    for (uint32_t i = 0; i < tree->n_nodes; i++) {
        struct gbnf_node *node = &tree->nodes[i];
        node->is_regular = node->kind != GBNF_REFERENCE || tree->rules[node->rule].is_regular;
        for (uint32_t k = node->first; k != GBNF_NONE; k = tree->nodes[k].next)
            node->is_regular &= tree->nodes[k].is_regular;
    }
}

enum status gbnf_rules_resolve(struct gbnf_tree *tree, uint32_t *at_out, const char **what_out)
{
    uint32_t *order = calloc((size_t)tree->n_rules + 1, sizeof *order);
    if (!order)
        return STATUS_NO_MEMORY;
    *what_out = name_rules(tree, order, at_out);
    free(order);
    if (*what_out)
        return STATUS_OK;
    for (uint32_t rule = 0; rule < tree->n_rules; rule++)
        tree->rules[rule].loop = find_loop(tree, rule);
    TRY(find_regular(tree));
    mark_nodes(tree);
    return STATUS_OK;
}
