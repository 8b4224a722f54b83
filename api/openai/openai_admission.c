#include "api/openai/openai_admission.h"

#include "router/admission/bearer.h"
#include "rpc/request_id.h"

#include <stdio.h>
#include <string.h>

void openai_origin(struct http_exchange *exchange, const char *id,
                   struct request_origin *origin_out)
{
    const char *given = http_exchange_field(exchange, RPC_REQUEST_ID_KEY);
    const char *trace = http_exchange_field(exchange, TRACEPARENT_KEY);
    struct rpc_error ignored;
    *origin_out = (struct request_origin){0};
    if (trace && http_exchange_count_fields(exchange, TRACEPARENT_KEY) == 1)
        (void)traceparent_parse(trace, strlen(trace), &origin_out->trace);
    if (!id && given && given[0] &&
        rpc_request_id_check(RPC_REQUEST_ID_KEY, given, strlen(given), &ignored) == STATUS_OK)
        id = given;
    if (id)
        snprintf(origin_out->request_id, sizeof origin_out->request_id, "%s", id);
    else
        rpc_request_id_draw(origin_out->request_id);
}

/* By what a token must be allowed to call by gRPC. */
static enum tenant_method method_of(struct http_exchange *exchange)
{
    static const char MODELS[] = "/v1/models";
    const char *path = http_exchange_path(exchange);
    if (strcmp(path, MODELS) == 0)
        return TENANT_LIST_MODELS;
    if (strncmp(path, MODELS, sizeof MODELS - 1) == 0)
        return TENANT_GET_MODEL;
    return TENANT_GENERATE;
}

/* NULL: there is none, or more than one. */
static const char *find_token(const struct http_exchange *exchange, size_t *bytes_out)
{
    const char *field = http_exchange_field(exchange, "authorization");
    if (!field || http_exchange_count_fields(exchange, "authorization") != 1)
        return NULL;
    return bearer_token(field, strlen(field), bytes_out);
}

enum status openai_admit(struct admission *admission, struct http_exchange *exchange,
                         const struct request_origin *origin, struct tenant_pass **pass_out,
                         struct rpc_error *error)
{
    struct rpc_peer peer;
    char method[96];
    http_exchange_peer_of(exchange, &peer);
    snprintf(method, sizeof method, "%s %s",
             http_exchange_verb(exchange) == HTTP_VERB_POST ? "POST" : "GET",
             http_exchange_path(exchange));
    struct admission_call call = {
        .method = method,
        .kind = method_of(exchange),
        .identity = peer.identity,
        .about = {.request_id = origin->request_id, .trace = &origin->trace, .peer = peer.address}};
    call.token = find_token(exchange, &call.token_bytes);
    return admission_enter(admission, &call, pass_out, error);
}

bool openai_has_token(const struct http_exchange *exchange)
{
    size_t bytes;
    return find_token(exchange, &bytes) != NULL;
}

void openai_refuse(struct http_exchange *exchange, const struct openai_error *error)
{
    struct request_origin origin;
    openai_origin(exchange, NULL, &origin);
    openai_error_reply(exchange, error, origin.request_id);
}
