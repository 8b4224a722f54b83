#include "api/openai/openai_reply.h"

#include "api/openai/tool_reply.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_LOGPROB (-9999.0) /* JSON has no infinity */

const char *reply_reason(const struct reply_kind *kind, Kvferry__V1__FinishReason reason)
{
    if (reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH)
        return "length";
    return kind->tools == TOOL_FREE ? "stop" : "tool_calls";
}

/* ---- log-probabilities ---- */

static double shown(float logprob)
{
    return isfinite(logprob) ? (double)logprob : LEAST_LOGPROB;
}

/* Its bytes as text: those that are no character are U+FFFD, as Python shows them. */
static json_t *token_text(const char *bytes, size_t n)
{
    static const char replacement[3] = {'\xef', '\xbf', '\xbd'};
    char text[3 * TOKEN_BYTES_MAX + 1];
    size_t at = 0, n_out = 0;
    if (n > TOKEN_BYTES_MAX)
        n = TOKEN_BYTES_MAX;
    while (at < n) {
        size_t n_valid = utf8_first_invalid(bytes + at, n - at);
        memcpy(text + n_out, bytes + at, n_valid);
        n_out += n_valid;
        at += n_valid;
        if (at < n) {
            memcpy(text + n_out, replacement, sizeof replacement);
            n_out += sizeof replacement;
            at++;
        }
    }
    return json_stringn(text, n_out);
}

static const char *bytes_of(const struct reply_kind *kind, uint32_t id, size_t *n_out)
{
    *n_out = 0;
    if (id >= tokenizer_n_ids(kind->tokenizer)) /* a model's padding */
        return "";
    return tokenizer_token_bytes(kind->tokenizer, id, n_out);
}

static json_t *byte_list(const char *bytes, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_integer((uint8_t)bytes[i]));
    return list;
}

static json_t *chat_token(const struct reply_kind *kind, uint32_t id, float logprob)
{
    size_t n;
    const char *bytes = bytes_of(kind, id, &n);
    return json_pack("{s:o, s:f, s:o}", "token", token_text(bytes, n), "logprob", shown(logprob),
                     "bytes", byte_list(bytes, n));
}

static json_t *chat_logprobs(const struct reply_kind *kind, const struct reply_tokens *tokens)
{
    json_t *content = json_array();
    for (uint32_t i = 0; i < tokens->n; i++) {
        const struct token_logprobs *one = &tokens->logprobs[i];
        json_t *entry = chat_token(kind, tokens->ids[i], one->logprob);
        json_t *top = json_array();
        for (uint32_t k = 0; k < one->n_top && k < kind->n_top_logprobs; k++)
            json_array_append_new(top, chat_token(kind, one->top_ids[k], one->top_logprobs[k]));
        json_object_set_new(entry, "top_logprobs", top);
        json_array_append_new(content, entry);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

/* The four lists of completions. */
struct logprob_lists {
    json_t *texts, *values, *tops, *offsets;
};

/* Tokens that look alike have one name: the likeliest keeps it. */
static json_t *top_by_text(const struct reply_kind *kind, const struct token_logprobs *one)
{
    json_t *top = json_object();
    for (uint32_t k = 0; k < one->n_top && k < kind->n_top_logprobs; k++) {
        size_t n_top;
        const char *top_bytes = bytes_of(kind, one->top_ids[k], &n_top);
        json_t *name = token_text(top_bytes, n_top);
        if (json_string_length(name) == strlen(json_string_value(name)) &&
            !json_object_get(top, json_string_value(name)))
            json_object_set_new(top, json_string_value(name),
                                json_real(shown(one->top_logprobs[k])));
        json_decref(name);
    }
    return top;
}

/* one NULL: the token has no log-probability. */
static void add_token(const struct reply_kind *kind, struct logprob_lists *lists, uint32_t id,
                      const struct token_logprobs *one, uint64_t *text_offset)
{
    size_t n;
    const char *bytes = bytes_of(kind, id, &n);
    json_array_append_new(lists->offsets, json_integer((json_int_t)*text_offset));
    *text_offset += utf8_count(bytes, n);
    json_array_append_new(lists->texts, token_text(bytes, n));
    json_array_append_new(lists->values, one ? json_real(shown(one->logprob)) : json_null());
    json_array_append_new(lists->tops, one ? top_by_text(kind, one) : json_null());
}

static json_t *completion_logprobs(const struct reply_kind *kind, const struct reply_tokens *tokens)
{
    struct logprob_lists lists = {json_array(), json_array(), json_array(), json_array()};
    for (uint32_t i = 0; tokens->prompt && i < tokens->prompt->n; i++) {
        struct token_logprobs one;
        const uint32_t id = collected_scores_get(tokens->prompt, i, &one);
        const bool is_first = tokens->prompt->first + i == 0;
        add_token(kind, &lists, id, is_first ? NULL : &one, tokens->text_offset);
    }
    for (uint32_t i = 0; i < tokens->n; i++)
        add_token(kind, &lists, tokens->ids[i], &tokens->logprobs[i], tokens->text_offset);
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", lists.texts, "token_logprobs", lists.values,
                     "top_logprobs", lists.tops, "text_offset", lists.offsets);
}

/* A new null where there are none. */
static json_t *logprobs_of(const struct reply_kind *kind, const struct reply_tokens *tokens)
{
    const bool has_own = tokens && tokens->logprobs && tokens->n > 0;
    if (!kind->has_logprobs || !tokens || (!has_own && !tokens->prompt))
        return json_null();
    return kind->is_chat ? chat_logprobs(kind, tokens) : completion_logprobs(kind, tokens);
}

static void add_ranked(const struct reply_kind *kind, json_t *ranked, uint32_t id, float logprob,
                       uint32_t rank)
{
    char name[16];
    size_t n;
    const char *bytes = bytes_of(kind, id, &n);
    snprintf(name, sizeof name, "%" PRIu32, id);
    if (json_object_get(ranked, name))
        return;
    json_object_set_new(ranked, name,
                        json_pack("{s:f, s:o, s:o}", "logprob", shown(logprob), "rank",
                                  rank > 0 ? json_integer(rank) : json_null(), "decoded_token",
                                  token_text(bytes, n)));
}

/* 0: not among the likeliest. */
static uint32_t rank_of(const struct token_logprobs *one, uint32_t id)
{
    for (uint32_t k = 0; k < one->n_top; k++)
        if (one->top_ids[k] == id)
            return k + 1;
    return 0;
}

json_t *reply_prompt_logprobs(const struct reply_kind *kind, const struct collected_scores *scores)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < scores->n; i++) {
        struct token_logprobs one;
        const uint32_t id = collected_scores_get(scores, i, &one);
        json_t *ranked = i > 0 ? json_object() : json_null();
        if (i > 0)
            add_ranked(kind, ranked, id, one.logprob, rank_of(&one, id));
        for (uint32_t k = 0; i > 0 && k < one.n_top && k < kind->n_prompt_logprobs; k++)
            add_ranked(kind, ranked, one.top_ids[k], one.top_logprobs[k], k + 1);
        json_array_append_new(list, ranked);
    }
    return list;
}

static json_t *id_list(const uint32_t *ids, uint32_t n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < n; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return list;
}

/* ---- bodies ---- */

void reply_usage_add(struct reply_usage *usage, const struct reply_end *end, bool has_tokens)
{
    if (has_tokens)
        usage->generated_tokens += end->usage.generated_tokens;
    if (end->index > 0) /* the others share the prompt */
        return;
    usage->prompt_tokens += end->usage.prompt_tokens;
    usage->cached_tokens += end->usage.cached_tokens;
}

static json_t *usage_json(const struct reply_usage *usage)
{
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", (json_int_t)usage->prompt_tokens,
                     "completion_tokens", (json_int_t)usage->generated_tokens, "total_tokens",
                     (json_int_t)usage->prompt_tokens + (json_int_t)usage->generated_tokens,
                     "prompt_tokens_details", "cached_tokens", (json_int_t)usage->cached_tokens);
}

static json_t *body_of(const struct reply_kind *kind, const char *object, json_t *choices)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "id", kind->id, "object", object, "created",
                     (json_int_t)kind->created, "model", kind->model, "choices", choices);
}

static const char *chunk_object(const struct reply_kind *kind)
{
    return kind->is_chat ? "chat.completion.chunk" : "text_completion";
}

static void add_stop(json_t *choice, const struct reply_end *end)
{
    if (end && end->matched == MATCHED_STRING)
        json_object_set_new(
            choice, "stop_reason",
            json_stringn((const char *)end->stop_string.data, end->stop_string.len));
    else if (end && end->matched == MATCHED_TOKEN)
        json_object_set_new(choice, "stop_reason", json_integer(end->stop_token_id));
}

void reply_add_score(json_t *choice, float beam_score)
{
    double score = (double)beam_score;
    if (isinf(score)) /* which JSON has not */
        score = score < 0 ? -(double)FLT_MAX : (double)FLT_MAX;
    json_object_set_new(choice, "beam_score", json_real(score));
}

json_t *reply_chunk(const struct reply_kind *kind, uint32_t index, bool has_role, const char *text,
                    size_t text_bytes, const struct reply_tokens *tokens, const char *reason,
                    const struct reply_end *end)
{
    json_t *choice = json_pack("{s:I, s:o, s:s?}", "index", (json_int_t)index, "logprobs",
                               logprobs_of(kind, tokens), "finish_reason", reason);
    if (kind->is_chat) {
        json_t *delta = json_object();
        if (has_role)
            json_object_set_new(delta, "role", json_string("assistant"));
        if (has_role && kind->tools != TOOL_FREE)
            json_object_set_new(delta, "content", json_null());
        else if (has_role || text_bytes > 0)
            json_object_set_new(delta, "content", json_stringn(text, text_bytes));
        json_object_set_new(choice, "delta", delta);
    } else {
        json_object_set_new(choice, "text", json_stringn(text, text_bytes));
    }
    if (kind->return_token_ids && tokens && tokens->n > 0)
        json_object_set_new(choice, "token_ids", id_list(tokens->ids, tokens->n));
    if (reason)
        add_stop(choice, end);
    if (reason && end && end->has_beam_score)
        reply_add_score(choice, end->beam_score);
    json_t *body = body_of(kind, chunk_object(kind), json_pack("[o]", choice));
    if (body && kind->include_usage)
        json_object_set_new(body, "usage", json_null());
    return body;
}

json_t *reply_tool_chunk(const struct reply_kind *kind, uint32_t index,
                         const struct tool_piece *piece)
{
    json_t *choice = json_pack("{s:I, s:n, s:n, s:{s:[o]}}", "index", (json_int_t)index, "logprobs",
                               "finish_reason", "delta", "tool_calls",
                               tool_reply_delta(piece, kind->tool_name));
    json_t *body = body_of(kind, chunk_object(kind), json_pack("[o]", choice));
    if (body && kind->include_usage)
        json_object_set_new(body, "usage", json_null());
    return body;
}

static json_t *message_of(const struct reply_kind *kind, const char *text, size_t bytes)
{
    if (kind->tools == TOOL_FREE)
        return json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                         json_stringn(text, bytes), "refusal");
    return json_pack("{s:s, s:n, s:n, s:o}", "role", "assistant", "content", "refusal",
                     "tool_calls", tool_reply_calls(kind->tools, kind->tool_name, text, bytes));
}

json_t *reply_usage_chunk(const struct reply_kind *kind, const struct reply_usage *usage)
{
    json_t *body = body_of(kind, chunk_object(kind), json_array());
    json_object_set_new(body, "usage", usage_json(usage));
    return body;
}

static json_t *echoed_text(const struct reply_prompt *prompt, const char *text, size_t bytes)
{
    char *whole = malloc(prompt->bytes + bytes + 1);
    if (!whole)
        return NULL;
    memcpy(whole, prompt->text, prompt->bytes);
    memcpy(whole + prompt->bytes, text, bytes);
    json_t *made = json_stringn(whole, prompt->bytes + bytes);
    free(whole);
    return made;
}

json_t *reply_choice(const struct reply_kind *kind, uint32_t index,
                     const struct reply_prompt *prompt, const struct collected *collected,
                     Kvferry__V1__FinishReason reason)
{
    const bool has_prompt = prompt->is_echo && prompt->scores;
    uint64_t offset = has_prompt ? 0 : utf8_count(prompt->text, prompt->bytes);
    const struct reply_tokens tokens = {.ids = collected->token_ids,
                                        .logprobs = collected->logprobs,
                                        .n = collected->logprobs ? collected->n : 0,
                                        .prompt = has_prompt ? prompt->scores : NULL,
                                        .text_offset = &offset};
    json_t *choice = json_pack("{s:I, s:o, s:s}", "index", (json_int_t)index, "logprobs",
                               logprobs_of(kind, &tokens), "finish_reason",
                               reply_reason(kind, reason));
    const char *text = collected->text ? collected->text : "";
    if (kind->is_chat)
        json_object_set_new(choice, "message", message_of(kind, text, collected->text_bytes));
    else
        json_object_set_new(choice, "text", echoed_text(prompt, text, collected->text_bytes));
    if (!kind->is_chat && kind->has_prompt_logprobs && prompt->scores)
        json_object_set_new(choice, "prompt_logprobs", reply_prompt_logprobs(kind, prompt->scores));
    if (kind->return_token_ids)
        json_object_set_new(choice, "token_ids", id_list(collected->token_ids, collected->n));
    return choice;
}

json_t *reply_whole(const struct reply_kind *kind, json_t *choices, const struct reply_usage *usage)
{
    json_t *body = body_of(kind, kind->is_chat ? "chat.completion" : "text_completion", choices);
    json_object_set_new(body, "usage", usage_json(usage));
    return body;
}
