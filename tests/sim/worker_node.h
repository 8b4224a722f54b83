/*
 * worker_node - the life of a simulated worker process, whatever its role. ctx_node and gen_node put
 * the engines' ops on the wire.
 */
#pragma once

#include "tests/sim/cluster.h"

void worker_node_start(struct worker_node *worker);
void worker_node_kill(struct worker_node *worker);
void worker_node_freeze(struct worker_node *worker, uint64_t until_ns);
void worker_node_drain(struct worker_node *worker);
/* Steps the engine if it is time. */
void worker_node_run(struct worker_node *worker);
/* Layers of the step under way that were done since the last call take their time; on its thread. */
void worker_node_pass_layers(struct worker_node *worker);
uint64_t worker_node_next_ns(const struct worker_node *worker);
/* Runs the transfer thread's part until nothing more happens. Returns the work done. */
unsigned worker_node_progress(struct worker_node *worker);
bool worker_node_is_quiet(struct worker_node *worker);
void worker_node_report(struct worker_node *worker);

struct geometry worker_node_geometry(const struct cluster *cluster, bool is_ctx);
/* Of a chunk or a step for which the plan has wanted tokens: with an encoder a whole line more, as in a worker. */
uint32_t worker_node_step_tokens(const struct plan *plan, uint32_t wanted);
/* A pool of a generation worker has the blocks of so many beams of n_tokens, which have a prompt in common. */
bool worker_node_fits(const struct cluster *cluster, uint32_t n_beams, uint32_t n_prompt,
                      uint32_t n_tokens);
/* Its workers have contiguous KV managers. */
bool worker_node_is_contiguous(const struct plan *plan);
uint32_t worker_node_find(const struct cluster *cluster, const char *address);
const char *worker_node_address(const struct cluster *cluster, uint32_t node);

/* Of the roles. */
extern const struct ctx_engine_ops CTX_NODE_OPS; /* without arg */
extern const struct gen_engine_ops GEN_NODE_OPS;
/* A call has been opened to that worker: it begins to listen. */
void ctx_node_accept(struct worker_node *worker, struct wire_call *call);
void gen_node_accept(struct worker_node *worker, struct wire_call *call);
