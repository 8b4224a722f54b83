/*
 * kernels_bench - the kernels against what this machine can do, measured in the same run.
 *
 *     kernels_bench [threads] [section ...]     sections: decode context model
 *
 * Each figure is the best of several runs: the others were disturbed. Ratios are of the measured
 * multiply-add peak, or of the measured read or copy bandwidth. Products: gemm_bench.
 */
#include "tests/bench/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- attention ---- */

struct shape {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_sequences, query_len, kv_len, block_tokens;
    enum dtype cache;
};

struct layer {
    const struct bench *bench;
    struct rope *rope;
    struct attention *attention;
    struct attention_metadata *metadata;
    struct kv_view kv;
    uint32_t *block_ids;
    struct attention_sequence *sequences;
    struct shape shape;
    uint32_t n_sets, set; /* caches walked through, a set of sequences a call: none stays cached */
    struct attention_io io;
    float *qkv;
    size_t qkv_floats, output_floats;
};

static void layer_prepare(struct layer *layer, const struct shape *shape)
{
    uint32_t n_blocks = (shape->kv_len + shape->block_tokens - 1) / shape->block_tokens;
    for (uint32_t s = 0; s < shape->n_sequences; s++)
        layer->sequences[s] = (struct attention_sequence){
            .phase = shape->query_len == 1 ? PHASE_GENERATION : PHASE_CONTEXT,
            .query_len = shape->query_len,
            .kv_len = shape->kv_len,
            .prompt_len = shape->kv_len,
            .block_ids = layer->block_ids +
                         ((size_t)layer->set * shape->n_sequences + s) * n_blocks,
            .n_blocks = n_blocks};
    struct attention_step step = {.sequences = layer->sequences, .n_sequences = shape->n_sequences};
    must(layer->bench->kernels->attention->metadata_prepare(layer->metadata, &step, &layer->kv,
                                                            NULL));
}

static void layer_open(const struct bench *bench, const struct shape *shape, uint32_t n_layers,
                       uint32_t n_sets, struct layer *layer)
{
    const struct attention_backend *backend = bench->kernels->attention;
    *layer = (struct layer){.bench = bench, .shape = *shape, .n_sets = n_sets};
    struct rope_config rope = {
        .head_dim = shape->head_dim, .positions_max = 1u << 20, .theta = 10000};
    must(rope_create(&rope, &layer->rope, NULL));
    struct attention_config config = {.n_heads = shape->n_heads,
                                      .n_kv_heads = shape->n_kv_heads,
                                      .head_dim = shape->head_dim,
                                      .cache = shape->cache,
                                      .rope = layer->rope};
    struct attention_limits limits = {.n_sequences_max = shape->n_sequences,
                                      .n_tokens_max = shape->n_sequences * shape->query_len,
                                      .kv_len_max = shape->kv_len,
                                      .n_heads = shape->n_heads,
                                      .n_kv_heads = shape->n_kv_heads,
                                      .head_dim = shape->head_dim,
                                      .ropes = {layer->rope}};
    must(backend->create(&config, bench->pool, &layer->attention, NULL));
    must(backend->metadata_create(&limits, bench->pool, &layer->metadata, NULL));
    uint32_t n_blocks = (shape->kv_len + shape->block_tokens - 1) / shape->block_tokens;
    uint32_t n_all = n_blocks * shape->n_sequences * n_sets;
    layer->kv = kv_view_dense(NULL, n_all, n_layers, shape->n_kv_heads, shape->block_tokens,
                              shape->head_dim, shape->cache);
    layer->kv.base = filled(shape->cache,
                            n_all * layer->kv.block_stride / dtype_bytes(shape->cache), 1);
    layer->block_ids = calloc(n_all, sizeof *layer->block_ids);
    for (uint32_t i = 0; i < n_all; i++)
        layer->block_ids[i] = i;
    for (uint32_t i = n_all - 1; i > 0; i--) {
        uint32_t other = random_next() % (i + 1);
        uint32_t id = layer->block_ids[i];
        layer->block_ids[i] = layer->block_ids[other];
        layer->block_ids[other] = id;
    }
    layer->sequences = calloc(shape->n_sequences, sizeof *layer->sequences);
    size_t n_tokens = (size_t)shape->n_sequences * shape->query_len;
    uint64_t qkv_stride = (uint64_t)(shape->n_heads + 2 * shape->n_kv_heads) * shape->head_dim;
    uint64_t output_stride = (uint64_t)shape->n_heads * shape->head_dim;
    layer->qkv_floats = n_tokens * qkv_stride;
    layer->output_floats = n_tokens * output_stride;
    layer->qkv = filled(DTYPE_F32, layer->qkv_floats, 1);
    layer->io = attention_io_fused(&config, layer->qkv, qkv_stride,
                                   allocate(layer->output_floats * sizeof(float)), output_stride);
    layer_prepare(layer, shape);
}

static void layer_close(struct layer *layer)
{
    const struct attention_backend *backend = layer->bench->kernels->attention;
    backend->destroy(layer->attention);
    backend->metadata_destroy(layer->metadata);
    rope_destroy(layer->rope);
    munmap(layer->kv.base, layer->kv.n_blocks * layer->kv.block_stride);
    munmap(layer->qkv, layer->qkv_floats * sizeof(float));
    munmap(layer->io.output, layer->output_floats * sizeof(float));
    free(layer->block_ids);
    free(layer->sequences);
}

static void run_layer(void *arg)
{
    struct layer *layer = arg;
    must(layer->bench->kernels->attention->forward(layer->attention, layer->metadata, &layer->io));
}

static void run_next_set(void *arg)
{
    struct layer *layer = arg;
    if (layer->n_sets > 1) {
        layer->set = (layer->set + 1) % layer->n_sets;
        layer_prepare(layer, &layer->shape);
    }
    run_layer(layer);
}

static void bench_attention(const struct bench *bench, const struct shape *shape)
{
    struct layer layer;
    char what[96];
    bool is_decode = shape->query_len == 1;
    double bytes = 2.0 * shape->n_sequences * shape->kv_len * shape->n_kv_heads * shape->head_dim *
                   (double)dtype_bytes(shape->cache);
    uint32_t n_sets = is_decode ? (uint32_t)((double)STREAM_BYTES / bytes) + 1 : 1;
    layer_open(bench, shape, 1, n_sets, &layer);
    double seconds = best_seconds(run_next_set, &layer);
    snprintf(what, sizeof what, "%s %s d %u heads %u/%u, %u x %u keys, block %u",
             is_decode ? "decode" : "context", dtype_name(shape->cache), shape->head_dim,
             shape->n_heads, shape->n_kv_heads, shape->n_sequences, shape->kv_len,
             shape->block_tokens);
    if (is_decode) {
        print_row(what, seconds, bytes / seconds / 1e9, "GB/s", bench->copy_peak);
    } else {
        double pairs = (double)shape->query_len * (shape->query_len + 1) / 2 +
                       (double)shape->query_len * (shape->kv_len - shape->query_len);
        double flops = 4.0 * pairs * shape->n_sequences * shape->n_heads * shape->head_dim;
        print_row(what, seconds, flops / seconds / 1e9, "GFLOP/s", bench->fma_peak);
    }
    layer_close(&layer);
}

static void section_decode(const struct bench *bench)
{
    static const struct shape shapes[] = {
        {9, 3, 64, 1, 1, 4096, 32, DTYPE_F32},     {9, 3, 64, 2, 1, 4096, 32, DTYPE_BF16},
        {9, 3, 64, 2, 1, 4096, 32, DTYPE_F16},     {32, 8, 128, 1, 1, 4096, 32, DTYPE_BF16},
        {32, 32, 128, 1, 1, 1024, 16, DTYPE_BF16}, {9, 3, 64, 1, 1, 16384, 32, DTYPE_BF16},
        {28, 4, 128, 1, 1, 4096, 64, DTYPE_F16},   {9, 3, 64, 16, 1, 512, 32, DTYPE_BF16},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        bench_attention(bench, &shapes[i]);
}

static void section_context(const struct bench *bench)
{
    static const struct shape shapes[] = {
        {9, 3, 64, 1, 512, 512, 32, DTYPE_F32},      {9, 3, 64, 1, 512, 512, 32, DTYPE_BF16},
        {9, 3, 64, 1, 2048, 2048, 32, DTYPE_BF16},   {9, 3, 64, 1, 2048, 2048, 32, DTYPE_F32},
        {32, 8, 128, 1, 1024, 1024, 32, DTYPE_BF16}, {9, 3, 64, 1, 256, 4096, 32, DTYPE_BF16},
        {8, 2, 32, 1, 1500, 1500, 32, DTYPE_F32},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        bench_attention(bench, &shapes[i]);
}

/* ---- one step of a 135 M-parameter Llama ---- */

enum { HIDDEN = 576, LAYERS = 30, HEADS = 9, KV_HEADS = 3, DIM = 64, FFN = 1536, VOCAB = 49152 };
enum { QKV = (HEADS + 2 * KV_HEADS) * DIM };

struct model {
    const struct bench *bench;
    enum dtype dtype;
    struct layer layer; /* one operator; the layers' weights and cache differ by offset */
    char *weights, *head;
    float *x, *normed, *gate_up, *logits, *norm;
    uint32_t n_tokens;
};

static size_t layer_weights(void)
{
    return (size_t)HIDDEN * QKV + (size_t)HIDDEN * HEADS * DIM + 3u * HIDDEN * FFN;
}

static void model_norm(const struct model *model)
{
    struct rms_norm norm = {.x = model->x,
                            .x_stride = HIDDEN,
                            .w = model->norm,
                            .y = model->normed,
                            .y_stride = HIDDEN,
                            .n_tokens = model->n_tokens,
                            .n = HIDDEN,
                            .eps = 1e-5f};
    model->bench->kernels->rms_norm(model->bench->pool, &norm);
}

static struct gemm model_gemm(const struct model *model, const float *x, uint32_t n_in,
                              uint32_t n_out, float *y, size_t y_stride, const char **w)
{
    struct gemm gemm = {.x = x,
                        .x_stride = n_in,
                        .w = *w,
                        .w_dtype = model->dtype,
                        .y = y,
                        .y_stride = y_stride,
                        .n_tokens = model->n_tokens,
                        .n_in = n_in,
                        .n_out = n_out};
    *w += (size_t)n_in * n_out * dtype_bytes(model->dtype);
    return gemm;
}

static void model_layer(struct model *model, uint32_t index)
{
    const struct bench *bench = model->bench;
    const struct kernels *kernels = bench->kernels;
    float *qkv = model->layer.qkv;
    const struct attention_io *io = &model->layer.io;
    const char *w = model->weights + index * layer_weights() * dtype_bytes(model->dtype);
    struct gemm list[3];
    model_norm(model);
    list[0] = model_gemm(model, model->normed, HIDDEN, HEADS * DIM, qkv, QKV, &w);
    list[1] = model_gemm(model, model->normed, HIDDEN, KV_HEADS * DIM, qkv + HEADS * DIM, QKV, &w);
    list[2] = model_gemm(model, model->normed, HIDDEN, KV_HEADS * DIM,
                         qkv + (HEADS + KV_HEADS) * DIM, QKV, &w);
    kernels->gemm(bench->pool, list, 3);
    run_layer(&model->layer);
    list[0] = model_gemm(model, io->output, HEADS * DIM, HIDDEN, model->x, HIDDEN, &w);
    list[0].accumulate = true;
    kernels->gemm(bench->pool, list, 1);
    model_norm(model);
    list[0] = model_gemm(model, model->normed, HIDDEN, FFN, model->gate_up, 2 * FFN, &w);
    list[1] = model_gemm(model, model->normed, HIDDEN, FFN, model->gate_up + FFN, 2 * FFN, &w);
    kernels->gemm(bench->pool, list, 2);
    struct gated gated = {model->gate_up,
                          model->gate_up + FFN,
                          2 * FFN,
                          2 * FFN,
                          model->gate_up,
                          2 * FFN,
                          model->n_tokens,
                          FFN,
                          ACTIVATION_SILU,
                          0,
                          0,
                          0};
    kernels->gated(bench->pool, &gated);
    list[0] = model_gemm(model, model->gate_up, FFN, HIDDEN, model->x, HIDDEN, &w);
    list[0].x_stride = 2 * FFN;
    list[0].accumulate = true;
    kernels->gemm(bench->pool, list, 1);
}

static void run_model(void *arg)
{
    struct model *model = arg;
    void *base = model->layer.kv.base;
    memset(model->x, 0, (size_t)model->n_tokens * HIDDEN * sizeof(float));
    for (uint32_t i = 0; i < LAYERS; i++) {
        model->layer.metadata->kv.base = (char *)base + i * model->layer.kv.layer_stride;
        model_layer(model, i);
    }
    const char *w = model->head; /* of the last token, or of each in the generation phase */
    model_norm(model);
    uint32_t n_tokens = model->n_tokens;
    bool is_decode = model->layer.metadata->n_contexts == 0;
    model->n_tokens = is_decode ? n_tokens : 1;
    struct gemm head = model_gemm(model, model->normed, HIDDEN, VOCAB, model->logits, VOCAB, &w);
    model->bench->kernels->gemm(model->bench->pool, &head, 1);
    model->n_tokens = n_tokens;
}

static void bench_model(const struct bench *bench, enum dtype dtype, uint32_t n_sequences,
                        uint32_t query_len, uint32_t kv_len)
{
    struct shape shape = {HEADS,     KV_HEADS, DIM, n_sequences,
                          query_len, kv_len,   32,  dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F16};
    struct model model = {.bench = bench, .dtype = dtype, .n_tokens = n_sequences * query_len};
    size_t n_weights = layer_weights() * LAYERS;
    size_t n_head = (size_t)HIDDEN * VOCAB;
    layer_open(bench, &shape, LAYERS, 1, &model.layer);
    model.weights = filled(dtype, n_weights, 0.02f);
    model.head = filled(dtype, n_head, 0.02f);
    model.x = filled(DTYPE_F32, (size_t)model.n_tokens * HIDDEN, 1);
    model.normed = filled(DTYPE_F32, (size_t)model.n_tokens * HIDDEN, 1);
    model.gate_up = filled(DTYPE_F32, (size_t)model.n_tokens * 2 * FFN, 1);
    model.logits = filled(DTYPE_F32, (size_t)n_sequences * VOCAB, 1);
    model.norm = filled(DTYPE_F32, HIDDEN, 1);
    double seconds = best_seconds(run_model, &model);
    char what[80];
    snprintf(what, sizeof what, "135M %s %s, %u x %u tokens, %u keys", dtype_name(dtype),
             query_len == 1 ? "decode" : "prefill", n_sequences, query_len, kv_len);
    double weights = (double)(n_weights + n_head) * (double)dtype_bytes(dtype);
    double ratio = query_len == 1
                       ? weights / seconds / 1e9 / bench->read_peak
                       : 2.0 * model.n_tokens * (double)n_weights / seconds / 1e9 / bench->fma_peak;
    printf("%-52s %10.1f us %8.1f %-8s %5.2f\n", what, seconds * 1e6, model.n_tokens / seconds,
           "token/s", ratio);
    fflush(stdout);
    munmap(model.weights, n_weights * dtype_bytes(dtype));
    munmap(model.head, n_head * dtype_bytes(dtype));
    munmap(model.x, (size_t)model.n_tokens * HIDDEN * sizeof(float));
    munmap(model.normed, (size_t)model.n_tokens * HIDDEN * sizeof(float));
    munmap(model.gate_up, (size_t)model.n_tokens * 2 * FFN * sizeof(float));
    munmap(model.logits, (size_t)n_sequences * VOCAB * sizeof(float));
    munmap(model.norm, HIDDEN * sizeof(float));
    layer_close(&model.layer);
}

static void section_model(const struct bench *bench)
{
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_F16; dtype++) {
        bench_model(bench, dtype, 1, 512, 512);
        bench_model(bench, dtype, 1, 1, 1);
        bench_model(bench, dtype, 1, 1, 512);
        bench_model(bench, dtype, 1, 1, 4096);
        bench_model(bench, dtype, 8, 1, 512);
        bench_model(bench, dtype, 16, 1, 512);
    }
}

static const struct section {
    const char *name;
    void (*run)(const struct bench *bench);
} sections[] = {
    {"decode", section_decode},
    {"context", section_context},
    {"model", section_model},
};

int main(int argc, char **argv)
{
    struct bench bench;
    bench_open(argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0, &bench);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        bool is_wanted = argc <= 2;
        for (int j = 2; j < argc; j++)
            is_wanted |= strcmp(argv[j], sections[i].name) == 0;
        if (is_wanted)
            sections[i].run(&bench);
    }
    bench_close(&bench);
    return 0;
}
