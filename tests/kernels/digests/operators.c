#include "tests/kernels/digests/operators.h"

#include "kernels/latent.h"
#include "kernels/recurrent.h"
#include "tests/kernels/digests/digest.h"
#include "tests/kernels/support/values.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TOKENS_MAX = 40,
    N_IN_MAX = 1088,
    N_OUT = 37,
    N_ROW = 100,
    BYTES_MAX = N_OUT * N_IN_MAX * 4
};

static float inputs[TOKENS_MAX * N_IN_MAX], results[TOKENS_MAX * N_IN_MAX];
static float scales[N_OUT * N_IN_MAX / 32];
static char weights[BYTES_MAX];

static void fill_inputs(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        inputs[i] = values_at(1, 0, i);
}

/* Any code is a weight; NaN of E4M3 is left out, it would hide all else. */
static void fill_weights(enum dtype dtype)
{
    const uint32_t n = (uint32_t)(sizeof weights / dtype_array_bytes(dtype, 2) * 2);
    for (uint32_t i = 0; dtype <= DTYPE_F16 && i < n; i++)
        dtype_store(dtype, weights, i, values_at(2, 0, i));
    for (uint32_t i = 0; dtype > DTYPE_F16 && i < sizeof weights; i++) {
        uint8_t code = (uint8_t)values_hash(i);
        code = dtype == DTYPE_E4M3 && (code & 0x7f) == 0x7f ? 0 : code;
        weights[i] = (char)code;
    }
    for (uint32_t i = 0; i < sizeof scales / sizeof *scales; i++)
        scales[i] = 0.01f + fabsf(values_at(3, 0, i)) / 64;
    for (uint32_t i = 0; dtype == DTYPE_E2M1 && i < sizeof scales; i++)
        ((uint8_t *)scales)[i] = (uint8_t)(120 + values_hash(i) % 12);
}

static void print_gemm(const struct kernels *kernels, struct gemm gemm, const char *what)
{
    static const uint32_t n_tokens[] = {1, 2, 5, TOKENS_MAX};
    for (size_t i = 0; i < sizeof n_tokens / sizeof *n_tokens; i++) {
        gemm.n_tokens = n_tokens[i];
        kernels->gemm(NULL, &gemm, 1);
        printf("gemm %s %s in %u tokens %u %016" PRIx64 "\n", dtype_name(gemm.w_dtype), what,
               gemm.n_in, gemm.n_tokens,
               digest_floats(DIGEST_BEGIN, results, (size_t)gemm.n_tokens * N_OUT));
    }
}

static void print_packed(const struct kernels *kernels, struct gemm gemm)
{
    if (!kernels->gemm_pack)
        return;
    const size_t bytes = (kernels->gemm_packed_bytes(&gemm) + 63) / 64 * 64;
    void *packed = aligned_alloc(64, bytes);
    assert(packed);
    kernels->gemm_pack(NULL, &gemm, packed);
    gemm.w = packed;
    gemm.w_is_packed = true;
    print_gemm(kernels, gemm, gemm.w_scale_columns == 32 ? "packed by 32" : "packed by rows");
    free(packed);
}

static void print_gemms(const struct kernels *kernels)
{
    static const enum dtype dtypes[] = {DTYPE_F32,  DTYPE_BF16, DTYPE_F16,
                                        DTYPE_INT8, DTYPE_E4M3, DTYPE_E2M1};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        const bool is_plain = dtypes[i] <= DTYPE_F16;
        fill_weights(dtypes[i]);
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t n_in = (half == 0 ? 96 : N_IN_MAX) - (is_plain ? 1 : 0);
            struct gemm gemm = {.x = inputs, .x_stride = n_in, .w = weights, .w_dtype = dtypes[i]};
            gemm.w_scales = is_plain ? NULL : scales;
            gemm.w_scale_rows = is_plain ? 0 : 1;
            gemm.w_scale_columns = is_plain ? 0 : 32;
            gemm.y = results;
            gemm.y_stride = gemm.n_out = N_OUT;
            gemm.n_in = n_in;
            print_gemm(kernels, gemm, "in place");
            if (dtypes[i] != DTYPE_INT8)
                continue;
            print_packed(kernels, gemm);
            gemm.w_scale_columns = n_in;
            print_packed(kernels, gemm);
        }
    }
}

static void print_row(const char *what)
{
    printf("%s %016" PRIx64 "\n", what, digest_floats(DIGEST_BEGIN, results, (size_t)3 * N_ROW));
}

static void print_rows(const struct kernels *kernels)
{
    const enum dtype f32 = DTYPE_F32;
    fill_weights(DTYPE_BF16);
    kernels->rms_norm(NULL, &(struct rms_norm){inputs, f32, N_ROW, weights, DTYPE_BF16, results,
                                               f32, N_ROW, 3, N_ROW, 1e-5f, false});
    print_row("rms_norm");
    kernels->layer_norm(NULL, &(struct layer_norm){inputs, f32, N_ROW, weights, NULL, DTYPE_BF16,
                                                   f32, results, f32, N_ROW, 3, N_ROW, 1e-5f});
    print_row("layer_norm");
    for (enum activation a = ACTIVATION_SILU; a <= ACTIVATION_SIGMOID; a++) {
        static const char *const names[] = {"silu", "gelu", "gelu_tanh", "relu", "sigmoid"};
        kernels->gated(NULL, &(struct gated){.gate = inputs,
                                             .up = inputs + N_IN_MAX,
                                             .gate_stride = N_ROW,
                                             .up_stride = N_ROW,
                                             .y = results,
                                             .y_stride = N_ROW,
                                             .n_tokens = 3,
                                             .n = N_ROW,
                                             .activation = a});
        print_row(names[a]);
    }
    results[0] = kernels->log_sum_exp(inputs, N_ROW);
    results[1] = (float)kernels->argmax(inputs, N_IN_MAX);
    printf("log_sum_exp, argmax %016" PRIx64 "\n", digest_floats(DIGEST_BEGIN, results, 2));
}

static void print_floats(const char *what, const float *x, size_t n)
{
    printf("%s %016" PRIx64 "\n", what, digest_floats(DIGEST_BEGIN, x, n));
}

/* Two sequences with states of zeros. */
static void print_recurrent(const struct kernels *kernels)
{
    enum { ROWS = 7, CHANNELS = 72, HEADS = 3, DIM = 24 };
    static float conv_states[2][3 * CHANNELS], rule_states[2][HEADS * DIM * DIM];
    static const uint32_t lens[] = {2, ROWS - 2};
    float *const convs[] = {conv_states[0], conv_states[1]};
    float *rules[2 * HEADS];
    const float *a = inputs, *b = inputs + N_IN_MAX;
    float *decay = results, *beta = results + N_IN_MAX, *o = results + (size_t)2 * N_IN_MAX;
    for (uint32_t i = 0; i < 2 * HEADS; i++)
        rules[i] = rule_states[i / HEADS] + (size_t)(i % HEADS) * DIM * DIM;
    fill_weights(DTYPE_BF16);
    kernels->causal_conv(NULL, &(struct causal_conv){inputs, CHANNELS, weights, DTYPE_BF16, weights,
                                                     DTYPE_BF16, results, CHANNELS, CHANNELS, 4, 2,
                                                     lens, NULL, convs});
    print_floats("causal_conv", results, (size_t)ROWS * CHANNELS);
    kernels->delta_gate(NULL,
                        &(struct delta_gate){a, b, HEADS, HEADS, weights, weights, DTYPE_BF16,
                                             DTYPE_BF16, decay, beta, HEADS, HEADS, ROWS, HEADS});
    print_floats("delta_gate decay", decay, (size_t)ROWS * HEADS);
    print_floats("delta_gate beta", beta, (size_t)ROWS * HEADS);
    kernels->delta_rule(NULL, &(struct delta_rule){.q = inputs,
                                                   .k = inputs + N_IN_MAX,
                                                   .v = inputs + (size_t)2 * N_IN_MAX,
                                                   .q_stride = DIM,
                                                   .k_stride = DIM,
                                                   .v_stride = CHANNELS,
                                                   .decay = decay,
                                                   .beta = beta,
                                                   .decay_stride = HEADS,
                                                   .beta_stride = HEADS,
                                                   .o = o,
                                                   .o_stride = CHANNELS,
                                                   .n_heads = HEADS,
                                                   .n_key_heads = 1,
                                                   .key_dim = DIM,
                                                   .value_dim = DIM,
                                                   .norm_eps = 1e-6f,
                                                   .n_sequences = 2,
                                                   .lens = lens,
                                                   .states = rules});
    print_floats("delta_rule", o, (size_t)ROWS * CHANNELS);
    print_floats("delta_rule state", rule_states[1], (size_t)HEADS * DIM * DIM);
    kernels->gated_norm(NULL,
                        &(struct gated_norm){o, inputs, CHANNELS, CHANNELS, weights, DTYPE_BF16,
                                             results, CHANNELS, ROWS, HEADS, DIM, 1e-6f});
    print_floats("gated_norm", results, (size_t)ROWS * CHANNELS);
}

/* A chunk behind which a token comes alone, of a cache of each type. */
static void print_latent(const struct kernels *kernels)
{
    enum {
        HEADS = 5,
        LATENT = 32,
        ROPE = 8,
        WIDTH = LATENT + ROPE,
        TOKENS = 70,
        BLOCK_TOKENS = 16
    };
    static const uint32_t ids[] = {4, 1, 0, 3, 2};
    static char cache[5 * BLOCK_TOKENS * WIDTH * 4];
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_E4M3; dtype++) {
        const struct latent_config config = {HEADS, LATENT, ROPE, dtype, 0.3f};
        struct latent_io io = {0,      0.02f,         inputs,  WIDTH,
                               inputs, HEADS * WIDTH, results, HEADS * LATENT};
        struct latent_sequence sequence = {TOKENS - 1, TOKENS - 1, ids, 5};
        const struct latent_step step = {&sequence, 1,
                                         latent_view_dense(cache, 5, 1, BLOCK_TOKENS, &config)};
        struct latent *latent;
        struct error error;
        if (latent_create(kernels, NULL, &config, &latent, &error) != STATUS_OK)
            abort();
        latent_write(latent, &step, &io);
        latent_attend(latent, &step, &io);
        print_floats("latent chunk", results, (size_t)(TOKENS - 1) * HEADS * LATENT);
        sequence.query_len = 1;
        sequence.kv_len = TOKENS;
        latent_write(latent, &step, &io);
        latent_attend(latent, &step, &io);
        print_floats("latent token", results, (size_t)HEADS * LATENT);
        latent_destroy(latent);
    }
}

/* Every code of a dtype. */
static void print_widened(const struct kernels *kernels)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_F16, DTYPE_E4M3, DTYPE_INT8};
    const uint32_t id = 0, n = 65536;
    static uint16_t codes[65536];
    static float wide[65536];
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        for (uint32_t c = 0; c < n; c++)
            codes[c] = (uint16_t)c;
        const uint32_t n_codes = dtype_bytes(dtypes[i]) == 2 ? n : n / 16;
        kernels->embedding(NULL, &(struct embedding){codes, dtypes[i], &id, wide, DTYPE_F32,
                                                     n_codes, 1, n_codes, 1});
        printf("widen %s %016" PRIx64 "\n", dtype_name(dtypes[i]),
               digest_floats(DIGEST_BEGIN, wide, n_codes));
    }
}

void operators_print(const struct kernels *kernels)
{
    fill_inputs(TOKENS_MAX * N_IN_MAX);
    print_gemms(kernels);
    print_rows(kernels);
    print_recurrent(kernels);
    print_latent(kernels);
    print_widened(kernels);
}
