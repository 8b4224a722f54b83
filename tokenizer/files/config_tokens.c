#include "tokenizer/files/config_tokens.h"

#include "tokenizer/files/document.h"

#include <stdlib.h>
#include <string.h>

/* What is known, and where more goes. */
struct tokens {
    const json_t *vocab;
    json_t *added;
};

static bool is_same(const json_t *text, const json_t *other)
{
    return json_is_string(other) && json_equal(text, other);
}

static bool is_added(const struct tokens *tokens, const json_t *content)
{
    size_t index;
    json_t *token;

    json_array_foreach(tokens->added, index,
                       token) if (is_same(content, json_object_get(token, "content"))) return true;
    return false;
}

/* The id of a token of model.vocab; -1: it has none. */
static json_int_t find_id(const json_t *vocab, const json_t *content)
{
    const json_t *id = json_object_getn(vocab, json_string_value(content),
                                        json_string_length(content));
    size_t index;
    json_t *pair;

    json_array_foreach(
        (json_t *)(uintptr_t)vocab, index,
        pair) if (is_same(content, json_array_get(pair, 0))) return (json_int_t)index;
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

static enum status append(struct tokens *tokens, json_t *token)
{
    return json_array_append_new(tokens->added, token) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status add_decoded(struct tokens *tokens, const char *number, const json_t *token)
{
    const json_t *content = json_object_get(token, "content");
    char *end;

    long id = strtol(number, &end, 10);
    if (end == number || *end || id < 0 || !json_is_string(content) || is_added(tokens, content))
        return STATUS_OK;
    json_t *made = json_copy((json_t *)(uintptr_t)token);
    json_object_set_new(made, "id", json_integer(id));
    return append(tokens, made);
}

/* value: a text, or an object with its content. */
static enum status add_named(struct tokens *tokens, const json_t *value)
{
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;

    if (!json_is_string(content) || json_string_length(content) == 0 || is_added(tokens, content))
        return STATUS_OK;
    const json_int_t id = find_id(tokens->vocab, content);
    if (id < 0)
        return STATUS_OK;
    const struct document_token token = {(uint64_t)id, json_string_value(content),
                                         json_string_length(content)};
    return append(tokens, document_added_token(&token, true));
}

static enum status add_all_named(struct tokens *tokens, const json_t *config)
{
    static const char *const one[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                      "pad_token", "cls_token", "mask_token"};
    static const char *const many[] = {"additional_special_tokens", "extra_special_tokens",
                                       "model_specific_special_tokens"};
    size_t index;
    const char *name;
    json_t *value;

    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        TRY(add_named(tokens, json_object_get(config, one[i])));
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        json_t *list = json_object_get(config, many[i]);
        json_array_foreach(list, index, value) TRY(add_named(tokens, value));
        json_object_foreach(list, name, value) TRY(add_named(tokens, value));
    }
    return STATUS_OK;
}

enum status config_tokens_apply(json_t *tokenizer, const json_t *config)
{
    struct tokens tokens = {
        .vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab"),
        .added = json_object_get(tokenizer, "added_tokens"),
    };
    const char *number;
    json_t *token;

    if (!json_is_object(tokenizer) || !json_is_object(config))
        return STATUS_OK;
    if (!tokens.added || json_is_null(tokens.added)) {
        tokens.added = json_array();
        if (json_object_set_new(tokenizer, "added_tokens", tokens.added) != 0)
            return STATUS_NO_MEMORY;
    }
    if (!json_is_array(tokens.added))
        return STATUS_OK;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), number, token)
        TRY(add_decoded(&tokens, number, token));
    return add_all_named(&tokens, config);
}
