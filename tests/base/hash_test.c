/* hash: SipHash-2-4-128 as its authors publish it, and a chain that hides no boundary. */

#include "base/hash.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <string.h>

static const struct hash_key KEY = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};

struct vector {
    size_t bytes; /* of the message 00 01 02 ... */
    uint8_t result[16];
};

/* The reference implementation's vectors_sip128, also what OpenSSL 3 gives. */
ParameterizedTestParameters(hash128, equals_the_published_vectors)
{
    static struct vector vectors[] = {
        {0,
         {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
          0x93}},
        {1,
         {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
          0x45}},
        {8,
         {0x3b, 0x62, 0xa9, 0xba, 0x62, 0x58, 0xf5, 0x61, 0x0f, 0x83, 0xe2, 0x64, 0xf3, 0x14, 0x97,
          0xb4}},
        {15,
         {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3,
          0xd9}},
        {16,
         {0x6e, 0xe2, 0xa4, 0xca, 0x67, 0xb0, 0x54, 0xbb, 0xfd, 0x33, 0x15, 0xbf, 0x85, 0x23, 0x05,
          0x77}},
        {63,
         {0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a, 0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd,
          0x7c}},
    };
    return cr_make_param_array(struct vector, vectors, sizeof vectors / sizeof *vectors);
}

ParameterizedTest(struct vector *vector, hash128, equals_the_published_vectors)
{
    uint8_t message[64], result[16];
    for (unsigned i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)i;

    struct hash128 hash = hash128_of(&KEY, message, vector->bytes);
    memcpy(result, &hash.lo, 8);
    memcpy(result + 8, &hash.hi, 8);
    cr_expect_arr_eq(result, vector->result, 16, "message of %zu bytes", vector->bytes);
}

Test(hash128, any_address_gives_the_same)
{
    uint8_t message[40] = {0};
    for (unsigned i = 0; i < 32; i++)
        message[i] = (uint8_t)(i * 7);
    struct hash128 expected = hash128_of(&KEY, message, 32);
    for (unsigned shift = 1; shift < 8; shift++) {
        memmove(message + shift, message + shift - 1, 32);
        cr_expect(hash128_equal(hash128_of(&KEY, message + shift, 32), expected));
    }
}

Test(hash128, a_chain_depends_on_key_parent_and_data)
{
    const uint32_t tokens[4] = {1, 2, 3, 4};
    const struct hash_key other = {{1}};
    const struct hash128 parent = {1, 2}, swapped = {2, 1};
    struct hash128 hash = hash128_chain(&KEY, parent, tokens, sizeof tokens);

    cr_expect(hash128_equal(hash, hash128_chain(&KEY, parent, tokens, sizeof tokens)));
    cr_expect_not(hash128_equal(hash, hash128_chain(&other, parent, tokens, sizeof tokens)));
    cr_expect_not(hash128_equal(hash, hash128_chain(&KEY, swapped, tokens, sizeof tokens)));
    cr_expect_not(hash128_equal(hash, hash128_chain(&KEY, parent, tokens, 12)));
}

Test(hash128, a_chain_hashes_parent_and_data_as_one_message)
{
    const uint8_t data[13] = "thirteen byte";
    const struct hash128 parent = {0x0123456789abcdef, 0xfedcba9876543210};
    uint8_t message[sizeof parent + sizeof data];
    memcpy(message, &parent, sizeof parent);
    memcpy(message + sizeof parent, data, sizeof data);

    cr_expect(hash128_equal(hash128_chain(&KEY, parent, data, sizeof data),
                            hash128_of(&KEY, message, sizeof message)));
}
