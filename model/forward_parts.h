/*
 * forward_parts - the inside of a forward pass, for four files: forward_create.c allocates and warms it up,
 * forward_layout.c lays its steps out, forward.c runs it, forward_find.c lets the device search its logits.
 */
#pragma once

#include "device/stage.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"
#include "model/forward.h"
#include "model/weights.h"

#include <stdatomic.h>

/* Rows of the MLP's inner activations at a time on a host: bounds the workspace, stays in the second cache,
 * and is enough to spread the cost of widening 16-bit weights. A device with kernels of its own takes all of a step. */
#define MLP_ROWS 512u

/* All that a step of a bucket launches, every row's logits and what is found in them included, where it reads what was sent to one of the arenas. */
struct step_graph {
    const uint8_t *sent;
    struct device_graph *graph;
};

/*
 * Where the parts of a step lie in an arena of the stage:
 *
 *     token ids [n_tokens_max]   logit rows [n_sequences_max]   wishes [n_sequences_max]   the metadata's arena   penalties
 *
 * (numbers: metadata->limits). Wishes are struct sampling_row, a row's or all zero, and wishes and penalties are only where
 * forward_finds. Of the penalties a step takes, and sends, as many as it has.
 *
 * All layouts take turns in the stage's arenas: each has addresses of its own for everything that a step of it reads.
 */
struct step_layout {
    struct attention_metadata *metadata;
    size_t logit_rows_at, wishes_at, metadata_at; /* multiples of ATTENTION_ARENA_ALIGNMENT */
    size_t bytes;                                 /* before penalties, which begin there */
    struct step_graph graphs[STAGE_ARENAS];
    uint32_t n_graphs; /* all or none */
};

/* One of any step, then buckets, where the device wants static steps: of 1, 2, 4 ... sequences_max tokens that are generated. */
#define STEP_LAYOUTS_MAX 22u

/* Rows of activations, without gaps. */
struct rows {
    void *data;
    enum dtype dtype;
};

struct forward {
    const struct model_config *config;
    const struct weights *weights;
    const struct kernels *kernels;
    const struct attention_backend *backend;
    struct thread_pool *threads;
    struct forward_options options;
    enum dtype dtype;       /* of activations but the residual stream */
    uint32_t kv_tokens_max; /* of one sequence */
    uint32_t qkv_width;     /* elements of a token: Q, K and V heads */
    uint32_t mlp_rows_max;  /* of an MLP at a time */

    struct rope *rope;
    struct attention **attention;  /* [n_layers] */
    struct attention_config shape; /* heads and dtypes, the same in every layer */
    struct step_layout layouts[STEP_LAYOUTS_MAX];
    uint32_t n_layouts;
    uint64_t graph_bytes; /* as measured */
    struct kv_view kv;    /* base NULL: no pool yet */

    struct attention_sequence *sequences; /* [sequences_max] */
    struct stage *stage;                  /* a step_layout of each step */
    struct device_memory activations;     /* of which: */
    struct rows hidden;                   /* [tokens_max][hidden] float, the residual stream */
    struct rows normed;                   /* [tokens_max][hidden] with room for float: keep_rows */
    struct rows qkv;                      /* [tokens_max][qkv_width] */
    struct rows attended;                 /* [tokens_max][n_heads * head_dim] */
    struct rows gate, up;                 /* [mlp_rows_max][ffn] */
    struct rows
        logits; /* [sequences_max][vocabulary] float; data NULL: kernels write to the host's */
    /* Where the device finds: */
    struct rows penalised; /* [sequences_max][vocabulary] float, scratch */
    struct rows found;     /* [sequences_max] struct sampling_result */
    uint32_t n_found;      /* rows of the last step, 0: it was not forward_find's */

    atomic_uint_fast64_t layers_done; /* ever, of all steps */
    forward_layer_done on_layer;      /* NULL: nobody is told */
    void *on_layer_arg;
};

/* The layouts, and the stage; limits are of any step. INVALID_ARGUMENT, NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_layouts_create(struct forward *forward,
                                              const struct attention_limits *limits,
                                              struct error *error);
void forward_layouts_destroy(struct forward *forward); /* half-made, or none: fine */

/* Where the device captures: the graphs of each bucket over n_arenas of the stage; all of them, and behind attach, for steps that
 * run. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_capture(struct forward *forward, uint32_t n_arenas,
                                       struct error *error);
/* No replay is under way. */
void forward_drop_graphs(struct forward *forward);

/* Of a batch: the smallest bucket that holds it if it only generates, if there are buckets. */
const struct step_layout *forward_layout_of(const struct forward *forward, uint32_t n_sequences,
                                            uint32_t n_contexts);
/* view was taken from the stage, with the step's ids and rows: prepares the metadata there and sends it all. sent_out is
 * where kernels find it, and the metadata points there. Then stage_keep. DEVICE_LOST; a step that does not fit is a
 * programmer's error, logged and asserted. */
MUST_CHECK enum status forward_send(struct forward *forward, const struct step_layout *layout,
                                    const struct attention_step *step, uint8_t *view,
                                    const uint8_t **sent_out);

/* ---- forward_find.c: all but the first where forward_finds ---- */

/* Whether the device has kernels of its own. NULL: a host. */
bool forward_finds_on(const struct device *device);
/* In a stage's arena, of n sequences at most. */
size_t forward_wishes_bytes(uint32_t n);
size_t forward_penalties_bytes(const struct forward *forward, uint32_t n);
/* Of a step's penalties. */
size_t forward_sent_penalties_bytes(const struct forward_sequence *sequences, uint32_t n_sequences);
/* Wishes of the wanted rows in their order, none for the rest of n_static; and penalties: into the layout's view. */
void forward_lay_out_wishes(const struct step_layout *layout,
                            const struct forward_sequence *sequences, uint32_t n_sequences,
                            uint8_t *view);
/* Behind the logits of n_rows. sent: the layout's. */
void forward_enqueue_find(const struct forward *forward, const struct step_layout *layout,
                          const uint8_t *sent, uint32_t n_rows);
