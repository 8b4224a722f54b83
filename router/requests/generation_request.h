/*
 * generation_request - checks a GenerateRequest field by field, and copies it.
 *
 * Thread: any; no state.
 */
#pragma once

#include "process/process_state.h"
#include "router/requests/chat_limits.h"
#include "router/requests/generation.h"
#include "text/template_renderer.h"

/* The data for the checks. */
struct request_limits {
    const char *model_name;
    const struct generation_defaults *defaults;
    struct model_card card; /* vocabulary, context_tokens */
    size_t text_bytes_max;
    const struct chat_limits *chat;
    uint32_t chat_tokens_max; /* of an answer for which a request of chat sets no max_tokens */
    int32_t priority_max;     /* of a call without a pass */
};

/* Copies message into generation; draws the seed if it is absent; request_id may be "".
 * INVALID_ARGUMENT, MODEL_NOT_FOUND, NOT_ALLOWED, PROMPT_TOO_LONG, NO_MEMORY. */
MUST_CHECK enum status generation_take(struct generation *generation,
                                       const Kvferry__V1__GenerateRequest *message,
                                       const struct request_limits *limits,
                                       struct rpc_error *error);

/* The text of a chat request becomes the prompt that the model's template makes of it. Waits for the renderer. INVALID_ARGUMENT with
 * the template's own sentence, and what else template_renderer_render says. */
MUST_CHECK enum status generation_render(struct generation *generation,
                                         struct template_renderer *renderer,
                                         const struct tokenizer *tokenizer, int64_t now_unix_s,
                                         struct rpc_error *error);

/* Tokenizes a prompt given as text, and checks its length. May take milliseconds. INVALID_ARGUMENT,
 * PROMPT_TOO_LONG, NO_MEMORY; or CANCELLED, TIMED_OUT and other statuses if the call ends meanwhile. */
MUST_CHECK enum status generation_tokenize(struct generation *generation,
                                           const struct tokenizer *tokenizer,
                                           uint32_t context_tokens, struct rpc_error *error);

/* The standing of a request before it is checked: a forbidden priority counts as none. message NULL: no priority. pass
 * NULL: no tenants. */
struct standing request_standing(const struct tenant_pass *pass,
                                 const Kvferry__V1__GenerateRequest *message, int32_t priority_max);

/* MODEL_NOT_FOUND. An empty name means the one model, whose adapters card has. adapter_out: of the model, or none. */
MUST_CHECK enum status request_find_model(const char *model, const char *field,
                                          const char *model_name, const struct model_card *card,
                                          struct rpc_error *error, struct adapter_id *adapter_out);
