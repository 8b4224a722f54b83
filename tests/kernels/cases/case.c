#include "tests/kernels/cases/case.h"

#include "tests/kernels/support/values.h"

#include <stdio.h>

enum {
    SINGLE_VARIANTS = 8, /* of each feature alone, of each pair */
    PAIR_VARIANTS = 3,
    N_PAIRS = ATTENTION_FEATURES * (ATTENTION_FEATURES - 1) / 2,
    N_SINGLES = ATTENTION_FEATURES * SINGLE_VARIANTS,
    N_TRIPLES = 600,
    /* Products of two numbers that the oracle computes for a case, about. */
    WORK_MAX = 1500000,
};

#define PICK(state, array) array[values_below(state, sizeof array / sizeof array[0])]

uint32_t case_count(void)
{
    return N_SINGLES + N_PAIRS * PAIR_VARIANTS + N_TRIPLES;
}

bool case_is_in_short_table(uint32_t number)
{
    if (number < N_SINGLES)
        return true;
    number -= N_SINGLES;
    return number % PAIR_VARIANTS == number / PAIR_VARIANTS % PAIR_VARIANTS;
}

uint32_t case_keys(const struct attention_case *c, uint32_t s)
{
    const struct case_sequence *sequence = &c->sequences[s];
    if (c->keys == KEYS_CROSS)
        return sequence->encoder_len;
    return c->keys == KEYS_SHARD ? sequence->shard_end - sequence->shard_first : sequence->len;
}

uint32_t case_rows(const struct attention_case *c, uint32_t s)
{
    const struct case_sequence *sequence = &c->sequences[s];
    return sequence->prompt_len + (sequence->len - sequence->prompt_len) * sequence->n_beams;
}

static struct attention_case plain_case(uint32_t number, uint64_t *state)
{
    static const uint32_t heads[][2] = {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {3, 1}};
    static const uint32_t dims[] = {8, 16, 24, 32, 40, 64};
    const uint32_t *pair = PICK(state, heads);
    const bool is_flash = values_below(state, 4) == 0; /* by its name */
    const bool has_gaps = values_below(state, 3) == 0;
    return (struct attention_case){
        .number = number,
        .seed = *state,
        .n_heads = pair[0],
        .n_kv_heads = pair[1],
        .head_dim = PICK(state, dims),
        .weights = values_below(state, 3),
        .n_layers = 1,
        .n_windows = 1,
        .n_beams_max = 1,
        .n_draft_max = 1,
        .path = is_flash ? PATH_FLASH : PATH_AUTO,
        .wants_lse = values_below(state, 2) == 0,
        .has_gaps = has_gaps,
        .block_tokens = 8u << values_below(state, 3),
        .n_generated = values_below(state, 4),
        .n_sequences = 1 + values_below(state, 3),
    };
}

static void list_features(uint32_t number, uint64_t *state, uint32_t features_out[3])
{
    for (uint32_t i = 0; i < 3; i++)
        features_out[i] = 0;
    if (number < N_SINGLES) {
        features_out[0] = 1 + number / SINGLE_VARIANTS;
        return;
    }
    number -= N_SINGLES;
    if (number >= N_PAIRS * PAIR_VARIANTS) {
        for (uint32_t i = 0; i < 3; i++)
            do
                features_out[i] = 1 + values_below(state, ATTENTION_FEATURES);
            while ((i > 0 && features_out[i] == features_out[0]) ||
                   (i > 1 && features_out[i] == features_out[1]));
        return;
    }
    uint32_t pair = number / PAIR_VARIANTS, first = 1;
    while (pair >= ATTENTION_FEATURES - first)
        pair -= ATTENTION_FEATURES - first++;
    features_out[0] = first;
    features_out[1] = first + 1 + pair;
}

/* A mask that the other features leave possible; A24 then gives one with the step. */
static void settle_mask(struct attention_case *c)
{
    bool is_windowed = c->is_cyclic || c->sink_tokens != 0;
    for (uint32_t i = 0; i < CASE_LAYERS_MAX; i++)
        is_windowed = is_windowed || c->windows[i] != 0;
    if (c->keys == KEYS_CROSS) {
        c->mask = MASK_BIDIRECTIONAL;
    } else if (is_windowed || c->n_draft_max > 1) {
        c->mask = MASK_CAUSAL;
        if (case_has(c, 24) && c->mask_input == MASK_INPUT_NONE)
            c->mask_input = MASK_INPUT_FLOAT;
    } else if (c->mask == MASK_BIDIRECTIONAL && (c->chunk_blocks != 0 || c->reuses_prefix)) {
        c->mask = MASK_CAUSAL_UPPER_LEFT;
    }
}

static void settle_windows(struct attention_case *c)
{
    if (c->keys == KEYS_CROSS && !case_has(c, 13) && !c->is_cyclic && c->sink_tokens == 0)
        for (uint32_t i = 0; i < CASE_LAYERS_MAX; i++)
            c->windows[i] = 0;
    for (uint32_t i = 0; i < CASE_LAYERS_MAX; i++) {
        if ((c->is_cyclic || c->sink_tokens) && c->windows[i] == 0)
            c->windows[i] = 24;
        if (c->sink_tokens != 0 && c->windows[i] <= c->sink_tokens)
            c->windows[i] += c->sink_tokens;
    }
}

static void settle(struct attention_case *c)
{
    settle_windows(c);
    settle_mask(c);
    bool is_by_length = c->rope.scaling == ROPE_DYNAMIC || c->rope.scaling == ROPE_LONGROPE;
    if (c->sink_tokens != 0 && is_by_length)
        c->rope.scaling = ROPE_NONE;
    c->has_positions = c->has_positions && c->keys == KEYS_SELF && c->sink_tokens == 0;
    c->is_tree = c->is_tree && c->keys != KEYS_CROSS;
    c->is_separate = c->is_separate || c->keys != KEYS_SELF;
    if (c->is_long && c->n_heads * c->head_dim > 128) {
        c->n_sequences = 1;
        if (!case_has(c, 28))
            c->head_dim = 16;
    }
    if (c->rope.theta != 0)
        c->rope.head_dim = c->head_dim;
}

static const uint32_t lengths[] = {1,  2,  7,  8,  9,  15, 16, 17, 24, 31,  32, 33,
                                   40, 47, 48, 63, 64, 65, 72, 90, 97, 128, 129};
static const uint32_t long_lengths[] = {255, 256, 257, 260, 319, 513};

static uint32_t pick_length(const struct attention_case *c, uint32_t s, uint32_t len_max,
                            uint64_t *state)
{
    uint32_t len = c->is_long && s == 0 ? PICK(state, long_lengths) : PICK(state, lengths);
    while (len > len_max)
        len = len > 2 * len_max ? len / 2 : len - 1;
    return len;
}

/* Parts of a sequence that a rank may have: all, none, the first, the middle. */
static void set_shard(struct case_sequence *sequence, uint64_t *state)
{
    uint32_t len = sequence->len;
    uint32_t a = values_below(state, len + 1), b = values_below(state, len + 1);
    sequence->shard_first = a < b ? a : b;
    sequence->shard_end = values_below(state, 4) == 0 ? len : a < b ? b : a;
}

/* Whole blocks of sequence 0's prompt, and a token at least of its own. */
static uint32_t prefix_of(const struct attention_case *c, uint32_t s)
{
    uint32_t a = c->sequences[0].prompt_len, b = c->sequences[s].prompt_len;
    uint32_t most = a < b ? a : b > 0 ? b - 1 : 0;
    bool shares = c->reuses_prefix && c->keys == KEYS_SELF && !c->is_contiguous && s > 0;
    return shares ? most / c->block_tokens * c->block_tokens : 0;
}

static void set_sequence(struct attention_case *c, uint32_t s, uint32_t len_max, uint64_t *state)
{
    uint32_t len = pick_length(c, s, len_max, state);
    uint32_t n_generated = c->n_generated > 0 ? values_below(state, c->n_generated + 1) : 0;
    uint32_t chunk = c->chunk_blocks * c->block_tokens;
    if (s == 0 || c->is_static)
        n_generated = c->n_generated;
    if (c->is_static && len <= n_generated)
        len = n_generated + 1;
    if (chunk != 0 && len <= chunk && chunk < len_max)
        len = chunk + 1 + values_below(state, chunk);
    struct case_sequence *sequence = &c->sequences[s];
    *sequence = (struct case_sequence){.id = s + 1,
                                       .start = c->is_staggered ? 2 * s : 0,
                                       .prompt_len = len > n_generated ? len - n_generated : 0,
                                       .len = len,
                                       .n_beams = 1};
    if (c->n_beams_max > 1)
        sequence->n_beams = s == 0 ? c->n_beams_max : 1 + values_below(state, c->n_beams_max);
    if (c->keys == KEYS_CROSS) {
        sequence->encoder_len = values_below(state, 6) == 0 ? 0 : pick_length(c, s, len_max, state);
        if (sequence->prompt_len == 0)
            sequence->prompt_len = 1; /* the encoder's keys come with it */
    }
    if (c->keys == KEYS_SHARD)
        set_shard(sequence, state);
    sequence->prefix_len = prefix_of(c, s);
}

static void set_sequences(struct attention_case *c, uint64_t *state)
{
    uint64_t cost = (uint64_t)c->n_heads * c->head_dim * c->n_layers * c->n_sequences;
    uint32_t len_max = 1;
    while ((uint64_t)(len_max + 1) * (len_max + 1) * cost <= WORK_MAX * (c->is_long ? 2u : 1u))
        len_max++;
    if (c->is_long) /* of few heads */
        len_max = len_max > 260 ? len_max : 260;
    for (uint32_t s = 0; s < c->n_sequences; s++)
        set_sequence(c, s, len_max, state);
}

/* One in four of those whose generation sequences take a token a step, all of them. */
static void settle_static(struct attention_case *c)
{
    c->is_static = c->number % 4 == 1 && c->n_draft_max == 1 && c->n_beams_max == 1 &&
                   !c->is_staggered;
    if (c->is_static && c->n_generated < 2)
        c->n_generated = 2;
}

/* Values of one field: a case has the one that comes first. */
static bool is_taken(const struct attention_case *c, uint32_t feature)
{
    static const uint64_t keys = (uint64_t)1 << 21 | (uint64_t)1 << 31;
    static const uint64_t math = (uint64_t)1 << 4 | (uint64_t)1 << FEATURE_INT8 |
                                 (uint64_t)1 << FEATURE_BF16 | (uint64_t)1 << FEATURE_FP16;
    const uint64_t asked = (uint64_t)1 << feature, others = c->features & ~asked;
    return ((asked & keys) && (others & keys)) || ((asked & math) && (others & math));
}

struct attention_case case_make(uint32_t number)
{
    uint64_t state = values_hash(number + 1);
    uint32_t features[3];
    struct attention_case c = plain_case(number, &state);
    list_features(number, &state, features);
    for (uint32_t i = 0; i < 3; i++)
        if (features[i] != 0 && !is_taken(&c, features[i]))
            case_use_feature(features[i], &c, &state);
    settle(&c);
    settle_static(&c);
    set_sequences(&c, &state);
    return c;
}

const struct attention_exclusion *case_exclusion(const struct attention_case *c)
{
    const struct attention_exclusion *exclusions;
    uint32_t n = attention_exclusions(&exclusions);
    for (uint32_t i = 0; i < n; i++)
        if (case_has(c, exclusions[i].first) && case_has(c, exclusions[i].second))
            return &exclusions[i];
    return NULL;
}

static void print_features(const struct attention_case *c)
{
    const struct {
        const char *name;
        double value;
    } fields[] = {
        {"n_heads", c->n_heads},
        {"n_kv_heads", c->n_kv_heads},
        {"head_dim", c->head_dim},
        {"weights dtype", c->weights},
        {"q_scaling", (double)c->q_scaling},
        {"scale", (double)c->scale},
        {"soft_cap", (double)c->soft_cap},
        {"output_scale", (double)c->output_scale},
        {"alibi_scale", (double)c->alibi_scale},
        {"bias.table", c->has_table},
        {"sinks", c->has_sinks},
        {"norms", c->has_norm},
        {"qkv_bias", c->has_bias},
        {"positions", c->has_positions},
        {"lse", c->wants_lse},
        {"n_buckets", c->n_buckets},
        {"distance_max", c->distance_max},
        {"is_bidirectional", c->has_bidirectional_buckets},
        {"rope.theta", c->rope.theta},
        {"rope.scaling", c->rope.scaling},
        {"rope.rotary_dim", c->rope.rotary_dim},
        {"rope.is_interleaved", c->rope.is_interleaved},
        {"mask", c->mask},
        {"mask_input", c->mask_input},
        {"mask of all sequences", c->shares_mask_of_sequences},
        {"mask of all queries", c->shares_mask_of_queries},
        {"n_layers", c->n_layers},
        {"n_windows", c->n_windows},
        {"windows[0]", c->windows[0]},
        {"windows[1]", c->windows[1]},
        {"is_cyclic", c->is_cyclic},
        {"sink_tokens", c->sink_tokens},
        {"keys", c->keys},
        {"n_beams_max", c->n_beams_max},
        {"n_draft_max", c->n_draft_max},
        {"tree", c->is_tree},
        {"path", c->path},
        {"math", c->math},
        {"multi_block", c->multi_block},
        {"grouped", c->grouped},
        {"prefix", c->reuses_prefix},
        {"contiguous", c->is_contiguous},
        {"padded", c->is_padded},
        {"separate", c->is_separate},
        {"block_tokens", c->block_tokens},
        {"chunk_blocks", c->chunk_blocks},
        {"gaps", c->has_gaps},
        {"static", c->is_static},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].value != 0)
            fprintf(stderr, " %s %g", fields[i].name, fields[i].value);
}

void case_print(const struct attention_case *c)
{
    fprintf(stderr, "case %u, seed %llu:", c->number, (unsigned long long)c->seed);
    for (uint32_t feature = 1; feature <= ATTENTION_FEATURES; feature++)
        if (case_has(c, feature))
            fprintf(stderr, " %s %s;", attention_feature(feature)->id,
                    attention_feature(feature)->name);
    fprintf(stderr, "\n  compute %s cache %s", dtype_name(c->compute), dtype_name(c->cache));
    print_features(c);
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        const struct case_sequence *sequence = &c->sequences[s];
        fprintf(
            stderr,
            "\n  sequence %u: start %u prefix %u prompt %u len %u beams %u encoder %u shard %u-%u",
            s, sequence->start, sequence->prefix_len, sequence->prompt_len, sequence->len,
            sequence->n_beams, sequence->encoder_len, sequence->shard_first, sequence->shard_end);
    }
    fprintf(stderr, "\n  (zero fields are not shown; KVFERRY_CASE=%u runs it alone)\n", c->number);
}
