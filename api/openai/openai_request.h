/*
 * openai_request - a body of /v1/completions or /v1/chat/completions, as the router's requests: one for each prompt.
 *
 * Unknown members are ignored, as other servers do; members that would change the answer and are not served are refused by name.
 *
 * Bounds: OPENAI_PROMPTS_MAX prompts, OPENAI_CHOICES_MAX choices of all of them.
 *
 * Thread: one at a time. What it lends lives until openai_request_finish.
 */
#pragma once

#include "api/openai/openai_constraint.h"
#include "api/openai/openai_error.h"
#include "api/openai/openai_rules.h"
#include "router/requests/chat_limits.h"
#include "router/requests/generation_state.h"

struct tokenizer;

#define OPENAI_PROMPTS_MAX 64u
#define OPENAI_CHOICES_MAX 128u

struct openai_request {
    json_t *body;
    bool is_chat;
    bool is_stream;
    bool include_usage;
    bool has_logprobs;
    bool echo;
    bool is_echo_alone; /* max_tokens is 0: the reply is the prompt, and what is drawn stays here */
    bool has_prompt_logprobs;   /* shown beside the reply, as vLLM has them */
    uint32_t n_prompt_logprobs; /* likeliest tokens in them */
    bool return_token_ids;
    uint32_t n_top_logprobs; /* shown for each token */
    uint32_t n_choices;      /* for each prompt */
    uint32_t n_prompts;
    const json_t *prompts; /* of completions: an array of them, or NULL: the one is `prompt` */
    Kvferry__V1__GenerateRequest message;
    Kvferry__V1__SamplingParams sampling;
    ProtobufCBinaryData stops[STOP_STRINGS_MAX];
    uint32_t stop_ids[STOP_TOKEN_IDS_MAX];
    /* Of the prompt that message has now. */
    Kvferry__V1__TokenIds ids;
    struct chat_message *chat;
    struct openai_rules *rules;
    struct openai_constraint constraint;
};

/* False: error says why. In both cases openai_request_finish. */
bool openai_request_read(struct openai_request *request, bool is_chat,
                         const struct chat_limits *limits, const char *body, size_t bytes,
                         struct openai_error *error);
/* Puts prompt i into message. False: error says why. */
bool openai_request_set_prompt(struct openai_request *request, uint32_t i,
                               struct openai_error *error);
/* Of prompt i, for echo: its text, or that of its token ids, which were found to be below the vocabulary. The caller frees. NULL:
 * no memory. */
char *openai_request_prompt_text(const struct openai_request *request, uint32_t i,
                                 const struct tokenizer *tokenizer, size_t *bytes_out);
/* A field of kvferry.v1, as the router names it, becomes the member of the body that it came from. */
void openai_request_rename(const struct openai_request *request, struct openai_error *error);
void openai_request_finish(struct openai_request *request);
