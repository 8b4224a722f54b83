/* gen_config - the configuration of a generation worker. */
#pragma once

#include "schedule/schedule.h"
#include "worker_common/worker_config.h"

#define GEN_CONFIG(X)                                                                              \
    WORKER_CONFIG_ROWS(X)                                                                          \
    X(sequences_max, U32(1, 4096), "64", "requests", "requests that decode together")              \
    X(capacity_policy, WORD(enum schedule_policy, "no-evict|max-utilization|static-batch"),        \
      "no-evict", "",                                                                              \
      "who gets blocks: no-evict keeps what every admitted request may need to its end; "          \
      "max-utilization takes them one by one and pauses the youngest when they run out; "          \
      "static-batch: no-evict, one batch at a time")                                               \
    X(capacity_headroom_blocks, U32(0, 16777216), "16", "blocks",                                  \
      "max-utilization: blocks that an admission beside others leaves free")                       \
    X(prefills_max, U32(1, 4096), "64", "requests", "prompts at context workers at one time")      \
    X(allow_numerics, STRING, "equal", "",                                                         \
      "of which numerics KV is taken: equal: of this worker's alone; any; or also of these ids, "  \
      "with commas; a prompt's tokens may then differ from those that are computed here")          \
    X(local_prefill, BOOL, "yes", "", "compute a prompt here when its hand-over has failed")       \
    X(local_prefill_max_tokens, U32(0, 16777216), "32", "tokens",                                  \
      "prompts with no more unknown tokens are never handed over")                                 \
    X(context_limit_ms, DURATION_MS(10, 3600000), "30s", "ms",                                     \
      "longest wait for a word of a context worker, or for so much of a prompt: ...")              \
    X(context_limit_tokens, U32(1, 16777216), "512", "tokens",                                     \
      "... tokens that it announces at least within context_limit_ms")                             \
    X(context_limit_max_ms, DURATION_MS(0, 86400000), "30m", "ms",                                 \
      "a context worker that goes on saying that it has to compute for longer is waited for, "     \
      "until so long after it was asked")                                                          \
    X(transfer_limit_ms, DURATION_MS(10, 3600000), "5s", "ms",                                     \
      "longest wait for announced blocks, and for each MiB of them ...")                           \
    X(transfer_limit_mib_ms, DURATION_MS(0, 3600000), "100ms", "ms", "... this much more")         \
    X(commit_limit_ms, DURATION_MS(10, 3600000), "5s", "ms",                                       \
      "longest wait for a commit, which waits for no step of the context worker")                  \
    X(quiet_limit_ms, DURATION_MS(10, 3600000), "2s", "ms",                                        \
      "silence after which the endpoint of a failed transfer is closed by force")                  \
    X(describe_limit_ms, DURATION_MS(10, 3600000), "5s", "ms",                                     \
      "longest wait for a context worker to describe itself")

CONFIG_DECLARE(gen_config, GEN_CONFIG);
