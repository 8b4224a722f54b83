#include "discovery/k8s/api_exchange.h"

#include "base/secret.h"
#include "discovery/k8s/service_account.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES_MAX (2u << 20)

static enum status send_request(const struct api_server *server, struct api_exchange *exchange,
                                struct api_request *request, uint64_t until_ns, struct error *error)
{
    char *token, *text;
    size_t bytes;
    assert(exchange->stream && !request->token && "the token is held while it is written only");
    TRY(service_account_token(server->folder, &token, error));
    request->host = server->address->host;
    request->port = server->address->port;
    request->name_space = server->target->name_space;
    request->service = server->target->service;
    request->token = token;
    enum status status = api_request_write(request, &text, &bytes);
    if (status == STATUS_OK) {
        status = https_stream_write(exchange->stream, text, bytes, until_ns, error);
        secret_wipe(text, bytes);
        free(text);
    } else {
        (void)error_set(error, status, "%s", status_text(status));
    }
    request->token = NULL;
    secret_wipe(token, strlen(token));
    free(token);
    return status;
}

enum status api_exchange_begin(const struct api_server *server, struct api_exchange *exchange,
                               struct api_request *request, uint64_t until_ns, struct error *error)
{
    char *ca;
    size_t ca_bytes;
    exchange->stream = NULL;
    api_answer_init(&exchange->answer, ANSWER_BYTES_MAX);
    TRY(service_account_ca(server->folder, &ca, &ca_bytes, error));
    const struct https_stream_options options = {.host = server->address->host,
                                                 .ca = ca,
                                                 .ca_bytes = ca_bytes,
                                                 .lookup = server->lookup,
                                                 .stop_fd = server->stop_fd};
    enum status status = https_stream_open(&options, until_ns, &exchange->stream, error);
    free(ca);
    if (status != STATUS_OK)
        return status;
    return send_request(server, exchange, request, until_ns, error);
}

void api_exchange_end(struct api_exchange *exchange)
{
    https_stream_close(exchange->stream);
    api_answer_finish(&exchange->answer);
    free(exchange);
}

/* PEER_LOST: the connection ended before the answer. */
enum status api_exchange_read(struct api_exchange *exchange, uint64_t until_ns, struct error *error)
{
    size_t n;
    assert(!api_answer_is_done(&exchange->answer) && "its last byte has been read");
    TRY(https_stream_read(exchange->stream, exchange->bytes, sizeof exchange->bytes, until_ns, &n,
                          error));
    if (n == 0)
        return error_set(error, STATUS_PEER_LOST, "the connection ended before the answer did");
    return api_answer_push(&exchange->answer, exchange->bytes, n, error);
}

/* Reads on until the whole answer is there, or its head and a code of success. */
enum status api_exchange_await(struct api_exchange *exchange, bool is_head_enough,
                               uint64_t until_ns, struct error *error)
{
    const struct api_answer *answer = &exchange->answer;
    while (!api_answer_is_done(answer) && !(is_head_enough && answer->reply.code == 200)) {
        enum status status = api_exchange_read(exchange, until_ns, error);
        if (status == STATUS_TIMED_OUT)
            return error_set(error, status, "the API server does not answer in time");
        TRY(status);
    }
    return STATUS_OK;
}

enum status api_exchange_create(struct api_exchange **exchange_out, struct error *error)
{
    *exchange_out = malloc(sizeof **exchange_out);
    return *exchange_out ? STATUS_OK
                         : error_set(error, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
}
