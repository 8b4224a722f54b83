/* A model with an encoder from a GGUF file has the logits of its folder, also in blocks; what is not read is refused by name. */
#include "gguf/gguf_files.h"
#include "kernels/dtype.h"
#include "tests/base/support/folder.h"
#include "tests/model/support/encoder_golden.h"
#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_GGUF KVFERRY_SOURCE_DIR "/tests/golden/gguf"

static void open_gguf(struct runner *runner, const char *name, enum weight_format weights)
{
    char path[512];
    gguf_files_init();
    snprintf(path, sizeof path, GOLDEN_GGUF "/%s.gguf", name);
    runner_open(runner, path,
                (struct runner_options){.block_tokens = 8, .n_blocks = 64, .weights = weights});
}

/* The largest error of the logits of a pair. */
static double error_of(struct runner *runner, const struct encoder_pair *pair,
                       const float *expected)
{
    const size_t n = (size_t)pair->n_decoder * runner->vocabulary;
    float *logits = calloc(n, sizeof *logits);
    encoder_logits(runner, pair, 0, logits);
    const double error = golden_error(logits, expected, n);
    free(logits);
    return error;
}

Test(gguf_encoder, logits_are_those_of_the_folder)
{
    static const char *const NAMES[] = {"t5_far", "t5_far_gated", "umt5_far"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        struct encoder_golden golden;
        struct runner runner;
        encoder_golden_open(&golden, NAMES[i]);
        open_gguf(&runner, NAMES[i], WEIGHTS_AUTO);
        const struct model_config *config = model_get_config(runner.model);
        cr_expect_eq(config->encoder.start_id, golden.start);
        cr_expect_eq(config->n_layers, golden.n_layers);
        cr_expect_eq(config->n_eos_ids, 1);
        cr_expect_eq(config->decoder.relative.is_in_each_layer, i == 2);
        for (size_t p = 0; p < ENCODER_PAIRS; p++) {
            const double error = error_of(&runner, &golden.pairs[p], golden.pairs[p].logits);
            cr_expect_leq(error, 1e-4, "%s, pair %zu: %g", NAMES[i], p, error);
        }
        runner_close(&runner);
        encoder_golden_close(&golden);
    }
}

/* What blocks multiply is rounded to 16 bits, which these random weights make 200 times as large: with 8 bits the error is 2. */
Test(gguf_encoder, blocks_have_the_logits_of_their_values)
{
    struct encoder_golden golden;
    struct runner runner;
    encoder_golden_open(&golden, "t5_far_gated");
    const struct encoder_pair *pair = &golden.pairs[1];
    open_gguf(&runner, "t5_blocks", WEIGHTS_AUTO);
    float *expected = golden_floats(GOLDEN_GGUF, "t5_blocks.f32",
                                    (size_t)pair->n_decoder * runner.vocabulary);
    const struct weights *weights = model_weights(runner.model);
    cr_expect_eq(weights->layers[0].q.dtype, DTYPE_Q8_0);
    cr_expect_eq(weights->layers[0].cross_k.dtype, DTYPE_Q5_1);
    cr_expect_eq(weights->layers[golden.n_layers].gate.dtype, DTYPE_Q4_1);
    const double error = error_of(&runner, pair, expected);
    printf("t5_blocks              largest error %.1e\n", error);
    cr_expect_leq(error, 2e-2, "%g", error);
    const double of_folder = error_of(&runner, pair, pair->logits);
    cr_expect_gt(of_folder, 10 * error, "%g: the values are others", of_folder);
    runner_close(&runner);
    open_gguf(&runner, "t5_blocks", WEIGHTS_INT8); /* rounded anew from the values */
    const double rounded = error_of(&runner, pair, expected);
    cr_expect(rounded > error && rounded < 0.6 * golden.largest_logit, "%g", rounded);
    runner_close(&runner);
    free(expected);
    encoder_golden_close(&golden);
}

/* ---- what is refused ---- */

/* A copy of a golden, changed: another name of a key or tensor, or another value of a key, of 32 bits, or another text of it, each as long
 * as its own. */
static void write_changed(const char *golden, const char *key, const char *name, const char *text,
                          uint32_t value, const char *path)
{
    static uint8_t bytes[1 << 19];
    char from[512];
    snprintf(from, sizeof from, GOLDEN_GGUF "/%s.gguf", golden);
    FILE *file = fopen(from, "rb");
    cr_assert_not_null(file, "%s", from);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cr_assert_lt(n, sizeof bytes);
    uint8_t *at = memmem(bytes, n, key, strlen(key));
    cr_assert(at, "%s has no %s", golden, key);
    if (name)
        memcpy(at, name, strlen(key));
    else if (text) /* behind the kind and the length */
        memcpy(at + strlen(key) + sizeof(uint32_t) + sizeof(uint64_t), text, strlen(text));
    else
        memcpy(at + strlen(key) + sizeof(uint32_t), &value, sizeof value);
    file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0, "%s", path);
}

Test(gguf_encoder, what_is_not_read_is_refused_by_name)
{
    static const struct {
        const char *golden, *key, *name, *text;
        uint32_t value;
        const char *sentence;
    } CASES[] = {
        {"t5_far", "t5.embedding_length", "t5.embedding_longth", NULL, 0,
         "key t5.embedding_length is missing"},
        {"t5_far", "t5.attention.relative_buckets_count", "t5.attention.relative_buckets_comma",
         NULL, 0, "key t5.attention.relative_buckets_count is missing"},
        {"t5_far", "t5.attention.relative_buckets_count", NULL, NULL, 7,
         "relative_attention_num_buckets is 7"},
        {"t5_far", "t5.attention.relative_buckets_count", NULL, NULL, 16,
         "relative_attention_bias.weight has shape [32, 4], expected [16, 4]"},
        {"t5_far", "t5.decoder_start_token_id", "t5.decoder_start_token_it", NULL, 0,
         "key t5.decoder_start_token_id is missing"},
        {"t5_far", "t5.decoder_start_token_id", NULL, NULL, 96,
         "decoder_start_token_id is not an id below vocab_size 96"},
        {"t5_far", "t5.decoder_block_count", NULL, NULL, 4,
         "decoder.block.3.layer.0.layer_norm.weight is missing"},
        {"t5_far", "t5.decoder_block_count", NULL, NULL, 0, "t5.decoder_block_count"},
        {"t5_far", "t5.attention.value_length", NULL, NULL, 8,
         "key t5.attention.value_length is 8, only t5.attention.key_length, which is 16, is "
         "supported"},
        {"t5_far", "t5.attention.layer_norm_rms_epsilon", "t5.attention.layer_norm_rms_epsilom",
         NULL, 0, "key t5.attention.layer_norm_rms_epsilon is missing"},
        {"t5_far", "dec.blk.1.cross_attn_k.weight", "dec.blk.1.cross_attn_j.weight", NULL, 0,
         "decoder.block.1.layer.1.EncDecAttention.k.weight is missing"},
        {"t5_far_gated", "enc.blk.1.ffn_gate.weight", "enc.blk.1.ffn_gaze.weight", NULL, 0,
         "encoder.block.1.layer.1.DenseReluDense.wi_0.weight is missing"},
        {"t5_far_gated", "enc.output_norm.weight", "enc.output_gnorm.weigh", NULL, 0,
         "encoder.final_layer_norm.weight is missing"},
        {"umt5_far", "dec.blk.1.attn_rel_b.weight", "dec.blk.1.attn_rel_c.weight", NULL, 0,
         "decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight is missing"},
        {"t5_blocks", "t5.feed_forward_length", NULL, NULL, 32,
         "wi_0.weight has shape [64, 32], expected [32, 32]"},
    };
    char folder[256], path[300];
    folder_make(folder, sizeof folder, "gguf_encoder");
    gguf_files_init();
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct error error = {""};
        struct model *model = NULL;
        snprintf(path, sizeof path, "%s/%s.gguf", folder, CASES[i].golden);
        write_changed(CASES[i].golden, CASES[i].key, CASES[i].name, CASES[i].text, CASES[i].value,
                      path);
        cr_expect_neq(model_load(path, NULL, &error, &model), STATUS_OK, "%zu, %s", i,
                      CASES[i].key);
        cr_expect(strstr(error.text, CASES[i].sentence), "%zu, %s: no \"%s\" in \"%s\"", i,
                  CASES[i].key, CASES[i].sentence, error.text);
    }
    folder_remove(folder);
}
