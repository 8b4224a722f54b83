"""The first token of a prompt of 2,048 tokens of which an earlier prompt has the first 0, 50 or 90 %: computed, found in the pool,
and read from files after others have pushed the earlier prompt out of the pool."""

import json
import pathlib
import statistics
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


def measure(binary, model):
    blocks = str(2 * N_TOKENS // BLOCK_TOKENS)  # one prompt with its step, and a part of another
    with tempfile.TemporaryDirectory() as disk:
        return {
            "computed": times(binary, model, 0, "--prefix-cache=no"),
            "pool": times(binary, model, 0),
            "host": times(binary, model, 2, "--kv-blocks", blocks, "--kv-host-memory", DISK_BYTES),
            "disk": times(binary, model, 2, "--kv-blocks", blocks, "--kv-disk", disk, "--kv-disk-size", DISK_BYTES),
        }
