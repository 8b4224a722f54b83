#define PCRE2_CODE_UNIT_WIDTH 8
#include "model/adapter/module_pattern.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 100000u /* of a match; a name has some tens of bytes */

struct module_pattern {
    pcre2_code *code;
    pcre2_match_context *limits;
    const char *where; /* a literal */
};

static enum status compile(struct module_pattern *pattern, const char *text, struct error *error)
{
    int number;
    PCRE2_SIZE at;
    const uint32_t flags = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY |
                           PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C;
    pattern->limits = pcre2_match_context_create(NULL);
    if (!pattern->limits)
        return STATUS_NO_MEMORY;
    pcre2_set_match_limit(pattern->limits, STEPS_MAX);
    pcre2_set_depth_limit(pattern->limits, STEPS_MAX);
    pattern->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, flags, &number, &at,
                                  NULL);
    if (pattern->code)
        return STATUS_OK;
    PCRE2_UCHAR reason[100] = "";
    pcre2_get_error_message(number, reason, sizeof reason);
    return error_set(error, STATUS_CORRUPT,
                     "adapter_config.json: %s has \"%.80s\", which is no regular expression: %s",
                     pattern->where, text, (const char *)reason);
}

enum status module_pattern_create(const char *expression, enum module_pattern_place place,
                                  const char *where, struct error *error,
                                  struct module_pattern **pattern_out)
{
    char text[MODULE_PATTERN_BYTES_MAX + 16];
    if (strlen(expression) > MODULE_PATTERN_BYTES_MAX)
        return error_set(error, STATUS_CORRUPT,
                         "adapter_config.json: %s has an expression of %zu bytes, at most %u",
                         where, strlen(expression), MODULE_PATTERN_BYTES_MAX);
    struct module_pattern *pattern = calloc(1, sizeof *pattern);
    if (!pattern)
        return STATUS_NO_MEMORY;
    pattern->where = where;
    snprintf(text, sizeof text, place == MODULE_PATTERN_WHOLE ? "%s" : "(.*\\.)?(%s)$", expression);
    const enum status status = compile(pattern, text, error);
    if (status != STATUS_OK) {
        module_pattern_destroy(pattern);
        return status;
    }
    *pattern_out = pattern;
    return STATUS_OK;
}

void module_pattern_destroy(struct module_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    pcre2_match_context_free(pattern->limits);
    free(pattern);
}

enum status module_pattern_match(const struct module_pattern *pattern, const char *name,
                                 struct error *error, bool *matches_out)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!data)
        return STATUS_NO_MEMORY;
    const int found = pcre2_match(pattern->code, (PCRE2_SPTR)name, strlen(name), 0, 0, data,
                                  pattern->limits);
    pcre2_match_data_free(data);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        return error_set(error, STATUS_CORRUPT,
                         "adapter_config.json: %s has an expression that takes too many steps for "
                         "the name %.120s",
                         pattern->where, name);
    *matches_out = found >= 0;
    return STATUS_OK;
}
