#include "tests/sim/client_beams.h"

#include "tests/sim/messages.h"
#include "tests/sim/worker_node.h"

#include <stddef.h>
#include <string.h>

/* One client of six, where its search fits. */
static uint32_t n_beams_of(const struct client *client)
{
    const struct plan *plan = client->cluster->plan;
    const struct plan_request *request = client->plan;
    const uint32_t n_beams = 2 + (uint32_t)(plan->seed + client->index) % 4;
    const struct encoder_line line = oracle_line(plan->model, plan->block_tokens);
    const uint32_t n_prompt = encoder_line_tokens(&line, request->question.n_prompt);
    const bool is_small = plan->small_node != 0;
    if ((plan->seed + client->index) % 6 != 0 || plan->has_sinks || is_small ||
        plan->model == ORACLE_RECURRENT || worker_node_is_contiguous(plan) ||
        request->slow_after != UINT32_MAX || n_beams > plan->slots_max ||
        !worker_node_fits(client->cluster, n_beams, n_prompt, n_prompt + ORACLE_GENERATED_MAX))
        return 0;
    return n_beams;
}

void client_ask_beams(struct client *client)
{
    struct sampling_params *sampling = &client->sampling;
    sampling->beams = (struct beam_params){
        .n_beams = n_beams_of(client),
        .length_penalty = 0.5F * (float)(client->index % 4),
        .early_stopping = (enum early_stopping)(client->index % 3)};
    sampling->beams.n_best = 1 + client->index % (sampling->beams.n_beams + 1) / 2;
    if (sampling->beams.n_beams == 0)
        return;
    sampling->temperature = 0;
    sampling->n_logprobs = 0;
    client->wants_scores = false;
    if (sampling->max_tokens > ORACLE_GENERATED_MAX)
        sampling->max_tokens = ORACLE_GENERATED_MAX;
    client->replies = wire_alloc(&client->cluster->wire, sizeof *client->replies);
    oracle_beams(client->cluster->oracle, &client->plan->question, sampling, client->replies);
    if (sampling->beams.n_best > client->replies->n) /* a forced token may end all */
        sampling->beams.n_best = client->replies->n;
}

static uint32_t longest_of(const struct oracle_replies *replies)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < replies->n; i++)
        n = replies->all[i].n_tokens > n ? replies->all[i].n_tokens : n;
    return n;
}

bool client_is_short(const struct client *client)
{
    return longest_of(client->replies) == 1;
}

void client_judge_replies(struct client *client, const struct gen_finish *finish)
{
    const struct sim_message *message =
        (const struct sim_message *)(const void *)((const char *)finish -
                                                   offsetof(struct sim_message, end.finish));
    const struct oracle_replies *told = message->end.replies, *right = client->replies;
    struct totals *totals = client->cluster->totals;
    totals->searches++;
    totals->searches_crossed += finish->context_worker[0] != '\0' && longest_of(right) > 1;
    if (!told || told->n != right->n || finish->n_best != client->sampling.beams.n_best) {
        cluster_fail(client->cluster, "r%u: %u replies of a beam search, wanted %u", client->index,
                     told ? told->n : 0, right->n);
        return;
    }
    for (uint32_t i = 0; i < right->n; i++) {
        const struct oracle_reply *a = &told->all[i], *b = &right->all[i];
        if (a->n_tokens != b->n_tokens || a->score != b->score || a->is_end != b->is_end ||
            memcmp(a->tokens, b->tokens, b->n_tokens * sizeof *b->tokens) != 0)
            cluster_fail(client->cluster,
                         "r%u: reply %u of %u beams has %u tokens and score %g, "
                         "wanted %u and %g",
                         client->index, i, client->sampling.beams.n_beams, a->n_tokens,
                         (double)a->score, b->n_tokens, (double)b->score);
    }
    client->n_tokens = finish->generated_tokens;
}
