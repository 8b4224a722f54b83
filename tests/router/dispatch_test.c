/* dispatch: a call that was refused for want of room leaves no mark on its request: neither an attempt that its tenant pays
 * for, nor a place in time where its wait ended, nor a hand-over. */
#include "router/dispatch.c" /* what the core tells it is not reachable without workers */

#include <criterion/criterion.h>

static struct generation *new_generation(uint32_t n_attempts)
{
    struct generation *generation = calloc(1, sizeof *generation);
    cr_assert_not_null(generation);
    generation->n_attempts = n_attempts;
    generation->placed_ns = 7;
    snprintf(generation->context_worker, sizeof generation->context_worker, "c0:1");
    return generation;
}

Test(dispatch, a_refused_call_is_none)
{
    struct generation *generation = new_generation(1);
    refused(NULL, generation);
    cr_expect_eq(generation->n_attempts, 0);
    cr_expect_eq(generation->placed_ns, 0);
    cr_expect_str_empty(generation->context_worker);
    free(generation);
}

Test(dispatch, an_attempt_before_it_stays)
{
    struct generation *generation = new_generation(2);
    refused(NULL, generation);
    cr_expect_eq(generation->n_attempts, 1);
    cr_expect_eq(generation->placed_ns, 7);
    free(generation);
}
