#!/usr/bin/env python3
"""mutants - planted mistakes of device/cuda*.c: the double sees each of them in some order.

    mutants.py SESSION BUILD_FOLDER [WORD]   those of whose description WORD is a part; status 1 where one is not caught

SESSION is driver_session of a build in BUILD_FOLDER; a mutant is one file of it compiled again and linked in front of the library.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from session_test import MODES, Session  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
SEEDS = 3

# File, what is there, what stands in its place, what is wrong then.
MUTANTS = [
    ("cuda_queue", "    CUDA_DO(cuda, cuStreamWaitEvent, cuda->queues[number].stream,\n"
     "            event_of(other, known_from(ticket.sequence, n)), 0);\n", "", "a queue does not wait for the other"),
    ("cuda_queue", "event_of(other, known_from(ticket.sequence, n))", "event_of(other, known_from(ticket.sequence, n) - 1)",
     "a wait is for the record before"),
    ("cuda_queue", "cuda->queues[number].stream,", "other->stream,", "a queue waits for itself"),
    ("cuda_queue", ">= ticket.sequence)\n        return STATUS_OK;", "+ 1 >= ticket.sequence)\n        return STATUS_OK;",
     "the host is taken to have seen one record more"),
    ("cuda_queue", "        if (code != CUDA_CODE_SUCCESS)\n            return code;\n",
     "        if (code != CUDA_CODE_SUCCESS && code != CUDA_CODE_NOT_READY)\n            return code;\n",
     "NOT_READY is taken for done"),
    ("cuda_queue", "    cuda_digests_deliver(&queue->digests, done);\n", "", "digests are never delivered"),
    ("cuda_queue", "CUDA_DO(cuda, cuEventRecord, event_of(queue, sequence), queue->stream);",
     "CUDA_DO(cuda, cuEventRecord, event_of(queue, sequence),\n            cuda->queues[1 - number].stream);",
     "a record is made on the other queue"),
    ("cuda_queue", "            (void)cuda->driver.cuEventDestroy(queue->events[i]);\n", "            continue;\n",
     "events are left over"),
    ("cuda_queue", "        (void)cuda->driver.cuStreamDestroy(queue->stream);\n", "        return;\n", "a stream is left over"),
    ("cuda_ring", "        if (code == CUDA_CODE_SUCCESS)\n            slot->state = CUDA_SLOT_FREE;",
     "        slot->state = CUDA_SLOT_FREE;", "a slot is used again while its copy runs"),
    ("cuda_ring", "    slot->state = CUDA_SLOT_COPYING;\n", "    slot->state = CUDA_SLOT_FREE;\n",
     "a slot is free when its copy is enqueued"),
    ("cuda_ring", "    cuda_code code = cuda->driver.cuEventRecord(slot->copied, stream);\n",
     "    cuda_code code = CUDA_CODE_SUCCESS;\n    (void)cuda, (void)stream;\n", "a copy has no event"),
    ("cuda_ring", "at += small)", "at += small / 2)", "small slots overlap"),
    ("cuda_ring", "    if (slot->pinned)\n        (void)cuda_judge(cuda, \"cuMemFreeHost\", driver->cuMemFreeHost(slot->pinned));\n", "",
     "twins are left over"),
    ("cuda_ring", "    find(ring, view)->state = CUDA_SLOT_FREE;\n", "    (void)find(ring, view);\n",
     "a view never comes back"),
    ("cuda_ring", "bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;", "bytes = bytes / PAGE_BYTES * PAGE_BYTES;",
     "a twin is shorter than its arena"),
    ("cuda_image", "cuda_code code = cuda->driver.cuFuncLoad(function);",
     "cuda_code code = function ? CUDA_CODE_SUCCESS : CUDA_CODE_NOT_FOUND;", "a kernel is loaded by its first launch"),
    ("cuda", "    TRY(make_zero(cuda, address, bytes)); /* lost: nothing is freed any more */\n", "", "memory is not zero"),
    ("cuda", "    CUDA_DO(cuda, cuStreamSynchronize, cuda->start_stream);\n", "", "nothing waits for memory to be zero"),
    ("cuda", "    (void)cuda_judge(cuda, \"cuMemFree\", cuda->driver.cuMemFree((uintptr_t)base));\n", "    (void)base;\n",
     "memory is never freed"),
    ("cuda", "    cuda_ring_drop_twin(cuda, &cuda->ring, base);\n", "", "an arena is freed and its twin is not"),
    ("cuda", "(uintptr_t)target, view, bytes, stream);", "(uintptr_t)target, view, bytes + 1, stream);",
     "a write is a byte too long"),
    ("cuda", "view, (uintptr_t)source, bytes, cuda->queues[queue].stream);",
     "view, (uintptr_t)source, bytes,\n            cuda->queues[DEVICE_COMPUTE].stream);", "a read is on the wrong queue"),
    ("cuda", "    if (queue == DEVICE_COMPUTE)\n", "    if (queue == DEVICE_QUEUES)\n", "a step finds no view while copies have all"),
    ("cuda", "    if (current == cuda->id)\n        return STATUS_OK;\n", "    return STATUS_OK;\n", "a thread has no context"),
    ("cuda", "        (void)cuda->driver.cuDevicePrimaryCtxRelease(cuda->ordinal);\n", "        (void)0;\n",
     "the context is never released"),
    ("cuda", "        cuda_unload(cuda);\n", "", "modules are left over"),
    ("cuda_image", "cuda->queues[DEVICE_COMPUTE].stream", "cuda->queues[DEVICE_COPY].stream",
     "kernels run on the copy queue"),
    ("cuda_image", "{(void *)(uintptr_t)parameters}", "{(void *)((uintptr_t)parameters + 8)}",
     "parameters begin a field too late"),
    ("cuda_image", "shape->grid[2], shape->threads, 1, 1,", "shape->grid[2], shape->threads / 2, 1, 1,",
     "half of the threads run"),
    ("cuda_digest", "atomic_load(&queue->n_recorded) + 1}", "atomic_load(&queue->n_recorded)}",
     "a digest is delivered a record too early"),
    ("cuda_digest", "bool is_full = queue->digests.end - queue->digests.begin == CUDA_DIGESTS;", "bool is_full = false;",
     "more digests are under way than there is room for"),
    ("cuda_digest", "    shape.grid[0] = 1;\n", "", "a digest is combined by every piece's CTA"),
    ("cuda_graph", "((struct captured *)graph)->exec, stream_of(cuda));",
     "((struct captured *)graph)->exec,\n            cuda->queues[DEVICE_COPY].stream);", "a replay is on the copy queue: not waited for"),
    ("cuda_graph", "CUDA_DO(cuda, cuStreamBeginCapture, stream_of(cuda),",
     "CUDA_DO(cuda, cuStreamBeginCapture, cuda->queues[DEVICE_COPY].stream,", "the copy queue is captured"),
    ("cuda_graph", "    CUDA_DO(cuda, cuGraphLaunch, ((struct captured *)graph)->exec, stream_of(cuda));\n", "",
     "a replay does nothing"),
    ("cuda_graph", "cuda_judge(cuda, \"cuGraphDestroy\", cuda->driver.cuGraphDestroy(graph)) != STATUS_OK", "false",
     "what was captured is left over"),
    ("cuda_graph", "    if (!device_is_lost(device) && cuda_make_current(cuda) == STATUS_OK)\n", "    if (false)\n",
     "executable graphs are left over"),
    ("cuda_ipc", "    CUDA_DO(cuda, cuIpcCloseMemHandle, (uintptr_t)mapping->base);\n", "    (void)mapping;\n",
     "another process's memory stays open"),
    ("cuda_ipc", "(uintptr_t)source, bytes,\n            cuda->queues[number].stream);",
     "(uintptr_t)source, bytes,\n            cuda->queues[1 - number].stream);", "a copy is on the other queue"),
    ("cuda_ipc", "(uintptr_t)target, (uintptr_t)source, bytes,", "(uintptr_t)target, (uintptr_t)source, bytes - 1,",
     "a copy is a byte too short"),
    ("cuda_ipc", "    *bytes_out = bytes;\n", "    *bytes_out = bytes + 1;\n", "a mapping is a byte longer than it is"),
    ("cuda_ipc", "cuIpcGetMemHandle(&handle, (uintptr_t)base);", "cuIpcGetMemHandle(&handle, (uintptr_t)base + 256);",
     "what is exported is no base"),
]


def commands(build: Path) -> dict[str, str]:
    rows = json.loads((build / "compile_commands.json").read_text())
    return {Path(row["file"]).stem: row["command"] for row in rows if "/device/" in row["file"]}


class Bench:
    def __init__(self, session: Session, build: Path, folder: Path):
        self.session, self.build, self.folder = session, build, folder
        self.commands = commands(build)
        ninja = subprocess.run(["ninja", "-C", build, "-t", "commands", "driver_session"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        self.link = next(row for row in reversed(ninja) if "-o tests/simt/driver/driver_session" in row)

    def build_mutant(self, number: int) -> Path:
        name, old, new, what = MUTANTS[number]
        source = (ROOT / "device" / f"{name}.c").read_text()
        assert source.count(old) == 1, f"{name}.c has {source.count(old)} of: {old}"
        mutated = self.folder / f"{number}.c"
        mutated.write_text(source.replace(old, new))
        words = shlex.split(self.commands[name])
        words[words.index("-o") + 1] = str(mutated.with_suffix(".o"))
        words = [str(mutated) if w.endswith(f"/{name}.c") else w for w in words if w != "-Werror"]
        subprocess.run([*words, "-w"], cwd=self.build, check=True, capture_output=True)
        program = self.folder / f"session{number}"
        link = self.link.split("&&")[1].strip() if "&&" in self.link else self.link
        link = link.replace("-o tests/simt/driver/driver_session",
                            f"{mutated.with_suffix('.o')} -o {program}")
        subprocess.run(shlex.split(link), cwd=self.build, check=True, capture_output=True)
        return program

    def first_sight(self, number: int) -> str:
        """Who sees the mutant first, and how; empty: nobody."""
        mutant = Session(str(self.session.program))
        mutant.library, mutant.program = self.session.program.parent, self.build_mutant(number)
        for seed in range(1, SEEDS + 1):
            for mode in MODES:
                for scenario in mutant.scenarios:
                    end = mutant.run(scenario, DOUBLE_MODE=mode, DOUBLE_SEED=str(seed), SESSION_WAIT_MS="3000")
                    if end.status != 0:
                        lines = [x for x in end.text.splitlines() if " info " not in x]
                        return f"{scenario} {mode} {seed}: {lines[0][:110] if lines else end.status}"
        return ""


def main() -> int:
    word = sys.argv[3] if len(sys.argv) > 3 else ""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Session(sys.argv[1]), Path(sys.argv[2]).resolve(), Path(folder))
        numbers = [n for n, mutant in enumerate(MUTANTS) if word in mutant[3]]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            sights = list(pool.map(bench.first_sight, numbers))
    for number, sight in zip(numbers, sights):
        print(f"{MUTANTS[number][3]}: {sight or 'NOT CAUGHT'}")
    n = sum(not sight for sight in sights)
    print(f"{len(numbers)} mutants, {n} not caught")
    return 1 if n or not numbers else 0


if __name__ == "__main__":
    sys.exit(main())
