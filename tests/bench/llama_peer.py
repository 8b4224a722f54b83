"""Speed of llama.cpp on a GGUF file with two threads: one line of JSON.

    llama_peer.py MODEL.gguf N_THREADS

The better of its flash-attention settings counts in each cell; the best of several runs.
"""

import ctypes
import json
import sys
import time

import llama_cpp

PROMPTS = (512, 2048)
CONTEXTS = (0, 512, 4096)
DECODE_TOKENS = 32
RUNS = 3


def open_context(model, flash, n_threads):
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = 4096 + 2 * DECODE_TOKENS
    parameters.n_batch = 2048
    parameters.n_ubatch = 512
    parameters.n_threads = parameters.n_threads_batch = n_threads
    parameters.flash_attn_type = 1 if flash else 0
    parameters.no_perf = True
    return llama_cpp.llama_init_from_model(model, parameters)


def decode(context, batch, tokens, first):
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i] = token
        batch.pos[i] = first + i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = i == len(tokens) - 1
    if llama_cpp.llama_decode(context, batch) != 0:
        raise SystemExit("llama_decode failed")
    llama_cpp.llama_synchronize(context)


def fill(context, batch, n):
    for first in range(0, n, 2048):
        decode(context, batch, [7] * min(2048, n - first), first)


def clear(context):
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)


def measure(model, flash, n_threads):
    context = open_context(model, flash, n_threads)
    batch = llama_cpp.llama_batch_init(2048, 0, 1)
    figures = {}
    for n in PROMPTS:
        best = 0
        for _ in range(RUNS):
            clear(context)
            started = time.perf_counter()
            fill(context, batch, n)
            best = max(best, n / (time.perf_counter() - started))
        figures[f"prefill_{n}"] = best
    for n in CONTEXTS:
        clear(context)
        fill(context, batch, n)
        decode(context, batch, [7], n)
        best = 0
        for run in range(RUNS):
            llama_cpp.llama_memory_seq_rm(
                llama_cpp.llama_get_memory(context), 0, n + 1, -1)
            started = time.perf_counter()
            for i in range(DECODE_TOKENS):
                decode(context, batch, [7], n + 1 + i)
            best = max(best, DECODE_TOKENS / (time.perf_counter() - started))
        figures[f"decode_{n}"] = best
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    return figures


def main():
    path, n_threads = sys.argv[1], int(sys.argv[2])
    silent = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(
        path.encode(), llama_cpp.llama_model_default_params()
    )
    runs = [measure(model, flash, n_threads) for flash in (False, True)]
    best = {name: max(run[name] for run in runs) for name in runs[0]}
    version = getattr(llama_cpp, "__version__", "")
    print(json.dumps({"peer": f"llama-cpp-python {version}"} | best))


main()
