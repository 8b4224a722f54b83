"""Tokens a second with guessed tokens (--speculate lookup, or a draft model) beside passes of a token each: summaries, edits of code, chat and free text,
1, 4 and 16 at once, two servers in turns."""

import json
import pathlib
import statistics
import tempfile
import threading
import time
import urllib.request

from cluster import Process

ROOT = pathlib.Path(__file__).resolve().parents[2]
AT_ONCE = (1, 4, 16)
N_TOKENS = 160
N_ROUNDS = 3


def piece(file, number, n_bytes):
    text = (ROOT / file).read_text()
    at = number * 700 % max(1, len(text) - n_bytes)
    return text[at : at + n_bytes]


KINDS = {
    "summary": lambda i: "Repeat the main sentences of this text:\n\n" + piece("docs/operations.md", i, 2500) + "\n\nThe main sentences:",
    "edit of code": lambda i: "Write this code again, with better names:\n\n" + piece("base/regular_file.c", i, 1600) + "\n\n",
    "chat": lambda i: f"Question {i}: what does a scheduler do, and why does it matter? Answer in a few sentences.\n\nAnswer:",
    "free text": lambda i: f"Chapter {i}. On a cold morning in a small town by the sea",
}


def complete(process, name, prompt, took):
    body = {"model": name, "prompt": prompt, "max_tokens": N_TOKENS, "temperature": 0, "ignore_eos": True}
    request = urllib.request.Request(f"http://{process.ports['http']}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=900) as reply:
        took.append(json.loads(reply.read())["usage"]["completion_tokens"])


def tokens_per_s(process, name, prompts):
    counted = []
    threads = [threading.Thread(target=complete, args=(process, name, prompt, counted)) for prompt in prompts]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(counted) != len(prompts):
        raise RuntimeError("a request failed")
    return sum(counted) / (time.monotonic() - began_s)


def measure(binary, model, guesses=("--speculate", "lookup"), kinds=tuple(KINDS), at_once=AT_ONCE):
    """{(kind, at once): (without, with)}, medians of tokens a second."""
    name = pathlib.Path(model).name
    found = {}
    with tempfile.TemporaryDirectory() as plain, tempfile.TemporaryDirectory() as guessing:
        servers = [Process(binary, str(model), folder, "serve", "--n-context-workers", "0", *flags)
                   for folder, flags in ((plain, ()), (guessing, guesses))]
        for kind in kinds:
            prompt = KINDS[kind]
            for n in at_once:
                prompts = [prompt(i) for i in range(n)]
                speeds = ([], [])
                for at in range(N_ROUNDS + 1):
                    for which in (0, 1) if at % 2 else (1, 0):
                        speed = tokens_per_s(servers[which], name, prompts)
                        if at > 0:  # the first fills the prefix cache
                            speeds[which].append(speed)
                found[kind, n] = tuple(statistics.median(both) for both in speeds)
        for server in servers:
            server.stop()
    return found
