/* gen_engine: beam searches. Tokens are judged by tests/sim; here: places, lies of context workers, cancels, bad requests. */
#include "tests/engine/support/desk_rig.h"
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { N_PROMPT = 20, N_NEW = 12, N_BEAMS = 3 };

static const struct gen_rig_options WIDE = {
    .n_blocks = 64, .sequences_max = 4, .queue_max = 4, .prefills_max = 4};

static struct gen_engine_stats stats_of(const struct gen_rig *rig)
{
    struct gen_engine_stats stats;
    gen_engine_read_stats(rig->engine, &stats);
    return stats;
}

static struct sampling_params search(void)
{
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    sampling.beams = (struct beam_params){.n_beams = N_BEAMS, .n_best = 2, .length_penalty = 1};
    return sampling;
}

static void ask(struct gen_rig *rig, struct rig_client *client, const char *name, bool crosses)
{
    const struct sampling_params sampling = search();
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], N_PROMPT, &sampling);
    if (!crosses)
        request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig->engine, client, &request, NULL), STATUS_OK);
}

static void expect_replies(const struct rig_client *client)
{
    expect_ended(client, STATUS_OK);
    cr_assert_eq(client->n_tokens, 0, "nothing is told before the end");
    cr_assert_eq(client->finish.generated_tokens, N_NEW);
    cr_assert_eq(client->finish.reason, GEN_FINISH_LENGTH);
    cr_assert_eq(client->finish.n_best, 2);
}

Test(beams, one_search_at_a_time_has_room_for_its_beams)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0};
    gen_rig_open(&rig, WIDE);
    ask(&rig, &clients[0], "a", false);
    ask(&rig, &clients[1], "b", false);
    gen_rig_step(&rig);
    cr_assert_eq(stats_of(&rig).queued, 1, "two searches need 6 of 4 places");
    gen_rig_settle(&rig);
    for (int i = 0; i < 2; i++)
        expect_replies(&clients[i]);
    cr_assert_eq(stats_of(&rig).generated_tokens, 2 * (1 + N_BEAMS * (N_NEW - 1)));
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(beams, a_pause_begins_the_search_again)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0};
    struct gen_rig_options options = WIDE;
    options.n_blocks = 12;
    options.sequences_max = 6;
    options.policy = SCHEDULE_MAX_UTILIZATION;
    gen_rig_open(&rig, options);
    ask(&rig, &clients[0], "a", false);
    ask(&rig, &clients[1], "b", false);
    gen_rig_settle(&rig);
    for (int i = 0; i < 2; i++)
        expect_replies(&clients[i]);
    cr_assert_geq(stats_of(&rig).pauses, 1);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(beams, one_that_is_cancelled_leaves_no_block)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, WIDE);
    ask(&rig, &client, "a", false);
    for (int i = 0; i < 6; i++)
        gen_rig_step(&rig);
    cr_assert_gt(gen_rig_blocks(&rig, BLOCK_ACTIVE), 3);
    gen_engine_stream_ended(rig.engine, &client);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_CANCELLED);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

/* ---- first tokens of a context worker ---- */

static struct ranked_row row_of(uint32_t n)
{
    struct ranked_row row = {.n = n};
    for (uint32_t i = 0; i < n; i++) {
        row.ids[i] = 3 + i;
        row.logprobs[i] = -1 - (float)i;
    }
    return row;
}

/* Up to the seal. */
static void say_prompt(struct gen_rig *rig, const struct ranked_row *row)
{
    gen_rig_settle(rig);
    gen_rig_describe(rig);
    gen_rig_accept(rig);
    gen_rig_ready(rig, 0, (N_PROMPT + 7) / 8, 0);
    gen_rig_settle(rig);
    gen_rig_say(rig, &(struct prefill_event){.kind = EVENT_FIRST_TOKEN,
                                             .first_token = {.token_id = 3, .ranked = row}});
    gen_rig_settle(rig);
}

Test(beams, goes_on_from_the_first_tokens_of_a_context_worker)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    const struct ranked_row row = row_of(2 * N_BEAMS);
    gen_rig_open(&rig, WIDE);
    ask(&rig, &client, "a", true);
    say_prompt(&rig, &row);
    gen_rig_seal(&rig);
    gen_rig_settle(&rig);
    cr_assert_eq(rig.n_commits, 1);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_replies(&client);
    cr_assert_eq(client.finish.place, GEN_PLACE_CONTEXT_WORKER);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 0);
    gen_rig_end(&rig, STATUS_OK);
    gen_rig_settle(&rig);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(beams, with_fewer_running_ones_holds_the_blocks_of_all)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    const struct ranked_row row = row_of(1); /* as behind a forced token */
    gen_rig_open(&rig, WIDE);
    ask(&rig, &client, "a", true);
    say_prompt(&rig, &row);
    gen_rig_seal(&rig);
    gen_rig_settle(&rig);
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    while (stats_of(&rig).generated_tokens < 2) /* the second behind one beam, in the first step */
        gen_rig_step(&rig);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_ACTIVE), N_PROMPT / 8 + N_BEAMS,
                 "what the schedule counts is there when more run");
    gen_rig_settle(&rig);
    expect_replies(&client);
    gen_rig_end(&rig, STATUS_OK);
    gen_rig_settle(&rig);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

static void expect_refused(const struct ranked_row *row)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, WIDE);
    ask(&rig, &client, "a", true);
    say_prompt(&rig, row);
    gen_rig_end(&rig, STATUS_CANCELLED);
    gen_rig_settle(&rig);
    expect_replies(&client);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, N_PROMPT, "it is computed here");
    cr_assert_eq(stats_of(&rig).handovers_fell_back, 1);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(beams, refuses_first_tokens_that_are_no_ranked_row)
{
    struct ranked_row row = row_of(0);
    expect_refused(NULL);
    expect_refused(&row);
    row = row_of(2 * N_BEAMS + 1);
    expect_refused(&row);
    row = row_of(2 * N_BEAMS);
    row.ids[4] = row.ids[1];
    expect_refused(&row);
    row = row_of(2 * N_BEAMS);
    row.ids[2] = UINT32_MAX;
    expect_refused(&row);
    row = row_of(2 * N_BEAMS);
    row.logprobs[3] = -0.5F;
    expect_refused(&row);
    row = row_of(2 * N_BEAMS);
    row.logprobs[0] = NAN;
    expect_refused(&row);
}

Test(beams, a_hand_over_that_fails_behind_the_first_tokens_begins_the_search_here)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    const struct ranked_row row = row_of(2 * N_BEAMS);
    gen_rig_open(&rig, WIDE);
    ask(&rig, &client, "a", true);
    say_prompt(&rig, &row);
    gen_rig_end(&rig, STATUS_PEER_LOST);
    gen_rig_settle(&rig);
    expect_replies(&client);
    cr_assert_eq(stats_of(&rig).handovers_fell_back, 1);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

/* ---- bad requests ---- */

static void expect_sentence(const struct sampling_params *sampling, enum status wanted,
                            const char *sentence)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    struct error error = {""};
    gen_rig_open(&rig, WIDE);
    const struct gen_request request = gen_rig_request("a", 1, N_PROMPT, sampling);
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, &error), wanted);
    cr_assert_str_eq(error.text, sentence);
    gen_rig_close(&rig);
}

Test(beams, says_why_a_search_cannot_run_here)
{
    struct sampling_params sampling = search();
    sampling.beams.n_beams = 5;
    expect_sentence(&sampling, STATUS_INVALID_ARGUMENT,
                    "sampling.beam_width is 5; this worker has sequences_max 4");
    sampling.beams.n_beams = 17;
    expect_sentence(&sampling, STATUS_INVALID_ARGUMENT,
                    "sampling.beam_width is 17; it must be 0 .. 16");
    sampling = search();
    sampling.beams.n_best = N_BEAMS + 1;
    expect_sentence(&sampling, STATUS_INVALID_ARGUMENT,
                    "sampling.n is 4; it must be 1 .. beam_width");
    sampling = search();
    sampling.temperature = 0.5F;
    expect_sentence(&sampling, STATUS_INVALID_ARGUMENT,
                    "sampling.temperature is 0.5; it must be 0 with beam_width");
    sampling = search();
    sampling.beams.length_penalty = NAN;
    expect_sentence(&sampling, STATUS_INVALID_ARGUMENT,
                    "sampling.length_penalty is nan; it must be -10 .. 10");
    sampling = search();
    sampling.n_logprobs = 1;
    expect_sentence(&sampling, STATUS_INVALID_ARGUMENT,
                    "sampling.logprobs is 1; it must be 0 with beam_width");
}

Test(beams, ends_where_the_rules_leave_fewer_replies_than_were_asked_for)
{
    static const uint32_t ALLOWED[] = {7};
    const struct token_rules rules = {.n_allowed = 1, .allowed_ids = ALLOWED};
    struct gen_rig rig;
    struct rig_client client = {0};
    struct sampling_params sampling = search();
    sampling.rules = &rules;
    gen_rig_open(&rig, WIDE);
    struct gen_request request = gen_rig_request("a", 1, N_PROMPT, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(
        client.finish_sentence,
        "of the 2 replies of a beam search that n asks for, the rules of sampling leave 1");
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

/* ---- stop strings ---- */

/* Until it waits for the tokenizer. Only two tokens are drawn: the characters '(' and ')'. */
static void ask_with_stops(struct gen_rig *rig, struct rig_client *client, const char *name,
                           const struct stop_texts *stops)
{
    static const uint32_t ALLOWED[] = {DESK_ID('('), DESK_ID(')')};
    const struct token_rules rules = {.n_allowed = 2, .allowed_ids = ALLOWED, .stops = *stops};
    struct sampling_params sampling = search();
    sampling.rules = &rules;
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], N_PROMPT, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig->engine, client, &request, NULL), STATUS_OK);
    gen_rig_step(rig);
}

static const struct stop_texts NEVER = {.n = 1, .bytes = {2}, .texts = {"x("}};

Test(beams, end_with_stop_strings_by_the_texts_of_the_models_tokenizer)
{
    static const struct stop_texts ONE = {.n = 2, .bytes = {1, 1}, .texts = {")", "("}};
    static const struct stop_texts TWO = {
        .n = 4, .bytes = {2, 2, 2, 2}, .texts = {"()", ")(", "((", "))"}};
    const struct stop_texts *const stops[] = {&NEVER, &ONE, &TWO};
    struct desk_rig desk;
    struct gen_rig rig;
    struct rig_client clients[3] = {0};
    struct gen_rig_options options = WIDE;
    desk_rig_open(&desk, DESK_FOLDER, 4);
    options.desk = desk.desk;
    gen_rig_open(&rig, options);
    for (int i = 0; i < 3; i++) {
        ask_with_stops(&rig, &clients[i], "a", stops[i]);
        desk_rig_wait(&desk);
        gen_rig_settle(&rig);
    }
    expect_replies(&clients[0]);
    for (uint32_t i = 1; i < 3; i++) {
        expect_ended(&clients[i], STATUS_OK);
        cr_assert_eq(clients[i].finish.reason, GEN_FINISH_STOP);
        cr_assert_eq(clients[i].finish.generated_tokens, i);
    }
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
    desk_rig_close(&desk);
}

Test(beams, with_stop_strings_are_refused_where_no_texts_are_known)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, WIDE);
    ask_with_stops(&rig, &client, "a", &NEVER);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_UNSUPPORTED);
    cr_assert_str_eq(client.finish_sentence, "sampling.stop: with beam_width, it needs the texts "
                                             "of tokens, which this worker does not know");
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

static void expect_refused_by(const char *folder, const char *sentence)
{
    struct desk_rig desk;
    struct gen_rig rig;
    struct rig_client client = {0};
    struct gen_rig_options options = WIDE;
    desk_rig_open(&desk, folder, 4);
    options.desk = desk.desk;
    gen_rig_open(&rig, options);
    ask_with_stops(&rig, &client, "a", &NEVER);
    desk_rig_wait(&desk);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_UNSUPPORTED);
    cr_assert_str_eq(client.finish_sentence, sentence);
    gen_rig_close(&rig);
    desk_rig_close(&desk);
}

Test(beams, with_stop_strings_are_refused_with_no_tokenizer_or_one_whose_texts_depend_on_others)
{
    expect_refused_by(KVFERRY_SOURCE_DIR "/tests/gen_worker",
                      "sampling.stop: with beam_width, it needs a tokenizer in the worker's model "
                      "folder, which has none that can be used");
    expect_refused_by(KVFERRY_SOURCE_DIR "/tests/golden/tokenizer/openai_gpt",
                      "sampling.stop: with beam_width, it needs a tokenizer whose tokens have the "
                      "same text in every place");
}
