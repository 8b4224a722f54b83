#include "base/config/config.h"

#include "base/config/config_environment.h"
#include "base/config/config_parts.h"
#include "base/config/config_value.h"
#include "base/config/config_yaml.h"
#include "base/config/nearest.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void assert_table(const struct config_table *table)
{
    assert(table->n_rows <= CONFIG_ROWS_MAX);
    for (uint32_t i = 0; i < table->n_rows; i++) {
        const char *key = table->rows[i].key;
        assert(config_find_row(table, key, strlen(key)) == &table->rows[i]);
        for (const struct config_built_in *own = CONFIG_BUILT_IN; own->flag; own++)
            assert(!config_is_key(own->flag, strlen(own->flag), key));
    }
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        assert(config_find_row(table, alias->key, strlen(alias->key)));
}

/* ---- setting a row ---- */

static enum status set_source(struct setting *setting, const char *source)
{
    char *own = strdup(source);
    if (!own)
        return STATUS_NO_MEMORY;
    free(setting->source);
    setting->source = own;
    return STATUS_OK;
}

static struct setting *setting_of(struct config *config, const struct config_row *row)
{
    assert(row >= config->table->rows && row < config->table->rows + config->table->n_rows);
    return &config->settings[row - config->table->rows];
}

static void point_at_list(const struct config_row *row, void *values, const struct setting *setting)
{
    struct config_list *member = (struct config_list *)((char *)values + row->offset);
    member->texts = (const char *const *)setting->list;
    member->n = setting->n_list;
}

static enum status clear_list(struct config *config, void *values, const struct config_row *row,
                              const char *source)
{
    struct setting *setting = setting_of(config, row);
    while (setting->n_list > 0)
        free(setting->list[--setting->n_list]);
    if (!setting->list)
        setting->list = calloc(CONFIG_LIST_MAX, sizeof *setting->list);
    if (!setting->list)
        return STATUS_NO_MEMORY;
    point_at_list(row, values, setting);
    return set_source(setting, source);
}

static enum status add_to_list(struct config *config, void *values, const struct config_row *row,
                               const char *text, const char *where, struct error *error)
{
    struct setting *setting = setting_of(config, row);
    assert(setting->list); /* clear_list has allocated it */
    if (setting->n_list == CONFIG_LIST_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: more than %u texts", where,
                         CONFIG_LIST_MAX);
    char *own = strdup(text);
    if (!own)
        return STATUS_NO_MEMORY;
    setting->list[setting->n_list++] = own;
    point_at_list(row, values, setting);
    return STATUS_OK;
}

/* where: how the sentence about a bad value begins. source: what config_source returns later. A
 * list gets this one text, or no text for "". */
static enum status set(struct config *config, void *values, const struct config_row *row,
                       const char *text, const char *where, const char *source, struct error *error)
{
    struct setting *setting = setting_of(config, row);
    if (row->type == CONFIG_LIST) {
        TRY(clear_list(config, values, row, source));
        return *text ? add_to_list(config, values, row, text, where, error) : STATUS_OK;
    }
    char *own = strdup(text);
    enum status status = own ? config_value_parse(row, own, values, where, error)
                             : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = set_source(setting, source);
    if (status != STATUS_OK) {
        free(own);
        return status;
    }
    free(setting->text);
    setting->text = own;
    return STATUS_OK;
}

static enum status set_defaults(struct config *config, void *values)
{
    for (uint32_t i = 0; i < config->table->n_rows; i++) {
        const struct config_row *row = &config->table->rows[i];
        struct error error;
        enum status status = set(config, values, row, row->fallback, row->key, "default", &error);
        assert(status == STATUS_OK || status == STATUS_NO_MEMORY); /* the default is refused */
        TRY(status);
    }
    return STATUS_OK;
}

struct file_reading {
    struct config *config;
    void *values;
};

static enum status unknown_key(const struct config *config, const char *where, const char *key,
                               struct error *error)
{
    struct nearest nearest;
    char hint[NEAREST_HINT_BYTES];
    nearest_init(&nearest, key);
    config_offer_rows(config->table, &nearest);
    nearest_hint(&nearest, hint);
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s: unknown key%s", where, hint);
}

static bool is_neighbours(const struct config *config, const char *key)
{
    const struct config_table *const *table = config->input.neighbours;
    for (; table && *table; table++)
        if (config_find_row(*table, key, strlen(key)))
            return true;
    return false;
}

static void pass_over(struct config *config, const struct config_yaml_item *item, const char *where)
{
    bool is_told = config->action == ACTION_CHECK && item->kind != CONFIG_YAML_LIST_TEXT;
    if (is_told && config->n_warnings < WARNINGS_MAX)
        error_write(&config->warnings[config->n_warnings++],
                    "%s: ignored, it is for other commands", where);
}

static enum status on_file_entry(void *arg, const struct config_yaml_item *item,
                                 struct error *error)
{
    struct file_reading *reading = arg;
    struct config *config = reading->config;
    char where[sizeof error->text], source[sizeof error->text];
    snprintf(source, sizeof source, "%s:%u", config->file, item->line);
    snprintf(where, sizeof where, "%.200s: %.80s", source, item->key);

    const struct config_row *row = config_find_row(config->table, item->key, strlen(item->key));
    if (!row && is_neighbours(config, item->key)) {
        pass_over(config, item, where);
        return STATUS_OK;
    }
    if (!row)
        return unknown_key(config, where, item->key, error);
    if (item->kind == CONFIG_YAML_LIST_TEXT)
        return add_to_list(config, reading->values, row, item->text, where, error);
    uint32_t *first_line = &setting_of(config, row)->file_line;
    if (*first_line)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: already given in line %u", where,
                         *first_line);
    *first_line = item->line;
    if (item->kind == CONFIG_YAML_SCALAR)
        return set(config, reading->values, row, item->text, where, source, error);
    if (row->type != CONFIG_LIST)
        return error_set(error, STATUS_CORRUPT, "%s: expected a plain value, nothing nested",
                         where);
    return clear_list(config, reading->values, row, source);
}

static enum status set_from_file(struct config *config, void *values, struct error *error)
{
    if (!config->file)
        config->file = config_environment_find(config->input.environment, CONFIG_VARIABLE);
    if (!config->file || !*config->file)
        return STATUS_OK;
    struct file_reading reading = {config, values};
    return config_yaml_read(config->file, on_file_entry, &reading, error);
}

static enum status set_from_environment(struct config *config, void *values, struct error *error)
{
    for (uint32_t i = 0; i < config->table->n_rows; i++) {
        const struct config_row *row = &config->table->rows[i];
        char name[CONFIG_NAME_BYTES], source[CONFIG_NAME_BYTES + 16];
        config_variable_name(row->key, name);
        snprintf(source, sizeof source, "environment %s", name);

        const char *text = config_environment_find(config->input.environment, name);
        if (text)
            TRY(set(config, values, row, text, name, source, error));
    }
    return STATUS_OK;
}

static enum status judge_strictness(struct config *config, struct error *error)
{
    const char *strict = config_environment_find(config->input.environment, STRICT_VARIABLE);
    bool is_strict = false;
    if (strict && !config_value_is_bool(strict, &is_strict))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         STRICT_VARIABLE ": \"%.60s\" is not true or false", strict);
    if (!config->is_strictness_given)
        config->is_strict = is_strict;
    return STATUS_OK;
}

static enum status look_at_environment(struct config *config, struct error *error)
{
    TRY(judge_strictness(config, error));
    const struct config_input *input = &config->input;
    const char *unknown;
    for (size_t at = 0;
         (unknown = config_environment_unknown(input->environment, &at, input->program));) {
        struct error sentence;
        config_environment_describe(unknown, config->table, input->program, &sentence);
        if (config->is_strict)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s", sentence.text);
        if (config->n_warnings < WARNINGS_MAX)
            config->warnings[config->n_warnings++] = sentence;
    }
    return STATUS_OK;
}

static bool is_given_later(const struct config *config, uint32_t index)
{
    for (uint32_t i = index + 1; i < config->n_given; i++)
        if (config->given[i].row == config->given[index].row)
            return true;
    return false;
}

static bool is_given_before(const struct config *config, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++)
        if (config->given[i].row == config->given[index].row)
            return true;
    return false;
}

static enum status set_from_flags(struct config *config, void *values, struct error *error)
{
    for (uint32_t i = 0; i < config->n_given; i++) {
        const struct given *given = &config->given[i];
        char source[CONFIG_NAME_BYTES + 8];
        snprintf(source, sizeof source, "flag %s", given->name);
        bool is_list = given->row->type == CONFIG_LIST;
        if (is_list && !is_given_before(config, i))
            TRY(clear_list(config, values, given->row, source));
        if (is_list)
            TRY(add_to_list(config, values, given->row, given->value, given->name, error));
        else if (!is_given_later(config, i))
            TRY(set(config, values, given->row, given->value, given->name, source, error));
    }
    return STATUS_OK;
}

/* ---- load ---- */

static enum status apply(struct config *config, void *values, struct error *error)
{
    TRY(config_read_arguments(config, error));
    TRY(set_defaults(config, values));
    if (config->action == ACTION_HELP)
        return STATUS_OK;
    TRY(set_from_file(config, values, error));
    TRY(set_from_environment(config, values, error));
    TRY(look_at_environment(config, error));
    return set_from_flags(config, values, error);
}

enum status config_load(const struct config_table *table, const struct config_input *input,
                        void *values_out, struct config **config_out, struct error *error)
{
    assert_table(table);
    assert(input->command && input->argc >= 0);

    enum status status = STATUS_NO_MEMORY;
    struct config *config = calloc(1, sizeof *config);
    if (!config)
        goto fail;
    config->table = table;
    config->input = *input;
    config->values = values_out;
    config->positionals = calloc((size_t)input->argc + 1, sizeof *config->positionals);
    config->given = calloc((size_t)input->argc + 1, sizeof *config->given);
    if (!config->positionals || !config->given)
        goto fail;

    memset(values_out, 0, table->values_bytes);
    status = apply(config, values_out, error);
    if (status != STATUS_OK)
        goto fail;
    *config_out = config;
    return STATUS_OK;

fail:
    config_destroy(config);
    if (status == STATUS_NO_MEMORY)
        return error_set(error, status, "no memory for the configuration");
    return status;
}

void config_destroy(struct config *config)
{
    if (!config)
        return;
    for (uint32_t i = 0; i < config->table->n_rows; i++) {
        free(config->settings[i].text);
        free(config->settings[i].source);
        for (uint32_t t = 0; t < config->settings[i].n_list; t++)
            free(config->settings[i].list[t]);
        free(config->settings[i].list);
    }
    free(config->given);
    free(config->positionals);
    free(config);
}

/* ---- reading it ---- */

uint32_t config_n_positionals(const struct config *config)
{
    return config->n_positionals;
}

const char *config_positional(const struct config *config, uint32_t index)
{
    assert(index < config->n_positionals);
    return config->positionals[index];
}

const char *config_source(const struct config *config, const char *key)
{
    const struct config_row *row = config_find_row(config->table, key, strlen(key));
    assert(row);
    return config->settings[row - config->table->rows].source;
}

const char *config_file(const struct config *config)
{
    return config->file && *config->file ? config->file : NULL;
}

void config_print(const struct config *config, FILE *out)
{
    for (uint32_t i = 0; i < config->table->n_rows; i++) {
        const struct config_row *row = &config->table->rows[i];
        fprintf(out, "%s: ", row->key);
        config_value_print(row, config->values, out);
        fprintf(out, "  # %s\n", config->settings[i].source);
    }
}

bool config_answer(const struct config *config, FILE *out)
{
    switch (config->action) {
    case ACTION_RUN:
    case ACTION_CHECK:
        return false;
    case ACTION_HELP:
        config_print_help(config->table, &config->input, out);
        return true;
    case ACTION_PRINT:
        config_print(config, out);
        return true;
    }
    return false;
}

const char *config_warning(const struct config *config, uint32_t index)
{
    return index < config->n_warnings ? config->warnings[index].text : NULL;
}

void config_forget_environment(const struct config *config)
{
    config_environment_forget(config->table, config->input.program);
}

bool config_is_check(const struct config *config)
{
    return config->action == ACTION_CHECK;
}

int config_exit_status(enum status status)
{
    return status == STATUS_NO_MEMORY ? EXIT_FAILURE : CONFIG_EXIT_MISUSED;
}
