/* trace - sends one prompt as `generate` does, and writes where its time went as a trace for Perfetto. */
#include "base/secret.h"
#include "cli/client/listener.h"
#include "cli/client/prompt.h"
#include "cli/client/sampling_fields.h"
#include "cli/client/server_tls.h"
#include "cli/client/token_source.h"
#include "cli/client/trace_json.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_CONFIG(X)                                                                            \
    X(server, STRING, "127.0.0.1:50051", "", "address of the router")                              \
    X(prompt_file, STRING, "", "", "file with the prompt; - or no prompt at all: standard input")  \
    SAMPLING_ROWS(X)                                                                               \
    X(out, STRING, "kvferry-trace.json", "path", "file to which the trace is written")             \
    X(cache_salt, STRING, "", "",                                                                  \
      "share cached prefixes only with requests that have the same salt")                          \
    X(request_id, STRING, "", "", "name of the request in logs; empty: the server chooses one")    \
    X(deadline_ms, DURATION_MS(1, 86400000), "10m", "ms", "timeout of the whole request")          \
    X(token_file, STRING, "", "",                                                                  \
      "file with the bearer token; empty: KVFERRY_TOKEN, if it is set")                            \
    SERVER_TLS_ROWS(X)

CONFIG_DECLARE(trace_config, TRACE_CONFIG);
#define TRACE_ALIASES(X)
CONFIG_DEFINE(trace_config, TRACE_CONFIG, TRACE_ALIASES)

struct trace_task {
    struct trace_config values;
    struct config *config;
    const char *command;
    char address[ADDRESS_TEXT_MAX];
    char authorization[TOKEN_VALUE_MAX];
    struct rpc_client_tls tls;
    bool has_tls;
    struct prompt prompt;
    struct generation_result result;
};

static enum status prepare(struct trace_task *task, struct error *error)
{
    const struct server_tls_options tls = SERVER_TLS_OPTIONS(&task->values);
    const struct prompt_source source = {
        .argument = config_n_positionals(task->config) > 0 ? config_positional(task->config, 0)
                                                           : NULL,
        .file = task->values.prompt_file,
    };
    TRY(listener_address(task->values.server, task->address, error));
    TRY(token_source_read(task->values.token_file, task->authorization, error));
    TRY(server_tls_read(&tls, &task->tls, &task->has_tls, error));
    interrupt_ends(); /* while it may wait for a person to type */
    enum status status = prompt_take(&source, &task->prompt, error);
    interrupt_waits();
    return status;
}

static void call(struct trace_task *task)
{
    struct sampling_fields sampling;
    struct reply_printer printer;
    Kvferry__V1__GenerateRequest request;
    const struct reply_printer_options printing = {.n_choices = 1};
    const struct generation_call_options options = {
        .server = task->address,
        .tls = task->has_tls ? &task->tls : NULL,
        .authorization = task->authorization,
        .deadline_ms = task->values.deadline_ms,
        .command = task->command,
    };
    assert(task->address[0] && task->prompt.bytes > 0);
    sampling_fields_take(task->config, trace_config_table(), &task->values, &sampling);
    kvferry__v1__generate_request__init(&request);
    request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    request.text = (ProtobufCBinaryData){task->prompt.bytes, task->prompt.data};
    request.sampling = &sampling.params;
    request.request_id = borrow(task->values.request_id);
    request.cache_salt = borrow(task->values.cache_salt);
    request.return_timing = true;
    reply_printer_init(&printer, &printing);
    generation_call_run(&options, &request, &printer, &task->result);
    reply_printer_finish(&printer);
}

static enum status write_trace(const struct trace_task *task, struct error *error)
{
    const char *path = task->values.out;
    char *text;
    assert(task->result.error.status == STATUS_OK);
    TRY(trace_json(&task->result, &text));
    FILE *file = fopen(path, "we");
    bool is_written = file && fputs(text, file) >= 0 && fputc('\n', file) != EOF;
    int error_number = errno;
    if (file && fclose(file) != 0 && is_written) {
        error_number = errno;
        is_written = false;
    }
    free(text);
    if (!is_written)
        return error_set(error, STATUS_IO_FAILED, "out \"%.200s\": %s", path,
                         strerror(error_number));
    return STATUS_OK;
}

static int run(struct trace_task *task)
{
    struct error error = {0};
    enum status status = prepare(task, &error);
    int failure = status == STATUS_INVALID_ARGUMENT ? CONFIG_EXIT_MISUSED : EXIT_FAILURE;
    if (status == STATUS_OK)
        call(task);
    if (status == STATUS_OK && task->result.signal_number)
        return interrupt_status(task->result.signal_number);
    if (status == STATUS_OK && task->result.is_unprinted)
        return EXIT_FAILURE; /* output_end prints the reason */
    if (status == STATUS_OK)
        status = generation_result_check(&task->result, task->address, task->values.deadline_ms,
                                         &error);
    if (status == STATUS_OK)
        status = write_trace(task, &error);
    if (status != STATUS_OK) {
        fprintf(stderr, "%s: %s\n", task->command,
                error.text[0] ? error.text : status_text(status));
        return failure;
    }
    generation_result_print(&task->result, stderr);
    fprintf(stderr, "wrote %s; ui.perfetto.dev and chrome://tracing show it\n", task->values.out);
    return EXIT_SUCCESS;
}

int trace_main(const struct config_input *input)
{
    struct trace_task *task = calloc(1, sizeof *task);
    int exit_status = EXIT_FAILURE;
    if (!task)
        return EXIT_FAILURE;
    task->command = input->command;
    if (command_configure(trace_config_table(), input, &task->values, &task->config,
                          &exit_status)) {
        free(task);
        return exit_status;
    }
    exit_status = run(task);
    secret_wipe(task->authorization, sizeof task->authorization);
    free(task->prompt.data);
    config_destroy(task->config);
    free(task);
    return exit_status;
}
