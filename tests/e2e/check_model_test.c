/* check-model: says of every key what becomes of it, of every layer whether its attention can be computed, and its exit status whether
 * the folder serves. */
#include "support/command.h"
#include "support/model_copy.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(check_model, .init = command_folder_make, .fini = command_folder_remove);

static void write_text(const char *name, const char *text)
{
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder(name));
    write_file(path, text, strlen(text));
}

Test(check_model, a_good_folder_says_what_is_used_and_what_memory_there_is_for)
{
    RUN("check-model", KVFERRY_DEMO_MODEL);
    EXPECT_OK();
    EXPECT_IN(last_command.out, "config.json\n  used      architectures [\"LlamaForCausalLM\"], ");
    EXPECT_IN(last_command.out, "tokenizer_config.json\n  used      tokenizer_class "
                                "\"PreTrainedTokenizerFast\", bos_token ");
    EXPECT_IN(last_command.out, "special_tokens_map.json: not there\n");
    EXPECT_IN(last_command.out, "kv              1280 bytes a token, bf16\n");
    EXPECT_IN(last_command.out, "bits each: ");
    EXPECT_IN(last_command.out, "MiB available");
    EXPECT_IN(last_command.out,
              "speed           a token reads 6.3 MiB of weights; this machine reads ");
    EXPECT_IN(last_command.out, "context here    2048 tokens in a worker, 2048 in each");
    EXPECT_IN(last_command.out, "\ngood\n");
}

Test(check_model, json_is_one_document)
{
    RUN("check-model", KVFERRY_DEMO_MODEL, "--json");
    EXPECT_OK();
    json_t *report = json_loads(last_command.out, 0, NULL);
    cr_assert_not_null(report, "%s", last_command.out);
    cr_assert(json_is_true(json_object_get(report, "serves")));
    cr_assert_eq(json_integer_value(json_object_get(report, "kv_bytes_per_token")), 1280);
    cr_assert_gt(json_integer_value(json_object_get(report, "memory_available_bytes")), 0);
    cr_assert_eq(json_integer_value(json_object_get(report, "weight_bytes_per_token")),
                 2 * 3312384);
    cr_assert_gt(json_real_value(json_object_get(report, "read_bytes_per_second")), 0);
    json_decref(report);
}

static const char WINDOWED[] = KVFERRY_SOURCE_DIR "/tests/golden/models/gemma3_t4";

Test(check_model, layers_are_asked_whether_their_attention_can_be_computed)
{
    RUN("check-model", KVFERRY_DEMO_MODEL, "--attention-math", "fp8", "--kv-dtype", "e4m3");
    EXPECT_OK();
    EXPECT_IN(last_command.out,
              "attention       layers 0-4: 8 heads on 2, head_dim 32: flash, fp8, KV e4m3: "
              "supported\n");
    RUN("check-model", WINDOWED, "--no-tokenizer", "--attention-path", "unfused", "--kv-dtype",
        "f32");
    EXPECT_OK();
    EXPECT_IN(last_command.out,
              "attention       layers 0-1, 3: window 9, local RoPE, 4 heads on 1, head_dim 16: "
              "unfused, compute, KV f32: supported\n"
              "                layer 2: 4 heads on 1, head_dim 16: unfused, compute, KV f32: "
              "supported\n");
    EXPECT_IN(last_command.out, "\ngood\n");
}

static const char RECURRENT[] = KVFERRY_SOURCE_DIR "/tests/golden/models/qwen3_5_t5_text";

Test(check_model, layers_with_recurrent_state_are_told)
{
    RUN("check-model", RECURRENT, "--no-tokenizer", "--kv-dtype", "f32");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "state           2 of 4 layers have recurrent state and no K and "
                                "V: 18432 bytes a sequence, and each snapshot, in 2 blocks\n");
    EXPECT_IN(last_command.out, "kv              1024 bytes a token, f32\n");
    EXPECT_IN(last_command.out, "attention       layers 1, 3: 4 heads on 2, head_dim 32: ");
    EXPECT_IN(last_command.out, "\ngood\n");
}

static const char ENCODER[] = KVFERRY_SOURCE_DIR "/tests/golden/encoders/bart_scaled";

Test(check_model, a_model_with_an_encoder_is_told)
{
    RUN("check-model", ENCODER, "--no-tokenizer", "--kv-dtype", "f32");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "encoder         3 layers before 2 of the decoder: 512 bytes of "
                                "cross K and V a token of the text, f32\n");
    EXPECT_IN(last_command.out, "decoder_start_token_id 7");
    EXPECT_IN(last_command.out, "\ngood\n");
    RUN("ctx-worker", ENCODER, "--dry-run");
    EXPECT_OK();
}

Test(check_model, eval_refuses_a_model_with_an_encoder)
{
    model_copy_make();
    model_copy_take(ENCODER, "config.json");
    model_copy_take(ENCODER, "model.safetensors");
    RUN("eval", in_folder("model"), "--text", KVFERRY_SOURCE_DIR "/README.md", "--window-tokens",
        "64");
    cr_assert_neq(last_command.exit_status, EXIT_SUCCESS);
    EXPECT_IN(
        last_command.err,
        "BartForConditionalGeneration has an encoder of 3 layers, which eval does not measure");
}

Test(check_model, attention_that_cannot_be_computed_fails_with_the_sentence_of_who_refuses_it)
{
    RUN("check-model", WINDOWED, "--no-tokenizer", "--attention-math", "int8", "--kv-block-tokens",
        "64");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.out, "layers 0-1, 3: window 9, local RoPE, 4 heads on 1, head_dim 16: "
                                "flash, int8, KV bf16: not supported: attention_math is int8, but "
                                "the window of a layer is 9 of up to 128 tokens");
    EXPECT_IN(last_command.out, "layer 2: 4 heads on 1, head_dim 16: flash, int8, KV bf16: "
                                "supported\n");
    EXPECT_IN(last_command.err, "UNSUPPORTED: attention_math is int8, but the window of a layer");
    cr_assert_null(strstr(last_command.out, "good"));
    RUN("check-model", KVFERRY_DEMO_MODEL, "--attention-math", "int8-pv-fp8", "--kv-block-tokens",
        "64", "--attention-path", "unfused");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.err, "attention_math is int8-pv-fp8, and attention_path is unfused, "
                                "which stores scores: expected auto or flash");
    RUN("check-model", KVFERRY_DEMO_MODEL, "--attention-math", "int8");
    EXPECT_IN(last_command.err, "with kv_block_tokens 16: expected 64 or 128");
    RUN("check-model", KVFERRY_DEMO_MODEL, "--attention-path", "short");
    EXPECT_IN(last_command.err, "attention_path is short, which takes contexts of up to 1024 "
                                "tokens, not of 2048");
    RUN("check-model", KVFERRY_DEMO_MODEL, "--attention-path", "short", "--max-context-tokens",
        "1024");
    EXPECT_OK();
    RUN("check-model", KVFERRY_DEMO_MODEL, "--max-context-tokens", "4096");
    EXPECT_IN(last_command.err, "max_context_tokens is 4096; the model supports 2048");
    RUN("check-model", KVFERRY_DEMO_MODEL, "--device", "tpu");
    EXPECT_IN(last_command.err, "device is \"tpu\", expected cpu, cuda:N or auto");
    RUN("check-model", KVFERRY_DEMO_MODEL, "--kv-block-tokens", "24");
    EXPECT_IN(last_command.err, "24");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
}

Test(check_model, attention_is_in_the_document)
{
    RUN("check-model", WINDOWED, "--no-tokenizer", "--attention-math", "int8", "--kv-block-tokens",
        "128", "--json");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    json_t *report = json_loads(last_command.out, 0, NULL);
    const json_t *groups = json_object_get(report, "attention");
    cr_assert_eq(json_array_size(groups), 2, "%s", last_command.out);
    const json_t *first = json_array_get(groups, 0), *second = json_array_get(groups, 1);
    cr_expect_str_eq(json_string_value(json_object_get(first, "layers")), "0-1, 3");
    cr_expect_eq(json_integer_value(json_object_get(first, "window")), 9);
    cr_expect(json_is_false(json_object_get(first, "supported")));
    EXPECT_IN(json_string_value(json_object_get(first, "error")), "the window of a layer is 9");
    cr_expect_str_eq(json_string_value(json_object_get(second, "layers")), "2");
    cr_expect(json_is_true(json_object_get(second, "supported")));
    cr_expect_null(json_object_get(second, "error"));
    cr_expect(json_is_false(json_object_get(report, "serves")));
    json_decref(report);
}

Test(check_model, a_refused_key_is_shown_and_fails)
{
    model_copy_make();
    write_text("model/generation_config.json",
               "{\"top_h\": 0.5, \"num_beams\": 4, \"top_k\": 5, \"odd\": 1}");
    RUN("check-model", in_folder("model"));
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.out, "  refused   top_h 0.5\n");
    EXPECT_IN(last_command.out, "  not done  num_beams 4\n");
    EXPECT_IN(last_command.out, "  unknown   odd\n");
    EXPECT_IN(last_command.err, "generation_config.json: top_h is 0.5, which is not supported");
    cr_assert_null(strstr(last_command.out, "good"));
    RUN("check-model", in_folder("model"), "--json");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    json_t *report = json_loads(last_command.out, 0, NULL);
    cr_assert_not_null(report, "%s", last_command.out);
    cr_assert(json_is_false(json_object_get(report, "serves")));
    EXPECT_IN(json_string_value(json_object_get(report, "error")), "top_h is 0.5");
    json_decref(report);
}

Test(check_model, what_only_the_router_reads_is_checked_too)
{
    model_copy_make();
    write_text("model/generation_config.json", "{\"temperature\": -1}");
    RUN("check-model", in_folder("model"));
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.err, "generation_config.json: temperature is -1");
}

/* Changes the copy's tokenizer.json: one more token, and, unless it is NULL, the split pattern. */
static void change_tokenizer(const char *pattern)
{
    json_error_t error;
    json_t *root = json_load_file(in_folder("model/tokenizer.json"), 0, &error);
    cr_assert_not_null(root, "%s", error.text);
    json_array_append_new(
        json_object_get(root, "added_tokens"),
        json_pack("{s:i, s:s, s:b}", "id", 2048, "content", "<beyond>", "special", 1));
    if (pattern)
        json_object_set_new(root, "pre_tokenizer",
                            json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, {s:s, s:b, s:b}]}",
                                      "type", "Sequence", "pretokenizers", "type", "Split",
                                      "pattern", "Regex", pattern, "behavior", "Isolated", "invert",
                                      0, "type", "ByteLevel", "add_prefix_space", 0, "use_regex",
                                      0));
    char *text = json_dumps(root, 0);
    write_text("model/tokenizer.json", text);
    free(text);
    json_decref(root);
}

Test(check_model, a_tokenizer_with_more_ids_than_the_model_serves)
{
    model_copy_make();
    change_tokenizer(NULL);
    RUN("check-model", in_folder("model"));
    EXPECT_OK();
    EXPECT_IN(last_command.out, "tokenizer       2049 ids\n");
    EXPECT_IN(last_command.out,
              "the model has those below 2048: texts that make others are refused");
    EXPECT_IN(last_command.out, "\ngood\n");
    RUN("generate", "--model", in_folder("model"), "--max-tokens", "2", "--temperature", "0",
        "In the");
    EXPECT_OK();
    RUN("generate", "--model", in_folder("model"), "--max-tokens", "2", "In the<beyond>");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.err, "2048");
}

Test(check_model, a_pattern_that_looks_far_ahead_is_said_with_what_it_costs)
{
    model_copy_make();
    change_tokenizer("\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))");
    RUN("check-model", in_folder("model"));
    EXPECT_OK();
    EXPECT_IN(last_command.out, "steps a byte, in a run of digits");
    EXPECT_IN(last_command.out, "look ahead in digits: a text with a run of twice ");
    RUN("check-model", in_folder("model"), "--json");
    json_t *report = json_loads(last_command.out, 0, NULL);
    const json_t *costs = json_object_get(report, "split_costs");
    const json_t *digits = json_object_get(costs, "digits");
    const json_t *marks = json_object_get(costs, "marks");
    cr_assert_gt(json_number_value(json_object_get(digits, "run_bytes_max")), 1000);
    cr_assert_eq(json_number_value(json_object_get(marks, "run_bytes_max")), 0);
    json_decref(report);
}

/* hub/models--X/snapshots/REVISION/FILE -> ../../blobs/HASH, as the Hugging Face client stores it. */
Test(check_model, a_snapshot_of_a_hugging_face_cache_is_a_folder)
{
    static const char *const FILES[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "model.safetensors"};
    model_copy_make();
    cr_assert_eq(mkdir(in_folder("models--demo"), 0700), 0);
    cr_assert_eq(mkdir(in_folder("models--demo/snapshots"), 0700), 0);
    cr_assert_eq(mkdir(in_folder("models--demo/snapshots/0123abcd"), 0700), 0);
    char from[160], to[160], target[160];
    snprintf(from, sizeof from, "%s", in_folder("model"));
    cr_assert_eq(rename(from, in_folder("models--demo/blobs")), 0);
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        snprintf(from, sizeof from, "%s/%s", in_folder("models--demo/blobs"), FILES[i]);
        snprintf(to, sizeof to, "%s/%zu", in_folder("models--demo/blobs"), i);
        cr_assert_eq(rename(from, to), 0);
        snprintf(target, sizeof target, "../../blobs/%zu", i);
        snprintf(to, sizeof to, "%s/%s", in_folder("models--demo/snapshots/0123abcd"), FILES[i]);
        cr_assert_eq(symlink(target, to), 0);
    }
    RUN("check-model", in_folder("models--demo/snapshots/0123abcd"));
    EXPECT_OK();
    EXPECT_IN(last_command.out, "\ngood\n");
}

Test(check_model, a_manifest_comes_before_anything_else)
{
    model_copy_make();
    write_text("SHA256SUMS", "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae  "
                             "config.json\n");
    char list[160];
    snprintf(list, sizeof list, "%s", in_folder("SHA256SUMS"));
    RUN("check-model", in_folder("model"), "--manifest", list);
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.err, "config.json differs from its digest in ");
    cr_assert_str_eq(last_command.out, "");
}
