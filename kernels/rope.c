#include "kernels/rope.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI           3.14159265358979323846
#define HALF_DIM_MAX ROPE_FACTORS_MAX

struct rope {
    struct rope_config config; /* without the factor arrays: the frequencies include them */
    float attention_factor;
    float inv_freq[HALF_DIM_MAX];
    float long_inv_freq[HALF_DIM_MAX]; /* LongRoPE: for sequences beyond original_positions */
};

static bool is_positive(double value)
{
    return isfinite(value) && value > 0;
}

static enum status check_llama3(const struct rope_config *config, struct error *error)
{
    if (!is_positive(config->low_freq_factor) ||
        !(config->high_freq_factor > config->low_freq_factor) ||
        !isfinite(config->high_freq_factor))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rope low_freq_factor %g and high_freq_factor %g: must be positive and "
                         "the second larger",
                         config->low_freq_factor, config->high_freq_factor);
    return STATUS_OK;
}

static enum status check_optional(const struct rope_config *config, struct error *error)
{
    const struct {
        const char *name;
        double value;
    } optional[] = {
        {"attention_factor", config->attention_factor},
        {"mscale", config->mscale},
        {"mscale_all_dim", config->mscale_all_dim},
        {"beta_fast", config->beta_fast},
        {"beta_slow", config->beta_slow},
    };
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++)
        if (!isfinite(optional[i].value) || optional[i].value < 0)
            return error_set(error, STATUS_INVALID_ARGUMENT, "rope %s is %g, must not be negative",
                             optional[i].name, optional[i].value);
    return STATUS_OK;
}

static enum status check_factors(const char *name, const double *factors, uint32_t n,
                                 struct error *error)
{
    if (!factors)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope %s is missing", name);
    for (uint32_t i = 0; i < n; i++)
        if (!is_positive(factors[i]))
            return error_set(error, STATUS_INVALID_ARGUMENT, "rope %s[%u] is %g, must be positive",
                             name, i, factors[i]);
    return STATUS_OK;
}

static enum status check_proportional(const struct rope_config *config, struct error *error)
{
    if (config->n_turning <= config->rotary_dim / 2 && config->rotary_dim == config->head_dim)
        return STATUS_OK;
    return error_set(
        error, STATUS_INVALID_ARGUMENT,
        "rope n_turning is %u and rotary_dim %u: at most half of head_dim %u, and equal "
        "to it",
        config->n_turning, config->rotary_dim, config->head_dim);
}

/* config->rotary_dim is filled in. */
static enum status check_scaling(const struct rope_config *config, struct error *error)
{
    if (config->scaling > ROPE_PROPORTIONAL)
        return error_set(error, STATUS_INVALID_ARGUMENT, "unknown rope scaling %d",
                         (int)config->scaling);
    if (config->scaling == ROPE_NONE)
        return STATUS_OK;
    bool is_derived = config->scaling == ROPE_LONGROPE && config->factor == 0;
    if (!is_derived && !is_positive(config->factor))
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope factor is %g, must be positive",
                         config->factor);
    if (config->scaling == ROPE_LINEAR)
        return STATUS_OK;
    if (config->scaling == ROPE_PROPORTIONAL)
        return check_proportional(config, error);
    if (config->original_positions == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rope original_max_position_embeddings is 0");
    if (config->scaling == ROPE_DYNAMIC && (config->factor < 1 || config->rotary_dim < 4))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rope scaling dynamic with factor %g and rotary_dim %u: must be at least "
                         "1 and 4",
                         config->factor, config->rotary_dim);
    if (config->scaling == ROPE_LLAMA3)
        return check_llama3(config, error);
    if (config->scaling == ROPE_LONGROPE && config->original_positions < 2)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rope scaling longrope with original_max_position_embeddings 1");
    if (config->scaling == ROPE_LONGROPE) {
        TRY(check_factors("short_factor", config->short_factors, config->rotary_dim / 2, error));
        TRY(check_factors("long_factor", config->long_factors, config->rotary_dim / 2, error));
    }
    return check_optional(config, error);
}

static enum status check(const struct rope_config *config, struct error *error)
{
    uint32_t d = config->head_dim;
    if (d == 0 || d % 8 != 0 || d > 2 * HALF_DIM_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "head_dim is %u, must be a multiple of 8 up to %u", d, 2 * HALF_DIM_MAX);
    if (config->rotary_dim % 2 != 0 || config->rotary_dim > d)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rotary_dim is %u, must be even and at most head_dim %u",
                         config->rotary_dim, d);
    if (!is_positive(config->theta) || config->theta <= 1)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope theta is %g, must be above 1",
                         config->theta);
    if (config->positions_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope positions_max is 0");
    return check_scaling(config, error);
}

/* theta^(-2i / rotary_dim) */
static double plain_inv_freq(const struct rope_config *config, double theta, uint32_t i)
{
    return pow(theta, -2.0 * i / config->rotary_dim);
}

/* Long wavelengths are stretched by factor, short ones stay, and the others are interpolated. */
static double llama3_inv_freq(const struct rope_config *config, double inv_freq)
{
    double waves = (double)config->original_positions * inv_freq / (2 * PI);
    if (waves > config->high_freq_factor)
        return inv_freq;
    if (waves < config->low_freq_factor)
        return inv_freq / config->factor;
    double smooth = (waves - config->low_freq_factor) /
                    (config->high_freq_factor - config->low_freq_factor);
    return (1 - smooth) * inv_freq / config->factor + smooth * inv_freq;
}

/* The dimension that makes n_turns turns over the original positions. */
static double yarn_dim(const struct rope_config *config, double n_turns)
{
    return config->rotary_dim * log(config->original_positions / (n_turns * 2 * PI)) /
           (2 * log(config->theta));
}

static double yarn_inv_freq(const struct rope_config *config, double inv_freq, uint32_t i)
{
    double low = yarn_dim(config, config->beta_fast > 0 ? config->beta_fast : 32);
    double high = yarn_dim(config, config->beta_slow > 0 ? config->beta_slow : 1);
    if (!config->no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, config->rotary_dim - 1);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    return inv_freq / config->factor * ramp + inv_freq * (1 - ramp);
}

double rope_yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double yarn_attention_factor(const struct rope_config *config)
{
    if (config->mscale > 0 && config->mscale_all_dim > 0)
        return rope_yarn_mscale(config->factor, config->mscale) /
               rope_yarn_mscale(config->factor, config->mscale_all_dim);
    return rope_yarn_mscale(config->factor, 1);
}

static double longrope_attention_factor(const struct rope_config *config)
{
    double factor = config->factor > 0 ? config->factor
                                       : (double)config->positions_max / config->original_positions;
    return factor <= 1 ? 1 : sqrt(1 + log(factor) / log(config->original_positions));
}

static double attention_factor(const struct rope_config *config)
{
    if (config->scaling != ROPE_YARN && config->scaling != ROPE_LONGROPE)
        return 1;
    if (config->attention_factor > 0)
        return config->attention_factor;
    return config->scaling == ROPE_YARN ? yarn_attention_factor(config)
                                        : longrope_attention_factor(config);
}

static double scaled_inv_freq(const struct rope_config *config, uint32_t i)
{
    assert(i < config->rotary_dim / 2 && config->rotary_dim / 2 <= HALF_DIM_MAX);
    double inv_freq = plain_inv_freq(config, config->theta, i);
    switch (config->scaling) {
    case ROPE_LINEAR:
        return inv_freq / config->factor;
    case ROPE_LLAMA3:
        return llama3_inv_freq(config, inv_freq);
    case ROPE_YARN:
        return yarn_inv_freq(config, inv_freq, i);
    case ROPE_LONGROPE:
        return inv_freq / config->short_factors[i];
    case ROPE_PROPORTIONAL:
        return i < config->n_turning ? inv_freq / config->factor : 0;
    case ROPE_NONE:
    case ROPE_DYNAMIC:
        break;
    }
    return inv_freq;
}

enum status rope_create(const struct rope_config *config, struct rope **rope_out,
                        struct error *error)
{
    struct rope_config full = *config;
    if (full.rotary_dim == 0)
        full.rotary_dim = full.head_dim;
    TRY(check(&full, error));
    struct rope *rope = calloc(1, sizeof *rope);
    if (!rope)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a rope");
    rope->attention_factor = (float)attention_factor(&full);
    for (uint32_t i = 0; i < full.rotary_dim / 2; i++) {
        rope->inv_freq[i] = (float)scaled_inv_freq(&full, i);
        if (full.scaling == ROPE_LONGROPE)
            rope->long_inv_freq[i] = (float)(plain_inv_freq(&full, full.theta, i) /
                                             full.long_factors[i]);
    }
    full.short_factors = full.long_factors = NULL;
    rope->config = full;
    *rope_out = rope;
    return STATUS_OK;
}

void rope_destroy(struct rope *rope)
{
    free(rope);
}

uint32_t rope_head_dim(const struct rope *rope)
{
    return rope->config.head_dim;
}

uint32_t rope_rotary_dim(const struct rope *rope)
{
    return rope->config.rotary_dim;
}

bool rope_is_interleaved(const struct rope *rope)
{
    return rope->config.is_interleaved;
}

uint32_t rope_positions_max(const struct rope *rope)
{
    return rope->config.positions_max;
}

const float *rope_inv_freq(const struct rope *rope)
{
    return rope->inv_freq;
}

float rope_attention_factor(const struct rope *rope)
{
    return rope->attention_factor;
}

bool rope_depends_on_length(const struct rope *rope)
{
    const struct rope_config *config = &rope->config;
    const size_t bytes = config->rotary_dim / 2 * sizeof *rope->inv_freq;
    const bool has_two = config->scaling == ROPE_LONGROPE &&
                         memcmp(rope->inv_freq, rope->long_inv_freq, bytes) != 0;
    return (config->scaling == ROPE_DYNAMIC || has_two) &&
           config->positions_max > config->original_positions;
}

/* NTK: theta grows so that the longest wave is stretched by factor * length / original - factor + 1. */
static void dynamic_inv_freq(const struct rope_config *config, uint32_t sequence_len,
                             float *inv_freq_out)
{
    assert(config->rotary_dim > 2 && sequence_len > config->original_positions);
    double stretch = config->factor * sequence_len / config->original_positions -
                     (config->factor - 1);
    double theta = config->theta *
                   pow(stretch, (double)config->rotary_dim / (config->rotary_dim - 2));
    for (uint32_t i = 0; i < config->rotary_dim / 2; i++)
        inv_freq_out[i] = (float)plain_inv_freq(config, theta, i);
}

void rope_angles(const struct rope *rope, uint32_t position, uint32_t sequence_len, float *cos_out,
                 float *sin_out)
{
    assert(position < rope->config.positions_max);
    float grown[HALF_DIM_MAX];
    const float *inv_freq = rope->inv_freq;
    if (sequence_len > rope->config.original_positions && rope->config.scaling == ROPE_LONGROPE)
        inv_freq = rope->long_inv_freq;
    if (sequence_len > rope->config.original_positions && rope->config.scaling == ROPE_DYNAMIC) {
        dynamic_inv_freq(&rope->config, sequence_len, grown);
        inv_freq = grown;
    }
    for (uint32_t i = 0; i < rope->config.rotary_dim / 2; i++) {
        float angle = (float)position * inv_freq[i];
        cos_out[i] = (float)cos((double)angle) * rope->attention_factor;
        sin_out[i] = (float)sin((double)angle) * rope->attention_factor;
    }
}
