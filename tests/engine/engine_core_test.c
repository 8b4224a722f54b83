/* engine_core: the order of a round, and how a request that arrives or waits ends. */
#include "base/clock.h"
#include "engine/engine_core.h"
#include "tests/device/fault_device.h"
#include "tests/engine/support/desk_rig.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { WAIT_LIMIT_NS = 100, NOW_NS = 1000 };

/* An engine that writes a letter for each call. */
struct pretend {
    struct engine_inbox inbox;
    struct request_queue queue, pending;
    struct engine_core core;
    char calls[64];
    enum status lacks;
    uint64_t limit_ns;
    struct device *device;
    bool computes, changes, starts_first; /* admit takes the head of the queue */
    uint64_t took_ns;
    const char *running; /* the id of what runs; NULL: nothing does */
    enum status refuses; /* what the schedule says of the next; OK: it takes it */
    int n_listed;        /* in the schedule, and not running */
    int n_refused;
    enum status refused_with;
    char sentence[64];
    const void *ended_stream;
    enum status ended_with;
};

static void note(struct pretend *pretend, const char *call)
{
    strncat(pretend->calls, call, sizeof pretend->calls - strlen(pretend->calls) - 1);
}

static void take_events(void *arg, uint64_t now_ns)
{
    (void)now_ns;
    note(arg, "e");
}

static bool take_message(void *arg, uint64_t now_ns)
{
    struct pretend *pretend = arg;
    uint32_t message;
    (void)now_ns;
    if (!engine_inbox_take(&pretend->inbox, &message))
        return false;
    note(pretend, pretend->core.is_draining ? "M" : "m");
    return true;
}

static void expire_running(void *arg, uint64_t now_ns)
{
    (void)now_ns;
    note(arg, "x");
}

static uint64_t next_limit_ns(void *arg)
{
    return ((struct pretend *)arg)->limit_ns;
}

static void end_running(void *arg, const void *stream, enum status status)
{
    struct pretend *pretend = arg;
    note(pretend, "E");
    pretend->ended_stream = stream;
    pretend->ended_with = status;
}

static struct engine_admission admit(void *arg, uint64_t now_ns)
{
    struct pretend *pretend = arg;
    (void)now_ns;
    note(pretend, "a");
    if (pretend->starts_first) {
        struct engine_request *first = request_queue_pop(&pretend->queue);
        pretend->n_listed -= first != NULL;
        engine_request_destroy(first);
    }
    return (struct engine_admission){pretend->lacks, pretend->changes};
}

static bool is_running(void *arg, const struct engine_request *request)
{
    const struct pretend *pretend = arg;
    return pretend->running && strcmp(pretend->running, request->request_id) == 0;
}

static enum status enlist(void *arg, struct engine_request *request, uint64_t now_ns,
                          const char **sentence_out)
{
    struct pretend *pretend = arg;
    (void)now_ns;
    (void)request;
    if (pretend->refuses != STATUS_OK)
        *sentence_out = "said the schedule";
    else
        pretend->n_listed++;
    return pretend->refuses;
}

static void delist(void *arg, struct engine_request *request)
{
    struct pretend *pretend = arg;
    (void)request;
    cr_assert_gt(pretend->n_listed, 0, "it was listed");
    pretend->n_listed--;
}

static void end(void *arg, struct engine_request *request, enum status status, const char *sentence)
{
    struct pretend *pretend = arg;
    note(pretend, "r");
    pretend->n_refused++;
    pretend->refused_with = status;
    snprintf(pretend->sentence, sizeof pretend->sentence, "%s", sentence);
    engine_request_destroy(request);
}

static bool compute(void *arg)
{
    note(arg, "c");
    return ((struct pretend *)arg)->computes;
}

static void took(void *arg, uint64_t step_ns)
{
    note(arg, "t");
    ((struct pretend *)arg)->took_ns = step_ns;
}

static void publish(void *arg, uint64_t now_ns)
{
    (void)now_ns;
    note(arg, "p");
}

static const struct engine_core_ops OPS = {.take_events = take_events,
                                           .take_message = take_message,
                                           .expire_running = expire_running,
                                           .next_limit_ns = next_limit_ns,
                                           .end_running = end_running,
                                           .admit = admit,
                                           .is_running = is_running,
                                           .enlist = enlist,
                                           .delist = delist,
                                           .end = end,
                                           .compute = compute,
                                           .took = took,
                                           .publish = publish};

static void open_pretend(struct pretend *pretend)
{
    const struct engine_inbox_bounds bounds = {.streams_max = 4, .others_max = 4};
    *pretend = (struct pretend){.lacks = STATUS_NO_BLOCKS, .limit_ns = DEADLINE_NONE};
    cr_assert_eq(engine_inbox_init(&pretend->inbox, sizeof(uint32_t), &bounds), STATUS_OK);
    cr_assert_eq(request_queue_init(&pretend->queue, 4, WAIT_LIMIT_NS), STATUS_OK);
    cr_assert_eq(request_queue_init(&pretend->pending, 4, WAIT_LIMIT_NS), STATUS_OK);
    pretend->device = fault_device_open(&(struct fault_options){.steps_max = 1});
    cr_assert(pretend->device);
    pretend->core = (struct engine_core){.ops = &OPS,
                                         .engine = pretend,
                                         .device = pretend->device,
                                         .inbox = &pretend->inbox,
                                         .queue = &pretend->queue,
                                         .pending = &pretend->pending};
}

static void close_pretend(struct pretend *pretend)
{
    engine_inbox_finish(&pretend->inbox);
    cr_assert_eq(pretend->n_listed, (int)request_queue_count(&pretend->queue),
                 "who waits is in the schedule, and nobody else");
    request_queue_finish(&pretend->queue);
    request_queue_finish(&pretend->pending);
    device_close(pretend->device);
}

static struct engine_request *request(const char *id, void *stream, uint64_t deadline_ns)
{
    static const uint32_t TOKENS[] = {1};
    const struct engine_request_input input = {.request_id = id,
                                               .token_ids = TOKENS,
                                               .n_tokens = 1,
                                               .sampling = &SAMPLING_GREEDY,
                                               .deadline_ns = deadline_ns};
    struct engine_request *made;
    cr_assert_eq(engine_request_create(sizeof *made, &input, stream, NULL, &made), STATUS_OK);
    return made;
}

static void wait_in_queue(struct pretend *pretend, void *stream, uint64_t arrived_ns,
                          uint64_t deadline_ns)
{
    struct engine_request *waiting = request("r", stream, deadline_ns);
    waiting->arrived_ns = arrived_ns;
    pretend->n_listed++;
    cr_assert(request_queue_push(&pretend->queue, waiting));
}

static void expect_calls(struct pretend *pretend, const char *calls)
{
    cr_assert_str_eq(pretend->calls, calls);
    pretend->calls[0] = '\0';
}

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
    cr_assert_str_eq(pretend.sentence, "no blocks within the queue limit");

    pretend.lacks = STATUS_QUEUE_FULL;
    wait_in_queue(&pretend, &streams[1], NOW_NS, DEADLINE_NONE);
    engine_core_step(&pretend.core, NOW_NS + WAIT_LIMIT_NS);
    cr_assert_eq(pretend.refused_with, STATUS_QUEUE_FULL);
    cr_assert_str_eq(pretend.sentence, "no room within the queue limit");

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

/* ---- constraints ---- */

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

Test(engine_core, who_has_a_constraint_waits_in_the_queue_when_that_is_compiled)
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

Test(engine_core, whose_constraint_is_wrong_is_told_what_is)
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
Test(engine_core, who_waits_for_a_constraint_ends_with_its_stream)
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

Test(engine_core, an_abort_finds_who_is_queued_and_who_waits_for_a_constraint)
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

Test(engine_core, who_waits_for_a_constraint_ends_at_its_deadline_and_who_is_one_too_many_at_once)
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

Test(engine_core, who_waits_for_a_constraint_ends_with_the_engine)
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

Test(engine_core, without_a_desk_constraints_are_refused)
{
    struct pretend pretend;
    int stream;
    open_pretend(&pretend);
    engine_core_request(&pretend.core, request_of("a", &stream, "a", DEADLINE_NONE), NOW_NS);
    cr_assert_eq(pretend.refused_with, STATUS_UNSUPPORTED);
    cr_assert_eq(request_queue_count(&pretend.pending), 0);
    close_pretend(&pretend);
}
