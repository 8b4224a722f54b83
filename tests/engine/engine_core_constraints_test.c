/* engine_core: a request with a constraint waits until that is compiled, and ends in each way that others end; or with what is wrong in it. */
#include "tests/engine/support/desk_rig.h"
#include "tests/engine/support/pretend_engine.h"

#include <poll.h>

static struct engine_request *request_of(const char *id, void *stream, const char *regex,
                                         uint64_t deadline_ns)
{
    static const uint32_t TOKENS[] = {1};
    const struct token_rules rules = {.constraint = desk_rig_regex(&regex)};
    struct sampling_params sampling = SAMPLING_GREEDY;
    sampling.rules = &rules;
    const struct engine_request_input input = {.request_id = id,
                                               .token_ids = TOKENS,
                                               .n_tokens = 1,
                                               .sampling = &sampling,
                                               .deadline_ns = deadline_ns};
    struct engine_request *made;
    cr_assert_eq(engine_request_create(sizeof *made, &input, stream, NULL, &made), STATUS_OK);
    return made;
}

static void open_with_desk(struct pretend *pretend, struct desk_rig *rig, uint32_t waiting_max)
{
    desk_rig_open(rig, DESK_FOLDER, waiting_max);
    open_pretend(pretend);
    pretend->core.desk = rig->desk;
}

static void close_with_desk(struct pretend *pretend, struct desk_rig *rig)
{
    cr_assert_eq(request_queue_count(&pretend->pending), 0);
    close_pretend(pretend);
    desk_rig_close(rig);
}

Test(engine_core_constraints, who_has_a_constraint_waits_in_the_queue_when_that_is_compiled)
{
    struct pretend pretend;
    struct desk_rig rig;
    int stream;
    open_with_desk(&pretend, &rig, 4);
    engine_core_request(&pretend.core, request_of("r", &stream, "a", DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.n_listed, 0);
    cr_assert_eq(request_queue_count(&pretend.pending), 1);
    engine_core_request(&pretend.core, request("r", &stream, DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_DUPLICATE_REQUEST, "it is known already");
    desk_rig_wait(&rig);
    cr_assert_eq(engine_core_step(&pretend.core, NOW_NS), NOW_NS + WAIT_LIMIT_NS);
    cr_assert_eq(request_queue_count(&pretend.queue), 1);
    cr_assert_eq(pretend.n_listed, 1);
    cr_assert_eq(pretend.n_refused, 1);
    const struct engine_request *waiting = request_queue_at(&pretend.queue, 0);
    cr_assert_not_null(waiting->constraint);
    cr_assert_null(waiting->order);
    close_with_desk(&pretend, &rig);
}

Test(engine_core_constraints, whose_constraint_is_wrong_is_told_what_is)
{
    struct pretend pretend;
    struct desk_rig rig;
    int stream;
    open_with_desk(&pretend, &rig, 4);
    engine_core_request(&pretend.core, request_of("r", &stream, "a(", DEADLINE_NONE), NOW_NS);
    desk_rig_wait(&rig);
    engine_core_step(&pretend.core, NOW_NS);
    cr_assert_eq(pretend.n_refused, 1);
    cr_assert_eq(pretend.refused_with, STATUS_INVALID_ARGUMENT);
    cr_assert_eq(strncmp(pretend.sentence, "sampling.constraint.regex: ", 27), 0, "%s",
                 pretend.sentence);
    close_with_desk(&pretend, &rig);
}

/* Whether it is compiled by then or not. */
Test(engine_core_constraints, who_waits_for_a_constraint_ends_with_its_stream)
{
    struct pretend pretend;
    struct desk_rig rig;
    int stream;
    open_with_desk(&pretend, &rig, 2);
    engine_core_request(&pretend.core, request_of("a", &stream, "a", DEADLINE_NONE), NOW_NS);
    engine_core_stream_ended(&pretend.core, &stream);
    cr_assert_eq(pretend.refused_with, STATUS_CANCELLED);
    close_with_desk(&pretend, &rig);
}

Test(engine_core_constraints, an_abort_finds_who_is_queued_and_who_waits_for_a_constraint)
{
    struct pretend pretend;
    struct desk_rig rig;
    int streams[2];
    open_with_desk(&pretend, &rig, 2);
    engine_core_request(&pretend.core, request_of("a", &streams[0], "a", DEADLINE_NONE), NOW_NS);
    engine_core_request(&pretend.core, request("b", &streams[1], DEADLINE_NONE), NOW_NS);
    cr_assert_not(engine_core_abort(&pretend.core, "c", STATUS_CANCELLED, "aborted"));
    cr_assert_eq(pretend.n_refused, 0);
    for (int i = 1; i <= 2; i++) {
        cr_assert(
            engine_core_abort(&pretend.core, i == 1 ? "a" : "b", STATUS_CANCELLED, "aborted"));
        cr_assert_eq(pretend.n_refused, i);
        cr_assert_eq(pretend.refused_with, STATUS_CANCELLED);
        cr_assert_str_eq(pretend.sentence, "aborted");
    }
    cr_assert_eq(pretend.n_listed, 0);
    cr_assert_not(engine_core_abort(&pretend.core, "a", STATUS_CANCELLED, "aborted"));
    close_with_desk(&pretend, &rig);
}

Test(engine_core_constraints,
     who_waits_for_a_constraint_ends_at_its_deadline_and_who_is_one_too_many_at_once)
{
    struct pretend pretend;
    struct desk_rig rig;
    int streams[3];
    open_with_desk(&pretend, &rig, 2);
    engine_core_request(&pretend.core, request_of("b", &streams[0], "b", NOW_NS + 1), NOW_NS);
    engine_core_request(&pretend.core, request_of("c", &streams[1], "c", NOW_NS + 1), NOW_NS);
    cr_assert_eq(pretend.n_refused, 0);
    engine_core_request(&pretend.core, request_of("d", &streams[2], "d", DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_QUEUE_FULL, "the desk has two");
    cr_assert_eq(pretend.n_refused, 1);
    engine_core_step(&pretend.core, NOW_NS + 1);
    cr_assert_eq(pretend.refused_with, STATUS_TIMED_OUT);
    cr_assert_eq(pretend.n_refused, 3);
    close_with_desk(&pretend, &rig);
}

Test(engine_core_constraints, who_waits_too_long_for_a_constraint_is_told_whose_took_the_time)
{
    struct pretend pretend;
    struct desk_rig rig;
    int streams[2];
    char *text = desk_rig_long_regex();
    open_with_desk(&pretend, &rig, 2);
    struct engine_request *first = request_of("a", &streams[0], text, DEADLINE_NONE);
    engine_core_request(&pretend.core, first, NOW_NS);
    engine_core_request(&pretend.core, request_of("b", &streams[1], "b", DEADLINE_NONE),
                        NOW_NS - 1);
    while (!constraint_desk_has_begun(rig.desk, first->order))
        (void)poll(NULL, 0, 1);
    engine_core_step(&pretend.core, NOW_NS + WAIT_LIMIT_NS - 1);
    cr_assert_eq(pretend.n_refused, 1);
    cr_assert_eq(pretend.refused_with, STATUS_QUEUE_FULL);
    cr_assert_str_eq(pretend.sentence, "too many constraints wait to be compiled");
    engine_core_step(&pretend.core, NOW_NS + WAIT_LIMIT_NS);
    cr_assert_eq(pretend.n_refused, 2);
    cr_assert_eq(pretend.refused_with, STATUS_QUEUE_FULL);
    cr_assert_str_eq(pretend.sentence, "the constraint was not compiled in the time that is left "
                                       "behind others");
    free(text);
    close_with_desk(&pretend, &rig);
}

Test(engine_core_constraints, who_waits_for_a_constraint_ends_with_the_engine)
{
    struct pretend pretend;
    struct desk_rig rig;
    int streams[2];
    open_with_desk(&pretend, &rig, 2);
    engine_core_request(&pretend.core, request_of("e", &streams[0], "e", DEADLINE_NONE), NOW_NS);
    engine_core_request(&pretend.core, request_of("f", &streams[1], "f", DEADLINE_NONE), NOW_NS);
    engine_inbox_stop(&pretend.inbox);
    engine_core_step(&pretend.core, NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_DRAINING);
    cr_assert_eq(pretend.n_refused, 2);
    close_with_desk(&pretend, &rig);
}

Test(engine_core_constraints, without_a_desk_constraints_are_refused)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    engine_core_request(&pretend.core, request_of("a", &stream, "a", DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_UNSUPPORTED);
    cr_assert_eq(request_queue_count(&pretend.pending), 0);
    close_pretend(&pretend);
}
