/* nearest: a slip of the finger is understood, another word is not. */
#include "base/config/nearest.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const WORDS[] = {"serve", "generate", "check-model", "router", "kv_memory"};

static const char *nearest_of(const char *text)
{
    struct nearest nearest;
    nearest_init(&nearest, text);
    for (unsigned i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
        nearest_offer(&nearest, WORDS[i]);
    return nearest.word ? nearest.word : "";
}

Test(nearest, a_slip_is_understood)
{
    static const char *const CASES[][2] = {
        {"server", "serve"},
        {"sreve", "serve"},
        {"SERVE", "serve"},
        {"genrate", "generate"},
        {"check_model", "check-model"},
        {"kv-memroy", "kv_memory"},
        {"ruoter", "router"},
        {"checkmodel", "check-model"},
    };
    for (unsigned i = 0; i < sizeof CASES / sizeof *CASES; i++)
        cr_expect_str_eq(nearest_of(CASES[i][0]), CASES[i][1], "%s", CASES[i][0]);
}

Test(nearest, another_word_is_not)
{
    static const char *const CASES[] = {"", "s", "ps", "stop", "generation-workers", "zebra"};
    for (unsigned i = 0; i < sizeof CASES / sizeof *CASES; i++)
        cr_expect_str_eq(nearest_of(CASES[i]), "", "%s", CASES[i]);
}

Test(nearest, long_words_resemble_nothing)
{
    char text[NEAREST_BYTES_MAX + 2], hint[NEAREST_HINT_BYTES];
    struct nearest nearest;
    memset(text, 'a', sizeof text);
    text[NEAREST_BYTES_MAX + 1] = '\0';
    nearest_init(&nearest, text);
    nearest_offer(&nearest, text);
    cr_expect_null(nearest.word);
    nearest_hint(&nearest, hint);
    cr_expect_str_empty(hint);
    nearest_init(&nearest, text + 1); /* the longest that counts */
    nearest_offer(&nearest, text + 1);
    nearest_hint(&nearest, hint);
    cr_expect_eq(strlen(hint), NEAREST_BYTES_MAX + strlen("; did you mean ?"));
}
