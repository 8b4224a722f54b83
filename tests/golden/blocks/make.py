#!/usr/bin/env python3
"""Makes random blocks of every GGML type, and the floats that the `gguf` package makes of them.

    pip install -r requirements.txt && python make.py      writes blocks.bin beside itself

blocks.bin, for each type in the order of kernels/dtype.h: u32 n_bytes, u32 n_elements, the bytes, the float32 values.
"""
import struct
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

TYPES = (Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q2_K, Type.Q3_K, Type.Q4_K, Type.Q5_K, Type.Q6_K,
         Type.MXFP4)
HALVES = {Type.Q8_0: (0,), Type.Q4_0: (0,), Type.Q4_1: (0, 2), Type.Q5_0: (0,), Type.Q5_1: (0, 2), Type.Q2_K: (80, 82),
          Type.Q3_K: (108,), Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,), Type.MXFP4: ()}
N_BLOCKS = 12


def random_blocks(kind, random):
    """Any bytes, but scales that are finite: one is a subnormal F16, and one is negative."""
    n_elements, n_bytes = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (N_BLOCKS, n_bytes), np.uint8)
    for at in HALVES[kind]:
        halves = (0.05 * random.standard_normal(N_BLOCKS)).astype(np.float16)
        halves[0], halves[1] = np.float16(3e-7), np.float16(-0.03)
        blocks[:, at:at + 2] = halves.view(np.uint8).reshape(N_BLOCKS, 2)
    if kind == Type.MXFP4:
        blocks[:, 0] = random.integers(100, 140, N_BLOCKS)
        blocks[0, 0], blocks[1, 0] = 1, 251
    return blocks


def main():
    random = np.random.Generator(np.random.Philox(32))
    with open(Path(__file__).parent / "blocks.bin", "wb") as out:
        for kind in TYPES:
            blocks = random_blocks(kind, random)
            values = dequantize(blocks, kind).astype("<f4").reshape(-1)
            assert values.size == N_BLOCKS * GGML_QUANT_SIZES[kind][0] and np.isfinite(values).all()
            out.write(struct.pack("<II", blocks.size, values.size) + blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
