/* huge_memory: large memory begins at a huge page, is advised as a whole, and takes no page beyond what was asked for. */
#include "base/huge_memory.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The flags ("VmFlags: rd wr ... hg") and end of the mapping that has this address, from smaps. */
static void read_mapping(const uint8_t *base, uintptr_t *end_out, char flags_out[256])
{
    char line[512];
    uintptr_t first = 0, end = 0;
    bool is_inside = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    cr_assert_not_null(smaps);
    while (fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &first, &end) == 2 && first < end) {
            is_inside = first <= (uintptr_t)base && (uintptr_t)base < end;
            if (is_inside)
                *end_out = end;
        } else if (is_inside && strncmp(line, "VmFlags:", 8) == 0) {
            snprintf(flags_out, 256, "%.250s", line);
            fclose(smaps);
            return;
        }
    }
    cr_assert(false, "no mapping has %p", (const void *)base);
}

Test(huge_memory, large_memory_begins_at_a_huge_page_and_is_advised)
{
    static const size_t SIZES[] = {HUGE_MEMORY_BYTES, HUGE_MEMORY_BYTES + 1,
                                   3 * HUGE_MEMORY_BYTES + 12345};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        char flags[256];
        uintptr_t end;
        uint8_t *base = huge_memory_map(SIZES[i]);
        cr_assert_not_null(base);
        cr_expect_eq((uintptr_t)base % HUGE_MEMORY_BYTES, 0, "%zu bytes at %p", SIZES[i],
                     (void *)base);
        read_mapping(base, &end, flags);
        cr_expect(access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0 || strstr(flags, " hg"),
                  "%s", flags);
        cr_expect_geq(end, (uintptr_t)base + SIZES[i]);
        cr_expect_eq(base[0], 0);
        cr_expect_eq(base[SIZES[i] - 1], 0);
        memset(base, 1, SIZES[i]);
        huge_memory_unmap(base, SIZES[i]);
    }
}

Test(huge_memory, small_memory_is_a_page_or_more)
{
    uint8_t *base = huge_memory_map(1);
    cr_assert_not_null(base);
    cr_expect_eq(base[0], 0);
    huge_memory_unmap(base, 1);
}

Test(huge_memory, what_no_machine_has_is_refused)
{
    cr_expect_null(huge_memory_map(SIZE_MAX - 4096));
    cr_expect_null(huge_memory_map(SIZE_MAX / 2));
}
