/*
 * forward - one forward pass over a packed batch: context sequences (chunks of prompts) first, then
 * generation sequences, one query token each.
 *
 * Writes K and V of every query token into the sequence's blocks, then attends to all of the
 * sequence up to it. Bits of a sequence's results depend on nothing but its own tokens: not on the
 * batch, the chunking, the block size or the number of threads.
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
#include "kvcache/block_pool.h"
#include "model/model.h"

struct forward;
struct sampling_penalty; /* of these two: kernels/cuda/sampling_parameters.h */
struct sampling_result;

/* dtype of the KV cache; the values are those of kvtransfer's geometry, by name. */
enum cache_dtype { CACHE_F32, CACHE_BF16, CACHE_F16 };

/* What attention of context sequences multiplies: what the cache holds, widened to float32, or BF16 or
 * FP16 as flash attention on a GPU does (MATH_BF16, MATH_FP16 in kernels/attention.h). Generation is
 * the same with all on a host; on a GPU it multiplies so, too, where its shape allows (kernels/cuda/attention.h). */
enum context_math { CONTEXT_MATH_COMPUTE, CONTEXT_MATH_BF16, CONTEXT_MATH_FP16 };

struct forward_options {
    uint32_t block_tokens; /* a power of two, 8 .. 128 */
    enum cache_dtype cache_dtype;
    enum context_math context_math;
    uint32_t tokens_max;    /* query tokens in a batch */
    uint32_t sequences_max; /* in a batch */
    uint32_t blocks_max;    /* of one sequence */
    struct thread_pool *threads;
    struct device *device; /* where the pool's blocks are, too */
};

/* The most penalties of one row that are sent to a device; a row with more is fetched. */
#define FORWARD_PENALTIES_MAX 1024u

/* What forward_find searches in a row of logits. */
struct forward_wish {
    float temperature;
    uint32_t n_top; /* likeliest before the penalties, LOGPROBS_MAX at most */
    const struct sampling_penalty *penalties; /* [n_penalties] of different ids */
    uint32_t n_penalties;                     /* FORWARD_PENALTIES_MAX at most */
};

struct forward_sequence {
    uint64_t request_id;       /* for error messages */
    const uint32_t *token_ids; /* [n_query] */
    uint32_t n_query;
    uint32_t n_past;        /* tokens whose KV is in the blocks already */
    uint32_t prompt_len;    /* tokens of the prompt, those to come included; of a generation: any */
    const block_id *blocks; /* room for n_past + n_query tokens */
    uint32_t n_blocks;
    bool wants_logits;               /* of its last query token */
    const struct forward_wish *wish; /* of forward_find, where it wants logits; NULL: nothing */
};

/* The bytes of one block of this model, for block_pool_create. */
size_t forward_block_bytes(const struct model_config *config, uint32_t block_tokens,
                           enum cache_dtype dtype);

/* The bytes of device memory for the activations of a forward pass with these options; the buffers of attention for
 * a step are not included. */
size_t forward_activation_bytes(const struct model_config *config,
                                const struct forward_options *options);

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

/* Behind the warm-up, before attach, where the device captures: what the graphs of steps take of its memory, which are captured
 * and given up again. Captured for good they are in attach, with the pool's addresses. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_measure_graphs(struct forward *forward, struct error *error);
/* 0: none, or not measured. May include memory that another process took meanwhile. */
uint64_t forward_graph_bytes(const struct forward *forward);

/* Once, before the first run: where the sequences' blocks are. The pool's memory is the device's, and borrowed until
 * destroy. Where the device captures, the launches of steps that only generate are: nothing is computed. INVALID_ARGUMENT: its
 * blocks are not of this model. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status forward_attach(struct forward *forward, const struct block_pool *pool,
                                      struct error *error);

/* The options of forward_create. */
const struct forward_options *forward_get_options(const struct forward *forward);

uint32_t forward_vocabulary(const struct forward *forward); /* of a row of logits */

/* Whether a token has the same bits in a context and in a generation sequence. False with any math except COMPUTE, with
 * fast products, and if the rotation depends on the sequence length, which for a context is that of its prompt. */
bool forward_phases_agree(const struct forward *forward);
/* The first of these reasons, as text for a sentence; NULL: the phases agree. */
const char *forward_phases_differ_by(const struct forward *forward);

/* logits_out: [count of wants_logits][vocabulary], in the order of the sequences.
 * The first n_contexts sequences are chunks of prompts (any n_query >= 1), the others have n_query 1.
 * A chunk before its prompt's last is whole blocks.
 * A batch that breaks these or the limits is a programmer's error (logged and asserted).
 * Waits for the step's end, within device_wait's bound. DEVICE_LOST: neither logits_out nor any block of a sequence
 * may be looked at. */
MUST_CHECK enum status forward_run(struct forward *forward,
                                   const struct forward_sequence *sequences, uint32_t n_sequences,
                                   uint32_t n_contexts, float *logits_out);

/* Increases with each finished layer of a step: if two looks find the same value during a step, the step is stuck. On a
 * device with its own queue a layer counts as finished when it is enqueued; device_wait bounds the rest. Any thread. */
uint64_t forward_layers_done(const struct forward *forward);

/* Calls done(arg) after each layer, on the thread that runs the step, which continues when it returns. NULL: no calls.
 * Set it between steps. */
typedef void (*forward_layer_done)(void *arg);
void forward_on_layer(struct forward *forward, forward_layer_done done, void *arg);

/* Whether forward_find is there: the device looks at rows of logits itself, behind the product that makes them, in a launch
 * of the step or of its graph. Where it is not, the host has the rows, or gets them at no such cost. */
bool forward_finds(const struct forward *forward);

/* As forward_run, but of each wanted row with a wish found_out [count of wants_logits] has what it asks for (the 256 best,
 * sums, the top), 3 KiB where the row has megabytes; others are left undefined. */
MUST_CHECK enum status forward_find(struct forward *forward,
                                    const struct forward_sequence *sequences, uint32_t n_sequences,
                                    uint32_t n_contexts, struct sampling_result *found_out);

/* Fetches row number row [vocabulary] of the last step, which must have been one of forward_find.
 * DEVICE_LOST. */
MUST_CHECK enum status forward_fetch(struct forward *forward, uint32_t row, float *logits_out);
