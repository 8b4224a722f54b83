/* json_text: what tools write into a model's folder parses, absurd integers too; the rest is refused
 * with file, line and column. */
#include "base/json_text.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#define NO_LIMIT "1000000000000000019884624838656"

static enum status parse(const char *text, size_t flags, json_t **root_out, struct error *error)
{
    *error = (struct error){""};
    *root_out = NULL;
    return json_text_parse(text, strlen(text), "a.json", flags, root_out, error);
}

Test(json_text, an_integer_beyond_64_bits_is_a_large_number)
{
    json_t *root;
    struct error error;
    cr_assert_eq(parse("{\"model_max_length\": " NO_LIMIT ", \"n\": 7}", 0, &root, &error),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(json_number_value(json_object_get(root, "model_max_length")), 1e30);
    cr_assert_eq(json_number_value(json_object_get(root, "n")), 7);
    json_decref(root);
    cr_assert_eq(parse("[-" NO_LIMIT ", 9223372036854775808]", 0, &root, &error), STATUS_OK);
    cr_assert_eq(json_number_value(json_array_get(root, 0)), -1e30);
    json_decref(root);
}

Test(json_text, integers_that_fit_stay_exact)
{
    json_t *root;
    struct error error;
    cr_assert_eq(parse("[9223372036854775807, 9007199254740993]", 0, &root, &error), STATUS_OK);
    cr_assert_eq(json_integer_value(json_array_get(root, 0)), INT64_MAX);
    cr_assert_eq(json_integer_value(json_array_get(root, 1)), 9007199254740993);
    json_decref(root);
}

Test(json_text, what_is_no_json_is_refused_with_its_place)
{
    static const struct {
        const char *text, *part;
    } CASES[] = {
        {"", "line 1"},
        {"{\"a\": 1", "line 1, column 7"},
        {"{\"a\": 1,\n\"b\": NaN,}", "line 2, column 8: invalid token near 'NaN'"},
        {"{\"a\": Infinitys}", "near 'Infinitys'"},
        {"{\"a\": -NaN}", "near '-'"},
        {"{NaN: 1}", "near 'NaN'"},
        {"{\"a\": 1e999}", "near '1e999'"},
        {"{\"a\": " NO_LIMIT ", \"b\": 1e999}", "near '1e999'"},
        {"{\"a\": 1, \"a\": 2}", "duplicate object key near '\"a\"'"},
        {"{} // said", "end of file expected"},
        {"{\"a\": \"\xff\"}", "byte 0xff"},
        {"\xef\xbb\xbf{}", "byte order mark"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        json_t *root;
        struct error error;
        cr_expect_eq(parse(CASES[i].text, 0, &root, &error), STATUS_CORRUPT, "case %zu", i);
        cr_expect_null(root);
        cr_expect(strstr(error.text, "a.json is not JSON: "), "%s", error.text);
        cr_expect(strstr(error.text, CASES[i].part), "case %zu: %s", i, error.text);
    }
}

Test(json_text, what_python_writes_for_no_number_is_a_text_of_that_name)
{
    json_t *root;
    struct error error;
    cr_assert_eq(parse("{\"a\": NaN, \"b\": [Infinity,-Infinity], \"NaN \\\"\": \"\\\\\", "
                       "\"c\": \"NaN\\\" Infinity\", \"d\": " NO_LIMIT "}",
                       0, &root, &error),
                 STATUS_OK, "%s", error.text);
    json_t *list = json_object_get(root, "b");
    cr_expect_str_eq(json_string_value(json_object_get(root, "a")), "NaN");
    cr_expect_str_eq(json_string_value(json_array_get(list, 0)), "Infinity");
    cr_expect_str_eq(json_string_value(json_array_get(list, 1)), "-Infinity");
    cr_expect_str_eq(json_string_value(json_object_get(root, "NaN \"")), "\\");
    cr_expect_str_eq(json_string_value(json_object_get(root, "c")), "NaN\" Infinity");
    cr_expect_eq(json_number_value(json_object_get(root, "d")), 1e30);
    cr_expect(json_text_is_constant("-Infinity") && !json_text_is_constant("nan"));
    cr_expect_not(json_text_is_constant(NULL));
    json_decref(root);
}

Test(json_text, a_nul_is_json_and_is_not_called_anything_else)
{
    static const struct {
        const char *text, *sentence;
    } CASES[] = {
        {"{\"a\": \"\\u0000\"}",
         "a.json has a text with U+0000, which is not supported: line 1, column 14"},
        {"{\"\\u0000\": 1}",
         "a.json has a key with U+0000, which is not supported: line 1, column 9"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        json_t *root;
        struct error error;
        cr_expect_eq(parse(CASES[i].text, 0, &root, &error), STATUS_UNSUPPORTED, "case %zu", i);
        cr_expect_str_eq(error.text, CASES[i].sentence);
    }
}

Test(json_text, a_nul_passes_where_the_reader_knows_lengths)
{
    json_t *root;
    struct error error;
    cr_assert_eq(parse("[\"a\\u0000b\"]", JSON_ALLOW_NUL, &root, &error), STATUS_OK);
    cr_assert_eq(json_string_length(json_array_get(root, 0)), 3);
    json_decref(root);
}
