/* router_core: the choices of a request after the first have places that nobody else takes, and go where the first has the prompt;
 * when that worker is full or gone they go elsewhere. */
#include "tests/router/support/router_rig.h"

#include <criterion/criterion.h>
#include <string.h>

static const uint32_t PROMPT[64] = {1, 2, 3};

static enum status ask_beside(struct router_rig *rig, struct stream *stream, uint32_t beside)
{
    const struct route_request request = {.token_ids = PROMPT,
                                          .n_tokens = 64,
                                          .max_tokens = 8,
                                          .salt = "",
                                          .deadline_ns = DEADLINE_NONE,
                                          .is_reserved = true,
                                          .beside = beside};
    return router_core_generate(rig->core, stream, &request);
}

/* A first choice that has its first token. */
static uint32_t start_first(struct router_rig *rig, struct stream *first, uint32_t n_others)
{
    cr_assert_eq(router_core_reserve(rig->core, n_others), STATUS_OK);
    cr_assert_eq(router_rig_ask(rig, first, PROMPT, 64), STATUS_OK);
    cr_assert_eq(first->n_starts, 1);
    const uint32_t one = 1;
    router_core_tokens(rig->core, first->attempt, one, &one);
    uint32_t worker = router_core_place(rig->core, first);
    cr_assert_neq(worker, NOBODY);
    return worker;
}

Test(router_beside, choices_go_where_the_first_has_the_prompt_and_need_no_context_worker)
{
    struct router_rig rig = router_rig_open(3, 2, true);
    struct stream first = {0}, others[3] = {{0}};
    uint32_t worker = start_first(&rig, &first, 3);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(ask_beside(&rig, &others[i], worker), STATUS_OK);
        cr_assert_eq(others[i].n_starts, 1);
        cr_assert_str_eq(others[i].generation_worker, first.generation_worker);
        cr_assert_str_empty(others[i].context_worker);
    }
    router_rig_end(&rig, &first, STATUS_OK);
    cr_assert_eq(router_core_place(rig.core, &first), NOBODY, "it has ended");
    for (int i = 0; i < 3; i++)
        router_rig_end(&rig, &others[i], STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_beside, a_worker_that_fails_a_choice_is_not_asked_for_it_again)
{
    struct router_rig rig = router_rig_open(2, 1, true);
    struct stream first = {0}, other = {0};
    uint32_t worker = start_first(&rig, &first, 1);
    cr_assert_eq(ask_beside(&rig, &other, worker), STATUS_OK);
    router_rig_end(&rig, &other, STATUS_PEER_LOST);
    cr_assert_eq(other.n_starts, 2);
    cr_assert_str_neq(other.generation_worker, first.generation_worker);
    router_rig_end(&rig, &other, STATUS_OK);
    router_rig_end(&rig, &first, STATUS_OK);
    cr_assert_eq(other.status, STATUS_OK);
    router_core_destroy(rig.core);
}

Test(router_beside, reserved_places_are_nobody_elses)
{
    struct router_rig rig = router_rig_open(1, 1, true);
    struct stream first = {0}, late[STREAMS_MAX] = {{0}}, other = {0};
    cr_assert_eq(router_core_reserve(rig.core, STREAMS_MAX), STATUS_QUEUE_FULL);
    uint32_t worker = start_first(&rig, &first, STREAMS_MAX - 2);
    cr_assert_eq(router_core_reserve(rig.core, 1), STATUS_QUEUE_FULL, "and one for who reserves");
    cr_assert_eq(router_rig_ask(&rig, &late[0], PROMPT, 64), STATUS_OK);
    cr_assert_eq(router_rig_ask(&rig, &late[1], PROMPT, 64), STATUS_QUEUE_FULL);
    cr_assert_eq(ask_beside(&rig, &other, worker), STATUS_OK);
    router_core_unreserve(rig.core, STREAMS_MAX - 3);
    cr_assert_eq(router_rig_ask(&rig, &late[2], PROMPT, 64), STATUS_OK);
    router_rig_end(&rig, &late[0], STATUS_OK);
    router_rig_end(&rig, &late[2], STATUS_OK);
    router_rig_end(&rig, &other, STATUS_OK);
    router_rig_end(&rig, &first, STATUS_OK);
    router_core_destroy(rig.core);
}
