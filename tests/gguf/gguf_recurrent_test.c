/* gguf_recurrent: the keys of a file whose layers have recurrent state become the words that a folder has, all of them. */
#include "gguf/gguf_config.h"
#include "tests/gguf/support/expected_config.h"

#include <criterion/criterion.h>
#include <jansson.h>

#define FILE_NAME KVFERRY_SOURCE_DIR "/tests/golden/gguf/qwen35_tokens.gguf"

/* Of tests/golden/gguf/recurrent.py: a file has 32-bit numbers, and no tensors, so it says nothing of biases and of Z. */
static const char EXPECTED[] =
    "{\"architectures\": [\"Qwen3_5ForCausalLM\"], \"model_type\": \"qwen3_5_text\", "
    "\"hidden_size\": 32, \"num_hidden_layers\": 4, \"num_nextn_predict_layers\": 1, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 32, "
    "\"intermediate_size\": 48, \"max_position_embeddings\": 128, \"rope_theta\": 10000.0, "
    "\"partial_rotary_factor\": 0.25, \"rms_norm_eps\": 0.0099999997764825821, "
    "\"layer_types\": [\"linear_attention\", \"full_attention\", \"linear_attention\", "
    "\"full_attention\"], \"linear_conv_kernel_dim\": 4, \"linear_key_head_dim\": 24, "
    "\"linear_num_key_heads\": 4, \"linear_num_value_heads\": 4, \"linear_value_head_dim\": 16, "
    "\"norms_are_whole\": true, \"decays_are_rates\": true, \"heads_are_tiled\": true, "
    "\"qkvz_is_apart\": false, \"attention_bias\": false, \"tie_word_embeddings\": true}";

Test(gguf_recurrent, keys_are_the_words_of_a_folder)
{
    struct gguf_file file;
    struct error error = {""};
    json_t *config = NULL;
    cr_assert_eq(gguf_open(FILE_NAME, &file, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(gguf_config_make(&file, &config, &error), STATUS_OK, "%s", error.text);
    cr_expect(json_object_get(config, "vocab_size"));
    json_object_del(config, "vocab_size");
    json_object_del(config, "eos_token_id");
    expect_config(config, EXPECTED);
    json_decref(config);
    gguf_close(&file);
}
