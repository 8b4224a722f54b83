#include "api/openai/openai_request.h"

#include "api/openai/chat_message.h"
#include "api/openai/json_fields.h"
#include "api/openai/large_integer.h"
#include "api/openai/openai_beams.h"
#include "tokenizer/tokenizer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_COMPLETION_TOKENS 16 /* of OpenAI's API */
#define STOP_ROOM                 STOP_STRINGS_MAX

/* ---- sampling ---- */

#define SET(sampling, field, FIELD, value)                                                         \
    do {                                                                                           \
        (sampling)                                                                                 \
            ->field##_presence_case = KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD;    \
        (sampling)->field = (value);                                                               \
    } while (0)

/* With the least and the most that is taken. */
#define REALS(X)                                                                                   \
    X(temperature, TEMPERATURE, 0, 2)                                                              \
    X(top_p, TOP_P, 0, 1)                                                                          \
    X(min_p, MIN_P, 0, 1)                                                                          \
    X(typical_p, TYPICAL_P, 0, 1)                                                                  \
    X(epsilon_cutoff, EPSILON_CUTOFF, 0, 1)                                                        \
    X(eta_cutoff, ETA_CUTOFF, 0, 1)                                                                \
    X(presence_penalty, PRESENCE_PENALTY, -2, 2)                                                   \
    X(frequency_penalty, FREQUENCY_PENALTY, -2, 2)                                                 \
    X(repetition_penalty, REPETITION_PENALTY, 0, 100)

static void read_reals(struct openai_request *request, const struct json_fields *fields)
{
    Kvferry__V1__SamplingParams *sampling = &request->sampling;
    double value;
    bool is_there;
#define X(field, FIELD, low, high)                                                                 \
    if (json_field_number(fields, #field, low, high, &is_there, &value) && is_there)               \
        SET(sampling, field, FIELD, (float)value);
    REALS(X)
#undef X
}

static void read_counts(struct openai_request *request, const struct json_fields *fields)
{
    Kvferry__V1__SamplingParams *sampling = &request->sampling;
    json_int_t value;
    bool is_there;
    if (json_field_integer(fields, "top_k", -1, UINT32_MAX, &is_there, &value) && is_there)
        SET(sampling, top_k, TOP_K, value < 0 ? 0 : (uint32_t)value);
    if (json_field_integer(fields, "no_repeat_ngram_size", 0, NO_REPEAT_NGRAM_MAX, &is_there,
                           &value) &&
        is_there)
        SET(sampling, no_repeat_ngram_size, NO_REPEAT_NGRAM_SIZE, (uint32_t)value);
    if (json_field_integer(fields, "seed", INT64_MIN, INT64_MAX, &is_there, &value) && is_there)
        SET(sampling, seed, SEED, (uint64_t)value);
    if (!request->is_chat)
        SET(sampling, max_tokens, MAX_TOKENS, DEFAULT_COMPLETION_TOKENS);
    /* Of OpenAI's API: 0 asks for the echo alone. */
    const bool echoes = !request->is_chat && json_is_true(json_field(fields, "echo"));
    if (json_field_integer(fields, "max_tokens", echoes ? 0 : 1, UINT32_MAX, &is_there, &value) &&
        is_there) {
        request->is_echo_alone = value == 0;
        SET(sampling, max_tokens, MAX_TOKENS, value > 0 ? (uint32_t)value : 1);
    }
    if (request->is_chat &&
        json_field_integer(fields, "max_completion_tokens", 1, UINT32_MAX, &is_there, &value) &&
        is_there)
        SET(sampling, max_tokens, MAX_TOKENS, (uint32_t)value);
    request->n_choices = 1;
    if (json_field_integer(fields, "n", 1, CHOICES_MAX, &is_there, &value) && is_there)
        request->n_choices = (uint32_t)value;
    sampling->n = request->n_choices;
    bool ignore_eos = false;
    json_field_bool(fields, "ignore_eos", &ignore_eos);
    sampling->ignore_eos = ignore_eos;
}

/* A string, or some of them. */
static void read_stop(struct openai_request *request, const struct json_fields *fields)
{
    const json_t *stop = json_field(fields, "stop");
    bool is_one = json_is_string(stop);
    size_t n = is_one ? 1 : json_array_size(stop);
    if (!stop)
        return;
    if (!is_one && !json_is_array(stop)) {
        json_field_refuse_type(fields, "stop", "a string or an array of strings");
        return;
    }
    if (n > STOP_ROOM) {
        json_field_fail(fields, "invalid_value", "stop", "has %zu strings; at most %u are taken", n,
                        STOP_ROOM);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *one = is_one ? stop : json_array_get(stop, i);
        if (!json_is_string(one)) {
            json_field_refuse_element(fields, "stop", i, "a string");
            return;
        }
        request->stops[i] = (ProtobufCBinaryData){json_string_length(one),
                                                  (uint8_t *)json_string_value(one)};
    }
    request->sampling.n_stop = n;
    request->sampling.stop = request->stops;
}

static void read_stop_ids(struct openai_request *request, const struct json_fields *fields)
{
    const json_t *ids = json_field_list(fields, "stop_token_ids", STOP_TOKEN_IDS_MAX, "token ids");
    size_t n = json_array_size(ids);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_id(id)) {
            json_field_refuse_element(fields, "stop_token_ids", i, "a token id");
            return;
        }
        request->stop_ids[i] = (uint32_t)json_integer_value(id);
    }
    request->sampling.n_stop_token_ids = n;
    request->sampling.stop_token_ids = request->stop_ids;
}

/* Of chat: whether, and how many beside. Of completions: how many. */
static void read_logprobs(struct openai_request *request, const struct json_fields *fields)
{
    json_int_t n = 0;
    bool is_there = false;
    if (request->is_chat) {
        json_field_bool(fields, "logprobs", &request->has_logprobs);
        json_field_integer(fields, "top_logprobs", 0, LOGPROBS_MAX, &is_there, &n);
        if (is_there && n > 0 && !request->has_logprobs)
            json_field_fail(fields, "invalid_value", "top_logprobs",
                            "needs logprobs, which must be true");
    } else {
        json_field_integer(fields, "logprobs", 0, 5, &is_there, &n);
        request->has_logprobs = is_there;
    }
    request->n_top_logprobs = (uint32_t)n;
    if (request->has_logprobs)
        request->sampling.logprobs = n > 0 ? (uint32_t)n : 1;
}

/* Of the prompt's tokens: in the logprobs of an echo, or as a list of their own. */
static void read_prompt_logprobs(struct openai_request *request, const struct json_fields *fields)
{
    json_int_t n = 0;
    const bool echoes = !request->is_chat && json_is_true(json_field(fields, "echo"));
    json_field_integer(fields, "prompt_logprobs", 0, LOGPROBS_MAX, &request->has_prompt_logprobs,
                       &n);
    request->n_prompt_logprobs = (uint32_t)n;
    if (request->has_prompt_logprobs && request->is_stream)
        json_field_fail(fields, "unsupported_parameter", "prompt_logprobs",
                        "is not served in a stream; echo with logprobs is");
    if (!request->has_prompt_logprobs && !(echoes && request->has_logprobs))
        return;
    if (echoes && request->has_logprobs && request->n_top_logprobs > (uint32_t)n)
        n = request->n_top_logprobs;
    SET(&request->sampling, prompt_logprobs, PROMPT_LOGPROBS, (uint32_t)n);
}

/* ---- what is not served ---- */

static bool is_nothing(const json_t *value)
{
    return !value || json_is_false(value) ||
           (json_is_object(value) && json_object_size(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_string(value) && json_string_length(value) == 0);
}

/* "auto" and "none": as if there were no functions, of which there are none. */
static bool is_served_call(const json_t *value)
{
    const char *word = json_string_value(value);
    return is_nothing(value) || (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0));
}

static bool is_text_alone(const json_t *modalities)
{
    const char *one = json_string_value(json_array_get(modalities, 0));
    return is_nothing(modalities) ||
           (json_array_size(modalities) == 1 && one && strcmp(one, "text") == 0);
}

/* Of llama-server and of others: they change what is drawn, unless they have the value that leaves all as it is. */
static void refuse_samplers(const struct json_fields *fields)
{
    static const struct {
        const char *name;
        double from, to;     /* values that change nothing */
        const char *nearest; /* what is served */
    } SAMPLERS[] = {{"tfs_z", 1, INFINITY, "typical_p"},
                    {"repeat_penalty", 1, 1, "repetition_penalty"},
                    {"mirostat", 0, 0, "typical_p"},
                    {"mirostat_mode", 0, 0, "typical_p"},
                    {"dynatemp_range", 0, 0, "temperature"},
                    {"xtc_probability", 0, 0, "typical_p"},
                    {"dry_multiplier", 0, 0, "no_repeat_ngram_size"},
                    {"top_a", 0, 0, "min_p"},
                    {"top_h", 1, INFINITY, "eta_cutoff"},
                    {"top_n_sigma", -INFINITY, 0, "min_p"},
                    {"smoothing_factor", 0, 0, "temperature"},
                    {"diversity_penalty", 0, 0, "n"}};
    for (size_t i = 0; i < sizeof SAMPLERS / sizeof *SAMPLERS; i++) {
        const json_t *value = json_field(fields, SAMPLERS[i].name);
        const double neutral = isinf(SAMPLERS[i].from) ? SAMPLERS[i].to : SAMPLERS[i].from;
        if (!value)
            continue;
        if (!json_is_number(value))
            json_field_fail(fields, "unsupported_parameter", SAMPLERS[i].name,
                            "is not served; it may be absent, or %g. The nearest is %s", neutral,
                            SAMPLERS[i].nearest);
        else if (json_number_value(value) < SAMPLERS[i].from ||
                 json_number_value(value) > SAMPLERS[i].to)
            json_field_fail(fields, "unsupported_parameter", SAMPLERS[i].name,
                            "is %g, and is not served; it may be absent, or %g. The nearest is %s",
                            json_number_value(value), neutral, SAMPLERS[i].nearest);
    }
}

/* Of OpenAI's API, vLLM, SGLang and llama-server. */
static void refuse_unserved(const struct json_fields *fields, bool is_chat)
{
    static const char *const NAMES[] = {"suffix",
                                        "audio",
                                        "prediction",
                                        "web_search_options",
                                        "functions",
                                        "truncate_prompt_tokens",
                                        "prompt_embeds",
                                        "logits_processors",
                                        "guided_whitespace_pattern",
                                        "regex",
                                        "ebnf",
                                        "grammar",
                                        "json_schema"};
    if (!is_chat && !is_nothing(json_field(fields, "documents")))
        json_field_fail(fields, "unsupported_parameter", "documents",
                        "is not served for completions; for chat it is");
    if (!is_served_call(json_field(fields, "function_call")))
        json_field_fail(fields, "unsupported_parameter", "function_call",
                        "is not served; tool_choice is");
    if (!is_text_alone(json_field(fields, "modalities")))
        json_field_fail(fields, "unsupported_parameter", "modalities",
                        "must be [\"text\"]: no other is served");
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const json_t *value = json_field(fields, NAMES[i]);
        bool is_zero = json_is_integer(value) && json_integer_value(value) == 0;
        if (!is_nothing(value) && !is_zero)
            json_field_fail(fields, "unsupported_parameter", NAMES[i], "is not served");
    }
    refuse_samplers(fields);
    bool is_there;
    json_int_t best_of;
    if (json_field_integer(fields, "best_of", 1, CHOICES_MAX, &is_there, &best_of) && is_there &&
        best_of > 1)
        json_field_fail(fields, "unsupported_parameter", "best_of", "over 1 is not served");
}

/* ---- both kinds ---- */

static void read_common(struct openai_request *request, const struct json_fields *fields)
{
    Kvferry__V1__GenerateRequest *message = &request->message;
    const char *text;
    json_int_t priority;
    bool is_there;
    if (json_field_string(fields, "model", &text) && text)
        message->model = (char *)text;
    if (json_field_string(fields, "cache_salt", &text) && text)
        message->cache_salt = (char *)text;
    if (json_field_integer(fields, "priority", INT32_MIN, INT32_MAX, &is_there, &priority) &&
        is_there) {
        message->priority_presence_case = KVFERRY__V1__GENERATE_REQUEST__PRIORITY_PRESENCE_PRIORITY;
        message->priority = (int32_t)priority;
    }
    json_field_bool(fields, "stream", &request->is_stream);
    json_field_bool(fields, "return_token_ids", &request->return_token_ids);
    const json_t *options = json_field(fields, "stream_options");
    if (options && !json_is_object(options))
        json_field_refuse_type(fields, "stream_options", "an object");
    const struct json_fields more = {options, "stream_options.", fields->error};
    if (options)
        json_field_bool(&more, "include_usage", &request->include_usage);
}

/* ---- prompts of completions ---- */

static bool is_ids(const json_t *value)
{
    return json_is_array(value) && json_array_size(value) > 0 &&
           json_is_integer(json_array_get(value, 0));
}

static void read_prompts(struct openai_request *request, const struct json_fields *fields)
{
    const json_t *prompt = json_field(fields, "prompt");
    bool add_special = true;
    request->n_prompts = 1;
    if (!prompt || !(json_is_string(prompt) || json_is_array(prompt))) {
        json_field_refuse_type(fields, "prompt", "a string, token ids, or an array of either");
        return;
    }
    if (json_is_array(prompt) && !is_ids(prompt)) {
        request->prompts = prompt;
        request->n_prompts = (uint32_t)json_array_size(prompt);
    }
    if (request->n_prompts == 0 || request->n_prompts > OPENAI_PROMPTS_MAX)
        json_field_fail(fields, "invalid_value", "prompt", "has %zu prompts; 1 to %u are taken",
                        json_array_size(prompt), OPENAI_PROMPTS_MAX);
    if (request->n_prompts * request->n_choices > OPENAI_CHOICES_MAX)
        json_field_fail(fields, "invalid_value", "prompt",
                        "and n make %" PRIu32 " choices; at most %u are made",
                        request->n_prompts * request->n_choices, OPENAI_CHOICES_MAX);
    json_field_bool(fields, "echo", &request->echo);
    if (json_field_bool(fields, "add_special_tokens", &add_special)) {
        request->message.add_special_tokens_presence_case =
            KVFERRY__V1__GENERATE_REQUEST__ADD_SPECIAL_TOKENS_PRESENCE_ADD_SPECIAL_TOKENS;
        request->message.add_special_tokens = add_special;
    }
}

static const json_t *prompt_at(const struct openai_request *request, uint32_t i)
{
    assert(i < request->n_prompts && !request->is_chat);
    return request->prompts ? json_array_get(request->prompts, i)
                            : json_object_get(request->body, "prompt");
}

/* Of prompt i: names an element as clients wrote it, in the one prompt or in one of several. */
static bool refuse_id(const struct openai_request *request, uint32_t i, size_t element,
                      const struct json_fields *fields)
{
    char name[32];
    if (!request->prompts)
        return json_field_refuse_element(fields, "prompt", element, "a token id");
    snprintf(name, sizeof name, "prompt[%" PRIu32 "]", i);
    return json_field_fail(fields, "invalid_value", name, "has an element %zu that is no token id",
                           element);
}

static bool set_ids(struct openai_request *request, const json_t *ids, uint32_t prompt,
                    const struct json_fields *fields)
{
    size_t n = json_array_size(ids);
    free(request->ids.ids);
    kvferry__v1__token_ids__init(&request->ids);
    request->ids.ids = malloc((n > 0 ? n : 1) * sizeof *request->ids.ids);
    if (!request->ids.ids) {
        openai_error_set(fields->error, 500, NULL, NULL, "%s", status_text(STATUS_NO_MEMORY));
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_id(id))
            return refuse_id(request, prompt, i, fields);
        request->ids.ids[i] = (uint32_t)json_integer_value(id);
    }
    request->ids.n_ids = n;
    request->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    request->message.token_ids = &request->ids;
    return true;
}

bool openai_request_set_prompt(struct openai_request *request, uint32_t i,
                               struct openai_error *error)
{
    const struct json_fields fields = {request->body, "", error};
    if (request->is_chat)
        return true; /* since it was read */
    const json_t *prompt = prompt_at(request, i);
    if (is_ids(prompt))
        return set_ids(request, prompt, i, &fields);
    if (!json_is_string(prompt))
        return json_field_refuse_element(&fields, "prompt", i, "a text or token ids");
    request->message.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TEXT;
    request->message.text = (ProtobufCBinaryData){json_string_length(prompt),
                                                  (uint8_t *)json_string_value(prompt)};
    return true;
}

/* Without those that a model has only as padding. */
static char *text_of_ids(const json_t *prompt, const struct tokenizer *tokenizer, size_t *bytes_out)
{
    size_t n_all = json_array_size(prompt);
    uint32_t *ids = malloc((n_all + 1) * sizeof *ids);
    struct decode_input input = {.ids = ids, .skip_special = true};
    struct text_buffer text = {0};
    struct error ignored;
    for (size_t i = 0; ids && i < n_all; i++) {
        json_int_t id = json_integer_value(json_array_get(prompt, i));
        if (id < tokenizer_n_ids(tokenizer))
            ids[input.n_ids++] = (uint32_t)id;
    }
    if (ids) {
        (void)!tokenizer_decode(tokenizer, &input, &text, &ignored); /* measures */
        text.bytes_max = text.n_bytes;
        text.bytes = malloc(text.bytes_max + 1);
    }
    if (text.bytes && tokenizer_decode(tokenizer, &input, &text, &ignored) != STATUS_OK) {
        free(text.bytes);
        text.bytes = NULL;
    }
    free(ids);
    *bytes_out = text.bytes ? text.n_bytes : 0;
    return text.bytes;
}

char *openai_request_prompt_text(const struct openai_request *request, uint32_t i,
                                 const struct tokenizer *tokenizer, size_t *bytes_out)
{
    const json_t *prompt = prompt_at(request, i);
    if (is_ids(prompt))
        return text_of_ids(prompt, tokenizer, bytes_out);
    size_t n = json_string_length(prompt);
    char *text = malloc(n + 1);
    *bytes_out = text ? n : 0;
    if (text)
        memcpy(text, n > 0 ? json_string_value(prompt) : "", n);
    return text;
}

/* ---- names ---- */

/* Whether text begins with that name, and not with a longer one. from may end with the point between two names. */
static bool begins_with(const char *text, const char *from)
{
    size_t n = strlen(from);
    return strncmp(text, from, n) == 0 && (from[n - 1] == '.' || strchr(".[: ", text[n]));
}

static void rename_field(struct openai_error *error, const char *from, const char *to)
{
    char rest[sizeof error->message];
    size_t n = strlen(from);
    if (!begins_with(error->param, from))
        return;
    snprintf(rest, sizeof rest, "%s", error->param + n);
    snprintf(error->param, sizeof error->param, "%s%.80s", to, rest);
    if (!begins_with(error->message, from))
        return;
    snprintf(rest, sizeof rest, "%s", error->message + n);
    snprintf(error->message, sizeof error->message, "%s%.350s", to, rest);
}

/* "constraint.json_schema" is the member that said it. */
static void rename_constraint(const char *member, struct openai_error *error)
{
    char field[sizeof error->param];
    snprintf(field, sizeof field, "%s", error->param);
    if (member && strncmp(field, "constraint", 10) == 0)
        rename_field(error, field, member);
}

/* "logit_bias[0].bias" is that of the first member, which has a token id for its name. */
static void rename_bias(const struct openai_request *request, struct openai_error *error)
{
    static const char LIST[] = "logit_bias[";
    char field[sizeof error->param], name[64], *end;
    if (strncmp(error->param, LIST, sizeof LIST - 1) != 0)
        return;
    const unsigned long i = strtoul(error->param + sizeof LIST - 1, &end, 10);
    if (*end != ']' || i >= request->sampling.n_logit_bias)
        return;
    snprintf(field, sizeof field, "%s", error->param);
    snprintf(name, sizeof name, "logit_bias.%" PRIu32, request->sampling.logit_bias[i]->token_id);
    rename_field(error, field, name);
}

/* "chat.messages[3].more" is members of messages[3] that have no field. */
static void rename_chat(struct openai_error *error)
{
    char field[sizeof error->param], message[sizeof error->param];
    rename_field(error, "chat.", "");
    rename_field(error, "template_arguments", "chat_template_kwargs");
    const char *more = strstr(error->param, ".more");
    if (!more || more[5])
        return;
    snprintf(field, sizeof field, "%s", error->param);
    snprintf(message, sizeof message, "%.*s", (int)(more - error->param), field);
    rename_field(error, field, message);
}

void openai_request_rename(const struct openai_request *request, struct openai_error *error)
{
    rename_constraint(request->constraint.member, error);
    rename_bias(request, error);
    openai_beams_rename(request->body, error);
    const json_t *bound = json_object_get(request->body, "max_completion_tokens");
    if (request->is_chat && json_is_number(bound))
        rename_field(error, "max_tokens", "max_completion_tokens");
    const char *prompt = request->is_chat ? "messages" : "prompt";
    if (strncmp(error->param, "chat.", 5) == 0)
        rename_chat(error);
    else if (strcmp(error->param, "chat") == 0)
        rename_field(error, "chat", prompt);
    else if (strncmp(error->param, "token_ids.ids", 13) == 0)
        rename_field(error, "token_ids.ids", prompt);
    else if (strcmp(error->param, "token_ids") == 0)
        rename_field(error, "token_ids", prompt);
    else if (strcmp(error->param, "text") == 0)
        rename_field(error, "text", prompt);
    else if (strcmp(error->param, "prompt") == 0) /* its sentence speaks of the prompt */
        snprintf(error->param, sizeof error->param, "%s", prompt);
    else if (strcmp(error->param, "stop[0]") == 0 &&
             json_is_string(json_object_get(request->body, "stop")))
        rename_field(error, "stop[0]", "stop");
}

/* ---- the whole ---- */

static bool parse(struct openai_request *request, const char *body, size_t bytes,
                  struct openai_error *error)
{
    json_error_t why;
    request->body = json_loadb(body, bytes, JSON_ALLOW_NUL, &why);
    if (!request->body)
        large_integer_refuse(body, bytes, &why, error);
    if (error->code != 0)
        return false;
    if (!request->body)
        openai_error_set(error, 400, NULL, NULL, "the body is not JSON: line %d, column %d: %s",
                         why.line, why.column, why.text);
    else if (!json_is_object(request->body))
        openai_error_set(error, 400, NULL, NULL, "the body is JSON, but not an object");
    return error->code == 0;
}

bool openai_request_read(struct openai_request *request, bool is_chat,
                         const struct chat_limits *limits, const char *body, size_t bytes,
                         struct openai_error *error)
{
    *request = (struct openai_request){.is_chat = is_chat, .n_prompts = 1};
    *error = (struct openai_error){0};
    kvferry__v1__generate_request__init(&request->message);
    kvferry__v1__sampling_params__init(&request->sampling);
    kvferry__v1__token_ids__init(&request->ids);
    request->message.sampling = &request->sampling;
    if (!parse(request, body, bytes, error))
        return false;
    const struct json_fields fields = {request->body, "", error};
    read_common(request, &fields);
    read_reals(request, &fields);
    read_counts(request, &fields);
    openai_beams_read(&fields, &request->sampling);
    read_stop(request, &fields);
    read_stop_ids(request, &fields);
    read_logprobs(request, &fields);
    read_prompt_logprobs(request, &fields);
    openai_rules_read(&fields, &request->sampling, &request->rules);
    refuse_unserved(&fields, is_chat);
    if (error->code != 0)
        return false;
    if (is_chat)
        chat_messages_read(&fields, limits, &request->message, &request->chat);
    else
        read_prompts(request, &fields);
    if (error->code != 0) /* of tools, a constraint takes as many as chat may have */
        return false;
    openai_constraint_read(&fields, is_chat, &request->constraint);
    if (request->constraint.message.kind_case != KVFERRY__V1__CONSTRAINT__KIND__NOT_SET)
        request->sampling.constraint = &request->constraint.message;
    return error->code == 0;
}

void openai_request_finish(struct openai_request *request)
{
    chat_messages_free(request->chat);
    openai_rules_free(request->rules);
    openai_constraint_free(&request->constraint);
    free(request->ids.ids);
    json_decref(request->body);
    *request = (struct openai_request){0};
}
