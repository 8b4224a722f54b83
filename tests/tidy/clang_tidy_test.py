"""clang_tidy.sh: ends with 1 for a finding in any of the files it was given, with 0 for none."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent

RIGHT = "int f(const int *p);\nint f(const int *p)\n{\n    return *p;\n}\n"
NULL_READ = "int f(const int *p);\nint f(const int *p)\n{\n    if (!p)\n        return *p;\n    return 0;\n}\n"
RENAMED = "int f(int a);\nint f(int b)\n{\n    return b;\n}\n"


class ClangTidyTest(unittest.TestCase):
    @contextlib.contextmanager
    def root_of(self, files: list[tuple[str, str]]):
        """A tree with these files, as often compiled as they are named."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "tests/tidy").mkdir(parents=True)
            shutil.copy(HERE / "clang_tidy.sh", root / "tests/tidy")
            shutil.copy(HERE.parents[1] / ".clang-tidy", root)
            for path, text in files:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            (root / "compile_commands.json").write_text(json.dumps(
                [{"directory": folder, "file": path, "command": f"clang -c {path}"} for path, _ in files]))
            yield folder

    def run_on(self, files: dict[str, str]) -> subprocess.CompletedProcess:
        with self.root_of(list(files.items())) as folder:
            return subprocess.run(["sh", "tests/tidy/clang_tidy.sh", folder], cwd=folder, text=True,
                                  capture_output=True)

    def test_nothing_found(self):
        done = self.run_on({"base/a.c": RIGHT, "kernels/cpu/b.c": RIGHT})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("2 files, nothing found", done.stdout)

    def test_a_finding_anywhere_fails(self):
        for path, text, what in (("base/a.c", NULL_READ, "NullDereference"),
                                 ("base/a.c", RENAMED, "different parameter names"),
                                 ("kernels/cpu/b.c", RENAMED, "different parameter names")):
            with self.subTest(path=path, what=what):
                done = self.run_on({"base/a.c": RIGHT, "kernels/cpu/b.c": RIGHT, path: text})
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(what, done.stdout)

    def test_a_file_is_looked_at_once_whatever_it_is_compiled_for(self):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "log"
            tool = Path(folder) / "clang-tidy"
            tool.write_text(f'#!/bin/sh\nfor file; do :; done\necho "$file" >>{log}\ncase $file in *wrong*) exit 1 ;; esac\n')
            tool.chmod(0o755)
            files = {"base/a.c": RIGHT, "base/wrong.c": RIGHT, "kernels/cpu/b.c": RIGHT}
            path = f"{folder}:{os.environ['PATH']}"
            with self.root_of(list(files.items()) * 3) as root:
                for _ in range(2):
                    done = subprocess.run(["sh", "tests/tidy/clang_tidy.sh", root, f"{root}/passed"], cwd=root,
                                          env={**os.environ, "PATH": path})
                    self.assertEqual(done.returncode, 1)
            # What passed has a mark the second time, what did not is looked at again.
            self.assertEqual(sorted(log.read_text().split()), ["base/a.c", "base/wrong.c", "base/wrong.c", "kernels/cpu/b.c"])

    def test_no_files_are_a_failure(self):
        self.assertEqual(self.run_on({}).returncode, 1)


if __name__ == "__main__":
    unittest.main()
