/* recurrent: what a check refuses, and that its sentence names the field and its value. */
#include "kernels/recurrent.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

TestSuite(recurrent_refusal, .description = ONE_THREAD);

#define COUNT(array) (sizeof array / sizeof array[0])

static float numbers[1024], others[1024];
static float *const states[] = {numbers, others}, *const missing[] = {numbers, NULL};
/* [2][4] */
static float *const heads[] = {numbers, others, numbers, others, numbers, others, numbers, others};
static float *const missing_head[] = {numbers, others, numbers, others, numbers, NULL};
static const uint32_t lens[] = {2, 1}, no_lens[] = {0, 0};

static const struct causal_conv CONV = {
    .x = numbers,
    .x_stride = 8,
    .w = numbers,
    .y = others,
    .y_stride = 8,
    .n_channels = 8,
    .width = 4,
    .n_sequences = 2,
    .lens = lens,
    .states = states,
};

static void assert_sentence(enum status status, const struct error *error, const char *sentence)
{
    cr_assert_eq(status, STATUS_INVALID_ARGUMENT, "%s: it is taken", sentence);
    cr_assert_str_eq(error->text, sentence);
}

Test(recurrent_refusal, of_a_causal_convolution)
{
    struct {
        struct causal_conv conv;
        const char *sentence;
    } cases[] = {
        {CONV, "n_channels is 0"},
        {CONV, "width is 1, must be from 2 to 8"},
        {CONV, "width is 9, must be from 2 to 8"},
        {CONV, "w_dtype is 3, must be F32, BF16 or F16"},
        {CONV, "bias_dtype is 4, must be F32, BF16 or F16"},
        {CONV, "x_stride is 7: a row has 8 elements"},
        {CONV, "y_stride is 0: a row has 8 elements"},
        {CONV, "lens is NULL"},
        {CONV, "states is NULL"},
        {CONV, "states[1] is NULL, lens[1] is 1"},
        {CONV, "w is NULL"},
        {CONV, "y is x: later rows still read what would be overwritten"},
    };
    cases[0].conv.n_channels = 0;
    cases[1].conv.width = 1;
    cases[2].conv.width = 9;
    cases[3].conv.w_dtype = DTYPE_INT8;
    cases[4].conv.bias = numbers;
    cases[4].conv.bias_dtype = DTYPE_E4M3;
    cases[5].conv.x_stride = 7;
    cases[6].conv.y_stride = 0;
    cases[7].conv.lens = NULL;
    cases[8].conv.states = NULL;
    cases[9].conv.states = missing;
    cases[10].conv.w = NULL;
    cases[11].conv.y = numbers;
    struct error error = {""};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_sentence(causal_conv_check(&cases[i].conv, &error), &error, cases[i].sentence);
    struct causal_conv empty = {.n_channels = 8, .width = 2, .x_stride = 8, .y_stride = 8};
    cr_assert_eq(causal_conv_check(&empty, &error), STATUS_OK);
    empty.n_sequences = 2;
    empty.lens = no_lens;
    empty.states = missing;
    cr_assert_eq(causal_conv_check(&empty, &error), STATUS_OK);
    cr_assert_eq(causal_conv_check(&CONV, &error), STATUS_OK);
}

static const struct delta_gate GATE = {numbers,   numbers, 4,       4, numbers, numbers, DTYPE_F32,
                                       DTYPE_F32, numbers, numbers, 4, 4,       3,       4};

Test(recurrent_refusal, of_gates)
{
    struct {
        struct delta_gate gate;
        const char *sentence;
    } cases[] = {
        {GATE, "n_heads is 0"},
        {GATE, "a_log_dtype is 5, must be F32, BF16 or F16"},
        {GATE, "dt_bias_dtype is 3, must be F32, BF16 or F16"},
        {GATE, "beta_stride is 3: a row has 4 elements"},
        {GATE, "decay is NULL"},
    };
    cases[0].gate.n_heads = 0;
    cases[1].gate.a_log_dtype = DTYPE_E2M1;
    cases[2].gate.dt_bias_dtype = DTYPE_INT8;
    cases[3].gate.beta_stride = 3;
    cases[4].gate.decay = NULL;
    struct error error = {""};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_sentence(delta_gate_check(&cases[i].gate, &error), &error, cases[i].sentence);
    cr_assert_eq(delta_gate_check(&GATE, &error), STATUS_OK);
}

static const struct delta_rule RULE = {
    .q = numbers,
    .k = numbers,
    .v = numbers,
    .q_stride = 16,
    .k_stride = 16,
    .v_stride = 32,
    .decay = numbers,
    .beta = numbers,
    .decay_stride = 4,
    .beta_stride = 4,
    .o = others,
    .o_stride = 32,
    .n_heads = 4,
    .n_key_heads = 2,
    .key_dim = 8,
    .value_dim = 8,
    .norm_eps = 1e-6f,
    .n_sequences = 2,
    .lens = lens,
    .states = heads,
};

Test(recurrent_refusal, of_a_delta_rule)
{
    struct {
        struct delta_rule rule;
        const char *sentence;
    } cases[] = {
        {RULE, "key_dim is 12, must be a multiple of 8 up to 256"},
        {RULE, "value_dim is 264, must be a multiple of 8 up to 256"},
        {RULE, "n_heads is 0"},
        {RULE, "n_key_heads is 3: n_heads 4 is no multiple of it"},
        {RULE, "n_key_heads is 0: n_heads 4 is no multiple of it"},
        {RULE, "scale is -1, must be a number that is not negative"},
        {RULE, "norm_eps is nan, must be a number that is not negative"},
        {RULE, "k_stride is 15: a row has 16 elements"},
        {RULE, "o_stride is 31: a row has 32 elements"},
        {RULE, "states[5] is NULL, lens[1] is 1"},
        {RULE, "beta is NULL"},
    };
    cases[0].rule.key_dim = 12;
    cases[1].rule.value_dim = 264;
    cases[2].rule.n_heads = 0;
    cases[3].rule.n_key_heads = 3;
    cases[4].rule.n_key_heads = 0;
    cases[5].rule.scale = -1;
    cases[6].rule.norm_eps = NAN;
    cases[7].rule.k_stride = 15;
    cases[8].rule.o_stride = 31;
    cases[9].rule.states = missing_head;
    cases[10].rule.beta = NULL;
    struct error error = {""};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_sentence(delta_rule_check(&cases[i].rule, &error), &error, cases[i].sentence);
    cr_assert_eq(delta_rule_check(&RULE, &error), STATUS_OK);
}

static const struct gated_norm NORM = {numbers, numbers, 16, 16, numbers, DTYPE_BF16,
                                       others,  16,      3,  2,  8,       1e-6f};

Test(recurrent_refusal, of_a_gated_norm)
{
    struct {
        struct gated_norm norm;
        const char *sentence;
    } cases[] = {
        {NORM, "n_heads is 0"},
        {NORM, "n is 0"},
        {NORM, "w_dtype is 7, must be F32, BF16 or F16"},
        {NORM, "eps is inf, must be a number that is not negative"},
        {NORM, "z_stride is 15: a row has 16 elements"},
        {NORM, "z is NULL"},
    };
    cases[0].norm.n_heads = 0;
    cases[1].norm.n = 0;
    cases[2].norm.w_dtype = DTYPE_Q4_0;
    cases[3].norm.eps = INFINITY;
    cases[4].norm.z_stride = 15;
    cases[5].norm.z = NULL;
    struct error error = {""};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_sentence(gated_norm_check(&cases[i].norm, &error), &error, cases[i].sentence);
    cr_assert_eq(gated_norm_check(&NORM, &error), STATUS_OK);
}
