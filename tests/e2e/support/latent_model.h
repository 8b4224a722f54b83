/*
 * latent_model - a small DeepSeek V3 with random weights and the tokenizer of the demo model, in the test's own folder (command.h).
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#define LATENT_MODEL_ROW_BYTES(element_bytes) (3 * (48 + 16) * (element_bytes)) /* of a token */

/* In in_folder("model"). Returns that path, which the next call of in_folder does not change. */
const char *latent_model_make(void);
