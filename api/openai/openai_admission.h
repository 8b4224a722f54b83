/*
 * openai_admission - who asks by HTTP: the bearer token of a request, its name and its trace.
 *
 * Thread: any.
 */
#pragma once

#include "api/http/http_exchange.h"
#include "router/admission/admission.h"

/* x-request-id where it may be a name, else a drawn one unless id is given; and traceparent. */
void openai_origin(struct http_exchange *exchange, const char *id,
                   struct request_origin *origin_out);

/* As admission_enter, for the method of the exchange's path. */
MUST_CHECK enum status openai_admit(struct admission *admission, struct http_exchange *exchange,
                                    struct tenant_pass **pass_out, struct rpc_error *error);
