/* a prepared step says of every token where its row, its index and its angles are. */
#include "kernels/kernels.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const uint32_t BLOCKS[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};

#define ASSERT_U32(array, ...)                                                                     \
    cr_assert_arr_eq(array, ((uint32_t[]){__VA_ARGS__}), sizeof((uint32_t[]){__VA_ARGS__}))

static const struct attention_backend *reference(void)
{
    const struct kernels *list[1];
    kernels_list(list, 1);
    return list[0]->attention;
}

static struct attention_metadata *prepared(struct attention_limits limits,
                                           const struct attention_step *step)
{
    struct attention_metadata *metadata = NULL;
    struct error error = {""};
    static float cache[1]; /* nothing is read or written: forward is not called */
    struct kv_view kv = kv_view_dense(cache, 12, 1, 1, 8, 8, DTYPE_F32);
    limits.n_sequences_max = 3;
    limits.n_tokens_max = limits.kv_len_max = 64;
    limits.n_heads = limits.n_kv_heads = 1;
    limits.head_dim = 8;
    cr_assert_eq(reference()->metadata_create(&limits, NULL, &metadata, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(reference()->metadata_prepare(metadata, step, &kv, &error), STATUS_OK, "%s",
                 error.text);
    return metadata;
}

/* A chunk of 3 behind 8, a prompt of 2, two beams of a token at index 5. */
static const struct attention_sequence mixed[] = {
    {.phase = PHASE_CONTEXT,
     .query_len = 3,
     .kv_len = 11,
     .prompt_len = 11,
     .block_ids = BLOCKS,
     .n_blocks = 2},
    {.phase = PHASE_CONTEXT,
     .query_len = 2,
     .kv_len = 2,
     .prompt_len = 2,
     .block_ids = BLOCKS,
     .n_blocks = 2},
    {.phase = PHASE_GENERATION,
     .query_len = 1,
     .kv_len = 6,
     .n_beams = 2,
     .block_ids = BLOCKS,
     .n_blocks = 2},
};

Test(metadata, packed_rows_follow_one_another)
{
    struct attention_step step = {.sequences = mixed, .n_sequences = 3};
    struct attention_metadata *metadata = prepared((struct attention_limits){.n_beams_max = 2},
                                                   &step);
    cr_assert_eq(metadata->n_tokens, 7);
    cr_assert_eq(metadata->n_kv_tokens, 7);
    cr_assert_eq(metadata->n_contexts, 2);
    cr_assert_eq(metadata->n_generations, 1);
    cr_assert_eq(metadata->n_context_tokens, 5);
    ASSERT_U32(metadata->token_starts, 0, 3, 5, 7);
    ASSERT_U32(metadata->token_sequences, 0, 0, 0, 1, 1, 2, 2);
    ASSERT_U32(metadata->token_rows, 0, 1, 2, 3, 4, 5, 6);
    ASSERT_U32(metadata->indices, 8, 9, 10, 0, 1, 5, 5);
    ASSERT_U32(metadata->positions, 8, 9, 10, 0, 1, 5, 5);
    ASSERT_U32(metadata->kv_rows, 0, 1, 2, 3, 4, 5, 6);
    ASSERT_U32(metadata->kv_indices, 8, 9, 10, 0, 1, 5, 5);
    ASSERT_U32(metadata->kv_beams, 0, 0, 0, 0, 0, 0, 1);
    reference()->metadata_destroy(metadata);
}

/* What a reader of a step, a scheduler or a log, finds in it. */
Test(metadata, has_the_most_and_the_numbers_of_this_step_by_phase_and_its_sequences)
{
    static const uint32_t given[] = {40, 41, 42};
    struct attention_sequence sequences[3] = {mixed[0], mixed[1], mixed[2]};
    struct attention_step step = {.sequences = sequences, .n_sequences = 3};
    sequences[0].positions = given;
    for (uint32_t s = 0; s < 3; s++)
        sequences[s].request_id = 100 + s;
    struct attention_limits limits = {
        .n_beams_max = 2, .n_contexts_max = 2, .n_context_tokens_max = 48};
    struct attention_metadata *metadata = prepared(limits, &step);
    cr_assert_eq(metadata->limits.n_contexts_max, 2);
    cr_assert_eq(metadata->limits.n_generations_max, 3, "as many as sequences");
    cr_assert_eq(metadata->limits.n_context_tokens_max, 48);
    cr_assert_eq(metadata->n_sequences, 3);
    ASSERT_U32(metadata->positions, 40, 41, 42, 0, 1, 5, 5);
    for (uint32_t s = 0; s < 3; s++) {
        cr_assert_eq(metadata->sequences[s].request_id, 100 + s);
        cr_assert_eq(metadata->sequences[s].query_len, mixed[s].query_len);
        cr_assert_eq(metadata->sequences[s].kv_len, mixed[s].kv_len);
        cr_assert_eq(metadata->sequences[s].prompt_len, mixed[s].prompt_len);
    }
    cr_assert_eq(metadata->kv.n_blocks, 12);
    cr_assert_not(metadata->is_dummy);
    reference()->metadata_destroy(metadata);
    metadata = prepared((struct attention_limits){.n_beams_max = 2}, &step);
    cr_assert_eq(metadata->limits.n_contexts_max, 3);
    cr_assert_eq(metadata->limits.n_context_tokens_max, 64, "as many as tokens");
    reference()->metadata_destroy(metadata);
}

Test(metadata, padded_rows_begin_at_multiples_of_the_padded_length)
{
    struct attention_step step = {.sequences = mixed, .n_sequences = 3, .padded_query_len = 4};
    struct attention_metadata *metadata = prepared((struct attention_limits){.n_beams_max = 2},
                                                   &step);
    ASSERT_U32(metadata->token_starts, 0, 3, 5, 7);
    ASSERT_U32(metadata->token_rows, 0, 1, 2, 4, 5, 8, 12);
    ASSERT_U32(metadata->kv_rows, 0, 1, 2, 4, 5, 8, 12);
    reference()->metadata_destroy(metadata);
}

/* An encoder of 3 comes with a decoder's prompt of 2; another's 4 are cached, 2 more come. */
Test(metadata, keys_of_their_own_have_rows_of_their_own)
{
    const struct attention_sequence sequences[] = {
        {.phase = PHASE_CONTEXT,
         .query_len = 2,
         .kv_len = 3,
         .new_len = 3,
         .block_ids = BLOCKS,
         .n_blocks = 1},
        {.phase = PHASE_CONTEXT,
         .query_len = 1,
         .kv_len = 6,
         .new_len = 2,
         .query_index = 9,
         .block_ids = BLOCKS,
         .n_blocks = 1},
    };
    struct attention_step step = {.sequences = sequences, .n_sequences = 2, .padded_new_len = 5};
    struct attention_limits limits = {
        .keys = KEYS_CROSS, .mask = MASK_BIDIRECTIONAL, .n_kv_tokens_max = 8};
    struct attention_metadata *metadata = prepared(limits, &step);
    cr_assert_eq(metadata->n_tokens, 3);
    cr_assert_eq(metadata->n_kv_tokens, 5);
    ASSERT_U32(metadata->token_starts, 0, 2, 3);
    ASSERT_U32(metadata->kv_starts, 0, 3, 5);
    ASSERT_U32(metadata->token_rows, 0, 1, 2);
    ASSERT_U32(metadata->indices, 0, 1, 9);
    ASSERT_U32(metadata->kv_sequences, 0, 0, 0, 1, 1);
    ASSERT_U32(metadata->kv_rows, 0, 1, 2, 5, 6);
    ASSERT_U32(metadata->kv_indices, 0, 1, 2, 4, 5);
    reference()->metadata_destroy(metadata);
}

static void assert_angle(const float *cos_row, const float *sin_row, uint32_t token, float position)
{
    cr_assert_float_eq(cos_row[token * 4], cosf(position), 1e-5f); /* inv_freq[0] is 1 */
    cr_assert_float_eq(sin_row[token * 4], sinf(position), 1e-5f);
}

/* Two ropes; StreamingLLM counts inside its window of 4; dynamic NTK knows the prompt's length. */
Test(metadata, angles_are_those_of_the_positions)
{
    struct rope_config config = {.head_dim = 8, .positions_max = 64, .theta = 100};
    struct rope *plain, *scaled;
    cr_assert_eq(rope_create(&config, &plain, NULL), STATUS_OK);
    config.scaling = ROPE_LINEAR;
    config.factor = 4;
    cr_assert_eq(rope_create(&config, &scaled, NULL), STATUS_OK);
    struct attention_step step = {.sequences = mixed, .n_sequences = 3};
    struct attention_limits limits = {.n_beams_max = 2, .ropes = {plain, scaled}};
    struct attention_metadata *metadata = prepared(limits, &step);
    assert_angle(metadata->q_cos[0], metadata->q_sin[0], 1, 9);
    assert_angle(metadata->q_cos[1], metadata->q_sin[1], 1, 9.0f / 4);
    assert_angle(metadata->k_cos[1], metadata->k_sin[1], 6, 5.0f / 4);
    reference()->metadata_destroy(metadata);

    limits.sink_tokens = 1;
    limits.window = 4;
    metadata = prepared(limits, &step);
    assert_angle(metadata->q_cos[0], metadata->q_sin[0], 1, 9);
    assert_angle(metadata->q_cos[0], metadata->q_sin[0], 6, 3);
    ASSERT_U32(metadata->positions, 8, 9, 10, 0, 1, 3, 3);
    assert_angle(metadata->position_cos, metadata->position_sin, 63, 63);
    reference()->metadata_destroy(metadata);
    rope_destroy(plain);
    rope_destroy(scaled);
}

/* The second chunk of a prompt of 32 turns as the whole prompt does, and the first does too. */
Test(metadata, a_length_is_the_whole_prompts)
{
    struct rope_config config = {.head_dim = 8,
                                 .positions_max = 64,
                                 .theta = 100,
                                 .scaling = ROPE_DYNAMIC,
                                 .factor = 2,
                                 .original_positions = 16};
    struct rope *rope;
    float cos_row[4], sin_row[4];
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
    for (uint32_t kv_len = 8; kv_len <= 32; kv_len += 8) {
        struct attention_sequence chunk = {.phase = PHASE_CONTEXT,
                                           .query_len = 8,
                                           .kv_len = kv_len,
                                           .prompt_len = 32,
                                           .block_ids = BLOCKS,
                                           .n_blocks = 4};
        struct attention_step step = {.sequences = &chunk, .n_sequences = 1};
        struct attention_metadata *metadata = prepared((struct attention_limits){.ropes = {rope}},
                                                       &step);
        rope_angles(rope, kv_len - 1, 32, cos_row, sin_row);
        cr_assert_arr_eq(metadata->q_cos[0] + 7 * 4, cos_row, sizeof cos_row);
        reference()->metadata_destroy(metadata);
    }
    struct attention_sequence token = {.phase = PHASE_GENERATION,
                                       .query_len = 1,
                                       .kv_len = 33,
                                       .block_ids = BLOCKS,
                                       .n_blocks = 5};
    struct attention_step step = {.sequences = &token, .n_sequences = 1};
    struct attention_metadata *metadata = prepared((struct attention_limits){.ropes = {rope}},
                                                   &step);
    rope_angles(rope, 32, 33, cos_row, sin_row);
    cr_assert_arr_eq(metadata->q_cos[0], cos_row, sizeof cos_row);
    reference()->metadata_destroy(metadata);
    rope_destroy(rope);
}
