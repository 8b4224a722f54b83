"""langchain-openai before a real router: every reply is that of kvferry.v1.

    openai_langchain.py KVFERRY_BINARY MODEL_FOLDER FOLDER_OF_THE_PACKAGE
"""

import sys
import unittest

import openai
from langchain_openai import ChatOpenAI, OpenAI
from openai_case import LIMIT_S, LONG, NAME, generated, start_cluster, stop_cluster, url_of

HELLO = "In the beginning"


class LangChain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = start_cluster()
        cls.said = generated(cls.cluster, f"user: {HELLO}\nassistant:", 12, "--no-add-special-tokens")

    @classmethod
    def tearDownClass(cls):
        stop_cluster(cls.cluster)

    def model(self, kind=ChatOpenAI, **more):
        return kind(model=NAME, base_url=url_of(self.cluster), api_key="none", max_tokens=12, temperature=0, max_retries=0,
                    timeout=LIMIT_S, **more)

    def test_invoke_stream_and_batch(self):
        model = self.model()
        reply = model.invoke(HELLO)
        self.assertEqual(reply.content, self.said)
        self.assertEqual(reply.usage_metadata["output_tokens"], 12)
        self.assertEqual("".join(part.content for part in model.stream(HELLO)), self.said)
        self.assertEqual([one.content for one in model.batch([HELLO] * 8)], [self.said] * 8)

    def test_logprobs_and_tools(self):
        reply = self.model(logprobs=True, top_logprobs=2).invoke(HELLO)
        self.assertEqual(len(reply.response_metadata["logprobs"]["content"]), 12)
        tool = {"name": "f", "description": "does nothing", "parameters": {"type": "object", "properties": {}}}
        self.assertEqual(self.model().bind_tools([tool]).invoke(HELLO).tool_calls, [])

    def test_text(self):
        self.assertEqual(self.model(OpenAI).invoke(LONG), generated(self.cluster, LONG, 12))

    def test_structured_output_and_a_call_of_a_tool(self):
        properties = {"kind": {"enum": ["sheep", "goat"]}, "is_old": {"type": "boolean"}}
        schema = {"title": "animal", "description": "one", "type": "object", "properties": properties,
                  "required": ["kind", "is_old"], "additionalProperties": False}
        # The model of the demo repeats blanks, where they may be.
        model = ChatOpenAI(model=NAME, base_url=url_of(self.cluster), api_key="none", max_tokens=300, temperature=0.7, seed=1,
                           frequency_penalty=2, max_retries=0, timeout=LIMIT_S)
        for method in ("json_schema", "function_calling"):
            animal = model.with_structured_output(schema, method=method).invoke(HELLO)
            self.assertEqual(set(animal), {"kind", "is_old"}, method)
            self.assertIn(animal["kind"], properties["kind"]["enum"], method)
        with self.assertRaises(openai.BadRequestError):
            model.with_structured_output(schema | {"properties": {"kind": {"type": "nothing"}}}, method="json_schema").invoke(HELLO)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
