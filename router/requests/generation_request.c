#include "router/requests/generation_request.h"

#include "base/random.h"
#include "router/requests/bad_words.h"
#include "router/requests/chat_prompt.h"
#include "rpc/request_id.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status refuse(struct rpc_error *error, enum status status, const char *field,
                          const char *value, const char *what)
{
    rpc_error_set(error, status, field, value, "%s %s", field, what);
    return status;
}

enum status request_find_model(const char *model, const char *field, const char *model_name,
                               const struct model_card *card, struct rpc_error *error,
                               struct adapter_id *adapter_out)
{
    char what[256];
    const struct adapter_id *adapter = NULL;
    const bool is_model = !model[0] || strcmp(model, model_name) == 0;
    *adapter_out = (struct adapter_id){0};
    if (!is_model)
        adapter = adapter_ids_find(card->adapters, card->n_adapters, model);
    if (adapter)
        *adapter_out = *adapter;
    if (is_model || adapter)
        return STATUS_OK;
    snprintf(what, sizeof what, "\"%.80s\" is not served here; \"%.100s\" is%s", model, model_name,
             card->n_adapters > 0 ? ", and adapters of it (ListModels)" : "");
    return refuse(error, STATUS_MODEL_NOT_FOUND, field, model, what);
}

static enum status take_salt(struct generation *generation, const char *salt,
                             struct rpc_error *error)
{
    size_t bytes = strlen(salt);
    char what[64];
    snprintf(what, sizeof what, "has %zu bytes; at most %u are taken", bytes, CACHE_SALT_MAX);
    if (bytes > CACHE_SALT_MAX)
        return refuse(error, STATUS_INVALID_ARGUMENT, "cache_salt", NULL, what);
    memcpy(generation->cache_salt, salt, bytes + 1);
    return STATUS_OK;
}

/* Of a call with a pass its tenant's. */
static struct tenant_terms terms_of(const struct tenant_pass *pass, int32_t priority_max)
{
    struct tenant_terms terms = {.priority_max = priority_max};
    if (pass)
        tenant_pass_terms(pass, &terms);
    return terms;
}

static bool has_priority(const Kvferry__V1__GenerateRequest *message)
{
    return message->priority_presence_case ==
           KVFERRY__V1__GENERATE_REQUEST__PRIORITY_PRESENCE_PRIORITY;
}

struct standing request_standing(const struct tenant_pass *pass,
                                 const Kvferry__V1__GenerateRequest *message, int32_t priority_max)
{
    struct tenant_terms terms = terms_of(pass, priority_max);
    if (message && has_priority(message) && message->priority >= -STANDING_PRIORITY_MAX &&
        message->priority <= terms.priority_max)
        terms.standing.priority = message->priority;
    return terms.standing;
}

/* But for what the message says. */
static enum status take_standing(struct generation *generation,
                                 const Kvferry__V1__GenerateRequest *message, int32_t priority_max,
                                 struct rpc_error *error)
{
    struct tenant_terms terms = terms_of(generation->call->pass, priority_max);
    char value[16];
    char what[80];
    generation->standing = terms.standing;
    if (!has_priority(message))
        return STATUS_OK;
    int32_t priority = message->priority;
    snprintf(value, sizeof value, "%" PRId32, priority);
    snprintf(what, sizeof what, "is %" PRId32 "; it must be %d to %d", priority,
             -STANDING_PRIORITY_MAX, STANDING_PRIORITY_MAX);
    if (priority > STANDING_PRIORITY_MAX || priority < -STANDING_PRIORITY_MAX)
        return refuse(error, STATUS_INVALID_ARGUMENT, "priority", value, what);
    snprintf(what, sizeof what, "is %" PRId32 "; you may ask for %" PRId32 " at most", priority,
             terms.priority_max);
    if (priority > terms.priority_max)
        return refuse(error, STATUS_NOT_ALLOWED, "priority", value, what);
    generation->standing.priority = priority;
    return STATUS_OK;
}

static enum status take_n(struct generation *generation, const Kvferry__V1__SamplingParams *message,
                          struct rpc_error *error)
{
    uint32_t n = message && message->n > 0 ? message->n : 1;
    char value[16];
    char what[64];
    snprintf(value, sizeof value, "%" PRIu32, n);
    snprintf(what, sizeof what, "is %" PRIu32 "; it must be 1 to %u", n, CHOICES_MAX);
    if (n > CHOICES_MAX)
        return refuse(error, STATUS_INVALID_ARGUMENT, "sampling.n", value, what);
    generation->n_choices = n;
    return STATUS_OK;
}

static enum status take_bad_words(struct generation *generation,
                                  const Kvferry__V1__SamplingParams *message, uint32_t vocabulary,
                                  struct rpc_error *error)
{
    if (!message || message->n_bad_words == 0)
        return STATUS_OK;
    assert(!generation->bad_words && message->n_bad_words <= BAD_WORDS_MAX);
    generation->bad_words = calloc(1, sizeof *generation->bad_words);
    if (!generation->bad_words)
        return refuse(error, STATUS_NO_MEMORY, "sampling.bad_words", NULL, "have no room");
    generation->bad_words->vocabulary = vocabulary;
    for (size_t i = 0; i < message->n_bad_words; i++)
        bad_words_add(generation->bad_words, (const char *)message->bad_words[i].data,
                      message->bad_words[i].len);
    return STATUS_OK;
}

static enum status check_reply_window(const struct model_card *card, uint32_t window,
                                      struct rpc_error *error)
{
    char value[16];
    struct error why;
    if (!card->has_geometry ||
        geometry_check_reply_window(&card->geometry, window, &why) == STATUS_OK)
        return STATUS_OK;
    snprintf(value, sizeof value, "%u", window);
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, "sampling.reply_window", value, "%s", why.text);
    return STATUS_INVALID_ARGUMENT;
}

/* With its rules, and what the text leaves out. */
static enum status take_sampling(struct generation *generation,
                                 const Kvferry__V1__SamplingParams *message,
                                 const struct request_limits *limits, struct rpc_error *error)
{
    struct sampling_lists lists;
    struct sampling_params *params = &generation->sampling.params;
    enum status status = sampling_choice_make(message, limits->defaults, limits->card.vocabulary,
                                              &generation->sampling, &generation->stops, &lists,
                                              error);
    const struct token_rules *rules = params->rules;
    params->rules = NULL;
    if (status != STATUS_OK)
        return status;
    TRY(check_reply_window(&limits->card, params->reply_window, error));
    generation->sampling.reply_tokens = limits->card.reply_tokens;
    if (limits->card.has_geometry)
        generation->sampling.sequence_tokens = geometry_sequence_tokens(
            &limits->card.geometry, limits->card.context_tokens);
    assert(!generation->rules && "a request is taken once");
    if (rules) {
        generation->rules = token_rules_copy(rules);
        params->rules = generation->rules;
    }
    if (rules && !generation->rules)
        return refuse(error, STATUS_NO_MEMORY, "sampling", NULL, "has no room");
    generation->skip_special =
        !message ||
        message->skip_special_tokens_presence_case !=
            KVFERRY__V1__SAMPLING_PARAMS__SKIP_SPECIAL_TOKENS_PRESENCE_SKIP_SPECIAL_TOKENS ||
        message->skip_special_tokens;
    return take_bad_words(generation, message, limits->card.vocabulary, error);
}

static enum status take_text(struct generation *generation, const ProtobufCBinaryData *text,
                             const struct request_limits *limits, struct rpc_error *error)
{
    size_t bytes = text->len;
    char what[80];
    if (bytes == 0)
        return refuse(error, STATUS_INVALID_ARGUMENT, "text", "",
                      "is empty: there is nothing to continue");
    snprintf(what, sizeof what, "has %zu bytes; at most %zu are taken", bytes,
             limits->text_bytes_max);
    if (bytes > limits->text_bytes_max)
        return refuse(error, STATUS_PROMPT_TOO_LONG, "text", NULL, what);
    assert(!generation->text && !generation->token_ids && "a prompt is taken once");
    generation->text = malloc(bytes);
    if (!generation->text)
        return refuse(error, STATUS_NO_MEMORY, "text", NULL, "has no room");
    memcpy(generation->text, text->data, bytes);
    generation->text_bytes = bytes;
    return STATUS_OK;
}

static enum status refuse_length(struct rpc_error *error, size_t n, uint32_t context_tokens)
{
    char what[128];
    char value[24];
    snprintf(value, sizeof value, "%zu", n);
    snprintf(what, sizeof what, "has %zu tokens; the model's context of %u must hold one more", n,
             context_tokens);
    return refuse(error, STATUS_PROMPT_TOO_LONG, "prompt", value, what);
}

static enum status take_ids(struct generation *generation, const Kvferry__V1__TokenIds *message,
                            const struct request_limits *limits, struct rpc_error *error)
{
    char field[48];
    char value[24];
    char what[80];
    if (!message || message->n_ids == 0)
        return refuse(error, STATUS_INVALID_ARGUMENT, "token_ids", "",
                      "is empty: there is nothing to continue");
    if (message->n_ids >= limits->card.context_tokens)
        return refuse_length(error, message->n_ids, limits->card.context_tokens);
    for (size_t i = 0; i < message->n_ids; i++) {
        if (message->ids[i] < limits->card.vocabulary)
            continue;
        snprintf(field, sizeof field, "token_ids.ids[%zu]", i);
        snprintf(value, sizeof value, "%" PRIu32, message->ids[i]);
        snprintf(what, sizeof what, "is %" PRIu32 "; it must be below the vocabulary, %" PRIu32,
                 message->ids[i], limits->card.vocabulary);
        return refuse(error, STATUS_INVALID_ARGUMENT, field, value, what);
    }
    assert(!generation->text && !generation->token_ids);
    generation->token_ids = malloc(message->n_ids * sizeof *generation->token_ids);
    if (!generation->token_ids)
        return refuse(error, STATUS_NO_MEMORY, "token_ids", NULL, "has no room");
    memcpy(generation->token_ids, message->ids, message->n_ids * sizeof *generation->token_ids);
    generation->n_tokens = (uint32_t)message->n_ids;
    return STATUS_OK;
}

static enum status take_prompt(struct generation *generation,
                               const Kvferry__V1__GenerateRequest *message,
                               const struct request_limits *limits, struct rpc_error *error)
{
    switch (message->prompt_case) {
    case KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT:
        return take_text(generation, &message->text, limits, error);
    case KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS:
        return take_ids(generation, message->token_ids, limits, error);
    case KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT:
        generation->is_chat = true;
        return chat_prompt_json(message->chat, limits->chat, &generation->text,
                                &generation->text_bytes, error);
    default:
        return refuse(error, STATUS_INVALID_ARGUMENT, "prompt", "",
                      "is missing: give text, token_ids or chat");
    }
}

/* Nobody knows beforehand how long an answer is. */
static bool is_open_chat(const Kvferry__V1__GenerateRequest *message,
                         const struct sampling_choice *choice)
{
    return message->prompt_case == KVFERRY__V1__GENERATE_REQUEST__PROMPT_CHAT &&
           !choice->has_max_tokens;
}

enum status generation_take(struct generation *generation,
                            const Kvferry__V1__GenerateRequest *message,
                            const struct request_limits *limits, struct rpc_error *error)
{
    size_t id_bytes = strlen(message->request_id);
    TRY(rpc_request_id_check("request_id", message->request_id, id_bytes, error));
    memcpy(generation->request_id, message->request_id, id_bytes + 1);
    TRY(request_find_model(message->model, "model", limits->model_name, &limits->card, error,
                           &generation->adapter));
    TRY(take_salt(generation, message->cache_salt, error));
    TRY(take_standing(generation, message, limits->priority_max, error));
    TRY(take_sampling(generation, message->sampling, limits, error));
    generation->sampling.ends_with_context = generation->call->ends_with_context;
    if (is_open_chat(message, &generation->sampling))
        generation->sampling.params.max_tokens = sampling_choice_open_tokens(
            &generation->sampling, limits->chat_tokens_max);
    TRY(take_n(generation, message->sampling, error));
    TRY(take_prompt(generation, message, limits, error));
    generation->return_timing = message->return_timing;
    generation->return_progress = message->return_progress && !generation->call->is_whole;
    generation->add_special = !generation->is_chat; /* templates write them */
    if (message->add_special_tokens_presence_case ==
        KVFERRY__V1__GENERATE_REQUEST__ADD_SPECIAL_TOKENS_PRESENCE_ADD_SPECIAL_TOKENS)
        generation->add_special = message->add_special_tokens;
    if (generation->sampling.has_seed)
        return STATUS_OK;
    uint64_t *seed = &generation->sampling.params.seed;
    if (random_secret(seed, sizeof *seed, NULL) != STATUS_OK)
        return refuse(error, STATUS_IO_FAILED, "sampling.seed", NULL, "cannot be drawn");
    return STATUS_OK;
}

enum status generation_render(struct generation *generation, struct template_renderer *renderer,
                              const struct tokenizer *tokenizer, int64_t now_unix_s,
                              struct rpc_error *error)
{
    struct error why = {0};
    struct render_prompt prompt = {0};
    const struct render_request request = {.json = generation->text,
                                           .n_bytes = generation->text_bytes,
                                           .deadline_ns = generation->deadline_ns,
                                           .now_unix_s = now_unix_s,
                                           .tokenizer = tokenizer};
    assert(generation->is_chat && generation->text && !generation->token_ids);
    enum status status = template_renderer_render(renderer, &request, &why, &prompt);
    if (status != STATUS_OK) {
        rpc_error_set(error, status, "chat", NULL, "%s",
                      why.text[0] ? why.text : status_text(status));
        return status;
    }
    free(generation->text);
    generation->text = prompt.text;
    generation->text_bytes = prompt.n_bytes;
    generation->mark = prompt.mark;
    return prompt.n_bytes > 0 ? STATUS_OK
                              : refuse(error, STATUS_INVALID_ARGUMENT, "chat", NULL,
                                       "makes an empty prompt: there is nothing to continue");
}

static enum status tokenize_text(struct generation *generation, const struct tokenizer *tokenizer,
                                 uint32_t context_tokens, struct rpc_error *error)
{
    assert(!generation->token_ids && generation->n_tokens == 0 && "text or ids, not both");
    generation->token_ids = malloc(context_tokens * sizeof *generation->token_ids);
    if (!generation->token_ids)
        return refuse(error, STATUS_NO_MEMORY, "text", NULL, "has no room");
    struct encode_input input = {
        .text = generation->text,
        .text_bytes = generation->text_bytes,
        .add_special = generation->add_special,
        .parse_special = true,
        .mark = generation->mark,
        .is_unwanted = door_call_is_over,
        .arg = generation->call,
    };
    struct token_buffer buffer = {.ids = generation->token_ids, .ids_max = context_tokens};
    struct error reason = {0};
    enum status status = tokenizer_encode(tokenizer, &input, &buffer, &reason);
    free(generation->text);
    generation->text = NULL;
    if (status == STATUS_PROMPT_TOO_LONG)
        return refuse_length(error, buffer.n_ids, context_tokens);
    if (status == STATUS_CANCELLED)
        return door_call_end_status(generation->call);
    if (status != STATUS_OK) { /* the tokenizer's sentences begin with "text" */
        rpc_error_set(error, status, "text", NULL, "%s",
                      reason.text[0] ? reason.text : status_text(status));
        return status;
    }
    if (buffer.n_ids == 0)
        return refuse(error, STATUS_INVALID_ARGUMENT, "text", NULL, "makes no tokens");
    assert(buffer.n_ids <= context_tokens);
    generation->n_tokens = (uint32_t)buffer.n_ids;
    return STATUS_OK;
}

static enum status tokenize_bad_words(struct generation *generation,
                                      const struct tokenizer *tokenizer, struct rpc_error *error)
{
    struct token_rules *rules;
    TRY(bad_words_tokenize(generation->bad_words, tokenizer, generation->rules, &rules, error));
    free(generation->bad_words);
    free(generation->rules);
    generation->bad_words = NULL;
    generation->rules = rules;
    generation->sampling.params.rules = token_rules_is_empty(rules) ? NULL : rules;
    return STATUS_OK;
}

enum status generation_tokenize(struct generation *generation, const struct tokenizer *tokenizer,
                                uint32_t context_tokens, struct rpc_error *error)
{
    if (generation->text)
        TRY(tokenize_text(generation, tokenizer, context_tokens, error));
    if (generation->bad_words)
        TRY(tokenize_bad_words(generation, tokenizer, error));
    return sampling_choice_fit(&generation->sampling, generation->n_tokens, context_tokens, error);
}
