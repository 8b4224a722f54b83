/* schedule: the life of a request, what is refused, and what is told; an example each. Blocks have 4 tokens. */
#include "tests/schedule/support/small_schedule.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

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

/* A chunk ends where it is cut, and the next one where it can. */
Test(schedule, a_prompt_is_cut_where_something_is_to_be_kept)
{
    struct schedule *schedule = new_schedule(&SMALL);
    const schedule_id id = add_plain(schedule, 23, 1);
    static const uint32_t ENDS[] = {4, 12, 20, 23}, CUTS[] = {4, 0, 20, 20};
    uint32_t first = 0;
    capacity(schedule, 8);
    for (int i = 0; i < 4; i++) {
        schedule_set_cut(schedule, id, CUTS[i]);
        const struct schedule_batch batch = compute(schedule);
        cr_assert_eq(batch.work[0].first, first);
        cr_assert_eq(first + batch.work[0].n_tokens, ENDS[i], "chunk %d", i);
        first = ENDS[i];
    }
    schedule_remove(schedule, id);
    schedule_destroy(schedule);
}

Test(schedule, blocks_beside_those_of_spans_are_held_from_admission_to_end)
{
    struct schedule_options options = SMALL;
    options.blocks_beside = 3;
    struct schedule *schedule = new_schedule(&options);
    const schedule_id id = add_plain(schedule, 10, 3);
    cr_assert_eq(capacity(schedule, 5).n_admitted, 0, "3 and 3");
    const struct schedule_changes changes = capacity(schedule, 6);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].n_blocks, 6);
    cr_assert_eq(compute(schedule).work[0].n_blocks, 6);
    schedule_remove(schedule, id);
    schedule_destroy(schedule);
}

Test(schedule, a_step_has_as_many_prompt_tokens_as_its_time_and_decodes_beside_them)
{
    struct schedule_options options = SMALL;
    options.n_blocks = 64;
    options.step_target_ns = 100;
    struct schedule *schedule = new_schedule(&options);
    schedule_id decoding = add_plain(schedule, 4, 8);
    capacity(schedule, 64);
    compute(schedule);
    cr_assert_eq(schedule_token_ns(schedule), 0);
    schedule_took(schedule, 40); /* 10 a token */
    cr_assert_eq(schedule_token_ns(schedule), 10);

    for (int i = 0; i < 3; i++)
        add_plain(schedule, 40, 1);
    capacity(schedule, 64);
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n_chunks, 1);
    cr_assert_eq(batch.work[0].n_tokens, 8, "whole blocks of the ten that fit");
    cr_assert_eq(batch.work[1].id, decoding);
    schedule_took(schedule, 8000);
    capacity(schedule, 64);
    batch = compute(schedule);
    cr_assert_eq(batch.n_chunks, 1);
    cr_assert_eq(batch.work[0].n_tokens, 4, "a block, however long it takes");
    cr_assert_eq(batch.n_tokens, 5);
    for (int i = 0; i < 2; i++) {
        schedule_took(schedule, 1);
        capacity(schedule, 64);
        batch = compute(schedule);
    }
    cr_assert_eq(batch.n_chunks, 2);
    cr_assert_eq(batch.work[0].n_tokens, 8, "chunk_tokens");
    schedule_destroy(schedule);
}

Test(schedule, a_decode_that_ran_ahead_is_computed_as_one_before_those_that_did_not)
{
    struct schedule *schedule = new_schedule(&SMALL);
    schedule_id plain = add_plain(schedule, 4, 8), ahead = add_plain(schedule, 4, 8);
    capacity(schedule, 8);
    compute(schedule); /* both prompts, and their first tokens */
    for (int i = 0; i < 5; i++)
        schedule_run_ahead(schedule, ahead);
    cr_assert_eq(schedule_state_of(schedule, ahead), SCHEDULE_DECODING);
    capacity(schedule, 4);
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n, 2);
    cr_assert_eq(batch.n_chunks, 1);
    cr_assert_eq(batch.work[0].id, ahead);
    cr_assert_eq(batch.work[0].first, 4);
    cr_assert_eq(batch.work[0].n_tokens, 6, "the token that was drawn, and five behind it");
    cr_assert_eq(batch.work[0].n_blocks, 3, "of ten tokens");
    cr_assert(batch.work[0].draws);
    cr_assert_eq(batch.work[1].id, plain);
    cr_assert_eq(batch.n_tokens, 7);
    capacity(schedule, 3);
    batch = compute(schedule);
    cr_assert_eq(batch.n_chunks, 0, "it is level again");
    cr_assert_eq(batch.n_tokens, 2);
    cr_assert_eq(schedule_state_of(schedule, ahead), SCHEDULE_DONE, "eight tokens are known");
    schedule_destroy(schedule);
}

/* 16 tokens a step; one prompt keeps a block of them. */
Test(schedule, decodes_that_ran_ahead_further_than_a_step_has_room_take_turns)
{
    struct schedule_options options = SMALL;
    options.n_blocks = 64;
    struct schedule *schedule = new_schedule(&options);
    schedule_id first = add_plain(schedule, 4, 30), second = add_plain(schedule, 4, 30);
    capacity(schedule, 64);
    compute(schedule);
    for (int i = 0; i < 9; i++) {
        schedule_run_ahead(schedule, first);
        schedule_run_ahead(schedule, second);
    }
    add_plain(schedule, 8, 1);
    capacity(schedule, 64);
    struct schedule_batch batch = compute(schedule);
    cr_assert_eq(batch.n, 3);
    cr_assert_eq(batch.n_tokens, 16);
    cr_assert_eq(batch.work[0].n_tokens, 4, "the prompt's block");
    cr_assert_eq(batch.work[1].id, first);
    cr_assert_eq(batch.work[1].n_tokens, 10);
    cr_assert_eq(batch.work[2].n_tokens, 2);
    cr_assert_not(batch.work[2].draws, "it has eight more");
    capacity(schedule, 64);
    batch = compute(schedule);
    cr_assert_eq(batch.n, 3);
    cr_assert_eq(batch.work[1].id, second);
    cr_assert_eq(batch.work[1].n_tokens, 8);
    cr_assert(batch.work[1].draws);
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

Test(schedule, a_closed_one_computes_nothing_and_keeps_its_place_and_blocks_until_it_is_removed)
{
    struct schedule_options options = SMALL;
    options.sequences_max = 1;
    struct schedule *schedule = new_schedule(&options);
    struct schedule_counts counts;
    struct schedule_batch batch;
    schedule_id id = add_plain(schedule, 20, 0);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    compute(schedule); /* 8 of its tokens */
    schedule_close(schedule, id);
    cr_assert_eq(schedule_state_of(schedule, id), SCHEDULE_DONE);
    schedule_id waits = add_plain(schedule, 4, 0);
    cr_assert_eq(capacity(schedule, 8).waits_for, STATUS_QUEUE_FULL, "its place is taken");
    schedule_batch(schedule, &batch);
    cr_assert_eq(batch.n, 0);
    schedule_count(schedule, &counts);
    cr_assert_eq(counts.n_done, 1);
    cr_assert_eq(counts.waiting_tokens, 4, "only of the other one");
    schedule_remove(schedule, id);
    cr_assert_eq(capacity(schedule, 8).admitted[0].id, waits);
    schedule_destroy(schedule);
}

Test(schedule, who_was_closed_is_not_charged_for_what_was_not_computed)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_request of_a = request_of(20, 0), of_b = request_of(8, 0);
    of_a.tenant = 'a';
    of_b.tenant = 'b';
    schedule_id first = add(schedule, &of_a, 0);
    cr_assert_eq(capacity(schedule, 8).n_admitted, 1);
    schedule_close(schedule, first); /* nothing of it was computed */
    add(schedule, &of_b, 0);
    cr_assert_eq(capacity(schedule, 3).n_admitted, 1);
    of_a.prompt_tokens = of_b.prompt_tokens = 4;
    add(schedule, &of_b, 1);
    schedule_id again = add(schedule, &of_a, 1);
    struct schedule_changes changes = capacity(schedule, 1);
    cr_assert_eq(changes.n_admitted, 1);
    cr_assert_eq(changes.admitted[0].id, again, "b was promised 8 tokens, a none");
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

/* ---- figures ---- */

Test(schedule, figures_tell_what_waits_and_what_was_computed_again)
{
    struct schedule *schedule = new_schedule(&SMALL);
    struct schedule_counts counts;
    schedule_id id = add_plain(schedule, 10, 3);
    struct schedule_request cached = request_of(12, 1);
    cached.cached_tokens = 4;
    add(schedule, &cached, 1);
    schedule_count(schedule, &counts);
    cr_assert_eq(counts.n_waiting, 2);
    cr_assert_eq(counts.n_paused, 0);
    cr_assert_eq(counts.waiting_tokens, 10 + 8);

    schedule_fetch(schedule, capacity(schedule, 8).admitted[1].id);
    compute(schedule); /* 8 tokens */
    schedule_count(schedule, &counts);
    cr_assert_eq(counts.n_admitted, 2);
    cr_assert_eq(counts.n_fetching, 1);
    cr_assert_eq(counts.n_computing, 1);
    cr_assert_eq(counts.waiting_tokens, 2 + 8);

    schedule_pause(schedule, id);
    schedule_count(schedule, &counts);
    cr_assert_eq(counts.n_paused, 1);
    cr_assert_eq(counts.pauses, 1);
    cr_assert_eq(counts.waiting_tokens, 10 + 8);
    cr_assert(capacity(schedule, 5).admitted[0].is_resumed);
    compute(schedule);
    schedule_count(schedule, &counts);
    cr_assert_eq(counts.tokens_again, 8);
    compute(schedule);
    schedule_count(schedule, &counts);
    cr_assert_eq(counts.tokens_again, 8);
    cr_assert_eq(counts.n_decoding, 1);
    schedule_destroy(schedule);
}
