/*
 * host_attention - what every back end that runs on the host shares: judging a configuration,
 * preparing a step in plain memory, and finding a key.
 *
 * Thread: as attention.h.
 */
#pragma once

#include "kernels/attention.h"

/* The configuration of a layer as the inner loops want it. */
struct host_layer {
    struct attention_config config;  /* borrowed arrays: use the copies below */
    uint32_t group;                  /* query heads of one kv head */
    float scale;                     /* factor of q k */
    uint32_t n_rotary;               /* elements of a head that turn; 0: no rope */
    bool is_interleaved;             /* pairs are (2i, 2i + 1), not (i, i + n_rotary / 2) */
    float *slopes;                   /* [n_heads] times alibi_scale; NULL: no ALiBi */
    float *sinks;                    /* [n_heads]; NULL: none */
    float *q_bias, *k_bias, *v_bias; /* [heads][head_dim]; NULL: none */
    float *q_norm, *k_norm;          /* [head_dim]; NULL: none */
};

/* What a layer and the limits of its group must both keep. INVALID_ARGUMENT. */
MUST_CHECK enum status host_check_heads(uint32_t n_heads, uint32_t n_kv_heads, uint32_t head_dim,
                                        struct error *error);

/* A field whose value is one of a list: 0 .. last. */
struct host_choice {
    const char *field;
    unsigned value, last;
};
MUST_CHECK enum status host_check_choices(const struct host_choice *choices, size_t n,
                                          struct error *error);

/* The sentences of NO_MEMORY, which they return. */
enum status host_layer_no_memory(const struct attention_config *config, struct error *error);
enum status host_metadata_no_memory(const struct attention_limits *limits, struct error *error);

/* INVALID_ARGUMENT, UNSUPPORTED with a sentence: see attention_backend.create. NO_MEMORY. */
MUST_CHECK enum status host_layer_init(const struct attention_config *config,
                                       struct host_layer *layer_out, struct error *error);
void host_layer_finish(struct host_layer *layer); /* a zeroed one is fine */

/* What a back end's table takes whose attention is the layer and nothing else. pool is not kept. */
MUST_CHECK enum status host_attention_create(const struct attention_config *config,
                                             struct thread_pool *pool,
                                             struct attention **attention_out, struct error *error);
void host_attention_destroy(struct attention *attention); /* NULL is fine */
const struct host_layer *host_attention_layer(const struct attention *attention);

/* Runs on the caller; what needs a workspace hangs it on metadata->workspace. */
MUST_CHECK enum status host_metadata_create(const struct attention_limits *limits,
                                            struct thread_pool *pool,
                                            struct attention_metadata **metadata_out,
                                            struct error *error);
void host_metadata_destroy(struct attention_metadata *metadata);
MUST_CHECK enum status host_metadata_prepare(struct attention_metadata *metadata,
                                             const struct attention_step *step,
                                             const struct kv_view *kv, struct error *error);
MUST_CHECK enum status host_metadata_make_static(struct attention_metadata *metadata,
                                                 uint32_t n_generations, struct error *error);

/* INVALID_ARGUMENT: see attention_backend.forward. host_check_keys: of kv_update, which reads k and v
 * alone. */
MUST_CHECK enum status host_check_io(const struct host_layer *layer,
                                     const struct attention_metadata *metadata,
                                     const struct attention_io *io, struct error *error);
MUST_CHECK enum status host_check_keys(const struct host_layer *layer,
                                       const struct attention_metadata *metadata,
                                       const struct attention_io *io, struct error *error);

/* Index of the layer's rope in the metadata's tables; ATTENTION_ROPES_MAX: it is none of them. */
uint32_t host_rope_index(const struct host_layer *layer, const struct attention_metadata *metadata);

/* MATH_BF16 and MATH_FP16 round to sixteen bits: to which dtype. */
static inline bool host_math_half(enum attention_math math, enum dtype *dtype_out)
{
    *dtype_out = math == MATH_BF16 ? DTYPE_BF16 : DTYPE_F16;
    return math == MATH_BF16 || math == MATH_FP16;
}

static inline uint32_t host_n_beams(const struct attention_sequence *sequence)
{
    return sequence->n_beams > 1 ? sequence->n_beams : 1;
}

/* First byte of K of a slot; V is kv_stride further on. block_ids: those of one beam. */
static inline char *host_kv_slot(const struct kv_view *kv, uint32_t layer_index,
                                 const uint32_t *block_ids, uint32_t kv_head, uint32_t slot)
{
    uint32_t index = kv->is_contiguous ? 0 : slot / kv->block_tokens;
    uint32_t within = kv->is_contiguous ? slot : slot & (kv->block_tokens - 1);
    return (char *)kv->base + block_ids[index] * kv->block_stride + layer_index * kv->layer_stride +
           kv_head * kv->head_stride + within * kv->token_stride;
}

/* Where K of a new key of the step (an index into kv_rows) goes in the cache; V is kv_stride further. */
char *host_new_key(const struct host_layer *layer, const struct attention_metadata *metadata,
                   uint32_t key, uint32_t kv_head);

/* The same for the key with an index in the cache (0 is the first that the cache holds), as a beam
 * sees it: cyclic slots and the beam's cache_source are followed. */
char *host_key(const struct host_layer *layer, const struct attention_metadata *metadata,
               uint32_t sequence, uint32_t beam, uint32_t kv_head, uint32_t index);
