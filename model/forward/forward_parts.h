/*
 * forward_parts - the private data of a forward pass, for seventeen files: forward_create.c makes it, forward_memory.c
 * allocates its activations, forward_options.c
 * checks what is asked of it, forward_sinks.c those of replies with sinks, forward_warm_up.c touches it,
 * forward_layout.c lays out its steps, forward.c packs and runs them, forward_layers.c computes the decoder,
 * forward_find.c lets the device search its logits, forward_experts.c prepares the layers with experts,
 * forward_latent.c has attention over latents, forward_recurrent.c computes layers with recurrent state,
 * forward_attend.c has attention over K and V of heads, forward_inputs.c makes and adds the layers' own embeddings,
 * forward_adapters.c adds what adapters add to products,
 * forward_encode.c computes the encoder and attention to it, attention_check.c asks for attention alone.
 */
#pragma once

#include "device/stage.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "kernels/latent.h"
#include "kernels/moe.h"
#include "model/adapter/adapter.h"
#include "model/forward/forward.h"
#include "model/weights/weights.h"

#include <stdatomic.h>

/* On a host the MLP computes this many rows at a time. It bounds the workspace, fits the L2 cache, and is enough to
 * spread the cost of widening 16-bit weights. A device with its own kernels computes all rows of a step at once. */
#define MLP_ROWS 512u

/* Rows of the table of layer_inputs that are read at a time. */
#define INPUT_ROWS 64u

/* The captured launches of a step of one bucket, for one arena: the step reads its inputs there (sent). They include
 * the logits of every row and the search for candidates. */
struct step_graph {
    const uint8_t *sent;
    struct device_graph *graph;
};

/*
 * Where the parts of a step lie in an arena of the stage:
 *
 *     token ids [n_tokens_max]   logit rows [n_sequences_max]   wishes [n_sequences_max]   the metadata's arenas   penalties
 *
 * The numbers are those of metadata->limits. A wish is a struct sampling_row; it is zero for a row without a wish. Wishes
 * and penalties exist only where forward_finds. A step sends only the penalties that it has.
 *
 * All layouts use the same arenas, one step after the other. Each layout has its own addresses for the inputs of a step.
 */
struct step_layout {
    struct attention_metadata *metadata; /* NULL: attention is over latents, which need none */
    struct attention_metadata *wide;     /* of wide layers; NULL: there are none. On a host alone */
    size_t logit_rows_at, wishes_at, metadata_at,
        wide_at;  /* multiples of ATTENTION_ARENA_ALIGNMENT */
    size_t bytes; /* without penalties, which begin there */
    struct step_graph graphs[STAGE_ARENAS];
    uint32_t n_graphs; /* all or none */
};

/* The first layout fits any step. If the device wants static steps, buckets follow: layouts of steps that generate
 * 1, 2, 4 ... sequences_max tokens. */
#define STEP_LAYOUTS_MAX 22u

/* Rows of activations, without gaps. */
struct rows {
    void *data;
    enum dtype dtype;
};

/* A step laid out in an arena; ids and rows are device addresses. */
struct packed_step {
    const uint32_t *positions; /* [n_tokens] */
    const struct attention_metadata *metadata, *wide;
    const uint8_t *sent; /* the arena, with: */
    const uint32_t *token_ids, *logit_rows;
    const struct attention_metadata *cross; /* NULL: the model has no encoder */
    uint32_t n_sequences, n_tokens,
        n_logits; /* in a static step the other counts include padding rows, n_logits does not */
    bool keeps_rows;
};

/* The sequences of a step, as layers with recurrent state see them. */
struct recurrent_batch {
    struct state_layout layout; /* from attach on */
    const struct block_pool *pool;
    uint32_t *lens;          /* [sequences_max] query tokens */
    const block_id **blocks; /* [sequences_max] of their states */
    bool *begins;            /* [sequences_max] */
    float **parts;           /* [sequences_max][n_heads] of one layer */
};

/* Rows of a step, one after the other, of sequences with the same adapter. */
struct adapter_run {
    const struct adapter *adapter;
    uint32_t first, n;
};

/* Of the rows that are computed; rows without an adapter are in none. */
struct adapter_runs {
    struct adapter_run *runs; /* [sequences_max] */
    uint32_t n;
};

struct forward_adapters {
    struct adapter_runs all,
        wanted; /* of all rows of a step, and of those that logits are wanted of */
    const struct adapter_runs *now; /* one of both: of the rows that the layer has */
    struct rows low;                /* [mlp_rows_max][adapter_rank_max] float: A x */
};

struct forward {
    const struct model_config *config;
    const struct weights *weights;
    const struct kernels *kernels;
    const struct attention_backend *backend;
    struct thread_pool *threads;
    struct forward_options options;
    enum dtype dtype;       /* of activations, without the residual stream */
    uint32_t kv_tokens_max; /* of one sequence */
    uint32_t
        qkv_width; /* elements of a token: what the first products of a layer write side by side */
    uint32_t mlp_rows_max; /* rows that an MLP computes at a time */

    struct moe *moe;                  /* NULL: no layer has experts */
    struct moe_expert *layer_experts; /* [n_layers][n_experts], as moe takes them */
    struct rope *rope, *rope_local;   /* rope_local NULL: no layer has it */
    struct attention **attention;     /* [n_layers]; NULL: a layer with recurrent state */
    struct forward_latent *latent;    /* NULL: attention has K and V of heads */
    struct recurrent_batch recurrent; /* lens NULL: no layer has a state */
    struct forward_adapters adapters; /* all.runs NULL: no sequence has one */
    float *relative_bias;            /* [1, or n_layers][n_heads][n_buckets]; NULL: there is none */
    struct forward_encoder *encoder; /* NULL: the model has none */
    struct attention_config shape;   /* heads and dtypes; forward_shape_of has those of a layer */
    struct step_layout layouts[STEP_LAYOUTS_MAX];
    uint32_t n_layouts;
    uint64_t graph_bytes;   /* as measured */
    struct kv_view kv;      /* base NULL: no pool yet */
    struct kv_view wide_kv; /* of wide layers, in the same blocks */

    struct attention_sequence *sequences; /* [sequences_max] */
    block_id *tables;    /* [sequences_max][n_groups][blocks_max]; NULL: no group has a window */
    struct stage *stage; /* each step is laid out by a step_layout */
    struct device_memory activations; /* its parts: */
    struct rows hidden;               /* [tokens_max][hidden] float, the residual stream */
    struct rows normed;               /* [tokens_max][hidden] with room for float: keep_rows */
    struct rows qkv;                  /* [tokens_max][qkv_width] */
    struct rows attended;    /* [tokens_max][model_attended_width, or value heads * value_dim] */
    struct rows latent_q;    /* [tokens_max][n_heads][latent_row] */
    struct rows latent_sums; /* [tokens_max][n_heads][latent dim] */
    struct rows inputs, input_rows, input_gate; /* forward_inputs.c */
    struct rows convolved; /* [tokens_max][channels]; only for layers with recurrent state */
    struct rows gate, up;  /* [mlp_rows_max][ffn] */
    struct rows routed, from_experts; /* [mlp_rows_max][hidden] float: forward_experts.c */
    struct rows
        branch; /* [tokens_max][hidden] float: what a branch adds; only if it is changed before */
    struct rows workspace; /* of products: workspace_bytes; on a host only */
    size_t workspace_bytes;
    struct rows
        logits; /* [sequences_max][vocabulary] float; data NULL: kernels write to the caller's memory */
    /* Only where forward_finds: */
    struct rows penalised; /* [sequences_max][vocabulary] float, scratch */
    struct rows found;     /* [sequences_max] struct sampling_result */
    uint32_t n_found;      /* rows of the last step if it was one of forward_find, else 0 */
    uint32_t n_kept; /* rows of normed that forward_rows may read: all of the last step, or 0 */

    atomic_uint_fast64_t layers_done; /* of all steps since the start */
    forward_layer_done on_layer;      /* may be NULL */
    void *on_layer_arg;
};

/* An encoder, computed as a decoder is, in the same activations, since the two never compute at once; and the attention of the
 * decoder's layers to it. On a host only. */
struct forward_encoder {
    struct model_config config;      /* encoder_config */
    struct weights weights;          /* parts of the model's */
    struct forward stack;            /* its attention is not causal; its kv is scratch: */
    struct rows scratch;             /* [K, V][scratch tokens][heads][dim] float, of one layer */
    block_id *scratch_blocks;        /* [n_scratch_blocks] all of them */
    uint32_t *token_ids;             /* [encoder_tokens_max] */
    struct attention_metadata *self; /* of the encoder's layers */
    struct attention **cross;        /* [n_layers of the decoder] */
    struct attention_metadata *metadata;  /* of these: to write K and V of texts, and of steps */
    struct attention_sequence *sequences; /* [sequences_max], for both */
};

/* Creates the layouts and the stage. limits hold for any step. INVALID_ARGUMENT, NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_layouts_create(struct forward *forward,
                                              const struct attention_limits *limits,
                                              struct error *error);
void forward_layouts_destroy(struct forward *forward); /* also if some or all are missing */

/* If the device captures: captures each bucket once for each of n_arenas of the stage. Steps can use the graphs only if
 * n_arenas is all arenas and a pool is attached. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_capture(struct forward *forward, uint32_t n_arenas,
                                       struct error *error);
/* No replay may be running. */
void forward_drop_graphs(struct forward *forward);

/* The layout for a batch: the smallest bucket that fits if the batch only generates, else the first layout. */
const struct step_layout *forward_layout_of(const struct forward *forward, uint32_t n_sequences,
                                            uint32_t n_contexts);
/* view is an arena of the stage and has the ids and rows of the step. Prepares the metadata there and sends all of it.
 * sent_out: the address for kernels; the metadata points there. The caller calls stage_keep later. DEVICE_LOST. A step
 * that does not fit is a programmer's error, logged and asserted. */
MUST_CHECK enum status forward_send(struct forward *forward, const struct step_layout *layout,
                                    const struct attention_step *step, uint8_t *view,
                                    const uint8_t **sent_out);

/* ---- forward_create.c: the parts that attention_check.c and forward_encode.c ask, too ---- */

/* Of a layer: heads and dtypes. */
struct attention_config forward_shape_of(const struct forward *forward, uint32_t layer);

/* Checks the options that are not a layer's, and sets what needs no memory. INVALID_ARGUMENT, UNSUPPORTED. */
MUST_CHECK enum status forward_describe(const struct model *model,
                                        const struct forward_options *options, struct error *error,
                                        struct forward *forward_out);
/* For attention that is computed in one way; why: "the model has an encoder". UNSUPPORTED: a switch asks for another. */
MUST_CHECK enum status forward_check_switches(const struct attention_switches *switches,
                                              const char *why, struct error *error);
/* Then: what all layers have in common, and the places for them. INVALID_ARGUMENT, NO_MEMORY. */
MUST_CHECK enum status forward_describe_attention(struct forward *forward, struct error *error);
/* The scales of K and V in the number-th layer that has them, if the cache has 8-bit elements. */
void forward_scale_cache(const struct forward *forward, uint32_t number,
                         struct attention_config *attention);
/* Then: one layer. INVALID_ARGUMENT, UNSUPPORTED, NO_MEMORY. */
MUST_CHECK enum status forward_create_attention(struct forward *forward, uint32_t layer,
                                                struct error *error);

/* ---- forward_memory.c ---- */

/* Allocates the activations. NO_MEMORY, with a sentence. */
MUST_CHECK enum status forward_create_memory(struct forward *forward, struct error *error);
/* A stack of layers with these options, before anything is created. */
struct forward forward_stack_of(const struct model_config *config, const struct kernels *kernels,
                                const struct forward_options *options);
enum dtype forward_cache_dtype(enum cache_dtype dtype);
/* Of one sequence. */
uint32_t forward_kv_tokens_max(const struct model_config *config,
                               const struct forward_options *options);

/* ---- forward_options.c ---- */

/* Those that are not a layer's. INVALID_ARGUMENT, UNSUPPORTED with a sentence. */
MUST_CHECK enum status forward_check_options(const struct model *model,
                                             const struct forward_options *options,
                                             struct error *error);

/* ---- forward_layers.c ---- */

/* Enqueues the step, from the embedding to the logits. logits is memory that kernels can write. */
void forward_compute(struct forward *forward, const struct packed_step *packed, struct rows logits);
/* logits <- head(x) */
void forward_head(const struct forward *forward, struct rows x, uint32_t n_rows,
                  struct rows logits);
/* The rows that a layer's first branch reads: hidden, or its norm in normed. */
struct rows forward_before_attention(const struct forward *forward, uint32_t layer,
                                     uint32_t n_rows);
/* The rows that any branch reads, by the norm before it. */
struct rows forward_before_branch(const struct forward *forward, const struct tensor *weight,
                                  const struct tensor *bias, uint32_t n_rows);
/* y[row] = weight x[row] + bias; the caller may change strides and accumulate. */
struct gemm forward_product(const struct tensor *weight, const struct tensor *bias, struct rows x,
                            struct rows y, uint32_t n_rows);
/* Computes them together: at most GEMMS_MAX. */
void forward_multiply(const struct forward *forward, struct gemm *products, uint32_t n);
/* RMS norm in place of the first weight->n_out elements of rows that are qkv_width apart. */
void forward_norm_rows(const struct forward *forward, const struct tensor *weight, struct rows x,
                       float eps, uint32_t n_rows);
/* y <- norm(x) of rows of the hidden size; y may be x. bias may have data NULL, and so may weight: there is none. */
void forward_norm(const struct forward *forward, const struct tensor *weight,
                  const struct tensor *bias, struct rows x, struct rows y, uint32_t n_rows);
/* Rows first .. first + n_rows - 1, at most mlp_rows_max, of an MLP that reads those of all: the branch, or hidden, gets the same rows. */
void forward_mlp_rows(const struct forward *forward, const struct layer_weights *weights,
                      struct rows all, uint32_t first, uint32_t n_rows);
/* Where the last product of a branch goes. */
struct rows forward_end_of_branch(const struct forward *forward);
/* Counts a layer as enqueued and tells on_layer. */
void forward_count_layer(struct forward *forward);
/* x <- factor x, of rows of width elements that follow each other */
void forward_scale(const struct forward *forward, struct rows x, uint32_t n_rows, uint32_t width,
                   float factor);
/* The factor of rows of an embedding of that type. */
float forward_embedding_scale(const struct forward *forward, enum dtype dtype, float factor);
/* hidden += residual_scale * after(branch), if branches are changed before they are added. */
void forward_add_branch(const struct forward *forward, const struct tensor *after, uint32_t n_rows);
/* y[i] = x[rows[i]] of the wanted rows; y has the type of x. */
struct rows forward_gather(const struct forward *forward, const struct packed_step *packed,
                           struct rows x, size_t width, void *y);
/* The rows, beginning at element at. */
struct rows forward_rows_from(struct rows rows, size_t at);
/* Plans the products of a step of n tokens on a device with kernels of its own. */
MUST_CHECK enum status forward_plan_step(const struct forward *forward, uint32_t n,
                                         struct error *error);

/* ---- forward_attend.c ---- */

/* hidden -> attended */
void forward_attend(const struct forward *forward, const struct packed_step *packed,
                    uint32_t layer);

/* ---- forward_inputs.c: where no layer has an embedding of its own, they do nothing ---- */

/* hidden (the embedding) -> inputs */
void forward_make_inputs(const struct forward *forward, const struct packed_step *packed);
/* The inputs of the wanted rows, as keep_rows keeps them. */
struct rows forward_keep_inputs(const struct forward *forward, const struct packed_step *packed);
/* hidden += what the layer makes of hidden and its inputs */
void forward_add_input(const struct forward *forward, uint32_t layer, struct rows inputs,
                       uint32_t n_rows);

/* ---- forward_latent.c: all functions but the first are only for decoders with latents ---- */

/* Elements of a token that the first products of a layer write; 0: there are no latents. */
uint32_t forward_latent_width(const struct model_config *config);
/* For check-model and create: asks the kernels. The same for all layers. Twice is fine. INVALID_ARGUMENT, UNSUPPORTED, NO_MEMORY. */
MUST_CHECK enum status forward_latent_create(struct forward *forward, struct error *error);
/* Then, for steps: angles of all positions, and places for a step. NO_MEMORY. */
MUST_CHECK enum status forward_latent_lay_out(struct forward *forward, struct error *error);
void forward_latent_destroy(struct forward *forward); /* NULL inside is fine */
void forward_latent_touch(struct forward *forward);
struct kv_view forward_latent_view(const struct forward *forward, void *base, uint32_t n_blocks,
                                   uint32_t n_places);
/* Takes over the sequences of a step. Returns the positions of its tokens. */
const uint32_t *forward_latent_prepare(struct forward *forward, uint32_t n_sequences);
/* hidden -> attended */
void forward_latent_attend(const struct forward *forward, const struct packed_step *packed,
                           uint32_t layer);

/* ---- forward_sinks.c ---- */

/* Of a cache of so many tokens a sequence. UNSUPPORTED: the model's replies cannot have sinks. INVALID_ARGUMENT: a reply does not
 * fit. */
MUST_CHECK enum status forward_check_sinks(const struct model_config *config,
                                           const struct forward_options *options,
                                           uint32_t kv_tokens, struct error *error);

/* ---- forward_experts.c ---- */

/* As forward_mlp_rows, of a layer with experts in place of the MLP. */
void forward_expert_rows(const struct forward *forward, uint32_t layer, struct rows all,
                         uint32_t first, uint32_t n_rows);
/* The same of experts beside the MLP. Experts and router read hidden, each by another norm; normed, which all may be, is theirs when
 * the MLP has read its rows. */
void forward_rows_beside(const struct forward *forward, uint32_t layer, struct rows all,
                         uint32_t first, uint32_t n_rows);
/* Creates moe and layer_experts if the model has experts. INVALID_ARGUMENT, NO_MEMORY with a sentence. */
MUST_CHECK enum status forward_create_experts(struct forward *forward, struct error *error);

/* ---- forward_recurrent.c ---- */

/* Elements of a token that the first products of a layer write, and that it hands on; 0: no layer has recurrent state. */
uint32_t forward_recurrent_width(const struct model_config *config);
uint32_t forward_recurrent_values(const struct model_config *config);
uint32_t forward_recurrent_channels(const struct model_config *config);
/* Creates the batch, if a layer has recurrent state. INVALID_ARGUMENT: the operators do not take the sizes. NO_MEMORY. */
MUST_CHECK enum status forward_create_recurrent(struct forward *forward, struct error *error);
void forward_destroy_recurrent(struct forward *forward);
/* INVALID_ARGUMENT: the blocks have no room for a part of a state, or the groups count other blocks. NO_MEMORY. */
MUST_CHECK enum status forward_attach_recurrent(struct forward *forward,
                                                const struct block_pool *pool, struct error *error);
/* Puts sequence i of a step into the batch. */
void forward_take_state(struct forward *forward, const struct forward_sequence *sequence,
                        uint32_t i);
/* hidden -> attended, in a layer with recurrent state. */
void forward_recur(const struct forward *forward, const struct packed_step *packed, uint32_t layer);

/* ---- forward_adapters.c: without adapter_rank_max they do nothing ---- */

/* Products that read the same rows: y is the result of the part's own one. */
struct adapted {
    enum adapter_part part;
    struct rows y;
    uint32_t y_stride;
};

/* NO_MEMORY. */
MUST_CHECK enum status forward_create_adapters(struct forward *forward);
void forward_destroy_adapters(struct forward *forward);
/* Before a step is packed. */
void forward_forget_adapters(struct forward *forward);
/* Packs rows first .. first + n - 1 with an adapter, perhaps NULL. wanted: the number of its wanted row among these, if wants_logits. */
void forward_take_adapter(struct forward *forward, const struct forward_sequence *sequence,
                          uint32_t first, uint32_t wanted);
/* From now on the layer has the wanted rows alone. */
void forward_keep_adapters(struct forward *forward);
/* y += scale B (A x) of rows first .. first + n_rows - 1, where x and the y of the parts begin. */
void forward_adapt(const struct forward *forward, uint32_t layer, struct rows x,
                   const struct adapted *parts, uint32_t n_parts, uint32_t first, uint32_t n_rows);

/* ---- forward_encode.c: all functions but the first two are only for models with an encoder ---- */

/* What is not computed behind an encoder. UNSUPPORTED with a sentence. */
MUST_CHECK enum status forward_check_encoder(const struct model_config *config,
                                             const struct forward_options *options,
                                             struct error *error);
void forward_encoder_destroy(struct forward *forward); /* NULL inside is fine */
/* Describes the encoder, for the layout of activations. */
void forward_encoder_describe(const struct model_config *config, const struct kernels *kernels,
                              const struct forward_options *options,
                              struct forward_encoder *encoder_out);
/* Places its scratch memory at base + at; returns the end. base NULL: only counts. */
size_t forward_encoder_place(struct forward_encoder *encoder, uint8_t *base, size_t at);
/* INVALID_ARGUMENT, NO_MEMORY. Then, when activations are placed and the decoder's operators are there: */
MUST_CHECK enum status forward_encoder_begin(struct forward *forward, struct error *error);
MUST_CHECK enum status forward_encoder_create(struct forward *forward, struct error *error);
/* Touches what attention needs. */
void forward_encoder_touch(struct forward *forward);
/* Takes over the cross blocks of a step. Returns what its layers need. */
const struct attention_metadata *forward_prepare_cross(struct forward *forward,
                                                       const struct forward_sequence *sequences,
                                                       uint32_t n_sequences, uint32_t n_contexts);
/* hidden -> attended: norm, Q, attend to the encoder's K and V. */
void forward_cross_attend(const struct forward *forward, const struct packed_step *packed,
                          uint32_t layer);

/* ---- forward_find.c: all functions but the first are only for where forward_finds ---- */

/* Whether the device has kernels of its own. NULL: a host. */
bool forward_finds_on(const struct device *device);
/* Bytes in an arena for at most n sequences. */
size_t forward_wishes_bytes(uint32_t n);
size_t forward_penalties_bytes(const struct forward *forward, uint32_t n);
/* Bytes of the penalties of one step. */
size_t forward_sent_penalties_bytes(const struct forward_sequence *sequences, uint32_t n_sequences);
/* Writes wishes and penalties into view: the wishes of the wanted rows in their order, then empty ones up to n_static. */
void forward_lay_out_wishes(const struct step_layout *layout,
                            const struct forward_sequence *sequences, uint32_t n_sequences,
                            uint8_t *view);
/* Enqueues the search after the product that computes the logits of n_rows. sent: as from forward_send. */
void forward_enqueue_find(const struct forward *forward, const struct step_layout *layout,
                          const uint8_t *sent, uint32_t n_rows);
