/*
 * gbnf - grammars with ::= (GBNF of llama.cpp, EBNF of xgrammar) as Lark, which llguidance reads.
 *
 *     root ::= "a" item* | [^x-z] .  # a comment
 *     item ::= ("," root){1,3} | "\u00e4"?
 *
 * A rule ends where the next one begins, whatever lines there are. Its name has letters, digits, _ and -. After * + ? {m} {m,} {m,n}
 * more of them may come.
 * Not read: look-ahead (=...), special tokens <...>, tags; what no text has.
 *
 * What does not refer to itself becomes one regex, and so does a rule that does so only at its end or its beginning. Between two such
 * pieces of other rules, the longest one that fits is taken: a few texts that the grammar has may then not come.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Begins with a rule as above. */
bool gbnf_is_here(const char *text, size_t n_bytes);

/* text: UTF-8. lark_out: NUL-terminated, the caller's own (free).
 * INVALID_ARGUMENT: error says what is wrong, and in which line. NO_MEMORY. */
MUST_CHECK enum status gbnf_to_lark(const char *text, size_t n_bytes, struct error *error,
                                    char **lark_out);
