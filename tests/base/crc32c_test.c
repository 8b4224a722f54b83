/* crc32c: the RFC's vectors, and the instruction agrees with the tables. */

#include "base/crc32c.c" /* the table path is not reachable from outside on a CPU with SSE4.2 */
#include "base/random.h"

#include <criterion/criterion.h>
#include <stdlib.h>

/* RFC 3720, appendix B.4; the last one is the usual check value of the polynomial. */
Test(crc32c, equals_the_vectors_of_rfc_3720)
{
    uint8_t bytes[32];
    memset(bytes, 0, sizeof bytes);
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x62a8ab43);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x46dd794e);
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(31 - i);
    cr_expect_eq(crc32c(0, bytes, sizeof bytes), 0x113fdb5c);

    const uint8_t read_pdu[48] = {
        0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, [32] = 0x28, [40] = 0x02};
    cr_expect_eq(crc32c(0, read_pdu, sizeof read_pdu), 0xd9963a56);
    cr_expect_eq(crc32c(0, "123456789", 9), 0xe3069283);
    cr_expect_eq(crc32c(0, "", 0), 0);
}

Test(crc32c, instruction_and_tables_agree_at_every_length_and_address)
{
    enum { BYTES = 4 * 3 * STREAM_BYTES };
    uint8_t *bytes = malloc(BYTES);
    struct random random;
    random_init(&random, 1);
    for (unsigned i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)random_u64(&random);

    choose();
    for (int round = 0; round < 2000; round++) {
        size_t start = random_below(&random, 64);
        size_t length = round < 200 ? (size_t)round : random_below(&random, BYTES - 64);
        cr_assert_eq(update(~0u, bytes + start, length), update_table(~0u, bytes + start, length),
                     "start %zu length %zu", start, length);
    }
    free(bytes);
}

Test(crc32c, parts_chain)
{
    const char text[] = "the quick brown fox jumps over the lazy dog";
    uint32_t whole = crc32c(0, text, sizeof text);
    for (size_t cut = 0; cut <= sizeof text; cut++)
        cr_expect_eq(crc32c(crc32c(0, text, cut), text + cut, sizeof text - cut), whole);
}

Test(crc32c, finds_every_single_flipped_bit)
{
    uint8_t bytes[300] = {0};
    uint32_t whole = crc32c(0, bytes, sizeof bytes);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_expect_neq(crc32c(0, bytes, sizeof bytes), whole);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}
