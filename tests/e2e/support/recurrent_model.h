/*
 * recurrent_model - a small Qwen3.5 with random weights and the tokenizer of the demo model, in the test's own folder (command.h): four of
 * its six layers have recurrent state.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#define RECURRENT_MODEL_TOKEN_BYTES(element_bytes) (2 * 2 * 2 * 32 * (element_bytes)) /* K and V */
#define RECURRENT_MODEL_STATE_BYTES                (4 * 4 * (3 * 256 + 4 * 32 * 32)) /* without padding */

/* In in_folder("model"). Returns that path, which the next call of in_folder does not change. */
const char *recurrent_model_make(void);
