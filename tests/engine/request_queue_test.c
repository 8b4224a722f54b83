/* request_queue: it keeps the order of arrival, it is bounded, and no request waits longer than its limit. */
#include "base/clock.h"
#include "engine/request_queue.h"

#include <criterion/criterion.h>

enum { PLACES = 3, WAIT_LIMIT_NS = 1000 };

static int streams[8];

static struct engine_request *make(const char *request_id, int *stream, uint64_t arrived_ns,
                                   uint64_t deadline_ns)
{
    static const uint32_t TOKENS[] = {1, 2, 3};
    const struct engine_request_input input = {.request_id = request_id,
                                               .token_ids = TOKENS,
                                               .n_tokens = 1 + (uint32_t)(stream - streams),
                                               .sampling = &SAMPLING_GREEDY,
                                               .deadline_ns = deadline_ns};
    struct engine_request *request;
    cr_assert_eq(engine_request_create(sizeof *request, &input, stream, NULL, &request), STATUS_OK);
    request->arrived_ns = arrived_ns;
    return request;
}

/* "a", "b" and "c" came at 10, 20 and 30. */
static void fill(struct request_queue *queue, uint64_t deadline_of_b_ns)
{
    cr_assert_eq(request_queue_init(queue, PLACES, WAIT_LIMIT_NS), STATUS_OK);
    cr_assert(request_queue_push(queue, make("a", &streams[0], 10, DEADLINE_NONE)));
    cr_assert(request_queue_push(queue, make("b", &streams[1], 20, deadline_of_b_ns)));
    cr_assert(request_queue_push(queue, make("c", &streams[2], 30, DEADLINE_NONE)));
}

static void expect(struct engine_request *request, const char *request_id)
{
    cr_assert(request);
    cr_assert_str_eq(request->request_id, request_id);
    engine_request_destroy(request);
}

Test(request_queue, keeps_the_order_and_its_bound)
{
    struct request_queue queue;
    fill(&queue, DEADLINE_NONE);
    struct engine_request *fourth = make("d", &streams[3 - 1], 40, DEADLINE_NONE);
    cr_assert_not(request_queue_push(&queue, fourth));
    cr_assert_not(request_queue_has(&queue, "d"));
    engine_request_destroy(fourth);
    cr_assert_eq(request_queue_tokens(&queue), 1 + 2 + 3);
    cr_assert_str_eq(request_queue_at(&queue, 2)->request_id, "c");
    expect(request_queue_pop(&queue), "a");
    expect(request_queue_pop(&queue), "b");
    expect(request_queue_pop(&queue), "c");
    cr_assert_null(request_queue_pop(&queue));
    cr_assert_eq(request_queue_tokens(&queue), 0);
    request_queue_finish(&queue);
}

Test(request_queue, who_is_named_leaves)
{
    struct request_queue queue;
    fill(&queue, DEADLINE_NONE);
    cr_assert(request_queue_has(&queue, "b"));
    expect(request_queue_remove_request(&queue, "b"), "b");
    cr_assert_null(request_queue_remove_request(&queue, "b"));
    expect(request_queue_remove_stream(&queue, &streams[0]), "a");
    cr_assert_null(request_queue_remove_stream(&queue, &streams[1]));
    cr_assert_null(request_queue_remove_at(&queue, 1));
    cr_assert_eq(request_queue_count(&queue), 1);
    cr_assert(request_queue_push(&queue, make("d", &streams[1], 40, DEADLINE_NONE)));
    request_queue_at(&queue, 0)->schedule_id = 7;
    request_queue_at(&queue, 1)->schedule_id = 5;
    cr_assert_null(request_queue_find(&queue, 6));
    struct engine_request *middle = request_queue_find(&queue, 7);
    request_queue_remove(&queue, middle);
    expect(middle, "c");
    cr_assert_str_eq(request_queue_at(&queue, 0)->request_id, "d");
    request_queue_finish(&queue); /* with one in it */
}

Test(request_queue, who_is_known_leaves)
{
    struct request_queue queue;
    fill(&queue, DEADLINE_NONE);
    struct engine_request *second = request_queue_at(&queue, 1);
    request_queue_remove(&queue, second);
    engine_request_destroy(second);
    cr_assert_not(request_queue_has(&queue, "b"));
    expect(request_queue_pop(&queue), "a");
    expect(request_queue_pop(&queue), "c");
    request_queue_finish(&queue);
}

Test(request_queue, who_waited_too_long_or_is_late_leaves)
{
    struct request_queue queue;
    fill(&queue, 500);
    cr_assert_eq(request_queue_next_expiry_ns(&queue), 500, "the deadline of b");
    cr_assert_null(request_queue_remove_expired(&queue, 499));
    expect(request_queue_remove_expired(&queue, 500), "b");
    cr_assert_null(request_queue_remove_expired(&queue, 500));
    cr_assert_eq(request_queue_next_expiry_ns(&queue), 10 + WAIT_LIMIT_NS);
    expect(request_queue_remove_expired(&queue, 30 + WAIT_LIMIT_NS), "c");
    expect(request_queue_remove_expired(&queue, 30 + WAIT_LIMIT_NS), "a");
    cr_assert_eq(request_queue_next_expiry_ns(&queue), DEADLINE_NONE);
    request_queue_finish(&queue);
}

Test(request_queue, who_waits_for_its_own_blocks_does_not_expire_meanwhile)
{
    struct request_queue queue;
    fill(&queue, 1500);
    for (uint32_t i = 0; i < 2; i++)
        request_queue_at(&queue, i)->held_until_ns = 2000;
    cr_assert_eq(request_queue_next_expiry_ns(&queue), 30 + WAIT_LIMIT_NS);
    expect(request_queue_remove_expired(&queue, 1400), "c");
    cr_assert_null(request_queue_remove_expired(&queue, 1400));
    expect(request_queue_remove_expired(&queue, 1500), "b"); /* its deadline */
    cr_assert_null(request_queue_remove_expired(&queue, 1999));
    request_queue_at(&queue, 0)->held_until_ns = 0;
    expect(request_queue_remove_expired(&queue, 1999), "a");
    request_queue_finish(&queue);
}
