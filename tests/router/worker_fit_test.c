/* worker_fit: a worker is used when it is of its role, ready, and of the same tokenizer and model;
 * otherwise the reason names what differs, on both sides. */
#include "router/worker_fit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define OURS   "0123456789abcdef0123456789abcdef"
#define THEIRS "fedcba9876543210fedcba9876543210"
#define SERVED "00112233445566778899aabbccddeeff"

static struct process_state state; /* too large for a stack */
static const struct worker_wanted WANTED = {
    .role = KVFERRY__V1__ROLE__ROLE_CONTEXT_WORKER,
    .tokenizer_digest = OURS,
    .model_digest = SERVED,
};

static void fitting_state(void)
{
    memset(&state, 0, sizeof state);
    state.role = WANTED.role;
    state.is_ready = true;
    state.model.vocabulary = 96;
    snprintf(state.model.tokenizer_digest, sizeof state.model.tokenizer_digest, OURS);
    snprintf(state.model.model_digest, sizeof state.model.model_digest, SERVED);
}

static void expect_reason(const struct worker_wanted *wanted, const char *expected)
{
    char reason[WORKER_REASON_MAX];
    memset(reason, 'x', sizeof reason);
    cr_assert_eq(worker_fits(wanted, &state, reason), expected[0] == '\0');
    cr_assert_str_eq(reason, expected);
}

Test(worker_fit, the_same_tokenizer_and_model_fit)
{
    fitting_state();
    expect_reason(&WANTED, "");
    struct worker_wanted any = WANTED;
    any.model_digest = NULL;
    snprintf(state.model.model_digest, sizeof state.model.model_digest, THEIRS);
    expect_reason(&any, "");
}

Test(worker_fit, another_tokenizer_or_model_is_named_on_both_sides)
{
    fitting_state();
    snprintf(state.model.model_digest, sizeof state.model.model_digest, THEIRS);
    expect_reason(&WANTED, "its model is " THEIRS ", not " SERVED);
    snprintf(state.model.tokenizer_digest, sizeof state.model.tokenizer_digest, THEIRS);
    expect_reason(&WANTED, "its tokenizer is " THEIRS ", not " OURS);
}

Test(worker_fit, a_folder_without_a_tokenizer_is_believed)
{
    fitting_state();
    state.model.tokenizer_digest[0] = '\0';
    expect_reason(&WANTED, "");
}

Test(worker_fit, what_is_not_ready_says_so_first)
{
    fitting_state();
    snprintf(state.model.tokenizer_digest, sizeof state.model.tokenizer_digest, THEIRS);
    state.is_ready = false;
    expect_reason(&WANTED, "no progress");
    state.model.vocabulary = 0;
    expect_reason(&WANTED, "loading");
    state.is_draining = true;
    expect_reason(&WANTED, "draining");
    state.role = KVFERRY__V1__ROLE__ROLE_GENERATION_WORKER;
    expect_reason(&WANTED, "serves another role");
}
