"""mixes.py KVFERRY ARM_KVFERRY ARM_ROOT MODEL - roles of x86-64 and of 64-bit Arm (in qemu) work together.

In each of MIXES a router, a context worker and a generation worker answer a prompt with the tokens of x86-64 alone. The context worker's
KV crossed, and the CRC32C of each block was right. No worker was told to accept other numerics: both kinds have the same id.
"""

import contextlib
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from cluster import START_LIMIT_S, Process

X86, ARM = "x86-64", "arm64"
MIXES = [(X86, X86, X86), (ARM, ARM, ARM), (X86, X86, ARM), (X86, ARM, X86)]  # router, context worker, generation worker
PROMPT = "Thus saith the LORD of hosts, the God of Israel, unto all that are carried away captives"
SAMPLED = ["--seed", "151", "--temperature", "0.8", "--top-p", "0.95", "--max-tokens", "48", "--deadline-ms", "120s"]
WORKER = ["--threads", "1", "--kv-digest"]


def wait_for_peers(router, n):
    until = time.monotonic() + START_LIMIT_S
    while router.metric("kvferry_peers", 'state="ready"') < n:
        if time.monotonic() > until:
            raise RuntimeError("the router does not see its workers")
        time.sleep(0.05)


def answer(programs, mix, model, folder):
    """(text, bytes of KV that crossed) of the prompt."""
    with contextlib.ExitStack() as stack:
        def start(kind, role, *flags):
            process = Process(programs[kind], model, folder, role, *flags)
            stack.callback(process.stop)
            return process

        context = start(mix[1], "ctx-worker", *WORKER)
        generation = start(mix[2], "gen-worker", *WORKER, "--local-prefill=no", "--local-prefill-max-tokens", "0")
        router = start(mix[0], "router", "--context-workers", context.ports["control"],
                       "--generation-workers", generation.ports["control"])
        wait_for_peers(router, 2)
        asked = subprocess.run([programs[X86], "generate", "--server", router.ports["grpc"], "--verbose", *SAMPLED, PROMPT],
                               capture_output=True, text=True)
    crossed = re.search(r"KV +(\d+) bytes", asked.stderr)
    if asked.returncode != 0 or not crossed or int(crossed[1]) == 0:
        logs = "".join(log.read_text() for log in pathlib.Path(folder).glob("*.log"))
        sys.exit(f"mixes: {mix}: no answer with KV that crossed\n{asked.stderr}\n{logs}")
    return asked.stdout, int(crossed[1])


def main(x86, arm, root, model):
    with tempfile.TemporaryDirectory() as folder:
        emulated = pathlib.Path(folder) / "kvferry_arm64"
        emulated.write_text(f'#!/bin/sh\nexec qemu-aarch64 -L "{root}" "{arm}" "$@"\n')
        emulated.chmod(0o755)
        expected = None
        for number, mix in enumerate(MIXES):
            own = pathlib.Path(folder) / str(number)
            own.mkdir()
            began = time.monotonic()
            said = answer({X86: x86, ARM: str(emulated)}, mix, model, own)
            print(f"router {mix[0]}, context worker {mix[1]}, generation worker {mix[2]}: {said[1]} bytes of KV, "
                  f"{time.monotonic() - began:.0f} s: {said[0].strip()}", flush=True)
            expected = expected or said
            if said != expected:
                sys.exit(f"mixes: x86-64 alone says {expected}")


if __name__ == "__main__":
    main(*sys.argv[1:])
