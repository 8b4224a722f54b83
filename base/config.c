#include "base/config.h"

#include "base/config_value.h"
#include "base/config_yaml.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 80, RANGE_BYTES = 100 };

enum action { ACTION_RUN, ACTION_HELP, ACTION_PRINT, ACTION_CHECK };

struct setting {
    char *text;   /* owned; string members of the values point here */
    char *source; /* owned */
    uint32_t file_line;
};

struct config {
    const struct config_table *table;
    struct config_input input;
    const void *values;
    enum action action;
    const char *file;                             /* of YAML; borrowed, NULL without one */
    const char *flags[CONFIG_ROWS_MAX];           /* each row's last flag value, borrowed */
    char flag_names[CONFIG_ROWS_MAX][NAME_BYTES]; /* and as it was spelt */
    struct setting settings[CONFIG_ROWS_MAX];
    const char **positionals;
    uint32_t n_positionals;
};

/* ---- names ---- */

static bool is_same_key(const char *text, size_t length, const char *key)
{
    if (strlen(key) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] != key[i] && !(text[i] == '-' && key[i] == '_'))
            return false;
    return true;
}

static const struct config_row *find_row(const struct config_table *table, const char *name,
                                         size_t length)
{
    for (uint32_t i = 0; i < table->n_rows; i++)
        if (is_same_key(name, length, table->rows[i].key))
            return &table->rows[i];
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        if (strlen(alias->flag) == length && strncmp(name, alias->flag, length) == 0)
            return find_row(table, alias->key, strlen(alias->key));
    return NULL;
}

static void variable_name(const char *key, char name[NAME_BYTES])
{
    int n = snprintf(name, NAME_BYTES, "KVFERRY_%s", key);
    assert(n > 0 && n < NAME_BYTES);
    for (char *c = name; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

static void flag_name(const char *key, char name[NAME_BYTES])
{
    int n = snprintf(name, NAME_BYTES, "--%s", key);
    assert(n > 0 && n < NAME_BYTES);
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
}

static const char *find_variable(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

static void assert_table(const struct config_table *table)
{
    static const char *const reserved[] = {"config", "help", "print_config", "check_config"};
    assert(table->n_rows <= CONFIG_ROWS_MAX);
    for (uint32_t i = 0; i < table->n_rows; i++) {
        const char *key = table->rows[i].key;
        assert(find_row(table, key, strlen(key)) == &table->rows[i]);
        for (unsigned r = 0; r < sizeof reserved / sizeof *reserved; r++)
            assert(strcmp(key, reserved[r]) != 0);
    }
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        assert(find_row(table, alias->key, strlen(alias->key)));
}

/* ---- setting a row ---- */

/* where begins the sentence about a bad value; source is what config_source will say. */
static enum status set(struct config *config, void *values, const struct config_row *row,
                       const char *text, const char *where, const char *source, struct error *error)
{
    struct setting *setting = &config->settings[row - config->table->rows];
    char *own_text = strdup(text), *own_source = strdup(source);
    enum status status = own_text && own_source
                             ? config_value_parse(row, own_text, values, where, error)
                             : STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        free(own_text);
        free(own_source);
        return status;
    }
    free(setting->text);
    free(setting->source);
    setting->text = own_text;
    setting->source = own_source;
    return STATUS_OK;
}

static enum status set_defaults(struct config *config, void *values)
{
    for (uint32_t i = 0; i < config->table->n_rows; i++) {
        const struct config_row *row = &config->table->rows[i];
        struct error error;
        enum status status = set(config, values, row, row->fallback, row->key, "default", &error);
        assert(status == STATUS_OK || status == STATUS_NO_MEMORY); /* a default its row refuses */
        TRY(status);
    }
    return STATUS_OK;
}

struct file_reading {
    struct config *config;
    void *values;
};

static enum status on_file_entry(void *arg, const char *key, const char *value, uint32_t line,
                                 struct error *error)
{
    struct file_reading *reading = arg;
    struct config *config = reading->config;
    char where[sizeof error->text], source[sizeof error->text];
    snprintf(source, sizeof source, "%s:%u", config->file, line);
    snprintf(where, sizeof where, "%.200s: %.80s", source, key);

    const struct config_row *row = find_row(config->table, key, strlen(key));
    if (!row)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: unknown key", where);
    uint32_t *first_line = &config->settings[row - config->table->rows].file_line;
    if (*first_line)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s: given before, in line %u", where,
                         *first_line);
    *first_line = line;
    return set(config, reading->values, row, value, where, source, error);
}

static enum status set_from_file(struct config *config, void *values, struct error *error)
{
    if (!config->file)
        config->file = find_variable(config->input.environment, "KVFERRY_CONFIG");
    if (!config->file || !*config->file)
        return STATUS_OK;
    struct file_reading reading = {config, values};
    return config_yaml_read(config->file, on_file_entry, &reading, error);
}

static enum status set_from_environment(struct config *config, void *values, struct error *error)
{
    for (uint32_t i = 0; i < config->table->n_rows; i++) {
        const struct config_row *row = &config->table->rows[i];
        char name[NAME_BYTES], source[NAME_BYTES + 16];
        variable_name(row->key, name);
        snprintf(source, sizeof source, "environment %s", name);

        const char *text = find_variable(config->input.environment, name);
        if (text)
            TRY(set(config, values, row, text, name, source, error));
    }
    return STATUS_OK;
}

static enum status set_from_flags(struct config *config, void *values, struct error *error)
{
    for (uint32_t i = 0; i < config->table->n_rows; i++) {
        char source[NAME_BYTES + 8];
        snprintf(source, sizeof source, "flag %s", config->flag_names[i]);
        if (config->flags[i])
            TRY(set(config, values, &config->table->rows[i], config->flags[i],
                    config->flag_names[i], source, error));
    }
    return STATUS_OK;
}

/* ---- the command line ---- */

struct flag {
    const char *name; /* behind the dashes */
    size_t name_length;
    const char *value; /* behind the =, NULL without one */
};

static struct flag split_flag(const char *argument)
{
    struct flag flag = {.name = argument + 2};
    const char *equals = strchr(flag.name, '=');
    flag.name_length = equals ? (size_t)(equals - flag.name) : strlen(flag.name);
    flag.value = equals ? equals + 1 : NULL;
    return flag;
}

static bool is_flag_named(const struct flag *flag, const char *key)
{
    return is_same_key(flag->name, flag->name_length, key);
}

/* --help, --print-config, --check-config. */
static bool take_action(struct config *config, const struct flag *flag)
{
    enum action action = is_flag_named(flag, "help")           ? ACTION_HELP
                         : is_flag_named(flag, "print_config") ? ACTION_PRINT
                         : is_flag_named(flag, "check_config") ? ACTION_CHECK
                                                               : ACTION_RUN;
    if (action != ACTION_RUN && config->action != ACTION_HELP)
        config->action = action;
    return action != ACTION_RUN;
}

/* The value of a flag that needs one: behind its =, or the next argument. */
static enum status take_value(const struct config *config, const struct flag *flag, int *at,
                              const char **value_out, struct error *error)
{
    const char *value = flag->value;
    if (!value && *at + 1 < config->input.argc &&
        strncmp(config->input.argv[*at + 1], "--", 2) != 0)
        value = config->input.argv[++*at];
    if (!value)
        return error_set(error, STATUS_INVALID_ARGUMENT, "--%.*s needs a value",
                         (int)flag->name_length, flag->name);
    *value_out = value;
    return STATUS_OK;
}

static const struct config_row *find_negated(const struct config_table *table,
                                             const struct flag *flag)
{
    if (flag->value || flag->name_length < 4 || strncmp(flag->name, "no-", 3) != 0)
        return NULL;
    const struct config_row *row = find_row(table, flag->name + 3, flag->name_length - 3);
    return row && row->type == CONFIG_BOOL ? row : NULL;
}

static enum status take_flag(struct config *config, int *at, struct error *error)
{
    struct flag flag = split_flag(config->input.argv[*at]);
    if (take_action(config, &flag))
        return STATUS_OK;
    if (is_flag_named(&flag, "config"))
        return take_value(config, &flag, at, &config->file, error);

    const char *value = "true";
    const struct config_row *row = find_row(config->table, flag.name, flag.name_length);
    if (!row) {
        row = find_negated(config->table, &flag);
        value = "false";
        if (!row)
            return error_set(error, STATUS_INVALID_ARGUMENT, "unknown flag --%.*s",
                             flag.name_length < 100 ? (int)flag.name_length : 100, flag.name);
    } else if (row->type != CONFIG_BOOL || flag.value) {
        TRY(take_value(config, &flag, at, &value, error));
    }

    size_t index = (size_t)(row - config->table->rows);
    config->flags[index] = value;
    snprintf(config->flag_names[index], NAME_BYTES, "--%.*s", (int)flag.name_length, flag.name);
    return STATUS_OK;
}

static enum status read_arguments(struct config *config, struct error *error)
{
    const struct config_input *input = &config->input;
    bool is_past_flags = false;
    for (int i = 0; i < input->argc; i++) {
        const char *argument = input->argv[i];
        if (is_past_flags || argument[0] != '-' || argument[1] == '\0') {
            config->positionals[config->n_positionals++] = argument;
        } else if (strcmp(argument, "--") == 0) {
            is_past_flags = true;
        } else if (strcmp(argument, "-h") == 0) {
            config->action = ACTION_HELP;
        } else if (argument[1] != '-') {
            return error_set(error, STATUS_INVALID_ARGUMENT, "unknown flag %.100s", argument);
        } else {
            TRY(take_flag(config, &i, error));
        }
    }
    if (config->n_positionals > 0 && !input->usage && config->action != ACTION_HELP)
        return error_set(error, STATUS_INVALID_ARGUMENT, "unexpected argument \"%.100s\"",
                         config->positionals[0]);
    return STATUS_OK;
}

/* ---- load ---- */

static enum status apply(struct config *config, void *values, struct error *error)
{
    TRY(read_arguments(config, error));
    TRY(set_defaults(config, values));
    if (config->action == ACTION_HELP)
        return STATUS_OK;
    TRY(set_from_file(config, values, error));
    TRY(set_from_environment(config, values, error));
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
    if (!config->positionals)
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
    }
    free(config->positionals);
    free(config);
}

/* ---- looking at it ---- */

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
    const struct config_row *row = find_row(config->table, key, strlen(key));
    assert(row);
    return config->settings[row - config->table->rows].source;
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

static void print_row_help(const struct config_row *row, FILE *out)
{
    char flag[NAME_BYTES], variable[NAME_BYTES], range[RANGE_BYTES];
    flag_name(row->key, flag);
    variable_name(row->key, variable);

    fprintf(out, "  %s", flag);
    if (row->type == CONFIG_WORD)
        fprintf(out, " %s", row->words);
    else if (row->type != CONFIG_BOOL)
        fprintf(out, " %s", *row->unit ? row->unit : "VALUE");
    fprintf(out, "\n        %s (", row->help);
    if (config_value_range(row, range, sizeof range))
        fprintf(out, "%s; ", range);
    if (*row->fallback)
        fprintf(out, "default %s; ", row->fallback);
    fprintf(out, "%s)\n", variable);
}

void config_print_help(const struct config_table *table, const struct config_input *input,
                       FILE *out)
{
    fprintf(out, "usage: %s [flags]%s%s\n\n", input->command, input->usage ? " " : "",
            input->usage ? input->usage : "");
    for (uint32_t i = 0; i < table->n_rows; i++)
        print_row_help(&table->rows[i], out);
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++) {
        char flag[NAME_BYTES];
        flag_name(alias->key, flag);
        fprintf(out, "  --%s\n        the same as %s\n", alias->flag, flag);
    }
    fputs("  --config FILE\n        YAML of the same keys (KVFERRY_CONFIG)\n"
          "  --print-config\n        print the effective values and where each came from\n"
          "  --check-config\n        only say whether the configuration is valid\n"
          "\nA flag comes before its environment variable, that before the file, that before the "
          "default.\n",
          out);
}

bool config_answer(const struct config *config, FILE *out)
{
    switch (config->action) {
    case ACTION_RUN:
        return false;
    case ACTION_HELP:
        config_print_help(config->table, &config->input, out);
        return true;
    case ACTION_PRINT:
        config_print(config, out);
        return true;
    case ACTION_CHECK:
        fputs("the configuration is valid\n", out);
        return true;
    }
    return false;
}
