#include "worker/request_number.h"

#include <criterion/criterion.h>

Test(request_number, a_drawn_name_is_read)
{
    cr_assert_eq(request_number("00000000000000ff1234567890abcdef"), 0xff);
    cr_assert_eq(request_number("fedcba9876543210"), 0xfedcba9876543210);
}

Test(request_number, another_name_is_hashed)
{
    uint64_t name = request_number("chat-1"), other = request_number("chat-2");
    cr_assert_neq(name, other);
    cr_assert_eq(name, request_number("chat-1"));
    cr_assert_neq(request_number("00000000000000f"), 0xf, "fifteen digits");
    cr_assert_neq(request_number("00000000000000FF"), 0xff, "capitals");
}

Test(request_number, none_is_zero)
{
    cr_assert_eq(request_number("0000000000000000"), 1);
    cr_assert_neq(request_number(""), 0);
}
