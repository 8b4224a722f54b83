/*
 * router_rig - a router core with workers g0 .. and c0 .., whose calls the test ends by hand.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include "base/clock.h"
#include "router/placement/router_core.h"

enum { BLOCK_TOKENS = 8, STREAMS_MAX = 8, PROMPT_TOKENS_MAX = 256 };

#define WAIT_LIMIT_NS (5 * NS_PER_MS)

struct stream {
    uint32_t n_starts, n_refused, n_tokens, n_finishes;
    uint64_t attempt;
    char generation_worker[8], context_worker[8];
    enum status status;
    char sentence[96];
    uint64_t deadline_ns; /* asked for; 0: none */
    struct standing standing;
};

struct router_rig {
    struct router_core *core;
    uint32_t n_cancels;
    uint32_t gen[3], ctx[3]; /* names */
};

extern const struct worker_report READY, DOWN;

/* The rig's ops; their arg is NULL, or a rig that counts cancels. */
extern const struct router_core_ops ROUTER_RIG_OPS;

/* Nobody is there yet. */
struct router_core_options router_rig_options(bool local_prefill, uint32_t wait_max);
struct router_rig router_rig_create(const struct router_core_options *options);
/* A worker that is ready. */
uint32_t router_rig_join(struct router_rig *rig, enum worker_role role, const char *address);

struct router_rig router_rig_open(uint32_t n_gen, uint32_t n_ctx, bool local_prefill);
/* wait_max of 0: nothing waits, as above. */
struct router_rig router_rig_open_waiting(uint32_t n_gen, uint32_t n_ctx, bool local_prefill,
                                          uint32_t wait_max);
enum status router_rig_ask(struct router_rig *rig, struct stream *stream, const uint32_t *tokens,
                           uint32_t n_tokens);
void router_rig_end(struct router_rig *rig, struct stream *stream, enum status status);
uint32_t router_rig_n_waiting(const struct router_rig *rig);
