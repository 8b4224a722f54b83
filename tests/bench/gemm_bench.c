/*
 * gemm_bench - products of every weight type against this machine's peaks, and against oneDNN where
 * its library was there when this was built (apt-get install libdnnl-dev; never needed otherwise).
 *
 *     gemm_bench [threads] [weights ...]     weights: F32 BF16 F16 INT8 INT8/32 E4M3 MXFP4
 *
 * One to four tokens: GB/s of weights, of the measured read bandwidth. More: GFLOP/s, of the measured
 * float multiply-add peak. The last column is oneDNN's time by ours, with its weights laid out as it
 * likes and its INT8 tokens rounded beforehand (ours are rounded inside).
 */
#include "kernels/quantize.h"
#include "tests/bench/machine.h"
#include "tests/bench/onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum weights { F32, BF16, F16, INT8, INT8_GROUP32, E4M3, MXFP4, N_WEIGHTS };

static const struct format {
    const char *name;
    enum dtype dtype;
    enum quantize_format quantize; /* of those below F16 */
    const char *peer;              /* what oneDNN calls it, NULL: none */
} formats[N_WEIGHTS] = {
    {"F32", DTYPE_F32, 0, "f32"},
    {"BF16", DTYPE_BF16, 0, "bf16"},
    {"F16", DTYPE_F16, 0, NULL},
    {"INT8", DTYPE_INT8, QUANTIZE_INT8_ROWS, "s8"},
    {"INT8/32", DTYPE_INT8, QUANTIZE_INT8_GROUPS, NULL},
    {"E4M3", DTYPE_E4M3, QUANTIZE_E4M3_BLOCKS, NULL},
    {"MXFP4", DTYPE_E2M1, QUANTIZE_MXFP4, NULL},
};

struct run {
    const struct bench *bench;
    struct gemm gemm;
    size_t w_bytes;
    uint32_t n_copies, copy; /* of the weights, walked through: more than the caches hold */
};

static void run_gemm(void *arg)
{
    struct run *run = arg;
    struct gemm gemm = run->gemm;
    gemm.w = (const char *)gemm.w + run->copy * run->w_bytes;
    run->bench->kernels->gemm(run->bench->pool, &gemm, 1);
    run->copy = (run->copy + 1) % run->n_copies;
}

/* One matrix of the format, as the kernels want it. */
static void *make_weights(const struct kernels *kernels, const struct format *format,
                          struct gemm *gemm, size_t *bytes_out)
{
    size_t n = (size_t)gemm->n_in * gemm->n_out;
    gemm->w_dtype = format->dtype;
    *bytes_out = dtype_array_bytes(format->dtype, n);
    if (format->dtype <= DTYPE_F16)
        return filled(format->dtype, n, 0.05f);
    struct quantized quantized;
    struct error error = {""};
    must(quantized_init(format->quantize, gemm->n_out, gemm->n_in, &quantized, &error));
    quantized.w = allocate(quantized_w_bytes(&quantized));
    quantized.scales = allocate(quantized_scales_bytes(&quantized));
    float *source = filled(DTYPE_F32, n, 0.05f);
    quantize(&quantized, DTYPE_F32, source, 0, gemm->n_out);
    munmap(source, n * sizeof *source);
    gemm->w = quantized.w;
    gemm->w_scales = quantized.scales;
    gemm->w_scale_rows = quantized.scale_rows;
    gemm->w_scale_columns = quantized.scale_columns;
    if (format->dtype != DTYPE_INT8 || !kernels->gemm_pack)
        return quantized.w;
    *bytes_out = kernels->gemm_packed_bytes(gemm);
    void *packed = allocate(*bytes_out);
    kernels->gemm_pack(gemm, packed);
    gemm->w_is_packed = true;
    return packed;
}

static void print_gemm(const struct bench *bench, const struct format *format,
                       const struct run *run, double seconds)
{
    const struct gemm *gemm = &run->gemm;
    double flops = 2.0 * gemm->n_tokens * gemm->n_in * gemm->n_out;
    bool is_read = gemm->n_tokens <= 4;
    double figure = (is_read ? (double)run->w_bytes : flops) / seconds / 1e9;
    printf("%-8s %4u x %4u -> %5u %10.1f us %8.1f %-8s %5.2f", format->name, gemm->n_tokens,
           gemm->n_in, gemm->n_out, seconds * 1e6, figure, is_read ? "GB/s" : "GFLOP/s",
           figure / (is_read ? bench->read_peak : bench->fma_peak));
    double peer = format->peer ? onednn_seconds(format->peer, gemm->n_tokens, gemm->n_in,
                                                gemm->n_out, run->n_copies)
                               : 0;
    if (peer > 0)
        printf("   oneDNN %10.1f us %5.2f", peer * 1e6, peer / seconds);
    printf("\n");
    fflush(stdout);
}

static void bench_gemm(const struct bench *bench, const struct format *format, uint32_t n_tokens,
                       uint32_t n_in, uint32_t n_out)
{
    struct run run = {.bench = bench, .n_copies = 1};
    float *x = filled(DTYPE_F32, (size_t)n_tokens * n_in, 1);
    float *y = allocate((size_t)n_tokens * n_out * sizeof(float));
    run.gemm = (struct gemm){.x = x,
                             .x_stride = n_in,
                             .y = y,
                             .y_stride = n_out,
                             .n_tokens = n_tokens,
                             .n_in = n_in,
                             .n_out = n_out};
    char *one = make_weights(bench->kernels, format, &run.gemm, &run.w_bytes);
    if (n_tokens <= 16)
        run.n_copies = (uint32_t)(STREAM_BYTES / run.w_bytes);
    char *w = allocate(run.n_copies * run.w_bytes);
    for (uint32_t i = 0; i < run.n_copies; i++)
        memcpy(w + i * run.w_bytes, one, run.w_bytes);
    run.gemm.w = w;
    print_gemm(bench, format, &run, best_seconds(run_gemm, &run));
    munmap(x, (size_t)n_tokens * n_in * sizeof(float));
    munmap(y, (size_t)n_tokens * n_out * sizeof(float));
    munmap(one, run.w_bytes);
    munmap(w, run.n_copies * run.w_bytes);
}

int main(int argc, char **argv)
{
    static const uint32_t wide[][2] = {{576, 960}, {576, 3072}, {1536, 576}, {4096, 1024}};
    static const uint32_t narrow[][2] = {{576, 3072}, {1536, 576}, {576, 49152}, {4096, 4096}};
    struct bench bench;
    bench_open(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0, &bench);
    for (size_t f = 0; f < N_WEIGHTS; f++) {
        bool is_wanted = argc <= 2;
        for (int i = 2; i < argc; i++)
            is_wanted |= strcmp(argv[i], formats[f].name) == 0;
        if (!is_wanted)
            continue;
        for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
            bench_gemm(&bench, &formats[f], 512, wide[i][0], wide[i][1]);
        for (uint32_t n_tokens = 8; n_tokens <= 64; n_tokens *= 2)
            bench_gemm(&bench, &formats[f], n_tokens, 576, 3072);
        for (size_t i = 0; i < sizeof narrow / sizeof narrow[0]; i++)
            bench_gemm(&bench, &formats[f], 1, narrow[i][0], narrow[i][1]);
    }
    bench_close(&bench);
    return 0;
}
