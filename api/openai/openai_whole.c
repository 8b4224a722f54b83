#include "api/openai/openai_whole.h"

#include "api/openai/openai_call_parts.h"

#include <stdlib.h>
#include <string.h>

/* Of the prompt of choice index; NULL: none were asked for. */
static const struct collected_scores *scores_of(const struct openai_call *call, uint32_t index)
{
    const struct openai_prompt *prompt = &call->prompts[index / call->request.n_choices];
    return prompt->scores.n > 0 ? &prompt->scores : NULL;
}

static json_t *whole_body(struct openai_call *call)
{
    json_t *choices = json_array();
    for (uint32_t i = 0; i < call->request.n_prompts * call->request.n_choices; i++) {
        const struct openai_choice *choice = &call->choices[i];
        size_t bytes = 0;
        char *echo = call->request.echo
                         ? openai_request_prompt_text(&call->request, i / call->request.n_choices,
                                                      call->kind.tokenizer, &bytes)
                         : NULL;
        const struct reply_prompt prompt = {.text = echo ? echo : "",
                                            .bytes = bytes,
                                            .scores = scores_of(call, i),
                                            .is_echo = call->request.echo};
        json_t *one = call->request.echo && !echo
                          ? NULL
                          : reply_choice(&call->kind, i, &prompt, &choice->collected,
                                         choice->reason);
        free(echo);
        if (one && choice->has_beam_score)
            reply_add_score(one, choice->beam_score);
        if (json_array_append_new(choices, one) != 0) {
            json_decref(choices);
            return NULL;
        }
    }
    json_t *body = reply_whole(&call->kind, choices, &call->usage);
    if (body && call->kind.is_chat && call->kind.has_prompt_logprobs && scores_of(call, 0))
        json_object_set_new(body, "prompt_logprobs",
                            reply_prompt_logprobs(&call->kind, scores_of(call, 0)));
    return body;
}

enum status openai_whole_reply(struct openai_call *call)
{
    const struct http_field fields[] = {{"Content-Type", "application/json"},
                                        {"x-request-id", call->request_id}};
    const struct http_answer_head head = {
        .code = 200, .fields = fields, .n_fields = sizeof fields / sizeof *fields};
    json_t *body = whole_body(call);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    enum status status = text ? http_exchange_reply(call->exchange, &head, text, strlen(text))
                              : STATUS_NO_MEMORY;
    free(text);
    json_decref(body);
    return status;
}

/* ---- how long it gets ---- */

/* A log-probability as JSON, about: with what it is of. */
#define LOGPROB_BYTES 64u

static size_t logprobs_bytes(uint32_t n_tokens, uint32_t n_top)
{
    return (size_t)n_tokens * (1 + (size_t)n_top) * LOGPROB_BYTES;
}

size_t openai_whole_piece_bytes(const struct openai_call *call, const struct reply_piece *piece)
{
    const struct reply_kind *kind = &call->kind;
    return piece->text_bytes +
           (kind->has_logprobs ? logprobs_bytes(piece->n, kind->n_top_logprobs) : 0);
}

/* In how many lists of the reply they are. */
static size_t n_score_lists(const struct openai_request *request)
{
    size_t n = request->echo && request->has_logprobs ? request->n_choices : 0;
    if (request->has_prompt_logprobs)
        n += request->is_chat ? 1 : request->n_choices;
    return n;
}

size_t openai_whole_scores_bytes(const struct openai_prompt *prompt, uint32_t n_tokens)
{
    return n_score_lists(&prompt->call->request) * logprobs_bytes(n_tokens, prompt->scores.n_top);
}
