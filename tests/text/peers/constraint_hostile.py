"""Constraints that are written to take much are refused, or end, or are bounded: in time of the CPU, memory and stack, each in a process
of its own: constraint_hostile.py PIPE FOLDER (which has a tokenizer.json)."""
import json
import resource
import subprocess
import sys

import constraint_cases

COMPILE_US_MAX = 5_000_000  # what it takes on a machine that has nothing else to do is a fifth of this at most
MASK_US_MAX = 400_000
MEMORY_KB_MAX = 256 * 1024
CPU_S_MAX = 60
TOKENS_MAX = 200
ANSWERS = ("OK", "INVALID_ARGUMENT", "CONSTRAINT_UNMET")


def set_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S_MAX, CPU_S_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def attack(pipe: str, folder: str, kind: str, text: object) -> tuple[str, list[str]]:
    """The status, and what is wrong."""
    question = json.dumps({"kind": kind, "text": text, "draws": 2, "tokens_max": TOKENS_MAX, "seed": 1})
    run = subprocess.run([pipe, folder], input=question + "\n", capture_output=True, text=True, preexec_fn=set_limits, check=False)
    if run.returncode != 0 or not run.stdout:
        return "none", [f"ended with {run.returncode}: {run.stderr[-300:]}"]
    answer = json.loads(run.stdout)
    wrong = []
    if answer["status"] not in ANSWERS:
        wrong.append(f"{answer['status']}: {answer['error']}")
    elif answer["status"] != "OK" and not answer["error"]:
        wrong.append(f"{answer['status']} without a sentence")
    for what, most in (("compile_us", COMPILE_US_MAX), ("mask_us_max", MASK_US_MAX), ("memory_kb", MEMORY_KB_MAX)):
        if answer[what] > most:
            wrong.append(f"{what} {answer[what]:.0f}, more than {most}")
    return answer["status"], wrong


def main() -> None:
    pipe, folder = sys.argv[1:3]
    n_wrong, counts = 0, dict.fromkeys((*ANSWERS, "none"), 0)
    for name, (kind, text) in constraint_cases.CASES.items():
        status, wrong = attack(pipe, folder, kind, text)
        counts[status] = counts.get(status, 0) + 1
        n_wrong += bool(wrong)
        for what in wrong:
            print(f"{name}: {what}", flush=True)
    print(f"{len(constraint_cases.CASES)} hostile constraints {counts}, {n_wrong} wrong")
    sys.exit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()
