/*
 * delta_rule - the operator of kernels/recurrent.h on the CPU. A task has some columns of the state of one head, of all sequences:
 * columns are independent of each other.
 *
 *     known = S^T k      four sums for each column, of keys 4 i, 4 i + 1, ...; then (0 + 1) + (2 + 3)
 *     d     = beta (v - decay known)
 *     S     = decay S + k d^T, and o = S^T q in the same pass, summed as known is
 *
 * Columns of many rows are copied to the stack: a whole state's rows are a power of two apart, and few of them fit the first-level
 * cache. The bits are the same.
 *
 * Bound: multiply-adds with many rows, the bytes of the state with one.
 */
#include "kernels/cpu/layer/recurrent.h"
#include "kernels/cpu/vector/rows.h"
#include "kernels/cpu/walk.h"

#include <assert.h>

#if defined __AVX512F__
enum { STEP_VECS = 2 }; /* 8 sums: as many as hide the latency of a multiply-add */
#else
enum { STEP_VECS = 1 }; /* 4 sums of two registers */
#endif

enum {
    COLUMNS = 2 * LANES,
    CHAINS = 4,    /* key_dim is a multiple of it */
    COPY_ROWS = 3, /* with fewer, copying costs more than it gains */
    WORK_OF_ELEMENT = 4,
};

/* A row of q and k, normalised, and the numbers of its head. */
struct delta_row {
    float q[DELTA_DIM_MAX], k[DELTA_DIM_MAX];
    float decay, beta;
};

struct delta_task {
    const struct delta_rule *rule;
    uint32_t head, key_head, column, n_columns;
};

/* unit_out = x factor / sqrt(sum of x^2 + eps); n is a multiple of 8. */
static void normalise(const float *x, uint32_t n, float eps, float factor, float *unit_out)
{
    vec squares = vec_zero();
    for (uint32_t i = 0; i < n; i += LANES) {
        vec v = load_from(DTYPE_F32, x, i, n);
        squares = vec_fma(v, v, squares);
    }
    const vec scale = vec_set(factor / sqrtf(vec_sum(squares) + eps));
    for (uint32_t i = 0; i < n; i += LANES)
        store_from(unit_out, vec_mul(load_from(DTYPE_F32, x, i, n), scale), i, n);
}

static void row_load(const struct delta_task *task, uint64_t row, struct delta_row *row_out)
{
    const struct delta_rule *rule = task->rule;
    const uint32_t n = rule->key_dim;
    const size_t first = (size_t)task->key_head * n;
    const float scale = rule->scale > 0 ? rule->scale : 1 / sqrtf((float)n);
    normalise(rule->q + row * rule->q_stride + first, n, rule->norm_eps, scale, row_out->q);
    normalise(rule->k + row * rule->k_stride + first, n, rule->norm_eps, 1, row_out->k);
    row_out->decay = rule->decay[row * rule->decay_stride + task->head];
    row_out->beta = rule->beta[row * rule->beta_stride + task->head];
}

INLINE vec chains_sum(const vec sums[CHAINS])
{
    return vec_add(vec_add(sums[0], sums[1]), vec_add(sums[2], sums[3]));
}

/* One row on STEP_VECS vectors of columns. values: v, then o. */
INLINE void delta_step(const struct delta_row *row, uint32_t n_keys, float *state, size_t stride,
                       float *values)
{
    const vec decay = vec_set(row->decay);
    vec sums[STEP_VECS][CHAINS], delta[STEP_VECS];
    UNROLL
    for (uint32_t n = 0; n < STEP_VECS * CHAINS; n++)
        sums[n / CHAINS][n % CHAINS] = vec_zero();
    for (uint32_t i = 0; i < n_keys; i += CHAINS) {
        UNROLL
        for (uint32_t c = 0; c < CHAINS; c++) {
            const vec k = vec_set(row->k[i + c]);
            UNROLL
            for (uint32_t n = 0; n < STEP_VECS; n++)
                sums[n][c] = vec_fma(vec_load(state + (i + c) * stride + n * LANES), k, sums[n][c]);
        }
    }
    UNROLL
    for (uint32_t n = 0; n < STEP_VECS; n++) {
        vec known = vec_mul(chains_sum(sums[n]), decay);
        delta[n] = vec_mul(vec_sub(vec_load(values + n * LANES), known), vec_set(row->beta));
        UNROLL
        for (uint32_t c = 0; c < CHAINS; c++)
            sums[n][c] = vec_zero();
    }
    for (uint32_t i = 0; i < n_keys; i += CHAINS) {
        UNROLL
        for (uint32_t c = 0; c < CHAINS; c++) {
            const vec k = vec_set(row->k[i + c]), q = vec_set(row->q[i + c]);
            UNROLL
            for (uint32_t n = 0; n < STEP_VECS; n++) {
                float *place = state + (i + c) * stride + n * LANES;
                vec next = vec_fma(k, delta[n], vec_mul(vec_load(place), decay));
                vec_store(place, next);
                sums[n][c] = vec_fma(next, q, sums[n][c]);
            }
        }
    }
    UNROLL
    for (uint32_t n = 0; n < STEP_VECS; n++)
        vec_store(values + n * LANES, chains_sum(sums[n]));
}

/* All rows of a sequence on COLUMNS columns of a state. */
static void delta_rows(const struct delta_task *task, uint32_t n_rows, uint64_t first_row,
                       float *state, size_t stride)
{
    const struct delta_rule *rule = task->rule;
    const size_t at = (size_t)task->head * rule->value_dim + task->column;
    struct delta_row row;
    float values[COLUMNS] = {0};
    for (uint64_t t = first_row; t < first_row + n_rows; t++) {
        row_load(task, t, &row);
        memcpy(values, rule->v + t * rule->v_stride + at, task->n_columns * sizeof *values);
        for (uint32_t i = 0; i < COLUMNS; i += STEP_VECS * LANES)
            delta_step(&row, rule->key_dim, state + i, stride, values + i);
        memcpy(rule->o + t * rule->o_stride + at, values, task->n_columns * sizeof *values);
    }
}

static void delta_sequence(const struct delta_task *task, uint32_t n_rows, uint64_t first_row,
                           float *state)
{
    const uint32_t n_keys = task->rule->key_dim, n_values = task->rule->value_dim;
    const size_t bytes = task->n_columns * sizeof *state;
    float columns[DELTA_DIM_MAX * COLUMNS];
    if (n_rows < COPY_ROWS && task->n_columns == COLUMNS) {
        delta_rows(task, n_rows, first_row, state, n_values);
        return;
    }
    for (uint32_t i = 0; i < n_keys; i++) {
        memset(columns + (size_t)i * COLUMNS, 0, COLUMNS * sizeof *columns);
        memcpy(columns + (size_t)i * COLUMNS, state + (size_t)i * n_values, bytes);
    }
    delta_rows(task, n_rows, first_row, columns, COLUMNS);
    for (uint32_t i = 0; i < n_keys; i++)
        memcpy(state + (size_t)i * n_values, columns + (size_t)i * COLUMNS, bytes);
}

static uint32_t column_blocks(const struct delta_rule *rule)
{
    return (rule->value_dim + COLUMNS - 1) / COLUMNS;
}

static void delta_run(void *arg, uint32_t index)
{
    const struct delta_rule *rule = arg;
    const uint32_t head = index / column_blocks(rule);
    const uint32_t column = index % column_blocks(rule) * COLUMNS;
    const uint32_t left = rule->value_dim - column;
    const struct delta_task task = {.rule = rule,
                                    .head = head,
                                    .key_head = delta_rule_key_head(rule, head),
                                    .column = column,
                                    .n_columns = left < COLUMNS ? left : COLUMNS};
    uint64_t row = 0;
    for (uint32_t s = 0; s < rule->n_sequences; row += rule->lens[s++]) {
        float *state = rule->states[(size_t)s * rule->n_heads + head] + column;
        if (rule->lens[s] == 0)
            continue;
        for (uint32_t i = 0; rule->begins && rule->begins[s] && i < rule->key_dim; i++)
            memset(state + (size_t)i * rule->value_dim, 0, task.n_columns * sizeof *state);
        delta_sequence(&task, rule->lens[s], row, state);
    }
}

void cpu_delta_rule(struct thread_pool *pool, const struct delta_rule *rule)
{
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < rule->n_sequences; s++)
        n_rows += rule->lens[s];
    assert(rule->key_dim <= DELTA_DIM_MAX && rule->key_dim % CHAINS == 0);
    if (n_rows > 0)
        walk_all(pool, n_rows * rule->n_heads * rule->key_dim * rule->value_dim * WORK_OF_ELEMENT,
                 rule->n_heads * column_blocks(rule), delta_run, (void *)(uintptr_t)rule);
}
