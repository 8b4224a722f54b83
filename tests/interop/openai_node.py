"""OpenAI's package for Node (openai_node.mjs) before a real router: every reply is that of kvferry.v1.

    openai_node.py KVFERRY_BINARY MODEL_FOLDER FOLDER_OF_THE_PACKAGE
"""

import json
import subprocess
import sys
import unittest

from openai_case import LIMIT_S, LONG, NAME, generated, owned_blocks, start_cluster, stop_cluster, url_of, within


class Node(unittest.TestCase):
    def test_all(self):
        cluster = start_cluster()
        ran = subprocess.run(["node", f"{sys.argv[3]}/openai_node.mjs", url_of(cluster), NAME, LONG], capture_output=True,
                             text=True, timeout=LIMIT_S)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        seen = json.loads(ran.stdout)
        text = generated(cluster, LONG, 12)
        self.assertEqual((seen["completion"], seen["completionStream"]), (text, text))
        self.assertEqual("".join(seen["logprobs"]["tokens"]), text)
        self.assertEqual(seen["usage"]["completion_tokens"], 12)
        said = generated(cluster, "user: In the beginning\nassistant:", 12, "--no-add-special-tokens")
        self.assertEqual([seen[kind] for kind in ("chat", "chatStream", "helper")], [said] * 3)
        self.assertEqual((seen["chatTokens"], seen["streamUsage"]["completion_tokens"]), (12, 12))
        self.assertGreater(seen["helperEvents"], 1)
        self.assertEqual((seen["models"], seen["retrieved"]), ([NAME], NAME))
        for name, kind, status, param, code in (("badRequest", "BadRequestError", 400, "temperature", "invalid_value"),
                                                ("notFound", "NotFoundError", 404, "model", "model_not_found"),
                                                ("tooLong", "BadRequestError", 400, "prompt", "context_length_exceeded")):
            self.assertTrue(seen[name].pop("id"), "has no x-request-id")
            self.assertEqual(seen[name], {"kind": kind, "status": status, "param": param, "code": code})
        within(10, "who left has left nothing", lambda: owned_blocks(cluster) == 0)
        stop_cluster(cluster)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
