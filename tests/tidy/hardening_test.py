"""The program is hardened: hardening_test.py BINARY reads it with readelf and fails for each property that is missing."""

import re
import subprocess
import sys
import unittest

BINARY = ""
CET_NOTE = b"\xf3\x0f\x1e\xfa"  # endbr64, with which every function that may be called by address begins


def readelf(*flags: str) -> str:
    return subprocess.run(["readelf", "-W", *flags, BINARY], check=True, capture_output=True, text=True).stdout


class HardeningTest(unittest.TestCase):
    def has(self, pattern: str, *flags: str) -> None:
        self.assertTrue(re.search(pattern, readelf(*flags)), f"no {pattern} in readelf {flags}")

    def has_not(self, pattern: str, *flags: str) -> None:
        self.assertFalse(re.search(pattern, readelf(*flags)), f"{pattern} in readelf {flags}")

    def test_is_position_independent(self):
        self.has(r"Type:\s+DYN", "-h")
        self.has(r"FLAGS_1\).*\bPIE\b", "-d")

    def test_relocations_are_bound_at_start_and_read_only(self):
        self.has("GNU_RELRO", "-l")
        self.has(r"FLAGS_1\).*\bNOW\b", "-d")
        self.has_not("TEXTREL", "-d")

    def test_no_memory_is_writable_and_executable(self):
        segments = re.findall(r"^\s+(LOAD|GNU_STACK)\s+(?:0x\S+\s+){5}([RWE ]{3})", readelf("-l"), re.M)
        self.assertIn("GNU_STACK", [kind for kind, _ in segments])
        for kind, flags in segments:
            self.assertFalse("W" in flags and "E" in flags, f"{kind} {flags}")

    def test_loads_no_library_from_a_place_of_its_own(self):
        self.has_not(r"\((RPATH|RUNPATH)\)", "-d")

    def test_stacks_and_buffers_are_checked(self):
        symbols = readelf("--dyn-syms")
        self.has("__stack_chk_fail", "--dyn-syms")
        fortified = set(re.findall(r"\b__(\w+)_chk\b", symbols))
        self.assertGreaterEqual(len(fortified), 5, fortified)

    @unittest.skipUnless("x86-64" in subprocess.run(["uname", "-m"], capture_output=True, text=True).stdout
                         .replace("_", "-"), "indirect branches are tracked on x86 alone")
    def test_functions_begin_with_what_tracking_of_indirect_branches_wants(self):
        sections = readelf("-S")
        match = re.search(r"\.text\s+PROGBITS\s+([0-9a-f]+)\s+([0-9a-f]+)\s+([0-9a-f]+)", sections)
        address, offset, _ = (int(number, 16) for number in match.groups())
        with open(BINARY, "rb") as file:
            content = file.read()
        n_own = 0
        for line in readelf("-s").splitlines():
            fields = line.split()
            # global functions of ours: those of the libraries are elsewhere
            if len(fields) < 8 or fields[3:5] != ["FUNC", "GLOBAL"] or fields[6] == "UND" or "@" in fields[7]:
                continue
            at = int(fields[1], 16) - address + offset
            if fields[7] in ("_start", "_init", "_fini"):
                continue
            self.assertEqual(content[at:at + 4], CET_NOTE, fields[7])
            n_own += 1
        self.assertGreater(n_own, 500)


if __name__ == "__main__":
    BINARY = sys.argv.pop(1)
    unittest.main()
