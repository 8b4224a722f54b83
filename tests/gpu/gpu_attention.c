/*
 * gpu_attention - time of the attention operator on a device: one long prompt, and batches that decode.
 *
 *     prefill   64/8 heads of 128, BF16, causal, 64 tokens a block; FLOP = 2 head_dim heads n^2
 *     decode    the same heads, a token a sequence; bytes = K and V of the cache
 *
 * Appending K and V is part of it, as in a forward pass. The caches that a decode reads are rotated past the L2.
 */
#include "device/stage.h"
#include "kernels/cuda/attention.h"
#include "tests/gpu/gpu_sections.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD_DIM = 128, GROUP = 8, BLOCK_TOKENS = 64, CACHES_MAX = 8 };
#define CACHE_ROTATION_BYTES (256ull << 20) /* more than any L2 */

struct shape {
    enum attention_phase phase;
    enum dtype cache;
    uint32_t n_sequences, kv_len, n_kv_heads;
    enum attention_math math; /* COMPUTE: CUDA cores; BF16: tensor cores */
};

struct run {
    struct gpu *gpu;
    struct shape shape;
    struct attention *attention;
    struct attention_metadata *metadata;
    struct stage *stage;
    uint32_t n_caches;
    struct device_memory caches[CACHES_MAX], q, output;
    struct attention_io io;
    struct attention_sequence *sequences;
    uint32_t *block_ids;
    uint32_t n_blocks; /* of a cache */
    struct error error;
};

static uint32_t n_queries(const struct shape *shape)
{
    return shape->phase == PHASE_CONTEXT ? shape->kv_len : 1;
}

static uint64_t cache_bytes(const struct shape *shape)
{
    uint64_t tokens = (uint64_t)shape->n_sequences * shape->kv_len;
    return 2 * tokens * shape->n_kv_heads * HEAD_DIM * dtype_bytes(shape->cache);
}

static void create(struct run *run)
{
    const struct shape *shape = &run->shape;
    const struct attention_config config = {
        .n_heads = shape->n_kv_heads * GROUP,
        .n_kv_heads = shape->n_kv_heads,
        .head_dim = HEAD_DIM,
        .compute = DTYPE_BF16,
        .cache = shape->cache,
        .k_scale = 1.0f / 32,
        .v_scale = 1.0f / 32,
        .mask = MASK_CAUSAL,
        .math = shape->math,
    };
    const struct attention_limits limits = {
        .n_sequences_max = shape->n_sequences,
        .n_tokens_max = shape->n_sequences * n_queries(shape),
        .kv_len_max = shape->kv_len,
        .n_heads = config.n_heads,
        .n_kv_heads = config.n_kv_heads,
        .head_dim = HEAD_DIM,
        .cache = shape->cache,
        .mask = MASK_CAUSAL,
    };
    must(cuda_attention.create(&config, NULL, &run->attention, &run->error), &run->error, "create");
    must(cuda_attention.metadata_create(&limits, NULL, &run->metadata, &run->error), &run->error,
         "metadata_create");
    must(stage_create(run->gpu->device, DEVICE_COMPUTE,
                      cuda_attention.metadata_arena_bytes(run->metadata), &run->stage),
         NULL, "stage");
}

/* Blocks of the sequences in a shuffled order: neighbours in a sequence are none in memory. */
static void lay_out(struct run *run)
{
    const struct shape *shape = &run->shape;
    uint32_t per_sequence = (shape->kv_len + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    run->n_blocks = per_sequence * shape->n_sequences;
    run->block_ids = calloc(run->n_blocks, sizeof *run->block_ids);
    run->sequences = calloc(shape->n_sequences, sizeof *run->sequences);
    assert(run->block_ids && run->sequences);
    for (uint32_t i = 0; i < run->n_blocks; i++)
        run->block_ids[i] = i;
    uint64_t state = 7;
    for (uint32_t i = run->n_blocks - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)((state >> 33) % (i + 1)), id = run->block_ids[i];
        run->block_ids[i] = run->block_ids[j];
        run->block_ids[j] = id;
    }
    for (uint32_t s = 0; s < shape->n_sequences; s++)
        run->sequences[s] = (struct attention_sequence){
            .request_id = s,
            .phase = shape->phase,
            .query_len = n_queries(shape),
            .kv_len = shape->kv_len,
            .prompt_len = shape->kv_len,
            .block_ids = run->block_ids + s * per_sequence,
            .n_blocks = per_sequence,
        };
}

static void allocate(struct run *run)
{
    const struct shape *shape = &run->shape;
    uint32_t width = shape->n_kv_heads * GROUP * HEAD_DIM;
    uint32_t qkv_width = width + 2 * shape->n_kv_heads * HEAD_DIM;
    uint64_t rows = (uint64_t)shape->n_sequences * n_queries(shape);
    uint64_t block_elements = 2ull * shape->n_kv_heads * BLOCK_TOKENS * HEAD_DIM;
    uint64_t n_caches = run->gpu->is_toy ? 1 : CACHE_ROTATION_BYTES / cache_bytes(shape) + 1;
    run->n_caches = n_caches > CACHES_MAX ? CACHES_MAX : (uint32_t)n_caches;
    for (uint32_t i = 0; i < run->n_caches; i++)
        run->caches[i] = gpu_random(run->gpu, shape->cache, run->n_blocks * block_elements);
    run->q = gpu_random(run->gpu, DTYPE_BF16, rows * qkv_width);
    run->output = gpu_random(run->gpu, DTYPE_BF16, rows * width);
    const struct attention_config config = {.n_heads = shape->n_kv_heads * GROUP,
                                            .n_kv_heads = shape->n_kv_heads,
                                            .head_dim = HEAD_DIM,
                                            .compute = DTYPE_BF16};
    run->io = attention_io_fused(&config, run->q.base, qkv_width, run->output.base, width);
}

static void send(struct run *run)
{
    const struct shape *shape = &run->shape;
    const struct attention_step step = {.sequences = run->sequences,
                                        .n_sequences = shape->n_sequences};
    struct kv_view kv = kv_view_dense(run->caches[0].base, run->n_blocks, 1, shape->n_kv_heads,
                                      BLOCK_TOKENS, HEAD_DIM, shape->cache);
    const uint8_t *sent;
    uint8_t *view;
    must(stage_take(run->stage, cuda_attention.metadata_arena_bytes(run->metadata), &view), NULL,
         "stage");
    cuda_attention.metadata_use_arena(run->metadata, view);
    must(cuda_attention.metadata_prepare(run->metadata, &step, &kv, &run->error), &run->error,
         "prepare");
    must(stage_send(run->stage, &sent), NULL, "stage");
    cuda_attention.metadata_use_arena(run->metadata, (void *)(uintptr_t)sent);
}

static void enqueue(void *arg, uint32_t i)
{
    struct run *run = arg;
    run->metadata->kv.base = run->caches[i % run->n_caches].base;
    must(cuda_attention.forward(run->attention, run->metadata, &run->io, &run->error), &run->error,
         "forward");
}

static void finish(struct run *run)
{
    stage_keep(run->stage, device_record(run->gpu->device, DEVICE_COMPUTE));
    must(device_wait(run->gpu->device, device_record(run->gpu->device, DEVICE_COMPUTE)), NULL,
         "wait");
    stage_destroy(run->stage);
    cuda_attention.metadata_destroy(run->metadata);
    cuda_attention.destroy(run->attention);
    for (uint32_t i = 0; i < run->n_caches; i++)
        device_free(run->gpu->device, &run->caches[i]);
    device_free(run->gpu->device, &run->q);
    device_free(run->gpu->device, &run->output);
    free(run->block_ids);
    free(run->sequences);
}

static double measure(struct gpu *gpu, const struct shape *shape)
{
    struct run run = {.gpu = gpu, .shape = *shape};
    create(&run);
    lay_out(&run);
    allocate(&run);
    send(&run);
    double us = gpu_time_us(gpu, enqueue, &run);
    finish(&run);
    return us;
}

static void print_prefill(struct gpu *gpu, uint32_t n, enum attention_math math)
{
    struct shape shape = {.phase = PHASE_CONTEXT,
                          .cache = DTYPE_BF16,
                          .n_sequences = 1,
                          .kv_len = n,
                          .n_kv_heads = gpu->is_toy ? 1 : 8,
                          .math = math};
    char name[32];
    snprintf(name, sizeof name, "%s causal %u", math == MATH_BF16 ? "bf16" : "compute", n);
    if (!gpu_measures(gpu, name))
        return;
    double us = measure(gpu, &shape);
    double flop = 2.0 * HEAD_DIM * shape.n_kv_heads * GROUP * n * n;
    printf("{\"section\": \"prefill\", \"name\": \"%s\", \"tokens\": %u, "
           "\"heads\": %u, \"kv_heads\": %u, \"head_dim\": %u, \"us\": %.2f, \"tflops\": %.6g}\n",
           name, n, shape.n_kv_heads * GROUP, shape.n_kv_heads, HEAD_DIM, us, flop / us / 1e6);
    fflush(stdout);
}

void gpu_prefill(struct gpu *gpu)
{
    static const uint32_t lengths[] = {512, 1024, 2048, 4096, 8192, 16384};
    static const uint32_t on_cuda_cores = 2; /* of the lengths: longer ones take seconds there */
    uint32_t n = gpu->is_toy ? 1 : sizeof lengths / sizeof *lengths;
    for (uint32_t i = 0; i < n; i++)
        print_prefill(gpu, gpu->is_toy ? 64 : lengths[i], MATH_BF16);
    for (uint32_t i = 0; i < n && i < on_cuda_cores; i++)
        print_prefill(gpu, gpu->is_toy ? 64 : lengths[i], MATH_COMPUTE);
}

static void print_decode(struct gpu *gpu, const struct shape *shape)
{
    const char *math = shape->math == MATH_BF16 ? "bf16" : "compute";
    char name[64];
    snprintf(name, sizeof name, "%s %s %u x %u", math, dtype_name(shape->cache), shape->n_sequences,
             shape->kv_len);
    if (!gpu_measures(gpu, name))
        return;
    double us = measure(gpu, shape);
    printf("{\"section\": \"decode\", \"name\": \"%s\", \"cache\": \"%s\", "
           "\"math\": \"%s\", \"batch\": %u, \"tokens\": %u, \"heads\": %u, \"kv_heads\": %u, "
           "\"head_dim\": %u, \"us\": %.2f, \"gbs\": %.6g}\n",
           name, dtype_name(shape->cache), math, shape->n_sequences, shape->kv_len,
           shape->n_kv_heads * GROUP, shape->n_kv_heads, HEAD_DIM, us,
           (double)cache_bytes(shape) / us / 1e3);
    fflush(stdout);
}

void gpu_decode(struct gpu *gpu)
{
    static const uint32_t batches[][2] = {{1, 4096},  {1, 32768}, {8, 4096},  {8, 32768},
                                          {32, 4096}, {64, 8192}, {256, 1024}};
    static const enum dtype caches[] = {DTYPE_BF16, DTYPE_E4M3, DTYPE_INT8};
    static const enum attention_math maths[] = {MATH_BF16, MATH_COMPUTE};
    uint32_t n = gpu->is_toy ? 1 : sizeof batches / sizeof *batches;
    for (uint32_t i = 0; i < 6 * n; i++) {
        const uint32_t *batch = batches[i % n];
        print_decode(gpu, &(struct shape){.phase = PHASE_GENERATION,
                                          .cache = caches[i / n % 3],
                                          .n_sequences = gpu->is_toy ? 2 : batch[0],
                                          .kv_len = gpu->is_toy ? 96 : batch[1],
                                          .n_kv_heads = gpu->is_toy ? 1 : 8,
                                          .math = maths[i / n / 3]});
    }
}
