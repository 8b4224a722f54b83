/* gguf_gemma4: the keys of a file whose layers differ become the words that a folder has, all of them, and the tokens that end a text. */
#include "gguf/gguf_config.h"
#include "tests/gguf/support/expected_config.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>

#define FILE_NAME KVFERRY_SOURCE_DIR "/tests/golden/gguf/gemma4_tokens.gguf"

/* Of tests/golden/gguf/gemma4.py. A file has 32-bit numbers; 8 of 32 pairs turn, so a part is between 16 and 18 of 64. */
static const char EXPECTED[] =
    "{\"architectures\": [\"Gemma4ForCausalLM\"], \"model_type\": \"gemma4_text\", "
    "\"hidden_size\": 64, \"num_hidden_layers\": 4, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 2, \"head_dim\": 32, \"intermediate_size\": 64, "
    "\"max_position_embeddings\": 128, \"rms_norm_eps\": 0.0010000000474974513, "
    "\"final_logit_softcapping\": 60.0, \"sliding_window\": 9, "
    "\"layer_types\": [\"sliding_attention\", \"full_attention\", \"sliding_attention\", "
    "\"full_attention\"], "
    "\"per_layer_config\": {\"1\": {\"head_dim\": 64, \"num_key_value_heads\": 1}, "
    "\"3\": {\"head_dim\": 64, \"num_key_value_heads\": 1}}, "
    "\"num_kv_shared_layers\": 2, \"attention_k_eq_v\": true, \"use_double_wide_mlp\": false, "
    "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"proportional\", "
    "\"rope_theta\": 1000000.0, \"partial_rotary_factor\": 0.265625}, "
    "\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}}, "
    "\"hidden_size_per_layer_input\": 32, \"vocab_size_per_layer_input\": 2, "
    "\"enable_moe_block\": true, \"num_experts\": 4, \"top_k_experts\": 2, "
    "\"moe_intermediate_size\": 32, \"tie_word_embeddings\": true, ";

Test(gguf_gemma4, keys_are_the_words_of_a_folder)
{
    struct gguf_file file;
    struct error error = {""};
    json_t *config = NULL;
    cr_assert_eq(gguf_open(FILE_NAME, &file, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(gguf_config_make(&file, &config, &error), STATUS_OK, "%s", error.text);
    const struct gguf_key *tokens = gguf_find(&file, "tokenizer.ggml.tokens");
    char *text = NULL;
    /* The last two tokens are those that end a turn, and a call of a tool. */
    cr_assert_gt(asprintf(&text, "%s\"vocab_size\": %d, \"eos_token_id\": [2, %d, %d]}", EXPECTED,
                          (int)tokens->n, (int)tokens->n - 2, (int)tokens->n - 1),
                 0);
    expect_config(config, text);
    free(text);
    json_decref(config);
    gguf_close(&file);
}
