/*
 * context_threads - sends the bytes of a context_group between threads of one process, one thread a rank.
 *
 * A call waits for the other ranks and copies from their memory. A rank that cannot continue ends the group, so that
 * no other rank waits for it.
 *
 * Thread: one at a time for the group of a rank; context_threads_end from any.
 */
#pragma once

#include "kernels/context_parallel.h"

struct context_threads;

/* INVALID_ARGUMENT: no ranks. NO_MEMORY. */
MUST_CHECK enum status
context_threads_create(uint32_t n_ranks, struct context_threads **threads_out, struct error *error);
/* No rank may be in a call. NULL is fine. */
void context_threads_destroy(struct context_threads *threads);

/* The group that rank, below n_ranks, passes to context_ring_create and context_gather_merge. When ranks give different
 * numbers of bytes, this call and all later ones fail with INVALID_ARGUMENT in every rank. */
struct context_group context_threads_group(struct context_threads *threads, uint32_t rank);

/* Waiting calls and all later ones return status, which must not be OK. The first given status counts. */
void context_threads_end(struct context_threads *threads, enum status status);
