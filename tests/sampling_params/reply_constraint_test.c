/* reply_constraint: each kind has the field of the public API, its bytes are those of its texts, and a copy of rules has texts of its own. */
#include "sampling_params/reply_constraint.h"
#include "sampling_params/token_rules.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const char *field(enum reply_constraint_kind kind)
{
    return reply_constraint_field(&(struct reply_constraint){.kind = kind});
}

Test(reply_constraint, each_kind_has_its_field)
{
    cr_expect_str_eq(field(REPLY_UNSET), "constraint");
    cr_expect_str_eq(field(REPLY_JSON_SCHEMA), "constraint.json_schema");
    cr_expect_str_eq(field(REPLY_JSON_OBJECT), "constraint.json_object");
    cr_expect_str_eq(field(REPLY_REGEX), "constraint.regex");
    cr_expect_str_eq(field(REPLY_GRAMMAR), "constraint.grammar");
    cr_expect_str_eq(field(REPLY_CHOICES), "constraint.choices");
}

Test(reply_constraint, its_bytes_are_those_of_its_texts)
{
    static const char *const TEXTS[] = {"yes", "", "\xc3\xa9"};
    cr_expect_eq(reply_constraint_bytes(&(struct reply_constraint){REPLY_CHOICES, 3, TEXTS}), 5);
    cr_expect_eq(reply_constraint_bytes(&(struct reply_constraint){.kind = REPLY_JSON_OBJECT}), 0);
}

Test(reply_constraint, a_copy_outlives_what_it_was_made_of)
{
    static const uint32_t ALLOWED[] = {7};
    char first[] = "yes", second[] = "no";
    const char *texts[] = {first, second, ""};
    const struct token_rules rules = {
        .n_allowed = 1, .allowed_ids = ALLOWED, .constraint = {REPLY_CHOICES, 3, texts}};
    struct token_rules *copy = token_rules_copy(&rules);
    cr_assert_not_null(copy);
    memset(first, '?', sizeof first - 1);
    texts[1] = NULL;
    cr_expect_eq(copy->constraint.kind, REPLY_CHOICES);
    cr_assert_eq(copy->constraint.n_texts, 3);
    cr_expect_str_eq(copy->constraint.texts[0], "yes");
    cr_expect_str_eq(copy->constraint.texts[1], "no");
    cr_expect_str_eq(copy->constraint.texts[2], "");
    cr_expect_eq(copy->allowed_ids[0], 7);
    free(copy);
}
