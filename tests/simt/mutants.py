#!/usr/bin/env python3
"""mutants - planted mistakes of kernels/cuda: a test on the harness sees each of them.

    mutants.py BUILD_FOLDER [--only WORD] [--limit N] [--write]

One a line of mutants.tsv: a change of one place of a file of kernels/cuda, or of tests/simt/harness_kernels.cpp, and the tests
that are asked first: a suite of test_simt, `cases` (the table, in parts), simt_cases/TEST, or, alone, gpu_conform/CASE. tsan:
before them: races that only ThreadSanitizer sees; these are the list of a BUILD_FOLDER of the preset tsan, the others that of
any other. A mutant is the units that include the file, compiled again with it in front, and linked in their place or in front
of the library. The programs as they are must pass what the mutants are asked first. --only: those of whose line WORD is a part;
--limit: the first N of them; --write: who caught it, into the list. Status 1 where one is not caught.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIST = HERE / "mutants.tsv"
KERNELS = Path("kernels/cuda")
SECONDS_MAX = 1800
# The case table in ever larger parts: every n-th case.
SAMPLES = (32, 6)
INCLUDE = re.compile(r'#include "(kernels/cuda/[\w/]+\.cuh)"')
SEEN = re.compile(r"^(simt: .*|SUMMARY: .*|\[----\] .*|.*case \d+: .*|\w+, host, other schedules: .*)$", re.M)
# Of CMake: whose objects a program is made of.
TARGETS = {"test_simt": ("simt_units", "simt_harness_kernels"), "test_simt_cases": ("simt_units",), "gpu_conform": ("conform_unit",)}
CONFORM = "gpu_conform"
# Before the tests of a row. The tests' programs of that build end at the first report.
TSAN = "tsan:"
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Attempt(NamedTuple):
    """One run of a program's tests; sample: of the case table, every n-th case; 1: the whole."""
    program: str
    filter: str
    sample: str = ""

    def name(self) -> str:
        if self.program == CONFORM:
            return f"{CONFORM}/{self.filter}"
        name = self.filter.removesuffix("/*")
        return f"{name}, every {self.sample}th case" if self.sample not in ("", "1") else name

    def run(self, path: str, build: Path) -> tuple[int, str]:
        if self.program == CONFORM:
            return run([path, "cuda:0", "--toy", self.filter], LD_LIBRARY_PATH=str(build / "tests/simt/driver"))
        return run([path, "--short-filename", "--fail-fast", "-j1", "--filter", self.filter],
                   TSAN_OPTIONS="halt_on_error=1", **({"KVFERRY_SIMT_SAMPLE": self.sample} if self.sample else {}))


# Asked last; that it passes without a mutant is the test `simt`.
ALL = Attempt("test_simt", "*/*")


def attempts_of(tests: str) -> list[Attempt]:
    """Those that are asked first, then all of test_simt."""
    tests = tests.removeprefix(TSAN)
    if tests.startswith(f"{CONFORM}/"):
        return [Attempt(CONFORM, tests.removeprefix(f"{CONFORM}/"))]
    if tests == "cases":
        first = [Attempt("test_simt_cases", "simt_cases/*", str(n)) for n in SAMPLES]
    elif tests.startswith("simt_cases/"):
        first = [Attempt("test_simt_cases", f"{tests}*", "1")]
    else:
        first = [Attempt("test_simt", f"{tests}/*")]
    return [*first, ALL]


class Mutant:
    def __init__(self, line: str):
        fields = line.rstrip("\n").split("\t")
        assert len(fields) == 6, f"mutants.tsv: {len(fields)} fields: {line}"
        self.file, self.tests, self.what, old, new, self.caught = fields
        self.fields = fields
        self.old, self.new = old.replace("\\n", "\n"), new.replace("\\n", "\n")

    def path(self) -> Path:
        return Path(self.file) if self.file.startswith("tests/") else KERNELS / self.file

    def text(self) -> str:
        source = (ROOT / self.path()).read_text()
        n = source.count(self.old)
        assert n == 1, f"{self.file} has {n} of: {self.old} ({self.what})"
        return source.replace(self.old, self.new)


def included(path: Path) -> set[str]:
    found = set()
    for name in INCLUDE.findall(path.read_text()):
        if name not in found:
            found |= {name} | included(ROOT / name)
    return found


def run(command: list[str], **environment: str) -> tuple[int, str]:
    """Status (-1: it ran too long) and output of a program, which ends with all that it started."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True, env=os.environ | environment)
    try:
        output = process.communicate(timeout=SECONDS_MAX)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return -1, process.communicate()[0]
    return process.returncode, output


class Unit:
    """A source that is compiled, to object: its place in the build folder, which has the name of its target."""
    def __init__(self, row: dict):
        self.command = shlex.split(row["command"])
        self.object = self.command[self.command.index("-o") + 1]
        self.source = Path(row["file"]).relative_to(ROOT)
        self.files = {str(self.source)} | included(ROOT / self.source)

    def is_of(self, targets: tuple[str, ...]) -> bool:
        return any(f"/{target}.dir/" in self.object for target in targets)

    def compile(self, mutant: Mutant, folder: Path, build: Path) -> None:
        (folder / self.object).parent.mkdir(parents=True, exist_ok=True)
        words = [word for word in self.command if word != "-Werror"]
        words[words.index("-o") + 1] = str(folder / self.object)
        if self.source == mutant.path():
            words[words.index(str(ROOT / self.source))] = str(folder / self.source)
        at = next(i for i, word in enumerate(words) if word.startswith("-I"))
        words[at:at] = [f"-I{folder}", "-w"]
        subprocess.run(words, cwd=build, check=True)


class Bench:
    def __init__(self, build: Path, folder: Path):
        self.build, self.folder = build, folder
        rows = json.loads((build / "compile_commands.json").read_text())
        names = re.compile(f"/({'|'.join({name for names in TARGETS.values() for name in names})})\\.dir/")
        self.units = [Unit(row) for row in rows if names.search(row["command"])]
        self.is_tsan = any("-DSIMT_TSAN" in row["command"] for row in rows)

    @cache
    def link_command(self, program: str) -> list[str]:
        rows = subprocess.run(["ninja", "-C", self.build, "-t", "commands", program], check=True,
                              capture_output=True, text=True).stdout.splitlines()
        row = next(row for row in reversed(rows) if f"-o {self.place(program)} " in row)
        return shlex.split(row.split("&&")[1] if "&&" in row else row)

    def place(self, program: str) -> Path:
        return Path("tests") / ("gpu" if program == CONFORM else "simt") / program

    def program(self, name: str, mutant: Mutant, folder: Path) -> str:
        program = folder / name
        if program.exists():
            return str(program)
        (folder / mutant.path()).parent.mkdir(parents=True, exist_ok=True)
        (folder / mutant.path()).write_text(mutant.text())
        units = [unit for unit in self.units if unit.is_of(TARGETS[name]) and str(mutant.path()) in unit.files]
        assert units, f"no unit of {name} includes {mutant.path()}"
        for unit in units:
            if not (folder / unit.object).exists():
                unit.compile(mutant, folder, self.build)
        objects = {unit.object: str(folder / unit.object) for unit in units}
        words = self.link_command(name)
        in_front = [path for place, path in objects.items() if place not in words]
        words = [objects.get(word, word) for word in words]
        at = words.index("-o")
        words[at:at + 2] = [*in_front, "-o", str(program)]
        subprocess.run(words, cwd=self.build, check=True)
        return str(program)

    def check_unchanged(self, attempts: set[Attempt]) -> None:
        for attempt in sorted(attempts):
            status, output = attempt.run(str(self.build / self.place(attempt.program)), self.build)
            assert status == 0, f"{attempt.name()} fails without a mutant:\n{output}"

    def caught_by(self, mutant: Mutant, number: int) -> str:
        """The test and what it said; empty: none of them."""
        folder = self.folder / str(number)
        for attempt in attempts_of(mutant.tests):
            status, output = attempt.run(self.program(attempt.program, mutant, folder), self.build)
            said = SEEN.search(output)
            # The driver double has the kernel as it is; that it has another result is no merit of the harness.
            if status != 0 and (said or attempt.program != CONFORM):
                what = said.group(1) if said else f"ends with {status}" if status > 0 else "runs for ever"
                what = ADDRESS.sub("0x..", what).replace(str(folder) + "/", "")
                return " ".join(f"{attempt.name()}: {what}".split())[:150]
        return ""

    def verdict(self, mutant: Mutant, number: int) -> None:
        mutant.fields[5] = self.caught_by(mutant, number)
        shutil.rmtree(self.folder / str(number))
        print(f"{mutant.file}: {mutant.what}: {mutant.fields[5] or 'SURVIVED'}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    head, *lines = LIST.read_text().splitlines()
    mutants = [Mutant(line) for line in lines]
    for mutant in mutants:
        mutant.text()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        bench = Bench(arguments.build.resolve(), Path(folder))
        chosen = [n for n, line in enumerate(lines) if arguments.only in line and
                  mutants[n].tests.startswith(TSAN) == bench.is_tsan][:arguments.limit]
        bench.check_unchanged({attempt for n in chosen for attempt in attempts_of(mutants[n].tests)} - {ALL})
        list(pool.map(lambda n: bench.verdict(mutants[n], n), chosen))
    if arguments.write:
        LIST.write_text("\n".join([head, *("\t".join(mutant.fields) for mutant in mutants)]) + "\n")
    n = sum(not mutants[n].fields[5] for n in chosen)
    print(f"{len(chosen)} mutants, {n} not caught")
    return 1 if n or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
