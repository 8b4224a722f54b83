"""OpenAI's package for Node (openai_node.mjs) before a real router: 40 checks and more; texts are those of kvferry.v1.

    openai_node.py KVFERRY_BINARY MODEL_FOLDER FOLDER_OF_THE_PACKAGE
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from openai_case import LIMIT_S, LONG, NAME, generated, owned_blocks, start_cluster, stop_cluster, url_of, within

CHECKS_MIN = 40


class Node(unittest.TestCase):
    def test_all(self):
        cluster = start_cluster()
        facts = {"url": url_of(cluster), "model": NAME, "prompt": LONG, "text": generated(cluster, LONG, 12),
                 "said": generated(cluster, "user: In the beginning\nassistant:", 12, "--no-add-special-tokens"),
                 "metrics": [worker.ports["metrics"] for worker in (cluster.context, cluster.generation)]}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "facts.json")
            file.write_text(json.dumps(facts), encoding="utf-8")
            ran = subprocess.run(["node", f"{sys.argv[3]}/openai_node.mjs", file], capture_output=True, text=True, timeout=2 * LIMIT_S)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        seen = json.loads(ran.stdout)
        for name, wrong in seen.items():
            with self.subTest(check=name):
                self.assertIsNone(wrong, f"{name}: {wrong}")
        print(f"{len(seen)} checks, {sum(wrong is None for wrong in seen.values())} as they must be")
        self.assertGreaterEqual(len(seen), CHECKS_MIN)
        within(10, "who left has left nothing", lambda: owned_blocks(cluster) == 0)
        stop_cluster(cluster)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
