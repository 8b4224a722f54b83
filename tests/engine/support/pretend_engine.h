/*
 * pretend_engine - an engine for tests of engine_core: it notes what it is asked, and does as it is told.
 */
#pragma once

#include "base/clock.h"
#include "engine/engine_core.h"
#include "tests/device/fault_device.h"

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
    char sentence[128];
    const void *ended_stream;
    enum status ended_with;
};

static inline void note(struct pretend *pretend, const char *call)
{
    strncat(pretend->calls, call, sizeof pretend->calls - strlen(pretend->calls) - 1);
}

static inline void take_events(void *arg, uint64_t now_ns)
{
    (void)now_ns;
    note(arg, "e");
}

static inline bool take_message(void *arg, uint64_t now_ns)
{
    struct pretend *pretend = arg;
    uint32_t message;
    (void)now_ns;
    if (!engine_inbox_take(&pretend->inbox, &message))
        return false;
    note(pretend, pretend->core.is_draining ? "M" : "m");
    return true;
}

static inline void expire_running(void *arg, uint64_t now_ns)
{
    (void)now_ns;
    note(arg, "x");
}

static inline uint64_t next_limit_ns(void *arg)
{
    return ((struct pretend *)arg)->limit_ns;
}

static inline void end_running(void *arg, const void *stream, enum status status)
{
    struct pretend *pretend = arg;
    note(pretend, "E");
    pretend->ended_stream = stream;
    pretend->ended_with = status;
}

static inline struct engine_admission admit(void *arg, uint64_t now_ns)
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

static inline bool is_running(void *arg, const struct engine_request *request)
{
    const struct pretend *pretend = arg;
    return pretend->running && strcmp(pretend->running, request->request_id) == 0;
}

static inline enum status enlist(void *arg, struct engine_request *request, uint64_t now_ns,
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

static inline void delist(void *arg, struct engine_request *request)
{
    struct pretend *pretend = arg;
    (void)request;
    cr_assert_gt(pretend->n_listed, 0, "it was listed");
    pretend->n_listed--;
}

static inline void end(void *arg, struct engine_request *request, enum status status,
                       const char *sentence)
{
    struct pretend *pretend = arg;
    note(pretend, "r");
    pretend->n_refused++;
    pretend->refused_with = status;
    snprintf(pretend->sentence, sizeof pretend->sentence, "%s", sentence);
    engine_request_destroy(request);
}

static inline bool compute(void *arg)
{
    note(arg, "c");
    return ((struct pretend *)arg)->computes;
}

static inline void took(void *arg, uint64_t step_ns)
{
    note(arg, "t");
    ((struct pretend *)arg)->took_ns = step_ns;
}

static inline void publish(void *arg, uint64_t now_ns)
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

static inline void open_pretend(struct pretend *pretend)
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

static inline void close_pretend(struct pretend *pretend)
{
    engine_inbox_finish(&pretend->inbox);
    cr_assert_eq(pretend->n_listed, (int)request_queue_count(&pretend->queue),
                 "who waits is in the schedule, and nobody else");
    request_queue_finish(&pretend->queue);
    request_queue_finish(&pretend->pending);
    device_close(pretend->device);
}

static inline struct engine_request *request(const char *id, void *stream, uint64_t deadline_ns)
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

static inline void wait_in_queue(struct pretend *pretend, void *stream, uint64_t arrived_ns,
                                 uint64_t deadline_ns)
{
    struct engine_request *waiting = request("r", stream, deadline_ns);
    waiting->arrived_ns = arrived_ns;
    pretend->n_listed++;
    cr_assert(request_queue_push(&pretend->queue, waiting));
}

static inline void expect_calls(struct pretend *pretend, const char *calls)
{
    cr_assert_str_eq(pretend->calls, calls);
    pretend->calls[0] = '\0';
}
