/* moe: the layers of Mixtral, Qwen2-MoE, DeepSeek-V2 and V3, gpt-oss and Gemma 4 as Transformers computes them
 * (tests/golden/moe), on every implementation. */
#include "kernels/kernels.h"
#include "kernels/moe.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(moe_golden, .description = ONE_THREAD);

enum { TOKENS = 16, EXPERTS_MAX = 16, WIDTH_MAX = 64 };

#define GPT_OSS                                                                                    \
    {                                                                                              \
        .n_in = 64, .n_inner = 32, .is_interleaved = true,                                         \
        .routing = {.n_experts = 4, .top_k = 2, .score = MOE_SOFTMAX_TOP, .scale = 1},             \
        .alpha = 1.702f, .beta = 1, .limit = 7,                                                    \
    }

static const struct golden {
    const char *name;
    struct moe_config config;
    bool has_bias, has_selection_bias, has_shared_gate, is_mxfp4;
    bool routes_apart; /* the router reads other rows, and experts have scales */
} goldens[] = {
    {.name = "mixtral",
     .config = {.n_in = 40,
                .n_inner = 24,
                .routing = {.n_experts = 6, .top_k = 2, .renormalise = true, .scale = 1}}},
    {.name = "qwen2",
     .config = {.n_in = 32,
                .n_inner = 20,
                .n_shared_inner = 36,
                .routing = {.n_experts = 8, .top_k = 3, .scale = 1}},
     .has_shared_gate = true},
    {.name = "qwen2_normed",
     .config = {.n_in = 32,
                .n_inner = 20,
                .n_shared_inner = 36,
                .routing = {.n_experts = 8, .top_k = 3, .renormalise = true, .scale = 1}},
     .has_shared_gate = true},
    {.name = "deepseek_v2",
     .config = {.n_in = 32,
                .n_inner = 12,
                .n_shared_inner = 24,
                .routing = {.n_experts = 12,
                            .top_k = 3,
                            .scale = 16,
                            .n_groups = 4,
                            .top_groups = 2,
                            .group_score = MOE_GROUP_BEST}}},
    {.name = "deepseek_v3",
     .config = {.n_in = 32,
                .n_inner = 12,
                .n_shared_inner = 12,
                .routing = {.n_experts = 16,
                            .top_k = 4,
                            .score = MOE_SIGMOID,
                            .renormalise = true,
                            .scale = 2.5f,
                            .n_groups = 4,
                            .top_groups = 2,
                            .group_score = MOE_GROUP_TWO}},
     .has_selection_bias = true},
    {.name = "gpt_oss", .config = GPT_OSS, .has_bias = true},
    {.name = "gpt_oss_mxfp4", .config = GPT_OSS, .has_bias = true, .is_mxfp4 = true},
    {.name = "gemma4",
     .config = {.n_in = 40,
                .n_inner = 24,
                .routing = {.n_experts = 8, .top_k = 3, .renormalise = true, .scale = 1},
                .activation = ACTIVATION_GELU_TANH},
     .routes_apart = true},
};

#define N_GOLDENS (sizeof goldens / sizeof goldens[0])

/* A file being read from front to back. */
struct reader {
    char *bytes;
    size_t n_bytes, used;
};

static struct reader reader_open(const char *name)
{
    struct reader reader = {0};
    char path[300];
    snprintf(path, sizeof path, "%s/tests/golden/moe/%s.bin", KVFERRY_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s is missing", path);
    reader.bytes = malloc(1u << 20);
    reader.n_bytes = fread(reader.bytes, 1, 1u << 20, file);
    fclose(file);
    return reader;
}

static const void *take(struct reader *reader, size_t n_bytes)
{
    cr_assert(reader->used + n_bytes <= reader->n_bytes, "the golden ends too early");
    const void *bytes = reader->bytes + reader->used;
    reader->used += n_bytes;
    return bytes;
}

static const float *take_floats(struct reader *reader, size_t n)
{
    return take(reader, n * sizeof(float));
}

static struct moe_matrix take_matrix(struct reader *reader, const struct golden *golden,
                                     uint32_t n_out, uint32_t n_in)
{
    struct moe_matrix matrix = {.dtype = golden->is_mxfp4 ? DTYPE_E2M1 : DTYPE_BF16};
    matrix.w = take(reader, n_out * dtype_array_bytes(matrix.dtype, n_in));
    if (golden->is_mxfp4) {
        matrix.scales = take(reader, n_out * n_in / 32);
        matrix.scale_rows = 1;
        matrix.scale_columns = 32;
    }
    if (golden->has_bias)
        matrix.bias = take_floats(reader, n_out);
    return matrix;
}

static struct moe_expert take_expert(struct reader *reader, const struct golden *golden,
                                     uint32_t n_inner, bool is_interleaved)
{
    uint32_t n_in = golden->config.n_in;
    struct moe_expert expert = {0};
    expert.gate = take_matrix(reader, golden, is_interleaved ? 2 * n_inner : n_inner, n_in);
    if (!is_interleaved)
        expert.up = take_matrix(reader, golden, n_inner, n_in);
    expert.down = take_matrix(reader, golden, n_in, n_inner);
    return expert;
}

static struct moe_weights take_weights(struct reader *reader, const struct golden *golden,
                                       struct moe_expert *experts)
{
    const struct moe_config *config = &golden->config;
    const uint32_t n_experts = config->routing.n_experts;
    struct moe_weights weights = {.experts = experts};
    weights.router.w = take_floats(reader, (size_t)n_experts * config->n_in);
    if (golden->has_bias)
        weights.router.bias = take_floats(reader, n_experts);
    if (golden->has_selection_bias)
        weights.selection_bias = take_floats(reader, n_experts);
    if (golden->routes_apart)
        weights.expert_scales = take_floats(reader, n_experts);
    for (uint32_t e = 0; e < n_experts; e++)
        experts[e] = take_expert(reader, golden, config->n_inner, config->is_interleaved);
    if (config->n_shared_inner > 0)
        weights.shared = take_expert(reader, golden, config->n_shared_inner, false);
    if (golden->has_shared_gate)
        weights.shared_gate = take_matrix(reader, golden, 1, config->n_in);
    cr_assert_eq(reader->used, reader->n_bytes, "%s: the golden has more than was read",
                 golden->name);
    return weights;
}

static void check_golden(const struct kernels *kernels, const struct golden *golden)
{
    const uint32_t n_in = golden->config.n_in;
    struct moe_expert experts[EXPERTS_MAX];
    float y[TOKENS * WIDTH_MAX];
    struct reader reader = reader_open(golden->name);
    const float *x = take_floats(&reader, TOKENS * n_in);
    const float *router_x = golden->routes_apart ? take_floats(&reader, TOKENS * n_in) : NULL;
    const float *expected = take_floats(&reader, TOKENS * n_in);
    struct moe_weights weights = take_weights(&reader, golden, experts);
    struct moe *moe;
    struct error error = {""};
    cr_assert_eq(moe_create(kernels, &golden->config, TOKENS, &moe, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(moe_check_weights(moe, &weights, &error), STATUS_OK, "%s", error.text);
    struct moe_io io = {.x = x,
                        .x_stride = n_in,
                        .router_x = router_x,
                        .router_x_stride = n_in,
                        .y = y,
                        .y_stride = n_in,
                        .n_tokens = TOKENS};
    moe_forward(moe, NULL, &weights, &io);
    for (uint32_t t = 0; t < TOKENS; t++) {
        double worst = values_error(y + t * n_in, expected + t * n_in, n_in);
        cr_assert(worst <= 1e-5, "%s, %s: token %u is off by %g", golden->name, kernels->name, t,
                  worst);
    }
    moe_destroy(moe);
    free(reader.bytes);
}

Test(moe_golden, every_implementation_computes_what_transformers_computes)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n_list; k++)
        for (size_t g = 0; g < N_GOLDENS; g++)
            check_golden(list[k], &goldens[g]);
}
