"""tests.py of .ci: what fails gets one second chance, alone, and no more than it may; nothing falls between two stages.

Each case is a small project whose tests fail as planted, run by the real ctest.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
TESTS_PY = SOURCE / ".ci" / "tests.py"

RED = "echo what was red; false"
PROJECT = "cmake_minimum_required(VERSION 3.22)\nproject(planted NONE)\nenable_testing()\n"


def once_red(name: str) -> str:
    return f"echo run of {name} >>runs; [ -e {name}.ran ] || {{ touch {name}.ran; echo what was red; false; }}"


class CiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.out = self.root / "out"
        self.out.mkdir()

    def build(self, name: str, tests: dict[str, str], properties: dict[str, str] | None = None) -> Path:
        """A build folder with these tests: name -> what sh runs."""
        source, build = self.root / f"{name}-source", self.root / name
        source.mkdir()
        text = PROJECT
        for test, command in tests.items():
            (source / f"{test}.sh").write_text(f"cd {build}\n{command}\n")
            text += f"add_test(NAME {test} COMMAND sh {source}/{test}.sh)\n"
        for test, value in (properties or {}).items():
            text += f"set_tests_properties({test} PROPERTIES {value})\n"
        (source / "CMakeLists.txt").write_text(text)
        subprocess.run(["cmake", "-S", source, "-B", build], check=True, stdout=subprocess.DEVNULL)
        return build

    def command(self, *arguments: str, cwd: Path | None = None) -> tuple[int, str]:
        done = subprocess.run([TESTS_PY, *arguments], cwd=cwd or self.root, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "CI_OUT": str(self.out)})
        return done.returncode, done.stdout

    def results(self, stage: str) -> dict[str, str]:
        return {row["name"]: row["result"] for row in json.loads((self.out / f"{stage}.tests.json").read_text())["tests"]}

    def test_what_is_always_red_is_red(self):
        build = self.build("debug", {"right": "true", "wrong": RED})
        status, said = self.command("run", "test", "-LE", "nightly", cwd=build)
        self.assertEqual(status, 1, said)
        self.assertIn("FAILED: wrong", said)
        self.assertEqual(self.results("test"), {"right": "passed", "wrong": "failed"})
        self.assertTrue(said.rstrip().endswith("50% tests passed, 1 tests failed out of 2"), said)
        status, said = self.command("summary")
        self.assertNotIn("FLAKY", said)

    def test_what_is_red_once_is_flaky_and_both_outputs_are_kept(self):
        build = self.build("debug", {"right": "true", "shaky": once_red("shaky") + " && echo what was green"})
        status, said = self.command("run", "test", "-LE", "nightly", cwd=build)
        self.assertEqual(status, 0, said)
        self.assertTrue(said.rstrip().endswith("100% tests passed, 0 tests failed out of 2"), said)
        self.assertEqual((self.out / "test.shaky.first.log").read_text(), "what was red\n")
        self.assertEqual((self.out / "test.shaky.second.log").read_text(), "what was green\n")
        status, said = self.command("summary")
        self.assertEqual(status, 0, said)
        self.assertIn("FLAKY shaky (failed, then passed)", said)
        self.assertIn("\n| what was red\n", said)
        self.assertTrue(said.rstrip().endswith("test: 100% tests passed, 0 tests failed out of 2"), said)

    def test_three_flaky_tests_pass_and_four_do_not_in_whatever_stages(self):
        for stage, n, status_of_run in (("test", 3, 0), ("asan", 1, 1)):
            names = [f"shaky_{stage}_{i}" for i in range(n)]
            build = self.build(stage, {name: once_red(name) for name in names})
            status, said = self.command("run", stage, "-LE", "nightly", cwd=build)
            self.assertEqual(status, 0, said)
            status, said = self.command("summary")
            self.assertEqual(status, status_of_run, said)
        self.assertIn("4 tests passed only the second time", said)

    def test_many_failures_are_not_run_again(self):
        build = self.build("debug", {f"shaky_{i}": once_red(f"shaky_{i}") for i in range(9)})
        self.assertEqual(self.command("run", "test", "-LE", "nightly", cwd=build)[0], 1)
        self.assertEqual(len((build / "runs").read_text().splitlines()), 9)

    def test_what_cannot_be_run_or_is_too_slow_or_crashes_is_red(self):
        build = self.build("debug", {"slow": "exec sleep 60", "crash": "kill -9 $$", "skip": "exit 77"},
                           {"slow": "TIMEOUT 1", "skip": "SKIP_RETURN_CODE 77"})
        with (build / "CTestTestfile.cmake").open("a") as file:
            file.write('add_test([=[nowhere]=] "/nowhere/program")\n')
        status, said = self.command("run", "test", "-LE", "nightly", cwd=build)
        self.assertEqual(status, 1, said)
        self.assertEqual(self.results("test"), {"slow": "failed", "crash": "failed", "nowhere": "failed", "skip": "skipped"})
        self.assertIn("SKIPPED skip (test)", self.command("summary")[1])

    def test_no_tests_are_a_failure(self):
        build = self.build("debug", {"right": "true"})
        self.assertEqual(self.command("run", "test", "-L", "nowhere", cwd=build)[0], 1)

    def test_only_what_the_other_build_has_and_asks_as_much_is_left_to_it(self):
        labels = {"cluster": 'LABELS "once"', "here": 'LABELS "once"', "more_here": 'LABELS "once;twice"'}
        debug = self.build("debug", {name: "true" for name in ("unit", "cluster", "here", "more_here")}, labels)
        asan = self.build("asan", {name: "true" for name in ("unit", "cluster", "more_here")})
        self.command("run", "test", "--leave-to", "asan", "-LE", "nightly", cwd=debug)
        self.assertEqual(set(self.results("test")), {"unit", "here", "more_here"})
        status, said = self.command("all-ran", str(debug), str(asan))
        self.assertEqual(status, 1, said)
        self.assertIn("cluster of", said)
        self.command("run", "asan", "-LE", "nightly", cwd=asan)
        status, said = self.command("all-ran", str(debug), str(asan))
        self.assertEqual(status, 0, said)

    def test_without_the_other_build_nothing_is_left_to_it(self):
        debug = self.build("debug", {"unit": "true", "cluster": "true"}, {"cluster": 'LABELS "once"'})
        self.command("run", "test", "--leave-to", "asan", "-LE", "nightly", cwd=debug)
        self.assertEqual(set(self.results("test")), {"unit", "cluster"})

    def test_what_runs_meanwhile_is_gone_before_anything_runs_alone(self):
        pid_is_gone = "! grep -q . /proc/$(cat beside.pid)/cmdline"  # of a zombie that nobody waits for it is empty
        build = self.build("debug", {"long": "until [ -e beside.pid ]; do sleep 0.05; done", "alone": pid_is_gone},
                           {"alone": "RUN_SERIAL TRUE"})
        meanwhile = f"cd {build} && (echo $BASHPID >beside.new && mv beside.new beside.pid && exec sleep 600)"
        status, said = self.command("run", "test", "--meanwhile", meanwhile, "-LE", "nightly", cwd=build)
        self.assertEqual(status, 0, said)
        self.assertEqual(self.results("test"), {"long": "passed", "alone": "passed"})

    def test_one_that_is_told_to_end_leaves_nothing_behind(self):
        build = self.build("debug", {"long": "until [ -e told ] || [ ! -e $PWD ]; do sleep 0.05; done"})  # nor does this one
        meanwhile = f"cd {build} && echo $$ >beside.new && mv beside.new beside.pid && exec sleep 600"
        told = subprocess.Popen([TESTS_PY, "run", "test", "--meanwhile", meanwhile, "-LE", "nightly"], cwd=build,
                                stdout=subprocess.DEVNULL, env={**os.environ, "CI_OUT": str(self.out)})
        until = time.monotonic() + 60
        while not (build / "beside.pid").exists() and time.monotonic() < until:
            time.sleep(0.05)
        told.terminate()
        told.wait(60)
        (build / "told").touch()
        with self.assertRaises(ProcessLookupError):
            os.kill(int((build / "beside.pid").read_text()), 0)


# What .ci/run calls in the tree, as far as a run that builds nothing needs it.
PRETENDED = {name: "#!/bin/sh\n" for name in (
    "deploy/setup.sh", "deploy/setup-cuda.sh", "tests/interop/tools.sh", "tests/monitoring/tools.sh", "tests/deploy/tools.sh",
    "tests/tidy/clang_tidy.sh", "tests/kernels/digests/arm64.sh", "bin/clang-format", "bin/git")} | {"tests/tidy/tidy.py": ""}
TREE = PROJECT + """
get_filename_component(preset ${CMAKE_BINARY_DIR} NAME)
add_custom_target(thread_tests)
foreach(target kvferry image_table gpu_conform driver_header_check)
    add_custom_target(${target})
endforeach()
foreach(row unit:threads cluster:once measured:once,twice kernels:cuda %(more)s)
    string(REGEX MATCH "(.*):(.*)" all ${row})
    string(REPLACE "," ";" labels ${CMAKE_MATCH_2})
    set(name ${CMAKE_MATCH_1})
    add_test(NAME ${name} COMMAND sh ${CMAKE_SOURCE_DIR}/one.sh ${preset} ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${labels}")
endforeach()
if(preset STREQUAL "asan")
    add_test(NAME asans_own COMMAND true)
endif()
"""


class WholeRunTest(unittest.TestCase):
    """The real .ci/run and Makefile over a tree in which there is nothing to compile."""

    def run_it(self, one_sh: str, more: str = "") -> tuple[int, list[str], Path]:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        root = Path(folder.name)
        for path, text in (PRETENDED | {"CMakeLists.txt": TREE % {"more": more}, "one.sh": one_sh}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            (root / path).chmod(0o755)
        shutil.copytree(SOURCE / ".ci", root / ".ci", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("Makefile", "CMakePresets.json"):
            shutil.copy(SOURCE / name, root)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        done = subprocess.run([root / ".ci/run"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**environment, "PATH": f"{root}/bin:{os.environ['PATH']}"})
        return done.returncode, done.stdout.splitlines(), root

    def test_all_stages_pass_and_each_test_runs_where_it_should(self):
        status, said, root = self.run_it("echo $1 $2 >>$(dirname $0)/ran")
        self.assertEqual(status, 0, "\n".join(said))
        self.assertEqual(said[-1], "kvferry ci: 13 stages passed")
        self.assertIn("asan: 100% tests passed, 0 tests failed out of 5", said)
        self.assertEqual(sorted((root / "ran").read_text().splitlines()),
                         ["asan cluster", "asan kernels", "asan measured", "asan unit", "cuda kernels", "debug kernels", "debug measured",
                          "debug unit", "tsan unit"])

    def test_a_flaky_test_is_named_and_three_may_be(self):
        status, said, root = self.run_it('mark=$(dirname $0)/$1.$2; [ $1 != asan ] || [ -e $mark ] || { touch $mark; exit 1; }')
        self.assertEqual(status, 1, "\n".join(said))  # four of the asan stage
        self.assertEqual(said[-1], "kvferry ci: 0 of 13 stages failed; too many tests passed only the second time")
        status, said, root = self.run_it('mark=$(dirname $0)/$1.$2; [ $1$2 != asanunit ] || [ -e $mark ] || { touch $mark; exit 1; }')
        self.assertEqual(status, 0, "\n".join(said))
        self.assertIn("FLAKY unit (failed, then passed)", said)
        self.assertTrue((root / "build/ci/asan.unit.first.log").exists() and (root / "build/ci/asan.unit.second.log").exists())
        self.assertEqual(said[-1], "kvferry ci: 13 stages passed")

    def test_what_is_twice_red_is_red_and_the_other_stages_run(self):
        status, said, root = self.run_it('[ $1$2 != debugunit ] || { echo planted; exit 1; }')
        self.assertEqual(status, 1, "\n".join(said))
        self.assertEqual(said[-1], "kvferry ci: 1 of 13 stages failed")
        self.assertIn("planted", said)
        self.assertIn("tsan: 100% tests passed, 0 tests failed out of 1", said)


if __name__ == "__main__":
    unittest.main()
