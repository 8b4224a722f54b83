#include "cli/read_speed.h"

#include "base/clock.h"
#include "base/huge_memory.h"
#include "base/thread_pool.h"

#include <stdint.h>
#include <string.h>

#define BYTES_MAX  ((uint64_t)512 << 20)
#define BYTES_MIN  ((uint64_t)128 << 20)
#define PART_BYTES ((uint64_t)2 << 20)
#define PARTS_MAX  (BYTES_MAX / PART_BYTES)
#define PASSES     4

/* Two words, which any compiler reads at once. */
typedef uint64_t words __attribute__((vector_size(16)));

/* Words of a part, and what becomes of their sum: it is stored, so that no compiler leaves the reads out. */
struct pass {
    const words *memory;
    uint64_t sums[PARTS_MAX];
};

static void read_part(void *arg, uint32_t part)
{
    enum { LANES = 8 };
    struct pass *pass = arg;
    const size_t n = PART_BYTES / sizeof *pass->memory;
    const words *memory = pass->memory + part * n;
    words sums[LANES] = {{0}};

    for (size_t i = 0; i < n; i += LANES)
        for (unsigned l = 0; l < LANES; l++)
            sums[l] += memory[i + l];
    for (unsigned l = 1; l < LANES; l++)
        sums[0] += sums[l];
    pass->sums[part] = sums[0][0] + sums[0][1];
}

double read_speed_measure(struct thread_pool *threads, uint64_t bytes_max)
{
    const uint64_t wanted = bytes_max < BYTES_MAX ? bytes_max : BYTES_MAX;
    const uint32_t n_parts = (uint32_t)(wanted / PART_BYTES);
    const size_t bytes = (size_t)(n_parts * PART_BYTES);
    void *memory = bytes >= BYTES_MIN ? huge_memory_map(bytes) : NULL;
    uint64_t best_ns = UINT64_MAX;

    if (!memory)
        return 0;
    memset(memory, 1, bytes);
    struct pass pass = {.memory = memory};
    for (unsigned i = 0; i < PASSES; i++) {
        const uint64_t start_ns = clock_now_ns();
        thread_pool_run(threads, n_parts, read_part, &pass);
        const uint64_t took_ns = clock_now_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    huge_memory_unmap(memory, bytes);
    return (double)bytes * (double)NS_PER_S / (double)(best_ns > 0 ? best_ns : 1);
}
