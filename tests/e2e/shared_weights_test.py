#!/usr/bin/env python3
"""Mapped weights are in memory once, whatever the number of workers: by the proportional sizes that the kernel counts.

shared_weights_test.py KVFERRY MODEL
"""

import pathlib
import re
import sys
import tempfile
import unittest

from cluster import Process

KIB = 1 << 10
BINARY, MODEL = "", ""
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


if __name__ == "__main__":
    BINARY, MODEL = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
