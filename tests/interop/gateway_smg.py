"""smg, unmodified, before the engine port of a real router: OpenAI's client speaks to smg, smg to vllm.grpc.engine.

    gateway_smg.py KVFERRY_BINARY MODEL_FOLDER TOOLS_FOLDER

At the end KV must have crossed, no block may be owned, and every process must exit with 0.
"""

import concurrent.futures
import pathlib
import subprocess
import sys
import unittest
import urllib.request

import openai
from gateway_case import (
    BOS, BRIEF, LEFT_LIMIT_S, LIMIT_S, NAME, TOOLS, TOOLS_OFFERED, WEATHER, Gateway, Service, free_port, is_weather, within)

PROMPT = "In the beginning God created the heaven and the earth. And the earth was without form, "
HELLO = [{"role": "user", "content": "In the beginning God created the heaven"}]


def launch(service, *before, others=()):
    """before: the words of a command that runs the rest of its arguments. others: more services behind it."""
    port = free_port()
    command = [*before, f"{TOOLS}/gateway_smg/bin/smg", "launch", "--host", "127.0.0.1", "--port", str(port), "--worker-urls", *(f"grpc://{of.engine}" for of in (service, *others)),
               "--worker-startup-check-interval", "1", "--health-check-interval-secs", "1", "--health-failure-threshold", "2",
               "--health-success-threshold", "1", "--prometheus-host", "127.0.0.1", "--prometheus-port", str(metrics := free_port())]
    gateway = Gateway(command, port, pathlib.Path(service.folder.name) / "smg.log")
    gateway.metrics = f"http://127.0.0.1:{metrics}/metrics"
    gateway.wait_ready()
    with client_of(f"{gateway.url}/v1") as first:
        within(60, "the gateway has the tokenizer", lambda: has_tokenizer(first))
    return gateway


def has_tokenizer(who):
    """smg lists a model before it has its tokenizer."""
    try:
        complete(who=who, max_tokens=1)
        return True
    except openai.InternalServerError as error:
        if "not registered yet" in str(error):
            return False
        raise


def client_of(url, **more):
    return openai.OpenAI(base_url=url, api_key="none", timeout=LIMIT_S, **({"max_retries": 0} | more))


def setUpModule():
    global service, gateway, client, direct
    service = Service()
    gateway = launch(service)
    client = client_of(f"{gateway.url}/v1")
    direct = client_of(service.openai)


def tearDownModule():
    client.close()
    direct.close()
    gateway.stop()
    assert service.crossed() > 0, "no KV has crossed"
    service.stop()


def complete(prompt=PROMPT, who=None, **more):
    """smg adds no beginning of text: it must be in the prompt."""
    return (who or client).completions.create(**({"model": NAME, "prompt": BOS + prompt, "max_tokens": 12, "temperature": 0} | more))


def chat(who=None, **more):
    return (who or client).chat.completions.create(**({"model": NAME, "messages": HELLO, "max_tokens": 12, "temperature": 0} | more))


class Text(unittest.TestCase):
    def test_a_completion_is_that_of_kvferry_v1(self):
        reply = complete()
        self.assertEqual((reply.choices[0].text, reply.choices[0].finish_reason), (service.text(PROMPT, 12), "length"))
        self.assertEqual(reply.usage.completion_tokens, 12)

    def test_streams_have_the_text_of_the_whole(self):
        self.assertEqual("".join(e.choices[0].text for e in complete(stream=True) if e.choices), complete().choices[0].text)
        events = list(chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(e.choices[0].delta.content or "" for e in events if e.choices)
        whole = chat()
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(events[-1].usage.completion_tokens, 12)
        self.assertEqual(events[-1].usage.prompt_tokens, whole.usage.prompt_tokens)

    def test_a_chat_is_that_of_our_own_http(self):
        for messages in (HELLO, HELLO + [{"role": "assistant", "content": "and"}, {"role": "user", "content": "the earth?"}]):
            self.assertEqual(chat(messages=messages).choices[0].message.content,
                             chat(direct, messages=messages).choices[0].message.content)

    def test_unicode_comes_through(self):
        for prompt in ("caf\u00e9 \U0001f642 and \u5149 was, ", "\u05d1\u05e8\u05d0\u05e9\u05d9\u05ea \u05d1\u05e8\u05d0 \u05d0\u05dc\u05d4\u05d9\u05dd "):
            self.assertEqual(complete(prompt).choices[0].text, service.text(prompt, 12))
            said = [{"role": "user", "content": prompt}]
            self.assertEqual(chat(messages=said).choices[0].message.content, chat(direct, messages=said).choices[0].message.content)

    def test_characters_of_several_tokens_are_whole_in_a_stream(self):
        choice = {"extra_body": {"regex": "(\u5149|\u05d0|\U0001f642)+"}, "temperature": 1, "seed": 3, "max_tokens": 60}
        whole = complete(**choice).choices[0].text
        self.assertEqual("".join(e.choices[0].text for e in complete(stream=True, **choice) if e.choices), whole)
        self.assertTrue(whole)
        self.assertLessEqual(set(whole), set("\u5149\u05d0\U0001f642"))

    def test_kv_crosses_on_every_request(self):
        def prompt(i):
            return f"In the year {i} of his reign the king went to the city of his fathers, and "

        def said(i):
            return [{"role": "user", "content": prompt(i)}]

        for ask in (lambda i: complete(prompt(10 + i)), lambda i: list(complete(prompt(20 + i), stream=True)),
                    lambda i: complete(prompt(30 + i), n=2), lambda i: chat(messages=said(40 + i)),
                    lambda i: list(chat(messages=said(50 + i), stream=True)), lambda i: chat(messages=said(60 + i), n=2, seed=i)):
            service.expect_crossing(3, ask)

    def test_choices_of_a_stream_are_those_of_the_whole(self):
        more = {"n": 3, "seed": 5, "temperature": 1.0}
        texts = ["", "", ""]
        for event in complete(stream=True, **more):
            for choice in event.choices:
                texts[choice.index] += choice.text
        self.assertEqual(texts, [c.text for c in complete(**more).choices])
        self.assertGreater(len(set(texts)), 1)

    def test_a_json_schema_is_kept(self):
        form = {"type": "json_schema", "json_schema": {"name": "weather", "schema": WEATHER, "strict": True}}
        for more in ({}, {"seed": 8, "temperature": 1}):
            reply = chat(response_format=form, **BRIEF, **more)
            self.assertTrue(is_weather(reply.choices[0].message.content))
            self.assertEqual(reply.choices[0].finish_reason, "stop")
            self.assertEqual(reply.choices[0].message.content,
                             chat(direct, response_format=form, **BRIEF, **more).choices[0].message.content)
            events = chat(response_format=form, stream=True, **BRIEF, **more)
            self.assertEqual("".join(e.choices[0].delta.content or "" for e in events if e.choices), reply.choices[0].message.content)

    def test_a_regex_and_a_grammar_are_kept(self):
        self.assertRegex(complete(extra_body={"regex": "[0-9]{4}"}).choices[0].text, "^[0-9]{4}$")
        for grammar in ('root ::= "so" | "be it"', 'start: "so" | "be it"'):
            self.assertIn(complete(extra_body={"ebnf": grammar}).choices[0].text, ("so", "be it"))

    def test_a_tool_that_must_be_called_is_called(self):
        named = {"type": "function", "function": {"name": "weather"}}
        (call,) = chat(tools=TOOLS_OFFERED, tool_choice=named, **BRIEF).choices[0].message.tool_calls
        self.assertEqual(call.function.name, "weather")
        self.assertTrue(is_weather(call.function.arguments))
        arguments = ""
        for event in chat(tools=TOOLS_OFFERED, tool_choice=named, stream=True, **BRIEF):
            for part in event.choices[0].delta.tool_calls or [] if event.choices else []:
                arguments += part.function.arguments or ""
        self.assertTrue(is_weather(arguments))
        self.assertTrue(chat(tools=TOOLS_OFFERED, tool_choice="auto").choices[0].message.content)

    def test_a_reply_that_must_call_begins_with_a_call(self):
        """The demo model calls on and on, until the reply is full: smg tells what is no whole list of calls as content."""
        choice = chat(tools=TOOLS_OFFERED, tool_choice="required", **BRIEF).choices[0]
        if choice.finish_reason == "length":
            self.assertRegex(choice.message.content, r'^\[\s*\{\s*"name"\s*:\s*"weather"\s*,\s*"parameters"\s*:\s*\{\s*"city"\s*:\s*"(Rome|Tyre)"')
        else:
            self.assertEqual({call.function.name for call in choice.message.tool_calls}, {"weather"})

    def test_choices_with_a_seed_are_those_of_our_own_http(self):
        of = lambda who: [c.message.content for c in chat(who, n=3, seed=5, temperature=1.0, top_p=0.95).choices]
        self.assertEqual(of(client), of(direct))
        self.assertGreater(len(set(of(client))), 1)

    def test_a_seed_gives_the_same_text_again(self):
        of = lambda seed: complete(seed=seed, temperature=1, max_tokens=20).choices[0].text
        self.assertEqual(of(3), of(3))
        self.assertNotEqual(of(3), of(4))

    def test_log_probabilities_are_those_of_our_own_http(self):
        of = lambda who: chat(who, logprobs=True, top_logprobs=3).choices[0].logprobs.content
        for ours, theirs in zip(of(direct), of(client), strict=True):
            self.assertEqual((ours.token, [t.token for t in ours.top_logprobs]), (theirs.token, [t.token for t in theirs.top_logprobs]))
            self.assertAlmostEqual(ours.logprob, theirs.logprob, 4)

    def test_a_stop_string_ends_the_reply(self):
        whole = complete(max_tokens=40).choices[0].text
        word = whole.split(" ")[4]
        reply = complete(max_tokens=40, stop=["zzz", word])
        self.assertEqual((reply.choices[0].text, reply.choices[0].finish_reason), (whole[: whole.index(word)], "stop"))
        self.assertLess(reply.usage.completion_tokens, 40)
        said = chat(max_tokens=40, stop=[chat(max_tokens=40).choices[0].message.content.split(" ")[4]])
        self.assertEqual(said.choices[0].finish_reason, "stop")

    def test_min_tokens_and_ignore_eos_are_kept(self):
        reply = complete(max_tokens=40, extra_body={"min_tokens": 30, "ignore_eos": True})
        self.assertEqual(reply.usage.completion_tokens, 40)

    def test_without_max_tokens_a_chat_ends(self):
        reply = client.chat.completions.create(model=NAME, messages=HELLO, temperature=0)
        self.assertIn(reply.choices[0].finish_reason, ("stop", "length"))
        self.assertLessEqual(reply.usage.total_tokens, 2048)

    def test_32_at_once(self):
        prompts = [f"And it came to pass in the year {i} that the king sent, " for i in range(32)]
        before = service.crossed()
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            texts = list(pool.map(lambda p: complete(p).choices[0].text, prompts))
        self.assertEqual(service.crossed() - before, 32, "each prompt's KV crosses")
        for prompt, text in list(zip(prompts, texts))[::5]:
            self.assertEqual(text, service.text(prompt, 12))

    def test_the_responses_api_answers(self):
        reply = client.responses.create(model=NAME, input="In the beginning God created the heaven", max_output_tokens=12, temperature=0)
        self.assertTrue(reply.output_text)


class Far(unittest.TestCase):
    """A gateway of another machine: where the model's folder is for us, there is nothing for it."""

    HIDE = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs none "$1" && shift && exec "$@"', "sh")

    def test_a_gateway_without_the_folder_gets_the_tokenizer_from_us(self):
        if subprocess.run([*self.HIDE, "/mnt", "true"], capture_output=True).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        front = launch(service, *self.HIDE, str(service.model))
        try:
            with client_of(f"{front.url}/v1") as far:
                self.assertEqual(complete(who=far).choices[0].text, service.text(PROMPT, 12))
                self.assertEqual(chat(far).choices[0].message.content, chat(direct).choices[0].message.content)
        finally:
            front.stop()


def metric_of(front, name, label=""):
    with urllib.request.urlopen(front.metrics, timeout=LIMIT_S) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0] == name and label in line)


class KvEvents(unittest.TestCase):
    """Its default policy, cache_aware, follows our SubscribeKvEvents."""

    def test_a_prompt_goes_where_it_is_cached(self):
        places = [Service(), Service()]
        front = launch(places[0], others=places[1:])
        try:
            words = ("Zion", "first book", "queen", "hand", "well", "journey", "land", "sword")
            cached = [(places[int(at)], f"{word} of the king, and of his sons: " + PROMPT * 6) for at, word in zip("11010010", words)]
            for place, prompt in cached:
                before = metric_of(front, "smg_kv_index_blocks", place.engine)
                place.text(prompt, 2)  # not through the gateway: it learns of it by events alone
                within(30, "the gateway knows of it", lambda: metric_of(front, "smg_kv_index_blocks", place.engine) > before + 5)
            with client_of(f"{front.url}/v1") as who:
                for place, prompt in cached * 2:
                    before = [requests_of(p) for p in places]
                    complete(prompt, who=who, max_tokens=2)
                    after = [requests_of(p) for p in places]
                    self.assertEqual([b - a for a, b in zip(before, after)], [float(p is place) for p in places])
            for outcome in ("replay_requested", "unrecovered_cleared", "unrecovered_kept"):
                self.assertEqual(metric_of(front, "smg_kv_event_gaps_total", outcome), 0)
            for place in places:
                self.assertEqual(metric_of(front, "smg_kv_index_blocks", place.engine), place.cluster.router.metric("kvferry_kv_event_blocks"))
                self.assertEqual(metric_of(front, "smg_kv_event_resyncs_total", place.engine), 1)
        finally:
            front.stop()
            for place in places:
                place.stop()


def requests_of(place):
    return place.cluster.router.metric("kvferry_request_prompt_tokens_count")


class Ends(unittest.TestCase):
    def test_a_client_that_leaves_leaves_nothing(self):
        long = {"max_tokens": 1900, "stream": True, "extra_body": {"ignore_eos": True}}
        for ask in (complete, chat):
            for _ in range(3):
                with ask(**long) as stream:
                    next(iter(stream))
            within(LEFT_LIMIT_S, "no block is owned", lambda: service.owned() == 0)

    def test_what_is_not_served_is_400_by_name(self):
        for more, words in (({"extra_body": {"regex": "("}}, "regex"), ({"logprobs": 21}, "logprobs"),
                            ({"extra_body": {"ebnf": "?"}}, "grammar")):
            with self.assertRaises(openai.BadRequestError) as caught:
                complete(**more)
            self.assertIn(words, str(caught.exception))
            self.assertNotIn("127.0.0.1", str(caught.exception))
        with self.assertRaises(openai.BadRequestError) as caught:
            complete(max_tokens=0)
        self.assertIn("max_tokens is 0", str(caught.exception))
        self.assertNotIn("127.0.0.1", str(caught.exception))

    def test_statuses_are_those_of_openai(self):
        with self.assertRaises(openai.NotFoundError):
            chat(model="another")
        with self.assertRaises(openai.BadRequestError):
            chat(temperature=3)
        with self.assertRaises(openai.BadRequestError):
            complete("word " * 4000)

    def test_a_killed_worker_comes_again(self):
        own = Service("--wait-limit-ms", "300")
        front = launch(own)
        try:
            with client_of(f"{front.url}/v1") as careful:
                complete(who=careful)  # UCX 1.13 may end a process whose peer dies while they connect
                stream = complete(who=careful, stream=True, max_tokens=1900, extra_body={"ignore_eos": True})
                next(iter(stream))
                own.kill_generation_worker()
                with self.assertRaises(openai.APIError):  # told in the stream, or cut: never a silent end
                    for _ in stream:
                        pass
                with self.assertRaises(openai.InternalServerError) as caught:
                    complete(who=careful)
                self.assertEqual(caught.exception.status_code, 503)
                self.assertNotIn("127.0.0.1", str(caught.exception))
                own.revive_generation_worker()

                def works():
                    try:
                        return complete(who=careful).choices[0].text == complete().choices[0].text
                    except openai.InternalServerError:
                        return False

                within(30, "it serves again", works)
        finally:
            front.stop()
            own.stop()

    def test_full_is_429_and_does_not_take_us_out(self):
        own = Service("--requests-max", "1", "--wait-max", "0")
        front = launch(own)
        try:
            with client_of(f"{front.url}/v1") as busy:
                with complete(who=busy, stream=True, max_tokens=1900, extra_body={"ignore_eos": True}) as stream:
                    next(iter(stream))
                    own.pause_generation_worker()  # so that the stream lasts as long as they are refused
                    try:
                        with concurrent.futures.ThreadPoolExecutor(12) as pool:  # at once: each is tried five times
                            refused = [pool.submit(complete, who=busy) for _ in range(12)]
                            self.assertEqual([type(call.exception()) for call in refused], [openai.RateLimitError] * 12)
                    finally:
                        own.resume_generation_worker()
                within(10, "there is room again", lambda: own.owned() == 0)
                self.assertEqual(complete(who=busy).choices[0].text, complete().choices[0].text)
        finally:
            front.stop()
            own.stop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
