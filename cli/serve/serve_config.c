#include "cli/serve/serve_config.h"

#include "ctx_worker/ctx_config.h"
#include "gen_worker/gen_config.h"
#include "router/router_config.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

typedef struct serve_config config_self_;
static const struct config_row OWN_ROWS[] = {SERVE_CONFIG(CONFIG_ROW_)};
static const struct config_alias ALIASES[] = {WORKER_ALIASES(CONFIG_ALIAS_){NULL, NULL}};

static const struct config_alias NO_ALIASES[] = {{NULL, NULL}};

#define N_OWN_ROWS (sizeof OWN_ROWS / sizeof *OWN_ROWS)

static const struct config_table *(*const ROLES[])(void) = {gen_config_table, ctx_config_table,
                                                            router_config_table};

static bool is_one_of(const char *const *keys, const char *key)
{
    for (; *keys; keys++)
        if (strcmp(*keys, key) == 0)
            return true;
    return false;
}

bool serve_decides(const char *key)
{
    static const char *const KEYS[] = {
        "name",               /* HOST-ROLE-N: each child needs its own name */
        "generation_workers", /* the started ones, ... */
        "context_workers",
        "resolve_ms",       /* ... by address: there are no names to look up */
        "kv_sharers",       /* their number */
        "kv_disk_part",     /* each has its own */
        "cluster_key_fd",   /* the key of cluster_key, or a drawn one */
        "peer_certificate", /* a certificate names one role; these processes use the key, on */
        "peer_key",         /* a loopback */
        "peer_ca",
        "cluster_name",
        NULL,
    };
    return is_one_of(KEYS, key);
}

/* Adds each row of role that the table does not have yet. */
static uint32_t inherit(const struct config_table *role, struct config_row *rows, uint32_t n_rows)
{
    for (uint32_t i = 0; i < role->n_rows; i++) {
        const struct config_row *row = &role->rows[i];
        const struct config_table so_far = {rows, n_rows, NO_ALIASES, 0};
        if (serve_decides(row->key) || config_find_row(&so_far, row->key, strlen(row->key)))
            continue;
        assert(n_rows < CONFIG_ROWS_MAX);
        rows[n_rows] = *row;
        rows[n_rows].offset = offsetof(struct serve_config, inherited[n_rows]);
        n_rows++;
    }
    return n_rows;
}

const struct config_table *serve_config_table(void)
{
    static struct config_row rows[CONFIG_ROWS_MAX];
    static struct config_table table = {rows, 0, ALIASES, sizeof(struct serve_config)};
    if (table.n_rows > 0)
        return &table;
    memcpy(rows, OWN_ROWS, sizeof OWN_ROWS);
    uint32_t n_rows = N_OWN_ROWS;
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++)
        n_rows = inherit(ROLES[i](), rows, n_rows);
    table.n_rows = n_rows;
    return &table;
}

bool serve_hands_on(const struct config_row *row, const struct config_table *role, bool is_router)
{
    /* Only serve's, whatever the roles' rows of that name mean. */
    static const char *const OWN[] = {"ports_file", "parent_pid", "dry_run", NULL};
    /* Workers are on ports that serve chooses, and stop after the router, when no client needs to be told
     * first: so they need no delay. */
    static const char *const ROUTERS[] = {"control_address",   "health_address", "metrics_address",
                                          "advertise_address", "drain_delay_ms", NULL};
    return config_find_row(role, row->key, strlen(row->key)) && !is_one_of(OWN, row->key) &&
           (is_router || !is_one_of(ROUTERS, row->key));
}

static const void *member(const struct config_row *row, const struct serve_config *values)
{
    assert(row->offset < sizeof *values);
    return (const char *)values + row->offset;
}

/* The n-th word of "a|b|c". */
static void format_word(const char *words, uint32_t n, char value_out[SERVE_VALUE_MAX])
{
    for (; n > 0; n--) {
        const char *bar = strchr(words, '|');
        assert(bar);
        words = bar + 1;
    }
    snprintf(value_out, SERVE_VALUE_MAX, "%.*s", (int)strcspn(words, "|"), words);
}

const struct config_list *serve_row_list(const struct config_row *row,
                                         const struct serve_config *values)
{
    assert(row->type == CONFIG_LIST);
    return member(row, values);
}

const char *serve_row_format(const struct config_row *row, const struct serve_config *values,
                             char buffer[SERVE_VALUE_MAX])
{
    const void *at = member(row, values);
    switch (row->type) {
    case CONFIG_BOOL:
        return *(const bool *)at ? "yes" : "no";
    case CONFIG_STRING:
    case CONFIG_SECRET:
        return *(const char *const *)at;
    case CONFIG_U32:
        snprintf(buffer, SERVE_VALUE_MAX, "%" PRIu32, *(const uint32_t *)at);
        break;
    case CONFIG_U64:
    case CONFIG_SIZE:
        snprintf(buffer, SERVE_VALUE_MAX, "%" PRIu64, *(const uint64_t *)at);
        break;
    case CONFIG_DURATION_MS:
        snprintf(buffer, SERVE_VALUE_MAX, "%" PRIu64 "ms", *(const uint64_t *)at);
        break;
    case CONFIG_F64:
        snprintf(buffer, SERVE_VALUE_MAX, "%.17g", *(const double *)at);
        break;
    case CONFIG_LIST:
        assert(false && "serve_row_list has it");
        return "";
    case CONFIG_WORD: {
        unsigned n;
        memcpy(&n, at, sizeof n);
        format_word(row->words, n, buffer);
        break;
    }
    }
    return buffer;
}
