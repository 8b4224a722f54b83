#include "kernels/cpu/attention/score.h"

#include <assert.h>

bool score_needed(const struct attention_call *call, const struct row_block *block)
{
    const struct attention_config *config = &call->attention->host.config;
    const struct attention_sequence *sequence = &call->metadata->sequences[block->sequence];
    return config->soft_cap != 0 || config->bias.alibi_scale != 0 || config->bias.table ||
           config->bias.buckets || config->mask_input != MASK_INPUT_NONE ||
           (config->sink_tokens != 0 && sequence->phase == PHASE_GENERATION) ||
           sequence->draft_mask;
}

/* The scores of a row for one tile. Key j of the tile is token key + j of the sequence. */
struct scored {
    const struct attention_call *call;
    const struct query_row *row;
    int64_t key;
    uint32_t tile_start, first, end;
    float *scores;
};

static void cap_scores(const struct scored *scored, float cap)
{
    for (uint32_t j = scored->first / LANES * LANES; j < scored->end; j += LANES) {
        vec x = vec_div(vec_load(scored->scores + j), vec_set(cap));
        vec_store(scored->scores + j, vec_mul(vec_tanh(x), vec_set(cap)));
    }
}

static void add_alibi(const struct scored *scored, float slope)
{
    int64_t distance = scored->key - scored->row->index;
    for (uint32_t j = scored->first; j < scored->end; j++)
        scored->scores[j] += slope * (float)(distance + j);
}

static void add_table(const struct scored *scored, const struct attention_bias *bias)
{
    const float *biases = bias->table +
                          ((size_t)scored->row->head * bias->n_queries + scored->row->index) *
                              bias->n_keys +
                          scored->key;
    for (uint32_t j = scored->first; j < scored->end; j++)
        scored->scores[j] += biases[j];
}

/* The key with that distance to the row's query, as one of first .. end. */
static uint32_t key_at(const struct scored *scored, int64_t distance)
{
    const int64_t j = distance + scored->row->index - scored->key;
    return j < scored->first ? scored->first : j > scored->end ? scored->end : (uint32_t)j;
}

/* biases: of distances -distance_max .. distance_max; those beyond are as the last ones. Three loops, none with a branch. */
static void add_distances(const struct scored *scored, const float *biases, uint32_t distance_max)
{
    const int64_t furthest = distance_max;
    const uint32_t near = key_at(scored, -furthest), far = key_at(scored, furthest);
    const int64_t at = scored->key - scored->row->index + furthest; /* of key 0 */
    for (uint32_t j = scored->first; j < near; j++)
        scored->scores[j] += biases[0];
    for (uint32_t j = near; j < far; j++)
        scored->scores[j] += biases[at + j];
    for (uint32_t j = far; j < scored->end; j++)
        scored->scores[j] += biases[2 * furthest];
}

static void add_mask(const struct scored *scored, uint32_t sequence)
{
    const struct attention_io *io = scored->call->io;
    uint32_t query = scored->row->token - scored->call->metadata->token_starts[sequence];
    uint64_t at = sequence * io->mask_sequence_stride + query * io->mask_query_stride +
                  (uint64_t)scored->key;
    if (scored->call->attention->host.config.mask_input == MASK_INPUT_FLOAT) {
        const float *mask = (const float *)io->mask + at;
        for (uint32_t j = scored->first; j < scored->end; j++)
            scored->scores[j] = mask[j] == -INFINITY ? mask[j] : scored->scores[j] + mask[j];
        return;
    }
    const uint8_t *mask = (const uint8_t *)io->mask + at;
    for (uint32_t j = scored->first; j < scored->end; j++)
        scored->scores[j] = mask[j] ? scored->scores[j] : -INFINITY;
}

static void hide_keys(const struct scored *scored)
{
    const struct query_row *row = scored->row;
    const uint32_t end = scored->tile_start + scored->end;
    if ((row->absent >= row->present || row->absent >= end) && row->draft >= end)
        return;
    for (uint32_t j = scored->first; j < scored->end; j++) {
        uint32_t key = scored->tile_start + j;
        bool is_absent = key >= row->absent && key < row->present;
        bool is_off_branch = key >= row->draft && !(row->draft_mask >> (key - row->draft) & 1);
        if (is_absent || is_off_branch)
            scored->scores[j] = -INFINITY;
    }
}

void score_change(const struct attention_call *call, const struct row_block *block,
                  const struct query_row *row, uint32_t tile_start, uint32_t first, uint32_t end,
                  float *scores)
{
    const struct attention_layer *layer = &call->attention->host;
    const struct attention_config *config = &layer->config;
    uint32_t key_index = call->metadata->sequences[block->sequence].key_index;
    assert(first < end && end <= TILE_KEYS);
    struct scored scored = {.call = call,
                            .row = row,
                            .key = (int64_t)key_index + tile_start,
                            .tile_start = tile_start,
                            .first = first,
                            .end = end,
                            .scores = scores};
    if (config->soft_cap != 0)
        cap_scores(&scored, config->soft_cap);
    if (layer->slopes)
        add_alibi(&scored, layer->slopes[row->head]);
    if (config->bias.table)
        add_table(&scored, &config->bias);
    if (call->attention->distance_biases)
        add_distances(&scored,
                      call->attention->distance_biases +
                          row->head * (2 * (size_t)config->bias.distance_max + 1),
                      config->bias.distance_max);
    if (config->mask_input != MASK_INPUT_NONE)
        add_mask(&scored, block->sequence);
    hide_keys(&scored);
}
