"""sbom.py: every library that the loader loads for the program is there, with the version that the package manager says,
and nothing else is: sbom_test.py PROGRAM"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "sbom.py"
PROGRAM = ""


def loaded():
    """Names of what the loader really loads, by its own trace."""
    trace = subprocess.run(["ldd", PROGRAM], check=True, capture_output=True, text=True).stdout
    lines = [line.split() for line in trace.splitlines() if "vdso" not in line]
    return {Path(line[2] if "=>" in line else line[0]).resolve() for line in lines}


class SbomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "sbom.json"
            for _ in range(2):
                subprocess.run([sys.executable, "-B", SCRIPT, PROGRAM, target], check=True, stdout=subprocess.DEVNULL)
                cls.text, cls.before = target.read_text(), getattr(cls, "text", None)
        cls.bom = json.loads(cls.text)
        cls.crates = [part for part in cls.bom["components"] if part.get("purl", "").startswith("pkg:cargo/")]
        cls.parts = [part for part in cls.bom["components"] if part not in cls.crates]

    def property(self, part, name):
        return next((item["value"] for item in part["properties"] if item["name"] == name), None)

    def test_has_what_the_loader_loads_and_nothing_else(self):
        paths = {Path(self.property(part, "kvferry:path")) for part in self.parts}
        self.assertEqual(paths, loaded())
        names = " ".join(part["name"] for part in self.parts)
        for library in ("libgrpc.so", "libucp.so", "libcrypto.so", "libprotobuf-c.so", "libc.so"):
            self.assertIn(library, names)

    def test_versions_are_the_package_managers(self):
        names = [self.property(part, "kvferry:package") for part in self.parts]
        self.assertNotIn(None, names)
        form = "${Package} ${Version}\n"
        said = subprocess.run(["dpkg-query", "-W", "-f", form, *set(names)], check=True, capture_output=True,
                              text=True).stdout.splitlines()
        for name, part in zip(names, self.parts):
            self.assertIn(f"{name} {part['version']}", said)
            self.assertTrue(part["purl"].startswith("pkg:deb/"))

    def test_hashes_are_the_files(self):
        for part in self.parts:
            content = Path(self.property(part, "kvferry:path")).read_bytes()
            self.assertEqual(part["hashes"][0]["content"], hashlib.sha256(content).hexdigest())

    def test_is_cyclonedx_with_references_that_lead_somewhere(self):
        self.assertEqual((self.bom["bomFormat"], self.bom["specVersion"]), ("CycloneDX", "1.5"))
        self.assertRegex(self.bom["serialNumber"], r"^urn:uuid:[0-9a-f-]{36}$")
        refs = [part["bom-ref"] for part in self.parts + self.crates]
        self.assertEqual(len(refs), len(set(refs)))
        self.assertEqual(self.bom["dependencies"], [{"ref": "kvferry", "dependsOn": refs}])
        self.assertTrue(re.match(r"\d+\.\d+", self.bom["metadata"]["component"]["version"]))

    def test_has_the_crates_that_are_compiled_in_with_their_licences(self):
        folder = Path(PROGRAM).parent / "crates"
        if "\nchat          not part" in subprocess.run([PROGRAM, "version"], capture_output=True, text=True).stdout:
            self.assertEqual(self.crates, [])
            return
        rows = [line.split("\t") for line in (folder / "crates.tsv").read_text().splitlines()]
        self.assertEqual([(part["name"], part["version"]) for part in self.crates], [(row[0], row[1]) for row in rows])
        names = {part["name"] for part in self.crates}
        self.assertLessEqual({"minijinja", "llguidance", "serde_json", "rust-std"}, names)
        for part in self.crates:
            self.assertRegex(part["licenses"][0]["expression"], r"^[\w.()-]+( (OR|AND|WITH) [\w.()-]+)*$")
            self.assertTrue(part["name"] == "rust-std" or re.fullmatch("[0-9a-f]{64}", part["hashes"][0]["content"]), part)
            texts = folder / "licences" / (part["name"] if part["name"] == "rust-std" else f"{part['name']}-{part['version']}")
            self.assertTrue(any(text.stat().st_size > 500 for text in texts.iterdir()), texts)

    def test_is_the_same_each_time(self):
        self.assertEqual(self.text, self.before)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
