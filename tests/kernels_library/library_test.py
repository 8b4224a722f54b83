"""The kernels as a library: what `cmake --install --component kernels` lays down is all that a program needs.

    library_test.py CMAKE BUILD_FOLDER SOURCE_FOLDER [--alone]

--alone: from a build that has nothing but kernels/, made here; it takes as long as compiling all sets does.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CMAKE, BUILD, SOURCE = sys.argv[1:4]
IS_ALONE = "--alone" in sys.argv[4:]
HEADERS = {f"{name}.h" for name in
           ("attention", "attention_backends", "attention_features", "blocks", "context_parallel", "context_threads", "dtype",
            "kernel_set", "kernels", "kv_update", "latent", "moe", "quantize", "recurrent", "rope", "rotary", "status", "symbols", "thread_pool",
            "version")}
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")


def run(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run(words, capture_output=True, text=True, timeout=3000, **options)


def must(*words: str, **options) -> str:
    done = run(*words, **options)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


def without_packages() -> dict[str, str]:
    """An environment in which pkg-config finds nothing."""
    return {**os.environ, "PKG_CONFIG": "false", "PKG_CONFIG_PATH": "", "PKG_CONFIG_LIBDIR": ""}


def configure(folder: str, *flags: str) -> subprocess.CompletedProcess:
    missing = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("PkgConfig", "OpenSSL", "ZLIB", "Python3")]
    return run(CMAKE, "-G", "Ninja", "-S", SOURCE, "-B", folder, "-DCMAKE_BUILD_TYPE=RelWithDebInfo", *missing, *flags,
               env=without_packages())


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        build = BUILD
        if IS_ALONE:
            build = f"{cls.folder.name}/build"
            done = configure(build, "-DKVFERRY_ONLY_KERNELS=ON")
            assert done.returncode == 0, done.stderr
            must(CMAKE, "--build", build, env=without_packages())
        cls.prefix = Path(cls.folder.name) / "moved"
        must(CMAKE, "--install", build, "--prefix", f"{cls.folder.name}/first", "--component", "kernels")
        os.rename(f"{cls.folder.name}/first", cls.prefix)  # nothing in it knows where it was laid down
        cls.include = cls.prefix / "include"
        cls.shared = next(cls.prefix.glob("lib*/**/libkvferry-kernels.so"))
        cls.archive = cls.shared.with_suffix(".a")
        cls.pc = next(cls.prefix.glob("lib*/**/kvferry-kernels.pc"))
        cls.version = re.search(r"project\(kvferry VERSION ([0-9.]+)", Path(SOURCE, "CMakeLists.txt").read_text())[1]

    def pkg_config(self, *words: str) -> list[str]:
        env = {**os.environ, "PKG_CONFIG_PATH": str(self.pc.parent)}
        return must("pkg-config", *words, "kvferry-kernels", env=env).split()

    def example(self, name: str, *flags: str) -> str:
        """What the example prints, compiled with these flags behind it."""
        program = f"{self.folder.name}/{name}"
        must("cc", "-std=c11", *STRICT, "-o", program, f"{SOURCE}/examples/attention.c", *flags)
        return self.printed(program)

    def printed(self, program: str, **environment: str) -> str:
        return must(program, env={**os.environ, "LD_LIBRARY_PATH": str(self.shared.parent), **environment})

    def symbols(self) -> set[str]:
        return set(Path(SOURCE, "kernels/library/symbols.txt").read_text().split())

    def test_exactly_the_library_is_laid_down(self):
        listed = {str(path.relative_to(self.prefix)) for path in self.prefix.rglob("*") if not path.is_dir()}
        lib = self.shared.parent.relative_to(self.prefix)
        soname = f"libkvferry-kernels.so.{'.'.join(self.version.split('.')[:2])}"
        names = ["libkvferry-kernels.a", "libkvferry-kernels.so", soname, f"libkvferry-kernels.so.{self.version}",
                 "pkgconfig/kvferry-kernels.pc"]
        self.assertEqual(listed, {f"{lib}/{name}" for name in names} | {f"include/kvferry/{name}" for name in HEADERS}
                         | {f"share/doc/kvferry-kernels/{name}" for name in ("LICENSE", "attention.c")})

    def test_versions_agree(self):
        self.assertEqual(self.pkg_config("--modversion"), [self.version])
        self.assertIn(f'#define KVFERRY_VERSION       "{self.version}"\n',
                      (self.include / "kvferry/version.h").read_text())
        dynamic = must("readelf", "-d", "-W", str(self.shared))
        soname = f"libkvferry-kernels.so.{'.'.join(self.version.split('.')[:2])}"
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", dynamic), [soname])

    def test_the_shared_library_needs_the_c_library_alone(self):
        dynamic = must("readelf", "-d", "-W", str(self.shared))
        needed = {name.split(".so")[0] for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)}
        self.assertLessEqual(needed, {"libc", "libm", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"})
        self.assertNotIn("TEXTREL", dynamic)

    def test_symbols_are_those_of_the_headers_with_their_prefix(self):
        expected = {f"kvferry_{symbol}" for symbol in self.symbols()}
        for flags, library in (["-D"], self.shared), (["-g"], self.archive):
            listed = must("nm", *flags, "--defined-only", str(library))
            self.assertEqual(set(re.findall(r"^[0-9a-f]+ \w (\w+)$", listed, re.M)), expected, library.name)
        source = "".join(f"#include <kvferry/{name}>\n" for name in sorted(HEADERS))
        told = f"{self.folder.name}/declared"
        must("gcc", f"-I{self.include}", "-aux-info", told, "-S", "-o", os.devnull, "-x", "c", "-", input=source)
        lines = [line for line in Path(told).read_text().splitlines() if f"{self.include}/kvferry/" in line]
        declared = {re.search(r"(\w+) \(", line)[1] for line in lines if " static " not in line}
        self.assertEqual(declared, self.symbols())

    def test_the_example_runs_on_the_shared_library_and_on_the_archive(self):
        shared = self.example("shared", *self.pkg_config("--cflags", "--libs"))
        self.assertRegex(shared, r"^\w+: prompt of 20, its last token -?[0-9.]+\ntoken 20: -?[0-9.]+\n$")
        oracle = self.printed(f"{self.folder.name}/shared", KVFERRY_CPU="reference")
        ours, right = ([float(number) for number in re.findall(r"-?[0-9]\.[0-9]+", text)] for text in (shared, oracle))
        self.assertEqual(len(ours), 2)
        for number, expected in zip(ours, right):
            self.assertAlmostEqual(number, expected, delta=2e-6)
        flags = self.pkg_config("--cflags", "--libs", "--static")
        archive = self.example("archive", *[str(self.archive) if f == "-lkvferry-kernels" else f for f in flags])
        self.assertEqual(archive, shared)
        needed = must("readelf", "-d", "-W", f"{self.folder.name}/archive")
        self.assertNotIn("kvferry", needed)

    def test_each_header_stands_alone_in_c_and_in_cpp(self):
        for name in sorted(HEADERS):
            for compiler, language in (("gcc", "c"), ("g++", "c++")):
                done = run(compiler, *STRICT, "-x", language, "-fsyntax-only", f"-I{self.include}", "-",
                           input=f"#include <kvferry/{name}>\nextern int used;\n")
                self.assertEqual((done.returncode, done.stderr), (0, ""), f"{name} in {language}")

    def test_a_program_in_cpp_links(self):
        source = ('#include <kvferry/kernels.h>\n#include <cstdio>\n'
                  'int main() { const kernels *all[KERNELS_MAX]; uint32_t n = kernels_list(all, KERNELS_MAX);\n'
                  'for (uint32_t i = 0; i < n; i++) std::puts(all[i]->name); }\n')
        program = f"{self.folder.name}/listed"
        must("g++", *STRICT, "-x", "c++", "-", "-x", "none", "-o", program, *self.pkg_config("--cflags", "--libs"),
             input=source)
        names = self.printed(program).split()
        self.assertEqual(names[:2], ["reference", "scalar"])

    def test_alone_it_is_configured_without_any_package(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertNotEqual(configure(folder).returncode, 0)  # the service does need them
        with tempfile.TemporaryDirectory() as folder:
            done = configure(folder, "-DKVFERRY_ONLY_KERNELS=ON")
            self.assertEqual(done.returncode, 0, done.stderr)
            must(CMAKE, "--build", folder, "--target", "kernels_base", env=without_packages())
            targets = must(CMAKE, "--build", folder, "--target", "help")
            self.assertIn("kvferry_kernels: phony", targets)
            for target in "rpc", "kvtransfer", "kvferry":
                self.assertNotIn(f"\n{target}: phony", targets)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
