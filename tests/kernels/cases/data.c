#include "tests/kernels/cases/data.h"

#include "tests/kernels/support/values.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { OF_Q = 1, OF_K, OF_V, OF_Q_NORM, OF_K_NORM, OF_BIAS, OF_SINKS, OF_TABLE, OF_BUCKETS };

uint32_t case_data_row(const struct case_data *data, uint32_t s, uint32_t token, uint32_t beam)
{
    const struct case_sequence *sequence = &data->test_case->sequences[s];
    if (token < sequence->prompt_len)
        return data->first_rows[s] + token;
    return data->first_rows[s] + sequence->prompt_len +
           (token - sequence->prompt_len) * sequence->n_beams + beam;
}

/* [rows][width]: row r of sequence s is a function of the two. */
static char *make_rows(const struct attention_case *c, uint32_t what, const uint32_t *first_rows,
                       uint32_t n_rows, uint32_t width)
{
    char *rows = malloc((size_t)n_rows * width * sizeof(float) + 1);
    assert(rows);
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        uint32_t end = s + 1 < c->n_sequences ? first_rows[s + 1] : n_rows;
        uint64_t seed = values_hash(c->seed + 1000 * what + c->sequences[s].id);
        for (size_t r = first_rows[s]; r < end; r++)
            for (uint32_t i = 0; i < width; i++)
                dtype_store(c->compute, rows, r * width + i, values_at(seed, r - first_rows[s], i));
    }
    return rows;
}

/* n values a + b x of a dtype, up to the guard page. */
static struct guarded make_array(const struct attention_case *c, uint32_t what, enum dtype dtype,
                                 size_t n, float a, float b)
{
    struct guarded array = guarded_create(dtype_array_bytes(dtype, n));
    for (size_t i = 0; i < n; i++)
        dtype_store(dtype, array.data, i, a + b * values_at(c->seed + what, 0, i));
    return array;
}

/* Over all sequences: one over the largest index of a query and of a key. */
static void find_ends(const struct attention_case *c, uint32_t *queries_out, uint32_t *keys_out)
{
    *queries_out = *keys_out = 1;
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        const struct case_sequence *sequence = &c->sequences[s];
        uint32_t n_keys = c->keys == KEYS_CROSS ? sequence->encoder_len : sequence->len;
        *queries_out = sequence->len > *queries_out ? sequence->len : *queries_out;
        *keys_out = n_keys > *keys_out ? n_keys : *keys_out;
    }
}

static void make_weights(struct case_data *data, uint32_t n_queries, uint32_t n_keys)
{
    const struct attention_case *c = data->test_case;
    uint32_t n_bias = data->q_width + 2 * data->kv_width;
    if (c->has_norm) {
        data->q_norm = make_array(c, OF_Q_NORM, c->weights, c->head_dim, 1, 0.2f);
        data->k_norm = make_array(c, OF_K_NORM, c->weights, c->head_dim, 1, 0.2f);
    }
    if (c->has_bias)
        data->bias = make_array(c, OF_BIAS, c->weights, n_bias, 0, 0.3f);
    if (c->has_sinks)
        data->sinks = make_array(c, OF_SINKS, DTYPE_F32, c->n_heads, 1, 1);
    if (c->has_sinks && c->number % 3 == 0) /* a head without one */
        ((float *)data->sinks.data)[c->number % c->n_heads] = -INFINITY;
    if (c->has_table)
        data->table = make_array(c, OF_TABLE, DTYPE_F32, (size_t)c->n_heads * n_queries * n_keys, 0,
                                 1);
    if (c->n_buckets != 0)
        data->buckets = make_array(c, OF_BUCKETS, DTYPE_F32, (size_t)c->n_heads * c->n_buckets, 0,
                                   1);
}

static struct attention_config make_config(const struct case_data *data, uint32_t n_queries,
                                           uint32_t n_keys)
{
    const struct attention_case *c = data->test_case;
    bool is_int8 = c->cache == DTYPE_INT8;
    return (struct attention_config){
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .compute = c->compute,
        .cache = c->cache,
        .k_scale = is_int8 ? 4.0f / 127 : 4.0f / 448,
        .v_scale = is_int8 ? 3.0f / 127 : 3.5f / 448,
        .q_scale = 4.0f / 448,
        .output_scale = c->output_scale,
        .q_scaling = c->q_scaling,
        .scale = c->scale,
        .soft_cap = c->soft_cap,
        .bias = {.alibi_scale = c->alibi_scale,
                 .table = data->table.data,
                 .n_queries = c->has_table ? n_queries : 0,
                 .n_keys = c->has_table ? n_keys : 0,
                 .buckets = data->buckets.data,
                 .n_buckets = c->n_buckets,
                 .distance_max = c->distance_max,
                 .is_bidirectional = c->has_bidirectional_buckets},
        .sinks = data->sinks.data,
        .mask = c->mask,
        .mask_input = c->mask_input,
        .is_cyclic = c->is_cyclic,
        .sink_tokens = c->sink_tokens,
        .keys = c->keys,
        .reuses_prefix = c->reuses_prefix,
        .n_beams_max = c->n_beams_max,
        .n_draft_max = c->n_draft_max,
        .rope = data->rope,
        .qkv_bias = data->bias.data,
        .qkv_bias_dtype = c->weights,
        .q_norm = data->q_norm.data,
        .k_norm = data->k_norm.data,
        .norm_dtype = c->weights,
        .norm_eps = 1e-6f,
        .path = c->path,
        .math = c->math,
        .multi_block = c->multi_block,
        .grouped = c->grouped,
    };
}

static void make_layers(struct case_data *data, const struct attention_config *config)
{
    const struct attention_case *c = data->test_case;
    uint32_t n_in_group[CASE_LAYERS_MAX] = {0};
    data->n_groups = attention_layer_groups(c->windows, c->n_windows, c->n_layers,
                                            data->layer_windows, data->layer_groups);
    for (uint32_t layer = 0; layer < c->n_layers; layer++) {
        data->configs[layer] = *config;
        data->configs[layer].window = data->layer_windows[layer];
        data->configs[layer].layer_index = 1 + n_in_group[data->layer_groups[layer]]++;
    }
}

static double largest_of(const struct attention_case *c, const char *rows, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)dtype_load(c->compute, rows, i)));
    return largest + (c->has_bias ? 1 : 0);
}

static void make_inputs(struct case_data *data)
{
    const struct attention_case *c = data->test_case;
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        data->first_rows[s] = data->n_rows;
        data->first_kv_rows[s] = data->n_kv_rows;
        data->n_rows += case_rows(c, s);
        data->n_kv_rows += c->keys == KEYS_CROSS ? c->sequences[s].encoder_len : case_rows(c, s);
    }
    data->q = make_rows(c, OF_Q, data->first_rows, data->n_rows, data->q_width);
    data->k = make_rows(c, OF_K, data->first_kv_rows, data->n_kv_rows, data->kv_width);
    data->v = make_rows(c, OF_V, data->first_kv_rows, data->n_kv_rows, data->kv_width);
    data->largest_q = largest_of(c, data->q, (size_t)data->n_rows * data->q_width);
    data->largest_k = largest_of(c, data->k, (size_t)data->n_kv_rows * data->kv_width);
    data->largest_v = largest_of(c, data->v, (size_t)data->n_kv_rows * data->kv_width);
}

bool case_data_init(const struct attention_case *test_case, struct case_data *data_out,
                    struct error *error)
{
    const struct attention_case *c = test_case;
    struct case_data *data = data_out;
    uint32_t n_queries, n_keys;
    *data = (struct case_data){.test_case = c,
                               .q_width = c->n_heads * c->head_dim,
                               .kv_width = c->n_kv_heads * c->head_dim};
    make_inputs(data);
    find_ends(c, &n_queries, &n_keys);
    make_weights(data, n_queries, n_keys);
    if (c->rope.theta != 0 && rope_create(&c->rope, &data->rope, error) != STATUS_OK) {
        case_data_finish(data);
        return false;
    }
    struct attention_config config = make_config(data, n_queries, n_keys);
    make_layers(data, &config);
    return true;
}

void case_data_finish(struct case_data *data)
{
    struct guarded *arrays[] = {&data->q_norm, &data->k_norm, &data->bias,
                                &data->sinks,  &data->table,  &data->buckets};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (arrays[i]->map)
            guarded_destroy(arrays[i]);
    rope_destroy(data->rope);
    free(data->q);
    free(data->k);
    free(data->v);
}
