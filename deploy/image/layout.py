#!/usr/bin/env python3
"""Lays out the root folder of the image: layout.py PROGRAM SOURCE ROOT [UCX]

What is in it, and nothing else:

    /usr/bin/kvferry                    PROGRAM, stripped
    /usr/lib/TRIPLE, /usr/lib64         the libraries that the loader finds for it, and the loader
    /models/demo                        SOURCE/model/demo, as a worker reads it
    /etc/passwd, group, nsswitch.conf   uid and gid 65532; names from files, then DNS
    /usr/share/doc                      licences: SOURCE/LICENSE, each package's copyright file, those of the Rust crates in PROGRAM
    /usr/share/kvferry/sbom.json        what deploy/sbom.py says of PROGRAM

UCX's modules (cma, ib, rdmacm) are not among them: KV crosses by its TCP transport, which is in libuct itself; gRPC's and glibc's
resolvers are in their libraries, and of OpenSSL's providers the one that is used is in libcrypto.

With UCX, the folder into which ucx.sh has unpacked a wheel, it is the cuda flavour: UCX's libraries are that wheel's, and there is

    /usr/lib/TRIPLE/ucx/libuct_cuda.so.0    its module for memory of a GPU. libcuda.so.1 and libnvidia-ml.so.1, which it asks for,
                                            are the driver's: a node's container runtime puts them there. Without them UCX leaves it out

libucm_cuda, which follows a program's own cudaMalloc, stays out: the program has none, and the wheel has no licence of the libcudart
that it asks for. The wheel has no module for RDMA.

Every other file is the distribution's own, from this machine, which is to be a Debian 12. Python's standard library, ldd,
dpkg-query and strip only; both ways to the image (image.py, Dockerfile) begin here.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import sbom  # noqa: E402

MODEL_FILES = ["LICENSE", "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
               "tokenizer_config.json"]
UCX_MODULES = ["libuct_cuda.so.0"]
IDENTITY = {
    "etc/passwd": "kvferry:x:65532:65532:kvferry:/:/sbin/nologin\n",
    "etc/group": "kvferry:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def loaded(program, folder):
    """Name by which the loader looks for it -> file, of all that it finds for the program, in the folder first; the loader itself
    by its path."""
    found = {}
    path = {"LD_LIBRARY_PATH": str(folder.resolve())} if folder else {}
    ended = subprocess.run(["ldd", program], capture_output=True, text=True, env=os.environ | path)
    for line in ended.stdout.splitlines():
        match = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", line)
        if match:
            found[match[1] or match[2]] = pathlib.Path(match[2]).resolve()
        elif "=>" in line:  # not found, or at no place of its own
            sys.exit(f"{program}:{line}")
    return found


def copy(source, target, mode):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def lay_libraries(program, root, ucx):
    """Returns the files they were copied from."""
    found = loaded(program, ucx and ucx / "libucx/lib")
    home = next(path.parent for name, path in found.items() if name.startswith("libc.so"))
    for name, path in found.items():
        # The loader is where the program's header says; /lib64 and /lib are links, as in Debian.
        target = root / "usr" / name.lstrip("/") if name.startswith("/") else root / "usr/lib" / home.name / name
        copy(path, target, 0o755 if name.startswith("/") else 0o644)
    modules = [ucx / "libucx/lib/ucx" / name for name in UCX_MODULES] if ucx else []
    for path in modules:
        copy(path, root / "usr/lib" / home.name / "ucx" / path.name, 0o644)
    for name in ("lib", "lib64"):
        if (root / "usr" / name).is_dir():
            (root / name).symlink_to(f"usr/{name}")
    return [*found.values(), *modules]


def lay_licences(source, files, root, crates):
    copy(source / "LICENSE", root / "usr/share/doc/kvferry/copyright", 0o644)
    for path in sorted((crates / "licences").glob("*/*")) if crates else []:
        copy(path, root / "usr/share/doc/kvferry/crates" / path.parent.name / path.name, 0o644)
    wheels = sbom.wheels_of([str(path) for path in files])
    for wheel in {wheel.name: wheel for wheel in wheels.values()}.values():
        copy(wheel.licence, root / "usr/share/doc" / wheel.name / "copyright", 0o644)
    packages = sbom.packages_of([str(path) for path in files if str(path) not in wheels])
    missing = {str(path) for path in files} - set(packages) - set(wheels)
    if missing:
        sys.exit(f"of no package, so that nobody knows their licence: {', '.join(sorted(missing))}")
    for name in sorted({package[0] for package in packages.values()}):
        copy(f"/usr/share/doc/{name}/copyright", root / "usr/share/doc" / name / "copyright", 0o644)


def lay_out(program, source, root, ucx=None):
    root.mkdir(parents=True)
    target = root / "usr/bin/kvferry"
    copy(program, target, 0o755)
    subprocess.run(["strip", "--strip-all", target], check=True)
    files = lay_libraries(program, root, ucx)
    for name in MODEL_FILES:
        copy(source / "model/demo" / name, root / "models/demo" / name, 0o644)
    for name, text in IDENTITY.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o644)
    crates = sbom.crates_folder(program)
    lay_licences(source, files, root, crates)
    (root / "usr/share/kvferry").mkdir()
    sbom.write(str(target), [str(path) for path in files], root / "usr/share/kvferry/sbom.json", crates)
    (root / "usr/share/kvferry/sbom.json").chmod(0o644)
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]:
        folder.chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    lay_out(*(pathlib.Path(word) for word in sys.argv[1:]))
