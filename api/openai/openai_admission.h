/*
 * openai_admission - who asks by HTTP: the bearer token of a request, its name and its trace.
 *
 * Thread: any.
 */
#pragma once

#include "api/http/http_exchange.h"
#include "api/openai/openai_error.h"
#include "router/admission/admission.h"

/* x-request-id where it may be a name, else a drawn one unless id is given; and traceparent. */
void openai_origin(struct http_exchange *exchange, const char *id,
                   struct request_origin *origin_out);

/* As admission_enter, for the method of the exchange's path. origin: what a refusal is logged under. */
MUST_CHECK enum status openai_admit(struct admission *admission, struct http_exchange *exchange,
                                    const struct request_origin *origin,
                                    struct tenant_pass **pass_out, struct rpc_error *error);

/* Whether it has a bearer token, right or wrong. */
bool openai_has_token(const struct http_exchange *exchange);

/* Answers an exchange that is no call yet: with x-request-id, its own or a drawn one. */
void openai_refuse(struct http_exchange *exchange, const struct openai_error *error);
