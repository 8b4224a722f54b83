/* numerics: KV of another id is taken only where an operator has said so, and never as the own. */
#include "kvcache/numerics.h"

#include <criterion/criterion.h>
#include <string.h>

#define FLOAT32 "cpu-f32-fma-fma-compute-asis-1"
#define BF16    "cpu-f32-fma-amx-bf16-asis-1"
#define LATER   "cpu-f32-fma-fma-compute-asis-2"

Test(numerics, another_id_is_taken_only_where_that_is_allowed)
{
    static const struct {
        const char *ours, *theirs, *allow;
        enum numerics_fit fit;
    } CASES[] = {
        {FLOAT32, FLOAT32, "equal", NUMERICS_EQUAL},
        {FLOAT32, BF16, "equal", NUMERICS_REFUSED},
        {FLOAT32, BF16, "any", NUMERICS_OTHER},
        {FLOAT32, FLOAT32, "any", NUMERICS_EQUAL},
        {FLOAT32, BF16, BF16, NUMERICS_OTHER},
        {FLOAT32, BF16, LATER "," BF16, NUMERICS_OTHER},
        {FLOAT32, BF16, BF16 "," LATER, NUMERICS_OTHER},
        {FLOAT32, BF16, LATER, NUMERICS_REFUSED},
        {FLOAT32, FLOAT32, BF16, NUMERICS_EQUAL},
        /* No part of an id is one. */
        {FLOAT32, "cpu-f32-fma-amx", BF16, NUMERICS_REFUSED},
        {FLOAT32, BF16, "cpu-f32-fma-amx", NUMERICS_REFUSED},
        /* It does not say, and is of the time when nobody said. */
        {FLOAT32, "", "equal", NUMERICS_OTHER},
        {BF16, "", "equal", NUMERICS_OTHER},
        {LATER, "", "equal", NUMERICS_REFUSED},
        {"cuda-bf16-tensor-tensor-compute-asis-1", "", "equal", NUMERICS_REFUSED},
        {LATER, "", "any", NUMERICS_OTHER},
        {"", FLOAT32, "", NUMERICS_OTHER},
        {"", "", "", NUMERICS_OTHER},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        cr_expect_eq(numerics_fit(CASES[i].ours, CASES[i].theirs, CASES[i].allow), CASES[i].fit,
                     "\"%s\" takes \"%s\", allows \"%s\"", CASES[i].ours, CASES[i].theirs,
                     CASES[i].allow);
}

Test(numerics, what_is_no_id_is_no_id)
{
    char text[NUMERICS_ID_MAX + 1];
    memset(text, 'a', sizeof text);
    text[NUMERICS_ID_MAX - 1] = '\0';
    cr_expect(numerics_is_id(text), "the longest");
    text[NUMERICS_ID_MAX - 1] = 'a';
    text[NUMERICS_ID_MAX] = '\0';
    cr_expect_not(numerics_is_id(text), "one more");
    cr_expect_not(numerics_is_id(""));
    cr_expect_not(numerics_is_id("CPU"));
    cr_expect_not(numerics_is_id("a,b"));
    cr_expect_not(numerics_is_id("a\n"));
    cr_expect(numerics_is_id(FLOAT32));
}

Test(numerics, what_allows_others_is_judged_at_start)
{
    static const char *const GOOD[] = {"equal", "any", BF16, BF16 "," LATER};
    static const char *const BAD[] = {"", ",", BF16 ",", "," BF16, "ANY", BF16 ", " LATER, "a b"};
    struct error error;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++)
        cr_expect_eq(numerics_allow_check(GOOD[i], &error), STATUS_OK, "%s", GOOD[i]);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        cr_expect_eq(numerics_allow_check(BAD[i], &error), STATUS_INVALID_ARGUMENT, "%s", BAD[i]);
        cr_expect(strstr(error.text, "allow_numerics"), "%s", error.text);
    }
    char longest[NUMERICS_ALLOW_MAX + 1];
    for (size_t i = 0; i < sizeof longest; i++)
        longest[i] = i % 2 ? ',' : 'a';
    longest[NUMERICS_ALLOW_MAX - 1] = '\0';
    cr_expect_eq(numerics_allow_check(longest, &error), STATUS_OK, "%s", error.text);
    longest[NUMERICS_ALLOW_MAX - 1] = 'a';
    longest[NUMERICS_ALLOW_MAX] = '\0';
    cr_expect_eq(numerics_allow_check(longest, &error), STATUS_INVALID_ARGUMENT);
}
