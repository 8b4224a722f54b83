/* engine_core: the order of a round, and how a request that arrives or waits ends. */
#include "tests/engine/support/pretend_engine.h"

Test(engine_core, a_round_is_events_messages_limits_admission_a_batch_and_figures)
{
    struct pretend pretend;
    open_pretend(&pretend);
    engine_inbox_post(&pretend.inbox, &(uint32_t){1});
    engine_inbox_post(&pretend.inbox, &(uint32_t){2});
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS), DEADLINE_NONE, "nothing is to be done");
    expect_calls(&pretend, "emmxacp");
    pretend.computes = true;
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS), NOW_NS, "there may be more to compute");
    pretend.computes = false;
    pretend.changes = true;
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS), NOW_NS);
    close_pretend(&pretend);
}

Test(engine_core, a_batch_took_until_the_round_behind_it_and_a_round_without_one_nothing)
{
    struct pretend pretend;
    open_pretend(&pretend);
    engine_core_step(&pretend.core, NOW_NS);
    engine_core_step(&pretend.core, NOW_NS + 5);
    pretend.computes = true;
    engine_core_step(&pretend.core, NOW_NS + 10);
    expect_calls(&pretend, "exacpexacpexacp");
    pretend.computes = false;
    engine_core_step(&pretend.core, NOW_NS + 40);
    expect_calls(&pretend, "texacp");
    cr_assert_eq(pretend.took_ns, 30);
    engine_core_step(&pretend.core, NOW_NS + 90);
    expect_calls(&pretend, "exacp");
    close_pretend(&pretend);
}

Test(engine_core, who_comes_waits_from_then_on)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    pretend.running = "other";
    engine_core_request(&pretend.core, request("r", &stream, NOW_NS + 1), NOW_NS);
    cr_assert_eq(request_queue_count(&pretend.queue), 1);
    cr_assert_eq(request_queue_at(&pretend.queue, 0)->arrived_ns, NOW_NS);
    cr_assert_eq(pretend.n_listed, 1);
    cr_assert_eq(pretend.n_refused, 0);
    close_pretend(&pretend);
}

Test(engine_core, who_comes_late_or_with_the_id_of_another_is_refused)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    engine_core_request(&pretend.core, request("r", &stream, NOW_NS), NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_TIMED_OUT);
    cr_assert_str_eq(pretend.sentence, "the deadline had passed on arrival");
    pretend.running = "r";
    engine_core_request(&pretend.core, request("r", &stream, DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_DUPLICATE_REQUEST, "it runs");
    cr_assert_str_eq(pretend.sentence, "");
    pretend.running = NULL;
    engine_core_request(&pretend.core, request("r", &stream, DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.n_refused, 2, "nobody else has the id now");
    engine_core_request(&pretend.core, request("r", &stream, DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.n_refused, 3);
    cr_assert_eq(pretend.refused_with, STATUS_DUPLICATE_REQUEST, "it waits");
    close_pretend(&pretend);
}

Test(engine_core, who_has_no_place_in_the_schedule_is_told_what_that_says)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    pretend.refuses = STATUS_NO_BLOCKS;
    engine_core_request(&pretend.core, request("r", &stream, DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.n_refused, 1);
    cr_assert_eq(pretend.refused_with, STATUS_NO_BLOCKS);
    cr_assert_str_eq(pretend.sentence, "said the schedule");
    cr_assert_eq(request_queue_count(&pretend.queue), 0);
    close_pretend(&pretend);
}

Test(engine_core, who_comes_during_a_drain_is_refused_before_anything_else_is_asked)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    engine_inbox_drain(&pretend.inbox);
    engine_core_step(&pretend.core, NOW_NS);
    pretend.running = "r";
    engine_core_request(&pretend.core, request("r", &stream, NOW_NS), NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_DRAINING);
    cr_assert_eq(pretend.n_refused, 1);
    close_pretend(&pretend);
}

Test(engine_core, who_can_start_does_although_its_limit_has_come)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    pretend.starts_first = true;
    wait_in_queue(&pretend, &stream, NOW_NS - WAIT_LIMIT_NS, DEADLINE_NONE);
    engine_core_step(&pretend.core, NOW_NS);
    expect_calls(&pretend, "exacp");
    cr_assert_eq(pretend.n_refused, 0);
    close_pretend(&pretend);
}

Test(engine_core, who_is_late_does_not_start_although_it_could)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    pretend.starts_first = true;
    wait_in_queue(&pretend, &stream, NOW_NS, NOW_NS);
    engine_core_step(&pretend.core, NOW_NS);
    expect_calls(&pretend, "exracp");
    cr_assert_eq(pretend.refused_with, STATUS_TIMED_OUT);
    close_pretend(&pretend);
}

Test(engine_core, who_waits_too_long_is_told_what_it_lacks_and_who_is_late_that)
{
    struct pretend pretend;
    int streams[3];
    open_pretend(&pretend);
    wait_in_queue(&pretend, &streams[0], NOW_NS, DEADLINE_NONE);
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS), NOW_NS + WAIT_LIMIT_NS);
    expect_calls(&pretend, "exacp");
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS + WAIT_LIMIT_NS), NOW_NS + WAIT_LIMIT_NS,
                 "the next one may start");
    expect_calls(&pretend, "exarcp");
    cr_assert_eq(pretend.refused_with, STATUS_NO_BLOCKS);
    cr_assert_str_eq(pretend.sentence, "timeout in the queue: no free KV blocks");

    pretend.lacks = STATUS_QUEUE_FULL;
    wait_in_queue(&pretend, &streams[1], NOW_NS, DEADLINE_NONE);
    engine_core_step(&pretend.core, NOW_NS + WAIT_LIMIT_NS);
    cr_assert_eq(pretend.refused_with, STATUS_QUEUE_FULL);
    cr_assert_str_eq(pretend.sentence, "timeout in the queue: no free slot");

    wait_in_queue(&pretend, &streams[2], NOW_NS, NOW_NS + 1);
    engine_core_step(&pretend.core, NOW_NS + 1);
    cr_assert_eq(pretend.refused_with, STATUS_TIMED_OUT);
    cr_assert_eq(pretend.n_refused, 3);
    close_pretend(&pretend);
}

Test(engine_core, sleeps_until_the_first_limit_of_what_waits_or_runs)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    pretend.limit_ns = NOW_NS + 7;
    wait_in_queue(&pretend, &stream, NOW_NS, DEADLINE_NONE);
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS), NOW_NS + 7);
    pretend.limit_ns = NOW_NS + WAIT_LIMIT_NS + 1;
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS), NOW_NS + WAIT_LIMIT_NS);
    close_pretend(&pretend);
}

Test(engine_core, a_stream_that_ends_takes_what_waits_or_what_runs)
{
    struct pretend pretend;
    int waits, runs;
    open_pretend(&pretend);
    wait_in_queue(&pretend, &waits, NOW_NS, DEADLINE_NONE);
    engine_core_stream_ended(&pretend.core, &runs);
    expect_calls(&pretend, "E");
    cr_assert_eq(pretend.ended_stream, &runs);
    cr_assert_eq(pretend.ended_with, STATUS_CANCELLED);
    engine_core_stream_ended(&pretend.core, &waits);
    expect_calls(&pretend, "r");
    cr_assert_eq(pretend.refused_with, STATUS_CANCELLED);
    cr_assert_eq(request_queue_count(&pretend.queue), 0);
    close_pretend(&pretend);
}

Test(engine_core, what_was_told_before_a_drain_is_taken_before_it_and_a_stop_ends_all)
{
    struct pretend pretend;
    int streams[2];
    open_pretend(&pretend);
    engine_inbox_post(&pretend.inbox, &(uint32_t){1});
    engine_inbox_drain(&pretend.inbox);
    engine_core_step(&pretend.core, NOW_NS);
    expect_calls(&pretend, "emxacp");
    engine_inbox_post(&pretend.inbox, &(uint32_t){2});
    wait_in_queue(&pretend, &streams[0], NOW_NS, DEADLINE_NONE);
    wait_in_queue(&pretend, &streams[1], NOW_NS, DEADLINE_NONE);
    engine_inbox_stop(&pretend.inbox);
    engine_core_step(&pretend.core, NOW_NS);
    expect_calls(&pretend, "eMrrExacp");
    cr_assert_eq(pretend.refused_with, STATUS_DRAINING);
    cr_assert_null(pretend.ended_stream);
    cr_assert_eq(pretend.ended_with, STATUS_DRAINING);
    close_pretend(&pretend);
}

Test(engine_core, who_waits_and_who_comes_end_with_the_device)
{
    struct pretend pretend;
    int streams[2];
    open_pretend(&pretend);
    fault_device_lose(pretend.device);
    cr_assert_eq(device_wait(pretend.device, device_record(pretend.device, DEVICE_COMPUTE)),
                 STATUS_DEVICE_LOST);
    wait_in_queue(&pretend, &streams[0], NOW_NS, DEADLINE_NONE);
    engine_inbox_stop(&pretend.inbox);
    engine_core_step(&pretend.core, NOW_NS);
    expect_calls(&pretend, "erExacp");
    cr_assert_eq(pretend.refused_with, STATUS_DEVICE_LOST);
    cr_assert_eq(pretend.ended_with, STATUS_DEVICE_LOST);
    wait_in_queue(&pretend, &streams[1], NOW_NS, DEADLINE_NONE);
    engine_core_step(&pretend.core, NOW_NS);
    expect_calls(&pretend, "erExacp");
    cr_assert_eq(pretend.refused_with, STATUS_DEVICE_LOST);
    close_pretend(&pretend);
}
