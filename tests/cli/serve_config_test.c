/* serve_config: whatever serve was given, a role that gets it as a flag reads the same value. */
#include "cli/serve_config.h"
#include "ctx_worker/ctx_config.h"
#include "gen_worker/gen_config.h"
#include "router/router_config.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_MAX (SERVE_VALUE_MAX + 64)

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
    char value[SERVE_VALUE_MAX];
    serve_row_format(row, values, value);
    snprintf(flag_out, FLAG_MAX, "--%s=%s", row->key, value);
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
    cr_assert_eq(other.kv_memory, values.kv_memory);
    cr_assert_eq(other.drain_limit_ms, values.drain_limit_ms);
    cr_assert_eq(other.kv_transport, values.kv_transport);
    cr_assert_eq(other.kv_dtype, values.kv_dtype);
    cr_assert_eq(other.prefix_cache, values.prefix_cache);
    cr_assert_eq(other.log_level, values.log_level);
    cr_assert_str_eq(other.served_model_name, values.served_model_name);
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
            char text[SERVE_VALUE_MAX];
            serve_row_format(&table->rows[i], &values, text);
            cr_assert_str_eq(text, EXPECTED[e].text);
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

/* A row that no role has would be a flag without effect; one of another type would be dropped. */
Test(serve_config, every_row_has_a_use)
{
    const struct config_table *const roles[] = {router_config_table(), ctx_config_table(),
                                                gen_config_table()};
    static const char *const OWN[] = {"n_context_workers", "n_generation_workers", "quiet",
                                      "ports_file", "parent_pid"};
    const struct config_table *table = serve_config_table();
    for (uint32_t i = 0; i < table->n_rows; i++) {
        const struct config_row *row = &table->rows[i];
        bool is_used = false;
        for (size_t o = 0; o < sizeof OWN / sizeof *OWN; o++)
            is_used |= strcmp(row->key, OWN[o]) == 0;
        for (size_t r = 0; !is_used && r < 3; r++) {
            const struct config_row *theirs = find_row(roles[r], row->key);
            is_used |= theirs && theirs->type == row->type;
        }
        cr_assert(is_used, "%s goes nowhere", row->key);
    }
}
