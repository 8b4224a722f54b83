"""measure: what it makes of a machine with a GPU, of programs that say what a test has them say. measure_test.py

A section that fails, or does not end, costs the others nothing, and what it said until then counts.
"""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import measure

HERE = Path(__file__).resolve().parent
CONFORM = '{"section": "conform", "name": "%s", "verdict": "%s", "kind": "device and host", "of_allowed": 1, "n": 10}'
BITS = '{"section": "bits", "name": "%s", "verdict": "%s", "compared": 7, "first": "token 5 is 3f800000, not 3f800001"}'
PREFILL = '{"section": "prefill", "name": "p", "tokens": 64, "heads": 8, "kv_heads": 1, "head_dim": 128, "us": 3, "tflops": 2}'
PROGRAMS = {
    "path/nvidia-smi": "echo GPU 0: none, by a test",
    "path/compute-sanitizer": 'case $2 in racecheck) exit 9 ;; esac; while case $1 in --*) ;; *) false ;; esac; do shift 2; done; "$@"; echo "== ERROR SUMMARY: 0 errors"',
    "bin/gpu_conform": f"echo '{CONFORM % ('copies', 'WRONG')}'; echo '{CONFORM % ('words', 'ok')}'; exit 3",
    "bin/gpu_bits": f"echo '{BITS % ('product F32', 'ok')}'; echo '{BITS % ('product INT8', 'WRONG')}'; exit 3",
    "bin/gpu_cases": "echo '{\"section\": \"cases\", \"name\": \"auto\", \"computed\": 10, \"failed\": 0}'",
    "bin/gpu_bench": "case $2 in copy) echo '{\"section\": \"copy\", \"name\": \"rows\", \"us\": 1, \"gbs\": 1000}' ;; "
                     f"prefill) echo '{PREFILL}'; exec sleep 60 ;; *) exit 1 ;; esac",
    "bin/model_bench": "echo '{\"prefill_512\": 7}'",
    "bin/transfer_bench": "echo '{\"ratio\": 0.5}'",
    "tests/bench/make_model.py": "",
}


class MeasureTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.kit = Path(self.folder.name)
        for name in ("measure.sh", "measure.py", "peers.py"):
            shutil.copy(HERE / name, self.kit)
        for name, text in PROGRAMS.items():
            path = self.kit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("" if name.endswith(".py") else f"#!/bin/sh\n{text}\n")
            path.chmod(0o755)

    def tearDown(self):
        self.folder.cleanup()

    def measure(self, seconds, *sections):
        environment = {**os.environ, "PATH": f"{self.kit / 'path'}:{os.environ['PATH']}"}
        done = subprocess.run(["bash", self.kit / "measure.sh", "--out", self.kit / "out", "--seconds", str(seconds), *sections],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        result = json.loads((self.kit / "out" / "measure.json").read_text())
        self.assertEqual(done.returncode, 1 if result["failed"] else 0, done.stdout)
        return result, [figure["section"] for figure in result["figures"]]

    def test_what_fails_costs_the_others_nothing(self):
        others = [s for s in measure.SECTIONS if s != "prefill"]
        result, measured = self.measure(90, *others)
        self.assertEqual([(f["section"], f["why"].split(": ")[0]) for f in result["failed"]],
                         [("conform", "copies, device and host"), ("bits", "product INT8"), ("sanitizer", "gpu_cases racecheck ended with 9"),
                          ("decode", "gpu_bench ended with 1"), ("products", "gpu_bench ended with 1")])
        for section, n in (("conform", 3), ("bits", 2), ("cases", 1), ("sanitizer", 3), ("ceilings", 1), ("model", 3), ("handover", 4)):
            self.assertEqual(measured.count(section), n, section)

    def test_what_does_not_end_keeps_what_it_said(self):
        result, measured = self.measure(9, "prefill", "handover")
        self.assertEqual(measured, ["prefill", *["handover"] * 4])
        self.assertEqual([f["section"] for f in result["failed"]], ["prefill"])
        self.assertIn("took more than", result["failed"][0]["why"])


if __name__ == "__main__":
    unittest.main()
