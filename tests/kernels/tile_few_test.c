/* With AVX2 and AVX-512, few rows have loops of their own: their scores have the bits of tile_transpose and tile_qk, and their
 * outputs those of scalar's loops, for all types, numbers of rows and keys, and head sizes. */
#ifdef __x86_64__
#define ISA_NAME avx2
#include "kernels/cpu/attention/tile.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { ROWS = 8, SCALAR_PV_ROWS = 5, DIM_MAX = 256, CALLS = 3 };

/* The loops of a set. */
static struct loops {
    const char *name;
    uint32_t pv_rows; /* at most, in one call */
    void (*few)(uint32_t n_rows, const struct tile_few_keys *op);
    void (*pv)(uint32_t n_rows, const struct tile_weighted *op);
    void (*transpose)(const struct tile_rows *k, uint32_t n_keys, uint32_t head_dim,
                      struct tile_ahead *ahead, float *k_t);
    void (*qk)(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q,
               const float *k_t, struct tile_ahead *ahead, float *scores);
} loops;

#define LOOPS(isa)                                                                                 \
    void tile_few_##isa(uint32_t n_rows, const struct tile_few_keys *op);                          \
    void tile_pv_##isa(uint32_t n_rows, const struct tile_weighted *op);                           \
    void tile_transpose_##isa(const struct tile_rows *k, uint32_t n_keys, uint32_t head_dim,       \
                              struct tile_ahead *ahead, float *k_t);                               \
    void tile_qk_##isa(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q,        \
                       const float *k_t, struct tile_ahead *ahead, float *scores);

LOOPS(avx2)
LOOPS(avx512)
LOOPS(avx512_vbmi)

void tile_pv_scalar_fma(uint32_t n_rows, const struct tile_weighted *op);
void tile_pv_scalar_plain(uint32_t n_rows, const struct tile_weighted *op);

static const uint32_t dims[] = {8, 16, 24, 40, 64, 72, 128, 200, 256};
static const uint32_t key_counts[] = {1, 7, 8, 17, 40, 63, 64};

static struct data {
    char cached[TILE_KEYS * DIM_MAX * sizeof(float)];
    float q[ROWS * DIM_MAX], weights[ROWS * TILE_KEYS];
    float k_t[TILE_KEYS * DIM_MAX], scores[2][ROWS * TILE_KEYS];
    float keep[ROWS], out[2][ROWS * DIM_MAX];
    struct tile_rows rows;
} data;

static uint32_t draw(void)
{
    static uint64_t state = 88172645463325252u;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

static float draw_float(void)
{
    return (float)(int32_t)draw() * 0x1p-31f;
}

enum values {
    PLAIN,
    ANY_BITS, /* of every 64 elements one: infinities, NaN and subnormals are among them */
    LARGE_Q /* the same, and an element of Q is at the limit to which Q of E4M3 is scaled, beyond it, or the smallest */
};

static void fill(enum dtype dtype, uint32_t head_dim, enum values values)
{
    static const float LARGE[] = {
        0x1.fffffep118f, -0x1.fffffep118f, 0x1p119f, 0x1p121f, INFINITY, NAN, 0x1p-149f};
    const size_t bytes = dtype_bytes(dtype), row = head_dim * bytes;
    for (size_t i = 0; i < (size_t)TILE_KEYS * head_dim; i++) {
        const uint32_t any = draw();
        dtype_store(dtype, data.cached, i, draw_float() * (dtype == DTYPE_INT8 ? 127 : 1));
        if (values != PLAIN && draw() % 64 == 0)
            memcpy(data.cached + i * bytes, &any, bytes);
    }
    data.rows = (struct tile_rows){.dtype = dtype};
    for (uint32_t strip = 0; strip < TILE_STRIPS; strip++) {
        data.rows.strips[strip] = data.cached + strip * STRIP_KEYS * row;
        data.rows.strides[strip] = row;
    }
    for (size_t i = 0; i < sizeof data.q / sizeof *data.q; i++)
        data.q[i] = draw_float();
    if (values == LARGE_Q)
        data.q[draw() % 8] = LARGE[draw() % (sizeof LARGE / sizeof *LARGE)];
    for (size_t i = 0; i < sizeof data.weights / sizeof *data.weights; i++)
        data.weights[i] = draw_float();
    for (uint32_t r = 0; r < ROWS; r++)
        data.keep[r] = draw_float();
    for (size_t i = 0; i < (size_t)ROWS * DIM_MAX; i++)
        data.out[0][i] = data.out[1][i] = draw_float();
}

static void expect_same(const char *what, enum dtype dtype, uint32_t n_rows, uint32_t head_dim,
                        const float *got, const float *expected, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!isnan(got[i]) || !isnan(expected[i]))
            cr_assert(memcmp(got + i, expected + i, sizeof *got) == 0,
                      "%s %s %s, %u rows, dim %u, element %u: %a, not %a", loops.name,
                      dtype_name(dtype), what, n_rows, head_dim, i, (double)got[i],
                      (double)expected[i]);
}

static void check_scores(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim)
{
    struct tile_ahead ahead = {.n_strips = 0};
    const struct tile_few_keys op = {.k = &data.rows,
                                     .ahead = &ahead,
                                     .q = data.q,
                                     .packed = data.k_t,
                                     .scores = data.scores[0],
                                     .n_keys = n_keys,
                                     .head_dim = head_dim};
    loops.few(n_rows, &op);
    loops.transpose(&data.rows, n_keys, head_dim, &ahead, data.k_t);
    for (uint32_t r = 0; r < n_rows; r++) {
        loops.qk(1, n_keys, head_dim, data.q + r * head_dim, data.k_t, &ahead,
                 data.scores[1] + r * TILE_KEYS);
        expect_same("scores", data.rows.dtype, n_rows, head_dim, data.scores[0] + r * TILE_KEYS,
                    data.scores[1] + r * TILE_KEYS, n_keys);
    }
}

static void check_outputs(uint32_t n_rows, uint32_t first, uint32_t end, uint32_t dim)
{
    struct tile_ahead ahead = {.n_strips = 0};
    struct tile_weighted op = {.v = &data.rows,
                               .ahead = &ahead,
                               .weights = data.weights,
                               .keep = data.keep,
                               .out = data.out[0],
                               .first = first,
                               .end = end,
                               .dim = dim};
    loops.pv(n_rows, &op);
    for (uint32_t row = 0, n; row < n_rows; row += n) {
        n = n_rows - row < SCALAR_PV_ROWS ? n_rows - row : SCALAR_PV_ROWS;
        op.out = data.out[1] + row * dim;
        op.weights = data.weights + row * TILE_KEYS;
        op.keep = data.keep + row;
        (__builtin_cpu_supports("fma") ? tile_pv_scalar_fma : tile_pv_scalar_plain)(n, &op);
    }
    expect_same("outputs", data.rows.dtype, n_rows, dim, data.out[0], data.out[1], n_rows * dim);
}

static void check_tile(enum dtype dtype, uint32_t head_dim, enum values values)
{
    for (size_t i = 0; i < sizeof key_counts / sizeof *key_counts; i++) {
        fill(dtype, head_dim, values);
        for (uint32_t n_rows = 1; n_rows <= ROWS; n_rows++)
            check_scores(n_rows, key_counts[i], head_dim);
        for (uint32_t n_rows = 1; n_rows <= loops.pv_rows && head_dim % LANES == 0; n_rows++)
            check_outputs(n_rows, draw() % key_counts[i], key_counts[i], head_dim);
    }
}

static void check_loops(const struct loops *of)
{
    loops = *of;
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_E4M3; dtype++)
        for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
            for (uint32_t call = 0; call < CALLS; call++)
                check_tile(dtype, dims[i], (enum values)(call % 3));
}

#define CHECK(isa, pv_rows)                                                                        \
    check_loops(&(struct loops){#isa, pv_rows, tile_few_##isa, tile_pv_##isa,                      \
                                tile_transpose_##isa, tile_qk_##isa})

Test(few_rows, have_the_bits_of_many)
{
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        CHECK(avx2, 5);
    else
        printf("this machine has no AVX2\n");
}

Test(few_rows, have_the_bits_of_many_with_avx512)
{
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl") ||
        !__builtin_cpu_supports("avx512dq")) {
        printf("this machine has no AVX-512\n");
        return;
    }
    CHECK(avx512, 8);
    if (__builtin_cpu_supports("avx512vbmi"))
        CHECK(avx512_vbmi, 8);
}

/* Lines are asked for once each, in order, and no more of them than there are. */
Test(few_rows, asks_for_what_is_left)
{
    static const char lines[2][4 * LINE_BYTES];
    struct tile_ahead ahead = {
        .strips = {lines[0], lines[1]}, .n_strips = 2, .bytes = sizeof lines[0]};
    cr_assert_eq(tile_ask_left(&ahead), 8);
    tile_ask_lines(3, &ahead);
    cr_assert(ahead.strip == 0 && ahead.byte == 3 * LINE_BYTES);
    cr_assert_eq(tile_ask_left(&ahead), 5);
    tile_ask_lines(9, &ahead);
    cr_assert_eq(tile_ask_left(&ahead), 0);
}
#endif
