/* gen_engine: a client that asks for progress gets it, from the start of its prompt to the first token. Other clients get none.
 * The figures of all prompts agree with it. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

static void ask(struct gen_rig *rig, struct rig_client *client, const char *name, uint32_t n_tokens,
                const char *context_worker)
{
    const struct sampling_params sampling = gen_rig_sampling(3);
    struct gen_request request = gen_rig_request(name, 5, n_tokens, &sampling);
    request.context_worker = context_worker;
    request.wants_progress = true;
    cr_assert_eq(gen_engine_generate(rig->engine, client, &request, NULL), STATUS_OK);
}

static void expect_progress(const struct rig_client *client, uint32_t n_prompt, uint32_t n,
                            const uint32_t *done)
{
    cr_assert_eq(client->n_progress, n, "%u messages", client->n_progress);
    cr_assert_eq(client->n_prompt, n_prompt);
    for (uint32_t i = 0; i < n; i++)
        cr_assert_eq(client->progress[i], done[i], "message %u: %u", i, client->progress[i]);
}

static void expect_prefills(const struct gen_rig *rig, uint32_t n, uint64_t tokens,
                            uint64_t done_tokens)
{
    struct gen_engine_stats stats;
    gen_engine_read_stats(rig->engine, &stats);
    cr_assert_eq(stats.prefills, n);
    cr_assert_eq(stats.prefill_tokens, tokens);
    cr_assert_eq(stats.prefill_done_tokens, done_tokens, "%lu", stats.prefill_done_tokens);
}

Test(progress, a_prompt_that_is_computed_here_is_told_chunk_by_chunk)
{
    struct gen_rig rig;
    struct rig_client client = {0}, other = {0};
    gen_rig_open(&rig, ROOMY);
    ask(&rig, &client, "a", 90, "");
    gen_rig_step(&rig);
    expect_prefills(&rig, 1, 90, client.progress[client.n_progress - 1]);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_gt(client.n_progress, 3);
    cr_assert_eq(client.progress[0], 0);
    for (uint32_t i = 1; i < client.n_progress; i++)
        cr_assert(client.progress[i] > client.progress[i - 1] && client.progress[i] < 90);
    expect_prefills(&rig, 0, 0, 0);

    ask(&rig, &other, "b", 90, ""); /* all but its end is cached now */
    gen_rig_settle(&rig);
    expect_ended(&other, STATUS_OK);
    expect_progress(&other, 90, 1, (const uint32_t[]){88});
    gen_rig_close(&rig);
}

Test(progress, a_prompt_of_a_context_worker_is_told_as_it_announces_it)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    ask(&rig, &client, "a", 35, "ctx:1");
    gen_rig_settle(&rig);
    expect_prefills(&rig, 1, 35, 0);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    gen_rig_ready(&rig, 0, 1, 0);
    gen_rig_ready(&rig, 1, 3, 0);
    expect_prefills(&rig, 1, 35, 32);
    gen_rig_first_token(&rig, 9);
    gen_rig_ready(&rig, 4, 1, 0);
    expect_progress(&client, 35, 3, (const uint32_t[]){0, 8, 32});
    expect_prefills(&rig, 1, 35, 35);
    gen_rig_seal(&rig);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_progress, 3);
    expect_prefills(&rig, 0, 0, 0);
    gen_rig_close(&rig);
}

Test(progress, a_prompt_that_is_begun_anew_is_told_from_its_beginning)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    ask(&rig, &client, "a", 35, "ctx:1");
    gen_rig_settle(&rig);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    gen_rig_ready(&rig, 0, 3, 0);
    gen_rig_end(&rig, STATUS_PEER_LOST);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_geq(client.n_progress, 4);
    cr_assert_eq(client.progress[1], 24);
    cr_assert_eq(client.progress[2], 0);
    cr_assert_lt(client.progress[client.n_progress - 1], 35);
    gen_rig_close(&rig);
}

Test(progress, who_does_not_ask_is_told_nothing)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", 35, 4);
    gen_rig_hand_over(&rig, 9);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_progress, 0);
    gen_rig_close(&rig);
}
