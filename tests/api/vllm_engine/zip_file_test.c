/* zip_file: a reader finds each entry by the end record and the central headers, with its bytes and their checksum; what the format
 * cannot hold is refused. */
#include "api/vllm_engine/zip_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static uint32_t read32(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static uint32_t read16(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8;
}

/* As a reader does it: from the end to the central headers to the local ones. */
static void expect_entry(const struct zip_file *zip, uint32_t index, const char *name,
                         const char *data, size_t n_bytes, uint32_t crc)
{
    const uint8_t *end = zip->bytes + zip->n_bytes - 22;
    cr_assert_eq(read32(end), 0x06054b50);
    cr_assert_lt(index, read16(end + 10));
    const uint8_t *central = zip->bytes + read32(end + 16);
    for (uint32_t i = 0; i < index; i++)
        central += 46 + read16(central + 28);
    cr_assert_eq(read32(central), 0x02014b50);
    cr_assert_eq(read16(central + 28), strlen(name));
    cr_expect_eq(memcmp(central + 46, name, strlen(name)), 0);
    cr_expect_eq(read32(central + 16), crc, "%08x", read32(central + 16));
    const uint8_t *local = zip->bytes + read32(central + 42);
    cr_assert_eq(read32(local), 0x04034b50);
    cr_expect_eq(read32(local + 14), crc);
    cr_expect_eq(read32(local + 18), n_bytes);
    cr_expect_eq(read32(local + 22), n_bytes);
    cr_expect_eq(memcmp(local + 30, name, strlen(name)), 0);
    cr_expect_eq(memcmp(local + 30 + strlen(name), data, n_bytes), 0);
}

Test(zip_file, entries_are_found_with_their_checksums)
{
    struct zip_file zip = {0};
    cr_assert_eq(zip_file_add(&zip, "a.txt", "123456789", 9), STATUS_OK);
    cr_assert_eq(zip_file_add(&zip, "empty", NULL, 0), STATUS_OK);
    cr_assert_eq(zip_file_add(&zip, "b", "a", 1), STATUS_OK);
    cr_assert_eq(zip_file_end(&zip), STATUS_OK);
    expect_entry(&zip, 0, "a.txt", "123456789", 9, 0xcbf43926); /* the check value of CRC-32 */
    expect_entry(&zip, 1, "empty", "", 0, 0);
    expect_entry(&zip, 2, "b", "a", 1, 0xe8b7be43);
    zip_file_finish(&zip);
    cr_expect_null(zip.bytes);
}

Test(zip_file, one_without_entries_is_an_end_record)
{
    struct zip_file zip = {0};
    cr_assert_eq(zip_file_end(&zip), STATUS_OK);
    cr_expect_eq(zip.n_bytes, 22);
    zip_file_finish(&zip);
}

Test(zip_file, bounds_are_kept)
{
    struct zip_file zip = {0};
    char name[ZIP_NAME_MAX + 1];
    memset(name, 'n', sizeof name);
    name[ZIP_NAME_MAX] = '\0';
    cr_expect_eq(zip_file_add(&zip, name, "", 0), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(zip_file_add(&zip, name + 1, "", 0), STATUS_OK);
    cr_expect_eq(zip_file_add(&zip, "large", "", (size_t)UINT32_MAX - 20), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(zip_file_add(&zip, "larger", "", (size_t)1 << 40), STATUS_INVALID_ARGUMENT);
    for (uint32_t i = 1; i < ZIP_ENTRIES_MAX; i++)
        cr_expect_eq(zip_file_add(&zip, "x", "y", 1), STATUS_OK);
    cr_expect_eq(zip_file_add(&zip, "x", "y", 1), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(zip_file_end(&zip), STATUS_OK);
    zip_file_finish(&zip);
}
