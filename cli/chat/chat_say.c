#include "cli/chat/chat.h"
#include "cli/client/generation_call.h"
#include "cli/client/prompt_bar.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static void make_request(struct chat *chat, struct conversation_prompt *prompt,
                         Kvferry__V1__GenerateRequest *request_out)
{
    kvferry__v1__generate_request__init(request_out);
    request_out->prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT;
    request_out->chat = &prompt->chat;
    request_out->sampling = &chat->sampling.params;
    request_out->cache_salt = borrow(chat->values.cache_salt);
    request_out->return_timing = chat->values.verbose;
    request_out->return_progress = prompt_bar_is_possible();
}

static void call(struct chat *chat, struct conversation_prompt *prompt,
                 struct reply_printer *printer, struct generation_result *result)
{
    Kvferry__V1__GenerateRequest request;
    make_request(chat, prompt, &request);
    const struct generation_call_options options = {
        .server = chat->address,
        .tls = chat->has_tls ? &chat->tls : NULL,
        .authorization = chat->authorization,
        .deadline_ms = chat->values.deadline_ms,
        .asks_for_context = true,
        .command = chat->command,
    };
    generation_call_run(&options, &request, printer, result);
    chat->signal_number = result->signal_number;
    chat->is_unprinted = result->is_unprinted;
}

static enum status explain(const struct chat *chat, const struct generation_result *result,
                           struct error *error)
{
    struct error why = {0};
    enum status status = generation_result_check(result, chat->address, chat->values.deadline_ms,
                                                 &why);
    if (status == STATUS_NO_CHAT_TEMPLATE)
        error_write(error,
                    "%s; start the router with --chat-template FILE, or use `kvferry generate`",
                    why.text);
    else if (status == STATUS_PROMPT_TOO_LONG && chat->is_conversation)
        error_write(error, "%s; /clear begins a new conversation", why.text);
    else if (status != STATUS_OK)
        error_write(error, "%s", why.text);
    return status;
}

/* What ended it, and what a person can do. */
static void explain_cut(const struct chat *chat, const struct generation_result *result,
                        char why_out[128])
{
    const Kvferry__V1__SamplingParams *params = &chat->sampling.params;
    const bool is_asked = params->max_tokens_presence_case ==
                              KVFERRY__V1__SAMPLING_PARAMS__MAX_TOKENS_PRESENCE_MAX_TOKENS &&
                          result->generated_tokens == params->max_tokens;
    const char *more = chat->is_conversation ? "/set max_tokens" : "--max-tokens";
    const char *anew = chat->is_conversation ? ": /clear begins a new conversation" : "";
    const uint64_t used = (uint64_t)result->prompt_tokens + result->generated_tokens;
    if (result->context_tokens > 0 && used >= result->context_tokens)
        snprintf(why_out, 128, "the model's context of %" PRIu32 " tokens is full%s",
                 result->context_tokens, anew);
    else if (is_asked)
        snprintf(why_out, 128, "%s allows more", more);
    else if (result->context_tokens > 0)
        snprintf(why_out, 128, "the router's chat_tokens_max; %s allows more", more);
    else
        snprintf(why_out, 128, "%s allows more, unless the context is full%s", more, anew);
}

/* Else a reader takes the beginning of an answer for the whole. */
static void tell_cut(const struct chat *chat, const struct generation_result *result)
{
    char why[128];
    if (result->reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH)
        return;
    explain_cut(chat, result, why);
    fprintf(stderr, "%s: the answer was cut after %" PRIu32 " token%s (%s)\n", chat->command,
            result->generated_tokens, result->generated_tokens == 1 ? "" : "s", why);
}

/* The last message is the user's. */
static enum status ask(struct chat *chat, struct error *error)
{
    struct conversation_prompt prompt;
    struct reply_printer printer;
    struct generation_result result;
    assert(chat->address[0] && conversation_last_role(&chat->conversation));
    TRY(conversation_prompt_make(&chat->conversation, &prompt, error));
    const struct reply_printer_options printing = {
        .n_choices = 1, .keeps = true, .bytes_max = chat->values.answer_bytes_max};
    reply_printer_init(&printer, &printing);
    call(chat, &prompt, &printer, &result);
    conversation_prompt_finish(&prompt);
    const struct reply_choice *answer = &printer.reply.choices[0];
    enum status status = STATUS_OK;
    bool is_broken_off = chat->signal_number == SIGINT && answer->n_text > 0;
    if (!is_broken_off && chat->signal_number == 0)
        status = explain(chat, &result, error);
    if (status == STATUS_OK && (is_broken_off || chat->signal_number == 0)) {
        status = conversation_add(&chat->conversation, "assistant", answer->text, answer->n_text,
                                  error);
        chat->is_unanswered = status != STATUS_OK;
    }
    if (status == STATUS_OK && chat->signal_number == 0)
        tell_cut(chat, &result);
    if (status == STATUS_OK && chat->signal_number == 0 && chat->values.verbose)
        generation_result_print(&result, stderr);
    reply_printer_finish(&printer);
    return status;
}

enum status chat_say(struct chat *chat, const char *text, size_t bytes, struct error *error)
{
    if (chat->is_unanswered)
        conversation_drop_last(&chat->conversation);
    chat->is_unanswered = false;
    TRY(conversation_add(&chat->conversation, "user", text, bytes, error));
    chat->is_unanswered = true;
    return ask(chat, error);
}

enum status chat_retry(struct chat *chat, struct error *error)
{
    const char *role = conversation_last_role(&chat->conversation);
    if (role && strcmp(role, "assistant") == 0)
        conversation_drop_last(&chat->conversation);
    role = conversation_last_role(&chat->conversation);
    if (!role || strcmp(role, "system") == 0)
        return error_set(error, STATUS_NOT_FOUND, "there is no message to answer");
    chat->is_unanswered = strcmp(role, "user") == 0;
    return ask(chat, error);
}
