/* tokenizer_config.json as Transformers writes it: what changes no text is read past. */
#include "tests/tokenizer/support/tokenizers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

Test(tokenizer_config, what_transformers_writes_by_default_loads)
{
    static const char *const CONFIGS[] = {
        "{\"model_max_length\": 1000000000000000019884624838656}",
        "{\"model_max_length\": 1e30}",
        "{\"additional_special_tokens\": [\"<s>\"], \"extra_special_tokens\": {\"a\": \"<s>\"}}",
        "{\"additional_special_tokens\": [], \"extra_special_tokens\": {}, \"cls_token\": \"<s>\"}",
        ("{\"additional_special_tokens\": null, \"mask_token\": \"\", \"image_token\": \"<t>\", "
         "\"extra_special_tokens\": [{\"content\": \"<s>\"}], \"vocab_size\": 1}"),
        "{\"model_max_length\": 4096.0, \"add_bos_token\": null, \"bos_token\": null}",
    };
    json_t *document = small_document();
    char *text = json_dumps(document, 0);
    for (size_t i = 0; i < sizeof CONFIGS / sizeof *CONFIGS; i++) {
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        cr_expect_eq(load_texts(text, CONFIGS[i], &error, &tokenizer), STATUS_OK, "%s", error.text);
        tokenizer_destroy(tokenizer);
    }
    free(text);
    json_decref(document);
}

/* Some have the byte alphabet's letters alone: as tokens they are kept as bytes. */
Test(tokenizer_config, tokens_of_added_tokens_alone_are_found_by_their_text)
{
    static const char *const NAMES[] = {"<t>", "\xc4\xa0x", "\xc3\xa9\xc3\xa9", "\xe2\x96\x81"};
    json_t *document = small_document();
    json_t *decoder = json_object();
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        char number[8];
        int id = 259 + (int)i;
        snprintf(number, sizeof number, "%d", id);
        json_array_append_new(json_object_get(document, "added_tokens"),
                              json_pack("{s:i, s:s}", "id", id, "content", NAMES[i]));
        json_object_set_new(decoder, number, json_pack("{s:s}", "content", NAMES[i]));
    }
    char *text = json_dumps(document, 0);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        json_t *root = json_pack("{s:O, s:s}", "added_tokens_decoder", decoder, "pad_token",
                                 NAMES[i]);
        char *config = json_dumps(root, 0);
        struct tokenizer *tokenizer = NULL;
        struct error error = {""};
        cr_assert_eq(load_texts(text, config, &error, &tokenizer), STATUS_OK, "%s", error.text);
        cr_expect_eq(tokenizer_special_ids(tokenizer).pad, 259 + i, "%s", NAMES[i]);
        tokenizer_destroy(tokenizer);
        free(config);
        json_decref(root);
    }
    free(text);
    json_decref(decoder);
    json_decref(document);
}
