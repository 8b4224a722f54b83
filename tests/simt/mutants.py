#!/usr/bin/env python3
"""mutants - planted mistakes of kernels/cuda: a test on the harness sees each of them.

    mutants.py BUILD_FOLDER [--only WORD] [--limit N] [--write]

One a line of mutants.tsv: a change of one place, and the tests that are asked first: a suite of test_simt, `cases` (the table,
in parts), or simt_cases/TEST. tsan: before them: races that only ThreadSanitizer sees; these are the list of a BUILD_FOLDER
of the preset tsan, the others that of any other. A mutant is the units that include the file, compiled again with it in front, and linked in front
of the library. The programs as they are must pass what the mutants are asked. --only: those of whose line WORD is a part;
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
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LIST = HERE / "mutants.tsv"
KERNELS = Path("kernels/cuda")
SECONDS_MAX = 900
# The case table in ever larger parts: every n-th case.
SAMPLES = (32, 6)
INCLUDE = re.compile(r'#include "(kernels/cuda/\w+\.cuh)"')
SEEN = re.compile(r"^(simt: .*|SUMMARY: .*|\[----\] .*|.*case \d+: .*)$", re.M)
# Before the tests of a row. The tests' programs of that build end at the first report.
TSAN = "tsan:"
ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Attempt(NamedTuple):
    """One run of a program's tests; sample: of the case table, every n-th case."""
    program: str
    filter: str
    sample: str = ""

    def name(self) -> str:
        name = self.filter.removesuffix("/*")
        return f"{name}, every {self.sample}th case" if self.sample else name

    def run(self, path: str) -> tuple[int, str]:
        return run([path, "--short-filename", "--fail-fast", "-j1", "--filter", self.filter],
                   TSAN_OPTIONS="halt_on_error=1", **({"KVFERRY_SIMT_SAMPLE": self.sample} if self.sample else {}))


def attempts_of(tests: str) -> list[Attempt]:
    """Those that are asked first, then all of test_simt."""
    tests = tests.removeprefix(TSAN)
    if tests == "cases":
        first = [Attempt("test_simt_cases", "simt_cases/*", str(n)) for n in SAMPLES]
    elif tests.startswith("simt_cases/"):
        first = [Attempt("test_simt_cases", f"{tests}*")]
    else:
        first = [Attempt("test_simt", f"{tests}/*")]
    return [*first, Attempt("test_simt", "*/*")]


class Mutant:
    def __init__(self, line: str):
        fields = line.rstrip("\n").split("\t")
        assert len(fields) == 6, f"mutants.tsv: {len(fields)} fields: {line}"
        self.file, self.tests, self.what, old, new, self.caught = fields
        self.fields = fields
        self.old, self.new = old.replace("\\n", "\n"), new.replace("\\n", "\n")

    def text(self) -> str:
        source = (ROOT / KERNELS / self.file).read_text()
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


class Bench:
    def __init__(self, build: Path, folder: Path):
        self.build, self.folder = build, folder
        rows = json.loads((build / "compile_commands.json").read_text())
        self.compile = {Path(row["file"]).stem: shlex.split(row["command"]) for row in rows
                        if row["file"].startswith(str(HERE / "units")) and "/simt_units.dir/" in row["command"]}
        self.includes = {unit: included(HERE / "units" / f"{unit}.cpp") for unit in self.compile}
        self.is_tsan = "-DSIMT_TSAN" in next(iter(self.compile.values()))
        self.link = {program: self.link_command(program) for program in ("test_simt", "test_simt_cases")}

    def link_command(self, program: str) -> list[str]:
        rows = subprocess.run(["ninja", "-C", self.build, "-t", "commands", program], check=True,
                              capture_output=True, text=True).stdout.splitlines()
        row = next(row for row in reversed(rows) if f"-o tests/simt/{program} " in row)
        return shlex.split(row.split("&&")[1] if "&&" in row else row)

    def objects(self, mutant: Mutant, folder: Path) -> list[str]:
        name = str(KERNELS / mutant.file)
        (folder / KERNELS).mkdir(parents=True)
        (folder / name).write_text(mutant.text())
        units = [unit for unit, files in self.includes.items() if name in files]
        assert units, f"no unit includes {name}"
        for unit in units:
            words = [word for word in self.compile[unit] if word != "-Werror"]
            words[words.index("-o") + 1] = str(folder / f"{unit}.o")
            at = next(i for i, word in enumerate(words) if word.startswith("-I"))
            words[at:at] = [f"-I{folder}", "-w"]
            subprocess.run(words, cwd=self.build, check=True)
        return [str(folder / f"{unit}.o") for unit in units]

    def program(self, name: str, folder: Path, objects: list[str]) -> str:
        program = folder / name
        if not program.exists():
            words = list(self.link[name])
            at = words.index("-o")
            words[at:at + 2] = [*objects, "-o", str(program)]
            subprocess.run(words, cwd=self.build, check=True)
        return str(program)

    def check_unchanged(self, attempts: set[Attempt]) -> None:
        for attempt in sorted(attempts):
            status, output = attempt.run(str(self.build / "tests" / "simt" / attempt.program))
            assert status == 0, f"{attempt.name()} fails without a mutant:\n{output}"

    def caught_by(self, mutant: Mutant, number: int) -> str:
        """The test and what it said; empty: none of them."""
        folder = self.folder / str(number)
        objects = self.objects(mutant, folder)
        for attempt in attempts_of(mutant.tests):
            status, output = attempt.run(self.program(attempt.program, folder, objects))
            if status != 0:
                said = SEEN.search(output)
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
        bench.check_unchanged({attempt for n in chosen for attempt in attempts_of(mutants[n].tests)})
        list(pool.map(lambda n: bench.verdict(mutants[n], n), chosen))
    if arguments.write:
        LIST.write_text("\n".join([head, *("\t".join(mutant.fields) for mutant in mutants)]) + "\n")
    n = sum(not mutants[n].fields[5] for n in chosen)
    print(f"{len(chosen)} mutants, {n} not caught")
    return 1 if n or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
