/* dispatch: a call that was refused for want of room leaves no mark on its request: neither an attempt that its tenant pays
 * for, nor a place in time where its wait ended, nor a hand-over. */
#include "router/dispatch/dispatch.c" /* what the core tells it is not reachable without workers */

#include <criterion/criterion.h>

static struct choice *new_choice(uint32_t n_attempts)
{
    struct choice *choice = calloc(1, sizeof *choice);
    cr_assert_not_null(choice);
    choice->n_attempts = n_attempts;
    choice->placed_ns = 7;
    snprintf(choice->context_worker, sizeof choice->context_worker, "c0:1");
    return choice;
}

Test(dispatch, a_refused_call_is_none)
{
    struct choice *choice = new_choice(1);
    refused(NULL, choice);
    cr_expect_eq(choice->n_attempts, 0);
    cr_expect_eq(choice->placed_ns, 0);
    cr_expect_str_empty(choice->context_worker);
    free(choice);
}

Test(dispatch, an_attempt_before_it_stays)
{
    struct choice *choice = new_choice(2);
    refused(NULL, choice);
    cr_expect_eq(choice->n_attempts, 1);
    cr_expect_eq(choice->placed_ns, 7);
    free(choice);
}

Test(dispatch, a_search_takes_blocks_for_each_beam)
{
    struct generation *generation = calloc(1, sizeof *generation);
    cr_assert_not_null(generation);
    struct sampling_params *params = &generation->sampling.params;
    generation->n_choices = 3;
    params->max_tokens = 100;
    cr_expect_eq(route_request_of(generation).max_tokens, 100);
    cr_expect_eq(generation_n_calls(generation), 3);
    params->beams.n_beams = 8;
    cr_expect_eq(route_request_of(generation).max_tokens, 800);
    cr_expect_eq(generation_n_calls(generation), 1);
    params->max_tokens = UINT32_MAX;
    cr_expect_eq(route_request_of(generation).max_tokens, UINT32_MAX);
    free(generation);
}
