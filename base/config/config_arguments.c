/* config_arguments - reads the command line of a process: flags and positional arguments. */
#include "base/config/config_flag.h"
#include "base/config/config_parts.h"
#include "base/config/config_value.h"

#include <assert.h>
#include <string.h>

/* --help, --print-config, --check-config, --strict-environment: the switches without a row. */
static void set_built_in(struct config *config, const struct config_flag *flag, bool is_on)
{
    enum action action = config_flag_is(flag, "help")           ? ACTION_HELP
                         : config_flag_is(flag, "print_config") ? ACTION_PRINT
                         : config_flag_is(flag, "check_config") ? ACTION_CHECK
                                                                : ACTION_RUN;
    if (action == ACTION_RUN) {
        config->is_strict = is_on;
        config->is_strictness_given = true;
    } else if (is_on && config->action != ACTION_HELP) {
        config->action = action;
    } else if (!is_on && config->action == action) {
        config->action = ACTION_RUN;
    }
}

/* What it begins with: -n is an alias. */
static const char *dashes(const struct config_flag *flag)
{
    return flag->name_length == 1 ? "-" : "--";
}

/* The value of a flag that needs one: the text after its =, or the next argument. */
static enum status take_value(const struct config *config, const struct config_flag *flag, int *at,
                              const char **value_out, struct error *error)
{
    const char *value = flag->value;
    if (!value && *at + 1 < config->input.argc &&
        strncmp(config->input.argv[*at + 1], "--", 2) != 0)
        value = config->input.argv[++*at];
    if (!value)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s%.*s needs a value", dashes(flag),
                         (int)flag->name_length, flag->name);
    *value_out = value;
    return STATUS_OK;
}

/* A word after a switch is a positional argument. Whether the user meant it as a value is judged
 * after all arguments are read. */
static void notice_word_after_bool(struct config *config, int at)
{
    bool ignored;
    const char *const next = at + 1 < config->input.argc ? config->input.argv[at + 1] : "";
    if (!config_value_is_bool(next, &ignored) || config->word_after_bool)
        return;
    config->word_after_bool = next;
    config->bool_before_it = config->input.argv[at];
}

static void give(struct config *config, const struct config_row *row,
                 const struct config_flag *flag, const char *value)
{
    assert(config->n_given < (uint32_t)config->input.argc);
    struct given *given = &config->given[config->n_given++];
    *given = (struct given){.row = row, .value = value};
    snprintf(given->name, sizeof given->name, "%s%.*s", dashes(flag), (int)flag->name_length,
             flag->name);
}

/* --x, --no-x or --x=yes, where x may be a row or not. */
static enum status take_switch(struct config *config, const struct config_flag *flag, int at,
                               struct error *error)
{
    struct config_flag named = *flag;
    bool is_off = config_flag_positive(config->table, flag, &named), is_on = !is_off;
    if (is_off && flag->value)
        return error_set(error, STATUS_INVALID_ARGUMENT, "--%.*s takes no value",
                         (int)flag->name_length, flag->name);
    if (!flag->value)
        notice_word_after_bool(config, at);
    const struct config_row *row = config_find_row(config->table, named.name, named.name_length);
    if (row)
        give(config, row, flag, flag->value ? flag->value : is_on ? "true" : "false");
    else if (flag->value && !config_value_is_bool(flag->value, &is_on))
        return error_set(error, STATUS_INVALID_ARGUMENT, "--%.*s: \"%.60s\" is not true or false",
                         (int)flag->name_length, flag->name, flag->value);
    else
        set_built_in(config, &named, is_on);
    return STATUS_OK;
}

static enum status take_flag(struct config *config, int *at, struct error *error)
{
    struct config_flag flag = config_flag_split(config->input.argv[*at]), positive;
    if (config_flag_is(&flag, "config"))
        return take_value(config, &flag, at, &config->file, error);
    if (config_flag_is_switch(config->table, &flag) ||
        config_flag_positive(config->table, &flag, &positive))
        return take_switch(config, &flag, *at, error);
    const struct config_row *row = config_find_row(config->table, flag.name, flag.name_length);
    if (!row)
        return config_flag_unknown(config->table, &flag, error);
    const char *value;
    TRY(take_value(config, &flag, at, &value, error));
    give(config, row, &flag, value);
    return STATUS_OK;
}

static enum status refuse_word_after_bool(const struct config *config, struct error *error)
{
    const char *flag = config->bool_before_it, *word = config->word_after_bool;
    if (strncmp(flag, "--no-", 5) == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%.60s takes no separate value: leave \"%s\" out", flag, word);
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "%.60s takes no separate value: write %.60s=%s, not %.60s %s", flag, flag,
                     word, flag, word);
}

/* "[TEXT]": no argument or one. "MODEL": exactly one. */
static enum status check_positionals(const struct config *config, struct error *error)
{
    const char *usage = config->input.usage;
    uint32_t n = config->n_positionals, n_max = usage ? 1 : 0;
    for (const char *at = usage; at && (at = strchr(at, ' ')); at++)
        n_max++;
    bool is_needed = usage && usage[0] != '[';
    if (config->word_after_bool && (n > n_max || is_needed))
        return refuse_word_after_bool(config, error);
    if (n > n_max && usage)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "unexpected argument \"%.100s\" after %s \"%.100s\" (put an argument with "
                         "spaces in quotes)",
                         config->positionals[n_max], usage, config->positionals[n_max - 1]);
    if (n > n_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "unexpected argument \"%.100s\"",
                         config->positionals[0]);
    if (n == 0 && is_needed && config->action != ACTION_PRINT)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is missing: see --help", usage);
    return STATUS_OK;
}

/* -n and -n=3, where n is an alias. */
static bool is_short(const struct config_table *table, const char *argument)
{
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        if (alias->flag[0] == argument[1] && !alias->flag[1])
            return argument[2] == '\0' || argument[2] == '=';
    return false;
}

enum status config_read_arguments(struct config *config, struct error *error)
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
        } else if (argument[1] != '-' && !is_short(config->table, argument)) {
            return error_set(error, STATUS_INVALID_ARGUMENT, "unknown flag %.100s", argument);
        } else {
            TRY(take_flag(config, &i, error));
        }
    }
    return config->action == ACTION_HELP ? STATUS_OK : check_positionals(config, error);
}
