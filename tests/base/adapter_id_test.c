/* adapter_id: names and digests are read strictly, and two are told apart by both. */
#include "base/adapter_id.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define DIGEST "00112233445566778899aabbccddeeff"

Test(adapter_id, a_name_is_plain)
{
    static const char *const GOOD[] = {"a", "org/name-1.5_x:v2", "0"};
    static const char *const BAD[] = {"", "a b", "a=b", "\t", "\xc3\xa9", "a\x7f"};
    struct error error = {""};
    char longest[ADAPTER_NAME_MAX + 2] = "";
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++)
        cr_expect_eq(adapter_name_check(GOOD[i], "adapter", &error), STATUS_OK, "%s", GOOD[i]);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        cr_expect_eq(adapter_name_check(BAD[i], "adapter", &error), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, "adapter is \""), "%s", error.text);
    }
    memset(longest, 'x', ADAPTER_NAME_MAX);
    cr_expect_eq(adapter_name_check(longest, "adapter", &error), STATUS_OK);
    longest[ADAPTER_NAME_MAX] = 'x';
    cr_expect_eq(adapter_name_check(longest, "adapter", &error), STATUS_INVALID_ARGUMENT);
}

Test(adapter_id, a_digest_is_read_as_it_is_written)
{
    static const char *const BAD[] = {"", "0011", DIGEST "0", "00112233445566778899AABBCCDDEEFF",
                                      "00112233445566778899aabbccddeefg"};
    struct error error = {""};
    struct adapter_id id;
    char text[ADAPTER_DIGEST_BYTES];
    cr_assert_eq(adapter_id_read("a", DIGEST, "adapter", &error, &id), STATUS_OK, "%s", error.text);
    cr_assert_eq(id.digest[0], 0x0011223344556677);
    cr_assert_eq(id.digest[1], 0x8899aabbccddeeff);
    adapter_digest_format(id.digest, text);
    cr_assert_str_eq(text, DIGEST);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        cr_expect_eq(adapter_id_read("a", BAD[i], "adapter", &error, &id), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, "expected 32 hexadecimal digits"), "%s", error.text);
    }
}

Test(adapter_id, name_and_digest_tell_apart)
{
    const struct adapter_id none = {.digest = {1, 2}};
    struct adapter_id a = {.name = "a", .digest = {1, 2}}, b = a;
    cr_assert(adapter_id_is_none(&none));
    cr_assert_eq(adapter_id_key(&none), 0);
    cr_assert(adapter_id_equal(&a, &b));
    cr_assert_eq(adapter_id_key(&a), adapter_id_key(&b));
    b.digest[1] = 3;
    cr_assert_not(adapter_id_equal(&a, &b));
    cr_assert_neq(adapter_id_key(&a), adapter_id_key(&b));
    b = a;
    b.name[0] = 'b';
    cr_assert_not(adapter_id_equal(&a, &b));
    cr_assert_neq(adapter_id_key(&a), adapter_id_key(&b));
    const struct adapter_id both[] = {a, b};
    cr_assert_eq(adapter_ids_find(both, 2, "b"), &both[1]);
    cr_assert_null(adapter_ids_find(both, 2, "c"));
}
