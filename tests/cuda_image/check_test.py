"""check: each finding is seen to be found, on copies of what was compiled. check_test.py BUILD IMAGE_TABLE"""

import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

import check

BUILD = IMAGE = Path()


class CheckTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.build = Path(self.folder.name)
        for file in BUILD.iterdir():
            if file.suffix in (".cubin", ".log", ".ptx", ".fatbin"):
                shutil.copy(file, self.build)
        self.checker = check.Checker(self.build, IMAGE)
        self.name, (self.unit, self.threads, self.n_bytes) = next(iter(self.checker.kernels.items()))

    def tearDown(self):
        self.folder.cleanup()

    def found(self, call, *arguments, pattern: str) -> None:
        call(*arguments)
        self.assertTrue(any(re.search(pattern, f) for f in self.checker.findings), self.checker.findings)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.build / name
        text = path.read_text()
        self.assertRegex(text, old)
        path.write_text(re.sub(old, new, text, count=1))

    def test_what_was_compiled_has_no_finding(self):
        for unit in self.checker.modules:
            for architecture in check.ARCHITECTURES:
                self.checker.read_log(unit, architecture)
                self.checker.check_ptx(unit, architecture)
                self.checker.check_cubin(unit, architecture)
        self.checker.check_embedded()
        self.assertEqual(self.checker.findings, [])
        self.assertGreater(len(self.checker.kernels), 0)

    def test_a_spill(self):
        self.edit(f"{self.unit}_80.log", r"\b0 bytes spill stores", "8 bytes spill stores")
        self.found(self.checker.read_log, self.unit, "80", pattern="spills: 8 bytes stored")

    def test_a_product_that_may_be_fused_with_a_sum(self):
        self.edit(f"{self.unit}_90a.ptx", r"\bmul\.rn\.f32", "mul.f32")
        self.found(self.checker.check_ptx, self.unit, "90a", pattern=r"1 operations that the compiler may fuse, the first mul\.f32")

    def test_a_serialised_wgmma(self):
        self.edit(f"{self.unit}_90a.log", r"\A", "ptxas info : (C7510) Potential Performance Loss: wgmma\n")
        self.found(self.checker.read_log, self.unit, "90a", pattern="C7510")

    def test_a_parameter_that_the_host_does_not_know(self):
        self.checker.kernels[self.name] = (self.unit, self.threads, self.n_bytes + 8)
        self.checker.read_log(self.unit, "100")
        self.found(self.checker.check_cubin, self.unit, "100", pattern=f"the host gives {self.n_bytes + 8} bytes")

    def test_a_bound_that_the_host_does_not_know(self):
        self.checker.kernels[self.name] = (self.unit, 2 * self.threads, self.n_bytes)
        self.found(self.checker.check_cubin, self.unit, "80", pattern=f"the list says {2 * self.threads}")

    def test_a_kernel_that_was_not_compiled(self):
        self.checker.kernels["absent"] = (self.unit, 32, 8)
        self.found(self.checker.check_cubin, self.unit, "80", pattern="absent of the list was not compiled")

    def test_a_kernel_that_is_in_no_list(self):
        del self.checker.kernels[self.name]
        self.found(self.checker.check_cubin, self.unit, "80", pattern=f"{self.name} was compiled and is in no list")

    def test_another_module_in_the_program(self):
        self.checker.modules[self.unit] += 1
        self.found(self.checker.check_embedded, pattern="the compiler wrote")

    def test_more_registers_than_the_table_says(self):
        for architecture in check.ARCHITECTURES:
            for unit in self.checker.modules:
                self.checker.read_log(unit, architecture)
        table = self.build / "table"
        self.checker.write_table(table)
        self.checker.check_table(table)
        self.assertEqual(self.checker.findings, [])
        self.checker.uses[self.name, "90a"] = check.Use(255, 0, 0)
        self.found(self.checker.check_table, table, pattern=f"{self.name} takes .*255/0/0")

    def test_a_file_that_takes_long(self):
        self.edit(f"{self.unit}_80.log", r"cpu seconds [\d.]+", "cpu seconds 30.5")
        for architecture in check.ARCHITECTURES:
            self.checker.read_log(self.unit, architecture)
        self.found(self.checker.check_budget, pattern="30.5 CPU seconds")


if __name__ == "__main__":
    BUILD, IMAGE = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
    unittest.main()
