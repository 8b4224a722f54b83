#!/usr/bin/env python3
"""mutants - planted mistakes of device/cuda*.c: the double sees each of them in some order.

mutants.tsv has them: file of device/, what is wrong then, what is there (once), what stands in its place.

    mutants.py SESSION BUILD_FOLDER [WORD]   those of whose description WORD is a part; status 1 where one is not caught

SESSION is driver_session of a build in BUILD_FOLDER; a mutant is one file of it compiled again and linked in front of the library.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from session_test import MODES, Session  # noqa: E402

ROOT = Path(__file__).resolve().parents[3]
SEEDS = 3


class Mutant:
    def __init__(self, line: str):
        self.file, self.what, old, new = line.rstrip("\n").split("\t")
        self.old, self.new = old.replace("\\n", "\n"), new.replace("\\n", "\n")

    def text(self) -> str:
        source = (ROOT / "device" / self.file).read_text()
        assert source.count(self.old) == 1, f"{self.file} has {source.count(self.old)} of: {self.old}"
        return source.replace(self.old, self.new)


MUTANTS = [Mutant(line) for line in (Path(__file__).parent / "mutants.tsv").read_text().splitlines(keepends=True)]


def commands(build: Path) -> dict[str, str]:
    rows = json.loads((build / "compile_commands.json").read_text())
    return {Path(row["file"]).stem: row["command"] for row in rows if "/device/" in row["file"]}


class Bench:
    def __init__(self, session: Session, build: Path, folder: Path):
        self.session, self.build, self.folder = session, build, folder
        self.commands = commands(build)
        ninja = subprocess.run(["ninja", "-C", build, "-t", "commands", "driver_session"], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        self.link = next(row for row in reversed(ninja) if "-o tests/simt/driver/driver_session" in row)

    def build_mutant(self, number: int) -> Path:
        mistake = MUTANTS[number]
        mutated = self.folder / f"{number}.c"
        mutated.write_text(mistake.text())
        words = shlex.split(self.commands[Path(mistake.file).stem])
        words[words.index("-o") + 1] = str(mutated.with_suffix(".o"))
        words = [str(mutated) if w.endswith(f"/{mistake.file}") else w for w in words if w != "-Werror"]
        subprocess.run([*words, "-w"], cwd=self.build, check=True, capture_output=True)
        program = self.folder / f"session{number}"
        link = self.link.split("&&")[1].strip() if "&&" in self.link else self.link
        link = link.replace("-o tests/simt/driver/driver_session",
                            f"{mutated.with_suffix('.o')} -o {program}")
        subprocess.run(shlex.split(link), cwd=self.build, check=True, capture_output=True)
        return program

    def first_sight(self, number: int) -> str:
        """Who sees the mutant first, and how; empty: nobody."""
        mutant = Session(str(self.session.program))
        mutant.library, mutant.program = self.session.program.parent, self.build_mutant(number)
        for seed in range(1, SEEDS + 1):
            for mode in MODES:
                for scenario in mutant.scenarios:
                    end = mutant.run(scenario, DOUBLE_MODE=mode, DOUBLE_SEED=str(seed), SESSION_WAIT_MS="3000")
                    if end.status != 0:
                        lines = [x for x in end.text.splitlines() if " info " not in x]
                        return f"{scenario} {mode} {seed}: {lines[0][:110] if lines else end.status}"
        return ""


def main() -> int:
    word = sys.argv[3] if len(sys.argv) > 3 else ""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Session(sys.argv[1]), Path(sys.argv[2]).resolve(), Path(folder))
        numbers = [n for n, mutant in enumerate(MUTANTS) if word in mutant.what]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            sights = list(pool.map(bench.first_sight, numbers))
    for number, sight in zip(numbers, sights):
        print(f"{MUTANTS[number].what}: {sight or 'NOT CAUGHT'}")
    n = sum(not sight for sight in sights)
    print(f"{len(numbers)} mutants, {n} not caught")
    return 1 if n or not numbers else 0


if __name__ == "__main__":
    sys.exit(main())
