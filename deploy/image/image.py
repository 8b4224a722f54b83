#!/usr/bin/env python3
"""Makes the image's file of a root folder: image.py ROOT OUTPUT --version V --revision R [...]

OUTPUT is one tar that is an OCI layout and a docker archive both (what `docker save` writes): `podman load`, `docker load`,
`ctr images import` and `skopeo copy oci-archive:` take it. One layer, not compressed. Names in order, owner 0, every time the
epoch: the same root folder and arguments make the same bytes. OUTPUT.digest gets the manifest's digest, and the document in ROOT about
what is inside is copied to OUTPUT's name with .sbom.json. Standard library only.
"""

import argparse
import datetime
import hashlib
import io
import json
import os
import pathlib
import platform
import shutil
import sys
import tarfile

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PORTS = (50051, 50052, 50053, 9400)  # docs/reference/ports.md
BYTES_MAX = 80 << 20
# Of a flavour: what its tag ends with, and what a container runtime reads of its environment: which GPUs, and what of the driver.
FLAVOURS = {
    "cpu": ("", []),
    "cuda": ("-cuda", ["NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=compute,utility"]),
}


def plain(name, epoch, **members):
    info = tarfile.TarInfo(name)
    info.mtime = epoch
    for key, value in members.items():
        setattr(info, key, value)
    return info


def layer(root, epoch):
    """The tar of the root folder."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(root.rglob("*"), key=lambda found: str(found.relative_to(root))):
            name = str(path.relative_to(root))
            if path.is_symlink():
                tar.addfile(plain(name, epoch, type=tarfile.SYMTYPE, mode=0o777, linkname=os.readlink(path)))
            elif path.is_dir():
                tar.addfile(plain(name, epoch, type=tarfile.DIRTYPE, mode=path.stat().st_mode & 0o7777))
            else:
                with path.open("rb") as file:
                    tar.addfile(plain(name, epoch, size=path.stat().st_size, mode=path.stat().st_mode & 0o7777), file)
    return out.getvalue()


def labels(options, created):
    prefix = "org.opencontainers.image"
    return {
        f"{prefix}.title": "kvferry",
        f"{prefix}.description": "serves a large language model, prefill and decode in processes of their own",
        f"{prefix}.licenses": "Apache-2.0",
        f"{prefix}.version": options.version,
        f"{prefix}.revision": options.revision,
        f"{prefix}.created": created,
        f"{prefix}.documentation": "/usr/share/doc/kvferry",
    } | ({f"{prefix}.source": options.source} if options.source else {})


def blob(content):
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def as_json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def descriptor(media, content, **more):
    return {"mediaType": f"application/vnd.oci.image.{media}", "digest": blob(content), "size": len(content), **more}


def documents(content, options):
    """config, manifest, and what both formats want beside them: name -> bytes."""
    suffix, environment = FLAVOURS[options.flavour]
    tag = options.version + suffix
    created = datetime.datetime.fromtimestamp(options.epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    config = as_json({
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": {
            "User": "65532:65532",
            "Entrypoint": ["/usr/bin/kvferry"],
            "Env": ["PATH=/usr/bin", *environment],
            "WorkingDir": "/",
            "ExposedPorts": {f"{port}/tcp": {} for port in PORTS},
            "Labels": labels(options, created),
        },
        "rootfs": {"type": "layers", "diff_ids": [blob(content)]},
        "history": [{"created": created, "created_by": "deploy/image/image.py"}],
    })
    manifest = as_json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor("config.v1+json", config),
        "layers": [descriptor("layer.v1.tar", content)],
        "annotations": labels(options, created),
    })
    name = f"kvferry:{tag}"
    names = {"io.containerd.image.name": f"docker.io/library/{name}", "org.opencontainers.image.ref.name": tag}
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [descriptor(
        "manifest.v1+json", manifest, annotations=names, platform={"architecture": architecture, "os": "linux"})]}
    path = "blobs/" + blob(config).replace(":", "/")
    archive = [{"Config": path, "RepoTags": [name], "Layers": ["blobs/" + blob(content).replace(":", "/")]}]
    blobs = {"blobs/" + blob(each).replace(":", "/"): each for each in (config, manifest, content)}
    return manifest, blobs | {
        "oci-layout": as_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": as_json(index),
        "manifest.json": as_json(archive),
    }


def write(files, epoch, output):
    with tarfile.open(output, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ("blobs", "blobs/sha256"):
            tar.addfile(plain(folder, epoch, type=tarfile.DIRTYPE, mode=0o755))
        for name in sorted(files):
            tar.addfile(plain(name, epoch, size=len(files[name]), mode=0o644), io.BytesIO(files[name]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--revision", required=True)
    parser.add_argument("--source", default="")
    parser.add_argument("--flavour", choices=FLAVOURS, default="cpu")
    parser.add_argument("--epoch", type=int, default=int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    options = parser.parse_args()
    content = layer(options.root, options.epoch)
    if len(content) > BYTES_MAX:
        sys.exit(f"the root folder makes a layer of {len(content)} bytes; at most {BYTES_MAX}")
    manifest, files = documents(content, options)
    write(files, options.epoch, options.output)
    options.output.with_suffix(".digest").write_text(blob(manifest) + "\n")
    shutil.copyfile(options.root / "usr/share/kvferry/sbom.json", options.output.with_suffix(".sbom.json"))
    print(f"{options.output}: kvferry:{options.version}{FLAVOURS[options.flavour][0]}, {len(content) / 2**20:.1f} MiB, {blob(manifest)}")


if __name__ == "__main__":
    main()
