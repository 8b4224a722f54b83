/*
 * context_parallel - computes attention of one long sequence whose keys are split over ranks (A31).
 *
 * Every rank computes its part with an attention back end and KEYS_SHARD. Partial outputs are merged by their
 * log-sum-exp, which is exact up to rounding:
 *
 *     ring     prompts: a rank holds some queries and their keys; the keys go once round the ring,
 *              and every rank attends to those that its queries see (Liu et al. 2023, Ring Attention)
 *     gather   decode: every rank has the same queries and attends its own keys; all partials are
 *              gathered and merged in the order of ranks, so every rank gets the same bits
 *
 * The caller passes in how bytes are sent: between threads of one process (context_threads.h), by UCX, by NCCL.
 *
 * Thread: one at a time for a ring. Ranks may be threads of one process, each with its own ring.
 */
#pragma once

#include "kernels/attention.h"

/* The ranks, and the functions that send bytes between them. Every rank makes the same calls in the same order with the same
 * number of bytes. A status that is not OK ends the call that needed it. */
struct context_group {
    uint32_t rank, n_ranks;
    void *arg;
    /* Sends send to rank + 1 and receives what rank - 1 sent. send and receive do not overlap. */
    enum status (*shift)(void *arg, const void *send, void *receive, size_t bytes);
    /* receive: [n_ranks][bytes], in the order of ranks. */
    enum status (*gather)(void *arg, const void *send, void *receive, size_t bytes);
};

/* Rows of partial attention. The weight of a row is exp(lse). */
struct context_partial {
    uint32_t n_rows, n_heads, head_dim;
    float *output; /* [n_rows][n_heads head_dim] */
    uint64_t output_stride;
    float *lse; /* [n_rows][n_heads] natural; -inf: the row saw no key */
};

/* Merges next into total; both have the same rows. Rows of next that saw no key change nothing. */
void context_merge(const struct context_partial *next, struct context_partial *total);

/* Adds the sink logit of each head (A25) to the denominator, once, after all partials. */
void context_add_sinks(const float *sinks, struct context_partial *total);

/* The floats of the workspace of context_gather_merge. */
size_t context_gather_floats(const struct context_group *group,
                             const struct context_partial *partial);
/* partial holds the result of this rank and becomes that of all ranks. It has the same shape on every rank. */
MUST_CHECK enum status context_gather_merge(const struct context_group *group, float *workspace,
                                            struct context_partial *partial);

struct context_ring;

/* limits: KEYS_SHARD; n_tokens_max and n_kv_tokens_max are the bounds of one rank, kv_len_max is the number of slots of
 * its shard, cache is the dtype of the shards.
 * INVALID_ARGUMENT: no KEYS_SHARD, or a mask that counts from a rank's first query. NO_MEMORY. */
MUST_CHECK enum status context_ring_create(const struct attention_backend *backend,
                                           const struct attention_limits *limits,
                                           const struct context_group *group,
                                           struct thread_pool *pool, struct context_ring **ring_out,
                                           struct error *error);
void context_ring_destroy(struct context_ring *ring); /* NULL is fine */

/* Creates a layer for the ring, as backend->create does.
 * INVALID_ARGUMENT also: input and output are not F32, sinks are set, or keys or mask differ from the limits. */
MUST_CHECK enum status context_ring_create_layer(const struct context_ring *ring,
                                                 const struct attention_config *config,
                                                 struct thread_pool *pool,
                                                 struct attention **attention_out,
                                                 struct error *error);

/* Prepares a prompt of lens[0] + lens[1] + ... tokens: rank r has lens[r] tokens, after those of the ranks before.
 * shards: those of this rank, one contiguous block without gaps (kv_view_contiguous, with a layer
 * stride): K and V of a layer are sent as one piece.
 * INVALID_ARGUMENT: a shard that is too small or has gaps. */
MUST_CHECK enum status context_ring_prepare(struct context_ring *ring, const uint32_t *lens,
                                            const struct kv_view *shards, struct error *error);

/* Writes this rank's K and V to its shard, and attends to all keys of the prompt. attention: made by
 * context_ring_create_layer for this layer_index. io: the rows of this rank. sinks: [n_heads], NULL: none.
 * Errors of attention_backend.forward, and statuses of the group, which write no sentence. */
MUST_CHECK enum status context_ring_forward(struct context_ring *ring,
                                            const struct attention *attention, uint32_t layer_index,
                                            const float *sinks, const struct attention_io *io,
                                            struct error *error);
