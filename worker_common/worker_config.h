/*
 * worker_config - the configuration rows of both workers, and how they become worker options.
 *
 * A worker puts WORKER_CONFIG_ROWS(X) first in its table and passes WORKER_OPTIONS(config) on.
 */
#pragma once

#include "kvcache/kv_manager.h"
#include "kvtransfer/driver.h"
#include "model/forward/forward.h"
#include "process/process_config.h"
#include "text/constraint/constraint_config.h"

/* auto: the dtype of the weights. */
enum worker_kv_dtype {
    WORKER_KV_AUTO,
    WORKER_KV_F32,
    WORKER_KV_BF16,
    WORKER_KV_F16,
    WORKER_KV_INT8,
    WORKER_KV_E4M3
};

/* Additional metrics under the names of other servers. */
enum worker_metrics_compat { WORKER_COMPAT_NONE, WORKER_COMPAT_VLLM };

/* Matrix products on a GPU: with kernels of this program, or with cuBLASLt. */
enum worker_device_math { WORKER_MATH_EXACT, WORKER_MATH_FAST };

/* Whether compute threads and memory are placed on cores and memory nodes. */
enum worker_cpu_placement { WORKER_PLACEMENT_AUTO, WORKER_PLACEMENT_OFF };

enum worker_kv_network { WORKER_NETWORK_UNTRUSTED, WORKER_NETWORK_TRUSTED };

#define KV_TRANSPORT_CONFIG_ROW(X)                                                                 \
    X(kv_transport, WORD(enum kv_driver, KV_DRIVER_WORDS), "auto", "",                             \
      "how KV blocks are transferred; shm-read, unix, cuda-ipc (GPU to GPU): only between "        \
      "processes of one user on one host; auto: am-tcp on a loopback or a trusted network, else "  \
      "tls")

#define KV_NETWORK_CONFIG_ROW(X)                                                                   \
    X(kv_network, WORD(enum worker_kv_network, "untrusted|trusted"), "untrusted", "",              \
      "trusted: only trusted hosts are on the network between workers, and KV may be sent "        \
      "unencrypted")

/* Their metrics: kvferry_data_port_refused_total, reasons unproven_limit and proof_time. */
#define DATA_PORT_CONFIG_ROWS(X)                                                                   \
    X(kv_unproven_max, U32(1, 4096), "64", "connections",                                          \
      "most connections to the data port (transports unix and tls) that are not authenticated "    \
      "yet; a new connection replaces the oldest")                                                 \
    X(kv_proof_ms, DURATION_MS(100, 3600000), "2s", "ms",                                          \
      "longest time for such a connection to authenticate; also the timeout to connect to "        \
      "another worker")

#define METRICS_COMPAT_CONFIG_ROW(X)                                                               \
    X(metrics_compat, WORD(enum worker_metrics_compat, "none|vllm"), "none", "",                   \
      "vllm: also show the metrics that inference gateways use for scheduling, under the names "   \
      "of vLLM")

#define KERNELS_CONFIG_ROWS(X)                                                                     \
    X(cpu_kernels, STRING, "", "name",                                                             \
      "CPU instruction set of the kernels (`kvferry version` lists them); empty: KVFERRY_CPU, "    \
      "else the fastest, by a measurement at start where several compute the same bits")           \
    X(attention_kernels, STRING, "", "name",                                                       \
      "the same for attention; empty: KVFERRY_ATTENTION, else as cpu_kernels")

#define KV_DTYPE_CONFIG_ROWS(X)                                                                    \
    X(kv_dtype, WORD(enum worker_kv_dtype, "auto|f32|bf16|f16|int8|e4m3"), "auto", "",             \
      "data type of K and V; auto: that of the weights; int8, e4m3: 8 bits, in units of a scale "  \
      "a layer: half the memory and half the bytes of a KV transfer of 16 bits, a little less "    \
      "exact")                                                                                     \
    X(kv_scales, STRING, "", "path",                                                               \
      "file with the scales of int8 and e4m3, as `kvferry calibrate` writes it; empty: "           \
      "kv_scales.safetensors beside the model, else those of the checkpoint; without any, e4m3 "   \
      "takes 1 and int8 is refused")

#define CONTEXT_TOKENS_CONFIG_ROW(X)                                                               \
    X(max_context_tokens, U32(0, 16777216), "0", "tokens",                                         \
      "most tokens of prompt and reply together; 0: the model's limit")

#define KV_BLOCK_TOKENS_CONFIG_ROW(X)                                                              \
    X(kv_block_tokens, U32(8, 128), "16", "tokens", "tokens in a KV block, a power of two")

#define ATTENTION_MATH_CONFIG_ROW(X)                                                               \
    X(attention_math, WORD(enum context_math, CONTEXT_MATH_WORDS), "compute", "",                  \
      "bf16, fp16: attention rounds what it multiplies to this type, for prompts and, on a GPU, "  \
      "also for generated tokens; fp8 (E4M3, in units of 1 or of the scales of kv_dtype), int8 "   \
      "(SageAttention) and int8-pv-fp8 (with V in E4M3) round prompts more and are slower: for "   \
      "comparisons; both int8 need kv_block_tokens 64 or 128 and a model without windows; "        \
      "workers that work together need the same value, or allow_numerics must allow the "          \
      "difference")

#define ATTENTION_SWITCH_CONFIG_ROWS(X)                                                            \
    X(attention_path, WORD(enum attention_path, "auto|unfused|short|flash"), "auto", "",           \
      "attention of prompts: flash adds up while it reads K and V (auto: the same); unfused and "  \
      "short store the scores of a row first, short for contexts of up to 1024 tokens: for "       \
      "comparisons; workers that work together need the same value, or allow_numerics must allow " \
      "the difference")                                                                            \
    X(multi_block, WORD(enum attention_choice, "auto|on|off"), "auto", "",                         \
      "whether several threads, or parts of a GPU, share the K and V of one generated token; "     \
      "auto: where there are few of them; the tokens are the same")                                \
    X(grouped_query, WORD(enum attention_choice, "auto|on|off"), "auto", "",                       \
      "whether heads that have K and V in common read them together (XQA); off is for "            \
      "comparisons, and the tokens are the same")

#define ATTENTION_WINDOW_CONFIG_ROWS(X)                                                            \
    X(attention_window, STRING, "", "tokens,...",                                                  \
      "windows of the layers instead of those in config.json: a number, or a list that is "        \
      "repeated over the layers; a token sees so many tokens, itself among them; 0: all; K and V " \
      "of layers with a window are kept for the window alone")                                     \
    X(force_window, BOOL, "no", "",                                                                \
      "allow an attention_window that the model was not made with: it computes something else "    \
      "then")                                                                                      \
    X(sink_tokens, U32(0, 1048576), "0", "tokens",                                                 \
      "replies without end (StreamingLLM): a token of a reply sees so many first tokens and the "  \
      "last ones, attention_window in all; a prompt sees all its tokens, and replies may be "      \
      "longer than the context; 0: off")

#define ATTENTION_SWITCHES(config)                                                                 \
    {                                                                                              \
        (config)->attention_path, (config)->multi_block, (config)->grouped_query                   \
    }

#define BLOCK_ACTIVATIONS_CONFIG_ROW(X)                                                            \
    X(block_activations, WORD(enum block_activations, "int16|int8"), "int16", "",                  \
      "what weights in blocks multiply (GGUF files, AWQ, GPTQ, q8, q4) is rounded to this, a "     \
      "scale for each 32 activations; int8: prompts and batches are faster, tokens differ more "   \
      "often from those of exact activations; workers that work together need the same value, or " \
      "allow_numerics must allow the difference")

#define DEVICE_CONFIG_ROWS(X)                                                                      \
    X(device, STRING, "cpu", "cpu|cuda:N|auto",                                                    \
      "device that computes and holds weights and KV; auto: a GPU if there is one, else cpu")      \
    X(device_memory, SIZE(0, CONFIG_NO_MAX), "0", "bytes",                                         \
      "most GPU memory that a worker allocates, including weights and KV; the driver's context, "  \
      "the kernels' code and cuBLASLt need more; 0: nine tenths of the GPU's memory, divided "     \
      "among the workers of `kvferry serve`")                                                      \
    X(device_math, WORD(enum worker_device_math, "exact|fast"), "exact", "",                       \
      "fast: a GPU multiplies 16-bit weights with cuBLASLt of NVIDIA; the result for a token may " \
      "then depend on the rest of the batch")

#define ADAPTER_CONFIG_ROWS(X)                                                                     \
    X(adapter, LIST, "", "name=folder",                                                            \
      "LoRA adapter, as PEFT saves it; requests name it in place of the model; may be repeated; "  \
      "context and generation workers need the same ones")                                         \
    X(adapter_rank_max, U32(0, 1024), "0", "",                                                     \
      "largest rank of an adapter, which memory of a step is for; 0: that of the adapters given, " \
      "with adapter_folder at least 64")                                                           \
    X(adapter_folder, STRING, "", "path",                                                          \
      "folder in which `kvferry adapter` may name a folder with an adapter, to be loaded while "   \
      "requests run; empty: no adapter is loaded after the start")                                 \
    X(adapter_memory, SIZE(1, CONFIG_NO_MAX), "1G", "bytes",                                       \
      "most memory of adapters, with those that were unloaded and that requests still have; with " \
      "adapter_folder it is kept aside when the number of KV blocks is chosen")

#define WORKER_CONFIG_ROWS(X)                                                                      \
    PROCESS_CONFIG_ROWS(X)                                                                         \
    X(served_model_name, STRING, "", "", "model name in requests; empty: the folder's name")       \
    CONTEXT_TOKENS_CONFIG_ROW(X)                                                                   \
    KV_BLOCK_TOKENS_CONFIG_ROW(X)                                                                  \
    X(kv_blocks, U32(0, 16777216), "0", "blocks",                                                  \
      "number of KV blocks; 0: as many as kv_memory holds")                                        \
    X(kv_memory, SIZE(0, CONFIG_NO_MAX), "0", "bytes",                                             \
      "memory for KV blocks; 0, auto: what a full batch can use (sequences_max or prompts_max "    \
      "whole contexts, including cached prefixes), but at most a share of the cgroup's memory "    \
      "limit or, without a limit, a third of the free memory; `kvferry serve` divides this among " \
      "its workers")                                                                               \
    X(kv_sharers, HIDDEN(U32(1, 64)), "1", "workers", "workers under that limit")                  \
    X(kv_room, HIDDEN(SIZE(0, CONFIG_NO_MAX)), "0", "bytes",                                       \
      "what the machine had free before they started; 0: what it has now")                         \
    KV_DTYPE_CONFIG_ROWS(X)                                                                        \
    WEIGHTS_CONFIG_ROW(X)                                                                          \
    ADAPTER_CONFIG_ROWS(X)                                                                         \
    X(kv_manager, WORD(enum kv_manager_choice, KV_MANAGER_WORDS), "paged", "",                     \
      "paged: a request takes blocks when its tokens need them, and finds those of earlier ones; " \
      "contiguous: it takes those of the longest context at once, side by side, and finds none: "  \
      "for comparisons")                                                                           \
    X(prefix_cache, BOOL, "yes", "",                                                               \
      "keep the KV blocks of finished prompts, to reuse them for later prompts with the same "     \
      "prefix")                                                                                    \
    X(snapshot_tokens, U32(1, 1048576), "1024", "tokens",                                          \
      "of models whose layers have recurrent state: tokens between the snapshots of it in the "    \
      "prefix cache; where prompts end or part, an eighth of these are enough; a prompt is "       \
      "computed from the last snapshot of its prefix on")                                          \
    X(kv_host_memory, SIZE(0, CONFIG_NO_MAX), "0", "bytes",                                        \
      "memory of the host for KV blocks that leave the prefix cache, in front of kv_disk; 0: "     \
      "none; `kvferry serve` divides this among its workers")                                      \
    X(kv_disk, STRING, "", "path",                                                                 \
      "folder for KV blocks that leave the prefix cache (the worker makes its own in it); they "   \
      "are read for later prompts, also after a restart; empty: none; K and V tell much of "       \
      "prompts, and are not encrypted")                                                            \
    X(kv_disk_size, SIZE(0, CONFIG_NO_MAX), "0", "bytes",                                          \
      "most bytes of files in kv_disk; what was used longest ago is deleted first; `kvferry "      \
      "serve` divides this among its workers")                                                     \
    X(kv_disk_part, HIDDEN(STRING), "", "name", "folder in kv_disk, among several workers")        \
    X(kv_restore_ms, DURATION_MS(0, 3600000), "2s", "ms",                                          \
      "longest time that a request waits for KV blocks of its prompt from kv_host_memory and "     \
      "kv_disk; what has not come then is computed; 0: all of it")                                 \
    X(kv_scrub, BOOL, "no", "",                                                                    \
      "zero the memory of a KV block when it becomes free, so that K and V of a finished request " \
      "are in no dump of the memory; blocks of cached prefixes stay until they are evicted; on "   \
      "CPUs")                                                                                      \
    X(kv_events_max, U32(0, 16777216), "65536", "events",                                          \
      "last changes of the prefix cache that are kept for those who watch it "                     \
      "(docs/kv-events.md), "                                                                      \
      "rounded up to a power of two; a watcher that is further behind gets a new snapshot; 0: "    \
      "the cache cannot be watched")                                                               \
    X(kv_event_streams_max, U32(1, 256), "16", "streams",                                          \
      "most streams of events at one time; a caller has at most a quarter of them, at least one")  \
    X(prefill_chunk_tokens, U32(8, 65536), "512", "tokens",                                        \
      "most tokens of one prompt in one step, a multiple of kv_block_tokens")                      \
    X(prefill_step_ms, DURATION_MS(0, 3600000), "300ms", "ms",                                     \
      "target time of a step that computes prompts: kvferry measures how many tokens it computes " \
      "in this time and puts as many into a step, at least one block; if a step's fixed cost "     \
      "takes most of the target, the tokens may take as long as the fixed cost; 0: only "          \
      "prefill_chunk_tokens and prefill_batch_tokens limit a step")                                \
    X(prefill_batch_tokens, U32(8, 65536), "1024", "tokens",                                       \
      "most tokens of all prompts in one step")                                                    \
    X(queue_max, U32(1, 65536), "512", "requests", "most requests that wait for a slot")           \
    X(queue_limit_ms, DURATION_MS(0, 3600000), "30s", "ms",                                        \
      "longest time a request waits for a slot")                                                   \
    X(priority_aging_ms, U32(0, 3600000), "1000", "ms",                                            \
      "waiting time that counts as much as one level of priority, among requests of one tenant; "  \
      "0: the order of arrival alone decides")                                                     \
    X(threads, U32(0, 256), "0", "threads",                                                        \
      "compute threads; 0: one per core (only fast cores, if they differ), or the CPU quota "      \
      "rounded up")                                                                                \
    KERNELS_CONFIG_ROWS(X)                                                                         \
    ATTENTION_MATH_CONFIG_ROW(X)                                                                   \
    ATTENTION_SWITCH_CONFIG_ROWS(X)                                                                \
    ATTENTION_WINDOW_CONFIG_ROWS(X)                                                                \
    BLOCK_ACTIVATIONS_CONFIG_ROW(X)                                                                \
    DEVICE_CONFIG_ROWS(X)                                                                          \
    X(pin, BOOL, "no", "", "bind each compute thread to one CPU")                                  \
    X(cpu_placement, WORD(enum worker_cpu_placement, "auto|off"), "auto", "",                      \
      "auto: threads that need several memory nodes (NUMA) are bound to the nodes in turn, and "   \
      "memory is interleaved over them; on a CPU with efficiency cores, threads are bound to the " \
      "fast cores; the engine's own thread, which computes, too, is bound with them; off: the "    \
      "kernel decides")                                                                            \
    KV_TRANSPORT_CONFIG_ROW(X)                                                                     \
    X(kv_digest, BOOL, "no", "", "send a CRC32C of every KV block, and require it when receiving") \
    X(ucx_net_devices, STRING, "", "",                                                             \
      "network devices of the data port; empty: lo if control_address is on a loopback, else all") \
    X(ucx_port_range, STRING, "", "", "ports that the data port may use: \"20000-20009\"")         \
    X(peers_max, U32(1, 4096), "64", "workers", "most workers of the other role at one time")      \
    X(pieces_max, U32(1, 4096), "64", "parts",                                                     \
      "most parts of KV in transfer at one time, for one peer")                                    \
    CONSTRAINT_CONFIG_ROWS(X)                                                                      \
    CONSTRAINT_COMPILER_ROWS(X)                                                                    \
    X(constraint_queue_max, U32(1, 65536), "256", "requests",                                      \
      "most requests that wait for their constraint to be compiled")                               \
    KV_NETWORK_CONFIG_ROW(X)                                                                       \
    METRICS_COMPAT_CONFIG_ROW(X)                                                                   \
    DATA_PORT_CONFIG_ROWS(X)

#define WORKER_ALIASES(X)                                                                          \
    X("max-model-len", max_context_tokens)                                                         \
    X("block-size", kv_block_tokens)

/* Initialises the members of struct worker_options from these rows. */
#define WORKER_OPTIONS(config)                                                                     \
    .served_model_name = (config)->served_model_name,                                              \
    .max_context_tokens = (config)->max_context_tokens,                                            \
    .kv_block_tokens = (config)->kv_block_tokens, .kv_blocks = (config)->kv_blocks,                \
    .kv_memory = (config)->kv_memory, .kv_sharers = (config)->kv_sharers,                          \
    .kv_room = (config)->kv_room, .kv_dtype = (config)->kv_dtype,                                  \
    .kv_scales = (config)->kv_scales, .kv_scrub = (config)->kv_scrub,                              \
    .kv_events_max = (config)->kv_events_max, .kv_host_memory = (config)->kv_host_memory,          \
    .kv_disk = (config)->kv_disk, .kv_disk_size = (config)->kv_disk_size,                          \
    .kv_disk_part = (config)->kv_disk_part, .kv_manager = (config)->kv_manager,                    \
    .prefix_cache = (config)->prefix_cache, .weights = (config)->weights,                          \
    .adapters = (config)->adapter, .adapter_rank_max = (config)->adapter_rank_max,                 \
    .adapter_folder = (config)->adapter_folder, .adapter_memory = (config)->adapter_memory,        \
    .prefill_chunk_tokens = (config)->prefill_chunk_tokens,                                        \
    .prefill_batch_tokens = (config)->prefill_batch_tokens, .threads = (config)->threads,          \
    .cpu_kernels = (config)->cpu_kernels, .attention_kernels = (config)->attention_kernels,        \
    .context_math = (config)->attention_math, .block_activations = (config)->block_activations,    \
    .attention = ATTENTION_SWITCHES(config), .device = (config)->device,                           \
    .attention_window = (config)->attention_window, .force_window = (config)->force_window,        \
    .sink_tokens = (config)->sink_tokens, .device_memory = (config)->device_memory,                \
    .device_math = (config)->device_math, .pin = (config)->pin,                                    \
    .cpu_placement = (config)->cpu_placement, .kv_transport = (config)->kv_transport,              \
    .kv_network = (config)->kv_network, .ucx_net_devices = (config)->ucx_net_devices,              \
    .ucx_port_range = (config)->ucx_port_range, .peers_max = (config)->peers_max,                  \
    .pieces_max = (config)->pieces_max, .kv_unproven_max = (config)->kv_unproven_max,              \
    .kv_proof_ms = (config)->kv_proof_ms, .constraints = {CONSTRAINT_COMPILER_LIMITS(config)},     \
    .constraint_queue_max = (config)->constraint_queue_max
