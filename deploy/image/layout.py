#!/usr/bin/env python3
"""Lays out the root folder of the image: layout.py PROGRAM SOURCE ROOT

What is in it, and nothing else:

    /usr/bin/kvferry                    PROGRAM, stripped
    /usr/lib/TRIPLE, /usr/lib64         the libraries that the loader finds for it, and the loader
    /models/demo                        SOURCE/model/demo, as a worker reads it
    /etc/passwd, group, nsswitch.conf   uid and gid 65532; names from files, then DNS
    /usr/share/doc                      licences: SOURCE/LICENSE, and each package's copyright file
    /usr/share/kvferry/sbom.json        what deploy/sbom.py says of PROGRAM

UCX's modules (cma, ib, rdmacm) are not among them: KV crosses by its TCP transport, which is in libuct itself; gRPC's and glibc's
resolvers are in their libraries, and of OpenSSL's providers the one that is used is in libcrypto.

Every file is the distribution's own, from this machine, which is to be a Debian 12. Python's standard library, ldd,
dpkg-query and strip only; both ways to the image (image.py, Dockerfile) begin here.
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import sbom  # noqa: E402

MODEL_FILES = ["LICENSE", "README.md", "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
               "tokenizer_config.json"]
IDENTITY = {
    "etc/passwd": "kvferry:x:65532:65532:kvferry:/:/sbin/nologin\n",
    "etc/group": "kvferry:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def loaded(program):
    """Name by which the loader looks for it -> file, of all that it finds for the program; the loader itself by its path."""
    found = {}
    for line in sbom.output("ldd", program).splitlines():
        match = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", line)
        if match:
            found[match[1] or match[2]] = pathlib.Path(match[2]).resolve()
        elif "not found" in line:
            sys.exit(f"{program}:{line}")
    return found


def copy(source, target, mode):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def lay_libraries(program, root):
    """Returns the files they were copied from."""
    found = loaded(program)
    home = next(path.parent for name, path in found.items() if name.startswith("libc.so"))
    for name, path in found.items():
        # The loader is where the program's header says; /lib64 and /lib are links, as in Debian.
        target = root / "usr" / name.lstrip("/") if name.startswith("/") else root / "usr/lib" / home.name / name
        copy(path, target, 0o755 if name.startswith("/") else 0o644)
    for name in ("lib", "lib64"):
        if (root / "usr" / name).is_dir():
            (root / name).symlink_to(f"usr/{name}")
    return list(found.values())


def lay_licences(source, files, root):
    copy(source / "LICENSE", root / "usr/share/doc/kvferry/copyright", 0o644)
    packages = sbom.packages_of([str(path) for path in files])
    missing = {str(path) for path in files} - set(packages)
    if missing:
        sys.exit(f"of no package, so that nobody knows their licence: {', '.join(sorted(missing))}")
    for name in sorted({package[0] for package in packages.values()}):
        copy(f"/usr/share/doc/{name}/copyright", root / "usr/share/doc" / name / "copyright", 0o644)


def lay_out(program, source, root):
    root.mkdir(parents=True)
    target = root / "usr/bin/kvferry"
    copy(program, target, 0o755)
    subprocess.run(["strip", "--strip-all", target], check=True)
    files = lay_libraries(program, root)
    for name in MODEL_FILES:
        copy(source / "model/demo" / name, root / "models/demo" / name, 0o644)
    for name, text in IDENTITY.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o644)
    lay_licences(source, files, root)
    (root / "usr/share/kvferry").mkdir()
    sbom.write(str(target), [str(path) for path in files], root / "usr/share/kvferry/sbom.json")
    (root / "usr/share/kvferry/sbom.json").chmod(0o644)
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir() and not path.is_symlink())]:
        folder.chmod(0o755)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    lay_out(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
