/* scores: a client that asks for the log-probabilities of its prompt hears each once, in order and before the first token, with the same
 * bits whatever was cached, paused, handed over or failed. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N_PROMPT = 61, N_NEW = 3, N_TOP = 4, SEED = 5 };

static enum status ask(struct gen_rig *rig, struct rig_client *client, const char *name,
                       bool wants_scores, uint32_t max_tokens, const char *context_worker)
{
    struct sampling_params sampling = gen_rig_sampling(max_tokens);
    sampling.scores_prompt = wants_scores;
    sampling.n_prompt_logprobs = wants_scores ? N_TOP : 0;
    struct gen_request request = gen_rig_request(name, SEED, N_PROMPT, &sampling);
    request.context_worker = context_worker;
    return gen_engine_generate(rig->engine, client, &request, NULL);
}

static void ask_scored(struct gen_rig *rig, struct rig_client *client, const char *context_worker)
{
    cr_assert_eq(ask(rig, client, "scored", true, N_NEW, context_worker), STATUS_OK);
    gen_rig_settle(rig);
}

/* Of the prompt alone. */
static const struct rig_client *expected(void)
{
    static struct rig_client client;
    struct gen_rig rig;
    if (client.n_scored > 0)
        return &client;
    gen_rig_open(&rig, ROOMY);
    ask_scored(&rig, &client, "");
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_scored, N_PROMPT);
    cr_assert_eq(client.scores[0].n_top, 0, "nothing comes before it");
    for (uint32_t i = 1; i < N_PROMPT; i++) {
        cr_assert_eq(client.scores[i].n_top, N_TOP);
        cr_assert(client.scores[i].logprob < 0 &&
                  client.scores[i].logprob <= client.scores[i].top_logprobs[0]);
    }
    gen_rig_close(&rig);
    return &client;
}

static void expect_scores(const struct rig_client *client)
{
    expect_ended(client, STATUS_OK);
    cr_assert_eq(client->n_scored, N_PROMPT);
    cr_assert_arr_eq(client->scores, expected()->scores, N_PROMPT * sizeof *client->scores);
    cr_assert_arr_eq(client->tokens, expected()->tokens, N_NEW * sizeof *client->tokens);
}

Test(scores, of_a_prompt_that_is_cached_are_computed_all_the_same)
{
    struct gen_rig rig;
    struct rig_client plain = {0}, scored = {0}, again = {0};
    gen_rig_open(&rig, ROOMY);
    cr_assert_eq(ask(&rig, &plain, "a", false, N_NEW, ""), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&plain, STATUS_OK);
    cr_assert_eq(plain.n_scored, 0);
    ask_scored(&rig, &scored, "");
    expect_scores(&scored);
    cr_assert_eq(scored.finish.cached_tokens, 0);
    cr_assert_eq(ask(&rig, &again, "b", false, N_NEW, ""), STATUS_OK);
    gen_rig_settle(&rig);
    cr_assert_eq(again.finish.cached_tokens, (N_PROMPT - 1) / RIG_BLOCK_TOKENS * RIG_BLOCK_TOKENS);
    cr_assert_arr_eq(again.tokens, scored.tokens, N_NEW * sizeof *again.tokens);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(scores, have_the_same_bits_in_company)
{
    struct gen_rig rig;
    struct rig_client scored = {0}, other = {0}, others = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &other, "other", 30, 20);
    ask_scored(&rig, &scored, "");
    expect_scores(&scored);
    gen_rig_settle(&rig);
    gen_rig_close(&rig);
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &others, "other", 30, 20);
    gen_rig_settle(&rig);
    cr_assert_eq(other.n_tokens, others.n_tokens);
    cr_assert_arr_eq(other.tokens, others.tokens, other.n_tokens * sizeof *other.tokens);
    gen_rig_close(&rig);
}

Test(scores, of_a_prompt_of_one_token_are_one_empty_entry)
{
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    struct rig_client client = {0};
    struct gen_rig rig;
    gen_rig_open(&rig, ROOMY);
    sampling.scores_prompt = true;
    struct gen_request request = gen_rig_request("a", SEED, 1, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_scored, 1);
    cr_assert(client.scores[0].logprob == 0 && client.scores[0].n_top == 0);
    gen_rig_close(&rig);
}

/* ---- a context worker ---- */

static void say_scores(struct gen_rig *rig, uint32_t first, uint32_t n,
                       const struct token_logprobs *scores)
{
    const struct prefill_event event = {.kind = EVENT_SCORES, .scores = {first, n, scores + first}};
    gen_rig_say(rig, &event);
}

Test(scores, of_a_context_worker_are_passed_on)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    ask_scored(&rig, &client, "ctx:1");
    cr_assert(rig.wants_scores);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    say_scores(&rig, 0, 17, expected()->scores);
    cr_assert_eq(client.n_scored, 17, "at once");
    gen_rig_ready(&rig, 0, 2, 0);
    say_scores(&rig, 17, N_PROMPT - 17, expected()->scores);
    gen_rig_first_token(&rig, expected()->tokens[0]);
    cr_assert_eq(client.n_tokens, 1);
    cr_assert_arr_eq(client.scores, expected()->scores, N_PROMPT * sizeof *client.scores);
    gen_engine_stream_ended(rig.engine, &client);
    gen_rig_settle(&rig);
    gen_rig_close(&rig);
}

Test(scores, go_on_where_a_context_worker_was_lost)
{
    static const uint32_t TOLD[] = {0, 1, 16, 17, 40, N_PROMPT - 1, N_PROMPT};
    for (size_t i = 0; i < sizeof TOLD / sizeof *TOLD; i++) {
        struct gen_rig rig;
        struct rig_client client = {0};
        gen_rig_open(&rig, ROOMY);
        ask_scored(&rig, &client, "ctx:1");
        gen_rig_describe(&rig);
        gen_rig_accept(&rig);
        if (TOLD[i] > 0)
            say_scores(&rig, 0, TOLD[i], expected()->scores);
        cr_assert_eq(client.n_scored, TOLD[i]);
        gen_rig_end(&rig, STATUS_PEER_LOST);
        expect_scores(&client);
        expect_all_free_or_cached(&rig);
        gen_rig_close(&rig);
    }
}

/* What a context worker must not say: its prompt is computed here, and the client hears nothing of the lie. */
struct lie {
    const char *name;
    uint32_t first, n;
    void (*tell)(struct token_logprobs *score);
};

static void say_nan(struct token_logprobs *score)
{
    score->logprob = NAN;
}

static void say_nan_of_a_likely_one(struct token_logprobs *score)
{
    score->top_logprobs[N_TOP - 1] = NAN;
}

static void say_likelier_than_sure(struct token_logprobs *score)
{
    score->logprob = 0.01f;
}

static void say_infinite(struct token_logprobs *score)
{
    score->top_logprobs[0] = INFINITY;
}

static void say_too_many(struct token_logprobs *score)
{
    score->n_top = N_TOP + 1;
}

static void say_no_token(struct token_logprobs *score)
{
    score->top_ids[1] = RIG_VOCABULARY;
}

Test(scores, that_are_lies_are_computed_here)
{
    static const struct lie LIES[] = {
        {"a gap", 18, 4, NULL},
        {"twice", 16, 4, NULL},
        {"behind the prompt", 17, N_PROMPT - 16, NULL},
        {"NaN", 17, 4, say_nan},
        {"NaN of a likely one", 17, 4, say_nan_of_a_likely_one},
        {"above 0", 17, 4, say_likelier_than_sure},
        {"infinity", 17, 4, say_infinite},
        {"too many likeliest", 17, 4, say_too_many},
        {"no token", 17, 4, say_no_token},
        {"a token before the last score", 0, 0, NULL},
    };
    for (size_t i = 0; i < sizeof LIES / sizeof *LIES; i++) {
        static struct token_logprobs scores[RIG_CONTEXT_TOKENS];
        const struct lie *lie = &LIES[i];
        struct gen_rig rig;
        struct rig_client client = {0};
        struct gen_engine_stats stats;
        memcpy(scores, expected()->scores, N_PROMPT * sizeof *scores);
        gen_rig_open(&rig, ROOMY);
        ask_scored(&rig, &client, "ctx:1");
        gen_rig_describe(&rig);
        gen_rig_accept(&rig);
        say_scores(&rig, 0, 17, scores);
        if (lie->tell)
            lie->tell(&scores[lie->first + lie->n - 1]);
        if (lie->n > 0)
            say_scores(&rig, lie->first, lie->n, scores);
        else
            gen_rig_first_token(&rig, expected()->tokens[0]);
        gen_rig_settle(&rig);
        gen_engine_read_stats(rig.engine, &stats);
        cr_assert_eq(stats.handovers_fell_back, 1, "%s", lie->name);
        expect_scores(&client);
        gen_rig_close(&rig);
    }
}

Test(scores, of_token_0_are_a_lie)
{
    struct token_logprobs scores[2] = {{.logprob = -1}, {.logprob = -1}};
    struct gen_rig rig;
    struct rig_client client = {0};
    struct gen_engine_stats stats;
    gen_rig_open(&rig, ROOMY);
    ask_scored(&rig, &client, "ctx:1");
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    say_scores(&rig, 0, 2, scores);
    gen_rig_settle(&rig);
    gen_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.handovers_fell_back, 1);
    expect_scores(&client);
    gen_rig_close(&rig);
}

Test(scores, that_nobody_asked_for_are_a_lie)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    cr_assert_eq(ask(&rig, &client, "a", false, N_NEW, "ctx:1"), STATUS_OK);
    gen_rig_settle(&rig);
    cr_assert_not(rig.wants_scores);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    say_scores(&rig, 0, 17, expected()->scores);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_scored, 0);
    cr_assert_arr_eq(client.tokens, expected()->tokens, N_NEW * sizeof *client.tokens);
    gen_rig_close(&rig);
}

/* ---- pauses ---- */

/* Asks behind an older request that has n_before tokens and needs a block soon. Returns how much was scored at the pause; 0: there was
 * none. */
static uint32_t score_beside(uint32_t n_before, bool no_prefix_cache)
{
    const struct gen_rig_options options = {.n_blocks = 11,
                                            .sequences_max = 2,
                                            .queue_max = 4,
                                            .prefills_max = 4,
                                            .no_prefix_cache = no_prefix_cache,
                                            .policy = SCHEDULE_MAX_UTILIZATION};
    struct rig_client older = {0}, scored = {0};
    struct gen_engine_stats stats = {0};
    struct gen_rig rig;
    uint32_t n_at_pause = 0;
    struct sampling_params sampling = gen_rig_sampling(60);
    struct gen_request request = gen_rig_request("older", 9, 16, &sampling);
    request.context_worker = "";
    gen_rig_open(&rig, options);
    cr_assert_eq(gen_engine_generate(rig.engine, &older, &request, NULL), STATUS_OK);
    while (older.n_tokens < n_before)
        gen_rig_step(&rig);
    cr_assert_eq(ask(&rig, &scored, "scored", true, N_NEW, ""), STATUS_OK);
    for (int i = 0; i < 100 && stats.pauses == 0; i++) {
        gen_rig_step(&rig);
        gen_engine_read_stats(rig.engine, &stats);
    }
    if (stats.pauses > 0 && scored.n_finishes == 0)
        n_at_pause = scored.n_scored;
    gen_rig_settle(&rig);
    expect_ended(&older, STATUS_OK);
    expect_scores(&scored);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
    return n_at_pause;
}

Test(scores, are_not_told_again_behind_a_pause)
{
    for (int no_prefix_cache = 0; no_prefix_cache < 2; no_prefix_cache++) {
        uint32_t n_partly = 0;
        for (uint32_t n_before = 1; n_before <= 10; n_before++) {
            const uint32_t n = score_beside(n_before, no_prefix_cache);
            n_partly += n > 0 && n < N_PROMPT;
        }
        cr_assert_geq(n_partly, 1, "no pause came between two chunks");
    }
}

/* ---- ends ---- */

Test(scores, that_a_client_does_not_take_end_its_request)
{
    struct gen_rig rig;
    struct rig_client slow = {.refuses_scores = true}, other = {0}, handed = slow;
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &other, "other", 30, 20);
    ask_scored(&rig, &slow, "");
    expect_ended(&slow, STATUS_SLOW_READER);
    cr_assert_eq(slow.n_tokens, 0);
    ask_scored(&rig, &handed, "ctx:1");
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    say_scores(&rig, 0, 17, expected()->scores);
    expect_ended(&handed, STATUS_SLOW_READER);
    gen_engine_stream_ended(rig.engine, &other);
    gen_rig_settle(&rig);
    gen_rig_close(&rig);
}

Test(scores, that_are_not_finite_end_their_request_alone)
{
    struct gen_rig rig;
    struct rig_client bad = {0}, good = {0};
    struct gen_engine_stats stats;
    struct gen_rig_options options = ROOMY;
    options.overflows = true;
    options.overflow_token = engine_rig_tokens(SEED, N_PROMPT)[40];
    gen_rig_open(&rig, options);
    struct sampling_params sampling = gen_rig_sampling(2);
    struct gen_request request = gen_rig_request("good", SEED, 20, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &good, &request, NULL), STATUS_OK);
    ask_scored(&rig, &bad, "");
    expect_ended(&bad, STATUS_LOGITS_NOT_FINITE);
    cr_assert_eq(bad.n_tokens, 0);
    expect_ended(&good, STATUS_OK);
    gen_engine_read_stats(rig.engine, &stats);
    cr_assert_geq(stats.rows_not_finite, 1);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}
