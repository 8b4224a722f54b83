#!/usr/bin/env python3
"""session_test - driver_session over the double: every scenario in every order, what opens and what does not, each call
failing once.

    session_test.py SESSION scenarios [SEEDS]   each scenario, three modes, SEEDS seeds: no report, status 0
    session_test.py SESSION faults              no driver, an old one, no GPU, no memory, a hang: a status and a sentence
    session_test.py SESSION sweep [CODE]...     each call of a session fails once: a status and one sentence, nothing else

SESSION is the program; the double lies beside it. Python 3, standard library only.
"""

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

MODES = ["early", "late", "random"]
LIMIT_S = 60
DESTROYS = re.compile(r"cu\w*(Destroy|Free|FreeHost|Release|Unload)$")
IMPORTS = re.compile(r"cuIpc(Get|Open)MemHandle$|cuMemGetAddressRange$")
BETWEEN = re.compile(r"cuIpc|cuMemGetAddressRange$|cuMemcpyDtoDAsync$")  # what the others do not call
LOST, NOT_OPENED, OTHER, REPORTED = 2, 3, 1, 97


class Ended(NamedTuple):
    status: int
    text: str

    def reports(self) -> list[str]:
        return re.findall(r"^cuda-double: REPORT (.*)$", self.text, re.M)


class Session:
    def __init__(self, program: str):
        self.program = Path(program).resolve()
        self.library = self.program.parent
        source = (Path(__file__).parent / "session.h").read_text()
        self.scenarios = re.findall(r"^    X\((\w+)\)", source, re.M)
        assert len(self.scenarios) > 5, source

    def run(self, scenario: str, **environment: str) -> Ended:
        settings = {k: v for k, v in os.environ.items() if not k.startswith("DOUBLE_")}
        settings["LD_LIBRARY_PATH"] = str(self.library)
        settings |= environment
        try:
            done = subprocess.run([self.program, scenario], env=settings, timeout=LIMIT_S,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired as late:
            return Ended(-1, f"did not end in {LIMIT_S} s\n" + (late.stderr or b"").decode("utf-8", "replace"))
        return Ended(done.returncode, done.stderr.decode("utf-8", "replace"))


class Failures:
    def __init__(self) -> None:
        self.n = self.n_runs = 0

    def expect(self, is_true: bool, what: str, ended: Ended) -> None:
        self.n_runs += 1
        if is_true:
            return
        self.n += 1
        lines = [line for line in ended.text.splitlines() if " info " not in line]
        print(f"{what}: status {ended.status}\n   " + "\n   ".join(lines[:6]))

    def end(self) -> int:
        print(f"{self.n_runs} runs, {self.n} failed")
        return 1 if self.n or not self.n_runs else 0


def in_parallel(work: list, function) -> list:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, work))


def scenarios(session: Session, failures: Failures, seeds: int) -> None:
    work = [(s, m, n) for s in session.scenarios for m in MODES for n in range(1, seeds + 1)]
    ended = in_parallel(work, lambda w: session.run(w[0], DOUBLE_MODE=w[1], DOUBLE_SEED=str(w[2])))
    for (scenario, mode, seed), end in zip(work, ended):
        failures.expect(end.status == 0 and not end.reports(), f"{scenario} {mode} seed {seed}", end)


def faults(session: Session, failures: Failures) -> None:
    def expect(status: int, sentence: str, scenario: str = "round_trip", **environment: str) -> None:
        end = session.run(scenario, **environment)
        failures.expect(end.status == status and re.search(sentence, end.text) is not None and not end.reports(),
                        f"{environment}: not {status} with '{sentence}'", end)

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "libcuda.so.1").write_text("no library\n")
        expect(NOT_OPENED, r"device cuda:0: there is no NVIDIA driver: .*libcuda\.so\.1", LD_LIBRARY_PATH=folder)
    expect(NOT_OPENED, r"the NVIDIA driver is too old: it has CUDA 12\.4, and the kernels need 13\.0 or later",
           DOUBLE_VERSION="12040")
    expect(NOT_OPENED, "there is an NVIDIA driver, but no GPU", DOUBLE_DEVICES="0")
    expect(NOT_OPENED, r"the GPU has compute capability 7\.5, the kernels need 8\.0 or later", DOUBLE_ARCHITECTURE="75")
    expect(0, "architecture=86", DOUBLE_ARCHITECTURE="86")  # 99 KiB of shared memory
    expect(NOT_OPENED, r"cuda:0: kernels take 101376 bytes of shared memory, a CTA of this GPU has 49152",
           DOUBLE_SHARED_BYTES="49152")
    expect(NOT_OPENED, r"cuInit failed: CUDA_ERROR_STUB_LIBRARY \(34\)", DOUBLE_FAIL="cuInit:1:34")
    for code, name in ((803, "SYSTEM_DRIVER_MISMATCH"), (802, "SYSTEM_NOT_READY"), (999, "UNKNOWN")):
        expect(0, rf"device chosen +device=cpu why=.*no GPU that can be used: cuInit failed: CUDA_ERROR_{name} \({code}\)",
               SESSION_DEVICE="auto", DOUBLE_FAIL=f"cuInit:1:{code}")
        expect(NOT_OPENED, rf"device cuda:0: .*cuInit failed: CUDA_ERROR_{name} \({code}\)", DOUBLE_FAIL=f"cuInit:1:{code}")
    expect(NOT_OPENED, r"cuda:0: module layer for sm_120, of \d+ bytes: .*CUDA_ERROR_JIT_COMPILER_NOT_FOUND \(221\)",
           DOUBLE_ARCHITECTURE="120", DOUBLE_FAIL="cuModuleLoadData:1:221")
    expect(NOT_OPENED, r"cuda:0: kernel \w+: cuFuncLoad failed: CUDA_ERROR_OUT_OF_MEMORY \(2\)", DOUBLE_FAIL="cuFuncLoad:7:2")
    expect(OTHER, r"cuda:0: no memory for 6216 bytes: \d+ of 1073741824 are free",
           DOUBLE_FAIL="cuMemAlloc:3:2")  # behind the digests of two queues
    expect(NOT_OPENED, r"cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY \(2\)", DOUBLE_MEMORY_MB="0")
    expect(NOT_OPENED, r"bytes of memory that can be pinned", DOUBLE_FAIL="cuMemHostAlloc:3:2")
    expect(LOST, r"cuda:0: cuEventQuery failed: CUDA_ERROR_ECC_UNCORRECTABLE \(214\)", DOUBLE_FAIL="cuEventQuery:1:214")
    expect(LOST, r"cuda:0: cuLaunchKernel failed: CUDA_ERROR_LAUNCH_FAILED \(719\)", DOUBLE_FAIL="cuLaunchKernel:1:719")
    expect(LOST, r"device lost +device=cuda:0 operation=launch", DOUBLE_FAIL="cuLaunchKernel:1:2")
    for name in ("cuGraphInstantiate", "cuGraphUpload"):
        expect(OTHER, f"cuda:0: no memory for a graph: {name}", "graphs", DOUBLE_FAIL=f"{name}:2:2")
    expect(LOST, r"device lost +device=cuda:0 operation=replay", "graphs", DOUBLE_FAIL="cuGraphLaunch:3:719")
    expect(LOST, r"device lost +device=cuda:0 operation=capture_end", "graphs", DOUBLE_FAIL="cuStreamEndCapture:1:901")
    for name, words in (("cuda:1", "there is no GPU 1: the driver has 1, counted from 0"),
                        ("cuda:9999", "there is no GPU 9999"),
                        ("cuda:10000", "there is no device cuda:10000: there are cpu, cuda:N"),
                        ("cuda:", "there is no device cuda:: there are"), ("cuda:0x", "there is no device cuda:0x"),
                        ("gpu", "there is no device gpu"), ("", "there is no device : there are")):
        expect(NOT_OPENED, re.escape(words), SESSION_DEVICE=name)
    expect(0, "device chosen +device=cuda:0 why=\"there is a GPU\"", SESSION_DEVICE="auto")
    expect(0, "device chosen +device=cpu why=\"device cuda:0: there is an NVIDIA driver, but no GPU\"",
           SESSION_DEVICE="auto", DOUBLE_DEVICES="0")
    expect(LOST, "device lost +device=cuda:0 operation=wait why=\"deadline exceeded\"", DOUBLE_HANG="2:3",
           SESSION_WAIT_MS="200")


def occurrences(session: Session, scenario: str) -> list[tuple[str, int]]:
    """(name, nth) of the calls of a session: of each name the first two, one in the middle and the last."""
    end = session.run(scenario, DOUBLE_LOG="1", DOUBLE_MODE="early")
    assert end.status == 0, end.text
    names = re.findall(r"^cuda-double: (\w+) -> \d+$", end.text, re.M)
    counts = {name: names.count(name) for name in names}
    return [(name, k) for name, n in counts.items() for k in sorted({1, 2, (n + 1) // 2, n}) if k <= n]


def is_well_ended(end: Ended, name: str, code: int) -> bool:
    """A status, and one sentence that names the call; what failed to be destroyed is left over."""
    if DESTROYS.match(name) or name == "cuCtxSetCurrent" or name == "cuStreamSynchronize":
        only_leaks = all(report.startswith(("leak", "early free", "early unload")) for report in end.reports())
        if end.status == 0 or (end.status == REPORTED and only_leaks):
            return True
    if name in ("cuMemGetInfo", "cuFuncGetParamInfo") and end.status == 0:
        return True
    sentences = len(re.findall(rf"{name} failed: CUDA_\w+ \({code}\)", end.text))
    if IMPORTS.match(name) and end.status == OTHER:  # another process's failure may be meant: the device is not lost
        return sentences == 1 and not end.reports()
    if code == 2 and end.status in (OTHER, NOT_OPENED):
        return bool(re.search("no memory|can be pinned", end.text)) or sentences == 1
    return end.status in (LOST, NOT_OPENED) and sentences == 1 and not end.reports()


def sweep(session: Session, failures: Failures, codes: list[int]) -> None:
    work = [(scenario, name, k, code) for scenario in ("round_trip", "stage", "graphs")
            for name, k in occurrences(session, scenario) for code in codes]
    work += [("ipc", name, k, code) for name, k in occurrences(session, "ipc") if BETWEEN.match(name) for code in codes]
    # A device that was lost is not asked to give anything back.
    ended = in_parallel(work, lambda w: session.run(w[0], DOUBLE_FAIL=f"{w[1]}:{w[2]}:{w[3]}", DOUBLE_MODE="random",
                                                    ASAN_OPTIONS="detect_leaks=0"))
    for (scenario, name, k, code), end in zip(work, ended):
        failures.expect(is_well_ended(end, name, code), f"{scenario}: {name} {k} fails with {code}", end)


def main() -> int:
    session, failures = Session(sys.argv[1]), Failures()
    if sys.argv[2] == "scenarios":
        scenarios(session, failures, int(sys.argv[3]) if len(sys.argv) > 3 else 3)
    elif sys.argv[2] == "faults":
        faults(session, failures)
    elif sys.argv[2] == "sweep":
        sweep(session, failures, [int(code) for code in sys.argv[3:]] or [2, 719, 999])
    else:
        print(__doc__)
        return 2
    return failures.end()


if __name__ == "__main__":
    sys.exit(main())
