"""Speed of llama.cpp on a GGUF file: one line of JSON with the cells of model_bench.c.

    llama_peer.py MODEL.gguf N_THREADS [quick]
    llama_peer.py quantize FROM.gguf TO.gguf q8_0|f16|q4_k_m

The better of its flash-attention settings counts in each cell; the best of several runs, or of those
that fit into RUNS_S seconds.
"""

import ctypes
import json
import sys
import time

import llama_cpp

DECODE_TOKENS = 32
CONTEXT_MAX = 4096 + 2 * DECODE_TOKENS
BATCH_MAX, BATCH_CONTEXT = 16, 128
UBATCH_TOKENS, BATCH_TOKENS = 512, 2048
RUNS, RUNS_S = 3, 8
FIRST_TOKENS = 16
FILE_TYPES = {"f16": 1, "q8_0": 7, "q4_k_m": 15}


class Peer:
    """A context of one sequence, or of n_sequences with a part of the cache for each."""

    def __init__(self, model, flash, n_threads, n_sequences=1):
        parameters = llama_cpp.llama_context_default_params()
        per_sequence = CONTEXT_MAX if n_sequences == 1 else 2 * BATCH_CONTEXT
        parameters.n_ctx = per_sequence * n_sequences
        parameters.n_seq_max = n_sequences
        parameters.kv_unified = False
        parameters.n_batch = BATCH_TOKENS
        parameters.n_ubatch = UBATCH_TOKENS
        parameters.n_threads = parameters.n_threads_batch = n_threads
        parameters.flash_attn_type = 1 if flash else 0
        parameters.no_perf = True
        self.context = llama_cpp.llama_init_from_model(model, parameters)
        if not self.context:
            raise SystemExit("llama.cpp refuses the context")
        self.batch = llama_cpp.llama_batch_init(BATCH_TOKENS, 0, 1)
        self.memory = llama_cpp.llama_get_memory(self.context)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)

    def decode(self, entries):
        """entries: (sequence, position, whether its logits are wanted)"""
        batch = self.batch
        batch.n_tokens = len(entries)
        for i, (sequence, position, wants_logits) in enumerate(entries):
            batch.token[i] = position * 7919 % 2000
            batch.pos[i] = position
            batch.n_seq_id[i] = 1
            batch.seq_id[i][0] = sequence
            batch.logits[i] = wants_logits
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def prefill(self, first, end, sequence=0):
        for at in range(first, end, BATCH_TOKENS):
            stop = min(at + BATCH_TOKENS, end)
            self.decode([(sequence, i, i == end - 1) for i in range(at, stop)])

    def cut(self, n, sequence=0):
        llama_cpp.llama_memory_seq_rm(self.memory, sequence, n, -1)


def best_speed(n_tokens, prepare, run):
    best_s = started = None
    for _ in range(RUNS):
        prepare()
        run_started = time.perf_counter()
        started = started or run_started
        run()
        now = time.perf_counter()
        best_s = min(best_s or now - run_started, now - run_started)
        if now - started > RUNS_S:
            break
    return n_tokens / best_s


def measure_prefill(peer, n):
    return best_speed(n, lambda: peer.cut(0), lambda: peer.prefill(0, n))


def measure_decode(peer, n, n_cached):
    peer.cut(n_cached)
    peer.prefill(n_cached, n)
    peer.decode([(0, n, True)])

    def run():
        for i in range(DECODE_TOKENS):
            peer.decode([(0, n + 1 + i, True)])

    return best_speed(DECODE_TOKENS, lambda: peer.cut(n + 1), run)


def measure_batch(peer, n):
    for sequence in range(n):
        peer.cut(0, sequence)
        peer.prefill(0, BATCH_CONTEXT, sequence)

    def prepare():
        for sequence in range(n):
            peer.cut(BATCH_CONTEXT, sequence)

    def run():
        for i in range(DECODE_TOKENS):
            peer.decode([(sequence, BATCH_CONTEXT + i, True) for sequence in range(n)])

    return best_speed(n * DECODE_TOKENS, prepare, run)


def measure(model, flash, n_threads, is_quick):
    peer = Peer(model, flash, n_threads)
    figures = {
        "decode_0": measure_decode(peer, 0, 0),
        "prefill_512": measure_prefill(peer, 512),
        "decode_512": measure_decode(peer, 512, 512),
    }
    if not is_quick:
        figures["prefill_2048"] = measure_prefill(peer, 2048)
        figures["decode_4096"] = measure_decode(peer, 4096, 2048)
    peer.close()
    for n in () if is_quick else (8, BATCH_MAX):
        peer = Peer(model, flash, n_threads, n)
        figures[f"batch_{n}"] = measure_batch(peer, n)
        peer.close()
    return figures


def quantize(source, target, kind):
    parameters = llama_cpp.llama_model_quantize_default_params()
    parameters.ftype = FILE_TYPES[kind]
    parameters.allow_requantize = True
    if llama_cpp.llama_model_quantize(source.encode(), target.encode(), ctypes.byref(parameters)) != 0:
        raise SystemExit(f"llama.cpp cannot quantize {source}")


def first_token(model, n_threads, started):
    """Seconds until a short prompt has its token."""
    peer = Peer(model, False, n_threads)
    peer.prefill(0, FIRST_TOKENS)
    seconds = time.perf_counter() - started
    peer.close()
    return seconds


def main():
    silent = llama_cpp.llama_log_callback(lambda level, text, user: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    if sys.argv[1] == "quantize":
        quantize(*sys.argv[2:5])
        return
    path, n_threads, is_quick = sys.argv[1], int(sys.argv[2]), "quick" in sys.argv[3:]
    llama_cpp.llama_backend_init()
    started = time.perf_counter()
    model = llama_cpp.llama_model_load_from_file(
        path.encode(), llama_cpp.llama_model_default_params()
    )
    if not model:
        raise SystemExit(f"llama.cpp cannot load {path}")
    first_token_s = first_token(model, n_threads, started)
    runs = [measure(model, flash, n_threads, is_quick) for flash in (False, True)]
    best = {name: max(run[name] for run in runs) for name in runs[0]}
    version = getattr(llama_cpp, "__version__", "")
    print(json.dumps({"peer": f"llama-cpp-python {version}", "first_token_s": first_token_s} | best))


main()
