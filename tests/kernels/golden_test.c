/* attention: every implementation computes what PyTorch's operator and Transformers' models compute
 * with the same q, k and v, however the tokens are cut into steps. tests/golden/attention has them. */
#include "kernels/backend/position_bias.h"
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/golden.h"
#include "tests/kernels/support/golden_run.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <math.h>

TestSuite(golden, .description = ONE_THREAD);

#define HEADS(heads, kv_heads, dim) .n_heads = heads, .n_kv_heads = kv_heads, .head_dim = dim
#define ROPE                        .theta = 100

static const double short_factors[] = {1.0, 1.1, 1.3, 1.4}, long_factors[] = {1.0, 2.0, 3.0, 4.5};

#define GPT_OSS_ROPE                                                                               \
    ROPE, .scaling = ROPE_YARN, .factor = 4, .original_positions = 16, .no_truncate = true
#define GEMMA2_SCORES .soft_cap = 2, .scale = 0.4472135955f /* 5^-0.5 */

/* What each model asks of the operator. */
static const struct golden models[] = {
    {.name = "llama", .config = {HEADS(4, 2, 8)}, .rope = {ROPE}},
    {.name = "llama_positions", .config = {HEADS(4, 2, 8)}, .rope = {ROPE}},
    {.name = "llama_dynamic",
     .config = {HEADS(4, 2, 8)},
     .rope = {ROPE, .scaling = ROPE_DYNAMIC, .factor = 3, .original_positions = 16}},
    {.name = "llama_longrope",
     .config = {HEADS(4, 2, 8)},
     .rope = {ROPE, .scaling = ROPE_LONGROPE, .factor = 4, .original_positions = 16,
              .short_factors = short_factors, .long_factors = long_factors}},
    {.name = "qwen2", .config = {HEADS(4, 2, 8)}, .rope = {ROPE}},
    {.name = "qwen3", .config = {HEADS(4, 2, 16), .norm_eps = 1e-6f}, .rope = {ROPE}},
    {.name = "mistral", .config = {HEADS(4, 2, 8), .window = 7}, .rope = {ROPE}},
    {.name = "gemma2_sliding",
     .config = {HEADS(4, 2, 8), GEMMA2_SCORES, .window = 7},
     .rope = {ROPE}},
    {.name = "gemma2_full", .config = {HEADS(4, 2, 8), GEMMA2_SCORES}, .rope = {ROPE}},
    {.name = "gpt_oss_sliding", .config = {HEADS(4, 2, 8), .window = 7}, .rope = {GPT_OSS_ROPE}},
    {.name = "gpt_oss_full", .config = {HEADS(4, 2, 8)}, .rope = {GPT_OSS_ROPE}},
    {.name = "gptj",
     .config = {HEADS(2, 2, 16)},
     .rope = {.theta = 10000, .rotary_dim = 8, .is_interleaved = true}},
    {.name = "gpt_neox", .config = {HEADS(2, 2, 16)}, .rope = {ROPE, .rotary_dim = 4}},
    {.name = "bloom", .config = {HEADS(7, 7, 8), .bias = {.alibi_scale = 1}}},
    {.name = "falcon",
     .config = {HEADS(4, 1, 8), .bias = {.alibi_scale = 0.3535533906f /* 8^-0.5 */}}},
    {.name = "t5_encoder",
     .config = {HEADS(2, 2, 8), .scale = 1, .mask = MASK_BIDIRECTIONAL,
                .bias = {.n_buckets = 32, .distance_max = 128, .is_bidirectional = true}}},
    {.name = "t5_decoder",
     .config = {HEADS(2, 2, 8), .scale = 1, .bias = {.n_buckets = 32, .distance_max = 128}}},
    {.name = "t5_decoder",
     .config = {HEADS(2, 2, 8), .scale = 1, .bias = {.n_queries = 40, .n_keys = 40}}},
    {.name = "t5_cross",
     .config = {HEADS(2, 2, 8), .scale = 1, .mask = MASK_BIDIRECTIONAL, .keys = KEYS_CROSS}},
    {.name = "streaming_llm",
     .config = {HEADS(4, 2, 8), .window = 12, .sink_tokens = 4},
     .rope = {ROPE}},
};

enum { LEN = 24, CROSS_LEN = 5 }; /* of sdpa.py: keys, queries of another sequence */

#define SDPA  HEADS(2, 2, 8)
#define BOTH  .mask = MASK_BIDIRECTIONAL
#define CROSS BOTH, .keys = KEYS_CROSS
#define BOOL  .mask_input = MASK_INPUT_BOOL
#define FLOAT .mask_input = MASK_INPUT_FLOAT

static const struct golden calls[] = {
    {.name = "sdpa", .config = {SDPA, BOTH}},
    {.name = "sdpa_causal", .config = {SDPA}},
    {.name = "sdpa_scale", .config = {SDPA, .scale = 0.8f}},
    {.name = "sdpa_gqa", .config = {HEADS(4, 2, 8)}},
    {.name = "sdpa_mqa", .config = {HEADS(4, 1, 8)}},
    {.name = "sdpa_cross", .config = {SDPA, CROSS}},
    {.name = "sdpa_upper_left", .config = {SDPA, .mask = MASK_CAUSAL_UPPER_LEFT}},
    {.name = "sdpa_lower_right", .config = {SDPA}},
    {.name = "sdpa_bool", .config = {SDPA, BOTH, BOOL}, .mask_query_stride = LEN},
    {.name = "sdpa_bool_empty_rows", .config = {SDPA, BOTH, BOOL}, .mask_query_stride = LEN},
    {.name = "sdpa_bool_causal",
     .config = {SDPA, BOOL},
     .mask_query_stride = LEN,
     .mask_sequence_stride = LEN * LEN},
    {.name = "sdpa_bool_batch",
     .config = {SDPA, BOTH, BOOL},
     .mask_query_stride = LEN,
     .mask_sequence_stride = LEN * LEN},
    {.name = "sdpa_bool_keys", .config = {SDPA, BOTH, BOOL}, .mask_sequence_stride = LEN},
    {.name = "sdpa_float", .config = {SDPA, BOTH, FLOAT}, .mask_query_stride = LEN},
    {.name = "sdpa_float_batch",
     .config = {SDPA, BOTH, FLOAT},
     .mask_query_stride = LEN,
     .mask_sequence_stride = LEN * LEN},
    {.name = "sdpa_float_keys", .config = {SDPA, BOTH, FLOAT}, .mask_sequence_stride = LEN},
    {.name = "sdpa_float_cross",
     .config = {SDPA, CROSS, FLOAT},
     .mask_query_stride = LEN,
     .mask_sequence_stride = CROSS_LEN * LEN},
    {.name = "sdpa_float_heads", .config = {SDPA, BOTH, .bias = {.n_queries = LEN, .n_keys = LEN}}},
};

/* Both sides compute in float32 or better: the worst measured is 1.0e-6. */
#define NEAR 1e-5

static void check_goldens(const struct golden *goldens, size_t n)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = attention_list(list);
    for (size_t g = 0; g < n; g++)
        for (uint32_t k = 0; k < n_list; k++) {
            uint32_t n_cuts;
            double worst = golden_run(&goldens[g], list[k]->attention, &n_cuts);
            cr_log_info("%s, %s: off by %.1e in %u cuts", goldens[g].name, list[k]->name, worst,
                        n_cuts);
            cr_assert_leq(worst, NEAR, "%s, %s: off by %g", goldens[g].name, list[k]->name, worst);
        }
}

#define COUNT(array) (sizeof array / sizeof array[0])

Test(golden, models_attend_as_in_transformers)
{
    check_goldens(models, COUNT(models));
}

Test(golden, masks_scales_and_groups_are_those_of_pytorch)
{
    check_goldens(calls, COUNT(calls));
}

Test(golden, beams_attend_as_in_transformers_beam_search)
{
    const struct golden golden = {
        .name = "beam_search", .config = {HEADS(4, 2, 8), .n_beams_max = 3}, .rope = {ROPE}};
    const struct kernels *list[KERNELS_MAX];
    uint32_t n_list = attention_list(list);
    for (uint32_t k = 0; k < n_list; k++) {
        double worst = golden_run_beams(&golden, list[k]->attention);
        cr_log_info("%s, %s: off by %.1e", golden.name, list[k]->name, worst);
        cr_assert_leq(worst, NEAR, "%s: off by %g", list[k]->name, worst);
    }
}

Test(golden, alibi_slopes_are_those_of_bloom)
{
    enum { HEADS_MAX = 40 };
    struct golden_file file = golden_open("alibi_slopes");
    const float *expected = golden_floats(&file, "slopes", HEADS_MAX * (HEADS_MAX + 1) / 2);
    for (uint32_t n = 1; n <= HEADS_MAX; expected += n++) {
        float slopes[HEADS_MAX];
        alibi_slopes(n, slopes);
        for (uint32_t head = 0; head < n; head++) /* torch multiplies the base, rounded */
            cr_assert_float_eq(slopes[head] / expected[head], 1, 2e-6, "head %u of %u", head, n);
    }
    golden_close(&file);
}

Test(golden, buckets_are_those_of_t5)
{
    enum { DISTANCE_MAX = 300, DISTANCES = 2 * DISTANCE_MAX + 1 };
    static const struct {
        uint32_t n_buckets, distance_max;
        bool is_bidirectional;
    } kinds[] = {{32, 128, true}, {32, 128, false}, {16, 32, true},
                 {16, 32, false}, {8, 100, false},  {64, 512, true}};
    struct golden_file file = golden_open("t5_buckets");
    const uint32_t *expected = golden_numbers(&file, "buckets_of", COUNT(kinds) * DISTANCES);
    for (size_t i = 0; i < COUNT(kinds); i++)
        for (int distance = -DISTANCE_MAX; distance <= DISTANCE_MAX; distance++)
            cr_assert_eq(t5_bucket(distance, kinds[i].n_buckets, kinds[i].distance_max,
                                   kinds[i].is_bidirectional),
                         *expected++, "%u buckets up to %u: distance %d", kinds[i].n_buckets,
                         kinds[i].distance_max, distance);
    golden_close(&file);
}
