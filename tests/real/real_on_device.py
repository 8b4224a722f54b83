"""A published model that cuda:0 computes: a GPU, or the driver double, to which a step takes many seconds.

    real_on_device.py KVFERRY_BINARY MODEL_FOLDER

One of the questions of real_model.py, with the widest of the gaps between its tokens and the next best: on a device
activations are BF16, and the tokens must be those that Transformers has in float32.
"""

import sys
import unittest

from real_model import REFERENCE, OnCluster

QUESTION = "How many days are there in a week?"


class OnDevice(OnCluster, unittest.TestCase):
    WORKER_FLAGS = (
        "--device", "cuda:0", "--kv-memory", "8M", "--max-context-tokens", "128",
        "--watchdog-ms", "20m",
    )  # fmt: skip
    GENERATION_FLAGS = ("--context-limit-ms", "30m", "--sequences-max", "1")
    CALL_LIMIT_S = 3000
    TOLERANCE = 0.15

    def test_a_question(self):
        case = next(each for each in REFERENCE["cases"] if each["question"] == QUESTION)
        messages = self.generate(case)
        self.check(case, messages)
        self.has_crossed(messages[-1].timing, len(case["prompt_ids"]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
