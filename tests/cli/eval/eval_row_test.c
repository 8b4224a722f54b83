/* eval_row and eval_totals: against sums written out, and against what must hold for any rows. */
#include "cli/eval/eval_totals.h"

#include <criterion/criterion.h>
#include <math.h>

#define EXPECT_NEAR(is, wanted) cr_expect_float_eq(is, wanted, 1e-12, "%.17g", (double)(is))

Test(eval_row, a_row_is_a_distribution)
{
    const float logits[] = {0.0F, logf(2.0F), logf(5.0F)};
    double sum = 0.0;

    for (uint32_t token = 0; token < 3; token++) {
        const struct eval_row row = eval_row_of(logits, 3, token);
        cr_expect(row.is_finite);
        cr_expect_eq(row.likeliest, 2);
        sum += exp(row.log_probability);
    }
    EXPECT_NEAR(sum, 1.0);
    cr_expect_float_eq(eval_row_of(logits, 3, 1).log_probability, log(0.25), 1e-7);
}

Test(eval_row, rows_of_any_height_are_the_same_distribution)
{
    const float low[] = {-1e30F, -1e30F}, high[] = {1000.0F, 1001.0F}, other[] = {0.0F, 1.0F};
    EXPECT_NEAR(eval_row_of(low, 2, 0).log_probability, log(0.5));
    EXPECT_NEAR(eval_row_of(high, 2, 1).log_probability, eval_row_of(other, 2, 1).log_probability);
    cr_expect_eq(eval_row_of(low, 2, 1).likeliest, 0); /* the lowest id of equals */
}

Test(eval_row, rows_that_are_not_finite_say_so)
{
    const float bad[][2] = {{NAN, 0.0F}, {0.0F, NAN}, {INFINITY, 0.0F}, {0.0F, -INFINITY}},
                good[] = {0.0F, 1.0F};
    for (unsigned i = 0; i < 4; i++) {
        cr_expect_not(eval_row_of(bad[i], 2, 0).is_finite);
        cr_expect_not(eval_pair_of(bad[i], good, 2, 0).row.is_finite);
        const struct eval_pair pair = eval_pair_of(good, bad[i], 2, 0);
        cr_expect(pair.row.is_finite && !pair.reference.is_finite);
    }
}

Test(eval_row, divergence_is_from_the_reference)
{
    const float q[] = {logf(1.0F), logf(3.0F)}, p[] = {logf(1.0F), logf(1.0F)};
    const struct eval_pair pair = eval_pair_of(q, p, 2, 0);
    cr_expect_float_eq(pair.divergence, 0.5 * log(0.5 / 0.25) + 0.5 * log(0.5 / 0.75), 1e-7);
    EXPECT_NEAR(eval_pair_of(p, p, 2, 0).divergence, 0.0);
    cr_expect_gt(eval_pair_of(p, q, 2, 0).divergence, 0.0);
}

Test(eval_totals, sums_become_what_is_printed)
{
    struct eval_totals totals = {.has_reference = true};
    for (int i = 1; i <= 200; i++) {
        const struct eval_pair pair = {.row = {log(0.25), (uint32_t)(i % 2), true},
                                       .reference = {log(0.5), 0, true},
                                       .divergence = (201 - i) / 100.0};
        cr_assert_eq(eval_totals_add(&totals, &pair), STATUS_OK);
    }
    json_t *facts = eval_totals_json(&totals, 400);
    cr_assert_not_null(facts);
    EXPECT_NEAR(json_number_value(json_object_get(facts, "perplexity")), 4.0);
    EXPECT_NEAR(json_number_value(json_object_get(facts, "reference_perplexity")), 2.0);
    EXPECT_NEAR(json_number_value(json_object_get(facts, "bits_per_byte")), 1.0);
    EXPECT_NEAR(json_number_value(json_object_get(facts, "same_token")), 0.5);
    const json_t *divergence = json_object_get(facts, "divergence");
    EXPECT_NEAR(json_number_value(json_object_get(divergence, "mean")), 1.005);
    EXPECT_NEAR(json_number_value(json_object_get(divergence, "p99")), 1.98);
    EXPECT_NEAR(json_number_value(json_object_get(divergence, "max")), 2.0);
    const json_t *difference = json_object_get(facts, "log_probability_difference");
    EXPECT_NEAR(json_number_value(json_object_get(difference, "max")), log(2.0));
    json_decref(facts);
    eval_totals_finish(&totals);
    cr_expect_null(eval_totals_json(&totals, 1)); /* no tokens */
}
