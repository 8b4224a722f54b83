#include "tests/sim/oracle_beams.h"

#include "model/sampling/forced_tokens.h"
#include "tests/model/support/beam_play.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MASK_WORDS 1024u

struct request {
    struct oracle *oracle;
    const struct oracle_question *question;
    const struct sampling_params *sampling;
    const struct model_config *config;
    struct oracle_parts parts;
    uint32_t prompt[ORACLE_PROMPT_MAX + 1], n_prompt; /* that tokens stand behind */
};

static void must(bool is_well, const char *what)
{
    if (is_well)
        return;
    fprintf(stderr, "oracle_beams: %s\n", what);
    abort();
}

static void rank(void *arg, const uint32_t *reply, uint32_t n, uint32_t n_ranked,
                 struct ranked_row *row_out)
{
    const struct request *request = arg;
    uint32_t tokens[ORACLE_PROMPT_MAX + ORACLE_GENERATED_MAX + 1];
    uint32_t mask[MASK_WORDS] = {0}, forced;
    const uint32_t n_all = request->n_prompt + n;
    memcpy(tokens, request->prompt, request->n_prompt * sizeof *tokens);
    memcpy(tokens + request->n_prompt, reply, n * sizeof *tokens);
    oracle_compute_whole(request->oracle, request->question, &request->parts, tokens, n_all);
    struct draw draw = {.params = request->sampling,
                        .tokens = tokens,
                        .n_prompt = request->n_prompt,
                        .n_tokens = n_all};
    must(request->config->vocabulary <= 32 * MASK_WORDS, "a vocabulary of that size");
    if (forced_token_find(&request->config->encoder, n, request->sampling->max_tokens, &forced)) {
        mask[forced / 32] = 1u << forced % 32;
        draw.mask = mask;
    }
    (void)sampler_rank_row(request->parts.sampler, &draw, request->parts.logits, n_ranked, row_out);
}

void oracle_beams(struct oracle *oracle, const struct oracle_question *question,
                  const struct sampling_params *sampling, struct oracle_replies *replies_out)
{
    uint32_t ends[BEAM_ENDS_MAX];
    struct beam_search *search;
    struct request request = {.oracle = oracle,
                              .question = question,
                              .sampling = sampling,
                              .config = model_get_config(oracle_model(oracle, question->model))};
    const struct beam_search_options options = {
        .params = sampling->beams,
        .max_tokens = sampling->max_tokens,
        .end_ids = ends,
        .n_ends = beam_search_ends(sampling, request.config->eos_ids, request.config->n_eos_ids,
                                   ends)};
    must(sampling->max_tokens <= ORACLE_GENERATED_MAX, "so long a reply");
    must(beam_search_create(&options, &search) == STATUS_OK, "no memory");
    request.n_prompt = oracle_begin_whole(oracle, question, &request.parts, request.prompt);
    struct beam_play play = {.rank = rank, .arg = &request};
    beam_play_run(&play, search);
    oracle_end_whole(oracle, question, &request.parts);
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
