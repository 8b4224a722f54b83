/* a dummy step makes resident what the step itself would use of the workspace: the step then touches no
 * page more. */
#include "base/thread_pool.h"
#include "kernels/attention_backends.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ISA_NAME scalar
#include "kernels/cpu/attention/attend.h"
#include "kernels/cpu/attention/attend_whole.h"
#include "kernels/cpu/attention/workspace.h"

enum {
    HEADS = 2,
    DIM = 8,
    WIDTH = HEADS * DIM,
    LEN = 1024,
    LEN_MAX = 1 << 16,
    PAGES_MAX = 1 << 16
};

struct measured {
    struct attention_config config;
    enum attention_phase phase;
    uint32_t query_len;
    size_t least_bytes; /* that the step is known to use */
};

/* Bytes of whole pages between first and end that are resident. */
static size_t resident(const char *first, const char *end)
{
    static unsigned char pages[PAGES_MAX];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uintptr_t start = ((uintptr_t)first + page - 1) / page * page;
    const size_t n = ((uintptr_t)end - start) / page;
    size_t n_resident = 0;
    cr_assert_leq(n, PAGES_MAX);
    cr_assert_eq(mincore((void *)start, n * page, pages), 0);
    for (size_t i = 0; i < n; i++)
        n_resident += pages[i] & 1;
    return n_resident * page;
}

static size_t resident_workspace(const struct attention_metadata *metadata)
{
    const struct attention_workspace *workspace = metadata->workspace;
    return resident(
        workspace->memory,
        (const char *)(workspace->partials + attend_partial_floats(DIM, workspace->n_partials)));
}

static void run(const struct attention_backend *backend, const struct measured *measured,
                bool is_dummy, const struct attention *attention,
                struct attention_metadata *metadata)
{
    static float qkv[LEN * 3 * WIDTH], output[LEN * WIDTH], cache[2 * LEN * WIDTH];
    static const uint32_t block = 0;
    const struct attention_sequence sequence = {.phase = measured->phase,
                                                .query_len = measured->query_len,
                                                .kv_len = LEN,
                                                .prompt_len = LEN,
                                                .block_ids = is_dummy ? NULL : &block,
                                                .n_blocks = is_dummy ? 0 : 1};
    const struct attention_step step = {
        .sequences = &sequence, .n_sequences = 1, .is_dummy = is_dummy};
    const struct kv_view kv = kv_view_contiguous(is_dummy ? NULL : cache, 1, HEADS, LEN, DIM,
                                                 DTYPE_F32);
    const struct attention_io io = attention_io_fused(&measured->config, qkv, 3 * WIDTH, output,
                                                      WIDTH);
    cr_assert_eq(backend->metadata_prepare(metadata, &step, &kv, NULL), STATUS_OK);
    cr_assert_eq(backend->forward(attention, metadata, &io, NULL), STATUS_OK);
}

static void check(const struct measured *measured, struct thread_pool *pool)
{
    const struct attention_limits limits = {.n_sequences_max = 1,
                                            .n_tokens_max = LEN,
                                            .kv_len_max = LEN_MAX,
                                            .n_heads = HEADS,
                                            .n_kv_heads = HEADS,
                                            .head_dim = DIM,
                                            .has_multi_block = true};
    const struct attention_backend *backend;
    struct attention *attention;
    struct attention_metadata *metadata;
    cr_assert_eq(attention_backend_select("scalar", NULL, &backend, NULL), STATUS_OK);
    cr_assert_eq(backend->create(&measured->config, pool, &attention, NULL), STATUS_OK);
    cr_assert_eq(backend->metadata_create(&limits, pool, &metadata, NULL), STATUS_OK);
    run(backend, measured, true, attention, metadata);
    const size_t of_dummy = resident_workspace(metadata);
    run(backend, measured, false, attention, metadata);
    cr_assert_geq(of_dummy, measured->least_bytes);
    cr_assert_eq(resident_workspace(metadata), of_dummy, "%zu bytes, %zu of the dummy",
                 resident_workspace(metadata), of_dummy);
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
}

#define SHAPE .n_heads = HEADS, .n_kv_heads = HEADS, .head_dim = DIM

Test(dummy, touches_the_workspace_that_the_step_would)
{
    const struct measured steps[] = {
        {{SHAPE, .path = PATH_UNFUSED},
         PHASE_CONTEXT,
         LEN,
         (size_t)UNFUSED_ROWS * LEN * sizeof(float)},
        {{SHAPE, .path = PATH_FLASH}, PHASE_CONTEXT, LEN, 1 << 14},
        {{SHAPE, .multi_block = CHOICE_ON}, PHASE_GENERATION, 1, 1 << 14},
    };
    struct thread_pool *pool;
    cr_assert_eq(thread_pool_create(2, false, &pool), STATUS_OK);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        check(&steps[i], NULL);
        check(&steps[i], pool);
    }
    thread_pool_destroy(pool);
}
