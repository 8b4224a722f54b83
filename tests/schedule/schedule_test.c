/* schedule: what a policy means, one example each. Blocks have 4 tokens, so that they can be counted by hand. */
#include "schedule/schedule.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

static const struct schedule_options SMALL = {
    .policy = SCHEDULE_NO_EVICT,
    .n_blocks = 8,
    .block_tokens = 4,
    .batch_tokens = 16,
    .chunk_tokens = 8,
    .sequences_max = 4,
    .waiting_max = 8,
    .aging_ms = 1000,
    .tenant_share_percent = 100,
};

static struct schedule *new_schedule(const struct schedule_options *options)
{
    struct schedule *schedule;
    struct error error = {""};
    cr_assert_eq(schedule_create(options, &error, &schedule), STATUS_OK, "%s", error.text);
    return schedule;
}

static struct schedule_request request_of(uint32_t prompt_tokens, uint32_t max_new_tokens)
{
    return (struct schedule_request){
        .weight = 1, .prompt_tokens = prompt_tokens, .max_new_tokens = max_new_tokens};
}

static schedule_id add(struct schedule *schedule, const struct schedule_request *request,
                       uint64_t now_ms)
{
    schedule_id id;
    struct error error = {""};
    cr_assert_eq(schedule_add(schedule, request, now_ms, &error, &id), STATUS_OK, "%s", error.text);
    return id;
}

static schedule_id add_plain(struct schedule *schedule, uint32_t prompt_tokens,
                             uint32_t max_new_tokens)
{
    struct schedule_request request = request_of(prompt_tokens, max_new_tokens);
    return add(schedule, &request, 0);
}

static struct schedule_changes capacity(struct schedule *schedule, uint32_t n_blocks_available)
{
    struct schedule_changes changes;
    schedule_capacity(schedule,
                      &(struct schedule_room){.n_blocks_available = n_blocks_available,
                                              .n_handovers_free = UINT32_MAX},
                      &changes);
    return changes;
}

/* Does all of the next batch; each one whose last token was computed draws another. */
static struct schedule_batch compute(struct schedule *schedule)
{
    struct schedule_batch batch;
    schedule_batch(schedule, &batch);
    for (uint32_t i = 0; i < batch.n; i++)
        schedule_computed(schedule, batch.work[i].id, batch.work[i].n_tokens, batch.work[i].draws);
    return batch;
}

/* ---- the life of one request ---- */

Test(schedule, a_request_gets_blocks_is_computed_in_chunks_and_then_decodes)
{
    struct schedule *schedule = new_schedule(&SMALL);
    schedule_id id = add_plain(schedule, 10, 3);

    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, id);
    cr_assert_eq(changes.admitted[0].n_blocks,
                 3); /* of the prompt; the first new token fits, too */

    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n_chunks, 1);
    cr_assert_eq(batch.work[0].first, 0);
    cr_assert_eq(batch.work[0].n_tokens, 8); /* chunk_tokens */
    cr_assert_not(batch.work[0].draws);

    capacity(schedule, 5);
    batch = compute(schedule);
    cr_assert_eq(batch.work[0].first, 8);
    cr_assert_eq(batch.work[0].n_tokens, 2); /* the last chunk need not be whole blocks */
    cr_assert(batch.work[0].draws);
    cr_assert_eq(schedule_state_of(schedule, id), SCHEDULE_DECODING);

    for (uint32_t position = 10; position < 12; position++) {
        capacity(schedule, 5);
        batch = compute(schedule);
        cr_assert_eq(batch.n_chunks, 0);
        cr_assert_eq(batch.work[0].first, position);
    }
    cr_assert_eq(schedule_state_of(schedule, id), SCHEDULE_DONE); /* three tokens were drawn */
    schedule_remove(schedule, id);
    schedule_destroy(schedule);
}

Test(schedule, what_is_cached_is_not_computed_and_what_is_shared_costs_nothing)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request request = request_of(16, 1);
    request.cached_tokens = 8;
    request.blocks_shared = 2;
    add(schedule, &request, 0);
    cr_assert_eq(capacity(schedule, 1).n_admitted, 0);
    cr_assert_eq(capacity(schedule, 2).n_admitted, 1); /* 4 blocks, 2 of them shared */
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.work[0].first, 8);
    cr_assert_eq(batch.work[0].n_tokens, 8);
    cr_assert_eq(batch.work[0].n_blocks, 4);
    schedule_destroy(schedule);
}

Test(schedule, a_prompt_without_new_tokens_is_done_and_keeps_its_blocks_until_it_is_removed)
{
    struct schedule *schedule = new_schedule(&SMALL);
    schedule_id id = add_plain(schedule, 8, 0);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    struct schedule_batch batch;
    schedule_batch(schedule, &batch);
    schedule_computed(schedule, id, 8, 0);
    cr_assert_eq(schedule_state_of(schedule, id), SCHEDULE_DONE);
    capacity(schedule, 6);
    cr_assert_eq(compute(schedule).n, 0);
    struct schedule_counts counts;
    schedule_count(schedule, &counts);
    cr_assert_eq(counts.n_done, 1);
    schedule_remove(schedule, id);
    schedule_destroy(schedule);
}

Test(schedule, a_prompt_from_elsewhere_holds_blocks_then_decodes)
{
    struct schedule *schedule = new_schedule(&SMALL);
    schedule_id id = add_plain(schedule, 8, 4);
    cr_assert_eq(capacity(schedule, 8).admitted[0].n_blocks, 2);
    schedule_fetch(schedule, id);
    cr_assert_eq(compute(schedule).n, 0);
    schedule_computed(schedule, id, 0, 1); /* the context worker's token comes before its KV */
    schedule_fetched(schedule, id);
    capacity(schedule, 6);
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n_chunks, 0);
    cr_assert_eq(batch.work[0].first, 8);
    cr_assert_eq(batch.work[0].n_blocks, 3); /* its token begins a block */
    schedule_destroy(schedule);
}

Test(schedule, a_failed_hand_over_is_computed_here)
{
    struct schedule *schedule = new_schedule(&SMALL);
    schedule_id id = add_plain(schedule, 8, 4);
    capacity(schedule, 8);
    schedule_fetch(schedule, id);
    schedule_fetch_failed(schedule, id);
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n_chunks, 1);
    cr_assert_eq(batch.work[0].n_tokens, 8);
    schedule_destroy(schedule);
}

Test(schedule, who_needs_a_hand_over_waits_for_a_free_one)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request request = request_of(4, 1);
    request.needs_handover = true;
    add(schedule, &request, 0);
    add(schedule, &request, 0);
    struct schedule_changes changes;
    struct schedule_room room = {.n_blocks_available = 8, .n_handovers_free = 1};
    schedule_capacity(schedule, &room, &changes);
    cr_assert_eq(changes.n_admitted, 1);
    schedule_destroy(schedule);
}

/* ---- errors ---- */

Test(schedule, what_could_never_fit_is_refused_with_both_numbers)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request request = request_of(32, 2); /* 33 tokens of KV, 9 blocks */
    struct error error;
    schedule_id id;
    cr_assert_eq(schedule_add(schedule, &request, 0, &error, &id), STATUS_NO_BLOCKS);
    cr_assert_str_eq(error.text,
                     "32 prompt and 2 new tokens need 9 blocks of 4 tokens, the pool has 8");
    request.max_new_tokens = 1;
    cr_assert_eq(schedule_add(schedule, &request, 0, &error, &id), STATUS_OK);
    schedule_destroy(schedule);
}

Test(schedule, a_full_queue_says_so_and_paused_ones_count)
{
    struct schedule_options options = SMALL;
    options.waiting_max = 2;
    struct schedule *schedule = new_schedule(&options);
    struct schedule_request request = request_of(4, 1);
    struct error error;
    schedule_id id;
    add(schedule, &request, 0);
    add(schedule, &request, 0);
    cr_assert_eq(schedule_add(schedule, &request, 0, &error, &id), STATUS_QUEUE_FULL);
    cr_assert_str_eq(error.text, "2 requests wait already");
    cr_assert_eq(capacity(schedule, 8).n_admitted, 2);
    id = add(schedule, &request, 0);
    schedule_pause(schedule, 0);
    cr_assert_eq(schedule_add(schedule, &request, 0, &error, &id), STATUS_QUEUE_FULL);
    schedule_destroy(schedule);
}

struct bad_request {
    struct schedule_request request;
    const char *sentence;
};

Test(schedule, a_field_out_of_range_is_refused_by_name)
{
    struct schedule *schedule = new_schedule(&SMALL);
    const struct bad_request bad[] = {
        {{.weight = 1}, "prompt_tokens is 0"},
        {{.weight = 0, .prompt_tokens = 1}, "weight is 0"},
        {{.weight = 1001, .prompt_tokens = 1}, "weight is 1001"},
        {{.weight = 1, .prompt_tokens = 1, .priority = 101}, "priority is 101"},
        {{.weight = 1, .prompt_tokens = 4, .cached_tokens = 4}, "cached_tokens is 4 of 4"},
        {{.weight = 1, .prompt_tokens = 9, .cached_tokens = 4, .blocks_shared = 2},
         "blocks_shared 2"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error error;
        schedule_id id;
        cr_expect_eq(schedule_add(schedule, &bad[i].request, 0, &error, &id),
                     STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, bad[i].sentence), "%s", error.text);
    }
    schedule_destroy(schedule);
}

Test(schedule, options_that_cannot_work_are_refused_by_name)
{
    struct schedule *schedule = NULL;
    struct error error;
    struct schedule_options options = SMALL;
    options.batch_tokens = 4;
    cr_expect_eq(schedule_create(&options, &error, &schedule), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(error.text, "batch_tokens is 4, wanted over block_tokens (4)");
    options = SMALL;
    options.chunk_tokens = 3;
    cr_expect_eq(schedule_create(&options, &error, &schedule), STATUS_INVALID_ARGUMENT);
    options = SMALL;
    options.tenant_share_percent = 0;
    cr_expect_eq(schedule_create(&options, &error, &schedule), STATUS_INVALID_ARGUMENT);
    options = SMALL;
    options.sequences_max = 0;
    cr_expect_eq(schedule_create(&options, &error, &schedule), STATUS_INVALID_ARGUMENT);
    cr_expect_null(schedule);
    schedule_destroy(NULL);
}

Test(schedule, a_removed_request_cannot_be_reported, .signal = SIGABRT)
{
    struct schedule *schedule = new_schedule(&SMALL);
    schedule_id id = add_plain(schedule, 4, 1);
    schedule_remove(schedule, id);
    schedule_computed(schedule, id, 4, 1);
}

/* ---- capacity ---- */

Test(schedule, no_evict_admits_only_what_fits_to_the_very_end)
{
    struct schedule *schedule = new_schedule(&SMALL);
    add_plain(schedule, 4, 13); /* now 1 block, in the end 4 */
    add_plain(schedule, 4, 13);
    add_plain(schedule, 4, 1);
    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 2);
    cr_assert_eq(changes.admitted[0].n_blocks, 1);
    cr_assert_eq(capacity(schedule, 6).n_admitted, 0); /* all 6 are promised */
    schedule_destroy(schedule);
}

Test(schedule, max_utilization_admits_what_fits_now_and_pauses_the_youngest_when_it_must)
{
    struct schedule_options options = SMALL;
    options.policy = SCHEDULE_MAX_UTILIZATION;
    options.n_blocks = 4;
    struct schedule *schedule = new_schedule(&options);
    schedule_id old = add_plain(schedule, 8, 9);
    schedule_id young = add_plain(schedule, 8, 9);
    cr_assert_eq(capacity(schedule, 4).n_admitted, 2);
    compute(schedule); /* both draw a token, which begins a third block */

    struct schedule_changes changes = capacity(schedule, 0);
    cr_assert_eq(changes.n_paused, 1);
    cr_assert_eq(changes.paused[0], young);
    cr_assert_eq(changes.n_admitted, 0);
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n, 1);
    cr_assert_eq(batch.work[0].id, old);
    cr_assert_eq(batch.work[0].n_blocks, 3);

    cr_assert_eq(capacity(schedule, 1).n_admitted, 0);
    schedule_remove(schedule, old);
    changes = capacity(schedule, 4);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert(changes.admitted[0].is_resumed);
    cr_assert_eq(changes.admitted[0].n_blocks, 3); /* of prompt and drawn token, */
    batch = compute(schedule);
    cr_assert_eq(batch.work[0].n_tokens, 8); /* which are computed again */
    schedule_destroy(schedule);
}

Test(schedule, a_paused_request_forgets_what_was_cached_until_it_is_told_again)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request request = request_of(12, 2);
    request.cached_tokens = 8;
    request.blocks_shared = 1;
    schedule_id id = add(schedule, &request, 0);
    cr_assert_eq(capacity(schedule, 3).n_admitted, 1); /* 4 blocks in the end, one of them shared */
    schedule_pause(schedule, id);
    cr_assert_eq(capacity(schedule, 3).n_admitted, 0);
    cr_assert_eq(capacity(schedule, 4).n_admitted, 1);
    cr_assert_eq(compute(schedule).work[0].first, 0);
    schedule_destroy(schedule);
}

Test(schedule, a_block_for_work_that_was_not_done_is_not_counted_as_taken)
{
    struct schedule_options options = SMALL;
    options.batch_tokens = 5; /* beside a prompt there is room for one decode */
    options.chunk_tokens = 4;
    options.sequences_max = 5;
    struct schedule *schedule = new_schedule(&options);
    add_plain(schedule, 4, 5); /* 2 blocks in the end, each */
    schedule_id second = add_plain(schedule, 4, 5);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 2);
    compute(schedule);
    capacity(schedule, 6);
    compute(schedule); /* the first has its second block now, and both decode */

    add_plain(schedule, 8, 1);
    add_plain(schedule, 4, 1);
    cr_assert_eq(capacity(schedule, 4).n_admitted, 2); /* 3 blocks; the fourth is granted */
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n, 2); /* a chunk, and the decode that needs none */
    add_plain(schedule, 4, 1);
    cr_assert_eq(capacity(schedule, 1).n_admitted, 0);
    batch = compute(schedule);
    cr_assert_eq(batch.work[1].id, second);
    cr_assert_eq(batch.work[1].n_blocks, 2);
    schedule_destroy(schedule);
}

Test(schedule, max_utilization_leaves_headroom_beside_others_only)
{
    struct schedule_options options = SMALL;
    options.policy = SCHEDULE_MAX_UTILIZATION;
    options.headroom_blocks = 3;
    struct schedule *schedule = new_schedule(&options);
    add_plain(schedule, 28, 1); /* 7 of 8 blocks, but nobody else is there */
    add_plain(schedule, 4, 1);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    cr_assert_eq(capacity(schedule, 3).n_admitted, 0);
    cr_assert_eq(capacity(schedule, 4).n_admitted, 1);
    schedule_destroy(schedule);
}

Test(schedule, a_decode_without_a_block_stalls_when_nobody_younger_can_pause)
{
    struct schedule_options options = SMALL;
    options.policy = SCHEDULE_MAX_UTILIZATION;
    struct schedule *schedule = new_schedule(&options);
    schedule_id old = add_plain(schedule, 4, 4);
    schedule_id young = add_plain(schedule, 4, 4);
    cr_assert_eq(capacity(schedule, 2).n_admitted, 2);
    schedule_fetch(schedule, young); /* somebody writes into its blocks */
    compute(schedule);
    struct schedule_changes changes = capacity(schedule, 0);
    cr_assert_eq(changes.n_paused, 0);
    cr_assert_eq(compute(schedule).n, 0);
    cr_assert_eq(schedule_state_of(schedule, old), SCHEDULE_DECODING);
    capacity(schedule, 1);
    cr_assert_eq(compute(schedule).n, 1);
    schedule_destroy(schedule);
}

Test(schedule, a_static_batch_is_admitted_when_the_last_one_has_ended)
{
    struct schedule_options options = SMALL;
    options.policy = SCHEDULE_STATIC_BATCH;
    struct schedule *schedule = new_schedule(&options);
    schedule_id first = add_plain(schedule, 4, 4);
    schedule_id second = add_plain(schedule, 4, 4);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 2);
    add_plain(schedule, 4, 4);
    schedule_remove(schedule, first);
    cr_assert_eq(capacity(schedule, 6).n_admitted, 0);
    schedule_remove(schedule, second);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    schedule_destroy(schedule);
}

/* ---- order ---- */

static struct schedule *new_one_at_a_time(void)
{
    struct schedule_options options = SMALL;
    options.sequences_max = 1;
    return new_schedule(&options);
}

/* Admits one and ends it. */
static schedule_id next(struct schedule *schedule)
{
    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 1);
    schedule_id id = changes.admitted[0].id;
    compute(schedule);
    schedule_remove(schedule, id);
    return id;
}

Test(schedule, one_of_priority_is_worth_aging_ms_of_waiting)
{
    struct schedule *schedule = new_one_at_a_time();
    struct schedule_request plain = request_of(4, 1), urgent = request_of(4, 1);
    urgent.priority = 2; /* worth 2000 ms */
    schedule_id oldest = add(schedule, &plain, 0);
    schedule_id old = add(schedule, &plain, 2000);
    schedule_id at_2500 = add(schedule, &urgent, 2500);
    schedule_id late = add(schedule, &urgent, 4001);
    schedule_id last = add(schedule, &plain, 4001);
    cr_assert_eq(next(schedule), oldest);
    cr_assert_eq(next(schedule), at_2500);
    cr_assert_eq(next(schedule), old);
    cr_assert_eq(next(schedule), late);
    cr_assert_eq(next(schedule), last);
    schedule_destroy(schedule);
}

Test(schedule, tenants_take_turns_and_a_weight_of_two_gets_two)
{
    struct schedule *schedule = new_one_at_a_time();
    struct schedule_request of_a = request_of(4, 1), of_b = request_of(4, 1);
    uint32_t n_of_b = 0;
    of_a.tenant = 'a';
    of_b.tenant = 'b';
    of_b.weight = 2;
    for (int i = 0; i < 4; i++)
        add(schedule, &of_a, 0);
    schedule_id first_of_b = add(schedule, &of_b, 0);
    for (int i = 0; i < 3; i++)
        add(schedule, &of_b, 0);
    for (int i = 0; i < 6; i++)
        n_of_b += next(schedule) >= first_of_b;
    cr_assert_eq(n_of_b, 4);
    schedule_destroy(schedule);
}

Test(schedule, priority_wins_inside_a_tenant_and_not_against_another)
{
    struct schedule *schedule = new_one_at_a_time();
    struct schedule_request of_a = request_of(4, 1), of_b = request_of(4, 1);
    of_a.tenant = 'a';
    of_a.priority = SCHEDULE_PRIORITY_MAX;
    of_b.tenant = 'b';
    schedule_id first = add(schedule, &of_a, 0);
    add(schedule, &of_a, 0);
    schedule_id quiet = add(schedule, &of_b, 0);
    cr_assert_eq(next(schedule), first);
    cr_assert_eq(next(schedule), quiet);
    schedule_destroy(schedule);
}

Test(schedule, nobody_overtakes_a_head_that_waits_for_room)
{
    struct schedule *schedule = new_schedule(&SMALL);
    add_plain(schedule, 16, 1);
    schedule_id large = add_plain(schedule, 20, 1);
    add_plain(schedule, 4, 1);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    cr_assert_eq(capacity(schedule, 4).n_admitted, 0);
    cr_assert_eq(schedule_state_of(schedule, large), SCHEDULE_WAITING);
    schedule_destroy(schedule);
}

Test(schedule, a_tenant_at_its_share_is_passed_over)
{
    struct schedule_options options = SMALL;
    options.tenant_share_percent = 50;
    struct schedule *schedule = new_schedule(&options);
    struct schedule_request of_a = request_of(4, 1), of_b = request_of(4, 1);
    of_a.tenant = 'a';
    of_a.weight = 100; /* it is least served, so that the turn is its own every time */
    of_b.tenant = 'b';
    add(schedule, &of_b, 0);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    for (int i = 0; i < 4; i++)
        add(schedule, &of_a, 0);
    cr_assert_eq(capacity(schedule, 7).n_admitted, 2); /* of 4 */
    schedule_id id;
    struct error error;
    add(schedule, &of_a, 0);
    add(schedule, &of_a, 0);
    cr_assert_eq(schedule_add(schedule, &of_a, 0, &error, &id), STATUS_QUEUE_FULL); /* 4 of 8 */
    schedule_id passes = add(schedule, &of_b, 0);
    struct schedule_changes changes = capacity(schedule, 5);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, passes);
    schedule_destroy(schedule);
}

/* ---- batches ---- */

/* n prompts of one block each, computed: they decode from now on. */
static void start_decodes(struct schedule *schedule, uint32_t n, uint32_t n_blocks)
{
    for (uint32_t i = 0; i < n; i++)
        add_plain(schedule, 3, 4);
    for (uint32_t n_decoding = 0; n_decoding < n;) {
        struct schedule_counts counts;
        struct schedule_batch batch;
        capacity(schedule, n_blocks);
        schedule_batch(schedule, &batch);
        for (uint32_t i = 0; i < batch.n_chunks; i++)
            schedule_computed(schedule, batch.work[i].id, batch.work[i].n_tokens, 1);
        schedule_count(schedule, &counts);
        n_decoding = counts.n_decoding;
    }
}

Test(schedule, decodes_come_first_and_leave_a_block_for_prompts)
{
    struct schedule_options options = SMALL;
    options.batch_tokens = 6;
    options.sequences_max = 5;
    struct schedule *schedule = new_schedule(&options);
    start_decodes(schedule, 4, 8);
    struct schedule_batch batch;
    capacity(schedule, 4);
    schedule_batch(schedule, &batch);
    cr_assert_eq(batch.n, 4);
    cr_assert_eq(batch.n_tokens, 4);

    add_plain(schedule, 8, 1);
    capacity(schedule, 8);
    schedule_batch(schedule, &batch);
    cr_assert_eq(batch.n_chunks, 1);
    cr_assert_eq(batch.work[0].n_tokens, 4);
    cr_assert_eq(batch.n, 3); /* two of the four decodes */
    cr_assert_eq(batch.n_tokens, 6);
    schedule_id first = batch.work[1].id, second = batch.work[2].id;
    schedule_batch(schedule, &batch);
    cr_assert_neq(batch.work[1].id, first); /* the other two */
    cr_assert_neq(batch.work[1].id, second);
    cr_assert_neq(batch.work[2].id, first);
    cr_assert_neq(batch.work[2].id, second);
    schedule_destroy(schedule);
}

Test(schedule, the_least_served_tenants_chunk_comes_first)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request of_a = request_of(16, 1), of_b = request_of(8, 1);
    of_a.tenant = 'a';
    of_b.tenant = 'b';
    schedule_id long_one = add(schedule, &of_a, 0);
    capacity(schedule, 8);
    compute(schedule); /* 8 of its tokens */
    schedule_id late = add(schedule, &of_b, 1);
    capacity(schedule, 4);
    struct schedule_batch batch;
    schedule_batch(schedule, &batch);
    cr_assert_eq(batch.n_chunks, 2);
    cr_assert_eq(batch.work[0].id, late);
    cr_assert_eq(batch.work[1].id, long_one);
    schedule_destroy(schedule);
}
