/*
 * shared_embeddings - the names that files of models with an encoder have for their one embedding.
 *
 * Encoder and decoder read one embedding. Files name it once or more times; copies must be equal, and only the first is used.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/weight_files.h"
#include "model/weights/weights.h"

/* The first name, behind the root, that the files have; if there is none, usual. */
const char *shared_embeddings_name(const struct weight_files *files, const char *root,
                                   const char *usual);

/* Reads the copies of the embedding. Nothing, if the model has no encoder. UNSUPPORTED: one differs. */
MUST_CHECK enum status shared_embeddings_check(const struct model_config *config,
                                               const struct weight_files *files,
                                               const struct tensor *embedding, struct error *error);
