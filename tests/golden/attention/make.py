#!/usr/bin/env python3
"""Makes the arrays of tests/kernels/golden_test.c with Transformers' own models and PyTorch's attention, float32.

    python -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python make.py            # writes the files beside this one
    v/bin/python make.py --check    # compares instead, and fails when an input differs, or a result by 2e-6 of the largest

models.py runs tiny random models and records what enters and leaves their attention, sdpa.py calls PyTorch's operator,
formulas.py asks for ALiBi's slopes and T5's buckets. README.md describes the files.
"""
import os
import sys

import numpy as np
import torch

import formulas
import models
import sdpa

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {**models.CASES, **sdpa.CASES, **formulas.CASES}
TOLERANCE = 2e-6
KINDS = {"f32": "<f4", "u32": "<u4"}


def array(value):
    value = np.ascontiguousarray(value.detach().numpy() if isinstance(value, torch.Tensor) else value)
    return value.astype("<u4" if value.dtype.kind in "iub" else "<f4").reshape(-1)


def encode(arrays):
    header = "".join(f"{name} {'u32' if value.dtype.kind == 'u' else 'f32'} {len(value)}\n"
                     for name, value in arrays.items())
    return (header + "\n").encode() + b"".join(value.tobytes() for value in arrays.values())


def decode(data):
    header, data = data.split(b"\n\n", 1)
    arrays = {}
    for line in header.decode().splitlines():
        name, kind, n = line.split()
        arrays[name], data = np.frombuffer(data[:4 * int(n)], KINDS[kind]), data[4 * int(n):]
    return arrays


def is_same(old, new):
    """Whole numbers and masks to the bit."""
    if old.shape != new.shape or old.dtype.kind == "u" or not np.isfinite(new).all():
        return np.array_equal(old, new)
    return bool(np.abs(old - new).max() <= TOLERANCE * np.abs(new).max())


def check(case, arrays):
    with open(os.path.join(HERE, f"{case}.bin"), "rb") as file:
        old = decode(file.read())
    if list(old) != list(arrays):
        sys.exit(f"{case}.bin holds {list(old)}, not {list(arrays)}")
    for name, value in arrays.items():
        if not is_same(old[name], value):
            sys.exit(f"{case}.bin: {name} is not what is made now")


def main():
    torch.set_num_threads(1)
    total = 0
    for case, make in CASES.items():
        random = np.random.Generator(np.random.Philox(key=[17, sum(i * c for i, c in enumerate(case.encode(), 1))]))
        with torch.no_grad():
            arrays = {name: array(value) for name, value in make(random).items()}
        if "--check" in sys.argv[1:]:
            check(case, arrays)
            continue
        data = encode(arrays)
        total += len(data)
        with open(os.path.join(HERE, f"{case}.bin"), "wb") as file:
            file.write(data)
        print(case, len(data), "bytes:", ", ".join(f"{name} {len(value)}" for name, value in arrays.items()))
    print(len(CASES), "cases", "as before" if "--check" in sys.argv[1:] else f"{total} bytes")


if __name__ == "__main__":
    main()
