/* stop_strings: the text before the first stop string leaves, however the text is cut into pieces. */
#include "base/random.h"
#include "router/requests/stop_strings.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void add(struct stop_strings *stops, const char *text)
{
    stop_strings_add(stops, text, strlen(text));
}

/* Pushes text in pieces of at most piece bytes (0: random ones); returns all that left. */
static void feed(struct stop_strings *stops, const char *text, size_t piece, struct random *random,
                 char out[512])
{
    size_t n = 0;
    for (size_t at = 0; at < strlen(text);) {
        size_t bytes = piece ? piece : 1 + random_below(random, 7);
        if (bytes > strlen(text) - at)
            bytes = strlen(text) - at;
        n += stop_strings_push(stops, text + at, bytes, out + n);
        at += bytes;
    }
    if (!stops->is_found)
        n += stop_strings_finish(stops, out + n);
    out[n] = '\0';
}

static const struct {
    const char *text;
    const char *stops[3];
    const char *expected;
    bool is_found;
} CASES[] = {
    {"in the beginning", {"the"}, "in ", true},
    {"in the beginning", {"then"}, "in the beginning", false},
    {"in the beginning", {"ning!", "inn"}, "in the beg", true},
    {"abc", {"abc", "b"}, "a", true},
    {"aaab", {"aab"}, "a", true},
    {"ababac", {"abac"}, "ab", true},
    {"the end", {"end"}, "the ", true},
    {"the en", {"end"}, "the en", false},
    {"x", {"x"}, "", true},
    {"\xc3\xa8\xc3\xa9", {"\xc3\xa9"}, "\xc3\xa8", true},
    {"no stops at all", {NULL}, "no stops at all", false},
};

Test(stop_strings, the_result_does_not_depend_on_the_pieces)
{
    struct random random;
    random_init(&random, 5);
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        for (size_t round = 0; round < 200; round++) {
            struct stop_strings stops = {0};
            for (size_t i = 0; i < 3 && CASES[c].stops[i]; i++)
                add(&stops, CASES[c].stops[i]);
            char out[512];
            feed(&stops, CASES[c].text, round < 20 ? round : 0, &random, out);
            cr_assert_str_eq(out, CASES[c].expected, "case %zu round %zu: \"%s\"", c, round, out);
            cr_assert_eq(stops.is_found, CASES[c].is_found, "case %zu", c);
            if (stops.is_found)
                cr_assert_arr_eq(CASES[c].text + strlen(out), stops.text[stops.found],
                                 stops.bytes[stops.found], "case %zu: another one", c);
        }
    }
}

Test(stop_strings, nothing_leaves_after_the_stop)
{
    struct stop_strings stops = {0};
    char out[512];
    add(&stops, "stop");
    cr_assert_eq(stop_strings_push(&stops, "a stop b", 8, out), 2);
    cr_assert_eq(stop_strings_push(&stops, "more", 4, out), 0);
}

Test(stop_strings, holds_back_only_what_may_become_a_stop)
{
    struct stop_strings stops = {0};
    char out[512];
    add(&stops, "stop");
    cr_assert_eq(stop_strings_push(&stops, "a st", 4, out), 2);
    cr_assert_eq(stops.n_held, 2);
    cr_assert_eq(stop_strings_push(&stops, "ar", 2, out), 4);
    cr_assert_arr_eq(out, "star", 4);
}

Test(stop_strings, a_kept_one_ends_the_text)
{
    struct random random;
    random_init(&random, 6);
    for (size_t round = 0; round < 100; round++) {
        struct stop_strings stops = {.is_kept = true};
        char out[512];
        add(&stops, "nin");
        add(&stops, "ginnings");
        feed(&stops, "in the beginning", round < 20 ? round : 0, &random, out);
        cr_assert(stops.is_found);
        cr_assert_str_eq(out, "in the beginnin");
        cr_assert_eq(stops.found, 0);
    }
}
