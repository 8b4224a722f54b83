"""three_machines.py KVFERRY MODEL DOCUMENT - runs every command of docs/three-machines.md, in its order.

A block "```sh NAME" is typed at the machine of that name: a network namespace with a home folder of its own. All that stands
in for something else is scp, which copies into the other machine's folder. After it: KV crossed between the machines, over
TLS, the worker that was restarted computes again, and every process ends well.
"""

import contextlib
import pathlib
import re
import sys
import tempfile

from machines import Machines, NotPossible

SCP = """#!/bin/sh
# scp FILE... MACHINE:FOLDER/
for last; do :; done
while [ $# -gt 1 ]; do cp -p "$1" "{folder}/${{last%%:*}}/${{last#*:}}" || exit 1; shift; done
"""


def blocks(document):
    """(machine, commands) of each."""
    return re.findall(r"^```sh (\S+)\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)


def prepare(folder, name, binary, model):
    home = folder / name / "kvferry"
    home.mkdir(parents=True)
    (home / "model").symlink_to(model)
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    if not (tools / "kvferry").exists():
        (tools / "kvferry").symlink_to(binary)
        (tools / "scp").write_text(SCP.format(folder=folder))
        (tools / "scp").chmod(0o755)
    return f"PATH={tools}:$PATH"


ASKED = r"( exec 3<>/dev/tcp/127.0.0.1/9400 && printf 'GET {} HTTP/1.0\r\n\r\n' >&3 && grep -q '{}' <&3 ) 2>/dev/null"
# The router is ready as soon as it has a generation worker; a question that is to be handed over wants the other one, too.
READY = (ASKED.format("/readyz", "^HTTP.* 200") + " && "
         + ASKED.format("/metrics", 'kvferry_peers{role="ctx-worker",state="ready"} 1'))


def wait_until(machine, condition):
    machine.run(f"for i in $(seq 300); do if {condition}; then break; fi; sleep 0.1; done; {condition}")


def kv_bytes(output):
    """What --verbose says of an answer."""
    said = re.search(r"KV +(\d+) bytes over (\S+),", output)
    if not said or said[2] != "tls":
        raise RuntimeError(f"no KV over tls in\n{output}")
    return int(said[1])


def type_all(machines, found):
    """The last question that was asked, and of whom."""
    for name, commands in found:
        if "kvferry ps" in commands or "kvferry generate" in commands:
            wait_until(machines["router"], READY)
        output = machines[name].run(commands)
        if "kvferry generate" in commands:
            print(f"asked from {name}: {kv_bytes(output)} bytes of KV crossed")
            asked = name, commands
        if "kvferry ps" in commands and not re.search(r"ctx-worker +\S+:50052 +ready", output):
            raise RuntimeError(f"the context worker is not in\n{output}")
    return asked


def ask_anew(machine, question, n_tries=20):
    """Another prompt each time, as the last one is cached; the first ones may find workers that are not back yet."""
    for first in range(2, 2 + n_tries):
        output = machine.run(question.replace("' ' 1 400", f"' ' {first} 400"))
        with contextlib.suppress(RuntimeError):
            return kv_bytes(output)
    raise RuntimeError(f"no KV crossed any more:\n{output}")


def main(binary, model, document):
    found = blocks(pathlib.Path(document).read_text())
    names = sorted({name for name, _ in found})
    assert names == ["context", "generation", "router"] and len(found) >= 9, names
    with tempfile.TemporaryDirectory() as home:
        folder = pathlib.Path(home)
        paths = {name: prepare(folder, name, binary, model) for name in names}
        with Machines(folder, names) as machines:
            for name in names:
                machines[name].run(f"export {paths[name]}")
            name, question = type_all(machines, found)
            print(f"after both restarts: {ask_anew(machines[name], question)} bytes")
    print(f"{len(found)} passed, 0 failed")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except NotPossible as why:
        print(f"SKIPPED: no machines can be made here: {why}")
        sys.exit(77)
