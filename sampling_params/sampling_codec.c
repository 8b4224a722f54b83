#include "sampling_params/sampling_codec.h"

#include <assert.h>
#include <string.h>

static uint32_t bounded(size_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The fields for which absent and zero differ. */
#define PRESENCE_FIELDS(X)                                                                         \
    X(max_tokens, MAX_TOKENS)                                                                      \
    X(temperature, TEMPERATURE)                                                                    \
    X(top_k, TOP_K)                                                                                \
    X(top_p, TOP_P)                                                                                \
    X(min_p, MIN_P)                                                                                \
    X(repetition_penalty, REPETITION_PENALTY)                                                      \
    X(presence_penalty, PRESENCE_PENALTY)                                                          \
    X(frequency_penalty, FREQUENCY_PENALTY)                                                        \
    X(seed, SEED)

/* Those that not every version reads: absent where they change nothing. */
#define NEWER_FIELDS(X)                                                                            \
    X(typical_p, TYPICAL_P)                                                                        \
    X(epsilon_cutoff, EPSILON_CUTOFF)                                                              \
    X(eta_cutoff, ETA_CUTOFF)                                                                      \
    X(no_repeat_ngram_size, NO_REPEAT_NGRAM_SIZE)

static const enum early_stopping EARLY_STOPPINGS[] = {
    [KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_UNSPECIFIED] = EARLY_STOPPING_FALSE,
    [KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_FALSE] = EARLY_STOPPING_FALSE,
    [KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_TRUE] = EARLY_STOPPING_TRUE,
    [KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_NEVER] = EARLY_STOPPING_NEVER,
};

static void decode_beams(const Kvferry__V1__SamplingParams *message, struct beam_params *beams_out)
{
    const size_t early = (size_t)message->early_stopping;
    *beams_out = (struct beam_params){
        .n_beams = message->beam_width,
        .n_best = message->n > 0 ? message->n : 1,
        .length_penalty =
            message->length_penalty_presence_case ==
                    KVFERRY__V1__SAMPLING_PARAMS__LENGTH_PENALTY_PRESENCE_LENGTH_PENALTY
                ? message->length_penalty
                : 1,
        .early_stopping = early < sizeof EARLY_STOPPINGS / sizeof *EARLY_STOPPINGS
                              ? EARLY_STOPPINGS[early]
                              : EARLY_STOPPING_UNKNOWN};
}

static void encode_beams(const struct beam_params *beams, Kvferry__V1__SamplingParams *message_out)
{
    if (!beam_params_search(beams))
        return;
    message_out->beam_width = beams->n_beams;
    message_out->n = beams->n_best;
    message_out->length_penalty_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__LENGTH_PENALTY_PRESENCE_LENGTH_PENALTY;
    message_out->length_penalty = beams->length_penalty;
    message_out->early_stopping = beams->early_stopping == EARLY_STOPPING_NEVER
                                      ? KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_NEVER
                                  : beams->early_stopping == EARLY_STOPPING_TRUE
                                      ? KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_TRUE
                                      : KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_FALSE;
}

void sampling_decode_given(const Kvferry__V1__SamplingParams *message,
                           struct sampling_params *params_inout)
{
#define X(field, FIELD)                                                                            \
    if (message->field##_presence_case ==                                                          \
        KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)                                  \
        params_inout->field = message->field;
    PRESENCE_FIELDS(X)
    NEWER_FIELDS(X)
#undef X
    params_inout
        ->scores_prompt = message->prompt_logprobs_presence_case ==
                          KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
    params_inout->n_prompt_logprobs = params_inout->scores_prompt ? message->prompt_logprobs : 0;
    params_inout->min_tokens = message->min_tokens;
    if (message->reply_window_presence_case ==
        KVFERRY__V1__SAMPLING_PARAMS__REPLY_WINDOW_PRESENCE_REPLY_WINDOW)
        params_inout->reply_window = message->reply_window;
    params_inout->n_logprobs = message->logprobs;
    decode_beams(message, &params_inout->beams);
    params_inout->ignore_eos = message->ignore_eos;
    size_t n = message->n_stop_token_ids;
    params_inout->n_stop_token_ids = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
    for (size_t i = 0; i < n && i < STOP_TOKEN_IDS_MAX; i++)
        params_inout->stop_token_ids[i] = message->stop_token_ids[i];
}

static const char *absent_field(const Kvferry__V1__SamplingParams *message)
{
#define X(field, FIELD)                                                                            \
    if (message->field##_presence_case !=                                                          \
        KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)                                  \
        return #field;
    PRESENCE_FIELDS(X)
#undef X
    return NULL;
}

/* Every version says it so. */
#define SAMPLING_ABSENT "sampling is absent"

enum status sampling_decode(const Kvferry__V1__SamplingParams *message, uint32_t vocabulary,
                            struct sampling_params *params_out, struct error *error)
{
    struct sampling_params params = SAMPLING_GREEDY;
    if (!message)
        return error_set(error, STATUS_INVALID_ARGUMENT, SAMPLING_ABSENT);
    const char *absent = absent_field(message);
    if (absent)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling.%s is absent; requests between processes have it", absent);
    sampling_decode_given(message, &params);
    TRY(sampling_check(&params, vocabulary, error));
    *params_out = params;
    return STATUS_OK;
}

/* Packing only reads them. */
static uint32_t *ids_of(const uint32_t *ids)
{
    const union {
        const uint32_t *in;
        uint32_t *out;
    } either = {.in = ids};
    return either.out;
}

void sampling_encode(const struct sampling_params *params, Kvferry__V1__SamplingParams *message_out)
{
    kvferry__v1__sampling_params__init(message_out);
#define X(field, FIELD)                                                                            \
    message_out->field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD; \
    message_out->field = params->field;
    PRESENCE_FIELDS(X)
#undef X
#define X(field, FIELD)                                                                            \
    if (params->field != SAMPLING_GREEDY.field) {                                                  \
        message_out                                                                                \
            ->field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD;    \
        message_out->field = params->field;                                                        \
    }
    NEWER_FIELDS(X)
#undef X
    if (params->scores_prompt) {
        message_out->prompt_logprobs_presence_case =
            KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS;
        message_out->prompt_logprobs = params->n_prompt_logprobs;
    }
    message_out->min_tokens = params->min_tokens;
    if (params->reply_window != 0) {
        message_out->reply_window_presence_case =
            KVFERRY__V1__SAMPLING_PARAMS__REPLY_WINDOW_PRESENCE_REPLY_WINDOW;
        message_out->reply_window = params->reply_window;
    }
    message_out->logprobs = params->n_logprobs;
    encode_beams(&params->beams, message_out);
    message_out->ignore_eos = params->ignore_eos;
    message_out->stop_token_ids = ids_of(params->stop_token_ids);
    message_out->n_stop_token_ids = params->n_stop_token_ids;
}

/* ---- with rules ---- */

void reply_constraint_decode(const Kvferry__V1__Constraint *message,
                             struct reply_constraint *constraint_out)
{
    struct reply_constraint constraint = {.kind = message ? REPLY_UNSET : REPLY_FREE};
    char *const *texts = NULL;
    switch (message ? message->kind_case : KVFERRY__V1__CONSTRAINT__KIND__NOT_SET) {
    case KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA:
        constraint.kind = REPLY_JSON_SCHEMA;
        texts = &message->json_schema;
        break;
    case KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT:
        constraint.kind = message->json_object ? REPLY_JSON_OBJECT : REPLY_UNSET;
        break;
    case KVFERRY__V1__CONSTRAINT__KIND_REGEX:
        constraint.kind = REPLY_REGEX;
        texts = &message->regex;
        break;
    case KVFERRY__V1__CONSTRAINT__KIND_GRAMMAR:
        constraint.kind = REPLY_GRAMMAR;
        texts = &message->grammar;
        break;
    case KVFERRY__V1__CONSTRAINT__KIND_CHOICES:
        constraint.kind = REPLY_CHOICES;
        constraint.n_texts = bounded(message->choices->n_texts);
        texts = message->choices->texts;
        break;
    default:
        break;
    }
    if (texts && constraint.kind != REPLY_CHOICES)
        constraint.n_texts = 1;
    constraint.texts = (const char *const *)texts;
    *constraint_out = constraint;
}

/* Packing only reads them. */
static char *text_of(const struct reply_constraint *constraint)
{
    const union {
        const char *in;
        char *out;
    } either = {.in = constraint->texts[0]};
    return either.out;
}

static char **texts_of(const struct reply_constraint *constraint)
{
    const union {
        const char *const *in;
        char **out;
    } either = {.in = constraint->texts};
    return either.out;
}

static void encode_constraint(const struct reply_constraint *constraint,
                              struct sampling_message *message_out)
{
    Kvferry__V1__Constraint *to = &message_out->constraint;
    kvferry__v1__constraint__init(to);
    kvferry__v1__constraint_choices__init(&message_out->choices);
    switch (constraint->kind) {
    case REPLY_JSON_SCHEMA:
        to->kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_SCHEMA;
        to->json_schema = text_of(constraint);
        break;
    case REPLY_JSON_OBJECT:
        to->kind_case = KVFERRY__V1__CONSTRAINT__KIND_JSON_OBJECT;
        to->json_object = true;
        break;
    case REPLY_REGEX:
        to->kind_case = KVFERRY__V1__CONSTRAINT__KIND_REGEX;
        to->regex = text_of(constraint);
        break;
    case REPLY_GRAMMAR:
        to->kind_case = KVFERRY__V1__CONSTRAINT__KIND_GRAMMAR;
        to->grammar = text_of(constraint);
        break;
    case REPLY_CHOICES:
        to->kind_case = KVFERRY__V1__CONSTRAINT__KIND_CHOICES;
        to->choices = &message_out->choices;
        message_out->choices.n_texts = constraint->n_texts;
        message_out->choices.texts = texts_of(constraint);
        break;
    case REPLY_FREE:
    case REPLY_UNSET:
        break;
    }
}

void stop_texts_decode(const Kvferry__V1__SamplingParams *message, struct stop_texts *stops_out)
{
    stops_out->n = bounded(message->n_stop);
    for (uint32_t i = 0; i < stops_out->n && i < STOP_STRINGS_MAX; i++) {
        stops_out->bytes[i] = bounded(message->stop[i].len);
        stops_out->texts[i] = (const char *)message->stop[i].data;
    }
}

static void encode_stops(const struct stop_texts *stops, struct sampling_message *message_out)
{
    assert(stops->n <= STOP_STRINGS_MAX);
    for (uint32_t i = 0; i < stops->n; i++) {
        const union { /* packing only reads it */
            const char *in;
            uint8_t *out;
        } text = {.in = stops->texts[i]};
        message_out->stops[i] = (ProtobufCBinaryData){stops->bytes[i], text.out};
    }
    message_out->params.n_stop = stops->n;
    message_out->params.stop = message_out->stops;
}

static void encode_rules(const struct token_rules *rules,
                         Kvferry__Internal__V1__RuledSampling *message_out)
{
    const union {
        const float *in;
        float *out;
    } biases = {.in = rules->biases};
    message_out->n_bias_token_ids = message_out->n_biases = rules->n_biases;
    message_out->bias_token_ids = ids_of(rules->bias_ids);
    message_out->biases = biases.out;
    message_out->n_allowed_token_ids = rules->n_allowed;
    message_out->allowed_token_ids = ids_of(rules->allowed_ids);
    message_out->n_bad_token_ids = rules->n_bad_ids;
    message_out->bad_token_ids = ids_of(rules->bad_ids);
    message_out->n_bad_lengths = rules->n_bad;
    message_out->bad_lengths = ids_of(rules->bad_lengths);
}

/* Of the fields that not every version reads, by version: the first that it has; NULL: none. */
static const char *newer_field(const Kvferry__V1__SamplingParams *message)
{
    if (message->prompt_logprobs_presence_case ==
        KVFERRY__V1__SAMPLING_PARAMS__PROMPT_LOGPROBS_PRESENCE_PROMPT_LOGPROBS)
        return "prompt_logprobs";
    return message->constraint ? "constraint" : NULL;
}

static const char *newest_field(const Kvferry__V1__SamplingParams *message)
{
#define X(field, FIELD)                                                                            \
    if (message->field##_presence_case ==                                                          \
        KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD)                                  \
        return #field;
    NEWER_FIELDS(X)
#undef X
    return NULL;
}

void sampling_message_make(const struct sampling_params *params,
                           struct sampling_message *message_out)
{
    Kvferry__Internal__V1__RuledSampling *ruled = &message_out->ruled;
    sampling_encode(params, &message_out->params);
    kvferry__internal__v1__ruled_sampling__init(ruled);
    if (params->rules)
        encode_rules(params->rules, ruled);
    if (params->rules && params->rules->constraint.kind != REPLY_FREE) {
        encode_constraint(&params->rules->constraint, message_out);
        message_out->params.constraint = &message_out->constraint;
    }
    if (params->rules)
        encode_stops(&params->rules->stops, message_out);
    const bool is_newest = newest_field(&message_out->params) != NULL;
    const bool is_newer = newer_field(&message_out->params) != NULL;
    const bool is_search = beam_params_search(&params->beams);
    const bool is_ruled = sampling_has_rules(params) || is_newer || is_newest || is_search;
    if (is_search)
        ruled->beam_sampling = &message_out->params;
    else if (is_newest)
        ruled->newest_sampling = &message_out->params;
    else if (is_newer)
        ruled->newer_sampling = &message_out->params;
    else
        ruled->sampling = &message_out->params;
    message_out->sampling = is_ruled ? NULL : &message_out->params;
    message_out->ruled_sampling = is_ruled ? ruled : NULL;
}

void sampling_message_adapt(struct sampling_message *message)
{
    Kvferry__Internal__V1__RuledSampling *ruled = &message->ruled;
    ruled->sampling = ruled->newer_sampling = NULL;
    ruled->newest_sampling = ruled->beam_sampling = NULL;
    ruled->adapted_sampling = &message->params;
    message->sampling = NULL;
    message->ruled_sampling = ruled;
}

static struct token_rules rules_of(const Kvferry__Internal__V1__RuledSampling *message,
                                   const Kvferry__V1__SamplingParams *params)
{
    struct reply_constraint constraint;
    struct stop_texts stops = {0};
    reply_constraint_decode(params ? params->constraint : NULL, &constraint);
    if (message->beam_sampling)
        stop_texts_decode(message->beam_sampling, &stops);
    return (struct token_rules){.constraint = constraint,
                                .stops = stops,
                                .n_biases = bounded(message->n_biases),
                                .bias_ids = message->bias_token_ids,
                                .biases = message->biases,
                                .n_allowed = bounded(message->n_allowed_token_ids),
                                .allowed_ids = message->allowed_token_ids,
                                .n_bad = bounded(message->n_bad_lengths),
                                .bad_lengths = message->bad_lengths,
                                .n_bad_ids = bounded(message->n_bad_token_ids),
                                .bad_ids = message->bad_token_ids};
}

/* field is one that goes elsewhere; NULL: there is none. */
static enum status refuse_misplaced(const char *field, const char *place, struct error *error)
{
    if (!field)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "sampling.%s is there; between processes it belongs into ruled_sampling.%s",
                     field, place);
}

static const char *beam_field(const Kvferry__V1__SamplingParams *message)
{
    return message->beam_width > 1 ? "beam_width" : NULL;
}

/* Where older versions read no newer fields. */
static enum status check_plain(const Kvferry__V1__SamplingParams *sampling, struct error *error)
{
    if (!sampling)
        return STATUS_OK;
    TRY(refuse_misplaced(beam_field(sampling), "beam_sampling", error));
    TRY(refuse_misplaced(newest_field(sampling), "newest_sampling", error));
    return refuse_misplaced(newer_field(sampling), "newer_sampling", error);
}

/* Sets the one of the five that is there, if it has what it is for; NULL: none is. */
static enum status find_sampling(const Kvferry__Internal__V1__RuledSampling *ruled,
                                 const Kvferry__V1__SamplingParams **sampling_out,
                                 struct error *error)
{
    const Kvferry__V1__SamplingParams *newer = ruled->newer_sampling;
    const Kvferry__V1__SamplingParams *newest = ruled->newest_sampling;
    const Kvferry__V1__SamplingParams *search = ruled->beam_sampling;
    const Kvferry__V1__SamplingParams *plain = newest ? newest : newer ? newer : ruled->sampling;
    *sampling_out = ruled->adapted_sampling ? ruled->adapted_sampling : search ? search : plain;
    if (ruled->adapted_sampling && (search || plain))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ruled_sampling.adapted_sampling takes the place of the other four");
    TRY(check_plain(ruled->sampling, error));
    if (newest)
        TRY(refuse_misplaced(beam_field(newest), "beam_sampling", error));
    if (newer)
        TRY(refuse_misplaced(newest_field(newer), "newest_sampling", error));
    if (newer)
        TRY(refuse_misplaced(beam_field(newer), "beam_sampling", error));
    if (search && (ruled->sampling || newer || newest || !beam_field(search)))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ruled_sampling.beam_sampling takes the place of sampling, and has a "
                         "beam_width over 1");
    if (newer && (ruled->sampling || newest || !newer_field(newer)))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ruled_sampling.newer_sampling takes the place of sampling, and has a "
                         "constraint or prompt_logprobs");
    if (newest && (ruled->sampling || !newest_field(newest)))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ruled_sampling.newest_sampling takes the place of sampling, and has "
                         "typical_p, epsilon_cutoff, eta_cutoff or no_repeat_ngram_size");
    return STATUS_OK;
}

enum status sampling_message_decode(const Kvferry__V1__SamplingParams *sampling,
                                    const Kvferry__Internal__V1__RuledSampling *ruled,
                                    uint32_t vocabulary, struct sampling_params *params_out,
                                    struct token_rules *rules_out, struct error *error)
{
    struct sampling_params params;
    const Kvferry__V1__SamplingParams *inner;
    TRY(check_plain(sampling, error));
    if (!ruled)
        return sampling_decode(sampling, vocabulary, params_out, error);
    TRY(find_sampling(ruled, &inner, error));
    if (sampling)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling and ruled_sampling are both there; one of them is wanted");
    if (ruled->n_biases != ruled->n_bias_token_ids)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ruled_sampling.biases are %zu, and bias_token_ids %zu", ruled->n_biases,
                         ruled->n_bias_token_ids);
    TRY(sampling_decode(inner, vocabulary, &params, error));
    *rules_out = rules_of(ruled, inner);
    params.rules = token_rules_is_empty(rules_out) ? NULL : rules_out;
    TRY(sampling_check(&params, vocabulary, error));
    *params_out = params;
    return STATUS_OK;
}

bool sampling_is_absent(enum status status, const char *sentence)
{
    return status == STATUS_INVALID_ARGUMENT && strcmp(sentence, SAMPLING_ABSENT) == 0;
}

const char *sampling_first_rule(const struct sampling_params *params)
{
    const struct token_rules *rules = params->rules;
    if (beam_params_search(&params->beams))
        return "sampling.beam_width";
    if (params->scores_prompt)
        return "sampling.prompt_logprobs";
    if (rules && rules->constraint.kind != REPLY_FREE)
        return "sampling.constraint";
#define X(field, FIELD)                                                                            \
    if (params->field != SAMPLING_GREEDY.field)                                                    \
        return "sampling." #field;
    NEWER_FIELDS(X)
#undef X
    if (params->min_tokens > 0)
        return "sampling.min_tokens";
    if (!rules)
        return NULL;
    if (rules->n_biases > 0)
        return "sampling.logit_bias";
    return rules->n_allowed > 0 ? "sampling.allowed_token_ids" : "sampling.bad_words";
}

/* ---- log-probabilities ---- */

void token_logprobs_encode(const struct token_logprobs *logprobs,
                           struct token_logprobs_message *message_out)
{
    assert(logprobs->n_top <= LOGPROBS_MAX);
    kvferry__v1__token_logprobs__init(&message_out->message);
    message_out->message.logprob = logprobs->logprob;
    for (uint32_t i = 0; i < logprobs->n_top; i++) {
        kvferry__v1__token_logprob__init(&message_out->top[i]);
        message_out->top[i].token_id = logprobs->top_ids[i];
        message_out->top[i].logprob = logprobs->top_logprobs[i];
        message_out->top_list[i] = &message_out->top[i];
    }
    message_out->message.n_top = logprobs->n_top;
    message_out->message.top = message_out->top_list;
}

void prompt_scores_encode(const struct prompt_scores *scores,
                          struct prompt_scores_message *message_out)
{
    assert(scores->n >= 1 && scores->n <= PROMPT_SCORES_MAX);
    for (uint32_t i = 0; i < scores->n; i++) {
        token_logprobs_encode(&scores->logprobs[i], &message_out->tokens[i]);
        message_out->list[i] = &message_out->tokens[i].message;
    }
}

enum status token_logprobs_decode(const Kvferry__V1__TokenLogprobs *message,
                                  struct token_logprobs *logprobs_out)
{
    if (message->n_top > LOGPROBS_MAX)
        return STATUS_INVALID_ARGUMENT;
    *logprobs_out = (struct token_logprobs){.logprob = message->logprob,
                                            .n_top = (uint32_t)message->n_top};
    for (uint32_t i = 0; i < logprobs_out->n_top; i++) {
        logprobs_out->top_ids[i] = message->top[i]->token_id;
        logprobs_out->top_logprobs[i] = message->top[i]->logprob;
    }
    return STATUS_OK;
}

enum status prompt_scores_decode(Kvferry__V1__TokenLogprobs *const *messages, size_t n,
                                 struct token_logprobs *logprobs_out)
{
    if (n < 1 || n > PROMPT_SCORES_MAX)
        return STATUS_INVALID_ARGUMENT;
    for (size_t i = 0; i < n; i++)
        TRY(token_logprobs_decode(messages[i], &logprobs_out[i]));
    return STATUS_OK;
}
