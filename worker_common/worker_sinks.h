/*
 * worker_sinks - the rows sink_tokens and attention_window as a window with sinks (kvcache/sink_window.h).
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"
#include "kvcache/kv_manager.h"

/* INVALID_ARGUMENT: with sink_tokens above 0 attention_window is not one number above it. */
MUST_CHECK enum status worker_sinks_read(uint32_t sink_tokens, const char *attention_window,
                                         struct sink_window *sinks_out, struct error *error);
/* UNSUPPORTED: the manager keeps all tokens. */
MUST_CHECK enum status worker_sinks_check_manager(uint32_t sink_tokens,
                                                  enum kv_manager_choice manager,
                                                  struct error *error);
/* The windows of the model's own layers: with sinks attention_window says none. Borrowed. */
const char *worker_model_window(uint32_t sink_tokens, const char *attention_window);
