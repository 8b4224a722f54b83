"""Golden folders, one for each model: made anew and compared with those that are committed, or written in their place."""

import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file


def are_same_tensors(made, committed):
    """Scales are made of what a model computes: float32 numbers are as in golden.f32, all others equal."""
    ours, theirs = load_file(made), load_file(committed)
    if set(ours) != set(theirs):
        return False
    for name, tensor in ours.items():
        other = theirs[name]
        if (tensor.dtype, tensor.shape) != (other.dtype, other.shape):
            return False
        most = 1e-6 * float(other.abs().max()) if tensor.dtype == torch.float32 and tensor.numel() else 0
        if not torch.equal(tensor, other) and not (most > 0 and float((tensor - other).abs().max()) < most):
            return False
    return True


def is_same(file, made, committed, keys):
    """Processors differ by steps of float32 of the largest number, recurrent layers most. keys: of golden.json, whose versions are
    those of whoever made it."""
    if file == "golden.f32":
        ours, theirs = np.fromfile(made, "<f4"), np.fromfile(committed, "<f4")
        return ours.shape == theirs.shape and bool(np.abs(ours - theirs).max() < 2e-5 * max(1, np.abs(theirs).max()))
    with open(made, "rb") as ours, open(committed, "rb") as theirs:
        if file == "golden.json":
            ours, theirs = json.load(ours), json.load(theirs)
            return all(ours[key] == theirs.get(key) for key in keys)
        if ours.read() == theirs.read():
            return True
    return file.endswith(".safetensors") and are_same_tensors(made, committed)


def differences(made, committed, keys):
    """A sentence for each file that is not as it would be made now."""
    ours = set(os.listdir(made))
    theirs = set(os.listdir(committed)) if os.path.isdir(committed) else set()
    for file in sorted(ours | theirs):
        path = os.path.join(committed, file)
        if file not in theirs:
            yield f"{path} is missing"
        elif file not in ours:
            yield f"{path} is left over"
        elif not is_same(file, os.path.join(made, file), path, keys):
            yield f"{path} differs"


def leftovers(here, names):
    for name in sorted(os.listdir(here)):
        if name not in names and os.path.isfile(os.path.join(here, name, "config.json")):
            yield f"{os.path.join(here, name)} has no row"


def check(root, here, names, make, keys=()):
    found = list(leftovers(here, names))
    for name in names:
        make(root, name)
        found += differences(os.path.join(root, name), os.path.join(here, name), keys)
    for sentence in found:
        print(sentence, file=sys.stderr)
    return 1 if found else 0


def write(root, here, names, make):
    for name in names:
        make(root, name)
        shutil.rmtree(os.path.join(here, name), ignore_errors=True)
        shutil.copytree(os.path.join(root, name), os.path.join(here, name))
    return 0


def run(here, all_names, make, keys):
    """[--check | NAME ...]. make(root, name) makes the folder of that name in root. Returns the exit status."""
    names = [word for word in sys.argv[1:] if word != "--check"]
    unknown = [name for name in names if name not in all_names]
    if unknown or (names and "--check" in sys.argv):
        sys.exit(f"usage: make.py [--check | NAME ...]; names: {', '.join(all_names)}")
    with tempfile.TemporaryDirectory() as root:
        if "--check" in sys.argv:
            return check(root, here, all_names, make, keys)
        return write(root, here, names or all_names, make)
