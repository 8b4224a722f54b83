#include "cli/serve_config.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

CONFIG_DEFINE(serve_config, SERVE_CONFIG, WORKER_ALIASES)

bool serve_row_is_own(const char *key)
{
    return strcmp(key, "ports_file") == 0 || strcmp(key, "dry_run") == 0 ||
           strcmp(key, "parent_pid") == 0;
}

static const void *member(const struct config_row *row, const struct serve_config *values)
{
    return (const char *)values + row->offset;
}

/* The n-th of "a|b|c". */
static void format_word(const char *words, uint32_t n, char value_out[SERVE_VALUE_MAX])
{
    for (; n > 0; n--)
        words = strchr(words, '|') + 1;
    snprintf(value_out, SERVE_VALUE_MAX, "%.*s", (int)strcspn(words, "|"), words);
}

void serve_row_format(const struct config_row *row, const struct serve_config *values,
                      char value_out[SERVE_VALUE_MAX])
{
    const void *at = member(row, values);
    switch (row->type) {
    case CONFIG_BOOL:
        snprintf(value_out, SERVE_VALUE_MAX, "%s", *(const bool *)at ? "yes" : "no");
        break;
    case CONFIG_U32:
        snprintf(value_out, SERVE_VALUE_MAX, "%" PRIu32, *(const uint32_t *)at);
        break;
    case CONFIG_U64:
    case CONFIG_SIZE:
        snprintf(value_out, SERVE_VALUE_MAX, "%" PRIu64, *(const uint64_t *)at);
        break;
    case CONFIG_DURATION_MS:
        snprintf(value_out, SERVE_VALUE_MAX, "%" PRIu64 "ms", *(const uint64_t *)at);
        break;
    case CONFIG_F64:
        snprintf(value_out, SERVE_VALUE_MAX, "%.17g", *(const double *)at);
        break;
    case CONFIG_STRING:
    case CONFIG_SECRET:
        snprintf(value_out, SERVE_VALUE_MAX, "%s", *(const char *const *)at);
        break;
    case CONFIG_LIST:
        assert(false && "serve has none");
        break;
    case CONFIG_WORD: {
        unsigned n;
        memcpy(&n, at, sizeof n);
        format_word(row->words, n, value_out);
        break;
    }
    }
}
