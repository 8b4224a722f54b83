/*
 * attention - computes a prompt and one more token over a paged KV cache, with the kernels as a library:
 *
 *     cc attention.c $(pkg-config --cflags --libs kvferry-kernels) && ./a.out
 */
#include <kvferry/kernels.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 64,
    BLOCK_TOKENS = 16,
    BLOCKS = 8,
    PROMPT = 20,
    WIDTH = (HEADS + 2 * KV_HEADS) * DIM
};

#define SHAPE .n_heads = HEADS, .n_kv_heads = KV_HEADS, .head_dim = DIM, .cache = DTYPE_F32

static float qkv[PROMPT][WIDTH], output[PROMPT][HEADS * DIM],
    pool[BLOCKS * 2 * KV_HEADS * BLOCK_TOKENS * DIM];

static void must(enum status status, const struct error *error)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "%s: %s\n", status_name(status), error->text);
    exit(1);
}

int main(void)
{
    const struct attention_config config = {SHAPE, .compute = DTYPE_F32};
    const struct attention_limits limits = {SHAPE, .n_sequences_max = 1, .n_tokens_max = PROMPT,
                                            .kv_len_max = PROMPT + 1};
    const struct kv_view kv = kv_view_dense(pool, BLOCKS, 1, KV_HEADS, BLOCK_TOKENS, DIM,
                                            DTYPE_F32);
    const uint32_t blocks[] = {5, 2}; /* blocks of the pool, in the order of tokens */
    const struct kernels *kernels;
    struct attention *attention;
    struct attention_metadata *metadata;
    struct error error;
    must(kernels_select(NULL, &kernels, &error), &error);
    const struct attention_backend *backend = kernels->attention;
    must(backend->create(&config, NULL, &attention, &error), &error);
    must(backend->metadata_create(&limits, NULL, &metadata, &error), &error);
    for (int i = 0; i < PROMPT * WIDTH; i++)
        qkv[i / WIDTH][i % WIDTH] = (float)(i * 37 % 101) / 50 - 1;

    struct attention_sequence sequence = {.block_ids = blocks, .n_blocks = 2};
    sequence.phase = PHASE_CONTEXT;
    sequence.query_len = sequence.kv_len = sequence.prompt_len = PROMPT;
    const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    const struct attention_io io = attention_io_fused(&config, qkv, WIDTH, output, HEADS * DIM);
    must(backend->metadata_prepare(metadata, &step, &kv, &error), &error);
    must(backend->forward(attention, metadata, &io, &error), &error);
    printf("%s: prompt of %d, its last token %.6f\n", kernels->name, PROMPT,
           (double)output[PROMPT - 1][0]);

    sequence.phase = PHASE_GENERATION; /* the next token's row is the first of qkv */
    sequence.query_len = 1;
    sequence.kv_len = PROMPT + 1;
    must(backend->metadata_prepare(metadata, &step, &kv, &error), &error);
    must(backend->forward(attention, metadata, &io, &error), &error);
    printf("token %d: %.6f\n", PROMPT, (double)output[0][0]);
    backend->metadata_destroy(metadata);
    backend->destroy(attention);
    return 0;
}
