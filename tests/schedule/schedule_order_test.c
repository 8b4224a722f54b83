/* schedule: who comes first, between tenants, inside one and in a batch; an example each. Blocks have 4 tokens. */
#include "tests/schedule/support/small_schedule.h"

#include <criterion/criterion.h>

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
    of_a.tenant = of_a.sharer = 'a';
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
    cr_assert_eq(schedule_add(schedule, &of_a, 0, &error, &id), STATUS_SHARE_FULL); /* 4 of 8 */
    schedule_id passes = add(schedule, &of_b, 0);
    struct schedule_changes changes = capacity(schedule, 5);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, passes);
    schedule_destroy(schedule);
}

/* A context worker's callers ask for the same tenant. */
Test(schedule, a_sharer_at_its_share_is_passed_over_within_a_tenant)
{
    struct schedule_options options = SMALL;
    options.tenant_share_percent = 50;
    struct schedule *schedule = new_schedule(&options);
    struct schedule_request of_one = request_of(4, 1), of_other = request_of(4, 1);
    struct schedule_request small = request_of(1, 1);
    of_one.tenant = of_other.tenant = small.tenant = 'a';
    of_one.sharer = small.sharer = 1;
    of_other.sharer = 2;
    for (int i = 0; i < 3; i++)
        add(schedule, &of_one, 0);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 2); /* of 4 */
    add(schedule, &small, 0);
    schedule_id passes = add(schedule, &of_other, 0);
    struct schedule_changes changes = capacity(schedule, 6);
    cr_assert_eq(changes.n_admitted, 1, "nobody overtakes another one of the same sharer");
    cr_assert_eq(changes.admitted[0].id, passes);
    schedule_destroy(schedule);
}

Test(schedule, who_is_paused_keeps_its_place)
{
    struct schedule_options options = SMALL;
    options.policy = SCHEDULE_MAX_UTILIZATION;
    options.headroom_blocks = 0;
    options.sequences_max = 2;
    struct schedule *schedule = new_schedule(&options);
    schedule_id first = add_plain(schedule, 4, 8), paused = add_plain(schedule, 4, 8);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 2);
    schedule_pause(schedule, paused);
    struct schedule_request urgent = request_of(4, 8);
    urgent.priority = SCHEDULE_PRIORITY_MAX;
    urgent.tenant = 'b';
    schedule_id late = add(schedule, &urgent, 0);
    urgent.tenant = 0;
    schedule_id own = add(schedule, &urgent, 0);
    struct schedule_changes changes = capacity(schedule, 7);
    cr_assert_eq(changes.n_admitted, 1, "there are two places");
    cr_assert_eq(changes.admitted[0].id, paused);
    cr_assert(changes.admitted[0].is_resumed);
    schedule_remove(schedule, first);
    changes = capacity(schedule, 7);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, late, "who was served nothing");
    schedule_remove(schedule, paused);
    cr_assert_eq(capacity(schedule, 7).admitted[0].id, own);
    schedule_destroy(schedule);
}

Test(schedule, a_step_says_what_the_next_one_lacks)
{
    struct schedule_options options = SMALL;
    options.sequences_max = 2;
    struct schedule *schedule = new_schedule(&options);
    cr_assert_eq(capacity(schedule, 8).waits_for, STATUS_OK);
    schedule_id first = add_plain(schedule, 20, 1);
    schedule_id second = add_plain(schedule, 16, 1);
    cr_assert_eq(capacity(schedule, 8).waits_for, STATUS_NO_BLOCKS);
    schedule_remove(schedule, second);
    add_plain(schedule, 4, 1);
    add_plain(schedule, 4, 1);
    cr_assert_eq(capacity(schedule, 3).waits_for, STATUS_QUEUE_FULL); /* two are admitted */
    schedule_remove(schedule, first);
    struct schedule_changes changes = capacity(schedule, 7);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.waits_for, STATUS_OK);
    cr_assert_eq(changes.next, SCHEDULE_NONE);
    schedule_destroy(schedule);
}

Test(schedule, who_lacks_blocks_is_named_and_comes_when_it_shares_enough_of_them)
{
    struct schedule *schedule = new_schedule(&SMALL);
    add_plain(schedule, 20, 1);
    schedule_id large = add_plain(schedule, 20, 1); /* 5 blocks */
    add_plain(schedule, 4, 1);
    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.next, large);
    schedule_set_prefix(schedule, large, 4, 1);
    cr_assert_eq(capacity(schedule, 3).next, large);
    schedule_set_prefix(schedule, large, 8, 2);
    changes = capacity(schedule, 3);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, large);
    schedule_destroy(schedule);
}

Test(schedule, a_burst_of_admissions_is_fair_before_anything_is_computed)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request of_a = request_of(4, 1), of_b = request_of(4, 1);
    uint32_t n_of_b = 0;
    of_a.tenant = 'a';
    of_b.tenant = 'b';
    for (int i = 0; i < 4; i++)
        add(schedule, &of_a, 0);
    schedule_id first_of_b = add(schedule, &of_b, 0);
    for (int i = 0; i < 3; i++)
        add(schedule, &of_b, 0);
    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 4);
    for (uint32_t i = 0; i < 4; i++)
        n_of_b += changes.admitted[i].id >= first_of_b;
    cr_assert_eq(n_of_b, 2);
    schedule_destroy(schedule);
}

Test(schedule, a_tenant_at_its_share_of_blocks_waits)
{
    struct schedule_options options = SMALL;
    options.tenant_share_percent = 50;
    struct schedule *schedule = new_schedule(&options);
    schedule_id large = add_plain(schedule, 20, 1); /* 5 of 8, but it has nothing yet */
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    add_plain(schedule, 4, 1);
    cr_assert_eq(capacity(schedule, 3).n_admitted, 0);
    schedule_remove(schedule, large);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    schedule_destroy(schedule);
}

Test(schedule, a_tenant_whose_requests_share_blocks_goes_on_while_what_is_not_its_share_is_left)
{
    struct schedule_options options = SMALL;
    options.tenant_share_percent = 50;
    struct schedule *schedule = new_schedule(&options);
    add_plain(schedule, 12, 1); /* 3 blocks of 8 */
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    add_plain(schedule, 12, 1);
    cr_assert_eq(capacity(schedule, 6).n_admitted, 0, "6 of its own, and 4 would not be left");
    cr_assert_eq(capacity(schedule, 7).n_admitted, 1, "others have their 4 all the same");
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

Test(schedule, who_comes_late_does_not_wait_for_all_that_was_admitted_before)
{
    struct schedule_options options = SMALL;
    options.batch_tokens = 8; /* two chunks */
    options.chunk_tokens = 4;
    struct schedule *schedule = new_schedule(&options);
    struct schedule_request of_a = request_of(8, 1), of_b = request_of(8, 1);
    of_a.tenant = 'a';
    of_b.tenant = 'b';
    for (int i = 0; i < 3; i++)
        add(schedule, &of_a, 0);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 3);
    compute(schedule);
    schedule_id late = add(schedule, &of_b, 1);
    cr_assert_eq(capacity(schedule, 2).n_admitted, 1);
    for (int i = 0; i < 2; i++) {
        struct schedule_batch batch = compute(schedule);
        cr_assert_eq(batch.n_chunks, 2);
        cr_assert_eq(batch.work[0].id, late);
    }
    schedule_destroy(schedule);
}

Test(schedule, a_chunk_given_counts_for_the_tenants_next_turn_in_the_same_batch)
{
    struct schedule_options options = SMALL;
    options.chunk_tokens = 4;
    struct schedule *schedule = new_schedule(&options);
    struct schedule_request of_a = request_of(8, 1), of_b = request_of(8, 1);
    of_a.tenant = 'a';
    of_b.tenant = 'b';
    schedule_id a1 = add(schedule, &of_a, 0), a2 = add(schedule, &of_a, 0);
    schedule_id b1 = add(schedule, &of_b, 1), b2 = add(schedule, &of_b, 1);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 4);
    struct schedule_batch batch = compute(schedule);
    const schedule_id wanted[] = {a1, b1, a2, b2};
    cr_assert_eq(batch.n_chunks, 4);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(batch.work[i].id, wanted[i]);
    schedule_destroy(schedule);
}
