#include "tests/kernels/cases/step.h"

#include "tests/kernels/cases/run.h"
#include "tests/kernels/support/values.h"

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* With sink_tokens and a cyclic cache no chunk may begin behind a window. */
static bool outgrows_a_window(const struct attention_case *c, uint32_t n)
{
    for (uint32_t i = 0; c->is_cyclic && c->sink_tokens != 0 && i < c->n_windows; i++)
        if (n > c->windows[i])
            return true;
    return false;
}

static uint32_t n_queries(const struct attention_case *c, uint32_t s, uint32_t done)
{
    const struct case_sequence *sequence = &c->sequences[s];
    if (done >= sequence->prompt_len) {
        uint64_t state = values_hash(c->seed + 77 * sequence->id + done);
        uint32_t drafts = sequence->n_beams > 1 ? 1 : 1 + values_below(&state, c->n_draft_max);
        return smaller(drafts, sequence->len - done);
    }
    uint32_t left = sequence->prompt_len - done;
    uint32_t chunk = c->chunk_blocks * c->block_tokens;
    return chunk == 0 || outgrows_a_window(c, done + chunk) ? left : smaller(chunk, left);
}

static void set_keys(const struct attention_case *c, uint32_t s, uint32_t done,
                     struct attention_sequence *sequence)
{
    const struct case_sequence *of_case = &c->sequences[s];
    uint32_t end = done + sequence->query_len;
    if (c->keys == KEYS_SELF) {
        sequence->kv_len = end;
        return;
    }
    sequence->query_index = done;
    if (c->keys == KEYS_CROSS) {
        sequence->kv_len = of_case->encoder_len;
        sequence->new_len = done == 0 ? of_case->encoder_len : 0;
        return;
    }
    uint32_t first = of_case->shard_first;
    uint32_t had = smaller(done > first ? done : first, of_case->shard_end);
    uint32_t has = smaller(end > first ? end : first, of_case->shard_end);
    sequence->key_index = first;
    sequence->kv_len = has - first;
    sequence->new_len = has - had;
}

/* Every token goes on from one before it, or from the past. */
static void set_tree(struct case_step *step, uint32_t index, uint64_t seed)
{
    struct attention_sequence *sequence = &step->sequences[index];
    uint64_t state = values_hash(seed);
    sequence->draft_mask = step->trees[index];
    for (uint32_t i = 0; i < sequence->query_len; i++) {
        uint32_t parent = values_below(&state, i + 1);
        step->trees[index][i] = (uint64_t)1 << i | (parent < i ? step->trees[index][parent] : 0);
    }
}

static void set_positions(struct case_step *step, uint32_t index, uint32_t done)
{
    struct attention_sequence *sequence = &step->sequences[index];
    sequence->positions = step->positions[index];
    for (uint32_t i = 0; i < sequence->query_len; i++) {
        uint32_t at = done + i;
        if (sequence->draft_mask)
            at = done + (uint32_t)__builtin_popcountll(sequence->draft_mask[i]) - 1;
        step->positions[index][i] = 3 * at + 5;
    }
}

/* A prompt is beam 0's; who holds a later token is anybody. */
static void set_sources(const struct attention_case *c, struct case_step *step, uint32_t index,
                        uint32_t s)
{
    struct attention_sequence *sequence = &step->sequences[index];
    uint32_t stride = sequence->kv_len + s;
    sequence->n_beams = c->sequences[s].n_beams;
    sequence->cache_source = step->sources[index];
    sequence->cache_source_stride = stride;
    for (uint32_t beam = 0; beam < sequence->n_beams; beam++)
        for (uint32_t t = 0; t < sequence->kv_len; t++) {
            uint64_t hash = values_hash(c->seed + values_hash(s * 5000 + beam * 1000 + t));
            bool is_shared = c->keys == KEYS_CROSS || t < c->sequences[s].prompt_len;
            step->sources[index][beam * stride + t] = is_shared ? 0
                                                                : (uint32_t)(hash >> 20) %
                                                                      sequence->n_beams;
        }
}

static void add_sequence(const struct case_data *data, uint32_t s, uint32_t done,
                         struct case_step *step)
{
    const struct attention_case *c = data->test_case;
    uint32_t index = step->n_sequences++;
    struct attention_sequence *sequence = &step->sequences[index];
    bool is_context = done < c->sequences[s].prompt_len;
    *sequence = (struct attention_sequence){.request_id = c->sequences[s].id,
                                            .phase = is_context ? PHASE_CONTEXT : PHASE_GENERATION,
                                            .query_len = n_queries(c, s, done),
                                            .prompt_len = c->sequences[s].prompt_len};
    step->owners[index] = s;
    step->first_tokens[index] = done;
    set_keys(c, s, done, sequence);
    if (!is_context && c->is_tree)
        set_tree(step, index, c->seed + 9 * s + done);
    if (c->has_positions)
        set_positions(step, index, done);
    if (!is_context && c->sequences[s].n_beams > 1)
        set_sources(c, step, index, s);
}

/* It has come, its prefix is cached, and it need not wait for other prompts to end. */
static bool is_ready(const struct attention_case *c, const uint32_t *done, uint32_t s,
                     uint32_t number, bool waits)
{
    const struct case_sequence *sequence = &c->sequences[s];
    bool is_context = done[s] < sequence->prompt_len;
    return sequence->start <= number && done[s] < sequence->len &&
           (sequence->prefix_len == 0 || done[0] >= sequence->prefix_len) && (is_context || !waits);
}

/* Sequence s runs, and its prompt has not ended. */
static bool is_prompt_left(const struct attention_case *c, const uint32_t *done, uint32_t only)
{
    for (uint32_t s = 0; s < c->n_sequences; s++)
        if ((only == CASE_ALL || only == s) && done[s] < c->sequences[s].prompt_len)
            return true;
    return false;
}

void case_step_make(const struct case_data *data, uint32_t number, const uint32_t *done,
                    uint32_t only, struct case_step *step_out)
{
    const struct attention_case *c = data->test_case;
    const bool waits = c->is_static && is_prompt_left(c, done, only);
    uint32_t longest = 0, longest_new = 0;
    step_out->n_sequences = 0;
    for (enum attention_phase phase = PHASE_CONTEXT; phase <= PHASE_GENERATION; phase++)
        for (uint32_t s = 0; s < c->n_sequences; s++) {
            bool is_context = done[s] < c->sequences[s].prompt_len;
            if ((only == CASE_ALL || only == s) && is_ready(c, done, s, number, waits) &&
                is_context == (phase == PHASE_CONTEXT))
                add_sequence(data, s, done[s], step_out);
        }
    for (uint32_t i = 0; i < step_out->n_sequences; i++) {
        const struct attention_sequence *sequence = &step_out->sequences[i];
        longest = sequence->query_len > longest ? sequence->query_len : longest;
        longest_new = sequence->new_len > longest_new ? sequence->new_len : longest_new;
    }
    step_out->padded_query_len = c->is_padded ? longest + number % (CASE_PAD + 1) : 0;
    step_out->padded_new_len = c->is_padded && c->keys != KEYS_SELF
                                   ? longest_new + number % (CASE_PAD + 1)
                                   : 0;
}
