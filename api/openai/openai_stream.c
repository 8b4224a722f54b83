#include "api/openai/openai_stream.h"

#include "api/openai/openai_call_parts.h"

#include <stdlib.h>
#include <string.h>

static uint32_t index_of(const struct openai_call *call, const struct openai_choice *choice)
{
    return (uint32_t)(choice - call->choices);
}

static enum status begin(struct openai_call *call)
{
    const struct http_field fields[] = {{"Content-Type", "text/event-stream"},
                                        {"Cache-Control", "no-cache"},
                                        {"x-request-id", call->request_id}};
    const struct http_answer_head head = {
        .code = 200, .fields = fields, .n_fields = sizeof fields / sizeof *fields};
    if (call->has_begun)
        return STATUS_OK;
    call->has_begun = true;
    return http_exchange_begin(call->exchange, &head);
}

void openai_stream_on_quiet(void *arg)
{
    static const char COMMENT[] = ": \n\n";
    struct openai_call *call = arg;
    pthread_mutex_lock(&call->mutex);
    if (!call->is_over && !call->has_failed && call->n_live > 0 && begin(call) == STATUS_OK)
        (void)!http_exchange_send(call->exchange, COMMENT, sizeof COMMENT - 1); /* on_end says it */
    pthread_mutex_unlock(&call->mutex);
}

enum status openai_stream_event(struct openai_call *call, json_t *body)
{
    static const char BEFORE[] = "data: ", BEHIND[] = "\n\n";
    size_t n = body ? json_dumpb(body, NULL, 0, JSON_COMPACT) : 0;
    size_t n_before = sizeof BEFORE - 1, n_behind = sizeof BEHIND - 1;
    char *event = n > 0 ? malloc(n_before + n + n_behind) : NULL;
    enum status status = STATUS_NO_MEMORY;
    if (event) {
        memcpy(event, BEFORE, n_before);
        (void)json_dumpb(body, event + n_before, n, JSON_COMPACT);
        memcpy(event + n_before + n, BEHIND, n_behind);
        status = begin(call);
        if (status == STATUS_OK)
            status = http_exchange_send(call->exchange, event, n_before + n + n_behind);
    }
    free(event);
    json_decref(body);
    return status;
}

/* The caller frees. NULL: no memory. */
static char *echo_of(const struct openai_call *call, uint32_t index, size_t *bytes_out)
{
    return openai_request_prompt_text(&call->request, index / call->request.n_choices,
                                      call->kind.tokenizer, bytes_out);
}

/* The role of chat, the prompt of echo. */
static enum status begin_choice(struct openai_call *call, struct openai_choice *choice)
{
    size_t bytes = 0;
    if (choice->has_begun)
        return STATUS_OK;
    choice->has_begun = true;
    tool_text_init(&choice->tools, call->kind.tools);
    if (!call->kind.is_chat && !call->request.echo)
        return STATUS_OK;
    char *echo = call->request.echo ? echo_of(call, index_of(call, choice), &bytes) : NULL;
    if (call->request.echo && !echo)
        return STATUS_NO_MEMORY;
    json_t *chunk = reply_chunk(&call->kind, index_of(call, choice), call->kind.is_chat,
                                echo ? echo : "", bytes, NULL, NULL, NULL);
    free(echo);
    return openai_stream_event(call, chunk);
}

/* Text of a choice that is calls of tools. */
static enum status stream_calls(struct openai_call *call, struct openai_choice *choice,
                                const char *text, size_t bytes)
{
    struct tool_piece piece;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at;
        if (tool_text_next(&choice->tools, text + at, &n, &piece))
            TRY(openai_stream_event(call,
                                    reply_tool_chunk(&call->kind, index_of(call, choice), &piece)));
    }
    return STATUS_OK;
}

static enum status stream_text(struct openai_call *call, struct openai_choice *choice,
                               const char *text, size_t bytes, const struct reply_tokens *tokens)
{
    const struct reply_kind *kind = &call->kind;
    const bool is_call = kind->tools != TOOL_FREE;
    if ((tokens && (kind->has_logprobs || kind->return_token_ids)) || (bytes > 0 && !is_call))
        TRY(openai_stream_event(call, reply_chunk(kind, index_of(call, choice), false, text,
                                                  is_call ? 0 : bytes, tokens, NULL, NULL)));
    return is_call ? stream_calls(call, choice, text, bytes) : STATUS_OK;
}

enum status openai_stream_scores(struct openai_prompt *prompt)
{
    struct openai_call *call = prompt->call;
    for (uint32_t i = 0; i < call->request.n_choices; i++) {
        struct openai_choice *choice = openai_choice_of(prompt, i);
        const struct reply_tokens tokens = {.prompt = &prompt->scores,
                                            .text_offset = &choice->text_offset};
        TRY(begin_choice(call, choice));
        TRY(openai_stream_event(call, reply_chunk(&call->kind, index_of(call, choice), false, "", 0,
                                                  &tokens, NULL, NULL)));
    }
    collected_scores_clear(&prompt->scores);
    return STATUS_OK;
}

enum status openai_stream_piece(struct openai_call *call, struct openai_choice *choice,
                                const struct reply_piece *piece)
{
    const struct reply_tokens tokens = {.ids = piece->token_ids,
                                        .logprobs = piece->logprobs,
                                        .n = piece->n,
                                        .text_offset = &choice->text_offset};
    TRY(begin_choice(call, choice));
    return call->request.is_echo_alone
               ? STATUS_OK
               : stream_text(call, choice, piece->text, piece->text_bytes, &tokens);
}

enum status openai_stream_end_choice(struct openai_call *call, struct openai_choice *choice,
                                     const struct reply_end *end)
{
    TRY(begin_choice(call, choice));
    if (call->request.is_echo_alone)
        return openai_stream_event(call, reply_chunk(&call->kind, index_of(call, choice), false, "",
                                                     0, NULL, "length", NULL));
    TRY(stream_text(call, choice, end->text, end->text_bytes, NULL));
    return openai_stream_event(call,
                               reply_chunk(&call->kind, index_of(call, choice), false, "", 0, NULL,
                                           reply_reason(&call->kind, end->reason), end));
}

enum status openai_stream_end(struct openai_call *call)
{
    static const char DONE[] = "data: [DONE]\n\n";
    if (call->request.include_usage)
        TRY(openai_stream_event(call, reply_usage_chunk(&call->kind, &call->usage)));
    TRY(http_exchange_send(call->exchange, DONE, sizeof DONE - 1));
    http_exchange_end(call->exchange);
    return STATUS_OK;
}
