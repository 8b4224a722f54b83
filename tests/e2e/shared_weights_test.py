#!/usr/bin/env python3
"""Mapped weights are in memory once, whatever the number of workers: by the proportional sizes that the kernel counts;
and no worker has a copy of them in memory of its own.

shared_weights_test.py KVFERRY MODEL
"""

import json
import pathlib
import re
import shutil
import struct
import sys
import tempfile
import unittest

from cluster import Process

KIB = 1 << 10
BINARY, MODEL = "", ""
DEEPER = 8  # times the layers: what grows with the weights stands out
COPY_RATIO_MAX = 0.12  # AddressSanitizer adds up to 0.08
SHARED_RATIO_MAX = 1.05  # of the file's size: all workers' parts together
READ_RATIO_MIN = 0.9  # what each worker has in memory: the unused head of a tied model may be away


def mapped_bytes(pid, path):
    """Bytes of the mappings of this file: resident, proportional, private."""
    sizes = {"Rss": 0, "Pss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    is_inside = False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match("[0-9a-f]+-[0-9a-f]+ ", line):
            is_inside = line.endswith(str(path))
            continue
        name, _, value = line.partition(":")
        if is_inside and name in sizes:
            sizes[name] += int(value.split()[0]) * KIB
    return sizes["Rss"], sizes["Pss"], sizes["Private_Clean"] + sizes["Private_Dirty"]


def anonymous_bytes(pid):
    """Memory of no file, heap included."""
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * KIB
    raise RuntimeError("the kernel does not count anonymous memory")


def deepen(model, folder, times):
    """The model with each layer so many times. Returns the bytes of its weights."""
    for path in model.iterdir():
        if path.is_file() and path.name not in ("config.json", "model.safetensors"):
            shutil.copy(path, folder / path.name)
    config = json.loads((model / "config.json").read_text())
    n_layers = config["num_hidden_layers"]
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": n_layers * times}))
    with open(model / "model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__", None)
    table, parts, at = {}, [], 0
    for name, tensor in header.items():
        first, last = tensor["data_offsets"]
        layer = re.search(r"\.layers\.(\d+)\.", name)
        for copy in range(times if layer else 1):
            new = name.replace(layer[0], f".layers.{int(layer[1]) + copy * n_layers}.") if layer else name
            table[new] = tensor | {"data_offsets": [at, at + last - first]}
            parts.append(data[first:last])
            at += last - first
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    return at


class SharedWeightsTest(unittest.TestCase):
    def test_workers_of_one_machine_share_the_pages_of_the_file(self):
        path = pathlib.Path(MODEL).resolve() / "model.safetensors"
        size = path.stat().st_size
        roles = ("ctx-worker", "gen-worker")
        workers = []
        with tempfile.TemporaryDirectory() as folder:
            try:
                for role in roles:
                    workers.append(Process(BINARY, MODEL, folder, role, "--kv-memory", "2M", "--threads", "1"))
                figures = [mapped_bytes(worker.child.pid, path) for worker in workers]
            finally:
                for worker in workers:
                    worker.stop()
        for role, (resident, _, private) in zip(roles, figures):
            self.assertGreater(resident, READ_RATIO_MIN * size, role)
            self.assertLess(private, (SHARED_RATIO_MAX - 1) * size, role)
        together = sum(proportional for _, proportional, _ in figures)
        self.assertLess(together, SHARED_RATIO_MAX * size, "the weights are there more than once")

    def growth(self, role, *flags):
        """By how much memory of no file grows with the weights: bytes for each byte of them."""
        with tempfile.TemporaryDirectory() as deep:
            small = pathlib.Path(MODEL).resolve()
            bytes_more = deepen(small, pathlib.Path(deep), DEEPER) - (small / "model.safetensors").stat().st_size
            sizes = []
            for model in (str(small), deep):
                with tempfile.TemporaryDirectory() as folder:
                    worker = Process(BINARY, model, folder, role, "--kv-memory", "16M", "--threads", "1", *flags)
                    try:
                        sizes.append(anonymous_bytes(worker.child.pid))
                    finally:
                        worker.stop()
                        worker.log.close()
        return (sizes[1] - sizes[0]) / bytes_more

    def test_no_worker_has_a_copy_of_its_own(self):
        for role in ("ctx-worker", "gen-worker"):
            self.assertLess(self.growth(role), COPY_RATIO_MAX, role)

    def test_a_copy_would_be_seen(self):
        # Weights rounded to 8 bits are memory of the worker's own. AddressSanitizer keeps what was freed, too: more than the half.
        self.assertGreater(self.growth("gen-worker", "--weights", "int8"), 2 * COPY_RATIO_MAX)


if __name__ == "__main__":
    BINARY, MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
