#!/usr/bin/env python3
"""The image: the same bytes each time, what belongs in it and nothing else, and it serves read-only as uid 65532.

image_test.py KVFERRY SOURCE [FLAVOUR FOLDER]: FOLDER keeps what is fetched for the cuda flavour.

Running it takes root and `unshare`: the layer becomes the read-only root of a process without capabilities, as a container's is.
Exit status 77, with a line: that could not be done here; everything else was.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

SKIPPED = 77
EPOCH = 1700000000
BYTES_MAX = 80 << 20
START_LIMIT_S = 60
BINARY, SOURCE, FLAVOUR, FOLDER = "", pathlib.Path(), "cpu", ""
# What a node's container runtime puts into a container that is given a GPU.
DRIVERS_LIBRARIES = {"libcuda.so.1", "libnvidia-ml.so.1"}

ALLOWED = [
    r"usr/bin/kvferry",
    r"usr/lib64/ld-linux-x86-64\.so\.2|usr/lib/ld-linux-aarch64\.so\.1",
    r"usr/lib/\w+-linux-gnu/lib[\w+.-]+\.so[\w.]*",
    r"usr/share/doc/[\w+.-]+/copyright",
    r"usr/share/doc/kvferry/crates/[\w+.-]+/[\w+.-]+",
    r"usr/share/kvferry/sbom\.json",
    r"etc/(passwd|group|nsswitch\.conf)",
    r"models/demo/(LICENSE|README\.md|config\.json|generation_config\.json|model\.safetensors|tokenizer(_config)?\.json)",
]
ALLOWED_IN_CUDA = [r"usr/lib/\w+-linux-gnu/ucx/libuct_cuda\.so\.0", r"usr/share/doc/libucx-cu13/copyright"]


def is_cuda():
    return FLAVOUR == "cuda"


def wheels_version():
    """Of UCX, as the requirements pin it."""
    text = (SOURCE / "deploy/image/ucx_requirements.txt").read_text()
    return re.search(r"^libucx-cu13==([\d.]+)", text, re.M)[1]


def make(folder, fetched=None):
    """fetched: a folder that has what the cuda flavour takes."""
    output = pathlib.Path(folder) / "kvferry.tar"
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(EPOCH), "REVISION": "0123abcd", "SOURCE": "https://example.org/k"}
    words = [SOURCE / "deploy/image/make.sh", BINARY, output, FLAVOUR, os.path.relpath(fetched or FOLDER or folder)]
    subprocess.run(words, check=True, env=environment, stdout=subprocess.DEVNULL)
    return output


class Image:
    """An image's file, read by its OCI index."""

    def __init__(self, path):
        self.tar = tarfile.open(path)
        self.index = json.load(self.tar.extractfile("index.json"))
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.content = self.blob(self.manifest["layers"][0])
        with open(path.with_name("layer.tar"), "wb") as out:
            out.write(self.content)
        self.layer = tarfile.open(path.with_name("layer.tar"))
        self.members = self.layer.getmembers()

    def blob(self, descriptor):
        content = self.tar.extractfile("blobs/" + descriptor["digest"].replace(":", "/")).read()
        assert "sha256:" + hashlib.sha256(content).hexdigest() == descriptor["digest"], descriptor
        assert len(content) == descriptor["size"], descriptor
        return content


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = make(cls.folder.name)
        cls.image = Image(cls.path)

    @classmethod
    def tearDownClass(cls):
        cls.image.tar.close()
        cls.image.layer.close()
        cls.folder.cleanup()

    def test_it_has_the_same_bytes_each_time(self):
        mask = os.umask(0o077)
        try:
            with tempfile.TemporaryDirectory() as other:
                elsewhere = pathlib.Path(other) / "Elsewhere"
                if is_cuda():
                    shutil.copytree(pathlib.Path(FOLDER) / "ucx", elsewhere / "ucx")
                again = make(other, os.path.realpath(elsewhere))
                for name in ("kvferry.tar", "kvferry.digest", "kvferry.sbom.json"):
                    self.assertEqual(self.path.with_name(name).read_bytes(), again.with_name(name).read_bytes(), name)
        finally:
            os.umask(mask)

    def test_the_cuda_flavour_takes_a_program_that_has_kernels_for_a_gpu(self):
        said = subprocess.run([BINARY, "version"], check=True, capture_output=True, text=True).stdout
        if re.search(r"(?m)^GPU kernels +part of this build$", said):
            return
        self.assertFalse(is_cuda(), said)
        words = [SOURCE / "deploy/image/make.sh", BINARY, pathlib.Path(self.folder.name) / "cuda/kvferry.tar", "cuda"]
        refused = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("has no kernels for a GPU", refused.stderr)

    def test_it_is_small(self):
        self.assertLess(len(self.image.content), BYTES_MAX)
        self.assertGreater(len(self.image.content), 1 << 20)

    def test_it_has_what_belongs_there_and_nothing_else(self):
        files = {member.name for member in self.image.members if member.isfile()}
        allowed = ALLOWED + (ALLOWED_IN_CUDA if is_cuda() else [])
        for name in files:
            self.assertTrue(any(re.fullmatch(pattern, name) for pattern in allowed), f"{name} does not belong there")
        for pattern in allowed:
            self.assertTrue(any(re.fullmatch(pattern, name) for name in files), f"nothing is like {pattern}")
        links = {member.name: member.linkname for member in self.image.members if member.issym()}
        self.assertTrue(set(links.items()) <= {("lib", "usr/lib"), ("lib64", "usr/lib64")}, links)

    def test_nothing_in_it_can_be_written_or_raises_who_runs_it(self):
        for member in self.image.members:
            with self.subTest(member.name):
                self.assertTrue(member.isfile() or member.isdir() or member.issym())
                self.assertEqual((member.uid, member.gid, member.mtime), (0, 0, EPOCH))
                if not member.issym():
                    self.assertIn(member.mode, (0o755,) if member.isdir() else (0o755, 0o644))

    def test_every_library_that_is_asked_for_is_there(self):
        names = {pathlib.Path(member.name).name for member in self.image.members}
        n_asked = 0
        drivers = set()
        with tempfile.TemporaryDirectory() as root:
            self.image.layer.extractall(root, filter="fully_trusted")
            for path in pathlib.Path(root).rglob("*"):
                if not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
                    continue
                dynamic = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True).stdout
                for name in re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic):
                    n_asked += 1
                    if is_cuda() and path.name == "libuct_cuda.so.0" and name in DRIVERS_LIBRARIES:
                        drivers.add(name)
                        continue
                    self.assertIn(name, names, f"{path.name} asks for {name}")
        self.assertGreater(n_asked, 50)
        self.assertEqual(drivers, DRIVERS_LIBRARIES if is_cuda() else set())

    def test_its_documents_agree_with_each_other(self):
        config = self.image.config
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(self.image.content).hexdigest()])
        self.assertEqual(config["config"]["User"], "65532:65532")
        self.assertEqual(config["config"]["Entrypoint"], ["/usr/bin/kvferry"])
        version = subprocess.run([BINARY, "version"], check=True, capture_output=True, text=True).stdout.split()[1].rstrip(",")
        for labels in (config["config"]["Labels"], self.image.manifest["annotations"]):
            for key, value in {"version": version, "revision": "0123abcd", "licenses": "Apache-2.0", "title": "kvferry",
                               "source": "https://example.org/k", "created": "2023-11-14T22:13:20Z"}.items():
                self.assertEqual(labels[f"org.opencontainers.image.{key}"], value)
        archive, = json.load(self.image.tar.extractfile("manifest.json"))
        tag = version + ("-cuda" if is_cuda() else "")
        self.assertEqual(archive["RepoTags"], [f"kvferry:{tag}"])
        self.assertEqual(self.image.index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"], tag)
        asked_of_the_runtime = ["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"] if is_cuda() else []
        self.assertEqual(config["config"]["Env"], ["PATH=/usr/bin", *asked_of_the_runtime])
        self.assertEqual(json.load(self.image.tar.extractfile(archive["Config"])), config)
        self.assertEqual(self.image.tar.extractfile(archive["Layers"][0]).read(), self.image.content)

    def test_its_bill_of_materials_names_every_library_by_its_package(self):
        bill = json.load(self.image.layer.extractfile("usr/share/kvferry/sbom.json"))
        crates = [part for part in bill["components"] if part.get("purl", "").startswith("pkg:cargo/")]
        for part in crates:  # compiled in, each with its licence's text
            folder = part["name"] if part["name"] == "rust-std" else f"{part['name']}-{part['version']}"
            texts = [member.name for member in self.image.members if f"share/doc/kvferry/crates/{folder}/" in member.name]
            self.assertTrue(texts, folder)
        digests = {part["hashes"][0]["content"] for part in bill["components"] if part not in crates}
        libraries = [member for member in self.image.members if member.isfile() and "/lib" in member.name and ".so" in member.name]
        for member in libraries:
            digest = hashlib.sha256(self.image.layer.extractfile(member).read()).hexdigest()
            self.assertIn(digest, digests, member.name)
        self.assertEqual(len(digests), len(libraries))
        self.assertTrue(all("purl" in part and "licenses" in part or part["name"] for part in bill["components"]))
        ucx = {part["name"]: part["purl"] for part in bill["components"] if re.match(r"libuc[mpst]", part["name"])}
        self.assertGreaterEqual(set(ucx), {"libucp.so.0", "libuct_cuda.so.0"} if is_cuda() else {"libucp.so.0.0.0"})
        for name, purl in ucx.items():
            self.assertTrue(purl.startswith(f"pkg:pypi/libucx-cu13@{wheels_version()}" if is_cuda() else "pkg:deb/"), f"{name} {purl}")
        program = self.image.layer.extractfile("usr/bin/kvferry").read()
        self.assertEqual(bill["metadata"]["component"]["hashes"][0]["content"], hashlib.sha256(program).hexdigest())


# What a runtime gives a container: /proc, /sys, a few devices, /dev/shm; then uid 65532 and no way back.
INSIDE = r"""
set -eu
root=$1; shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for name in null urandom; do : >"$root/dev/$name"; mount --bind "/dev/$name" "$root/dev/$name"; done
mkdir "$root/dev/shm"
mount -t tmpfs -o mode=1777,size=8m shm "$root/dev/shm"
if [ "${NO_SYS:-}" = "" ]; then
    mount --bind /sys "$root/sys"
    mount -o remount,bind,ro "$root/sys"
fi
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec=65532:65532 "$root" /usr/bin/kvferry "$@"
"""


class Container:
    def __init__(self, image, folder):
        self.root = pathlib.Path(folder) / "root"
        image.layer.extractall(self.root, filter="fully_trusted")
        for name in ("proc", "dev", "sys"):
            (self.root / name).mkdir()
        self.log = open(pathlib.Path(folder) / "log", "w+")

    def words(self, *arguments):
        return ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh", self.root, *arguments]

    def start(self, *arguments):
        return subprocess.Popen(self.words(*arguments), stdout=subprocess.PIPE, stderr=self.log, text=True)

    def stop(self, process):
        """With what is left in there: --kill-child holds no longer for who has changed its user."""
        if process.poll() is None:
            for pid in children(process.pid):
                os.kill(pid, signal.SIGKILL)
            process.kill()
        process.wait()
        process.stdout.close()

    def run(self, *arguments, **more):
        return subprocess.run(self.words(*arguments), capture_output=True, text=True, timeout=120, **more)

    def said(self):
        self.log.seek(0)
        return self.log.read()


def children(pid):
    return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def first_child(pid):
    return children(pid)[0]


def lay_driver_without_gpu(module):
    """Puts the driver's libraries where a runtime would: all that the module asks them for fails as on a node without a GPU."""
    undefined = subprocess.run(["nm", "-D", "--undefined-only", module], check=True, capture_output=True, text=True).stdout
    for library, prefix, no_device in (("libcuda.so.1", "cu", 100), ("libnvidia-ml.so.1", "nvml", 9)):
        names = re.findall(rf" U ({prefix}\w+)", undefined)
        source = "".join(f"int {name}(void) {{ return {no_device}; }}\n" for name in names)
        subprocess.run(["cc", "-w", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-x", "c", "-", "-o", module.parent.parent / library],
                       check=True, input=source, text=True)


class RunTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.image = Image(make(self.folder.name))
        self.container = Container(self.image, self.folder.name)

    def tearDown(self):
        self.image.tar.close()
        self.image.layer.close()
        self.container.log.close()
        self.folder.cleanup()

    def test_it_serves_the_demo_and_kv_crosses(self):
        any_port = "127.0.0.1:0"
        ports = [word for name in ("grpc", "http", "control", "health", "metrics") for word in (f"--{name}-address", any_port)]
        server = self.container.start("serve", "/models/demo", *ports, "--seccomp", "on")
        try:
            line = server.stdout.readline()  # its end, too, ends this
            self.assertIn("ready in", line, self.container.said())
            address = re.search(r" at (127\.0\.0\.1:\d+) ", line)[1]
            if is_cuda():
                self.assertEqual(len(re.findall(rf"transport am-tcp .*ucx {re.escape(wheels_version())}\b", self.container.said())), 2)
            first = first_child(server.pid)
            status = pathlib.Path(f"/proc/{first}/status").read_text()
            for row in (r"Uid:\t65532\t65532\t65532\t65532", r"CapEff:\t0{16}", r"NoNewPrivs:\t1"):
                self.assertRegex(status, row)
            self.assertEqual(len(children(first)), 3)
            for role in children(first):
                self.assertRegex(pathlib.Path(f"/proc/{role}/status").read_text(), r"Seccomp:\t2")
            prompt = (SOURCE / "cli/demo_prompt.txt").read_text()
            asked = self.container.run("generate", "--server", address, "--verbose", "--max-tokens", "32", input=prompt)
            self.assertEqual(asked.returncode, 0, asked.stderr + self.container.said())
            self.assertGreater(len(asked.stdout), 32)
            self.assertRegex(asked.stderr, r"(?m)^  KV +[1-9]", self.container.said())
            beside = ["nsenter", "--target", str(first), "--mount", "--pid", "chroot", "--userspec=65532:65532", self.container.root,
                      "/usr/bin/kvferry"]  # what `kubectl exec` does
            listed = subprocess.run([*beside, "ps", "--server", address], capture_output=True, text=True, timeout=60)
            self.assertEqual(listed.returncode, 0, listed.stderr)
            self.assertEqual(len(re.findall(r"\bready\b", listed.stdout)), 3, listed.stdout)
            os.kill(first, signal.SIGTERM)
            self.assertEqual(server.wait(60), 0, self.container.said())
        finally:
            self.container.stop(server)

    def test_the_cuda_flavour_asks_for_a_driver_and_not_for_another_build(self):
        if not is_cuda():
            self.skipTest("the cpu flavour has no kernels for a GPU")
        refused = self.container.run("gen-worker", "/models/demo", "--device", "cuda:0", "--check-config")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        self.assertIn("there is no NVIDIA driver", refused.stderr)

    def wait_ready(self, process, role):
        until = time.monotonic() + START_LIMIT_S
        ready = f'"role":"{role}","name":"one-{role}","msg":"ready in'
        while ready not in self.container.said():
            self.assertIsNone(process.poll(), self.container.said())
            self.assertLess(time.monotonic(), until, self.container.said())
            time.sleep(0.02)

    def test_a_role_needs_no_folder_that_can_be_written(self):
        ports = ("--control-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--metrics-address", "127.0.0.1:0")
        for role in ("router", "ctx-worker", "gen-worker"):
            grpc = ("--grpc-address", "127.0.0.1:0") if role == "router" else ()
            process = self.container.start(role, "/models/demo", *ports, *grpc, "--log-format", "json", "--name", f"one-{role}")
            try:
                self.wait_ready(process, role)
                os.kill(first_child(process.pid), signal.SIGTERM)
                self.assertEqual(process.wait(60), 0, self.container.said())
            finally:
                self.container.stop(process)

    def test_the_module_is_found_beside_a_driver_that_has_no_gpu(self):
        if not is_cuda():
            self.skipTest("the cpu flavour has no module")
        module, = self.container.root.glob("usr/lib/*/ucx/libuct_cuda.so.0")
        lay_driver_without_gpu(module)
        process = self.container.start("ctx-worker", "/models/demo", "--control-address", "127.0.0.1:0", "--health-address",
                                       "127.0.0.1:0", "--metrics-address", "", "--log-format", "json", "--name", "one-ctx-worker")
        try:
            self.wait_ready(process, "ctx-worker")
            mapped = pathlib.Path(f"/proc/{first_child(process.pid)}/maps").read_text()
            self.assertIn("/ucx/libuct_cuda.so.0", mapped)
            self.assertNotRegex(self.container.said(), r'"level":"(warn|error)"')
        finally:
            self.container.stop(process)

    def test_without_sys_a_worker_says_that_it_finds_no_network(self):
        ended = self.container.run("ctx-worker", "/models/demo", "--dry-run", env=os.environ | {"NO_SYS": "1"})
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("/sys/class/net", ended.stderr)

    def test_what_it_is_not_given_it_says(self):
        ended = self.container.run("ctx-worker", "/models/demo", "--control-address", "127.0.0.1:0", "--health-address",
                                   "127.0.0.1:0", "--metrics-address", "", "--ports-file", "/ports.json")
        self.assertEqual(ended.returncode, 1)
        self.assertRegex(ended.stdout + ended.stderr, r"ports file .*ports\.json: (Read-only file system|Permission denied)")


def can_run():
    ended = subprocess.run(["unshare", "--mount", "--pid", "--ipc", "--fork", "setpriv", "--no-new-privs", "true"], capture_output=True)
    if os.geteuid() == 0 and ended.returncode == 0:
        return True
    print("SKIPPED: the image is not run here: that takes root and unshare", file=sys.stderr)
    return False


if __name__ == "__main__":
    BINARY, SOURCE = sys.argv[1], pathlib.Path(sys.argv[2])
    if len(sys.argv) > 3:
        FLAVOUR, FOLDER = sys.argv[3:]
    tests = unittest.TestSuite()
    may_run = can_run()
    for case in (ImageTest, RunTest) if may_run else (ImageTest,):
        tests.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    sys.exit(1 if not result.wasSuccessful() else 0 if may_run else SKIPPED)
