/* What each of the features sets in a case. What two of them want together is settled in case.c. */
#include "tests/kernels/cases/case.h"
#include "tests/kernels/support/values.h"

#define PICK(state, array) array[values_below(state, sizeof array / sizeof array[0])]

static bool flip(uint64_t *state)
{
    return values_below(state, 2) == 0;
}

static void use_padding(struct attention_case *c, uint64_t *state)
{
    c->is_padded = true;
    c->n_sequences = 1 + values_below(state, 3);
}

static void set_heads(struct attention_case *c, const uint32_t heads[2])
{
    c->n_heads = heads[0];
    c->n_kv_heads = heads[1];
}

static void use_separate(struct attention_case *c, uint64_t *state)
{
    static const uint32_t heads[][2] = {{4, 4}, {3, 3}, {6, 3}, {6, 2}, {5, 1}, {9, 3}, {12, 1}};
    set_heads(c, PICK(state, heads));
    c->is_separate = values_below(state, 4) > 0;
}

static void use_path(struct attention_case *c, uint64_t *state)
{
    c->path = flip(state) ? PATH_UNFUSED : PATH_SHORT;
    c->is_long = c->is_long || values_below(state, 4) == 0;
}

static void use_fp8_math(struct attention_case *c, uint64_t *state)
{
    c->math = MATH_FP8;
    c->compute = c->compute == DTYPE_F32 ? (enum dtype)values_below(state, 3) : c->compute;
}

static void use_generation(struct attention_case *c, uint64_t *state)
{
    c->n_generated = 3 + values_below(state, 6);
    c->has_bias = c->has_bias || flip(state);
}

static void use_multi_block(struct attention_case *c, uint64_t *state)
{
    c->multi_block = flip(state) ? CHOICE_ON : CHOICE_OFF;
    c->is_long = true;
    c->n_generated = 1 + values_below(state, 3);
}

static void use_grouped(struct attention_case *c, uint64_t *state)
{
    static const uint32_t heads[][2] = {{2, 1}, {4, 2}, {8, 2}, {8, 1}, {13, 1}, {16, 2}};
    set_heads(c, PICK(state, heads));
    c->grouped = flip(state) ? CHOICE_ON : CHOICE_OFF;
    c->block_tokens = 8u << values_below(state, 5);
}

static void use_in_flight(struct attention_case *c, uint64_t *state)
{
    c->is_staggered = true;
    c->n_sequences = 3 + values_below(state, 2);
    c->n_generated = 4;
}

static void use_chunks(struct attention_case *c, uint64_t *state)
{
    c->chunk_blocks = 1 + values_below(state, 3);
}

static void use_contiguous(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->is_contiguous = true;
}

static void use_pages(struct attention_case *c, uint64_t *state)
{
    c->block_tokens = 8u << values_below(state, 5);
    if (c->cache == DTYPE_F32)
        c->cache = DTYPE_F32 + values_below(state, 3);
}

static void use_narrow_cache(struct attention_case *c, uint64_t *state)
{
    c->cache = flip(state) ? DTYPE_INT8 : DTYPE_E4M3;
}

static const uint32_t windows[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100};

static void use_window(struct attention_case *c, uint64_t *state)
{
    for (uint32_t i = 0; i < CASE_LAYERS_MAX; i++)
        if (c->windows[i] == 0)
            c->windows[i] = PICK(state, windows);
}

static void use_cyclic(struct attention_case *c, uint64_t *state)
{
    use_window(c, state);
    c->is_cyclic = true;
}

static void use_layers(struct attention_case *c, uint64_t *state)
{
    c->n_layers = CASE_LAYERS_MAX;
    c->n_windows = 2;
    for (uint32_t i = 0; i < c->n_windows; i++)
        if (c->windows[i] == 0)
            c->windows[i] = i == 0 && flip(state) ? 0 : PICK(state, windows);
}

static void use_streaming(struct attention_case *c, uint64_t *state)
{
    static const uint32_t sinks[] = {1, 2, 4, 7, 8, 9};
    use_window(c, state);
    c->sink_tokens = PICK(state, sinks);
    c->n_generated = 2 + values_below(state, 6);
}

static void use_beams(struct attention_case *c, uint64_t *state)
{
    c->n_beams_max = 2 + values_below(state, CASE_BEAMS_MAX - 1);
    c->n_generated = 2 + values_below(state, 4);
}

static const double short_factors[HEAD_DIM_MAX / 2] = {[0 ... HEAD_DIM_MAX / 2 - 1] = 1.25};
static const double long_factors[HEAD_DIM_MAX / 2] = {[0 ... HEAD_DIM_MAX / 2 - 1] = 3};

static void use_rope(struct attention_case *c, uint64_t *state)
{
    static const struct rope_config ropes[] = {
        {.scaling = ROPE_NONE},
        {.scaling = ROPE_LINEAR, .factor = 4},
        {.scaling = ROPE_DYNAMIC, .factor = 2, .original_positions = 40},
        {.scaling = ROPE_LLAMA3,
         .factor = 8,
         .low_freq_factor = 1,
         .high_freq_factor = 4,
         .original_positions = 32},
        {.scaling = ROPE_YARN, .factor = 4, .original_positions = 32},
        {.scaling = ROPE_LONGROPE,
         .original_positions = 32,
         .short_factors = short_factors,
         .long_factors = long_factors},
    };
    c->rope = PICK(state, ropes);
    c->rope.is_interleaved = flip(state);
    c->rope.theta = flip(state) ? 10000 : 100;
    c->rope.positions_max = 4096;
    c->rope.rotary_dim = flip(state) ? 0 : 4 + 2 * values_below(state, 3); /* 8 fit every head */
    c->has_positions = values_below(state, 3) == 0;
}

static void use_alibi(struct attention_case *c, uint64_t *state)
{
    c->alibi_scale = flip(state) ? 1 : 0.25f;
}

static void use_scaling(struct attention_case *c, uint64_t *state)
{
    if (flip(state))
        c->q_scaling = 0.5f;
    else
        c->scale = 0.2f;
    if (flip(state))
        c->soft_cap = 3;
}

static void use_cross(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->keys = KEYS_CROSS;
}

static void use_table(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->has_table = true;
}

static void use_buckets(struct attention_case *c, uint64_t *state)
{
    static const uint32_t counts[] = {4, 8, 32};
    c->n_buckets = PICK(state, counts);
    c->distance_max = c->n_buckets + 1 + values_below(state, 100);
    c->has_bidirectional_buckets = flip(state);
}

static void use_mask(struct attention_case *c, uint64_t *state)
{
    c->mask = values_below(state, 3);
    c->mask_input = values_below(state, 3);
    if (c->mask == MASK_CAUSAL && c->mask_input == MASK_INPUT_NONE)
        c->mask_input = MASK_INPUT_BOOL;
    c->shares_mask_of_sequences = flip(state);
    c->shares_mask_of_queries = values_below(state, 4) == 0;
}

static void use_sinks(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->has_sinks = true;
}

static void use_lse(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->wants_lse = true;
}

static void use_narrow_output(struct attention_case *c, uint64_t *state)
{
    c->output_scale = flip(state) ? 1.0f / 64 : 0.01f;
}

enum { DEVICE_HEAD_DIM_MAX = 256 }; /* cases_test.c makes some longer */

static void use_head_dim(struct attention_case *c, uint64_t *state)
{
    c->head_dim = 8 * (1 + values_below(state, DEVICE_HEAD_DIM_MAX / 8));
}

static void use_compute(struct attention_case *c, uint64_t *state)
{
    c->compute = flip(state) ? DTYPE_BF16 : DTYPE_F16;
    if (c->cache == DTYPE_F32 && values_below(state, 4) > 0)
        c->cache = c->compute;
}

static void use_norm(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->has_norm = true;
}

static void use_shard(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->keys = KEYS_SHARD;
}

static void use_batch(struct attention_case *c, uint64_t *state)
{
    c->n_sequences = CASE_SEQUENCES_MAX - values_below(state, 3);
}

static void use_drafts(struct attention_case *c, uint64_t *state)
{
    static const uint32_t drafts[] = {2, 3, 5, 8, 17};
    c->n_draft_max = PICK(state, drafts);
    c->n_generated = c->n_draft_max + values_below(state, 12);
    c->is_tree = flip(state);
}

static void use_int8_math(struct attention_case *c, uint64_t *state)
{
    c->math = flip(state) ? MATH_INT8 : MATH_INT8_PV_FP8;
    c->compute = c->compute == DTYPE_F32 ? (enum dtype)values_below(state, 3) : c->compute;
}

static void use_bias(struct attention_case *c, uint64_t *state)
{
    (void)state;
    c->has_bias = true;
}

static void use_prefix(struct attention_case *c, uint64_t *state)
{
    c->reuses_prefix = true;
    c->n_sequences = 2 + values_below(state, 2);
    c->block_tokens = 8;
}

static void use_bf16_math(struct attention_case *c, uint64_t *state)
{
    c->math = MATH_BF16;
    if (c->cache == DTYPE_F32 && c->compute == DTYPE_F32)
        c->cache = DTYPE_F32 + values_below(state, 3);
    c->is_long = c->is_long || values_below(state, 4) == 0;
}

static void use_fp16_math(struct attention_case *c, uint64_t *state)
{
    use_bf16_math(c, state);
    c->math = MATH_FP16;
}

void case_use_feature(uint32_t feature, struct attention_case *test_case, uint64_t *state)
{
    static void (*const uses[ATTENTION_FEATURES])(struct attention_case *, uint64_t *) = {
        use_padding,     use_separate,      use_path,      use_fp8_math,  use_generation,
        use_multi_block, use_grouped,       use_in_flight, use_chunks,    use_contiguous,
        use_pages,       use_narrow_cache,  use_window,    use_cyclic,    use_layers,
        use_streaming,   use_beams,         use_rope,      use_alibi,     use_scaling,
        use_cross,       use_table,         use_buckets,   use_mask,      use_sinks,
        use_lse,         use_narrow_output, use_head_dim,  use_compute,   use_norm,
        use_shard,       use_batch,         use_drafts,    use_int8_math, use_bias,
        use_prefix,      use_bf16_math,     use_fp16_math,
    };
    test_case->features |= (uint64_t)1 << feature;
    uses[feature - 1](test_case, state);
}
