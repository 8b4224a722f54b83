"""C's twin of the published protos is the same on the wire: twin_test.py TWIN_PEER

Random messages of every kind go from Python, which has the published files, to C and back, and from C to
Python and back: the same bytes each time, unknown fields and zeros that were given included.
"""

import random
import subprocess
import sys
import unittest

from google.protobuf.descriptor import FieldDescriptor as Field
from google.protobuf.internal import encoder
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet
from kvferry.internal.v1 import admin_pb2, context_worker_pb2, generation_worker_pb2
from kvferry.v1 import generation_pb2, model_pb2, sampling_pb2
from smg.grpc.common import common_pb2
from vllm import control_pb2, inference_pb2
from vllm.grpc.engine import vllm_engine_pb2

FILES = (
    admin_pb2, context_worker_pb2, generation_worker_pb2, generation_pb2, model_pb2, sampling_pb2, common_pb2, control_pb2, inference_pb2,
    vllm_engine_pb2)
ROUNDS = 300
UNSIGNED = {Field.TYPE_UINT32: 32, Field.TYPE_FIXED32: 32, Field.TYPE_UINT64: 64, Field.TYPE_FIXED64: 64}


def value(field, draw):
    if field.type in UNSIGNED:
        return draw.choice((0, 1, draw.getrandbits(UNSIGNED[field.type])))
    if field.type in (Field.TYPE_SINT32, Field.TYPE_INT32):
        return draw.choice((0, -1, 2**31 - 1, -(2**31), draw.randrange(-200, 200)))
    if field.type == Field.TYPE_INT64:
        return draw.choice((0, -1, 2**63 - 1, -(2**63), draw.randrange(-200, 200)))
    if field.type in (Field.TYPE_FLOAT, Field.TYPE_DOUBLE):
        return draw.choice((0.0, 1.0, -0.5, float("inf"), draw.getrandbits(20) / 64))
    if field.type == Field.TYPE_BOOL:
        return draw.random() < 0.5
    if field.type == Field.TYPE_ENUM:
        return draw.randrange(5)
    if field.type == Field.TYPE_BYTES:
        return draw.randbytes(draw.randrange(20))
    if field.type == Field.TYPE_STRING:
        return "".join(draw.choice("a é光🙂") for _ in range(draw.randrange(8)))
    raise AssertionError(f"{field.full_name}: a type that no message has")


def fill(message, draw):
    for field in message.DESCRIPTOR.fields:
        if draw.random() < 0.3:
            continue
        if field.label == Field.LABEL_REPEATED:
            for _ in range(draw.randrange(4)):
                if field.message_type:
                    fill(getattr(message, field.name).add(), draw)
                else:
                    getattr(message, field.name).append(value(field, draw))
        elif field.message_type:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), draw)
        else:
            setattr(message, field.name, value(field, draw))
    return message


def unknown_bytes(draw):
    """Fields that no message has, of each wire type."""
    number = encoder._VarintBytes
    return b"".join((
        number(1000 << 3) + number(draw.getrandbits(60)),
        number(1001 << 3 | 1) + draw.randbytes(8),
        number(1002 << 3 | 2) + number(5) + draw.randbytes(5),
        number(1003 << 3 | 5) + draw.randbytes(4)))


class Twin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.peer = subprocess.Popen(
            sys.argv[1], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.kinds = [GetMessageClass(kind)
                     for file in FILES for kind in file.DESCRIPTOR.message_types_by_name.values()]
        assert len(cls.kinds) > 30

    @classmethod
    def tearDownClass(cls):
        cls.peer.stdin.close()
        assert cls.peer.wait(60) == 0
        cls.peer.stdout.close()

    def ask(self, what, kind, text):
        self.peer.stdin.write(f"{what} {kind.DESCRIPTOR.full_name} {text or '-'}\n")
        self.peer.stdin.flush()
        answer = self.peer.stdout.readline().strip()
        self.assertNotIn(answer, ("unknown", "refused", ""), kind.DESCRIPTOR.full_name)
        return b"" if answer == "-" else bytes.fromhex(answer)

    def test_from_the_published_files_to_c_and_back(self):
        draw = random.Random(7)
        for kind in self.kinds:
            for _ in range(ROUNDS):
                message = fill(kind(), draw)
                packed = message.SerializeToString(deterministic=True)
                self.assertEqual(self.ask("again", kind, packed.hex()), packed, str(message))

    def test_unknown_fields_stay(self):
        draw = random.Random(8)
        for kind in self.kinds:
            packed = fill(kind(), draw).SerializeToString(deterministic=True) + unknown_bytes(draw)
            self.assertEqual(self.ask("again", kind, packed.hex()), packed)
            self.assertEqual(kind.FromString(packed).SerializeToString(deterministic=True), packed)

    def test_from_c_to_the_published_files_and_back(self):
        for kind in self.kinds:
            for seed in range(ROUNDS):
                packed = self.ask("random", kind, str(seed))
                message = kind.FromString(packed)
                self.assertEqual(len(UnknownFieldSet(message)), 0)
                self.assertEqual(message.SerializeToString(deterministic=True), packed, str(message))

    def test_text_that_may_hold_nul_and_zeros_that_were_given(self):
        given = [f for f in sampling_pb2.SamplingParams.DESCRIPTOR.fields if f.has_presence and not f.message_type]
        self.assertEqual(len(given), 17)
        for field in given:
            message = sampling_pb2.SamplingParams()
            setattr(message, field.name, 0)
            packed = message.SerializeToString()
            self.assertGreater(len(packed), 0)
            self.assertEqual(self.ask("again", type(message), packed.hex()), packed, field.name)
        for message in (
            generation_pb2.GenerateRequest(text="a\0b"), generation_pb2.CompleteRequest(text="\0"),
            generation_pb2.GenerateResponse(text="\0a", stop_string="b\0"),
            generation_pb2.CompleteResponse(text="\0", stop_string="\0"),
            generation_pb2.TokenizeRequest(text="\0"), generation_pb2.DetokenizeResponse(text="\0"),
            sampling_pb2.SamplingParams(stop=["\0", "a\0"], bad_words=["\0b"]),
            inference_pb2.GenerateRequest(text="\0"), inference_pb2.StoppingCriteria(stop_strings=["a\0", "\0"]),
            inference_pb2.SequenceOutput(text="a\0b"), inference_pb2.FinishInfo(stop_string="\0"),
            vllm_engine_pb2.SamplingParams(stop=["\0b"]), vllm_engine_pb2.GenerateComplete(matched_stop_str="a\0"),
        ):
            packed = message.SerializeToString()
            self.assertEqual(self.ask("again", type(message), packed.hex()), packed)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
