#include "tests/sim/oracle_beams.h"

#include "model/sampling/forced_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASK_WORDS 1024u

struct play {
    struct oracle *oracle;
    const struct oracle_question *question;
    const struct sampling_params *sampling;
    const struct model_config *config;
    struct oracle_parts parts;
    uint32_t prompt[ORACLE_PROMPT_MAX + 1], n_prompt; /* that tokens stand behind */
    uint32_t tokens[BEAMS_MAX][ORACLE_GENERATED_MAX];
    struct ranked_row rows[BEAMS_MAX];
};

static void must(bool is_well, const char *what)
{
    if (is_well)
        return;
    fprintf(stderr, "oracle_beams: %s\n", what);
    abort();
}

/* The row behind the prompt and n tokens of a beam. */
static void rank(struct play *play, uint32_t beam, uint32_t n, uint32_t n_ranked)
{
    uint32_t tokens[ORACLE_PROMPT_MAX + ORACLE_GENERATED_MAX + 1];
    uint32_t mask[MASK_WORDS] = {0}, forced;
    const uint32_t n_all = play->n_prompt + n;
    memcpy(tokens, play->prompt, play->n_prompt * sizeof *tokens);
    memcpy(tokens + play->n_prompt, play->tokens[beam], n * sizeof *tokens);
    oracle_compute_whole(play->oracle, play->question, &play->parts, tokens, n_all);
    struct draw draw = {
        .params = play->sampling, .tokens = tokens, .n_prompt = play->n_prompt, .n_tokens = n_all};
    must(play->config->vocabulary <= 32 * MASK_WORDS, "a vocabulary of that size");
    if (forced_token_find(&play->config->encoder, n, play->sampling->max_tokens, &forced)) {
        mask[forced / 32] = 1u << forced % 32;
        draw.mask = mask;
    }
    (void)sampler_rank_row(play->parts.sampler, &draw, play->parts.logits, n_ranked,
                           &play->rows[beam]);
}

static void step(struct play *play, struct beam_search *search)
{
    const struct ranked_row *rows[BEAMS_MAX];
    uint32_t before[BEAMS_MAX][ORACLE_GENERATED_MAX];
    const uint32_t n = beam_search_n_tokens(search);
    for (uint32_t i = 0; i < beam_search_n_running(search); i++) {
        rank(play, i, n, beam_search_n_ranked(search));
        rows[i] = &play->rows[i];
    }
    memcpy(before, play->tokens, sizeof before);
    beam_search_step(search, rows);
    const struct beam *running = beam_search_running(search);
    for (uint32_t i = 0; i < beam_search_n_running(search); i++) {
        memcpy(play->tokens[i], before[running[i].parent], n * sizeof(uint32_t));
        play->tokens[i][n] = running[i].token_id;
    }
}

void oracle_beams(struct oracle *oracle, const struct oracle_question *question,
                  const struct sampling_params *sampling, struct oracle_replies *replies_out)
{
    uint32_t ends[BEAM_ENDS_MAX];
    struct beam_search *search;
    struct play play = {.oracle = oracle,
                        .question = question,
                        .sampling = sampling,
                        .config = model_get_config(oracle_model(oracle, question->model))};
    const struct beam_search_options options = {
        .params = sampling->beams,
        .max_tokens = sampling->max_tokens,
        .end_ids = ends,
        .n_ends = beam_search_ends(sampling, play.config->eos_ids, play.config->n_eos_ids, ends)};
    must(sampling->max_tokens <= ORACLE_GENERATED_MAX, "so long a reply");
    must(beam_search_create(&options, &search) == STATUS_OK, "no memory");
    play.n_prompt = oracle_begin_whole(oracle, question, &play.parts, play.prompt);
    while (!beam_search_is_over(search))
        step(&play, search);
    oracle_end_whole(oracle, question, &play.parts);
    replies_out->n = beam_search_n_results(search);
    for (uint32_t i = 0; i < replies_out->n; i++) {
        const struct beam_result result = beam_search_result(search, i);
        struct oracle_reply *reply = &replies_out->all[i];
        *reply = (struct oracle_reply){
            .n_tokens = result.n_tokens, .score = result.score, .is_end = result.is_end};
        beam_search_tokens(search, i, reply->tokens);
    }
    beam_search_destroy(search);
}
