#!/usr/bin/env python3
"""A GPU that is too full, wherever a start finds out: it ends with 1 and one sentence that says what needed how much, what is free, and what to lower.
And one that is lost meanwhile is not called full.

    double_full_test.py DOUBLE MODEL FOLDER

DOUBLE: the program with the double's modules; FOLDER: where the double lies. Either the GPU is small, or one call says that there is no
memory: every one that a start takes memory by. Python 3, standard library only.
"""

import os
import re
import subprocess
import sys
from typing import NamedTuple

DOUBLE, MODEL, LIBRARY = sys.argv[1:4]
LIMIT_S = 60
FLAGS = ["--device", "cuda:0", "--threads", "1", "--max-context-tokens", "64", "--kv-block-tokens", "16"]
FAST = ["--device-math", "fast", "--prefill-batch-tokens", "16", "--prefill-chunk-tokens", "16"]
FREE = r"[\d.]+ of [\d.]+ MiB of cuda:0 are free: end other processes on it, or use another device"
OF_GPU = r"of cuda:0, of which [\d.]+ of [\d.]+ MiB are free"
LESS = r"lower prefill_batch_tokens, sequences_max or max_context_tokens"
TAKES_MEMORY = re.compile(r"cu(MemAlloc|MemHostAlloc|DevicePrimaryCtxRetain|StreamCreate|EventCreate|ModuleLoadData|FuncLoad|GraphInstantiate|GraphUpload)$")


class Case(NamedTuple):
    sentence: str
    settings: dict[str, str]
    flags: list[str] = []
    role: str = "gen-worker"


def run(case: Case) -> tuple[int, str]:
    settings = {k: v for k, v in os.environ.items() if not k.startswith("DOUBLE_")}
    settings |= {"LD_LIBRARY_PATH": LIBRARY} | case.settings
    names = [word for name in ("control", "health", "metrics") for word in (f"--{name}-address", "127.0.0.1:0")]
    child = subprocess.Popen([DOUBLE, case.role, MODEL, *FLAGS, *names, *case.flags], env=settings, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    lines = []
    try:
        for line in child.stderr:
            lines.append(line)
            if "ready in" in line:
                child.terminate()
        return child.wait(LIMIT_S), "".join(lines)
    finally:
        child.kill()


def calls() -> list[str]:
    """Of a start that nothing fails, in their order."""
    status, text = run(Case("", {"DOUBLE_LOG": "1"}))
    if status or "ready in" not in text:
        raise SystemExit(f"it does not start: {text[-2000:]}")
    return re.findall(r"^cuda-double: (\w+) -> 0$", text.split("ready in")[0], re.M)


def fail(call: str, nth: int, code: int = 2) -> dict[str, str]:
    return {"DOUBLE_FAIL": f"{call}:{nth}:{code}"}


def cases(made: list[str]) -> list[Case]:
    n = made.count("cuMemAlloc")  # the last of them: activations, partial results, two arenas, the pool
    failed = r"failed: CUDA_ERROR_OUT_OF_MEMORY \(2\); "
    return [
        Case(r"a context of this process: cuDevicePrimaryCtxRetain " + failed + r"how much of its 1024\.0 MiB is free is not known: end other processes",
             fail("cuDevicePrimaryCtxRetain", 1)),
        Case(r"cuCtxSetCurrent " + failed + r"how much of its 1024\.0 MiB is free is not known: ", fail("cuCtxSetCurrent", 1)),
        Case(r"cuStreamCreate " + failed + FREE, fail("cuStreamCreate", 1)),
        Case(r"cuEventCreate " + failed + FREE, fail("cuEventCreate", 5)),
        Case(r"5120 bytes for digests: cuMemAlloc " + failed + FREE, {"DOUBLE_MEMORY_MB": "0"}),
        Case(r"the host has no \d+ bytes of memory that can be pinned \(CUDA_ERROR_OUT_OF_MEMORY, 2\)", fail("cuMemHostAlloc", 1)),
        Case(r"the host has no \d+ bytes of memory that can be pinned \(CUDA_ERROR_OUT_OF_MEMORY, 2\)", fail("cuMemHostAlloc", 3)),
        Case(r"module \w+ for sm_90, of \d+ bytes: cuModuleLoadData " + failed + FREE, fail("cuModuleLoadData", 2)),
        Case(r"kernel \w+: cuFuncLoad " + failed + FREE, fail("cuFuncLoad", 3)),
        Case(r"cublasLtCreate failed with code 3 of cuBLAS; " + FREE + ": leave device_math exact", {"DOUBLE_FAIL": "cublasLtCreate:1:3"}, FAST),
        Case(r"products of cuBLASLt need 32\.0 MiB " + OF_GPU + ": leave device_math exact", {"DOUBLE_MEMORY_MB": "20"}, FAST),
        Case(r"weights need 6\.3 MiB of cuda:0, of which 4\.0 of 4\.0 MiB are free: take weights int8, or another device",
             {"DOUBLE_MEMORY_MB": "4"}),
        Case(r"weights of one matrix need [\d.]+ KiB " + OF_GPU + ": take weights int8", fail("cuMemAlloc", 5)),
        Case(r"activations of a step need 6\.8 MiB of cuda:0, of which 1\.6 of 8\.0 MiB are free: " + LESS, {"DOUBLE_MEMORY_MB": "8"}),
        Case(r"activations of a step need 6\.8 MiB " + OF_GPU + ": " + LESS, fail("cuMemAlloc", n - 4)),
        Case(r"partial results of attention need [\d.]+ MiB " + OF_GPU + ": " + LESS, fail("cuMemAlloc", n - 3)),
        Case(r"arenas that steps are laid out in need 1\.9 MiB " + OF_GPU + ", and as much of the host's .*: " + LESS, fail("cuMemAlloc", n - 1)),
        Case(r"arenas that steps are laid out in need 1\.9 MiB " + OF_GPU + r", and as much of the host's memory that can be pinned: " + LESS,
             fail("cuMemHostAlloc", made.count("cuMemHostAlloc"))),
        Case(r"graphs of the steps that generate need more " + OF_GPU + ": " + LESS, fail("cuGraphInstantiate", 1)),
        Case(r"graphs of the steps that generate need more " + OF_GPU + ": " + LESS, fail("cuGraphUpload", made.count("cuGraphUpload"))),
        Case(r"1024 KV blocks of 20\.0 KiB need 20\.0 MiB of the device beside [\d.]+ MiB .*: lower kv_memory or kv_blocks, or",
             {"DOUBLE_MEMORY_MB": "24"}, ["--kv-memory", "20M"]),
        Case(r"KV blocks need [\d.]+ MiB " + OF_GPU + ": lower kv_memory or kv_blocks", fail("cuMemAlloc", n)),
        Case(r"^cuda:0 was lost before it had memory for weights: the log says why\"}$", fail("cuMemGetInfo", 1, 719)),
        Case(r"^cuda:0 was lost before it had memory for activations of a step: the log says why\"}$", fail("cuMemGetInfo", 2, 719)),
        Case(r"activations of a step need .*: lower prefill_batch_tokens, prompts_max or max", {"DOUBLE_MEMORY_MB": "8"}, role="ctx-worker"),
    ]


def judge(case: Case) -> list[str]:
    status, text = run(case)
    said = re.findall(r"cannot start: ([^\n]*)", text)
    wrong = [] if status == 1 else [f"it ended with {status}"]
    wrong += [] if len(said) == 1 and re.search(case.sentence, said[0]) else [f"not '{case.sentence}': {said or text[-500:]}"]
    return wrong + re.findall(r"double: REPORT .*", text)


def main() -> int:
    made = calls()
    all_cases = cases(made)
    failed = " ".join(case.settings.get("DOUBLE_FAIL", "") for case in all_cases)
    wrong = [f"nothing fails {call}" for call in sorted(set(made)) if TAKES_MEMORY.match(call) and f"{call}:" not in failed]
    for case in all_cases:
        wrong += [f"{case.settings} {case.role}: {what}" for what in judge(case)]
    print(*wrong, f"{len(all_cases)} starts, {len(wrong)} findings", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
