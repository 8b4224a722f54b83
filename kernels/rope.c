#include "kernels/rope.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define PI           3.14159265358979323846
#define HALF_DIM_MAX 128u

struct rope {
    uint32_t head_dim;
    uint32_t positions_max;
    float attention_factor;
    float inv_freq[HALF_DIM_MAX];
};

static bool is_positive(double value)
{
    return isfinite(value) && value > 0;
}

static enum status check_scaling(const struct rope_config *config, struct error *error)
{
    if (config->scaling == ROPE_LONGROPE)
        return error_set(error, STATUS_UNSUPPORTED, "rope scaling longrope is not supported");
    if (config->scaling == ROPE_NONE)
        return STATUS_OK;
    if (!is_positive(config->factor))
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope factor is %g, must be positive",
                         config->factor);
    if (config->scaling == ROPE_LINEAR)
        return STATUS_OK;
    if (config->original_positions == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rope original_max_position_embeddings is 0");
    if (config->scaling == ROPE_DYNAMIC && config->positions_max > config->original_positions)
        return error_set(error, STATUS_UNSUPPORTED,
                         "rope scaling dynamic turns keys differently as a sequence grows: "
                         "supported up to %u positions, %u asked for",
                         config->original_positions, config->positions_max);
    if (config->scaling == ROPE_LLAMA3 && (!is_positive(config->low_freq_factor) ||
                                           !(config->high_freq_factor > config->low_freq_factor) ||
                                           !isfinite(config->high_freq_factor)))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "rope low_freq_factor %g and high_freq_factor %g: must be positive and "
                         "the second larger",
                         config->low_freq_factor, config->high_freq_factor);
    return STATUS_OK;
}

static enum status check_yarn(const struct rope_config *config, struct error *error)
{
    const double optional[] = {config->attention_factor, config->mscale, config->mscale_all_dim,
                               config->beta_fast, config->beta_slow};
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++)
        if (!isfinite(optional[i]) || optional[i] < 0)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "a yarn rope parameter is %g, must not be negative", optional[i]);
    return STATUS_OK;
}

static enum status check(const struct rope_config *config, struct error *error)
{
    uint32_t d = config->head_dim;
    if (d == 0 || d % 8 != 0 || d > 2 * HALF_DIM_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "head_dim is %u, must be a multiple of 8 up to %u", d, 2 * HALF_DIM_MAX);
    if (config->rotary_dim != 0 && config->rotary_dim != d)
        return error_set(error, STATUS_UNSUPPORTED,
                         "rotary_dim %u of head_dim %u: a partial rotation is not supported",
                         config->rotary_dim, d);
    if (!is_positive(config->theta) || config->theta <= 1)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope theta is %g, must be above 1",
                         config->theta);
    if (config->positions_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "rope positions_max is 0");
    if (config->scaling > ROPE_LONGROPE)
        return error_set(error, STATUS_INVALID_ARGUMENT, "unknown rope scaling %d",
                         (int)config->scaling);
    TRY(check_scaling(config, error));
    return config->scaling == ROPE_YARN ? check_yarn(config, error) : STATUS_OK;
}

/* Long waves are stretched by factor, short ones kept, the band between is blended. */
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

/* The dimension that turns n_turns times over the original positions. */
static double yarn_dim(const struct rope_config *config, double n_turns)
{
    return config->head_dim * log(config->original_positions / (n_turns * 2 * PI)) /
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
    high = fmin(high, config->head_dim - 1);
    if (low == high)
        high += 0.001;
    double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    return inv_freq / config->factor * ramp + inv_freq * (1 - ramp);
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double attention_factor(const struct rope_config *config)
{
    if (config->scaling != ROPE_YARN)
        return 1;
    if (config->attention_factor > 0)
        return config->attention_factor;
    if (config->mscale > 0 && config->mscale_all_dim > 0)
        return yarn_mscale(config->factor, config->mscale) /
               yarn_mscale(config->factor, config->mscale_all_dim);
    return yarn_mscale(config->factor, 1);
}

static double scaled_inv_freq(const struct rope_config *config, uint32_t i)
{
    double inv_freq = pow(config->theta, -2.0 * i / config->head_dim);
    switch (config->scaling) {
    case ROPE_LINEAR:
        return inv_freq / config->factor;
    case ROPE_LLAMA3:
        return llama3_inv_freq(config, inv_freq);
    case ROPE_YARN:
        return yarn_inv_freq(config, inv_freq, i);
    case ROPE_NONE:
    case ROPE_DYNAMIC:
    case ROPE_LONGROPE:
        break;
    }
    return inv_freq;
}

enum status rope_create(const struct rope_config *config, struct rope **rope_out,
                        struct error *error)
{
    TRY(check(config, error));
    struct rope *rope = calloc(1, sizeof *rope);
    if (!rope)
        return STATUS_NO_MEMORY;
    rope->head_dim = config->head_dim;
    rope->positions_max = config->positions_max;
    rope->attention_factor = (float)attention_factor(config);
    for (uint32_t i = 0; i < config->head_dim / 2; i++)
        rope->inv_freq[i] = (float)scaled_inv_freq(config, i);
    *rope_out = rope;
    return STATUS_OK;
}

void rope_destroy(struct rope *rope)
{
    free(rope);
}

uint32_t rope_head_dim(const struct rope *rope)
{
    return rope->head_dim;
}

const float *rope_inv_freq(const struct rope *rope)
{
    return rope->inv_freq;
}

float rope_attention_factor(const struct rope *rope)
{
    return rope->attention_factor;
}

void rope_angles(const struct rope *rope, uint32_t position, float *cos_out, float *sin_out)
{
    assert(position < rope->positions_max);
    for (uint32_t i = 0; i < rope->head_dim / 2; i++) {
        float angle = (float)position * rope->inv_freq[i];
        cos_out[i] = (float)cos((double)angle) * rope->attention_factor;
        sin_out[i] = (float)sin((double)angle) * rope->attention_factor;
    }
}
