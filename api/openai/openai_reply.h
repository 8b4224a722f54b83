/*
 * openai_reply - the JSON of replies: chunks of a stream, and the one body of a whole reply.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/tool_text.h"
#include "api/reply/collected.h"
#include "router/door.h"

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
    const char *id, *model;
    int64_t created; /* seconds */
    const struct tokenizer *tokenizer;
};

struct reply_usage {
    uint64_t prompt_tokens, generated_tokens, cached_tokens;
};

/* Tokens for the logprobs of a choice, and where its text is in completions' text_offset. */
struct reply_tokens {
    const uint32_t *ids;
    const struct token_logprobs *logprobs; /* NULL: none came */
    uint32_t n;
    uint64_t *text_offset; /* characters before them; moved on */
};

/* A chunk of choice index: its role (chat), text, tokens; reason NULL: it goes on. NULL: no memory, as below. */
json_t *reply_chunk(const struct reply_kind *kind, uint32_t index, bool has_role, const char *text,
                    size_t text_bytes, const struct reply_tokens *tokens, const char *reason,
                    const struct reply_end *end);
/* A chunk with more of a call. */
json_t *reply_tool_chunk(const struct reply_kind *kind, uint32_t index,
                         const struct tool_piece *piece);
/* The last one, with usage alone. */
json_t *reply_usage_chunk(const struct reply_kind *kind, const struct reply_usage *usage);

/* "stop", "length", "tool_calls" */
const char *reply_reason(const struct reply_kind *kind, Kvferry__V1__FinishReason reason);

/* A choice of a whole reply. before: text of echo. */
json_t *reply_choice(const struct reply_kind *kind, uint32_t index, const char *before,
                     size_t before_bytes, const struct collected *collected,
                     Kvferry__V1__FinishReason reason);
/* The body; steals choices. */
json_t *reply_whole(const struct reply_kind *kind, json_t *choices,
                    const struct reply_usage *usage);
