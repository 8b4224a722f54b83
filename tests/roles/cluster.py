"""Starts roles of kvferry as real processes and reads what they say of themselves."""

import atexit
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.request

START_LIMIT_S = 120
STOP_LIMIT_S = 60
TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Process:
    """One role, started with every port free; its ports come from its ports file."""

    def __init__(self, binary, model, folder, role, *arguments, wants_ready=True, before=None):
        """before: called in the new process before it is the role."""
        self.wants_ready = wants_ready
        self.ports_file = pathlib.Path(folder) / f"{role}.ports"
        self.log = open(pathlib.Path(folder) / f"{role}.log", "w+")
        addresses = ["control", "health", "metrics"] + (["grpc", "http"] if role in ("router", "serve") else [])
        flags = [word for name in addresses for word in (f"--{name}-address", "127.0.0.1:0")]
        self.child = subprocess.Popen(
            [binary, role, model, *flags, "--ports-file", str(self.ports_file), *arguments],
            stdout=self.log,
            stderr=subprocess.STDOUT,
            preexec_fn=before,
        )
        atexit.register(self.child.kill)  # a program that fails leaves nothing running; one that has ended is not killed
        until = time.monotonic() + START_LIMIT_S
        while not self._is_ready():
            if self.child.poll() is not None or time.monotonic() > until:
                self.child.kill()
                self.log.seek(0)
                raise RuntimeError(f"{role} did not start:\n{self.log.read()}")
            time.sleep(0.01)

    def _is_ready(self):
        try:
            self.ports = json.loads(self.ports_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return self.ports["ready"] or not self.wants_ready

    def port(self, name):
        return self.ports[name].rsplit(":", 1)[1]

    def metric(self, name, label=""):
        """The sum of the metric's lines that hold that label."""
        url = f"http://{self.ports['metrics']}/metrics"
        with urllib.request.urlopen(url, timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        values = [
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.split("{")[0].split(" ")[0] == name and label in line
        ]
        if not values:
            raise RuntimeError(f"no metric {name}{{{label}}}")
        return sum(values)

    def resident_mib(self):
        pages = int(pathlib.Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * 4096 / 2**20

    def cpu_s(self):
        words = pathlib.Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(words[11]) + int(words[12])) * TICK_S

    def stop(self):
        """The exit code."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        return self.child.wait(STOP_LIMIT_S)


class Cluster:
    """A router over one generation worker, with (is_split) or without a context worker."""

    def __init__(
        self, binary, model, is_split, *worker_arguments, local_prefill_max_tokens=0, router_arguments=(),
        role_arguments=lambda role: [],
    ):
        self.role_arguments = role_arguments
        self.router_arguments = router_arguments
        self.folder = tempfile.TemporaryDirectory()
        self.processes = []  # the router first: it stops before what it uses
        try:
            self._start(binary, model, is_split, worker_arguments, local_prefill_max_tokens)
        except BaseException:
            for process in self.processes:
                process.child.kill()
            raise

    def _start(self, binary, model, is_split, worker_arguments, local_prefill_max_tokens):
        def start(*words):
            self.processes.insert(
                0, Process(binary, model, self.folder.name, *words, *self.role_arguments(words[0]))
            )
            return self.processes[0]

        self.context = start("ctx-worker", *worker_arguments) if is_split else None
        self.generation = start(
            "gen-worker",
            "--local-prefill-max-tokens",
            str(local_prefill_max_tokens),
            *worker_arguments,
        )
        workers = ["--generation-workers", self.generation.ports["control"]]
        if is_split:
            workers += ["--context-workers", self.context.ports["control"]]
        self.router = start("router", *workers, *self.router_arguments)
        until = time.monotonic() + START_LIMIT_S
        while self.router.metric("kvferry_peers", 'state="ready"') < len(self.processes) - 1:
            if time.monotonic() > until:
                raise RuntimeError("the router does not see its workers")
            time.sleep(0.02)

    def stop(self):
        codes = [process.stop() for process in self.processes]
        if any(codes):
            raise RuntimeError(f"the processes ended with {codes}")
