/* overflow: a prompt whose last logits are not finite ends with LOGITS_NOT_FINITE and without a first token, and other prompts do
 * not. It is counted and gives its blocks back, and no other request uses what it computed. */
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>

enum { N_PROMPT = 35, N_BLOCKS = 20 };

static bool has_token(const uint32_t *tokens, uint32_t token)
{
    for (uint32_t i = 0; i < N_PROMPT; i++)
        if (tokens[i] == token)
            return true;
    return false;
}

/* A token of the first prompt's first block that the second does not have. */
static uint32_t token_of_first(uint32_t first_seed, uint32_t second_seed)
{
    uint32_t first[N_PROMPT];
    struct ctx_prefill_request request = ctx_rig_request("a", first_seed, N_PROMPT);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        first[i] = request.input.token_ids[i];
    request = ctx_rig_request("b", second_seed, N_PROMPT);
    for (uint32_t i = 0; i < RIG_BLOCK_TOKENS; i++)
        if (!has_token(request.input.token_ids, first[i]))
            return first[i];
    cr_assert_fail("the prompts are the same");
    return 0;
}

static bool has_event(const struct rig_stream *stream, enum prefill_event_kind kind)
{
    for (uint32_t i = 0; i < stream->n_events; i++)
        if (stream->kinds[i] == kind)
            return true;
    return false;
}

Test(overflow, of_a_prompt_ends_it_alone_and_leaves_nothing_of_it)
{
    struct ctx_rig rig;
    struct rig_stream bad = {0}, good = {0};
    struct ctx_engine_stats stats;
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = N_BLOCKS,
                                                .slots_max = 2,
                                                .queue_max = 2,
                                                .queue_limit_ns = NS_PER_S,
                                                .overflows = true,
                                                .overflow_token = token_of_first(1, 2)});
    cr_assert_eq(ctx_rig_prefill(&rig, &bad, "a", 1, N_PROMPT), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &good, "b", 2, N_PROMPT), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(bad.n_finishes, 1);
    cr_assert_eq(bad.status, STATUS_LOGITS_NOT_FINITE, "%s", status_name(bad.status));
    cr_assert_not(has_event(&bad, EVENT_FIRST_TOKEN));
    cr_assert_not(has_event(&bad, EVENT_SEALED));
    cr_assert_eq(good.n_finishes, 0);
    cr_assert(has_event(&good, EVENT_FIRST_TOKEN) && has_event(&good, EVENT_SEALED));
    cr_assert_eq(ctx_rig_commit(&rig, "b", 5), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(good.status, STATUS_OK);
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.rows_not_finite, 1);
    cr_assert_eq(stats.prompt_tokens_computed, 2 * N_PROMPT);
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_CACHED), N_PROMPT / RIG_BLOCK_TOKENS, "the good one's");
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_FREE), N_BLOCKS - N_PROMPT / RIG_BLOCK_TOKENS);
    ctx_rig_close(&rig);
}
