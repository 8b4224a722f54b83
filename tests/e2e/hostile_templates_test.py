"""Hostile chat templates before a running router: each is refused at the start in a sentence, or a chat that reaches its hostile part gets
an answer or one typed error; meanwhile a text is answered, afterwards a chat that does not reach that part, and the router ends with 0.

    hostile_templates_test.py KVFERRY_BINARY MODEL_FOLDER REPOSITORY [NAME...]

The templates are those of tests/text/peers/hostile.py; NAME: these alone.
"""

import concurrent.futures
import json
import pathlib
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

BINARY, MODEL, REPOSITORY, *ONLY = sys.argv[1:]
sys.path[:0] = [f"{REPOSITORY}/tests/roles", f"{REPOSITORY}/tests/text/peers"]
from cluster import Cluster, Process  # noqa: E402
from hostile import HOSTILE  # noqa: E402

LIMIT_S = 60
LIMITS = ("--chat-template-bytes-max", "4M", "--chat-render-ms", "3s", "--chat-render-cpu-ms", "1s", "--drain-delay-ms", "0")
TEXT = "In the beginning God created"
TYPED = {"invalid_value", "template_limit", "context_length_exceeded"}


def post(router, path, body):
    """(status, the reply)."""
    request = urllib.request.Request(f"http://{router.ports['http']}/v1/{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def chat(router, content):
    return post(router, "chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 2, "temperature": 0})


def complete(router, prompt):
    return post(router, "completions", {"prompt": prompt, "max_tokens": 2, "temperature": 0, "add_special_tokens": False})


def text_of(told):
    choice = told["choices"][0]
    return choice["message"]["content"] if "message" in choice else choice["text"]


class Templates(unittest.TestCase):
    n_refused = n_stopped = n_answered = 0

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(BINARY, MODEL, True, local_prefill_max_tokens=8)
        workers = cls.cluster.generation.ports["control"], cls.cluster.context.ports["control"]
        cls.flags = ("--generation-workers", workers[0], "--context-workers", workers[1])
        cls.expected = text_of(complete(cls.cluster.router, TEXT)[1])

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        print(f"{cls.n_refused} templates refused at the start, {cls.n_stopped} stopped by an error, {cls.n_answered} rendered")

    def start(self, folder, source):
        """The router, or None: it has refused the template in a sentence."""
        file = pathlib.Path(folder) / "hostile.jinja"
        file.write_text("{% if messages[0].content == 'attack' %}" + source + "{% else %}" + TEXT + "{% endif %}", encoding="utf-8")
        try:
            return Process(BINARY, MODEL, folder, "router", *self.flags, *LIMITS, "--chat-template", str(file))
        except RuntimeError as error:
            self.assertRegex(str(error), r"cannot start: [^ ]*hostile\.jinja(: | cannot be compiled: )[a-z]")
            return None

    def attack(self, router):
        with concurrent.futures.ThreadPoolExecutor(4) as crowd:
            attacks = [crowd.submit(chat, router, "attack") for _ in range(2)]
            others = [crowd.submit(complete, router, TEXT) for _ in range(4)]
            for other in others:
                status, told = other.result()
                self.assertEqual((status, status == 200 and text_of(told)), (200, self.expected), told)
            for status, told in (attack.result() for attack in attacks):
                if status == 200:
                    continue
                self.assertEqual(status, 400, told)
                self.assertIn(told["error"]["code"], TYPED)
                self.assertTrue(told["error"]["message"])
        return all(attack.result()[0] == 200 for attack in attacks)

    def try_template(self, source):
        with tempfile.TemporaryDirectory() as folder:
            router = self.start(folder, source)
            if not router:
                Templates.n_refused += 1
                return
            try:
                is_answered = self.attack(router)
                status, told = chat(router, "calm")
                self.assertEqual((status, status == 200 and text_of(told)), (200, self.expected), told)
                self.assertIsNone(router.child.poll(), "the router has ended")
                self.assertEqual(router.stop(), 0)
                Templates.n_answered += is_answered
                Templates.n_stopped += not is_answered
            finally:
                router.child.kill()

    def test_each(self):
        for name, source in HOSTILE.items():
            if ONLY and name not in ONLY:
                continue
            with self.subTest(template=name):
                self.try_template(source)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
