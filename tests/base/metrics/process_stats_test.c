/* process_stats: own memory is what is written, not what is mapped from a file. */
#include "base/metrics/process_stats.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 64 << 20, SLACK = 4 << 20 };

static uint64_t own_bytes(void)
{
    uint64_t bytes = 0;
    cr_assert_eq(process_own_bytes(&bytes), STATUS_OK);
    return bytes;
}

static void *map(int flags, int descriptor)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, descriptor, 0);
    cr_assert_neq(memory, MAP_FAILED);
    return memory;
}

Test(process_stats, memory_that_was_written_is_its_own)
{
    uint64_t before = own_bytes();
    cr_assert(before > 0);
    void *written = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    cr_expect(own_bytes() < before + SLACK, "nothing of it was written");
    memset(written, 1, BYTES);
    cr_expect(own_bytes() >= before + BYTES - SLACK);
    munmap(written, BYTES);
}

Test(process_stats, a_files_pages_are_not)
{
    char name[] = "/tmp/kvferry-own-XXXXXX";
    int descriptor = mkstemp(name);
    cr_assert(descriptor >= 0 && unlink(name) == 0 && ftruncate(descriptor, BYTES) == 0);
    const volatile uint8_t *file = map(MAP_SHARED, descriptor);
    uint64_t before = own_bytes(), sum = 0;
    for (size_t i = 0; i < BYTES; i += 4096)
        sum += file[i];
    cr_expect_eq(sum, 0);
    /* On a file system in memory they are: nothing can be given back. */
    bool is_memory = own_bytes() >= before + BYTES - SLACK;
    struct process_stats stats;
    cr_assert_eq(process_stats_read(&stats), STATUS_OK);
    cr_expect(is_memory || own_bytes() < before + SLACK);
    cr_expect(stats.resident_bytes >= BYTES - SLACK);
    munmap((void *)(uintptr_t)file, BYTES);
    close(descriptor);
}
