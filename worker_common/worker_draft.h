/*
 * worker_draft - the draft model of a worker (worker_common/drafter.h).
 *
 * It must have the tokenizer of the worker's model: the same tokens, each with the same id and bytes. Their vocabularies may differ in what is behind
 * those (padding).
 *
 * Thread: main.
 */
#pragma once

#include "worker_common/worker_object.h"

/* Without draft_model nothing. Before the pool is planned: what it takes is measured then. Error sentences name draft_model.
 * UNSUPPORTED: the device is no CPU, the model cannot draft, or a tokenizer is missing; INVALID_ARGUMENT: the tokenizers differ, the memory is too
 * small; and what model_load says. */
MUST_CHECK enum status worker_draft_load(struct worker *worker,
                                         const struct worker_options *options, struct error *error);
/* Refuses the same from names and shapes, and computes what it takes: draft_bytes, draft_mapped_bytes. Its model has no weights. */
MUST_CHECK enum status worker_draft_check(struct worker *worker,
                                          const struct worker_options *options,
                                          struct error *error);
void worker_draft_unload(struct worker *worker); /* before the device closes */
