#include "base/thread_pool.h"
#include "cli/command.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK_MODEL_CONFIG(X)                                                                      \
    WEIGHTS_CONFIG_ROW(X)                                                                          \
    X(tokenizer, BOOL, "yes", "", "read the tokenizer too; --no-tokenizer leaves it out")

CONFIG_DECLARE(check_model_config, CHECK_MODEL_CONFIG);
CONFIG_DEFINE(check_model_config, CHECK_MODEL_CONFIG, CONFIG_NO_ALIASES)

static void print_model(const struct model *model)
{
    const struct model_config *config = model_get_config(model);
    uint64_t digest[2];
    model_digest(model, digest);
    printf("architecture    %s\n", model_family_name(config->family));
    printf("parameters      %" PRIu64 "\n", model_parameters(model));
    printf("weights         %.1f MiB\n", (double)model_weight_bytes(model) / (1 << 20));
    printf("layers          %u of %u, %u heads of %u, %u for K and V\n", config->n_layers,
           config->hidden, config->n_heads, config->head_dim, config->n_kv_heads);
    printf("context         %u tokens\n", config->context_tokens);
    printf("vocabulary      %u\n", config->vocabulary);
    printf("head            %s\n",
           config->tied_embeddings ? "the embeddings (tied)" : "lm_head.weight");
    printf("digest          %016" PRIx64 "%016" PRIx64 "\n", digest[0], digest[1]);
}

static enum status check_tokenizer(const char *folder, uint32_t vocabulary, struct error *error)
{
    struct tokenizer *tokenizer;
    TRY(tokenizer_load(folder, error, &tokenizer));
    uint32_t n_ids = tokenizer_n_ids(tokenizer);
    tokenizer_destroy(tokenizer);
    if (n_ids > vocabulary)
        return error_set(error, STATUS_CORRUPT,
                         "the tokenizer has %u ids, more than the model's vocabulary of %u", n_ids,
                         vocabulary);
    printf("tokenizer       %u ids\n", n_ids);
    return STATUS_OK;
}

static enum status check(const char *folder, const struct check_model_config *values,
                         struct error *error)
{
    struct model *model;
    struct thread_pool *threads;
    TRY(thread_pool_create(0, false, &threads));
    struct model_options options = {.weights = values->weights, .threads = threads};
    enum status status = model_load(folder, &options, error, &model);
    thread_pool_destroy(threads);
    TRY(status);
    print_model(model);
    uint32_t vocabulary = model_get_config(model)->vocabulary;
    model_destroy(model);
    return values->tokenizer ? check_tokenizer(folder, vocabulary, error) : STATUS_OK;
}

int check_model_main(const struct config_input *input)
{
    struct check_model_config values;
    struct config *config;
    int exit_status;
    if (command_configure(check_model_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    struct error error = {0};
    enum status status;
    if (config_n_positionals(config) != 1)
        status = error_set(&error, STATUS_INVALID_ARGUMENT, "which MODEL folder?");
    else
        status = check(config_positional(config, 0), &values, &error);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s: %s\n", input->command, status_name(status),
                error.text[0] ? error.text : status_text(status));
    else
        puts("good");
    config_destroy(config);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
