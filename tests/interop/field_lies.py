"""What can be wrong with each field of a message, found by reflection.

    for lie in field_lies.of_message(DescribeResponse.DESCRIPTOR):
        data = lie.tell(response)      the bytes that are sent instead
        str(lie)                       "callee.geometry.dtype: cut"

A lie is made from the true message, so that all else in it is as it was. In a repeated message the fields
of the first element are lied about; one that is not there is made.
"""

import dataclasses
import itertools
import math
import struct
import typing

LONG = 64 * 1024
# More than any message of ours has; gRPC's own limit of a message ends the longest.
ELEMENTS_BEYOND = (1 << 20) + 1
UNKNOWN_NUMBER = 12345


@dataclasses.dataclass(frozen=True)
class Lie:
    path: tuple
    name: str
    change: typing.Callable  # of a message, in place; bytes that it returns are sent instead

    def __str__(self):
        return f"{'.'.join(self.path) or 'message'}: {self.name}"

    def tell(self, message):
        lie = type(message)()
        lie.CopyFrom(message)
        changed = self.change(lie)
        return lie.SerializeToString() if changed is None else changed


def of_message(descriptor, member=None):
    """All lies about one message; member: which one of its oneof is set when they are told."""
    yield from _of_whole()
    yield from _of_fields(descriptor, (), member)


def _of_whole():
    """Of the bytes, whatever the message is."""
    yield Lie((), "empty", lambda message: b"")
    yield Lie((), "cut", lambda message: message.SerializeToString()[:-1] or b"\x0a")
    yield Lie((), "no message", lambda message: b"\xff" * 100)
    yield Lie((), "twice", lambda message: message.SerializeToString() * 2)
    yield Lie((), "field 1 of another wire type", lambda message: b"\x0d" + struct.pack("<I", 7))
    yield Lie((), "unknown field", lambda message: message.SerializeToString() + b"\xc2\x3e\x03abc")
    yield Lie((), "groups that nobody closes", lambda message: b"\x0b" * LONG)


def _holder(message, path):
    for step in path:
        field = message.DESCRIPTOR.fields_by_name[step]
        message = getattr(message, step)
        if field.label == field.LABEL_REPEATED:
            message = message[0] if message else message.add()
    return message


def _of_fields(descriptor, path, member=None):
    for oneof in descriptor.oneofs:
        yield from _of_oneof(oneof, path)
    for field in descriptor.fields:
        if field.containing_oneof and member and field.name != member:
            continue
        yield from _of_field(field, path)


def _of_oneof(oneof, path):
    def choose(name):
        def change(message):
            holder = _holder(message, path)
            if name is None:
                holder.ClearField(holder.WhichOneof(oneof.name) or oneof.fields[0].name)
            else:
                getattr(holder, name).SetInParent()
        return change

    for name in [None] + [field.name for field in oneof.fields]:
        yield Lie(path + (oneof.name,), f"is {name or 'none'}", choose(name))


def _of_field(field, path):
    here = path + (field.name,)
    is_message = field.type == field.TYPE_MESSAGE
    if field.label == field.LABEL_REPEATED:
        for name, edit in _of_list(field):
            yield Lie(here, name, lambda message, edit=edit: edit(getattr(_holder(message, path), field.name)))
        if not is_message:
            yield from _of_element(field, path)
    elif is_message:
        yield Lie(here, "cleared", lambda message: _holder(message, path).ClearField(field.name))
    else:
        for name, value in _of_value(field):
            yield Lie(here, name, _setter(path, field, value))
    if is_message:
        yield from _of_fields(field.message_type, here)


def _setter(path, field, value):
    def change(message):
        holder = _holder(message, path)
        return _put(message, value(getattr(holder, field.name)),
                    lambda text: setattr(holder, field.name, text))
    return change


def _of_element(field, path):
    """A repeated number or bytes: its middle one."""
    for name, value in _of_value(field):
        def change(message, value=value):
            elements = getattr(_holder(message, path), field.name)
            if not elements:
                elements.append(b"" if field.type == field.TYPE_BYTES else 0)
            middle = len(elements) // 2
            return _put(message, value(elements[middle]),
                        lambda text: elements.__setitem__(middle, text))
        yield Lie(path + (field.name,), f"one {name}", change)


class NotUtf8(bytes):
    """For a string, which Python's protobuf lets nobody set to it."""


def _put(message, value, setter):
    if not isinstance(value, NotUtf8):
        setter(value)
        return None
    stand_in = b"\x01" * len(value)
    setter(stand_in.decode())
    return message.SerializeToString().replace(stand_in, bytes(value))


# ---- by type ----

def _of_list(field):
    def extend(elements, n):
        if field.type == field.TYPE_MESSAGE:
            for _ in range(n):
                elements.add()
        else:
            first = elements[0] if elements else b"" if field.type == field.TYPE_BYTES else 0
            elements.extend([first] * n)

    def replace(elements, new):
        copies = [type(e).FromString(e.SerializeToString()) if hasattr(e, "DESCRIPTOR") else e for e in new]
        del elements[:]
        elements.extend(copies)

    yield "cleared", lambda elements: replace(elements, [])
    yield "the last removed", lambda elements: replace(elements, list(elements)[:-1])
    yield "the first removed", lambda elements: replace(elements, list(elements)[1:])
    yield "one twice", lambda elements: replace(elements, list(elements)[:1] + list(elements))
    yield "all the first", lambda elements: replace(elements, list(elements)[:1] * len(elements))
    yield "reversed", lambda elements: replace(elements, list(elements)[::-1])
    yield "twice as many", lambda elements: replace(elements, list(elements) * 2)
    yield "very long", lambda elements: extend(elements, LONG)
    yield "beyond every bound", lambda elements: extend(elements, ELEMENTS_BEYOND)


INTEGERS = {  # bits, signed
    "CPPTYPE_INT32": (32, True), "CPPTYPE_INT64": (64, True),
    "CPPTYPE_UINT32": (32, False), "CPPTYPE_UINT64": (64, False),
}


def _of_value(field):
    """(name, function from the true value to the lie)"""
    for cpp_type, (bits, is_signed) in INTEGERS.items():
        if field.cpp_type == getattr(field, cpp_type):
            yield from _of_integer(bits, is_signed)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        for name, lie in {"0": 0.0, "more": 7.5, "-1": -1.0, "infinite": math.inf,
                          "-infinite": -math.inf, "no number": math.nan, "huge": 3e38}.items():
            yield name, lambda value, lie=lie: lie
    elif field.cpp_type == field.CPPTYPE_BOOL:
        yield "the other", lambda value: not value
    elif field.cpp_type == field.CPPTYPE_ENUM:
        numbers = [value.number for value in field.enum_type.values]
        for number in numbers + [UNKNOWN_NUMBER, -1, 2**31 - 1]:
            yield f"{number}", lambda value, number=number: number
    elif field.type == field.TYPE_STRING:
        yield from _of_text()
    elif field.type == field.TYPE_BYTES:
        yield from _of_bytes()


def _of_integer(bits, is_signed):
    low, high = (-2**(bits - 1), 2**(bits - 1) - 1) if is_signed else (0, 2**bits - 1)
    yield "0", lambda value: 0
    yield "1", lambda value: 1
    yield "one more", lambda value: value + 1 if value < high else low
    yield "one less", lambda value: value - 1 if value > low else high
    yield "half the range", lambda value: high // 2 + 1
    yield "max", lambda value: high
    if is_signed:
        yield "-1", lambda value: -1
        yield "min", lambda value: low


def _of_text():
    yield "empty", lambda value: ""
    yield "another character", lambda value: value[:-1] + ("y" if value.endswith("x") else "x")
    yield "cut", lambda value: value[:len(value) // 2]
    yield "long", lambda value: "x" * LONG
    yield "with a zero", lambda value: value + "\0" + value
    yield "that a terminal obeys", lambda value: "\x1b[2J\r\n" + "\u202e" + value
    yield "that formats", lambda value: "%s%n%1000000d" * 20
    yield "not UTF-8", lambda value: NotUtf8(b"\xff\xc0\x80\xed\xa0\x80" * 5)


def _of_bytes():
    def flipped(value):
        middle = len(value) // 2
        return value[:middle] + bytes([value[middle] ^ 16]) + value[middle + 1:] if value else b"\x10"

    yield "empty", lambda value: b""
    yield "one bit", flipped
    yield "cut", lambda value: value[:len(value) // 2]
    yield "one byte more", lambda value: value + b"\0"
    yield "long", lambda value: bytes(itertools.islice(itertools.cycle(value or b"\x55"), LONG))
    yield "not UTF-8", lambda value: b"\xff" * max(len(value), 4)
    yield "zeros", lambda value: bytes(len(value) or 4)
