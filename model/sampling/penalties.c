#include "model/sampling/penalties.h"

#include "kernels/cuda/sampling_parameters.h"
#include "model/config/model_config.h"
#include "model/sampling/draw.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status penalties_init(struct penalties *penalties, uint32_t vocabulary)
{
    assert(vocabulary > 0);
    *penalties = (struct penalties){.vocabulary = vocabulary};
    penalties->counts = calloc(vocabulary, sizeof *penalties->counts);
    penalties->list = calloc(vocabulary, sizeof *penalties->list);
    return penalties->counts && penalties->list ? STATUS_OK : STATUS_NO_MEMORY;
}

void penalties_finish(struct penalties *penalties)
{
    free(penalties->counts);
    free(penalties->list);
}

void penalties_set_ends(struct penalties *penalties, const uint32_t *ids, uint32_t n)
{
    static_assert(PENALTIES_ENDS_MAX >= EOS_IDS_MAX, "every id of a model has room");
    assert(n <= PENALTIES_ENDS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        assert(ids[i] < penalties->vocabulary);
        penalties->ends[i] = ids[i];
    }
    penalties->n_ends = n;
}

void penalties_set_suppressed(struct penalties *penalties, const uint32_t *ids, uint32_t n)
{
    penalties->suppressed = ids;
    penalties->n_suppressed = n;
}

/* ---- seen tokens ---- */

/* In counts, of a token that is in the list: with its index. Counts are smaller. */
#define IS_LISTED 0x80000000u

static bool has_penalties(const struct sampling_params *params)
{
    return params->repetition_penalty != 1 || params->presence_penalty != 0 ||
           params->frequency_penalty != 0;
}

static uint32_t add_seen(struct penalties *penalties, uint32_t n,
                         const struct sampling_params *params, uint32_t id)
{
    const uint32_t count = penalties->counts[id];
    if (count & IS_LISTED)
        return n;
    assert(n < penalties->vocabulary);
    penalties->counts[id] = IS_LISTED | n;
    penalties->list[n] = (struct sampling_penalty){
        .id = id,
        .factor = params->repetition_penalty,
        .subtract = count > 0 ? params->presence_penalty + params->frequency_penalty * (float)count
                              : 0,
    };
    return n + 1;
}

static uint32_t list_seen(struct penalties *penalties, const struct draw *draw)
{
    const struct sampling_params *params = draw->params;
    /* Prompts are repeated as generated tokens are; used is what was generated. */
    const uint32_t first = params->repetition_penalty != 1 ? 0 : draw->n_prompt;
    uint32_t n = 0;
    for (uint32_t i = draw->n_prompt; i < draw->n_tokens; i++) {
        assert(draw->tokens[i] < penalties->vocabulary);
        penalties->counts[draw->tokens[i]]++;
    }
    for (uint32_t i = first; i < draw->n_tokens; i++) {
        assert(draw->tokens[i] < penalties->vocabulary);
        n = add_seen(penalties, n, params, draw->tokens[i]);
    }
    return n;
}

/* ---- rules ---- */

/* Adds one that changes nothing where there is none. */
static struct sampling_penalty *entry_of(struct penalties *penalties, uint32_t id, uint32_t *n)
{
    assert(id < penalties->vocabulary);
    uint32_t *count = &penalties->counts[id];
    if (!(*count & IS_LISTED)) {
        assert(*n < penalties->vocabulary && *count == 0 && "seen tokens are listed");
        penalties->list[*n] = (struct sampling_penalty){.id = id, .factor = 1};
        *count = IS_LISTED | (*n)++;
    }
    return &penalties->list[*count & ~IS_LISTED];
}

static void forbid(struct penalties *penalties, uint32_t id, uint32_t *n)
{
    entry_of(penalties, id, n)->subtract = INFINITY;
}

static void forbid_ends(struct penalties *penalties, const struct sampling_params *params,
                        uint32_t *n)
{
    for (uint32_t i = 0; i < penalties->n_ends; i++)
        forbid(penalties, penalties->ends[i], n);
    for (uint32_t i = 0; i < params->n_stop_token_ids; i++)
        forbid(penalties, params->stop_token_ids[i], n);
}

/* The last tokens of the sequences whose other tokens were generated last. */
static void forbid_bad(struct penalties *penalties, const struct draw *draw, uint32_t *n)
{
    const struct token_rules *rules = draw->params->rules;
    const uint32_t *ids = rules->bad_ids;
    for (uint32_t i = 0; i < rules->n_bad; ids += rules->bad_lengths[i++]) {
        const uint32_t n_before = rules->bad_lengths[i] - 1;
        if (n_before <= draw->n_tokens - draw->n_prompt &&
            (n_before == 0 ||
             memcmp(draw->tokens + draw->n_tokens - n_before, ids, n_before * sizeof *ids) == 0))
            forbid(penalties, ids[n_before], n);
    }
}

/* The tokens that stood behind what the last ones repeat. */
static void forbid_repeats(struct penalties *penalties, const struct draw *draw, uint32_t *n)
{
    const uint32_t size = draw->params->no_repeat_ngram_size, n_before = size - 1;
    if (size == 0 || draw->n_tokens < size)
        return;
    const uint32_t *tokens = draw->tokens, *last = tokens + draw->n_tokens - n_before;
    for (uint32_t i = 0; i + size <= draw->n_tokens; i++)
        if (memcmp(tokens + i, last, n_before * sizeof *last) == 0)
            forbid(penalties, tokens[i + n_before], n);
}

uint32_t penalties_make(struct penalties *penalties, const struct draw *draw)
{
    const struct sampling_params *params = draw->params;
    const struct token_rules *rules = params->rules;
    uint32_t n = has_penalties(params) ? list_seen(penalties, draw) : 0;
    for (uint32_t i = 0; rules && i < rules->n_biases; i++)
        entry_of(penalties, rules->bias_ids[i], &n)->subtract -= rules->biases[i];
    if (draw->n_tokens - draw->n_prompt < params->min_tokens)
        forbid_ends(penalties, params, &n);
    if (rules)
        forbid_bad(penalties, draw, &n);
    forbid_repeats(penalties, draw, &n);
    for (uint32_t i = 0; i < penalties->n_suppressed; i++)
        forbid(penalties, penalties->suppressed[i], &n);
    for (uint32_t i = 0; i < n; i++)
        penalties->counts[penalties->list[i].id] = 0;
    return n;
}
