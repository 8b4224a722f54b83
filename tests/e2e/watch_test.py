"""`ps --watch` draws again and again until its user ends it, and gives the terminal back; `trace` writes what Perfetto reads.

    watch_test.py KVFERRY MODEL_FOLDER
"""

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from cluster import Cluster

BINARY, MODEL = sys.argv[1:3]
LIMIT_S = 120
PROMPT = "In the beginning God created the heaven and the earth. " * 12


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 70, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.child = subprocess.Popen([BINARY, *arguments], stdin=slave, stdout=slave, stderr=slave,
                                      env={**os.environ, "TERM": "xterm"}, start_new_session=True)
        self.slave, self.text = slave, b""

    def wait(self, text):
        until = time.monotonic() + LIMIT_S
        while text not in self.text:
            if time.monotonic() > until:
                raise RuntimeError(f"no {text} in {self.text}")
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536)

    def more(self):
        if not select.select([self.master], [], [], LIMIT_S)[0]:
            raise RuntimeError(f"nothing after {self.text}")
        self.text += os.read(self.master, 65536)

    def end(self):
        """The exit status, when all that it wrote has been read."""
        while self.child.poll() is None or select.select([self.master], [], [], 0)[0]:
            if select.select([self.master], [], [], 0.1)[0]:
                self.text += os.read(self.master, 65536)
        return self.child.wait(LIMIT_S)

    def is_as_before(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        os.close(self.master)
        os.close(self.slave)


class Watch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BINARY, MODEL, True)
        cls.server = ["--server", cls.cluster.router.ports["grpc"]]

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        for process in cls.cluster.processes:
            process.log.close()
        cls.cluster.folder.cleanup()

    def test_on_a_terminal_q_ends_it(self):
        terminal = Terminal("ps", *self.server, "--watch", "--watch-ms", "100")
        self.addCleanup(terminal.close)
        terminal.wait(b"ctx-worker")
        self.assertFalse(terminal.is_as_before(), "keys come at once")
        self.assertTrue(terminal.text.startswith(b"\x1b[?1049h\x1b[?25l"))
        seen = len(terminal.text)
        while terminal.text.count(b"\x1b[H") < 3:
            terminal.more()
        self.assertGreater(len(terminal.text), seen)
        self.assertNotIn(b"\x1b[2J", terminal.text, "nothing flickers")
        os.write(terminal.master, b"xq")
        self.assertEqual(terminal.end(), 0)
        self.assertTrue(terminal.text.endswith(b"\x1b[?25h\x1b[?1049l"))
        self.assertTrue(terminal.is_as_before())

    def test_a_signal_gives_the_terminal_back(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            terminal = Terminal("ps", *self.server, "--watch")
            self.addCleanup(terminal.close)
            terminal.wait(b"ctx-worker")
            terminal.child.send_signal(number)
            self.assertEqual(terminal.end(), status)
            self.assertTrue(terminal.text.endswith(b"\x1b[?25h\x1b[?1049l"))
            self.assertTrue(terminal.is_as_before())

    def test_a_window_bounds_what_is_drawn(self):
        terminal = Terminal("ps", *self.server, "--watch")
        self.addCleanup(terminal.close)
        terminal.wait(b"\x1b[J")
        frame = terminal.text.split(b"\x1b[H", 1)[1].split(b"\x1b[J")[0]
        lines = [line.rstrip("\r") for line in frame.decode().split("\n")]
        self.assertLessEqual(len(lines), 12)
        self.assertLessEqual(max(len(line.replace("\x1b[K", "")) for line in lines), 70)
        terminal.child.terminate()
        terminal.end()

    def test_in_a_pipe_it_repeats_plain_text_or_json(self):
        for flags in ([], ["--json"]):
            child = subprocess.Popen([BINARY, "ps", *self.server, "--watch", "--watch-ms", "100", *flags],
                                     stdout=subprocess.PIPE, text=True)
            lines = []
            while sum("ctx-worker" in line for line in lines) < 3:
                lines.append(child.stdout.readline())
            child.send_signal(signal.SIGINT)
            self.assertEqual(child.wait(LIMIT_S), 130)
            child.stdout.close()
            self.assertNotIn("\x1b", "".join(lines))
            if flags:
                for line in lines:
                    self.assertEqual(len(json.loads(line)["processes"]), 3)

    def test_when_its_reader_leaves_it_ends(self):
        child = subprocess.Popen([BINARY, "ps", *self.server, "--watch", "--watch-ms", "100"], stdout=subprocess.PIPE)
        child.stdout.readline()
        child.stdout.close()
        self.assertEqual(child.wait(LIMIT_S), 141)

    def test_a_server_that_goes_is_told_and_one_that_never_was_is_an_error(self):
        cluster = Cluster(BINARY, MODEL, False)
        child = subprocess.Popen([BINARY, "ps", "--server", cluster.router.ports["grpc"], "--watch", "--watch-ms", "100",
                                  "--deadline-ms", "500"], stdout=subprocess.PIPE, text=True)
        self.assertIn("ROLE", child.stdout.readline())
        cluster.stop()
        while "no answer" not in child.stdout.readline():
            pass
        child.terminate()
        child.wait(LIMIT_S)
        child.stdout.close()
        never = subprocess.run([BINARY, "ps", "--server", cluster.router.ports["grpc"], "--watch"], capture_output=True,
                               text=True, timeout=LIMIT_S)
        self.assertEqual(never.returncode, 1)
        self.assertNotEqual(never.stderr, "")
        for process in cluster.processes:
            process.log.close()
        cluster.folder.cleanup()

    def test_a_trace_has_a_track_for_each_process(self):
        path = pathlib.Path(self.cluster.folder.name) / "trace.json"
        done = subprocess.run([BINARY, "trace", *self.server, "--max-tokens", "8", "--temperature", "0", "--ignore-eos",
                               "--out", path, PROMPT], capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"wrote {path}", done.stderr)
        self.assertNotEqual(done.stdout, "")
        trace = json.loads(path.read_text())
        names = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        stages = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
        context = self.cluster.context.ports["control"]
        self.assertEqual(names[stages["prefill"]["pid"]], f"context worker {context}")
        self.assertTrue(names[stages["decode"]["pid"]].startswith("generation worker "))
        self.assertTrue(names[stages["transfer"]["pid"]].startswith("KV transfer "))
        self.assertGreater(stages["transfer"]["args"]["kv_bytes"], 0)
        end = stages["prefill"]["ts"] + stages["prefill"]["dur"]
        self.assertEqual(end, stages["decode"]["ts"])
        self.assertNotIn("beginning", path.read_text())

    def test_a_trace_that_cannot_be_written_is_an_error(self):
        done = subprocess.run([BINARY, "trace", *self.server, "--max-tokens", "1", "--out", "/no/such/folder/t.json", "In"],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn('out "/no/such/folder/t.json": No such file or directory', done.stderr)


if __name__ == "__main__":
    del sys.argv[1:3]
    unittest.main()
