/* fair_share: a caller that asks for much and takes nothing keeps nobody waiting, and in the end gives
 * back what it has. */
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { HOG = 1, OTHER = 2, MANY = 24 };

struct hog {
    struct rig_stream streams[MANY];
    uint32_t n;
};

static void ask(struct ctx_rig *rig, struct rig_stream *stream, uint64_t caller, const char *name,
                uint32_t seed, uint32_t n_tokens)
{
    struct ctx_prefill_request request = ctx_rig_request(name, seed, n_tokens);
    request.caller = caller;
    cr_assert_eq(ctx_engine_prefill(rig->engine, stream, &request, NULL), STATUS_OK);
}

static void ask_many(struct ctx_rig *rig, struct hog *hog, uint32_t n, uint32_t n_tokens)
{
    for (; n > 0; n--) {
        char name[16];
        snprintf(name, sizeof name, "hog %u", hog->n);
        ask(rig, &hog->streams[hog->n], HOG, name, 100 + hog->n, n_tokens);
        hog->n++;
    }
}

static uint32_t n_sealed(const struct hog *hog)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hog->n; i++)
        n += hog->streams[i].n_events > 0 &&
             hog->streams[i].kinds[hog->streams[i].n_events - 1] == CTX_SEALED;
    return n;
}

static uint32_t n_ended(const struct hog *hog, enum status status)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hog->n; i++)
        n += hog->streams[i].n_finishes == 1 && hog->streams[i].status == status;
    return n;
}

/* Computed, committed and ended, while the hog's stay open. */
static void expect_served(struct ctx_rig *rig, const char *name, uint32_t n_tokens)
{
    struct rig_stream stream = {0};
    struct rig_call call = {0};
    ask(rig, &stream, OTHER, name, 7, n_tokens);
    ctx_rig_settle(rig);
    cr_assert_gt(stream.n_events, 0, "it waits");
    cr_assert_eq(stream.kinds[stream.n_events - 1], CTX_SEALED);
    cr_assert_eq(ctx_rig_commit(rig, &call, name, n_tokens / RIG_BLOCK_TOKENS), STATUS_OK);
    ctx_rig_settle(rig);
    cr_assert_eq(call.status, STATUS_OK);
    cr_assert_eq(stream.n_finishes, 1);
}

Test(fair_share, leaves_slots_to_others)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 64,
                                                .slots_max = 8,
                                                .queue_max = 16,
                                                .queue_limit_ns = NS_PER_S,
                                                .caller_share = 75});
    ask_many(&rig, &hog, 14, 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(&hog), 6);
    for (int i = 0; i < 4; i++)
        expect_served(&rig, "other", 16);
    cr_assert_eq(n_sealed(&hog), 6, "its own wait for its own");
    cr_assert_eq(n_ended(&hog, STATUS_OK), 0);
    ctx_rig_close(&rig);
}

Test(fair_share, leaves_blocks_to_others)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 16,
                                                .slots_max = 8,
                                                .queue_max = 16,
                                                .queue_limit_ns = NS_PER_S,
                                                .caller_share = 75});
    ask_many(&rig, &hog, 4, 48);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(&hog), 2, "12 of 16 blocks");
    expect_served(&rig, "other", 32);
    ctx_rig_close(&rig);
}

Test(fair_share, lets_the_only_prompt_of_a_caller_have_the_whole_pool)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 16,
                                                .slots_max = 1,
                                                .queue_max = 16,
                                                .queue_limit_ns = NS_PER_S,
                                                .caller_share = 1});
    ask_many(&rig, &hog, 1, 128);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(&hog), 1);
    ctx_rig_close(&rig);
}

Test(fair_share, leaves_places_in_the_queue_to_others)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    struct rig_stream other = {0};
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 64,
                                                .slots_max = 1,
                                                .queue_max = 8,
                                                .queue_limit_ns = NS_PER_S,
                                                .caller_share = 75});
    ask_many(&rig, &hog, 1, 16);
    ctx_rig_settle(&rig);
    ask_many(&rig, &hog, 8, 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_ended(&hog, STATUS_QUEUE_FULL), 2);
    ask(&rig, &other, OTHER, "other", 7, 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(other.n_finishes + other.n_events, 0, "it waits");
    ctx_engine_stream_ended(rig.engine, &hog.streams[0]);
    ctx_rig_settle(&rig);
    cr_assert_gt(other.n_events, 0, "and comes before those who asked first and have had some");
    cr_assert_eq(n_sealed(&hog), 1);
    ctx_rig_close(&rig);
}

Test(fair_share, keeps_the_order_of_one_caller)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 16,
                                                .slots_max = 8,
                                                .queue_max = 16,
                                                .queue_limit_ns = NS_PER_S,
                                                .caller_share = 75});
    ask_many(&rig, &hog, 1, 48);
    ask_many(&rig, &hog, 1, 64);
    ask_many(&rig, &hog, 1, 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(hog.streams[2].n_events, 0, "it is small, and came later");
    ctx_engine_stream_ended(rig.engine, &hog.streams[0]);
    ctx_rig_settle(&rig);
    cr_assert_gt(hog.streams[1].n_events, 0);
    cr_assert_gt(hog.streams[2].n_events, 0);
    ctx_rig_close(&rig);
}

Test(fair_share, callers_are_computed_in_turn)
{
    /* A step has room for two chunks. */
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    struct rig_stream other = {0};
    ctx_rig_open(&rig, (struct ctx_rig_options){
                           .n_blocks = 128, .slots_max = 8, .queue_max = 8, .queue_limit_ns = 1});
    ask_many(&rig, &hog, 6, 128);
    ctx_rig_step(&rig);
    ask(&rig, &other, OTHER, "other", 7, 64);
    for (int i = 0; i < 4; i++)
        ctx_rig_step(&rig);
    cr_assert_eq(other.kinds[other.n_events - 1], CTX_SEALED, "a chunk of its four in each step");
    for (uint32_t i = 0; i < hog.n; i++)
        cr_assert_gt(hog.streams[i].n_events, 1, "prompt %u of the other one's never had a turn",
                     i);
    ctx_rig_close(&rig);
}

Test(fair_share, a_lease_ends_when_no_commit_comes)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    struct rig_stream computing = {0};
    ctx_rig_open(&rig, (struct ctx_rig_options){.n_blocks = 64,
                                                .slots_max = 4,
                                                .queue_max = 16,
                                                .queue_limit_ns = 2 * RIG_LEASE_LIMIT_NS});
    ask_many(&rig, &hog, 8, 16);
    ctx_rig_settle(&rig);
    rig.now_ns += RIG_LEASE_LIMIT_NS - 1;
    ctx_rig_settle(&rig);
    cr_assert_eq(n_ended(&hog, STATUS_SLOW_READER), 0);
    rig.now_ns += 1;
    ctx_rig_settle(&rig);
    cr_assert_eq(n_ended(&hog, STATUS_SLOW_READER), 4);
    cr_assert_eq(n_sealed(&hog), 8, "the next ones had their turn");
    rig.now_ns += RIG_LEASE_LIMIT_NS;
    ctx_rig_settle(&rig);
    cr_assert_eq(n_ended(&hog, STATUS_SLOW_READER), 8);
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_FREE) + ctx_rig_blocks(&rig, BLOCK_CACHED), 64);

    ask(&rig, &computing, OTHER, "other", 7, 128);
    ctx_rig_step(&rig);
    rig.now_ns += 2 * RIG_LEASE_LIMIT_NS;
    ctx_rig_step(&rig);
    cr_assert_eq(computing.n_finishes, 0, "what is still being computed owes no commit");
    ctx_rig_close(&rig);
}
