/*
 * openai_reply - the JSON of replies: chunks of a stream, and the one body of a whole reply.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/tool_text.h"
#include "api/reply/collected.h"
#include "api/reply/collected_scores.h"
#include "router/requests/door.h"

#include <jansson.h>

struct tokenizer;

/* What all chunks of a reply have. */
struct reply_kind {
    bool is_chat;
    bool has_logprobs;
    bool return_token_ids;
    bool include_usage;
    enum tool_mode tools;
    const char *tool_name; /* of TOOL_NAMED */
    uint32_t n_top_logprobs;
    bool has_prompt_logprobs;
    uint32_t n_prompt_logprobs;
    const char *id, *model;
    int64_t created; /* seconds */
    const struct tokenizer *tokenizer;
};

struct reply_usage {
    uint64_t prompt_tokens, generated_tokens, cached_tokens;
};

/* The tokens of one choice's end; has_tokens: those that were generated, too. */
void reply_usage_add(struct reply_usage *usage, const struct reply_end *end, bool has_tokens);

/* Tokens for the logprobs of a choice, and where its text is in completions' text_offset. */
struct reply_tokens {
    const uint32_t *ids;
    const struct token_logprobs *logprobs; /* NULL: none came */
    uint32_t n;
    const struct collected_scores *prompt; /* some of the prompt's, before them; NULL: none */
    uint64_t *text_offset;                 /* characters before them all; moved on */
};

/* A chunk of choice index: its role (chat), text, tokens; reason NULL: it goes on. NULL: no memory, as below. */
json_t *reply_chunk(const struct reply_kind *kind, uint32_t index, bool has_role, const char *text,
                    size_t text_bytes, const struct reply_tokens *tokens, const char *reason,
                    const struct reply_end *end);
/* Of a beam search: beam_score. */
void reply_add_score(json_t *choice, float beam_score);
/* A chunk with more of a call. */
json_t *reply_tool_chunk(const struct reply_kind *kind, uint32_t index,
                         const struct tool_piece *piece);
/* The last one, with usage alone. */
json_t *reply_usage_chunk(const struct reply_kind *kind, const struct reply_usage *usage);

/* "stop", "length", "tool_calls" */
const char *reply_reason(const struct reply_kind *kind, Kvferry__V1__FinishReason reason);

/* The prompt of a choice of a whole reply: its text, of echo, and its log-probabilities, which are among those of the choice if
 * there is an echo. */
struct reply_prompt {
    const char *text; /* [bytes] */
    size_t bytes;
    const struct collected_scores *scores; /* NULL: none came */
    bool is_echo;
};

json_t *reply_choice(const struct reply_kind *kind, uint32_t index,
                     const struct reply_prompt *prompt, const struct collected *collected,
                     Kvferry__V1__FinishReason reason);
/* As vLLM has them: a list with null for the first token, then {"ID": {"logprob", "rank", "decoded_token"}} of the token itself and of
 * the likeliest ones. rank is null where it is not known. */
json_t *reply_prompt_logprobs(const struct reply_kind *kind, const struct collected_scores *scores);
/* The body; steals choices. */
json_t *reply_whole(const struct reply_kind *kind, json_t *choices,
                    const struct reply_usage *usage);
