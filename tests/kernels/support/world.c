#include "tests/kernels/support/world.h"

#include "tests/kernels/support/values.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { LAYER = 1, N_LAYERS = 2, PAD = 3 /* floats between rows, NaN */ };

struct running {
    const struct world *world;
    const struct kernels *kernels;
    struct rope *rope;
    struct attention_config config;
    struct attention *attention;
    struct attention_metadata *metadata;
    struct kv_view kv;
    uint32_t *block_ids[WORLD_SEQUENCES_MAX];
    uint32_t n_blocks[WORLD_SEQUENCES_MAX];
    uint32_t done[WORLD_SEQUENCES_MAX];
    size_t first_row[WORLD_SEQUENCES_MAX];
    float *output;
};

static uint32_t n_columns(const struct world *world)
{
    return (world->n_heads + 2 * world->n_kv_heads) * world->head_dim;
}

static size_t n_rows(const struct world *world)
{
    size_t rows = 0;
    for (uint32_t s = 0; s < world->n_sequences; s++)
        rows += world->lens[s];
    return rows;
}

size_t world_floats(const struct world *world)
{
    return n_rows(world) * world->n_heads * world->head_dim;
}

struct world world_alone(const struct world *world, uint32_t index)
{
    struct world alone = *world;
    alone.n_sequences = 1;
    alone.ids[0] = world->ids[index];
    alone.lens[0] = world->lens[index];
    alone.prompt_lens[0] = world->prompt_lens[index];
    return alone;
}

static void create_layer(struct running *running, struct thread_pool *pool)
{
    const struct world *world = running->world;
    struct error error = {""};
    float q_norm[HEAD_DIM_MAX], k_norm[HEAD_DIM_MAX];
    for (uint32_t i = 0; i < world->head_dim; i++) {
        q_norm[i] = 1 + 0.1f * values_at(world->seed, 1000, i);
        k_norm[i] = 1 + 0.1f * values_at(world->seed, 1001, i);
    }
    if (world->has_rope) {
        struct rope_config rope = {
            .head_dim = world->head_dim, .positions_max = 65536, .theta = 10000};
        enum status status = rope_create(&rope, &running->rope, &error);
        assert(status == STATUS_OK);
        (void)status;
    }
    running->config = (struct attention_config){
        .layer_index = LAYER,
        .n_heads = world->n_heads,
        .n_kv_heads = world->n_kv_heads,
        .head_dim = world->head_dim,
        .cache = world->cache,
        .window = world->window,
        .rope = running->rope,
        .q_norm = world->has_norm ? q_norm : NULL,
        .k_norm = world->has_norm ? k_norm : NULL,
        .norm_eps = 1e-6f,
    };
    uint32_t kv_len_max = 1;
    for (uint32_t s = 0; s < world->n_sequences; s++)
        kv_len_max = world->lens[s] > kv_len_max ? world->lens[s] : kv_len_max;
    struct attention_limits limits = {
        .n_sequences_max = world->n_sequences,
        .n_tokens_max = (uint32_t)n_rows(world) + 1,
        .kv_len_max = kv_len_max,
        .n_heads = world->n_heads,
        .n_kv_heads = world->n_kv_heads,
        .head_dim = world->head_dim,
        .cache = world->cache,
        .ropes = {running->rope},
    };
    const struct attention_backend *backend = running->kernels->attention;
    enum status status = backend->create(&running->config, pool, &running->attention, &error);
    assert(status == STATUS_OK);
    status = backend->metadata_create(&limits, pool, &running->metadata, &error);
    assert(status == STATUS_OK);
}

/* Blocks scattered over a pool that ends at a guard page, the very last one used. */
static struct guarded create_cache(struct running *running)
{
    const struct world *world = running->world;
    uint32_t n_used = 0;
    for (uint32_t s = 0; s < world->n_sequences; s++) {
        running->n_blocks[s] = (world->lens[s] + world->block_tokens - 1) / world->block_tokens;
        running->block_ids[s] = calloc(running->n_blocks[s] + 1, sizeof(uint32_t));
        n_used += running->n_blocks[s];
    }
    uint32_t n_blocks = n_used + 2;
    running->kv = kv_view_dense(NULL, n_blocks, N_LAYERS, world->n_kv_heads, world->block_tokens,
                                world->head_dim, world->cache);
    struct guarded cache = guarded_create(n_blocks * running->kv.block_stride);
    running->kv.base = cache.data;
    uint32_t next = n_blocks;
    for (uint32_t s = 0; s < world->n_sequences; s++)
        for (uint32_t i = 0; i < running->n_blocks[s]; i++)
            running->block_ids[s][i] = --next;
    return cache;
}

/* What sequence s does in the next step; false: nothing in this phase. */
static bool next_sequence(const struct running *running, uint32_t s, enum attention_phase phase,
                          struct attention_sequence *sequence_out)
{
    const struct world *world = running->world;
    uint32_t done = running->done[s];
    uint32_t prompt_len = world->prompt_lens[s];
    bool in_context = done < prompt_len;
    if (done == world->lens[s] || in_context != (phase == PHASE_CONTEXT))
        return false;
    uint32_t n = 1;
    if (in_context)
        n = world->chunk_tokens && world->chunk_tokens < prompt_len - done ? world->chunk_tokens
                                                                           : prompt_len - done;
    *sequence_out = (struct attention_sequence){.request_id = world->ids[s],
                                                .phase = phase,
                                                .query_len = n,
                                                .kv_len = done + n,
                                                .prompt_len = prompt_len,
                                                .block_ids = running->block_ids[s],
                                                .n_blocks = running->n_blocks[s]};
    return true;
}

static void fill_qkv(const struct world *world, const struct attention_sequence *sequence,
                     float *qkv)
{
    uint32_t columns = n_columns(world);
    for (uint32_t i = 0; i < sequence->query_len; i++) {
        uint32_t position = sequence->kv_len - sequence->query_len + i;
        for (uint32_t c = 0; c < columns; c++)
            qkv[(size_t)i * (columns + PAD) + c] = values_at(world->seed + sequence->request_id,
                                                             position, c);
    }
}

static void run_step(struct running *running, const struct attention_step *step,
                     const uint32_t *owners)
{
    const struct world *world = running->world;
    size_t columns = n_columns(world) + PAD;
    size_t width = (size_t)world->n_heads * world->head_dim;
    size_t rows = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++)
        rows += step->sequences[i].query_len;
    struct guarded qkv = guarded_create((rows * columns - PAD) * sizeof(float));
    struct guarded output = guarded_create((rows * (width + PAD) - PAD) * sizeof(float));
    size_t row = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        fill_qkv(world, &step->sequences[i], (float *)qkv.data + row * columns);
        row += step->sequences[i].query_len;
    }
    const struct attention_backend *backend = running->kernels->attention;
    struct error error = {""};
    enum status status = backend->metadata_prepare(running->metadata, step, &running->kv, &error);
    assert(status == STATUS_OK);
    struct attention_io io = attention_io_fused(&running->config, qkv.data, columns, output.data,
                                                width + PAD);
    status = backend->forward(running->attention, running->metadata, &io, NULL);
    assert(status == STATUS_OK);
    row = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++)
        for (uint32_t j = 0; j < step->sequences[i].query_len; j++, row++)
            memcpy(running->output +
                       (running->first_row[owners[i]] + running->done[owners[i]]++) * width,
                   (float *)output.data + row * (width + PAD), width * sizeof(float));
    guarded_destroy(&qkv);
    guarded_destroy(&output);
}

static bool run_next_step(struct running *running)
{
    struct attention_sequence sequences[WORLD_SEQUENCES_MAX];
    uint32_t owners[WORLD_SEQUENCES_MAX];
    uint32_t n = 0;
    for (enum attention_phase phase = PHASE_CONTEXT; phase <= PHASE_GENERATION; phase++)
        for (uint32_t s = 0; s < running->world->n_sequences; s++)
            if (next_sequence(running, s, phase, &sequences[n]))
                owners[n++] = s;
    if (n == 0)
        return false;
    struct attention_step step = {.sequences = sequences, .n_sequences = n};
    run_step(running, &step, owners);
    return true;
}

struct guarded world_run(const struct world *world, const struct kernels *kernels,
                         struct thread_pool *pool)
{
    struct running running = {.world = world, .kernels = kernels};
    struct guarded output = guarded_create(world_floats(world) * sizeof(float));
    running.output = output.data;
    for (uint32_t s = 1; s < world->n_sequences; s++)
        running.first_row[s] = running.first_row[s - 1] + world->lens[s - 1];
    create_layer(&running, pool);
    struct guarded cache = create_cache(&running);
    while (run_next_step(&running))
        ;
    kernels->attention->metadata_destroy(running.metadata);
    kernels->attention->destroy(running.attention);
    rope_destroy(running.rope);
    guarded_destroy(&cache);
    for (uint32_t s = 0; s < world->n_sequences; s++)
        free(running.block_ids[s]);
    return output;
}

static const uint32_t lengths[] = {1,  2,  7,  8,  9,  15, 16, 17,  31,  32,  33,
                                   47, 63, 64, 65, 90, 96, 97, 127, 128, 129, 257};
static const uint32_t windows[] = {0, 0, 0, 1, 2, 16, 63, 64, 65, 100, 300};
static const uint32_t heads[][2] = {{1, 1}, {2, 2}, {3, 1}, {4, 2}, {4, 1},  {6, 3},
                                    {7, 1}, {8, 2}, {9, 3}, {5, 1}, {13, 1}, {100, 1}};

#define PICK(state, array) array[values_below(state, sizeof array / sizeof array[0])]

struct world world_random(uint64_t seed)
{
    uint64_t state = values_hash(seed);
    struct world world = {.seed = seed};
    uint32_t pair = values_below(&state, sizeof heads / sizeof heads[0]);
    world.n_heads = heads[pair][0];
    world.n_kv_heads = heads[pair][1];
    world.head_dim = 8 *
                     (1 + values_below(&state, values_below(&state, 4) ? 16 : HEAD_DIM_MAX / 8));
    world.cache = (enum dtype)(seed % 3);
    world.window = PICK(&state, windows);
    world.has_rope = values_below(&state, 4) > 0;
    world.has_norm = values_below(&state, 3) == 0;
    world.block_tokens = 8u << values_below(&state, 5);
    world.chunk_tokens = values_below(&state, 3) * world.block_tokens;
    world.n_sequences = 1 + values_below(&state, 4);
    /* The oracle's time is about sum(len^2) n_heads head_dim. */
    uint64_t work_left = 6000000;
    for (uint32_t s = 0; s < world.n_sequences; s++) {
        uint32_t len = PICK(&state, lengths);
        uint64_t cost = (uint64_t)world.n_heads * world.head_dim;
        while (len > 1 && len * (uint64_t)len * cost > work_left)
            len = len * 3 / 4;
        work_left -= len * (uint64_t)len * cost < work_left ? len * (uint64_t)len * cost : 0;
        world.ids[s] = s + 1;
        world.lens[s] = len;
        uint32_t n_generated = values_below(&state, 8);
        world.prompt_lens[s] = n_generated < len ? len - n_generated : len;
    }
    return world;
}
