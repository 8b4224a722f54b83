"""A router follows the addresses of names: every record is a worker, as long as it is there.

    workers_by_name.py KVFERRY_BINARY MODEL_FOLDER on|off (the router's seccomp filter)

Of own_network.sh, which gives it a network and a resolv.conf of its own. The name server is NameServer's, the
resolver glibc's; workers share a port and differ by address, as pods do.
"""

import subprocess
import sys
import time
import unittest

from name_server import NameServer
from workers_case import BINARY, GONE_WITHIN_S, NEW_WITHIN_S, NOT_READY_WITHIN_S, SECCOMP, WorkersCase

LONG_TOKENS = (300, 500, 700, 900)  # of requests that are always under way


class WorkersByName(WorkersCase):
    def setUp(self):
        super().setUp()
        self.names = NameServer("127.0.0.53")

    def tearDown(self):
        super().tearDown()
        self.names.stop()

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
        # Until the second record has said who it is, it is one more that is not ready.
        self.within(NEW_WITHIN_S, "one process is one worker", lambda: (
            self.peers("gen-worker", "ready"), self.peers("gen-worker", "not_ready")) == (1, 0))
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
        long = [self.generate(n) for n in LONG_TOKENS]
        self.within(20, "they decode", lambda: self.served_by_all() == before + len(long))

        def is_followed():
            """Until then a request that ended has one behind it."""
            n_under_way = sum(one.poll() is None for one in long)
            long.extend(self.generate(LONG_TOKENS[-1]) for _ in range(len(LONG_TOKENS) - n_under_way))
            workers = self.ps()
            self.is_any_under_way = any(one.poll() is None for one in long)
            return used not in workers and workers[self.generation_address]["used"]

        self.names.records["gen.test"] = ["127.0.2.2" if used == "127.0.2.1:7100" else "127.0.2.1"]
        self.generation_address = self.names.records["gen.test"][0] + ":7100"
        self.within(NEW_WITHIN_S, "the other address is used", is_followed)
        self.assertEqual(self.peers("gen-worker", "ready"), 1)
        self.assertTrue(self.is_any_under_way, "some are under way at the address that left")
        # What ask() counts must not be mixed with prefills of those that began last.
        self.within(20, "all have begun", lambda: self.served_by_all() == before + len(long))
        self.ask(2)
        for one in long:
            self.assertEqual(self.end(one), 0)
        self.assertEqual(sum(self.log(self.router).count(f'"generated_tokens":{n},') for n in LONG_TOKENS), len(long))

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
