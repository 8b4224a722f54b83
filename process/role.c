#include "process/role.h"

#include "process/ports/port_check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static enum status check(const struct role *role, const struct config *config, const void *values,
                         struct error *error)
{
    struct process_options options;
    role->fill_options(values, &options);
    log_set_level(LOG_ERROR);
    TRY(process_check(&options, error));
    return role->check(values, config_positional(config, 0), error);
}

static int say_checked(const struct config_input *input, enum status status,
                       const struct error *error)
{
    if (status == STATUS_OK) {
        puts("the configuration is valid");
        return EXIT_SUCCESS;
    }
    fprintf(stderr, "%s: %s\n", input->command, error->text[0] ? error->text : status_text(status));
    return EXIT_FAILURE;
}

/* The last lines of every role's plan. */
static void print_process(const struct process_options *options, FILE *out)
{
    const struct port_row rows[N_PORT_ROWS] = PORT_ROWS(options);
    fputs("ports      ", out);
    for (size_t i = 0; i < N_PORT_ROWS; i++)
        if (rows[i].address && rows[i].address[0])
            fprintf(out, " %s %s", rows[i].key, rows[i].address);
    fprintf(out,
            "\nstop        reports not ready at once, accepts requests for %" PRIu64
            " ms more, then waits %" PRIu64 " ms for open ones\n",
            options->drain_delay_ms, options->drain_limit_ms);
}

static enum status plan(const struct role *role, const struct config *config, const void *values,
                        FILE *out, struct error *error)
{
    struct process_options options;
    role->fill_options(values, &options);
    log_set_level(LOG_ERROR);
    TRY(process_check(&options, error));
    enum status status = role->plan(values, config_positional(config, 0), out, error);
    if (status == STATUS_OK || status == STATUS_NO_MEMORY)
        print_process(&options, out);
    return status;
}

static bool is_dry_run(const struct role *role, const void *values)
{
    struct process_options options;
    role->fill_options(values, &options);
    return options.dry_run;
}

static int say_planned(const struct config_input *input, enum status status,
                       const struct error *error)
{
    if (status == STATUS_OK) {
        puts("fits        yes");
        return EXIT_SUCCESS;
    }
    (void)fflush(stdout);
    fprintf(stderr, "%s: %s\n", input->command, error->text[0] ? error->text : status_text(status));
    return EXIT_FAILURE;
}

static void warn(const struct role *role, const struct config *config, const void *values)
{
    struct process_options options;
    const char *sentence;
    role->fill_options(values, &options);
    log_init(role_name(options.role), options.log_level, options.log_format);
    for (uint32_t i = 0; (sentence = config_warning(config, i)); i++)
        log_warn("%s", sentence);
}

bool role_begin(const struct role *role, const struct config_input *input, void *values_out,
                struct config **config_out, int *exit_out)
{
    struct error error = {0};
    struct config *config;
    enum status status = config_load(role->table(), input, values_out, &config, &error);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", input->command, error.text);
        *exit_out = config_exit_status(status);
        return true;
    }
    assert(config && "config_load gives one, or says why not");
    bool is_answered = config_answer(config, stdout);
    *exit_out = EXIT_SUCCESS;
    if (!is_answered)
        warn(role, config, values_out);
    if (!is_answered && config_is_check(config)) {
        *exit_out = say_checked(input, check(role, config, values_out, &error), &error);
        is_answered = true;
    }
    if (!is_answered && is_dry_run(role, values_out)) {
        *exit_out = say_planned(input, plan(role, config, values_out, stdout, &error), &error);
        is_answered = true;
    }
    if (is_answered)
        config_destroy(config);
    else
        *config_out = config;
    return is_answered;
}

/* If out is NULL, only checks. */
static enum status load_and_look(const struct role *role, const struct config_input *input,
                                 FILE *out, struct error *error)
{
    void *values = calloc(1, role->table()->values_bytes);
    if (!values)
        return STATUS_NO_MEMORY;
    struct config *config = NULL;
    enum status status = config_load(role->table(), input, values, &config, error);
    if (status == STATUS_OK)
        status = out ? plan(role, config, values, out, error) : check(role, config, values, error);
    config_destroy(config);
    free(values);
    return status;
}

enum status role_check(const struct role *role, const struct config_input *input,
                       struct error *error)
{
    return load_and_look(role, input, NULL, error);
}

enum status role_plan(const struct role *role, const struct config_input *input, FILE *out,
                      struct error *error)
{
    return load_and_look(role, input, out, error);
}
