#include "harness/warp_ops.h"

#include "harness/checks.h"
#include "harness/formats.h"
#include "harness/threads.h"

#include <algorithm>

namespace simt
{
struct exchange_argument {
    uint32_t value, result;
    unsigned source;
};

static void exchange_all(void **arguments, uint32_t mask)
{
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        auto *argument = (struct exchange_argument *)arguments[lane];
        if (!(mask >> argument->source & 1))
            report("lane %u reads lane %u in a shuffle of lanes %08x", lane, argument->source,
                   mask);
        argument->result = ((struct exchange_argument *)arguments[argument->source])->value;
    }
}

uint32_t exchange(const char *name, uint32_t value, unsigned source, uint32_t mask)
{
    struct exchange_argument argument = {value, 0, source};
    collective(mask, name, &argument, exchange_all);
    return argument.result;
}

struct value_argument {
    uint32_t value;
};

static void ballot_all(void **arguments, uint32_t mask)
{
    uint32_t bits = 0;
    for (unsigned lane = 0; lane < WARP_LANES; lane++)
        if (mask >> lane & 1 && ((struct value_argument *)arguments[lane])->value)
            bits |= 1u << lane;
    for (unsigned lane = 0; lane < WARP_LANES; lane++)
        if (mask >> lane & 1)
            ((struct value_argument *)arguments[lane])->value = bits;
}

uint32_t ballot(const char *name, bool value, uint32_t mask)
{
    struct value_argument argument = {value};
    collective(mask, name, &argument, ballot_all);
    return argument.value;
}

static uint32_t combine(enum reduction reduction, uint32_t a, uint32_t b)
{
    switch (reduction) {
    case REDUCE_ADD:
        return a + b;
    case REDUCE_MIN:
        return std::min(a, b);
    case REDUCE_MAX:
        return std::max(a, b);
    case REDUCE_MIN_SIGNED:
        return (uint32_t)std::min((int32_t)a, (int32_t)b);
    default:
        return (uint32_t)std::max((int32_t)a, (int32_t)b);
    }
}

template <enum reduction REDUCTION> static void reduce_all(void **arguments, uint32_t mask)
{
    bool is_first = true;
    uint32_t total = 0;
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        if (!(mask >> lane & 1))
            continue;
        const uint32_t value = ((struct value_argument *)arguments[lane])->value;
        total = is_first ? value : combine(REDUCTION, total, value);
        is_first = false;
    }
    for (unsigned lane = 0; lane < WARP_LANES; lane++)
        if (mask >> lane & 1)
            ((struct value_argument *)arguments[lane])->value = total;
}

uint32_t reduce(enum reduction reduction, uint32_t value, uint32_t mask)
{
    static void (*const all[])(void **, uint32_t) = {
        reduce_all<REDUCE_ADD>, reduce_all<REDUCE_MIN>, reduce_all<REDUCE_MAX>,
        reduce_all<REDUCE_MIN_SIGNED>, reduce_all<REDUCE_MAX_SIGNED>};
    static const char *const names[] = {"reduce_add", "reduce_min", "reduce_max",
                                        "reduce_min of int", "reduce_max of int"};
    struct value_argument argument = {value};
    collective(mask, names[reduction], &argument, all[reduction]);
    return argument.value;
}

/* ---- matrices of 8 x 8 halves: lane l holds row l / 4, columns 2 (l % 4) and the next ---- */

struct matrix_argument {
    const uint16_t *row;
    uint32_t *out;
    uint32_t address;
    unsigned n_matrices;
};

template <bool TRANSPOSED> static void load_matrices_all(void **arguments, uint32_t)
{
    auto at = [&](unsigned lane) { return (struct matrix_argument *)arguments[lane]; };
    if (schedule.count_banks) {
        uint32_t addresses[WARP_LANES];
        for (unsigned lane = 0; lane < WARP_LANES; lane++)
            addresses[lane] = at(lane)->address;
        count_banks(addresses, at(0)->n_matrices == 4 ? ~0u : (1u << 8 * at(0)->n_matrices) - 1,
                    16);
    }
    for (unsigned lane = 0; lane < WARP_LANES; lane++)
        for (unsigned m = 0; m < at(lane)->n_matrices; m++) {
            const unsigned row = lane / 4, column = lane % 4 * 2;
            const uint16_t low = TRANSPOSED ? at(m * 8 + column)->row[row]
                                            : at(m * 8 + row)->row[column];
            const uint16_t high = TRANSPOSED ? at(m * 8 + column + 1)->row[row]
                                             : at(m * 8 + row)->row[column + 1];
            at(lane)->out[m] = low | (uint32_t)high << 16;
        }
}

void load_matrices(uint32_t *out, const uint16_t *row, uint32_t address, unsigned n_matrices,
                   bool transposed)
{
    struct matrix_argument argument = {row, out, address, n_matrices};
    if (transposed)
        collective(~0u, "ldmatrix.trans", &argument, load_matrices_all<true>);
    else
        collective(~0u, "ldmatrix", &argument, load_matrices_all<false>);
}

static void transpose_all(void **arguments, uint32_t)
{
    uint32_t words[WARP_LANES];
    for (unsigned lane = 0; lane < WARP_LANES; lane++)
        words[lane] = ((struct value_argument *)arguments[lane])->value;
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        const unsigned row = lane / 4, column = lane % 4 * 2, shift = row % 2 * 16;
        const uint32_t low = words[column * 4 + row / 2] >> shift & 0xffff;
        const uint32_t high = words[(column + 1) * 4 + row / 2] >> shift & 0xffff;
        ((struct value_argument *)arguments[lane])->value = low | high << 16;
    }
}

uint32_t transpose_matrix(uint32_t value)
{
    struct value_argument argument = {value};
    collective(~0u, "movmatrix", &argument, transpose_all);
    return argument.value;
}

/* ---- products ---- */

struct product_argument {
    void *c;
    const uint32_t *a, *b;
};

template <enum product PRODUCT> static float half_of(uint32_t word, unsigned half)
{
    const uint16_t bits = (uint16_t)(word >> 16 * half);
    return PRODUCT == PRODUCT_BF16 ? bf16_value(bits) : f16_value(bits);
}

/* a [16][16], b [16][8] as [k][n], c [16][8]; each sum in the order of k. */
template <enum product PRODUCT> static void multiply_all(void **arguments, uint32_t)
{
    float a[16][16], b[16][8], c[16][8] = {};
    counts.products++;
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        const auto *argument = (const struct product_argument *)arguments[lane];
        const unsigned row = lane / 4, column = lane % 4 * 2;
        for (unsigned i = 0; i < 4; i++)
            for (unsigned half = 0; half < 2; half++)
                a[row + i % 2 * 8][column + half + i / 2 * 8] = half_of<PRODUCT>(argument->a[i],
                                                                                 half);
        for (unsigned i = 0; i < 2; i++)
            for (unsigned half = 0; half < 2; half++)
                b[column + half + i * 8][row] = half_of<PRODUCT>(argument->b[i], half);
    }
    for (unsigned m = 0; m < 16; m++)
        for (unsigned k = 0; k < 16; k++)
            for (unsigned n = 0; n < 8; n++)
                c[m][n] += a[m][k] * b[k][n];
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        float *out = (float *)((struct product_argument *)arguments[lane])->c;
        for (unsigned i = 0; i < 4; i++)
            out[i] += c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
    }
}

void multiply(enum product product, float *c, const uint32_t *a, const uint32_t *b)
{
    struct product_argument argument = {c, a, b};
    if (product == PRODUCT_BF16)
        collective(~0u, "mma_bf16", &argument, multiply_all<PRODUCT_BF16>);
    else
        collective(~0u, "mma_f16", &argument, multiply_all<PRODUCT_F16>);
}

/* a [16][32], b [32][8]; four neighbours of k in a word. */
static void multiply_int8_all(void **arguments, uint32_t)
{
    int8_t a[16][32], b[32][8];
    counts.products++;
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        const auto *argument = (const struct product_argument *)arguments[lane];
        const unsigned row = lane / 4, column = lane % 4 * 4;
        for (unsigned byte = 0; byte < 4; byte++) {
            for (unsigned i = 0; i < 4; i++)
                a[row + i % 2 * 8][column + byte + i / 2 * 16] = (int8_t)(argument->a[i] >>
                                                                          8 * byte);
            for (unsigned i = 0; i < 2; i++)
                b[column + byte + i * 16][row] = (int8_t)(argument->b[i] >> 8 * byte);
        }
    }
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        int32_t *out = (int32_t *)((struct product_argument *)arguments[lane])->c;
        for (unsigned i = 0; i < 4; i++)
            for (unsigned k = 0; k < 32; k++)
                out[i] += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
    }
}

void multiply_int8(int32_t *c, const uint32_t *a, const uint32_t *b)
{
    struct product_argument argument = {c, a, b};
    collective(~0u, "mma_int8", &argument, multiply_int8_all);
}
} // namespace simt
