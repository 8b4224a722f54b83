#include "text/constraint/gbnf.h"

#include "text/constraint/gbnf_tree.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Items beside one another that become a terminal of their own. */
struct extra {
    uint32_t first;
    uint32_t n_items;
};

struct writer {
    const struct gbnf_tree *tree;
    FILE *out;
    struct extra *extras; /* [n_nodes] room */
    uint32_t n_extras;
    bool is_terminal; /* what is being written: a terminal; else a rule */
};

/* ---- a regex ---- */

static void write_character(FILE *out, uint32_t codepoint)
{
    if ((codepoint >= 'a' && codepoint <= 'z') || (codepoint >= 'A' && codepoint <= 'Z') ||
        (codepoint >= '0' && codepoint <= '9'))
        fputc((int)codepoint, out);
    else
        fprintf(out, "\\x{%" PRIX32 "}", codepoint);
}

static void write_text(const struct writer *writer, const struct gbnf_node *node)
{
    const char *text = writer->tree->text;
    if (node->begin == node->end)
        fputs("(?:)", writer->out);
    for (uint32_t at = node->begin; at < node->end;) {
        uint32_t codepoint = 0;
        at = gbnf_read_character(text, node->end, at, &codepoint);
        write_character(writer->out, codepoint);
    }
}

static void write_class(const struct writer *writer, const struct gbnf_node *node)
{
    const char *text = writer->tree->text;
    const bool is_not = text[node->begin] == '^';
    fputs(is_not ? "[^" : "[", writer->out);
    for (uint32_t at = node->begin + is_not; at < node->end;) {
        uint32_t codepoint = 0;
        at = gbnf_read_character(text, node->end, at, &codepoint);
        write_character(writer->out, codepoint);
        if (at + 1 < node->end && text[at] == '-') {
            at = gbnf_read_character(text, node->end, at + 1, &codepoint);
            fputc('-', writer->out);
            write_character(writer->out, codepoint);
        }
    }
    fputc(']', writer->out);
}

static void write_times(const struct writer *writer, const struct gbnf_node *node)
{
    if (node->n_to == GBNF_NO_LAST && node->n_from <= 1)
        fputc(node->n_from ? '+' : '*', writer->out);
    else if (node->n_to == GBNF_NO_LAST)
        fprintf(writer->out, "{%" PRIu32 ",}", node->n_from);
    else
        fprintf(writer->out, "{%" PRIu32 ",%" PRIu32 "}", node->n_from, node->n_to);
}

static void write_regex(const struct writer *writer, uint32_t id);

static void write_regex_choice(const struct writer *writer, const struct gbnf_node *node)
{
    fputs("(?:", writer->out);
    for (uint32_t i = node->first; i != GBNF_NONE; i = writer->tree->nodes[i].next) {
        if (i != node->first)
            fputc('|', writer->out);
        write_regex(writer, i);
    }
    fputc(')', writer->out);
}

/* Recursion: GBNF_DEPTH_MAX. */
static void write_regex(const struct writer *writer, uint32_t id)
{
    const struct gbnf_node *node = &writer->tree->nodes[id];
    assert(node->is_plain);
    switch (node->kind) {
    case GBNF_TEXT:
        write_text(writer, node);
        break;
    case GBNF_CLASS:
        write_class(writer, node);
        break;
    case GBNF_ANY:
        fputs("(?s:.)", writer->out);
        break;
    case GBNF_CHOICE:
        write_regex_choice(writer, node);
        break;
    case GBNF_SEQUENCE:
        for (uint32_t i = node->first; i != GBNF_NONE; i = writer->tree->nodes[i].next)
            write_regex(writer, i);
        break;
    case GBNF_REPEAT:
        fputs("(?:", writer->out);
        if (node->n_to)
            write_regex(writer, node->first);
        fputc(')', writer->out);
        if (node->n_to)
            write_times(writer, node);
        break;
    case GBNF_REFERENCE:
        break;
    }
}

/* ---- Lark ---- */

static void write_choice(struct writer *writer, uint32_t choice);

static void write_group(struct writer *writer, uint32_t id);

/* What is no part of a run. Recursion: GBNF_DEPTH_MAX. */
static void write_item(struct writer *writer, uint32_t id)
{
    const struct gbnf_node *node = &writer->tree->nodes[id];
    if (node->kind == GBNF_REFERENCE) {
        fprintf(writer->out, writer->tree->rules[node->rule].is_regular ? "T%u" : "r%u",
                node->rule);
    } else if (node->kind == GBNF_REPEAT && node->n_to == 0) {
        fputs("\"\"", writer->out);
    } else if (node->kind == GBNF_REPEAT) {
        write_group(writer, node->first);
        write_times(writer, node);
    } else {
        write_group(writer, id);
    }
}

static void write_plain(const struct writer *writer, uint32_t first, uint32_t n_items)
{
    fputc('/', writer->out);
    for (uint32_t i = first; n_items > 0; i = writer->tree->nodes[i].next, n_items--)
        write_regex(writer, i);
    fputc('/', writer->out);
}

static void write_group(struct writer *writer, uint32_t id)
{
    const struct gbnf_node *node = &writer->tree->nodes[id];
    fputc('(', writer->out);
    if (node->is_plain)
        write_plain(writer, id, 1);
    else if (node->kind == GBNF_CHOICE)
        write_choice(writer, id);
    else
        write_item(writer, id);
    fputc(')', writer->out);
}

/* Items from first that are plain, or, in a rule, regular: they make one terminal. */
static uint32_t count_run(const struct writer *writer, uint32_t first, uint32_t n_items,
                          bool *is_plain_out)
{
    const struct gbnf_node *nodes = writer->tree->nodes;
    uint32_t n = 0;
    *is_plain_out = true;
    for (uint32_t i = first; n < n_items; i = nodes[i].next, n++) {
        if (!(writer->is_terminal ? nodes[i].is_plain : nodes[i].is_regular))
            break;
        *is_plain_out &= nodes[i].is_plain;
    }
    return n;
}

static void write_run(struct writer *writer, uint32_t first, uint32_t n_items, bool is_plain)
{
    if (is_plain) {
        write_plain(writer, first, n_items);
    } else if (n_items == 1 && writer->tree->nodes[first].kind == GBNF_REFERENCE) {
        write_item(writer, first);
    } else {
        fprintf(writer->out, "X%u", writer->n_extras);
        writer->extras[writer->n_extras++] = (struct extra){first, n_items};
    }
}

static void write_items(struct writer *writer, uint32_t first, uint32_t n_items)
{
    if (n_items == 0)
        fputs("\"\"", writer->out);
    for (uint32_t i = first; n_items > 0;) {
        bool is_plain;
        uint32_t n = count_run(writer, i, n_items, &is_plain);
        if (n)
            write_run(writer, i, n, is_plain);
        else
            write_item(writer, i);
        n_items -= n = n ? n : 1;
        for (; n > 0; n--)
            i = writer->tree->nodes[i].next;
        if (n_items)
            fputc(' ', writer->out);
    }
}

static uint32_t count_items(const struct gbnf_tree *tree, uint32_t first)
{
    uint32_t n = 0;
    for (uint32_t i = first; i != GBNF_NONE; i = tree->nodes[i].next)
        n++;
    return n;
}

static void write_choice(struct writer *writer, uint32_t choice)
{
    const struct gbnf_node *nodes = writer->tree->nodes;
    for (uint32_t i = nodes[choice].first; i != GBNF_NONE; i = nodes[i].next) {
        if (i != nodes[choice].first)
            fputs(" | ", writer->out);
        write_items(writer, nodes[i].first, count_items(writer->tree, nodes[i].first));
    }
}

/* Which items of a sequence are not the rule itself. Returns how many; all of them: it ends no loop. */
static uint32_t count_others(const struct gbnf_tree *tree, uint32_t rule, uint32_t sequence,
                             uint32_t *first_out)
{
    const struct gbnf_node *nodes = tree->nodes;
    const uint32_t first = nodes[sequence].first;
    const uint32_t n = count_items(tree, first);
    uint32_t end = first;
    for (uint32_t i = 1; i < n; i++)
        end = nodes[end].next;
    if (tree->rules[rule].loop == GBNF_LOOP_FIRST)
        end = first;
    *first_out = first;
    if (n == 0 || nodes[end].kind != GBNF_REFERENCE || nodes[end].rule != rule)
        return n;
    if (end == first)
        *first_out = nodes[first].next;
    return n - 1;
}

/* The sequences with the rule itself, without it; or those without it. */
static void write_part(struct writer *writer, uint32_t rule, bool is_loop)
{
    const struct gbnf_tree *tree = writer->tree;
    bool is_first = true;
    fputc('(', writer->out);
    for (uint32_t i = tree->nodes[tree->rules[rule].body].first; i != GBNF_NONE;
         i = tree->nodes[i].next) {
        uint32_t first;
        const uint32_t n = count_others(tree, rule, i, &first);
        if ((n < count_items(tree, tree->nodes[i].first)) != is_loop)
            continue;
        fputs(is_first ? "" : " | ", writer->out);
        write_items(writer, first, n);
        is_first = false;
    }
    fputs(is_loop ? ")*" : ")", writer->out);
}

static void write_rule(struct writer *writer, uint32_t id)
{
    const struct gbnf_rule *rule = &writer->tree->rules[id];
    writer->is_terminal = rule->is_regular;
    fprintf(writer->out, rule->is_regular ? "T%u: " : "r%u: ", id);
    if (rule->is_regular && rule->loop != GBNF_LOOP_NONE) {
        write_part(writer, id, rule->loop == GBNF_LOOP_LAST);
        fputc(' ', writer->out);
        write_part(writer, id, rule->loop == GBNF_LOOP_FIRST);
    } else {
        write_choice(writer, rule->body);
    }
    fputc('\n', writer->out);
}

static void write_grammar(struct writer *writer)
{
    const struct gbnf_tree *tree = writer->tree;
    fprintf(writer->out, tree->rules[tree->root].is_regular ? "start: T%u\n" : "start: r%u\n",
            tree->root);
    for (uint32_t i = 0; i < tree->n_rules; i++)
        write_rule(writer, i);
    writer->is_terminal = true;
    for (uint32_t i = 0; i < writer->n_extras; i++) {
        fprintf(writer->out, "X%u: ", i);
        write_items(writer, writer->extras[i].first, writer->extras[i].n_items);
        fputc('\n', writer->out);
    }
}

static enum status write_tree(const struct gbnf_tree *tree, char **lark_out)
{
    struct writer writer = {.tree = tree};
    char *lark = NULL;
    size_t n_lark = 0;
    writer.extras = calloc((size_t)tree->n_nodes + 1, sizeof *writer.extras);
    writer.out = writer.extras ? open_memstream(&lark, &n_lark) : NULL;
    bool is_good = writer.out;
    if (is_good) {
        write_grammar(&writer);
        is_good = !ferror(writer.out);
        is_good &= fclose(writer.out) == 0;
    }
    free(writer.extras);
    if (!is_good) {
        free(lark);
        return STATUS_NO_MEMORY;
    }
    *lark_out = lark;
    return STATUS_OK;
}

bool gbnf_is_here(const char *text, size_t n_bytes)
{
    const uint32_t n = n_bytes < UINT32_MAX ? (uint32_t)n_bytes : 0;
    const uint32_t name = gbnf_skip_blank(text, n, 0);
    const uint32_t end = gbnf_skip_name(text, n, name);
    const uint32_t next = gbnf_skip_blank(text, n, end);
    return end > name && n - next >= 3 && memcmp(text + next, "::=", 3) == 0;
}

enum status gbnf_to_lark(const char *text, size_t n_bytes, struct error *error, char **lark_out)
{
    struct gbnf_tree tree;
    assert(n_bytes < UINT32_MAX);
    enum status status = gbnf_tree_init(&tree, text, (uint32_t)n_bytes, error);
    if (status == STATUS_OK)
        status = write_tree(&tree, lark_out);
    gbnf_tree_finish(&tree);
    return status;
}
