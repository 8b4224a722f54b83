#include "kernels/attention_features.h"

#include <assert.h>

/* Sorted by number; features without a number are at the end. The last column names the test that shows the
 * feature. */
static const struct attention_feature features[ATTENTION_FEATURES] = {
    {"A1", "packed and padded input", "padded_query_len, padded_new_len", "equality_test.c"},
    {"A2", "Q, K, V fused or separate; MHA, GQA, MQA", "n_heads, n_kv_heads, q_stride",
     "attention_test.c"},
    {"A3", "context phase unfused, short or flash", "path", "equality_test.c"},
    {"A4", "FP8 context attention", "math MATH_FP8, q_scale", "equality_step_test.c"},
    {"A5", "generation phase", "phase", "attention_test.c"},
    {"A6", "generation split over key ranges", "multi_block", "attention_test.c"},
    {"A7", "K and V read once a query group", "grouped", "attention_test.c"},
    {"A8", "contexts and generations in one step", "phase", "attention_test.c"},
    {"A9", "chunked context", "query_len, prompt_len", "attention_test.c"},
    {"A10", "contiguous cache", "kv_view.is_contiguous", "equality_test.c"},
    {"A11", "paged cache, 8 to 128 tokens a block", "block_tokens, block_ids", "attention_test.c"},
    {"A12", "INT8 or E4M3 cache", "cache, k_scale, v_scale", "equality_step_test.c"},
    {"A13", "sliding window", "window", "attention_test.c"},
    {"A14", "cyclic cache", "is_cyclic", "equality_test.c"},
    {"A15", "a window a layer, layer groups", "attention_layer_groups", "features_test.c"},
    {"A16", "StreamingLLM", "sink_tokens", "equality_test.c"},
    {"A17", "beam search", "n_beams_max, n_beams, cache_source", "equality_step_test.c"},
    {"A18", "RoPE", "rope, positions", "attention_test.c"},
    {"A19", "ALiBi", "bias.alibi_scale", "equality_test.c"},
    {"A20", "scaling and soft cap", "q_scaling, scale, soft_cap", "equality_test.c"},
    {"A21", "cross attention", "keys KEYS_CROSS, new_len", "equality_step_test.c"},
    {"A22", "relative bias, explicit", "bias.table", "equality_test.c"},
    {"A23", "relative bias, T5 buckets", "bias.buckets", "equality_test.c"},
    {"A24", "masks", "mask, mask_input", "equality_test.c"},
    {"A25", "learned attention sinks", "sinks", "equality_test.c"},
    {"A26", "log-sum-exp out", "lse", "equality_test.c"},
    {"A27", "E4M3 output", "output_scale", "equality_step_test.c"},
    {"A28", "head sizes 8 to 512 in eights (on a device to 256)", "head_dim", "attention_test.c"},
    {"A29", "F32, BF16, F16 in, out and cached", "compute, cache", "equality_step_test.c"},
    {"A30", "q/k norm", "q_norm, k_norm", "attention_test.c"},
    {"A31", "context parallelism", "keys KEYS_SHARD, key_index, lse", "context_parallel_test.c"},
    {"A32", "batch invariance", "always", "attention_test.c"},
    {"A33", "draft tokens", "n_draft_max, draft_mask", "equality_step_test.c"},
    {"S1", "INT8 context attention (SageAttention)", "math MATH_INT8, MATH_INT8_PV_FP8",
     "equality_step_test.c"},
    {"B1", "bias of Q, K and V", "qkv_bias", "equality_step_test.c"},
    {"P1", "blocks of another sequence as a prefix", "reuses_prefix", "cases/cases_test.c"},
    {"S2", "BF16 context attention", "math MATH_BF16", "equality_step_test.c"},
    {"S3", "FP16 context attention", "math MATH_FP16", "equality_step_test.c"},
};

static const struct attention_exclusion exclusions[] = {
    {3, FEATURE_INT8, "K is rounded by tiles, which only flash has"},
    {13, 21, "a window counts back from a query, the encoder's keys are not behind it"},
    {14, 17, "a slot is overwritten while another beam still reads it"},
    {14, 21, "the encoder's keys do not grow older"},
    {14, 31, "a rank holds a fixed part of the sequence, not its last tokens"},
    {14, 33, "a draft token that is rejected has overwritten a key still in sight"},
    {14, FEATURE_PREFIX, "a cyclic cache overwrites the prefix"},
    {16, 19, "positions are those inside the cache, ALiBi wants distances in the sequence"},
    {16, 21, "the encoder's keys do not grow older"},
    {16, 22, "positions are those inside the cache, the table wants those in the sequence"},
    {16, 23, "positions are those inside the cache, buckets want distances in the sequence"},
    {16, 31, "a position inside the cache depends on the keys of all ranks"},
    {16, 33, "a query's window moves with every draft token, and K is turned once for all of them"},
    {17, 31, "the new keys of a rank's part belong to no beam"},
    {17, 33, "draft tokens of a beam would need a tree for each beam"},
    {18, 21, "the encoder's keys have no position in the decoder's sequence"},
    {19, 21, "the encoder's keys have no distance to a token of the decoder"},
    {21, 23, "the encoder's keys have no distance to a token of the decoder"},
};

#define N_EXCLUSIONS (sizeof exclusions / sizeof exclusions[0])

const struct attention_feature *attention_feature(uint32_t number)
{
    assert(number >= 1 && number <= ATTENTION_FEATURES);
    return &features[number - 1];
}

uint32_t attention_exclusions(const struct attention_exclusion **exclusions_out)
{
    *exclusions_out = exclusions;
    return N_EXCLUSIONS;
}

uint64_t attention_features_used(const struct attention_config *config)
{
    const struct {
        uint32_t number;
        bool is_used;
    } uses[] = {
        {3, config->path == PATH_UNFUSED || config->path == PATH_SHORT},
        {4, config->math == MATH_FP8},
        {6, config->multi_block != CHOICE_AUTO},
        {7, config->grouped != CHOICE_AUTO},
        {12, dtype_is_8bit(config->cache)},
        {13, config->window != 0 && config->sink_tokens == 0 && !config->is_cyclic},
        {14, config->is_cyclic},
        {16, config->sink_tokens != 0},
        {17, config->n_beams_max > 1},
        {18, config->rope != NULL},
        {19, config->bias.alibi_scale != 0},
        {20, config->q_scaling != 0 || config->scale != 0 || config->soft_cap != 0},
        {21, config->keys == KEYS_CROSS},
        {22, config->bias.table != NULL},
        {23, config->bias.buckets != NULL},
        {24, config->mask != MASK_CAUSAL || config->mask_input != MASK_INPUT_NONE},
        {25, config->sinks != NULL},
        {27, config->output_scale != 0},
        {29,
         config->compute != DTYPE_F32 || config->cache == DTYPE_BF16 || config->cache == DTYPE_F16},
        {30, config->q_norm || config->k_norm},
        {31, config->keys == KEYS_SHARD},
        {33, config->n_draft_max > 1},
        {FEATURE_INT8, config->math == MATH_INT8 || config->math == MATH_INT8_PV_FP8},
        {FEATURE_BIAS, config->qkv_bias != NULL},
        {FEATURE_PREFIX, config->reuses_prefix},
        {FEATURE_BF16, config->math == MATH_BF16},
        {FEATURE_FP16, config->math == MATH_FP16},
    };
    uint64_t used = 0;
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++)
        used |= (uint64_t)uses[i].is_used << uses[i].number;
    return used;
}

enum status attention_features_check(const struct attention_config *config, uint64_t computed,
                                     struct error *error)
{
    uint64_t used = attention_features_used(config);
    for (size_t i = 0; i < N_EXCLUSIONS; i++) {
        const struct attention_feature *first = attention_feature(exclusions[i].first);
        const struct attention_feature *second = attention_feature(exclusions[i].second);
        if (used >> exclusions[i].first & used >> exclusions[i].second & 1)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s %s (%s) excludes %s %s (%s): %s",
                             first->id, first->name, first->fields, second->id, second->name,
                             second->fields, exclusions[i].reason);
    }
    for (uint32_t number = 1; number <= ATTENTION_FEATURES; number++) {
        const struct attention_feature *feature = attention_feature(number);
        if (used & ~computed & ATTENTION_FEATURE(number))
            return error_set(error, STATUS_UNSUPPORTED,
                             "%s %s (%s) is not computed by this back end", feature->id,
                             feature->name, feature->fields);
    }
    return STATUS_OK;
}

uint32_t attention_layer_groups(const uint32_t *windows, uint32_t n_windows, uint32_t n_layers,
                                uint32_t *layer_windows_out, uint32_t *layer_groups_out)
{
    uint32_t n_groups = 0;
    assert(n_windows > 0);
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        uint32_t window = windows[layer % n_windows];
        uint32_t earlier = 0;
        while (earlier < layer && layer_windows_out[earlier] != window)
            earlier++;
        layer_windows_out[layer] = window;
        layer_groups_out[layer] = earlier < layer ? layer_groups_out[earlier] : n_groups++;
    }
    return n_groups;
}
