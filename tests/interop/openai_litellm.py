"""LiteLLM before a real router, by its providers `openai` and `hosted_vllm`: every reply is that of kvferry.v1.

    openai_litellm.py KVFERRY_BINARY MODEL_FOLDER FOLDER_OF_THE_PACKAGE
"""

import os
import sys
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
import litellm
from openai_case import LIMIT_S, LONG, NAME, generated, start_cluster, stop_cluster, url_of

HELLO = [{"role": "user", "content": "In the beginning"}]


class LiteLlm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = start_cluster()
        cls.said = generated(cls.cluster, "user: In the beginning\nassistant:", 12, "--no-add-special-tokens")

    @classmethod
    def tearDownClass(cls):
        stop_cluster(cls.cluster)

    def ask(self, provider, call=litellm.completion, **more):
        fields = {"max_tokens": 12, "temperature": 0, "timeout": LIMIT_S, "num_retries": 0} | more
        return call(model=f"{provider}/{NAME}", api_base=url_of(self.cluster), api_key="none", **fields)

    def test_chat_whole_and_streamed(self):
        for provider in ("openai", "hosted_vllm"):
            reply = self.ask(provider, messages=HELLO)
            self.assertEqual(reply.choices[0].message.content, self.said, provider)
            self.assertEqual(reply.usage.completion_tokens, 12)
            events = self.ask(provider, messages=HELLO, stream=True)
            self.assertEqual("".join(e.choices[0].delta.content or "" for e in events), self.said, provider)

    def test_text(self):
        reply = self.ask("text-completion-openai", litellm.text_completion, prompt=LONG)
        self.assertEqual(reply.choices[0].text, generated(self.cluster, LONG, 12))
        events = self.ask("text-completion-openai", litellm.text_completion, prompt=LONG, stream=True)
        self.assertEqual("".join(e.choices[0].text or "" for e in events), reply.choices[0].text)

    def test_errors(self):
        with self.assertRaises(litellm.ContextWindowExceededError):
            self.ask("openai", messages=[{"role": "user", "content": LONG * 40}])
        with self.assertRaises(litellm.BadRequestError):
            self.ask("openai", messages=HELLO, temperature=9)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
