/*
 * One matcher serves every pattern of a call, since a match is read from it before the next one is
 * looked for. It has room for one pair of offsets: groups do not matter here.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/pattern/split_pattern.h"

#include "base/utf8.h"
#include "tokenizer/files/field.h"
#include "tokenizer/halt.h"
#include "tokenizer/pattern/onig_syntax.h"

#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* What a match has for nothing: it sees so much of the text, and may make so many steps. Where that
 * is too little it is tried again with more of either, which it pays. */
#define WINDOW_BYTES    64
#define STEPS_MIN       256u
#define STEPS_GROWTH    4
#define HEAP_LIMIT_KIB  (64u * 1024)
#define JIT_STACK_FIRST ((size_t)32 << 10)
#define JIT_STACK_MAX   ((size_t)64 << 20)
#define PARENTHESES_MAX 64

struct split_pattern {
    pcre2_code *code;
};

struct split_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack; /* NULL until the machine's own is too small */
    struct halt *halt;
    uint64_t budget;
    uint64_t spent;
};

static enum status compile(const char *text, size_t n_bytes, const char *where, struct error *error,
                           pcre2_code **code_out)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (!context)
        return STATUS_NO_MEMORY;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF); /* Oniguruma's dot is all but \n */
    pcre2_set_parens_nest_limit(context, PARENTHESES_MAX);

    int code;
    PCRE2_SIZE offset;
    *code_out = pcre2_compile((PCRE2_SPTR)text, n_bytes,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C |
                                  PCRE2_USE_OFFSET_LIMIT,
                              &code, &offset, context);
    pcre2_compile_context_free(context);
    if (*code_out)
        return STATUS_OK;
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(code, reason, sizeof reason);
    return error_set(error, STATUS_CORRUPT, "%s is not a pattern: %s, about character %zu", where,
                     (char *)reason, offset);
}

static enum status build(const char *text, size_t n_bytes, const char *where, struct error *error,
                         struct split_pattern **pattern_out)
{
    struct split_pattern *made = calloc(1, sizeof *made);
    if (!made)
        return STATUS_NO_MEMORY;
    enum status status = compile(text, n_bytes, where, error, &made->code);
    if (status != STATUS_OK) {
        split_pattern_destroy(made);
        return status;
    }
    /* Where there is no JIT the same code is interpreted. */
    (void)pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
    *pattern_out = made;
    return STATUS_OK;
}

static enum status refuse_long(size_t n_bytes, const char *where, struct error *error)
{
    return error_set(error, STATUS_UNSUPPORTED, "%s has %zu bytes, at most %d are supported", where,
                     n_bytes, SPLIT_PATTERN_BYTES_MAX);
}

enum status split_pattern_create(const char *pattern, size_t n_bytes, const char *where,
                                 struct error *error, struct split_pattern **pattern_out)
{
    char text[ONIG_SYNTAX_GROWTH * SPLIT_PATTERN_BYTES_MAX];
    size_t n_text;

    if (n_bytes > SPLIT_PATTERN_BYTES_MAX)
        return refuse_long(n_bytes, where, error);
    TRY(onig_syntax_translate(pattern, n_bytes, where, error, text, &n_text));

    return build(text, n_text, where, error, pattern_out);
}

enum status split_pattern_create_literal(const char *text, size_t n_bytes, const char *where,
                                         struct error *error, struct split_pattern **pattern_out)
{
    char quoted[2 * SPLIT_PATTERN_BYTES_MAX];
    size_t n_quoted = 0;

    if (n_bytes > SPLIT_PATTERN_BYTES_MAX)
        return refuse_long(n_bytes, where, error);
    for (size_t i = 0; i < n_bytes; i++) {
        if (ispunct((unsigned char)text[i]))
            quoted[n_quoted++] = '\\';
        quoted[n_quoted++] = text[i];
    }
    return build(quoted, n_quoted, where, error, pattern_out);
}

enum status split_pattern_read(const struct field *field, struct error *error,
                               struct split_pattern **pattern_out)
{
    struct field regex = field_member(field, "Regex");
    struct field string = field_member(field, "String");
    const char *text;
    size_t n_bytes;

    TRY(field_need_object(field, error));
    if (field_is_absent(&regex) && !field_is_absent(&string)) {
        TRY(field_text(&string, error, &text, &n_bytes));
        return split_pattern_create_literal(text, n_bytes, string.path, error, pattern_out);
    }
    TRY(field_text(&regex, error, &text, &n_bytes));
    return split_pattern_create(text, n_bytes, regex.path, error, pattern_out);
}

enum status split_pattern_create_native(const char *pattern, struct split_pattern **pattern_out)
{
    struct error error;
    enum status status = build(pattern, strlen(pattern), pattern, &error, pattern_out);
    assert(status == STATUS_OK || status == STATUS_NO_MEMORY);
    return status;
}

void split_pattern_destroy(struct split_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    free(pattern);
}

enum status split_matcher_create(size_t n_bytes, struct halt *halt,
                                 struct split_matcher **matcher_out)
{
    struct split_matcher *matcher = calloc(1, sizeof *matcher);
    if (!matcher)
        return STATUS_NO_MEMORY;
    matcher->halt = halt;
    matcher->budget = SPLIT_BUDGET_BASE + SPLIT_BUDGET_BYTE * (uint64_t)n_bytes;
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    if (!matcher->data || !matcher->context) {
        split_matcher_destroy(matcher);
        return STATUS_NO_MEMORY;
    }
    pcre2_set_heap_limit(matcher->context, HEAP_LIMIT_KIB);
    *matcher_out = matcher;
    return STATUS_OK;
}

void split_matcher_destroy(struct split_matcher *matcher)
{
    if (!matcher)
        return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    free(matcher);
}

uint64_t split_matcher_spent(const struct split_matcher *matcher)
{
    return matcher->spent;
}

static int match_once(const struct split_pattern *pattern, struct split_matcher *matcher,
                      const struct split_search *search, size_t end)
{
    uint32_t options = PCRE2_NO_UTF_CHECK | (end < search->n_bytes ? PCRE2_PARTIAL_HARD : 0);
    return pcre2_match(pattern->code, (PCRE2_SPTR)search->text, end, search->at, options,
                       matcher->data, matcher->context);
}

/* A match in the text up to end. */
static int match_within(const struct split_pattern *pattern, struct split_matcher *matcher,
                        const struct split_search *search, size_t end)
{
    int n = match_once(pattern, matcher, search, end);
    if (n != PCRE2_ERROR_JIT_STACKLIMIT || matcher->stack)
        return n;
    matcher->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, NULL);
    if (!matcher->stack)
        return PCRE2_ERROR_NOMEMORY;
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return match_once(pattern, matcher, search, end);
}

/* Where a window that begins at search->at ends: between two characters. */
static size_t window_end(const struct split_search *search, size_t window)
{
    if (window >= search->n_bytes - search->at)
        return search->n_bytes;
    size_t end = search->at + window;
    while (end < search->n_bytes && ((unsigned char)search->text[end] & 0xc0) == 0x80)
        end++;
    return end;
}

/* Whether the end of a window hides nothing of the answer. What looked at the end is PARTIAL, which
 * leaves what begins there. */
static bool begins_before(const struct split_matcher *matcher, size_t end)
{
    return pcre2_get_ovector_pointer(matcher->data)[0] < end;
}

/* Beyond what a match has for nothing, its steps are those that the text has left. */
static uint32_t steps_left(const struct split_matcher *matcher)
{
    uint64_t n = matcher->spent < matcher->budget ? matcher->budget - matcher->spent : 0;
    if (n < STEPS_MIN)
        return STEPS_MIN;
    return n < SPLIT_STEPS_MAX ? (uint32_t)n : SPLIT_STEPS_MAX;
}

/* The next place where a match may begin. */
static void step_over(struct split_search *search)
{
    uint32_t skipped;
    search->at += utf8_read(search->text + search->at, &skipped);
}

/*
 * PCRE2's limits hold for one place where a match may begin, and a match that is found may have looked to the end of
 * a run: a text of n characters then costs n * n. So a match sees a window of the text. A partial match has
 * reached the window's end: it is tried again with twice as much. Steps are paid before they are
 * allowed; when some had to be, the places where it may begin are tried one by one, each paying its own.
 * n_out as pcre2_match has it, and MATCHLIMIT when the budget is spent. CANCELLED.
 */
static enum status match(const struct split_pattern *pattern, struct split_matcher *matcher,
                         struct split_search *search, int *n_out)
{
    size_t window = WINDOW_BYTES;
    uint32_t steps = STEPS_MIN;
    bool is_single = false; /* it may begin at search->at alone */

    TRY(halt_look(matcher->halt));
    for (;;) {
        size_t end = window_end(search, window);
        pcre2_set_match_limit(matcher->context, steps);
        pcre2_set_offset_limit(matcher->context, is_single ? search->at : PCRE2_UNSET);
        *n_out = match_within(pattern, matcher, search, end);
        bool is_whole = end == search->n_bytes;
        uint32_t steps_max = steps_left(matcher);
        if (*n_out == PCRE2_ERROR_MATCHLIMIT && steps < steps_max) {
            steps = steps < steps_max / STEPS_GROWTH ? steps * STEPS_GROWTH : steps_max;
            matcher->spent += steps;
            is_single = true;
        } else if (*n_out == PCRE2_ERROR_PARTIAL) {
            assert(!is_whole);
            window *= 2;
            matcher->spent += window;
        } else if (is_single && *n_out == PCRE2_ERROR_NOMATCH && search->at < search->n_bytes) {
            step_over(search);
            steps = STEPS_MIN;
            window = WINDOW_BYTES;
        } else if (!is_whole && (*n_out == PCRE2_ERROR_NOMATCH ||
                                 (*n_out >= 0 && !begins_before(matcher, end)))) {
            search->at = end; /* nothing begins before it */
            window *= 2;
            TRY(halt_ask(matcher->halt));
            continue; /* no byte is looked at again */
        } else {
            return STATUS_OK;
        }
        TRY(halt_ask(matcher->halt));
        if (matcher->spent > matcher->budget) {
            *n_out = PCRE2_ERROR_MATCHLIMIT;
            return STATUS_OK;
        }
    }
}

enum status split_pattern_next(const struct split_pattern *pattern, struct split_matcher *matcher,
                               struct split_search *search, struct error *error, bool *found_out,
                               size_t range_out[2])
{
    assert(search->at <= search->n_bytes || search->is_over);
    *found_out = false;
    while (!search->is_over && search->at <= search->n_bytes) {
        int n;
        TRY(match(pattern, matcher, search, &n));
        if (n == PCRE2_ERROR_NOMATCH) {
            search->is_over = true;
            break;
        }
        if (n == PCRE2_ERROR_NOMEMORY)
            return STATUS_NO_MEMORY;
        if (n < 0)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "text: a split pattern reaches its limit after byte %zu (PCRE2 %d): "
                             "it spent %" PRIu64 " steps of %" PRIu64 ", which grow with the text",
                             search->at, n, matcher->spent, matcher->budget);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(matcher->data);
        assert(range[0] <= range[1] && range[1] <= search->n_bytes);
        /* As Oniguruma's callers do: no empty match where the last one ended. */
        if (range[0] == range[1] && search->has_matched && search->last_end == range[1]) {
            search->is_over = search->at >= search->n_bytes;
            if (!search->is_over)
                step_over(search);
            continue;
        }
        search->at = range[1];
        search->last_end = range[1];
        search->has_matched = true;
        range_out[0] = range[0];
        range_out[1] = range[1];
        *found_out = true;
        return STATUS_OK;
    }
    return STATUS_OK;
}
