"""The GGUF file of the real model, served as it is, against what Transformers makes of the values of its blocks.

    real_gguf.py KVFERRY_BINARY GGUF_FILE

smollm2_gguf.json has the log-probability of each token of a text; reference_gguf.py wrote them.
"""

import json
import math
import pathlib
import sys
import unittest

from kvferry.v1 import generation_pb2, sampling_pb2
from real_model import OnCluster

REFERENCE = json.loads(
    pathlib.Path(__file__).with_name("smollm2_gguf.json").read_text(encoding="utf-8")
)


class Gguf(OnCluster, unittest.TestCase):
    WORKER_FLAGS = ("--kv-dtype", "f32")
    # Products round x to 16 bits (decision 0047); 513 tokens were off by up to 0.0016.
    TOLERANCE = 0.002

    def test_text_has_the_probabilities_of_the_values(self):
        request = generation_pb2.GenerateRequest(
            text=REFERENCE["text"],
            sampling=sampling_pb2.SamplingParams(temperature=0, max_tokens=4, prompt_logprobs=0),
            return_timing=True,
        )
        messages = list(self.stub.Generate(request, timeout=self.CALL_LIMIT_S))
        entries = [entry for message in messages for entry in message.prompt_logprobs]
        self.assertEqual([entry.token_id for entry in entries], REFERENCE["ids"])
        got, wanted = [entry.logprob for entry in entries[1:]], REFERENCE["logprobs"]
        for ours, theirs in zip(got, wanted, strict=True):
            self.assertAlmostEqual(ours, theirs, delta=self.TOLERANCE)
        mean = sum(ours - theirs for ours, theirs in zip(got, wanted)) / len(wanted)
        self.assertLess(abs(math.expm1(mean)), 1e-3, "perplexity")
        self.has_crossed(messages[-1].timing, len(REFERENCE["ids"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
