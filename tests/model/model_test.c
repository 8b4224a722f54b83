/* model: what loads is counted, digested and reported on the way. */
#include "base/thread_pool.h"
#include "model/files/mapped_file.h"
#include "model/files/safetensors.h"
#include "model/weights/weights.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct progress {
    uint64_t done, all;
    uint32_t n_calls;
};

static void on_progress(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    struct progress *progress = arg;
    cr_assert(bytes_done >= progress->done && bytes_done <= bytes_all);
    *progress = (struct progress){bytes_done, bytes_all, progress->n_calls + 1};
}

static struct model *load(const char *folder)
{
    struct model *model;
    struct error error;
    cr_assert_eq(model_load(folder, NULL, &error, &model), STATUS_OK, "%s", error.text);
    return model;
}

Test(model, demo_counts_and_progress)
{
    struct progress progress = {0, 0, 0};
    struct model_options options = {.on_progress = on_progress, .arg = &progress};
    struct model *model;
    struct error error;
    cr_assert_eq(model_load(DEMO_MODEL, &options, &error, &model), STATUS_OK, "%s", error.text);
    cr_assert_eq(model_parameters(model), 3312384);
    cr_assert_eq(model_weight_bytes(model), 2 * 3312384);
    cr_assert_eq(progress.done, progress.all);
    cr_assert_eq(progress.all, 2 * 3312384, "every byte that is used");
    cr_assert_geq(progress.n_calls, 2);
    cr_assert_eq(model_get_config(model)->n_eos_ids, 1);
    cr_assert_eq(model_get_config(model)->eos_ids[0], 2047);
    cr_assert_eq(model_weights(model)->head.data, model_weights(model)->embedding.data);
    model_destroy(model);
}

static void digest_of(const char *original, enum broken_what what, const char *argument,
                      uint64_t digest_out[2])
{
    struct broken_folder folder;
    broken_folder_make(&folder, original, what, argument);
    struct model *model = load(folder.path);
    model_digest(model, digest_out);
    model_destroy(model);
    broken_folder_remove(&folder);
}

Test(model, names_the_type_of_its_weights)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } rows[] = {
        {"llama_t4_bare", DTYPE_F32}, {"llama_t4", DTYPE_BF16}, {"llama_t4_linear", DTYPE_F16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char folder[512];
        snprintf(folder, sizeof folder, KVFERRY_SOURCE_DIR "/tests/golden/models/%s", rows[i].name);
        struct model *model = load(folder);
        cr_assert_eq(model_weight_dtype(model), rows[i].dtype, "%s", rows[i].name);
        model_destroy(model);
    }
}

Test(model, digest_tells_models_apart_and_copies_not)
{
    static const char *const ONE = GOLDEN_MODELS "/llama_t4";
    static const struct {
        enum broken_what what;
        const char *argument;
        bool is_equal;
    } CASES[] = {
        {NOTHING, "", true},
        {CONFIG_SET, "{\"use_cache\": false, \"eos_token_id\": 5}", true},
        {CONFIG_SET, "{\"rope_theta\": null, \"rope_parameters\": {\"rope_theta\": 10000}}", true},
        {HEADER_SET, "{\"__metadata__\": {\"made\": \"again\"}}", true},
        {CONFIG_SET, "{\"rope_theta\": 20000}", false},
        {CONFIG_SET, "{\"rms_norm_eps\": 1e-6}", false},
        {CONFIG_SET, "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", false},
        {HEADER_SET, "{\"model.norm.weight\": {\"dtype\": \"F16\"}}", false},
        {FILE_APPEND, "config.json= ", true},
    };
    uint64_t first[2], other[2];
    digest_of(ONE, NOTHING, "", first);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        digest_of(ONE, CASES[i].what, CASES[i].argument, other);
        cr_assert_eq(memcmp(first, other, sizeof first) == 0, CASES[i].is_equal, "%s",
                     CASES[i].argument);
    }
    digest_of(GOLDEN_MODELS "/qwen2_t4", NOTHING, "", other);
    cr_assert_neq(memcmp(first, other, sizeof first), 0);
}

/* Heads of another number and size have matrices of the same shape. */
Test(model, digest_tells_the_heads_of_recurrent_state_apart)
{
    uint64_t first[2], other[2];
    digest_of(GOLDEN_MODELS "/qwen3_5_t5", NOTHING, "", first);
    digest_of(GOLDEN_MODELS "/qwen3_5_t5", CONFIG_SET,
              "{\"linear_num_key_heads\": 1, \"linear_key_head_dim\": 48}", other);
    cr_assert_neq(memcmp(first, other, sizeof first), 0);
}

/* Transformers writes other keys since its version 5. Each golden of these families has one spelling alone. */
Test(model, both_spellings_of_a_config_are_one_model)
{
    static const struct {
        const char *folder, *spelling, *other; /* other: not the same model */
    } CASES[] = {
        {"models/qwen3_5_t5",
         "{\"rope_parameters\": null, \"rope_theta\": 10000.0, \"partial_rotary_factor\": 0.25, "
         "\"rope_scaling\": {\"mrope_interleaved\": true, \"mrope_section\": [2, 1, 1]}, "
         "\"dtype\": null, \"torch_dtype\": \"float16\"}",
         "{\"rope_parameters\": null, \"rope_theta\": 20000.0, \"partial_rotary_factor\": 0.25}"},
        {"models/qwen3_5_moe_t5",
         "{\"rope_parameters\": null, \"rope_theta\": 10000.0, \"dtype\": null, "
         "\"torch_dtype\": \"bfloat16\"}",
         "{\"rope_parameters\": null, \"rope_theta\": 20000.0}"},
        {"models/qwen3_next_t4",
         "{\"rope_theta\": null, \"partial_rotary_factor\": null, \"torch_dtype\": null, "
         "\"dtype\": \"bfloat16\", \"rope_parameters\": {\"rope_theta\": 5000.0, "
         "\"rope_type\": \"default\", \"partial_rotary_factor\": 0.5}}",
         "{\"partial_rotary_factor\": 0.25}"},
        {"models/gemma4_t5_k_is_v", "{\"dtype\": null, \"torch_dtype\": \"float16\"}",
         "{\"sliding_window\": 8}"},
        {"encoders/t5_v1_1", "{\"torch_dtype\": null, \"dtype\": \"bfloat16\"}",
         "{\"layer_norm_epsilon\": 0.02}"},
        {"encoders/umt5", "{\"torch_dtype\": null, \"dtype\": \"float32\"}",
         "{\"layer_norm_epsilon\": 0.02}"},
        {"encoders/bart", "{\"torch_dtype\": null, \"dtype\": \"float32\"}",
         "{\"scale_embedding\": true}"},
        {"encoders/mbart", "{\"torch_dtype\": null, \"dtype\": \"float32\"}",
         "{\"activation_function\": \"relu\"}"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char folder[512];
        uint64_t first[2], digest[2];
        snprintf(folder, sizeof folder, KVFERRY_SOURCE_DIR "/tests/golden/%s", CASES[i].folder);
        digest_of(folder, NOTHING, "", first);
        digest_of(folder, CONFIG_SET, CASES[i].spelling, digest);
        cr_expect_arr_eq(first, digest, sizeof first, "%s", CASES[i].folder);
        digest_of(folder, CONFIG_SET, CASES[i].other, digest);
        cr_expect_neq(memcmp(first, digest, sizeof first), 0, "%s", CASES[i].folder);
    }
}

/* The demo model's are larger than any page: most of their bytes are neither at a beginning nor at
 * an end. */
Test(model, digest_sees_one_bit_in_the_middle_of_any_tensor, .description = ONE_THREAD)
{
    struct safetensors tensors;
    struct mapped_file file;
    struct broken_folder folder;
    uint64_t first[2], other[2];
    digest_of(DEMO_MODEL, NOTHING, "", first);
    cr_assert_eq(mapped_file_open(DEMO_MODEL, "model.safetensors", UINT64_MAX, &file, NULL),
                 STATUS_OK);
    cr_assert_eq(safetensors_parse(file.data, file.bytes, "demo", &tensors, NULL), STATUS_OK);
    cr_assert_gt(tensors.n_tensors, 20);
    broken_folder_make(&folder, DEMO_MODEL, NOTHING, "");
    for (uint32_t i = 0; i < tensors.n_tensors; i++) {
        const char *name = tensors.tensors[i].name;
        broken_folder_edit(&folder, TENSOR_FLIP, name);
        struct model *model = load(folder.path);
        model_digest(model, other);
        model_destroy(model);
        cr_assert_neq(memcmp(first, other, sizeof first), 0, "%s", name);
        broken_folder_edit(&folder, TENSOR_FLIP, name); /* as it was */
    }
    broken_folder_remove(&folder);
    safetensors_finish(&tensors);
    mapped_file_close(&file);
}

Test(model, digest_is_the_same_wherever_tensors_lie_and_whoever_reads_them)
{
    static const char *const SHARD_COUNTS[] = {"1", "3"};
    struct broken_folder folder;
    uint64_t first[2], other[2];
    digest_of(DEMO_MODEL, NOTHING, "", first);
    for (size_t i = 0; i < sizeof SHARD_COUNTS / sizeof *SHARD_COUNTS; i++) {
        digest_of(DEMO_MODEL, SHARDS, SHARD_COUNTS[i], other);
        cr_assert_arr_eq(first, other, sizeof first, "%s shards", SHARD_COUNTS[i]);
    }
    broken_folder_make(&folder, DEMO_MODEL, SHARDS, "2");
    for (uint32_t n_threads = 1; n_threads <= 3; n_threads++) {
        struct thread_pool *pool;
        struct model *model;
        cr_assert_eq(thread_pool_create(n_threads, false, &pool), STATUS_OK);
        struct model_options options = {.threads = pool};
        cr_assert_eq(model_load(folder.path, &options, NULL, &model), STATUS_OK);
        model_digest(model, other);
        model_destroy(model);
        thread_pool_destroy(pool);
        cr_assert_arr_eq(first, other, sizeof first, "%u threads", n_threads);
    }
    broken_folder_remove(&folder);
}

/* ---- a head in the file beside embeddings that config.json ties it to ---- */

#define HEAD_COPY "lm_head.weight=model.embed_tokens.weight"
#define UNTIED    "{\"tie_word_embeddings\": false}"

Test(model, a_head_equal_to_the_embeddings_is_tied)
{
    struct broken_folder folder;
    uint64_t first[2], other[2];
    digest_of(DEMO_MODEL, NOTHING, "", first);
    broken_folder_make(&folder, DEMO_MODEL, TENSOR_COPY, HEAD_COPY);
    struct model *model = load(folder.path);
    model_digest(model, other);
    cr_assert_arr_eq(first, other, sizeof first);
    cr_assert(model_get_config(model)->tied_embeddings);
    cr_assert_eq(model_weights(model)->head.data, model_weights(model)->embedding.data);
    cr_assert_eq(model_parameters(model), 3312384);
    cr_assert_eq(model_weight_bytes(model), 2 * 3312384);
    model_destroy(model);
    broken_folder_remove(&folder);
}

Test(model, another_head_than_the_embeddings_makes_the_untied_model)
{
    static const enum weight_format FORMATS[] = {WEIGHTS_AUTO, WEIGHTS_INT8};
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        struct broken_folder folder;
        struct model *tied, *untied;
        uint64_t digests[2][2];
        struct model_options options = {.weights = FORMATS[i]};
        broken_folder_make(&folder, DEMO_MODEL, TENSOR_COPY, HEAD_COPY);
        broken_folder_edit(&folder, TENSOR_FLIP, "lm_head.weight");
        cr_assert_eq(model_load(folder.path, &options, NULL, &tied), STATUS_OK);
        broken_folder_edit(&folder, CONFIG_SET, UNTIED);
        cr_assert_eq(model_load(folder.path, &options, NULL, &untied), STATUS_OK);
        cr_assert_not(model_get_config(tied)->tied_embeddings);
        cr_assert_neq(model_weights(tied)->head.data, model_weights(tied)->embedding.data);
        cr_assert_eq(model_parameters(tied), model_parameters(untied));
        cr_assert_eq(model_weight_bytes(tied), model_weight_bytes(untied));
        model_digest(tied, digests[0]);
        model_digest(untied, digests[1]);
        cr_assert_arr_eq(digests[0], digests[1], sizeof digests[0]);
        model_destroy(tied);
        model_destroy(untied);
        broken_folder_remove(&folder);
    }
}

/* So two workers that serve other numbers of positions do not take each other's KV: their digests differ. */
Test(model, positions_that_are_served_choose_longropes_factors)
{
    static const struct {
        uint32_t context_tokens;
        bool is_long;
    } cases[] = {{0, true}, {128, true}, {9, true}, {8, false}, {3, false}, {999, true}};
    uint64_t digests[2][2];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct model_options options = {.context_tokens = cases[i].context_tokens};
        struct model *model;
        struct error error = {""};
        uint64_t digest[2];
        cr_assert_eq(model_load(GOLDEN_MODELS "/phi3_t4_longrope", &options, &error, &model),
                     STATUS_OK, "%s", error.text);
        const struct model_config *config = model_get_config(model);
        cr_expect_eq(config->rope_factors.n, 4);
        cr_expect_eq(config->rope_factors.long_ones[3], 30.0);
        cr_expect_eq(config->rope_factors.is_long, cases[i].is_long, "%u", cases[i].context_tokens);
        model_digest(model, digest);
        if (i == 0 || i == 3)
            memcpy(digests[i / 3], digest, sizeof digest);
        cr_expect_arr_eq(digest, digests[!cases[i].is_long], sizeof digest);
        model_destroy(model);
    }
    cr_expect_arr_neq(digests[0], digests[1], sizeof digests[0]);
}
