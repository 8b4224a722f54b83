#!/usr/bin/env python3
"""Each call of the driver, and of cuBLASLt, that a worker makes, from its start to its end, fails once: a sentence and status 1, or it serves.

    double_calls_test.py DOUBLE KVFERRY MODEL FOLDER [RUNS]

DOUBLE: the program with the double's modules; FOLDER: where the double lies. A run is a worker on the double whose nth call fails
with 2 (no memory: it may pass) or 719 (the device is lost), a router, a generation worker on the CPU that is well, and requests. The worker is refused at its start, ends as lost or goes on; a request has the tokens of a run without failures, or one
typed end with the first of them; nothing hangs. RUNS: so many, spread over the calls; otherwise all of them: of start and end,
whose code is common to both roles, by one of them; of what serves, by both. And over cuda-ipc, beside a context worker on the double that is
well: the calls that only it makes, by name; with RUNS each once. And with --device-math fast: each call of cuBLASLt by name, the first
of its start, of what serves and of its end; without RUNS also the last. Python 3, standard library only.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from typing import NamedTuple

DOUBLE, KVFERRY, MODEL, LIBRARY = sys.argv[1:5]
RUNS = int(sys.argv[5]) if len(sys.argv) > 5 else 0
LIMIT_S = 60
DOUBLE_SETTINGS = {"DOUBLE_LOG": "1"}
LOST, REPORTED, LANES = 1, 97, 2
CODES = (719, 2)
ROLES = ("gen-worker", "ctx-worker")
FLAGS = ["--kv-memory", "2M", "--max-context-tokens", "64", "--threads", "1", "--no-prefix-cache"]
GPU = [*FLAGS, "--device", "cuda:0"]
IPC = [*GPU, "--kv-transport", "cuda-ipc"]
FAST = [*GPU, "--device-math", "fast", "--prefill-batch-tokens", "16", "--prefill-chunk-tokens", "16"]
FEW = {"gen-worker": ["--sequences-max", "2"], "ctx-worker": []}
TAKES = ["--local-prefill-max-tokens", "0"]
CPU = [*FLAGS, "--allow-numerics", "any", *TAKES]
# Tokens of which the CPU's and a GPU's are the same: tests/simt/model/margin_test.c.
REQUEST = ["--temperature", "0", "--max-tokens", "2", "--deadline-ms", "40s"]
PROMPT, SHORTER = "Thus saith the LORD of", "Thus saith the LORD"  # of 8 tokens, and of 7: no number that is planned
TYPED = re.compile(r"\b(DEVICE_LOST|PEER_LOST|STALE_PEER|NO_BLOCKS|NO_GENERATION_WORKER): ")
# What a device is closed with: where one of these fails, what it should have given back is left.
DESTROYS = re.compile(r"cu\w*(Destroy|Free|FreeHost|Release|Unload|CloseMemHandle)$|cuCtxSetCurrent$|cuStreamSynchronize$")
# What cuBLASLt answers where it does not compute a product, or not so; and a failure.
NOT_SUPPORTED, INTERNAL_ERROR = 15, 14
ANSWERS = re.compile(r"cublasLtMatmulAlgo(GetHeuristic|Check)$")
# Role, call, how often: what is made over cuda-ipc alone.
IPC_CALLS = (("ctx-worker", "cuIpcGetMemHandle", 1), ("gen-worker", "cuIpcOpenMemHandle", 1),
             ("gen-worker", "cuMemGetAddressRange", 1), ("gen-worker", "cuMemcpyDtoDAsync", 1),
             ("gen-worker", "cuMemcpyDtoDAsync", 2), ("gen-worker", "cuIpcCloseMemHandle", 1))


class Fault(NamedTuple):
    role: str
    nth: int
    code: int
    is_asked: bool = True  # there are requests between its start and its end
    call: str = "*"  # of that name alone
    flags: list[str] = GPU
    text: str = ""  # of a request that nothing fails: of SHORTER


class Calls(NamedTuple):
    """Of a worker of which nothing fails: how many until it is ready, has served, has ended."""
    ready: int
    served: int
    ended: int


class Worker:
    """A role with every port free, or a port of its own; its log, its end."""

    def __init__(self, folder: str, role: str, *words: str, program: str = DOUBLE, fail: str = ""):
        base = pathlib.Path(folder) / f"{role}-{time.monotonic_ns()}"
        self.ports_file, self.log_file = base.with_suffix(".ports"), base.with_suffix(".log")
        names = ["control", "health", "metrics"] + (["grpc"] if role == "router" else [])
        flags = [word for name in names for word in (f"--{name}-address", "127.0.0.1:0")]
        settings = {k: v for k, v in os.environ.items() if not k.startswith("DOUBLE_")}
        settings["ASAN_OPTIONS"] = "detect_leaks=0"  # a device that was lost is not asked to give anything back
        settings |= {"LD_LIBRARY_PATH": LIBRARY} | DOUBLE_SETTINGS
        settings |= {"DOUBLE_FAIL": fail} if fail else {}
        with open(self.log_file, "w") as log:
            self.child = subprocess.Popen(
                [program, role, MODEL, *flags, "--ports-file", str(self.ports_file), *words],
                env=settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_ready(self) -> bool:
        """False: it has ended instead."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            try:
                self.ports = json.loads(self.ports_file.read_text())
                if self.ports["ready"]:
                    return True
            except (FileNotFoundError, json.JSONDecodeError):
                pass
            if self.child.poll() is not None:
                return False
            time.sleep(0.01)
        self.kill()
        raise RuntimeError(f"neither ready nor ended in {LIMIT_S} s")

    def stop(self) -> int:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"it did not end in {LIMIT_S} s") from None

    def kill(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()

    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def n_calls(self) -> int:
        return len(re.findall(r"^cuda-double: \w+ -> \d+$", self.log(), re.M))

    def library_calls(self) -> Counter[str]:
        return Counter(re.findall(r"^cublaslt-double: (\w+) -> \d+$", self.log(), re.M))


def ask(router: Worker, n: int, prompt: str) -> list[tuple[int, str, str]]:
    """(status, text, sentence) of so many requests at once."""
    clients = [subprocess.Popen([KVFERRY, "generate", "--server", router.ports["grpc"], *REQUEST, prompt], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(n)]
    ends = []
    for client in clients:
        try:
            text, sentence = client.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            for other in clients:
                other.kill()
            raise RuntimeError("a request hangs") from None
        ends.append((client.returncode, text, sentence))
    return ends


class Lane:
    """A generation worker that is well, which runs beside one fault after the other."""

    def __init__(self, folder: str):
        self.folder = folder
        self.well = Worker(folder, "gen-worker", *CPU, program=KVFERRY)
        if not self.well.wait_ready():
            raise RuntimeError(self.well.log())

    def router(self, victim: Worker, role: str, owner: Worker | None) -> Worker:
        """Sees both, and owner; of two generation workers each is to have a request."""
        control = self.well.ports["control"]
        context = victim if role == "ctx-worker" else owner
        words = ["--context-workers", context.ports["control"]] if context else []
        generations = control if role == "ctx-worker" else f"{victim.ports['control']},{control}"
        router = Worker(self.folder, "router", "--generation-workers", generations, *words, program=KVFERRY)
        if not router.wait_ready():
            raise RuntimeError(router.log())
        return router

    def serve(self, victim: Worker, role: str, owner: Worker | None = None, prompt: str = PROMPT) -> list[tuple[int, str, str]]:
        router = self.router(victim, role, owner)
        try:
            return ask(router, 2 if role == "gen-worker" else 1, prompt)
        finally:
            router.kill()

    def measure(self, role: str) -> tuple[Calls, str]:
        """Also the text."""
        victim = Worker(self.folder, role, *GPU)
        if not victim.wait_ready():
            raise RuntimeError(victim.log())
        ready = victim.n_calls()
        ends = self.serve(victim, role)
        served = victim.n_calls()
        status = victim.stop()
        texts = {text for _, text, _ in ends}
        if status or len(texts) != 1 or any(code for code, _, _ in ends) or served - ready < 40:
            raise RuntimeError(f"{role}: status {status}, {served - ready} calls, {ends}\n{victim.log()}")
        return Calls(ready, served, victim.n_calls()), texts.pop()

    def list_fast(self, role: str) -> list[Fault]:
        """Of the library's calls."""
        victim = Worker(self.folder, role, *FAST, *FEW[role])
        if not victim.wait_ready():
            raise RuntimeError(victim.log())
        ready = victim.library_calls()
        ends = self.serve(victim, role, prompt=SHORTER)
        served = victim.library_calls()
        status = victim.stop()
        ended = victim.library_calls()
        expected = ends[0][1]
        if status or judge_ends(ends, role, expected) or not any(map(ANSWERS.match, served - ready)):
            raise RuntimeError(f"{role}: status {status}, {ends}, {served - ready}: {tail(victim.log())}")
        faults = []
        for name in ended:
            bounds = [(ready[name] + 1, served[name])]
            bounds += [(1, ready[name]), (served[name] + 1, ended[name])] if role == "gen-worker" else []
            for first, last in (b for b in bounds if b[0] <= b[1]):
                nths = [first] if RUNS else sorted({first, last})
                codes = (INTERNAL_ERROR, NOT_SUPPORTED) if ANSWERS.match(name) else (INTERNAL_ERROR,)
                faults += [Fault(role, nth, code, first <= served[name], name, FAST, expected) for nth in nths for code in codes]
        return faults

    def run_fast(self, fault: Fault) -> list[str]:
        """What is wrong: refused by the call's name at its start, lost in a step, or an answer, or nobody's to mind."""
        victim = Worker(self.folder, fault.role, *FAST, *FEW[fault.role], fail=f"{fault.call}:{fault.nth}:{fault.code}")
        sentence = f"{fault.call} failed with code {fault.code} of cuBLAS"
        try:
            if not victim.wait_ready():
                return judge_refused(victim) + ([] if sentence in victim.log() else [f"not '{sentence}': {tail(victim.log())}"])
            ends = self.serve(victim, fault.role, prompt=SHORTER) if fault.is_asked else []
            status = victim.stop()
            wrong = judge_ends(ends, fault.role, fault.text) + judge_end(victim, status, fault.code)
            is_minor = fault.code == NOT_SUPPORTED or DESTROYS.match(fault.call)
            wrong += [f"a request failed: {end}" for end in ends if is_minor and end[0]]
            wrong += [] if (status != LOST) == bool(is_minor) else [f"it ended with {status}"]
            said = sentence in victim.log()
            return wrong + ([] if said == (fault.code != NOT_SUPPORTED) else [f"'{sentence}': {said}"])
        except RuntimeError as error:
            return [str(error)]
        finally:
            victim.kill()

    def run_ipc(self, fault: Fault, expected: str) -> list[str]:
        """What is wrong: its pool is mapped by a generation worker that fails, and it ends as if nothing had been."""
        owner = Worker(self.folder, "ctx-worker", *IPC)
        takes = TAKES if fault.role == "gen-worker" else []
        victim = Worker(self.folder, fault.role, *IPC, *takes, fail=f"{fault.call}:{fault.nth}:{fault.code}")
        try:
            if not owner.wait_ready():
                raise RuntimeError(owner.log())
            if fault.role == "ctx-worker":
                wrong = ["it is ready"] if victim.wait_ready() else judge_refused(victim)
            else:
                wrong = [] if victim.wait_ready() else [f"it is not ready: {tail(victim.log())}"]
                wrong += judge_ends(self.serve(victim, fault.role, owner), fault.role, expected)
                wrong += judge_end(victim, victim.stop(), fault.code)
            wrong += [] if f"cuda-double: {fault.call} -> {fault.code}" in victim.log() else ["the call was never made"]
            status = owner.stop()
            return wrong + reports(owner.log()) + ([f"the owner ended with {status}"] if status else [])
        except RuntimeError as error:
            return [str(error)]
        finally:
            victim.kill()
            owner.kill()

    def run(self, fault: Fault, expected: str) -> list[str]:
        """What is wrong."""
        if fault.flags is not GPU:
            return self.run_fast(fault) if fault.flags is FAST else self.run_ipc(fault, expected)
        victim = Worker(self.folder, fault.role, *GPU, fail=f"*:{fault.nth}:{fault.code}")
        try:
            if not victim.wait_ready():
                return judge_refused(victim)
            ends = self.serve(victim, fault.role) if fault.is_asked else []
            wrong = judge_ends(ends, fault.role, expected)
            return wrong + judge_end(victim, victim.stop(), fault.code)
        except RuntimeError as error:
            return [str(error)]
        finally:
            victim.kill()


def reports(log: str) -> list[str]:
    return re.findall(r"^cuda-double: REPORT (.*)$", log, re.M)


def tail(log: str) -> str:
    return "\n".join(["", *(line for line in log.splitlines() if not re.match(r"(cuda|cublaslt)-double: ", line))][-8:])


def judge_refused(victim: Worker) -> list[str]:
    log, status = victim.log(), victim.child.returncode
    wrong = [] if status == LOST else [f"status {status} at its start"]
    n = len(re.findall(r"cannot start: [^\n]{10,}", log))
    wrong += [] if n == 1 else [f"'cannot start' is said {n} times: {tail(log)}"]
    return wrong + reports(log)


def judge_ends(ends: list[tuple[int, str, str]], role: str, expected: str) -> list[str]:
    wrong = []
    for status, text, sentence in ends:
        if status == 0 and text != expected:
            wrong.append(f"a request has '{text}', not '{expected}'")
        elif status and role == "ctx-worker":
            wrong.append(f"a context worker's failure cost a request: {sentence}")
        elif status and not (TYPED.search(sentence) and expected.startswith(text.rstrip("\n"))):
            wrong.append(f"a request ended with {status}, '{text}': {sentence}")
    return wrong


def judge_end(victim: Worker, status: int, code: int) -> list[str]:
    log = victim.log()
    failed = re.search(rf"^(?:cuda|cublaslt)-double: (\w+) -> {code}$", log, re.M)
    may_leave = failed is not None and DESTROYS.match(failed[1]) is not None
    left = [report for report in reports(log) if not (may_leave and report.startswith(("leak", "early free", "early unload")))]
    if status == LOST:
        n = len(re.findall(r"device lost", log))
        return left + ([] if n == 1 else [f"'device lost' is said {n} times: {tail(log)}"])
    if status == 0 or (status == REPORTED and may_leave):
        return left
    return left + [f"status {status}"]


def list_faults(lane: Lane) -> tuple[list[Fault], str]:
    """Every one, in an order in which any first few are spread over all. Whoever gets ready after a failure of its start is asked."""
    faults, texts = [], set()
    for role in ROLES:
        calls, text = lane.measure(role)
        texts.add(text)
        print(f"{role}: {calls.ready} calls until it is ready, {calls.served} until it has served, {calls.ended} in all")
        n_idle = calls.ended - calls.served
        faults += [Fault(role, nth, code, nth <= calls.ready) for nth in range(1, calls.ready + n_idle + 1) for code in CODES
                   if ROLES[(nth + (code == CODES[0])) % 2] == role]
        faults += [Fault(role, nth, code) for nth in range(calls.ready + 1, calls.served + 1) for code in CODES]
    if len(texts) != 1:
        raise RuntimeError(f"the texts differ without a failure: {texts}")
    step = round(len(faults) * 0.618)
    while not is_coprime(step, len(faults)):
        step += 1
    return [faults[i * step % len(faults)] for i in range(len(faults))], texts.pop()


def list_all_fast(lane: Lane) -> list[Fault]:
    """Of every call that there is."""
    faults = [fault for role in ROLES for fault in lane.list_fast(role)]
    header = pathlib.Path(__file__).parents[2] / "device" / "cublas.h"
    missing = set(re.findall(r"^    X\((cublasLt\w+)", header.read_text(), re.M)) ^ {fault.call for fault in faults}
    print(f"{len(faults)} failures of cuBLASLt")
    if len({fault.text for fault in faults}) != 1:
        raise RuntimeError("the roles' texts differ without a failure")
    if missing:
        raise RuntimeError(f"calls of cuBLASLt that do not fail, or are in no header: {missing}")
    return faults


def is_coprime(a: int, b: int) -> bool:
    while b:
        a, b = b, a % b
    return a == 1


def main() -> int:
    wrong, counts, lock = [], {"done": 0}, threading.Lock()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        lanes = [Lane(folder) for _ in range(LANES)]
        try:
            faults, expected = list_faults(lanes[0])
            ipc = [Fault(role, nth, CODES[(i + k) % 2], call=call, flags=IPC) for i, (role, call, nth) in enumerate(IPC_CALLS)
                   for k in range(1 if RUNS else 2)]
            fast = list_all_fast(lanes[0])
            faults = [*ipc, *fast, *(faults[:RUNS] if RUNS else faults)]
            rest = iter(faults)

            def work(lane: Lane) -> None:
                while True:
                    with lock:
                        fault = next(rest, None)
                    if fault is None:
                        return
                    found = lane.run(fault, expected)
                    with lock:
                        counts["done"] += 1
                        wrong.extend(f"{fault}: {what}" for what in found)

            threads = [threading.Thread(target=work, args=(lane,)) for lane in lanes]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            codes = [lane.well.stop() for lane in lanes]
            wrong.extend(f"a worker that was well ended with {code}" for code in codes if code)
        finally:
            for lane in lanes:
                lane.well.kill()
    print(*wrong[:40], sep="\n")
    print(f"{time.monotonic() - began:.0f} s, {counts['done']} runs of {len(faults)}, {len(wrong)} findings")
    return 1 if wrong or counts["done"] != len(faults) else 0


if __name__ == "__main__":
    sys.exit(main())
