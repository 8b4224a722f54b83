/*
 * forward - one forward pass over a packed batch: context sequences (chunks of prompts) first, then
 * generation sequences, one query token each.
 *
 * Writes K and V of every query token into the sequence's blocks, then attends to all of the
 * sequence up to it. Layers with recurrent state have none of these: they read and write the
 * sequence's state, which is in blocks of its own. Bits of a sequence's results depend on nothing but its own tokens: not on the
 * batch, the chunking, the block size or the number of threads. With an adapter they also depend on that one.
 *
 * A model with an encoder computes whole texts first: forward_encode writes K and V of a text, for each layer of the decoder, into
 * blocks of its own, its cross blocks. They are written once, and then read by each step of the sequences that have them. A cross
 * block is laid out as a block of the decoder's own tokens, with an encoder's token in place of each: [place][K, V][kv_head][token]
 * [dim] in the type of the cache, since both have the decoder's heads and layers. So one pool has both.
 *
 * Everything is sized at creation; a pass allocates nothing. Activations are one allocation on the device; the inputs
 * of a step are sent in one copy of its stage. The pool is attached last, when the memory of a step has been measured:
 *
 *     create -> warm up -> attach(pool) -> run, run, ...
 *
 * Thread: one at a time (the engine thread, which owns the device's compute queue), with the thread pool under it.
 */
#pragma once

#include "base/thread_pool.h"
#include "device/device.h"
#include "kernels/attention.h"
#include "kvcache/block_pool.h"
#include "kvcache/cache_groups.h"
#include "kvcache/sink_window.h"
#include "model/forward/state_layout.h"
#include "model/model.h"

struct adapter;
struct forward;
struct kv_scales;
struct sampling_penalty; /* both: kernels/cuda/sampling_parameters.h */
struct sampling_result;

/* dtype of the KV cache; the values are those of kvtransfer's geometry, by name. */
enum cache_dtype { CACHE_F32, CACHE_BF16, CACHE_F16, CACHE_INT8, CACHE_E4M3 };

/* The type in which attention of context sequences multiplies: float32 (values of the cache are widened), BF16 or FP16 as in
 * flash attention on a GPU, E4M3, or INT8 as in SageAttention (enum attention_math in kernels/attention.h). Generation does not
 * depend on it, but on a GPU it uses BF16 and FP16, too, if its shape allows (kernels/cuda/attention.h).
 *
 * FP8: the scale of Q is 1, and so are those of K and V, unless the cache has scales: E4M3 has exponents, and what models have is
 * below its largest number, 448.
 *
 * INT8: the K of a tile is rounded together, so the keys of a tile that are there decide the bits. Blocks must be whole tiles. Then
 * all chunks but the last, and prefixes of other prompts, end with a tile, and chunks change no bit. A window would hide a part of a
 * tile from some chunks, so layers with a window that is shorter than the context are refused. */
enum context_math {
    CONTEXT_MATH_COMPUTE,
    CONTEXT_MATH_BF16,
    CONTEXT_MATH_FP16,
    CONTEXT_MATH_FP8,
    CONTEXT_MATH_INT8,
    CONTEXT_MATH_INT8_PV_FP8,
};

#define CONTEXT_MATH_WORDS "compute|bf16|fp16|fp8|int8|int8-pv-fp8" /* in that order */
#define CONTEXT_MATHS      6u

static inline bool context_math_is_int8(enum context_math math)
{
    return math == CONTEXT_MATH_INT8 || math == CONTEXT_MATH_INT8_PV_FP8;
}
const char *context_math_name(enum context_math math); /* "int8-pv-fp8" */

/* To what activations are rounded before weights in blocks multiply them (kernels/blocks.h): a scale for each 32. */
enum block_activations { BLOCK_ACTIVATIONS_INT16, BLOCK_ACTIVATIONS_INT8 };

/* How attention is computed, where there is a choice: kernels/attention.h. All zero: as is fastest. */
struct attention_switches {
    enum attention_path path; /* of prompts: UNFUSED and SHORT change bits */
    enum attention_choice multi_block, grouped;
};

struct forward_options {
    uint32_t block_tokens; /* a power of two, 8 .. 128 */
    enum cache_dtype cache_dtype;
    enum context_math context_math;
    enum block_activations block_activations; /* INT8: the model has weights in blocks */
    uint32_t tokens_max;                      /* query tokens in a batch */
    uint32_t sequences_max;                   /* in a batch */
    uint32_t blocks_max;                      /* of one sequence, in each group */
    uint32_t
        encoder_tokens_max; /* of all texts of a forward_encode; read if the model has an encoder */
    struct cache_groups groups; /* of layers; n 0: one group of all. n_state: state_layout_blocks */
    struct thread_pool *threads;
    struct device *device;             /* the blocks of the pool are on it, too */
    const struct kv_scales *kv_scales; /* of an INT8 or E4M3 cache; read by create alone */
    struct attention_switches attention;
    uint32_t adapter_rank_max; /* largest rank of the adapters of sequences; 0: none has one */
    struct sink_window
        sinks; /* of replies; window 0: none. Then n_past counts places of the table, not tokens */
};

/* A device gets at most this many penalties for one row. A row with more is fetched. */
#define FORWARD_PENALTIES_MAX 1024u

/* What forward_find searches in a row of logits. */
struct forward_wish {
    float temperature;
    uint32_t n_top; /* likeliest tokens before the penalties, at most LOGPROBS_MAX */
    const struct sampling_penalty *penalties; /* [n_penalties] of different ids */
    uint32_t n_penalties;                     /* at most FORWARD_PENALTIES_MAX */
};

struct forward_sequence {
    uint64_t request_id;       /* for error messages */
    const uint32_t *token_ids; /* [n_query] */
    uint32_t n_query;
    uint32_t n_past;     /* tokens whose KV is in the blocks already */
    uint32_t prompt_len; /* tokens of the whole prompt; not used in generation */
    /* [n_groups][n_blocks], each row with room for n_past + n_query tokens. In a window group the blocks that no query
     * of this step sees may be BLOCK_NONE. */
    const block_id *blocks;
    uint32_t n_blocks;
    uint32_t window;                 /* with sinks, of a reply: under theirs; 0: theirs */
    bool wants_logits;               /* of its last query token */
    bool keeps_rows;                 /* for forward_rows: of all its query tokens */
    const struct forward_wish *wish; /* for forward_find, if wants_logits; NULL: no search */
    /* [groups.n_state] of the pool: what layers with recurrent state know of the n_past tokens (state_layout.h); of none they are not
     * read. Afterwards they know those of this step, too. No two sequences share them. NULL if the model has no such layers. */
    const block_id *state_blocks;
    /* Of a model with an encoder: what forward_encode has written of its text, in order. At least one token. */
    const block_id *cross_blocks; /* [n_cross_blocks] */
    uint32_t n_cross_blocks, n_cross_tokens;
    /* Of this model, with a rank up to adapter_rank_max, the same in each step of the sequence. NULL: the model alone. Sequences with
     * the same one are computed together if they follow each other. */
    const struct adapter *adapter;
};

/* A text of forward_encode. */
struct forward_text {
    uint64_t request_id;          /* for error messages */
    const uint32_t *token_ids;    /* [n_tokens] */
    uint32_t n_tokens;            /* 1 .. forward_text_tokens_max */
    const block_id *cross_blocks; /* [n_cross_blocks] with room for n_tokens: written */
    uint32_t n_cross_blocks;
};

/* Prompts are computed from stored scores: their sums have another order than those of generated tokens. */
static inline bool forward_stores_scores(const struct attention_switches *switches)
{
    return switches->path == PATH_UNFUSED || switches->path == PATH_SHORT;
}

/* The bytes of one block of this model with all its layers that have K and V in one group, for block_pool_create. */
size_t forward_block_bytes(const struct model_config *config, uint32_t block_tokens,
                           enum cache_dtype dtype);

/* The same with its layers in groups; n 0: that. */
size_t forward_group_bytes(const struct model_config *config, const struct cache_groups *groups,
                           uint32_t block_tokens, enum cache_dtype dtype);

/* The bytes of device memory for the activations of a forward pass with these options, and for the workspace of its products
 * and experts; the buffers of attention for a step are not included. */
size_t forward_activation_bytes(const struct model *model, const struct forward_options *options);

/* model, threads and device are borrowed until destroy. INVALID_ARGUMENT: error says
 * which option and why. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_create(const struct model *model,
                                      const struct forward_options *options, struct error *error,
                                      struct forward **forward_out);
void forward_destroy(struct forward *forward); /* NULL is fine */

/* Call it before the worker is ready and before attach: touches all memory that a step needs, by a step of the largest
 * shape that computes nothing and uses no block. DEVICE_LOST. */
MUST_CHECK enum status forward_warm_up(struct forward *forward);

/* Call it before the first capture, if a library computes the products: plans them for every number of tokens that has
 * its own plan, and for all smaller numbers. UNSUPPORTED, DEVICE_LOST. */
MUST_CHECK enum status forward_plan_products(struct forward *forward, struct error *error);

/* Call it after the warm-up and before attach. If the device captures: captures the graphs of steps, measures their
 * memory and drops them. forward_attach captures the final ones, with the addresses of the pool. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_measure_graphs(struct forward *forward, struct error *error);
/* 0: none, or not measured. May include memory that another process took meanwhile. */
uint64_t forward_graph_bytes(const struct forward *forward);

/* Call it once, before the first run: tells where the blocks of sequences are. The pool is in the memory of the device
 * and borrowed until destroy. If the device captures, the steps that only generate are captured here, without computing
 * anything. INVALID_ARGUMENT: the blocks do not fit this model. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_attach(struct forward *forward, const struct block_pool *pool,
                                      struct error *error);

/* The options of forward_create. */
const struct forward_options *forward_get_options(const struct forward *forward);

uint32_t forward_vocabulary(const struct forward *forward); /* of a row of logits */

/* Whether a token has the same bits in a context and in a generation sequence. False with any math except COMPUTE, with
 * fast products, and if the rotation depends on the sequence length: for a context sequence this is the prompt's length. */
bool forward_phases_agree(const struct forward *forward);
/* The first of these reasons, as text for a sentence; NULL: the phases agree. */
const char *forward_phases_differ_by(const struct forward *forward);
/* The same of these options alone, whatever model and device. */
const char *forward_choices_differ_by(enum context_math math,
                                      const struct attention_switches *switches);

/* logits_out: [count of wants_logits][vocabulary], in the order of the sequences.
 * The first n_contexts sequences are chunks of prompts (any n_query >= 1), the others have n_query 1.
 * Each chunk of a prompt but the last has whole blocks only.
 * A batch that breaks these rules or the limits is a programmer's error (logged and asserted).
 * Waits for the end of the step, at most as long as device_wait. DEVICE_LOST: neither logits_out nor any block of a
 * sequence may be used. */
MUST_CHECK enum status forward_run(struct forward *forward,
                                   const struct forward_sequence *sequences, uint32_t n_sequences,
                                   uint32_t n_contexts, float *logits_out);

/* The model has an encoder, and a pool is attached. Computes at most sequences_max texts, of encoder_tokens_max tokens together, and
 * writes their cross blocks. A batch that breaks these rules is a programmer's error (logged and asserted). DEVICE_LOST: no block
 * may be used. */
MUST_CHECK enum status forward_encode(struct forward *forward, const struct forward_text *texts,
                                      uint32_t n_texts);
/* The most tokens of one text; 0: the model has no encoder. */
uint32_t forward_text_tokens_max(const struct forward *forward);

/* After a step in which a sequence keeps its rows, until the next step: computes the logits of n of the step's query tokens, which
 * are counted from its first sequence's on. n is at most sequences_max. logits_out [n][vocabulary] has the bits that each token's
 * row would have had as a wanted one. Such a step computes its last layer for all its tokens. On a device that finds, the rows of
 * forward_fetch are gone. DEVICE_LOST. */
MUST_CHECK enum status forward_rows(struct forward *forward, uint32_t first, uint32_t n,
                                    float *logits_out);

/* The count of finished layers, those of forward_encode and the cross blocks of a layer too, and of calls of forward_rows. It shows
 * whether a step advances. On a device with its own queue a layer counts as
 * finished when it is enqueued; device_wait bounds the rest. Any thread. */
uint64_t forward_layers_done(const struct forward *forward);

/* Calls done(arg) after each layer and in each forward_rows, on the thread that runs the step, which continues when it returns. NULL: no calls.
 * Set it between steps. */
typedef void (*forward_layer_done)(void *arg);
void forward_on_layer(struct forward *forward, forward_layer_done done, void *arg);

/* Whether forward_find can be called: the device searches rows of logits itself, in a launch of the step or its graph
 * after the product that computes them. Any other device writes the rows to the host's memory. */
bool forward_finds(const struct forward *forward);

/* As forward_run, but returns no rows. found_out [count of wants_logits] gets what the wish of each wanted row asks for (the
 * 256 best, sums, the top): 3 KiB instead of megabytes. Without a wish it is undefined. */
MUST_CHECK enum status forward_find(struct forward *forward,
                                    const struct forward_sequence *sequences, uint32_t n_sequences,
                                    uint32_t n_contexts, struct sampling_result *found_out);

/* Fetches row number row [vocabulary] of the last step, which must have been one of forward_find.
 * DEVICE_LOST. */
MUST_CHECK enum status forward_fetch(struct forward *forward, uint32_t row, float *logits_out);
