#include "text/constraint/gbnf_tree.h"

#include "base/utf8.h"
#include "text/constraint/gbnf_rules.h"

#include <stdlib.h>
#include <string.h>

#define NAME_SHOWN_MAX 64

struct parse {
    struct gbnf_tree *tree;
    struct error *error;
    uint32_t at;
    uint32_t depth;
};

/* ---- characters ---- */

static bool is_name(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_' || byte == '-';
}

uint32_t gbnf_skip_name(const char *text, uint32_t n_bytes, uint32_t at)
{
    while (at < n_bytes && is_name(text[at]))
        at++;
    return at;
}

uint32_t gbnf_skip_blank(const char *text, uint32_t n_bytes, uint32_t at)
{
    while (at < n_bytes) {
        if (text[at] == '#')
            while (at < n_bytes && text[at] != '\n')
                at++;
        else if (strchr(" \t\r\n", text[at]))
            at++;
        else
            break;
    }
    return at;
}

static int hex_value(char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    const char lower = (char)(byte | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* n_digits from at. Returns where the next character is; 0: they are not there, or are no character. */
static uint32_t read_hex(const char *text, uint32_t n_bytes, uint32_t at, uint32_t n_digits,
                         uint32_t *codepoint_out)
{
    uint32_t codepoint = 0;
    if (n_bytes - at < n_digits)
        return 0;
    for (uint32_t i = 0; i < n_digits; i++) {
        const int value = hex_value(text[at + i]);
        if (value < 0)
            return 0;
        codepoint = codepoint << 4 | (uint32_t)value;
    }
    if (codepoint > 0x10FFFF || (codepoint >= 0xD800 && codepoint <= 0xDFFF))
        return 0;
    *codepoint_out = codepoint;
    return at + n_digits;
}

uint32_t gbnf_read_character(const char *text, uint32_t n_bytes, uint32_t at,
                             uint32_t *codepoint_out)
{
    static const char NAMES[] = "nrtbfvae0", VALUES[] = "\n\r\t\b\f\v\a\x1b";
    if (text[at] != '\\')
        return at + (uint32_t)utf8_read(text + at, codepoint_out);
    if (++at == n_bytes)
        return 0;
    const char byte = text[at++];
    const char *name = byte ? strchr(NAMES, byte) : NULL;
    if (byte == 'x')
        return read_hex(text, n_bytes, at, 2, codepoint_out);
    if (byte == 'u')
        return read_hex(text, n_bytes, at, 4, codepoint_out);
    if (byte == 'U')
        return read_hex(text, n_bytes, at, 8, codepoint_out);
    if (!name && !strchr("\\\"'[]-^/?.", byte))
        return 0;
    *codepoint_out = name ? (uint8_t)VALUES[name - NAMES] : (uint8_t)byte;
    return at;
}

/* ---- nodes ---- */

static size_t line_of(const struct gbnf_tree *tree, uint32_t at)
{
    size_t line = 1;
    for (uint32_t i = 0; i < at && i < tree->n_bytes; i++)
        line += tree->text[i] == '\n';
    return line;
}

static enum status refuse(const struct parse *parse, uint32_t at, const char *what)
{
    return error_set(parse->error, STATUS_INVALID_ARGUMENT, "line %zu: %s",
                     line_of(parse->tree, at), what);
}

/* at: a name, or the text's end. */
static enum status refuse_name(const struct parse *parse, uint32_t at, const char *what)
{
    const struct gbnf_tree *tree = parse->tree;
    const uint32_t n_name = gbnf_skip_name(tree->text, tree->n_bytes, at) - at;
    return error_set(parse->error, STATUS_INVALID_ARGUMENT, "line %zu: %.*s%s", line_of(tree, at),
                     (int)(n_name < NAME_SHOWN_MAX ? n_name : NAME_SHOWN_MAX), tree->text + at,
                     what);
}

static enum status add_node(struct gbnf_tree *tree, const struct gbnf_node *node, uint32_t *id_out)
{
    if (tree->n_nodes == tree->nodes_max) {
        const uint32_t nodes_max = 2 * tree->nodes_max + 64;
        struct gbnf_node *nodes = realloc(tree->nodes, nodes_max * sizeof *nodes);
        if (!nodes)
            return STATUS_NO_MEMORY;
        tree->nodes = nodes;
        tree->nodes_max = nodes_max;
    }
    tree->nodes[tree->n_nodes] = *node;
    *id_out = tree->n_nodes++;
    return STATUS_OK;
}

static enum status add_rule(struct gbnf_tree *tree, const struct gbnf_rule *rule)
{
    if (tree->n_rules == tree->rules_max) {
        const uint32_t rules_max = 2 * tree->rules_max + 16;
        struct gbnf_rule *rules = realloc(tree->rules, rules_max * sizeof *rules);
        if (!rules)
            return STATUS_NO_MEMORY;
        tree->rules = rules;
        tree->rules_max = rules_max;
    }
    tree->rules[tree->n_rules++] = *rule;
    return STATUS_OK;
}

/* Nodes beside one another. */
struct row {
    uint32_t first, last;
};

static void append(struct gbnf_tree *tree, struct row *row, uint32_t id)
{
    if (row->first == GBNF_NONE)
        row->first = id;
    else
        tree->nodes[row->last].next = id;
    row->last = id;
}

/* ---- items ---- */

static char peek(const struct parse *parse)
{
    return parse->at < parse->tree->n_bytes ? parse->tree->text[parse->at] : 0;
}

static void skip_blank(struct parse *parse)
{
    parse->at = gbnf_skip_blank(parse->tree->text, parse->tree->n_bytes, parse->at);
}

static enum status parse_text(struct parse *parse, struct gbnf_node *node)
{
    const struct gbnf_tree *tree = parse->tree;
    const uint32_t begun = parse->at++;
    *node = (struct gbnf_node){.kind = GBNF_TEXT, .begin = parse->at};
    while (parse->at < tree->n_bytes && tree->text[parse->at] != '"') {
        uint32_t codepoint;
        if (tree->text[parse->at] == '\n')
            break;
        const uint32_t next = gbnf_read_character(tree->text, tree->n_bytes, parse->at, &codepoint);
        if (next == 0)
            return refuse(parse, parse->at, "an escape in a text that is none");
        parse->at = next;
    }
    if (peek(parse) != '"')
        return refuse(parse, begun, "a text without its second \"");
    node->end = parse->at++;
    return STATUS_OK;
}

/* One character of a class, or a range of them. */
static enum status parse_range(struct parse *parse)
{
    const struct gbnf_tree *tree = parse->tree;
    uint32_t low, high;
    const uint32_t begun = parse->at;
    parse->at = gbnf_read_character(tree->text, tree->n_bytes, parse->at, &low);
    if (parse->at == 0)
        return refuse(parse, begun, "an escape in a class that is none");
    if (peek(parse) != '-' || parse->at + 1 >= tree->n_bytes || tree->text[parse->at + 1] == ']')
        return STATUS_OK;
    parse->at = gbnf_read_character(tree->text, tree->n_bytes, parse->at + 1, &high);
    if (parse->at == 0)
        return refuse(parse, begun, "an escape in a class that is none");
    if (high < low)
        return refuse(parse, begun, "a range of a class that ends before it begins");
    return STATUS_OK;
}

static enum status parse_class(struct parse *parse, struct gbnf_node *node)
{
    const uint32_t begun = parse->at++;
    *node = (struct gbnf_node){.kind = GBNF_CLASS, .begin = parse->at};
    const bool is_not = peek(parse) == '^';
    parse->at += is_not;
    while (parse->at < parse->tree->n_bytes && peek(parse) != ']')
        TRY(parse_range(parse));
    if (peek(parse) != ']')
        return refuse(parse, begun, "a class without its ]");
    node->end = parse->at++;
    if (node->end == node->begin)
        return refuse(parse, begun, "a class of no character");
    if (is_not && node->end == node->begin + 1)
        node->kind = GBNF_ANY;
    return STATUS_OK;
}

static enum status parse_choice(struct parse *parse, uint32_t *id_out);

static enum status go_deeper(struct parse *parse)
{
    if (++parse->depth > GBNF_DEPTH_MAX)
        return refuse(parse, parse->at, "parentheses and repetitions too deep in one another");
    return STATUS_OK;
}

static enum status parse_group(struct parse *parse, uint32_t *id_out)
{
    const uint32_t begun = parse->at++;
    TRY(go_deeper(parse));
    if (peek(parse) == '=' || peek(parse) == '!')
        return refuse(parse, begun, "look-ahead cannot be used");
    TRY(parse_choice(parse, id_out));
    if (peek(parse) != ')')
        return refuse(parse, begun, "a ( without its )");
    parse->at++;
    parse->depth--;
    return STATUS_OK;
}

static enum status parse_atom(struct parse *parse, uint32_t *id_out)
{
    struct gbnf_node node = {0};
    const uint32_t begun = parse->at;
    const char byte = peek(parse);
    if (byte == '(')
        return parse_group(parse, id_out);
    if (byte == '"') {
        TRY(parse_text(parse, &node));
    } else if (byte == '[') {
        TRY(parse_class(parse, &node));
    } else if (byte == '.') {
        node = (struct gbnf_node){.kind = GBNF_ANY};
        parse->at++;
    } else if (is_name(byte)) {
        parse->at = gbnf_skip_name(parse->tree->text, parse->tree->n_bytes, begun);
        node = (struct gbnf_node){.kind = GBNF_REFERENCE, .begin = begun, .end = parse->at};
    } else if (byte == '<' || byte == '!') {
        return refuse(parse, begun, "special tokens (<...>) cannot be part of a reply");
    } else if (byte == '*' || byte == '+' || byte == '?' || byte == '{') {
        return refuse(parse, begun, "a repetition of nothing");
    } else {
        return refuse(parse, begun, "a text, a class, a rule's name or a group is expected");
    }
    node.first = node.next = GBNF_NONE;
    node.is_plain = node.kind != GBNF_REFERENCE;
    return add_node(parse->tree, &node, id_out);
}

static enum status parse_number(struct parse *parse, uint32_t *number_out)
{
    uint32_t number = 0;
    skip_blank(parse);
    const uint32_t begun = parse->at;
    while (peek(parse) >= '0' && peek(parse) <= '9' && number <= GBNF_TIMES_MAX)
        number = 10 * number + (uint32_t)(parse->tree->text[parse->at++] - '0');
    if (parse->at == begun)
        return refuse(parse, begun, "a number is expected in {...}");
    if (number > GBNF_TIMES_MAX)
        return refuse(parse, begun, "too many times in {...}");
    skip_blank(parse);
    *number_out = number;
    return STATUS_OK;
}

static enum status parse_times(struct parse *parse, struct gbnf_node *node)
{
    const uint32_t begun = parse->at++;
    skip_blank(parse);
    if (peek(parse) != ',')
        TRY(parse_number(parse, &node->n_from));
    node->n_to = node->n_from;
    if (peek(parse) == ',') {
        parse->at++;
        skip_blank(parse);
        node->n_to = GBNF_NO_LAST;
        if (peek(parse) != '}')
            TRY(parse_number(parse, &node->n_to));
    }
    if (peek(parse) != '}')
        return refuse(parse, begun, "a { without its }");
    parse->at++;
    if (node->n_to < node->n_from)
        return refuse(parse, begun, "{...} with fewer times at most than at least");
    return STATUS_OK;
}

/* Any number of * + ? {...} behind an item. */
static enum status parse_repeats(struct parse *parse, uint32_t *id)
{
    const uint32_t depth = parse->depth;
    for (;;) {
        const char byte = peek(parse);
        struct gbnf_node node = {.kind = GBNF_REPEAT,
                                 .first = *id,
                                 .next = GBNF_NONE,
                                 .n_from = byte == '+',
                                 .n_to = byte == '?' ? 1 : GBNF_NO_LAST,
                                 .is_plain = parse->tree->nodes[*id].is_plain};
        if (byte != '*' && byte != '+' && byte != '?' && byte != '{')
            break;
        TRY(go_deeper(parse));
        if (byte == '{')
            TRY(parse_times(parse, &node));
        else
            parse->at++;
        TRY(add_node(parse->tree, &node, id));
    }
    parse->depth = depth;
    return STATUS_OK;
}

/* ---- rules ---- */

/* A name and ::= */
static bool is_rule_here(const struct gbnf_tree *tree, uint32_t at)
{
    const uint32_t end = gbnf_skip_name(tree->text, tree->n_bytes, at);
    const uint32_t next = gbnf_skip_blank(tree->text, tree->n_bytes, end);
    return end > at && tree->n_bytes - next >= 3 && memcmp(tree->text + next, "::=", 3) == 0;
}

static enum status parse_sequence(struct parse *parse, uint32_t *id_out)
{
    struct row row = {GBNF_NONE, GBNF_NONE};
    bool is_plain = true;
    for (skip_blank(parse); peek(parse) && peek(parse) != '|' && peek(parse) != ')';
         skip_blank(parse)) {
        uint32_t id;
        if (is_name(peek(parse)) && is_rule_here(parse->tree, parse->at))
            break;
        TRY(parse_atom(parse, &id));
        TRY(parse_repeats(parse, &id));
        is_plain &= parse->tree->nodes[id].is_plain;
        append(parse->tree, &row, id);
    }
    return add_node(
        parse->tree,
        &(struct gbnf_node){
            .kind = GBNF_SEQUENCE, .first = row.first, .next = GBNF_NONE, .is_plain = is_plain},
        id_out);
}

static enum status parse_choice(struct parse *parse, uint32_t *id_out)
{
    struct row row = {GBNF_NONE, GBNF_NONE};
    bool is_plain = true, is_more = true;
    while (is_more) {
        uint32_t id;
        TRY(parse_sequence(parse, &id));
        is_plain &= parse->tree->nodes[id].is_plain;
        append(parse->tree, &row, id);
        is_more = peek(parse) == '|';
        parse->at += is_more;
    }
    return add_node(
        parse->tree,
        &(struct gbnf_node){
            .kind = GBNF_CHOICE, .first = row.first, .next = GBNF_NONE, .is_plain = is_plain},
        id_out);
}

static enum status parse_rule(struct parse *parse)
{
    struct gbnf_tree *tree = parse->tree;
    struct gbnf_rule rule = {.name = parse->at, .nodes = tree->n_nodes};
    if (!is_rule_here(tree, parse->at))
        return refuse(parse, parse->at, "a rule (name ::= ...) is expected");
    parse->at = gbnf_skip_name(tree->text, tree->n_bytes, parse->at);
    rule.n_name = parse->at - rule.name;
    skip_blank(parse);
    parse->at += 3;
    TRY(parse_choice(parse, &rule.body));
    if (peek(parse) == ')')
        return refuse(parse, parse->at, "a ) without its (");
    return add_rule(tree, &rule);
}

enum status gbnf_tree_init(struct gbnf_tree *tree, const char *text, uint32_t n_bytes,
                           struct error *error)
{
    *tree = (struct gbnf_tree){.text = text, .n_bytes = n_bytes};
    struct parse parse = {.tree = tree, .error = error};
    for (skip_blank(&parse); parse.at < n_bytes; skip_blank(&parse))
        TRY(parse_rule(&parse));
    uint32_t wrong = 0;
    const char *what = NULL;
    TRY(gbnf_rules_resolve(tree, &wrong, &what));
    return what ? refuse_name(&parse, wrong, what) : STATUS_OK;
}

void gbnf_tree_finish(struct gbnf_tree *tree)
{
    free(tree->nodes);
    free(tree->rules);
}
