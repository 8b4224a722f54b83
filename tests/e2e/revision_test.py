"""Two builds of neighbouring protocol revisions hand KV over to each other, either way round; of others the one
is refused in words, and the prompt is computed where it is decoded.

    revision_test.py KVFERRY_2 KVFERRY_3 KVFERRY_4 MODEL_FOLDER
"""

import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

from cluster import Process

BUILDS = dict(zip((2, 3, 4), sys.argv[1:4]))
MODEL = sys.argv[4]
PROMPT = "In the beginning God created the heaven and the earth. " * 12


def generate(router):
    return subprocess.run(
        [BUILDS[2], "generate", "--server", router.ports["grpc"], "--max-tokens", "12",
         "--temperature", "0", PROMPT],
        capture_output=True, text=True, timeout=120, check=True).stdout


class Revisions(unittest.TestCase):
    def run_pair(self, of_context, of_generation):
        """The text, the tokens whose KV crossed, and the generation worker's log."""
        with tempfile.TemporaryDirectory() as folder:
            context = Process(BUILDS[of_context], MODEL, folder, "ctx-worker")
            generation = Process(BUILDS[of_generation], MODEL, folder, "gen-worker",
                                 "--local-prefill-max-tokens", "8")
            router = Process(BUILDS[2], MODEL, folder, "router",
                             "--generation-workers", generation.ports["control"],
                             "--context-workers", context.ports["control"])
            until = time.monotonic() + 60
            while router.metric("kvferry_peers", 'state="ready"') < 2:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.02)
            text = generate(router)
            n_tokens = generation.metric("kvferry_prompt_tokens_total", 'source="remote"')
            codes = [process.stop() for process in (router, generation, context)]
            self.assertEqual(codes, [0, 0, 0])
            return text, n_tokens, pathlib.Path(folder, "gen-worker.log").read_text()

    def test_neighbours_pair(self):
        texts = set()
        for pair in (2, 2), (2, 3), (3, 2), (3, 4):
            text, n_tokens, log = self.run_pair(*pair)
            self.assertGreater(n_tokens, 0, pair)
            texts.add(text)
            self.assertNotIn("does not pair", log)
        self.assertEqual(len(texts), 1)

    def test_others_are_refused_in_words(self):
        for context, generation in (2, 4), (4, 2):
            text, n_tokens, log = self.run_pair(context, generation)
            self.assertTrue(text)
            self.assertEqual(n_tokens, 0)
            self.assertRegex(log, "protocol revision [24] does not pair with [24]")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
