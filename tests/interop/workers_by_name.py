"""A router follows the addresses of names: every record is a worker, as long as it is there.

    workers_by_name.py KVFERRY_BINARY MODEL_FOLDER on|off (the router's seccomp filter)

Of workers_by_name.sh, which gives it a network and a resolv.conf of its own. The name server is NameServer's, the
resolver glibc's; workers share a port and differ by address, as pods do.
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
from name_server import NameServer

BINARY, MODEL, SECCOMP = sys.argv[1:4]
NEW_WITHIN_S, NOT_READY_WITHIN_S, GONE_WITHIN_S = 5, 2, 5
PROMPT = "Number %d: " + "In the beginning God created the heaven and the earth. " * 4
LONG_TOKENS = 1900  # with the prompt, all that the model takes
SERVED = 'result="ok"'


class WorkersByName(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.processes, self.contexts = [], []
        self.n_asked = 0
        key = pathlib.Path(self.folder.name, "cluster.key")
        subprocess.run([BINARY, "key", str(key)], check=True)
        os.environ["KVFERRY_CLUSTER_KEY"] = str(key)
        self.names = NameServer("127.0.0.53")

    def tearDown(self):
        for process in self.processes:
            process.child.kill()
            process.child.wait()
            process.log.close()
        self.names.stop()
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
                 "--deadline-ms", "60s", PROMPT % self.n_asked]
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self, asked):
        return asked.wait(60)

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

    def test_all(self):
        self.names_that_do_not_exist_yet_are_waited_for()
        self.every_record_is_a_worker()
        self.a_new_record_gets_requests()
        self.a_record_that_is_gone_gets_none()
        self.one_that_drains_gets_none()
        self.the_other_address_of_a_process_takes_its_place()
        self.without_a_name_server_nothing_changes()
        self.a_resolver_that_hangs_keeps_nobody()

    def names_that_do_not_exist_yet_are_waited_for(self):
        self.router = self.start(
            "router", "router", "--context-workers", "ctx.test:7000", "--generation-workers", "gen.test:7100",
            "--log-level", "debug", "--seccomp", SECCOMP, wants_ready=False)
        self.one = self.context("one", "127.0.1.1:7000")
        self.two = self.context("two", "127.0.1.2:7000")
        # There is no other interface than lo, so that nobody could be told where it is.
        with self.assertRaisesRegex(RuntimeError, "set advertise_address"):
            self.start("nowhere", "gen-worker", "--control-address", "0.0.0.0:7100", "--insecure")
        # One process behind two records.
        self.generation = self.start("gen", "gen-worker", "--control-address", "0.0.0.0:7100", "--insecure",
                                     "--advertise-address", "gen.test", "--local-prefill-max-tokens", "0")
        self.assertEqual(self.generation.ports["control"], "gen.test:7100")
        self.assertEqual(self.ps(), {})
        self.names.records["ctx.test"] = ["127.0.1.1", "127.0.1.2"]
        self.names.records["gen.test"] = ["127.0.2.1", "127.0.2.2"]
        self.within(NEW_WITHIN_S, "two context workers", lambda: self.peers("ctx-worker", "ready") == 2)
        self.within(NEW_WITHIN_S, "a generation worker", lambda: self.peers("gen-worker", "ready") == 1)
        self.assertEqual(self.peers("gen-worker", "not_ready"), 0, "one process is one worker")
        reasons = sorted(one["unused_reason"] for one in self.ps().values())
        self.assertEqual(reasons[:3], ["", "", ""])
        self.assertRegex(reasons[3], "^is 127.0.2.[12]:7100 too$")

    def every_record_is_a_worker(self):
        self.ask(12)
        for context in (self.one, self.two):
            self.assertGreaterEqual(self.served(context), 4, "both take their part")

    def a_new_record_gets_requests(self):
        self.three = self.context("three", "[::1]:7000")
        self.names.records["ctx.test"] = ["127.0.1.1", "127.0.1.2", "::1"]
        begin = time.monotonic()
        while self.served(self.three) == 0:
            self.ask()
            self.assertLess(time.monotonic() - begin, NEW_WITHIN_S, self.log(self.router))
        self.assertIn("[::1]:7000", self.ps())

    def a_record_that_is_gone_gets_none(self):
        self.names.records["ctx.test"] = ["127.0.1.2", "::1"]
        self.within(GONE_WITHIN_S, "it leaves", lambda: self.peers("ctx-worker", "ready") == 2)
        self.assertNotIn("127.0.1.1:7000", self.ps())
        self.assertEqual(self.peers("ctx-worker", "not_ready"), 0)
        before = self.served(self.one)
        self.ask(6)
        self.assertEqual(self.served(self.one), before)
        self.assertEqual(self.log(self.router).count("ctx-worker 127.0.1.1:7000 left"), 1)

    def one_that_drains_gets_none(self):
        subprocess.run([BINARY, "drain", "--server", self.two.ports["control"]], check=True, capture_output=True)
        self.within(NOT_READY_WITHIN_S, "it is not ready", lambda: self.peers("ctx-worker", "ready") == 1)
        before = self.served(self.two), self.served(self.three)
        self.ask(4)
        self.assertEqual((self.served(self.two), self.served(self.three)), (before[0], before[1] + 4))
        self.assertIn("127.0.1.2:7000", self.ps(), "its record is there")

    def the_other_address_of_a_process_takes_its_place(self):
        [used] = [address for address, one in self.ps().items() if one["role"] == "gen-worker" and one["used"]]
        before = self.served_by_all()
        long = [self.generate(LONG_TOKENS) for _ in range(12)]
        self.within(20, "they decode", lambda: self.served_by_all() == before + len(long))
        self.names.records["gen.test"] = ["127.0.2.2" if used == "127.0.2.1:7100" else "127.0.2.1"]
        self.generation_address = self.names.records["gen.test"][0] + ":7100"
        self.within(NEW_WITHIN_S, "the other address is used",
                    lambda: used not in self.ps() and self.ps()[self.generation_address]["used"])
        self.assertEqual(self.peers("gen-worker", "ready"), 1)
        self.assertIn(None, [one.poll() for one in long], "some are under way at the address that left")
        self.ask(2)
        for one in long:
            self.assertEqual(self.end(one), 0)
        self.assertEqual(self.log(self.router).count(f"generated {LONG_TOKENS} "), len(long))

    def without_a_name_server_nothing_changes(self):
        self.names.stop()
        self.within(10, "it says so", lambda: "name ctx.test cannot be resolved" in self.log(self.router))
        before = self.served(self.three)
        self.ask(4)
        self.assertEqual(self.served(self.three), before + 4)
        self.assertEqual(set(self.ps()), {"127.0.1.2:7000", "[::1]:7000", self.generation_address})
        self.names.records["ctx.test"] = ["127.0.1.1"]
        self.names.start()
        self.within(NEW_WITHIN_S, "it is followed again",
                    lambda: [one["address"] for one in self.ps().values() if one["role"] == "ctx-worker" and one["used"]]
                    == ["127.0.1.1:7000"])
        before = self.served(self.one)
        self.ask(2)
        self.assertEqual(self.served(self.one), before + 2)

    def a_resolver_that_hangs_keeps_nobody(self):
        self.names.is_mute = True
        before = self.names.n_questions
        self.within(10, "it is asked", lambda: self.names.n_questions > before + 1)
        self.ask()
        self.stop(self.router, 5)
        for process in (self.generation, self.one, self.two, self.three):
            self.stop(process, 20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
