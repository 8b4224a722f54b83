/* openai_request_fuzz - any bytes as the body of both kinds are refused with a sentence that is JSON, or are requests within their
 * bounds whose every prompt is one, or is refused. */
#include "api/openai/openai_request.h"
#include "tests/router/support/chat_limits_sample.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check_error(const struct openai_error *error)
{
    json_t *body = openai_error_json(error);
    require(error->code == 400 && error->message[0] && error->kind && body);
    json_decref(body);
}

static size_t n_seen; /* so that every borrowed byte is read */

static void see(const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        n_seen += ((const uint8_t *)bytes)[i];
}

static void see_chat(const Kvferry__V1__ChatPrompt *chat)
{
    require(chat && chat->n_messages > 0);
    for (size_t i = 0; i < chat->n_messages; i++) {
        const Kvferry__V1__ChatMessage *message = chat->messages[i];
        see(message->role, strlen(message->role));
        see(message->content.data, message->content.len);
        see(message->more, strlen(message->more));
        for (size_t c = 0; c < message->n_tool_calls; c++)
            see(message->tool_calls[c]->arguments, strlen(message->tool_calls[c]->arguments));
    }
    for (size_t i = 0; i < chat->n_tools; i++)
        see(chat->tools[i], strlen(chat->tools[i]));
}

static void see_prompt(const struct openai_request *request)
{
    const Kvferry__V1__GenerateRequest *message = &request->message;
    if (message->prompt_case == KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT)
        see(message->text.data, message->text.len);
    else if (message->prompt_case == KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS)
        see(message->token_ids->ids, message->token_ids->n_ids * sizeof(uint32_t));
    else
        see_chat(message->chat);
    /* As the router keeps it that waits. */
    uint8_t *packed = malloc(kvferry__v1__generate_request__get_packed_size(message) + 1);
    if (packed)
        see(packed, kvferry__v1__generate_request__pack(message, packed));
    free(packed);
}

static void try_kind(bool is_chat, const char *body, size_t n_bytes)
{
    struct openai_request request;
    struct openai_error error;
    if (!openai_request_read(&request, is_chat, &CHAT_LIMITS_SAMPLE, body, n_bytes, &error)) {
        check_error(&error);
        openai_request_finish(&request);
        return;
    }
    require(error.code == 0 && request.n_prompts > 0 && request.n_prompts <= OPENAI_PROMPTS_MAX);
    require(request.n_choices > 0 && request.n_choices <= CHOICES_MAX &&
            request.n_prompts * request.n_choices <= OPENAI_CHOICES_MAX);
    for (size_t i = 0; i < request.sampling.n_stop; i++)
        see(request.sampling.stop[i].data, request.sampling.stop[i].len);
    for (uint32_t i = 0; i < request.n_prompts; i++) {
        if (openai_request_set_prompt(&request, i, &error))
            see_prompt(&request);
        else
            check_error(&error);
    }
    openai_request_finish(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char *body = malloc(n_bytes ? n_bytes : 1); /* so that the sanitizer sees its end */
    if (!body)
        return 0;
    memcpy(body, bytes, n_bytes);
    try_kind(false, body, n_bytes);
    try_kind(true, body, n_bytes);
    free(body);
    return 0;
}
