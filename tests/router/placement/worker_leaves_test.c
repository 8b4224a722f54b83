/* router_core: a worker that left gets nothing any more, what it has goes on, and who takes its place has none
 * of what was its. */
#include "tests/router/support/router_rig.h"

#include <criterion/criterion.h>

static struct router_rig open_rig(uint32_t wait_max)
{
    struct router_core_options options = router_rig_options(false, wait_max);
    options.workers_max = 4;
    return router_rig_create(&options);
}

static enum status ask(struct router_rig *rig, struct stream *stream, const uint32_t *tokens)
{
    *stream = (struct stream){0};
    return router_rig_ask(rig, stream, tokens, PROMPT_TOKENS_MAX);
}

static const uint32_t PROMPT[PROMPT_TOKENS_MAX] = {1, 2, 3};
static const uint32_t OTHER[PROMPT_TOKENS_MAX] = {9, 9, 9};

Test(worker_leaves, gets_nothing_more_and_its_calls_go_on_to_their_end)
{
    struct router_rig rig = open_rig(0);
    struct stream first, second, third;
    uint32_t one = 1;
    router_rig_join(&rig, WORKER_GENERATION, "g0");
    uint32_t context = router_rig_join(&rig, WORKER_CONTEXT, "c0");
    cr_assert_eq(ask(&rig, &first, PROMPT), STATUS_OK);
    router_rig_join(&rig, WORKER_CONTEXT, "c1");
    router_core_remove_worker(rig.core, context);
    cr_assert_eq(router_core_n_ready(rig.core, WORKER_CONTEXT), 1);
    cr_assert_eq(router_core_n_pairs(rig.core), 1);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ask(&rig, &second, PROMPT), STATUS_OK);
        cr_assert_str_eq(second.context_worker, "c1");
        router_rig_end(&rig, &second, STATUS_OK);
    }
    router_core_tokens(rig.core, first.attempt, 1, &one);
    router_rig_end(&rig, &first, STATUS_OK);
    cr_assert_eq(first.n_finishes, 1);
    cr_assert_eq(first.status, STATUS_OK);
    cr_assert_eq(ask(&rig, &third, PROMPT), STATUS_OK);
    cr_assert_str_eq(third.context_worker, "c1", "the end of its call brought nothing back");
    router_core_destroy(rig.core);
}

Test(worker_leaves, what_it_had_cached_is_forgotten)
{
    struct router_rig rig = open_rig(0);
    struct stream stream;
    struct router_core_stats stats;
    router_rig_join(&rig, WORKER_GENERATION, "g0");
    uint32_t context = router_rig_join(&rig, WORKER_CONTEXT, "c0");
    cr_assert_eq(ask(&rig, &stream, PROMPT), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_OK);
    router_core_remove_worker(rig.core, context);
    cr_assert_eq(router_rig_join(&rig, WORKER_CONTEXT, "c1"), context, "its place is used again");
    router_rig_join(&rig, WORKER_CONTEXT, "c2");

    /* One request of load is less than the prompt: c1 would be chosen if it knew that. */
    router_core_report(rig.core, context, &(struct worker_report){.is_ready = true, .running = 1});
    cr_assert_eq(ask(&rig, &stream, PROMPT), STATUS_OK);
    cr_assert_str_eq(stream.context_worker, "c2");
    router_core_read_stats(rig.core, &stats);
    cr_assert_eq(stats.placed_by_prefix, 1, "g0 stayed, and knows it");
    router_core_destroy(rig.core);
}

Test(worker_leaves, its_place_is_taken_only_when_no_call_is_on_it)
{
    struct router_rig rig = open_rig(0);
    struct stream stream;
    uint32_t worker;
    router_rig_join(&rig, WORKER_GENERATION, "g0");
    uint32_t context = router_rig_join(&rig, WORKER_CONTEXT, "c0");
    cr_assert_eq(ask(&rig, &stream, PROMPT), STATUS_OK);
    router_core_remove_worker(rig.core, context);
    cr_assert_neq(router_rig_join(&rig, WORKER_CONTEXT, "c0"), context,
                  "the same address, another life");
    router_rig_join(&rig, WORKER_CONTEXT, "c1");
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_CONTEXT, "c2", &worker),
                 STATUS_QUEUE_FULL);
    router_rig_end(&rig, &stream, STATUS_OK);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_CONTEXT, "c2", &worker), STATUS_OK);
    cr_assert_eq(worker, context);
    cr_assert_eq(router_core_add_worker(rig.core, WORKER_CONTEXT, "c2", &worker),
                 STATUS_INVALID_ARGUMENT);
    router_core_destroy(rig.core);
}

Test(worker_leaves, who_takes_its_place_fits_and_was_not_tried)
{
    struct router_rig rig = open_rig(0);
    struct stream stream;
    uint32_t generation = router_rig_join(&rig, WORKER_GENERATION, "g0");
    uint32_t context = router_rig_join(&rig, WORKER_CONTEXT, "c0");
    uint32_t other = router_rig_join(&rig, WORKER_CONTEXT, "c1");
    router_core_set_fit(rig.core, generation, other, false);
    cr_assert_eq(ask(&rig, &stream, PROMPT), STATUS_OK);
    cr_assert_str_eq(stream.context_worker, "c0");
    router_core_remove_worker(rig.core, other);
    cr_assert_eq(router_rig_join(&rig, WORKER_CONTEXT, "c2"), other);
    router_rig_end(&rig, &stream, STATUS_TRANSFER_FAILED);
    cr_assert_str_eq(stream.context_worker, "c2", "it fits, and c0 was tried");
    router_core_remove_worker(rig.core, context);
    cr_assert_eq(router_rig_join(&rig, WORKER_CONTEXT, "c3"), context);
    router_rig_end(&rig, &stream, STATUS_TRANSFER_FAILED);
    cr_assert_str_eq(stream.context_worker, "c3", "in the place of one that was tried");
    router_rig_end(&rig, &stream, STATUS_TRANSFER_FAILED);
    cr_assert_eq(stream.n_starts, 3);
    cr_assert_eq(stream.status, STATUS_TRANSFER_FAILED);
    router_core_destroy(rig.core);
}

Test(worker_leaves, requests_wait_for_another_one)
{
    struct router_rig rig = open_rig(4);
    struct stream stream;
    router_rig_join(&rig, WORKER_GENERATION, "g0");
    uint32_t context = router_rig_join(&rig, WORKER_CONTEXT, "c0");
    router_core_remove_worker(rig.core, context);
    cr_assert_eq(router_core_lacks(rig.core), STATUS_NO_CONTEXT_WORKER);
    cr_assert_eq(ask(&rig, &stream, PROMPT), STATUS_OK);
    cr_assert_eq(stream.n_starts, 0);
    router_rig_join(&rig, WORKER_CONTEXT, "c1");
    cr_assert_eq(stream.n_starts, 1);
    cr_assert_str_eq(stream.context_worker, "c1");
    router_core_destroy(rig.core);
}

Test(worker_leaves, equals_take_turns)
{
    struct router_rig rig = open_rig(0);
    struct stream stream;
    uint32_t tokens[PROMPT_TOKENS_MAX] = {0};
    uint32_t n_first = 0;
    router_rig_join(&rig, WORKER_GENERATION, "g0");
    router_rig_join(&rig, WORKER_CONTEXT, "c0");
    router_rig_join(&rig, WORKER_CONTEXT, "c1");
    cr_assert_eq(ask(&rig, &stream, OTHER), STATUS_OK);
    router_rig_end(&rig, &stream, STATUS_NO_BLOCKS);
    router_rig_end(&rig, &stream, STATUS_NO_BLOCKS);
    for (uint32_t i = 0; i < 12; i++) {
        tokens[0] = 100 + i;
        cr_assert_eq(ask(&rig, &stream, tokens), STATUS_OK);
        n_first += stream.context_worker[1] == '0';
        router_rig_end(&rig, &stream, STATUS_CANCELLED);
    }
    cr_assert_eq(n_first, 6);
    router_core_destroy(rig.core);
}
