/*
 * split_pattern - a split pattern of tokenizer.json, compiled.
 *
 * The file's patterns are written for Oniguruma (Ruby syntax); PCRE2 is what runs them. They agree
 * on what real tokenizers use, once \s is spelled out: PCRE2 counts U+180E as a space. So a pattern
 * is read piece by piece, and a construct that is not known to mean the same is refused by name.
 *
 * Known: text, . \r \n \t \f \v \\ \s \S \d \D \p{..} \P{..} \xHH \x{H..}, escaped punctuation,
 * classes without nesting, (..) (?:..) (?i:..) (?=..) (?!..) (?<=..) (?<!..), |, * + ? {n,m},
 * lazy and possessive forms of the first three. Within (?i: text is plain ASCII.
 *
 * Bounds: the pattern's length and nesting. What a pattern spends on a text is bounded by the text's
 * length, and one match by what is left of that (below). Steps are counted at groups, and behind each repeat
 * is put one for that: a repeat of one character is one step, however many it takes.
 * Thread: immutable once compiled; a split_matcher belongs to one call.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPLIT_PATTERN_BYTES_MAX 4096

/* What all matches of a text may spend together beyond what each has for nothing: a unit is a byte
 * that was looked at or a step of PCRE2's, about two nanoseconds; so a short text has some tens of
 * milliseconds. Published patterns spend up to 14 a byte on runs of one character, and nothing on prose. */
#define SPLIT_BUDGET_BASE ((uint64_t)1 << 24)
#define SPLIT_BUDGET_BYTE 128
/* PCRE2's steps of one match, of those that its text has left: what they may be in a text of 16 MiB
 * that is one run of spaces. */
#define SPLIT_STEPS_MAX 20000000u

struct field;
struct halt;
struct split_pattern;
struct split_matcher;

/* where names the field in sentences. CORRUPT: no pattern. UNSUPPORTED: see above. */
MUST_CHECK enum status split_pattern_create(const char *pattern, size_t n_bytes, const char *where,
                                            struct error *error,
                                            struct split_pattern **pattern_out);
/* The text stands for itself. */
MUST_CHECK enum status split_pattern_create_literal(const char *text, size_t n_bytes,
                                                    const char *where, struct error *error,
                                                    struct split_pattern **pattern_out);
/* {"Regex": ..} or {"String": ..}, as tokenizer.json has them. */
MUST_CHECK enum status split_pattern_read(const struct field *field, struct error *error,
                                          struct split_pattern **pattern_out);
/* A pattern of our own, in PCRE2's syntax. */
MUST_CHECK enum status split_pattern_create_native(const char *pattern,
                                                   struct split_pattern **pattern_out);
/* NULL is fine. */
void split_pattern_destroy(struct split_pattern *pattern);

/* Room for matching, for any pattern, and the budget of a text of n_bytes. halt is borrowed. */
MUST_CHECK enum status split_matcher_create(size_t n_bytes, struct halt *halt,
                                            struct split_matcher **matcher_out);
void split_matcher_destroy(struct split_matcher *matcher);
/* Of the budget, so far. */
uint64_t split_matcher_spent(const struct split_matcher *matcher);

/* Text to search in, and how far the search is. Set the first two members, the rest zero. */
struct split_search {
    const char *text; /* UTF-8, valid */
    size_t n_bytes;
    size_t at;
    size_t last_end;
    bool has_matched;
    bool is_over;
};

/* The next match: found_out false when there is none any more.
 * INVALID_ARGUMENT: the text is beyond what the pattern may spend on it. CANCELLED: halt says so. */
MUST_CHECK enum status split_pattern_next(const struct split_pattern *pattern,
                                          struct split_matcher *matcher,
                                          struct split_search *search, struct error *error,
                                          bool *found_out, size_t range_out[2]);
