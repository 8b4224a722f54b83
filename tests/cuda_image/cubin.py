"""cubin.py - reads from a cubin, which is an ELF file, what the driver would be told of its kernels."""

import struct
from typing import Iterator, NamedTuple

# .nv.info: {format, attribute, u16}, then as many bytes as u16 says where the format is "sized".
FORMAT_SIZED = 4
ATTRIBUTE_MAX_THREADS = 0x05
ATTRIBUTE_PARAMETER = 0x17  # u32 index, u16 ordinal, u16 offset, u32 whose upper 14 bits are the size
SYMBOL_FUNCTION = 2


class Kernel(NamedTuple):
    name: str
    threads: int                        # of a CTA at most
    parameters: list[tuple[int, int]]   # (offset, bytes) of each argument, in order


class Section(NamedTuple):
    name: str
    content: bytes


def sections(elf: bytes) -> list[Section]:
    if elf[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    at, = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, at + i * size) for i in range(count)]

    def content(header: tuple) -> bytes:
        return b"" if header[1] == 8 else elf[header[4]:header[4] + header[5]]

    names = content(headers[names_index])
    return [Section(names[h[0]:names.index(b"\0", h[0])].decode(), content(h)) for h in headers]


def attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(info):
        kind, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if kind == FORMAT_SIZED:
            yield attribute, info[at:at + size]
            at += size


def kernels(elf: bytes) -> list[Kernel]:
    found = sections(elf)
    code = {s.name.removeprefix(".text.") for s in found if s.name.startswith(".text.") and s.content}
    result = []
    for section in found:
        name = section.name.removeprefix(".nv.info.")
        if not section.name.startswith(".nv.info.") or name not in code:
            continue
        threads, parameters = 0, []
        for attribute, value in attributes(section.content):
            if attribute == ATTRIBUTE_MAX_THREADS:
                threads = struct.unpack("<III", value)[0]
            elif attribute == ATTRIBUTE_PARAMETER:
                _, ordinal, offset, flags = struct.unpack("<IHHI", value)
                parameters.append((ordinal, offset, flags >> 18))
        result.append(Kernel(name, threads, [(offset, size) for _, offset, size in sorted(parameters)]))
    return result
