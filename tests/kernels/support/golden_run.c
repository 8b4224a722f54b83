#include "tests/kernels/support/golden_run.h"

#include "tests/kernels/support/golden.h"
#include "tests/kernels/support/guarded.h"
#include "tests/kernels/support/values.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES_MAX = 3, BLOCKS_MAX = 32, ROPE_POSITIONS = 64 };

/* How much of a sequence is its prompt. */
enum prompt { PROMPT_AS_RECORDED, PROMPT_ONE, PROMPT_ALL };

struct cut {
    enum prompt prompt;
    uint32_t chunk; /* 0: a prompt comes whole */
    uint32_t block_tokens;
    bool is_contiguous, is_cyclic;
    enum attention_path path;
};

static const struct cut cuts[] = {
    {PROMPT_AS_RECORDED, .block_tokens = 16},
    {PROMPT_AS_RECORDED, .block_tokens = 8, .chunk = 8},
    {PROMPT_AS_RECORDED, .block_tokens = 8, .is_cyclic = true},
    {PROMPT_AS_RECORDED, .block_tokens = 8, .chunk = 8, .is_cyclic = true},
    {PROMPT_AS_RECORDED, .is_contiguous = true},
    {PROMPT_ONE, .block_tokens = 8},
    {PROMPT_ALL, .block_tokens = 8, .path = PATH_UNFUSED},
    {PROMPT_ALL, .block_tokens = 16, .path = PATH_SHORT},
    {PROMPT_ALL, .block_tokens = 16, .path = PATH_FLASH},
};

struct run {
    const struct attention_backend *backend;
    const struct golden *golden;
    const struct cut *cut;
    struct golden_file file;
    const float *q, *k, *v, *output, *lse; /* of the file; lse NULL: it has none */
    const uint32_t *positions;             /* NULL: the indices */
    void *mask;                            /* as the operator takes it; NULL: none */
    struct rope *rope;
    struct attention_config config;
    uint32_t n_sequences;
    uint32_t lens[SEQUENCES_MAX];       /* keys */
    uint32_t query_lens[SEQUENCES_MAX]; /* rows of q and output: the last tokens, or another's */
    uint32_t prompt_lens[SEQUENCES_MAX];
    uint32_t len_max, n_queries, n_keys; /* of all sequences */
    size_t width, kv_width;              /* of a row */

    struct attention *attention;
    struct attention_metadata *metadata;
    struct kv_view kv;
    struct guarded cache;
    uint32_t n_blocks; /* of a sequence or beam */
    uint32_t block_ids[SEQUENCES_MAX][BLOCKS_MAX];
    uint32_t done[SEQUENCES_MAX];
    float *got, *got_lse;
};

static bool is_self(const struct run *run)
{
    return run->config.keys == KEYS_SELF;
}

/* Tokens that come in steps. */
static uint32_t n_tokens(const struct run *run, uint32_t s)
{
    return is_self(run) ? run->lens[s] : run->query_lens[s];
}

/* Tokens of which the golden has only K and V. */
static uint32_t n_unseen(const struct run *run, uint32_t s)
{
    return n_tokens(run, s) - run->query_lens[s];
}

static uint32_t prompt_len(const struct run *run, uint32_t s)
{
    return run->cut->prompt == PROMPT_ONE   ? 1
           : run->cut->prompt == PROMPT_ALL ? n_tokens(run, s)
                                            : run->prompt_lens[s];
}

/* ---- the golden ---- */

/* Missing arrays: the tokens of the one that is there. */
static void take_lengths(struct run *run)
{
    const struct golden_file *file = &run->file;
    run->n_sequences = (uint32_t)golden_count(file, "lens");
    cr_assert(run->n_sequences > 0 && run->n_sequences <= SEQUENCES_MAX);
    size_t bytes = run->n_sequences * sizeof(uint32_t);
    memcpy(run->lens, golden_numbers(file, "lens", run->n_sequences), bytes);
    memcpy(run->query_lens, run->lens, bytes);
    if (golden_has(file, "query_lens"))
        memcpy(run->query_lens, golden_numbers(file, "query_lens", run->n_sequences), bytes);
    for (uint32_t s = 0; s < run->n_sequences; s++) {
        run->prompt_lens[s] = n_tokens(run, s);
        run->len_max = run->lens[s] > run->len_max ? run->lens[s] : run->len_max;
        run->n_queries += run->query_lens[s];
        run->n_keys += run->lens[s];
    }
    if (golden_has(file, "prompt_lens"))
        memcpy(run->prompt_lens, golden_numbers(file, "prompt_lens", run->n_sequences), bytes);
}

static void take_rows(struct run *run, size_t n_queries, size_t n_keys)
{
    const struct golden_file *file = &run->file;
    run->width = (size_t)run->config.n_heads * run->config.head_dim;
    run->kv_width = (size_t)run->config.n_kv_heads * run->config.head_dim;
    run->q = golden_floats(file, "q", n_queries * run->width);
    run->k = golden_floats(file, "k", n_keys * run->kv_width);
    run->v = golden_floats(file, "v", n_keys * run->kv_width);
    run->output = golden_floats(file, "output", n_queries * run->width);
    if (golden_has(file, "lse"))
        run->lse = golden_floats(file, "lse", n_queries * run->config.n_heads);
    if (golden_has(file, "positions"))
        run->positions = golden_numbers(file, "positions", n_keys);
}

static void take_mask(struct run *run)
{
    size_t n = golden_count(&run->file, "mask");
    enum attention_mask_input input = run->config.mask_input;
    cr_assert_eq(n > 0, input != MASK_INPUT_NONE, "%s", run->file.name);
    if (n == 0)
        return;
    run->mask = malloc(n * sizeof(float));
    if (input == MASK_INPUT_FLOAT)
        memcpy(run->mask, golden_floats(&run->file, "mask", n), n * sizeof(float));
    for (size_t i = 0; input == MASK_INPUT_BOOL && i < n; i++)
        ((uint8_t *)run->mask)[i] = golden_numbers(&run->file, "mask", n)[i] != 0;
}

static const float *optional(const struct run *run, const char *name, size_t n)
{
    return golden_has(&run->file, name) ? golden_floats(&run->file, name, n) : NULL;
}

static void take_weights(struct run *run)
{
    struct attention_config *config = &run->config;
    struct attention_bias *bias = &config->bias;
    size_t dim = config->head_dim, n_heads = config->n_heads;
    config->qkv_bias = optional(run, "qkv_bias", (n_heads + 2 * config->n_kv_heads) * dim);
    config->q_norm = optional(run, "q_norm", dim);
    config->k_norm = optional(run, "k_norm", dim);
    config->sinks = optional(run, "sinks", n_heads);
    if (bias->n_buckets > 0)
        bias->buckets = golden_floats(&run->file, "buckets", n_heads * bias->n_buckets);
    if (bias->n_keys > 0)
        bias->table = golden_floats(&run->file, "table", n_heads * bias->n_queries * bias->n_keys);
}

static struct run open_golden(const struct golden *golden, const struct attention_backend *backend)
{
    struct run run = {.backend = backend, .golden = golden, .config = golden->config};
    run.file = golden_open(golden->name);
    take_lengths(&run);
    take_mask(&run);
    take_weights(&run);
    if (golden->rope.theta > 0) {
        struct rope_config rope = golden->rope;
        rope.head_dim = golden->config.head_dim;
        rope.positions_max = ROPE_POSITIONS;
        cr_assert_eq(rope_create(&rope, &run.rope, NULL), STATUS_OK);
        run.config.rope = run.rope;
    }
    return run;
}

static void close_golden(struct run *run)
{
    rope_destroy(run->rope);
    free(run->mask);
    golden_close(&run->file);
}

/* ---- a layer ---- */

static struct attention_limits limits_of(const struct run *run,
                                         const struct attention_config *config)
{
    bool has_ring = config->is_cyclic || config->sink_tokens;
    return (struct attention_limits){
        .n_sequences_max = SEQUENCES_MAX,
        .n_tokens_max = run->n_queries + run->n_keys,
        .n_kv_tokens_max = is_self(run) ? 0 : run->n_keys,
        .kv_len_max = run->len_max,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .cache = config->cache,
        .keys = config->keys,
        .mask = config->mask,
        .window = has_ring ? config->window : 0,
        .sink_tokens = config->sink_tokens,
        .is_cyclic = config->is_cyclic,
        .n_beams_max = config->n_beams_max,
        .has_short_path = config->path == PATH_SHORT,
        .bias_queries = config->bias.n_queries,
        .bias_keys = config->bias.n_keys,
        .ropes = {config->rope},
    };
}

/* Blocks of the sequences lie between each other's, from the end of a pool of NaN. */
static void create_cache(struct run *run)
{
    const struct attention_config *config = &run->config;
    uint32_t block_tokens = run->cut->is_contiguous ? run->len_max : run->cut->block_tokens;
    run->n_blocks = (run->len_max + block_tokens - 1) / block_tokens;
    uint32_t n_pool = SEQUENCES_MAX * run->n_blocks;
    cr_assert_leq(run->n_blocks, BLOCKS_MAX);
    run->kv = run->cut->is_contiguous
                  ? kv_view_contiguous(NULL, n_pool, config->n_kv_heads, block_tokens,
                                       config->head_dim, config->cache)
                  : kv_view_dense(NULL, n_pool, 1, config->n_kv_heads, block_tokens,
                                  config->head_dim, config->cache);
    run->cache = guarded_create(n_pool * run->kv.block_stride);
    run->kv.base = run->cache.data;
    for (uint32_t s = 0; s < SEQUENCES_MAX; s++)
        for (uint32_t i = 0; i < run->n_blocks; i++)
            run->block_ids[s][i] = --n_pool;
}

static void create_layer(struct run *run, const struct cut *cut)
{
    struct error error = {""};
    struct attention_config config = run->config;
    run->cut = cut;
    config.path = cut->path;
    config.is_cyclic = cut->is_cyclic;
    struct attention_limits limits = limits_of(run, &config);
    cr_assert_eq(run->backend->create(&config, NULL, &run->attention, &error), STATUS_OK,
                 "%s, %s: %s", run->file.name, run->backend->name, error.text);
    cr_assert_eq(run->backend->metadata_create(&limits, NULL, &run->metadata, &error), STATUS_OK,
                 "%s, %s: %s", run->file.name, run->backend->name, error.text);
    create_cache(run);
}

static void destroy_layer(struct run *run)
{
    run->backend->destroy(run->attention);
    run->backend->metadata_destroy(run->metadata);
    guarded_destroy(&run->cache);
}

static void forward(struct run *run, const struct attention_step *step,
                    const struct attention_io *rows)
{
    struct error error = {""};
    struct attention_io io = *rows;
    io.q_stride = io.output_stride = run->width;
    io.k_stride = io.v_stride = run->kv_width;
    io.mask_sequence_stride = run->golden->mask_sequence_stride;
    io.mask_query_stride = run->golden->mask_query_stride;
    cr_assert_eq(run->backend->metadata_prepare(run->metadata, step, &run->kv, &error), STATUS_OK,
                 "%s, %s: %s", run->file.name, run->backend->name, error.text);
    cr_assert_eq(run->backend->forward(run->attention, run->metadata, &io, NULL), STATUS_OK);
}

/* ---- sequences ---- */

/* What sequence s does next; false: nothing in this phase. */
static bool next_sequence(const struct run *run, uint32_t s, enum attention_phase phase,
                          struct attention_sequence *sequence_out)
{
    uint32_t done = run->done[s], prompt = prompt_len(run, s), unseen = n_unseen(run, s);
    bool in_context = done < prompt;
    if (done == n_tokens(run, s) || in_context != (phase == PHASE_CONTEXT))
        return false;
    uint32_t n = in_context ? prompt - done : 1;
    if (in_context && run->cut->chunk > 0 && run->cut->chunk < n)
        n = run->cut->chunk;
    if (done < unseen && n > unseen - done)
        n = unseen - done;
    *sequence_out = (struct attention_sequence){
        .phase = phase,
        .query_len = n,
        .kv_len = is_self(run) ? done + n : run->lens[s],
        .prompt_len = prompt,
        .block_ids = run->block_ids[s],
        .n_blocks = run->n_blocks,
        .new_len = is_self(run) || done > 0 ? 0 : run->lens[s],
        .query_index = is_self(run) ? 0 : done,
    };
    return true;
}

/* First row of sequence s in an array with lens rows of each. */
static size_t first_row(const uint32_t *lens, uint32_t s)
{
    size_t row = 0;
    for (uint32_t i = 0; i < s; i++)
        row += lens[i];
    return row;
}

/* Row of q and output of the next token of a sequence; behind all: the golden has none. */
static size_t query_row(const struct run *run, uint32_t s)
{
    uint32_t unseen = n_unseen(run, s);
    return run->done[s] < unseen ? run->n_queries
                                 : first_row(run->query_lens, s) + run->done[s] - unseen;
}

static void append(float *rows, size_t *n_rows, const float *from, size_t n, size_t width)
{
    memcpy(rows + *n_rows * width, from, n * width * sizeof *rows);
    *n_rows += n;
}

static void fill_rows(const struct run *run, const struct attention_step *step,
                      const uint32_t *owners, float *q, float *k, float *v)
{
    size_t n_q = 0, n_k = 0, n_v = 0;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        const struct attention_sequence *sequence = &step->sequences[i];
        uint32_t s = owners[i];
        size_t row = query_row(run, s), kv_row = first_row(run->lens, s);
        if (row < run->n_queries)
            append(q, &n_q, run->q + row * run->width, sequence->query_len, run->width);
        else
            n_q += sequence->query_len; /* zeros */
        kv_row += is_self(run) ? run->done[s] : 0;
        size_t n = is_self(run) ? sequence->query_len : sequence->new_len;
        append(k, &n_k, run->k + kv_row * run->kv_width, n, run->kv_width);
        append(v, &n_v, run->v + kv_row * run->kv_width, n, run->kv_width);
    }
}

static void take_outputs(struct run *run, const struct attention_step *step, const uint32_t *owners,
                         const struct attention_io *io)
{
    const float *output = io->output, *lse = io->lse;
    size_t n_heads = run->config.n_heads;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        size_t n = step->sequences[i].query_len, row = query_row(run, owners[i]);
        if (row < run->n_queries) {
            memcpy(run->got + row * run->width, output, n * run->width * sizeof *output);
            memcpy(run->got_lse + row * n_heads, lse, n * n_heads * sizeof *lse);
        }
        run->done[owners[i]] += (uint32_t)n;
        output += n * run->width;
        lse += n * n_heads;
    }
}

/* Masks are of sequences of one length, which are always equally far. */
static const void *mask_of_step(const struct run *run)
{
    size_t bytes = run->config.mask_input == MASK_INPUT_FLOAT ? sizeof(float) : 1;
    if (!run->mask)
        return NULL;
    return (const char *)run->mask + run->done[0] * run->golden->mask_query_stride * bytes;
}

static bool run_step(struct run *run)
{
    struct attention_sequence sequences[SEQUENCES_MAX];
    uint32_t owners[SEQUENCES_MAX] = {0}, n = 0;
    for (enum attention_phase phase = PHASE_CONTEXT; phase <= PHASE_GENERATION; phase++)
        for (uint32_t s = 0; s < run->n_sequences; s++)
            if (next_sequence(run, s, phase, &sequences[n])) {
                if (run->positions)
                    sequences[n].positions = run->positions + first_row(run->lens, s) +
                                             run->done[s];
                owners[n++] = s;
            }
    if (n == 0)
        return false;
    struct attention_step step = {.sequences = sequences, .n_sequences = n};
    size_t n_rows = run->n_queries + run->n_keys;
    float *q = calloc(n_rows * run->width, sizeof *q);
    float *k = calloc(n_rows * run->kv_width, sizeof *k);
    float *v = calloc(n_rows * run->kv_width, sizeof *v);
    float *output = calloc(n_rows * run->width, sizeof *output);
    float *lse = calloc(n_rows * run->config.n_heads, sizeof *lse);
    fill_rows(run, &step, owners, q, k, v);
    struct attention_io io = {
        .q = q, .k = k, .v = v, .output = output, .lse = lse, .mask = mask_of_step(run)};
    forward(run, &step, &io);
    take_outputs(run, &step, owners, &io);
    free(q);
    free(k);
    free(v);
    free(output);
    free(lse);
    return true;
}

/* Whether a cut leaves the result as it is. */
static bool allows(const struct run *run, const struct cut *cut)
{
    const struct attention_config *config = &run->config;
    bool is_causal = config->mask == MASK_CAUSAL || config->keys == KEYS_CROSS;
    bool keeps_phases = config->sink_tokens > 0 || (run->rope && rope_depends_on_length(run->rope));
    if (cut->is_cyclic && (config->window == 0 || (config->sink_tokens > 0 && cut->chunk > 0)))
        return false;
    if (cut->prompt != PROMPT_AS_RECORDED && keeps_phases)
        return false;
    return is_causal || (cut->prompt != PROMPT_ONE && cut->chunk == 0);
}

static double run_cut(struct run *run, const struct cut *cut)
{
    size_t n = run->n_queries * run->width, n_lse = (size_t)run->n_queries * run->config.n_heads;
    run->got = malloc(n * sizeof *run->got);
    run->got_lse = malloc(n_lse * sizeof *run->got_lse);
    memset(run->got, 0xff, n * sizeof *run->got);
    memset(run->done, 0, sizeof run->done);
    create_layer(run, cut);
    while (run_step(run))
        ;
    destroy_layer(run);
    double worst = values_error(run->got, run->output, n);
    if (run->lse)
        worst = fmax(worst, values_error(run->got_lse, run->lse, n_lse));
    free(run->got);
    free(run->got_lse);
    return worst;
}

double golden_run(const struct golden *golden, const struct attention_backend *backend,
                  uint32_t *n_cuts_out)
{
    struct run run = open_golden(golden, backend);
    double worst = 0;
    uint32_t n_cuts = 0;
    take_rows(&run, run.n_queries, run.n_keys);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++)
        if (allows(&run, &cuts[i])) {
            worst = fmax(worst, run_cut(&run, &cuts[i]));
            n_cuts++;
        }
    close_golden(&run);
    *n_cuts_out = n_cuts;
    return worst;
}

/* ---- beams ---- */

/* Rows first .. first + n - 1 of the file in one step; returns their error. */
static double run_rows(struct run *run, const struct attention_step *step, size_t first, size_t n)
{
    float *output = malloc(n * run->width * sizeof *output);
    struct attention_io io = {.q = run->q + first * run->width,
                              .k = run->k + first * run->kv_width,
                              .v = run->v + first * run->kv_width,
                              .output = output};
    memset(output, 0xff, n * run->width * sizeof *output);
    forward(run, step, &io);
    double error = values_error(output, run->output + first * run->width, n * run->width);
    free(output);
    return error;
}

static double run_beams_cut(struct run *run, const struct cut *cut)
{
    const uint32_t prompt = run->prompt_lens[0], len = run->lens[0];
    const uint32_t n_beams = run->config.n_beams_max;
    const uint32_t *sources = golden_numbers(&run->file, "sources",
                                             (size_t)(len - prompt) * n_beams * len);
    create_layer(run, cut);
    uint32_t block_ids[SEQUENCES_MAX * BLOCKS_MAX];
    for (uint32_t i = 0; i < n_beams * run->n_blocks; i++)
        block_ids[i] = run->block_ids[i / run->n_blocks][i % run->n_blocks];
    struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                          .query_len = prompt,
                                          .kv_len = prompt,
                                          .prompt_len = prompt,
                                          .block_ids = block_ids,
                                          .n_blocks = run->n_blocks};
    struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
    double worst = run_rows(run, &step, 0, prompt);
    sequence.phase = PHASE_GENERATION;
    sequence.query_len = 1;
    sequence.n_beams = n_beams;
    sequence.cache_source_stride = len;
    for (uint32_t done = prompt; done < len; done++) {
        size_t generated = (size_t)(done - prompt) * n_beams;
        sequence.kv_len = done + 1;
        sequence.cache_source = sources + generated * len;
        worst = fmax(worst, run_rows(run, &step, prompt + generated, n_beams));
    }
    destroy_layer(run);
    return worst;
}

double golden_run_beams(const struct golden *golden, const struct attention_backend *backend)
{
    struct run run = open_golden(golden, backend);
    size_t n_rows = run.prompt_lens[0] +
                    (size_t)(run.lens[0] - run.prompt_lens[0]) * run.config.n_beams_max;
    double worst = 0;
    cr_assert_leq(run.config.n_beams_max, SEQUENCES_MAX);
    take_rows(&run, n_rows, n_rows);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++)
        if (!cuts[i].is_cyclic && cuts[i].prompt == PROMPT_AS_RECORDED && cuts[i].chunk == 0)
            worst = fmax(worst, run_beams_cut(&run, &cuts[i]));
    close_golden(&run);
    return worst;
}
