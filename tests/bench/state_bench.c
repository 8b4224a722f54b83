/*
 * state_bench - the operators of layers with other state than K and V, against what this machine can do.
 *
 *     state_bench [threads] [--json] [delta_rule] [latent]
 *
 * delta_rule: one token as GB/s of states read and written, of the copy bandwidth; a prompt as GFLOP/s (3.5 multiply-adds an element of
 * the state and token). latent: GFLOP/s. Both of the float multiply-add peak. Sizes are those of Qwen3-Next and of DeepSeek-V2 Lite and V3.
 */
#include "kernels/latent.h"
#include "kernels/recurrent.h"
#include "tests/bench/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { HEADS = 32, KEY_HEADS = 16, DIM = 128, N_KEYS = KEY_HEADS * DIM, N_VALUES = HEADS * DIM };
enum { STATE_FLOATS = HEADS * DIM * DIM, LATENT_DIM = 512, ROPE_DIM = 64, BLOCK_TOKENS = 32 };
enum { WIDTH = LATENT_DIM + ROPE_DIM };

/* ---- delta_rule ---- */

struct rule_run {
    const struct bench *bench;
    struct delta_rule rule;
    uint32_t n_tokens, n_states, at; /* a call takes the next state */
    float *states, *heads[HEADS];
};

static void run_rule(void *arg)
{
    struct rule_run *run = arg;
    run->at = (run->at + 1) % run->n_states;
    for (uint32_t h = 0; h < HEADS; h++)
        run->heads[h] = run->states + (size_t)run->at * STATE_FLOATS + (size_t)h * DIM * DIM;
    run->bench->kernels->delta_rule(run->bench->pool, &run->rule);
}

static void bench_rule(const struct bench *bench, uint32_t n_tokens)
{
    struct rule_run run = {.bench = bench, .n_tokens = n_tokens, .n_states = 1};
    const size_t n_floats = (size_t)n_tokens * (2 * N_KEYS + 2 * N_VALUES + 2 * HEADS);
    char what[96];
    if (n_tokens == 1)
        run.n_states += (uint32_t)(STREAM_BYTES / (STATE_FLOATS * sizeof(float)));
    run.states = filled(DTYPE_F32, (size_t)run.n_states * STATE_FLOATS, 1);
    float *x = filled(DTYPE_F32, n_floats, 1);
    float *v = x + (size_t)n_tokens * 2 * N_KEYS, *decay = v + (size_t)n_tokens * 2 * N_VALUES;
    for (size_t i = 0; i < (size_t)n_tokens * 2 * HEADS; i++)
        decay[i] = 0.9f;
    run.rule = (struct delta_rule){.q = x,
                                   .k = x + (size_t)n_tokens * N_KEYS,
                                   .v = v,
                                   .q_stride = N_KEYS,
                                   .k_stride = N_KEYS,
                                   .v_stride = N_VALUES,
                                   .decay = decay,
                                   .beta = decay + (size_t)n_tokens * HEADS,
                                   .decay_stride = HEADS,
                                   .beta_stride = HEADS,
                                   .o = v + (size_t)n_tokens * N_VALUES,
                                   .o_stride = N_VALUES,
                                   .n_heads = HEADS,
                                   .n_key_heads = KEY_HEADS,
                                   .key_dim = DIM,
                                   .value_dim = DIM,
                                   .norm_eps = 1e-6f,
                                   .n_sequences = 1,
                                   .lens = &run.n_tokens,
                                   .states = run.heads};
    snprintf(what, sizeof what, "F32 heads %d/%d of %d x %d, %u tokens", HEADS, KEY_HEADS, DIM, DIM,
             n_tokens);
    struct figure figure = {
        .section = "delta_rule", .what = what, .seconds = best_seconds(run_rule, &run)};
    if (n_tokens == 1) {
        figure.value = 2.0 * STATE_FLOATS * sizeof(float) / figure.seconds / 1e9;
        figure.unit = "GB/s";
        figure.of_peak = figure.value / bench->copy_peak;
    } else {
        figure.value = 7.0 * STATE_FLOATS * n_tokens / figure.seconds / 1e9;
        figure.unit = "GFLOP/s";
        figure.of_peak = figure.value / bench->fma_peak;
    }
    figure.ratio = figure.of_peak;
    print_figure(bench, &figure);
    munmap(run.states, run.n_states * STATE_FLOATS * sizeof(float));
    munmap(x, n_floats * sizeof(float));
}

/* ---- latent ---- */

struct latent_run {
    struct latent *latent;
    struct latent_step step;
    struct latent_io io;
};

static void run_latent(void *arg)
{
    const struct latent_run *run = arg;
    latent_attend(run->latent, &run->step, &run->io);
}

static void bench_latent(const struct bench *bench, uint32_t n_heads, uint32_t query_len,
                         uint32_t kv_len)
{
    const struct latent_config config = {n_heads, LATENT_DIM, ROPE_DIM, DTYPE_BF16, 0.07f};
    const uint32_t n_blocks = (kv_len + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    const size_t n_q = (size_t)query_len * n_heads * WIDTH;
    const size_t output_bytes = (size_t)query_len * n_heads * LATENT_DIM * sizeof(float);
    const double pairs = (double)query_len * (kv_len - (query_len - 1) / 2.0);
    uint32_t *ids = calloc(n_blocks, sizeof *ids);
    char what[96];
    struct latent_run run;
    for (uint32_t i = 0; i < n_blocks; i++)
        ids[i] = n_blocks - 1 - i;
    const struct latent_sequence sequence = {query_len, kv_len, ids, n_blocks};
    must(latent_create(bench->kernels, bench->pool, &config, &run.latent, NULL));
    run.step = (struct latent_step){&sequence, 1,
                                    latent_view_dense(NULL, n_blocks, 1, BLOCK_TOKENS, &config)};
    run.step.kv.base = filled(DTYPE_BF16, (size_t)n_blocks * BLOCK_TOKENS * WIDTH, 1);
    float *q = filled(DTYPE_F32, n_q, 1);
    run.io = (struct latent_io){.q = q,
                                .q_stride = (uint64_t)n_heads * WIDTH,
                                .output = allocate(output_bytes),
                                .output_stride = (uint64_t)n_heads * LATENT_DIM};
    snprintf(what, sizeof what, "BF16 %u heads of %d + %d, %u of %u tokens", n_heads, LATENT_DIM,
             ROPE_DIM, query_len, kv_len);
    struct figure figure = {.section = "latent",
                            .what = what,
                            .seconds = best_seconds(run_latent, &run),
                            .unit = "GFLOP/s"};
    figure.value = 2 * pairs * n_heads * (WIDTH + LATENT_DIM) / figure.seconds / 1e9;
    figure.of_peak = figure.ratio = figure.value / bench->fma_peak;
    print_figure(bench, &figure);
    munmap(run.step.kv.base, n_blocks * run.step.kv.block_stride);
    munmap(q, n_q * sizeof *q);
    munmap(run.io.output, output_bytes);
    latent_destroy(run.latent);
    free(ids);
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct bench_arguments arguments = bench_arguments_parse(argc, argv);
    bench_open(arguments.n_threads, arguments.is_json, &bench);
    bench_print_machine(&bench);
    if (bench_arguments_want(&arguments, "delta_rule")) {
        bench_rule(&bench, 1);
        bench_rule(&bench, 512);
    }
    if (bench_arguments_want(&arguments, "latent"))
        for (uint32_t n_heads = 16; n_heads <= 128; n_heads *= 8) {
            bench_latent(&bench, n_heads, 1, 4096);
            bench_latent(&bench, n_heads, 128, 1024);
        }
    bench_close(&bench);
    return 0;
}
