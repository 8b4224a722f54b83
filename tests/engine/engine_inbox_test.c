/* engine_inbox: streams and counted messages have separate bounds, messages that must not fail always have room, and drain and
 * stop need none. */
#include "base/clock.h"
#include "engine/engine_inbox.h"

#include <criterion/criterion.h>

static const struct engine_inbox_bounds BOUNDS = {
    .streams_max = 2, .counted_max = 1, .others_max = 3};

static void open_inbox(struct engine_inbox *inbox)
{
    cr_assert_eq(engine_inbox_init(inbox, sizeof(uint32_t), &BOUNDS), STATUS_OK);
}

static uint32_t take(struct engine_inbox *inbox)
{
    uint32_t message;
    cr_assert(engine_inbox_take(inbox, &message));
    return message;
}

Test(engine_inbox, messages_come_in_order_whatever_their_kind)
{
    struct engine_inbox inbox = {0};
    open_inbox(&inbox);
    cr_assert(engine_inbox_is_empty(&inbox));
    cr_assert_eq(engine_inbox_post_stream(&inbox, &(uint32_t){1}), STATUS_OK);
    cr_assert_eq(engine_inbox_post_counted(&inbox, &(uint32_t){2}), STATUS_OK);
    engine_inbox_post(&inbox, &(uint32_t){3});
    cr_assert_not(engine_inbox_is_empty(&inbox));
    for (uint32_t i = 1; i <= 3; i++)
        cr_assert_eq(take(&inbox), i);
    cr_assert_not(engine_inbox_take(&inbox, &(uint32_t){0}));
    engine_inbox_finish(&inbox);
}

Test(engine_inbox, a_stream_counts_until_it_is_forgotten)
{
    struct engine_inbox inbox = {0};
    open_inbox(&inbox);
    cr_assert_eq(engine_inbox_post_stream(&inbox, &(uint32_t){1}), STATUS_OK);
    cr_assert_eq(engine_inbox_post_stream(&inbox, &(uint32_t){2}), STATUS_OK);
    cr_assert_eq(engine_inbox_post_stream(&inbox, &(uint32_t){3}), STATUS_QUEUE_FULL);
    take(&inbox);
    cr_assert_eq(engine_inbox_post_stream(&inbox, &(uint32_t){3}), STATUS_QUEUE_FULL);
    engine_inbox_forget_stream(&inbox);
    cr_assert_eq(engine_inbox_post_stream(&inbox, &(uint32_t){3}), STATUS_OK);
    cr_assert_eq(take(&inbox), 2, "a refused one was not posted");
    cr_assert_eq(take(&inbox), 3);
    engine_inbox_finish(&inbox);
}

Test(engine_inbox, a_counted_message_counts_until_it_is_taken)
{
    struct engine_inbox inbox = {0};
    open_inbox(&inbox);
    cr_assert_eq(engine_inbox_post_counted(&inbox, &(uint32_t){1}), STATUS_OK);
    cr_assert_eq(engine_inbox_post_counted(&inbox, &(uint32_t){2}), STATUS_QUEUE_FULL);
    cr_assert_eq(engine_inbox_post_stream(&inbox, &(uint32_t){3}), STATUS_OK, "counted apart");
    take(&inbox);
    engine_inbox_taken_counted(&inbox);
    cr_assert_eq(engine_inbox_post_counted(&inbox, &(uint32_t){2}), STATUS_OK);
    engine_inbox_finish(&inbox);
}

Test(engine_inbox, has_room_for_all_that_must_not_fail, .timeout = 30)
{
    struct engine_inbox inbox = {0};
    uint32_t n = 4 * BOUNDS.streams_max + BOUNDS.counted_max + BOUNDS.others_max;
    open_inbox(&inbox);
    for (uint32_t i = 0; i < n; i++)
        engine_inbox_post(&inbox, &i);
    for (uint32_t i = 0; i < n; i++)
        cr_assert_eq(take(&inbox), i);
    engine_inbox_finish(&inbox);
}

Test(engine_inbox, wishes_stay_and_wake, .timeout = 30)
{
    struct engine_inbox inbox = {0};
    open_inbox(&inbox);
    cr_assert_not(engine_inbox_wants_drain(&inbox));
    engine_inbox_drain(&inbox);
    engine_inbox_wait(&inbox, DEADLINE_NONE);
    cr_assert(engine_inbox_wants_drain(&inbox));
    cr_assert_not(engine_inbox_wants_stop(&inbox));
    engine_inbox_stop(&inbox);
    engine_inbox_wait(&inbox, DEADLINE_NONE);
    cr_assert(engine_inbox_wants_stop(&inbox));
    cr_assert(engine_inbox_wants_drain(&inbox));
    engine_inbox_wake(&inbox);
    engine_inbox_wait(&inbox, DEADLINE_NONE);
    engine_inbox_finish(&inbox);
}

Test(engine_inbox, finish_takes_a_zeroed_one)
{
    struct engine_inbox inbox = {0};
    engine_inbox_finish(&inbox);
}
