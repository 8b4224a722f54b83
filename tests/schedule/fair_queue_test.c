/* fair_queue: the least served comes first, idling saves nothing, and a heap gives its smallest. */
#include "base/random.h"
#include "schedule/fair_queue.h"
#include "schedule/fair_turns.h"

#include <criterion/criterion.h>

static struct fair_queue new_queue(uint32_t items_max)
{
    struct fair_queue queue;
    cr_assert_eq(fair_queue_init(&queue, items_max), STATUS_OK);
    return queue;
}

Test(fair_queue, the_waiting_of_a_tenant_stand_by_rank_then_by_arrival)
{
    struct fair_queue queue = new_queue(4);
    const int64_t ranks[] = {5, -1, 5, 2};
    const uint32_t wanted[] = {1, 3, 0, 2};
    for (uint32_t i = 0; i < 4; i++)
        fair_queue_join(&queue, i, 7, 1, ranks[i]);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t head = fair_queue_find(&queue, 7)->head;
        cr_assert_eq(head, wanted[i]);
        fair_queue_start(&queue, head);
    }
    cr_assert_eq(queue.n_waiting, 0);
    fair_queue_return(&queue, 0);
    fair_queue_return(&queue, 1);
    cr_assert_eq(fair_queue_find(&queue, 7)->head, 1);
    fair_queue_finish(&queue);
}

Test(fair_queue, who_comes_back_is_moved_up_to_the_clock)
{
    struct fair_queue queue = new_queue(4);
    fair_queue_join(&queue, 0, 'a', 2, 0);
    fair_queue_start(&queue, 0);
    fair_queue_charge(&queue, 0, 100);
    fair_queue_join(&queue, 1, 'a', 2, 0);
    fair_queue_start(&queue, 1); /* a turn at 100 tokens over 2 */
    fair_queue_join(&queue, 2, 'b', 1, 0);
    cr_assert_eq(fair_queue_key(fair_queue_find(&queue, 'b')),
                 fair_queue_key(fair_queue_find(&queue, 'a')));
    fair_queue_finish(&queue);
}

Test(fair_queue, idling_saves_nothing_and_no_debt_is_forgotten)
{
    struct fair_queue queue = new_queue(4);
    fair_queue_join(&queue, 0, 'a', 1, 0);
    fair_queue_join(&queue, 1, 'b', 1, 0);
    fair_queue_leave(&queue, 1, true); /* b idles at 0 */
    fair_queue_start(&queue, 0);
    fair_queue_charge(&queue, 0, 100);
    fair_queue_return(&queue, 0);
    fair_queue_start(&queue, 0); /* a turn at 100 */
    fair_queue_join(&queue, 1, 'b', 1, 0);
    uint64_t at_100 = fair_queue_key(fair_queue_find(&queue, 'b'));
    cr_assert_eq(at_100, fair_queue_key(fair_queue_find(&queue, 'a')));

    fair_queue_start(&queue, 1);
    fair_queue_charge(&queue, 1, 50);
    fair_queue_leave(&queue, 1, false);
    fair_queue_join(&queue, 1, 'b', 1, 0); /* ahead of the clock it stays */
    cr_assert_eq(fair_queue_key(fair_queue_find(&queue, 'b')), at_100 / 100 * 150);
    fair_queue_finish(&queue);
}

Test(fair_queue, a_tenant_is_forgotten_only_for_another_and_never_with_items)
{
    struct fair_queue queue = new_queue(2);
    fair_queue_join(&queue, 0, 'a', 1, 0);
    fair_queue_join(&queue, 1, 'b', 1, 0);
    fair_queue_start(&queue, 1);
    fair_queue_charge(&queue, 1, 10);
    fair_queue_leave(&queue, 1, false);
    cr_assert_not_null(fair_queue_find(&queue, 'b'));
    fair_queue_join(&queue, 1, 'c', 1, 0);
    cr_assert_null(fair_queue_find(&queue, 'b'));
    cr_assert_not_null(fair_queue_find(&queue, 'a'));
    fair_queue_finish(&queue);
}

Test(fair_queue, turns_come_out_smallest_first_whatever_is_moved)
{
    struct fair_turns turns = {0};
    struct random random;
    random_init(&random, 1);
    cr_assert_eq(fair_turns_init(&turns, 64), STATUS_OK);
    for (uint32_t i = 0; i < 64; i++)
        fair_turns_add(&turns, &(struct fair_turn){random_below(&random, 20), i, i});
    uint64_t last_key = 0;
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t key = fair_turns_first(&turns)->key;
        cr_assert_geq(key, last_key);
        last_key = key;
        fair_turns_move_first(&turns, key + random_below(&random, 9), i);
    }
    for (uint32_t i = 0; i < 64; i++) {
        cr_assert_geq(fair_turns_first(&turns)->key, last_key);
        last_key = fair_turns_first(&turns)->key;
        fair_turns_drop_first(&turns);
    }
    cr_assert_null(fair_turns_first(&turns));
    fair_turns_finish(&turns);
}
