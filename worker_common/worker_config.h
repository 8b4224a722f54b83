/*
 * worker_config - the rows that both workers have, and how they reach worker_options.h.
 *
 * A worker puts WORKER_CONFIG_ROWS(X) first in its own table and hands WORKER_OPTIONS(config) on.
 */
#pragma once

#include "kvtransfer/driver.h"
#include "model/forward.h"
#include "process/process_config.h"

/* auto: that of the weights. */
enum worker_kv_dtype { WORKER_KV_AUTO, WORKER_KV_F32, WORKER_KV_BF16, WORKER_KV_F16 };

/* Metrics under others' names, beside the own. */
enum worker_metrics_compat { WORKER_COMPAT_NONE, WORKER_COMPAT_VLLM };

/* Products of a GPU: by kernels of this program, or by cuBLASLt. */
enum worker_device_math { WORKER_MATH_EXACT, WORKER_MATH_FAST };

enum worker_kv_network { WORKER_NETWORK_UNTRUSTED, WORKER_NETWORK_TRUSTED };

#define KV_TRANSPORT_CONFIG_ROW(X)                                                                 \
    X(kv_transport, WORD(enum kv_driver, KV_DRIVER_WORDS), "auto", "",                             \
      "how KV blocks cross; shm-read, unix, cuda-ipc (GPU to GPU): one host, one user; auto: "     \
      "am-tcp on a loopback or a "                                                                 \
      "trusted network, else tls")

#define KV_NETWORK_CONFIG_ROW(X)                                                                   \
    X(kv_network, WORD(enum worker_kv_network, "untrusted|trusted"), "untrusted", "",              \
      "trusted: nobody else is on the network between workers, KV may cross it in clear")

/* Their metrics: kvferry_data_port_refused_total, reasons unproven_limit and proof_time. */
#define DATA_PORT_CONFIG_ROWS(X)                                                                   \
    X(kv_unproven_max, U32(1, 4096), "64", "connections",                                          \
      "connections of the data port, unix or tls, that have not proved who they are; the oldest "  \
      "goes for a new one")                                                                        \
    X(kv_proof_ms, DURATION_MS(100, 3600000), "2s", "ms",                                          \
      "time that each has to do so; also for a connection to another worker's to open")

#define METRICS_COMPAT_CONFIG_ROW(X)                                                               \
    X(metrics_compat, WORD(enum worker_metrics_compat, "none|vllm"), "none", "",                   \
      "vllm: the metrics that inference gateways schedule by, under vLLM's names, too")

#define KERNELS_CONFIG_ROWS(X)                                                                     \
    X(cpu_kernels, STRING, "", "name",                                                             \
      "set of instructions that computes, `kvferry version` lists them; empty: KVFERRY_CPU, else " \
      "the fastest")                                                                               \
    X(attention_kernels, STRING, "", "name",                                                       \
      "the same for attention; empty: KVFERRY_ATTENTION, else that of cpu_kernels")

#define ATTENTION_MATH_CONFIG_ROW(X)                                                               \
    X(attention_math, WORD(enum context_math, "compute|bf16|fp16"), "compute", "",                 \
      "bf16, fp16: what attention multiplies is rounded to it, of prompts and on a GPU of what "   \
      "is generated, too; workers that are paired have the same, or allow_numerics says so")

#define DEVICE_CONFIG_ROWS(X)                                                                      \
    X(device, STRING, "cpu", "cpu|cuda:N|auto",                                                    \
      "what computes, and holds weights and KV; auto: a GPU if there is one, else cpu")            \
    X(device_memory, SIZE(0, CONFIG_NO_MAX), "0", "bytes",                                         \
      "most that a worker allocates of a GPU's memory, weights and KV included; the driver's "     \
      "context, kernels' code and what cuBLASLt keeps come on top; 0: nine tenths of it, divided " \
      "by serve's workers")                                                                        \
    X(device_math, WORD(enum worker_device_math, "exact|fast"), "exact", "",                       \
      "fast: products of a GPU with 16-bit weights by NVIDIA's cuBLASLt; a token's bits may then " \
      "depend on what is computed beside it")

#define WORKER_CONFIG_ROWS(X)                                                                      \
    PROCESS_CONFIG_ROWS(X)                                                                         \
    X(served_model_name, STRING, "", "", "name that requests use; empty: the folder's")            \
    X(max_context_tokens, U32(0, 16777216), "0", "tokens",                                         \
      "prompt plus generated; 0: what the model knows")                                            \
    X(kv_block_tokens, U32(8, 128), "16", "tokens", "tokens in a KV block, a power of two")        \
    X(kv_blocks, U32(0, 16777216), "0", "blocks", "blocks of the pool; 0: as kv_memory says")      \
    X(kv_memory, SIZE(0, CONFIG_NO_MAX), "0", "bytes",                                             \
      "size of the pool; 0, auto: what the batch can use (sequences_max or prompts_max contexts, " \
      "cached prefixes among them), at most a share of the cgroup's memory limit or, where there " \
      "is none, a third of the memory that is free, and of it as many parts as serve has workers") \
    X(kv_sharers, HIDDEN(U32(1, 64)), "1", "workers", "workers under that limit")                  \
    X(kv_room, HIDDEN(SIZE(0, CONFIG_NO_MAX)), "0", "bytes",                                       \
      "what the machine had free before they started; 0: what it has now")                         \
    X(kv_dtype, WORD(enum worker_kv_dtype, "auto|f32|bf16|f16"), "auto", "",                       \
      "type of K and V; auto: that of the weights")                                                \
    WEIGHTS_CONFIG_ROW(X)                                                                          \
    X(prefix_cache, BOOL, "yes", "", "keep the blocks of finished prompts for the next ones")      \
    X(prefill_chunk_tokens, U32(8, 65536), "512", "tokens",                                        \
      "tokens of one prompt in a step at most, a multiple of kv_block_tokens")                     \
    X(prefill_step_ms, DURATION_MS(0, 3600000), "300ms", "ms",                                     \
      "time that a step with prompts should take: it has as many of their tokens as this machine " \
      "was measured to compute in it, one block at least, and where a step costs most of that "    \
      "before its first token, as many as cost as much again; 0: always as many as the rows "      \
      "beside this one say")                                                                       \
    X(prefill_batch_tokens, U32(8, 65536), "1024", "tokens", "tokens of all prompts in a step")    \
    X(queue_max, U32(1, 65536), "512", "requests", "requests that wait for a place")               \
    X(queue_limit_ms, DURATION_MS(0, 3600000), "30s", "ms", "longest wait for a place")            \
    X(priority_aging_ms, U32(0, 3600000), "1000", "ms",                                            \
      "waiting that makes up for one of priority, among requests of a tenant; 0: by arrival "      \
      "alone")                                                                                     \
    X(threads, U32(0, 256), "0", "threads",                                                        \
      "compute threads; 0: one a CPU, or the CPU quota rounded up")                                \
    KERNELS_CONFIG_ROWS(X)                                                                         \
    ATTENTION_MATH_CONFIG_ROW(X)                                                                   \
    DEVICE_CONFIG_ROWS(X)                                                                          \
    X(pin, BOOL, "no", "", "bind each compute thread to a CPU")                                    \
    KV_TRANSPORT_CONFIG_ROW(X)                                                                     \
    X(kv_digest, BOOL, "no", "", "send a CRC32C of every block, and insist on it when receiving")  \
    X(ucx_net_devices, STRING, "", "",                                                             \
      "network devices of the data port; empty: lo if control_address is a loopback, else all")    \
    X(ucx_port_range, STRING, "", "", "ports that the data port may have, \"20000-20009\"")        \
    X(peers_max, U32(1, 4096), "64", "workers", "workers of the other role at one time")           \
    X(pieces_max, U32(1, 4096), "64", "pieces", "pieces of KV under way, of one peer")             \
    KV_NETWORK_CONFIG_ROW(X)                                                                       \
    METRICS_COMPAT_CONFIG_ROW(X)                                                                   \
    DATA_PORT_CONFIG_ROWS(X)

#define WORKER_ALIASES(X)                                                                          \
    X("max-model-len", max_context_tokens)                                                         \
    X("block-size", kv_block_tokens)

/* The members of struct worker_options that come from these rows. */
#define WORKER_OPTIONS(config)                                                                     \
    .served_model_name = (config)->served_model_name,                                              \
    .max_context_tokens = (config)->max_context_tokens,                                            \
    .kv_block_tokens = (config)->kv_block_tokens, .kv_blocks = (config)->kv_blocks,                \
    .kv_memory = (config)->kv_memory, .kv_sharers = (config)->kv_sharers,                          \
    .kv_room = (config)->kv_room, .kv_dtype = (config)->kv_dtype, .weights = (config)->weights,    \
    .prefill_chunk_tokens = (config)->prefill_chunk_tokens,                                        \
    .prefill_batch_tokens = (config)->prefill_batch_tokens, .threads = (config)->threads,          \
    .cpu_kernels = (config)->cpu_kernels, .attention_kernels = (config)->attention_kernels,        \
    .context_math = (config)->attention_math, .device = (config)->device,                          \
    .device_memory = (config)->device_memory, .device_math = (config)->device_math,                \
    .pin = (config)->pin, .kv_transport = (config)->kv_transport,                                  \
    .kv_network = (config)->kv_network, .ucx_net_devices = (config)->ucx_net_devices,              \
    .ucx_port_range = (config)->ucx_port_range, .peers_max = (config)->peers_max,                  \
    .pieces_max = (config)->pieces_max, .kv_unproven_max = (config)->kv_unproven_max,              \
    .kv_proof_ms = (config)->kv_proof_ms
