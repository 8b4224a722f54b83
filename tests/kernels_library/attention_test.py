"""The attention operator as another language calls it: the shared library through ctypes, against the formula.

    attention_test.py LIBRARY INCLUDE_FOLDER [--pytorch]

Prompts, then prompts beside decoding, then decoding alone, over a paged cache in scattered blocks. The formula is
computed in float64: here, or with --pytorch by PyTorch's scaled_dot_product_attention.
"""

import ctypes
import math
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_uint32, c_void_p

import c_types
from c_types import (AttentionConfig, AttentionIo, AttentionLimits, AttentionSequence, AttentionStep, Error, Kernels,
                     KvView)

LIBRARY, INCLUDE = sys.argv[1:3]
F32, BF16, F16 = range(3)
CONTEXT, GENERATION = range(2)
HEADS, DIM, BLOCK_TOKENS, BLOCKS = 8, 32, 16, 24
KERNELS_MAX = 12

library = ctypes.CDLL(LIBRARY)
library.kvferry_kernels_list.argtypes = [POINTER(POINTER(Kernels)), c_uint32]
library.kvferry_kernels_list.restype = c_uint32
library.kvferry_kv_view_dense.argtypes = [c_void_p, c_uint32, c_uint32, c_uint32, c_uint32, c_uint32, c_int]
library.kvferry_kv_view_dense.restype = KvView
library.kvferry_status_name.argtypes = [c_int]
library.kvferry_status_name.restype = c_char_p


def all_kernels() -> list[Kernels]:
    listed = (POINTER(Kernels) * KERNELS_MAX)()
    n = library.kvferry_kernels_list(listed, KERNELS_MAX)
    return [listed[i].contents for i in range(n)]


def must(status: int, error: Error) -> None:
    if status:
        raise AssertionError(f"{library.kvferry_status_name(status).decode()}: {error.text.decode()}")


def rounded(value: float, dtype: int) -> float:
    """As a cache of this dtype holds a float32."""
    if dtype == F16:
        return struct.unpack("<e", struct.pack("<e", value))[0]
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    if dtype == BF16:
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def attend(q: list[float], keys: list[list[float]], values: list[list[float]]) -> list[float]:
    """softmax(q K / sqrt(dim)) V of one query that sees every key."""
    scores = [math.fsum(a * b for a, b in zip(q, key)) / math.sqrt(len(q)) for key in keys]
    weights = [math.exp(score - max(scores)) for score in scores]
    total = math.fsum(weights)
    return [math.fsum(w * value[d] for w, value in zip(weights, values)) / total for d in range(len(q))]


def attend_by_pytorch(q: list[float], keys: list[list[float]], values: list[list[float]]) -> list[float]:
    import torch

    def tensor(rows):
        return torch.tensor(rows, dtype=torch.float64)[None, None]

    out = torch.nn.functional.scaled_dot_product_attention(tensor([q]), tensor(keys), tensor(values))
    return out[0, 0, 0].tolist()


class Sequence:
    """The rows of one sequence, made from its seed, and its blocks of the pool."""

    def __init__(self, seed: int, n_kv_heads: int, blocks: list[int]):
        self.random = random.Random(seed)
        self.n_kv_heads = n_kv_heads
        self.blocks = (c_uint32 * len(blocks))(*blocks)
        self.rows: list[list[float]] = []  # Q, K and V side by side
        self.output: list[list[float]] = []

    def grow(self, n: int) -> None:
        width = (HEADS + 2 * self.n_kv_heads) * DIM
        self.rows += [[rounded(self.random.gauss(0, 1), F32) for _ in range(width)] for _ in range(n)]

    def expected(self, token: int, head: int, cache: int, formula) -> list[float]:
        kv_head = head // (HEADS // self.n_kv_heads)

        def part(first: int, row: list[float]) -> list[float]:
            return [rounded(x, cache) for x in row[first * DIM:(first + 1) * DIM]]

        seen = self.rows[:token + 1]
        return formula(self.rows[token][head * DIM:(head + 1) * DIM],
                       [part(HEADS + kv_head, row) for row in seen],
                       [part(HEADS + self.n_kv_heads + kv_head, row) for row in seen])


class Operator:
    """An attention layer of one back end, its step and a pool of blocks."""

    def __init__(self, kernels: Kernels, n_kv_heads: int, cache: int):
        self.backend, self.n_kv_heads = kernels.attention.contents, n_kv_heads
        self.error, self.layer, self.metadata = Error(), c_void_p(), c_void_p()
        config = AttentionConfig(n_heads=HEADS, n_kv_heads=n_kv_heads, head_dim=DIM, compute=F32, cache=cache)
        limits = AttentionLimits(n_sequences_max=4, n_tokens_max=64, kv_len_max=BLOCK_TOKENS * BLOCKS, n_heads=HEADS,
                                 n_kv_heads=n_kv_heads, head_dim=DIM, cache=cache)
        bytes_each = 4 if cache == F32 else 2
        # All bits set: what no token has been written to is NaN.
        self.pool = ctypes.create_string_buffer(b"\xff" * (BLOCKS * 2 * n_kv_heads * BLOCK_TOKENS * DIM * bytes_each))
        self.view = library.kvferry_kv_view_dense(ctypes.cast(self.pool, c_void_p), BLOCKS, 1, n_kv_heads, BLOCK_TOKENS,
                                                  DIM, cache)
        must(self.backend.create(config, None, byref(self.layer), byref(self.error)), self.error)
        must(self.backend.metadata_create(limits, None, byref(self.metadata), byref(self.error)), self.error)

    def destroy(self) -> None:
        self.backend.metadata_destroy(self.metadata)
        self.backend.destroy(self.layer)

    def step(self, parts: list[tuple[Sequence, int, int]]) -> None:
        """parts: sequence, phase and new tokens, contexts first."""
        described = (AttentionSequence * len(parts))()
        rows: list[float] = []
        for at, (sequence, phase, n) in zip(described, parts):
            sequence.grow(n)
            at.phase, at.query_len, at.kv_len = phase, n, len(sequence.rows)
            at.prompt_len = len(sequence.rows) if phase == CONTEXT else 0
            at.block_ids, at.n_blocks = sequence.blocks, len(sequence.blocks)
            rows += [x for row in sequence.rows[-n:] for x in row]
        width = (HEADS + 2 * self.n_kv_heads) * DIM
        n_rows = len(rows) // width
        qkv = (c_float * len(rows))(*rows)
        output = (c_float * (n_rows * HEADS * DIM))()
        q = ctypes.addressof(qkv)
        k = q + 4 * HEADS * DIM
        io = AttentionIo(q=q, k=k, v=k + 4 * self.n_kv_heads * DIM, q_stride=width, k_stride=width, v_stride=width,
                         output=ctypes.addressof(output), output_stride=HEADS * DIM)
        step = AttentionStep(sequences=described, n_sequences=len(parts))
        must(self.backend.metadata_prepare(self.metadata, step, self.view, byref(self.error)), self.error)
        must(self.backend.forward(self.layer, self.metadata, io, byref(self.error)), self.error)
        written = [list(output[i * HEADS * DIM:(i + 1) * HEADS * DIM]) for i in range(n_rows)]
        for sequence, _, n in parts:
            sequence.output, written = sequence.output + written[:n], written[n:]


class Attention(unittest.TestCase):
    formula = staticmethod(attend_by_pytorch if "--pytorch" in sys.argv[3:] else attend)

    def run_steps(self, kernels: Kernels, n_kv_heads: int, cache: int) -> list[Sequence]:
        long, short, late = (Sequence(seed, n_kv_heads, blocks)
                             for seed, blocks in ((1, [7, 2, 19]), (2, [11]), (3, [0, 23])))
        operator = Operator(kernels, n_kv_heads, cache)
        operator.step([(long, CONTEXT, 37), (short, CONTEXT, 5)])
        operator.step([(late, CONTEXT, 19), (long, GENERATION, 1), (short, GENERATION, 1)])
        operator.step([(long, GENERATION, 1), (short, GENERATION, 1), (late, GENERATION, 1)])
        operator.destroy()
        return [long, short, late]

    def check(self, n_kv_heads: int, cache: int) -> None:
        expected = None
        for kernels in all_kernels():
            sequences = self.run_steps(kernels, n_kv_heads, cache)
            if expected is None:
                expected = [[[x for head in range(HEADS) for x in s.expected(token, head, cache, self.formula)]
                             for token in range(len(s.rows))] for s in sequences]
            for sequence, rows in zip(sequences, expected):
                self.assertEqual(len(sequence.output), len(rows))
                for token, (row, right) in enumerate(zip(sequence.output, rows)):
                    apart = max(abs(a - b) for a, b in zip(row, right))
                    self.assertLess(apart, 4e-6, f"{kernels.name.decode()}: token {token} of {len(rows)}")

    def test_structs_are_those_of_the_headers(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cc", f"-I{INCLUDE}", "-x", "c", "-", "-o", f"{folder}/layout"], check=True, text=True,
                           input=c_types.layout_source(), timeout=60)
            done = subprocess.run([f"{folder}/layout"], check=True, text=True, capture_output=True, timeout=60)
        self.assertEqual(done.stdout, c_types.layout())

    def test_every_head_has_keys_of_its_own(self):
        self.check(HEADS, F32)

    def test_heads_share_keys_in_groups(self):
        self.check(2, F32)

    def test_all_heads_share_keys(self):
        self.check(1, F32)

    def test_a_narrower_cache_rounds_keys_and_values_and_nothing_else(self):
        for cache in BF16, F16:
            self.check(2, cache)

    def test_a_refusal_names_the_field(self):
        with self.assertRaisesRegex(AssertionError, "^INVALID_ARGUMENT: n_heads 8 is no multiple of n_kv_heads 3$"):
            Operator(all_kernels()[0], 3, F32)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
