/* rules: they hold for every token, also behind a pause, which computes tokens again; rules that leave no token end only their own
 * request; a context worker of an earlier version is done without, or named. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

enum { N_PROMPT = 16, N_NEW = 40 };

/* Two of these do not fit together: each grows to 7 blocks. */
static const struct gen_rig_options SMALL = {.n_blocks = 9,
                                             .sequences_max = 4,
                                             .queue_max = 4,
                                             .prefills_max = 4,
                                             .policy = SCHEDULE_MAX_UTILIZATION};

static enum status ask(struct gen_rig *rig, struct rig_client *client, const char *name,
                       const struct sampling_params *sampling, const char *context_worker)
{
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], N_PROMPT, sampling);
    request.context_worker = context_worker;
    return gen_engine_generate(rig->engine, client, &request, NULL);
}

static uint64_t pauses_of(const struct gen_rig *rig)
{
    struct gen_engine_stats stats;
    gen_engine_read_stats(rig->engine, &stats);
    return stats.pauses;
}

/* The tokens of two requests with these parameters. */
static uint64_t run_two(struct gen_rig_options options, const struct sampling_params *sampling,
                        struct rig_client clients[2])
{
    struct gen_rig rig;
    gen_rig_open(&rig, options);
    cr_assert_eq(ask(&rig, &clients[0], "a", sampling, ""), STATUS_OK);
    cr_assert_eq(ask(&rig, &clients[1], "b", sampling, ""), STATUS_OK);
    gen_rig_settle(&rig);
    for (int i = 0; i < 2; i++) {
        expect_ended(&clients[i], STATUS_OK);
        cr_assert_eq(clients[i].n_tokens, N_NEW);
    }
    const uint64_t n = pauses_of(&rig);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
    return n;
}

static uint32_t count(const struct rig_client *client, uint32_t id)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < client->n_tokens; i++)
        n += client->tokens[i] == id;
    return n;
}

static uint32_t count_pairs(const struct rig_client *client, const uint32_t pair[2])
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < client->n_tokens; i++)
        n += client->tokens[i - 1] == pair[0] && client->tokens[i] == pair[1];
    return n;
}

Test(rules, hold_behind_pauses)
{
    static const float BIASES[1] = {-100};
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    struct rig_client plain[2] = {0}, ruled[2] = {0}, paused[2] = {0};
    struct gen_rig_options roomy = SMALL;
    roomy.n_blocks = 64;
    run_two(roomy, &sampling, plain);

    const uint32_t biased[1] = {plain[0].tokens[1]}, lengths[1] = {2};
    const uint32_t bad[2] = {plain[1].tokens[20], plain[1].tokens[21]};
    const struct token_rules rules = {1, biased, BIASES, 0, NULL, 1, lengths, 2, bad, {0}, {0}};
    sampling.rules = &rules;
    sampling.min_tokens = N_NEW;
    sampling.stop_token_ids[0] = plain[0].tokens[5];
    sampling.n_stop_token_ids = 1;
    cr_assert_eq(run_two(roomy, &sampling, ruled), 0);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(count(&ruled[i], biased[0]), 0);
        cr_assert_eq(count(&ruled[i], plain[0].tokens[5]), 0, "before min_tokens");
        cr_assert_eq(count_pairs(&ruled[i], bad), 0);
    }
    cr_assert_geq(run_two(SMALL, &sampling, paused), 1);
    for (int i = 0; i < 2; i++)
        cr_assert_arr_eq(paused[i].tokens, ruled[i].tokens, N_NEW * sizeof(uint32_t));
}

/* Two tokens are allowed, and none behind these two. */
Test(rules, that_leave_nothing_end_their_request_alone)
{
    static const uint32_t ALLOWED[2] = {4, 9}, LENGTHS[4] = {2, 2, 2, 2};
    static const uint32_t BAD[8] = {4, 4, 4, 9, 9, 4, 9, 9};
    const struct token_rules rules = {.n_allowed = 2,
                                      .allowed_ids = ALLOWED,
                                      .n_bad = 4,
                                      .bad_lengths = LENGTHS,
                                      .n_bad_ids = 8,
                                      .bad_ids = BAD};
    struct sampling_params sampling = gen_rig_sampling(N_NEW), plain = sampling;
    struct rig_client client = {0}, other = {0};
    struct gen_engine_stats stats;
    struct gen_rig rig;
    gen_rig_open(&rig, ROOMY);
    sampling.rules = &rules;
    cr_assert_eq(ask(&rig, &client, "a", &sampling, ""), STATUS_OK);
    cr_assert_eq(ask(&rig, &other, "b", &plain, ""), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(client.n_tokens, 1);
    cr_assert(client.tokens[0] == 4 || client.tokens[0] == 9);
    expect_ended(&other, STATUS_OK);
    cr_assert_eq(other.n_tokens, N_NEW);
    gen_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.rows_not_finite, 0, "it is not the model's fault");
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

static void end_as_before(struct gen_rig *rig)
{
    gen_rig_describe(rig);
    gen_engine_prefill_end(rig->engine, rig->prefill, STATUS_INVALID_ARGUMENT,
                           "sampling is absent");
    gen_rig_settle(rig);
}

Test(rules, a_context_worker_that_does_not_know_them_is_done_without_or_named)
{
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    sampling.min_tokens = 3;
    for (int is_strict = 0; is_strict < 2; is_strict++) {
        struct rig_client client = {0};
        struct gen_rig rig;
        gen_rig_open(&rig, is_strict ? STRICT : ROOMY);
        cr_assert_eq(ask(&rig, &client, "a", &sampling, "ctx:1"), STATUS_OK);
        gen_rig_step(&rig);
        end_as_before(&rig);
        expect_ended(&client, is_strict ? STATUS_UNSUPPORTED : STATUS_OK);
        cr_assert_eq(client.n_tokens, is_strict ? 0 : N_NEW);
        gen_rig_close(&rig);
    }
}

static struct adapter *keep(struct adapter *adapter)
{
    return adapter;
}

static void let_go(struct adapter *adapter)
{
    (void)adapter;
}

/* No pass computes it here. */
Test(rules, a_context_worker_that_does_not_know_adapters_is_named)
{
    int stands_for_one;
    const struct request_adapter adapter = {.id = {.name = "a"},
                                            .adapter = (struct adapter *)(void *)&stands_for_one,
                                            .share = keep,
                                            .release = let_go};
    const struct sampling_params sampling = gen_rig_sampling(N_NEW);
    struct rig_client client = {0};
    struct gen_rig rig;
    gen_rig_open(&rig, STRICT);
    struct gen_request request = gen_rig_request("a", 1, N_PROMPT, &sampling);
    request.context_worker = "ctx:1";
    request.input.adapter = &adapter;
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_step(&rig);
    end_as_before(&rig);
    expect_ended(&client, STATUS_UNSUPPORTED);
    cr_assert_str_eq(client.finish_sentence, "an adapter is not supported by the context worker, "
                                             "which has an earlier version");
    gen_rig_close(&rig);
}

Test(rules, are_checked_when_they_come)
{
    static const uint32_t IDS[2] = {3, 3};
    static const float BIASES[2] = {1, 2};
    const struct token_rules rules = {.n_biases = 2, .bias_ids = IDS, .biases = BIASES};
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    struct rig_client client = {0};
    struct gen_rig rig;
    gen_rig_open(&rig, ROOMY);
    sampling.rules = &rules;
    cr_assert_eq(ask(&rig, &client, "a", &sampling, ""), STATUS_INVALID_ARGUMENT);
    sampling.rules = NULL;
    sampling.min_tokens = N_NEW + 1;
    cr_assert_eq(ask(&rig, &client, "a", &sampling, ""), STATUS_INVALID_ARGUMENT);
    gen_rig_close(&rig);
}
