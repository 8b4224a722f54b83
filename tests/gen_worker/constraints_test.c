/* constraints: a reply keeps to its own and ends with it, also behind a pause, which draws tokens again; a first token that does not fit is
 * not taken from a context worker; a constraint that cannot be met ends its own request alone. */
#include "tests/engine/support/desk_rig.h"
#include "tests/gen_worker/support/gen_rig.h"

enum { N_PROMPT = 16, N_NEW = 40 };

/* Two of these do not fit together: each grows to 7 blocks. */
static const struct gen_rig_options SMALL = {.n_blocks = 9,
                                             .sequences_max = 4,
                                             .queue_max = 4,
                                             .prefills_max = 4,
                                             .policy = SCHEDULE_MAX_UTILIZATION};

struct setup {
    struct desk_rig desk;
    struct gen_rig gen;
};

static void open_setup(struct setup *setup, struct gen_rig_options options)
{
    desk_rig_open(&setup->desk, DESK_FOLDER, 8);
    options.desk = setup->desk.desk;
    gen_rig_open(&setup->gen, options);
}

static void close_setup(struct setup *setup)
{
    expect_all_free_or_cached(&setup->gen);
    gen_rig_close(&setup->gen);
    desk_rig_close(&setup->desk);
}

/* Until it waits for its constraint. regex NULL: none. */
static void ask(struct setup *setup, struct rig_client *client, const char *name, const char *regex,
                const char *context_worker)
{
    const struct token_rules rules = {.constraint = desk_rig_regex(&regex)};
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    sampling.rules = regex ? &rules : NULL;
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], N_PROMPT, &sampling);
    request.context_worker = context_worker;
    cr_assert_eq(gen_engine_generate(setup->gen.engine, client, &request, NULL), STATUS_OK);
    gen_rig_step(&setup->gen);
}

static void expect_text(const struct rig_client *client, const char *begins, const char *of,
                        uint32_t n)
{
    const size_t n_begun = strlen(begins);
    expect_ended(client, STATUS_OK);
    cr_assert_eq(client->finish.reason, GEN_FINISH_STOP);
    cr_assert_eq(client->n_tokens, n);
    for (uint32_t i = 0; i < n; i++) {
        const char c = DESK_CHAR(client->tokens[i]);
        cr_assert(i < n_begun ? c == begins[i] : strchr(of, c) != NULL, "%u: %c", i, c);
    }
}

Test(constraints, a_reply_keeps_to_its_own_and_stops_when_that_is_complete)
{
    struct setup setup;
    struct rig_client clients[3] = {0};
    open_setup(&setup, ROOMY);
    ask(&setup, &clients[0], "a", "ab[d-f]{9}", "");
    ask(&setup, &clients[1], "b", "[x-z]{12}", "");
    ask(&setup, &clients[2], "c", NULL, "");
    cr_assert_eq(clients[0].n_tokens, 0);
    for (int i = 0; i < 2; i++)
        desk_rig_wait(&setup.desk);
    gen_rig_settle(&setup.gen);
    expect_text(&clients[0], "ab", "def", 11);
    expect_text(&clients[1], "", "xyz", 12);
    expect_ended(&clients[2], STATUS_OK);
    cr_assert_eq(clients[2].n_tokens, N_NEW);
    cr_assert(clients[0].finish.is_complete && clients[1].finish.is_complete);
    cr_assert_not(clients[2].finish.is_complete);
    close_setup(&setup);
}

Test(constraints, a_stop_token_that_comes_at_the_end_of_one_is_told_as_such)
{
    const char *regex = "ab";
    const struct token_rules rules = {.constraint = desk_rig_regex(&regex)};
    const uint32_t stops[] = {DESK_ID('a'), DESK_ID('b')};
    for (uint32_t i = 0; i < 2; i++) {
        struct setup setup;
        struct rig_client client = {0};
        struct sampling_params sampling = gen_rig_sampling(N_NEW);
        sampling.rules = &rules;
        sampling.stop_token_ids[0] = stops[i];
        sampling.n_stop_token_ids = 1;
        open_setup(&setup, ROOMY);
        struct gen_request request = gen_rig_request("a", 'a', N_PROMPT, &sampling);
        request.context_worker = "";
        cr_assert_eq(gen_engine_generate(setup.gen.engine, &client, &request, NULL), STATUS_OK);
        gen_rig_step(&setup.gen);
        desk_rig_wait(&setup.desk);
        gen_rig_settle(&setup.gen);
        expect_text(&client, i == 0 ? "a" : "ab", "", i + 1);
        cr_assert_not(client.finish.is_complete);
        close_setup(&setup);
    }
}

#define LONG "[a-z]{9}bcdef[a-z]{9}ghijklmno[a-z]{5}[A-Z]"

static uint64_t run_two(struct gen_rig_options options, struct rig_client clients[2])
{
    struct setup setup;
    struct gen_engine_stats stats;
    open_setup(&setup, options);
    ask(&setup, &clients[0], "a", LONG, "");
    ask(&setup, &clients[1], "b", LONG, "");
    for (int i = 0; i < 2; i++)
        desk_rig_wait(&setup.desk);
    gen_rig_settle(&setup.gen);
    for (int i = 0; i < 2; i++) {
        expect_text(&clients[i], "",
                    "abcdefghijklmnopqrstuvwxyz"
                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                    38);
        cr_assert_geq(clients[i].tokens[36], DESK_ID('a'));
        cr_assert_leq(clients[i].tokens[37], DESK_ID('Z'));
    }
    gen_engine_read_stats(setup.gen.engine, &stats);
    close_setup(&setup);
    return stats.pauses;
}

Test(constraints, hold_behind_pauses)
{
    struct rig_client roomy[2] = {0}, paused[2] = {0};
    struct gen_rig_options options = SMALL;
    options.n_blocks = 64;
    cr_assert_eq(run_two(options, roomy), 0);
    cr_assert_geq(run_two(SMALL, paused), 1);
    for (int i = 0; i < 2; i++)
        cr_assert_arr_eq(roomy[i].tokens, paused[i].tokens, 38 * sizeof(uint32_t));
}

#define SHORT "[p-r][a-c]{4}"

/* A request whose prompt a context worker has computed, with that first token. */
static void ask_context(struct setup *setup, struct rig_client *client,
                        struct gen_rig_options options, uint32_t first_token)
{
    open_setup(setup, options);
    ask(setup, client, "a", SHORT, "ctx:1");
    cr_assert_eq(setup->gen.n_starts, 0, "nobody is asked before it is compiled");
    desk_rig_wait(&setup->desk);
    gen_rig_step(&setup->gen);
    cr_assert_eq(setup->gen.n_starts, 1);
    gen_rig_describe(&setup->gen);
    gen_rig_accept(&setup->gen);
    gen_rig_ready(&setup->gen, 0, N_PROMPT / RIG_BLOCK_TOKENS, 0);
    gen_rig_first_token(&setup->gen, first_token);
}

Test(constraints, a_first_token_of_a_context_worker_has_to_fit)
{
    struct setup setup;
    for (int is_strict = 0; is_strict < 2; is_strict++) {
        struct rig_client client = {0};
        ask_context(&setup, &client, is_strict ? STRICT : ROOMY, DESK_ID('s'));
        gen_rig_settle(&setup.gen);
        if (is_strict) {
            expect_ended(&client, STATUS_TRANSFER_FAILED);
            cr_assert_not_null(
                strstr(client.finish_sentence, "sampling.constraint, after 16 tokens"), "%s",
                client.finish_sentence);
        } else {
            expect_text(&client, "", "abcpqr", 5);
        }
        close_setup(&setup);
    }
}

Test(constraints, hold_behind_a_first_token_of_a_context_worker_also_when_its_kv_is_lost)
{
    struct setup setup;
    struct rig_client alone = {0}, kept = {0}, lost = {0};
    open_setup(&setup, ROOMY);
    ask(&setup, &alone, "a", SHORT, "");
    desk_rig_wait(&setup.desk);
    gen_rig_settle(&setup.gen);
    expect_text(&alone, "", "abcpqr", 5);
    close_setup(&setup);

    ask_context(&setup, &kept, STRICT, DESK_ID('q'));
    gen_rig_seal(&setup.gen);
    gen_engine_commit_result(setup.gen.engine, setup.gen.prefill, STATUS_OK, "");
    gen_rig_settle(&setup.gen);
    expect_text(&kept, "q", "abc", 5);
    close_setup(&setup);

    ask_context(&setup, &lost, ROOMY, alone.tokens[0]);
    gen_rig_seal(&setup.gen);
    gen_engine_commit_result(setup.gen.engine, setup.gen.prefill, STATUS_NOT_HELD, "");
    gen_rig_settle(&setup.gen);
    expect_text(&lost, "", "abcpqr", 5);
    cr_assert_arr_eq(lost.tokens, alone.tokens, 5 * sizeof(uint32_t));
    close_setup(&setup);
}

/* 'b' must come, and must not. */
Test(constraints, that_cannot_be_met_end_their_request_alone)
{
    static const uint32_t ALLOWED[] = {DESK_ID('a'), DESK_ID('c')};
    const char *regex = "ab";
    const struct token_rules rules = {
        .n_allowed = 2, .allowed_ids = ALLOWED, .constraint = desk_rig_regex(&regex)};
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    struct rig_client unmet = {0}, other = {0};
    struct setup setup;
    open_setup(&setup, ROOMY);
    sampling.rules = &rules;
    struct gen_request request = gen_rig_request("a", 'a', N_PROMPT, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(setup.gen.engine, &unmet, &request, NULL), STATUS_OK);
    ask(&setup, &other, "b", "[x-z]{12}", "");
    for (int i = 0; i < 2; i++)
        desk_rig_wait(&setup.desk);
    gen_rig_settle(&setup.gen);
    expect_ended(&unmet, STATUS_CONSTRAINT_UNMET);
    cr_assert_eq(unmet.n_tokens, 1);
    cr_assert_eq(unmet.tokens[0], DESK_ID('a'));
    expect_text(&other, "", "xyz", 12);
    close_setup(&setup);
}

Test(constraints, who_leaves_before_it_is_compiled_or_asks_for_a_wrong_one_leaves_nothing)
{
    struct setup setup;
    struct rig_client left = {0}, wrong = {0}, good = {0};
    open_setup(&setup, ROOMY);
    ask(&setup, &left, "a", LONG, "");
    gen_engine_stream_ended(setup.gen.engine, &left);
    gen_rig_step(&setup.gen);
    ask(&setup, &wrong, "b", "a(", "");
    ask(&setup, &good, "c", "[x-z]{12}", "");
    while (good.n_finishes == 0 || wrong.n_finishes == 0) {
        desk_rig_wait(&setup.desk);
        gen_rig_settle(&setup.gen);
    }
    cr_assert_eq(left.n_tokens, 0);
    expect_ended(&wrong, STATUS_INVALID_ARGUMENT);
    expect_text(&good, "", "xyz", 12);
    close_setup(&setup);
}

Test(constraints, are_refused_without_a_desk)
{
    const char *regex = "a";
    const struct token_rules rules = {.constraint = desk_rig_regex(&regex)};
    struct sampling_params sampling = gen_rig_sampling(N_NEW);
    struct rig_client client = {0};
    struct gen_rig rig;
    gen_rig_open(&rig, ROOMY);
    sampling.rules = &rules;
    struct gen_request request = gen_rig_request("a", 'a', N_PROMPT, &sampling);
    cr_assert_eq(gen_engine_generate(rig.engine, &client, &request, NULL), STATUS_OK);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_UNSUPPORTED);
    gen_rig_close(&rig);
}
