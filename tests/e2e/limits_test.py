#!/usr/bin/env python3
"""In a real cgroup: threads and pool follow its limits, and what does not fit is a sentence, not an OOM kill.

limits_test.py KVFERRY MODEL DOUBLE LIBRARY     exit status 77, with a line: this machine lets nobody make a cgroup

DOUBLE is the program that takes a double of NVIDIA's driver, which is in the folder LIBRARY.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from cluster import Process

MIB = 1 << 20
SKIPPED = 77
HOME = pathlib.Path("/sys/fs/cgroup")
BINARY, MODEL, DOUBLE, LIBRARY = "", "", "", ""


def group_of(controller):
    """The folder of this process's group: version 1 where the controller has a hierarchy of its own."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return HOME / controller / path.lstrip("/")
    return HOME / pathlib.Path("/proc/self/cgroup").read_text().split("::")[1].strip().lstrip("/")


def n_cores():
    """Cores of the CPUs that this process may use; all CPUs if the kernel does not say. Of a CPU with efficiency cores, too many."""
    allowed = os.sched_getaffinity(0)
    topology = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    try:
        return len({pathlib.Path(topology.format(cpu)).read_text() for cpu in allowed})
    except OSError:
        return len(allowed)


class Limits:
    """Groups of this process's own with these limits; processes enter them as they start."""

    def __init__(self, memory_mib=None, cpus=None):
        self.groups = []
        rows = []
        is_v2 = (HOME / "cgroup.controllers").exists()
        if memory_mib:
            rows.append(("memory", "memory.max" if is_v2 else "memory.limit_in_bytes", str(memory_mib * MIB)))
        if cpus and is_v2:
            rows.append(("cpu", "cpu.max", f"{int(cpus * 100000)} 100000"))
        elif cpus:
            rows.append(("cpu", "cpu.cfs_quota_us", str(int(cpus * 100000))))
        for controller, name, text in rows:
            group = group_of(controller) / f"kvferry-test-{os.getpid()}"
            group.mkdir(exist_ok=True)
            self.groups.append(group)
            (group / name).write_text(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for group in set(self.groups):
            group.rmdir()

    def enter(self):
        for group in self.groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    def run(self, *words):
        return self.run_program(BINARY, words, os.environ)

    def run_on_gpu(self, *words):
        return self.run_program(DOUBLE, [*words, "--device", "cuda:0"], os.environ | {"LD_LIBRARY_PATH": LIBRARY})

    def run_program(self, program, words, environment):
        return subprocess.run([program, *words], preexec_fn=self.enter, env=environment, capture_output=True, text=True, timeout=120)

    def oom_kills(self):
        for name in ("memory.events", "memory.oom_control"):
            path = self.groups[0] / name
            if path.exists():
                return int(re.search(r"^oom_kill (\d+)", path.read_text(), re.M).group(1))
        raise RuntimeError("nothing counts OOM kills")


class LimitsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def refused(self, ended, part):
        self.assertEqual(ended.returncode, 1, ended.stdout + ended.stderr)
        self.assertIn(part, ended.stdout + ended.stderr)

    def test_threads_are_the_quota_rounded_up(self):
        n_cpus = len(os.sched_getaffinity(0))
        for cpus in (0.5, 1, 1.5):
            with Limits(cpus=cpus) as limits:
                ended = limits.run("ctx-worker", MODEL, "--dry-run")
                self.assertEqual(ended.returncode, 0, ended.stderr)
                threads = min(n_cores(), -int(-cpus // 1))
                self.assertIn(f"threads     {threads} compute; CPU quota {cpus:g} of {n_cpus} CPU", ended.stdout)

    def test_the_pool_is_a_share_of_the_limit(self):
        with Limits(memory_mib=256) as limits:
            ended = limits.run("gen-worker", MODEL, "--dry-run")
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertIn("a share of the memory limit", ended.stdout)
            self.assertIn("under the cgroup's limit of 256.0 MiB", ended.stdout)
            planned = float(re.search(r"pool .* ([\d.]+) MiB", ended.stdout).group(1))
            self.assertTrue(100 < planned < 120, planned)

    def test_the_pool_of_a_start_follows_what_was_measured(self):
        """A larger step takes more memory, and the pool gives way to it."""
        pools = []
        for batch_tokens in (1024, 8192):
            with Limits(memory_mib=256) as limits:
                worker = Process(BINARY, MODEL, self.folder.name, "ctx-worker", "--log-format", "json",
                                 "--prefill-batch-tokens", str(batch_tokens), before=limits.enter)
                worker.stop()
                log = [json.loads(line) for line in pathlib.Path(worker.log.name).read_text().splitlines()]
                memory = next(line for line in log if line["msg"] == "memory after the warm-up")
                left = 256 * MIB - 72 * MIB - memory["process_bytes"] - memory["mapped_weight_bytes"]
                pools.append(next(line for line in log if line["msg"] == "device memory")["kv_bytes"])
                self.assertLessEqual(pools[-1], left * 3 // 4)
                # Beside it are the tables of the prefix cache and its events: 2 MiB, and some hundred bytes for each block of 20 KiB.
                self.assertGreater(pools[-1], (left - 3 * MIB) * 3 // 4 * 60 // 61)
                self.assertGreater(memory["process_bytes"], memory["activation_bytes"])
                self.assertEqual(limits.oom_kills(), 0)
        self.assertGreater(pools[0], pools[1] + 20 * MIB)

    def test_a_worker_has_its_whole_pool_before_it_is_ready(self):
        with Limits(memory_mib=256) as limits:
            worker = Process(BINARY, MODEL, self.folder.name, "ctx-worker", before=limits.enter)
            status = pathlib.Path(f"/proc/{worker.child.pid}/status").read_text()
            resident_kib = int(re.search(r"VmRSS:\s*(\d+)", status).group(1))
            worker.stop()
            self.assertGreater(resident_kib, 110 << 10)
            self.assertEqual(limits.oom_kills(), 0)

    def test_serve_generates_below_its_limit(self):
        """The pools share it; every request of the load touches pages that are there already."""
        with Limits(memory_mib=384, cpus=1.5) as limits:
            server = Process(BINARY, MODEL, self.folder.name, "serve", before=limits.enter)
            for _ in range(4):
                ended = subprocess.run(
                    [BINARY, "generate", "--server", server.ports["grpc"], "--max-tokens", "64", "--ignore-eos",
                     "In the beginning God created the heaven and the earth. " * 12],
                    capture_output=True, text=True, timeout=60)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                self.assertGreater(len(ended.stdout), 32)
            server.stop()
            self.assertEqual(limits.oom_kills(), 0)

    def test_what_does_not_fit_is_said_before_it_is_taken(self):
        with Limits(memory_mib=256) as limits:
            for role in ("ctx-worker", "gen-worker"):
                ports = ("--control-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--metrics-address", "")
                self.refused(limits.run(role, MODEL, *ports, "--kv-memory", "300M"), "no memory for 300.0 MiB of KV blocks")
                self.refused(limits.run(role, MODEL, "--kv-memory", "300M", "--dry-run"), "it needs 4")
            self.assertEqual(limits.oom_kills(), 0)

    def test_memory_for_blocks_that_leave_the_pool_counts(self):
        with Limits(memory_mib=400) as limits:
            for role in ("ctx-worker", "gen-worker"):
                ports = ("--control-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--metrics-address", "")
                for more in (), ("--dry-run",):
                    self.refused(limits.run(role, MODEL, *ports, "--kv-host-memory", "1G", *more), "kv_host_memory is 1073741824 bytes: 1 workers need")
            pools = []
            for size in "0", "100M":
                ended = limits.run("gen-worker", MODEL, "--dry-run", "--kv-host-memory", size)
                self.assertEqual(ended.returncode, 0, ended.stderr)
                pools.append(float(re.search(r"pool .* ([\d.]+) MiB", ended.stdout).group(1)))
            self.assertLess(pools[1], pools[0] - 40)
            self.assertEqual(limits.oom_kills(), 0)

    def test_a_limit_that_leaves_nothing_is_refused(self):
        with Limits(memory_mib=100) as limits:
            self.refused(limits.run("gen-worker", MODEL, "--dry-run"), "leaves nothing for KV blocks")
            self.refused(limits.run("serve", MODEL, "--dry-run"), "(2 workers share it) leaves nothing")
            self.assertEqual(limits.oom_kills(), 0)

    def test_a_limit_has_no_say_in_the_pool_of_a_gpu(self):
        """Which is in the GPU's memory."""
        with Limits(memory_mib=100) as limits:
            self.refused(limits.run("gen-worker", MODEL, "--check-config"), "leaves nothing for KV blocks")
            for role in ("ctx-worker", "gen-worker", "serve"):
                ended = limits.run_on_gpu(role, MODEL, "--check-config")
                self.assertEqual(ended.returncode, 0, ended.stderr)
            self.refused(limits.run_on_gpu("gen-worker", MODEL, "--kv-memory", "1K", "--check-config"),
                         "kv_memory of 1024 bytes makes 0 blocks")


def can_make_groups():
    try:
        with Limits(memory_mib=256, cpus=1) as limits:
            return limits.run("version").returncode == 0
    except (OSError, subprocess.SubprocessError) as why:
        print(f"SKIPPED: no cgroup can be made here ({why}): limits are not tested", file=sys.stderr)
        return False


if __name__ == "__main__":
    BINARY, MODEL, DOUBLE, LIBRARY = sys.argv[1:5]
    if not can_make_groups():
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[5:]])
