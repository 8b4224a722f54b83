#include "kernels/backend/attention_step_check.h"

#include "kernels/backend/kv_view_check.h"

/* The arguments of each check of a sequence. */
struct judged {
    const struct attention_limits *limits;
    const struct attention_sequence *sequence;
    const struct kv_view *kv;
    bool is_dummy;
};

static enum status check_block_tokens(const struct kv_view *kv, struct error *error)
{
    uint32_t block_tokens = kv->block_tokens;
    if (kv->is_contiguous && block_tokens > 0)
        return STATUS_OK;
    if (block_tokens < BLOCK_TOKENS_MIN || block_tokens > BLOCK_TOKENS_MAX ||
        (block_tokens & (block_tokens - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "block_tokens is %u, must be a power of two from %u to %u", block_tokens,
                         BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    return STATUS_OK;
}

static enum status check_view(const struct attention_limits *limits, const struct kv_view *kv,
                              bool is_dummy, struct error *error)
{
    TRY(check_block_tokens(kv, error));
    if (is_dummy)
        return STATUS_OK;
    return kv_view_check(kv, limits->n_kv_heads, limits->head_dim * dtype_bytes(limits->cache),
                         error);
}

/* Checks that fields which this kind of layer does not read are not set. */
static enum status check_unread(const struct judged *judged, struct error *error)
{
    const struct attention_sequence *sequence = judged->sequence;
    const struct attention_limits *limits = judged->limits;
    bool is_self = limits->keys == KEYS_SELF;
    bool is_context = sequence->phase == PHASE_CONTEXT;
    static const char DUMMY[] = "a dummy sequence has no keys";
    const struct {
        const char *field;
        uint32_t value;
        bool is_unread;
        const char *why;
    } unread[] = {
        {"window", sequence->window, is_context || limits->sink_tokens == 0 || limits->is_cyclic,
         "only a generation sequence with sink_tokens and a linear cache has its own"},
        {"new_len", sequence->new_len, is_self, "KEYS_SELF writes one key a query"},
        {"query_index", sequence->query_index, is_self, "KEYS_SELF derives it from kv_len"},
        {"key_index", sequence->key_index, limits->keys != KEYS_SHARD, "only KEYS_SHARD has it"},
        {"n_beams", sequence->n_beams > 1 ? sequence->n_beams : 0, is_context,
         "a context is computed once for all beams"},
        {"cache_source", sequence->cache_source != NULL, is_context,
         "a context is computed once for all beams"},
        {"draft_mask", sequence->draft_mask != NULL, is_context || limits->keys == KEYS_CROSS,
         "only a generation sequence has draft tokens among its keys"},
        {"positions", sequence->positions != NULL, !is_self || limits->sink_tokens != 0,
         "only KEYS_SELF without sink_tokens takes them"},
        {"new_len", sequence->new_len, sequence->n_beams > 1, "new keys belong to no beam"},
        {"n_blocks", sequence->n_blocks, sequence->is_dummy, DUMMY},
        {"block_ids", sequence->block_ids != NULL, sequence->is_dummy, DUMMY},
        {"new_len", sequence->new_len, sequence->is_dummy, DUMMY},
        {"positions", sequence->positions != NULL, sequence->is_dummy, DUMMY},
        {"draft_mask", sequence->draft_mask != NULL, sequence->is_dummy, DUMMY},
        {"cache_source", sequence->cache_source != NULL, sequence->is_dummy, DUMMY},
        {"draft_mask", sequence->draft_mask != NULL, limits->n_draft_max <= 1,
         "n_draft_max leaves a token nothing to choose"},
    };
    for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++)
        if (unread[i].is_unread && unread[i].value != 0)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is given (%u): %s",
                             unread[i].field, unread[i].value, unread[i].why);
    if (sequence->window != 0 &&
        (sequence->window <= limits->sink_tokens || sequence->window > limits->window))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "window of a sequence is %u, must be over sink_tokens %u and at most %u",
                         sequence->window, limits->sink_tokens, limits->window);
    return STATUS_OK;
}

static enum status check_lengths(const struct judged *judged, struct error *error)
{
    const struct attention_sequence *sequence = judged->sequence;
    const struct attention_limits *limits = judged->limits;
    bool is_self = limits->keys == KEYS_SELF;
    uint32_t least = is_self ? sequence->query_len : sequence->new_len;
    if (sequence->kv_len < least || sequence->kv_len > limits->kv_len_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "kv_len is %u, must be from %s %u to %u",
                         sequence->kv_len, is_self ? "query_len" : "new_len", least,
                         limits->kv_len_max);
    if (sequence->is_dummy && sequence->kv_len != least)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_len is %u of a dummy sequence, must be %s %u", sequence->kv_len,
                         is_self ? "query_len" : "new_len", least);
    if (sequence->query_index > UINT32_MAX - sequence->query_len ||
        sequence->key_index > UINT32_MAX - sequence->kv_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "query_index %u or key_index %u: the last index does not fit in 32 bits",
                         sequence->query_index, sequence->key_index);
    return STATUS_OK;
}

static enum status check_generation(const struct judged *judged, struct error *error)
{
    const struct attention_sequence *sequence = judged->sequence;
    const struct attention_limits *limits = judged->limits;
    uint32_t n_draft_max = limits->n_draft_max > 1 ? limits->n_draft_max : 1;
    uint32_t n_beams_max = limits->n_beams_max > 1 ? limits->n_beams_max : 1;
    if (sequence->query_len < 1 || sequence->query_len > n_draft_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a generation sequence has query_len %u, must be 1 .. %u",
                         sequence->query_len, n_draft_max);
    if (sequence->n_beams > n_beams_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_beams is %u, at most %u",
                         sequence->n_beams, n_beams_max);
    if (sequence->query_len > 1 && sequence->n_beams > 1)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_beams %u with query_len %u: a beam has one query", sequence->n_beams,
                         sequence->query_len);
    return STATUS_OK;
}

/* Checks a chunk of a prompt. */
static enum status check_chunk(const struct judged *judged, struct error *error)
{
    const struct attention_sequence *sequence = judged->sequence;
    const struct attention_limits *limits = judged->limits;
    uint32_t query_len = sequence->query_len, kv_len = sequence->kv_len;
    if (query_len == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "query_len is 0 of a context sequence, must be at least 1");
    if (kv_len > sequence->prompt_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_len %u of a context sequence is over its prompt_len %u", kv_len,
                         sequence->prompt_len);
    if (limits->mask == MASK_BIDIRECTIONAL && query_len != sequence->prompt_len)
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "a chunk has %u tokens, prompt_len is %u: MASK_BIDIRECTIONAL needs the whole prompt",
            query_len, sequence->prompt_len);
    if (kv_len < sequence->prompt_len && !judged->kv->is_contiguous &&
        query_len % judged->kv->block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a chunk before the last has %u tokens, must be a multiple of %u",
                         query_len, judged->kv->block_tokens);
    if (limits->is_cyclic && limits->sink_tokens != 0 && kv_len - query_len > limits->window)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a chunk follows %u tokens: with sink_tokens it sees all of them, the "
                         "cyclic cache holds %u",
                         kv_len - query_len, limits->window);
    return STATUS_OK;
}

static enum status check_context(const struct judged *judged, struct error *error)
{
    const struct attention_sequence *sequence = judged->sequence;
    if (judged->limits->has_short_path && sequence->kv_len > PATH_SHORT_KEYS)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_len is %u, path PATH_SHORT takes up to %u keys", sequence->kv_len,
                         PATH_SHORT_KEYS);
    return judged->limits->keys == KEYS_SELF ? check_chunk(judged, error) : STATUS_OK;
}

static enum status check_bias(const struct judged *judged, struct error *error)
{
    const struct attention_sequence *sequence = judged->sequence;
    const struct attention_limits *limits = judged->limits;
    uint32_t n_queries = sequence_first_query(limits, sequence) + sequence->query_len;
    uint32_t n_keys = sequence->key_index + sequence->kv_len;
    if (limits->bias_keys == 0 ||
        (n_queries <= limits->bias_queries && n_keys <= limits->bias_keys))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "%u queries and %u keys: bias.table has n_queries %u and n_keys %u", n_queries,
                     n_keys, limits->bias_queries, limits->bias_keys);
}

/* One over the largest rotary position of the sequence in this step. */
static uint32_t positions_end(const struct judged *judged)
{
    const struct attention_sequence *sequence = judged->sequence;
    const struct attention_limits *limits = judged->limits;
    uint32_t end = sequence_first_query(limits, sequence) + sequence->query_len;
    if (limits->keys == KEYS_SHARD && sequence->key_index + sequence->kv_len > end)
        end = sequence->key_index + sequence->kv_len;
    const uint32_t window = attention_window_of(sequence, limits->window);
    if (limits->sink_tokens != 0 && sequence->phase == PHASE_GENERATION && end > window)
        end = window;
    if (!sequence->positions)
        return end;
    end = 0;
    for (uint32_t i = 0; i < sequence->query_len; i++)
        if (sequence->positions[i] >= end)
            end = sequence->positions[i] < UINT32_MAX ? sequence->positions[i] + 1 : UINT32_MAX;
    return end;
}

static enum status check_positions(const struct judged *judged, struct error *error)
{
    const struct rope *const *ropes = judged->limits->ropes;
    uint32_t end = ropes[0] ? positions_end(judged) : 0;
    for (uint32_t i = 0; i < ATTENTION_ROPES_MAX && ropes[i]; i++)
        if (end > rope_positions_max(ropes[i]))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "position %u, the rope serves positions up to %u", end - 1,
                             rope_positions_max(ropes[i]) - 1);
    return STATUS_OK;
}

static enum status check_cache_source(const struct attention_sequence *sequence,
                                      struct error *error)
{
    uint32_t n_beams = sequence_n_beams(sequence);
    if (!sequence->cache_source)
        return STATUS_OK;
    if (n_beams > 1 && sequence->cache_source_stride < sequence->kv_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "cache_source_stride is %u, a row has kv_len %u",
                         sequence->cache_source_stride, sequence->kv_len);
    for (uint32_t beam = 0; beam < n_beams; beam++)
        for (uint32_t i = 0; i < sequence->kv_len; i++) {
            uint32_t source = sequence
                                  ->cache_source[(size_t)beam * sequence->cache_source_stride + i];
            if (source >= n_beams)
                return error_set(error, STATUS_INVALID_ARGUMENT,
                                 "cache_source of beam %u, token %u is %u, there are %u beams",
                                 beam, i, source, n_beams);
        }
    return STATUS_OK;
}

static enum status check_blocks(const struct judged *judged, struct error *error)
{
    const struct attention_sequence *sequence = judged->sequence;
    const struct attention_limits *limits = judged->limits;
    const struct kv_view *kv = judged->kv;
    uint32_t n_slots = sequence->kv_len;
    if (limits->is_cyclic && n_slots > limits->window)
        n_slots = limits->window;
    uint32_t n_needed = n_slots / kv->block_tokens + (n_slots % kv->block_tokens != 0);
    if (kv->is_contiguous && n_needed > 1)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a sequence has %u tokens, a contiguous row holds %u", n_slots,
                         kv->block_tokens);
    if (sequence->n_blocks < n_needed)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a sequence of %u tokens has %u blocks, needs %u", n_slots,
                         sequence->n_blocks, n_needed);
    if (n_needed > 0 && !sequence->block_ids)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "block_ids is NULL, a sequence of %u tokens needs %u blocks", n_slots,
                         n_needed);
    const uint32_t n_rows = attention_n_tables(limits) * sequence_n_beams(sequence);
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t i = 0; i < n_needed; i++) {
            uint32_t id = sequence->block_ids[(size_t)row * sequence->n_blocks + i];
            if (id >= kv->n_blocks)
                return error_set(error, STATUS_INVALID_ARGUMENT,
                                 "block id is %u, the pool has %u blocks", id, kv->n_blocks);
        }
    return check_cache_source(sequence, error);
}

static enum status check_sequence(const struct judged *judged, struct error *error)
{
    TRY(check_unread(judged, error));
    TRY(check_lengths(judged, error));
    if (judged->sequence->phase == PHASE_CONTEXT)
        TRY(check_context(judged, error));
    else
        TRY(check_generation(judged, error));
    TRY(check_bias(judged, error));
    TRY(check_positions(judged, error));
    return judged->is_dummy || judged->sequence->is_dummy ? STATUS_OK : check_blocks(judged, error);
}

static enum status check_padding(const struct attention_step *step, uint32_t index,
                                 struct error *error)
{
    const struct attention_sequence *sequence = &step->sequences[index];
    if (step->padded_query_len != 0 && sequence->query_len > step->padded_query_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sequence %u: query_len %u is over padded_query_len %u", index,
                         sequence->query_len, step->padded_query_len);
    if (step->padded_new_len != 0 && sequence->new_len > step->padded_new_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sequence %u: new_len %u is over padded_new_len %u", index,
                         sequence->new_len, step->padded_new_len);
    return STATUS_OK;
}

/* Only a static step may have dummies, and only after its sequences. */
static enum status check_dummy(const struct attention_metadata *metadata,
                               const struct attention_sequence *sequence, uint32_t index,
                               struct error *error)
{
    if (sequence->is_dummy && !metadata->is_static)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sequence %u: is_dummy is 1, the metadata is not static", index);
    if (index > 0 && sequence[-1].is_dummy && !sequence->is_dummy)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sequence %u: is_dummy is 0 after a dummy sequence", index);
    return STATUS_OK;
}

static enum status check_static(const struct attention_metadata *metadata,
                                const struct attention_step *step, struct error *error)
{
    if (!metadata->is_static)
        return STATUS_OK;
    if (step->n_sequences != metadata->n_static)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%u sequences, every step of a static metadata has %u", step->n_sequences,
                         metadata->n_static);
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        const struct attention_sequence *sequence = &step->sequences[i];
        if (sequence->phase != PHASE_GENERATION ||
            sequence->query_len != metadata->n_static_query || sequence->n_beams > 1)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u of a static step: phase %d, query_len %u, n_beams %u, "
                             "must be in the generation phase, of query_len %u, without beams",
                             i, (int)sequence->phase, sequence->query_len, sequence->n_beams,
                             metadata->n_static_query);
    }
    return STATUS_OK;
}

/* Checks sequences and tokens of each phase. */
static enum status check_phases(const struct attention_limits *limits,
                                const struct attention_step *step, struct error *error)
{
    uint64_t n_context_tokens = 0;
    uint32_t n_contexts = 0;
    while (n_contexts < step->n_sequences && step->sequences[n_contexts].phase == PHASE_CONTEXT)
        n_context_tokens += step->sequences[n_contexts++].query_len;
    const struct {
        const char *what;
        uint64_t n, most;
    } counts[] = {
        {"context sequences", n_contexts, limits->n_contexts_max},
        {"generation sequences", step->n_sequences - n_contexts, limits->n_generations_max},
        {"context tokens", n_context_tokens, limits->n_context_tokens_max},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].n > counts[i].most)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%llu %s, at most %llu fit a step",
                             (unsigned long long)counts[i].n, counts[i].what,
                             (unsigned long long)counts[i].most);
    return STATUS_OK;
}

/* Checks all tokens, and all rows of the tensors with their padding. */
static enum status check_totals(const struct attention_limits *limits,
                                const struct attention_step *step, struct error *error)
{
    uint64_t n_tokens = 0, n_kv_tokens = 0, n_padded = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        uint32_t n_beams = sequence_n_beams(&step->sequences[i]);
        n_tokens += (uint64_t)step->sequences[i].query_len * n_beams;
        n_kv_tokens += step->sequences[i].new_len;
        n_padded += (uint64_t)step->padded_query_len * n_beams + step->padded_new_len;
    }
    if (n_tokens > limits->n_tokens_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%llu tokens, at most %u fit a step",
                         (unsigned long long)n_tokens, limits->n_tokens_max);
    if (n_kv_tokens > limits->n_kv_tokens_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%llu new keys, at most %u fit a step",
                         (unsigned long long)n_kv_tokens, limits->n_kv_tokens_max);
    if (n_padded > UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "padded_query_len %u and padded_new_len %u: the number of rows, %llu, "
                         "does not fit in 32 bits",
                         step->padded_query_len, step->padded_new_len,
                         (unsigned long long)n_padded);
    return STATUS_OK;
}

/* Puts the name of the sequence before the sentence. */
static enum status name_request(uint32_t index, const struct attention_sequence *sequence,
                                enum status status, struct error *error)
{
    if (!error || sequence->request_id == 0)
        return status;
    struct error why = *error;
    return error_set(error, status, "sequence %u, request %016llx: %s", index,
                     (unsigned long long)sequence->request_id, why.text);
}

enum status attention_step_check(const struct attention_metadata *metadata,
                                 const struct attention_step *step, const struct kv_view *kv,
                                 struct error *error)
{
    const struct attention_limits *limits = &metadata->limits;
    TRY(check_view(limits, kv, step->is_dummy, error));
    if (step->n_sequences > limits->n_sequences_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%u sequences, at most %u fit a step",
                         step->n_sequences, limits->n_sequences_max);
    if (step->n_sequences > 0 && !step->sequences)
        return error_set(error, STATUS_INVALID_ARGUMENT, "sequences is NULL, n_sequences is %u",
                         step->n_sequences);
    if (step->padded_new_len != 0 && limits->keys == KEYS_SELF)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "padded_new_len is %u, KEYS_SELF writes one key a query",
                         step->padded_new_len);
    TRY(check_static(metadata, step, error));
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        const struct attention_sequence *sequence = &step->sequences[i];
        struct judged judged = {limits, sequence, kv, step->is_dummy};
        if ((unsigned)sequence->phase > PHASE_GENERATION)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u: phase is %d: there is no such phase", i,
                             (int)sequence->phase);
        if (i > 0 && sequence->phase == PHASE_CONTEXT && sequence[-1].phase == PHASE_GENERATION)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u: a context sequence follows a generation sequence", i);
        TRY(check_dummy(metadata, sequence, i, error));
        enum status status = check_sequence(&judged, error);
        if (status != STATUS_OK)
            return name_request(i, sequence, status, error);
        TRY(check_padding(step, i, error));
    }
    TRY(check_totals(limits, step, error));
    return check_phases(limits, step, error);
}
