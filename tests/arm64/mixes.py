"""mixes.py KVFERRY ARM_KVFERRY ARM_ROOT MODEL - roles of x86-64 and of 64-bit Arm (in qemu) work together.

In each of MIXES a router, a context worker and a generation worker answer QUESTIONS (a prompt, one whose reply must match a regular
expression, and a message by a chat template) with the tokens of x86-64 alone. The context worker's KV crossed each time, and the CRC32C
of each block was right. Only a router of x86-64 is asked by a chat template: its process starts itself, which the emulator cannot. No
worker was told to accept other numerics: both kinds have the same id.
"""

import contextlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from cluster import START_LIMIT_S, Process

X86, ARM = "x86-64", "arm64"
MIXES = [(X86, X86, X86), (ARM, ARM, ARM), (X86, X86, ARM), (X86, ARM, X86)]  # router, context worker, generation worker
PROMPT = "Thus saith the LORD of hosts, the God of Israel, unto all that are carried away captives"
SAMPLED = ["--seed", "151", "--temperature", "0.8", "--top-p", "0.95", "--max-tokens", "48", "--deadline-ms", "120s"]
QUESTIONS = [
    ["generate", *SAMPLED, PROMPT],
    ["generate", "--regex", "[A-Z][a-z]+( [a-z]{2,6}){5}[.]", *SAMPLED, PROMPT],
    ["chat", *SAMPLED, PROMPT],
]
TEMPLATE = "{% for message in messages %}{{ message.role | upper }}: {{ message.content }}\n{% endfor %}"
WORKER = ["--threads", "1", "--kv-digest"]


def wait_for_peers(router, n):
    until = time.monotonic() + START_LIMIT_S
    while router.metric("kvferry_peers", 'state="ready"') < n:
        if time.monotonic() > until:
            raise RuntimeError("the router does not see its workers")
        time.sleep(0.05)


def ask(program, router, question):
    """(text, bytes of KV that crossed)"""
    asked = subprocess.run([program, question[0], "--server", router.ports["grpc"], "--verbose", *question[1:]],
                           capture_output=True, text=True)
    crossed = re.search(r"KV +(\d+) bytes", asked.stderr)
    if asked.returncode != 0 or not crossed or int(crossed[1]) == 0:
        raise RuntimeError(f"{question}: no answer with KV that crossed\n{asked.stdout}\n{asked.stderr}")
    return asked.stdout, int(crossed[1])


def answers(programs, mix, model, folder):
    """What ask returns of each question."""
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
        try:
            return [ask(programs[X86], router, question) for question in QUESTIONS if question[0] != "chat" or mix[0] == X86]
        except RuntimeError as error:
            logs = "".join(log.read_text() for log in pathlib.Path(folder).glob("*.log"))
            sys.exit(f"mixes: {mix}: {error}\n{logs}")


def main(x86, arm, root, model):
    with tempfile.TemporaryDirectory() as folder:
        emulated = pathlib.Path(folder) / "kvferry_arm64"
        emulated.write_text(f'#!/bin/sh\nexec qemu-aarch64 -L "{root}" "{arm}" "$@"\n')
        emulated.chmod(0o755)
        with_template = pathlib.Path(folder) / "model"
        shutil.copytree(model, with_template)
        (with_template / "chat_template.jinja").write_text(TEMPLATE)
        expected = None
        for number, mix in enumerate(MIXES):
            own = pathlib.Path(folder) / str(number)
            own.mkdir()
            began = time.monotonic()
            said = answers({X86: x86, ARM: str(emulated)}, mix, with_template, own)
            print(f"router {mix[0]}, context worker {mix[1]}, generation worker {mix[2]}: {sum(crossed for _, crossed in said)} bytes "
                  f"of KV, {time.monotonic() - began:.0f} s: {[text.strip() for text, _ in said]}", flush=True)
            expected = expected or said
            if said != expected[: len(said)]:
                sys.exit(f"mixes: x86-64 alone says {expected}")


if __name__ == "__main__":
    main(*sys.argv[1:])
