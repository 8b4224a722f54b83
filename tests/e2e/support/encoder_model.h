/*
 * encoder_model - a small T5 with random weights and the tokenizer of the demo model, in the test's own folder (command.h).
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#define ENCODER_MODEL_TOKEN_BYTES(element_bytes) (3 * 2 * 4 * 16 * (element_bytes)) /* of either */

/* In in_folder("model"). Returns that path, which the next call of in_folder does not change. */
const char *encoder_model_make(void);
