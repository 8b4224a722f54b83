/* fairness: a caller that asks for much and reads nothing delays no other caller, and gives back its blocks in the end. A single
 * caller gets everything, and the prompts of a caller keep their order. */
#include "base/random.h"
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bool is_sealed(const struct rig_stream *stream)
{
    return stream->n_events > 0 && stream->kinds[stream->n_events - 1] == EVENT_SEALED;
}

static uint32_t n_sealed(const struct hog *hog)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hog->n; i++)
        n += is_sealed(&hog->streams[i]);
    return n;
}

static uint32_t n_ended(const struct hog *hog, enum status status)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < hog->n; i++)
        n += hog->streams[i].n_finishes == 1 && hog->streams[i].status == status;
    return n;
}

/* Computed, committed and ended, while the prompts of the hog stay open. */
static void expect_served(struct ctx_rig *rig, const char *name, uint32_t n_tokens)
{
    struct rig_stream stream = {0};
    ask(rig, &stream, OTHER, name, 7, n_tokens);
    ctx_rig_settle(rig);
    cr_assert_gt(stream.n_events, 0, "it waits");
    cr_assert_eq(stream.kinds[stream.n_events - 1], EVENT_SEALED);
    cr_assert_eq(ctx_rig_commit(rig, name, n_tokens / RIG_BLOCK_TOKENS), STATUS_OK);
    ctx_rig_settle(rig);
    cr_assert_eq(stream.n_finishes, 1);
}

/* A pool of n_blocks, a caller's share of it in percent; prompts wait for long in a queue of 16. */
static void open_shared(struct ctx_rig *rig, uint32_t n_blocks, uint32_t slots_max, uint32_t share)
{
    ctx_rig_open(rig, (struct ctx_rig_options){.n_blocks = n_blocks,
                                               .slots_max = slots_max,
                                               .queue_max = 16,
                                               .queue_limit_ns = NS_PER_S,
                                               .caller_share = share});
}

Test(fairness, leaves_slots_to_others)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    open_shared(&rig, 64, 8, 75);
    ask_many(&rig, &hog, 14, 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(&hog), 6);
    for (int i = 0; i < 4; i++)
        expect_served(&rig, "other", 16);
    cr_assert_eq(n_sealed(&hog), 6, "its own wait for its own");
    cr_assert_eq(n_ended(&hog, STATUS_OK), 0);
    ctx_rig_close(&rig);
}

Test(fairness, leaves_blocks_to_others)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    open_shared(&rig, 16, 8, 75);
    ask_many(&rig, &hog, 4, 48);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(&hog), 2, "12 of 16 blocks");
    expect_served(&rig, "other", 32);
    ctx_rig_close(&rig);
}

Test(fairness, lets_the_only_prompt_of_a_caller_have_the_whole_pool)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    open_shared(&rig, 16, 1, 1);
    ask_many(&rig, &hog, 1, 128);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(&hog), 1);
    ctx_rig_close(&rig);
}

Test(fairness, who_is_alone_gets_everything)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    open_shared(&rig, 16, 8, 100);
    ask_many(&rig, &hog, 8, 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(n_sealed(&hog), 8, "all slots, and all blocks");
    cr_assert_eq(ctx_rig_blocks(&rig, BLOCK_FREE), 0);
    ctx_rig_close(&rig);
}

Test(fairness, what_a_reader_has_not_let_go_of_counts_for_its_caller)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    struct rig_stream other = {0};
    struct ctx_engine_stats stats;
    open_shared(&rig, 64, 8, 75);
    ask_many(&rig, &hog, 14, 16);
    ctx_rig_settle(&rig);
    for (uint32_t i = 0; i < 6; i++)
        ctx_engine_stream_ended(rig.engine, &hog.streams[i]);
    ask(&rig, &other, OTHER, "other", 7, 16);
    ctx_rig_step(&rig); /* the transfer thread has done nothing yet */
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.closing, 6);
    cr_assert_eq(hog.streams[6].n_events, 0, "its six places are not free");
    cr_assert_gt(other.n_events, 0);
    ctx_rig_settle(&rig);
    cr_assert_gt(hog.streams[11].n_events, 0, "now they are");
    cr_assert_eq(hog.streams[12].n_events, 0);
    ctx_rig_close(&rig);
}

Test(fairness, leaves_places_in_the_queue_to_others)
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
    cr_assert_eq(n_ended(&hog, STATUS_SHARE_FULL), 2);
    ask(&rig, &other, OTHER, "other", 7, 16);
    ctx_rig_settle(&rig);
    cr_assert_eq(other.n_finishes + other.n_events, 0, "it waits");
    ctx_engine_stream_ended(rig.engine, &hog.streams[0]);
    ctx_rig_settle(&rig);
    cr_assert_gt(other.n_events, 0, "and comes before those who asked first and have had some");
    cr_assert_eq(n_sealed(&hog), 1);
    ctx_rig_close(&rig);
}

Test(fairness, keeps_the_order_of_one_caller)
{
    struct ctx_rig rig;
    struct hog hog = {.n = 0};
    open_shared(&rig, 16, 8, 75);
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

Test(fairness, callers_are_computed_in_turn)
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
    cr_assert_eq(other.kinds[other.n_events - 1], EVENT_SEALED, "a chunk of its four in each step");
    cr_assert_gt(hog.streams[0].n_events, 1 + 2, "the other one's go on, too, ");
    for (uint32_t i = 1; i < hog.n; i++)
        cr_assert_leq(hog.streams[i].n_events, hog.streams[i - 1].n_events, "the oldest first");
    ctx_rig_close(&rig);
}

Test(fairness, a_lease_ends_when_no_commit_comes)
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

/* ---- two callers that always want more ---- */

enum { PLACES = 48, N_ROUNDS = 300, N_SLOTS = 8, N_BLOCKS = 48, WAITING = 8 };

/* A prompt of one of them, from its request until its reader is quiet. */
struct asked {
    struct rig_stream stream;
    uint32_t n_tokens; /* 0: the slot is free */
    uint64_t caller;
};

struct crowd {
    struct ctx_rig rig;
    struct random random;
    struct asked asked[PLACES];
    uint64_t n_asked, n_past[OTHER + 1]; /* tokens of prompts that have ended */
};

static uint32_t n_blocks_of(const struct asked *asked)
{
    return (asked->n_tokens + RIG_BLOCK_TOKENS - 1) / RIG_BLOCK_TOKENS;
}

/* Tokens of the prompt that were computed, as far as its blocks tell. */
static uint64_t served(const struct asked *asked)
{
    uint64_t n_blocks = 0;
    if (is_sealed(&asked->stream))
        return asked->n_tokens;
    for (uint32_t i = 0; i < asked->stream.n_events; i++)
        if (asked->stream.kinds[i] == EVENT_READY)
            n_blocks += asked->stream.events[i].ready.n_blocks;
    return n_blocks * RIG_BLOCK_TOKENS;
}

static void ask_more(struct crowd *crowd, uint64_t caller)
{
    uint32_t n_waiting = 0;
    for (uint32_t i = 0; i < PLACES; i++) {
        const struct asked *asked = &crowd->asked[i];
        n_waiting += asked->n_tokens > 0 && asked->caller == caller && asked->stream.n_events == 0;
    }
    for (uint32_t i = 0; i < PLACES && n_waiting < WAITING; i++) {
        struct asked *asked = &crowd->asked[i];
        char name[16];
        if (asked->n_tokens > 0)
            continue;
        uint32_t longest = caller == HOG ? 128 : 24;
        *asked = (struct asked){.caller = caller,
                                .n_tokens = 1 + (uint32_t)random_below(&crowd->random, longest)};
        snprintf(name, sizeof name, "%llu", (unsigned long long)crowd->n_asked++);
        struct ctx_prefill_request request = ctx_rig_request(name, 1, asked->n_tokens);
        request.caller = caller;
        request.input.salt = name; /* nothing is shared, so all served tokens were computed */
        request.input.salt_bytes = strlen(name);
        cr_assert_eq(ctx_engine_prefill(crowd->rig.engine, &asked->stream, &request, NULL),
                     STATUS_OK);
        n_waiting++;
    }
    cr_assert_eq(n_waiting, WAITING);
}

static void leave_some(struct crowd *crowd)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        struct rig_stream *stream = &crowd->asked[i].stream;
        bool is_sealed = stream->n_events > 0 &&
                         stream->kinds[stream->n_events - 1] == EVENT_SEALED;
        if (crowd->asked[i].n_tokens > 0 && is_sealed && stream->n_finishes == 0 &&
            random_below(&crowd->random, 2) == 0)
            ctx_engine_stream_ended(crowd->rig.engine, stream);
    }
}

/* Frees the slots of ended prompts; all readers are quiet. */
static void forget_ended(struct crowd *crowd)
{
    for (uint32_t i = 0; i < PLACES; i++) {
        struct asked *asked = &crowd->asked[i];
        if (asked->n_tokens == 0 || asked->stream.n_finishes == 0)
            continue;
        cr_assert_eq(asked->stream.status, STATUS_CANCELLED);
        crowd->n_past[asked->caller] += served(asked);
        asked->n_tokens = 0;
    }
}

/* Checks the slots and blocks of a caller, with those that its readers have not released. Returns the tokens that it was served. */
static uint64_t expect_within(const struct crowd *crowd, uint64_t caller, uint32_t share)
{
    uint32_t n_slots = 0, n_blocks = 0;
    uint64_t n_served = crowd->n_past[caller];
    for (uint32_t i = 0; i < PLACES; i++) {
        const struct asked *asked = &crowd->asked[i];
        if (asked->n_tokens == 0 || asked->caller != caller || asked->stream.n_events == 0)
            continue;
        n_slots++;
        n_blocks += n_blocks_of(asked);
        n_served += served(asked);
    }
    cr_assert(n_slots <= 1 || n_slots * 100 < N_SLOTS * share + 100, "%u slots", n_slots);
    cr_assert(n_slots <= 1 || n_blocks * 100 < N_BLOCKS * share + 100, "%u blocks", n_blocks);
    return n_served;
}

static void saturate(uint64_t seed, uint32_t share)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    cr_assert_not_null(crowd);
    random_init(&crowd->random, seed);
    ctx_rig_open(&crowd->rig, (struct ctx_rig_options){.n_blocks = N_BLOCKS,
                                                       .slots_max = N_SLOTS,
                                                       .queue_max = 4 * WAITING,
                                                       .queue_limit_ns = NS_PER_S,
                                                       .caller_share = share});
    for (uint32_t round = 0; round < N_ROUNDS; round++) {
        ask_more(crowd, HOG);
        ask_more(crowd, OTHER);
        bool is_quiet = random_below(&crowd->random, 3) == 0;
        if (is_quiet)
            ctx_rig_settle(&crowd->rig);
        else
            ctx_rig_step(&crowd->rig);
        if (is_quiet)
            forget_ended(crowd);
        uint64_t of_hog = expect_within(crowd, HOG, share);
        uint64_t of_other = expect_within(crowd, OTHER, share);
        uint64_t apart = of_hog > of_other ? of_hog - of_other : of_other - of_hog;
        if (share == 100) /* schedule.h: 2 U, where U is the tokens of the pool */
            cr_assert_leq(apart, 2 * N_BLOCKS * RIG_BLOCK_TOKENS, "seed %llu round %u: %llu, %llu",
                          (unsigned long long)seed, round, (unsigned long long)of_hog,
                          (unsigned long long)of_other);
        leave_some(crowd);
    }
    cr_assert_gt(crowd->n_past[HOG] + crowd->n_past[OTHER], 20 * N_BLOCKS * RIG_BLOCK_TOKENS);
    ctx_rig_close(&crowd->rig);
    free(crowd);
}

Test(fairness, two_in_saturation_get_no_more_than_their_share_and_are_served_alike)
{
    for (uint64_t seed = 0; seed < 6; seed++) {
        saturate(seed, 100);
        saturate(seed, 50);
        saturate(seed, 75);
    }
}
