/* constraint_request: what is wrong is said with the field and the value before any worker is asked; a worker's sentence gives its field back. */
#include "router/requests/constraint_request.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const struct constraint_limits LIMITS = {
    .bytes_max = 96, .grammar_bytes_max = 48, .choices_max = 2};

static struct rpc_error error;

static enum status check(enum reply_constraint_kind kind, uint32_t n, const char *const *texts)
{
    const struct reply_constraint asked = {kind, n, texts};
    error = (struct rpc_error){.status = STATUS_OK};
    return constraint_request_check(&asked, &LIMITS, &error);
}

static enum status check_one(enum reply_constraint_kind kind, const char *text)
{
    return check(kind, 1, &text);
}

static void expect_fault(enum status status, const char *field, const char *value, const char *says)
{
    cr_assert_eq(status, STATUS_INVALID_ARGUMENT, "%s", error.message);
    cr_assert_eq(error.status, STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.field, field);
    cr_assert_eq(strncmp(error.value, value, strlen(value)), 0, "%s", error.value);
    cr_assert_eq(strncmp(error.message, field, strlen(field)), 0, "%s", error.message);
    cr_assert_not_null(strstr(error.message, says), "%s", error.message);
}

Test(constraint_request, each_kind_passes)
{
    static const char *const CHOICES[] = {"yes", "no"};
    cr_expect_eq(check_one(REPLY_JSON_SCHEMA, "{\"type\": \"integer\"}"), STATUS_OK, "%s",
                 error.message);
    cr_expect_eq(check_one(REPLY_REGEX, "a+"), STATUS_OK, "%s", error.message);
    cr_expect_eq(check_one(REPLY_GRAMMAR, "start: \"a\""), STATUS_OK, "%s", error.message);
    cr_expect_eq(check(REPLY_CHOICES, 2, CHOICES), STATUS_OK, "%s", error.message);
    cr_expect_eq(check(REPLY_JSON_OBJECT, 0, NULL), STATUS_OK, "%s", error.message);
}

Test(constraint_request, a_fault_has_its_field_and_value)
{
    static const char *const THREE[] = {"yes", "no", "maybe"};
    static const char *const LONG[] = {"01234567890123456789012345678901234567890123456789012345678"
                                       "90123456789012345678901234567890123",
                                       "yes"};
    expect_fault(check_one(REPLY_JSON_SCHEMA, "{\"type\": 1"), "sampling.constraint.json_schema",
                 "{\"type\": 1", "JSON");
    expect_fault(check_one(REPLY_REGEX, "0123456789012345678901234567890123456789012345678901234567"
                                        "89abcdef"
                                        "x"),
                 "sampling.constraint.regex", "01234",
                 "it has 67 bytes; at most 48 are taken (constraint_grammar_bytes_max)");
    expect_fault(check_one(REPLY_GRAMMAR, "\xff"), "sampling.constraint.grammar", "", "UTF-8");
    expect_fault(check(REPLY_CHOICES, 3, THREE), "sampling.constraint.choices", "yes",
                 "there are 3 choices; at most 2 are taken (constraint_choices_max)");
    expect_fault(check(REPLY_CHOICES, 2, LONG), "sampling.constraint.choices", "0123",
                 "it has 97 bytes; at most 96 are taken (constraint_bytes_max)");
}

Test(constraint_request, of_choices_the_wrong_one_is_the_value)
{
    static const char *const CHOICES[] = {"yes", "\x01\xff"};
    expect_fault(check(REPLY_CHOICES, 2, CHOICES), "sampling.constraint.choices", "", "choice 1");
    cr_expect_str_neq(error.value, "yes");
}

Test(constraint_request, the_field_of_a_workers_sentence)
{
    char field[64];
    cr_expect(
        constraint_request_field("sampling.constraint.regex: no such group", field, sizeof field));
    cr_expect_str_eq(field, "sampling.constraint.regex");
    cr_expect(
        constraint_request_field("sampling.constraint, after 3 tokens: none", field, sizeof field));
    cr_expect_str_eq(field, "sampling.constraint");
    cr_expect_not(constraint_request_field("sampling leaves no token", field, sizeof field));
    cr_expect_not(constraint_request_field("", field, sizeof field));
}
