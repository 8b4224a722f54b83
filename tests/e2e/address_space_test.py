#!/usr/bin/env python3
"""With too little address space for gRPC's threads a client command fails with a sentence; none waits for ever.

address_space_test.py KVFERRY
"""

import resource
import signal
import subprocess
import sys
import unittest

KIB = 1 << 10
LIMITS_KIB = range(30000, 120001, 10000)  # from none of gRPC's threads to all of them; those in which the program is loaded at all
N_LIMITS_MIN = 6
NOBODY = ("--server", "127.0.0.1:9")
COMMANDS = (
    ("generate", *NOBODY, "--deadline-ms", "3s", "In the beginning"),
    ("ps", *NOBODY),
    ("drain", *NOBODY),
)
END_LIMIT_S = 300  # of all together; a command that waits for ever fails the test, not the machine's pace
BINARY = ""


def start(words, limit_kib):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (limit_kib * KIB, limit_kib * KIB))

    return subprocess.Popen(
        [BINARY, *words], preexec_fn=limit, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def is_loaded(limit_kib):
    """How much the libraries take is the distribution's: below it is the loader's sentence, and its status 127."""
    child = start(("version",), limit_kib)
    child.communicate()
    return child.returncode == 0


class AddressSpaceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.limits = [kib for kib in LIMITS_KIB if is_loaded(kib)]
        assert len(cls.limits) >= N_LIMITS_MIN, cls.limits

    def tearDown(self):
        for child in getattr(self, "children", []):
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdout.close()
            child.stderr.close()

    def finish(self, child, what):
        try:
            _, errors = child.communicate(timeout=END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.fail(f"{what}: it does not end")
        return errors

    def test_every_command_ends_with_a_sentence(self):
        started = [(words, kib, start(words, kib)) for words in COMMANDS for kib in self.limits]
        self.children = [child for _, _, child in started]
        for words, kib, child in started:
            what = f"{words[0]} in {kib} KiB"
            errors = self.finish(child, what)
            self.assertEqual(child.returncode, 1, f"{what}: {errors}")
            self.assertIn(f"kvferry {words[0]}: ", errors, what)

    def test_signals_end_it_wherever_it_waits(self):
        words = ("generate", *NOBODY, "--deadline-ms", "1h", "In the beginning")
        started = [(kib, start(words, kib)) for kib in self.limits]
        self.children = [child for _, child in started]
        for kib, child in started:
            while child.poll() is None:  # as a person would, who presses Ctrl-C again
                child.send_signal(signal.SIGTERM)
                try:
                    child.wait(timeout=0.1)
                except subprocess.TimeoutExpired:
                    pass
            self.finish(child, f"generate in {kib} KiB")
            self.assertIn(child.returncode, (1, 128 + signal.SIGTERM, -signal.SIGTERM), f"{kib} KiB")


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
