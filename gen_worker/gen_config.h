/* gen_config - the configuration of a generation worker. */
#pragma once

#include "schedule/schedule.h"
#include "worker_common/worker_config.h"

enum gen_speculation { GEN_SPECULATE_OFF, GEN_SPECULATE_LOOKUP, GEN_SPECULATE_MODEL };

#define GEN_CONFIG(X)                                                                              \
    WORKER_CONFIG_ROWS(X)                                                                          \
    X(sequences_max, U32(1, 4096), "64", "requests", "most requests that decode together")         \
    X(capacity_policy, WORD(enum schedule_policy, "no-evict|max-utilization|static-batch"),        \
      "no-evict", "",                                                                              \
      "when KV blocks are assigned: no-evict reserves all that an admitted request may need; "     \
      "max-utilization assigns them one by one and pauses the youngest request when none are "     \
      "free; static-batch: as no-evict, one batch at a time")                                      \
    X(capacity_headroom_blocks, U32(0, 16777216), "16", "blocks",                                  \
      "max-utilization: blocks that must stay free when a request is admitted beside others")      \
    X(speculate, WORD(enum gen_speculation, "off|lookup|model"), "off", "",                        \
      "guess tokens of a reply, so that one pass computes several: lookup: those that followed "   \
      "the last tokens where they stood before, in the prompt or the reply; model: those of "      \
      "draft_model. Replies stay the same, bit for bit")                                           \
    X(draft_model, STRING, "", "path",                                                             \
      "a smaller model that guesses, with the same tokenizer; it is needed with speculate model "  \
      "alone")                                                                                     \
    X(draft_weights, WORD(enum weight_format, WEIGHT_FORMAT_WORDS), "auto", "",                    \
      "as weights, of draft_model: q4 makes of the model itself a draft model that is often "      \
      "right")                                                                                     \
    X(draft_memory, SIZE(1, CONFIG_NO_MAX), "256M", "bytes",                                       \
      "most memory for the K and V of draft_model; replies that find no room there are not "       \
      "guessed")                                                                                   \
    X(prefills_max, U32(1, 4096), "64", "requests", "most prompts at context workers at one time") \
    X(allow_numerics, STRING, "equal", "",                                                         \
      "workers whose KV is accepted: equal: only those that compute bit for bit as this one; "     \
      "any: all; or a list, separated by commas, of further ids that `kvferry version` shows; a "  \
      "reply may then differ from one computed locally")                                           \
    X(kv_convert, BOOL, "no", "",                                                                  \
      "accept KV of workers with another kv_block_tokens, if no layer has a window, and with "     \
      "another kv_dtype, if both are f32, bf16 or f16; a reply may then differ from one computed " \
      "locally where the types differ")                                                            \
    X(local_prefill, BOOL, "yes", "", "compute a prompt locally when its KV transfer has failed")  \
    X(local_prefill_max_tokens, U32(0, 16777216), "32", "tokens",                                  \
      "prompts with at most this many tokens that are not cached are computed locally")            \
    X(context_limit_ms, DURATION_MS(10, 3600000), "30s", "ms",                                     \
      "timeout of a context worker: in this time it must report something, and compute "           \
      "context_limit_tokens")                                                                      \
    X(context_limit_tokens, U32(1, 16777216), "512", "tokens",                                     \
      "prompt tokens that a context worker must compute in each context_limit_ms")                 \
    X(context_limit_max_ms, DURATION_MS(0, 86400000), "30m", "ms",                                 \
      "longest wait, from the start of a prefill, for a context worker that keeps reporting that " \
      "it needs longer")                                                                           \
    X(transfer_limit_ms, DURATION_MS(10, 3600000), "5s", "ms",                                     \
      "timeout for KV blocks that are ready to be fetched; transfer_limit_mib_ms is added for "    \
      "each MiB")                                                                                  \
    X(transfer_limit_mib_ms, DURATION_MS(0, 3600000), "100ms", "ms",                               \
      "time added to transfer_limit_ms for each MiB")                                              \
    X(commit_limit_ms, DURATION_MS(10, 3600000), "5s", "ms",                                       \
      "timeout of the commit that ends a KV transfer; the context worker answers it even during "  \
      "a step")                                                                                    \
    X(quiet_limit_ms, DURATION_MS(10, 3600000), "2s", "ms",                                        \
      "silence after a failed KV transfer before its connection is closed by force")               \
    X(describe_limit_ms, DURATION_MS(10, 3600000), "5s", "ms",                                     \
      "timeout for a context worker to describe its model and its KV")

CONFIG_DECLARE(gen_config, GEN_CONFIG);
