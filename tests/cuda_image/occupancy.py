#!/usr/bin/env python3
"""occupancy.py - how many CTAs of each kernel a processor of a GPU holds at once, and by what that is limited.

    occupancy.py            prints the table
    occupancy.py --check    docs/gpu.md has it as it would be printed now; status 1 where not
    occupancy.py --write    makes it so

Registers are those of kernels/cuda/resources.tsv, threads those of the lists; the dynamic shared memory of a launch is computed
here as the code computes it, of constants that are read from it. Python 3, standard library only.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CUDA = ROOT / "kernels" / "cuda"
PAGE = ROOT / "docs" / "gpu.md"
BEGIN, END = "<!-- occupancy: begin -->\n", "<!-- occupancy: end -->\n"
SHARED_MAX = 99 << 10
WARP, WARP_REGISTERS_UNIT, WARPS_UNIT, SHARED_UNIT, RESERVED_SHARED = 32, 256, 4, 128, 1024


class Processor(NamedTuple):
    """CUDA C++ Programming Guide, technical specifications by compute capability."""
    column: str
    threads: int
    ctas: int
    shared_bytes: int
    registers: int = 65536


PROCESSORS = {"sm_80": Processor("sm_80", 2048, 32, 164 << 10), "sm_86": Processor("sm_80", 1536, 16, 100 << 10),
              "sm_90": Processor("sm_90a", 2048, 32, 228 << 10)}


class Kernel(NamedTuple):
    name: str
    threads: int
    shared_bytes: int
    registers: dict[str, int]


def constants() -> dict[str, int]:
    """Of the headers of parameters and of attention.c: what is a plain number."""
    found = {}
    for path in [*sorted(CUDA.glob("*_parameters.h")), CUDA / "attention.c"]:
        for name, value in re.findall(r"(?:#define\s+|^\s+)([A-Z][A-Z0-9_]+)\s*(?:=\s*)?(\d+)u?\b", path.read_text(), re.M):
            found[name] = int(value)
    return found


def ring(c: dict[str, int], name: str) -> int:
    """cuda_gemm.c: ring_bytes"""
    tile = name.rsplit("_", 1)[1].upper()
    of_weights = 1 if name.startswith(("product_rows", "product_groups")) else 2
    return c[f"PRODUCT_{tile}_STAGES"] * c[f"PRODUCT_{tile}_K"] * (c[f"PRODUCT_{tile}_OUT"] * of_weights +
                                                            c[f"PRODUCT_{tile}_TOKENS"] * 2)


def is_of_sm_90(name: str) -> bool:
    """Empty elsewhere, and never launched there."""
    return "_fours_" in name or "_sm90_" in name


def shared_bytes(c: dict[str, int], name: str) -> int:
    """Of a launch at most."""
    if tokens := re.fullmatch(r"product_.*_fours_(\d+)", name):
        tile = f"PRODUCT_FOURS_{tokens[1]}"
        return c[f"{tile}_STAGES"] * c["PRODUCT_FOURS_K"] * 2 * (c[f"{tile}_OUT"] + int(tokens[1]))
    if re.fullmatch(r"product_.*_(wide|mid|slim|thin)", name):
        return ring(c, name)
    width = int(name.rsplit("_", 1)[1]) if re.search(r"_\d+$", name) else 0
    if name.startswith("attention_flash_sm90"):
        return c["FLASH_SM90_SLOTS"] * (c["FLASH_KEYS"] * width * c["FLASH_ELEMENT_BYTES"] + c["FLASH_SM90_BARRIER_BYTES"])
    if name.startswith("attention_flash"):
        return c["FLASH_STAGES"] * c["FLASH_KEYS"] * width * c["FLASH_ELEMENT_BYTES"]
    if name.startswith("attention_grouped"):
        of_element = int(name.rsplit("_", 2)[1]) // 8
        return c["GROUPED_WARPS"] * (c["GROUPED_STAGES"] * c["GROUPED_KEYS"] * width * of_element +
                                     c["GROUPED_ROWS"] * c["GROUPED_WEIGHTS"] * 4)
    if name.startswith("attention_masked"):
        chunk = min(width, c["MASKED_CHUNK_MAX"])
        rows, pitch = c["ATTENTION_TILE_ROWS"], chunk + c["MASKED_PADS"]
        keys, row = c["ATTENTION_TILE_KEYS"] * pitch, width // chunk * pitch + width + c["MASKED_SUMS"]
        two = 2 * keys + rows // 2 * row if chunk == width else 0
        of_weights = c["MASKED_WARPS"] * c["ATTENTION_TILE_KEYS"] * c["MASKED_ROWS"]
        of_int8 = width + c["MASKED_WARPS"] + rows if "int8" in name else 0
        return 4 * (max(keys + rows * row, two) + of_weights + of_int8)
    if name.startswith("attention_whole"):
        rows, keys = c["ATTENTION_WHOLE_ROWS"], c["ATTENTION_TILE_KEYS"]
        of_scores = rows * c["ATTENTION_SHORT_KEYS"] if name.endswith("short") else 0
        return 4 * (rows * 256 + keys * (c["WHOLE_CHUNK"] + 1) + of_scores)
    known = {"candidates": c["SAMPLING_BEST"] * 8 + 256 * 4 + 64 * 4, "digest": 4096, "digest_combine": 4096,
             "attention_reference": 2 * c["ATTENTION_TILE_KEYS"] * 4,
             "attention_reference_int8": 2 * (c["ATTENTION_TILE_KEYS"] + 256) * 4}
    return known.get(name, 0)


def kernels() -> list[Kernel]:
    rows = [line.split("\t") for line in (CUDA / "resources.tsv").read_text().splitlines()
            if line and not line.startswith(("#", "compiler"))]
    columns = rows[0][1:]
    registers = {row[0]: {column: int(cell.split("/")[0]) for column, cell in zip(columns, row[1:])} for row in rows[1:]}
    c = constants()
    lists = "\n".join(path.read_text() for path in sorted(CUDA.glob("*.list")))
    threads = {name: int(n) if n.isdigit() else c[n] for name, n in
               re.findall(r"^KERNEL\((\w+), \(.*\), \w+, (\w+), \d+\)", lists, re.M)}
    assert threads.keys() == registers.keys(), threads.keys() ^ registers.keys()
    assert all(shared_bytes(c, name) <= SHARED_MAX for name in registers if not is_of_sm_90(name)), (
        "kernels/cuda/launch.h: CUDA_SHARED_BYTES_MAX")
    return [Kernel(name, threads[name], shared_bytes(c, name), registers[name]) for name in sorted(registers)]


def up(n: int, unit: int) -> int:
    return (n + unit - 1) // unit * unit


def ctas(kernel: Kernel, processor: Processor) -> tuple[int, str]:
    """How many at once, and what there is not enough of for one more."""
    warps = up(kernel.threads, WARP) // WARP
    of_warp = up(kernel.registers[processor.column] * WARP, WARP_REGISTERS_UNIT)
    limits = {"registers": processor.registers // of_warp // WARPS_UNIT * WARPS_UNIT // warps,
              "threads": processor.threads // (warps * WARP), "CTAs": processor.ctas,
              "shared memory": processor.shared_bytes // up(kernel.shared_bytes + RESERVED_SHARED, SHARED_UNIT)}
    least = min(limits, key=limits.get)
    return limits[least], least


def cell(kernel: Kernel, processor: Processor) -> str:
    if is_of_sm_90(kernel.name) and processor.column != "sm_90a":
        return "-"
    n, why = ctas(kernel, processor)
    return f"{n} x {kernel.threads} = {100 * n * kernel.threads // processor.threads} %, {why}"


def table() -> str:
    """Kernels that need the same are one row."""
    rows: dict[tuple, list[str]] = {}
    for kernel in kernels():
        cells = (f"{kernel.shared_bytes:,}", *(cell(kernel, p) for p in PROCESSORS.values()))
        rows.setdefault(cells, []).append(kernel.name)
    lines = ["| kernels | shared memory of a launch | " + " | ".join(PROCESSORS) + " |", "|---" * (2 + len(PROCESSORS)) + "|"]
    lines += [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in rows.items()]
    return "\n".join(lines) + "\n"


def main() -> int:
    wanted = table()
    if sys.argv[1:] not in (["--check"], ["--write"]):
        print(wanted, end="")
        return 0
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    now, tail = rest.split(END)
    if sys.argv[1] == "--write":
        PAGE.write_text(head + BEGIN + wanted + END + tail)
    elif now != wanted:
        print(f"{PAGE.relative_to(ROOT)} has another table than tests/cuda_image/occupancy.py prints: --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
