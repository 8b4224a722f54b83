#!/usr/bin/env python3
"""check.py - the compiled kernels are those of the list, need what the committed table says, and are fused nowhere else.

    check.py --build FOLDER --table FILE --image PROGRAM           compares; one line a finding, exit code 1 with any
    check.py --build FOLDER --table FILE --image PROGRAM --write   writes the table anew

FOLDER has UNIT_ARCHITECTURE.{ptx,cubin,log} and UNIT.fatbin (kernels/cuda/image); PROGRAM is image_table. Python 3, standard
library only.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import cubin

ARCHITECTURES = ["80", "90a", "100"]
FILE_SECONDS_MAX = 15  # on a quiet machine; a slow or busy one may take SLOW times as long
ARCHITECTURE_SECONDS_MAX = 200
SLOW = 2
# What the compiler may make one operation of: a rounding that is named keeps it from that, here and in the driver's.
MAY_FUSE = re.compile(r"^\s+(?:@!?%p\d+\s+)?((?:mul|add|sub)\.(?!r[nzmp]\.)(?:\w+\.)*b?f(?:16|16x2|32|64))\b", re.M)
TABLE_HEAD = """\
# What the compiler says each kernel takes, an architecture a column: registers of a thread / bytes of static shared
# memory of a CTA / bytes of stack of a thread. None spills. Written by `make cuda-table`, never by hand.
"""


class Use(NamedTuple):
    registers: int
    shared_bytes: int
    stack_bytes: int

    def __str__(self) -> str:
        return f"{self.registers}/{self.shared_bytes}/{self.stack_bytes}"


class Checker:
    def __init__(self, build: Path, image: Path):
        self.build = build
        self.findings: list[str] = []
        self.modules: dict[str, int] = {}                   # unit -> bytes in the program
        self.kernels: dict[str, tuple[str, int, int]] = {}  # name -> unit, threads, bytes of parameters
        for line in subprocess.run([image], check=True, capture_output=True, text=True).stdout.splitlines():
            kind, name, *rest = line.split()
            if kind == "module":
                self.modules[name] = int(rest[0])
            else:
                self.kernels[name] = (rest[0], int(rest[1]), int(rest[2]))
        self.uses: dict[tuple[str, str], Use] = {}  # kernel, architecture
        self.seconds: dict[tuple[str, str], float] = {}  # unit, architecture

    def find(self, sentence: str) -> None:
        self.findings.append(sentence)

    def check_embedded(self) -> None:
        for unit, n_bytes in self.modules.items():
            compiled = (self.build / f"{unit}.fatbin").stat().st_size
            if n_bytes != compiled:
                self.find(f"{unit}: the program has {n_bytes} bytes of it, the compiler wrote {compiled}")

    def read_log(self, unit: str, architecture: str) -> None:
        log = (self.build / f"{unit}_{architecture}.log").read_text()
        where = f"{unit} sm_{architecture}"
        for line in log.splitlines():
            if re.search(r"\bC75\d\d\b", line):
                self.find(f"{where}: {line.strip()}")
        for name, text in re.findall(r"Compiling entry function '(\w+)'.*?\n(.*?)(?=ptxas info\s+: Compiling|\Z)", log,
                                     re.S):
            stack, stores, loads = map(int, re.search(
                rf"Function properties for {name}\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill"
                " loads", text).groups())
            if stores or loads:
                self.find(f"{where}: {name} spills: {stores} bytes stored, {loads} loaded")
            shared = re.search(r"(\d+) bytes smem", text)
            self.uses[name, architecture] = Use(int(re.search(r"Used (\d+) registers", text).group(1)),
                                                int(shared.group(1)) if shared else 0, stack)
        self.seconds[unit, architecture] = float(re.search(r"^cpu seconds ([\d.]+)$", log, re.M).group(1))

    def check_ptx(self, unit: str, architecture: str) -> None:
        """Where a product and a sum are fused is written in the kernel: bits are not to depend on a row's place in a loop."""
        found = MAY_FUSE.findall((self.build / f"{unit}_{architecture}.ptx").read_text())
        if found:
            self.find(f"{unit} sm_{architecture}: {len(found)} operations that the compiler may fuse, the first {found[0]}")

    def check_cubin(self, unit: str, architecture: str) -> None:
        where = f"{unit} sm_{architecture}"
        compiled = {k.name: k for k in cubin.kernels((self.build / f"{unit}_{architecture}.cubin").read_bytes())}
        listed = {name: row for name, row in self.kernels.items() if row[0] == unit}
        for name in sorted(compiled.keys() - listed.keys()):
            self.find(f"{where}: {name} was compiled and is in no list")
        for name, (_, threads, n_bytes) in listed.items():
            if name not in compiled:
                self.find(f"{where}: {name} of the list was not compiled")
                continue
            if compiled[name].parameters != [(0, n_bytes)]:
                self.find(f"{where}: {name} takes {compiled[name].parameters} (offset, bytes), the host gives {n_bytes} bytes")
            if compiled[name].threads != threads:
                self.find(f"{where}: {name} runs at most {compiled[name].threads} threads, the list says {threads}")
            if (name, architecture) not in self.uses:
                self.find(f"{where}: the log says nothing of {name}")

    def check_table(self, table: Path) -> None:
        rows = [line.split() for line in table.read_text().splitlines() if line and not line.startswith("#")]
        if rows[0] != ["compiler", self.compiler()]:
            print(f"check: the table is of {' '.join(rows[0])}, this is {self.compiler()}: registers are not compared")
            return
        said = {row[0]: row[1:] for row in rows[2:]}
        for name in sorted(said.keys() - self.kernels.keys()):
            self.find(f"{table.name}: {name} is in no list")
        for name in self.kernels:
            now = [str(self.uses.get((name, a))) for a in ARCHITECTURES]
            if said.get(name) != now:
                self.find(f"{table.name}: {name} takes {' '.join(now)}, the table says {' '.join(said.get(name, ['nothing']))}")

    def write_table(self, table: Path) -> None:
        lines = ["\t".join(["kernel", *(f"sm_{a}" for a in ARCHITECTURES)])]
        lines += ["\t".join([name, *(str(self.uses[name, a]) for a in ARCHITECTURES)]) for name in sorted(self.kernels)]
        table.write_text(f"{TABLE_HEAD}compiler {self.compiler()}\n" + "\n".join(lines) + "\n")

    def compiler(self) -> str:
        """Its build, as it notes it in the PTX it writes."""
        text = next(self.build.glob("*_80.ptx")).read_text()
        return re.search(r"Cuda compilation tools, release [\d.]+, (V[\d.]+)", text).group(1)

    def check_budget(self) -> None:
        for (unit, architecture), seconds in self.seconds.items():
            if seconds > SLOW * FILE_SECONDS_MAX:
                self.find(f"{unit} sm_{architecture}: {seconds:.1f} CPU seconds to compile, {SLOW} x {FILE_SECONDS_MAX} are allowed")
        for architecture in ARCHITECTURES:
            took = {unit: s for (unit, a), s in self.seconds.items() if a == architecture}
            slowest = max(took, key=took.get)
            total = sum(took.values())
            print(f"check: sm_{architecture}: {len(took)} units in {total:.1f} of {ARCHITECTURE_SECONDS_MAX} CPU seconds, the"
                  f" slowest {slowest} in {took[slowest]:.1f} of {FILE_SECONDS_MAX}")
            if total > SLOW * ARCHITECTURE_SECONDS_MAX:
                self.find(f"sm_{architecture}: {total:.1f} CPU seconds to compile, {SLOW} x {ARCHITECTURE_SECONDS_MAX} are allowed")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=Path)
    parser.add_argument("--table", required=True, type=Path)
    parser.add_argument("--image", required=True, type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()

    checker = Checker(options.build, options.image)
    checker.check_embedded()
    for unit in checker.modules:
        for architecture in ARCHITECTURES:
            checker.read_log(unit, architecture)
            checker.check_ptx(unit, architecture)
            checker.check_cubin(unit, architecture)
    checker.check_budget()
    if options.write and not checker.findings:
        checker.write_table(options.table)
    elif not options.write:
        checker.check_table(options.table)
    for sentence in checker.findings:
        print(f"check: {sentence}")
    print(f"check: {len(checker.kernels)} kernels, {len(ARCHITECTURES)} architectures, {len(checker.findings)} findings")
    return 1 if checker.findings else 0


if __name__ == "__main__":
    sys.exit(main())
