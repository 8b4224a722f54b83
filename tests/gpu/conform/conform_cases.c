#include "tests/gpu/conform/conform_cases.h"

#include "kernels/dtype.h"

#include <math.h>

enum { WARP_THREADS = 32, PRODUCT_IN = 16, PRODUCT_OUT = 8, INTEGER_IN = 11, INTEGER_OUT = 5 };

/* Mixed bits of a count. */
static uint32_t mix(uint32_t i)
{
    i = (i ^ i >> 16) * 0x7feb352du;
    i = (i ^ i >> 15) * 0x846ca68bu;
    return i ^ i >> 16;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void fill_words(uint32_t *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++)
        in[i] = mix(i + 1);
}

/* Of floats that are numbers. */
static void fill_numbers(uint32_t *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++)
        in[i] = mix(i + 1) & 0xbfffffffu;
}

/* -1 .. 1 */
static float fraction(uint32_t i)
{
    return (float)(int32_t)mix(i) * 0x1p-31f;
}

/*
 * Element i of a or b in each kind of matrices: small whole numbers, whose sums are exact in any order; numbers of one size; of
 * sizes 2^-12 .. 2^12; infinities and NaN among zeros; subnormal ones of F16 (in BF16 small ones).
 */
enum kind { WHOLE, EVEN, SIZES, NOT_FINITE, SUBNORMAL, KINDS };

static float element(enum kind kind, uint32_t i)
{
    const float special[4] = {INFINITY, -INFINITY, NAN, 0};
    switch (kind) {
    case WHOLE:
        return (float)(mix(i) % 17) - 8;
    case EVEN:
        return fraction(i);
    case SIZES:
        return ldexpf(fraction(i), (int)(mix(i * 3 + 1) % 25) - 12);
    case NOT_FINITE:
        return mix(i) % 61 == 0 ? special[mix(i * 5 + 2) % 4] : (float)(mix(i) % 3) - 1;
    default:
        return (float)(mix(i) % 15) * 0x1p-24f;
    }
}

/* Warps take the kinds in turn; exponent and c go with them. */
static enum kind kind_of(uint32_t warp)
{
    return (enum kind)(warp % KINDS);
}

static uint32_t pair(enum kind kind, bool is_bf16, uint32_t i)
{
    const float lo = element(kind, 2 * i), hi = element(kind, 2 * i + 1);
    return is_bf16 ? bf16_from_f32(lo) | (uint32_t)bf16_from_f32(hi) << 16
                   : f16_from_f32(lo) | (uint32_t)f16_from_f32(hi) << 16;
}

static void fill_products(uint32_t *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++) {
        const enum kind kind = kind_of(i / PRODUCT_IN / WARP_THREADS);
        const uint32_t at = i % PRODUCT_IN;
        /* b of subnormal ones is whole: their products stay exact */
        const enum kind of_b = kind == SUBNORMAL ? WHOLE : kind;
        const bool is_b = at == 4 || at == 5 || at == 10 || at == 11;
        if (at < 12)
            in[i] = pair(is_b ? of_b : kind, at < 6, i);
        else
            in[i] = bits_of(kind == SUBNORMAL || kind == NOT_FINITE ? 0 : element(kind, i));
    }
}

static void magnitudes_of_products(uint32_t *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++)
        in[i] &= i % PRODUCT_IN < 12 ? 0x7fff7fffu : 0x7fffffffu;
}

/* Tensor cores line the 17 terms up and cut what is below the last place of the largest; this machine rounds 17 times. */
static double product_difference(uint32_t i, uint32_t device, uint32_t host, uint32_t bound)
{
    const enum kind kind = kind_of(i / PRODUCT_OUT / WARP_THREADS);
    const float a = float_of(device), b = float_of(host);
    if (device == host || (isnan(a) && isnan(b)))
        return 0;
    if (kind == WHOLE || kind == SUBNORMAL || !isfinite(a) || !isfinite(b))
        return a == b ? 0 : INFINITY;
    return fabs((double)a - (double)b) / (17 * 0x1p-23 * (double)float_of(bound));
}

static void fill_bf16(uint32_t *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++)
        in[i] = pair(EVEN, true, i);
}

static void magnitudes_of_bf16(uint32_t *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++)
        in[i] &= 0x7fff7fffu;
}

/* As product_difference, of 128 terms in eight products. */
static double fours_difference(uint32_t i, uint32_t device, uint32_t host, uint32_t bound)
{
    const double error = fabs((double)float_of(device) - (double)float_of(host));
    (void)i;
    return isnan(error) ? INFINITY : error / (136 * 0x1p-23 * (double)float_of(bound));
}

#define WORDS(name, ctas, threads, shared_bytes, n_in, n_out)                                      \
    {                                                                                              \
#name, CONFORM_KERNEL_conform_##name, ctas, threads, shared_bytes, n_in, n_out,            \
            fill_words, NULL, NULL, false                                                          \
    }

uint32_t conform_cases(uint32_t scale, const struct conform_case **cases_out)
{
    static struct conform_case cases[] = {
        WORDS(words, 1, 64, 4096, 256, 581),
        WORDS(ldmatrix, 1, 32, 512, 128, 384),
        WORDS(copies, 1, 64, 3072, 768, 768),
        WORDS(barriers, 1, 64, 128, 256, 288),
        WORDS(shuffles, 1, 32, 0, 32, 640),
        WORDS(votes, 1, 32, 0, 32, 512),
        WORDS(integers, 4, 32, 0, 4 * 32 * INTEGER_IN, 4 * 32 * INTEGER_OUT),
        WORDS(vectors, 1, 32, 0, 256, 256),
        WORDS(atomics, 4, 64, 0, 1024, 16 + 256 * 16 + 5 * 256),
        WORDS(passing, 0, 32, 0, 0, 0),
        {"products", CONFORM_KERNEL_conform_products, 0, 32, 0, 0, 0, fill_products,
         product_difference, magnitudes_of_products, false},
        {"fours", CONFORM_KERNEL_conform_fours, 1, 128, 40960, 12288, 128 * 128, fill_bf16,
         fours_difference, magnitudes_of_bf16, false},
        {"widths", CONFORM_KERNEL_conform_widths, 1, 128, 40960, 10240, 128 * 160, fill_bf16,
         fours_difference, magnitudes_of_bf16, false},
        {"narrow", CONFORM_KERNEL_conform_narrow, 1, 384, 8192, 64 * 32 + 256 * 16, 256 * 32,
         fill_bf16, fours_difference, magnitudes_of_bf16, false},
        WORDS(phases, 1, 64, 128, 16, 288),
        {"boxes", CONFORM_KERNEL_conform_boxes, 1, 32, 6 * 1024 + 64,
         CONFORM_MAP_WORDS + 3 * 2 * 8 * 32, 6 * 128, fill_words, NULL, NULL, true},
    };
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct conform_case *one = &cases[i];
        if (one->kernel == CONFORM_KERNEL_conform_shuffles)
            one->fill = fill_numbers;
        if (one->kernel == CONFORM_KERNEL_conform_passing) {
            one->ctas = 16 * scale;
            one->n_in = one->ctas / 2 * 32;
            one->n_out = one->ctas * 32 + 1 + one->ctas / 2;
        }
        if (one->kernel == CONFORM_KERNEL_conform_products) {
            one->ctas = KINDS * 2 * scale;
            one->n_in = one->ctas * WARP_THREADS * PRODUCT_IN;
            one->n_out = one->ctas * WARP_THREADS * PRODUCT_OUT;
        }
    }
    *cases_out = cases;
    return sizeof cases / sizeof *cases;
}
