/*
 * attention_layer - checks the configuration of a layer and copies it into the form for inner loops.
 *
 * Thread: as attention.h.
 */
#pragma once

#include "kernels/attention.h"

/* The configuration of a layer in the form for inner loops. */
struct attention_layer {
    struct attention_config config;  /* borrowed arrays: use the copies below */
    uint32_t group;                  /* query heads of one kv head */
    float scale;                     /* factor of q k */
    uint32_t n_rotary;               /* elements of a head that are rotated; 0: no rope */
    bool is_interleaved;             /* pairs are (2i, 2i + 1), not (i, i + n_rotary / 2) */
    float *slopes;                   /* [n_heads] times alibi_scale; NULL: no ALiBi */
    float *sinks;                    /* [n_heads]; NULL: none */
    float *q_bias, *k_bias, *v_bias; /* [heads][head_dim]; NULL: none */
    float *q_norm, *k_norm;          /* [head_dim]; NULL: none */
};

/* Checks the fields that a layer and the limits of its group both have. INVALID_ARGUMENT. */
MUST_CHECK enum status attention_check_heads(uint32_t n_heads, uint32_t n_kv_heads,
                                             uint32_t head_dim, struct error *error);

/* A field with a value of an enum: 0 .. last. */
struct listed_field {
    const char *field;
    unsigned value, last;
};
MUST_CHECK enum status attention_check_choices(const struct listed_field *choices, size_t n,
                                               struct error *error);

/* Writes the sentence of NO_MEMORY and returns it. */
enum status attention_layer_no_memory(const struct attention_config *config, struct error *error);

/* INVALID_ARGUMENT, UNSUPPORTED with a sentence: see attention_backend.create. NO_MEMORY. */
MUST_CHECK enum status attention_layer_init(const struct attention_config *config,
                                            struct attention_layer *layer_out, struct error *error);
/* As attention_layer_init, but qkv_bias, q_norm and k_norm are addresses on a device: their copies stay NULL. */
MUST_CHECK enum status attention_layer_init_device(const struct attention_config *config,
                                                   struct attention_layer *layer_out,
                                                   struct error *error);
void attention_layer_finish(struct attention_layer *layer); /* a zeroed one is fine */

/* create and destroy for back ends whose struct attention has only the layer. pool is not kept. */
MUST_CHECK enum status bare_attention_create(const struct attention_config *config,
                                             struct thread_pool *pool,
                                             struct attention **attention_out, struct error *error);
void bare_attention_destroy(struct attention *attention); /* NULL is fine */
const struct attention_layer *bare_attention_layer(const struct attention *attention);

/* Q and K are rounded to INT8. */
static inline bool attention_math_is_int8(enum attention_math math)
{
    return math == MATH_INT8 || math == MATH_INT8_PV_FP8;
}

/* True for MATH_BF16 and MATH_FP16. dtype_out: the dtype to which they round. */
static inline bool attention_math_half(enum attention_math math, enum dtype *dtype_out)
{
    *dtype_out = math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
    return math == MATH_BF16 || math == MATH_FP16;
}
