/* sha256: the published vectors, and texts that are no hash. */
#include "base/sha256.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect_text(const struct sha256 *hash, const char *expected)
{
    char text[SHA256_TEXT];
    sha256_format(hash, text);
    cr_assert_str_eq(text, expected);
}

Test(sha256, has_the_published_values)
{
    struct sha256 hash;
    cr_assert_eq(sha256_of("abc", 3, &hash), STATUS_OK); /* FIPS 180-4 */
    expect_text(&hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cr_assert_eq(sha256_mac("Jefe", 4, "what do ya want for nothing?", 28, &hash), STATUS_OK);
    expect_text(&hash,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"); /* RFC 4231 */
}

Test(sha256, a_sum_of_pieces_is_that_of_all_of_it)
{
    struct sha256_sum sum;
    struct sha256 hash, whole;
    sha256_begin(&sum);
    sha256_add(&sum, "a", 1);
    sha256_add(&sum, "", 0);
    sha256_add(&sum, "bc", 2);
    cr_assert_eq(sha256_end(&sum, &hash), STATUS_OK);
    cr_assert_eq(sha256_of("abc", 3, &whole), STATUS_OK);
    cr_expect(sha256_equal(&hash, &whole));
    sha256_begin(&sum);
    cr_assert_eq(sha256_end(&sum, &hash), STATUS_OK);
    cr_assert_eq(sha256_of("", 0, &whole), STATUS_OK);
    cr_expect(sha256_equal(&hash, &whole));
}

Test(sha256, a_text_of_64_digits_is_a_hash_and_nothing_else)
{
    char text[] = "BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    struct sha256 hash, other;
    cr_assert_eq(sha256_parse(text, 64, &hash), STATUS_OK);
    expect_text(&hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cr_assert_eq(sha256_parse(text, 63, &hash), STATUS_CORRUPT);
    text[63] = 'e';
    cr_assert_eq(sha256_parse(text, 64, &other), STATUS_OK);
    cr_assert_not(sha256_equal(&hash, &other));
    text[10] = 'g';
    cr_assert_eq(sha256_parse(text, 64, &hash), STATUS_CORRUPT);
}
