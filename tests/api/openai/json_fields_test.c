/* json_fields: members have the type and range that is asked for, or an error names them; the first error stays. */
#include "api/openai/json_fields.h"

#include <criterion/criterion.h>
#include <string.h>

static json_t *object;
static struct openai_error error;
static struct json_fields fields;

static void read_json(const char *text)
{
    json_error_t why;
    json_decref(object);
    object = json_loads(text, JSON_ALLOW_NUL, &why);
    cr_assert(json_is_object(object), "%s: %s", text, why.text);
    error = (struct openai_error){0};
    fields = (struct json_fields){object, "", &error};
}

static void forget(void)
{
    json_decref(object);
    object = NULL;
}

TestSuite(json_fields, .fini = forget);

Test(json_fields, absent_and_null_are_the_same_and_no_error)
{
    static const char *const TEXTS[] = {"{}", "{\"a\": null}"};
    for (size_t i = 0; i < 2; i++) {
        bool has = true, yes = true;
        double number = 5;
        json_int_t integer = 5;
        const char *text = "x";
        read_json(TEXTS[i]);
        cr_expect_null(json_field(&fields, "a"));
        cr_expect(json_field_number(&fields, "a", 0, 1, &has, &number) && !has && number == 5);
        has = true;
        cr_expect(json_field_integer(&fields, "a", 0, 1, &has, &integer) && !has && integer == 5);
        cr_expect(json_field_bool(&fields, "a", &yes) && yes);
        cr_expect(json_field_string(&fields, "a", &text) && !text);
        cr_expect_eq(error.code, 0);
    }
}

static bool takes_number(const char *value)
{
    char text[64];
    bool has;
    double number;
    snprintf(text, sizeof text, "{\"a\": %s}", value);
    read_json(text);
    return json_field_number(&fields, "a", -2, 2, &has, &number) && has;
}

Test(json_fields, numbers_within_their_bounds)
{
    static const char *const RIGHT[] = {"-2", "2", "0", "2.0", "-1.99", "1e-300"};
    static const char *const WRONG[] = {"-2.01", "3", "\"1\"", "true", "[1]", "{}", "1e300"};
    for (size_t i = 0; i < sizeof RIGHT / sizeof *RIGHT; i++)
        cr_expect(takes_number(RIGHT[i]), "%s: %s", RIGHT[i], error.message);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        cr_expect_not(takes_number(WRONG[i]), "%s", WRONG[i]);
        cr_expect_eq(error.code, 400);
        cr_expect_str_eq(error.param, "a");
        cr_expect_eq(strncmp(error.message, "a is ", 5), 0, "%s", error.message);
    }
}

static bool takes_integer(const char *value, json_int_t *out)
{
    char text[64];
    bool has;
    snprintf(text, sizeof text, "{\"a\": %s}", value);
    read_json(text);
    return json_field_integer(&fields, "a", INT64_MIN, 100, &has, out) && has;
}

Test(json_fields, whole_numbers_may_be_written_as_reals)
{
    json_int_t value;
    cr_expect(takes_integer("100", &value) && value == 100);
    cr_expect(takes_integer("7.0", &value) && value == 7);
    cr_expect(takes_integer("-1e2", &value) && value == -100);
    cr_expect(takes_integer("-9223372036854775808", &value) && value == INT64_MIN);
    static const char *const WRONG[] = {"101", "7.5", "1e18", "-1e300", "\"7\"", "false", "[]"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        cr_expect_not(takes_integer(WRONG[i], &value), "%s", WRONG[i]);
}

Test(json_fields, a_text_that_holds_nul_is_refused)
{
    const char *text;
    read_json("{\"a\": \"demo\\u0000x\", \"b\": \"demo\", \"c\": 5, \"d\": \"\"}");
    cr_expect_not(json_field_string(&fields, "a", &text));
    cr_expect_str_eq(error.message, "a holds U+0000");
    error = (struct openai_error){0};
    cr_expect(json_field_string(&fields, "b", &text) && strcmp(text, "demo") == 0);
    cr_expect(json_field_string(&fields, "d", &text) && strcmp(text, "") == 0);
    cr_expect_not(json_field_string(&fields, "c", &text));
    cr_expect_str_eq(error.message, "c is an integer; it must be a string");
    cr_expect_not(json_is_text(json_object_get(object, "a")));
    cr_expect_not(json_is_text(NULL));
}

Test(json_fields, the_first_error_stays_and_has_the_path)
{
    bool yes = false;
    const char *text = "x";
    read_json("{\"a\": 1, \"b\": true}");
    fields.path = "outer[3].";
    cr_expect_not(json_field_bool(&fields, "a", &yes));
    cr_expect_not(json_field_bool(&fields, "b", &yes), "it is over");
    cr_expect_not(yes);
    cr_expect_not(json_field_string(&fields, "c", &text));
    cr_expect_str_eq(error.param, "outer[3].a");
    cr_expect_str_eq(error.message, "outer[3].a is an integer; it must be true or false");
    cr_expect_str_eq(error.reason, "invalid_type");
}

Test(json_fields, a_sentence_is_cut_between_characters)
{
    static char word[2000];
    for (size_t i = 0; i + 2 < sizeof word; i += 2)
        memcpy(word + i, "\xc3\xa4", 2);
    read_json("{}");
    json_field_fail(&fields, "invalid_value", "a", "is %s", word);
    json_t *body = openai_error_json(&error);
    cr_expect_not_null(body, "it is UTF-8");
    json_decref(body);
}
