"""An honest client's calls beside each attack of tests/abuse/http2.py, and beside a process that burns as much CPU as
the attack took of attacker and router: what is left is what the attack itself does to others."""

import pathlib
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "abuse"))
import crowds  # noqa: E402
import http2  # noqa: E402

SECONDS = 3
ROUNDS = 5
SLICE_S = 0.01
JUDGED = ["unacknowledged", "no_window", "half_open", "reset_streams", "reset_requests", "long_headers"]
CROWDS = ["half_sent", "four_addresses"]  # of crowds.py
NAMES = JUDGED + CROWDS + ["endless_headers", "silent", "pings", "many_settings", "trickle"] + [name for name, *_ in http2.FLOODS]
BURN = """
import sys, time
share, seconds, slice_s = map(float, sys.argv[1:])
end = time.monotonic() + seconds
while time.monotonic() < end:
    until = time.thread_time() + share * slice_s
    began = time.monotonic()
    while time.thread_time() < until:
        pass
    time.sleep(max(0, began + slice_s - time.monotonic()))
"""


def children_cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def burners(share):
    """Processes that burn that many cores together."""
    n = max(1, int(share) + 1)
    words = [sys.executable, "-c", BURN, str(share / n), str(SECONDS), str(SLICE_S)]
    return [subprocess.Popen(words) for _ in range(n)]


def beside(there, children):
    """The 99th percentile of the honest calls in ms while they run, and the CPU of them and the router in s."""
    before, router_before = children_cpu_s(), there.router.cpu_s()
    client = http2.start("honest", there.port, SECONDS)
    for child in children():
        child.communicate()
    used = children_cpu_s() - before + there.router.cpu_s() - router_before
    seen = http2.result_of(client, SECONDS)
    http2.wait_nothing_left(there)
    if seen["failed"] or not seen["calls"]:
        raise SystemExit(f"honest calls failed: {seen}")
    return seen["p99"], used


def start(name, port):
    return (crowds if name in CROWDS else http2).start(name, port, SECONDS)


def measure(binary, model, name):
    """Medians of rounds in turn: p99 in ms beside the attack, beside as much CPU burnt, beside nothing; cores burnt."""
    there = http2.target(binary, model)
    rounds = []
    for _ in range(ROUNDS):
        attacked, attack_cpu_s = beside(there, lambda: [start(name, there.port)])
        quiet, quiet_cpu_s = beside(there, lambda: [subprocess.Popen(["sleep", str(SECONDS)])])
        share = max(0, attack_cpu_s - quiet_cpu_s) / SECONDS
        burnt, _ = beside(there, lambda: burners(share))
        rounds.append((attacked, burnt, quiet, share))
        time.sleep(1)  # budgets are refilled
    return tuple(statistics.median(column) for column in zip(*rounds))
