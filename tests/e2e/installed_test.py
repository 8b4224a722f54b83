"""What `cmake --install` lays down works where it lies: program, man pages, completions, pages for users, licence.

    installed_test.py CMAKE BUILD_FOLDER SOURCE_FOLDER

The pages of docs/reference are those of the tables in the code. Needs bash; zsh, fish and mandoc judge what is
theirs where they are installed, which deploy/setup.sh sees to.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CMAKE, BUILD, SOURCE = sys.argv[1:4]


def run(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(words, capture_output=True, text=True, timeout=120, **options)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        done = run(CMAKE, "--install", BUILD, "--prefix", "/usr", env={**os.environ, "DESTDIR": cls.folder.name})
        assert done.returncode == 0, done.stderr
        cls.usr = Path(cls.folder.name) / "usr"
        cls.program = str(cls.usr / "bin/kvferry")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def commands(self) -> list[str]:
        listed = run(self.program, "help").stdout
        return re.findall(r"^  ([a-z-]+) +\w", listed.split("Examples")[0], re.M)

    def complete(self, *words: str) -> list[str]:
        """What bash offers for the last of words."""
        script = (f"source {self.usr}/share/bash-completion/completions/kvferry; COMP_WORDS=(\"$@\"); "
                  "COMP_CWORD=$(($# - 1)); _kvferry; printf '%s\\n' \"${COMPREPLY[@]}\"")
        done = run("bash", "-c", script, "bash", "kvferry", *words)
        self.assertEqual(done.stderr, "")
        return done.stdout.split()

    def test_the_program_runs(self):
        self.assertIn("kvferry ", run(self.program, "version").stdout)
        done = run(self.program, "serve", f"{SOURCE}/model/demo", "--check-config")
        self.assertEqual((done.returncode, done.stdout), (0, "the configuration is valid\n"), done.stderr)

    def commit_of(self, source: Path) -> str:
        written = source / "build_commit.c"
        done = run(CMAKE, f"-DSOURCE={source}", f"-DOUT={written}", "-P", f"{SOURCE}/base/commit.cmake")
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r'return "(.*)"', written.read_text()).group(1)

    def test_the_commit_is_that_of_the_sources_own_repository(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder)
            self.assertEqual(self.commit_of(source), "unknown")
            git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
            run(*git, "init")
            (source / "file").write_text("1")
            run(*git, "add", "file")
            run(*git, "commit", "-m", "first")
            commit = run(*git, "rev-parse", "--short=12", "HEAD").stdout.strip()
            self.assertRegex(commit, "^[0-9a-f]{12}$")
            self.assertEqual(self.commit_of(source), commit)
            (source / "file").write_text("2")
            self.assertEqual(self.commit_of(source), commit + "+")
            (source / "inner").mkdir()
            self.assertEqual(self.commit_of(source / "inner"), "unknown")

    def test_licence_changelog_and_pages_for_users_are_there(self):
        installed = self.usr / "share/doc/kvferry"
        sources = {"LICENSE": "LICENSE", "CHANGELOG.md": "CHANGELOG.md", "watch.png": "docs/watch.png"}
        names = ("ps", "watch", "tenants", "cluster-key", "tls", "tracing", "three-machines", "kubernetes", "operations",
                 "openai", "gateways", "kv-events")
        sources |= {f"{page}.md": f"docs/{page}.md" for page in names}
        pages = ("config", "errors", "metrics", "ports")
        sources |= {f"reference/{page}.md": f"docs/reference/{page}.md" for page in pages}
        found = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
        crates = {path for path in found if path.startswith("crates/")}
        self.assertEqual(found - crates, set(sources))
        self.assertEqual("crates/crates.tsv" in crates, (Path(BUILD) / "crates").is_dir())
        for name, source in sources.items():
            self.assertEqual((installed / name).read_bytes(), Path(SOURCE, source).read_bytes(), name)

    def test_the_library_of_kernels_is_laid_down_only_when_it_is_asked_for(self):
        self.assertEqual({path.name for path in self.usr.iterdir()}, {"bin", "share"})

    def test_every_command_has_a_man_page(self):
        self.assertGreaterEqual(len(self.commands()), 9)
        for command in self.commands():
            page = self.usr / f"share/man/man1/kvferry-{command}.1"
            text = page.read_text()
            self.assertTrue(text.startswith(".TH KVFERRY\\-"), text[:80])
            self.assertIn(".SH SYNOPSIS\n.B kvferry ", text)
            self.assertNotIn("parent", text)
        self.assertIn(".B \\-\\-kv\\-block\\-tokens", (self.usr / "share/man/man1/kvferry-serve.1").read_text())
        self.assertTrue((self.usr / "share/man/man1/kvferry.1").exists())
        self.assertIn("\n(may be repeated; KVFERRY_STOP)", (self.usr / "share/man/man1/kvferry-generate.1").read_text())

    def test_man_pages_are_well_formed(self):
        for page in sorted((self.usr / "share/man/man1").iterdir()):
            done = run("mandoc", "-Tlint", "-Wwarning", str(page))
            said = [line for line in (done.stdout + done.stderr).splitlines() if "missing date" not in line]
            self.assertEqual(said, [], page.name)

    def test_bash_completes_commands_flags_and_words(self):
        self.assertEqual(self.complete("gene"), ["generate"])
        self.assertEqual(self.complete("help", "ctx"), ["ctx-worker"])
        self.assertEqual(self.complete("serve", "--kv-b"), ["--kv-block-tokens", "--kv-blocks"])
        self.assertEqual(self.complete("serve", "--kv-dtype", "b"), ["bf16"])
        self.assertEqual(self.complete("router", "--no-local"), ["--no-local-prefill"])
        self.assertEqual(self.complete("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.complete("serve", "--parent"), [])

    def test_other_shells_can_read_theirs(self):
        theirs = {"zsh": ["-n", f"{self.usr}/share/zsh/site-functions/_kvferry"],
                  "fish": ["--no-execute", f"{self.usr}/share/fish/vendor_completions.d/kvferry.fish"]}
        for shell, arguments in theirs.items():
            self.assertIn("kvferry", Path(arguments[1]).read_text())
            done = run(shell, *arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""), shell)

    def test_fish_completes(self):
        script = f"source {self.usr}/share/fish/vendor_completions.d/kvferry.fish; complete -C"
        with tempfile.TemporaryDirectory() as home:
            env = {**os.environ, "HOME": home, "PATH": f"{self.usr}/bin:{os.environ['PATH']}"}
            offered = run("fish", "-c", f"{script} 'kvferry gene'", env=env)
            self.assertTrue(offered.stdout.startswith("generate"), offered)
            offered = run("fish", "-c", f"{script} 'kvferry serve --kv-dtype '", env=env)
            words = sorted(line.split()[0] for line in offered.stdout.splitlines())
            self.assertEqual(words, ["auto", "bf16", "e4m3", "f16", "f32", "int8"])

    def test_an_unknown_shell_is_refused(self):
        done = run(self.program, "completion", "tcsh")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("bash, zsh or fish", done.stderr)

    def test_the_reference_is_that_of_the_code(self):
        for page in "config", "errors", "metrics", "ports":
            done = run(self.program, "reference", page)
            self.assertEqual(done.returncode, 0, done.stderr)
            committed = Path(SOURCE, f"docs/reference/{page}.md").read_text()
            self.assertEqual(done.stdout, committed, f"docs/reference/{page}.md is old: make reference")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
