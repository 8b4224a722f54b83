#include "tests/kernels/cases/compare.h"

#include <math.h>
#include <string.h>

const char *case_class_name(enum case_class class)
{
    static const char *const names[N_CLASSES] = {
        "F32",      "BF16",      "F16",         "INT8 cache", "E4M3 cache", "E4M3 output",
        "FP8 math", "INT8 math", "INT8 PV FP8", "BF16 math",  "FP16 math"};
    return names[class];
}

enum case_class case_class_of(const struct attention_case *c)
{
    if (c->math != MATH_COMPUTE)
        return CLASS_FP8_MATH + (c->math - MATH_FP8);
    if (c->output_scale != 0)
        return CLASS_E4M3_OUTPUT;
    if (c->cache == DTYPE_INT8 || c->cache == DTYPE_E4M3)
        return c->cache == DTYPE_INT8 ? CLASS_INT8_CACHE : CLASS_E4M3_CACHE;
    if (c->compute == DTYPE_BF16 || c->cache == DTYPE_BF16)
        return CLASS_BF16;
    return c->compute == DTYPE_F16 || c->cache == DTYPE_F16 ? CLASS_F16 : CLASS_F32;
}

static size_t n_outputs(const struct case_data *data)
{
    return (size_t)data->test_case->n_layers * data->n_rows * data->q_width;
}

/* Magnitudes of the elements as they are multiplied. */
struct sizes {
    double q, k, v;         /* largest */
    double mean_q, mean_k;  /* root mean square */
    double scale, head_dim; /* of the scores */
};

static struct sizes sizes_of(const struct case_data *data)
{
    const struct attention_case *c = data->test_case;
    double turned = c->rope.theta != 0 ? sqrt(2) : 1;
    double q_scaling = c->q_scaling != 0 ? (double)c->q_scaling : 1;
    return (struct sizes){
        .q = turned * (c->has_norm ? 4 : data->largest_q),
        .k = turned * (c->has_norm ? 4 : data->largest_k),
        .v = data->largest_v,
        .mean_q = 1,
        .mean_k = 1,
        .scale = c->scale != 0 ? (double)c->scale : 1 / (q_scaling * sqrt(c->head_dim)),
        .head_dim = c->head_dim,
    };
}

/* What a value that falls on the other side moves scores and outputs by. */
struct moved {
    double score, output;
};

static struct moved moved_by_rounding(const struct case_data *data, const struct sizes *sizes)
{
    const struct attention_case *c = data->test_case;
    const struct attention_config *config = &data->configs[0];
    struct moved moved = {0};
    if (c->cache == DTYPE_INT8)
        moved = (struct moved){sizes->q * (double)config->k_scale, (double)config->v_scale};
    if (c->cache == DTYPE_E4M3) /* 3 bits: a step is up to an eighth */
        moved = (struct moved){sizes->q * sizes->k / 8, sizes->v / 8};
    if (c->math == MATH_FP8)
        moved = (struct moved){sizes->q * sizes->k / 8, sizes->v / 8};
    if (c->math == MATH_BF16 || c->math == MATH_FP16) { /* 8 and 11 bits */
        const double step = c->math == MATH_BF16 ? 1.0 / 128 : 1.0 / 1024;
        moved.score += sizes->q * sizes->k * step;
        moved.output += sizes->v * step;
    }
    moved.score *= sizes->scale;
    return moved;
}

/* SageAttention's: four times the root mean square of a sum of rounding errors. */
static struct moved noise_of_int8(const struct case_data *data, const struct sizes *sizes)
{
    if (data->test_case->math != MATH_INT8 && data->test_case->math != MATH_INT8_PV_FP8)
        return (struct moved){0};
    double k_step = 2 * sizes->k / 127, q_step = sizes->q / 127;
    double one = hypot(sizes->mean_q * k_step, sizes->mean_k * q_step) / sqrt(12);
    double score = 4 * one * sqrt(sizes->head_dim) * sizes->scale;
    double of_v = data->test_case->math == MATH_INT8_PV_FP8 ? sizes->v / 16 : 0;
    return (struct moved){score, of_v};
}

/* Of sixteen products added in FP16, and those sums with their neighbours: each addition rounds half
 * a step of 2^-10 of what is there. Scores: four times the root mean square. Outputs: a sum of weights is
 * what it is divided by, so sixteen such steps of the largest value bound it. */
static struct moved noise_of_fp16(const struct sizes *sizes)
{
    const double step = 1.0 / 2048, steps = 16.0 * 17 / 2;
    double one = sizes->mean_q * sizes->mean_k * step * sqrt(steps * ceil(sizes->head_dim / 16));
    return (struct moved){4 * one * sizes->scale, 16 * step * sizes->v};
}

static double largest_output(const struct case_data *data, const struct case_result *expected,
                             double *rms_out)
{
    double largest = 1e-30, squares = 0;
    size_t n = n_outputs(data);
    for (size_t i = 0; i < n; i++) {
        largest = fmax(largest, fabs((double)expected->output[i]));
        squares += (double)expected->output[i] * (double)expected->output[i];
    }
    *rms_out = fmax(sqrt(squares / (double)(n > 0 ? n : 1)), 1e-30);
    return largest;
}

/* Of the root mean square: a few values in a case fall on the other side. A weight or an element of Q that does moves all
 * of its row by a step, which is more where there are few rows. */
static double moved_seldom(const struct attention_case *c, uint32_t n_rows)
{
    double step = c->math == MATH_BF16 ? 1.0 / 128 : 1.0 / 1024;
    double n = (double)n_rows * c->n_heads * c->n_layers;
    if (c->math != MATH_BF16 && c->math != MATH_FP16)
        return 1e-3;
    return fmax(1e-4, step / sqrt(fmax(n, 1)));
}

struct case_error case_bound(const struct case_data *data, const struct case_result *expected,
                             bool adds_fp16)
{
    const struct attention_case *c = data->test_case;
    bool is_bf16 = c->compute == DTYPE_BF16 || c->cache == DTYPE_BF16;
    bool is_f16 = c->compute == DTYPE_F16 || c->cache == DTYPE_F16;
    double of_type = is_bf16 ? 6e-3 : is_f16 ? 1e-3 : 1e-5, rms;
    double largest = largest_output(data, expected, &rms);
    struct sizes sizes = sizes_of(data);
    struct moved moved = moved_by_rounding(data, &sizes);
    const bool is_fp16 = adds_fp16 && c->math == MATH_FP16;
    struct moved noise = is_fp16 ? noise_of_fp16(&sizes) : noise_of_int8(data, &sizes);
    double score = moved.score + noise.score;
    double output = moved.output + noise.output + score * sizes.v;
    double of_output = c->output_scale != 0 ? 1.0 / 8 : 0;
    double seldom = of_output > 0 ? 5e-3 : moved.output > 0 ? moved_seldom(c, data->n_rows) : 0;
    double always = noise.score > 0 ? (noise.output + noise.score * sizes.v) / 4 / rms : 0;
    return (struct case_error){.output = of_type + output / largest + of_output,
                               .rms = of_type + seldom + always,
                               .lse = of_type + score};
}

static double error_of_lse(const struct case_data *data, const struct case_result *got,
                           const struct case_result *expected)
{
    const struct attention_case *c = data->test_case;
    size_t n = (size_t)c->n_layers * data->n_rows * c->n_heads;
    double worst = 0;
    for (size_t i = 0; c->wants_lse && i < n; i++) {
        double a = (double)got->lse[i], b = (double)expected->lse[i];
        if (a == b)
            continue;
        if (!isfinite(a) || !isfinite(b))
            return INFINITY;
        worst = fmax(worst, fabs(a - b) / fmax(1, fabs(b)));
    }
    return worst;
}

struct case_error case_error(const struct case_data *data, const struct case_result *got,
                             const struct case_result *expected)
{
    double rms, worst = 0, squares = 0, largest = largest_output(data, expected, &rms);
    size_t n = n_outputs(data);
    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)got->output[i] - (double)expected->output[i]);
        if (!isfinite(difference))
            return (struct case_error){INFINITY, INFINITY, INFINITY};
        worst = fmax(worst, difference);
        squares += difference * difference;
    }
    return (struct case_error){.output = worst / largest,
                               .rms = sqrt(squares / (double)(n > 0 ? n : 1)) / rms,
                               .lse = error_of_lse(data, got, expected)};
}

struct case_cost case_cost_of_math(const struct case_data *data, const struct case_result *got,
                                   const struct case_result *exact)
{
    const struct attention_case *c = data->test_case;
    double most = 0, largest = 1e-30, sum = 0, size = 1e-30;
    for (uint32_t s = 0; s < c->n_sequences; s++)
        for (uint32_t layer = 0; layer < c->n_layers; layer++) {
            size_t first = (size_t)layer * data->n_rows + data->first_rows[s];
            size_t n = (size_t)c->sequences[s].prompt_len * data->q_width;
            const float *a = got->output + first * data->q_width;
            const float *b = exact->output + first * data->q_width;
            for (size_t i = 0; i < n; i++) {
                double difference = fabs((double)a[i] - (double)b[i]);
                most = fmax(most, difference);
                largest = fmax(largest, fabs((double)b[i]));
                sum += difference;
                size += fabs((double)b[i]);
            }
        }
    return (struct case_cost){.largest = most / largest, .mean = sum / size};
}

bool case_same_bits(const struct case_data *data, uint32_t s, const struct case_result *a,
                    const struct case_result *b)
{
    const struct attention_case *c = data->test_case;
    const size_t width = data->q_width, heads = c->n_heads;
    for (uint32_t r = data->first_rows[s]; r < data->first_rows[s] + case_rows(c, s); r++)
        for (uint32_t layer = 0; layer < c->n_layers && a->is_computed[r]; layer++) {
            size_t row = (size_t)layer * data->n_rows + r;
            if (memcmp(a->output + row * width, b->output + row * width, width * sizeof(float)) !=
                    0 ||
                memcmp(a->lse + row * heads, b->lse + row * heads, heads * sizeof(float)) != 0)
                return false;
        }
    return true;
}

bool case_same_caches(const struct case_result *a, const struct case_result *b)
{
    for (uint32_t i = 0; i < a->n_caches; i++) {
        if (memcmp(a->caches[i].data, b->caches[i].data, a->cache_bytes[i]) != 0)
            return false;
    }
    return true;
}
