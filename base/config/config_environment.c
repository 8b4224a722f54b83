#include "base/config/config_environment.h"

#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE_BYTES 128 /* for the name of an unknown variable; a longer name is cut */

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

static bool is_set(char *const *environment, const char *prefix, int length, const char *end)
{
    char name[VARIABLE_BYTES];
    snprintf(name, sizeof name, "%.*s%s", length, prefix, end);
    return config_environment_find(environment, name) != NULL;
}

/* How the name of a service link may end, after the name of its Service. */
static bool is_link_end(const char *end)
{
    static const char HOST[] = "_SERVICE_HOST", SERVICE[] = "_SERVICE_PORT", PORT[] = "_PORT";
    if (strcmp(end, HOST) == 0 || strcmp(end, SERVICE) == 0 || strcmp(end, PORT) == 0)
        return true;
    if (strncmp(end, SERVICE, strlen(SERVICE)) == 0)
        return end[strlen(SERVICE)] == '_';
    return strncmp(end, PORT, strlen(PORT)) == 0 && end[strlen(PORT)] == '_' &&
           isdigit((unsigned char)end[strlen(PORT) + 1]);
}

/* Kubernetes gives a pod a set of variables for each Service called kvferry or kvferry-x:
 * KVFERRY_X_SERVICE_HOST and KVFERRY_X_PORT, KVFERRY_X_SERVICE_PORT, KVFERRY_X_SERVICE_PORT_GRPC,
 * KVFERRY_X_PORT_50051_TCP_ADDR. KVFERRY_METRICS_PORT without the others of a set is a user's
 * mistake. */
static bool is_service_link(char *const *environment, const char *name)
{
    for (const char *end = strchr(name, '_'); end; end = strchr(end + 1, '_')) {
        int length = (int)(end - name);
        if (is_link_end(end) && is_set(environment, name, length, "_SERVICE_HOST") &&
            is_set(environment, name, length, "_PORT"))
            return true;
    }
    return false;
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

/* The variables of config itself, which are not rows. */
static const char *const OWN_VARIABLES[] = {CONFIG_VARIABLE, STRICT_VARIABLE};
#define N_OWN_VARIABLES (sizeof OWN_VARIABLES / sizeof *OWN_VARIABLES)

static bool is_known(char *const *environment, const struct config_program *program,
                     const char *name)
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
    return is_service_link(environment, name);
}

const char *config_environment_unknown(char *const *environment, size_t *at_inout,
                                       const struct config_program *program)
{
    while (program && environment && environment[*at_inout]) {
        const char *variable = environment[(*at_inout)++];
        char name[VARIABLE_BYTES];
        copy_name(variable, name);
        if (strncmp(name, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) == 0 &&
            !is_known(environment, program, name))
            return variable;
    }
    return NULL;
}

/* Writes the name of the variable of the row with this key or alias, or of a switch without a row. */
static void name_meant(const struct config_program *program, const char *word,
                       char name_out[CONFIG_NAME_BYTES])
{
    const struct config_row *row = NULL;
    for (const struct config_table *const *table = program->tables; !row && *table; table++)
        row = config_find_row(*table, word, strlen(word));
    config_variable_name(row ? row->key : word, name_out);
}

static void offer_all(const struct config_table *own, const struct config_program *program,
                      struct nearest *nearest)
{
    config_offer_rows(own, nearest);
    for (const struct config_table *const *table = program->tables; *table; table++)
        config_offer_rows(*table, nearest);
    for (const char *const *known = program->variables; *known; known++)
        nearest_offer(nearest, *known + strlen(ENVIRONMENT_PREFIX));
    for (size_t i = 0; i < N_OWN_VARIABLES; i++)
        nearest_offer(nearest, OWN_VARIABLES[i] + strlen(ENVIRONMENT_PREFIX));
}

/* Other programs use X_PORT and X_HOST where kvferry has a row x_address. False: the name has another
 * ending. */
static bool as_address(const char *word, char word_out[VARIABLE_BYTES])
{
    static const char *const ENDS[] = {"_PORT", "_HOST"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++)
        if (text_ends_with(word, ENDS[i])) {
            int length = (int)(strlen(word) - strlen(ENDS[i]));
            snprintf(word_out, VARIABLE_BYTES, "%.*s_ADDRESS", length, word);
            return true;
        }
    return false;
}

void config_environment_describe(const char *variable, const struct config_table *own,
                                 const struct config_program *program, struct error *sentence_out)
{
    assert(program && strncmp(variable, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) == 0);
    char name[VARIABLE_BYTES], address[VARIABLE_BYTES], meant[CONFIG_NAME_BYTES];
    char hint[NEAREST_HINT_BYTES];
    struct nearest nearest;
    copy_name(variable, name);
    const char *word = name + strlen(ENVIRONMENT_PREFIX);
    bool has_address = as_address(word, address);
    nearest_init(&nearest, has_address ? address : word);
    offer_all(own, program, &nearest);
    if (has_address && nearest.distance > 0) {
        nearest_init(&nearest, word);
        offer_all(own, program, &nearest);
    }
    if (nearest.word) {
        name_meant(program, nearest.word, meant);
        nearest.word = meant;
    }
    nearest_hint(&nearest, hint);
    error_write(sentence_out, "no command knows the variable %s%s", name, hint);
}

/* False: an entry without "=", which has no name to unset, stays. */
static bool forget(const char *variable)
{
    size_t length = strcspn(variable, "=");
    char *name = variable[length] == '=' ? strndup(variable, length) : NULL;
    bool is_gone = name && unsetenv(name) == 0;
    free(name);
    return is_gone;
}

/* unsetenv moves the entries after it, so the search starts again after each. */
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
    for (size_t at = 0; (unknown = config_environment_unknown(environ, &at, program));)
        if (forget(unknown))
            at = 0;
}

/* Whether c separates two words. */
static bool is_joint(char c)
{
    return c == '-' || c == '_';
}

bool config_is_key(const char *text, size_t length, const char *key)
{
    if (strlen(key) != length)
        return false;
    for (size_t i = 0; i < length; i++)
        if (text[i] != key[i] && !(is_joint(text[i]) && is_joint(key[i])))
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

void config_offer_rows(const struct config_table *table, struct nearest *nearest)
{
    for (uint32_t i = 0; i < table->n_rows; i++)
        if (!table->rows[i].is_hidden)
            nearest_offer(nearest, table->rows[i].key);
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++)
        nearest_offer(nearest, alias->flag);
}
