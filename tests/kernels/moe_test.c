/* moe: every way to choose, every type of weight and every shape agrees with the formulas in float64,
 * and the row of a token has the same bits whatever stands beside it. */
#include "base/thread_pool.h"
#include "kernels/moe_parts.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/experts.h"
#include "tests/kernels/support/values.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <string.h>

#define COUNT(array) (sizeof array / sizeof array[0])

static const struct moe_routing routings[] = {
    {.n_experts = 8, .top_k = 2, .score = MOE_SOFTMAX_ALL, .renormalise = true, .scale = 1},
    {.n_experts = 7, .top_k = 3, .score = MOE_SOFTMAX_ALL, .scale = 1},
    {.n_experts = 8, .top_k = 4, .score = MOE_SOFTMAX_TOP, .scale = 1},
    {.n_experts = 12,
     .top_k = 3,
     .score = MOE_SOFTMAX_ALL,
     .scale = 16,
     .n_groups = 4,
     .top_groups = 2,
     .group_score = MOE_GROUP_BEST},
    {.n_experts = 12,
     .top_k = 4,
     .score = MOE_SOFTMAX_TOP,
     .scale = 1,
     .n_groups = 3,
     .top_groups = 1,
     .group_score = MOE_GROUP_BEST},
    {.n_experts = 16,
     .top_k = 5,
     .score = MOE_SIGMOID,
     .renormalise = true,
     .scale = 2.5f,
     .n_groups = 4,
     .top_groups = 2,
     .group_score = MOE_GROUP_TWO},
    {.n_experts = 9,
     .top_k = 2,
     .score = MOE_SIGMOID,
     .scale = 1,
     .n_groups = 3,
     .top_groups = 2,
     .group_score = MOE_GROUP_BEST},
    {.n_experts = 6, .top_k = 1, .score = MOE_SIGMOID, .scale = 1},
    {.n_experts = 5, .top_k = 5, .score = MOE_SOFTMAX_ALL, .renormalise = true, .scale = 1},
    {.n_experts = 1, .top_k = 1, .score = MOE_SOFTMAX_TOP, .scale = 1},
};

/* ---- routing ---- */

static void check_route(const struct moe_routing *routing, const float *bias, const float *logits)
{
    double wide[MOE_EXPERTS_MAX], expected[MOE_EXPERTS_MAX];
    uint32_t ids[MOE_EXPERTS_MAX], expected_ids[MOE_EXPERTS_MAX];
    float weights[MOE_EXPERTS_MAX];
    for (uint32_t e = 0; e < routing->n_experts; e++)
        wide[e] = (double)logits[e];
    experts_route(routing, bias, wide, expected_ids, expected);
    moe_route(routing, bias, logits, ids, weights);
    for (uint32_t rank = 0; rank < routing->top_k; rank++) {
        cr_assert_eq(ids[rank], expected_ids[rank], "score %d: rank %u is expert %u, not %u",
                     (int)routing->score, rank, ids[rank], expected_ids[rank]);
        cr_assert(fabs((double)weights[rank] - expected[rank]) <= 1e-6 * expected[rank],
                  "score %d: expert %u weighs %g, not %g", (int)routing->score, ids[rank],
                  (double)weights[rank], expected[rank]);
    }
}

Test(moe, chooses_and_weighs_as_each_formula_says_and_lower_experts_first_among_equals)
{
    float logits[16], bias[16];
    for (size_t r = 0; r < COUNT(routings); r++)
        for (uint64_t seed = 0; seed < 300; seed++) {
            for (uint32_t e = 0; e < 16; e++) {
                logits[e] = 3 * values_at(seed, 0, e);
                bias[e] = values_at(seed, 1, e) / 4;
                if (seed % 3 == 0) { /* many equals */
                    logits[e] = roundf(logits[e] / 3);
                    bias[e] = 0;
                }
            }
            check_route(&routings[r], NULL, logits);
            if (routings[r].score == MOE_SIGMOID)
                check_route(&routings[r], bias, logits);
        }
}

Test(moe, extreme_logits_still_choose_different_experts)
{
    static const float extremes[][6] = {
        {NAN, NAN, NAN, NAN, NAN, NAN},
        {0, NAN, 1, NAN, 2, 3},
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
        {INFINITY, INFINITY, 0, 0, -INFINITY, 1},
        {3e38f, -3e38f, 3e38f, 0, 1, 2},
        {-3e38f, -3e38f, -3e38f, -3e38f, -3e38f, -3e38f},
    };
    for (enum moe_score score = MOE_SOFTMAX_ALL; score <= MOE_SIGMOID; score++)
        for (size_t i = 0; i < COUNT(extremes); i++)
            for (uint32_t n_groups = 0; n_groups <= 3; n_groups += 3) {
                struct moe_routing routing = {.n_experts = 6,
                                              .top_k = 4,
                                              .score = score,
                                              .renormalise = true,
                                              .scale = 1,
                                              .n_groups = n_groups,
                                              .top_groups = 2};
                uint32_t ids[4], seen = 0;
                float weights[4];
                moe_route(&routing, NULL, extremes[i], ids, weights);
                for (uint32_t rank = 0; rank < 4; rank++) {
                    cr_assert(ids[rank] < 6);
                    cr_assert_not(seen >> ids[rank] & 1, "expert %u twice", ids[rank]);
                    seen |= 1u << ids[rank];
                    cr_assert(i < 4 || isfinite(weights[rank]));
                }
            }
}

/* A chosen group far below the others: its softmax is still of numbers near one. */
Test(moe, weights_of_a_far_group_sum_to_one)
{
    struct moe_routing routing = {
        .n_experts = 4, .top_k = 2, .score = MOE_SOFTMAX_ALL, .renormalise = true, .scale = 1};
    const float logits[] = {-2000, -2001, -3000, -4000};
    uint32_t ids[2];
    float weights[2];
    moe_route(&routing, NULL, logits, ids, weights);
    cr_assert_eq(ids[0], 0);
    cr_assert_float_eq(weights[0] + weights[1], 1, 1e-6f);
}

/* ---- forward ---- */

/* Tokens of a layer in guarded rows with a gap of NaN; y has something to accumulate to. Where experts have scales the router reads rows
 * that are not x. */
struct batch {
    struct guarded x, router_x, y;
    struct moe_io io;
};

static float x_at(uint32_t token, uint32_t i)
{
    return 1.5f * values_at(21, token, i);
}

static struct batch batch_create(const struct experts *experts, uint32_t first_token,
                                 uint32_t n_tokens, uint32_t gap, bool accumulate)
{
    const uint32_t n_in = experts->config.n_in;
    const bool is_apart = experts->weights.expert_scales;
    size_t floats = n_tokens ? (size_t)n_tokens * (n_in + gap) - gap : 0;
    struct batch batch = {.x = guarded_create(floats * sizeof(float)),
                          .router_x = guarded_create(is_apart ? floats * sizeof(float) : 0),
                          .y = guarded_create(floats * sizeof(float))};
    float *x = batch.x.data, *y = batch.y.data, *router_x = batch.router_x.data;
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t i = 0; i < n_in; i++) {
            x[(size_t)t * (n_in + gap) + i] = x_at(first_token + t, i);
            if (is_apart)
                router_x[(size_t)t * (n_in + gap) + i] = values_at(23, first_token + t, i);
            if (accumulate)
                y[(size_t)t * (n_in + gap) + i] = values_at(22, first_token + t, i);
        }
    batch.io = (struct moe_io){.x = x,
                               .x_stride = n_in + gap,
                               .router_x = is_apart ? router_x : NULL,
                               .router_x_stride = n_in + gap,
                               .y = y,
                               .y_stride = n_in + gap,
                               .n_tokens = n_tokens,
                               .accumulate = accumulate};
    return batch;
}

static void batch_destroy(struct batch *batch)
{
    guarded_destroy(&batch->x);
    guarded_destroy(&batch->router_x);
    guarded_destroy(&batch->y);
}

static struct moe *layer_create(const struct kernels *kernels, const struct experts *experts,
                                uint32_t n_tokens_max)
{
    struct moe *moe;
    struct error error = {""};
    cr_assert_eq(moe_create(kernels, &experts->config, n_tokens_max, &moe, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(moe_check_weights(moe, &experts->weights, &error), STATUS_OK, "%s", error.text);
    return moe;
}

/* Whatever lay in the workspace is NaN: nothing of it may be read. */
static void run(struct moe *moe, struct thread_pool *pool, const struct experts *experts,
                const struct moe_io *io)
{
    memset(moe->workspace, 0xff, moe->workspace_bytes);
    moe_forward(moe, pool, &experts->weights, io);
}

/* Float64 and float32 logits may choose differently when experts are nearly equal. */
#define MARGIN_MIN 2e-4

static uint32_t check_rows(const struct kernels *kernels, const struct experts *experts,
                           uint32_t n_tokens, uint32_t gap, bool accumulate)
{
    const uint32_t n_in = experts->config.n_in;
    struct moe *moe = layer_create(kernels, experts, n_tokens > 0 ? n_tokens + n_tokens % 3 : 1);
    struct batch batch = batch_create(experts, 0, n_tokens, gap, accumulate);
    double expected[1024];
    uint32_t n_checked = 0;
    run(moe, NULL, experts, &batch.io);
    for (uint32_t t = 0; t < n_tokens; t++) {
        const float *y = batch.io.y + t * batch.io.y_stride;
        const float *router_x = batch.io.router_x ? batch.io.router_x + t * batch.io.router_x_stride
                                                  : NULL;
        double margin = experts_expected(experts, batch.io.x + t * batch.io.x_stride, router_x,
                                         expected);
        double largest = 1e-30;
        for (uint32_t i = 0; i < n_in; i++) {
            expected[i] += accumulate ? (double)values_at(22, t, i) : 0;
            largest = fmax(largest, fabs(expected[i]));
        }
        for (uint32_t i = 0; margin > MARGIN_MIN && i < n_in; i++)
            cr_assert(fabs((double)y[i] - expected[i]) <= 1e-5 * largest,
                      "%s, weights %s, %u experts: y[%u][%u] is %g, not %g", kernels->name,
                      dtype_name(experts->weights.experts[0].gate.dtype),
                      experts->config.routing.n_experts, t, i, (double)y[i], expected[i]);
        n_checked += margin > MARGIN_MIN;
        for (uint32_t i = 0; t + 1 < n_tokens && i < gap; i++)
            cr_assert(isnan(y[n_in + i]), "%s wrote between rows", kernels->name);
    }
    batch_destroy(&batch);
    moe_destroy(moe);
    return n_checked;
}

/* A configuration with everything that the number i says. */
static struct moe_config config_of(uint32_t i, uint32_t n_in, uint32_t n_inner)
{
    return (struct moe_config){
        .n_in = n_in,
        .n_inner = n_inner,
        .n_shared_inner = i % 3 == 1   ? n_inner + 32
                          : i % 3 == 2 ? 32
                                       : 0,
        .is_interleaved = i % 2,
        .routing = routings[i % COUNT(routings)],
        .activation = (enum activation)(i % 4),
        .alpha = i % 8 == 0 ? 1.702f : 0,
        .beta = i % 5 == 0 ? 1 : 0,
        .limit = i % 7 == 0 ? 0.7f : 0,
    };
}

static struct experts_options options_of(const struct moe_config *config, uint32_t i,
                                         enum experts_weights weights)
{
    return (struct experts_options){.weights = weights,
                                    .has_bias = i % 4 < 2,
                                    .has_selection_bias = config->routing.score == MOE_SIGMOID &&
                                                          i % 2,
                                    .has_shared_gate = i % 5 < 3,
                                    .has_expert_scales = i % 3 == 1,
                                    .seed = i};
}

Test(moe, every_choice_with_every_type_of_weight_is_its_formula, .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX), n_checked = 0, n_rows = 0, i = 0;
    static const uint32_t token_counts[] = {1, 3, 2, 11, 5};
    for (uint32_t w = 0; w < EXPERTS_WEIGHTS_MAX; w++)
        for (uint32_t r = 0; r < COUNT(routings); r++, i++) {
            struct moe_config config = config_of(i, 32 * (1 + i % 3), 32 * (1 + i % 2));
            config.routing = routings[r];
            struct experts_options options = options_of(&config, i, (enum experts_weights)w);
            struct experts *experts = experts_create(&config, &options);
            for (uint32_t k = 0; k < n_list; k++) {
                uint32_t n_tokens = token_counts[i % COUNT(token_counts)];
                n_checked += check_rows(list[k], experts, n_tokens, i % 2 * 5, i % 3 == 0);
                n_rows += n_tokens;
            }
            experts_destroy(experts);
        }
    cr_assert(n_checked > n_rows * 98 / 100, "%u of %u rows checked", n_checked, n_rows);
}

Test(moe, widths_need_not_fit_a_vector, .description = ONE_THREAD)
{
    static const uint32_t widths[][2] = {{1, 1}, {17, 5}, {33, 40}, {8, 15}, {63, 1}, {65, 100}};
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t i = 0; i < COUNT(widths); i++)
        for (uint32_t w = EXPERTS_F32; w <= EXPERTS_F16; w++) {
            struct moe_config config = config_of(i + w, widths[i][0], widths[i][1]);
            struct experts_options options = options_of(&config, i, (enum experts_weights)w);
            struct experts *experts = experts_create(&config, &options);
            for (uint32_t k = 0; k < n_list; k++)
                check_rows(list[k], experts, 7, 0, false);
            experts_destroy(experts);
        }
}

/* The router's bias alone decides: all tokens meet in the same experts, the others have none. */
Test(moe, all_tokens_may_choose_the_same_experts, .description = ONE_THREAD)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    for (uint32_t top_k = 1; top_k <= 8; top_k += 3) {
        struct moe_config config = config_of(0, 64, 32);
        config.routing.top_k = top_k;
        struct experts_options options = {.weights = EXPERTS_BF16, .has_bias = true};
        struct experts *experts = experts_create(&config, &options);
        float bias[8];
        for (uint32_t e = 0; e < 8; e++)
            bias[e] = 40 * (float)(e * 5 % 8);
        experts->weights.router.bias = bias;
        experts->weights.router.bias_dtype = DTYPE_F32;
        for (uint32_t k = 0; k < n_list; k++)
            for (uint32_t n_tokens = 0; n_tokens <= 70; n_tokens += 35)
                cr_assert_eq(check_rows(list[k], experts, n_tokens, 0, false), n_tokens);
        experts_destroy(experts);
    }
}

/* ---- bits ---- */

enum { BITS_TOKENS = 26 };

/* All tokens at once on some threads, against runs of any length by another implementation. */
static void check_bits(const struct kernels *kernels, const struct kernels *other,
                       struct thread_pool *pool, const struct experts *experts)
{
    const uint32_t n_in = experts->config.n_in;
    struct moe *whole = layer_create(kernels, experts, BITS_TOKENS);
    struct moe *parts = layer_create(other, experts, 9);
    struct batch batch = batch_create(experts, 0, BITS_TOKENS, 0, true);
    run(whole, pool, experts, &batch.io);
    for (uint32_t end = BITS_TOKENS, n = 1; end > 0; end -= n, n = n % 9 + 1) {
        n = n < end ? n : end;
        struct batch part = batch_create(experts, end - n, n, 3, true);
        run(parts, n % 2 ? pool : NULL, experts, &part.io);
        for (uint32_t t = 0; t < n; t++)
            cr_assert_arr_eq(part.io.y + t * part.io.y_stride,
                             batch.io.y + (end - n + t) * batch.io.y_stride, n_in * sizeof(float),
                             "%s and %s differ for token %u", kernels->name, other->name,
                             end - n + t);
        batch_destroy(&part);
    }
    batch_destroy(&batch);
    moe_destroy(whole);
    moe_destroy(parts);
}

static const struct kernels *named(const struct kernels **list, uint32_t n_list, const char *name)
{
    for (uint32_t k = 0; k < n_list; k++)
        if (strcmp(list[k]->name, name) == 0)
            return list[k];
    return NULL;
}

/* One set rounds products; the matrix unit adds BF16 products in another order. */
static bool gives_bits_of_avx2(const struct kernels *kernels)
{
    return strcmp(kernels->name, "amx_bf16") != 0 && !rounds_products(kernels->name);
}

Test(moe, a_row_has_the_same_bits_alone_in_a_batch_and_on_any_threads)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    const struct kernels *avx2 = named(list, n_list, "avx2");
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(3, false, &pool), STATUS_OK);
    for (uint32_t w = 0; w < EXPERTS_WEIGHTS_MAX; w++) {
        struct moe_config config = config_of(w + 1, 160, 96);
        struct experts_options options = options_of(&config, w, (enum experts_weights)w);
        struct experts *experts = experts_create(&config, &options);
        if (w == EXPERTS_BF16)
            check_bits(list[0], list[0], pool, experts);
        for (uint32_t k = 1; k < n_list; k++) {
            check_bits(list[k], list[k], pool, experts);
            if (avx2 && gives_bits_of_avx2(list[k]))
                check_bits(list[k], avx2, pool, experts);
        }
        experts_destroy(experts);
    }
    thread_pool_destroy(pool);
}

/* Packed INT8 weights meet tokens that are rounded to INT8 as well. */
static void check_packed(const struct kernels *kernels, const struct kernels *reference,
                         struct thread_pool *pool, const struct moe_config *config,
                         enum experts_weights weights)
{
    struct experts_options options = options_of(config, 1, weights);
    struct experts *experts = experts_create(config, &options);
    struct batch expected = batch_create(experts, 0, 4, 0, false);
    struct batch got = batch_create(experts, 0, 4, 0, false);
    struct moe *moe = layer_create(reference, experts, 4);
    run(moe, NULL, experts, &expected.io);
    moe_destroy(moe);
    experts_pack(experts, kernels);
    moe = layer_create(kernels, experts, 4);
    run(moe, NULL, experts, &got.io);
    moe_destroy(moe);
    double error = values_error(got.io.y, expected.io.y, 4 * config->n_in);
    cr_assert(error <= 0.03 && error > 1e-5, "%s is off by %g", kernels->name, error);
    check_bits(kernels, kernels, pool, experts);
    batch_destroy(&expected);
    batch_destroy(&got);
    experts_destroy(experts);
}

Test(moe, packed_weights_are_near_and_keep_the_bits_of_a_row)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = kernels_list(list, KERNELS_MAX);
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (uint32_t k = 1; k < n_list; k++)
        for (uint32_t i = 1; i <= 2; i++) { /* interleaved, and not */
            struct moe_config config = config_of(i, 160, 96);
            if (!list[k]->gemm_pack)
                continue;
            check_packed(list[k], list[0], pool, &config, EXPERTS_QUANTIZED + QUANTIZE_INT8_ROWS);
            check_packed(list[k], list[0], pool, &config, EXPERTS_QUANTIZED + QUANTIZE_INT8_GROUPS);
        }
    thread_pool_destroy(pool);
}

/* ---- refusals ---- */

static const struct moe_config good = {
    .n_in = 64,
    .n_inner = 32,
    .routing = {.n_experts = 8, .top_k = 2, .scale = 1},
};

static void assert_refused(const struct moe_config *config, uint32_t n_tokens_max,
                           const char *sentence)
{
    const struct kernels *kernels;
    struct moe *moe;
    struct error error = {""};
    cr_assert_eq(kernels_select("reference", &kernels, NULL), STATUS_OK);
    cr_assert_eq(moe_create(kernels, config, n_tokens_max, &moe, &error), STATUS_INVALID_ARGUMENT,
                 "%s", sentence);
    cr_assert(strstr(error.text, sentence), "\"%s\" does not say \"%s\"", error.text, sentence);
}

#define REFUSED(sentence, change)                                                                  \
    do {                                                                                           \
        struct moe_config config = good;                                                           \
        config.change;                                                                             \
        assert_refused(&config, 16, sentence);                                                     \
    } while (0)

Test(moe, configurations_that_cannot_be_are_refused_with_the_field_and_its_value)
{
    assert_refused(&good, 0, "n_tokens_max is 0");
    REFUSED("n_in is 0", n_in = 0);
    REFUSED("n_inner is 1048577", n_inner = MOE_WIDTH_MAX + 1);
    REFUSED("n_shared_inner is 1048577", n_shared_inner = MOE_WIDTH_MAX + 1);
    REFUSED("n_experts is 0", routing.n_experts = 0);
    REFUSED("n_experts is 1025", routing.n_experts = 1025);
    REFUSED("top_k is 0", routing.top_k = 0);
    REFUSED("top_k is 9", routing.top_k = 9);
    REFUSED("score is 3", routing.score = (enum moe_score)3);
    REFUSED("scale is 0", routing.scale = 0);
    REFUSED("scale is nan", routing.scale = NAN);
    REFUSED("n_groups is 3", routing.n_groups = 3);
    REFUSED("top_groups is 0", routing.n_groups = 4);
    REFUSED("activation is 4", activation = (enum activation)4);
    REFUSED("alpha is -1", alpha = -1);
    REFUSED("beta is inf", beta = INFINITY);
    REFUSED("limit is -7", limit = -7);
    struct moe_config groups = good;
    groups.routing.n_groups = 4;
    groups.routing.top_groups = 5;
    assert_refused(&groups, 16, "top_groups is 5");
    groups.routing.top_groups = 1;
    groups.routing.top_k = 3;
    assert_refused(&groups, 16, "top_k is 3: 1 groups have only 2");
    groups.routing.top_k = 2;
    groups.routing.group_score = MOE_GROUP_TWO;
    assert_refused(&groups, 16, "group_score is the sum of two");
    groups.routing.group_score = (enum moe_group_score)2;
    assert_refused(&groups, 16, "group_score is 2");
    groups = good;
    groups.activation = ACTIVATION_RELU;
    groups.alpha = 1.702f;
    assert_refused(&groups, 16, "alpha is 1.702");
}

static void assert_weights(struct moe *moe, const struct moe_weights *weights, const char *sentence)
{
    struct error error = {""};
    cr_assert_eq(moe_check_weights(moe, weights, &error), STATUS_INVALID_ARGUMENT, "%s", sentence);
    cr_assert(strstr(error.text, sentence), "\"%s\" does not say \"%s\"", error.text, sentence);
}

Test(moe, weights_that_do_not_fit_are_refused_with_the_matrix)
{
    const struct kernels *kernels;
    cr_assert_eq(kernels_select("reference", &kernels, NULL), STATUS_OK);
    struct moe_config config = good;
    config.n_shared_inner = 32;
    struct experts_options options = {.weights = EXPERTS_QUANTIZED + QUANTIZE_MXFP4};
    struct experts *experts = experts_create(&config, &options);
    struct moe_expert *list = (struct moe_expert *)experts->weights.experts;
    struct moe *moe = layer_create(kernels, experts, 4);

    struct moe_weights weights = experts->weights;
    weights.router.w = NULL;
    assert_weights(moe, &weights, "router: w is NULL");
    weights = experts->weights;
    weights.selection_bias = (const float *)list;
    assert_weights(moe, &weights, "selection_bias is set");
    weights = experts->weights;
    weights.experts = NULL;
    assert_weights(moe, &weights, "experts is NULL");
    weights = experts->weights;
    weights.shared.up.w = NULL;
    assert_weights(moe, &weights, "shared expert's up: w is NULL");

    list[5].down.scale_columns = 16;
    assert_weights(moe, &experts->weights,
                   "expert 5's down: w_scale_rows is 1 and w_scale_columns 16");
    list[5].down.scale_columns = 32;
    list[3].gate.scales = NULL;
    assert_weights(moe, &experts->weights, "expert 3's gate: w_scales is NULL");
    moe_destroy(moe);

    experts->config.n_shared_inner = 0;
    experts->config.is_interleaved = true;
    list[3].gate.scales = list[2].gate.scales;
    cr_assert_eq(moe_create(kernels, &experts->config, 4, &moe, NULL), STATUS_OK);
    assert_weights(moe, &experts->weights, "expert 0's up is set");
    for (uint32_t e = 0; e < good.routing.n_experts; e++)
        list[e].up.w = NULL;
    assert_weights(moe, &experts->weights, "a shared expert is set");
    moe_destroy(moe);
    experts_destroy(experts);
}
