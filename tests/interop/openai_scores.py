"""Log-probabilities of prompts: OpenAI's echo with logprobs and vLLM's prompt_logprobs, by the official Python package.

    openai_scores.py KVFERRY_BINARY MODEL_FOLDER

They are what kvferry.v1 says, to the last bit, and what Transformers says (tests/golden/models/scores.json), as near as bfloat16 is.
"""

import json
import pathlib
import subprocess
import sys
import unittest

import openai
from openai_case import BINARY, LIMIT_S, LONG, NAME, start_cluster, stop_cluster, url_of

BOS = "<|begin_of_text|>"
GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "models" / "scores.json"
BF16_TOLERANCE = 0.08  # model/demo/README.md
LISTS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")
HELLO = [{"role": "user", "content": "In the beginning"}]


def setUpModule():
    global cluster, client
    cluster = start_cluster()
    client = openai.OpenAI(base_url=url_of(cluster), api_key="none", timeout=LIMIT_S, max_retries=0)


def tearDownModule():
    client.close()
    stop_cluster(cluster)


def complete(prompt=LONG, **more):
    return client.completions.create(**({"model": NAME, "prompt": prompt, "max_tokens": 4, "temperature": 0} | more))


def echoed(prompt=LONG, **more):
    return complete(prompt, **({"echo": True, "logprobs": 2} | more))


def of_v1(prompt, n):
    """[{"id", "text", "logprob", "top": [...]}] of the prompt, as kvferry.v1 says."""
    done = subprocess.run([BINARY, "generate", "--server", cluster.router.ports["grpc"], "--max-tokens", "1", "--json",
                           "--prompt-logprobs", str(n), prompt], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["prompt_logprobs"]


def lists_of(logprobs):
    return {name: list(getattr(logprobs, name)) for name in LISTS}


def joined(events, index=0):
    """The logprobs of a choice of a stream."""
    parts = [lists_of(c.logprobs) for e in events for c in e.choices if c.logprobs and c.index == index]
    return {name: [one for part in parts for one in part[name]] for name in LISTS}


class Echo(unittest.TestCase):
    def test_the_prompt_has_the_log_probabilities_of_kvferry_v1(self):
        reply = echoed().choices[0]
        told = of_v1(LONG, 2)
        self.assertEqual(reply.logprobs.token_logprobs[:-4], [row["logprob"] for row in told])
        self.assertEqual([list(top.values()) for top in reply.logprobs.top_logprobs[1:-4]],
                         [[top["logprob"] for top in row["top"]] for row in told[1:]])
        self.assertIsNone(reply.logprobs.token_logprobs[0])
        self.assertIsNone(reply.logprobs.top_logprobs[0])

    def test_tokens_make_the_text_and_offsets_lead_to_them(self):
        for prompt in (LONG, "äöü 光 🙂"):
            choice = echoed(prompt, logprobs=1).choices[0]
            tokens, offsets = choice.logprobs.tokens, choice.logprobs.text_offset
            self.assertEqual(tokens[0], BOS)
            if prompt == LONG:
                self.assertEqual("".join(tokens), BOS + choice.text)
                for token, offset in zip(tokens, offsets):
                    self.assertEqual((BOS + choice.text)[offset:offset + len(token)], token)
            self.assertEqual(len(offsets), len(tokens))
            self.assertEqual(offsets, sorted(offsets))

    def test_what_follows_is_what_follows_without_an_echo(self):
        plain, reply = complete(logprobs=2).choices[0].logprobs, echoed().choices[0].logprobs
        for name in LISTS[:3]:
            self.assertEqual(getattr(reply, name)[-4:], getattr(plain, name))

    def test_a_stream_has_those_of_the_whole(self):
        events = list(echoed(stream=True))
        whole = echoed().choices[0]
        self.assertEqual(joined(events), lists_of(whole.logprobs))
        self.assertEqual(events[0].choices[0].text, LONG, "the echo comes first")
        self.assertEqual("".join(c.text for e in events for c in e.choices), whole.text)

    def test_zero_tokens_are_the_echo_alone(self):
        reply = echoed(max_tokens=0)
        self.assertEqual((reply.choices[0].text, reply.usage.completion_tokens), (LONG, 0))
        self.assertEqual(reply.choices[0].finish_reason, "length")
        self.assertEqual(reply.choices[0].logprobs.token_logprobs, echoed().choices[0].logprobs.token_logprobs[:-4])
        events = list(echoed(max_tokens=0, stream=True))
        self.assertEqual("".join(c.text for e in events for c in e.choices), LONG)
        self.assertEqual(joined(events), lists_of(reply.choices[0].logprobs))
        self.assertEqual(complete(echo=True, max_tokens=0).choices[0].text, LONG)

    def test_several_prompts_and_choices_have_their_own(self):
        reply = echoed([LONG, "In the beginning"], n=2, temperature=1, seed=3)
        alone = {prompt: echoed(prompt).choices[0].logprobs.token_logprobs[:-4] for prompt in (LONG, "In the beginning")}
        for choice in reply.choices:
            prompt = LONG if choice.index < 2 else "In the beginning"
            self.assertTrue(choice.text.startswith(prompt))
            self.assertEqual(choice.logprobs.token_logprobs[:-4], alone[prompt])
        events = list(echoed([LONG, "In the beginning"], n=2, temperature=1, seed=3, stream=True))
        for choice in reply.choices:
            self.assertEqual(joined(events, choice.index), lists_of(choice.logprobs))

    def test_transformers_says_so(self):
        for case in json.loads(GOLDEN.read_text())["cases"]:
            ids = case["prompt_ids"]
            logprobs = echoed(ids, logprobs=5, max_tokens=0).choices[0].logprobs
            self.assertEqual(len(logprobs.tokens), len(ids))
            for value, row in zip(logprobs.token_logprobs[1:], case["scores"], strict=True):
                self.assertAlmostEqual(value, row["logprob"], delta=BF16_TOLERANCE)

    def test_a_cached_prompt_has_the_same(self):
        salted = {"extra_body": {"cache_salt": "cold"}}
        first = echoed(**salted)
        self.assertGreater(complete(**salted).usage.prompt_tokens_details.cached_tokens, 0)
        again = echoed(**salted)
        self.assertEqual(again.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(lists_of(again.choices[0].logprobs), lists_of(first.choices[0].logprobs))


class PromptLogprobs(unittest.TestCase):
    """As vLLM has them."""

    def check(self, listed, told, n):
        self.assertIsNone(listed[0])
        self.assertEqual(len(listed), len(told))
        for row, wanted in zip(listed[1:], told[1:]):
            own = row[str(wanted["id"])]
            self.assertEqual((own["logprob"], own["decoded_token"]), (wanted["logprob"], wanted["text"]))
            ranked = {key: one for key, one in row.items() if one["rank"] and one["rank"] <= n}
            self.assertEqual({key: one["rank"] for key, one in ranked.items()},
                             {str(top["id"]): rank + 1 for rank, top in enumerate(wanted["top"])})
            for top in wanted["top"]:
                self.assertEqual(row[str(top["id"])]["logprob"], top["logprob"])
            self.assertLessEqual(len(row), n + 1)

    def test_of_completions_they_are_in_each_choice(self):
        for n in (0, 3):
            reply = complete(n=2, temperature=1, extra_body={"prompt_logprobs": n})
            for choice in reply.choices:
                self.check(choice.model_extra["prompt_logprobs"], of_v1(LONG, n), n)
                self.assertIsNone(choice.logprobs)
        self.assertNotIn("prompt_logprobs", complete().choices[0].model_extra or {})

    def test_of_a_chat_they_are_beside_the_choices(self):
        reply = client.chat.completions.create(model=NAME, messages=HELLO, max_tokens=2, extra_body={"prompt_logprobs": 2})
        listed = reply.model_extra["prompt_logprobs"]
        self.assertEqual(len(listed), reply.usage.prompt_tokens)
        self.assertEqual([one is None for one in listed], [i == 0 for i in range(len(listed))])
        self.assertTrue(all(1 <= len([t for t in row.values() if t["rank"] in (1, 2)]) <= 2 for row in listed[1:]))

    def test_beside_an_echo_each_has_what_was_asked_for(self):
        reply = echoed(logprobs=1, extra_body={"prompt_logprobs": 3}).choices[0]
        self.check(reply.model_extra["prompt_logprobs"], of_v1(LONG, 3), 3)
        self.assertTrue(all(len(top) == 1 for top in reply.logprobs.top_logprobs[1:]))

    def test_what_is_not_served_is_refused_by_name(self):
        for body in ({"prompt_logprobs": 21}, {"prompt_logprobs": -1}, {"prompt_logprobs": "2"}):
            with self.assertRaises(openai.BadRequestError) as caught:
                complete(extra_body=body)
            self.assertEqual(caught.exception.param, "prompt_logprobs")
        with self.assertRaises(openai.BadRequestError) as caught:
            complete(stream=True, extra_body={"prompt_logprobs": 1})
        self.assertIn("stream", caught.exception.message)
        with self.assertRaises(openai.BadRequestError) as caught:
            complete(max_tokens=0)
        self.assertEqual(caught.exception.param, "max_tokens")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
