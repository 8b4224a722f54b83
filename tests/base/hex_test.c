/* hex: there and back, small digits alone, and no text of another length. */
#include "base/hex.h"

#include <criterion/criterion.h>
#include <string.h>

Test(hex, goes_there_and_back)
{
    const uint8_t bytes[] = {0x00, 0x09, 0x9a, 0xaf, 0xff};
    uint8_t again[sizeof bytes];
    char text[2 * sizeof bytes + 1];
    hex_format(bytes, sizeof bytes, text);
    cr_expect_str_eq(text, "00099aafff");
    cr_assert(hex_parse(text, strlen(text), again, sizeof again));
    cr_expect_arr_eq(again, bytes, sizeof bytes);
}

Test(hex, what_is_no_digit_or_of_another_length_is_refused)
{
    uint8_t bytes[2];
    cr_expect(hex_parse("00ff", 4, bytes, 2));
    cr_expect_not(hex_parse("00fF", 4, bytes, 2));
    cr_expect_not(hex_parse("00f", 3, bytes, 2));
    cr_expect_not(hex_parse("00ff0", 5, bytes, 2));
    cr_expect_not(hex_parse("/0ff", 4, bytes, 2));
    cr_expect_not(hex_parse(":0ff", 4, bytes, 2));
    cr_expect_not(hex_parse("`0ff", 4, bytes, 2));
    cr_expect_not(hex_parse("00fg", 4, bytes, 2));
    cr_expect_not(hex_parse("00\0f", 4, bytes, 2));
    cr_expect(hex_parse("", 0, bytes, 0));
}
