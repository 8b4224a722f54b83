/* serve_config: serve has every row of its roles, and whatever it was given, a role that gets it as a flag reads
 * the same value. */
#include "cli/serve/serve_config.h"
#include "ctx_worker/ctx_config.h"
#include "gen_worker/gen_config.h"
#include "router/router_config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_MAX 4096

static void load(struct serve_config *values_out, struct config **config_out, int argc,
                 char *const *argv)
{
    static char *const NO_ENVIRONMENT[] = {NULL};
    struct error error = {0};
    const struct config_input input = {.command = "kvferry serve",
                                       .usage = "MODEL",
                                       .argc = argc,
                                       .argv = argv,
                                       .environment = NO_ENVIRONMENT};
    cr_assert_eq(config_load(serve_config_table(), &input, values_out, config_out, &error),
                 STATUS_OK, "%s", error.text);
}

static void format_flag(const struct config_row *row, const struct serve_config *values,
                        char flag_out[FLAG_MAX])
{
    char buffer[SERVE_VALUE_MAX];
    if (row->type == CONFIG_LIST) {
        const struct config_list *list = serve_row_list(row, values);
        snprintf(flag_out, FLAG_MAX, "--%s=%s", row->key, list->n > 0 ? list->texts[0] : "");
    } else {
        snprintf(flag_out, FLAG_MAX, "--%s=%s", row->key, serve_row_format(row, values, buffer));
    }
    for (char *at = flag_out; *at && *at != '='; at++)
        if (*at == '_')
            *at = '-';
}

/* Every row as text, the values being pointers or not. */
static void format_all(const struct serve_config *values, char (*flags_out)[FLAG_MAX])
{
    const struct config_table *table = serve_config_table();
    for (uint32_t i = 0; i < table->n_rows; i++)
        format_flag(&table->rows[i], values, flags_out[i]);
}

static void survives(int argc, char *const *argv)
{
    const struct config_table *table = serve_config_table();
    char(*flags)[FLAG_MAX] = calloc(2 * table->n_rows, sizeof *flags);
    char **again = calloc(table->n_rows + 1, sizeof *again);
    cr_assert(flags && again);
    struct serve_config values, other;
    struct config *config, *other_config;
    load(&values, &config, argc, argv);
    format_all(&values, flags);
    for (uint32_t i = 0; i < table->n_rows; i++)
        again[i] = flags[i];
    static char folder[] = "model";
    again[table->n_rows] = folder;
    load(&other, &other_config, (int)table->n_rows + 1, again);
    format_all(&other, flags + table->n_rows);
    for (uint32_t i = 0; i < table->n_rows; i++)
        cr_assert_str_eq(flags[table->n_rows + i], flags[i]);
    cr_assert_eq(other.drain_limit_ms, values.drain_limit_ms);
    cr_assert_eq(other.kv_transport, values.kv_transport);
    cr_assert_eq(other.log_level, values.log_level);
    config_destroy(other_config);
    config_destroy(config);
    free(again);
    free(flags);
}

Test(serve_config, values_survive_being_handed_on)
{
    char *const nothing[] = {"model"};
    survives(1, nothing);
    char *const given[] = {
        "model",
        "--kv-memory=3G",
        "--drain-limit-ms=90s",
        "--kv-transport=shm-read",
        "--kv-dtype=f16",
        "--no-prefix-cache",
        "--log-level=debug",
        "--served-model-name=a=b c",
        "--max-context-tokens=16777216",
        "--kv-unproven-max=5",
        "--kv-proof-ms=1.5s",
        "--pin",
        "--watchdog-ms=1m",
        "--capacity-policy=max-utilization",
        "--queue-limit-ms=7s",
        "--trace-ratio=0.125",
        "--adapter=name=folder",
    };
    survives(sizeof given / sizeof *given, given);
}

Test(serve_config, words_are_written_as_words)
{
    char *const given[] = {"model", "--kv-transport=shm-read", "--kv-dtype=bf16",
                           "--drain-limit-ms=2m"};
    static const struct {
        const char *key, *text;
    } EXPECTED[] = {
        {"kv_transport", "shm-read"}, {"kv_dtype", "bf16"}, {"drain_limit_ms", "120000ms"}};
    struct serve_config values;
    struct config *config;
    load(&values, &config, 4, given);
    const struct config_table *table = serve_config_table();
    uint32_t n_seen = 0;
    for (uint32_t i = 0; i < table->n_rows; i++)
        for (size_t e = 0; e < 3; e++) {
            if (strcmp(table->rows[i].key, EXPECTED[e].key) != 0)
                continue;
            char buffer[SERVE_VALUE_MAX];
            cr_assert_str_eq(serve_row_format(&table->rows[i], &values, buffer), EXPECTED[e].text);
            n_seen++;
        }
    cr_assert_eq(n_seen, 3);
    config_destroy(config);
}

static const struct config_row *find_row(const struct config_table *table, const char *key)
{
    for (uint32_t i = 0; i < table->n_rows; i++)
        if (strcmp(table->rows[i].key, key) == 0)
            return &table->rows[i];
    return NULL;
}

static const struct {
    const char *name;
    const struct config_table *(*table)(void);
} ROLES[] = {{"router", router_config_table},
             {"ctx-worker", ctx_config_table},
             {"gen-worker", gen_config_table}};

#define N_ROLES (sizeof ROLES / sizeof *ROLES)

static void expect_alike(const struct config_row *row, const struct config_row *theirs,
                         const char *whose)
{
    cr_expect_eq(row->type, theirs->type, "%s: its type is another one in %s", row->key, whose);
    cr_expect(row->min == theirs->min && row->max == theirs->max &&
                  row->f64_min == theirs->f64_min && row->f64_max == theirs->f64_max,
              "%s: its bounds are others in %s", row->key, whose);
    cr_expect_str_eq(row->words ? row->words : "", theirs->words ? theirs->words : "", "%s in %s",
                     row->key, whose);
    /* Behind serve is one machine, whose loopback may have the port; a router among others opens none unasked. */
    if (strcmp(row->key, "http_address") == 0)
        cr_expect(row->fallback[0] && !theirs->fallback[0]);
    else
        cr_expect_str_eq(row->fallback, theirs->fallback, "%s in %s", row->key, whose);
    cr_expect_str_eq(row->unit, theirs->unit, "%s in %s", row->key, whose);
}

/* One name, one meaning: else a value that serve takes is refused by a role, or means something else there. */
Test(serve_config, every_row_of_a_role_is_one_of_serve_or_decided_by_it)
{
    const struct config_table *table = serve_config_table();
    for (size_t r = 0; r < N_ROLES; r++) {
        const struct config_table *role = ROLES[r].table();
        for (uint32_t i = 0; i < role->n_rows; i++) {
            const struct config_row *theirs = &role->rows[i];
            const struct config_row *row = find_row(table, theirs->key);
            cr_expect_neq(row != NULL, serve_decides(theirs->key), "%s", theirs->key);
            if (row)
                expect_alike(row, theirs, ROLES[r].name);
        }
    }
}

Test(serve_config, a_row_that_is_handed_on_reaches_its_role)
{
    static const char *const OWN[] = {
        "n_context_workers", "n_generation_workers", "restart", "quiet",
        "ports_file",        "parent_pid",           "dry_run"};
    const struct config_table *table = serve_config_table();
    for (uint32_t i = 0; i < table->n_rows; i++) {
        const struct config_row *row = &table->rows[i];
        bool is_own = false;
        for (size_t o = 0; o < sizeof OWN / sizeof *OWN; o++)
            is_own |= strcmp(row->key, OWN[o]) == 0;
        uint32_t n_roles = 0;
        for (size_t r = 0; r < N_ROLES; r++)
            n_roles += serve_hands_on(row, ROLES[r].table(), r == 0);
        cr_expect_neq(is_own, n_roles > 0, "%s goes to %u roles", row->key, n_roles);
    }
}

/* Each member has a place of its own in the struct. */
Test(serve_config, no_two_rows_share_memory)
{
    const struct config_table *table = serve_config_table();
    for (uint32_t i = 0; i < table->n_rows; i++) {
        cr_expect_lt(table->rows[i].offset, table->values_bytes);
        for (uint32_t j = 0; j < i; j++)
            cr_expect_neq(table->rows[i].offset, table->rows[j].offset, "%s, %s",
                          table->rows[i].key, table->rows[j].key);
    }
}
