/* base64: RFC 4648's own examples, and what is no base64. */
#include "base/base64.h"

#include <criterion/criterion.h>
#include <string.h>

Test(base64, examples_of_the_rfc_decode)
{
    static const char *const examples[][2] = {{"", ""},
                                              {"Zg==", "f"},
                                              {"Zm8=", "fo"},
                                              {"Zm9v", "foo"},
                                              {"Zm9vYg==", "foob"},
                                              {"Zm9vYmE=", "fooba"},
                                              {"Zm9vYmFy", "foobar"}};

    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        uint8_t bytes[16];
        size_t n_bytes, n_text = strlen(examples[i][0]);
        cr_assert(base64_decode(examples[i][0], n_text, bytes, &n_bytes), "%s", examples[i][0]);
        cr_assert_leq(n_bytes, base64_bytes_max(n_text));
        cr_expect(n_bytes == strlen(examples[i][1]) && memcmp(bytes, examples[i][1], n_bytes) == 0,
                  "%s", examples[i][0]);
    }
}

Test(base64, all_bytes_come_back)
{
    uint8_t bytes[8];
    size_t n_bytes;
    cr_assert(base64_decode("+/+/AP8A", 8, bytes, &n_bytes));
    cr_assert_eq(n_bytes, 6);
    cr_expect_eq(memcmp(bytes, "\xfb\xff\xbf\x00\xff\x00", 6), 0);
}

Test(base64, what_is_none_is_refused)
{
    static const char *const others[] = {"Z",    "Zg",   "Zg=",      "Zm9v\n", " Zm9",   "Zm9*",
                                         "Z===", "====", "Zg==Zg==", "Zm-_",   "Zm\x80v"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        uint8_t bytes[16];
        size_t n_bytes;
        cr_expect_not(base64_decode(others[i], strlen(others[i]), bytes, &n_bytes), "%s",
                      others[i]);
    }
    uint8_t bytes[4];
    size_t n_bytes;
    cr_expect_not(base64_decode("Zm\0v", 4, bytes, &n_bytes));
}
