"""setup.sh: looks first, installs exactly what is missing, and says what it may not install.

The commands it uses are replaced by small scripts: dpkg-query answers from a list of files, apt-get
notes its arguments and "installs" by adding to that list.
"""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SETUP = Path(__file__).resolve().parents[2] / "deploy" / "setup.sh"

COMMANDS = {
    "dpkg-query": 'for package; do :; done\n[ -e "$STATE/installed/$package" ] && printf installed',
    "apt-get": 'echo "$*" >>"$STATE/apt-get.log"\n'
               '[ "$1" = install ] && [ -z "${BROKEN:-}" ] || exit 0\n'
               'for word; do case "$word" in -*|install) ;; *) : >"$STATE/installed/$word" ;; esac; done',
    "id": 'echo "$USER_ID"',
    "go": ":",
}


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.state = Path(self.folder.name)
        (self.state / "installed").mkdir()
        (self.state / "bin").mkdir()
        for name, body in COMMANDS.items():
            self.command(name, body)
        for name in ("sh", "sed", "tr", "env"):  # and nothing else of this machine, sudo least of all
            (self.state / "bin" / name).symlink_to(f"/bin/{name}" if os.path.exists(f"/bin/{name}")
                                                   else f"/usr/bin/{name}")

    def command(self, name: str, body: str) -> None:
        path = self.state / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run_setup(self, *arguments: str, user: int = 0, **more: str) -> subprocess.CompletedProcess:
        environment = {"PATH": str(self.state / "bin"), "STATE": str(self.state), "USER_ID": str(user), **more}
        return subprocess.run(["/bin/sh", str(SETUP), *arguments], env=environment, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL)

    def asked_of_apt(self) -> list[list[str]]:
        log = self.state / "apt-get.log"
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    def test_installs_exactly_what_is_missing(self):
        self.assertEqual(self.run_setup("ci").returncode, 0)
        everything = set(self.asked_of_apt()[-1])
        self.assertIn("libgrpc-dev", everything)
        self.assertIn("clang-tidy", everything)

        for package in ("libucx-dev", "cmake"):
            (self.state / "installed" / package).unlink()
        done = self.run_setup("ci")
        self.assertEqual(done.returncode, 0, done.stderr)
        asked = self.asked_of_apt()[-1]
        self.assertEqual({w for w in asked if not w.startswith("-")}, {"install", "cmake", "libucx-dev"})
        self.assertIn("installing cmake libucx-dev", done.stdout)

    def test_a_published_model_takes_one_package_beyond_the_build(self):
        self.assertEqual(self.run_setup("build").returncode, 0)
        done = self.run_setup("model")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("setup: installing python3-venv\n", done.stdout)

    def test_does_nothing_and_needs_no_root_when_nothing_is_missing(self):
        self.run_setup("ci")
        before = self.asked_of_apt()
        done = self.run_setup("test", user=1000)
        self.assertEqual((done.returncode, done.stdout), (0, "setup: nothing is missing (test)\n"))
        self.assertEqual(self.asked_of_apt(), before)

    def test_names_what_is_missing_when_it_may_not_install(self):
        self.run_setup("ci")
        before = self.asked_of_apt()
        (self.state / "installed" / "libyaml-dev").unlink()
        done = self.run_setup("build", user=1000)
        self.assertEqual(done.returncode, 1)
        self.assertIn("only root may install them: libyaml-dev\n", done.stderr)
        self.assertEqual(self.asked_of_apt(), before)

    def test_a_rust_compiler_that_is_new_enough_will_do(self):
        self.command("cargo", ":")
        for version, is_wanted in (("1.86.0", True), ("1.87.0", False), ("2.0.1", False)):
            self.command("rustc", f'echo "rustc {version} (0123 2026-01-01)"')
            self.assertEqual(self.run_setup("build", BROKEN="1").returncode, 1)
            self.assertEqual("rustc-web" in self.asked_of_apt()[-1], is_wanted, version)

    def test_uses_sudo_that_asks_nothing(self):
        self.run_setup("ci")
        self.command("sudo", 'shift\necho "sudo $*" >>"$STATE/sudo.log"\nexec "$@"')
        self.command("true", ":")
        (self.state / "installed" / "libyaml-dev").unlink()
        done = self.run_setup("build", user=1000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("apt-get install -q", (self.state / "sudo.log").read_text())

    def test_a_group_asks_for_no_more_than_it_needs(self):
        self.run_setup("build")
        asked = set(self.asked_of_apt()[-1])
        self.assertIn("gcc", asked)
        self.assertFalse(asked & {"clang", "clang-tidy", "python3-venv"}, asked)

    def test_an_installation_that_delivers_nothing_is_a_failure(self):
        done = self.run_setup("build", BROKEN="1")
        self.assertEqual(done.returncode, 1)
        self.assertIn("could not be installed", done.stderr)

    def test_an_unknown_group_is_refused(self):
        self.assertEqual(self.run_setup("everything").returncode, 2)
        self.assertEqual(self.asked_of_apt(), [])


if __name__ == "__main__":
    unittest.main()
