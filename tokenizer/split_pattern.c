/*
 * One matcher serves every pattern of a call, since a match is read from it before the next one is
 * looked for. It has room for one pair of offsets: groups do not matter here.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tokenizer/split_pattern.h"

#include "base/utf8.h"
#include "tokenizer/field.h"
#include "tokenizer/onig_syntax.h"

#include <assert.h>
#include <ctype.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* A step of real patterns over a megabyte is far below these; a pattern that explodes ends in
 * about a second. */
#define MATCH_LIMIT     20000000u
#define HEAP_LIMIT_KIB  (64u * 1024)
#define PARENTHESES_MAX 64

struct split_pattern {
    pcre2_code *code;
};

struct split_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
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
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset,
                              context);
    pcre2_compile_context_free(context);
    if (*code_out)
        return STATUS_OK;
    PCRE2_UCHAR reason[128];
    pcre2_get_error_message(code, reason, sizeof reason);
    return error_set(error, STATUS_CORRUPT, "%s is no pattern: %s, about character %zu", where,
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
    (void)pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE);
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

enum status split_matcher_create(struct split_matcher **matcher_out)
{
    struct split_matcher *matcher = calloc(1, sizeof *matcher);
    if (!matcher)
        return STATUS_NO_MEMORY;
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    if (!matcher->data || !matcher->context) {
        split_matcher_destroy(matcher);
        return STATUS_NO_MEMORY;
    }
    pcre2_set_match_limit(matcher->context, MATCH_LIMIT);
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
    free(matcher);
}

static int match(const struct split_pattern *pattern, struct split_matcher *matcher,
                 const struct split_search *search)
{
    PCRE2_SPTR text = (PCRE2_SPTR)search->text;
    int n = pcre2_match(pattern->code, text, search->n_bytes, search->at, PCRE2_NO_UTF_CHECK,
                        matcher->data, matcher->context);
    /* The compiled code has the small stack of its own; the interpreter has the bounded heap. */
    if (n == PCRE2_ERROR_JIT_STACKLIMIT)
        n = pcre2_match(pattern->code, text, search->n_bytes, search->at,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher->data, matcher->context);
    return n;
}

enum status split_pattern_next(const struct split_pattern *pattern, struct split_matcher *matcher,
                               struct split_search *search, struct error *error, bool *found_out,
                               size_t range_out[2])
{
    assert(search->at <= search->n_bytes || search->is_over);
    *found_out = false;
    while (!search->is_over && search->at <= search->n_bytes) {
        int n = match(pattern, matcher, search);
        if (n == PCRE2_ERROR_NOMATCH) {
            search->is_over = true;
            break;
        }
        if (n == PCRE2_ERROR_NOMEMORY)
            return STATUS_NO_MEMORY;
        if (n < 0)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "text: a split pattern reaches its limit after byte %zu (PCRE2 %d)",
                             search->at, n);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(matcher->data);
        assert(range[0] <= range[1] && range[1] <= search->n_bytes);
        /* As Oniguruma's callers do: no empty match where the last one ended. */
        if (range[0] == range[1] && search->has_matched && search->last_end == range[1]) {
            uint32_t skipped;
            search->is_over = search->at >= search->n_bytes;
            if (!search->is_over)
                search->at += utf8_read(search->text + search->at, &skipped);
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
