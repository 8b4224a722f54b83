"""fake_cluster - the control plane of cluster.sh with fake nodes, and a case that counts its checks: cases run beside
each other. Nobody's own helm settings are read."""

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Callable, Collection

import yaml

from kubernetes import Kubernetes

HERE = Path(__file__).resolve().parent
POLL_SECONDS = 0.5


class FakeCluster(Kubernetes):
    """One that is up is used and left; else cluster.sh starts one, and end() ends it. Its folder is $KVK_CACHE, or
    `cluster` below the tools. A command that fails is the caller's to judge."""

    def __init__(self, tools: Path):
        self.folder = Path(os.environ.get("KVK_CACHE") or tools / "cluster").absolute()
        super().__init__(tools, self.folder)
        self.state = self.folder / "state"
        self.is_own = False
        self.listed = ""
        homes = {f"HELM_{kind}_HOME": str(self.state / "helm" / kind.lower()) for kind in ("CONFIG", "CACHE", "DATA")}
        own = {key: value for key, value in self.environment.items() if not key.startswith("HELM_")}
        self.environment = {**own, **homes, "KUBECACHEDIR": str(self.state / "kubectl")}

    def script(self, command: str) -> subprocess.CompletedProcess:
        return subprocess.run([HERE / "cluster.sh", command], stdout=subprocess.DEVNULL, text=True,
                              env={**self.environment, "KVK_CACHE": str(self.folder), "KVK_MODE": "fake"})

    def run(self, *words, **more) -> subprocess.CompletedProcess:
        return super().run(*words, **{"succeeds": False, **more})

    def start(self) -> None:
        if (self.state / "mode").exists():
            mode = (self.state / "mode").read_text().strip()
            if mode != "fake" or self.kubectl("get", "--raw", "/readyz").returncode:
                raise SystemExit(f"{self.state} is of another cluster, or of one that is not well: cluster.sh down")
        else:
            self.is_own = True
            if self.script("up").returncode:
                raise SystemExit("cluster.sh up failed")
        kinds = self.kubectl("api-resources", "--verbs=list", "--namespaced", "-o", "name").stdout.split()
        self.listed = ",".join(kind for kind in kinds if not kind.startswith("events"))

    def end(self) -> None:
        if self.is_own:
            self.script("down")

    def version(self) -> str:
        return json.loads(self.kubectl("get", "--raw", "/version").stdout)["gitVersion"].removeprefix("v")

    def objects(self, namespace: str, kinds: str) -> list[dict]:
        return json.loads(self.kubectl("-n", namespace, "get", kinds, "-o", "json", succeeds=True).stdout)["items"]

    def names(self, namespace: str) -> set[str]:
        """kind.group/name of every object there but events."""
        return set(self.kubectl("-n", namespace, "get", self.listed, "-o", "name").stdout.split())

    def fresh_namespace(self, name: str, profile: str) -> None:
        """Empty, enforcing that profile of Pod Security, and warning of what would not meet it."""
        self.kubectl("delete", "namespace", name, "--ignore-not-found")
        labels = {f"pod-security.kubernetes.io/{mode}": profile for mode in ("enforce", "warn")}
        made = self.kubectl("create", "-f", "-", text=json.dumps(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}))
        if made.returncode or until_well(30, lambda: {"serviceaccount/default"} - self.names(name)):
            raise RuntimeError(f"namespace {name}: {made.stderr}")


def until_well(seconds: float, complaints: Callable[[], Collection[str]]) -> Collection[str]:
    """Asks until there is nothing to complain of; what there still was when time was up."""
    end = time.monotonic() + seconds
    while (found := complaints()) and time.monotonic() < end:
        time.sleep(POLL_SECONDS)
    return found


class Case:
    def __init__(self, cluster: FakeCluster, name: str):
        self.cluster, self.name, self.namespace = cluster, name, f"case-{name}"
        self.passed, self.failures, self.notes = 0, [], []

    def check(self, claim: str, holds: bool, found: object = "") -> bool:
        if holds:
            self.passed += 1
        else:
            self.failures.append(f"{claim}: {found}" if found not in ("", []) else claim)
        return holds

    def must(self, claim: str, holds: bool, found: object = "") -> None:
        """What the rest stands on."""
        if not self.check(claim, holds, found):
            raise Stopped

    def must_do(self, claim: str, done: subprocess.CompletedProcess) -> subprocess.CompletedProcess:
        self.must(claim, done.returncode == 0, (done.stderr or done.stdout).strip()[-600:])
        return done


class Stopped(Exception):
    """The failure has been counted; nothing more of the case can be tried."""


# ---- objects as they were written, and as the server holds them ----

def documents(text: str) -> list[dict]:
    return [item for item in yaml.safe_load_all(text) if item]


def quantity(value: object) -> object:
    """8000 and 8k are one number; what is no quantity stays."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|Ki|Mi|Gi)?", str(value))
    if not match:
        return str(value)
    unit = {None: 1, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}[match[2]]
    return float(match[1]) * unit


def lost(written: object, held: object, path: str = "") -> list[str]:
    """Paths of what was written and is not held, or held otherwise. What the server adds is its own."""
    if written in (None, "", [], {}):
        return []
    if isinstance(written, dict) and isinstance(held, dict):
        return [line for key, value in written.items() for line in lost(value, held.get(key), f"{path}.{key}")]
    if isinstance(written, list) and isinstance(held, list) and len(written) == len(held):
        return [line for n, (one, other) in enumerate(zip(written, held)) for line in lost(one, other, f"{path}[{n}]")]
    return [] if quantity(written) == quantity(held) else [f"{path}: {written} became {held}"]
