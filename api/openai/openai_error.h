/*
 * openai_error - a failure as OpenAI's API tells it: {"error": {"message", "type", "param", "code"}}, and the HTTP status that
 * official clients retry, or do not.
 *
 *     gRPC's code                                    HTTP   official clients
 *     INVALID_ARGUMENT, OUT_OF_RANGE,
 *     FAILED_PRECONDITION, UNIMPLEMENTED, ALREADY_EXISTS    400    no retry
 *     UNAUTHENTICATED, PERMISSION_DENIED, NOT_FOUND  401, 403, 404   no retry
 *     RESOURCE_EXHAUSTED                             429    retry after Retry-After
 *       but REPLY_TOO_LONG, TEMPLATE_LIMIT           400    no retry
 *       and NO_MEMORY, NO_THREAD                     503    as the next
 *     UNAVAILABLE, DEADLINE_EXCEEDED, others         503, 504, 500   retry, unless x-should-retry is false
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/http/http_exchange.h"
#include "rpc/rpc_error.h"

#include <jansson.h>

struct openai_error {
    unsigned code;
    const char *kind; /* "invalid_request_error" */
    char reason[32];  /* "context_length_exceeded"; "": none */
    char message[400];
    char param[96];         /* "": none */
    unsigned retry_after_s; /* 0: does not say */
    bool may_retry;
};

/* Field names become those of OpenAI's API; the reason is its word, or that of base/status.h in small letters. */
void openai_error_of(const struct rpc_error *error, struct openai_error *error_out);
/* One that the door itself finds. reason and param may be NULL. */
void openai_error_set(struct openai_error *error, unsigned code, const char *reason,
                      const char *param, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* A prompt that is too long: its sentence begins with words by which programs that read no code know it. */
void openai_error_explain(struct openai_error *error);

/* {"error": {...}}. NULL: no memory. */
json_t *openai_error_json(const struct openai_error *error);
/* Answers the exchange with it. request_id "": it has none. */
void openai_error_reply(struct http_exchange *exchange, const struct openai_error *error,
                        const char *request_id);

/* As the HTTP port itself refuses. */
extern const struct http_error_form openai_error_form;
