"""A build without the Rust library serves texts as any other; chat and constraints it refuses in a sentence that says what it lacks, and an
operator's chat template at the start.

    without_text_test.py KVFERRY_BINARY MODEL_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from cluster import Cluster, Process

BINARY, MODEL = sys.argv[1:3]
LACK = "not part of this build"
TEXT = "In the beginning God created the heaven and the earth. " * 12


def post(cluster, path, body):
    """(status, the reply)."""
    request = urllib.request.Request(f"http://{cluster.router.ports['http']}/v1/{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)["error"]


class WithoutText(unittest.TestCase):
    def test_the_version_says_it(self):
        said = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout
        self.assertRegex(said, f"chat +{LACK}")

    def test_texts_are_served_and_the_rest_is_refused(self):
        cluster = Cluster(BINARY, MODEL, True, local_prefill_max_tokens=8)
        body = {"prompt": TEXT, "max_tokens": 4, "temperature": 0}
        status, told = post(cluster, "completions", body)
        self.assertEqual((status, told.get("usage", {}).get("completion_tokens")), (200, 4), told)
        self.assertGreater(cluster.generation.metric("kvferry_kv_transfer_bytes_total"), 0)
        status, error = post(cluster, "chat/completions", {"messages": [{"role": "user", "content": "x"}]})
        self.assertEqual((status, error["code"]), (400, "no_chat_template"), error)
        for member, value in (("guided_json", {"type": "object"}), ("guided_regex", "a+"), ("guided_choice", ["a"]),
                              ("guided_grammar", 'start: "a"')):
            status, error = post(cluster, "completions", body | {member: value})
            self.assertEqual((status, error["param"], error["code"]), (400, member, "unsupported"), error)
            self.assertIn(LACK, error["message"])
        cluster.stop()

    def test_a_template_is_refused_at_the_start(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "chat.jinja"
            file.write_text("x")
            with self.assertRaises(RuntimeError) as caught:
                Process(BINARY, MODEL, folder, "router", "--chat-template", str(file), "--generation-workers", "127.0.0.1:1")
            self.assertRegex(str(caught.exception), f"cannot start: .*{LACK}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
