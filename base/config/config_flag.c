#include "base/config/config_flag.h"

#include "base/config/config_environment.h"
#include "base/config/nearest.h"

#include <assert.h>
#include <string.h>

void config_flag_name(const char *key, char name_out[CONFIG_NAME_BYTES])
{
    int n = snprintf(name_out, CONFIG_NAME_BYTES, "--%s", key);
    assert(n > 0 && n < CONFIG_NAME_BYTES);
    for (char *c = name_out; *c; c++)
        if (*c == '_')
            *c = '-';
}

struct config_flag config_flag_split(const char *argument)
{
    assert(argument[0] == '-' && argument[1] != '\0');
    struct config_flag flag = {.name = argument + (argument[1] == '-' ? 2 : 1)};
    const char *equals = strchr(flag.name, '=');
    flag.name_length = equals ? (size_t)(equals - flag.name) : strlen(flag.name);
    flag.value = equals ? equals + 1 : NULL;
    return flag;
}

bool config_flag_is(const struct config_flag *flag, const char *key)
{
    return config_is_key(flag->name, flag->name_length, key);
}

static bool is_built_in_switch(const struct config_flag *flag)
{
    for (const struct config_built_in *at = CONFIG_BUILT_IN; at->flag; at++)
        if (!at->value && config_flag_is(flag, at->flag))
            return true;
    return false;
}

bool config_flag_is_switch(const struct config_table *table, const struct config_flag *flag)
{
    const struct config_row *row = config_find_row(table, flag->name, flag->name_length);
    return row ? row->type == CONFIG_BOOL : is_built_in_switch(flag);
}

bool config_flag_positive(const struct config_table *table, const struct config_flag *flag,
                          struct config_flag *positive_out)
{
    if (flag->name_length < 4 || strncmp(flag->name, "no-", 3) != 0)
        return false;
    const struct config_flag positive = {flag->name + 3, flag->name_length - 3, NULL};
    if (!config_flag_is_switch(table, &positive))
        return false;
    *positive_out = positive;
    return true;
}

enum status config_flag_unknown(const struct config_table *table, const struct config_flag *flag,
                                struct error *error)
{
    char text[NEAREST_BYTES_MAX + 2], hint[NEAREST_HINT_BYTES], name[CONFIG_NAME_BYTES] = "";
    snprintf(text, sizeof text, "%.*s", (int)(flag->name_length < 80 ? flag->name_length : 81),
             flag->name);
    bool is_negated = strncmp(text, "no-", 3) == 0;
    struct nearest nearest;
    nearest_init(&nearest, is_negated ? text + 3 : text);
    config_offer_rows(table, &nearest);
    for (const struct config_built_in *built_in = CONFIG_BUILT_IN; built_in->flag; built_in++)
        nearest_offer(&nearest, built_in->flag);
    const struct config_flag meant = {nearest.word, nearest.word ? strlen(nearest.word) : 0, NULL};
    if (is_negated && nearest.word && !config_flag_is_switch(table, &meant))
        nearest.word = NULL; /* --no-seed is never suggested: seed is no switch */
    if (nearest.word) {
        snprintf(name, sizeof name, "--%s%s", is_negated ? "no-" : "", nearest.word);
        for (char *c = name; *c; c++)
            *c = *c == '_' ? '-' : *c;
        nearest.word = name;
    }
    nearest_hint(&nearest, hint);
    return error_set(error, STATUS_INVALID_ARGUMENT, "unknown flag --%.*s%s",
                     flag->name_length < 100 ? (int)flag->name_length : 100, flag->name, hint);
}
