/*
 * gbnf_tree - a grammar with ::= as a tree: what gbnf.c makes Lark of.
 *
 *     choice -> sequences -> items: text, class, any, reference, repeat -> item or choice
 *
 * A node comes after those below it. Bounds: the text's bytes, GBNF_DEPTH_MAX.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GBNF_DEPTH_MAX 24      /* of parentheses and repetitions in one another */
#define GBNF_TIMES_MAX 1000000 /* of {m,n} */

#define GBNF_NONE    UINT32_MAX
#define GBNF_NO_LAST UINT32_MAX /* {m,} */

enum gbnf_kind {
    GBNF_CHOICE,
    GBNF_SEQUENCE,
    GBNF_TEXT,  /* begin to end, without quotes */
    GBNF_CLASS, /* begin to end, without brackets */
    GBNF_ANY,
    GBNF_REFERENCE,
    GBNF_REPEAT
};

struct gbnf_node {
    enum gbnf_kind kind;
    uint32_t first;      /* below it */
    uint32_t next;       /* beside it */
    uint32_t begin, end; /* in the text; of a reference: its name */
    uint32_t n_from, n_to;
    uint32_t rule;   /* that it refers to */
    bool is_plain;   /* no reference in it */
    bool is_regular; /* no rule in it that refers to itself but as below */
};

enum gbnf_loop { GBNF_LOOP_NONE, GBNF_LOOP_LAST, GBNF_LOOP_FIRST };

struct gbnf_rule {
    uint32_t name, n_name; /* in the text */
    uint32_t body;         /* a choice */
    uint32_t nodes;        /* its first node: they end before body */
    enum gbnf_loop
        loop; /* refers to itself as the last, or the first, of sequences of its body, and nowhere else */
    bool is_regular;
};

struct gbnf_tree {
    const char *text; /* borrowed */
    uint32_t n_bytes;
    struct gbnf_node *nodes;
    uint32_t n_nodes, nodes_max;
    struct gbnf_rule *rules;
    uint32_t n_rules, rules_max;
    uint32_t root;
};

/* INVALID_ARGUMENT: error says what is wrong, and in which line. NO_MEMORY. Finish it also after a failure. */
MUST_CHECK enum status gbnf_tree_init(struct gbnf_tree *tree, const char *text, uint32_t n_bytes,
                                      struct error *error);
void gbnf_tree_finish(struct gbnf_tree *tree);

/* Past blanks and comments. */
uint32_t gbnf_skip_blank(const char *text, uint32_t n_bytes, uint32_t at);
uint32_t gbnf_skip_name(const char *text, uint32_t n_bytes, uint32_t at);

/* One character of a text or a class, which may be an escape. Returns where the next one is; 0: it is none. */
uint32_t gbnf_read_character(const char *text, uint32_t n_bytes, uint32_t at,
                             uint32_t *codepoint_out);
