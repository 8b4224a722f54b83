/*
 * token - makes a bearer token: prints the token once to standard output, and its entry for the router's tokens
 * file to standard error.
 *
 *     kvf_ and 64 hex digits: 32 random bytes
 *
 * The file has its SHA-256. A slow hash, as for passwords, would not help: 256 random bits cannot be guessed.
 */
#include "base/random.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "cli/command.h"
#include "cli/token_config.h"
#include "router/admission/tenant_file.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_PREFIX "kvf_"
#define TOKEN_TEXT   (sizeof TOKEN_PREFIX - 1 + SHA256_TEXT)

CONFIG_DEFINE(token_config, TOKEN_CONFIG, CONFIG_NO_ALIASES)

#define N_VALUES 7

struct value {
    const char *key, *text;
};

static void list_values(const struct token_config *values, struct value values_out[N_VALUES])
{
    values_out[0] = (struct value){"requests_per_second", values->requests_per_second};
    values_out[1] = (struct value){"tokens_per_minute", values->tokens_per_minute};
    values_out[2] = (struct value){"requests_at_once", values->requests_at_once};
    values_out[3] = (struct value){"shares_prefix_cache", values->shares_prefix_cache};
    values_out[4] = (struct value){"weight", values->weight};
    values_out[5] = (struct value){"priority", values->priority};
    values_out[6] = (struct value){"priority_max", values->priority_max};
}

/* The same checks as in the router. */
static enum status check(const struct config *config, const void *values, struct error *error)
{
    const struct token_config *own = values;
    struct value list[N_VALUES];
    struct tenant_row row = {0};
    list_values(own, list);
    TRY(tenant_name_check(config_positional(config, 0), error));
    for (uint32_t i = 0; i < own->methods.n; i++)
        TRY(tenant_row_set(&row, "methods", own->methods.texts[i], error));
    for (size_t i = 0; i < N_VALUES; i++)
        if (list[i].text[0])
            TRY(tenant_row_set(&row, list[i].key, list[i].text, error));
    return tenant_row_check(&row, error);
}

static enum status draw(char token_out[TOKEN_TEXT], char hash_out[SHA256_TEXT], struct error *error)
{
    struct sha256 secret, hash;
    char text[SHA256_TEXT];
    TRY(random_secret(&secret, sizeof secret, error));
    sha256_format(&secret, text);
    int n = snprintf(token_out, TOKEN_TEXT, TOKEN_PREFIX "%s", text);
    assert(n == (int)TOKEN_TEXT - 1);
    secret_wipe(&secret, sizeof secret);
    secret_wipe(text, sizeof text);
    TRY(sha256_of(token_out, strlen(token_out), &hash));
    sha256_format(&hash, hash_out);
    return STATUS_OK;
}

static void print_row(const char *tenant, const char *hash, const struct token_config *values,
                      FILE *out)
{
    struct value list[N_VALUES];
    list_values(values, list);
    fprintf(out, "  - tenant: %s\n    sha256: %s\n", tenant, hash);
    for (uint32_t i = 0; i < values->methods.n; i++)
        fprintf(out, "%s%s", i ? ", " : "    methods: [", values->methods.texts[i]);
    if (values->methods.n > 0)
        fputs("]\n", out);
    for (size_t i = 0; i < N_VALUES; i++)
        if (list[i].text[0])
            fprintf(out, "    %s: %s\n", list[i].key, list[i].text);
}

int token_main(const struct config_input *input)
{
    struct token_config values;
    struct config *config = NULL;
    struct error error = {0};
    int exit_status;
    if (command_configure_checked(token_config_table(), input, check, &values, &config,
                                  &exit_status))
        return exit_status;
    char token[TOKEN_TEXT], hash[SHA256_TEXT];
    enum status status = check(config, &values, &error);
    exit_status = CONFIG_EXIT_MISUSED;
    if (status == STATUS_OK) {
        status = draw(token, hash, &error);
        exit_status = status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    if (status == STATUS_OK) {
        printf("%s\n", token);
        fputs(
            "# The row below goes under `tokens:` in the router's tokens file. The token itself is "
            "shown this once.\n",
            stderr);
        print_row(config_positional(config, 0), hash, &values, stderr);
        secret_wipe(token, sizeof token);
    } else {
        fprintf(stderr, "%s: %s\n", input->command,
                error.text[0] ? error.text : status_text(status));
    }
    config_destroy(config);
    return exit_status;
}
