/* kv_scales: what a checkpoint or a file of calibrate says of K and V, and a cache of 8 bits as Transformers computes with it. */
#include "model/weights/kv_scales.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN_KV KVFERRY_SOURCE_DIR "/tests/golden/kv"

/* ---- a cache of 8 bits ---- */

static double largest_error(const char *name, enum cache_dtype dtype, uint32_t n_threads)
{
    char folder[512];
    struct runner runner;
    double largest = 0;
    snprintf(folder, sizeof folder, GOLDEN_KV "/%s", name);
    runner_open(
        &runner, folder,
        (struct runner_options){
            .block_tokens = 8, .tokens_max = 80, .cache_dtype = dtype, .n_threads = n_threads});
    json_t *golden = golden_json(folder, "golden.json");
    const json_t *prompts = json_object_get(golden, "prompts");
    size_t n_all = 0, at = 0;
    for (size_t i = 0; i < json_array_size(prompts); i++)
        n_all += json_array_size(json_array_get(prompts, i));
    float *expected = golden_floats(folder, "golden.f32", n_all * runner.vocabulary);
    for (size_t i = 0; i < json_array_size(prompts); i++) {
        uint32_t n;
        uint32_t *ids = golden_ids(json_array_get(prompts, i), &n);
        const double error = runner_largest_error(&runner, ids, n,
                                                  expected + at * runner.vocabulary);
        largest = error > largest ? error : largest;
        at += n;
        free(ids);
    }
    free(expected);
    json_decref(golden);
    runner_close(&runner);
    return largest;
}

/* Logits are about 10. A value between two steps may fall to the other side. */
Test(kv_scales, a_cache_of_8_bits_has_the_logits_of_transformers)
{
    static const struct {
        const char *name;
        enum cache_dtype dtype, other;
    } CASES[] = {
        {"llama_e4m3", CACHE_E4M3, CACHE_INT8},
        {"qwen3_int8", CACHE_INT8, CACHE_E4M3},
        {"qwen2_e4m3_proj", CACHE_E4M3, CACHE_F32},
        {"deepseek_v3_int8", CACHE_INT8, CACHE_E4M3},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const double error = largest_error(CASES[i].name, CASES[i].dtype, (uint32_t)i);
        const double other = largest_error(CASES[i].name, CASES[i].other, 0);
        printf("%-20s %.1e, with another type %.1e\n", CASES[i].name, error, other);
        cr_expect_leq(error, 2e-3, "%s: %g", CASES[i].name, error);
        cr_expect_geq(other, 10 * error, "%s: the golden does not depend on the type: %g",
                      CASES[i].name, other);
    }
}

/* ---- scales of a checkpoint ---- */

static void expect_bound(const char *folder, uint32_t n_layers)
{
    struct model *model;
    struct error error = {""};
    cr_assert_eq(
        model_load(folder, &(struct model_options){.without_weights = true}, &error, &model),
        STATUS_OK, "%s: %s", folder, error.text);
    cr_expect_eq(model_kv_scales(model)->n_layers, n_layers, "%s: %u", folder,
                 model_kv_scales(model)->n_layers);
    model_destroy(model);
}

Test(kv_scales, every_layer_has_them_or_none)
{
    expect_bound(GOLDEN_KV "/llama_e4m3", 2);
    expect_bound(GOLDEN_KV "/qwen2_e4m3_proj", 2);
    expect_bound(GOLDEN_MODELS "/llama_t4", 0);
    struct broken_folder four; /* scales of a type that is none of ours */
    broken_folder_make(
        &four, GOLDEN_KV "/llama_e4m3", CONFIG_SET,
        "{\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
        "\"float-quantized\", \"kv_cache_scheme\": {\"num_bits\": 4, \"type\": \"float\"}}}");
    expect_bound(four.path, 0);
    broken_folder_remove(&four);
}

/* The model loads all the same: only a cache of 8 bits needs them. sentence "": they are taken. */
static void expect_left_out(const struct broken_folder *broken, const char *sentence)
{
    struct model *model;
    struct error error = {""};
    const struct model_options options = {.without_weights = true, .is_quiet = true};
    cr_assert_eq(model_load(broken->path, &options, &error, &model), STATUS_OK, "%s", error.text);
    cr_expect(strstr(model_kv_scales_error(model), sentence), "%s: %s", sentence,
              model_kv_scales_error(model));
    cr_expect_eq(model_kv_scales(model)->n_layers, sentence[0] ? 0 : 2, "%s", sentence);
    cr_expect_eq(model_kv_scales_error(model)[0] == 0, sentence[0] == 0);
    model_destroy(model);
}

Test(kv_scales, what_is_no_scale_is_left_out_and_named)
{
    static const struct {
        enum broken_what what;
        const char *argument, *sentence;
    } CASES[] = {
        {TENSOR_SET, "model.layers.1.self_attn.k_scale=0=0",
         "model.layers.1.self_attn.k_scale is 0, expected a number from 7.52e-37 to 1.33e+36"},
        {TENSOR_SET, "model.layers.0.self_attn.v_scale=0=-1",
         "model.layers.0.self_attn.v_scale is -1, expected a number from"},
        {TENSOR_SET, "model.layers.0.self_attn.v_scale=0=nan", "nan, expected a number from"},
        {TENSOR_SET, "model.layers.0.self_attn.v_scale=0=inf", "is inf, expected a number from"},
        {TENSOR_COPY, "model.layers.0.self_attn.x=model.norm.weight", ""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct broken_folder broken;
        broken_folder_make(&broken, GOLDEN_KV "/llama_e4m3", CASES[i].what, CASES[i].argument);
        expect_left_out(&broken, CASES[i].sentence);
        broken_folder_remove(&broken);
    }
}

Test(kv_scales, a_layer_without_them_and_scales_of_heads_are_left_out)
{
    struct broken_folder broken;
    broken_folder_make(&broken, GOLDEN_MODELS "/llama_t4", TENSOR_ADD,
                       "{\"model.layers.1.self_attn.k_scale\": \"F32\"}");
    broken_folder_edit(&broken, TENSOR_SET, "model.layers.1.self_attn.k_scale=0=1");
    expect_left_out(&broken, "layer 0 has no self_attn.k_scale, but others have one");
    broken_folder_remove(&broken);

    broken_folder_make(&broken, GOLDEN_MODELS "/llama_t4", TENSOR_COPY,
                       "model.layers.0.self_attn.k_scale=model.norm.weight");
    expect_left_out(&broken,
                    "model.layers.0.self_attn.k_scale is BF16 in 64 bytes, expected one scale");
    broken_folder_remove(&broken);
}

/* ---- files of calibrate ---- */

static char folder[64], path[96];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "/tmp/kv_scales.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/scales.safetensors", folder);
}

static void remove_folder(void)
{
    unlink(path);
    cr_expect_eq(rmdir(folder), 0, "a file was left");
}

Test(kv_scales, a_file_is_read_as_it_was_written, .init = make_folder, .fini = remove_folder)
{
    enum { N_LAYERS = 37 };
    struct kv_scales written, read;
    struct error error = {""};
    cr_assert_eq(kv_scales_alike(N_LAYERS, 1, &written), STATUS_OK);
    for (uint32_t i = 0; i < 2 * N_LAYERS; i++)
        written.largest[i] = (double)(float)(0.37 * (i + 1));
    for (uint32_t round = 0; round < 2; round++) /* the second replaces the first */
        cr_assert_eq(kv_scales_write(path, &written, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(kv_scales_read(path, N_LAYERS, &read, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(read.n_layers, N_LAYERS);
    cr_expect_arr_eq(read.largest, written.largest, 2 * N_LAYERS * sizeof *read.largest);
    cr_expect_float_eq(kv_scales_of(&read, DTYPE_INT8, 3, KV_PART_V), 0.37f * 8 / 127, 1e-7f);
    cr_expect_float_eq(kv_scales_of(&read, DTYPE_E4M3, 3, KV_PART_K), 0.37f * 7 / 448, 1e-7f);
    cr_expect_eq(kv_scales_digest(&read, DTYPE_INT8), kv_scales_digest(&written, DTYPE_INT8));
    cr_expect_neq(kv_scales_digest(&read, DTYPE_INT8), kv_scales_digest(&read, DTYPE_E4M3));
    read.largest[70] *= 1.001;
    cr_expect_neq(kv_scales_digest(&read, DTYPE_INT8), kv_scales_digest(&written, DTYPE_INT8));
    kv_scales_finish(&read);

    cr_expect_eq(kv_scales_read(path, N_LAYERS - 1, &read, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "k_largest has 37 layers, the model has 36"), "%s", error.text);
    kv_scales_finish(&written);
}

static void expect_refused(const char *header, const float values[4], const char *sentence)
{
    const uint64_t length = strlen(header);
    struct kv_scales scales;
    struct error error = {""};
    FILE *file = fopen(path, "w");
    cr_assert(file);
    cr_assert(fwrite(&length, sizeof length, 1, file) == 1);
    cr_assert(fwrite(header, length, 1, file) == 1);
    cr_assert(fwrite(values, sizeof *values, 4, file) == 4);
    cr_assert_eq(fclose(file), 0);
    cr_expect_neq(kv_scales_read(path, 2, &scales, &error), STATUS_OK, "%s", sentence);
    cr_expect(strstr(error.text, sentence), "%s: %s", sentence, error.text);
    cr_expect_null(scales.largest);
}

#define TWO(k, v)                                                                                  \
    "{\"" k "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"" v                     \
    "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}"

Test(kv_scales, a_file_of_something_else_is_refused, .init = make_folder, .fini = remove_folder)
{
    static const float GOOD[] = {1, 2, 3, 4};
    struct kv_scales scales;
    struct error error = {""};
    cr_expect_eq(kv_scales_read(path, 2, &scales, &error), STATUS_NOT_FOUND);
    cr_expect(strstr(error.text, path), "%s", error.text);
    expect_refused(TWO("k_largest", "w"), GOOD, "v_largest is missing");
    expect_refused(TWO("k_scale", "v_scale"), GOOD, "k_largest is missing");
    expect_refused("{\"k_largest\":{\"dtype\":\"F16\",\"shape\":[8],\"data_offsets\":[0,16]}}",
                   GOOD, "k_largest is F16, expected F32");
    expect_refused(TWO("k_largest", "v_largest"), (const float[]){1, 0, 3, 4},
                   "k_largest of layer 1 is 0, expected a number from 7.52e-37 to 1.33e+36");
    expect_refused(TWO("k_largest", "v_largest"), (const float[]){1, 2, NAN, 4},
                   "v_largest of layer 0 is");
    expect_refused(TWO("k_largest", "v_largest"), (const float[]){1, 2, 3, INFINITY},
                   "v_largest of layer 1 is inf");
    expect_refused(TWO("k_largest", "v_largest"), (const float[]){1, 2, -3, 4},
                   "v_largest of layer 0 is -3");
    expect_refused("{\"k_largest\":", GOOD, path);
}

Test(kv_scales, a_file_that_cannot_be_written_leaves_nothing, .init = make_folder,
     .fini = remove_folder)
{
    struct kv_scales scales;
    struct error error = {""};
    char nowhere[160];
    cr_assert_eq(kv_scales_alike(2, 1, &scales), STATUS_OK);
    snprintf(nowhere, sizeof nowhere, "%s/none/scales.safetensors", folder);
    cr_expect_eq(kv_scales_write(nowhere, &scales, &error), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, "No such file"), "%s", error.text);
    cr_assert_eq(mkdir(path, 0755), 0);
    cr_expect_eq(kv_scales_write(path, &scales, &error), STATUS_IO_FAILED);
    cr_expect(strstr(error.text, "directory"), "%s", error.text);
    cr_assert_eq(rmdir(path), 0);

    /* As on a full disk. What was there stays. */
    struct kv_scales before;
    struct rlimit limit;
    cr_assert_eq(kv_scales_write(path, &scales, &error), STATUS_OK);
    scales.largest[0] = 2;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){64, limit.rlim_max}), 0);
    cr_expect_eq(kv_scales_write(path, &scales, &error), STATUS_IO_FAILED);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect(strstr(error.text, "File too large"), "%s", error.text);
    cr_assert_eq(kv_scales_read(path, 2, &before, &error), STATUS_OK, "%s", error.text);
    cr_expect_float_eq(before.largest[0], 1, 0);
    kv_scales_finish(&before);
    kv_scales_finish(&scales);
}
