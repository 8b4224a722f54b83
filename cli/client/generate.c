/*
 * generate - sends one prompt to a server, or to a server that it starts for this request.
 */
#include "base/adapter_id.h"
#include "base/clock.h"
#include "base/secret.h"
#include "cli/client/generate_config.h"
#include "cli/client/generation_call.h"
#include "cli/client/listener.h"
#include "cli/client/prompt.h"
#include "cli/client/prompt_bar.h"
#include "cli/client/token_source.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/serve/child.h"
#include "process/process.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS       5
#define ASK_AGAIN_MS  1000
#define SALT_MAX      128 /* bytes, of a request */
#define STOP_LIMIT_MS 20000

CONFIG_DEFINE(generate_config, GENERATE_CONFIG, GENERATE_ALIASES)

struct generate {
    struct generate_config values;
    struct config *config;
    const char *command;
    char address[ADDRESS_TEXT_MAX]; /* from --server */
    char authorization[TOKEN_VALUE_MAX];
    struct rpc_client_tls tls;
    bool has_tls;
    struct prompt prompt;
    struct constraint_fields constraint;
    struct child server; /* for --model */
    char work[CHILD_PATH_MAX];
    int signal_number; /* the signal that ended it; 0: none */
    char salt[SALT_MAX + 1];
    char adapter[ADAPTER_NAME_MAX + 2]; /* its name alone, or one that is too long; "": none */
    uint32_t n_asked;
    bool has_hinted;
    struct generation_result result;
};

/* ---- the request ---- */

static bool is_given(const struct config *config, const char *key)
{
    return strcmp(config_source(config, key), "default") != 0;
}

static void take_beams(const struct generate *generate, Kvferry__V1__SamplingParams *params)
{
    static const Kvferry__V1__EarlyStopping STOPS[] = {
        [BEAMS_STOP_FALSE] = KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_FALSE,
        [BEAMS_STOP_TRUE] = KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_TRUE,
        [BEAMS_STOP_NEVER] = KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_NEVER,
    };
    const struct generate_config *values = &generate->values;
    params->beam_width = values->beams;
    if (is_given(generate->config, "early_stopping"))
        params->early_stopping = STOPS[values->early_stopping];
    if (!is_given(generate->config, "length_penalty"))
        return;
    params->length_penalty_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__LENGTH_PENALTY_PRESENCE_LENGTH_PENALTY;
    params->length_penalty = (float)values->length_penalty;
}

static void make_request(struct generate *generate, struct sampling_fields *sampling,
                         Kvferry__V1__GenerateRequest *request_out)
{
    const struct generate_config *values = &generate->values;
    sampling_fields_take(generate->config, generate_config_table(), values, sampling);
    sampling->params.logprobs = values->logprobs;
    sampling->params.n = values->choices;
    take_beams(generate, &sampling->params);
    if (generate->constraint.is_there)
        sampling->params.constraint = &generate->constraint.message;
    if (is_given(generate->config, "prompt_logprobs")) {
        sampling->params.prompt_logprobs_presence_case =
            KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
        sampling->params.prompt_logprobs = values->prompt_logprobs;
    }
    kvferry__v1__generate_request__init(request_out);
    request_out->prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    request_out->text = (ProtobufCBinaryData){generate->prompt.bytes, generate->prompt.data};
    request_out->model = generate->adapter;
    request_out->sampling = &sampling->params;
    request_out->request_id = borrow(values->request_id);
    request_out->cache_salt = generate->n_asked ? generate->salt : borrow(values->cache_salt);
    if (is_given(generate->config, "priority")) {
        request_out
            ->priority_presence_case = KVFERRY__V1__GENERATE_REQUEST__PRIORITY_PRESENCE_PRIORITY;
        request_out->priority = (int32_t)values->priority;
    }
    if (!values->add_special_tokens)
        request_out->add_special_tokens_presence_case =
            KVFERRY__V1__GENERATE_REQUEST__ADD_SPECIAL_TOKENS_PRESENCE_ADD_SPECIAL_TOKENS;
    request_out->return_timing = values->verbose || values->expect_handover;
    /* After a printed prompt the bar would be on the prompt's last line. */
    request_out->return_progress = !values->echo && prompt_bar_is_possible();
}

static void end_server(void *arg, int signal_number);

/* Whoever says that the text has its special tokens knows what a template is. */
static void hint_at_chat(struct generate *generate)
{
    if (!generate->result.has_chat_template || generate->has_hinted)
        return;
    generate->has_hinted = true;
    fprintf(stderr,
            "%s: the model has a chat template, and this text was sent without it; `kvferry chat` "
            "uses the template\n",
            generate->command);
}

static void call_server(struct generate *generate, const char *server)
{
    const struct generate_config *values = &generate->values;
    struct generation_result *result = &generate->result;
    assert(server);
    struct sampling_fields sampling;
    Kvferry__V1__GenerateRequest request;
    struct reply_printer printer;
    make_request(generate, &sampling, &request);
    struct generation_call_options options = {
        .server = server,
        .tls = generate->has_tls ? &generate->tls : NULL,
        .authorization = generate->authorization,
        .deadline_ms = values->deadline_ms,
        .wait_for_server = values->model[0] != '\0',
        .asks_for_template = values->add_special_tokens && !generate->has_hinted,
        .command = generate->command,
        .end = end_server,
        .arg = generate,
    };
    if (values->echo && !output_write(generate->prompt.data, generate->prompt.bytes)) {
        result->is_unprinted = true;
        return;
    }
    const struct reply_printer_options printing = {
        .n_choices = values->choices,
        .is_json = values->json,
        .has_logprobs = values->logprobs > 0,
        .has_scores = values->beams > 1,
        .has_prompt_logprobs = is_given(generate->config, "prompt_logprobs"),
        .bytes_max = values->answer_bytes_max,
    };
    reply_printer_init(&printer, &printing);
    generation_call_run(&options, &request, &printer, result);
    reply_printer_finish(&printer);
    hint_at_chat(generate);
    generate->signal_number = result->signal_number;
    if (!result->has_text && values->echo)
        (void)output_write("\n", 1);
}

static bool lacks_handover(const struct generate *generate)
{
    const struct generation_result *result = &generate->result;
    return generate->values.expect_handover && !generate->signal_number && !result->is_unprinted &&
           result->error.status == STATUS_OK && result->kv_bytes_received == 0;
}

/* The other kind of new router: its name has no address yet. */
static bool finds_nobody(const struct generate *generate)
{
    const struct generation_result *result = &generate->result;
    return generate->values.expect_handover && !generate->signal_number &&
           result->error.status == STATUS_PEER_LOST && !result->has_text;
}

/* A new router may not know its context workers yet. As a repeated prompt would be found in a cache, each retry
 * has another cache salt. */
static void ask(struct generate *generate, const char *server)
{
    const struct generate_config *values = &generate->values;
    uint64_t until_ns = clock_now_ns() + values->handover_wait_ms * NS_PER_MS;
    call_server(generate, server);
    while ((lacks_handover(generate) || finds_nobody(generate)) && clock_now_ns() < until_ns) {
        generate->signal_number = process_wait_signal(ASK_AGAIN_MS);
        if (generate->signal_number)
            return;
        snprintf(generate->salt, sizeof generate->salt, "%" PRIu32 " %s", ++generate->n_asked,
                 values->cache_salt);
        call_server(generate, server);
    }
}

/* ---- the server for --model ---- */

static enum status start_server(struct generate *generate, struct error *error)
{
    /* These rows override a configuration file that is also for serve: only this command knows this server, so it needs
     * no tokens and no TLS, and it must serve. */
    static const char *const ARGUMENTS[][2] = {
        {"--grpc-address", "127.0.0.1:0"},
        {"--http-address", ""},
        {"--control-address", "127.0.0.1:0"},
        {"--health-address", "127.0.0.1:0"},
        {"--metrics-address", "127.0.0.1:0"},
        {"--tls-certificate", ""},
        {"--tls-key", ""},
        {"--tls-client-ca", ""},
        {"--tokens-file", ""},
        {"--health-tls", "no"},
        {"--dry-run", "no"},
        {"--log-level", "warn"},
        /* Pools for the one request, and for an earlier one whose blocks are not released yet. */
        {"--sequences-max", "2"},
        {"--prompts-max", "2"},
        {"--quiet", NULL},
    };
    assert(generate->work[0] && generate->values.model[0]);
    struct child *server = &generate->server;
    struct child_arguments arguments = {0};
    enum status status = child_arguments_add(&arguments, "serve", NULL);
    if (status == STATUS_OK)
        status = child_arguments_add_path(&arguments, generate->values.model);
    if (status == STATUS_OK && config_file(generate->config))
        status = child_arguments_add(&arguments, "--config", config_file(generate->config));
    for (size_t i = 0; status == STATUS_OK && i < sizeof ARGUMENTS / sizeof *ARGUMENTS; i++)
        status = child_arguments_add(&arguments, ARGUMENTS[i][0], ARGUMENTS[i][1]);
    if (status == STATUS_OK && generate->adapter[0])
        status = child_arguments_add(&arguments, "--adapter", generate->values.adapter);
    if (status == STATUS_OK)
        status = child_start(server, "serve", generate->work, -1, &arguments, error);
    child_arguments_finish(&arguments);
    while (status == STATUS_OK && !child_has_ports(server, true)) {
        if (!child_is_running(server))
            status = error_set(error, STATUS_IO_FAILED, "the server ended with status %d",
                               server->exit_status);
        else if ((generate->signal_number = process_wait_signal(LOOK_MS)) != 0)
            status = STATUS_CANCELLED;
    }
    return status;
}

/* A second signal ends it at once; it is of another kind, because two of one kind may arrive as
 * one. */
static void stop_server(struct generate *generate)
{
    child_signal(&generate->server, SIGTERM);
    while (child_wait(&generate->server, STOP_LIMIT_MS) != 0)
        child_signal(&generate->server, SIGINT);
    child_folder_remove(generate->work);
}

/* Runs on the guard's thread while main is in gRPC. */
static void end_server(void *arg, int signal_number)
{
    struct generate *generate = arg;
    if (signal_number)
        child_signal(&generate->server, SIGINT);
    stop_server(generate);
}

static enum status call_own_server(struct generate *generate, struct error *error)
{
    TRY(child_model_check(generate->values.model, error));
    TRY(child_folder_make(generate->work, error));
    enum status status = start_server(generate, error);
    if (status == STATUS_OK)
        ask(generate, generate->server.ports.grpc);
    stop_server(generate);
    return status;
}

/* ---- main ---- */

static enum status check(const struct config *config, const void *values, struct error *error)
{
    const struct generate_config *generate = values;
    (void)config;
    if (trunc(generate->priority) != generate->priority)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "priority is %g; it must be a whole number", generate->priority);
    if (generate->beams > 1 && generate->choices > generate->beams)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "choices is %" PRIu32 "; a search of %" PRIu32
                         " beams (--beams) has no more replies",
                         generate->choices, generate->beams);
    return STATUS_OK;
}

/* Text was printed, but only the last reply says where the prompt was computed. */
static enum status check_handover(const struct generate *generate, struct error *error)
{
    const struct generation_result *result = &generate->result;
    if (!lacks_handover(generate))
        return STATUS_OK;
    return error_set(error, STATUS_NOT_FOUND, "no KV was transferred (--expect-handover)%s%s",
                     result->prefill_reason[0] ? ": " : "", result->prefill_reason);
}

static enum status take_prompt(struct generate *generate, struct error *error)
{
    bool has_argument = config_n_positionals(generate->config) > 0;
    const struct prompt_source source = {
        .argument = has_argument ? config_positional(generate->config, 0) : NULL,
        .file = generate->values.prompt_file,
    };
    interrupt_ends(); /* while it may wait for a person to type */
    enum status status = prompt_take(&source, &generate->prompt, error);
    interrupt_waits();
    return status;
}

/* NAME, or NAME=FOLDER for the server of --model. */
static enum status take_adapter(struct generate *generate, struct error *error)
{
    const char *text = generate->values.adapter, *end = strchr(text, '=');
    const bool has_server = generate->values.model[0];
    if (!text[0])
        return STATUS_OK;
    if (has_server ? !end || !end[1] : end != NULL)
        return error_set(error, STATUS_INVALID_ARGUMENT, "adapter is \"%.100s\", expected %s", text,
                         has_server ? "NAME=FOLDER with model" : "NAME without model");
    snprintf(generate->adapter, sizeof generate->adapter, "%.*s",
             (int)(end ? end - text : (ptrdiff_t)strlen(text)), text);
    return adapter_name_check(generate->adapter, "adapter", error);
}

/* The server for --model is on this host, without TLS. */
static enum status read_tls(struct generate *generate, struct error *error)
{
    const struct server_tls_options options = SERVER_TLS_OPTIONS(&generate->values);
    if (generate->values.model[0])
        return STATUS_OK;
    return server_tls_read(&options, &generate->tls, &generate->has_tls, error);
}

static int run(struct generate *generate, const char *command)
{
    struct error error = {0};
    int failure = EXIT_FAILURE;
    enum status status = check(generate->config, &generate->values, &error);
    if (status == STATUS_OK)
        status = listener_address(generate->values.server, generate->address, &error);
    if (status == STATUS_OK)
        status = token_source_read(generate->values.token_file, generate->authorization, &error);
    if (status == STATUS_OK)
        status = take_adapter(generate, &error);
    if (status == STATUS_OK)
        status = read_tls(generate, &error);
    const struct constraint_rows constraint = CONSTRAINT_ROWS_OF(&generate->values);
    if (status == STATUS_OK)
        status = constraint_fields_read(&constraint, &generate->constraint, &error);
    if (status == STATUS_OK)
        status = take_prompt(generate, &error);
    if (status == STATUS_INVALID_ARGUMENT)
        failure = CONFIG_EXIT_MISUSED;
    if (status == STATUS_OK && generate->values.model[0])
        status = call_own_server(generate, &error);
    else if (status == STATUS_OK)
        ask(generate, generate->address);
    if (generate->signal_number)
        return interrupt_status(generate->signal_number);
    if (generate->result.is_unprinted)
        return EXIT_FAILURE; /* output_end prints the reason */
    if (status == STATUS_OK)
        status = generation_result_check(&generate->result,
                                         generate->values.model[0] ? NULL : generate->address,
                                         generate->values.deadline_ms, &error);
    if (status == STATUS_OK && generate->values.verbose)
        generation_result_print(&generate->result, stderr);
    if (status == STATUS_OK)
        status = check_handover(generate, &error);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", command, error.text[0] ? error.text : status_text(status));
        return failure;
    }
    return EXIT_SUCCESS;
}

int generate_main(const struct config_input *input)
{
    struct generate generate = {.command = input->command};
    int exit_status;
    if (command_configure_checked(generate_config_table(), input, check, &generate.values,
                                  &generate.config, &exit_status))
        return exit_status;
    exit_status = run(&generate, input->command);
    secret_wipe(generate.authorization, sizeof generate.authorization);
    free(generate.prompt.data);
    constraint_fields_finish(&generate.constraint);
    config_destroy(generate.config);
    return exit_status;
}
