/* schedule_capacity: what each policy admits and pauses, an example each. Blocks have 4 tokens. */
#include "tests/schedule/support/small_schedule.h"

#include <criterion/criterion.h>

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

Test(schedule, a_paused_request_gives_back_what_it_shares_with_nobody)
{
    struct schedule_options options = SMALL;
    options.policy = SCHEDULE_MAX_UTILIZATION;
    struct schedule *schedule = new_schedule(&options);
    struct schedule_request shares = request_of(9, 4);
    shares.cached_tokens = 8;
    shares.blocks_shared = 2;
    schedule_id oldest = add_plain(schedule, 4, 4);
    add_plain(schedule, 4, 4);
    schedule_id young = add(schedule, &shares, 1);
    cr_assert_eq(capacity(schedule, 3).n_admitted, 3);
    compute(schedule);
    struct schedule_changes changes = capacity(schedule,
                                               0); /* two want a block; 1 of 3 comes back */
    cr_assert_eq(changes.n_paused, 1);
    cr_assert_eq(changes.paused[0], young);
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n, 1);
    cr_assert_eq(batch.work[0].id, oldest);
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

Test(schedule, a_held_request_is_overtaken_and_comes_when_it_is_let_go)
{
    struct schedule *schedule = new_schedule(&SMALL);
    const schedule_id first = add_plain(schedule, 4, 1), second = add_plain(schedule, 4, 1);
    schedule_hold(schedule, first, true);
    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, second);
    cr_assert_eq(changes.waits_for, STATUS_QUEUE_FULL, "one waits, and not for blocks");
    cr_assert_eq(changes.next, SCHEDULE_NONE);
    changes = capacity(schedule, 7);
    cr_assert_eq(changes.n_admitted, 0);
    schedule_hold(schedule, first, false);
    changes = capacity(schedule, 7);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, first);
    schedule_destroy(schedule);
}
