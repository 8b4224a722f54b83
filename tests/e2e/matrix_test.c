/* Every kind of group of layers with every type of cache, in blocks of four sizes and prompts in two sizes of chunks: a split cluster has the
 * tokens of one process that computes prompts whole. Room is short, so that decodes pause and prompts come back from a disk; equal
 * prompts come twice. With MATRIX_ALL, every night: all of it; else one of each kind. */
#include "support/command.h"
#include "support/encoder_model.h"
#include "support/expect.h"
#include "support/latent_model.h"
#include "support/recurrent_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_PART_BYTES = 32 * 32 * 4 }; /* of a head */
enum { N_REQUESTS = 6, N_TOKENS = 160, LIMIT_MS = 120000, FLAGS_MAX = 28, TEXT_BYTES = 24 };

#define TEXT KVFERRY_SOURCE_DIR "/cli/demo_prompt.txt"

TestSuite(matrix, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 64, 127, 300, 511, 700};

static const char *make_demo(void)
{
    return KVFERRY_DEMO_MODEL;
}

static const struct kind {
    const char *name;
    const char *(*make)(void);
    const char *flags[5];
    uint32_t room_tokens;              /* of the blocks that a worker has */
    uint32_t n_windows;                /* groups that need blocks for each token of a step */
    uint32_t state_bytes, token_bytes; /* of a sequence; KV of a token, with elements of a byte */
    bool pauses;
} KINDS[] = {
    {"one group", make_demo, {NULL}, 1100, 0, 0, 1, true},
    {"windows", make_demo, {"--attention-window", "64,0", "--force-window"}, 2800, 3, 0, 1, true},
    {"sinks", make_demo, {"--attention-window", "96", "--sink-tokens", "4"}, 1300, 0, 0, 1, false},
    {"latents", latent_model_make, {NULL}, 900, 0, 0, 1, true},
    {"recurrent",
     recurrent_model_make,
     {"--snapshot-tokens", "64"},
     1100,
     0,
     RECURRENT_MODEL_STATE_BYTES,
     RECURRENT_MODEL_TOKEN_BYTES(1),
     true},
    {"cross", encoder_model_make, {NULL}, 900, 0, 0, 1, true},
};
static const struct {
    const char *name;
    uint32_t element_bytes;
} DTYPES[] = {{"f32", 4}, {"bf16", 2}, {"f16", 2}, {"int8", 1}, {"e4m3", 1}};
static const uint32_t BLOCK_TOKENS[] = {8, 16, 32, 128};
static const uint32_t CHUNK_TOKENS[] = {128, 1024};

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

struct matrix {
    const struct kind *kind;
    const char *model;
    char scales[300], disk[300];
    const char *dtype;
    uint32_t element_bytes;
    /* seen in all of a kind */
    double pauses, restored, found;
    uint64_t bytes;
};

/* Returns the number of flags. */
static uint32_t put(const char **flags, uint32_t n, const char *const *more)
{
    for (; *more; more++) {
        cr_assert_lt(n, FLAGS_MAX);
        flags[n++] = *more;
    }
    flags[n] = NULL;
    return n;
}

static uint32_t put_common(const struct matrix *matrix, const char **flags)
{
    const bool has_scales = matrix->element_bytes == 1;
    uint32_t n = put(flags, 0, matrix->kind->flags);
    n = put(flags, n, (const char *const[]){"--kv-dtype", matrix->dtype, NULL});
    return put(flags, n,
               (const char *const[]){has_scales ? "--kv-scales" : NULL, matrix->scales, NULL});
}

/* A part of a recurrent state fits into a block; a worker refuses others. */
static bool fits(const struct matrix *matrix, uint32_t block_tokens)
{
    const struct kind *kind = matrix->kind;
    return kind->state_bytes == 0 ||
           kind->token_bytes * matrix->element_bytes * block_tokens >= STATE_PART_BYTES;
}

/* Blocks that are too few for all requests at once, and enough for each. */
static void put_room(char text[TEXT_BYTES], const struct matrix *matrix, uint32_t block_tokens,
                     uint32_t step_tokens)
{
    const struct kind *kind = matrix->kind;
    const uint32_t block_bytes = kind->token_bytes * matrix->element_bytes * block_tokens;
    const uint32_t n_state = kind->state_bytes ? kind->state_bytes * 3 / 2 / block_bytes + 2 : 0;
    const uint32_t n_tokens = kind->room_tokens + kind->n_windows * step_tokens;
    snprintf(text, TEXT_BYTES, "%u", n_tokens / block_tokens + 4 + 8 * n_state);
}

/* Twice, all at once. */
static void run(struct matrix *matrix, const struct work *work, uint32_t block_tokens,
                uint32_t chunk_tokens)
{
    enum { STEP_TOKENS = 128 }; /* of a generation worker that computes a prompt again */
    const char *both[FLAGS_MAX + 1], *context[FLAGS_MAX + 1], *generation[FLAGS_MAX + 1];
    char block[TEXT_BYTES], chunk[TEXT_BYTES], rooms[2][TEXT_BYTES];
    struct cluster cluster;
    snprintf(block, sizeof block, "%u", block_tokens);
    snprintf(chunk, sizeof chunk, "%u", chunk_tokens);
    put_room(rooms[0], matrix, block_tokens, chunk_tokens);
    put_room(rooms[1], matrix, block_tokens, STEP_TOKENS);
    put(both, put_common(matrix, both),
        (const char *const[]){"--kv-block-tokens", block, "--kv-digest", "--kv-scrub", NULL});
    put(context, 0,
        (const char *const[]){"--prefill-chunk-tokens", chunk, "--prefill-batch-tokens", chunk,
                              "--kv-blocks", rooms[0], "--kv-disk", matrix->disk, "--kv-disk-size",
                              "200M", NULL});
    put(generation, 0,
        (const char *const[]){"--local-prefill-max-tokens", "0", "--kv-blocks", rooms[1],
                              "--prefill-chunk-tokens", "128", "--prefill-batch-tokens", "128",
                              matrix->kind->pauses ? "--capacity-policy" : NULL, "max-utilization",
                              NULL});
    cluster_start(&cluster, &(struct cluster_options){.model = matrix->model,
                                                      .n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = both,
                                                      .context = context,
                                                      .generation = generation});
    const uint64_t bytes = expect_all_same(work, &cluster, LIMIT_MS);
    cr_expect_gt(bytes, 0, "%s, %s, blocks of %u: nothing crossed", matrix->kind->name,
                 matrix->dtype, block_tokens);
    matrix->bytes += bytes + expect_all_same(work, &cluster, LIMIT_MS);
    const struct child *from = &cluster.contexts[0], *to = &cluster.generations[0];
    matrix->pauses += child_metric(to, "kvferry_decode_pauses_total", "");
    matrix->restored += child_metric(from, "kvferry_kv_tier_restored_tokens_total", "");
    matrix->found += child_metric(from, "kvferry_prefix_hit_tokens_total", "") +
                     child_metric(to, "kvferry_prefix_hit_tokens_total", "");
    cluster_stop(&cluster);
}

/* The tokens that all must have: of one process with room for all, whose prompts are whole. */
static void make_work(const struct matrix *matrix, struct work *work)
{
    const char *flags[FLAGS_MAX + 1];
    put(flags, put_common(matrix, flags),
        (const char *const[]){"--prefill-chunk-tokens", "2048", "--prefill-batch-tokens", "2048",
                              "--no-prefix-cache", NULL});
    work_create_of(
        work, &(struct cluster_options){.model = matrix->model, .n_generations = 1, .both = flags},
        LENGTHS, N_REQUESTS, N_TOKENS);
}

static void run_type(struct matrix *matrix, size_t dtype, bool has_all, size_t of_kind)
{
    struct work work;
    matrix->dtype = DTYPES[dtype].name;
    matrix->element_bytes = DTYPES[dtype].element_bytes;
    make_work(matrix, &work);
    for (size_t block = 0; block < COUNT_OF(BLOCK_TOKENS); block++)
        for (size_t chunk = 0; chunk < COUNT_OF(CHUNK_TOKENS); chunk++)
            if (fits(matrix, BLOCK_TOKENS[block]) &&
                (has_all || (block == of_kind % 4 && chunk == 0)))
                run(matrix, &work, BLOCK_TOKENS[block], CHUNK_TOKENS[chunk]);
    work_destroy(&work);
}

static void run_kind(size_t of_kind)
{
    const bool has_all = getenv("MATRIX_ALL");
    struct matrix matrix = {.kind = &KINDS[of_kind], .model = KINDS[of_kind].make()};
    snprintf(matrix.scales, sizeof matrix.scales, "%s", in_folder("scales"));
    snprintf(matrix.disk, sizeof matrix.disk, "%s", in_folder("disk"));
    RUN("calibrate", matrix.model, "--text", TEXT, "--out", matrix.scales);
    EXPECT_OK();
    for (size_t dtype = 0; dtype < COUNT_OF(DTYPES); dtype++)
        if (has_all || dtype == (of_kind + 3) % COUNT_OF(DTYPES))
            run_type(&matrix, dtype, has_all, of_kind);
    printf("%s: %.1f MB crossed, %.0f pauses, %.0f tokens restored, %.0f found\n",
           matrix.kind->name, (double)matrix.bytes / 1e6, matrix.pauses, matrix.restored,
           matrix.found);
    cr_expect_gt(matrix.found, 0);
    if (has_all) { /* one cluster alone may be fast enough to have none */
        cr_expect(matrix.pauses > 0 || !matrix.kind->pauses);
        cr_expect_gt(matrix.restored, 0);
    }
}

Test(matrix, one_group)
{
    run_kind(0);
}

Test(matrix, windows)
{
    run_kind(1);
}

Test(matrix, sinks)
{
    run_kind(2);
}

Test(matrix, latents)
{
    run_kind(3);
}

Test(matrix, recurrent)
{
    run_kind(4);
}

Test(matrix, cross)
{
    run_kind(5);
}
