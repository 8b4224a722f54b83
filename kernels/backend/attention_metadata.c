#include "kernels/backend/attention_metadata.h"

#include "kernels/backend/attention_layer.h"
#include "kernels/backend/attention_step_check.h"

#include <assert.h>
#include <stdlib.h>

static enum status check_ropes(const struct attention_limits *limits, struct error *error)
{
    for (uint32_t i = 0; i < ATTENTION_ROPES_MAX; i++) {
        const struct rope *rope = limits->ropes[i];
        if (rope && i > 0 && !limits->ropes[i - 1])
            return error_set(error, STATUS_INVALID_ARGUMENT, "ropes[%u] is set, ropes[%u] is NULL",
                             i, i - 1);
        if (rope && rope_head_dim(rope) != limits->head_dim)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "the rope is of head_dim %u, head_dim is %u", rope_head_dim(rope),
                             limits->head_dim);
    }
    return STATUS_OK;
}

static enum status check_shape(const struct attention_limits *limits, struct error *error)
{
    TRY(attention_check_heads(limits->n_heads, limits->n_kv_heads, limits->head_dim, error));
    const struct listed_field choices[] = {{"cache dtype", limits->cache, DTYPE_E4M3},
                                           {"keys", limits->keys, KEYS_SHARD},
                                           {"mask", limits->mask, MASK_BIDIRECTIONAL}};
    TRY(attention_check_choices(choices, sizeof choices / sizeof choices[0], error));
    return check_ropes(limits, error);
}

/* The bound of one phase must not exceed the bound of all. */
static enum status check_phases(const struct attention_limits *limits, struct error *error)
{
    const struct {
        const char *field, *field_of_all;
        uint32_t value, all;
    } parts[] = {
        {"n_contexts_max", "n_sequences_max", limits->n_contexts_max, limits->n_sequences_max},
        {"n_generations_max", "n_sequences_max", limits->n_generations_max,
         limits->n_sequences_max},
        {"n_context_tokens_max", "n_tokens_max", limits->n_context_tokens_max,
         limits->n_tokens_max},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].value > parts[i].all)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %u, %s is %u", parts[i].field,
                             parts[i].value, parts[i].field_of_all, parts[i].all);
    return STATUS_OK;
}

static enum status check_limits(const struct attention_limits *limits, struct error *error)
{
    TRY(check_shape(limits, error));
    if (limits->n_sequences_max == 0 || limits->n_tokens_max == 0 || limits->kv_len_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_sequences_max %u, n_tokens_max %u, kv_len_max %u: none may be 0",
                         limits->n_sequences_max, limits->n_tokens_max, limits->kv_len_max);
    TRY(check_phases(limits, error));
    if (limits->keys == KEYS_SELF && limits->n_kv_tokens_max != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_kv_tokens_max is %u, must be 0 with KEYS_SELF",
                         limits->n_kv_tokens_max);
    if (limits->keys == KEYS_CROSS && limits->ropes[0])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ropes are set with KEYS_CROSS: the encoder's keys have no position here");
    if (limits->is_cyclic && limits->window == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "is_cyclic with window 0: a cyclic cache has as many slots as the window");
    if (limits->sink_tokens != 0 && limits->sink_tokens >= limits->window)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens is %u, must be under the window, %u", limits->sink_tokens,
                         limits->window);
    if ((limits->is_cyclic || limits->sink_tokens != 0) && limits->keys != KEYS_SELF)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "keys %d with is_cyclic or sink_tokens %u: must be KEYS_SELF",
                         (int)limits->keys, limits->sink_tokens);
    if (limits->is_cyclic && (limits->n_beams_max > 1 || limits->n_draft_max > 1))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "is_cyclic with n_beams_max %u, n_draft_max %u: slots are overwritten",
                         limits->n_beams_max, limits->n_draft_max);
    if (limits->sink_tokens != 0 && limits->n_draft_max > 1)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens %u with n_draft_max %u: K turns once for all queries",
                         limits->sink_tokens, limits->n_draft_max);
    if (limits->n_draft_max > DRAFT_TOKENS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_draft_max is %u, at most %u",
                         limits->n_draft_max, DRAFT_TOKENS_MAX);
    return STATUS_OK;
}

static uint32_t half_rotary(const struct rope *rope)
{
    return rope_rotary_dim(rope) / 2;
}

/* Divides an arena into parts, one after the other. With base NULL it only counts the bytes. */
struct arena {
    char *base;
    size_t used;
};

static void take(struct arena *arena, void **array_out, size_t n, size_t bytes)
{
    const size_t unit = ATTENTION_ARENA_ALIGNMENT;
    if (arena->base)
        *array_out = arena->base + arena->used;
    arena->used += (n * bytes + unit - 1) / unit * unit;
}

/* Queries and new keys are the same tokens and share these arrays. */
static void share_tokens(struct attention_metadata *metadata)
{
    metadata->kv_starts = metadata->token_starts;
    metadata->kv_sequences = metadata->token_sequences;
    metadata->kv_rows = metadata->token_rows;
    metadata->kv_indices = metadata->indices;
}

static void lay_tokens(struct attention_metadata *metadata, struct arena *arena)
{
    const struct attention_limits *limits = &metadata->limits;
    bool is_self = limits->keys == KEYS_SELF;
    size_t n_sequences = limits->n_sequences_max;
    size_t n_tokens = limits->n_tokens_max;
    size_t n_kv_tokens = is_self ? n_tokens : (size_t)limits->n_kv_tokens_max + 1;
    const struct {
        void **array;
        size_t n;
        bool is_shared; /* if KEYS_SELF, the array of the queries is used */
    } parts[] = {
        {(void **)&metadata->token_starts, n_sequences + 1, false},
        {(void **)&metadata->token_sequences, n_tokens, false},
        {(void **)&metadata->token_rows, n_tokens, false},
        {(void **)&metadata->indices, n_tokens, false},
        {(void **)&metadata->kv_starts, n_sequences + 1, is_self},
        {(void **)&metadata->kv_sequences, n_kv_tokens, is_self},
        {(void **)&metadata->kv_rows, n_kv_tokens, is_self},
        {(void **)&metadata->kv_indices, n_kv_tokens, is_self},
        {(void **)&metadata->kv_beams, n_kv_tokens, false},
        {(void **)&metadata->positions, n_tokens, false},
    };
    take(arena, (void **)&metadata->sequences, n_sequences, sizeof *metadata->sequences);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!parts[i].is_shared)
            take(arena, parts[i].array, parts[i].n, sizeof(uint32_t));
    if (is_self)
        share_tokens(metadata);
}

static void lay_angles(struct attention_metadata *metadata, struct arena *arena)
{
    const struct attention_limits *limits = &metadata->limits;
    for (uint32_t r = 0; r < ATTENTION_ROPES_MAX && limits->ropes[r]; r++) {
        size_t row_bytes = half_rotary(limits->ropes[r]) * sizeof(float);
        size_t n_kv = (size_t)limits->n_kv_tokens_max + 1;
        take(arena, (void **)&metadata->q_cos[r], limits->n_tokens_max, row_bytes);
        take(arena, (void **)&metadata->q_sin[r], limits->n_tokens_max, row_bytes);
        if (limits->keys == KEYS_SELF) {
            metadata->k_cos[r] = metadata->q_cos[r];
            metadata->k_sin[r] = metadata->q_sin[r];
        } else {
            take(arena, (void **)&metadata->k_cos[r], n_kv, row_bytes);
            take(arena, (void **)&metadata->k_sin[r], n_kv, row_bytes);
        }
    }
}

size_t attention_metadata_arena_bytes(const struct attention_metadata *metadata)
{
    struct attention_metadata counted = {.limits = metadata->limits};
    struct arena arena = {0};
    lay_tokens(&counted, &arena);
    lay_angles(&counted, &arena);
    return arena.used;
}

void attention_metadata_use_arena(struct attention_metadata *metadata, void *base)
{
    struct arena arena = {.base = base};
    assert(base && (uintptr_t)base % ATTENTION_ARENA_ALIGNMENT == 0);
    lay_tokens(metadata, &arena);
    lay_angles(metadata, &arena);
    if (metadata->arena != base)
        free(metadata->arena);
    metadata->arena = metadata->arena == base ? base : NULL;
}

static enum status create_arena(struct attention_metadata *metadata)
{
    metadata->arena = aligned_alloc(ATTENTION_ARENA_ALIGNMENT,
                                    attention_metadata_arena_bytes(metadata));
    if (!metadata->arena)
        return STATUS_NO_MEMORY;
    attention_metadata_use_arena(metadata, metadata->arena);
    return STATUS_OK;
}

/* The angles for StreamingLLM: a key is rotated when it is read, by its position inside the cache. */
static enum status create_positions(struct attention_metadata *metadata)
{
    const struct attention_limits *limits = &metadata->limits;
    const struct rope *rope = limits->ropes[0];
    if (limits->sink_tokens == 0 || !rope)
        return STATUS_OK;
    size_t half = half_rotary(rope);
    metadata->position_cos = calloc(limits->kv_len_max * half, sizeof(float));
    metadata->position_sin = calloc(limits->kv_len_max * half, sizeof(float));
    if (!metadata->position_cos || !metadata->position_sin)
        return STATUS_NO_MEMORY;
    for (uint32_t p = 0; p < limits->kv_len_max && p < rope_positions_max(rope); p++)
        rope_angles(rope, p, p + 1, metadata->position_cos + p * half,
                    metadata->position_sin + p * half);
    return STATUS_OK;
}

static struct attention_limits with_phases(const struct attention_limits *limits)
{
    struct attention_limits all = *limits;
    all.n_contexts_max = all.n_contexts_max ? all.n_contexts_max : all.n_sequences_max;
    all.n_generations_max = all.n_generations_max ? all.n_generations_max : all.n_sequences_max;
    all.n_context_tokens_max = all.n_context_tokens_max ? all.n_context_tokens_max
                                                        : all.n_tokens_max;
    return all;
}

enum status attention_metadata_create(const struct attention_limits *limits,
                                      struct thread_pool *pool,
                                      struct attention_metadata **metadata_out, struct error *error)
{
    (void)pool;
    TRY(check_limits(limits, error));
    struct attention_metadata *metadata = calloc(1, sizeof *metadata);
    if (!metadata)
        return attention_metadata_no_memory(limits, error);
    metadata->limits = with_phases(limits);
    if (create_arena(metadata) != STATUS_OK || create_positions(metadata) != STATUS_OK) {
        attention_metadata_destroy(metadata);
        return attention_metadata_no_memory(limits, error);
    }
    *metadata_out = metadata;
    return STATUS_OK;
}

enum status attention_metadata_no_memory(const struct attention_limits *limits, struct error *error)
{
    return error_set(
        error, STATUS_NO_MEMORY,
        "no memory for steps of n_sequences_max %u, n_tokens_max %u, n_kv_tokens_max %u, "
        "kv_len_max %u",
        limits->n_sequences_max, limits->n_tokens_max, limits->n_kv_tokens_max, limits->kv_len_max);
}

void attention_metadata_destroy(struct attention_metadata *metadata)
{
    if (!metadata)
        return;
    free(metadata->position_cos);
    free(metadata->position_sin);
    free(metadata->arena);
    free(metadata);
}

/* The rotary position of query i of a sequence. */
static uint32_t query_position(const struct attention_limits *limits,
                               const struct attention_sequence *sequence, uint32_t i)
{
    uint32_t index = sequence_first_query(limits, sequence) + i;
    if (sequence->positions)
        return sequence->positions[i];
    const uint32_t window = attention_window_of(sequence, limits->window);
    if (limits->sink_tokens != 0 && sequence->phase == PHASE_GENERATION && index >= window)
        return window - 1;
    return index;
}

/* The length of the sequence for RoPE when the token with this index is computed. */
static uint32_t rope_length(const struct attention_sequence *sequence, uint32_t index)
{
    if (sequence->phase == PHASE_CONTEXT && sequence->prompt_len > index)
        return sequence->prompt_len;
    return index + 1;
}

static void add_query(struct attention_metadata *metadata, uint32_t index, uint32_t i, uint32_t row)
{
    const struct attention_limits *limits = &metadata->limits;
    const struct attention_sequence *sequence = &metadata->sequences[index];
    uint32_t token = metadata->n_tokens++;
    assert(token < limits->n_tokens_max);
    metadata->token_sequences[token] = index;
    metadata->token_rows[token] = row;
    metadata->indices[token] = sequence_first_query(limits, sequence) + i;
    metadata->positions[token] = query_position(limits, sequence, i);
    for (uint32_t r = 0; r < ATTENTION_ROPES_MAX && limits->ropes[r]; r++) {
        size_t first = (size_t)token * half_rotary(limits->ropes[r]);
        rope_angles(limits->ropes[r], metadata->positions[token],
                    rope_length(sequence, metadata->indices[token]), metadata->q_cos[r] + first,
                    metadata->q_sin[r] + first);
    }
}

/* Not for KEYS_SELF: there new keys share all arrays but the beams with the queries. */
static void add_key(struct attention_metadata *metadata, uint32_t index, uint32_t i, uint32_t row)
{
    const struct attention_limits *limits = &metadata->limits;
    const struct attention_sequence *sequence = &metadata->sequences[index];
    uint32_t token = metadata->n_kv_tokens++;
    assert(limits->keys != KEYS_SELF && token < limits->n_kv_tokens_max);
    assert(sequence->new_len <= sequence->kv_len && i < sequence->new_len);
    uint32_t in_cache = sequence->kv_len - sequence->new_len + i;
    uint32_t position = sequence->key_index + in_cache;
    metadata->kv_sequences[token] = index;
    metadata->kv_rows[token] = row;
    metadata->kv_indices[token] = in_cache;
    metadata->kv_beams[token] = 0;
    for (uint32_t r = 0; r < ATTENTION_ROPES_MAX && limits->ropes[r]; r++) {
        size_t first = (size_t)token * half_rotary(limits->ropes[r]);
        rope_angles(limits->ropes[r], position, rope_length(sequence, position),
                    metadata->k_cos[r] + first, metadata->k_sin[r] + first);
    }
}

/* The first row of the next sequence (or beam), in q and in k. */
struct rows {
    uint32_t query, key;
};

static void add_sequence(struct attention_metadata *metadata, const struct attention_step *step,
                         uint32_t index, struct rows *rows)
{
    const struct attention_sequence *sequence = &metadata->sequences[index];
    assert(index < metadata->limits.n_sequences_max);
    bool is_self = metadata->limits.keys == KEYS_SELF;
    metadata->token_starts[index] = metadata->n_tokens;
    metadata->kv_starts[index] = is_self ? metadata->n_tokens : metadata->n_kv_tokens;
    for (uint32_t beam = 0; beam < sequence_n_beams(sequence); beam++) {
        for (uint32_t i = 0; i < sequence->query_len; i++) {
            if (is_self)
                metadata->kv_beams[metadata->n_tokens] = beam;
            add_query(metadata, index, i, rows->query + i);
        }
        rows->query += step->padded_query_len ? step->padded_query_len : sequence->query_len;
    }
    for (uint32_t i = 0; i < sequence->new_len; i++)
        add_key(metadata, index, i, rows->key + i);
    rows->key += step->padded_new_len ? step->padded_new_len : sequence->new_len;
}

/* The number of rows. The row numbers rise from token to token. */
static uint32_t n_rows(const uint32_t *rows, uint32_t n)
{
    return n > 0 ? rows[n - 1] + 1 : 0;
}

enum status attention_metadata_prepare(struct attention_metadata *metadata,
                                       const struct attention_step *step, const struct kv_view *kv,
                                       struct error *error)
{
    struct rows rows = {0};
    TRY(attention_step_check(metadata, step, kv, error));
    metadata->kv = *kv;
    metadata->is_dummy = step->is_dummy;
    metadata->n_sequences = step->n_sequences;
    metadata->n_contexts = metadata->n_generations = metadata->n_dummies = 0;
    metadata->n_tokens = metadata->n_context_tokens = metadata->n_kv_tokens = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        metadata->sequences[i] = step->sequences[i];
        add_sequence(metadata, step, i, &rows);
        if (step->sequences[i].phase == PHASE_CONTEXT) {
            metadata->n_contexts++;
            metadata->n_context_tokens = metadata->n_tokens;
        } else {
            metadata->n_generations++;
            metadata->n_dummies += step->sequences[i].is_dummy;
        }
    }
    if (metadata->limits.keys == KEYS_SELF)
        metadata->n_kv_tokens = metadata->n_tokens;
    metadata->token_starts[step->n_sequences] = metadata->n_tokens;
    metadata->kv_starts[step->n_sequences] = metadata->n_kv_tokens;
    metadata->n_rows = n_rows(metadata->token_rows, metadata->n_tokens);
    metadata->n_kv_rows = n_rows(metadata->kv_rows, metadata->n_kv_tokens);
    assert(metadata->n_tokens <= metadata->n_rows && metadata->n_kv_tokens <= metadata->n_kv_rows);
    assert(metadata->n_dummies <= metadata->n_generations);
    metadata->arena_used = attention_metadata_arena_bytes(metadata);
    return STATUS_OK;
}

enum status attention_metadata_make_static(struct attention_metadata *metadata,
                                           uint32_t n_generations, uint32_t n_query,
                                           struct error *error)
{
    const struct attention_limits *limits = &metadata->limits;
    const uint32_t n_draft_max = limits->n_draft_max > 1 ? limits->n_draft_max : 1;
    if (n_query == 0 || n_query > n_draft_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_query is %u, must be from 1 to n_draft_max %u", n_query, n_draft_max);
    if (n_generations == 0 || n_generations > limits->n_generations_max ||
        (uint64_t)n_generations * n_query > limits->n_tokens_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_generations is %u, must be from 1 to n_generations_max %u, and with "
                         "n_query %u at most n_tokens_max %u tokens",
                         n_generations, limits->n_generations_max, n_query, limits->n_tokens_max);
    if (metadata->is_static)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_generations %u: the metadata is static already, with %u", n_generations,
                         metadata->n_static);
    metadata->is_static = true;
    metadata->n_static = n_generations;
    metadata->n_static_query = n_query;
    return STATUS_OK;
}
