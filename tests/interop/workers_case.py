"""What tests of a router's workers share: processes, requests, and what is counted of them.

    SCRIPT KVFERRY_BINARY MODEL_FOLDER on|off, of own_network.sh
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Process

BINARY, MODEL, SECCOMP = sys.argv[1:4]
NEW_WITHIN_S, NOT_READY_WITHIN_S, GONE_WITHIN_S = 5, 2, 5
LIMIT_S = 180  # of a request: a dozen long ones at once, with a sanitizer
PROMPT = "Number %d: " + "In the beginning God created the heaven and the earth. " * 4
SERVED = 'code="OK"'


class WorkersCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.processes, self.contexts = [], []
        self.n_asked = 0
        key = pathlib.Path(self.folder.name, "cluster.key")
        subprocess.run([BINARY, "key", str(key)], check=True)
        os.environ["KVFERRY_CLUSTER_KEY"] = str(key)

    def tearDown(self):
        for process in self.processes:
            process.child.kill()
            process.child.wait()
            process.log.close()
        self.folder.cleanup()

    def start(self, name, role, *arguments, wants_ready=True):
        folder = pathlib.Path(self.folder.name, name)
        folder.mkdir()
        process = Process(BINARY, MODEL, folder, role, *arguments, wants_ready=wants_ready)
        self.processes.insert(0, process)
        return process

    def context(self, name, control):
        process = self.start(name, "ctx-worker", "--control-address", control, "--kv-transport", "tls")
        self.contexts.append(process)
        return process

    def log(self, process):
        return pathlib.Path(process.log.name).read_text()

    def generate(self, n_tokens):
        self.n_asked += 1
        words = [BINARY, "generate", "--server", self.router.ports["grpc"], "--max-tokens", str(n_tokens), "--ignore-eos",
                 "--deadline-ms", f"{LIMIT_S}s", PROMPT % self.n_asked]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self, asked):
        return asked.wait(LIMIT_S)

    def ask(self, n=1):
        """Requests with prompts of their own, one after the other, each computed by a context worker."""
        expected = self.served_by_all() + n
        for _ in range(n):
            self.assertEqual(self.end(self.generate(2)), 0, self.log(self.router))
        self.within(5, "the prefills are counted", lambda: self.served_by_all() == expected)

    def served(self, context):
        return context.metric("kvferry_prefills_total", SERVED)

    def served_by_all(self):
        return sum(self.served(context) for context in self.contexts)

    def peers(self, role, state):
        return self.router.metric("kvferry_peers", f'role="{role}",state="{state}"')

    def ps(self):
        """What the router says of each address."""
        done = subprocess.run([BINARY, "ps", "--json", "--server", self.router.ports["control"]], capture_output=True,
                              text=True, timeout=60, check=True)
        return {one["address"]: one for one in json.loads(done.stdout)["processes"][1:]}

    def within(self, limit_s, what, is_so):
        until = time.monotonic() + limit_s
        while not is_so():
            self.assertLess(time.monotonic(), until, f"{what}: not within {limit_s} s\n{self.log(self.router)}")
            time.sleep(0.02)

    def stop(self, process, limit_s):
        begin = time.monotonic()
        self.assertEqual(process.stop(), 0, self.log(process))
        self.assertLess(time.monotonic() - begin, limit_s)
