#!/usr/bin/env python3
"""Writes what a program is linked with as CycloneDX 1.5 JSON: sbom.py PROGRAM OUTPUT

Each library that the loader finds for it (ldd), directly or through another, with package, version, SHA-256 and, as far as its
package says so, licence. Versions are those of the package manager (dpkg), or of the unpacked wheel that lists the file; a library
of no package has its file's name and hash. Beside these the Rust crates that are compiled in, as crates/crates.tsv beside the program
lists them (text/rust/build.sh): name, version, licence, checksum. Standard library only.
"""

import base64
import collections
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import uuid


def output(*words):
    """What it printed, whether or not it found all that it was asked for."""
    return subprocess.run(words, capture_output=True, text=True, errors="replace").stdout


Wheel = collections.namedtuple("Wheel", "name version expression licence")  # the last: a file


def libraries(program):
    """Paths, as the loader resolves them; without the kernel's own (vdso), which is no file."""
    found = re.findall(r"(?:=> )?(/\S+) \(0x[0-9a-f]+\)$", output("ldd", program), re.M)
    return sorted({str(pathlib.Path(path).resolve()) for path in found})


def packages_of(paths):
    """path -> (name, version, source, source version) of the package that has that file; paths of none are left out."""
    names = {}  # packages know the names of before /usr was merged
    for path in paths:
        names |= {path: path, re.sub(r"^/usr", "", path): path}
    owners = {}
    for line in output("dpkg-query", "-S", *names).splitlines():
        owner, _, name = line.partition(": ")
        if name in names:
            owners[names[name]] = owner.split(", ")[0]
    form = "${binary:Package}\t${Package}\t${Version}\t${source:Package}\t${source:Version}\n"
    known = {}
    for line in output("dpkg-query", "-W", "-f", form, *set(owners.values())).splitlines() if owners else []:
        full_name, *fields = line.split("\t")
        known[full_name] = known[fields[0]] = fields
    return {path: known[owner] for path, owner in owners.items() if owner in known}


def wheel_of(path):
    """The unpacked wheel whose list has that file with these bytes; None: there is none."""
    path = pathlib.Path(path)
    for folder in path.parents:
        for record in folder.glob("*.dist-info/RECORD"):
            digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()).decode().rstrip("=")
            if f"\n{path.relative_to(folder)},sha256={digest}," in "\n" + record.read_text().replace("\r", ""):
                about = dict(re.findall(r"^(Name|Version|License-Expression|License-File): (.+)$",
                                        record.with_name("METADATA").read_text(), re.M))
                return Wheel(about["Name"], about["Version"], about["License-Expression"],
                             record.parent / "licenses" / about["License-File"])
    return None


def wheels_of(paths):
    """path -> wheel; paths of none are left out."""
    return {path: wheel for path in paths if (wheel := wheel_of(path))}


def place(path):
    """By what it stands in order: where a wheel was unpacked is of no account."""
    wheel = wheel_of(path)
    return f"{wheel.name}/{pathlib.Path(path).name}" if wheel else path


def licences(package):
    """Short names from the package's machine-readable copyright file, as they are there."""
    try:
        text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace")
    except OSError:
        return []
    return sorted({name.strip() for name in re.findall(r"^License: *(\S.*)$", text, re.M)})


def component(path, package):
    entry = {
        "type": "library",
        "name": pathlib.Path(path).name,
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()}],
        "properties": [{"name": "kvferry:path", "value": path}],
    }
    wheel = None if package else wheel_of(path)
    if wheel:
        purl = f"pkg:pypi/{wheel.name}@{wheel.version}"
        entry |= {"version": wheel.version, "purl": purl, "bom-ref": f"{purl}#{entry['name']}"}
        entry["properties"] = [{"name": "kvferry:package", "value": wheel.name}]
        entry["licenses"] = [{"license": {"id": wheel.expression}}]
    elif package:
        name, version, source, source_version = package
        purl = f"pkg:deb/{distribution()}/{name}@{version}"
        entry |= {"version": version, "purl": purl, "bom-ref": f"{purl}#{pathlib.Path(path).name}"}
        entry["properties"] += [
            {"name": "kvferry:package", "value": name},
            {"name": "kvferry:source", "value": f"{source} {source_version}"},
        ]
        names = licences(name)
        if names:
            entry["licenses"] = [{"license": {"name": licence}} for licence in names]
    else:
        entry["bom-ref"] = path
    return entry


def has_crates(program):
    """Whether the program says that the Rust library is part of it."""
    return re.search(r"^chat +minijinja ", output(program, "version"), re.M) is not None


def crates_folder(program):
    """With crates.tsv and licences/, beside a program that has such; None: it has none."""
    folder = pathlib.Path(program).resolve().parent / "crates"
    if not has_crates(program):
        return None
    if not (folder / "crates.tsv").is_file():
        sys.exit(f"{program} has Rust crates, but {folder} does not say which")
    return folder


def crate_components(folder):
    parts = []
    for line in (folder / "crates.tsv").read_text().splitlines():
        name, version, licence, checksum = line.split("\t")
        purl = f"pkg:cargo/{name}@{version}"
        part = {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl,
                "licenses": [{"expression": licence.replace("/", " OR ")}],
                "properties": [{"name": "kvferry:linked", "value": "compiled in"}]}
        if checksum:
            part["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        parts.append(part)
    return parts


def distribution():
    match = re.search(r"^ID=\"?([\w.-]+)", pathlib.Path("/etc/os-release").read_text(), re.M)
    return match.group(1) if match else "linux"


def write(program, paths, target, crates=None):
    """The document of a program with these libraries; crates: the folder of what is compiled in."""
    packages = packages_of(paths)
    parts = [component(path, packages.get(path)) for path in sorted(paths, key=place)]
    parts += crate_components(crates) if crates else []
    version = re.search(r"\d+(\.\d+)+", output(program, "version"))
    content = pathlib.Path(program).read_bytes()
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        # the same program with the same libraries: the same document
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, hashlib.sha256(content).hexdigest())}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "kvferry",
                "name": "kvferry",
                "version": version.group(0) if version else "0",
                "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": "kvferry", "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    pathlib.Path(target).write_text(json.dumps(bom, indent=2) + "\n")


def main():
    program, target = sys.argv[1:]
    paths = libraries(program)
    if not paths:
        sys.exit(f"{program}: ldd names no library")
    crates = crates_folder(program)
    write(program, paths, target, crates)
    print(f"{target}: {len(paths)} libraries, {len(crate_components(crates)) if crates else 0} crates")


if __name__ == "__main__":
    main()
