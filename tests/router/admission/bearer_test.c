/* bearer: one scheme in any case, one space, and a token of 1 to 512 bytes. */
#include "router/admission/bearer.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect(const char *value, const char *token)
{
    size_t bytes = 0;
    const char *found = bearer_token(value, strlen(value), &bytes);
    if (!token) {
        cr_expect_null(found, "%s", value);
        return;
    }
    cr_assert_not_null(found, "%s", value);
    cr_expect_eq(bytes, strlen(token));
    cr_expect_arr_eq(found, token, bytes);
}

Test(bearer, is_what_follows_the_scheme)
{
    expect("Bearer kvf_1", "kvf_1");
    expect("bEARER kvf_1", "kvf_1");
    expect("Bearer  kvf_1", " kvf_1");
    expect("Bearer x", "x");
    expect("Bearer ", NULL);
    expect("Bearer", NULL);
    expect("Bearer\tkvf_1", NULL);
    expect(" Bearer kvf_1", NULL);
    expect("Basic kvf_1", NULL);
    expect("kvf_1", NULL);
    expect("", NULL);
}

Test(bearer, is_no_longer_than_512_bytes)
{
    char value[7 + BEARER_TOKEN_MAX + 1];
    size_t bytes;
    memcpy(value, "Bearer ", 7);
    memset(value + 7, 'x', BEARER_TOKEN_MAX + 1);
    cr_expect_not_null(bearer_token(value, sizeof value - 1, &bytes));
    cr_expect_eq(bytes, BEARER_TOKEN_MAX);
    cr_expect_null(bearer_token(value, sizeof value, &bytes));
}
