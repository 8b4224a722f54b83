/* latent: attention of DeepSeek-V2 and V3 as Transformers computes it, with K and V of all heads expanded (tests/golden/state), on every
 * implementation, rotated in pairs of neighbours and of halves. */
#include "kernels/kernels.h"
#include "kernels/latent.h"
#include "kernels/rotary.h"
#include "tests/kernels/support/floats.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <string.h>

TestSuite(latent_golden, .description = ONE_THREAD);

enum {
    TOKENS = 70,
    HEADS = 3,
    LATENT = 32,
    ROPE = 16,
    NOPE = 12,
    VALUE = 20,
    WIDTH = LATENT + ROPE,
    BLOCK_TOKENS = 16,
    BLOCKS = (TOKENS + BLOCK_TOKENS - 1) / BLOCK_TOKENS,
};

struct golden {
    const float *scale, *q, *latents, *ropes, *cos, *sin, *expand, *y;
};

static struct golden golden_read(struct floats *floats)
{
    return (struct golden){
        .scale = floats_take(floats, 1),
        .q = floats_take(floats, TOKENS * HEADS * (NOPE + ROPE)),
        .latents = floats_take(floats, TOKENS * LATENT),
        .ropes = floats_take(floats, TOKENS * ROPE),
        .cos = floats_take(floats, TOKENS * ROPE / 2),
        .sin = floats_take(floats, TOKENS * ROPE / 2),
        .expand = floats_take(floats, HEADS * (NOPE + VALUE) * LATENT),
        .y = floats_take(floats, TOKENS * HEADS * VALUE),
    };
}

/* x = [TOKENS][n_heads][WIDTH]: rotates what is behind the latents. */
static void rotate(const struct kernels *kernels, const struct golden *golden, bool is_interleaved,
                   uint32_t n_heads, float *x)
{
    struct rotary rotary = {.x = x + LATENT,
                            .y = x + LATENT,
                            .x_token_stride = n_heads * WIDTH,
                            .x_head_stride = WIDTH,
                            .y_token_stride = n_heads * WIDTH,
                            .y_head_stride = WIDTH,
                            .n_tokens = TOKENS,
                            .n_heads = n_heads,
                            .head_dim = ROPE,
                            .table = {golden->cos, golden->sin, TOKENS, ROPE, is_interleaved}};
    struct error error = {""};
    cr_assert_eq(rotary_check(&rotary, &error), STATUS_OK, "%s", error.text);
    kernels->rotary(NULL, &rotary);
}

/* W_uk[h]^T q_nope | q_rope of each token and head. */
static void absorb(const struct golden *golden, float *q_out)
{
    for (uint32_t row = 0; row < TOKENS * HEADS; row++) {
        const float *q = golden->q + (size_t)row * (NOPE + ROPE);
        const float *w = golden->expand + (size_t)(row % HEADS) * (NOPE + VALUE) * LATENT;
        for (uint32_t i = 0; i < LATENT; i++) {
            double sum = 0;
            for (uint32_t j = 0; j < NOPE; j++)
                sum += (double)w[j * LATENT + i] * (double)q[j];
            q_out[row * WIDTH + i] = (float)sum;
        }
        memcpy(q_out + (size_t)row * WIDTH + LATENT, q + NOPE, ROPE * sizeof *q);
    }
}

/* W_uv[h] output of each token and head. */
static void expand(const struct golden *golden, const float *output, float *y_out)
{
    for (uint32_t row = 0; row < TOKENS * HEADS; row++) {
        const float *w = golden->expand + ((size_t)(row % HEADS) * (NOPE + VALUE) + NOPE) * LATENT;
        for (uint32_t j = 0; j < VALUE; j++) {
            double sum = 0;
            for (uint32_t i = 0; i < LATENT; i++)
                sum += (double)w[j * LATENT + i] * (double)output[row * LATENT + i];
            y_out[row * VALUE + j] = (float)sum;
        }
    }
}

static void attend(const struct kernels *kernels, const struct golden *golden, const float *rows,
                   const float *q, float *output)
{
    static float cache[BLOCKS * BLOCK_TOKENS * WIDTH];
    static const uint32_t ids[BLOCKS] = {3, 0, 4, 1, 2};
    const struct latent_config config = {.n_heads = HEADS,
                                         .latent_dim = LATENT,
                                         .rope_dim = ROPE,
                                         .cache = DTYPE_F32,
                                         .scale = *golden->scale};
    const struct latent_sequence sequence = {TOKENS, TOKENS, ids, BLOCKS};
    const struct latent_step step = {&sequence, 1,
                                     latent_view_dense(cache, BLOCKS, 1, BLOCK_TOKENS, &config)};
    const struct latent_io io = {.rows = rows,
                                 .rows_stride = WIDTH,
                                 .q = q,
                                 .q_stride = HEADS * WIDTH,
                                 .output = output,
                                 .output_stride = HEADS * LATENT};
    struct latent *latent;
    struct error error = {""};
    cr_assert_eq(latent_create(kernels, NULL, &config, &latent, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(latent_check(latent, &step, &io, &error), STATUS_OK, "%s", error.text);
    latent_write(latent, &step, &io);
    latent_attend(latent, &step, &io);
    latent_destroy(latent);
}

static void check_golden(const struct kernels *kernels, const char *name, bool is_interleaved)
{
    static float rows[TOKENS * WIDTH], q[TOKENS * HEADS * WIDTH];
    static float output[TOKENS * HEADS * LATENT], y[TOKENS * HEADS * VALUE];
    char path[64];
    snprintf(path, sizeof path, "state/%s", name);
    struct floats floats = floats_open(path);
    const struct golden golden = golden_read(&floats);
    for (uint32_t t = 0; t < TOKENS; t++) {
        memcpy(rows + (size_t)t * WIDTH, golden.latents + (size_t)t * LATENT,
               LATENT * sizeof *rows);
        memcpy(rows + (size_t)t * WIDTH + LATENT, golden.ropes + (size_t)t * ROPE,
               ROPE * sizeof *rows);
    }
    absorb(&golden, q);
    rotate(kernels, &golden, is_interleaved, 1, rows);
    rotate(kernels, &golden, is_interleaved, HEADS, q);
    attend(kernels, &golden, rows, q, output);
    expand(&golden, output, y);
    double worst = values_error(y, golden.y, TOKENS * HEADS * VALUE);
    cr_assert(worst <= 1e-5, "%s, %s: off by %g", name, kernels->name, worst);
    floats_close(&floats);
}

Test(latent_golden, every_implementation_computes_what_transformers_computes)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++) {
        check_golden(list[k], "deepseek_v2", true);
        check_golden(list[k], "deepseek_v3", true);
        check_golden(list[k], "deepseek_v3_halves", false);
    }
}
