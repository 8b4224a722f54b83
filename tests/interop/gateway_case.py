"""What tests of gateways share: a cluster whose model has a chat template, and a gateway before its engine port.

    SCRIPT KVFERRY_BINARY MODEL_FOLDER TOOLS_FOLDER
"""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from cluster import Cluster, Process

BINARY, SOURCE_MODEL, TOOLS = sys.argv[1:4]
NAME = "demo"
BOS = "<|begin_of_text|>"
LIMIT_S = 180
LEFT_LIMIT_S = 1  # after a client has left, until nothing is owned
BRIEF = {"frequency_penalty": 2, "max_tokens": 300}  # the demo model repeats blanks, which JSON may have anywhere, without end
WEATHER = {"type": "object", "properties": {"city": {"enum": ["Rome", "Tyre"]}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
           "required": ["city", "days"], "additionalProperties": False}
TOOLS_OFFERED = [{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": WEATHER}}]
STATES = ("active", "pinned", "inbound", "quarantined")


def within(limit_s, what, is_so):
    until = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < until, f"{what}: not within {limit_s} s"
        time.sleep(0.02)


def is_weather(text):
    value = json.loads(text)
    return value["city"] in ("Rome", "Tyre") and 1 <= value["days"] <= 9 and len(value) == 2


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Service:
    """A router with its workers, whose model's folder has a chat template."""

    def __init__(self, *router_arguments):
        self.folder = tempfile.TemporaryDirectory()
        self.model = pathlib.Path(self.folder.name) / NAME
        shutil.copytree(SOURCE_MODEL, self.model, ignore=shutil.ignore_patterns("golden"))
        shutil.copy(pathlib.Path(__file__).with_name("small_chat.jinja"), self.model / "chat_template.jinja")
        arguments = ("--engine-address", "127.0.0.1:0", *router_arguments)
        self.cluster = Cluster(BINARY, str(self.model), True, local_prefill_max_tokens=8, router_arguments=arguments)
        self.engine = self.cluster.router.ports["engine"]
        self.openai = f"http://{self.cluster.router.ports['http']}/v1"

    def owned(self):
        workers = (self.cluster.context, self.cluster.generation)
        return sum(w.metric("kvferry_kv_blocks", f'state="{state}"') for w in workers for state in STATES)

    def crossed(self):
        """Prompts that a context worker has computed."""
        return self.cluster.generation.metric("kvferry_prompts_total", 'place="context_worker"')

    def expect_crossing(self, n, ask):
        """Each of n calls of ask, which gets a number for a prompt of its own, has its KV computed by the context worker."""
        for i in range(n):
            before = self.crossed()
            ask(i)
            assert self.crossed() > before, f"call {i}: no KV has crossed"

    def kill_generation_worker(self):
        worker = self.cluster.generation
        worker.child.send_signal(signal.SIGKILL)
        worker.child.wait()

    def pause_generation_worker(self):
        self.cluster.generation.child.send_signal(signal.SIGSTOP)

    def resume_generation_worker(self):
        self.cluster.generation.child.send_signal(signal.SIGCONT)

    def revive_generation_worker(self):
        old = self.cluster.generation
        new = Process(BINARY, str(self.model), self.folder.name, "gen-worker", "--local-prefill-max-tokens", "8", "--control-address",
                      old.ports["control"])
        self.cluster.processes[self.cluster.processes.index(old)] = self.cluster.generation = new

        def is_seen():
            for process in self.cluster.processes:
                assert process.child.poll() is None, f"it ended:\n{pathlib.Path(process.log.name).read_text()[-4000:]}"
            return self.cluster.router.metric("kvferry_peers", 'state="ready"') == 2

        within(30, "the router sees it", is_seen)

    def text(self, prompt, max_tokens, *flags):
        """What kvferry.v1 answers."""
        done = subprocess.run([BINARY, "generate", "--server", self.cluster.router.ports["grpc"], "--max-tokens", str(max_tokens),
                               "--temperature", "0", *flags, prompt], capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode == 0, done.stderr
        return done.stdout.removesuffix("\n")

    def stop(self):
        within(30, "no block is owned", lambda: self.owned() == 0)
        self.cluster.stop()


class Gateway:
    """A program that takes HTTP at its port and is ready when it lists models."""

    def __init__(self, command, port, log, environment=None):
        self.url = f"http://127.0.0.1:{port}"
        self.log = log
        with open(log, "w") as out:
            self.child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})})

    def wait_ready(self, limit_s=120):
        def is_ready():
            assert self.child.poll() is None, f"the gateway ended:\n{pathlib.Path(self.log).read_text()[-4000:]}"
            try:
                with urllib.request.urlopen(f"{self.url}/v1/models", timeout=5) as reply:
                    return bool(json.load(reply).get("data"))
            except (urllib.error.URLError, OSError, json.JSONDecodeError):
                return False

        within(limit_s, f"the gateway is ready ({self.log})", is_ready)

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
