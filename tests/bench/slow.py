"""The first token of a prompt of 2,048 tokens on a slow machine: a 1.1 B model by two AVX2 cores, or by as many that are loaded,
over a split pair with the limits that nobody has set. Meanwhile every probe must be answered, and the hand-over kept."""

import pathlib
import re
import subprocess
import threading
import time
import urllib.request

from cluster import Cluster

N_TOKENS = 2048
LIMIT_S = 3600
PROBE_S = 0.25
KERNELS = ("--cpu-kernels", "avx2", "--attention-kernels", "avx2")


class Probes(threading.Thread):
    """Asks both workers for /healthz until it is stopped; what was not 200 is counted."""

    def __init__(self, workers):
        super().__init__(daemon=True)
        self.urls = [f"http://{worker.ports['metrics']}/healthz" for worker in workers]
        self.n_asked = self.n_failed = 0
        self.stops = threading.Event()
        self.start()

    def run(self):
        while not self.stops.wait(PROBE_S):
            for url in self.urls:
                self.n_asked += 1
                try:
                    urllib.request.urlopen(url, timeout=10).close()
                except OSError:
                    self.n_failed += 1

    def end(self):
        self.stops.set()
        self.join()


def generate(binary, cluster, folder, n_words):
    """What `generate --verbose` says of a prompt of so many words, by name."""
    prompt = pathlib.Path(folder, "prompt.txt")
    prompt.write_text(" the" * n_words)
    run = subprocess.run(
        [binary, "generate", "--server", cluster.router.ports["grpc"], "--prompt-file", prompt, "--max-tokens", "2",
         "--deadline-ms", str(LIMIT_S * 1000), "--verbose"],
        capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if run.returncode != 0:
        raise SystemExit(f"generate failed:\n{run.stdout}{run.stderr}")
    return dict(re.findall(r"^  (\S.*?)  +(\S.*)$", run.stdout + run.stderr, re.MULTILINE))


def number(text):
    return float(re.search(r"[0-9.]+", text).group())


def measure(binary, model):
    cluster = Cluster(binary, str(model), True, *KERNELS)
    probes = Probes((cluster.context, cluster.generation))
    try:
        began_s = time.monotonic()
        # One token stands before the text; the second that is generated needs the KV.
        said = generate(binary, cluster, cluster.folder.name, N_TOKENS - 1)
        took_s = time.monotonic() - began_s
        probes.end()
        n_steps = cluster.context.metric("kvferry_step_seconds_count", 'phase="context"')
        in_steps_s = cluster.context.metric("kvferry_step_seconds_sum", 'phase="context"')
        found = {
            "n_tokens": number(said["tokens"]),
            "first_token_s": number(said["first token"]) / 1000,
            "total_s": took_s,
            "step_s": in_steps_s / n_steps,
            "n_received": number(said["KV"].split(",")[1]),
            "probes": probes.n_asked,
            "probes_failed": probes.n_failed,
        }
    except BaseException:
        for process in cluster.processes:
            process.child.kill()
        raise
    cluster.stop()
    return found
