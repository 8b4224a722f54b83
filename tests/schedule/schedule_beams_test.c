/* schedule: a request with beams takes as many places, tokens of a step and blocks. Blocks have 4 tokens. */
#include "tests/schedule/support/small_schedule.h"

#include <criterion/criterion.h>

static schedule_id add_wide(struct schedule *schedule, uint32_t n_beams, uint32_t prompt_tokens,
                            uint32_t max_new_tokens)
{
    struct schedule_request request = request_of(prompt_tokens, max_new_tokens);
    request.n_beams = n_beams;
    return add(schedule, &request, 0);
}

Test(schedule_beams, a_beam_has_blocks_of_its_own_behind_the_whole_blocks_of_the_prompt)
{
    struct schedule *schedule = new_schedule(&SMALL);
    add_wide(schedule, 3, 6, 4);
    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].n_blocks, 2, "a prompt is one sequence");
    cr_assert_eq(compute(schedule).n_tokens, 6);
    static const uint32_t BLOCKS[] = {1 + 3, 1 + 3, 1 + 3 * 2};
    for (uint32_t i = 0; i < 3; i++) {
        capacity(schedule, 8);
        const struct schedule_batch batch = compute(schedule);
        cr_assert(batch.n == 1 && batch.n_chunks == 0);
        cr_assert_eq(batch.n_tokens, 3, "one of each beam");
        cr_assert_eq(batch.work[0].n_tokens, 1);
        cr_assert_eq(batch.work[0].n_blocks, BLOCKS[i]);
    }
    schedule_destroy(schedule);
}

Test(schedule_beams, is_admitted_when_all_its_beams_fit_to_the_end)
{
    struct schedule *schedule = new_schedule(&SMALL);
    add_wide(schedule, 3, 8, 5); /* 2 + 3 * 1 in the end */
    cr_assert_eq(capacity(schedule, 4).n_admitted, 0);
    cr_assert_eq(capacity(schedule, 5).n_admitted, 1);
    schedule_destroy(schedule);
}

Test(schedule_beams, could_never_run)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request request = request_of(4, 9);
    struct error error;
    schedule_id id;
    request.n_beams = 5;
    cr_assert_eq(schedule_add(schedule, &request, 0, &error, &id), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "n_beams is 5, sequences_max 4");
    request.n_beams = 4; /* 1 + 4 * 2 blocks */
    cr_assert_eq(schedule_add(schedule, &request, 0, &error, &id), STATUS_NO_BLOCKS);
    cr_assert_str_eq(error.text,
                     "4 prompt and 9 new tokens need 9 blocks of 4 tokens, the pool has 8");
    schedule_destroy(schedule);
}

Test(schedule_beams, takes_places_and_is_not_overtaken)
{
    struct schedule *schedule = new_schedule(&SMALL);
    const schedule_id first = add_plain(schedule, 4, 2);
    add_plain(schedule, 4, 2);
    add_plain(schedule, 4, 2);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 3);
    const schedule_id wide = add_wide(schedule, 2, 4, 2);
    const schedule_id behind = add_plain(schedule, 4, 2);
    struct schedule_changes changes = capacity(schedule, 5);
    cr_assert_eq(changes.n_admitted, 0, "a place is free, but it is not enough for the next one");
    cr_assert_eq(changes.waits_for, STATUS_QUEUE_FULL);
    schedule_remove(schedule, first);
    changes = capacity(schedule, 6);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, wide);
    schedule_remove(schedule, wide);
    changes = capacity(schedule, 6);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, behind);
    schedule_destroy(schedule);
}

Test(schedule_beams, a_paused_one_keeps_its_places_and_begins_behind_its_prompt)
{
    struct schedule_options options = SMALL;
    options.policy = SCHEDULE_MAX_UTILIZATION;
    struct schedule *schedule = new_schedule(&options);
    const schedule_id wide = add_wide(schedule, 3, 6, 6);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    compute(schedule);
    capacity(schedule, 8);
    compute(schedule);
    schedule_pause(schedule, wide);
    schedule_restart(schedule, wide);
    add_plain(schedule, 4, 2);
    add_plain(schedule, 4, 2);
    struct schedule_changes changes = capacity(schedule, 8);
    cr_assert_eq(changes.n_admitted, 2, "3 of the 4 places are its own");
    cr_assert_eq(changes.admitted[0].id, wide);
    cr_assert(changes.admitted[0].is_resumed);
    cr_assert_eq(changes.admitted[0].n_tokens, 6);
    cr_assert_eq(compute(schedule).work[0].n_tokens, 6);
    schedule_destroy(schedule);
}
