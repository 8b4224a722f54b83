/*
 * serve_config - the configuration of `kvferry serve`: its own few rows and those it hands on.
 *
 * A row is handed to each role whose table has one of the same name and type.
 *
 * Thread: main.
 */
#pragma once

#include "worker_common/worker_config.h"

#define SERVE_CONFIG(X)                                                                            \
    CONFIG_COMMON_ROWS(X)                                                                          \
    ACCESS_LOG_CONFIG_ROW(X)                                                                       \
    TRACE_CONFIG_ROWS(X)                                                                           \
    X(n_context_workers, U32(0, 16), "1", "processes",                                             \
      "context workers; 0: all is computed locally")                                               \
    X(n_generation_workers, U32(1, 16), "1", "processes", "generation workers")                    \
    X(grpc_address, STRING, "127.0.0.1:50051", "", "port of the public API")                       \
    X(control_address, STRING, "127.0.0.1:50052", "", "the router's control port")                 \
    X(health_address, STRING, "127.0.0.1:50053", "", "the router's health port")                   \
    X(advertise_address, STRING, "", "",                                                           \
      "host under which others reach the router's ports that are no loopback's; empty: the one "   \
      "that "                                                                                      \
      "is bound, or of an interface")                                                              \
    X(quiet, BOOL, "no", "", "no line on standard output when all is ready")                       \
    X(ports_file, STRING, "", "", "file that gets the router's bound addresses, as JSON")          \
    X(parent_pid, HIDDEN(U32(0, 4194304)), "0", "", "process whose end stops this one; 0: none")   \
    X(dry_run, BOOL, "no", "",                                                                     \
      "print what each role would build and take, and whether that fits here now; then end")       \
    X(insecure, BOOL, "no", "", "allow addresses that are no loopback, without TLS")               \
    X(cluster_key, STRING, "", "path",                                                             \
      "file of the key that all processes share; empty: one is drawn for this run")                \
    X(drain_delay_ms, DURATION_MS(0, 3600000), "0", "ms",                                          \
      "how long the router still takes new requests when it is told to stop, and says not ready")  \
    X(drain_limit_ms, DURATION_MS(0, 3600000), "30s", "ms", "how long a stop waits for requests")  \
    X(served_model_name, STRING, "", "", "name that requests use; empty: the folder's")            \
    X(max_context_tokens, U32(0, 16777216), "0", "tokens",                                         \
      "prompt plus generated; 0: what the model knows")                                            \
    X(kv_block_tokens, U32(8, 128), "16", "tokens", "tokens in a KV block, a power of two")        \
    X(kv_blocks, U32(0, 16777216), "0", "blocks", "blocks of each pool; 0: as kv_memory says")     \
    X(kv_memory, SIZE(0, CONFIG_NO_MAX), "0", "bytes",                                             \
      "size of each pool; 0: what can be used, within the memory limit or, without one, a third "  \
      "of the memory that is free for all pools")                                                  \
    X(kv_room, HIDDEN(SIZE(0, CONFIG_NO_MAX)), "0", "bytes",                                       \
      "what the machine had free before the workers started; 0: what it has now")                  \
    X(kv_dtype, WORD(enum worker_kv_dtype, "auto|f32|bf16|f16"), "auto", "", "type of K and V")    \
    WEIGHTS_CONFIG_ROW(X)                                                                          \
    X(kv_digest, BOOL, "no", "", "compare a CRC32C of every block")                                \
    KV_TRANSPORT_CONFIG_ROW(X)                                                                     \
    X(ucx_net_devices, STRING, "", "", "network devices of the data port; empty: lo")              \
    X(prefix_cache, BOOL, "yes", "", "keep the blocks of finished prompts for the next ones")      \
    X(prefill_chunk_tokens, U32(8, 65536), "512", "tokens", "tokens of one prompt in a step")      \
    X(threads, U32(0, 256), "0", "threads",                                                        \
      "compute threads of each worker; 0: one a CPU, or the CPU quota rounded up")                 \
    KERNELS_CONFIG_ROWS(X)                                                                         \
    ATTENTION_MATH_CONFIG_ROW(X)                                                                   \
    DEVICE_CONFIG_ROWS(X)                                                                          \
    X(pin, BOOL, "no", "", "bind each compute thread to a CPU")                                    \
    X(sequences_max, U32(1, 4096), "64", "requests", "requests that decode together")              \
    X(prompts_max, U32(1, 4096), "64", "prompts",                                                  \
      "of each context worker, prompts computing or waiting to be read")                           \
    X(local_prefill, BOOL, "yes", "", "compute a prompt locally when its hand-over has failed")    \
    X(local_prefill_max_tokens, U32(0, 16777216), "32", "tokens",                                  \
      "prompts with no more unknown tokens are never handed over")                                 \
    RELAY_CONFIG_ROWS(X)                                                                           \
    X(priority_max, U32(0, 100), "0", "",                                                          \
      "highest priority that clients may ask for where there is no tokens_file, and then for "     \
      "anybody's requests; with one its rows say")                                                 \
    X(tokens_file, STRING, "", "",                                                                 \
      "who may call, with which quotas (docs/tenants.md); empty: everybody may")                   \
    X(salt_key_file, STRING, "", "",                                                               \
      "secret of 32 bytes or more that keeps tenants' cached prefixes apart; empty: drawn")        \
    X(core_dumps, BOOL, "no", "",                                                                  \
      "write core files in crashes, and let debuggers in: they hold prompts and keys")             \
    X(seccomp, WORD(enum process_seccomp, "off|on"), "off", "",                                    \
      "on: once they serve, a system call that no role needs ends a process")                      \
    TLS_CONFIG_ROWS(X)                                                                             \
    KV_NETWORK_CONFIG_ROW(X)                                                                       \
    DATA_PORT_CONFIG_ROWS(X)

CONFIG_DECLARE(serve_config, SERVE_CONFIG);

#define SERVE_VALUE_MAX 4096

/* Rows that mean something else in a role's table. */
bool serve_row_is_own(const char *key);
/* The value as a flag takes it. */
void serve_row_format(const struct config_row *row, const struct serve_config *values,
                      char value_out[SERVE_VALUE_MAX]);
