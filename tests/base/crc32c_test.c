/* crc32c: the RFC's vectors, and every way to compute it that this CPU has agrees with the tables. */

#include "base/crc32c.c" /* one process reaches one way only from outside */
#include "base/random.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>

enum { N_CHOICES = sizeof CHOICES / sizeof *CHOICES };

static uint8_t *random_bytes(size_t bytes)
{
    uint8_t *data = malloc(bytes);
    struct random random;
    random_init(&random, 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)random_u64(&random);
    return data;
}

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

Test(crc32c, all_ways_agree_at_every_length_and_alignment, .description = ONE_THREAD)
{
    enum { LENGTH_MAX = 4096, ALIGNMENTS = 64 };
    uint8_t *bytes = random_bytes(LENGTH_MAX + ALIGNMENTS);
    static uint32_t expected[LENGTH_MAX + 1];
    choose();
    for (size_t start = 0; start < ALIGNMENTS; start++) {
        expected[0] = (uint32_t)start * 0x9e3779b9;
        for (size_t length = 0; length < LENGTH_MAX; length++)
            expected[length + 1] = update_table(expected[length], bytes + start + length, 1);
        for (int i = 0; i < N_CHOICES; i++)
            for (size_t length = 0; CHOICES[i].is_available() && length <= LENGTH_MAX; length++)
                cr_assert_eq(CHOICES[i].update(expected[0], bytes + start, length),
                             expected[length], "%s start %zu length %zu", CHOICES[i].name, start,
                             length);
    }
    free(bytes);
}

Test(crc32c, all_ways_agree_on_long_runs)
{
    enum { BYTES = 300 * 1024 };
    uint8_t *bytes = random_bytes(BYTES);
    struct random random;
    random_init(&random, 2);
    choose();
    for (int round = 0; round < 50; round++) {
        size_t start = random_below(&random, 64);
        size_t length = random_below(&random, BYTES - 64);
        uint32_t expected = update_table(~0u, bytes + start, length);
        for (int i = 0; i < N_CHOICES; i++)
            if (CHOICES[i].is_available())
                cr_assert_eq(CHOICES[i].update(~0u, bytes + start, length), expected,
                             "%s start %zu length %zu", CHOICES[i].name, start, length);
    }
    free(bytes);
}

Test(crc32c, the_environment_chooses_less)
{
    cr_expect_eq(choose_update("reference"), update_table);
    for (int i = 0; i < N_CHOICES; i++)
        if (CHOICES[i].is_available())
            cr_expect_eq(choose_update(CHOICES[i].name), CHOICES[i].update);
    setenv("KVFERRY_CPU", "reference", 1);
    cr_expect_eq(crc32c(0, "123456789", 9), 0xe3069283);
    cr_expect_eq(update, update_table);
    unsetenv("KVFERRY_CPU");
}

Test(crc32c, a_copy_is_exact_and_has_the_same_crc)
{
    enum { BYTES = 3 * COPY_STEP_BYTES + 64, GUARD = 64 };
    static const size_t LENGTHS[] = {0,
                                     1,
                                     63,
                                     4096,
                                     COPY_STEP_BYTES - 1,
                                     COPY_STEP_BYTES,
                                     COPY_STEP_BYTES + 1,
                                     2 * COPY_STEP_BYTES,
                                     BYTES};
    uint8_t *bytes = random_bytes(BYTES);
    uint8_t *copy = malloc(BYTES + GUARD);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        size_t length = LENGTHS[i];
        memset(copy, 0xa5, BYTES + GUARD);
        cr_expect_eq(crc32c_copy(7, copy, bytes, length), crc32c(7, bytes, length));
        cr_expect_eq(memcmp(copy, bytes, length), 0);
        for (size_t after = 0; after < GUARD; after++)
            cr_assert_eq(copy[length + after], 0xa5, "wrote past %zu bytes", length);
    }
    free(copy);
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
