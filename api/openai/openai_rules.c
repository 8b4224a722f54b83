#include "api/openai/openai_rules.h"

#include "sampling_params/token_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct openai_rules {
    Kvferry__V1__LogitBias biases[LOGIT_BIASES_MAX];
    Kvferry__V1__LogitBias *bias_list[LOGIT_BIASES_MAX];
    uint32_t allowed_ids[ALLOWED_TOKEN_IDS_MAX];
    ProtobufCBinaryData words[BAD_WORDS_MAX];
};

/* "123": OpenAI's API has token ids as names. */
static bool read_id(const char *text, uint32_t *id_out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *id_out = (uint32_t)value;
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && value <= UINT32_MAX;
}

static void read_biases(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling,
                        struct openai_rules *rules)
{
    json_t *biases = json_object_get(fields->object, "logit_bias");
    const char *name;
    json_t *value;
    size_t n = 0;
    if (!json_field(fields, "logit_bias"))
        return;
    if (!json_is_object(biases)) {
        json_field_refuse_type(fields, "logit_bias", "an object");
        return;
    }
    if (json_object_size(biases) > LOGIT_BIASES_MAX) {
        json_field_fail(fields, "invalid_value", "logit_bias",
                        "has %zu members; at most %u are taken", json_object_size(biases),
                        LOGIT_BIASES_MAX);
        return;
    }
    json_object_foreach(biases, name, value)
    {
        Kvferry__V1__LogitBias *bias = &rules->biases[n];
        kvferry__v1__logit_bias__init(bias);
        if (!read_id(name, &bias->token_id) || !json_is_number(value)) {
            json_field_fail(fields, "invalid_value", "logit_bias",
                            "has \"%.40s\": names must be token ids, values numbers", name);
            return;
        }
        bias->bias = (float)json_number_value(value);
        rules->bias_list[n++] = bias;
    }
    sampling->n_logit_bias = n;
    sampling->logit_bias = rules->bias_list;
}

static void read_allowed(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling,
                         struct openai_rules *rules)
{
    const json_t *ids = json_field_list(fields, "allowed_token_ids", ALLOWED_TOKEN_IDS_MAX,
                                        "token ids");
    size_t n = json_array_size(ids);
    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);
        if (!json_is_id(id)) {
            json_field_refuse_element(fields, "allowed_token_ids", i, "a token id");
            return;
        }
        rules->allowed_ids[i] = (uint32_t)json_integer_value(id);
    }
    sampling->n_allowed_token_ids = n;
    sampling->allowed_token_ids = rules->allowed_ids;
}

static void read_words(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling,
                       struct openai_rules *rules)
{
    const json_t *words = json_field_list(fields, "bad_words", BAD_WORDS_MAX, "strings");
    size_t n = json_array_size(words);
    for (size_t i = 0; i < n; i++) {
        const json_t *word = json_array_get(words, i);
        if (!json_is_string(word)) {
            json_field_refuse_element(fields, "bad_words", i, "a string");
            return;
        }
        rules->words[i] = (ProtobufCBinaryData){json_string_length(word),
                                                (uint8_t *)json_string_value(word)};
    }
    sampling->n_bad_words = n;
    sampling->bad_words = rules->words;
}

/* Where replies have sinks. */
static void read_window(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling)
{
    bool is_there = false;
    json_int_t n;
    if (!json_field_integer(fields, "reply_window", 1, UINT32_MAX, &is_there, &n) || !is_there)
        return;
    sampling->reply_window_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__REPLY_WINDOW_PRESENCE_REPLY_WINDOW;
    sampling->reply_window = (uint32_t)n;
}

static void read_shown(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling)
{
    bool includes = false, skips = true;
    json_field_bool(fields, "include_stop_str_in_output", &includes);
    sampling->include_stop_str_in_output = includes;
    if (!json_field(fields, "skip_special_tokens"))
        return;
    json_field_bool(fields, "skip_special_tokens", &skips);
    sampling->skip_special_tokens_presence_case =
        KVFERRY__V1__SAMPLING_PARAMS__SKIP_SPECIAL_TOKENS_PRESENCE_SKIP_SPECIAL_TOKENS;
    sampling->skip_special_tokens = skips;
}

void openai_rules_read(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling,
                       struct openai_rules **rules_out)
{
    static const char *const LISTS[] = {"logit_bias", "allowed_token_ids", "bad_words"};
    bool is_there = false;
    json_int_t n;
    *rules_out = NULL;
    if (json_field_integer(fields, "min_tokens", 0, UINT32_MAX, &is_there, &n) && is_there)
        sampling->min_tokens = (uint32_t)n;
    read_window(fields, sampling);
    read_shown(fields, sampling);
    is_there = false;
    for (size_t i = 0; i < sizeof LISTS / sizeof *LISTS; i++)
        is_there |= json_field(fields, LISTS[i]) != NULL;
    if (!is_there)
        return;
    *rules_out = malloc(sizeof **rules_out);
    if (!*rules_out) {
        openai_error_set(fields->error, 503, NULL, NULL, "%s", status_text(STATUS_NO_MEMORY));
        return;
    }
    read_biases(fields, sampling, *rules_out);
    read_allowed(fields, sampling, *rules_out);
    read_words(fields, sampling, *rules_out);
}

void openai_rules_free(struct openai_rules *rules)
{
    free(rules);
}
