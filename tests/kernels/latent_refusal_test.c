/* latent: what creation and the check of a step refuse, and that the sentence names the field and its value. */
#include "kernels/kernels.h"
#include "kernels/latent.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>

TestSuite(latent_refusal, .description = ONE_THREAD);

#define COUNT(array) (sizeof array / sizeof array[0])

static const struct latent_config CONFIG = {
    .n_heads = 4, .latent_dim = 32, .rope_dim = 8, .cache = DTYPE_INT8, .scale = 1};

static const struct kernels *any_kernels(void)
{
    const struct kernels *kernels;
    struct error error = {""};
    cr_assert_eq(kernels_select("reference", &kernels, &error), STATUS_OK);
    return kernels;
}

Test(latent_refusal, of_a_configuration)
{
    struct {
        struct latent_config config;
        const char *sentence;
    } cases[] = {
        {CONFIG, "n_heads is 0, must be from 1 to 1024"},
        {CONFIG, "n_heads is 1025, must be from 1 to 1024"},
        {CONFIG, "latent_dim is 24, must be a multiple of 16 up to 512"},
        {CONFIG, "latent_dim is 528, must be a multiple of 16 up to 512"},
        {CONFIG, "rope_dim is 0, must be a multiple of 8 up to 128"},
        {CONFIG, "cache is 5, must be F32, BF16, F16, INT8 or E4M3"},
        {CONFIG, "scale is 0, must be positive"},
        {CONFIG, "scale is nan, must be positive"},
    };
    cases[0].config.n_heads = 0;
    cases[1].config.n_heads = 1025;
    cases[2].config.latent_dim = 24;
    cases[3].config.latent_dim = 528;
    cases[4].config.rope_dim = 0;
    cases[5].config.cache = DTYPE_E2M1;
    cases[6].config.scale = 0;
    cases[7].config.scale = NAN;
    struct latent *latent = NULL;
    struct error error = {""};
    for (size_t i = 0; i < COUNT(cases); i++) {
        cr_assert_eq(latent_create(any_kernels(), NULL, &cases[i].config, &latent, &error),
                     STATUS_INVALID_ARGUMENT, "%s", cases[i].sentence);
        cr_assert_str_eq(error.text, cases[i].sentence);
    }
    const struct kernels none = {.name = "none"};
    cr_assert_eq(latent_create(&none, NULL, &CONFIG, &latent, &error), STATUS_UNSUPPORTED);
    cr_assert_str_eq(error.text, "the kernels 'none' have no latent attention");
    cr_assert_null(latent);
    latent_destroy(NULL);
}

static int8_t memory[2 * 2 * 8 * 40];
static float numbers[4096];
static const uint32_t ids[] = {1, 0}, outside[] = {1, 2};

/* A step of two sequences, with 9 and 2 tokens; one field of it is made wrong. */
struct given {
    struct latent_sequence sequences[2];
    struct latent_step step;
    struct latent_io io;
};

static void given_init(struct given *given)
{
    given->sequences[0] = (struct latent_sequence){1, 9, ids, 2};
    given->sequences[1] = (struct latent_sequence){2, 2, ids + 1, 1};
    given->step = (struct latent_step){given->sequences, 2,
                                       latent_view_dense(memory, 2, 2, 8, &CONFIG)};
    given->io = (struct latent_io){.layer_index = 1,
                                   .cache_scale = 0.5f,
                                   .rows = numbers,
                                   .rows_stride = 40,
                                   .q = numbers,
                                   .q_stride = 160,
                                   .output = numbers,
                                   .output_stride = 128};
}

static void assert_refused(const struct latent *latent, struct given *given, const char *sentence)
{
    struct error error = {""};
    cr_assert_eq(latent_check(latent, &given->step, &given->io, &error), STATUS_INVALID_ARGUMENT,
                 "%s: it is taken", sentence);
    cr_assert_str_eq(error.text, sentence);
    given_init(given);
    cr_assert_eq(latent_check(latent, &given->step, &given->io, &error), STATUS_OK, "%s",
                 error.text);
}

Test(latent_refusal, of_a_view)
{
    struct latent *latent;
    struct error error = {""};
    struct given given;
    cr_assert_eq(latent_create(any_kernels(), NULL, &CONFIG, &latent, &error), STATUS_OK);
    given_init(&given);
    given.step.kv.base = NULL;
    assert_refused(latent, &given, "kv.base is NULL");
    given.step.kv.is_contiguous = true;
    assert_refused(latent, &given, "kv.is_contiguous is true: a cache of latents is paged");
    given.step.kv.block_tokens = 12;
    assert_refused(latent, &given, "kv.block_tokens is 12, must be a power of two from 8 to 128");
    given.step.kv.block_tokens = 256;
    assert_refused(latent, &given, "kv.block_tokens is 256, must be a power of two from 8 to 128");
    given.io.layer_index = 2;
    assert_refused(latent, &given, "layer_index is 2, must be below kv.n_layers 2");
    given.step.kv.token_stride = 39;
    assert_refused(
        latent, &given,
        "kv.token_stride is 39, must be at least 40: the bytes that one of them contains");
    given.step.kv.layer_stride = 319;
    assert_refused(
        latent, &given,
        "kv.layer_stride is 319, must be at least 320: the bytes that one of them contains");
    given.step.kv.block_stride = 639;
    assert_refused(
        latent, &given,
        "kv.block_stride is 639, must be at least 640: the bytes that one of them contains");
    given.step.kv.token_stride = UINT64_MAX / 2;
    assert_refused(
        latent, &given,
        "kv.token_stride is 9223372036854775807: the size of 8 of them does not fit in 64 "
        "bits");
    latent_destroy(latent);
}

Test(latent_refusal, of_a_step)
{
    struct latent *latent;
    struct error error = {""};
    struct given given;
    cr_assert_eq(latent_create(any_kernels(), NULL, &CONFIG, &latent, &error), STATUS_OK);
    given_init(&given);
    given.step.sequences = NULL;
    assert_refused(latent, &given, "sequences is NULL");
    given.sequences[1].query_len = 3;
    assert_refused(latent, &given, "sequence 1: query_len is 3, above kv_len 2");
    given.sequences[1].block_ids = NULL;
    assert_refused(latent, &given, "sequence 1: block_ids is NULL");
    given.sequences[0].kv_len = 17;
    assert_refused(latent, &given, "sequence 0: kv_len is 17, n_blocks 2 hold 16 tokens");
    given.sequences[0].block_ids = outside;
    assert_refused(latent, &given, "sequence 0: block 1 has id 2, the view has 2 blocks");
    given.io.rows = NULL;
    assert_refused(latent, &given, "rows is NULL");
    given.io.q_stride = 159;
    assert_refused(latent, &given, "q_stride is 159: a row has 160 elements");
    given.io.output_stride = 127;
    assert_refused(latent, &given, "output_stride is 127: a row has 128 elements");
    given.io.cache_scale = 0;
    assert_refused(latent, &given, "cache_scale is 0, must be positive");
    given.step = (struct latent_step){0};
    cr_assert_eq(latent_check(latent, &given.step, &given.io, &error), STATUS_OK);
    latent_destroy(latent);
}
