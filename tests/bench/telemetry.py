"""What watching costs: whole generations at clusters side by side, in turn, one of which nobody watches."""

import contextlib
import pathlib
import statistics
import subprocess
import threading
import time
import urllib.request

from cluster import Cluster

SECONDS = 2
SCRAPE_EVERY_S = 1
TRACE_RATIO = "0.01"
EXPORTED, DROPPED = "kvferry_trace_spans_exported_total", "kvferry_trace_spans_dropped_total"
LINES = ("request done", "decode done", "prefill done")
# Name -> what watches: scrapes, access lines, traces.
ALONE = {"scraped": (True, False, False), "access log": (False, True, False), "traced": (False, False, True)}
WATCHED = {"nothing": (False, False, False), "all": (True, True, True)}
# Name -> requests at a time, tokens of each.
LOADS = {"busy": (8, 16), "one by one": (1, 2)}


class CollectorProcess:
    """tests/roles/collector.py, by the Python that has grpcio."""

    def __init__(self, python):
        program = pathlib.Path(__file__).resolve().parent.parent / "roles" / "collector.py"
        self.child = subprocess.Popen([python, "-B", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        word, _, address = self.child.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise RuntimeError("the collector did not start")
        self.address = address

    def stop(self):
        """The number of spans that it took."""
        n_spans, _ = self.child.communicate()
        return int(n_spans)


class Target:
    """A split cluster that is watched in some ways."""

    def __init__(self, binary, model, collector, is_scraped, has_log, is_traced):
        self.is_scraped, self.has_log, self.is_traced = is_scraped, has_log, is_traced
        words = () if has_log else ("--no-access-log",)
        if is_traced:
            words += ("--otlp-endpoint", collector.address, "--trace-ratio", TRACE_RATIO)
        self.cluster = Cluster(binary, model, True, "--threads", "1", *words, router_arguments=words)
        self.n_scrapes, self.n_calls = 0, 0

    def cpu_s(self):
        return sum(process.cpu_s() for process in self.cluster.processes)

    def run(self, call, n_at_once, n_tokens):
        """Figures of some seconds of load. call: rpc_bench's, with those arguments."""
        with self.scrapes():
            before = self.cpu_s()
            figures = call(self.cluster.router.ports["grpc"], str(SECONDS), str(n_at_once), "--json",
                           "--generate", str(n_tokens))
            used = self.cpu_s() - before
        self.n_calls += figures["calls"]
        return figures | {"cpu_us": used / figures["calls"] * 1e6}

    @contextlib.contextmanager
    def scrapes(self):
        """Reads the metrics of all three every so often."""
        is_over = threading.Event()

        def scrape():
            wait_s = SCRAPE_EVERY_S / 2
            while not is_over.wait(wait_s):
                began = time.monotonic()
                for process in self.cluster.processes:
                    with urllib.request.urlopen(f"http://{process.ports['metrics']}/metrics", timeout=10) as reply:
                        self.n_scrapes += b"kvferry_" in reply.read()
                wait_s = SCRAPE_EVERY_S - (time.monotonic() - began)

        thread = threading.Thread(target=scrape)
        if self.is_scraped:
            thread.start()
        yield
        is_over.set()
        if self.is_scraped:
            thread.join()

    def stop(self):
        """Ends it; an error when it was not watched as it should have been."""
        n_dropped = sum(process.metric(DROPPED) for process in self.cluster.processes)
        self.cluster.stop()
        logs = [pathlib.Path(process.log.name).read_text() for process in self.cluster.processes]
        n_lines = sum(text.count(f'"{line}"') for text in logs for line in LINES)
        wanted_lines = len(LINES) * self.n_calls if self.has_log else 0
        if n_lines != wanted_lines or (self.n_scrapes > 0) != self.is_scraped or n_dropped > 0:
            raise SystemExit(f"lines {n_lines} of {wanted_lines}, scrapes {self.n_scrapes}, spans dropped {n_dropped}")


def measure(binary, model, python, call, is_quick):
    """load -> name -> figures: medians, and medians over rounds of what each has against nothing's of the same round."""
    names = WATCHED if is_quick else WATCHED | ALONE
    collector = CollectorProcess(python)
    targets = {name: Target(binary, model, collector, *how) for name, how in names.items()}
    found = {load: summary(rounds_of(targets, call, *how, 10 if is_quick else 30)) for load, how in LOADS.items()}
    for target in targets.values():
        target.stop()
    found["spans"] = collector.stop()
    if found["spans"] == 0:
        raise SystemExit("no span came to the collector")
    return found


def rounds_of(targets, call, n_at_once, n_tokens, n_rounds):
    """Each round: name -> figures. Who comes first changes."""
    rounds = []
    for target in targets.values():
        target.run(call, n_at_once, n_tokens)  # connections, pages, caches
    for i in range(n_rounds):
        order = list(targets.items())
        rounds.append({name: target.run(call, n_at_once, n_tokens) for name, target in order[:: -1 if i % 2 else 1]})
    return rounds


def summary(rounds):
    def median(of):
        return statistics.median(of(one) for one in rounds)

    found = {}
    for name in rounds[0]:
        found[name] = {key: median(lambda one: one[name][key]) for key in rounds[0][name]}
        found[name] |= {
            "throughput_ratio": median(lambda one: one[name]["calls_per_s"] / one["nothing"]["calls_per_s"]),
            "cpu_ratio": median(lambda one: one[name]["cpu_us"] / one["nothing"]["cpu_us"]),
            "cpu_more_us": median(lambda one: one[name]["cpu_us"] - one["nothing"]["cpu_us"]),
            "first_more_us": median(lambda one: one[name]["first_p50_us"] - one["nothing"]["first_p50_us"]),
        }
    return found
