/* attention's metadata in the arenas of a stage, on a device whose queue runs late: each step reads its own, whatever is
 * laid out meanwhile, and there is nothing to read before the copy. */
#include "device/stage.h"
#include "kernels/attention_backends.h"
#include "tests/device/fault_device.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 2,
    DIM = 16,
    WIDTH = HEADS * DIM,
    N_STATIC = 4,
    N_STEPS = 12,
    N_BLOCKS = 8,
    SEEDS = 20
};

/* What a launch has: parameters by value, and the step's tensors. */
struct launch {
    const struct attention_backend *backend;
    const struct attention *attention;
    struct attention_metadata metadata;
    float qkv[N_STATIC * 3 * WIDTH], output[N_STATIC * WIDTH];
};

struct world {
    const struct attention_backend *backend;
    struct attention_config config;
    struct attention *attention;
    struct attention_metadata *metadata[2]; /* buckets of 2 and of N_STATIC, by turns */
    struct rope *rope;
    struct kv_view kv;
    struct launch launches[N_STEPS];
};

static void world_open(struct world *w)
{
    struct rope_config rope = {.head_dim = DIM, .positions_max = 64, .theta = 100};
    cr_assert_eq(rope_create(&rope, &w->rope, NULL), STATUS_OK);
    cr_assert_eq(attention_backend_select("scalar", NULL, &w->backend, NULL), STATUS_OK);
    w->config = (struct attention_config){
        .n_heads = HEADS, .n_kv_heads = HEADS, .head_dim = DIM, .rope = w->rope};
    cr_assert_eq(w->backend->create(&w->config, NULL, &w->attention, NULL), STATUS_OK);
    for (uint32_t b = 0; b < 2; b++) {
        uint32_t n = b == 0 ? 2 : N_STATIC;
        const struct attention_limits limits = {.n_sequences_max = n,
                                                .n_tokens_max = n,
                                                .kv_len_max = 64,
                                                .n_heads = HEADS,
                                                .n_kv_heads = HEADS,
                                                .head_dim = DIM,
                                                .ropes = {w->rope}};
        cr_assert_eq(w->backend->metadata_create(&limits, NULL, &w->metadata[b], NULL), STATUS_OK);
        cr_assert_eq(w->backend->metadata_make_static(w->metadata[b], n, 1, NULL), STATUS_OK);
    }
    w->kv = kv_view_dense(NULL, N_BLOCKS, 1, HEADS, 8, DIM, DTYPE_F32);
    w->kv.base = calloc(N_BLOCKS, w->kv.block_stride);
    cr_assert(w->kv.base);
}

static void world_close(struct world *w)
{
    for (uint32_t b = 0; b < 2; b++)
        w->backend->metadata_destroy(w->metadata[b]);
    w->backend->destroy(w->attention);
    rope_destroy(w->rope);
    free(w->kv.base);
}

/* Step i: token i of one sequence or two, in a bucket of 2 or of N_STATIC. */
static void prepare(struct world *w, uint32_t i, uint8_t *arena)
{
    static const uint32_t BLOCKS[2][4] = {{5, 0, 3, 6}, {1, 7, 2, 4}};
    struct attention_sequence sequences[N_STATIC];
    struct attention_metadata *metadata = w->metadata[i % 2];
    struct launch *launch = &w->launches[i];
    const uint32_t n_real = 1 + i % 3 / 2;
    struct error error = {""};
    for (uint32_t s = 0; s < metadata->n_static; s++) {
        sequences[s] = (struct attention_sequence){
            .phase = PHASE_GENERATION, .query_len = 1, .kv_len = 1, .is_dummy = s >= n_real};
        if (s >= n_real)
            continue;
        sequences[s].kv_len = i + 1;
        sequences[s].block_ids = BLOCKS[s];
        sequences[s].n_blocks = 4;
    }
    const struct attention_step step = {.sequences = sequences, .n_sequences = metadata->n_static};
    for (uint32_t j = 0; j < N_STATIC * 3 * WIDTH; j++)
        launch->qkv[j] = (float)((i * 7919 + j * 104729) % 1000) / 500 - 1;
    w->backend->metadata_use_arena(metadata, arena);
    cr_assert_eq(w->backend->metadata_prepare(metadata, &step, &w->kv, &error), STATUS_OK, "%s",
                 error.text);
}

static void run_launch(void *arg)
{
    struct launch *launch = arg;
    const struct attention_config shape = {.n_heads = HEADS, .n_kv_heads = HEADS, .head_dim = DIM};
    const struct attention_io io = attention_io_fused(&shape, launch->qkv, (uint64_t)3 * WIDTH,
                                                      launch->output, WIDTH);
    enum status status = launch->backend->forward(launch->attention, &launch->metadata, &io, NULL);
    cr_assert_eq(status, STATUS_OK);
}

static void make_launch(struct world *w, uint32_t i, const uint8_t *sent)
{
    struct attention_metadata *metadata = w->metadata[i % 2];
    w->backend->metadata_use_arena(metadata, (uint8_t *)sent);
    w->launches[i].backend = w->backend;
    w->launches[i].attention = w->attention;
    w->launches[i].metadata = *metadata;
}

/* Steps without a wait between them. */
static void run_staged(struct world *w, uint64_t seed)
{
    struct device *device = fault_device_open(
        &(struct fault_options){.seed = seed, .steps_max = 2});
    struct stage *stage;
    size_t bytes = w->backend->metadata_arena_bytes(w->metadata[1]);
    uint8_t *copy = malloc(bytes);
    cr_assert(copy);
    cr_assert_eq(stage_create(device, DEVICE_COMPUTE, bytes, &stage), STATUS_OK);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        size_t n = w->backend->metadata_arena_bytes(w->metadata[i % 2]);
        const uint8_t *sent;
        uint8_t *view;
        cr_assert_eq(stage_take(stage, n, &view), STATUS_OK);
        prepare(w, i, view);
        memcpy(copy, view, n);
        cr_assert_eq(stage_send(stage, &sent), STATUS_OK);
        cr_expect_neq(memcmp(copy, sent, n), 0,
                      "the copy is enqueued: who reads now reads rubbish");
        make_launch(w, i, sent);
        fault_device_launch(device, DEVICE_COMPUTE, run_launch, &w->launches[i]);
        stage_keep(stage, device_record(device, DEVICE_COMPUTE));
    }
    cr_assert(fault_device_drain(device));
    free(copy);
    stage_destroy(stage);
    device_close(device);
}

static void run_at_once(struct world *w)
{
    uint8_t *arena = aligned_alloc(ATTENTION_ARENA_ALIGNMENT,
                                   w->backend->metadata_arena_bytes(w->metadata[1]));
    cr_assert(arena);
    for (uint32_t i = 0; i < N_STEPS; i++) {
        prepare(w, i, arena);
        make_launch(w, i, arena);
        run_launch(&w->launches[i]);
    }
    free(arena);
}

Test(staged_metadata, every_step_reads_its_own)
{
    static struct world staged, expected;
    world_open(&expected);
    run_at_once(&expected);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        world_open(&staged);
        run_staged(&staged, seed);
        for (uint32_t i = 0; i < N_STEPS; i++)
            cr_assert_arr_eq(staged.launches[i].output, expected.launches[i].output,
                             staged.metadata[i % 2]->n_static * WIDTH * sizeof(float),
                             "seed %lu, step %u", (unsigned long)seed, i);
        world_close(&staged);
    }
    world_close(&expected);
}
