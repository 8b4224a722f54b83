/* encoders: a key or tensor of a model with an encoder that would change what is computed is refused with its name and the value. */
#include "model/model.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/encoder_golden.h"

#include <criterion/criterion.h>
#include <string.h>

#define T5          GOLDEN_ENCODERS "/t5_v1_0"
#define T5_GATED    GOLDEN_ENCODERS "/t5_v1_1"
#define UMT5        GOLDEN_ENCODERS "/umt5"
#define BART        GOLDEN_ENCODERS "/bart"
#define BART_SCALED GOLDEN_ENCODERS "/bart_scaled"
#define MBART       GOLDEN_ENCODERS "/mbart"
#define RELATIVE    "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"

struct bad_folder {
    const char *original;
    enum broken_what what;
    const char *argument;
    enum status status;
    const char *words; /* in the sentence */
};

static const struct bad_folder CASES[] = {
    {T5, CONFIG_SET, "{\"feed_forward_proj\": \"gated-tanh\"}", STATUS_UNSUPPORTED,
     "feed_forward_proj \"tanh\" is not supported"},
    {T5, CONFIG_SET, "{\"feed_forward_proj\": 3}", STATUS_CORRUPT, "feed_forward_proj is"},
    {T5, CONFIG_SET, "{\"feed_forward_proj\": \"gated-gelu\"}", STATUS_CORRUPT,
     "layer.2.DenseReluDense.wi_0.weight is missing, expected with shape [48, 32]"},
    {T5, CONFIG_SET, "{\"dense_act_fn\": \"gelu_new\"}", STATUS_CORRUPT,
     "dense_act_fn is \"gelu_new\", feed_forward_proj is \"relu\""},
    {T5, CONFIG_SET, "{\"is_gated_act\": true}", STATUS_UNSUPPORTED, "is_gated_act is true"},
    {T5, CONFIG_SET, "{\"is_encoder_decoder\": false}", STATUS_UNSUPPORTED,
     "is_encoder_decoder is false, only true is supported"},
    {T5, CONFIG_SET, "{\"relative_attention_num_buckets\": 7}", STATUS_UNSUPPORTED,
     "relative_attention_num_buckets is 7, supported are even numbers"},
    {T5, CONFIG_SET, "{\"relative_attention_num_buckets\": 2}", STATUS_UNSUPPORTED,
     "relative_attention_num_buckets is 2"},
    {T5, CONFIG_SET, "{\"relative_attention_num_buckets\": 5000}", STATUS_CORRUPT,
     "relative_attention_num_buckets is 5000"},
    {T5, CONFIG_SET, "{\"relative_attention_num_buckets\": 16}", STATUS_CORRUPT,
     "relative_attention_bias.weight has shape [12, 3], expected [16, 3]"},
    {T5, CONFIG_SET, "{\"relative_attention_max_distance\": 6}", STATUS_UNSUPPORTED,
     "relative_attention_max_distance is 6, must be over the 6 distances"},
    {T5, CONFIG_SET, "{\"relative_attention_max_distance\": 1000000}", STATUS_CORRUPT,
     "relative_attention_max_distance is 1000000"},
    {T5, CONFIG_SET, "{\"decoder_start_token_id\": null}", STATUS_CORRUPT,
     "decoder_start_token_id is missing, and bos_token_id, too"},
    {T5, CONFIG_SET, "{\"decoder_start_token_id\": 96}", STATUS_CORRUPT,
     "decoder_start_token_id is not an id below vocab_size 96"},
    {T5, CONFIG_SET, "{\"decoder_start_token_id\": [0, 1]}", STATUS_UNSUPPORTED,
     "decoder_start_token_id has 2 ids"},
    {T5, CONFIG_SET, "{\"num_decoder_layers\": 0}", STATUS_CORRUPT, "num_decoder_layers is 0"},
    {T5, CONFIG_SET, "{\"num_decoder_layers\": 4}", STATUS_CORRUPT,
     "decoder.block.3.layer.0.layer_norm.weight is missing"},
    {T5, CONFIG_SET, "{\"num_layers\": 3}", STATUS_CORRUPT,
     "encoder.block.2.layer.0.layer_norm.weight is missing"},
    {T5, CONFIG_SET, "{\"d_kv\": 12}", STATUS_UNSUPPORTED, "head_dim is 12"},
    {T5, CONFIG_SET, "{\"d_kv\": 8}", STATUS_CORRUPT,
     "SelfAttention.q.weight has shape [48, 32], expected [24, 32]"},
    {T5, CONFIG_SET, "{\"scale_decoder_outputs\": 1}", STATUS_CORRUPT, "scale_decoder_outputs is"},
    {UMT5, CONFIG_SET, "{\"scale_decoder_outputs\": true}", STATUS_OK, ""},
    {T5, CONFIG_SET, "{\"num_beams\": 4}", STATUS_OK, ""},
    {T5, CONFIG_SET, "{\"num_beams\": \"four\"}", STATUS_CORRUPT,
     "config.json: num_beams is a string"},
    {T5, CONFIG_SET, "{\"num_beams\": 0}", STATUS_CORRUPT,
     "config.json: num_beams is 0, expected 1 .."},
    {T5, CONFIG_SET, "{\"num_beams\": true}", STATUS_CORRUPT, "num_beams is true or false"},
    {T5, CONFIG_SET, "{\"length_penalty\": [2.0]}", STATUS_CORRUPT, "length_penalty is a list"},
    {T5, CONFIG_SET, "{\"early_stopping\": \"always\"}", STATUS_CORRUPT,
     "early_stopping is \"always\", expected true, false or \"never\""},
    {T5, CONFIG_SET, "{\"early_stopping\": 1}", STATUS_CORRUPT, "early_stopping is an integer"},
    {T5, CONFIG_SET, "{\"early_stopping\": \"never\"}", STATUS_OK, ""},
    {T5, CONFIG_SET, "{\"quantization_config\": {\"quant_method\": \"fp8\"}}", STATUS_UNSUPPORTED,
     "quantization_config: T5ForConditionalGeneration is supported with weights in F32, BF16 and "
     "F16 alone"},
    {T5, TENSOR_STRIP, RELATIVE, STATUS_CORRUPT, RELATIVE " is missing"},
    {T5, TENSOR_STRIP, "encoder.final_layer_norm", STATUS_CORRUPT,
     "encoder.final_layer_norm.weight is missing"},
    {T5, TENSOR_STRIP, "decoder.block.2.layer.1.EncDecAttention.v", STATUS_CORRUPT,
     "EncDecAttention.v.weight is missing, expected with shape [48, 32]"},
    {T5, TENSOR_STRIP, "shared", STATUS_CORRUPT, "shared.weight is missing"},
    {T5, TENSOR_SET, RELATIVE "=3=nan", STATUS_CORRUPT, RELATIVE},
    {T5_GATED, TENSOR_SET, "encoder.embed_tokens.weight=5=1.5", STATUS_UNSUPPORTED,
     "differs from the other embeddings of the files"},
    {UMT5, TENSOR_STRIP, "encoder.block.1.layer.0.SelfAttention.relative_attention_bias",
     STATUS_CORRUPT,
     "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight is missing"},
    {BART, CONFIG_SET, "{\"encoder_layers\": null}", STATUS_CORRUPT, "encoder_layers is missing"},
    {BART, CONFIG_SET, "{\"encoder_attention_heads\": 5}", STATUS_CORRUPT,
     "d_model is 32, no multiple of encoder_attention_heads 5"},
    {BART, CONFIG_SET, "{\"encoder_attention_heads\": 8}", STATUS_UNSUPPORTED,
     "d_model / encoder_attention_heads is 4"},
    {BART, CONFIG_SET, "{\"encoder_ffn_dim\": 48}", STATUS_CORRUPT,
     "model.encoder.layers.0.fc1.weight has shape [40, 32], expected [48, 32]"},
    {BART, CONFIG_SET, "{\"normalize_before\": true}", STATUS_UNSUPPORTED,
     "normalize_before is true, only false is supported"},
    {BART, CONFIG_SET, "{\"normalize_embedding\": false}", STATUS_UNSUPPORTED,
     "normalize_embedding is false"},
    {BART, CONFIG_SET, "{\"static_position_embeddings\": true}", STATUS_UNSUPPORTED,
     "static_position_embeddings is true"},
    {BART, CONFIG_SET, "{\"extra_pos_embeddings\": 0}", STATUS_UNSUPPORTED,
     "extra_pos_embeddings is 0, only 2 is supported"},
    {BART, CONFIG_SET, "{\"scale_embedding\": \"yes\"}", STATUS_CORRUPT, "scale_embedding is"},
    {BART, CONFIG_SET, "{\"forced_bos_token_id\": -1}", STATUS_CORRUPT,
     "forced_bos_token_id is not an id below vocab_size 96"},
    {BART, CONFIG_SET, "{\"forced_eos_token_id\": [2, 3]}", STATUS_UNSUPPORTED,
     "forced_eos_token_id has 2 ids"},
    {BART, CONFIG_SET, "{\"no_repeat_ngram_size\": 3}", STATUS_OK, ""},
    {BART, CONFIG_SET, "{\"min_new_tokens\": 2.5}", STATUS_CORRUPT,
     "min_new_tokens is 2.5, expected an integer"},
    {BART, CONFIG_SET, "{\"min_length\": -1}", STATUS_CORRUPT, "min_length is -1, expected 0 .."},
    {BART, CONFIG_SET, "{\"force_bos_token_to_be_generated\": 1}", STATUS_CORRUPT,
     "force_bos_token_to_be_generated is an integer"},
    {BART, CONFIG_SET,
     "{\"forced_bos_token_id\": null, \"bos_token_id\": 96, "
     "\"force_bos_token_to_be_generated\": true}",
     STATUS_CORRUPT, "bos_token_id is not an id below vocab_size 96"},
    {T5, CONFIG_SET, "{\"typical_p\": 0.5}", STATUS_OK, ""},
    {T5, CONFIG_SET, "{\"top_h\": 0.5}", STATUS_UNSUPPORTED, "top_h is 0.5"},
    {BART_SCALED, FILE_TEXT, "generation_config.json={\"num_beams\": 1e30}", STATUS_CORRUPT,
     "generation_config.json: num_beams is 1e+30"},
    {BART_SCALED, FILE_TEXT, "generation_config.json={\"num_beams\": 4, \"bad_words_ids\": [[4]]}",
     STATUS_UNSUPPORTED, "generation_config.json: bad_words_ids is [[4]]"},
    {BART, CONFIG_SET, "{\"max_position_embeddings\": 64}", STATUS_CORRUPT,
     "embed_positions.weight has shape [82, 32], expected [66, 32]"},
    {BART, TENSOR_STRIP, "model.encoder.layernorm_embedding.b", STATUS_CORRUPT,
     "model.encoder.layernorm_embedding.bias is missing"},
    {BART_SCALED, FILE_TEXT,
     "generation_config.json={\"decoder_start_token_id\": 7, \"forced_eos_token_id\": 100}",
     STATUS_CORRUPT, "generation_config.json: forced_eos_token_id is not an id"},
    {BART_SCALED, FILE_TEXT,
     "generation_config.json={\"decoder_start_token_id\": 7, \"begin_suppress_tokens\": [4]}",
     STATUS_UNSUPPORTED, "generation_config.json: begin_suppress_tokens is [4]"},
    {MBART, CONFIG_SET, "{\"normalize_before\": false}", STATUS_UNSUPPORTED,
     "normalize_before is false, only true is supported"},
    {MBART, TENSOR_STRIP, "model.decoder.layer_norm", STATUS_CORRUPT,
     "model.decoder.layer_norm.weight is missing"},
};

Test(bad_encoder, every_bad_value_has_its_sentence)
{
    cr_assert_eq(sizeof CASES / sizeof *CASES, 64);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct bad_folder *bad = &CASES[i];
        struct broken_folder folder;
        struct error error = {""};
        struct model *model = NULL;
        broken_folder_make(&folder, bad->original, bad->what, bad->argument);
        enum status status = model_load(folder.path, NULL, &error, &model);
        cr_expect_eq(status, bad->status, "%s: %s, expected %s (%s)", bad->argument,
                     status_name(status), status_name(bad->status), error.text);
        cr_expect(strstr(error.text, bad->words), "%s: no \"%s\" in \"%s\"", bad->argument,
                  bad->words, error.text);
        model_destroy(status == STATUS_OK ? model : NULL);
        broken_folder_remove(&folder);
    }
}

/* The ids of a model as its files give them: generation_config.json comes before config.json, and forces alone. */
Test(bad_encoder, ids_come_from_the_file_that_transformers_reads)
{
    static const struct {
        const char *original;
        enum broken_what what;
        const char *argument;
        uint32_t start, first, last;
    } IDS[] = {
        {T5, NOTHING, "", 0, TOKEN_NONE, TOKEN_NONE},
        {BART, NOTHING, "", 2, 50, 51},
        {BART, CONFIG_SET, "{\"decoder_start_token_id\": [9], \"forced_bos_token_id\": null}", 9,
         TOKEN_NONE, 51},
        {BART, CONFIG_SET, "{\"decoder_start_token_id\": null}", 2, 50, 51},
        {BART, CONFIG_SET, "{\"force_bos_token_to_be_generated\": true}", 2, 50, 51},
        {BART, CONFIG_SET,
         "{\"forced_bos_token_id\": null, \"force_bos_token_to_be_generated\": false}", 2,
         TOKEN_NONE, 51},
        {BART, CONFIG_SET,
         "{\"forced_bos_token_id\": null, \"bos_token_id\": 8, "
         "\"force_bos_token_to_be_generated\": true}",
         2, 8, 51},
        {BART, CONFIG_SET,
         "{\"forced_bos_token_id\": null, \"bos_token_id\": null, "
         "\"force_bos_token_to_be_generated\": true}",
         2, TOKEN_NONE, 51},
        {BART_SCALED, CONFIG_SET, "{\"force_bos_token_to_be_generated\": true}", 7, 5, 3},
        {BART_SCALED, NOTHING, "", 7, 5, 3},
        {BART_SCALED, FILE_REMOVE, "generation_config.json", 2, 44, 45},
        {BART_SCALED, FILE_TEXT, "generation_config.json={}", 2, TOKEN_NONE, TOKEN_NONE},
        {MBART, NOTHING, "", 6, TOKEN_NONE, TOKEN_NONE},
        {GOLDEN_ENCODERS "/mt5", NOTHING, "", 0, TOKEN_NONE, TOKEN_NONE},
    };
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++) {
        struct broken_folder folder;
        struct error error = {""};
        struct model *model;
        broken_folder_make(&folder, IDS[i].original, IDS[i].what, IDS[i].argument);
        cr_assert_eq(model_load(folder.path, NULL, &error, &model), STATUS_OK, "%s", error.text);
        const struct encoder_shape *encoder = &model_get_config(model)->encoder;
        cr_expect_eq(encoder->start_id, IDS[i].start, "%s %s: %u", IDS[i].original, IDS[i].argument,
                     encoder->start_id);
        cr_expect_eq(encoder->forced_first_id, IDS[i].first, "%s %s: %u", IDS[i].original,
                     IDS[i].argument, encoder->forced_first_id);
        cr_expect_eq(encoder->forced_last_id, IDS[i].last, "%s %s: %u", IDS[i].original,
                     IDS[i].argument, encoder->forced_last_id);
        model_destroy(model);
        broken_folder_remove(&folder);
    }
}
