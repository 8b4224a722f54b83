#include "tokenizer/files/mistral_fix.h"

#include "base/log/log.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define VOCABULARY_MIN  100000 /* more than that */
#define VERSION_WITHOUT 5      /* what this one and later ones write is right */

static const char PATTERN[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{"
    "N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* config.json need not say which model it is, nor who wrote it. */
static bool is_meant(const json_t *model_config)
{
    static const char *const KINDS[] = {"mistral", "mistral3", "voxtral", "ministral", "pixtral"};
    const char *version = text_of(model_config, "transformers_version");
    const char *kind = text_of(model_config, "model_type");

    if (!json_is_object(model_config) || (version && strtol(version, NULL, 10) >= VERSION_WITHOUT))
        return false;
    for (size_t i = 0; kind && i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(kind, KINDS[i]) == 0)
            return true;
    return !kind;
}

static size_t count_tokens(const json_t *tokenizer)
{
    const json_t *vocab = json_object_get(json_object_get(tokenizer, "model"), "vocab");
    size_t n = json_object_size(vocab), i;
    json_t *token;

    json_array_foreach(json_object_get(tokenizer, "added_tokens"), i, token)
    {
        const char *content = text_of(token, "content");
        n += content && !json_object_get(vocab, content);
    }
    return n;
}

static json_t *with_pattern(json_t *old)
{
    const char *type = text_of(old, "type");
    json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                              PATTERN, "behavior", "Isolated", "invert", 0);
    json_t *members = json_object_get(old, "pretokenizers");

    if (split && type && strcmp(type, "Sequence") == 0 && json_array_size(members) > 0) {
        json_t *made = json_deep_copy(old);
        json_array_set_new(json_object_get(made, "pretokenizers"), 0, split);
        return made;
    }
    if (type && strcmp(type, "Metaspace") == 0) /* does not work behind a Split */
        return json_pack("{s:s, s:[o, {s:s, s:b, s:b}]}", "type", "Sequence", "pretokenizers",
                         split, "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);
    return json_pack("{s:s, s:[o, O]}", "type", "Sequence", "pretokenizers", split, old);
}

enum status mistral_fix_apply(json_t *tokenizer, const json_t *config, const json_t *model_config)
{
    json_t *old = json_object_get(tokenizer, "pre_tokenizer");

    if (!json_is_true(json_object_get(config, "fix_mistral_regex")) || !is_meant(model_config) ||
        !json_is_object(old) || count_tokens(tokenizer) <= VOCABULARY_MIN)
        return STATUS_OK;
    json_t *made = with_pattern(old);
    if (!made)
        return STATUS_NO_MEMORY;
    if (!json_equal(made, old))
        log_info("tokenizer_config.json: fix_mistral_regex puts Transformers' pattern in place of "
                 "tokenizer.json's");
    return json_object_set_new(tokenizer, "pre_tokenizer", made) == 0 ? STATUS_OK
                                                                      : STATUS_NO_MEMORY;
}
