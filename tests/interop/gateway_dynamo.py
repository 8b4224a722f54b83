"""Dynamo, unmodified, before the engine port of a real router: OpenAI's client speaks to its frontend, its vLLM sidecar to vllm.Inference.

    gateway_dynamo.py KVFERRY_BINARY MODEL_FOLDER TOOLS_FOLDER
"""

import concurrent.futures
import pathlib
import sys
import unittest

import openai
from gateway_case import BOS, BRIEF, LEFT_LIMIT_S, LIMIT_S, NAME, TOOLS, TOOLS_OFFERED, WEATHER, Gateway, Service, free_port, is_weather, within

PROMPT = "In the beginning God created the heaven and the earth. And the earth was without form, "
HELLO = [{"role": "user", "content": "In the beginning God created the heaven"}]
PYTHON = f"{TOOLS}/gateway_dynamo/bin/python"


class Dynamo(Gateway):
    """The frontend, and a sidecar beside the engine."""

    def __init__(self, service):
        port = free_port()
        folder = pathlib.Path(service.folder.name)
        environment = {"DYN_DISCOVERY_BACKEND": "file", "DYN_FILE_KV": str(folder / "dynamo"), "DYN_EVENT_PLANE": "zmq",
                       "DYN_REQUEST_PLANE": "tcp", "DYN_TCP_RPC_HOST": "127.0.0.1"}
        (folder / "dynamo").mkdir()
        command = [PYTHON, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port)]
        super().__init__(command, port, folder / "frontend.log", environment)
        self.sidecar = Gateway([PYTHON, "-m", "dynamo.vllm.sidecar", "--grpc-endpoint", service.engine], port, folder / "sidecar.log",
                               environment)

    def stop(self):
        self.sidecar.stop()
        super().stop()


def setUpModule():
    global service, gateway, client, direct
    service = Service("--wait-limit-ms", "60s")
    gateway = Dynamo(service)
    gateway.wait_ready(300)
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", timeout=LIMIT_S, max_retries=0)
    direct = openai.OpenAI(base_url=service.openai, api_key="none", timeout=LIMIT_S, max_retries=0)


def tearDownModule():
    client.close()
    direct.close()
    gateway.stop()
    assert service.crossed() > 0, "no KV has crossed"
    service.stop()


def complete(prompt=PROMPT, **more):
    """Dynamo adds no beginning of text: it must be in the prompt."""
    return client.completions.create(**({"model": NAME, "prompt": BOS + prompt, "max_tokens": 12, "temperature": 0} | more))


def chat(who=None, **more):
    return (who or client).chat.completions.create(**({"model": NAME, "messages": HELLO, "max_tokens": 12, "temperature": 0} | more))


class Text(unittest.TestCase):
    def test_a_completion_is_that_of_kvferry_v1(self):
        reply = complete()
        self.assertEqual((reply.choices[0].text, reply.choices[0].finish_reason), (service.text(PROMPT, 12), "length"))
        self.assertEqual(reply.usage.completion_tokens, 12)

    def test_a_chat_is_that_of_our_own_http(self):
        self.assertEqual(chat().choices[0].message.content, chat(direct).choices[0].message.content)

    def test_streams_have_the_text_of_the_whole(self):
        self.assertEqual("".join(e.choices[0].text or "" for e in complete(stream=True) if e.choices), complete().choices[0].text)
        said = "".join(e.choices[0].delta.content or "" for e in chat(stream=True) if e.choices)
        self.assertEqual(said, chat().choices[0].message.content)

    def test_unicode_comes_through(self):
        for prompt in ("caf\u00e9 \U0001f642 and \u5149 was, ", "\u05d1\u05e8\u05d0\u05e9\u05d9\u05ea \u05d1\u05e8\u05d0 "):
            self.assertEqual(complete(prompt).choices[0].text, service.text(prompt, 12))

    def test_a_stop_string_is_not_shown(self):
        whole = complete(max_tokens=40).choices[0].text
        word = whole.split(" ")[4]
        reply = complete(max_tokens=40, stop=[word])
        self.assertEqual((reply.choices[0].text, reply.choices[0].finish_reason), (whole[: whole.index(word)], "stop"))

    def test_parameters_are_kept(self):
        for more in ({"seed": 4, "temperature": 1.0, "top_p": 0.9}, {"presence_penalty": 1.5}, {"frequency_penalty": 1.5}):
            self.assertEqual(chat(**more).choices[0].message.content, chat(direct, **more).choices[0].message.content, more)

    def test_a_seed_gives_the_same_text_again(self):
        of = lambda seed: complete(seed=seed, temperature=1, max_tokens=20).choices[0].text
        self.assertEqual(of(3), of(3))
        self.assertNotEqual(of(3), of(4))

    def test_kv_crosses_on_every_request(self):
        def prompt(i):
            return f"In the year {i} of his reign the king went to the city of his fathers, and "

        for ask in (lambda i: complete(prompt(10 + i)), lambda i: list(complete(prompt(20 + i), stream=True)),
                    lambda i: chat(messages=[{"role": "user", "content": prompt(30 + i)}])):
            service.expect_crossing(3, ask)

    def test_a_json_schema_is_kept(self):
        form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": WEATHER, "strict": True}}
        said = chat(response_format=form, **BRIEF).choices[0].message.content
        self.assertTrue(is_weather(said))
        self.assertEqual(said, chat(direct, response_format=form, **BRIEF).choices[0].message.content)

    def test_a_tool_that_must_be_called_is_called(self):
        (call,) = chat(tools=TOOLS_OFFERED, tool_choice={"type": "function", "function": {"name": "weather"}}, **BRIEF).choices[0].message.tool_calls
        self.assertEqual(call.function.name, "weather")
        self.assertTrue(is_weather(call.function.arguments))

    def test_32_at_once_wait_for_their_turn(self):
        prompts = [f"And it came to pass in the year {i} that the king sent, " for i in range(32)]
        before = service.crossed()
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            texts = list(pool.map(lambda p: complete(p).choices[0].text, prompts))
        self.assertEqual(service.crossed() - before, 32, "each prompt's KV crosses")
        for prompt, text in list(zip(prompts, texts))[::5]:
            self.assertEqual(text, service.text(prompt, 12))


class Ends(unittest.TestCase):
    def test_a_client_that_leaves_leaves_nothing(self):
        for _ in range(3):
            with complete(stream=True, max_tokens=1900, extra_body={"ignore_eos": True}) as stream:
                next(iter(stream))
        within(LEFT_LIMIT_S, "no block is owned", lambda: service.owned() == 0)

    def test_several_choices_are_refused_by_the_gateway(self):
        with self.assertRaises(openai.APIStatusError):
            complete(n=2, temperature=1)

    def test_statuses_are_those_of_openai(self):
        for status, more in ((404, {"model": "another"}), (400, {"temperature": 3}), (400, {"top_p": 2})):
            with self.assertRaises(openai.APIStatusError) as caught:
                complete(**more)
            self.assertEqual(caught.exception.status_code, status, caught.exception)

    def test_a_constraint_that_is_none_is_refused(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            chat(extra_body={"nvext": {"guided_regex": "("}})
        self.assertIn("regex", str(caught.exception))
        self.assertNotIn("127.0.0.1", str(caught.exception))

    def test_a_prompt_that_is_too_long_is_refused(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            complete("word " * 4000)
        self.assertNotIn("127.0.0.1", str(caught.exception))

    def test_a_killed_worker_comes_again(self):
        stream = complete(stream=True, max_tokens=1900, extra_body={"ignore_eos": True})
        next(iter(stream))
        service.kill_generation_worker()
        with self.assertRaises(openai.APIError):
            for _ in stream:
                pass
        service.revive_generation_worker()

        def works():
            try:
                return complete().choices[0].text == service.text(PROMPT, 12)
            except openai.APIStatusError:
                return False

        within(60, "it serves again", works)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
