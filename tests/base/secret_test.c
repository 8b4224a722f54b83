/* secret: nothing is left of it; equal is what has the same bytes. */
#include "base/secret.h"

#include <criterion/criterion.h>
#include <string.h>

Test(secret, is_wiped_as_far_as_told)
{
    char text[] = "hunter2";
    secret_wipe(text, 6);
    cr_expect_arr_eq(text, "\0\0\0\0\0\0002", sizeof text);
}

Test(secret, is_equal_to_the_same_bytes)
{
    cr_expect(secret_equal("one", "one", 3));
    cr_expect(secret_equal("one", "ont", 2));
    cr_expect_not(secret_equal("one", "ont", 3));
}
