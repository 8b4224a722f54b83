/*
 * gemm_bench - products of every weight type against this machine's peaks, and against oneDNN where
 * its library was there when this was built (apt-get install libdnnl-dev; never needed otherwise).
 *
 *     gemm_bench [threads] [--quick] [--json] [weights ...]
 *
 * weights: F32 BF16 INT8 (these unless named), F16 INT8/32 E4M3 MXFP4, and blocks of GGML: Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K Q3_K
 * Q4_K Q5_K Q6_K, some with activations in 8 bits: Q8_0/INT8 Q4_1/INT8 Q4_K/INT8 Q6_K/INT8. Shapes are those of the synthetic 135 M and 1.1 B models (make_model.py), but for those that divide a block;
 * quick: of the first alone.
 *
 * One token: GB/s of weights, of the measured read bandwidth. More: GFLOP/s, of the measured float
 * multiply-add peak. The ratio is oneDNN's time by ours, with its weights laid out as it likes and
 * its INT8 tokens rounded beforehand (ours are rounded inside).
 */
#include "kernels/blocks.h"
#include "kernels/quantize.h"
#include "tests/bench/machine.h"
#include "tests/bench/onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { WALK_TOKENS = 16 }; /* up to here time goes by reading weights */

static const struct format {
    const char *name;
    enum dtype dtype;
    enum quantize_format quantize; /* of those below F16 */
    bool is_default;
    const char *peer; /* what oneDNN calls it, NULL: none */
    bool x_is_int8;
} formats[] = {
    {"F32", DTYPE_F32, 0, true, "f32", false},
    {"BF16", DTYPE_BF16, 0, true, "bf16", false},
    {"F16", DTYPE_F16, 0, false, NULL, false},
    {"INT8", DTYPE_INT8, QUANTIZE_INT8_ROWS, true, "s8", false},
    {"INT8/32", DTYPE_INT8, QUANTIZE_INT8_GROUPS, false, NULL, false},
    {"E4M3", DTYPE_E4M3, QUANTIZE_E4M3_BLOCKS, false, NULL, false},
    {"MXFP4", DTYPE_E2M1, QUANTIZE_MXFP4, false, NULL, false},
    {"Q8_0", DTYPE_Q8_0, 0, false, NULL, false},
    {"Q4_0", DTYPE_Q4_0, 0, false, NULL, false},
    {"Q4_1", DTYPE_Q4_1, 0, false, NULL, false},
    {"Q5_0", DTYPE_Q5_0, 0, false, NULL, false},
    {"Q5_1", DTYPE_Q5_1, 0, false, NULL, false},
    {"Q2_K", DTYPE_Q2_K, 0, false, NULL, false},
    {"Q3_K", DTYPE_Q3_K, 0, false, NULL, false},
    {"Q4_K", DTYPE_Q4_K, 0, false, NULL, false},
    {"Q5_K", DTYPE_Q5_K, 0, false, NULL, false},
    {"Q6_K", DTYPE_Q6_K, 0, false, NULL, false},
    {"Q8_0/INT8", DTYPE_Q8_0, 0, false, NULL, true},
    {"Q4_1/INT8", DTYPE_Q4_1, 0, false, NULL, true},
    {"Q4_K/INT8", DTYPE_Q4_K, 0, false, NULL, true},
    {"Q6_K/INT8", DTYPE_Q6_K, 0, false, NULL, true},
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

/* Bytes whose F16 numbers are small, wherever they are. */
static void *make_blocks(size_t bytes)
{
    uint8_t *blocks = allocate(bytes);
    for (size_t i = 0; i < bytes; i++)
        blocks[i] = (uint8_t)(i * 2654435761u >> 9 & 0x9f);
    return blocks;
}

/* One matrix of the format, as the kernels want it. */
static void *make_weights(const struct kernels *kernels, const struct format *format,
                          struct gemm *gemm, size_t *bytes_out)
{
    size_t n = (size_t)gemm->n_in * gemm->n_out;
    gemm->w_dtype = format->dtype;
    *bytes_out = dtype_array_bytes(format->dtype, n);
    if (dtype_is_blocks(format->dtype))
        return make_blocks(*bytes_out);
    if (format->dtype <= DTYPE_F16)
        return filled(format->dtype, n, 0.05f);
    struct quantized quantized;
    struct error error = {""};
    must(quantized_init(format->quantize, gemm->n_out, gemm->n_in, &quantized, &error));
    quantized.w = allocate(quantized_w_bytes(&quantized));
    quantized.scales = allocate(quantized_scales_bytes(&quantized));
    float *source = filled(DTYPE_F32, n, 0.05f);
    quantize(NULL, &quantized, DTYPE_F32, source);
    munmap(source, n * sizeof *source);
    gemm->w = quantized.w;
    gemm->w_scales = quantized.scales;
    gemm->w_scale_rows = quantized.scale_rows;
    gemm->w_scale_columns = quantized.scale_columns;
    if (format->dtype != DTYPE_INT8 || !kernels->gemm_pack)
        return quantized.w;
    *bytes_out = kernels->gemm_packed_bytes(gemm);
    void *packed = allocate(*bytes_out);
    kernels->gemm_pack(NULL, gemm, packed);
    gemm->w_is_packed = true;
    return packed;
}

static void report(const struct bench *bench, const struct format *format, const struct run *run,
                   double seconds)
{
    const struct gemm *gemm = &run->gemm;
    char what[64];
    bool is_read = gemm->n_tokens == 1;
    double flops = 2.0 * gemm->n_tokens * gemm->n_in * gemm->n_out;
    snprintf(what, sizeof what, "%s %u x %u -> %u", format->name, gemm->n_tokens, gemm->n_in,
             gemm->n_out);
    struct figure figure = {.section = "gemm",
                            .what = what,
                            .seconds = seconds,
                            .value = (is_read ? (double)run->w_bytes : flops) / seconds / 1e9,
                            .unit = is_read ? "GB/s" : "GFLOP/s"};
    figure.of_peak = figure.value / (is_read ? bench->read_peak : bench->fma_peak);
    if (format->peer)
        figure.peer_seconds = onednn_seconds(format->peer, gemm->n_tokens, gemm->n_in, gemm->n_out,
                                             run->n_copies);
    if (figure.peer_seconds > 0) {
        figure.ratio = figure.peer_seconds / seconds;
        figure.goal = 1;
    }
    print_figure(bench, &figure);
}

static void bench_gemm(const struct bench *bench, const struct format *format, uint32_t n_tokens,
                       uint32_t n_in, uint32_t n_out)
{
    if (dtype_is_blocks(format->dtype) && n_in % dtype_block_shape(format->dtype).elements != 0)
        return;
    struct run run = {.bench = bench, .n_copies = 1};
    float *x = filled(DTYPE_F32, (size_t)n_tokens * n_in, 1);
    float *y = allocate((size_t)n_tokens * n_out * sizeof(float));
    const size_t workspace_bytes = gemm_workspace_bytes(bench->kernels, n_tokens, n_in);
    void *workspace = workspace_bytes > 0 ? allocate(workspace_bytes) : NULL;
    run.gemm = (struct gemm){.x = x,
                             .x_stride = n_in,
                             .x_is_int8 = format->x_is_int8,
                             .y = y,
                             .y_stride = n_out,
                             .n_tokens = n_tokens,
                             .n_in = n_in,
                             .n_out = n_out,
                             .workspace = workspace,
                             .workspace_bytes = workspace_bytes};
    char *one = make_weights(bench->kernels, format, &run.gemm, &run.w_bytes);
    if (n_tokens <= WALK_TOKENS)
        run.n_copies += (uint32_t)(STREAM_BYTES / run.w_bytes);
    char *w = allocate(run.n_copies * run.w_bytes);
    for (uint32_t i = 0; i < run.n_copies; i++)
        memcpy(w + i * run.w_bytes, one, run.w_bytes);
    run.gemm.w = w;
    report(bench, format, &run, best_seconds(run_gemm, &run));
    munmap(x, (size_t)n_tokens * n_in * sizeof(float));
    munmap(y, (size_t)n_tokens * n_out * sizeof(float));
    if (workspace)
        munmap(workspace, workspace_bytes);
    munmap(one, run.w_bytes);
    munmap(w, run.n_copies * run.w_bytes);
}

/* n_in, n_out of q, k and v together, o, gate and up together, down; the head is for one row a
 * sequence alone. */
static const struct model {
    uint32_t layers[4][2];
    uint32_t head[2];
    bool is_quick;
} models[] = {
    {{{576, 960}, {576, 576}, {576, 3072}, {1536, 576}}, {576, 49152}, true},
    {{{2048, 2560}, {2048, 2048}, {2048, 11264}, {5632, 2048}}, {2048, 32000}, false},
};

static void bench_model(const struct bench *bench, const struct format *format,
                        const struct model *model)
{
    static const uint32_t n_tokens[] = {1, 16, 512};
    for (size_t t = 0; t < sizeof n_tokens / sizeof n_tokens[0]; t++) {
        for (size_t i = 0; i < sizeof model->layers / sizeof model->layers[0]; i++)
            bench_gemm(bench, format, n_tokens[t], model->layers[i][0], model->layers[i][1]);
        if (n_tokens[t] <= WALK_TOKENS)
            bench_gemm(bench, format, n_tokens[t], model->head[0], model->head[1]);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    struct bench_arguments arguments = bench_arguments_parse(argc, argv);
    bench_open(arguments.n_threads, arguments.is_json, &bench);
    bench_print_machine(&bench);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        bool is_wanted = arguments.n_names ? bench_arguments_want(&arguments, formats[f].name)
                                           : formats[f].is_default;
        for (size_t m = 0; is_wanted && m < sizeof models / sizeof models[0]; m++)
            if (models[m].is_quick || !arguments.is_quick)
                bench_model(&bench, &formats[f], &models[m]);
    }
    bench_close(&bench);
    return 0;
}
