/* config_keys: no key that a version of Transformers knows is unknown here, and a key is refused only
 * with a value that changes something. tests/golden/folders/keys.py made the list. */
#include "model/config/config_keys.h"
#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <string.h>

#define GOLDEN_FOLDERS KVFERRY_SOURCE_DIR "/tests/golden/folders"

Test(config_keys, every_key_of_transformers_is_judged)
{
    static const struct {
        const char *name;
        enum key_file file;
        size_t n_min;
    } FILES[] = {
        {"config", KEYS_CONFIG, 60},
        {"config", KEYS_CONFIG_ALONE, 60},
        {"generation", KEYS_GENERATION, 60},
        {"tokenizer", KEYS_TOKENIZER, 60},
        {"special_tokens", KEYS_SPECIAL_TOKENS, 8},
    };
    json_t *keys = golden_json(GOLDEN_FOLDERS, "keys.json"), *key;
    json_t *null = json_null();
    for (size_t f = 0; f < sizeof FILES / sizeof *FILES; f++) {
        const json_t *list = json_object_get(keys, FILES[f].name);
        size_t i;
        cr_assert_geq(json_array_size(list), FILES[f].n_min, "%s", FILES[f].name);
        json_array_foreach((json_t *)(uintptr_t)list, i, key)
        {
            const char *why, *text = json_string_value(key);
            enum key_verdict verdict = config_key_judge(FILES[f].file, NULL, text, null, &why);
            cr_expect(verdict == KEY_USED || verdict == KEY_IGNORED, "%s: %s is %d", FILES[f].name,
                      text, verdict);
            cr_expect_eq(verdict == KEY_IGNORED, *why != '\0', "%s", text);
        }
    }
    json_decref(keys);
}

struct verdict_case {
    enum key_file file;
    const char *key, *value;
    enum key_verdict verdict;
    const char *own_keys;
};

static void expect_verdicts(const struct verdict_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *why = NULL;
        json_t *value = json_loads(cases[i].value, JSON_DECODE_ANY, NULL);
        cr_assert_not_null(value);
        cr_expect_eq(config_key_judge(cases[i].file, cases[i].own_keys, cases[i].key, value, &why),
                     cases[i].verdict, "%s %s", cases[i].key, cases[i].value);
        cr_expect_eq(*why != '\0', cases[i].verdict == KEY_IGNORED, "%s", cases[i].key);
        json_decref(value);
    }
}

Test(config_keys, verdicts)
{
    static const struct verdict_case CASES[] = {
        {KEYS_CONFIG, "hidden_size", "32", KEY_USED, NULL},
        {KEYS_CONFIG, "hidden_siz", "32", KEY_UNKNOWN, NULL},
        {KEYS_CONFIG, "size", "32", KEY_UNKNOWN, NULL},
        {KEYS_CONFIG, "", "32", KEY_UNKNOWN, NULL},
        {KEYS_CONFIG, "bias", "true", KEY_REFUSED, NULL},
        {KEYS_CONFIG, "bias", "true", KEY_REFUSED, "alibi biases"},
        {KEYS_CONFIG, "bias", "true", KEY_USED, "alibi bias"},
        {KEYS_CONFIG_ALONE, "bias", "true", KEY_USED, "bias"},
        {KEYS_GENERATION, "bias", "true", KEY_USED, "bias"},
        {KEYS_CONFIG, "attention_bias", "true", KEY_USED, NULL},
        {KEYS_CONFIG, "logit_scale", "1.0", KEY_IGNORED, NULL},
        {KEYS_CONFIG, "logit_scale", "1", KEY_IGNORED, NULL},
        {KEYS_CONFIG, "logit_scale", "0.5", KEY_REFUSED, NULL},
        {KEYS_CONFIG, "logit_scale", "\"1\"", KEY_REFUSED, NULL},
        {KEYS_CONFIG, "clip_qkv", "null", KEY_IGNORED, NULL},
        {KEYS_CONFIG, "clip_qkv", "0", KEY_REFUSED, NULL},
        {KEYS_CONFIG, "no_rope_layers", "[]", KEY_IGNORED, NULL},
        {KEYS_CONFIG, "no_rope_layers", "[1]", KEY_REFUSED, NULL},
        {KEYS_CONFIG, "norm_type", "\"rms_norm\"", KEY_IGNORED, NULL},
        {KEYS_CONFIG, "norm_type", "\"layer_norm\"", KEY_REFUSED, NULL},
        {KEYS_CONFIG_ALONE, "temperature", "0.5", KEY_USED, NULL},
        {KEYS_GENERATION, "cache_implementation", "\"static\"", KEY_IGNORED, NULL},
        {KEYS_GENERATION, "cache_implementation", "\"quantized\"", KEY_REFUSED, NULL},
        {KEYS_GENERATION, "cache_implementation", "\"dyn\"", KEY_REFUSED, NULL},
        {KEYS_CONFIG_ALONE, "cache_implementation", "\"quantized\"", KEY_REFUSED, NULL},
        {KEYS_CONFIG, "quantization", "{\"bits\": 4}", KEY_REFUSED, NULL},
        {KEYS_TOKENIZER, "fix_mistral_regex", "true", KEY_USED, NULL},
        {KEYS_GENERATION, "hidden_size", "32", KEY_UNKNOWN, NULL},
        {KEYS_GENERATION, "watermarking_config", "{\"bias\": 2}", KEY_REFUSED, NULL},
        {KEYS_TOKENIZER, "bos_token", "{\"content\": \"a\"}", KEY_USED, NULL},
        {KEYS_TOKENIZER, "split_special_tokens", "true", KEY_REFUSED, NULL},
        {KEYS_TOKENIZER, "split_special_tokens", "false", KEY_IGNORED, NULL},
        {KEYS_TOKENIZER, "image_token", "\"a\"", KEY_IGNORED, NULL},
        {KEYS_TOKENIZER, "_token", "\"a\"", KEY_UNKNOWN, NULL},
        {KEYS_TOKENIZER, "some_tokens", "[]", KEY_UNKNOWN, NULL},
        {KEYS_SPECIAL_TOKENS, "eos_token", "\"a\"", KEY_IGNORED, NULL},
        {KEYS_SPECIAL_TOKENS, "model_max_length", "5", KEY_UNKNOWN, NULL},
    };
    expect_verdicts(CASES, sizeof CASES / sizeof *CASES);
}

/* What asks for another search is not done; what forbids tokens, or draws otherwise, is refused. */
Test(config_keys, verdicts_on_searches)
{
    static const struct verdict_case CASES[] = {
        {KEYS_CONFIG, "num_beams", "4", KEY_IGNORED, NULL},
        {KEYS_CONFIG_ALONE, "num_beams", "4", KEY_NOT_DONE, NULL},
        {KEYS_CONFIG_ALONE, "num_beams", "1", KEY_IGNORED, NULL},
        {KEYS_CONFIG_ALONE, "num_beams", "null", KEY_IGNORED, NULL},
        {KEYS_CONFIG_ALONE, "task_specific_params", "{\"a\": 1}", KEY_IGNORED, NULL},
        {KEYS_CONFIG_ALONE, "early_stopping", "true", KEY_NOT_DONE, NULL},
        {KEYS_CONFIG_ALONE, "early_stopping", "false", KEY_IGNORED, NULL},
        {KEYS_CONFIG_ALONE, "length_penalty", "1.0", KEY_IGNORED, NULL},
        {KEYS_GENERATION, "length_penalty", "2.0", KEY_NOT_DONE, NULL},
        {KEYS_GENERATION, "no_repeat_ngram_size", "3", KEY_USED, NULL},
        {KEYS_GENERATION, "encoder_no_repeat_ngram_size", "2", KEY_NOT_DONE, NULL},
        {KEYS_GENERATION, "min_length", "56", KEY_NOT_DONE, NULL},
        {KEYS_GENERATION, "typical_p", "0.9", KEY_USED, NULL},
        {KEYS_GENERATION, "top_h", "0.4", KEY_REFUSED, NULL},
        {KEYS_GENERATION, "guidance_scale", "1.5", KEY_REFUSED, NULL},
        {KEYS_GENERATION, "suppress_tokens", "[5]", KEY_USED, NULL},
        {KEYS_CONFIG_ALONE, "suppress_tokens", "[5]", KEY_USED, NULL},
        {KEYS_GENERATION, "begin_suppress_tokens", "[5]", KEY_REFUSED, NULL},
        {KEYS_GENERATION, "bad_words_ids", "[[5]]", KEY_REFUSED, NULL},
        {KEYS_GENERATION, "num_beams", "1.0", KEY_IGNORED, NULL},
        {KEYS_GENERATION, "min_new_tokens", "5", KEY_NOT_DONE, NULL},
    };
    expect_verdicts(CASES, sizeof CASES / sizeof *CASES);
}
