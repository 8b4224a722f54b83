"""Pods of a release, as the machine that runs them sees them: this one."""

import json
import os
import pathlib
import signal
import subprocess
import urllib.request

from checks import check

METRICS_LIMIT_S = 5
MEMORY_LEFT = 24 << 20


class Pod:
    def __init__(self, kubernetes, item):
        self.kubernetes = kubernetes
        self.name = item["metadata"]["name"]
        self.namespace = item["metadata"]["namespace"]
        self.uid = item["metadata"]["uid"]
        self.ip = item["status"].get("podIP")
        self.is_ending = "deletionTimestamp" in item["metadata"]

    def _item(self):
        done = self.kubernetes.kubectl("-n", self.namespace, "get", "pod", self.name, "-o", "json", succeeds=False)
        item = json.loads(done.stdout) if done.returncode == 0 else None
        return item if item and item["metadata"]["uid"] == self.uid else None

    def _container(self):
        item = self._item()
        return item["status"].get("containerStatuses", [{}])[0] if item else {}

    def exists(self):
        return self._item() is not None

    def is_ready(self):
        return self._container().get("ready", False)

    def n_restarts(self):
        return self._container().get("restartCount", 0)

    def image(self):
        return self._item()["spec"]["containers"][0]["image"]

    def last_end(self):
        """OOMKilled, Error, ...: why its container ended the last time."""
        return self._container().get("lastState", {}).get("terminated", {}).get("reason")

    def metric(self, name, labels=""):
        """0 where there is no such line. RuntimeError: there is no answer."""
        url = f"http://{self.ip}:9400/metrics"
        with urllib.request.urlopen(url, timeout=METRICS_LIMIT_S) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines
                   if line.startswith((f"{name}{{", f"{name} ")) and labels in line)

    def pid(self):
        """Of the program, in the machine's numbers."""
        container = self._container()["containerID"].rpartition("/")[2]
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if container in (folder / "cgroup").read_text():
                    return int(folder.name)
            except OSError:
                pass
        raise RuntimeError(f"{self.name} has no process")

    def kill(self):
        os.kill(self.pid(), signal.SIGKILL)

    def evict(self):
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": self.name, "namespace": self.namespace}}
        self.kubernetes.kubectl("create", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/{self.name}/eviction",
                                "-f", "-", text=json.dumps(body))

    def memory_folder(self):
        for line in pathlib.Path(f"/proc/{self.pid()}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "memory":
                return pathlib.Path("/sys/fs/cgroup/memory") / path.lstrip("/")
        raise RuntimeError("no memory cgroup")

    def use_up_memory(self):
        """A little more than it has is all that it may have, and then a process in its cgroup fills its /dev/shm. What the
        kernel did: its log's line about the program, which it has ended; "" when it has not."""
        folder, pid = self.memory_folder(), self.pid()
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        (folder / "memory.limit_in_bytes").write_text(str(int(stat["rss"]) + int(stat["shmem"]) + MEMORY_LEFT))
        script = 'echo $$ > "$1/cgroup.procs"; exec dd if=/dev/zero of="$2/filler" bs=1M count=64'
        shared = pathlib.Path("/proc", str(pid), "root", "dev/shm")
        subprocess.run(["bash", "-c", script, "bash", str(folder), str(shared)], capture_output=True, timeout=60)
        said = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
        return next((line for line in said.splitlines() if f"Killed process {pid} " in line), "")


def of_role(kubernetes, namespace, role):
    found = kubernetes.get("-n", namespace, "pods", "-l", f"app.kubernetes.io/component={role}")["items"]
    return [Pod(kubernetes, item) for item in found if item["status"].get("phase") in ("Running", "Pending")]


def check_confinement(pod):
    """What the program got of what the restricted profile promises."""
    status = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pod.pid()}/status").read_text().splitlines()
                  if ":\t" in line)
    check(f"{pod.name}: runs as 65532", status["Uid"].split()[0] == "65532", status["Uid"])
    check(f"{pod.name}: no capability", int(status["CapEff"], 16) == 0, status["CapEff"])
    check(f"{pod.name}: no new privileges", status["NoNewPrivs"] == "1")
    check(f"{pod.name}: seccomp filters", status["Seccomp"] == "2", status["Seccomp"])
    root = [line.split() for line in pathlib.Path(f"/proc/{pod.pid()}/mountinfo").read_text().splitlines()
            if line.split()[4] == "/"]
    check(f"{pod.name}: read-only root", "ro" in root[0][5].split(","), root)
