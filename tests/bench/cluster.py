"""Starts roles of kvferry for benchmarks and reads what they say of themselves."""

import json
import pathlib
import signal
import subprocess
import tempfile
import time
import urllib.request

START_LIMIT_S = 120


class Process:
    def __init__(self, binary, model, folder, name, role, *arguments):
        self.ports_file = pathlib.Path(folder) / f"{name}.ports"
        self.log = open(pathlib.Path(folder) / f"{name}.log", "w+")
        addresses = ["control", "health", "metrics"] + (["grpc"] if role == "router" else [])
        flags = [word for where in addresses for word in (f"--{where}-address", "127.0.0.1:0")]
        self.child = subprocess.Popen(
            [binary, role, model, *flags, "--ports-file", str(self.ports_file), *arguments],
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        until = time.monotonic() + START_LIMIT_S
        while not self._is_ready():
            if self.child.poll() is not None or time.monotonic() > until:
                self.log.seek(0)
                raise SystemExit(f"{name} did not start:\n{self.log.read()}")
            time.sleep(0.01)

    def _is_ready(self):
        try:
            self.ports = json.loads(self.ports_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return False
        return self.ports["ready"]

    def port(self, name):
        return self.ports[name].rsplit(":", 1)[1]

    def metric(self, name, label=""):
        with urllib.request.urlopen(f"http://{self.ports['metrics']}/metrics") as reply:
            lines = reply.read().decode().splitlines()
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in lines
            if line.split("{")[0].split(" ")[0] == name and label in line
        )

    def resident_mib(self):
        pages = int(pathlib.Path(f"/proc/{self.child.pid}/statm").read_text().split()[1])
        return pages * 4096 / 2**20

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        if self.child.wait(60) != 0:
            raise SystemExit(f"a process ended with {self.child.returncode}")


class Cluster:
    """A router over one generation worker, with or without a context worker."""

    def __init__(self, binary, model, is_split, *worker_arguments):
        self.folder = tempfile.TemporaryDirectory()
        start = lambda *words: Process(binary, model, self.folder.name, *words)
        self.context = start("context", "ctx-worker", *worker_arguments) if is_split else None
        self.generation = start(
            "generation", "gen-worker", "--local-prefill-max-tokens", "0", *worker_arguments
        )
        workers = ["--generation-workers", self.generation.ports["control"]]
        if is_split:
            workers += ["--context-workers", self.context.ports["control"]]
        self.router = start("router", "router", *workers)
        self.processes = [self.router, self.generation] + ([self.context] if is_split else [])
        until = time.monotonic() + START_LIMIT_S
        while self.router.metric("kvferry_peers", 'state="ready"') < len(self.processes) - 1:
            if time.monotonic() > until:
                raise SystemExit("the router does not see its workers")
            time.sleep(0.02)

    def stop(self):
        for process in self.processes:
            process.stop()
