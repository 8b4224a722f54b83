/* text: what ends with what. */
#include "base/text.h"

#include <criterion/criterion.h>

Test(text, knows_its_end)
{
    cr_expect(text_ends_with("a.b", ".b"));
    cr_expect(text_ends_with("a.b", "a.b"));
    cr_expect(text_ends_with("a.b", ""));
    cr_expect(text_ends_with("", ""));
    cr_expect_not(text_ends_with("a.b", "a"));
    cr_expect_not(text_ends_with("b", "a.b"));
    cr_expect_not(text_ends_with("", "b"));
}
