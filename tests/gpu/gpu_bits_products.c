/*
 * gpu_bits_products - every way to multiply gives a token the same bits, by any tile, at any place of it, alone or not.
 *
 * Of each format of weights the sums are taken from one call, held against the reference, and from then on known: with a bias,
 * added to what y holds, rounded to 16 bits, a product is what the host makes of them, in the order that struct gemm promises.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/kernels.h"
#include "kernels/quantize.h"
#include "tests/gpu/gpu_bits.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { X_PAD = 8, Y_PAD = 3, TOGETHER_MAX = 8 };
#define POISON 0xff
/* Of the sum of magnitudes: products_mma.cuh. */
#define LIMIT 1e-5
#define NONE  UINT32_MAX

static const struct format {
    const char *name;
    enum dtype x, w;
    uint32_t quantize; /* enum quantize_format; NONE */
    bool has_tiles;
} formats[] = {
    {"product F32", DTYPE_F32, DTYPE_F32, NONE, false},
    {"product BF16, x F32", DTYPE_F32, DTYPE_BF16, NONE, false},
    {"product BF16, plain", DTYPE_BF16, DTYPE_BF16, NONE, false},
    {"product F16, plain", DTYPE_F16, DTYPE_F16, NONE, false},
    {"product INT8 rows, plain", DTYPE_BF16, DTYPE_INT8, QUANTIZE_INT8_ROWS, false},
    {"product INT8 groups, plain", DTYPE_BF16, DTYPE_INT8, QUANTIZE_INT8_GROUPS, false},
    {"product E4M3", DTYPE_BF16, DTYPE_E4M3, QUANTIZE_E4M3_BLOCKS, false},
    {"product E2M1", DTYPE_BF16, DTYPE_E2M1, QUANTIZE_MXFP4, false},
    {"product BF16", DTYPE_BF16, DTYPE_BF16, NONE, true},
    {"product F16", DTYPE_F16, DTYPE_F16, NONE, true},
    {"product F16, x BF16", DTYPE_BF16, DTYPE_F16, NONE, true},
    {"product INT8 rows", DTYPE_BF16, DTYPE_INT8, QUANTIZE_INT8_ROWS, true},
    {"product INT8 groups", DTYPE_BF16, DTYPE_INT8, QUANTIZE_INT8_GROUPS, true},
};

struct shape {
    uint32_t n_tokens, n_in, n_out;
};
/* Beyond one tile of each, and a ring that goes round often; then more CTAs than a GPU has processors, and outputs
 * that are stored four at a time. n_in: whole groups. */
static const struct shape shapes[] = {{131, 1056, 134}, {260, 288, 700}, {520, 160, 261}};
static const struct shape toy_shapes[] = {{19, 96, 9}};

/* Pieces that the tokens come in, by turns, so many in one call; cuts, by turns: a piece is two products, of
 * the outputs before that one and of those from it on. */
static const struct arrangement {
    const char *name;
    uint32_t n_together, n_lengths, lengths[5], cuts[2];
} arrangements[] = {
    {"in one call", 1, 1, {UINT32_MAX}, {0}},
    {"one by one", 1, 1, {1}, {0}},
    {"at other places", 1, 5, {1, 16, 49, 3, 65}, {0}},
    {"as several products", TOGETHER_MAX, 4, {3, 70, 1, 40}, {0}},
    {"as products of unequal width", TOGETHER_MAX / 2, 3, {70, 1, 330}, {5, 48}},
};

/* What is done with the sums. */
struct finish {
    enum dtype y;
    bool has_bias, accumulates;
};
enum { FINISHES = 3 * 2 * 2, TOY_FINISHES = 3 };
static const struct finish toy_finishes[TOY_FINISHES] = {
    {DTYPE_F32, true, false}, {DTYPE_BF16, true, true}, {DTYPE_F16, false, false}};

/* Operands on the device; of a format and a shape. */
struct operands {
    struct bits_check *check;
    const struct format *format;
    struct shape shape;
    struct gemm gemm;      /* F32 y, neither a bias nor accumulated */
    struct gemm reference; /* the same for the host */
    struct device_memory x, w, scales, bias, y;
    void *host_bias, *host_w, *host_scales;
    float *host_x, *sums;
    uint8_t *before, *expected, *got; /* y */
};

static size_t y_bytes(const struct operands *operands, enum dtype dtype)
{
    return (size_t)operands->shape.n_tokens * operands->gemm.y_stride * dtype_bytes(dtype);
}

/* ---- operands ---- */

static void make_weights(struct operands *operands)
{
    const struct format *format = operands->format;
    const struct shape *shape = &operands->shape;
    struct bits *bits = operands->check->bits;
    const size_t n = (size_t)shape->n_out * shape->n_in;
    float *source = bits_zeroed(n, sizeof *source);
    for (uint32_t o = 0; o < shape->n_out; o++)
        for (uint32_t i = 0; i < shape->n_in; i++)
            source[(size_t)o * shape->n_in + i] = bits_number(1000000 + o, i);
    struct quantized quantized = {.dtype = format->w};
    size_t w_bytes = dtype_array_bytes(format->w, n), scale_bytes = 0;
    if (format->quantize != NONE) {
        must(quantized_init((enum quantize_format)format->quantize, shape->n_out, shape->n_in,
                            &quantized, NULL),
             NULL, "quantize");
        scale_bytes = quantized_scales_bytes(&quantized);
    }
    operands->host_w = quantized.w = bits_zeroed(w_bytes, 1);
    operands->host_scales = quantized.scales = bits_zeroed(scale_bytes + 1, 1);
    if (format->quantize != NONE) {
        quantize(NULL, &quantized, DTYPE_F32, source);
        operands->scales = bits_memory(bits, quantized.scales, scale_bytes);
    }
    for (size_t i = 0; format->quantize == NONE && i < n; i++)
        dtype_store(format->w, quantized.w, i, source[i]);
    free(source);
    operands->w = bits_memory(bits, quantized.w, w_bytes);
    operands->gemm.w_dtype = format->w;
    operands->gemm.w_scale_rows = quantized.scale_rows;
    operands->gemm.w_scale_columns = quantized.scale_columns;
}

/* On the device as the format has them; for the host in F32. */
static void make_rows(struct operands *operands)
{
    const struct shape *shape = &operands->shape;
    const enum dtype dtype = operands->format->x;
    const size_t stride = shape->n_in + X_PAD;
    uint8_t *x = bits_zeroed(shape->n_tokens * stride, dtype_bytes(dtype));
    operands->host_x = bits_zeroed(shape->n_tokens, shape->n_in * sizeof(float));
    for (uint32_t t = 0; t < shape->n_tokens; t++)
        for (uint32_t i = 0; i < shape->n_in; i++) {
            dtype_store(dtype, x, t * stride + i, bits_number(t, i));
            operands->host_x[(size_t)t * shape->n_in + i] = dtype_load(dtype, x, t * stride + i);
        }
    operands->x = bits_memory(operands->check->bits, x,
                              shape->n_tokens * stride * dtype_bytes(dtype));
    operands->gemm.x_stride = stride;
    free(x);
}

static void make_bias(struct operands *operands)
{
    const uint32_t n = operands->shape.n_out;
    const enum dtype dtype = operands->format->w < DTYPE_INT8 ? operands->format->w : DTYPE_F32;
    operands->host_bias = bits_zeroed(n, dtype_bytes(dtype));
    for (uint32_t o = 0; o < n; o++)
        dtype_store(dtype, operands->host_bias, o, bits_number(2000000, o));
    operands->bias = bits_memory(operands->check->bits, operands->host_bias,
                                 n * dtype_bytes(dtype));
    operands->gemm.bias_dtype = dtype;
}

static void make(struct operands *operands)
{
    const struct shape *shape = &operands->shape;
    struct gemm *gemm = &operands->gemm;
    *gemm = (struct gemm){.x_dtype = operands->format->x,
                          .y_dtype = DTYPE_F32,
                          .y_stride = shape->n_out + Y_PAD,
                          .n_tokens = shape->n_tokens,
                          .n_in = shape->n_in,
                          .n_out = shape->n_out};
    make_weights(operands);
    make_rows(operands);
    make_bias(operands);
    const size_t bytes = y_bytes(operands, DTYPE_F32);
    operands->sums = bits_zeroed(bytes, 1);
    operands->before = bits_zeroed(bytes, 1);
    operands->expected = bits_zeroed(bytes, 1);
    operands->got = bits_zeroed(bytes, 1);
    operands->y = bits_memory(operands->check->bits, operands->got, bytes);
    operands->reference = *gemm;
    operands->reference.x = operands->host_x;
    operands->reference.x_dtype = DTYPE_F32;
    operands->reference.x_stride = shape->n_in;
    operands->reference.w = operands->host_w;
    operands->reference.w_scales = operands->scales.base ? operands->host_scales : NULL;
    gemm->x = operands->x.base;
    gemm->w = operands->w.base;
    gemm->w_scales = operands->scales.base;
    gemm->y = operands->y.base;
}

static void destroy(struct operands *operands)
{
    struct device_memory *all[] = {&operands->x, &operands->w, &operands->scales, &operands->bias,
                                   &operands->y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(operands->check->bits->gpu.device, all[i]);
    free(operands->host_bias);
    free(operands->host_w);
    free(operands->host_scales);
    free(operands->host_x);
    free(operands->sums);
    free(operands->before);
    free(operands->expected);
    free(operands->got);
}

/* ---- runs ---- */

/* What gemm() takes for it. */
#define CHOSEN CUDA_GEMM_VARIANTS

static const char *variant_name(enum cuda_gemm_variant variant)
{
    static const char *const names[] = {"plain",     "wide",      "mid",      "slim",     "thin",
                                        "fours 256", "fours 128", "fours 64", "as chosen"};
    return names[variant];
}

static struct gemm piece_of(const struct gemm *gemm, uint32_t first, uint32_t n_tokens)
{
    struct gemm piece = *gemm;
    piece.x = (const uint8_t *)gemm->x + first * gemm->x_stride * dtype_bytes(gemm->x_dtype);
    piece.y = (uint8_t *)gemm->y + first * gemm->y_stride * dtype_bytes(gemm->y_dtype);
    piece.n_tokens = n_tokens;
    return piece;
}

/* Outputs from first on. Where scales are of several outputs, first is a multiple of these. */
static struct gemm outputs_of(const struct gemm *gemm, uint32_t first, uint32_t n_out)
{
    struct gemm part = *gemm;
    part.w = (const uint8_t *)gemm->w + dtype_array_bytes(gemm->w_dtype, first * gemm->n_in);
    if (gemm->w_scales) {
        const uint32_t columns = (gemm->n_in + gemm->w_scale_columns - 1) / gemm->w_scale_columns;
        const size_t bytes = gemm->w_dtype == DTYPE_E2M1 ? 1 : sizeof(float);
        part.w_scales = (const uint8_t *)gemm->w_scales +
                        (size_t)(first / gemm->w_scale_rows) * columns * bytes;
    }
    if (gemm->bias)
        part.bias = (const uint8_t *)gemm->bias + first * dtype_bytes(gemm->bias_dtype);
    part.y = (uint8_t *)gemm->y + first * dtype_bytes(gemm->y_dtype);
    part.n_out = n_out;
    return part;
}

static uint32_t cut_of(const struct gemm *gemm, uint32_t wanted)
{
    const uint32_t rows = gemm->w_scales ? gemm->w_scale_rows : 1;
    const uint32_t cut = (wanted + rows - 1) / rows * rows;
    return cut < gemm->n_out ? cut : 0;
}

static void enqueue(const struct gemm *gemm, const struct arrangement *arrangement,
                    enum cuda_gemm_variant variant)
{
    for (uint32_t first = 0, turn = 0; first < gemm->n_tokens;) {
        struct gemm pieces[TOGETHER_MAX];
        uint32_t n_pieces = 0;
        for (uint32_t i = 0; i < arrangement->n_together && first < gemm->n_tokens; i++) {
            uint32_t n = arrangement->lengths[turn++ % arrangement->n_lengths];
            if (n > gemm->n_tokens - first)
                n = gemm->n_tokens - first;
            const struct gemm piece = piece_of(gemm, first, n);
            const uint32_t cut = cut_of(gemm, arrangement->cuts[i % 2]);
            if (cut != 0)
                pieces[n_pieces++] = outputs_of(&piece, 0, cut);
            pieces[n_pieces++] = outputs_of(&piece, cut, gemm->n_out - cut);
            first += n;
        }
        if (variant == CHOSEN)
            cuda_kernels.gemm(NULL, pieces, n_pieces);
        else
            cuda_gemm_run(pieces, n_pieces, variant);
    }
}

/* To operands->got. */
static void run(struct operands *operands, const struct gemm *gemm,
                const struct arrangement *arrangement, enum cuda_gemm_variant variant)
{
    struct bits *bits = operands->check->bits;
    const size_t bytes = y_bytes(operands, gemm->y_dtype);
    gpu_write(&bits->gpu, operands->y.base, operands->before, bytes);
    enqueue(gemm, arrangement, variant);
    gpu_read(&bits->gpu, operands->y.base, operands->got, bytes);
    if (bits_is_planted(bits, arrangement->name))
        operands->got[bytes - gemm->y_stride * dtype_bytes(gemm->y_dtype)] ^= 1;
    operands->check->n_runs++;
}

/* y as it is before, and what the host makes of the sums and of that. */
static void expect(struct operands *operands, const struct gemm *gemm)
{
    const enum dtype dtype = gemm->y_dtype;
    memset(operands->before, POISON, y_bytes(operands, DTYPE_F32));
    memset(operands->expected, POISON, y_bytes(operands, DTYPE_F32));
    for (uint32_t t = 0; t < gemm->n_tokens; t++)
        for (uint32_t o = 0; o < gemm->n_out; o++) {
            const size_t at = t * gemm->y_stride + o;
            float sum = operands->sums[at];
            if (gemm->bias)
                sum += dtype_load(gemm->bias_dtype, operands->host_bias, o);
            if (gemm->accumulate) {
                dtype_store(dtype, operands->before, at, bits_number(3000000 + t, o));
                sum += dtype_load(dtype, operands->before, at);
            }
            dtype_store(dtype, operands->expected, at, sum);
        }
}

/* Padding behind a row is compared, too. */
static void compare(struct operands *operands, const struct gemm *gemm, const char *how,
                    enum cuda_gemm_variant variant)
{
    const size_t bytes = dtype_bytes(gemm->y_dtype), n = y_bytes(operands, gemm->y_dtype) / bytes;
    size_t at = 0;
    operands->check->n_compared += n;
    while (at < n &&
           memcmp(operands->got + at * bytes, operands->expected + at * bytes, bytes) == 0)
        at++;
    if (at == n)
        return;
    bits_differ(operands->check,
                "%u x %u x %u to %s%s%s, %s, %s: token %zu, output %zu is %s, not %s",
                gemm->n_tokens, gemm->n_in, gemm->n_out, dtype_name(gemm->y_dtype),
                gemm->bias ? " with a bias" : "", gemm->accumulate ? ", accumulated" : "",
                variant_name(variant), how, at / gemm->y_stride, at % gemm->y_stride,
                bits_hex(operands->got + at * bytes, bytes).text,
                bits_hex(operands->expected + at * bytes, bytes).text);
}

static void check_finish(struct operands *operands, const struct finish *finish)
{
    struct gemm gemm = operands->gemm;
    gemm.y_dtype = finish->y;
    gemm.bias = finish->has_bias ? operands->bias.base : NULL;
    gemm.accumulate = finish->accumulates;
    expect(operands, &gemm);
    for (enum cuda_gemm_variant v = CUDA_GEMM_PLAIN; v <= CHOSEN; v++) {
        const bool is_plain = v == CHOSEN ? cuda_gemm_choose(&gemm) == CUDA_GEMM_PLAIN
                                          : v == CUDA_GEMM_PLAIN;
        if (is_plain == operands->format->has_tiles || (v < CHOSEN && !cuda_gemm_takes(&gemm, v)))
            continue;
        for (size_t i = 0; i < sizeof arrangements / sizeof *arrangements; i++) {
            run(operands, &gemm, &arrangements[i], v);
            compare(operands, &gemm, arrangements[i].name, v);
        }
    }
}

/* ---- sums ---- */

static void take_sums(struct operands *operands)
{
    const enum cuda_gemm_variant variant = operands->format->has_tiles ? CUDA_GEMM_WIDE
                                                                       : CUDA_GEMM_PLAIN;
    memset(operands->before, POISON, y_bytes(operands, DTYPE_F32));
    run(operands, &operands->gemm, &(struct arrangement){"near", 1, 1, {UINT32_MAX}, {0}}, variant);
    memcpy(operands->sums, operands->got, y_bytes(operands, DTYPE_F32));
    if (bits_is_planted(operands->check->bits, "near"))
        operands->sums[0] += 0.01f;
}

/* Magnitudes that are added up for each token of output o. */
static void magnitudes_of(const struct operands *operands, uint32_t o, float *w,
                          double *magnitudes_out)
{
    const size_t n_in = operands->shape.n_in;
    dequantize_row(&operands->reference, o, w);
    for (uint32_t t = 0; t < operands->shape.n_tokens; t++) {
        magnitudes_out[t] = 0;
        for (size_t i = 0; i < n_in; i++)
            magnitudes_out[t] += fabs((double)operands->host_x[t * n_in + i] * (double)w[i]);
    }
}

static void check_sum(struct operands *operands, uint32_t t, uint32_t o, double limit)
{
    const size_t at = t * operands->gemm.y_stride + o;
    const float got = operands->sums[at];
    const float want = ((const float *)(const void *)operands->expected)[at];
    const double of_allowed = fabs((double)got - (double)want) / limit;
    operands->check->of_allowed = fmax(operands->check->of_allowed, fmin(of_allowed, 1e6));
    if (!(of_allowed <= 1))
        bits_differ(operands->check,
                    "%u x %u x %u: token %u, output %u is %g, and the reference has %g",
                    operands->shape.n_tokens, operands->shape.n_in, operands->shape.n_out, t, o,
                    (double)got, (double)want);
}

static void check_near(struct operands *operands)
{
    const struct kernels *reference;
    double *magnitudes = bits_zeroed(operands->shape.n_tokens, sizeof *magnitudes);
    float *w = bits_zeroed(operands->shape.n_in, sizeof *w);
    operands->check->has_reference = true;
    must(kernels_select("reference", &reference, NULL), NULL, "reference");
    operands->reference.y = operands->expected;
    reference->gemm(NULL, &operands->reference, 1);
    for (uint32_t o = 0; o < operands->shape.n_out; o++) {
        magnitudes_of(operands, o, w, magnitudes);
        for (uint32_t t = 0; t < operands->shape.n_tokens; t++)
            check_sum(operands, t, o, LIMIT * magnitudes[t]);
    }
    free(magnitudes);
    free(w);
}

static void check_shape(struct bits_check *check, const struct format *format,
                        const struct shape *shape)
{
    struct operands operands = {.check = check, .format = format, .shape = *shape};
    make(&operands);
    if (!format->has_tiles || cuda_gemm_takes(&operands.gemm, CUDA_GEMM_WIDE)) {
        take_sums(&operands);
        check_near(&operands);
    } else {
        bits_differ(check, "no tile takes the product");
    }
    const bool is_toy = check->bits->gpu.is_toy;
    for (uint32_t i = 0; check->n_failed == 0 && i < (is_toy ? TOY_FINISHES : FINISHES); i++) {
        const struct finish finish = {(enum dtype)(i / 4), i % 2, i / 2 % 2};
        check_finish(&operands, is_toy ? &toy_finishes[i] : &finish);
    }
    destroy(&operands);
}

void bits_products(struct bits *bits)
{
    const bool is_toy = bits->gpu.is_toy;
    const struct shape *all = is_toy ? toy_shapes : shapes;
    const size_t n_shapes = is_toy ? 1 : sizeof shapes / sizeof *shapes;
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        struct bits_check check = bits_begin(bits, formats[f].name);
        if (!bits_is_wanted(bits, check.name))
            continue;
        for (size_t i = 0; i < n_shapes; i++)
            check_shape(&check, &formats[f], &all[i]);
        bits_end(&check);
    }
}
