/* gen_engine: a paused request has no blocks, and continues with the tokens of a run without a pause. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

enum { N_PROMPT = 16, N_NEW = 40 };

/* Two of these do not fit together: each grows to 7 blocks. */
static const struct gen_rig_options SMALL = {.n_blocks = 9,
                                             .sequences_max = 4,
                                             .queue_max = 4,
                                             .prefills_max = 4,
                                             .policy = SCHEDULE_MAX_UTILIZATION};

static struct gen_engine_stats stats_of(const struct gen_rig *rig)
{
    struct gen_engine_stats stats;
    gen_engine_read_stats(rig->engine, &stats);
    return stats;
}

static void ask_here(struct gen_rig *rig, struct rig_client *client, const char *name,
                     uint64_t deadline_ns)
{
    const struct sampling_params sampling = gen_rig_sampling(N_NEW);
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], N_PROMPT, &sampling);
    request.context_worker = "";
    request.input.deadline_ns = deadline_ns;
    cr_assert_eq(gen_engine_generate(rig->engine, client, &request, NULL), STATUS_OK);
}

static void step_until_paused(struct gen_rig *rig)
{
    for (int i = 0; i < 100 && stats_of(rig).paused == 0; i++)
        gen_rig_step(rig);
    cr_assert_eq(stats_of(rig).paused, 1);
}

/* The tokens of both when there is room for both. */
static void in_peace(struct gen_rig_options options, struct rig_client clients[2])
{
    struct gen_rig rig;
    options.n_blocks = 64;
    options.policy = SCHEDULE_NO_EVICT;
    gen_rig_open(&rig, options);
    ask_here(&rig, &clients[0], "a", DEADLINE_NONE);
    ask_here(&rig, &clients[1], "b", DEADLINE_NONE);
    gen_rig_settle(&rig);
    cr_assert_eq(stats_of(&rig).pauses, 0);
    gen_rig_close(&rig);
}

static void expect_peace(struct gen_rig_options options, uint64_t again_min)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0}, expected[2] = {0};
    in_peace(options, expected);
    gen_rig_open(&rig, options);
    ask_here(&rig, &clients[0], "a", DEADLINE_NONE);
    ask_here(&rig, &clients[1], "b", DEADLINE_NONE);
    step_until_paused(&rig);
    cr_assert_eq(clients[0].n_finishes, 0, "the older one goes on");
    gen_rig_settle(&rig);
    for (int i = 0; i < 2; i++) {
        expect_ended(&clients[i], STATUS_OK);
        cr_assert_eq(clients[i].n_tokens, N_NEW);
        cr_assert_arr_eq(clients[i].tokens, expected[i].tokens, N_NEW * sizeof(uint32_t));
        cr_assert_eq(clients[i].n_told, 1, "the figures go out once");
        cr_assert_eq(clients[i].finish.prompt_tokens, N_PROMPT);
        cr_assert_eq(clients[i].finish.timing.kv_tokens_recomputed, N_PROMPT);
        cr_assert_eq(clients[i].finish.cached_tokens, 0);
    }
    const struct gen_engine_stats stats = stats_of(&rig);
    cr_assert_geq(stats.pauses, 1);
    cr_assert_geq(stats.tokens_again, again_min);
    cr_assert_eq(stats.prompt_tokens_computed, 2 * N_PROMPT, "each prompt counts once");
    cr_assert_eq(stats.generated_tokens, 2 * N_NEW, "no token was drawn twice");
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(pauses, the_youngest_is_paused_and_goes_on_with_the_same_tokens)
{
    expect_peace(SMALL, 1);
}

Test(pauses, without_a_prefix_cache_all_of_it_is_computed_again)
{
    struct gen_rig_options options = SMALL;
    options.no_prefix_cache = true;
    expect_peace(options, N_PROMPT + 8);
}

Test(pauses, no_evict_admits_only_what_gets_to_its_end)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0}, expected[2] = {0};
    struct gen_rig_options options = SMALL;
    options.policy = SCHEDULE_NO_EVICT;
    in_peace(options, expected);
    gen_rig_open(&rig, options);
    ask_here(&rig, &clients[0], "a", DEADLINE_NONE);
    ask_here(&rig, &clients[1], "b", DEADLINE_NONE);
    for (int i = 0; i < 30; i++) {
        gen_rig_step(&rig);
        cr_assert_eq(clients[1].n_tokens, 0, "7 of 9 blocks are kept for the first");
        cr_assert_lt(gen_rig_blocks(&rig, BLOCK_ACTIVE), 7, "and taken when they are needed");
    }
    gen_rig_settle(&rig);
    for (int i = 0; i < 2; i++)
        cr_assert_arr_eq(clients[i].tokens, expected[i].tokens, N_NEW * sizeof(uint32_t));
    cr_assert_eq(stats_of(&rig).pauses, 0);
    gen_rig_close(&rig);
}

Test(pauses, a_static_batch_ends_before_the_next_begins)
{
    struct gen_rig rig;
    struct rig_client clients[3] = {0};
    struct gen_rig_options options = SMALL;
    options.policy = SCHEDULE_STATIC_BATCH;
    options.n_blocks = 64;
    gen_rig_open(&rig, options);
    ask_here(&rig, &clients[0], "a", DEADLINE_NONE);
    ask_here(&rig, &clients[1], "b", DEADLINE_NONE);
    gen_rig_step(&rig);
    ask_here(&rig, &clients[2], "c", DEADLINE_NONE);
    while (clients[0].n_finishes == 0) {
        cr_assert_eq(clients[2].n_tokens, 0, "there is room, but the batch has not ended");
        gen_rig_step(&rig);
    }
    gen_rig_settle(&rig);
    for (int i = 0; i < 3; i++)
        expect_ended(&clients[i], STATUS_OK);
    gen_rig_close(&rig);
}

/* How a paused request ends. */
static void end_paused(enum status status)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0};
    gen_rig_open(&rig, SMALL);
    ask_here(&rig, &clients[0], "a", DEADLINE_NONE);
    ask_here(&rig, &clients[1], "b", rig.now_ns + NS_PER_MS);
    step_until_paused(&rig);
    uint32_t n_before = clients[1].n_tokens;
    cr_assert_gt(n_before, 0);
    if (status == STATUS_TIMED_OUT)
        rig.now_ns += NS_PER_MS;
    else if (status == STATUS_CANCELLED)
        gen_engine_stream_ended(rig.engine, &clients[1]);
    else
        gen_engine_stop(rig.engine);
    gen_rig_step(&rig);
    expect_ended(&clients[1], status);
    cr_assert_eq(clients[1].n_tokens, n_before);
    cr_assert_eq(stats_of(&rig).paused, 0);
    gen_rig_settle(&rig);
    expect_ended(&clients[0], status == STATUS_DRAINING ? status : STATUS_OK);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(pauses, a_paused_one_ends_as_any_other)
{
    end_paused(STATUS_TIMED_OUT);
    end_paused(STATUS_CANCELLED);
    end_paused(STATUS_DRAINING);
}

Test(pauses, no_queue_limit_is_for_who_was_admitted)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0};
    gen_rig_open(&rig, SMALL);
    ask_here(&rig, &clients[0], "a", DEADLINE_NONE);
    ask_here(&rig, &clients[1], "b", DEADLINE_NONE);
    step_until_paused(&rig);
    rig.now_ns += NS_PER_S; /* ten times the limit */
    gen_rig_settle(&rig);
    expect_ended(&clients[1], STATUS_OK);
    gen_rig_close(&rig);
}

/* The longer one has a copy of the beginning that the shorter one left in the cache, above what it holds. */
Test(pauses, the_last_one_gets_cached_blocks_that_stand_above_its_own)
{
    struct gen_rig rig;
    struct rig_client shorter = {0}, longer = {0};
    struct sampling_params sampling = gen_rig_sampling(2);
    gen_rig_open(&rig, SMALL);
    struct gen_request request = gen_rig_request("s", 7, 16, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &shorter, &request, NULL), STATUS_OK);
    sampling = gen_rig_sampling(32);
    request = gen_rig_request("l", 7, 40, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &longer, &request, NULL), STATUS_OK);
    for (int i = 0; i < 100 && longer.n_tokens < 16; i++)
        gen_rig_step(&rig);
    expect_ended(&shorter, STATUS_OK);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_CACHED), 2,
                 "nobody holds them, and they are no leaves");
    gen_rig_settle(&rig);
    expect_ended(&longer, STATUS_OK);
    cr_assert_eq(longer.n_tokens, 32, "it needs the whole pool");
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(pauses, the_cache_is_asked_again_for_a_paused_one_when_something_changed_in_it)
{
    struct gen_rig rig;
    struct rig_client clients[3] = {0};
    uint32_t n_steps = 0, n_changes = 1; /* its own blocks have just gone there */
    gen_rig_open(&rig, SMALL);
    ask_here(&rig, &clients[0], "a", DEADLINE_NONE);
    ask_here(&rig, &clients[1], "b", DEADLINE_NONE);
    step_until_paused(&rig);
    ask_here(&rig, &clients[2], "c", DEADLINE_NONE); /* waits for the first time */
    struct gen_engine_stats stats = stats_of(&rig);
    const uint64_t n_before = stats.prefix_lookups;
    while (stats.paused == 1 && clients[0].n_finishes == 0) {
        uint32_t n_cached = stats.blocks[BLOCK_CACHED];
        gen_rig_step(&rig);
        stats = stats_of(&rig);
        n_steps++;
        n_changes += stats.blocks[BLOCK_CACHED] != n_cached;
    }
    cr_assert_gt(n_steps, 2 * n_changes, "or it would say nothing");
    cr_assert_geq(stats.prefix_lookups - n_before, 2, "each at least once");
    cr_assert_leq(stats.prefix_lookups - n_before, 2 * n_changes);
    gen_rig_settle(&rig);
    for (int i = 0; i < 3; i++)
        expect_ended(&clients[i], STATUS_OK);
    gen_rig_close(&rig);
}

/* ---- prompts of a context worker ---- */

/* A context worker computes both prompts; the second request is paused. There is no prefix cache, so the KV of its prompt is lost. */
static void hand_two_over(struct gen_rig *rig, struct rig_client clients[2], uint32_t n_blocks,
                          bool local_prefill)
{
    struct gen_rig_options options = SMALL;
    options.n_blocks = n_blocks;
    options.no_prefix_cache = true;
    options.no_local_prefill = !local_prefill;
    gen_rig_open(rig, options);
    uint64_t of_first = 0;
    for (int i = 0; i < 2; i++) {
        of_first = rig->prefill;
        gen_rig_ask(rig, &clients[i], i == 0 ? "a" : "b", N_PROMPT, N_NEW);
        gen_rig_hand_over(rig, 9);
    }
    gen_engine_commit_result(rig->engine, of_first, STATUS_OK, "");
    gen_engine_commit_result(rig->engine, rig->prefill, STATUS_OK, "");
}

static void hand_over_in_peace(struct rig_client clients[2])
{
    struct gen_rig rig;
    hand_two_over(&rig, clients, 64, true);
    gen_rig_settle(&rig);
    cr_assert_eq(rig.n_starts, 2);
    gen_rig_close(&rig);
}

Test(pauses, a_prompt_comes_again_from_where_it_came)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0}, expected[2] = {0};
    hand_over_in_peace(expected);
    hand_two_over(&rig, clients, 9, false);
    step_until_paused(&rig);
    gen_rig_settle(&rig);
    expect_ended(&clients[0], STATUS_OK);
    cr_assert_eq(rig.n_starts, 3, "asked for again");
    cr_assert_eq(rig.held_tokens, 0);
    uint32_t n_before = clients[1].n_tokens;
    gen_rig_hand_over(&rig, 9);
    cr_assert_eq(clients[1].n_tokens, n_before, "the first token is not told twice");
    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_OK, "");
    gen_rig_settle(&rig);
    expect_ended(&clients[1], STATUS_OK);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(clients[i].n_tokens, N_NEW);
        cr_assert_arr_eq(clients[i].tokens, expected[i].tokens, N_NEW * sizeof(uint32_t));
        cr_assert_eq(clients[i].finish.timing.kv_tokens_received, N_PROMPT, "said of the first");
        cr_assert_eq(clients[i].finish.timing.kv_tokens_recomputed, 0);
        cr_assert_str_eq(clients[i].finish.context_worker, "ctx:1");
    }
    cr_assert_eq(stats_of(&rig).handovers_committed, 3);
    cr_assert_eq(stats_of(&rig).prompt_tokens_remote, 2 * N_PROMPT);
    cr_assert_geq(stats_of(&rig).tokens_again, N_PROMPT);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(pauses, another_first_token_the_second_time_is_a_failed_hand_over)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0};
    hand_two_over(&rig, clients, 9, false);
    step_until_paused(&rig);
    gen_rig_settle(&rig);
    gen_rig_describe(&rig);
    gen_rig_first_token(&rig, 10);
    expect_ended(&clients[1], STATUS_TRANSFER_FAILED);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

/* Blocks of zeros give other tokens than the prompt, so the check of the first token fails. */
Test(pauses, a_resumed_hand_over_that_fails_is_verified_by_the_first_token)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0};
    hand_two_over(&rig, clients, 9, true);
    step_until_paused(&rig);
    gen_rig_settle(&rig);
    cr_assert_eq(rig.n_starts, 3);
    uint32_t n_before = clients[1].n_tokens;
    gen_rig_end(&rig, STATUS_PEER_LOST);
    expect_ended(&clients[1], STATUS_TRANSFER_FAILED);
    cr_assert_str_eq(clients[1].finish.sentence,
                     "the first token computed here is not the context worker's");
    cr_assert_eq(clients[1].n_tokens, n_before);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(pauses, tokens_that_rest_on_kv_that_is_not_believed_end_a_paused_one)
{
    struct gen_rig rig;
    struct rig_client clients[2] = {0};
    hand_two_over(&rig, clients, 9, true);
    step_until_paused(&rig);
    cr_assert_eq(gen_engine_distrust(rig.engine, RIG_OWNER + 1), STATUS_OK);
    gen_rig_step(&rig);
    cr_assert_eq(clients[1].n_finishes, 0, "another life says nothing");
    cr_assert_eq(stats_of(&rig).paused, 1);
    cr_assert_eq(gen_engine_distrust(rig.engine, RIG_OWNER), STATUS_OK);
    gen_rig_settle(&rig);
    for (int i = 0; i < 2; i++)
        expect_ended(&clients[i], STATUS_TRANSFER_FAILED);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}
