/*
 * gpu_bits_attention - every way to attend gives a token the same bits: in other blocks and chunks, with its keys split, beside
 * other sequences, by another kernel where both claim the same.
 *
 * Of one sequence, whose prompt is attended and whose last tokens are generated, by the operator as a worker calls it.
 */
#include "device/stage.h"
#include "kernels/cuda/attention.h"
#include "tests/gpu/gpu_bits.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES_MAX = 3, HEADS_MAX = 20 };

/* What changes nothing, besides company and blocks. */
enum {
    SAME_CHUNKS = 1,        /* where the prompt is cut */
    SAME_PHASE = 2,         /* which tokens are generated */
    SAME_MASKED = 4,        /* cuda_masked computes it */
    SAME_MASKED_PROMPT = 8, /* the prompt alone */
    SAME_REFERENCE = 16,    /* cuda_reference */
    SAME_PATH = 32,         /* where scores are stored */
};
#define SAME_ROWS (SAME_CHUNKS | SAME_PHASE | SAME_MASKED | SAME_REFERENCE)

static const struct attention_case {
    const char *name;
    uint32_t same;
    const struct attention_backend *backend;
    enum attention_math math;
    enum dtype compute, cache;
    uint32_t n_heads, n_kv_heads, head_dim, window;
    float soft_cap, alibi_scale;
    bool has_sinks;
    enum attention_path path;
} cases[] = {
    /* CUDA cores, a running softmax */
    {"masked F32", SAME_ROWS, &cuda_attention, MATH_COMPUTE, DTYPE_F32, DTYPE_F32, 3, 1, 16, 0, 0,
     0, true, PATH_AUTO},
    {"masked BF16", SAME_ROWS, &cuda_attention, MATH_COMPUTE, DTYPE_BF16, DTYPE_BF16, 8, 1, 128, 0,
     0, 0, false, PATH_AUTO},
    {"masked F16, 16 rows", SAME_ROWS, &cuda_attention, MATH_COMPUTE, DTYPE_F16, DTYPE_F16, 16, 1,
     64, 0, 0, 0, false, PATH_AUTO},
    {"masked BF16, cache INT8", SAME_ROWS, &cuda_attention, MATH_COMPUTE, DTYPE_BF16, DTYPE_INT8, 8,
     2, 128, 70, 0, 0, false, PATH_AUTO},
    {"masked F16, cap, cache E4M3", SAME_ROWS, &cuda_attention, MATH_COMPUTE, DTYPE_F16, DTYPE_E4M3,
     4, 4, 200, 0, 5, 1, false, PATH_AUTO},
    {"masked, math FP8", SAME_CHUNKS | SAME_MASKED | SAME_REFERENCE, &cuda_attention, MATH_FP8,
     DTYPE_BF16, DTYPE_E4M3, 2, 2, 136, 45, 0, 0, true, PATH_AUTO},
    {"masked, math BF16", SAME_CHUNKS | SAME_REFERENCE, &cuda_attention_masked, MATH_BF16,
     DTYPE_BF16, DTYPE_BF16, 4, 2, 64, 0, 0, 0, false, PATH_AUTO},
    {"masked, math FP16", SAME_CHUNKS | SAME_REFERENCE, &cuda_attention_masked, MATH_FP16,
     DTYPE_F16, DTYPE_INT8, 4, 1, 128, 300, 0, 1, true, PATH_AUTO},
    /* tensor cores; with rows of F32 the prompt alone, to the last bit */
    {"flash BF16, rows F32", SAME_CHUNKS, &cuda_attention, MATH_BF16, DTYPE_F32, DTYPE_BF16, 4, 2,
     128, 0, 0, 0, false, PATH_AUTO},
    {"flash FP16, rows F32", SAME_CHUNKS, &cuda_attention, MATH_FP16, DTYPE_F32, DTYPE_F16, 2, 1,
     64, 70, 0, 0, true, PATH_AUTO},
    {"flash, grouped BF16 64", SAME_CHUNKS, &cuda_attention, MATH_BF16, DTYPE_BF16, DTYPE_BF16, 4,
     1, 64, 0, 0, 0, false, PATH_AUTO},
    {"flash, grouped BF16 128", SAME_CHUNKS, &cuda_attention, MATH_BF16, DTYPE_BF16, DTYPE_BF16, 8,
     1, 128, 70, 0, 0, true, PATH_AUTO},
    {"flash, grouped FP16 64", SAME_CHUNKS, &cuda_attention, MATH_FP16, DTYPE_F16, DTYPE_F16, 20, 1,
     64, 250, 0, 0, true, PATH_AUTO},
    {"flash, grouped FP16 128", SAME_CHUNKS, &cuda_attention, MATH_FP16, DTYPE_F16, DTYPE_F16, 2, 2,
     128, 0, 0, 0, false, PATH_AUTO},
    {"grouped BF16, cache INT8", SAME_CHUNKS | SAME_MASKED_PROMPT, &cuda_attention, MATH_BF16,
     DTYPE_BF16, DTYPE_INT8, 8, 1, 64, 0, 0, 0, false, PATH_AUTO},
    {"grouped BF16, cap, cache E4M3", SAME_CHUNKS | SAME_MASKED_PROMPT, &cuda_attention, MATH_BF16,
     DTYPE_BF16, DTYPE_E4M3, 16, 1, 128, 20, 5, 0, true, PATH_AUTO},
    {"grouped FP16, ALiBi, cache INT8", SAME_CHUNKS | SAME_MASKED_PROMPT, &cuda_attention,
     MATH_FP16, DTYPE_F16, DTYPE_INT8, 4, 2, 128, 0, 0, 1, false, PATH_AUTO},
    {"grouped FP16, cache E4M3", SAME_CHUNKS | SAME_MASKED_PROMPT, &cuda_attention, MATH_FP16,
     DTYPE_F16, DTYPE_E4M3, 2, 1, 64, 0, 0, 0, false, PATH_AUTO},
    /* stored scores */
    {"whole F32", SAME_CHUNKS | SAME_PATH | SAME_MASKED, &cuda_attention, MATH_COMPUTE, DTYPE_F32,
     DTYPE_F32, 3, 1, 16, 0, 0, 0, true, PATH_UNFUSED},
    {"whole, math BF16", SAME_CHUNKS | SAME_PATH | SAME_MASKED_PROMPT, &cuda_attention, MATH_BF16,
     DTYPE_BF16, DTYPE_BF16, 2, 1, 64, 70, 0, 0, false, PATH_SHORT},
    {"whole, math FP16, cap", SAME_CHUNKS | SAME_PATH | SAME_MASKED, &cuda_attention, MATH_FP16,
     DTYPE_F16, DTYPE_INT8, 20, 1, 8, 0, 5, 0, true, PATH_UNFUSED},
    {"whole, math FP8", SAME_CHUNKS | SAME_PATH | SAME_MASKED, &cuda_attention, MATH_FP8, DTYPE_F32,
     DTYPE_E4M3, 2, 2, 136, 45, 0, 1, false, PATH_SHORT},
    /* Q and K rounded to INT8: chunks have a part in it */
    {"INT8", SAME_MASKED | SAME_REFERENCE, &cuda_attention, MATH_INT8, DTYPE_F32, DTYPE_F32, 2, 1,
     72, 0, 0, 0, false, PATH_AUTO},
    {"INT8, PV FP8", SAME_MASKED | SAME_REFERENCE, &cuda_attention, MATH_INT8_PV_FP8, DTYPE_BF16,
     DTYPE_INT8, 5, 1, 136, 70, 0, 0, false, PATH_AUTO},
};
/* Of each family of kernels one. */
static const uint32_t toy_cases[] = {0, 7, 8, 12, 16, 20};

/* One way to compute a case. */
struct arrangement {
    const char *name;
    uint32_t needs; /* of what is the same: all of these */
    uint32_t block_tokens, chunk_tokens;
    uint32_t n_draft; /* tokens of a step behind the prompt; 0: 1 */
    enum attention_choice multi_block;
    bool is_beside, more_generated, other_path, prompt_alone;
    bool
        is_shifted; /* rows of Q, K, V and the output lie an element further: no vectors, other kernels */
    const struct attention_backend *backend; /* NULL: the case's */
};
static const struct arrangement base = {.name = "alone", .block_tokens = 16};
static const struct arrangement arrangements[] = {
    {.name = "once more", .block_tokens = 16},
    {.name = "beside others", .block_tokens = 16, .is_beside = true},
    {.name = "in blocks of 64", .block_tokens = 64},
    {.name = "an element further", .block_tokens = 32, .is_shifted = true},
    {.name = "keys split", .block_tokens = 16, .multi_block = CHOICE_ON},
    {.name = "keys not split", .block_tokens = 16, .multi_block = CHOICE_OFF},
    {.name = "split beside others",
     .block_tokens = 32,
     .multi_block = CHOICE_ON,
     .is_beside = true},
    {.name = "in chunks of 24", .needs = SAME_CHUNKS, .block_tokens = 8, .chunk_tokens = 24},
    {.name = "in chunks beside others",
     .needs = SAME_CHUNKS,
     .block_tokens = 32,
     .chunk_tokens = 32,
     .is_beside = true},
    {.name = "more of it generated",
     .needs = SAME_PHASE,
     .block_tokens = 16,
     .more_generated = true},
    {.name = "as drafts of 3", .block_tokens = 16, .n_draft = 3},
    {.name = "by the other path", .needs = SAME_PATH, .block_tokens = 16, .other_path = true},
    {.name = "by cuda_masked",
     .needs = SAME_MASKED,
     .block_tokens = 16,
     .backend = &cuda_attention_masked},
    {.name = "prompt by cuda_masked",
     .needs = SAME_MASKED_PROMPT,
     .block_tokens = 16,
     .prompt_alone = true,
     .backend = &cuda_attention_masked},
    {.name = "by cuda_reference",
     .needs = SAME_REFERENCE,
     .block_tokens = 64,
     .backend = &cuda_attention_reference},
};

struct sequence {
    uint64_t id;
    uint32_t prompt_len, len, done;
    uint32_t *blocks;
    uint32_t n_blocks;
};

/* A case as arranged; the sequence that is looked at is the last. */
struct run {
    struct bits *bits;
    const struct attention_case *of;
    const struct arrangement *as;
    const struct attention_backend *backend;
    struct attention_config config;
    struct attention *attention;
    struct attention_metadata *metadata;
    struct stage *stage;
    float sinks[HEADS_MAX];
    struct sequence sequences[SEQUENCES_MAX];
    uint32_t n_sequences, n_rows_max;
    struct kv_view kv;
    struct device_memory cache, qkv, output, lse;
    uint8_t *qkv_at, *output_at;
    uint32_t qkv_width, width; /* elements of a row */
    uint8_t *rows, *outputs;   /* of a step */
    float *lses;
    /* what came of the last sequence, a token a row: output, lse */
    uint8_t *result;
    size_t row_bytes, output_bytes;
    struct error error;
};

/* ---- a run's objects ---- */

static enum attention_path path_of(const struct run *run)
{
    if (!run->as->other_path)
        return run->of->path;
    return run->of->path == PATH_SHORT ? PATH_UNFUSED : PATH_SHORT;
}

static void configure(struct run *run)
{
    const struct attention_case *of = run->of;
    for (uint32_t head = 0; head < of->n_heads; head++)
        run->sinks[head] = bits_number(5, head);
    run->config = (struct attention_config){
        .n_heads = of->n_heads,
        .n_kv_heads = of->n_kv_heads,
        .head_dim = of->head_dim,
        .compute = of->compute,
        .cache = of->cache,
        .k_scale = 1.0f / 64,
        .v_scale = 1.0f / 64,
        .q_scale = 1.0f / 64,
        .soft_cap = of->soft_cap,
        .bias.alibi_scale = of->alibi_scale,
        .sinks = of->has_sinks ? run->sinks : NULL,
        .mask = MASK_CAUSAL,
        .window = of->window,
        .n_draft_max = run->as->n_draft,
        .path = path_of(run),
        .math = of->math,
        .multi_block = run->as->multi_block,
    };
}

static void add(struct run *run, const struct sequence *sequence)
{
    assert(run->n_sequences < SEQUENCES_MAX);
    run->sequences[run->n_sequences++] = *sequence;
    run->n_rows_max += sequence->len;
}

/* The keys of 294 tokens are two ranges (ATTENTION_RANGE_KEYS), those of more than 600 are three. */
static void make_sequences(struct run *run)
{
    const uint32_t longer = run->bits->gpu.is_toy ? 40 : 613, shorter = longer / 2 - 17;
    const uint32_t n_generated = run->as->more_generated ? 20 : 4;
    const struct sequence beside[SEQUENCES_MAX - 1] = {
        {.id = 7, .prompt_len = shorter, .len = shorter + 5},
        {.id = 3, .prompt_len = longer, .len = longer + 2}};
    const struct sequence own = {.id = 1, .prompt_len = longer - n_generated, .len = longer};
    for (uint32_t i = 0; run->as->is_beside && i < SEQUENCES_MAX - 1; i++)
        add(run, &beside[i]);
    add(run, &own);
}

/* Blocks that are neighbours in a sequence are none in memory, and hold NaN. */
static void make_cache(struct run *run)
{
    const struct attention_case *of = run->of;
    const uint32_t tokens = run->as->block_tokens;
    uint32_t n_blocks = 0, next = 0;
    for (uint32_t i = 0; i < run->n_sequences; i++) {
        run->sequences[i].n_blocks = (run->sequences[i].len + tokens - 1) / tokens;
        n_blocks += run->sequences[i].n_blocks;
    }
    for (uint32_t i = 0; i < run->n_sequences; i++) {
        struct sequence *sequence = &run->sequences[i];
        sequence->blocks = bits_zeroed(sequence->n_blocks, sizeof *sequence->blocks);
        for (uint32_t b = 0; b < sequence->n_blocks; b++, next++)
            sequence->blocks[b] = next % 2 ? next / 2 : n_blocks - 1 - next / 2;
    }
    const size_t bytes = (size_t)2 * n_blocks * of->n_kv_heads * tokens * of->head_dim *
                         dtype_bytes(of->cache);
    uint8_t *poison = bits_zeroed(bytes, 1);
    memset(poison, 0xff, bytes);
    run->cache = bits_memory(run->bits, poison, bytes);
    free(poison);
    run->kv = kv_view_dense(run->cache.base, n_blocks, 1, of->n_kv_heads, tokens, of->head_dim,
                            of->cache);
}

static void make_rows(struct run *run)
{
    const struct attention_case *of = run->of;
    const size_t n = run->n_rows_max, bytes = dtype_bytes(of->compute);
    run->width = of->n_heads * of->head_dim;
    run->qkv_width = run->width + 2 * of->n_kv_heads * of->head_dim;
    run->output_bytes = run->width * bytes;
    run->row_bytes = run->output_bytes + of->n_heads * sizeof(float);
    run->rows = bits_zeroed(n * run->qkv_width + 1, bytes);
    run->outputs = bits_zeroed(n * run->width + 1, bytes);
    run->lses = bits_zeroed(n * of->n_heads, sizeof(float));
    run->result = bits_zeroed(n, run->row_bytes);
    run->qkv = bits_memory(run->bits, run->rows, (n * run->qkv_width + 1) * bytes);
    run->output = bits_memory(run->bits, run->outputs, (n * run->width + 1) * bytes);
    run->qkv_at = run->qkv.base + (run->as->is_shifted ? bytes : 0);
    run->output_at = run->output.base + (run->as->is_shifted ? bytes : 0);
    run->lse = bits_memory(run->bits, run->lses, n * of->n_heads * sizeof(float));
}

static void create(struct run *run)
{
    const struct attention_case *of = run->of;
    struct attention_limits limits = {
        .n_sequences_max = run->n_sequences,
        .n_tokens_max = run->n_rows_max,
        .kv_len_max = 1,
        .n_heads = of->n_heads,
        .n_kv_heads = of->n_kv_heads,
        .head_dim = of->head_dim,
        .cache = of->cache,
        .mask = MASK_CAUSAL,
        .n_draft_max = run->as->n_draft,
        .has_short_path = run->config.path == PATH_SHORT,
        .has_multi_block = run->config.multi_block == CHOICE_ON,
    };
    for (uint32_t i = 0; i < run->n_sequences; i++)
        if (run->sequences[i].len > limits.kv_len_max)
            limits.kv_len_max = run->sequences[i].len;
    must(run->backend->create(&run->config, NULL, &run->attention, &run->error), &run->error,
         of->name);
    must(run->backend->metadata_create(&limits, NULL, &run->metadata, &run->error), &run->error,
         of->name);
    must(stage_create(run->bits->gpu.device, DEVICE_COMPUTE,
                      run->backend->metadata_arena_bytes(run->metadata), &run->stage),
         NULL, "stage");
}

static void make(struct run *run)
{
    run->backend = run->as->backend ? run->as->backend : run->of->backend;
    configure(run);
    make_sequences(run);
    make_cache(run);
    make_rows(run);
    create(run);
}

static void destroy(struct run *run)
{
    struct device *device = run->bits->gpu.device;
    stage_destroy(run->stage);
    run->backend->metadata_destroy(run->metadata);
    run->backend->destroy(run->attention);
    device_free(device, &run->cache);
    device_free(device, &run->qkv);
    device_free(device, &run->output);
    device_free(device, &run->lse);
    for (uint32_t i = 0; i < run->n_sequences; i++)
        free(run->sequences[i].blocks);
    free(run->rows);
    free(run->outputs);
    free(run->lses);
    free(run->result);
}

/* ---- steps ---- */

struct step {
    struct attention_sequence sequences[SEQUENCES_MAX];
    uint32_t owners[SEQUENCES_MAX], first_rows[SEQUENCES_MAX], n_sequences, n_rows;
};

static void add_sequence(struct run *run, uint32_t owner, uint32_t n, struct step *step)
{
    const struct sequence *sequence = &run->sequences[owner];
    const enum dtype compute = run->of->compute;
    step->owners[step->n_sequences] = owner;
    step->first_rows[step->n_sequences] = step->n_rows;
    step->sequences[step->n_sequences++] = (struct attention_sequence){
        .request_id = sequence->id,
        .phase = sequence->done < sequence->prompt_len ? PHASE_CONTEXT : PHASE_GENERATION,
        .query_len = n,
        .kv_len = sequence->done + n,
        .prompt_len = sequence->prompt_len,
        .block_ids = sequence->blocks,
        .n_blocks = sequence->n_blocks,
    };
    for (uint32_t t = 0; t < n; t++, step->n_rows++)
        for (uint32_t i = 0; i < run->qkv_width; i++)
            dtype_store(compute, run->rows, (size_t)step->n_rows * run->qkv_width + i,
                        1.75f * bits_number(sequence->id << 20 | (sequence->done + t), i));
}

/* Chunks of prompts, and what is generated meanwhile by those whose prompt has ended. False: there is nothing left. */
static bool make_step(struct run *run, struct step *step)
{
    *step = (struct step){0};
    for (uint32_t i = 0; i < run->n_sequences; i++) {
        const struct sequence *sequence = &run->sequences[i];
        const uint32_t left = sequence->prompt_len - sequence->done;
        const uint32_t most = run->as->chunk_tokens != 0 ? run->as->chunk_tokens : left;
        if (sequence->done < sequence->prompt_len)
            add_sequence(run, i, left < most ? left : most, step);
    }
    for (uint32_t i = 0; i < run->n_sequences && !run->as->prompt_alone; i++) {
        const struct sequence *sequence = &run->sequences[i];
        const uint32_t left = sequence->len - sequence->done;
        const uint32_t most = run->as->n_draft != 0 ? run->as->n_draft : 1;
        if (sequence->done >= sequence->prompt_len && left > 0)
            add_sequence(run, i, left < most ? left : most, step);
    }
    return step->n_sequences > 0;
}

static void compute(struct run *run, const struct step *step)
{
    const struct attention_step of_backend = {.sequences = step->sequences,
                                              .n_sequences = step->n_sequences};
    struct attention_io io = attention_io_fused(&run->config, run->qkv_at, run->qkv_width,
                                                run->output_at, run->width);
    const uint8_t *sent;
    uint8_t *view;
    io.lse = (float *)(void *)run->lse.base;
    must(stage_take(run->stage, run->backend->metadata_arena_bytes(run->metadata), &view), NULL,
         "stage");
    run->backend->metadata_use_arena(run->metadata, view);
    must(run->backend->metadata_prepare(run->metadata, &of_backend, &run->kv, &run->error),
         &run->error, run->of->name);
    must(stage_send(run->stage, &sent), NULL, "stage");
    run->backend->metadata_use_arena(run->metadata, (void *)(uintptr_t)sent);
    must(run->backend->forward(run->attention, run->metadata, &io, &run->error), &run->error,
         run->of->name);
    stage_keep(run->stage, device_record(run->bits->gpu.device, DEVICE_COMPUTE));
}

static void collect(struct run *run, const struct step *step)
{
    const size_t lse_bytes = run->of->n_heads * sizeof(float);
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        struct sequence *sequence = &run->sequences[step->owners[i]];
        for (uint32_t t = 0; t < step->sequences[i].query_len; t++, sequence->done++) {
            const size_t from = step->first_rows[i] + t;
            uint8_t *row = run->result + sequence->done * run->row_bytes;
            if (step->owners[i] != run->n_sequences - 1)
                continue;
            memcpy(row, run->outputs + from * run->output_bytes, run->output_bytes);
            memcpy(row + run->output_bytes, run->lses + from * run->of->n_heads, lse_bytes);
        }
    }
}

/* Rows that a step does not write stay NaN. */
static void run_steps(struct run *run)
{
    struct gpu *gpu = &run->bits->gpu;
    struct step step;
    while (make_step(run, &step)) {
        const size_t outputs = step.n_rows * run->output_bytes;
        const size_t lses = step.n_rows * run->of->n_heads * sizeof(float);
        gpu_write(gpu, run->qkv_at, run->rows,
                  (size_t)step.n_rows * run->qkv_width * dtype_bytes(run->of->compute));
        memset(run->outputs, 0xff, outputs);
        memset(run->lses, 0xff, lses);
        gpu_write(gpu, run->output_at, run->outputs, outputs);
        gpu_write(gpu, run->lse.base, run->lses, lses);
        compute(run, &step);
        gpu_read(gpu, run->output_at, run->outputs, outputs);
        gpu_read(gpu, run->lse.base, run->lses, lses);
        collect(run, &step);
    }
    if (bits_is_planted(run->bits, run->as->name))
        run->result[(run->sequences[run->n_sequences - 1].done - 1) * run->row_bytes] ^= 1;
}

/* ---- what is expected ---- */

static float element(const struct run *run, uint32_t token, uint32_t i)
{
    const uint8_t *row = run->result + token * run->row_bytes;
    if (i < run->width)
        return dtype_load(run->of->compute, row, i);
    return dtype_load(DTYPE_F32, row + run->output_bytes, i - run->width);
}

/* Of the run that the others are held against: numbers, of which each token has others. */
static void check_plausible(struct bits_check *check, const struct run *run)
{
    const struct sequence *sequence = &run->sequences[run->n_sequences - 1];
    for (uint32_t t = 0; t < sequence->len; t++) {
        uint32_t n_bad = 0, n_as_before = 0;
        for (uint32_t i = 0; i < run->width + run->of->n_heads; i++) {
            n_bad += !(fabsf(element(run, t, i)) < 100);
            n_as_before += t > 0 && element(run, t, i) == element(run, t - 1, i);
        }
        if (n_bad > 0 || n_as_before > run->width / 2)
            bits_differ(check, "token %u: %u elements are no numbers, %u those of the token before",
                        t, n_bad, n_as_before);
    }
}

static void compare(struct bits_check *check, const struct run *got, const struct run *expected)
{
    const uint32_t n_tokens = got->sequences[got->n_sequences - 1].done;
    const uint32_t n = got->width + got->of->n_heads;
    check->n_compared += (uint64_t)n_tokens * n;
    for (uint32_t t = 0; t < n_tokens; t++)
        for (uint32_t i = 0; i < n; i++) {
            const bool is_lse = i >= got->width;
            const size_t bytes = is_lse ? sizeof(float) : dtype_bytes(got->of->compute);
            const size_t at = is_lse ? got->output_bytes + (i - got->width) * bytes : i * bytes;
            const uint8_t *a = got->result + t * got->row_bytes + at;
            const uint8_t *b = expected->result + t * expected->row_bytes + at;
            if (memcmp(a, b, bytes) == 0)
                continue;
            bits_differ(check, "%u tokens, %s: token %u, %s %u is %s, not %s", n_tokens,
                        got->as->name, t, is_lse ? "lse" : "element", is_lse ? i - got->width : i,
                        bits_hex(a, bytes).text, bits_hex(b, bytes).text);
            return;
        }
}

static void check_case(struct bits *bits, const struct attention_case *of)
{
    struct bits_check check = bits_begin(bits, of->name);
    struct run first = {.bits = bits, .of = of, .as = &base};
    make(&first);
    run_steps(&first);
    check_plausible(&check, &first);
    for (size_t i = 0; i < sizeof arrangements / sizeof *arrangements; i++) {
        struct run run = {.bits = bits, .of = of, .as = &arrangements[i]};
        if ((run.as->needs & of->same) != run.as->needs)
            continue;
        make(&run);
        run_steps(&run);
        compare(&check, &run, &first);
        destroy(&run);
        check.n_runs++;
    }
    destroy(&first);
    bits_end(&check);
}

void bits_attention(struct bits *bits)
{
    const bool is_few = bits->gpu.is_toy && bits->n_names == 0;
    const size_t n = is_few ? sizeof toy_cases / sizeof *toy_cases : sizeof cases / sizeof *cases;
    for (size_t i = 0; i < n; i++) {
        const struct attention_case *of = &cases[is_few ? toy_cases[i] : i];
        if (bits_is_wanted(bits, of->name))
            check_case(bits, of);
    }
}
