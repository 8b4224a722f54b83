#include "base/clock.h"
#include "kernels/kernels.h"
#include "kernels/quantize.h"
#include "kernels/rope.h"
#include "model/forward/kernel_trial.h"

#include <stdlib.h>
#include <string.h>

enum {
    BATCH_TOKENS = 16,
    BLOCK_TOKENS = 128,
    N_BLOCKS = 4,
    KV_TOKENS = BLOCK_TOKENS * N_BLOCKS,
    ALIGNMENT = 64
};
#define WEIGHTS_MAX                                                                                \
    (1u                                                                                            \
     << 18) /* of the product: larger than an L1 cache, small enough to be made in a millisecond */

/* Calls until the time is over, at least once, after a call that finds threads asleep and caches cold. Returns the
 * shortest call: the others were disturbed. */
static uint64_t shortest(void (*call)(void *arg), void *arg, uint64_t until_ns)
{
    call(arg);
    uint64_t before_ns = clock_now_ns(), best_ns = UINT64_MAX;
    for (bool is_first = true; is_first || before_ns < until_ns; is_first = false) {
        call(arg);
        const uint64_t now_ns = clock_now_ns();
        if (now_ns - before_ns < best_ns)
            best_ns = now_ns - before_ns;
        before_ns = now_ns;
    }
    return best_ns > 0 ? best_ns : 1;
}

static void *array_of(size_t bytes)
{
    return aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

#define PATTERN 4096 /* elements that are repeated */

/* Small numbers of both signs. NULL: no memory. */
static void *filled(enum dtype dtype, size_t n)
{
    const size_t n_first = n < PATTERN ? n : PATTERN, element_bytes = dtype_bytes(dtype);
    char *array = array_of(n * element_bytes);
    if (!array)
        return NULL;
    for (size_t i = 0; i < n_first; i++)
        dtype_store(dtype, array, i, (float)((i * 37) % 31) / 16 - 1);
    for (size_t i = n_first; i < n; i += n_first)
        memcpy(array + i * element_bytes, array,
               (n - i < n_first ? n - i : n_first) * element_bytes);
    return array;
}

/* ---- products: one token, then a batch ---- */

struct products {
    const struct kernels *set;
    struct thread_pool *threads;
    struct gemm gemm;
};

static void run_products(void *arg)
{
    struct products *products = arg;
    for (uint32_t n = 1; n <= BATCH_TOKENS; n += BATCH_TOKENS - 1) {
        products->gemm.n_tokens = n;
        products->set->gemm(products->threads, &products->gemm, 1);
    }
}

/* Rounds w as the model's weights are, and packs it for the set. Returns memory that the gemm uses; NULL: none. */
static void *packed_of(const struct kernel_trial *trial, struct products *products, void *w)
{
    struct gemm *gemm = &products->gemm;
    struct quantized counts;
    enum quantize_format format = trial->weights == WEIGHTS_INT8 ? QUANTIZE_INT8_ROWS
                                                                 : QUANTIZE_INT8_GROUPS;
    void *packed = NULL;
    if (!products->set->gemm_pack ||
        quantized_init(format, gemm->n_out, gemm->n_in, &counts, NULL) != STATUS_OK)
        return NULL;
    counts.w = malloc(quantized_w_bytes(&counts));
    counts.scales = malloc(quantized_scales_bytes(&counts));
    if (counts.w && counts.scales) {
        quantize(trial->threads, &counts, trial->weight_dtype, w);
        gemm->w = counts.w;
        gemm->w_dtype = counts.dtype;
        gemm->w_scales = counts.scales;
        gemm->w_scale_rows = counts.scale_rows;
        gemm->w_scale_columns = counts.scale_columns;
        packed = array_of(products->set->gemm_packed_bytes(gemm));
        if (packed)
            products->set->gemm_pack(trial->threads, gemm, packed);
        gemm->w = packed;
        gemm->w_scales = NULL;
        gemm->w_is_packed = true;
    }
    free(counts.w);
    free(counts.scales);
    return packed;
}

static uint64_t time_products(const struct kernel_trial *trial, const struct kernels *set,
                              uint64_t until_ns)
{
    const uint32_t n_in = trial->config->hidden;
    const uint32_t n_fit = WEIGHTS_MAX / n_in > 0 ? WEIGHTS_MAX / n_in : 1;
    const uint32_t n_out = trial->config->ffn < n_fit ? trial->config->ffn : n_fit;
    struct products products = {.set = set, .threads = trial->threads};
    uint64_t time_ns = 0;
    void *x = filled(DTYPE_F32, (size_t)BATCH_TOKENS * n_in);
    void *w = filled(trial->weight_dtype, (size_t)n_out * n_in);
    void *y = array_of(sizeof(float) * BATCH_TOKENS * n_out), *packed = NULL;
    const size_t workspace_bytes = gemm_workspace_bytes(set, BATCH_TOKENS, n_in);
    void *workspace = workspace_bytes > 0 ? array_of(workspace_bytes) : NULL;
    products.gemm = (struct gemm){.x = x,
                                  .x_dtype = DTYPE_F32,
                                  .x_stride = n_in,
                                  .w = w,
                                  .w_dtype = trial->weight_dtype,
                                  .y = y,
                                  .y_dtype = DTYPE_F32,
                                  .y_stride = n_out,
                                  .n_in = n_in,
                                  .n_out = n_out,
                                  .workspace = workspace,
                                  .workspace_bytes = workspace_bytes};
    bool is_made = x && w && y && (workspace || workspace_bytes == 0);
    if (is_made && weight_format_is_int8(trial->weights)) {
        packed = packed_of(trial, &products, w);
        is_made = packed;
    }
    if (is_made)
        time_ns = shortest(run_products, &products, until_ns);
    free(x);
    free(w);
    free(y);
    free(workspace);
    free(packed);
    return time_ns;
}

/* ---- attention: one token of one sequence ---- */

struct step {
    const struct attention_backend *backend;
    struct rope *rope;
    struct attention *layer;
    struct attention_metadata *metadata;
    void *cache, *qkv, *output;
    struct attention_io io;
    enum status status;
};

static void run_attention(void *arg)
{
    struct step *step = arg;
    enum status status = step->backend->forward(step->layer, step->metadata, &step->io, NULL);
    if (status != STATUS_OK)
        step->status = status;
}

static enum status open_step(const struct kernel_trial *trial, struct step *step)
{
    static const uint32_t IDS[N_BLOCKS] = {0, 1, 2, 3};
    const struct model_config *config = trial->config;
    const struct attention_config attention = {.n_heads = config->n_heads,
                                               .n_kv_heads = config->n_kv_heads,
                                               .head_dim = config->head_dim,
                                               .cache = trial->cache,
                                               .k_scale = 1,
                                               .v_scale = 1,
                                               .rope = step->rope};
    const struct attention_limits limits = {.n_sequences_max = 1,
                                            .n_tokens_max = 1,
                                            .kv_len_max = KV_TOKENS,
                                            .n_heads = config->n_heads,
                                            .n_kv_heads = config->n_kv_heads,
                                            .head_dim = config->head_dim,
                                            .cache = trial->cache,
                                            .ropes = {step->rope}};
    const uint64_t stride = (uint64_t)(config->n_heads + 2 * config->n_kv_heads) * config->head_dim;
    const uint64_t output_stride = (uint64_t)config->n_heads * config->head_dim;
    const struct attention_sequence sequence = {.phase = PHASE_GENERATION,
                                                .query_len = 1,
                                                .kv_len = KV_TOKENS,
                                                .prompt_len = KV_TOKENS,
                                                .block_ids = IDS,
                                                .n_blocks = N_BLOCKS};
    const struct attention_step one = {.sequences = &sequence, .n_sequences = 1};
    TRY(step->backend->create(&attention, trial->threads, &step->layer, NULL));
    TRY(step->backend->metadata_create(&limits, trial->threads, &step->metadata, NULL));
    struct kv_view kv = kv_view_dense(NULL, N_BLOCKS, 1, config->n_kv_heads, BLOCK_TOKENS,
                                      config->head_dim, trial->cache);
    step->cache = filled(trial->cache, N_BLOCKS * kv.block_stride / dtype_bytes(trial->cache));
    step->qkv = filled(DTYPE_F32, stride);
    step->output = array_of(output_stride * sizeof(float));
    if (!step->cache || !step->qkv || !step->output)
        return STATUS_NO_MEMORY;
    kv.base = step->cache;
    step->io = attention_io_fused(&attention, step->qkv, stride, step->output, output_stride);
    return step->backend->metadata_prepare(step->metadata, &one, &kv, NULL);
}

static uint64_t time_attention(const struct kernel_trial *trial, const struct kernels *set,
                               uint64_t until_ns)
{
    const struct rope_config rope = {
        .head_dim = trial->config->head_dim, .positions_max = 2 * KV_TOKENS, .theta = 10000};
    struct step step = {.backend = set->attention};
    uint64_t time_ns = 0;
    if (trial->config->decoder.latent.dim > 0) /* no other attention than that of the default set */
        return 0;
    if (rope_create(&rope, &step.rope, NULL) == STATUS_OK && open_step(trial, &step) == STATUS_OK)
        time_ns = shortest(run_attention, &step, until_ns);
    step.backend->destroy(step.layer);
    step.backend->metadata_destroy(step.metadata);
    rope_destroy(step.rope);
    free(step.cache);
    free(step.qkv);
    free(step.output);
    return step.status == STATUS_OK ? time_ns : 0;
}

static uint64_t time_part(void *arg, const struct kernel_trial *trial, const struct kernels *set,
                          enum kernel_part part, uint64_t until_ns)
{
    (void)arg;
    return part == KERNEL_PRODUCTS ? time_products(trial, set, until_ns)
                                   : time_attention(trial, set, until_ns);
}

static uint64_t now(void *arg)
{
    (void)arg;
    return clock_now_ns();
}

const struct kernel_trial_ways kernel_trial_ways = {.now_ns = now, .time_ns = time_part};
