#include "model/sampling/beam_search.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A running beam of some step. */
struct node {
    uint32_t token_id, parent;
};

struct ended {
    float score;
    uint32_t n_tokens, parent, token_id; /* parent: of the step before its last token */
    bool is_end;
    uint32_t stop;
};

struct candidate_beam {
    struct beam beam;
    bool has_ended, is_end;
    uint32_t stop;
    struct beam_stop_state state;
};

struct beam_search {
    struct beam_params params;
    uint32_t max_tokens, min_tokens, n_ends, n_ranked;
    struct beam_stops *stops; /* NULL: none */
    struct beam_texts texts;
    uint32_t end_ids[RANKED_ROW_MAX];
    uint32_t n_tokens, n_running, n_ended;
    bool is_over;
    bool may_improve; /* a running beam may become better than the worst that has ended */
    struct beam running[BEAMS_MAX];
    struct beam_stop_state states[BEAMS_MAX]; /* of the running ones */
    struct ended ended[BEAMS_MAX];            /* best first */
    struct candidate_beam candidates[RANKED_ROW_MAX];
    struct node nodes[]; /* [max_tokens][n_beams] */
};

static uint32_t add_end(uint32_t *ends, uint32_t n, uint32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ends[i] == id)
            return n;
    ends[n] = id;
    return n + 1;
}

uint32_t beam_search_ends(const struct sampling_params *params, const uint32_t *eos_ids,
                          uint32_t n_eos_ids, uint32_t ends_out[BEAM_ENDS_MAX])
{
    uint32_t n = 0;
    assert(n_eos_ids <= PENALTIES_ENDS_MAX && params->n_stop_token_ids <= STOP_TOKEN_IDS_MAX);
    for (uint32_t i = 0; i < params->n_stop_token_ids; i++)
        n = add_end(ends_out, n, params->stop_token_ids[i]);
    for (uint32_t i = 0; i < n_eos_ids && !params->ignore_eos; i++)
        n = add_end(ends_out, n, eos_ids[i]);
    return n;
}

enum status beam_search_create(const struct beam_search_options *options,
                               struct beam_search **search_out)
{
    const struct beam_params *params = &options->params;
    const size_t n_nodes = (size_t)options->max_tokens * params->n_beams;
    assert(params->n_beams > 0 && params->n_beams <= BEAMS_MAX && options->max_tokens > 0);
    assert(beam_params_rank_count(params, options->n_ends) <= RANKED_ROW_MAX);
    struct beam_search *search = malloc(sizeof *search + n_nodes * sizeof *search->nodes);
    if (!search)
        return STATUS_NO_MEMORY;
    search->stops = NULL;
    if (options->stops && options->stops->n > 0 &&
        beam_stops_create(options->stops, &search->stops) != STATUS_OK) {
        free(search);
        return STATUS_NO_MEMORY;
    }
    search->texts = (struct beam_texts){0};
    search->params = *params;
    search->max_tokens = options->max_tokens;
    search->min_tokens = options->min_tokens;
    search->n_ends = options->n_ends;
    search->n_ranked = beam_params_rank_count(params, options->n_ends);
    if (options->n_ends > 0)
        memcpy(search->end_ids, options->end_ids, options->n_ends * sizeof *options->end_ids);
    beam_search_restart(search);
    *search_out = search;
    return STATUS_OK;
}

void beam_search_destroy(struct beam_search *search)
{
    if (!search)
        return;
    beam_stops_destroy(search->stops);
    free(search);
}

void beam_search_set_texts(struct beam_search *search, const struct beam_texts *texts)
{
    search->texts = *texts;
}

void beam_search_restart(struct beam_search *search)
{
    search->n_tokens = search->n_ended = 0;
    search->n_running = 1;
    search->running[0] = (struct beam){0};
    search->states[0] = (struct beam_stop_state){0};
    search->is_over = false;
    search->may_improve = true;
}

uint32_t beam_search_n_ranked(const struct beam_search *search)
{
    return search->n_ranked;
}

/* ---- candidates ---- */

static bool is_end(const struct beam_search *search, uint32_t token_id)
{
    for (uint32_t i = 0; i < search->n_ends; i++)
        if (search->end_ids[i] == token_id)
            return true;
    return false;
}

/* The stop string that the candidate's token completes; its state is that behind it. */
static uint32_t find_stop(const struct beam_search *search, struct candidate_beam *candidate)
{
    char text[BEAM_TOKEN_BYTES_MAX];
    candidate->state = search->states[candidate->beam.parent];
    if (!search->stops || search->n_tokens < search->min_tokens)
        return BEAM_STOP_NONE;
    assert(search->texts.text && "who has stop strings has texts");
    const size_t n = search->texts.text(search->texts.arg, candidate->beam.token_id, text);
    return beam_stops_push(search->stops, &candidate->state, text, n);
}

/* Puts it in its place among the first n_ranked; a row comes by rank, and earlier beams first. False: it is behind them all. */
static bool insert(struct beam_search *search, uint32_t *n, struct beam beam)
{
    struct candidate_beam *list = search->candidates;
    if (*n == search->n_ranked && !(beam.score > list[*n - 1].beam.score))
        return false;
    uint32_t at = *n < search->n_ranked ? (*n)++ : *n - 1;
    for (; at > 0 && beam.score > list[at - 1].beam.score; at--)
        list[at] = list[at - 1];
    list[at].beam = beam;
    return true;
}

/* Returns how many. */
static uint32_t choose(struct beam_search *search, const struct ranked_row *const *rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < search->n_running; i++)
        for (uint32_t at = 0; at < rows[i]->n && at < search->n_ranked; at++)
            if (!insert(search, &n,
                        (struct beam){.parent = i,
                                      .token_id = rows[i]->ids[at],
                                      .score = search->running[i].score + rows[i]->logprobs[at]}))
                break;
    for (uint32_t i = 0; i < n; i++) {
        struct candidate_beam *candidate = &search->candidates[i];
        const bool is_end_id = is_end(search, candidate->beam.token_id);
        candidate->stop = is_end_id ? BEAM_STOP_NONE : find_stop(search, candidate);
        candidate->is_end = is_end_id || candidate->stop != BEAM_STOP_NONE;
        candidate->has_ended = candidate->is_end || search->n_tokens + 1 == search->max_tokens;
    }
    return n;
}

/* ---- what ends, what runs ---- */

static float by_length(const struct beam_search *search, float score, uint32_t n_tokens)
{
    return score / (float)pow(n_tokens, (double)search->params.length_penalty);
}

static bool is_full(const struct beam_search *search)
{
    return search->n_ended == search->params.n_beams;
}

static void keep_ended(struct beam_search *search, const struct ended *ended)
{
    struct ended *list = search->ended;
    if (is_full(search) && !(ended->score > list[search->n_ended - 1].score))
        return;
    uint32_t at = is_full(search) ? search->n_ended - 1 : search->n_ended++;
    for (; at > 0 && ended->score > list[at - 1].score; at--)
        list[at] = list[at - 1];
    list[at] = *ended;
}

static void take_ended(struct beam_search *search, uint32_t n)
{
    const bool takes_none = !search->may_improve ||
                            (is_full(search) &&
                             search->params.early_stopping == EARLY_STOPPING_TRUE);
    for (uint32_t i = 0; !takes_none && i < n && i < search->params.n_beams; i++) {
        const struct candidate_beam *candidate = &search->candidates[i];
        if (candidate->has_ended)
            keep_ended(search, &(struct ended){.score = by_length(search, candidate->beam.score,
                                                                  search->n_tokens + 1),
                                               .n_tokens = search->n_tokens + 1,
                                               .parent = candidate->beam.parent,
                                               .token_id = candidate->beam.token_id,
                                               .is_end = candidate->is_end,
                                               .stop = candidate->stop});
    }
}

static void take_running(struct beam_search *search, uint32_t n)
{
    struct node *nodes = search->nodes + (size_t)search->n_tokens * search->params.n_beams;
    uint32_t n_running = 0;
    for (uint32_t i = 0; i < n && n_running < search->params.n_beams; i++) {
        const struct beam *beam = &search->candidates[i].beam;
        if (search->candidates[i].has_ended)
            continue;
        nodes[n_running] = (struct node){beam->token_id, beam->parent};
        search->states[n_running] = search->candidates[i].state;
        search->running[n_running++] = *beam;
    }
    search->n_running = n_running;
}

/* Whether the best running beam may become better than the worst of n_beams that have ended. */
static bool can_improve(const struct beam_search *search)
{
    const struct beam_params *params = &search->params;
    const bool is_longest = params->early_stopping == EARLY_STOPPING_NEVER &&
                            params->length_penalty > 0;
    if (search->n_running == 0)
        return false;
    const float best = by_length(search, search->running[0].score,
                                 is_longest ? search->max_tokens : search->n_tokens);
    return !is_full(search) || best > search->ended[search->n_ended - 1].score;
}

void beam_search_step(struct beam_search *search, const struct ranked_row *const *rows)
{
    assert(!search->is_over && search->n_tokens < search->max_tokens);
    const uint32_t n = choose(search, rows);
    take_ended(search, n);
    take_running(search, n);
    search->n_tokens++;
    search->may_improve = search->may_improve && can_improve(search);
    search->is_over = !search->may_improve ||
                      (is_full(search) && search->params.early_stopping == EARLY_STOPPING_TRUE);
}

uint32_t beam_search_n_running(const struct beam_search *search)
{
    return search->n_running;
}

const struct beam *beam_search_running(const struct beam_search *search)
{
    return search->running;
}

uint32_t beam_search_n_tokens(const struct beam_search *search)
{
    return search->n_tokens;
}

bool beam_search_is_over(const struct beam_search *search)
{
    return search->is_over;
}

/* ---- results ---- */

uint32_t beam_search_n_results(const struct beam_search *search)
{
    return search->n_ended;
}

struct beam_result beam_search_result(const struct beam_search *search, uint32_t i)
{
    assert(i < search->n_ended);
    const struct ended *ended = &search->ended[i];
    return (struct beam_result){ended->score, ended->n_tokens, ended->is_end, ended->stop};
}

void beam_search_tokens(const struct beam_search *search, uint32_t i, uint32_t *tokens_out)
{
    assert(i < search->n_ended);
    const struct ended *ended = &search->ended[i];
    uint32_t parent = ended->parent;
    tokens_out[ended->n_tokens - 1] = ended->token_id;
    for (uint32_t at = ended->n_tokens - 1; at-- > 0;) {
        const struct node *node = &search->nodes[(size_t)at * search->params.n_beams + parent];
        tokens_out[at] = node->token_id;
        parent = node->parent;
    }
}
