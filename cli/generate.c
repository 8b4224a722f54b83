/*
 * generate - sends one prompt to a server, or to one of its own that lives as long as the request.
 */
#include "base/clock.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/generate_config.h"
#include "cli/generation_call.h"
#include "process/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROMPT_BYTES_MAX (8u << 20)
#define LOOK_MS          5
#define STOP_LIMIT_MS    20000

CONFIG_DEFINE(generate_config, GENERATE_CONFIG, CONFIG_NO_ALIASES)

/* ---- the prompt ---- */

/* The caller frees its data. */
static enum status read_all(FILE *file, ProtobufCBinaryData *text_out, struct error *error)
{
    uint8_t *text = malloc(PROMPT_BYTES_MAX + 1);
    if (!text)
        return STATUS_NO_MEMORY;
    size_t n = fread(text, 1, PROMPT_BYTES_MAX + 1, file);
    enum status status = STATUS_OK;
    if (ferror(file))
        status = error_set(error, STATUS_IO_FAILED, "cannot read the prompt: %s", strerror(errno));
    else if (n > PROMPT_BYTES_MAX)
        status = error_set(error, STATUS_PROMPT_TOO_LONG, "the prompt is over %u bytes",
                           PROMPT_BYTES_MAX);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    *text_out = (ProtobufCBinaryData){n, text};
    return STATUS_OK;
}

static enum status read_prompt(const char *path, ProtobufCBinaryData *text_out, struct error *error)
{
    if (strcmp(path, "-") == 0)
        return read_all(stdin, text_out, error);
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, STATUS_IO_FAILED, "%s: %s", path, strerror(errno));
    enum status status = read_all(file, text_out, error);
    fclose(file);
    return status;
}

static enum status take_prompt(const struct generate_config *values, const struct config *config,
                               ProtobufCBinaryData *text_out, struct error *error)
{
    uint32_t n = config_n_positionals(config);
    if (values->prompt_file[0] && n == 0)
        return read_prompt(values->prompt_file, text_out, error);
    if (values->prompt_file[0] || n != 1)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "give the prompt as one argument, or by --prompt-file");
    char *text = strdup(config_positional(config, 0));
    if (!text)
        return STATUS_NO_MEMORY;
    *text_out = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
    return STATUS_OK;
}

/* ---- the request ---- */

static bool is_given(const struct config *config, const char *key)
{
    return strcmp(config_source(config, key), "default") != 0;
}

#define SET_GIVEN(field, FIELD, value)                                                             \
    if (is_given(config, #field)) {                                                                \
        sampling_out                                                                               \
            ->field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD;    \
        sampling_out->field = (value);                                                             \
    }

static void set_sampling(const struct generate_config *values, const struct config *config,
                         Kvferry__V1__SamplingParams *sampling_out)
{
    kvferry__v1__sampling_params__init(sampling_out);
    SET_GIVEN(max_tokens, MAX_TOKENS, values->max_tokens)
    SET_GIVEN(temperature, TEMPERATURE, (float)values->temperature)
    SET_GIVEN(top_k, TOP_K, values->top_k)
    SET_GIVEN(top_p, TOP_P, (float)values->top_p)
    SET_GIVEN(repetition_penalty, REPETITION_PENALTY, (float)values->repetition_penalty)
    SET_GIVEN(seed, SEED, values->seed)
    sampling_out->min_p = (float)values->min_p;
    sampling_out->presence_penalty = (float)values->presence_penalty;
    sampling_out->frequency_penalty = (float)values->frequency_penalty;
    sampling_out->ignore_eos = values->ignore_eos;
}

/* protobuf-c's strings are only read when packed. */
static char *borrow(const char *text)
{
    union {
        const char *in;
        char *out;
    } cast = {.in = text};
    return cast.out;
}

static void call_server(const struct generate_config *values, const struct config *config,
                        const ProtobufCBinaryData *prompt, const char *server,
                        struct generation_result *result_out)
{
    Kvferry__V1__SamplingParams sampling;
    ProtobufCBinaryData stop = {strlen(values->stop), (uint8_t *)borrow(values->stop)};
    set_sampling(values, config, &sampling);
    sampling.stop = &stop;
    sampling.n_stop = values->stop[0] ? 1 : 0;
    Kvferry__V1__GenerateRequest request = KVFERRY__V1__GENERATE_REQUEST__INIT;
    request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    request.text = *prompt;
    request.sampling = &sampling;
    request.request_id = borrow(values->request_id);
    request.cache_salt = borrow(values->cache_salt);
    request.return_timing = values->verbose;
    struct generation_call_options options = {
        .server = server,
        .deadline_ns = clock_now_ns() + values->deadline_ms * NS_PER_MS,
        .wait_for_server = values->model[0] != '\0',
    };
    if (values->echo) {
        fwrite(prompt->data, 1, prompt->len, stdout);
        fflush(stdout);
    }
    generation_call_run(&options, &request, result_out);
    if (result_out->has_text ? !result_out->ends_line : values->echo)
        putchar('\n');
    fflush(stdout);
}

/* ---- a server of its own ---- */

static enum status start_server(const char *folder, const char *work, struct child *child,
                                struct error *error)
{
    static const char *const ARGUMENTS[][2] = {
        {"--grpc-address", "127.0.0.1:0"},
        {"--control-address", "127.0.0.1:0"},
        {"--health-address", "127.0.0.1:0"},
        {"--metrics-address", "127.0.0.1:0"},
        {"--log-level", "warn"},
        {"--quiet", NULL},
    };
    struct child_arguments arguments = {0};
    enum status status = child_arguments_add(&arguments, "serve", NULL);
    if (status == STATUS_OK)
        status = child_arguments_add(&arguments, folder, NULL);
    for (size_t i = 0; status == STATUS_OK && i < sizeof ARGUMENTS / sizeof *ARGUMENTS; i++)
        status = child_arguments_add(&arguments, ARGUMENTS[i][0], ARGUMENTS[i][1]);
    if (status == STATUS_OK)
        status = child_start(child, "serve", work, &arguments, error);
    child_arguments_finish(&arguments);
    while (status == STATUS_OK && !child_has_ports(child, true)) {
        if (!child_is_running(child))
            status = error_set(error, STATUS_IO_FAILED, "the server ended with status %d",
                               child->exit_status);
        else if (process_wait(LOOK_MS) == PROCESS_STOP)
            status = STATUS_CANCELLED;
    }
    return status;
}

static enum status call_own_server(const struct generate_config *values,
                                   const struct config *config, const ProtobufCBinaryData *prompt,
                                   struct generation_result *result_out, struct error *error)
{
    char work[64];
    const char *parent = getenv("TMPDIR");
    snprintf(work, sizeof work, "%.40s/kvferry-XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(work))
        return error_set(error, STATUS_IO_FAILED, "cannot make a folder like %s", work);
    struct child child = {0};
    enum status status = start_server(values->model, work, &child, error);
    if (status == STATUS_OK)
        call_server(values, config, prompt, child.ports.grpc, result_out);
    child_signal(&child, SIGTERM);
    child_wait(&child, STOP_LIMIT_MS);
    rmdir(work);
    return status;
}

/* ---- main ---- */

static enum status generate(const struct generate_config *values, const struct config *config,
                            struct error *error)
{
    ProtobufCBinaryData prompt = {0};
    struct generation_result result = {0};
    enum status status = take_prompt(values, config, &prompt, error);
    if (status == STATUS_OK && values->model[0])
        status = call_own_server(values, config, &prompt, &result, error);
    else if (status == STATUS_OK)
        call_server(values, config, &prompt, values->server, &result);
    free(prompt.data);
    if (status != STATUS_OK)
        return status;
    if (result.error.status != STATUS_OK)
        return error_set(error, result.error.status, "%s: %s", status_name(result.error.status),
                         result.error.message);
    if (values->verbose)
        generation_result_print(&result, stderr);
    return STATUS_OK;
}

int generate_main(const struct config_input *input)
{
    struct generate_config values;
    struct config *config;
    int exit_status;
    if (command_configure(generate_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    struct error error = {0};
    enum status status = generate(&values, config, &error);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s\n", input->command,
                error.text[0] ? error.text : status_text(status));
    config_destroy(config);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
