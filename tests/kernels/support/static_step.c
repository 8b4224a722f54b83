#include "tests/kernels/support/static_step.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static const float SINKS[LAYER_HEADS] = {0.5f, -1, 2, 0};
float static_qkv_bias[(LAYER_HEADS + 2 * LAYER_KV_HEADS) * LAYER_DIM];
float static_norm[LAYER_DIM];
static struct rope *rope;

const struct static_kind static_kinds[STATIC_KINDS] = {
    {"plain", {.layer_index = 0}, 1, false, false},
    {"rope", {.layer_index = 0}, 1, true, false},
    {"contiguous", {.layer_index = 0}, 1, true, true},
    {"drafts", {.n_draft_max = 3}, 3, true, false},
    {"window", {.window = 16}, 1, true, false},
    {"cyclic", {.window = 16, .is_cyclic = true}, 1, true, false},
    {"streaming", {.window = 16, .sink_tokens = 4}, 1, true, false},
    {"sinks", {.sinks = SINKS}, 1, true, false},
    {"alibi", {.bias = {.alibi_scale = 1}}, 1, false, false},
    {"bias and norm",
     {.qkv_bias = static_qkv_bias, .q_norm = static_norm, .k_norm = static_norm, .norm_eps = 1e-6f},
     1,
     true,
     false},
    {"bf16 cache", {.cache = DTYPE_BF16}, 1, true, false},
    {"int8", {.cache = DTYPE_INT8, .k_scale = 0.03f, .v_scale = 0.03f}, 1, true, false},
    {"e4m3 out", {.output_scale = 0.01f}, 1, true, false},
    {"split", {.multi_block = CHOICE_ON}, 1, true, false},
    {"heads alone", {.grouped = CHOICE_OFF}, 1, true, false},
    {"unfused", {.path = PATH_UNFUSED}, 1, true, false},
    {"short", {.path = PATH_SHORT, .sinks = SINKS}, 1, true, false},
};

void static_step_begin(void)
{
    const struct rope_config config = {.head_dim = LAYER_DIM, .positions_max = 256, .theta = 100};
    cr_assert_eq(rope_create(&config, &rope, NULL), STATUS_OK);
    for (uint32_t i = 0; i < sizeof static_qkv_bias / sizeof static_qkv_bias[0]; i++)
        static_qkv_bias[i] = layer_q(77, i);
    for (uint32_t i = 0; i < LAYER_DIM; i++)
        static_norm[i] = 1 + 0.1f * layer_k(78, i);
}

void static_step_end(void)
{
    rope_destroy(rope);
}

struct attention_config static_config(const struct static_kind *kind)
{
    struct attention_config config = kind->config;
    config.rope = kind->is_turned ? rope : NULL;
    return config;
}

void static_step_run(struct layer *layer, const struct static_kind *kind,
                     enum attention_phase phase, uint32_t n, uint32_t kv_len, uint32_t n_static,
                     struct layer_rows *rows_out)
{
    uint32_t blocks[STATIC_SEQUENCES][8], tokens[STATIC_SEQUENCES * STATIC_PROMPT];
    struct attention_sequence sequences[STATIC_SEQUENCES];
    const uint32_t query_len = phase == PHASE_CONTEXT ? STATIC_PROMPT : kind->n_query;
    for (uint32_t i = 0; i < STATIC_SEQUENCES * STATIC_PROMPT; i++)
        tokens[i] = 100 * kv_len + i;
    for (uint32_t s = 0; s < STATIC_SEQUENCES; s++) {
        for (uint32_t i = 0; i < 8; i++)
            blocks[s][i] = 8 * s + i;
        sequences[s] = (struct attention_sequence){.phase = phase,
                                                   .query_len = query_len,
                                                   .kv_len = kv_len + query_len,
                                                   .prompt_len = STATIC_PROMPT,
                                                   .block_ids = blocks[s],
                                                   .n_blocks = kind->is_contiguous ? 1 : 8};
        if (s >= n)
            sequences[s] = (struct attention_sequence){
                .phase = phase, .query_len = query_len, .kv_len = query_len, .is_dummy = true};
    }
    const struct attention_step step = {.sequences = sequences,
                                        .n_sequences = n < n_static ? n_static : n};
    layer_step(layer, &step, tokens, NULL, rows_out);
}

void static_step_assert_rows(const struct layer_rows *got, const struct layer_rows *expected,
                             uint32_t n_real, uint32_t n_all, const char *what)
{
    static const float ZEROS[LAYER_HEADS * LAYER_DIM];
    cr_assert_arr_eq(got->output, expected->output, n_real * sizeof got->output[0], "%s", what);
    cr_assert_arr_eq(got->lse, expected->lse, n_real * sizeof got->lse[0], "%s", what);
    for (uint32_t row = n_real; row < n_all; row++) {
        cr_assert_arr_eq(got->output[row], ZEROS, sizeof ZEROS, "%s: row %u", what, row);
        for (uint32_t h = 0; h < LAYER_HEADS; h++)
            cr_assert_eq(got->lse[row][h], -INFINITY, "%s: row %u", what, row);
    }
}

void static_step_assert_caches(const struct layer *got, const struct layer *expected,
                               const char *what, uint32_t n)
{
    cr_assert_eq(memcmp(got->kv.base, expected->kv.base, LAYER_BLOCKS * got->kv.block_stride), 0,
                 "%s: the cache of %u of %u", what, n, (uint32_t)STATIC_SEQUENCES);
}
