/*
 * attention_windows - the windows of layers, where a user says them instead of the model's files.
 *
 * A list is repeated over the layers: "512,512,0" gives two of three layers a window of 512 tokens, and every third none.
 * A layer with another window than it was trained with computes something else: that is refused unless it is forced.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"

#include <stdbool.h>

#define ATTENTION_WINDOW_MAX (1u << 30)

/* text: "" changes nothing; else numbers of tokens, with commas between them; 0: the layer sees all. INVALID_ARGUMENT, with a
 * sentence: no number, more numbers than layers, a window that a layer was not trained with and is not forced. */
MUST_CHECK enum status attention_windows_set(const char *text, bool is_forced,
                                             struct model_config *config, struct error *error);
