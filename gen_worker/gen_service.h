/*
 * gen_service - the gRPC service GenerationWorker in front of the engine.
 *
 * The engine's handle of a Decode is a worker_stream.
 *
 * Thread: handlers on the queue thread; the engine's ops on the engine thread.
 */
#pragma once

#include "gen_worker/gen_engine.h"
#include "gen_worker/gen_metrics.h"
#include "process/admin_service.h"
#include "sampling_params/sampling_codec.h"

struct adapter_set;

struct gen_service {
    struct process *process;
    struct gen_engine *engine; /* set before process_serving, as the next two */
    uint32_t vocabulary;
    struct adapter_set *adapters; /* NULL: there are none */
    const char *transport; /* its driver's name, and whether blocks are staged, for the timing */
    struct gen_metrics metrics;
    struct prompt_scores_message scores; /* of the engine's thread */
};

/* The row of a server's table. */
struct rpc_service gen_service_row(struct gen_service *service);

/* The engine's ops: stream is the handle that gen_engine_generate was given. */
enum status gen_service_tokens(struct gen_service *service, void *handle,
                               const struct gen_tokens *tokens);
enum status gen_service_scores(struct gen_service *service, void *handle,
                               const struct prompt_scores *scores);
void gen_service_progress(void *handle, uint32_t n_done, uint32_t n_prompt);
void gen_service_finish(struct gen_service *service, void *handle, const struct gen_finish *finish);
