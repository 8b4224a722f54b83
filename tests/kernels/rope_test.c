/* rope: frequencies of each scaling as Transformers computes them, and what is refused. The
 * expected numbers were worked out from the published formulas in float64. */
#include "kernels/rope.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const struct rope_config PLAIN = {.head_dim = 64, .positions_max = 4096, .theta = 10000};

static struct rope *make(const struct rope_config *config)
{
    struct rope *rope = NULL;
    struct error error = {""};
    cr_assert_eq(rope_create(config, &rope, &error), STATUS_OK, "%s", error.text);
    return rope;
}

static void assert_freq(const struct rope *rope, uint32_t i, double expected)
{
    double got = (double)rope_inv_freq(rope)[i];
    cr_assert(fabs(got - expected) <= 1e-7 * expected, "inv_freq[%u] is %.9g, not %.9g", i, got,
              expected);
}

Test(rope, plain_and_linear_frequencies)
{
    struct rope *plain = make(&PLAIN);
    struct rope_config config = PLAIN;
    config.scaling = ROPE_LINEAR;
    config.factor = 4;
    struct rope *linear = make(&config);
    for (uint32_t i = 0; i < 32; i++) {
        assert_freq(plain, i, pow(10000, -(double)i / 32));
        assert_freq(linear, i, pow(10000, -(double)i / 32) / 4);
    }
    cr_assert_eq(rope_attention_factor(plain), 1.0f);
    rope_destroy(plain);
    rope_destroy(linear);
}

/* Llama 3.1: factor 8, 1 and 4, 8192: short waves stay, waves over 8192 tokens are divided by 8. */
Test(rope, llama3_keeps_short_waves_divides_long_ones_and_blends_between)
{
    struct rope_config config = {.head_dim = 128,
                                 .positions_max = 131072,
                                 .theta = 500000,
                                 .scaling = ROPE_LLAMA3,
                                 .factor = 8,
                                 .low_freq_factor = 1,
                                 .high_freq_factor = 4,
                                 .original_positions = 8192};
    struct rope *rope = make(&config);
    uint32_t n_blended = 0;
    for (uint32_t i = 0; i < 64; i++) {
        double inv_freq = pow(500000, -(double)i / 64);
        double wave = 2 * M_PI / inv_freq;
        if (wave < 8192.0 / 4) {
            assert_freq(rope, i, inv_freq);
        } else if (wave > 8192.0) {
            assert_freq(rope, i, inv_freq / 8);
        } else {
            double smooth = (8192 / wave - 1) / 3;
            assert_freq(rope, i, (1 - smooth) * inv_freq / 8 + smooth * inv_freq);
            n_blended++;
        }
    }
    cr_assert_gt(n_blended, 3);
    rope_destroy(rope);
}

/* head_dim 128, theta 10000, 4096 positions: the ramp runs from floor(20.94) to ceil(45.03). */
Test(rope, yarn_blends_over_its_ramp_and_scales_attention)
{
    struct rope_config config = {.head_dim = 128,
                                 .positions_max = 65536,
                                 .theta = 10000,
                                 .scaling = ROPE_YARN,
                                 .factor = 16,
                                 .original_positions = 4096};
    struct rope *rope = make(&config);
    for (uint32_t i = 0; i < 64; i++) {
        double inv_freq = pow(10000, -(double)i / 64);
        double ramp = fmin(fmax((i - 20.0) / (46.0 - 20.0), 0), 1);
        assert_freq(rope, i, inv_freq / 16 * ramp + inv_freq * (1 - ramp));
    }
    cr_assert_float_eq(rope_attention_factor(rope), 0.1 * log(16) + 1, 1e-6);
    float cosines[64], sines[64];
    rope_angles(rope, 0, cosines, sines);
    cr_assert_eq(cosines[5], rope_attention_factor(rope));
    rope_destroy(rope);

    config.mscale = 0.707;
    config.mscale_all_dim = 1;
    rope = make(&config);
    cr_assert_float_eq(rope_attention_factor(rope), (0.0707 * log(16) + 1) / (0.1 * log(16) + 1),
                       1e-6);
    rope_destroy(rope);
    config.attention_factor = 1.25;
    rope = make(&config);
    cr_assert_eq(rope_attention_factor(rope), 1.25f);
    rope_destroy(rope);
}

Test(rope, dynamic_equals_plain_while_no_position_reaches_the_original_limit)
{
    struct rope_config config = PLAIN;
    config.scaling = ROPE_DYNAMIC;
    config.factor = 2;
    config.original_positions = 4096;
    struct rope *rope = make(&config);
    for (uint32_t i = 0; i < 32; i++)
        assert_freq(rope, i, pow(10000, -(double)i / 32));
    rope_destroy(rope);
}

Test(rope, angles_are_float32_products)
{
    struct rope *rope = make(&PLAIN);
    float cosines[32], sines[32];
    rope_angles(rope, 3001, cosines, sines);
    for (uint32_t i = 0; i < 32; i++) {
        float angle = 3001.0f * rope_inv_freq(rope)[i];
        cr_assert_eq(cosines[i], (float)cos((double)angle));
        cr_assert_eq(sines[i], (float)sin((double)angle));
    }
    rope_destroy(rope);
}

static const struct {
    struct rope_config config;
    enum status status;
    const char *word;
} bad[] = {
    {{.head_dim = 60, .positions_max = 8, .theta = 1e4}, STATUS_INVALID_ARGUMENT, "head_dim"},
    {{.head_dim = 512, .positions_max = 8, .theta = 1e4}, STATUS_INVALID_ARGUMENT, "head_dim"},
    {{.head_dim = 64, .rotary_dim = 32, .positions_max = 8, .theta = 1e4},
     STATUS_UNSUPPORTED,
     "rotary_dim 32"},
    {{.head_dim = 64, .positions_max = 0, .theta = 1e4}, STATUS_INVALID_ARGUMENT, "positions_max"},
    {{.head_dim = 64, .positions_max = 8, .theta = 0}, STATUS_INVALID_ARGUMENT, "theta"},
    {{.head_dim = 64, .positions_max = 8, .theta = NAN}, STATUS_INVALID_ARGUMENT, "theta"},
    {{.head_dim = 64, .positions_max = 8, .theta = 1e4, .scaling = ROPE_LONGROPE},
     STATUS_UNSUPPORTED,
     "longrope"},
    {{.head_dim = 64, .positions_max = 8, .theta = 1e4, .scaling = ROPE_LINEAR},
     STATUS_INVALID_ARGUMENT,
     "factor"},
    {{.head_dim = 64,
      .positions_max = 4097,
      .theta = 1e4,
      .scaling = ROPE_DYNAMIC,
      .factor = 2,
      .original_positions = 4096},
     STATUS_UNSUPPORTED,
     "4097"},
    {{.head_dim = 64, .positions_max = 8, .theta = 1e4, .scaling = ROPE_YARN, .factor = 2},
     STATUS_INVALID_ARGUMENT,
     "original_max_position_embeddings"},
    {{.head_dim = 64,
      .positions_max = 8,
      .theta = 1e4,
      .scaling = ROPE_YARN,
      .factor = 2,
      .original_positions = 4,
      .beta_fast = -1},
     STATUS_INVALID_ARGUMENT,
     "yarn"},
    {{.head_dim = 64,
      .positions_max = 8,
      .theta = 1e4,
      .scaling = ROPE_LLAMA3,
      .factor = 2,
      .original_positions = 4,
      .low_freq_factor = 4,
      .high_freq_factor = 1},
     STATUS_INVALID_ARGUMENT,
     "high_freq_factor"},
    {{.head_dim = 64, .positions_max = 8, .theta = 1e4, .scaling = (enum rope_scaling)99},
     STATUS_INVALID_ARGUMENT,
     "99"},
};

Test(rope, what_is_not_computed_is_refused_by_name)
{
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct rope *rope = NULL;
        struct error error = {""};
        cr_assert_eq(rope_create(&bad[i].config, &rope, &error), bad[i].status, "case %zu", i);
        cr_assert(strstr(error.text, bad[i].word), "case %zu: %s", i, error.text);
        cr_assert_null(rope);
    }
}
