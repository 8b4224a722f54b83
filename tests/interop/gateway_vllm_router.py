"""vllm-router, unmodified, before the engine port of a real router: OpenAI's client speaks to it, it speaks to vllm.Inference.

    gateway_vllm_router.py KVFERRY_BINARY MODEL_FOLDER TOOLS_FOLDER

Its requests name the model's folder, from which it reads tokenizer and chat template.
"""

import concurrent.futures
import pathlib
import sys
import unittest

import httpx2 as httpx  # what openai uses
import openai
from gateway_case import BRIEF, LEFT_LIMIT_S, LIMIT_S, NAME, TOOLS, WEATHER, Gateway, Service, free_port, is_weather, within

HELLO = [{"role": "user", "content": "In the beginning God created the heaven"}]


def launch(service):
    port = free_port()
    command = [f"{TOOLS}/gateway_vllm_router/bin/vllm-router", "--host", "127.0.0.1", "--port", str(port), "--worker-urls",
               f"grpc://{service.engine}", "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]
    gateway = Gateway(command, port, pathlib.Path(service.folder.name) / "vllm-router.log")
    gateway.wait_ready()
    return gateway


def setUpModule():
    global service, gateway, client, direct
    service = Service()
    gateway = launch(service)
    client = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", timeout=LIMIT_S, max_retries=0)
    direct = openai.OpenAI(base_url=service.openai, api_key="none", timeout=LIMIT_S, max_retries=0)


def tearDownModule():
    client.close()
    direct.close()
    gateway.stop()
    assert service.crossed() > 0, "no KV has crossed"
    service.stop()


def chat(who=None, **more):
    model = NAME if who is direct else str(service.model)
    return (who or client).chat.completions.create(**({"model": model, "messages": HELLO, "max_tokens": 12, "temperature": 0} | more))


def text(*args, **more):
    return chat(*args, **more).choices[0].message.content


class Chat(unittest.TestCase):
    def test_the_model_is_listed(self):
        self.assertEqual([model.id for model in client.models.list().data], [NAME])

    def test_a_chat_is_that_of_our_own_http(self):
        reply = chat()
        self.assertEqual(reply.choices[0].message.content, text(direct))
        self.assertEqual((reply.choices[0].finish_reason, reply.usage.completion_tokens), ("length", 12))

    def test_a_stream_has_the_text_of_the_whole(self):
        events = chat(stream=True)
        self.assertEqual("".join(e.choices[0].delta.content or "" for e in events if e.choices), text())

    def test_parameters_are_kept(self):
        for more in ({"seed": 4, "temperature": 1.0, "top_p": 0.9}, {"presence_penalty": 1.5}, {"frequency_penalty": 1.5}):
            self.assertEqual(text(**more), text(direct, **more), more)

    def test_a_stop_string_ends_the_reply(self):
        whole = text(max_tokens=40)
        word = whole.split(" ")[4]
        reply = chat(max_tokens=40, stop=[word])
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertTrue(reply.choices[0].message.content.startswith(whole[: whole.index(word)]))

    def test_a_chat_has_the_tokens_of_kvferry_v1(self):
        self.assertEqual(text(), service.text(f"user: {HELLO[0]['content']}\nassistant:", 12, "--no-add-special-tokens"))

    def test_unicode_comes_through(self):
        for said in ("caf\u00e9 \U0001f642 and \u5149 was", "\u05d1\u05e8\u05d0\u05e9\u05d9\u05ea \u05d1\u05e8\u05d0"):
            messages = [{"role": "user", "content": said}]
            self.assertEqual(text(messages=messages), text(direct, messages=messages))
            stream = "".join(e.choices[0].delta.content or "" for e in chat(messages=messages, stream=True) if e.choices)
            self.assertEqual(stream, text(messages=messages))

    def test_a_seed_gives_the_same_text_again(self):
        self.assertEqual(text(seed=3, temperature=1), text(seed=3, temperature=1))
        self.assertNotEqual(text(seed=3, temperature=1), text(seed=4, temperature=1))

    def test_kv_crosses_on_every_request(self):
        def said(i):
            return [{"role": "user", "content": f"In the year {i} of his reign the king went to the city of his fathers"}]

        service.expect_crossing(3, lambda i: chat(messages=said(10 + i)))
        service.expect_crossing(3, lambda i: list(chat(messages=said(20 + i), stream=True)))

    def test_a_json_schema_is_kept(self):
        form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": WEATHER, "strict": True}}
        said = text(response_format=form, **BRIEF)
        self.assertTrue(is_weather(said))
        self.assertEqual(said, text(direct, response_format=form, **BRIEF))

    def test_32_at_once(self):
        messages = [[{"role": "user", "content": f"And it came to pass in the year {i} that the king"}] for i in range(32)]
        before = service.crossed()
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            texts = list(pool.map(lambda m: text(messages=m), messages))
        self.assertEqual(service.crossed() - before, 32, "each prompt's KV crosses")
        for m, said in list(zip(messages, texts))[::8]:
            self.assertEqual(said, text(direct, messages=m))

    def test_token_ids_are_a_prompt(self):
        ids = [1, 45, 67, 89, 100, 101, 102, 103, 104, 105, 106, 107]
        reply = client.completions.create(model=str(service.model), prompt=ids, max_tokens=12, temperature=0)
        wanted = direct.completions.create(model=NAME, prompt=ids, max_tokens=12, temperature=0)
        self.assertTrue(reply.choices[0].text.endswith(wanted.choices[0].text))


class Ends(unittest.TestCase):
    def test_a_client_that_leaves_leaves_nothing(self):
        for _ in range(3):
            with chat(stream=True, max_tokens=1900, extra_body={"ignore_eos": True}) as stream:
                next(iter(stream))
        within(LEFT_LIMIT_S, "no block is owned", lambda: service.owned() == 0)

    def test_what_is_not_served_is_told_by_name(self):
        with self.assertRaises(openai.APIStatusError) as caught:
            chat(extra_body={"guided_regex": "a+"}, temperature=101)
        self.assertNotIn("127.0.0.1", str(caught.exception))

    def test_several_choices_are_refused_by_the_gateway(self):
        with self.assertRaises(openai.APIStatusError):
            chat(n=2)

    def test_a_prompt_that_is_too_long_is_refused(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            chat(messages=[{"role": "user", "content": "word " * 4000}])
        self.assertNotIn("127.0.0.1", str(caught.exception))

    def test_a_killed_worker_comes_again(self):
        own = Service("--wait-limit-ms", "300")
        front = launch(own)
        careful = openai.OpenAI(base_url=f"{front.url}/v1", api_key="none", timeout=LIMIT_S, max_retries=0)
        try:
            wanted = text()
            chat(careful, model=str(own.model))  # UCX 1.13 may end a process whose peer dies while they connect
            stream = chat(careful, model=str(own.model), stream=True, max_tokens=1900, extra_body={"ignore_eos": True})
            next(iter(stream))
            own.kill_generation_worker()
            with self.assertRaises((openai.APIError, httpx.HTTPError)):  # told in the stream, or cut: never a silent end
                for _ in stream:
                    pass
            with self.assertRaises(openai.InternalServerError) as caught:
                chat(careful, model=str(own.model))
            self.assertNotIn("127.0.0.1", str(caught.exception))
            own.revive_generation_worker()

            def works():
                try:
                    return text(careful, model=str(own.model)) == wanted
                except openai.InternalServerError:
                    return False

            within(30, "it serves again", works)
        finally:
            careful.close()
            front.stop()
            own.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
