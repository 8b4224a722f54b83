/* tile_choice - the inner loops of a machine without AVX2: chooses those with FMA if the machine has FMA. */
#include "kernels/cpu/attention/tile.h"

#define OF(isa)                                                                                    \
    void tile_transpose_##isa(const struct tile_rows *k, uint32_t n_keys, uint32_t head_dim,       \
                              struct tile_ahead *ahead, float *k_t);                               \
    void tile_widen_##isa(const struct tile_rows *v, uint32_t n_keys, uint32_t head_dim,           \
                          struct tile_ahead *ahead, float *memory, struct tile_rows *wide_out);    \
    void tile_qk_##isa(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q,        \
                       const float *k_t, struct tile_ahead *ahead, float *scores);                 \
    void tile_pv_##isa(uint32_t n_rows, const struct tile_weighted *op);

OF(scalar_fma)
OF(scalar_plain)

static bool has_fma(void)
{
    return __builtin_cpu_supports("fma");
}

void tile_transpose(const struct tile_rows *k, uint32_t n_keys, uint32_t head_dim,
                    struct tile_ahead *ahead, float *k_t)
{
    (has_fma() ? tile_transpose_scalar_fma : tile_transpose_scalar_plain)(k, n_keys, head_dim,
                                                                          ahead, k_t);
}

void tile_widen(const struct tile_rows *v, uint32_t n_keys, uint32_t head_dim,
                struct tile_ahead *ahead, float *memory, struct tile_rows *wide_out)
{
    (has_fma() ? tile_widen_scalar_fma : tile_widen_scalar_plain)(v, n_keys, head_dim, ahead,
                                                                  memory, wide_out);
}

void tile_qk(uint32_t n_rows, uint32_t n_keys, uint32_t head_dim, const float *q, const float *k_t,
             struct tile_ahead *ahead, float *scores)
{
    (has_fma() ? tile_qk_scalar_fma : tile_qk_scalar_plain)(n_rows, n_keys, head_dim, q, k_t, ahead,
                                                            scores);
}

void tile_pv(uint32_t n_rows, const struct tile_weighted *op)
{
    (has_fma() ? tile_pv_scalar_fma : tile_pv_scalar_plain)(n_rows, op);
}
