/* What constraint.h says of constraint_check: also in builds without the Rust library. */
#include "base/utf8.h"
#include "text/constraint/constraint.h"
#include "text/constraint/gbnf.h"
#include "text/constraint/lark_check.h"
#include "text/constraint/regex_weight.h"
#include "text/constraint/schema_check.h"

#include <stdlib.h>
#include <string.h>

static enum status check_bytes(const struct constraint_bytes *text, struct error *error)
{
    if (text->n_bytes == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "it is empty");
    const size_t invalid = utf8_first_invalid(text->bytes, text->n_bytes);
    if (invalid < text->n_bytes)
        return error_set(error, STATUS_INVALID_ARGUMENT, "no UTF-8 at byte %zu", invalid);
    const char *nul = memchr(text->bytes, 0, text->n_bytes);
    if (nul)
        return error_set(error, STATUS_INVALID_ARGUMENT, "U+0000 at byte %zu",
                         (size_t)(nul - text->bytes));
    return STATUS_OK;
}

/* row: the configuration's that sets the bound. */
static enum status check_length(size_t n_bytes, size_t bytes_max, const char *row,
                                struct error *error)
{
    if (n_bytes > bytes_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "it has %zu bytes; at most %zu are taken (%s)", n_bytes, bytes_max, row);
    return STATUS_OK;
}

static enum status check_choices(const struct constraint_text *text,
                                 const struct constraint_limits *limits, struct error *error)
{
    size_t n_bytes = 0;
    if (text->n_choices == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "there is no choice");
    if (text->n_choices > limits->choices_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "there are %u choices; at most %u are taken (constraint_choices_max)",
                         text->n_choices, limits->choices_max);
    for (uint32_t i = 0; i < text->n_choices; i++)
        n_bytes += text->choices[i].n_bytes;
    TRY(check_length(n_bytes, limits->bytes_max, "constraint_bytes_max", error));
    for (uint32_t i = 0; i < text->n_choices; i++) {
        struct error why = {0};
        if (check_bytes(&text->choices[i], &why) != STATUS_OK)
            return error_set(error, STATUS_INVALID_ARGUMENT, "choice %u: %s", i, why.text);
    }
    return STATUS_OK;
}

/* The library would leave out a backslash that nothing follows. */
static enum status check_regex(const struct constraint_bytes *regex, struct error *error)
{
    size_t n = 0;
    while (n < regex->n_bytes && regex->bytes[regex->n_bytes - 1 - n] == '\\')
        n++;
    if (n % 2)
        return error_set(error, STATUS_INVALID_ARGUMENT, "it ends in a backslash");
    if (regex_weight(regex->bytes, regex->n_bytes) > REGEX_WEIGHT_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "more than %d parts of it may be empty",
                         REGEX_WEIGHT_MAX);
    return STATUS_OK;
}

static enum status check_gbnf(const struct constraint_bytes *grammar, struct error *error)
{
    char *lark = NULL;
    struct error why = {0};
    enum status status = gbnf_to_lark(grammar->bytes, grammar->n_bytes, error, &lark);
    if (status == STATUS_OK)
        status = lark_check(lark, strlen(lark), &why);
    if (status == STATUS_INVALID_ARGUMENT && lark) /* the line is not the caller's */
        status = error_set(error, status,
                           "it is too large: more than %d parts of what becomes one regex may be "
                           "empty, or its rules refer to one another in too long a chain",
                           REGEX_WEIGHT_MAX);
    free(lark);
    return status;
}

enum status constraint_check(const struct constraint_text *text,
                             const struct constraint_limits *limits, struct error *error)
{
    switch (text->kind) {
    case CONSTRAINT_JSON_OBJECT:
        return STATUS_OK;
    case CONSTRAINT_CHOICE:
        return check_choices(text, limits, error);
    case CONSTRAINT_JSON_SCHEMA:
    case CONSTRAINT_REGEX:
    case CONSTRAINT_GRAMMAR:
        break;
    default:
        return error_set(error, STATUS_INVALID_ARGUMENT, "unknown kind %d", (int)text->kind);
    }
    TRY(check_length(text->text.n_bytes, limits->bytes_max, "constraint_bytes_max", error));
    if (text->kind != CONSTRAINT_JSON_SCHEMA)
        TRY(check_length(text->text.n_bytes, limits->grammar_bytes_max,
                         "constraint_grammar_bytes_max", error));
    TRY(check_bytes(&text->text, error));
    if (text->kind == CONSTRAINT_JSON_SCHEMA)
        return schema_check(text->text.bytes, text->text.n_bytes, error);
    if (text->kind == CONSTRAINT_REGEX)
        return check_regex(&text->text, error);
    if (gbnf_is_here(text->text.bytes, text->text.n_bytes))
        return check_gbnf(&text->text, error);
    return lark_check(text->text.bytes, text->text.n_bytes, error);
}
