/* rope: frequencies and angles of each scaling as Transformers computes them, for parts of a head and
 * by sequence length, and what is refused. Formulas are the published ones in float64. */
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
    rope_angles(rope, 0, 1, cosines, sines);
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
    rope_angles(rope, 3001, 3002, cosines, sines);
    for (uint32_t i = 0; i < 32; i++) {
        float angle = 3001.0f * rope_inv_freq(rope)[i];
        cr_assert_eq(cosines[i], (float)cos((double)angle));
        cr_assert_eq(sines[i], (float)sin((double)angle));
    }
    rope_destroy(rope);
}

/* Length 6,000 of 4,096: theta grows by (2 * 6000 / 4096 - 1)^(32 / 30). */
Test(rope, dynamic_angles_follow_the_length_and_not_the_position)
{
    struct rope_config config = PLAIN;
    config.rotary_dim = 32;
    config.positions_max = 8192;
    config.scaling = ROPE_DYNAMIC;
    config.factor = 2;
    config.original_positions = 4096;
    struct rope *rope = make(&config);
    double theta = 10000 * pow(2 * 6000.0 / 4096 - 1, 32.0 / 30);
    float cosines[17], sines[17];
    cosines[16] = sines[16] = -7;
    rope_angles(rope, 100, 6000, cosines, sines);
    for (uint32_t i = 0; i < 16; i++) {
        float angle = 100.0f * (float)pow(theta, -2.0 * i / 32);
        cr_assert_float_eq(cosines[i], cos((double)angle), 2e-6, "%u", i);
        cr_assert_float_eq(sines[i], sin((double)angle), 2e-6, "%u", i);
    }
    rope_angles(rope, 100, 4096, cosines, sines);
    for (uint32_t i = 0; i < 16; i++)
        cr_assert_eq(cosines[i], (float)cos((double)(100.0f * rope_inv_freq(rope)[i])));
    cr_assert_eq(cosines[16], -7);
    cr_assert_eq(sines[16], -7);
    rope_destroy(rope);
}

Test(rope, only_scalings_beyond_the_original_positions_depend_on_the_length)
{
    static const double factors[32] = {[0 ... 31] = 2}, others[32] = {[0 ... 31] = 3};
    struct rope_config config = PLAIN;
    config.factor = 2;
    config.original_positions = 2048;
    config.low_freq_factor = 1;
    config.high_freq_factor = 4;
    config.short_factors = factors;
    config.long_factors = others;
    for (enum rope_scaling scaling = ROPE_NONE; scaling <= ROPE_PROPORTIONAL; scaling++)
        for (uint32_t positions = 2048; positions <= 2049; positions++) {
            config.scaling = scaling;
            config.positions_max = positions;
            struct rope *rope = make(&config);
            bool depends = positions > 2048 &&
                           (scaling == ROPE_DYNAMIC || scaling == ROPE_LONGROPE);
            cr_assert_eq(rope_depends_on_length(rope), depends, "scaling %d", (int)scaling);
            rope_destroy(rope);
        }
    config.long_factors = factors; /* one set for all lengths, still ROPE_LONGROPE */
    struct rope *rope = make(&config);
    cr_assert_not(rope_depends_on_length(rope));
    rope_destroy(rope);
}

/* Gemma 4: the exponents are those of whole heads, and the other pairs stay. */
Test(rope, proportional_turns_the_first_pairs_alone)
{
    struct rope_config config = PLAIN;
    config.scaling = ROPE_PROPORTIONAL;
    config.head_dim = 512;
    config.factor = 4;
    config.n_turning = 3;
    struct rope *rope = make(&config);
    float cosines[256], sines[256];
    rope_angles(rope, 100, 101, cosines, sines);
    for (uint32_t i = 0; i < 256; i++) {
        const double inv_freq = i < 3 ? pow(config.theta, -2.0 * i / 512) / 4 : 0;
        cr_assert_eq(rope_inv_freq(rope)[i], (float)inv_freq, "pair %u", i);
        cr_assert(i < 3 || (cosines[i] == 1 && sines[i] == 0), "pair %u", i);
    }
    cr_assert_eq(rope_rotary_dim(rope), 512);
    rope_destroy(rope);
    struct error error = {""};
    config.n_turning = 257;
    cr_assert_eq(rope_create(&config, &rope, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "n_turning is 257"), "%s", error.text);
    config.n_turning = 3;
    config.rotary_dim = 64;
    cr_assert_eq(rope_create(&config, &rope, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "rotary_dim 64"), "%s", error.text);
}

Test(rope, tells_its_shape)
{
    struct rope_config config = PLAIN;
    struct rope *whole = make(&config);
    config.rotary_dim = 24;
    config.is_interleaved = true;
    struct rope *part = make(&config);
    cr_assert_eq(rope_head_dim(whole), 64);
    cr_assert_eq(rope_rotary_dim(whole), 64);
    cr_assert(!rope_is_interleaved(whole));
    cr_assert_eq(rope_head_dim(part), 64);
    cr_assert_eq(rope_rotary_dim(part), 24);
    cr_assert(rope_is_interleaved(part));
    rope_destroy(whole);
    rope_destroy(part);
}

static const struct golden_angles {
    const char *name;
    struct rope_config config;
    uint32_t position, sequence_len;
    double attention_factor;
    float inv_freq[64], cosines[64], sines[64];
} golden_angles[] = {
#include "tests/golden/rope/rope.inc"
};

/* Both round inv_freq and the angle to float32, after powers of their own libraries; a blend of
 * frequencies is as exact as the larger of them. */
static void check_golden(const struct golden_angles *golden)
{
    struct rope *rope = make(&golden->config);
    float cosines[64], sines[64];
    bool is_short = golden->sequence_len <= golden->config.original_positions ||
                    !rope_depends_on_length(rope);
    cr_assert_float_eq(rope_attention_factor(rope), golden->attention_factor, 1e-6, "%s",
                       golden->name);
    rope_angles(rope, golden->position, golden->sequence_len, cosines, sines);
    for (uint32_t i = 0; i < golden->config.rotary_dim / 2; i++) {
        double plain = pow(golden->config.theta, -2.0 * i / golden->config.rotary_dim);
        double room = golden->attention_factor * (2e-7 + 4e-7 * golden->position * plain);
        if (is_short)
            cr_assert_float_eq(rope_inv_freq(rope)[i], golden->inv_freq[i], 4e-7 * plain,
                               "%s: inv_freq %u is %.9g", golden->name, i, rope_inv_freq(rope)[i]);
        cr_assert_float_eq(cosines[i], golden->cosines[i], room, "%s at %u of %u: cos %u is %g",
                           golden->name, golden->position, golden->sequence_len, i, cosines[i]);
        cr_assert_float_eq(sines[i], golden->sines[i], room, "%s at %u of %u: sin %u is %g",
                           golden->name, golden->position, golden->sequence_len, i, sines[i]);
    }
    rope_destroy(rope);
}

Test(rope, every_scaling_equals_transformers)
{
    for (size_t i = 0; i < sizeof golden_angles / sizeof golden_angles[0]; i++)
        check_golden(&golden_angles[i]);
}

static const double two_factors[2] = {1, 2};
static const double bad_factors[2] = {1, -2};

#define LONGROPE(original, shorts, longs)                                                          \
    .head_dim = 64, .rotary_dim = 4, .positions_max = 8, .theta = 1e4, .scaling = ROPE_LONGROPE,   \
    .original_positions = original, .short_factors = shorts, .long_factors = longs

static const struct {
    struct rope_config config;
    enum status status;
    const char *word;
} bad[] = {
    {{.head_dim = 60, .positions_max = 8, .theta = 1e4}, STATUS_INVALID_ARGUMENT, "head_dim"},
    {{.head_dim = 520, .positions_max = 8, .theta = 1e4}, STATUS_INVALID_ARGUMENT, "head_dim"},
    {{.head_dim = 64, .rotary_dim = 31, .positions_max = 8, .theta = 1e4},
     STATUS_INVALID_ARGUMENT,
     "rotary_dim is 31"},
    {{.head_dim = 64, .rotary_dim = 66, .positions_max = 8, .theta = 1e4},
     STATUS_INVALID_ARGUMENT,
     "head_dim 64"},
    {{.head_dim = 64, .positions_max = 0, .theta = 1e4}, STATUS_INVALID_ARGUMENT, "positions_max"},
    {{.head_dim = 64, .positions_max = 8, .theta = 0}, STATUS_INVALID_ARGUMENT, "theta"},
    {{.head_dim = 64, .positions_max = 8, .theta = NAN}, STATUS_INVALID_ARGUMENT, "theta"},
    {{LONGROPE(4, NULL, NULL)}, STATUS_INVALID_ARGUMENT, "short_factor is missing"},
    {{LONGROPE(4, two_factors, NULL)}, STATUS_INVALID_ARGUMENT, "long_factor is missing"},
    {{LONGROPE(4, two_factors, bad_factors)}, STATUS_INVALID_ARGUMENT, "long_factor[1] is -2"},
    {{LONGROPE(1, two_factors, two_factors)},
     STATUS_INVALID_ARGUMENT,
     "original_max_position_embeddings 1"},
    {{LONGROPE(0, two_factors, two_factors)},
     STATUS_INVALID_ARGUMENT,
     "original_max_position_embeddings is 0"},
    {{LONGROPE(4, two_factors, two_factors), .factor = -1},
     STATUS_INVALID_ARGUMENT,
     "factor is -1"},
    {{.head_dim = 64, .positions_max = 8, .theta = 1e4, .scaling = ROPE_LINEAR},
     STATUS_INVALID_ARGUMENT,
     "factor"},
    {{.head_dim = 64,
      .rotary_dim = 2,
      .positions_max = 4097,
      .theta = 1e4,
      .scaling = ROPE_DYNAMIC,
      .factor = 2,
      .original_positions = 4096},
     STATUS_INVALID_ARGUMENT,
     "rotary_dim 2"},
    {{.head_dim = 64,
      .positions_max = 4097,
      .theta = 1e4,
      .scaling = ROPE_DYNAMIC,
      .factor = 0.5,
      .original_positions = 4096},
     STATUS_INVALID_ARGUMENT,
     "factor 0.5"},
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
     "beta_fast is -1"},
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
