/* tokenizer_config.json as Transformers writes it: what changes no text is read past. */
#include "tests/tokenizer/support/tokenizers.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(tokenizer_config, what_transformers_writes_by_default_loads)
{
    static const char *const CONFIGS[] = {
        "{\"model_max_length\": 1000000000000000019884624838656}",
        "{\"model_max_length\": 1e30}",
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
