"""The cluster key is changed under load: no request fails.

    key_change.py KVFERRY_BINARY MODEL_FOLDER

The file of all processes holds the old key, then the old and the new, the new and the old, the new: each
step when every process has read the one before (docs/cluster-key.md).
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
from cluster import Cluster
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

BINARY, MODEL = sys.argv[1:3]
PROMPT = "In the beginning God created the heaven and the earth. " * 8
CLIENTS = 8
STEP_S = 1.5  # of load between two steps


class KeyChange(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name, "cluster.key")
        self.old, self.new = (self.make(name) for name in ("old", "new"))
        self.write(self.old)
        os.environ["KVFERRY_CLUSTER_KEY"] = str(self.path)
        self.cluster = Cluster(BINARY, MODEL, True)
        self.is_over = threading.Event()

    def tearDown(self):
        del os.environ["KVFERRY_CLUSTER_KEY"]
        self.cluster.stop()
        self.folder.cleanup()

    def make(self, name):
        path = pathlib.Path(self.folder.name, name)
        subprocess.run([BINARY, "key", str(path)], check=True)
        return path.read_text()

    def write(self, text):
        fresh = self.path.with_suffix(".fresh")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.rename(self.path)

    def load(self, number):
        """How many were served; an error ends it."""
        n = 0
        with grpc.insecure_channel(self.cluster.router.ports["grpc"]) as channel:
            stub = generation_pb2_grpc.GenerationServiceStub(channel)
            while not self.is_over.is_set():
                reply = stub.Complete(generation_pb2.CompleteRequest(
                    text=PROMPT, cache_salt=f"{number} {n}", return_timing=True,
                    sampling=sampling_pb2.SamplingParams(max_tokens=4, temperature=0)), timeout=60)
                if reply.timing.kv_tokens_recomputed:
                    raise AssertionError(f"a hand-over failed: {reply.timing}")
                n += 1
        return n

    def wait_until_read(self, n_reads):
        until = time.monotonic() + 30
        for process in self.cluster.processes:
            while process.metric("kvferry_cluster_key_reloads_total") < n_reads:
                self.assertLess(time.monotonic(), until, "the file is not read again")
                time.sleep(0.02)

    def ps(self, key):
        path = pathlib.Path(self.folder.name, "one.key")
        path.write_text(key)
        return subprocess.run(
            [BINARY, "ps", "--server", self.cluster.router.ports["grpc"], "--cluster-key", str(path)],
            capture_output=True, text=True, timeout=60).returncode

    def test_no_request_fails(self):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            loads = [clients.submit(self.load, i) for i in range(CLIENTS)]
            try:
                self.assertEqual((self.ps(self.old), self.ps(self.new)), (0, 1))
                for step, text in enumerate((self.old + self.new, self.new + self.old, self.new), 1):
                    time.sleep(STEP_S)
                    self.write(text)
                    self.wait_until_read(step)
                time.sleep(STEP_S)
            finally:
                self.is_over.set()
            served = [load.result() for load in loads]
        self.assertTrue(all(served), served)
        self.assertEqual((self.ps(self.old), self.ps(self.new)), (1, 0))
        for process in self.cluster.processes:
            refused = process.metric("kvferry_auth_failures_total")
            self.assertLessEqual(refused, 4, "more than ps was refused")
        print(f"{sum(served)} requests served")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
