"""The first token of a prompt of 2,048 tokens of which an earlier prompt has the first 0, 50 or 90 %: computed, found in the pool,
and read from files after others have pushed the earlier prompt out of the pool."""

import json
import pathlib
import statistics
import subprocess
import tempfile
import time
import urllib.request

from cluster import Process

N_TOKENS = 2048
BLOCK_TOKENS = 16
SHARES = (0, 0.5, 0.9)
N_ROUNDS = 5
VOCABULARY = 2000  # that every model of the benchmarks has
DISK_BYTES = "8G"


def prompt(seed, n):
    return [10 + (seed * 7919 + i * 31 + i // 7) % (VOCABULARY - 10) for i in range(n)]


def first_token_s(process, name, tokens):
    body = {"model": name, "prompt": tokens, "max_tokens": 1, "temperature": 0}
    request = urllib.request.Request(f"http://{process.ports['http']}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    began_s = time.monotonic()
    with urllib.request.urlopen(request, timeout=600) as reply:
        reply.read()
    return time.monotonic() - began_s


def times(binary, model, n_pushing, *flags):
    """The median for each share, after n_pushing other prompts came between."""
    name = pathlib.Path(model).name
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        process = Process(binary, str(model), folder, "serve", "--n-context-workers", "0", "--kv-restore-ms", "60s", *flags)
        seed = 0
        for share in SHARES:
            took = []
            for _ in range(N_ROUNDS):
                seed += 1
                first = prompt(seed, N_TOKENS)
                n_shared = int(N_TOKENS * share) // BLOCK_TOKENS * BLOCK_TOKENS
                first_token_s(process, name, first)
                for _ in range(n_pushing):
                    seed += 1
                    first_token_s(process, name, prompt(seed, N_TOKENS))
                    time.sleep(0.2)  # its blocks are written, as in any pause between two requests
                took.append(first_token_s(process, name, first[:n_shared] + prompt(seed + 1000, N_TOKENS - n_shared)))
            found[share] = statistics.median(took)
        process.stop()
    return found


def copied_s(n_bytes):
    """One thread, from memory to memory; the median."""
    source, target = bytearray(b"\1" * n_bytes), bytearray(b"\2" * n_bytes)
    took = []
    for _ in range(N_ROUNDS):
        began_s = time.monotonic()
        target[:] = memoryview(source)
        took.append(time.monotonic() - began_s)
    return statistics.median(took)


def restored_bytes(binary, model):
    """What comes back at the largest share."""
    run = subprocess.run([binary, "check-model", "--json", "--no-tokenizer", str(model)], check=True, capture_output=True, text=True)
    return int(N_TOKENS * SHARES[-1]) // BLOCK_TOKENS * BLOCK_TOKENS * json.loads(run.stdout)["kv_bytes_per_token"]


def measure(binary, model):
    n_bytes = restored_bytes(binary, model)
    blocks = str(2 * N_TOKENS // BLOCK_TOKENS)  # one prompt with its step, and a part of another
    with tempfile.TemporaryDirectory() as disk:
        return {
            "restored_bytes": n_bytes,
            "copy_s": copied_s(n_bytes),
            "computed": times(binary, model, 0, "--prefix-cache=no"),
            "pool": times(binary, model, 0),
            "host": times(binary, model, 2, "--kv-blocks", blocks, "--kv-host-memory", DISK_BYTES),
            "disk": times(binary, model, 2, "--kv-blocks", blocks, "--kv-disk", disk, "--kv-disk-size", DISK_BYTES),
        }
