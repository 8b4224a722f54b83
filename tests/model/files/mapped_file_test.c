/* mapped_file: large files ask for huge pages, small ones do not; the bytes are those of the file. A copy stays when the file is cut. */
#include "model/files/mapped_file.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether the mapping at data has the flag: the line VmFlags of its part of smaps. */
static bool has_flag(const void *data, const char *flag)
{
    char line[512];
    bool is_here = false, has = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    cr_assert(maps);
    while (fgets(line, sizeof line, maps)) {
        uintptr_t first, end;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &first, &end) == 2)
            is_here = (uintptr_t)data >= first && (uintptr_t)data < end;
        else if (is_here && strncmp(line, "VmFlags:", 8) == 0)
            has = strstr(line, flag);
    }
    fclose(maps);
    return has;
}

static bool asks_for_huge_pages(const char *name, size_t *bytes_out)
{
    struct mapped_file file;
    cr_assert_eq(mapped_file_open(DEMO_MODEL, name, UINT64_MAX, &file, NULL), STATUS_OK);
    bool asks = has_flag(file.data, " hg ");
    *bytes_out = file.bytes;
    mapped_file_close(&file);
    return asks;
}

Test(mapped_file, large_files_ask_for_huge_pages)
{
    const bool has_huge_pages = access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) == 0;
    size_t bytes;
    cr_expect_eq(asks_for_huge_pages("model.safetensors", &bytes), has_huge_pages);
    cr_expect_gt(bytes, 2u << 20);
    cr_expect_not(asks_for_huge_pages("config.json", &bytes));
    cr_expect_lt(bytes, 2u << 20);
}

/* n bytes 1, 2, 3 ... */
static int new_file(size_t n)
{
    char path[] = "/tmp/mapped_file_XXXXXX";
    const int file = mkstemp(path);
    cr_assert_geq(file, 0);
    cr_assert_eq(unlink(path), 0);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(write(file, &(uint8_t){(uint8_t)(i + 1)}, 1), 1);
    return file;
}

Test(mapped_file, a_copy_stays_when_the_file_is_cut)
{
    enum { N = 9000 };
    struct mapped_file copy;
    struct error error = {""};
    const int file = new_file(N);
    cr_assert_eq(mapped_file_read(file, N, "some", &copy, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(ftruncate(file, 0), 0);
    cr_assert_eq(copy.bytes, N);
    for (size_t i = 0; i < N; i++)
        cr_assert_eq(copy.data[i], (uint8_t)(i + 1), "byte %zu", i);
    mapped_file_close(&copy);
    cr_assert_eq(mapped_file_read(file, 0, "some", &copy, &error), STATUS_OK, "an empty one");
    mapped_file_close(&copy);
    close(file);
}

Test(mapped_file, one_that_ends_early_or_cannot_be_read_is_refused_by_name)
{
    struct mapped_file copy;
    struct error error = {""};
    const int file = new_file(10), folder = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_eq(mapped_file_read(file, 11, "some", &copy, &error), STATUS_IO_FAILED);
    cr_assert(strstr(error.text, "some was written while it was read"), "%s", error.text);
    cr_assert_neq(mapped_file_read(folder, 10, "a folder", &copy, &error), STATUS_OK);
    cr_assert(strstr(error.text, "a folder: Is a directory"), "%s", error.text);
    close(file);
    close(folder);
}
