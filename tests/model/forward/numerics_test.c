/* numerics: every set of kernels, attention, math and weight format that this machine computes with: where
 * ids are equal the KV is, to the last bit. */
#include "base/hash.h"
#include "base/random.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "model/forward/numerics_id.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(numerics, .description = ONE_THREAD);

enum { PROMPT = 41, INT8_PROMPT = 81, DECODED = 2, MADE_MAX = 64 };

/* KV that was computed, and under which id. */
struct made {
    const char *kernels, *attention;
    char id[NUMERICS_ID_MAX];
    struct hash128 kv;
};

struct list {
    uint32_t n;
    struct made made[MADE_MAX];
};

/* Of a prompt and, without a math of its own, of what is generated behind it: its KV has the prompt's math. */
static struct hash128 compute(const char *folder, const struct runner_options *options)
{
    static const struct hash_key key = {"sixteen bytes :)"};
    struct runner runner;
    struct runner_sequence sequence;
    struct random random;
    uint32_t ids[INT8_PROMPT + DECODED];
    const bool is_int8 = context_math_is_int8(options->context_math); /* a whole tile and a part */
    const uint32_t n_prompt = is_int8 ? INT8_PROMPT : PROMPT;
    runner_open(&runner, folder, *options);
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    random_init(&random, 7);
    for (uint32_t i = 0; i < n_prompt + DECODED; i++)
        ids[i] = (uint32_t)random_below(&random, runner.vocabulary);
    runner_begin(&runner, &sequence, n_prompt + DECODED);
    runner_prefill(&runner, &sequence, ids, n_prompt, is_int8 ? MATH_INT8_KEYS : 32, logits);
    for (uint32_t i = 0; options->context_math == CONTEXT_MATH_COMPUTE && i < DECODED; i++)
        runner_decode(&runner, &sequence, ids[n_prompt + i], logits);
    struct hash128 hash = hash128_of(&key, block_pool_base(runner.pool),
                                     block_pool_size(runner.pool) *
                                         block_pool_block_bytes(runner.pool));
    runner_end(&runner, &sequence);
    runner_close(&runner);
    free(logits);
    return hash;
}

static void make(struct list *list, const char *folder, struct runner_options options,
                 const char *kernels, const char *attention)
{
    const struct numerics_parts parts = {
        .kernels = kernels,
        .attention = attention,
        .math = options.context_math,
        .weights = options.weights,
        .activations = options.block_activations,
        .stores_scores = forward_stores_scores(&options.attention)};
    struct made *made = &list->made[list->n++];
    cr_assert_leq(list->n, MADE_MAX);
    options.cpu_kernels = made->kernels = kernels;
    options.attention_kernels = made->attention = attention;
    options.tokens_max = context_math_is_int8(options.context_math) ? 2 * MATH_INT8_KEYS : 64;
    options.block_tokens = context_math_is_int8(options.context_math) ? MATH_INT8_KEYS : 0;
    options.cache_dtype = CACHE_F32; /* narrower ones would hide differences */
    numerics_id_format(&parts, made->id);
    made->kv = compute(folder, &options);
}

/* By every set with its own attention. */
static void make_all(struct list *list, const char *folder, const struct runner_options *options)
{
    const struct kernels *sets[KERNELS_MAX];
    uint32_t n = kernels_list(sets, KERNELS_MAX);
    for (uint32_t i = 0; i < n; i++)
        make(list, folder, *options, sets[i]->name, attention_backend_set(sets[i]->attention));
}

/* The attention of every set beside one set of products. */
static void make_mixed(struct list *list, const char *folder, const struct runner_options *options)
{
    const struct kernels *set;
    const char *name;
    for (uint32_t i = 0; (name = attention_backend_name(i)); i++) {
        const struct attention_backend *backend;
        cr_assert_eq(kernels_select("scalar", &set, NULL), STATUS_OK);
        if (attention_backend_select(name, set, &backend, NULL) == STATUS_OK)
            make(list, folder, *options, "scalar", name);
    }
}

/* Returns for how many pairs of different sets the ids were equal. */
static uint32_t expect_equal_where_ids_are(const struct list *list)
{
    uint32_t n_equal = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const struct made *a = &list->made[i], *b = &list->made[j];
            if (strcmp(a->id, b->id) != 0)
                continue;
            n_equal += strcmp(a->kernels, b->kernels) != 0;
            cr_expect(hash128_equal(a->kv, b->kv), "%s: %s with %s and %s with %s", a->id,
                      a->kernels, a->attention, b->kernels, b->attention);
        }
    }
    return n_equal;
}

static void check_activations(const char *folder, enum weight_format weights,
                              enum block_activations activations)
{
    /* whether E4M3 and INT8 are rounded alike depends on nothing else than attention */
    const bool is_all = weights == WEIGHTS_AUTO && strcmp(folder, DEMO_MODEL) == 0;
    const uint32_t n_maths = strstr(folder, "deepseek") ? 1 /* latents have one */
                             : is_all                   ? CONTEXT_MATHS
                                                        : CONTEXT_MATH_FP16 + 1u;
    for (enum context_math math = CONTEXT_MATH_COMPUTE; math < n_maths; math++) {
        struct list list = {0};
        make_all(&list, folder,
                 &(struct runner_options){
                     .context_math = math, .weights = weights, .block_activations = activations});
        if (weights == WEIGHTS_AUTO)
            make_mixed(&list, folder, &(struct runner_options){.context_math = math});
        uint32_t n_equal = expect_equal_where_ids_are(&list);
        /* Beside reference and sse2 a machine with AVX2 alone has scalar and avx2, which round no weights alike. */
        const uint32_t n_alone = weights == WEIGHTS_AUTO ? 3 : 4;
        if (kernels_list((const struct kernels *[KERNELS_MAX]){0}, KERNELS_MAX) > n_alone)
            cr_expect_gt(n_equal, 0,
                         "of unlike sets none has another's id: the test shows nothing");
    }
}

static void check(const char *folder, enum weight_format weights)
{
    check_activations(folder, weights, BLOCK_ACTIVATIONS_INT16);
}

#ifndef KVFERRY_SANITIZED /* results, of code that the families below and quantized_weights_test.c run, too */
Test(numerics, equal_ids_are_equal_bits_with_bf16_weights)
{
    check(DEMO_MODEL, WEIGHTS_AUTO);
}

Test(numerics, equal_ids_are_equal_bits_with_weights_rounded_to_int8)
{
    check(DEMO_MODEL, WEIGHTS_INT8);
    check(DEMO_MODEL, WEIGHTS_INT8_GROUP32);
}

Test(numerics, equal_ids_are_equal_bits_with_activations_of_8_bits)
{
    check_activations(DEMO_MODEL, WEIGHTS_Q8, BLOCK_ACTIVATIONS_INT8);
    check_activations(DEMO_MODEL, WEIGHTS_Q4, BLOCK_ACTIVATIONS_INT8);
}

Test(numerics, equal_ids_are_equal_bits_with_stored_scores)
{
    struct list list = {0};
    for (enum attention_path path = PATH_UNFUSED; path <= PATH_SHORT; path++)
        make_all(&list, DEMO_MODEL, &(struct runner_options){.attention.path = path});
    cr_expect_gt(expect_equal_where_ids_are(&list), 0);
}

Test(numerics, other_bits_have_other_ids)
{
    struct list list = {0};
    for (enum context_math math = CONTEXT_MATH_COMPUTE; math < CONTEXT_MATHS; math++)
        make(&list, DEMO_MODEL, (struct runner_options){.context_math = math}, "scalar", "scalar");
    for (enum weight_format weights = WEIGHTS_INT8; weights <= WEIGHTS_Q4; weights++)
        make(&list, DEMO_MODEL, (struct runner_options){.weights = weights}, "scalar", "scalar");
    make(&list, DEMO_MODEL, (struct runner_options){0}, "reference", "scalar");
    make(&list, DEMO_MODEL, (struct runner_options){0}, "scalar", "reference");
#ifdef __x86_64__
    make(&list, DEMO_MODEL, (struct runner_options){0}, "sse2", "sse2");
    make(&list, DEMO_MODEL, (struct runner_options){0}, "sse2", "scalar");
    make(&list, DEMO_MODEL, (struct runner_options){0}, "scalar", "sse2");
#endif
    for (uint32_t i = 0; i < list.n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            cr_expect_str_neq(list.made[i].id, list.made[j].id);
            cr_expect_not(hash128_equal(list.made[i].kv, list.made[j].kv), "%s and %s",
                          list.made[i].id, list.made[j].id);
        }
    }
}
#endif

Test(numerics, equal_ids_are_equal_bits_in_other_families)
{
    check(GOLDEN_MODELS "/mistral_t4_window", WEIGHTS_AUTO);
    check(GOLDEN_MODELS "/qwen3_t5_bias", WEIGHTS_AUTO);
}

Test(numerics, equal_ids_are_equal_bits_with_latents)
{
    check(GOLDEN_MODELS "/deepseek_v2_t4", WEIGHTS_AUTO);
    check(GOLDEN_MODELS "/deepseek_v3_t5", WEIGHTS_INT8);
}

static void expect_id(struct numerics_parts parts, const char *expected)
{
    char id[NUMERICS_ID_MAX];
    numerics_id_format(&parts, id);
    cr_expect_str_eq(id, expected);
}

Test(numerics, an_id_says_what_computes)
{
    expect_id((struct numerics_parts){"amx", "amx", CONTEXT_MATH_COMPUTE, WEIGHTS_AUTO, 0, false,
                                      false, 0},
              "cpu-f32-fma-fma-compute-asis-3");
    expect_id((struct numerics_parts){"amx", "amx", CONTEXT_MATH_BF16, WEIGHTS_INT8_GROUP32, 0,
                                      false, false, 0},
              "cpu-f32-fma-amx-bf16-int8_group32-3");
    expect_id((struct numerics_parts){"amx_bf16", "avx2", CONTEXT_MATH_BF16, WEIGHTS_AUTO, 0, false,
                                      false, 0},
              "cpu-f32-amx_bf16-fma-bf16-asis-3");
    expect_id((struct numerics_parts){"avx512_fp16", "avx512_fp16", CONTEXT_MATH_FP16, 0, 0, false,
                                      false, 0},
              "cpu-f32-fma-avx512_fp16-fp16-asis-3");
    expect_id((struct numerics_parts){"amx", "amx", CONTEXT_MATH_FP8, 0, 0, false, false, 0},
              "cpu-f32-fma-fma-fp8-asis-3");
    expect_id((struct numerics_parts){"avx512_bf16", "avx512_bf16", CONTEXT_MATH_INT8_PV_FP8, 0, 0,
                                      false, false, 0},
              "cpu-f32-fma-fma-int8_fp8-asis-3");
    expect_id((struct numerics_parts){"cublaslt", "cuda_reference", CONTEXT_MATH_INT8_PV_FP8,
                                      WEIGHTS_INT8_GROUP32, 0, false, false, 100},
              "cuda_sm100-bf16-cublaslt-cuda_reference-int8_fp8-int8_group32-3");
    expect_id(
        (struct numerics_parts){"reference", "reference", CONTEXT_MATH_FP16, 0, 0, false, false, 0},
        "cpu-f32-reference-reference-fp16-asis-3");
    expect_id((struct numerics_parts){"avx2", "avx2", CONTEXT_MATH_COMPUTE, WEIGHTS_AUTO,
                                      BLOCK_ACTIVATIONS_INT8, false, false, 0},
              "cpu-f32-fma-fma-compute-asis_a8-3");
    expect_id(
        (struct numerics_parts){"avx2", "avx2", CONTEXT_MATH_BF16, WEIGHTS_AUTO, 0, true, false, 0},
        "cpu-f32-fma-fma-bf16_whole-asis-3");
    expect_id((struct numerics_parts){"cuda", "cuda_masked", CONTEXT_MATH_COMPUTE,
                                      WEIGHTS_INT8_GROUP32, 0, true, false, 100},
              "cuda_sm100-bf16-cuda-cuda_masked-compute_whole-int8_group32-3");
}

Test(numerics, an_id_says_that_k_is_cached_before_its_rotation)
{
    expect_id((struct numerics_parts){"avx2", "avx2", CONTEXT_MATH_COMPUTE, 0, 0, false, true, 0},
              "cpu-f32-fma-fma-compute_sinks-asis-3");
}

Test(numerics, a_gpu_is_named_with_its_architecture)
{
    expect_id((struct numerics_parts){"cuda", "cuda", CONTEXT_MATH_COMPUTE, WEIGHTS_AUTO, 0, false,
                                      false, 80},
              "cuda_sm80-bf16-cuda-cuda-compute-asis-3");
    expect_id((struct numerics_parts){"cuda", "cuda_reference", CONTEXT_MATH_COMPUTE,
                                      WEIGHTS_INT8_GROUP32, 0, false, false, 100},
              "cuda_sm100-bf16-cuda-cuda_reference-compute-int8_group32-3");
}

Test(numerics, a_set_that_nobody_has_judged_has_a_name_of_its_own)
{
    expect_id((struct numerics_parts){"sve2", "sve2", CONTEXT_MATH_COMPUTE, WEIGHTS_AUTO, 0, false,
                                      false, 0},
              "cpu-f32-sve2-sve2-compute-asis-3");
}
