#!/usr/bin/env python3
"""tests.py - ctest for .ci/run: with a second chance, and with what the whole run says of its tests.

    tests.py run STAGE [--leave-to BUILD] [--meanwhile COMMAND] CTEST-ARGUMENT...
        In the current build folder, the tests that the arguments choose. What fails is run once more, alone, at the end;
        what passes then is FLAKY and no failure of the stage. Both outputs are kept: OUT/STAGE.NAME.first.log, .second.log.
        --leave-to: not those with the label once, and without the label twice, that the other build has, too.
        --meanwhile: COMMAND uses what the tests leave of the processors, and is ended before anything runs alone.
    tests.py all-ran BUILD[:LABEL]...
        Whether every test of these builds (nightly ones aside), or of its label, was run by some stage.
    tests.py summary
        The slowest tests of all stages, those that were skipped, the flaky and the end of what they said; ends with 1 when these are
        more than three.

OUT is CI_OUT. There each stage leaves STAGE.tests.json, of which the other two speak.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

FLAKY_MAX = 3
AGAIN_MAX = 8  # failures of a stage that are run again: more are no accident
N_SLOWEST = 15
END_LIMIT_S = 60
N_LINES_SHOWN, LINE_SHOWN = 40, 300

NIGHTLY = ["-LE", "nightly"]


def out() -> Path:
    return Path(os.environ["CI_OUT"]).resolve()


def listed(build: Path, arguments: list[str]) -> dict[str, dict]:
    """Name -> properties, of the tests that ctest's arguments choose."""
    shown = subprocess.run(["ctest", "--show-only=json-v1", *arguments], cwd=build, stdout=subprocess.PIPE, check=True)
    return {test["name"]: {one["name"]: one["value"] for one in test.get("properties", [])}
            for test in json.loads(shown.stdout)["tests"]}


def is_left(name: str, properties: dict, other: dict) -> bool:
    labels = properties.get("LABELS", [])
    return "once" in labels and "twice" not in labels and name in other


# ---- beside the tests ----

class Meanwhile:
    """A command at the lowest priority, in a group of its own; in the session of the tests, as priorities may hold within one only."""

    def __init__(self, command: str, log: Path) -> None:
        self.reader, writer = os.pipe()  # at its end when the last process of the group is gone, waited for or not
        with log.open("wb") as file:
            self.child = subprocess.Popen(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=file,
                                          stderr=subprocess.STDOUT, pass_fds=[writer], preexec_fn=self.step_back)
        os.close(writer)

    @staticmethod
    def step_back() -> None:
        os.setpgrp()
        os.nice(19)

    def end(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.child.pid, sign)
            except ProcessLookupError:
                pass
            if self.is_gone():
                break
        self.child.wait()
        os.close(self.reader)

    def is_gone(self) -> bool:
        signal.alarm(END_LIMIT_S)
        try:
            return os.read(self.reader, 1) == b""
        except TimeoutError:
            return False
        finally:
            signal.alarm(0)


# ---- a stage ----

def ctest(names: list[str], junit: Path, jobs: int) -> dict[str, dict]:
    """Runs them; name -> result, seconds, output. One that ctest says nothing of is not in it."""
    if not names:
        return {}
    junit.unlink(missing_ok=True)
    chosen = "^(%s)$" % "|".join(re.escape(name) for name in names)
    sys.stdout.flush()
    subprocess.run(["ctest", "--output-on-failure", "-j", str(jobs), "-R", chosen, "--output-junit", str(junit)])
    if not junit.exists():
        return {}
    results = {"run": "passed", "notrun": "skipped", "disabled": "skipped"}
    found = {}
    for case in ElementTree.parse(junit).getroot().iter("testcase"):
        result = results.get(case.get("status"), "failed")
        reason = case.find("skipped")
        if result == "skipped" and reason is not None and "SKIP_" not in reason.get("message", ""):
            result = "failed"  # no program, or nothing that a fixture needs
        found[case.get("name")] = {"result": result, "seconds": round(float(case.get("time") or 0), 2),
                                   "output": case.findtext("system-out") or ""}
    junit.unlink()
    return found


def run_again(stage: str, name: str, first: dict) -> dict:
    """Alone. Both outputs are kept."""
    print(f"\nonce more, alone: {name}")
    second = ctest([name], out() / f"{stage}.again.xml", 1).get(name)
    for which, run in (("first", first), ("second", second)):
        (out() / f"{stage}.{name}.{which}.log").write_text(run["output"] if run else "ctest said nothing\n")
    if second and second["result"] == "passed":
        return {**second, "result": "flaky"}
    return {**(second or first), "result": "failed"}


def run(stage: str, leave_to: str, meanwhile: str, arguments: list[str]) -> int:
    here = Path.cwd()
    planned = listed(here, arguments)
    if leave_to:
        try:
            other = listed(here.parent / leave_to, NIGHTLY)
        except (OSError, subprocess.CalledProcessError):  # it cannot be configured: nothing is left to it
            other = {}
        left = [name for name in planned if is_left(name, planned[name], other)]
        print(f"left to {leave_to}: {len(left)} tests: {' '.join(left)}")
        planned = {name: planned[name] for name in planned if name not in left}
    if not planned:
        print(f"{stage}: no tests were found")
        return 1
    alone = [name for name in planned if planned[name].get("RUN_SERIAL")]
    beside = Meanwhile(meanwhile, out() / f"{stage}.meanwhile.log") if meanwhile else None
    try:
        jobs = len(os.sched_getaffinity(0)) + 1  # one more: tests of processes wait a lot
        found = ctest([name for name in planned if name not in alone], out() / f"{stage}.xml", jobs)
    finally:
        if beside:
            beside.end()
    found.update(ctest(alone, out() / f"{stage}.alone.xml", 1))
    for name in planned:
        found.setdefault(name, {"result": "failed", "seconds": 0, "output": "ctest said nothing of it\n"})

    red = [name for name in found if found[name]["result"] == "failed"]
    if len(red) <= AGAIN_MAX:
        for name in red:
            found[name] = run_again(stage, name, found[name])
    return tell(stage, found)


def tell(stage: str, found: dict[str, dict]) -> int:
    rows = [{"name": name, "result": one["result"], "seconds": one["seconds"]} for name, one in found.items()]
    (out() / f"{stage}.tests.json").write_text(json.dumps({"stage": stage, "tests": rows}, indent=0))
    red = [row["name"] for row in rows if row["result"] == "failed"]
    print()
    for line in [f"FAILED: {name}" for name in red] + flaky_lines(rows):
        print(line)
    print("%d%% tests passed, %d tests failed out of %d" % ((len(rows) - len(red)) * 100 // len(rows), len(red), len(rows)))
    return 1 if red else 0


# ---- all stages ----

def flaky_lines(rows: list[dict]) -> list[str]:
    return [f"FLAKY {row['name']} (failed, then passed)" for row in rows if row["result"] == "flaky"]


def tell_first(log: Path) -> None:
    """The end of what a flaky test said when it failed: all that somebody sees of it who has this run's output alone."""
    lines = log.read_text(errors="replace").splitlines()[-N_LINES_SHOWN:]
    print(f"\nthe end of {log}:")
    print("".join(f"| {line[:LINE_SHOWN]}\n" for line in lines))


def stages() -> list[dict]:
    return [json.loads(path.read_text()) for path in sorted(out().glob("*.tests.json"), key=lambda path: path.stat().st_mtime)]


def all_ran(builds: list[str]) -> int:
    ran = {row["name"] for stage in stages() for row in stage["tests"]}
    missing, wanted = [], set()
    for build in builds:
        folder, _, label = build.partition(":")
        of_build = listed(Path(folder), ["-L", f"^{label}$", *NIGHTLY] if label else NIGHTLY)
        wanted |= of_build.keys()
        if not of_build:
            missing.append(f"{build} has no tests")
        missing += [f"{name} of {folder} was run by no stage" for name in of_build if name not in ran]
    print("\n".join(missing) or f"{len(wanted)} tests, each run by a stage")
    return 1 if missing else 0


def summary() -> int:
    done = stages()
    slowest = sorted(((row["seconds"], stage["stage"], row["name"]) for stage in done for row in stage["tests"]), reverse=True)
    print(f"\n{'slowest':<14} {'seconds':>8}  test")
    for seconds, stage, name in slowest[:N_SLOWEST]:
        print(f"{stage:<14} {seconds:8.1f}  {name}")
    print()
    for stage in done:
        for row in stage["tests"]:
            if row["result"] == "skipped":
                print(f"SKIPPED {row['name']} ({stage['stage']})")
    flaky = [line for stage in done for line in flaky_lines(stage["tests"])]
    if flaky:
        print("\n".join(flaky))
    for stage in done:
        for row in stage["tests"]:
            if row["result"] == "flaky":
                tell_first(out() / f"{stage['stage']}.{row['name']}.first.log")
    for stage in done:
        n_red = sum(row["result"] == "failed" for row in stage["tests"])
        n = len(stage["tests"])
        print(f"{stage['stage']}: {(n - n_red) * 100 // n}% tests passed, {n_red} tests failed out of {n}")
    if len(flaky) > FLAKY_MAX:
        print(f"{len(flaky)} tests passed only the second time; at most {FLAKY_MAX} may")
        return 1
    return 0


def on_alarm(_signal, _frame) -> None:
    raise TimeoutError


def on_end(number, _frame) -> None:
    signal.signal(number, signal.SIG_IGN)  # a make above tells it again, and what runs beside is still to be ended
    sys.exit(128 + number)  # through the finally that ends what runs beside


def main() -> int:
    for name in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"):  # a make of a test's own is nobody's child
        os.environ.pop(name, None)
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGTERM, on_end)
    parser = argparse.ArgumentParser(usage=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    of_run = commands.add_parser("run", allow_abbrev=False)
    of_run.add_argument("stage")
    of_run.add_argument("--leave-to", default="")
    of_run.add_argument("--meanwhile", default="")
    of_all_ran = commands.add_parser("all-ran")
    of_all_ran.add_argument("builds", nargs="+")
    commands.add_parser("summary")
    options, rest = parser.parse_known_args()
    if options.command == "run":
        return run(options.stage, options.leave_to, options.meanwhile, rest)
    return all_ran(options.builds) if options.command == "all-ran" else summary()


if __name__ == "__main__":
    sys.exit(main())
