#include "tests/kernels/support/layer.h"

#include "tests/kernels/support/values.h"

#include <assert.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = LAYER_HEADS * LAYER_DIM, KV_WIDTH = LAYER_KV_HEADS * LAYER_DIM };

float layer_q(uint32_t token, uint32_t column)
{
    return values_at(11, token, column);
}

float layer_k(uint32_t token, uint32_t column)
{
    return values_at(12, token, column);
}

float layer_v(uint32_t token, uint32_t column)
{
    return values_at(13, token, column);
}

static struct attention_limits limits_of(const struct attention_config *config)
{
    return (struct attention_limits){
        .n_sequences_max = 8,
        .n_tokens_max = LAYER_ROWS_MAX,
        .n_kv_tokens_max = config->keys == KEYS_SELF ? 0 : LAYER_ROWS_MAX,
        .kv_len_max = LAYER_LEN_MAX,
        .n_heads = LAYER_HEADS,
        .n_kv_heads = LAYER_KV_HEADS,
        .head_dim = LAYER_DIM,
        .cache = config->cache,
        .keys = config->keys,
        .mask = config->mask,
        .window = config->is_cyclic || config->sink_tokens ? config->window : 0,
        .sink_tokens = config->sink_tokens,
        .is_cyclic = config->is_cyclic,
        .n_tables = config->table + 1,
        .n_beams_max = config->n_beams_max,
        .n_draft_max = config->n_draft_max,
        .has_short_path = config->path == PATH_SHORT,
        .has_multi_block = config->multi_block == CHOICE_ON,
        .bias_queries = config->bias.table ? config->bias.n_queries : 0,
        .bias_keys = config->bias.table ? config->bias.n_keys : 0,
        .ropes = {config->rope},
    };
}

struct layer layer_open(const struct attention_backend *backend, struct attention_config config,
                        bool is_contiguous)
{
    struct layer layer = {.backend = backend};
    struct error error = {""};
    config.n_heads = LAYER_HEADS;
    config.n_kv_heads = LAYER_KV_HEADS;
    config.head_dim = LAYER_DIM;
    struct attention_limits limits = limits_of(&config);
    layer.config = config;
    cr_assert_eq(backend->create(&config, NULL, &layer.attention, &error), STATUS_OK, "%s: %s",
                 backend->name, error.text);
    cr_assert_eq(backend->metadata_create(&limits, NULL, &layer.metadata, &error), STATUS_OK,
                 "%s: %s", backend->name, error.text);
    if (is_contiguous)
        layer.kv = kv_view_contiguous(NULL, LAYER_BLOCKS, LAYER_KV_HEADS, LAYER_LEN_MAX, LAYER_DIM,
                                      config.cache);
    else
        layer.kv = kv_view_dense(NULL, LAYER_BLOCKS, 1, LAYER_KV_HEADS, LAYER_BLOCK_TOKENS,
                                 LAYER_DIM, config.cache);
    layer.kv.base = malloc(LAYER_BLOCKS * layer.kv.block_stride);
    assert(layer.kv.base);
    memset(layer.kv.base, 0xff, LAYER_BLOCKS * layer.kv.block_stride);
    return layer;
}

void layer_close(struct layer *layer)
{
    layer->backend->destroy(layer->attention);
    layer->backend->metadata_destroy(layer->metadata);
    free(layer->kv.base);
}

static float rounded(enum dtype dtype, float scale, float value)
{
    char element[4];
    if (dtype == DTYPE_F32)
        return value;
    dtype_store(dtype, element, 0, value / scale);
    return dtype_load(dtype, element, 0) * scale;
}

struct buffers {
    float q[LAYER_ROWS_MAX * WIDTH], k[LAYER_ROWS_MAX * KV_WIDTH], v[LAYER_ROWS_MAX * KV_WIDTH];
    float output[LAYER_ROWS_MAX * WIDTH], lse[LAYER_ROWS_MAX * LAYER_HEADS];
    bool is_row[LAYER_ROWS_MAX];
};

/* The token's value of a column, or what is planted there. */
static float value_of(const struct layer *layer, uint32_t token, uint32_t column, float own,
                      float planted)
{
    bool is_planted = planted != 0 && token == layer->planted.token && column % LAYER_DIM == 0;
    return is_planted ? planted : own;
}

static float prepared(const struct layer *layer, float value, uint32_t bias_column)
{
    if (layer->bias)
        value += layer->bias[bias_column];
    return rounded(layer->rounding, 1, value);
}

static void fill_q(const struct layer *layer, const uint32_t *tokens, struct buffers *buffers)
{
    const struct attention_metadata *metadata = layer->metadata;
    for (uint32_t t = 0; t < metadata->n_tokens; t++) {
        size_t row = metadata->token_rows[t];
        assert(row < LAYER_ROWS_MAX);
        buffers->is_row[row] = true;
        if (metadata->sequences[metadata->token_sequences[t]].is_dummy)
            continue; /* NaN */
        for (uint32_t c = 0; c < WIDTH; c++)
            dtype_store(
                layer->config.compute, buffers->q, row * WIDTH + c,
                prepared(layer,
                         value_of(layer, tokens[t], c, layer_q(tokens[t], c), layer->planted.q),
                         c));
    }
}

static void fill_kv(const struct layer *layer, const uint32_t *tokens, struct buffers *buffers)
{
    const struct attention_metadata *metadata = layer->metadata;
    for (uint32_t t = 0; t < metadata->n_kv_tokens; t++) {
        size_t row = metadata->kv_rows[t];
        assert(row < LAYER_ROWS_MAX);
        if (metadata->sequences[metadata->kv_sequences[t]].is_dummy)
            continue;
        for (uint32_t c = 0; c < KV_WIDTH; c++) {
            float k = value_of(layer, tokens[t], c, layer_k(tokens[t], c), layer->planted.k);
            float v = value_of(layer, tokens[t], c, layer_v(tokens[t], c), layer->planted.v);
            k = prepared(layer, k, WIDTH + c);
            v = prepared(layer, v, WIDTH + KV_WIDTH + c);
            dtype_store(layer->config.compute, buffers->k, row * KV_WIDTH + c,
                        rounded(layer->kv_rounding, layer->k_rounding_scale, k));
            dtype_store(layer->config.compute, buffers->v, row * KV_WIDTH + c,
                        rounded(layer->kv_rounding, layer->v_rounding_scale, v));
        }
    }
}

static bool is_untouched(const uint8_t *bytes, size_t n)
{
    while (n > 0 && bytes[n - 1] == 0xff)
        n--;
    return n == 0;
}

static void take_rows(const struct layer *layer, const struct buffers *buffers,
                      struct layer_rows *rows_out)
{
    const struct attention_config *config = &layer->config;
    enum dtype dtype = config->output_scale != 0 ? DTYPE_E4M3 : config->compute;
    float scale = config->output_scale != 0 ? config->output_scale : 1;
    size_t row_bytes = WIDTH * dtype_bytes(dtype);
    for (uint32_t t = 0; t < layer->metadata->n_tokens; t++) {
        size_t row = layer->metadata->token_rows[t];
        for (uint32_t c = 0; c < WIDTH; c++)
            rows_out->output[t][c] = dtype_load(dtype, buffers->output, row * WIDTH + c) * scale;
        memcpy(rows_out->lse[t], buffers->lse + row * LAYER_HEADS, sizeof rows_out->lse[t]);
    }
    for (size_t row = 0; row < LAYER_ROWS_MAX; row++)
        cr_assert(buffers->is_row[row] ||
                      is_untouched((const uint8_t *)buffers->output + row * row_bytes, row_bytes),
                  "row %zu is padding", row);
}

static void prepare(struct layer *layer, const struct attention_step *step)
{
    const struct attention_backend *backend = layer->backend;
    struct error error = {""};
    size_t bytes = backend->metadata_arena_bytes(layer->metadata);
    if (layer->arenas)
        backend->metadata_use_arena(layer->metadata, layer->arenas);
    cr_assert_eq(backend->metadata_prepare(layer->metadata, step, &layer->kv, &error), STATUS_OK,
                 "%s", error.text);
    if (!layer->arenas)
        return;
    memcpy(layer->arenas + bytes, layer->arenas, bytes);
    memset(layer->arenas, 0xff, bytes);
    backend->metadata_use_arena(layer->metadata, layer->arenas + bytes);
}

void layer_step(struct layer *layer, const struct attention_step *step, const uint32_t *tokens,
                const uint32_t *kv_tokens, struct layer_rows *rows_out)
{
    static struct buffers buffers;
    memset(&buffers, 0xff, sizeof buffers);
    memset(buffers.is_row, 0, sizeof buffers.is_row);
    prepare(layer, step);
    if (layer->adopt)
        layer->adopt(&buffers, sizeof buffers);
    fill_q(layer, tokens, &buffers);
    fill_kv(layer, kv_tokens ? kv_tokens : tokens, &buffers);
    struct attention_io io = {
        .q = buffers.q,
        .k = buffers.k,
        .v = buffers.v,
        .q_stride = WIDTH,
        .k_stride = KV_WIDTH,
        .v_stride = KV_WIDTH,
        .output = buffers.output,
        .output_stride = WIDTH,
        .lse = layer->skips_lse ? NULL : buffers.lse,
        .mask = layer->mask,
        .mask_sequence_stride = layer->mask_sequence_stride,
        .mask_query_stride = layer->mask_query_stride,
    };
    cr_assert_eq(layer->backend->forward(layer->attention, layer->metadata, &io, NULL), STATUS_OK);
    take_rows(layer, &buffers, rows_out);
}

enum { UNUSED_BLOCK = 0 };

/* The blocks of a step whose first query is that token: of config.table, the last one. */
static void lay_blocks(const struct layer *layer, const struct layer_run *run, uint32_t query,
                       uint32_t *block_ids)
{
    const uint32_t window = layer->config.window, table = layer->config.table;
    const uint32_t first = run->forgets && query + 1 > window ? query + 1 - window : 0;
    assert(table < LAYER_TABLES && (!run->forgets || window > 0));
    for (uint32_t i = 0; i < (table + 1) * LAYER_BLOCKS; i++)
        block_ids[i] = UNUSED_BLOCK;
    for (uint32_t i = first / LAYER_BLOCK_TOKENS; i < LAYER_BLOCKS - 1; i++)
        block_ids[table * LAYER_BLOCKS + i] = LAYER_BLOCKS - 1 - i;
}

void layer_run(struct layer *layer, const struct layer_run *run, struct layer_rows *rows_out)
{
    static struct layer_rows step_rows;
    uint32_t block_ids[LAYER_TABLES * LAYER_BLOCKS], tokens[LAYER_LEN_MAX];
    for (uint32_t i = 0; i < run->len; i++)
        tokens[i] = run->tokens ? run->tokens[i] : i;
    const void *mask = layer->mask;
    for (uint32_t done = 0, n; done < run->len; done += n) {
        bool is_context = done < run->prompt_len;
        lay_blocks(layer, run, done, block_ids);
        n = is_context ? run->prompt_len - done : 1;
        if (is_context && run->chunk && run->chunk < n)
            n = run->chunk;
        struct attention_sequence sequence = {
            .phase = is_context ? PHASE_CONTEXT : PHASE_GENERATION,
            .query_len = n,
            .kv_len = done + n,
            .prompt_len = run->prompt_len,
            .block_ids = block_ids,
            .n_blocks = LAYER_BLOCKS,
            .positions = run->positions ? run->positions + done : NULL,
        };
        struct attention_step step = {
            .sequences = &sequence, .n_sequences = 1, .padded_query_len = run->padded_query_len};
        if (mask)
            layer->mask = (const char *)mask +
                          done * layer->mask_query_stride *
                              (layer->config.mask_input == MASK_INPUT_FLOAT ? sizeof(float) : 1);
        layer_step(layer, &step, tokens + done, NULL, &step_rows);
        memcpy(rows_out->output[done], step_rows.output, n * sizeof rows_out->output[0]);
        memcpy(rows_out->lse[done], step_rows.lse, n * sizeof rows_out->lse[0]);
    }
    layer->mask = mask;
}

void layer_assert_near(const struct layer_rows *got, uint32_t got_first,
                       const struct layer_rows *expected, uint32_t expected_first, uint32_t n,
                       double bound, const char *what)
{
    double error = values_error(got->output[got_first], expected->output[expected_first],
                                (size_t)n * WIDTH);
    double lse_error = values_error(got->lse[got_first], expected->lse[expected_first],
                                    (size_t)n * LAYER_HEADS);
    cr_assert_leq(error, bound, "%s: error %g", what, error);
    cr_assert_leq(lse_error, bound, "%s: error of lse %g", what, lse_error);
}
