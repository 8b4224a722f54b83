#include "router/requests/sampling_choice.h"

#include "base/utf8.h"
#include "sampling_params/sampling_codec.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static enum status refuse(struct rpc_error *error, const char *field, const char *value,
                          const char *wanted)
{
    char path[96];
    snprintf(path, sizeof path, "sampling.%s", field);
    rpc_error_set(error, STATUS_INVALID_ARGUMENT, path, value, "%s is %s; it must be %s", path,
                  value, wanted);
    return STATUS_INVALID_ARGUMENT;
}

/* A text of a list. */
static enum status check_text(const char *list, size_t index, const ProtobufCBinaryData *text,
                              size_t bytes_max, struct rpc_error *error)
{
    char field[32], value[32], wanted[32];
    snprintf(field, sizeof field, "%s[%zu]", list, index);
    snprintf(value, sizeof value, "of %zu bytes", text->len);
    snprintf(wanted, sizeof wanted, "of 1 .. %zu bytes", bytes_max);
    if (text->len < 1 || text->len > bytes_max)
        return refuse(error, field, value, wanted);
    if (utf8_first_invalid((const char *)text->data, text->len) != text->len)
        return refuse(error, field, value, "UTF-8");
    return STATUS_OK;
}

static enum status take_stops(const Kvferry__V1__SamplingParams *message,
                              struct stop_strings *stops_out, struct rpc_error *error)
{
    if (message->n_stop > STOP_STRINGS_MAX) {
        char count[32];
        snprintf(count, sizeof count, "%zu", message->n_stop);
        return refuse(error, "stop", count, "at most 16 strings");
    }
    for (size_t i = 0; i < message->n_stop; i++) {
        TRY(check_text("stop", i, &message->stop[i], STOP_STRING_BYTES_MAX, error));
        stop_strings_add(stops_out, (const char *)message->stop[i].data, message->stop[i].len);
    }
    stops_out->is_kept = message->include_stop_str_in_output;
    return STATUS_OK;
}

static enum status check_search(const struct sampling_params *params, struct rpc_error *error)
{
    const struct beam_params *beams = &params->beams;
    char penalty[32];
    if (beam_params_search(beams))
        return STATUS_OK;
    snprintf(penalty, sizeof penalty, "%g", (double)beams->length_penalty);
    if (beams->length_penalty != 1)
        return refuse(error, "length_penalty", penalty,
                      "1 or absent where beam_width is not over 1");
    if (beams->early_stopping != EARLY_STOPPING_FALSE)
        return refuse(error, "early_stopping", "there",
                      "FALSE or absent where beam_width is not over 1");
    return STATUS_OK;
}

static enum status check_bad_words(const Kvferry__V1__SamplingParams *message,
                                   struct rpc_error *error)
{
    char count[32];
    snprintf(count, sizeof count, "%zu", message->n_bad_words);
    if (message->n_bad_words > BAD_WORDS_MAX)
        return refuse(error, "bad_words", count, "at most 32 strings");
    for (size_t i = 0; i < message->n_bad_words; i++)
        TRY(check_text("bad_words", i, &message->bad_words[i], BAD_WORD_BYTES_MAX, error));
    return STATUS_OK;
}

/* What is behind the bound only counts, and is refused for that. */
static void take_rules(const Kvferry__V1__SamplingParams *message, struct sampling_lists *lists_out)
{
    const size_t n_biases = message->n_logit_bias, n_allowed = message->n_allowed_token_ids;
    lists_out->rules = (struct token_rules){
        .n_biases = n_biases < UINT32_MAX ? (uint32_t)n_biases : UINT32_MAX,
        .bias_ids = lists_out->bias_ids,
        .biases = lists_out->biases,
        .n_allowed = n_allowed < UINT32_MAX ? (uint32_t)n_allowed : UINT32_MAX,
        .allowed_ids = message->allowed_token_ids,
    };
    reply_constraint_decode(message->constraint, &lists_out->rules.constraint);
    for (size_t i = 0; i < n_biases && i < LOGIT_BIASES_MAX; i++) {
        lists_out->bias_ids[i] = message->logit_bias[i]->token_id;
        lists_out->biases[i] = message->logit_bias[i]->bias;
    }
}

#define IS_SET(field, FIELD)                                                                       \
    (message->field##_presence_case == KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)

uint32_t sampling_choice_open_tokens(const struct sampling_choice *choice, uint32_t tokens)
{
    return choice->params.min_tokens > tokens ? choice->params.min_tokens : tokens;
}

uint32_t sampling_choice_expected_tokens(const struct sampling_choice *choice)
{
    const uint32_t most = choice->params.max_tokens;
    const uint32_t open = sampling_choice_open_tokens(choice, MAX_TOKENS_DEFAULT);
    return choice->has_max_tokens || most < open ? most : open;
}

enum status sampling_choice_make(const Kvferry__V1__SamplingParams *message,
                                 const struct generation_defaults *defaults, uint32_t vocabulary,
                                 struct sampling_choice *choice_out, struct stop_strings *stops_out,
                                 struct sampling_lists *lists_out, struct rpc_error *error)
{
    struct sampling_fault fault;
    *choice_out = (struct sampling_choice){
        .params = {.temperature = defaults->temperature,
                   .top_k = defaults->top_k,
                   .top_p = defaults->top_p,
                   .min_p = defaults->min_p,
                   .typical_p = defaults->typical_p,
                   .epsilon_cutoff = defaults->epsilon_cutoff,
                   .eta_cutoff = defaults->eta_cutoff,
                   .no_repeat_ngram_size = defaults->no_repeat_ngram_size,
                   .repetition_penalty = defaults->repetition_penalty,
                   .max_tokens = MAX_TOKENS_DEFAULT},
    };
    stops_out->n = 0;
    lists_out->rules = (struct token_rules){0};
    if (!message)
        return STATUS_OK;
    choice_out->has_seed = IS_SET(seed, SEED);
    choice_out->has_max_tokens = IS_SET(max_tokens, MAX_TOKENS);
    sampling_decode_given(message, &choice_out->params);
    if (beam_params_search(&choice_out->params.beams) && !IS_SET(temperature, TEMPERATURE))
        choice_out->params.temperature = 0; /* whatever the model's default draws with */
    if (!choice_out->has_max_tokens)
        choice_out->params.max_tokens = sampling_choice_open_tokens(choice_out, MAX_TOKENS_DEFAULT);
    take_rules(message, lists_out);
    if (beam_params_search(&choice_out->params.beams)) /* who chooses the beams looks for them */
        stop_texts_decode(message, &lists_out->rules.stops);
    if (!token_rules_is_empty(&lists_out->rules))
        choice_out->params.rules = &lists_out->rules;
    if (sampling_find_fault(&choice_out->params, vocabulary, &fault))
        return refuse(error, fault.field, fault.value, fault.wanted);
    TRY(check_search(&choice_out->params, error));
    TRY(check_bad_words(message, error));
    return take_stops(message, stops_out, error);
}

enum status sampling_choice_fit(struct sampling_choice *choice, uint32_t prompt_tokens,
                                uint32_t context_tokens, struct rpc_error *error)
{
    const uint32_t min_tokens = choice->params.min_tokens > 0 ? choice->params.min_tokens : 1;
    const uint32_t most = choice->sequence_tokens > context_tokens ? choice->sequence_tokens
                                                                   : context_tokens;
    const bool is_fixed = choice->has_max_tokens && !choice->ends_with_context;
    uint32_t least = is_fixed ? choice->params.max_tokens : min_tokens;
    uint64_t wanted = (uint64_t)prompt_tokens + least;
    char value[32];
    if (prompt_tokens >= context_tokens) {
        snprintf(value, sizeof value, "%" PRIu32, prompt_tokens);
        rpc_error_set(error, STATUS_PROMPT_TOO_LONG, "prompt", value,
                      "the prompt has %" PRIu32 " tokens, and %" PRIu32
                      " must have room behind it; the context of the model has %" PRIu32,
                      prompt_tokens, least, context_tokens);
        return STATUS_PROMPT_TOO_LONG;
    }
    if (wanted > most) {
        const char *field = is_fixed ? "sampling.max_tokens" : "sampling.min_tokens";
        snprintf(value, sizeof value, "%" PRIu32, least);
        rpc_error_set(error, STATUS_PROMPT_TOO_LONG, field, value,
                      "%s is %" PRIu32 ", and the prompt has %" PRIu32
                      " tokens: they need a context of %" PRIu64 "; the model has %" PRIu32,
                      field, least, prompt_tokens, wanted, most);
        return STATUS_PROMPT_TOO_LONG;
    }
    uint32_t rest = context_tokens - prompt_tokens;
    if (choice->reply_tokens > 0 && rest > choice->reply_tokens)
        rest = choice->reply_tokens;
    const bool is_all = choice->ends_with_context && !choice->has_max_tokens;
    if (rest < min_tokens)
        rest = min_tokens;
    if (!is_fixed && (choice->params.max_tokens > rest || is_all))
        choice->params.max_tokens = rest;
    assert((uint64_t)prompt_tokens + choice->params.max_tokens <= most);
    return STATUS_OK;
}
