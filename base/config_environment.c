#include "base/config_environment.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE_BYTES 128 /* of the name of one that is judged; more is cut */

const char *config_environment_find(char *const *environment, const char *name)
{
    size_t length = strlen(name);
    for (; environment && *environment; environment++)
        if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
            return *environment + length + 1;
    return NULL;
}

static void copy_name(const char *variable, char name_out[VARIABLE_BYTES])
{
    size_t length = strcspn(variable, "=");
    snprintf(name_out, VARIABLE_BYTES, "%.*s",
             (int)(length < VARIABLE_BYTES ? length : VARIABLE_BYTES - 1), variable);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Kubernetes gives a pod, for each Service called kvferry or kvferry-x: KVFERRY_SERVICE_HOST,
 * KVFERRY_X_SERVICE_PORT_GRPC, KVFERRY_PORT, KVFERRY_PORT_50051_TCP_ADDR. */
static bool is_service_link(const char *name)
{
    return strstr(name, "_SERVICE_PORT") || strstr(name, "_PORT_") || ends_with(name, "_PORT") ||
           ends_with(name, "_SERVICE_HOST");
}

static bool has_variable(const struct config_table *table, const char *name)
{
    for (uint32_t i = 0; i < table->n_rows; i++) {
        char own[CONFIG_NAME_BYTES];
        config_variable_name(table->rows[i].key, own);
        if (strcmp(name, own) == 0)
            return true;
    }
    return false;
}

/* Of config itself, beside the rows. */
static const char *const OWN_VARIABLES[] = {CONFIG_VARIABLE, STRICT_VARIABLE};
#define N_OWN_VARIABLES (sizeof OWN_VARIABLES / sizeof *OWN_VARIABLES)

static bool is_known(const struct config_program *program, const char *name)
{
    for (size_t i = 0; i < N_OWN_VARIABLES; i++)
        if (strcmp(name, OWN_VARIABLES[i]) == 0)
            return true;
    for (const char *const *variable = program->variables; *variable; variable++)
        if (strcmp(name, *variable) == 0)
            return true;
    for (const struct config_table *const *table = program->tables; *table; table++)
        if (has_variable(*table, name))
            return true;
    return is_service_link(name);
}

const char *config_environment_unknown(char *const **at_inout, const struct config_program *program)
{
    while (program && *at_inout && **at_inout) {
        const char *variable = *(*at_inout)++;
        char name[VARIABLE_BYTES];
        copy_name(variable, name);
        if (strncmp(name, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) == 0 &&
            !is_known(program, name))
            return variable;
    }
    return NULL;
}

/* Of the row with that key or alias, or of no row. */
static void name_meant(const struct config_program *program, const char *word,
                       char name_out[CONFIG_NAME_BYTES])
{
    const struct config_row *row = NULL;
    for (const struct config_table *const *table = program->tables; !row && *table; table++)
        row = config_find_row(*table, word, strlen(word));
    config_variable_name(row ? row->key : word, name_out);
}

void config_environment_describe(const char *variable, const struct config_table *own,
                                 const struct config_program *program, struct error *sentence_out)
{
    char name[VARIABLE_BYTES], meant[CONFIG_NAME_BYTES], hint[NEAREST_HINT_BYTES];
    struct nearest nearest;
    copy_name(variable, name);
    nearest_init(&nearest, name + strlen(ENVIRONMENT_PREFIX));
    config_offer_rows(own, &nearest);
    for (const struct config_table *const *table = program->tables; *table; table++)
        config_offer_rows(*table, &nearest);
    for (const char *const *known = program->variables; *known; known++)
        nearest_offer(&nearest, *known + strlen(ENVIRONMENT_PREFIX));
    for (size_t i = 0; i < N_OWN_VARIABLES; i++)
        nearest_offer(&nearest, OWN_VARIABLES[i] + strlen(ENVIRONMENT_PREFIX));
    if (nearest.word) {
        name_meant(program, nearest.word, meant);
        nearest.word = meant;
    }
    nearest_hint(&nearest, hint);
    error_write(sentence_out, "no command knows the variable %s%s", name, hint);
}

/* False: what has no value, and no name that could be unset, stays. */
static bool forget(const char *variable)
{
    size_t length = strcspn(variable, "=");
    char *name = variable[length] == '=' ? strndup(variable, length) : NULL;
    bool is_gone = name && unsetenv(name) == 0;
    free(name);
    return is_gone;
}

/* unsetenv moves what is behind: after each the search begins anew. */
void config_environment_forget(const struct config_table *own, const struct config_program *program)
{
    const char *unknown;
    for (size_t i = 0; i < N_OWN_VARIABLES; i++)
        (void)unsetenv(OWN_VARIABLES[i]);
    for (uint32_t i = 0; i < own->n_rows; i++) {
        char name[CONFIG_NAME_BYTES];
        config_variable_name(own->rows[i].key, name);
        (void)unsetenv(name);
    }
    for (char *const *at = environ; (unknown = config_environment_unknown(&at, program));)
        if (forget(unknown))
            at = environ;
}

bool config_is_key(const char *text, size_t length, const char *key)
{
    if (strlen(key) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] != key[i] && !(text[i] == '-' && key[i] == '_'))
            return false;
    return true;
}

const struct config_row *config_find_row(const struct config_table *table, const char *name,
                                         size_t length)
{
    for (uint32_t i = 0; i < table->n_rows; i++)
        if (config_is_key(name, length, table->rows[i].key))
            return &table->rows[i];
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        if (strlen(alias->flag) == length && strncmp(name, alias->flag, length) == 0)
            return config_find_row(table, alias->key, strlen(alias->key));
    return NULL;
}

void config_variable_name(const char *key, char name_out[CONFIG_NAME_BYTES])
{
    int n = snprintf(name_out, CONFIG_NAME_BYTES, ENVIRONMENT_PREFIX "%s", key);
    assert(n > 0 && n < CONFIG_NAME_BYTES);
    for (char *c = name_out; *c; c++)
        *c = (char)toupper((unsigned char)*c);
}

void config_flag_name(const char *key, char name_out[CONFIG_NAME_BYTES])
{
    int n = snprintf(name_out, CONFIG_NAME_BYTES, "--%s", key);
    assert(n > 0 && n < CONFIG_NAME_BYTES);
    for (char *c = name_out; *c; c++)
        if (*c == '_')
            *c = '-';
}

void config_offer_rows(const struct config_table *table, struct nearest *nearest)
{
    for (uint32_t i = 0; i < table->n_rows; i++)
        if (!table->rows[i].is_hidden)
            nearest_offer(nearest, table->rows[i].key);
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        nearest_offer(nearest, alias->flag);
}
