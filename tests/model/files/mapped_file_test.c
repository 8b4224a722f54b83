/* mapped_file: large files ask for huge pages, small ones do not; the bytes are those of the file. */
#include "model/files/mapped_file.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
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
