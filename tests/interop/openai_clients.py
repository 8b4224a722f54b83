"""The official Python package of OpenAI before the OpenAI-compatible port of a real router with a context and a generation worker.

    openai_clients.py KVFERRY_BINARY MODEL_FOLDER

At the end KV must have crossed, no block may be owned, and every process must exit with 0.
"""

import concurrent.futures
import json
import signal
import ssl
import subprocess
import sys
import tempfile
import typing
import unittest

import httpx2 as httpx  # what the package itself uses
import openai
import pydantic
from certificates import Folder
from cluster import Process
from openai_case import BINARY, LIMIT_S, LONG, MODEL, NAME, generated, owned_blocks, start_cluster, stop_cluster, url_of, within
from tokens import Tokens

PLAIN = {"extra_body": {"add_special_tokens": False}}  # as a chat, whose template has what it wants
HELLO = [{"role": "user", "content": "In the beginning"}]


def setUpModule():
    global cluster, client
    cluster = start_cluster()
    client = make_client(cluster)


def tearDownModule():
    client.close()
    stop_cluster(cluster)


def make_client(of, key="none", scheme="http", **more):
    return openai.OpenAI(base_url=url_of(of, scheme), api_key=key, timeout=LIMIT_S, **({"max_retries": 0} | more))


def counting_client(of, key="none", **more):
    """A client, and the requests that it has sent."""
    sent = []
    transport = httpx.Client(event_hooks={"request": [sent.append]})
    return make_client(of, key, http_client=transport, **more), sent


def complete(prompt=LONG, **more):
    return client.completions.create(**({"model": NAME, "prompt": prompt, "max_tokens": 12, "temperature": 0} | more))


def chat(messages=HELLO, **more):
    return client.chat.completions.create(**({"model": NAME, "messages": messages, "max_tokens": 12, "temperature": 0} | more))


def raw(method, path, **more):
    return httpx.request(method, url_of(cluster) + path, timeout=LIMIT_S, **more)


def nested(n):
    return json.loads('{"a":' * n + "1" + "}" * n)


def cors(reply):
    return {name: value for name, value in reply.headers.items() if name.startswith("access-control-")}


def text_of(stream, index=0):
    return "".join(c.text for event in stream for c in event.choices if c.index == index)


def said(stream, index=0):
    return "".join(c.delta.content or "" for event in stream for c in event.choices if c.index == index)


class Completions(unittest.TestCase):
    def test_greedy_text_is_that_of_kvferry_v1(self):
        reply = complete(extra_body={"cache_salt": "greedy"})
        self.assertEqual(reply.choices[0].text, generated(cluster, LONG, 12))
        self.assertEqual((reply.object, reply.model, reply.choices[0].finish_reason), ("text_completion", NAME, "length"))
        self.assertTrue(reply.id.startswith("cmpl-"))
        self.assertGreater(reply.created, 1.7e9)

    def test_a_stream_has_the_text_of_the_whole(self):
        events = list(complete(stream=True, extra_body={"cache_salt": "stream"}))
        self.assertEqual(text_of(events), complete().choices[0].text)
        self.assertEqual(events[-1].choices[0].finish_reason, "length")
        self.assertEqual({(e.id, e.created, e.object, e.model) for e in events},
                         {(events[0].id, events[0].created, "text_completion", NAME)})
        self.assertTrue(all(e.choices[0].finish_reason is None for e in events[:-1]))

    def test_usage_counts_the_prompt_and_the_reply(self):
        usage = complete().usage
        self.assertEqual(usage.completion_tokens, 12)
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + 12)
        self.assertGreater(complete().usage.prompt_tokens_details.cached_tokens, 0)

    def test_include_usage_adds_one_event_without_choices(self):
        events = list(complete(stream=True, stream_options={"include_usage": True}))
        self.assertEqual(events[-1].choices, [])
        self.assertEqual(events[-1].usage.completion_tokens, 12)
        self.assertTrue(all(e.usage is None and e.choices for e in events[:-1]))
        self.assertTrue(all(e.usage is None for e in complete(stream=True)))

    def test_without_max_tokens_a_reply_has_sixteen(self):
        reply = client.completions.create(model=NAME, prompt=LONG, temperature=0, extra_body={"ignore_eos": True})
        self.assertEqual(reply.usage.completion_tokens, 16)

    def test_n_choices_are_those_of_their_seeds(self):
        reply = complete(n=3, temperature=0.9, seed=7)
        self.assertEqual([c.index for c in reply.choices], [0, 1, 2])
        for i, choice in enumerate(reply.choices):
            self.assertEqual(choice.text, complete(temperature=0.9, seed=7 + i).choices[0].text)
        self.assertEqual(reply.usage.completion_tokens, 36)
        self.assertEqual(reply.usage.prompt_tokens, complete().usage.prompt_tokens)

    def test_n_choices_of_a_stream_are_told_apart(self):
        whole = complete(n=3, temperature=0.9, seed=7)
        events = list(complete(n=3, temperature=0.9, seed=7, stream=True))
        for choice in whole.choices:
            self.assertEqual(text_of(events, choice.index), choice.text)
        ends = [c.index for e in events for c in e.choices if c.finish_reason]
        self.assertEqual(sorted(ends), [0, 1, 2])

    def test_the_same_seed_gives_the_same_text(self):
        texts = [complete(temperature=1.3, seed=seed).choices[0].text for seed in (11, 11, 12, -1, -1)]
        self.assertEqual(texts[0], texts[1])
        self.assertNotEqual(texts[0], texts[2])
        self.assertEqual(texts[3], texts[4])

    def test_a_stop_string_ends_the_text_before_it(self):
        whole = complete(max_tokens=24).choices[0].text
        for begin in (3, 7, 12):  # also within a token, and across two
            stop = whole[begin:begin + 5]
            expected = whole[:whole.index(stop)]
            for stops in (stop, ["not there", stop]):
                choice = complete(max_tokens=24, stop=stops).choices[0]
                self.assertEqual((choice.text, choice.finish_reason), (expected, "stop"))
            events = list(complete(max_tokens=24, stop=stop, stream=True))
            self.assertEqual(text_of(events), expected)
            self.assertEqual(events[-1].choices[0].finish_reason, "stop")

    def test_lists_of_prompts_are_answered_in_order(self):
        prompts = ["And God said", "In the beginning", LONG]
        reply = complete(prompts)
        self.assertEqual([c.index for c in reply.choices], [0, 1, 2])
        self.assertEqual([c.text for c in reply.choices], [complete(p).choices[0].text for p in prompts])
        events = list(complete(prompts, stream=True))
        for i, choice in enumerate(reply.choices):
            self.assertEqual(text_of(events, i), choice.text)

    def test_prompts_times_n(self):
        reply = complete(["And God said", "In the beginning"], n=2, temperature=0.8, seed=3)
        self.assertEqual([c.index for c in reply.choices], [0, 1, 2, 3])
        self.assertEqual(reply.choices[2].text, complete("In the beginning", temperature=0.8, seed=3).choices[0].text)
        self.assertEqual(reply.choices[3].text, complete("In the beginning", temperature=0.8, seed=4).choices[0].text)

    def test_token_ids_as_prompts(self):
        whole = complete(extra_body={"return_token_ids": True, "add_special_tokens": False})
        ids = whole.choices[0].token_ids
        self.assertEqual(len(ids), 12)
        one = complete(ids)
        self.assertEqual(one.usage.prompt_tokens, 12)
        both = complete([ids, ids[:5]])
        self.assertEqual(both.choices[0].text, one.choices[0].text)
        self.assertEqual(both.choices[1].text, complete(ids[:5]).choices[0].text)

    def test_echo_puts_the_prompt_before_the_text(self):
        text = complete().choices[0].text
        self.assertEqual(complete(echo=True).choices[0].text, LONG + text)
        self.assertEqual(text_of(complete(echo=True, stream=True)), LONG + text)

    def test_echo_of_token_ids_is_their_text(self):
        ids = complete(extra_body={"return_token_ids": True}).choices[0].token_ids
        text = complete().choices[0].text
        self.assertEqual(complete(ids, echo=True).choices[0].text, text + complete(ids).choices[0].text)

    def test_logprobs_and_where_each_token_begins(self):
        choice = complete(logprobs=3).choices[0]
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        at = 0
        for token, offset in zip(choice.logprobs.tokens, choice.logprobs.text_offset):
            self.assertEqual(offset, at)
            at += len(token)
        for token, value, top in zip(choice.logprobs.tokens, choice.logprobs.token_logprobs, choice.logprobs.top_logprobs):
            self.assertLessEqual(value, 0)
            self.assertEqual(len(top), 3)
            self.assertAlmostEqual(top[token], value, places=5)  # greedy: the likeliest

    def test_logprobs_of_a_stream_are_those_of_the_whole(self):
        whole = complete(logprobs=2).choices[0].logprobs
        parts = [c.logprobs for e in complete(logprobs=2, stream=True) for c in e.choices if c.logprobs]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            self.assertEqual([v for p in parts for v in getattr(p, name)], getattr(whole, name), name)

    def test_logprobs_zero_has_the_drawn_token_alone(self):
        logprobs = complete(logprobs=0).choices[0].logprobs
        self.assertEqual(len(logprobs.token_logprobs), 12)
        self.assertFalse(any(logprobs.top_logprobs or []))

    def test_what_is_null_is_absent(self):
        nothing = dict.fromkeys(("top_p", "n", "stop", "seed", "logprobs", "presence_penalty", "frequency_penalty", "user",
                                 "logit_bias", "suffix", "echo", "best_of", "stream_options"))
        self.assertEqual(complete(extra_body=nothing).choices[0].text, complete().choices[0].text)

    def test_unknown_members_are_ignored(self):
        reply = complete(extra_body={"who_knows": {"a": [1]}}, user="me")
        self.assertEqual(reply.choices[0].text, complete().choices[0].text)

    def test_an_empty_model_is_the_one_that_is_served(self):
        self.assertEqual(complete(model="").model, NAME)

    def test_stop_token_ids_and_min_p_and_top_k(self):
        ids = complete(extra_body={"return_token_ids": True}).choices[0].token_ids
        reply = complete(extra_body={"stop_token_ids": [ids[4]], "return_token_ids": True})
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertLessEqual(reply.usage.completion_tokens, 5)
        self.assertEqual(complete(temperature=1.5, extra_body={"top_k": 1}).choices[0].text, complete().choices[0].text)
        self.assertEqual(complete(temperature=1.5, extra_body={"min_p": 1}).choices[0].text, complete().choices[0].text)

    def test_text_of_several_bytes_a_character_is_whole_in_every_event(self):
        for seed in range(6):
            more = {"max_tokens": 120, "temperature": 2, "seed": seed, "extra_body": {"ignore_eos": True}}
            whole = complete("äöü 光 🙂 ", **more)
            events = list(complete("äöü 光 🙂 ", stream=True, **more))
            self.assertEqual(text_of(events), whole.choices[0].text)
        self.assertEqual(complete("äöü 光 🙂", echo=True, max_tokens=1).choices[0].text[:7], "äöü 光 🙂")


class Chat(unittest.TestCase):
    PROMPT = "user: In the beginning\nassistant:"

    def test_a_chat_is_its_template_completed(self):
        reply = chat()
        message = reply.choices[0].message
        self.assertEqual(message.content, complete(self.PROMPT, **PLAIN).choices[0].text)
        self.assertEqual((message.role, message.refusal, reply.object), ("assistant", None, "chat.completion"))
        self.assertTrue(reply.id.startswith("chatcmpl-"))

    def test_a_stream_begins_with_the_role_and_ends_with_the_reason(self):
        events = list(chat(stream=True))
        self.assertEqual((events[0].choices[0].delta.role, events[0].choices[0].delta.content), ("assistant", ""))
        self.assertTrue(all(e.choices[0].delta.role is None for e in events[1:]))
        self.assertEqual(said(events), chat().choices[0].message.content)
        self.assertEqual([e.choices[0].finish_reason for e in events if e.choices[0].finish_reason], ["length"])
        self.assertEqual({(e.id, e.created, e.object) for e in events},
                         {(events[0].id, events[0].created, "chat.completion.chunk")})

    def test_the_stream_helper(self):
        with client.chat.completions.stream(model=NAME, messages=HELLO, temperature=0,
                                            stop=chat().choices[0].message.content[4:9]) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        self.assertIn("content.done", kinds)
        self.assertEqual(final.choices[0].message.content, chat().choices[0].message.content[:4])
        self.assertEqual(final.choices[0].finish_reason, "stop")

    def test_usage_of_a_stream(self):
        events = list(chat(stream=True, stream_options={"include_usage": True}))
        self.assertEqual((events[-1].choices, events[-1].usage.completion_tokens), ([], 12))
        self.assertEqual(events[-1].usage, chat().usage.model_copy(
            update={"prompt_tokens_details": events[-1].usage.prompt_tokens_details}))

    def test_several_messages_and_parts(self):
        messages = [{"role": "system", "content": "Speak."}, {"role": "user", "content": "Who?"},
                    {"role": "assistant", "content": "God."},
                    {"role": "user", "content": [{"type": "text", "text": "And"}, {"type": "text", "text": "then?"}]}]
        prompt = "system: Speak.\nuser: Who?\nassistant: God.\nuser: And\nthen?\nassistant:"
        self.assertEqual(chat(messages).choices[0].message.content, complete(prompt, **PLAIN).choices[0].text)

    def test_max_completion_tokens_wins_over_max_tokens(self):
        more = {"extra_body": {"ignore_eos": True}}
        self.assertEqual(chat(max_completion_tokens=5, **more).usage.completion_tokens, 5)
        self.assertEqual(chat(max_tokens=7, **more).usage.completion_tokens, 7)
        self.assertEqual(chat(max_tokens=None, max_completion_tokens=6, **more).usage.completion_tokens, 6)

    def test_without_max_tokens_it_goes_on_to_the_end_of_the_context(self):
        reply = chat([{"role": "user", "content": "And God said, " * 400}], max_tokens=None, extra_body={"ignore_eos": True})
        self.assertEqual((reply.usage.total_tokens, reply.choices[0].finish_reason), (2048, "length"))
        self.assertGreater(reply.usage.completion_tokens, 256)

    def test_n_choices(self):
        reply = chat(n=3, temperature=0.9, seed=7)
        for i, choice in enumerate(reply.choices):
            self.assertEqual(choice.message.content, chat(temperature=0.9, seed=7 + i).choices[0].message.content)
        events = list(chat(n=3, temperature=0.9, seed=7, stream=True))
        for choice in reply.choices:
            self.assertEqual(said(events, choice.index), choice.message.content)

    def test_logprobs_have_the_bytes_of_each_token(self):
        choice = chat(logprobs=True, top_logprobs=4).choices[0]
        content = choice.logprobs.content
        self.assertEqual(bytes(b for t in content for b in t.bytes).decode(), choice.message.content)
        for token in content:
            self.assertEqual(token.token, bytes(token.bytes).decode(errors="replace"))
            self.assertEqual(len(token.top_logprobs), 4)
            self.assertEqual(token.top_logprobs[0].token, token.token)
            values = [top.logprob for top in token.top_logprobs]
            self.assertEqual(values, sorted(values, reverse=True))
        self.assertIsNone(chat().choices[0].logprobs)

    def test_logprobs_of_a_stream(self):
        whole = chat(logprobs=True, top_logprobs=2).choices[0].logprobs.content
        events = chat(logprobs=True, top_logprobs=2, stream=True)
        streamed = [t for e in events for c in e.choices if c.logprobs for t in c.logprobs.content]
        self.assertEqual(streamed, whole)
        self.assertEqual(chat(logprobs=True).choices[0].logprobs.content[0].top_logprobs, [])

    def test_bytes_of_characters_across_tokens(self):
        found = False
        for seed in range(12):
            choice = chat(temperature=2, seed=seed, max_tokens=150, logprobs=True, extra_body={"ignore_eos": True}).choices[0]
            tokens = choice.logprobs.content
            text = bytes(b for t in tokens for b in t.bytes).decode(errors="replace")
            self.assertEqual(text, choice.message.content)
            found |= any(t.token == "\ufffd" for t in tokens)
        self.assertTrue(found, "no token was a part of a character")

    def test_members_that_change_nothing(self):
        text = chat().choices[0].message.content
        tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
        for more in ({"tools": [tool], "tool_choice": "auto"}, {"tool_choice": "none", "tools": [tool]},
                     {"response_format": {"type": "text"}}, {"metadata": {"a": "b"}, "store": False},
                     {"parallel_tool_calls": True}, {"logit_bias": {}}, {"user": "me"}, {"reasoning_effort": "low"},
                     {"service_tier": "auto"}, {"modalities": ["text"]}):
            self.assertEqual(chat(**more).choices[0].message.content, text, more)

    def test_rules_say_which_tokens_come(self):
        def ids(**more):
            body = {"model": NAME, "prompt": "In the beginning", "max_tokens": 6, "temperature": 0, "return_token_ids": True} | more
            return client.post("/completions", body=body, cast_to=object)["choices"][0]["token_ids"]
        plain = ids()
        self.assertEqual(ids(logit_bias={"65": 100}), [65] * 6)
        self.assertTrue(set(ids(allowed_token_ids=[70, 71, 72])) <= {70, 71, 72})
        self.assertNotIn(plain[0], ids(logit_bias={str(plain[0]): -100}))
        self.assertEqual(ids(min_tokens=6), plain)

    def test_a_tool_answers(self):
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
        messages = HELLO + [{"role": "assistant", "content": None, "tool_calls": [call]},
                            {"role": "tool", "tool_call_id": "c1", "content": "light"}, {"role": "user", "content": "so?"}]
        self.assertEqual(chat(messages).choices[0].message.role, "assistant")


class Animal(pydantic.BaseModel):
    model_config = {"extra": "forbid"}
    kind: typing.Literal["sheep", "goat"]
    age: int = pydantic.Field(ge=0, le=99)
    of: "list[Animal]" = pydantic.Field(max_length=1)


BRIEF = {"max_tokens": 300, "temperature": 0.7, "frequency_penalty": 2}  # the model of the demo repeats blanks, where they may be
ANIMAL = {"type": "json_schema", "json_schema": {"name": "animal", "strict": True, "schema": Animal.model_json_schema()}}
FIND = openai.pydantic_function_tool(Animal, name="find", description="finds an animal")
NOW = {"type": "function", "function": {"name": "now"}}
THAT = {"type": "function", "function": {"name": "find"}}


class Constraints(unittest.TestCase):
    def parsed(self, call):
        """The first of some replies that is whole: a constraint may leave room for a text without end."""
        for seed in range(1, 9):
            reply = call(seed)
            if reply.choices[0].finish_reason != "length":
                return reply.choices[0]
        self.fail("no reply has ended")

    def test_a_schema(self):
        choice = self.parsed(lambda seed: chat(response_format=ANIMAL, seed=seed, **BRIEF))
        self.assertEqual(choice.finish_reason, "stop")
        Animal.model_validate_json(choice.message.content)

    def test_parse_by_pydantic(self):
        def parse(seed):
            try:
                return client.chat.completions.parse(model=NAME, messages=HELLO, response_format=Animal, seed=seed, **BRIEF)
            except openai.LengthFinishReasonError as error:
                return error.completion
        self.assertIsInstance(self.parsed(parse).message.parsed, Animal)

    def test_a_stream_has_what_the_whole_has(self):
        for seed in (1, 2):
            whole = chat(response_format=ANIMAL, seed=seed, **BRIEF).choices[0].message.content
            self.assertEqual(said(chat(response_format=ANIMAL, seed=seed, stream=True, **BRIEF)), whole)

    def test_any_object(self):
        content = chat(response_format={"type": "json_object"}, seed=1, **BRIEF).choices[0].message.content
        self.assertEqual(content.lstrip()[0], "{")

    def test_vllm_members(self):
        for more, pattern in (({"guided_regex": "[a-c]{3}-[0-9]{2}"}, "[a-c]{3}-[0-9]{2}"),
                              ({"guided_choice": ["yes", "no"]}, "yes|no"),
                              ({"guided_grammar": 'start: "x" /[0-9]/ "y"'}, "x[0-9]y"),
                              ({"guided_json": {"enum": ["p", "q"]}}, '"[pq]"'),
                              ({"structured_outputs": {"regex": "ab+c"}}, "ab+c"),
                              ({"structured_outputs": {"choice": ["left", "right"]}}, "left|right"),
                              ({"structured_outputs": {"grammar": 'start: "m" | "n"'}}, "m|n"),
                              ({"structured_outputs": {"json": {"enum": [1, 22]}}}, "1|22")):
            with self.subTest(more=more):
                reply = chat(extra_body=more, seed=2, **BRIEF).choices[0]
                self.assertRegex(reply.message.content, f"^({pattern})$")
                self.assertEqual(reply.finish_reason, "stop")
                self.assertIsNone(reply.to_dict().get("stop_reason"), "no stop token came")
                text = complete(extra_body=more, **(BRIEF | {"seed": 3})).choices[0]
                self.assertRegex(text.text, f"^({pattern})$")

    def test_several_choices_keep_to_it(self):
        reply = chat(extra_body={"guided_regex": "[a-z]{8}"}, n=3, seed=1, max_tokens=20, temperature=1)
        texts = [choice.message.content for choice in reply.choices]
        for text in texts:
            self.assertRegex(text, "^[a-z]{8}$")
        self.assertGreater(len(set(texts)), 1, "each is drawn for itself")

    def expect_calls(self, choice):
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertIsNone(choice.message.content)
        for call in choice.message.tool_calls:
            self.assertEqual(call.type, "function")
            self.assertTrue(call.id.startswith("call_"))
            if call.function.name == "find":
                Animal.model_validate_json(call.function.arguments)
            else:
                self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("now", {}))
        self.assertEqual(len({call.id for call in choice.message.tool_calls}), len(choice.message.tool_calls))
        return choice.message.tool_calls

    def test_a_named_tool(self):
        (call,) = self.expect_calls(self.parsed(
            lambda seed: chat(tools=[NOW, FIND], tool_choice=THAT, seed=seed, **BRIEF)))
        self.assertEqual(call.function.name, "find")

    def test_any_tool(self):
        several = chat(tools=[NOW, FIND], tool_choice="required", seed=1, **BRIEF).choices[0].message.tool_calls
        for call in several[:-1]:  # the demo's model calls on and on
            json.loads(call.function.arguments)
        self.assertLessEqual({call.function.name for call in several}, {"now", "find"})
        one = self.expect_calls(self.parsed(lambda seed: chat(tools=[NOW, FIND], tool_choice="required", seed=seed,
                                                              parallel_tool_calls=False, **BRIEF)))
        self.assertEqual(len(one), 1)

    def test_streamed_calls_are_those_of_the_whole(self):
        for more in ({"tool_choice": THAT}, {"tool_choice": "required"}, {"tool_choice": "required", "parallel_tool_calls": False}):
            more = {"tools": [NOW, FIND], "seed": 3} | BRIEF | more
            whole, calls, reasons = chat(**more).choices[0], [], []
            for event in chat(stream=True, **more):
                for choice in event.choices:
                    reasons.append(choice.finish_reason)
                    self.assertFalse(choice.delta.content)
                    for delta in choice.delta.tool_calls or []:
                        if delta.index == len(calls):  # it begins: with all but the arguments
                            self.assertTrue(delta.id.startswith("call_"))
                            self.assertEqual(delta.type, "function")
                            calls.append([delta.function.name, ""])
                        else:
                            self.assertEqual((delta.id, delta.function.name), (None, None))
                        calls[delta.index][1] += delta.function.arguments or ""
            self.assertEqual(calls, [[call.function.name, call.function.arguments] for call in whole.message.tool_calls])
            self.assertEqual([r for r in reasons if r], [whole.finish_reason])

    def test_the_packages_own_stream_of_calls(self):
        def ask(seed):
            with client.chat.completions.stream(model=NAME, messages=HELLO, tools=[FIND], tool_choice=THAT, seed=seed,
                                                **BRIEF) as stream:
                try:
                    return stream.until_done().get_final_completion()
                except openai.LengthFinishReasonError as error:
                    return error.completion
        self.assertIsInstance(self.parsed(ask).message.tool_calls[0].function.parsed_arguments, Animal)

    def test_who_calls_no_tool_is_free(self):
        for choice in ("auto", "none"):
            reply = chat(tools=[NOW], tool_choice=choice).choices[0]
            self.assertTrue(reply.message.content)
            self.assertFalse(reply.message.tool_calls)


class Errors(unittest.TestCase):
    def refused(self, kind, call, param=None, code=None):
        with self.assertRaises(kind) as caught:
            call()
        error = caught.exception
        if param:
            self.assertEqual(error.param, param, error.message)
            self.assertIn(param, error.message)
        if code:
            self.assertEqual(error.code, code)
        self.assertTrue(error.request_id, "has no x-request-id")
        return error

    def test_web_pages_of_others_may_not_use_a_loopback_port(self):
        """By a name of their own that leads here, or across origins."""
        refused = [({"Host": "evil.example"}, "foreign_host"), ({"Host": "evil.example:8000"}, "foreign_host"),
                   ({"Host": "localhost.evil.example"}, "foreign_host"), ({"Origin": "http://evil.example"}, "foreign_origin"),
                   ({"Origin": "https://127.0.0.1.evil.example"}, "foreign_origin"), ({"Origin": "null"}, "foreign_origin"),
                   ({"Origin": "http://203.0.113.5"}, "foreign_origin"), ({"Origin": "http://[2001:db8::1]"}, "foreign_origin")]
        body = {"model": NAME, "prompt": "x", "max_tokens": 1}
        for headers, code in refused:
            reply = raw("POST", "/completions", headers=headers, json=body)
            self.assertEqual((reply.status_code, reply.json()["error"]["code"]), (403, code), headers)
            self.assertEqual((cors(reply), reply.headers["vary"]), ({}, "Origin"))
            self.assertTrue(reply.headers["x-request-id"])
        for headers in ({"Host": "localhost:8000"}, {"Host": "[::1]:1"}, {"Origin": "http://localhost:3000"}, {"Host": "127.0.0.1"}):
            self.assertEqual(raw("POST", "/completions", headers=headers, json=body).status_code, 200, headers)
        same = {"Host": "192.0.2.7:80", "Origin": "http://192.0.2.7:80"}
        self.assertEqual(raw("POST", "/completions", headers=same, json=body).status_code, 200)

    def test_browsers_are_told_which_pages_may(self):
        """CORS: a preflight, then the request, whole, as a stream and refused."""
        body = {"model": NAME, "prompt": "x", "max_tokens": 1}
        for origin in ("http://localhost:3000", "http://127.0.0.1:5173", "https://[::1]:1"):
            asked = {"Origin": origin, "Access-Control-Request-Method": "POST",
                     "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os"}
            reply = raw("OPTIONS", "/chat/completions", headers=asked)
            told = cors(reply)
            self.assertEqual((reply.status_code, reply.content), (204, b""))
            self.assertEqual(told["access-control-allow-origin"], origin)
            self.assertEqual(told["access-control-allow-headers"], asked["Access-Control-Request-Headers"])
            self.assertIn("POST", told["access-control-allow-methods"])
            self.assertEqual(reply.headers["vary"], "Origin, Access-Control-Request-Headers")
            for more in ({}, {"stream": True}, {"temperature": -1}):
                reply = raw("POST", "/completions", headers={"Origin": origin}, json=body | more)
                told = cors(reply)
                self.assertEqual((told["access-control-allow-origin"], reply.headers["vary"]), (origin, "Origin"))
                self.assertIn("x-request-id", told["access-control-expose-headers"])
            self.assertEqual(cors(raw("GET", "/nothing", headers={"Origin": origin}))["access-control-allow-origin"], origin)
        reply = raw("OPTIONS", "/completions", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual((reply.status_code, cors(reply)), (403, {}))
        reply = raw("OPTIONS", "/completions")
        self.assertEqual((reply.status_code, reply.headers["allow"], cors(reply)), (204, "POST, OPTIONS", {}))
        reply = raw("POST", "/completions", json=body)
        self.assertEqual((cors(reply), reply.headers["vary"]), ({}, "Origin"))

    def test_wrong_values_are_refused_by_name(self):
        both = [("temperature", -0.1), ("temperature", 2.1), ("temperature", "hot"), ("top_p", 0), ("top_p", 1.1), ("n", 0),
                ("n", 1.5), ("n", 1000), ("n", "2"), ("max_tokens", 0), ("max_tokens", -1), ("max_tokens", True),
                ("max_tokens", 2**40), ("presence_penalty", 2.1), ("frequency_penalty", -2.1), ("stop", 5),
                ("stop", ["a"] * 17), ("stop[0]", [1]), ("stop", ""), ("stop", "x" * 257), ("seed", 0.5), ("seed", "1"),
                ("stream", "yes"), ("stream_options", 3), ("top_k", -2), ("min_p", 1.1), ("repetition_penalty", 0),
                ("stop_token_ids[0]", [-1]), ("stop_token_ids[0]", ["a"]), ("logit_bias.5", {"5": 101}), ("seed", 2**63), ("ignore_eos", 1), ("logit_bias", {"x": 1}),
                ("min_tokens", 10**6), ("truncate_prompt_tokens", 5), ("use_beam_search", "yes"), ("beam_width", 17), ("length_penalty", 11), ("length_penalty", 0.5), ("early_stopping", "always"), ("early_stopping", True), ("prompt_embeds", "gAJ9"),
                ("logits_processors", ["x"]), ("guided_whitespace_pattern", "x"), ("regex", "a"), ("ebnf", "root ::= x"), ("typical_p", 1.1), ("no_repeat_ngram_size", 65), ("top_h", 0.4), ("mirostat", 2),
                ("grammar", "root ::= x"), ("json_schema", {"type": "object"}), ("modalities", ["audio"]),
                ("cache_salt", 1), ("priority", "high"), ("model", 5)]
        completions = [("prompt", 5), ("prompt", []), ("prompt[0]", [[]]), ("prompt[1]", ["a", 5]), ("prompt[1]", [1, "a"]),
                       ("prompt[0]", [-1]), ("prompt[1]", [1, 10**7]), ("prompt", ""), ("prompt", ["a"] * 65), ("logprobs", 6),
                       ("logprobs", -1), ("suffix", "x"), ("best_of", 2), ("echo", "yes"),
                       ("allowed_token_ids[0]", [10**9]), ("bad_words[0]", [""])]
        chats = [("messages", []), ("messages", "hello"), ("messages[0].role", None), ("messages[0].content", 5),
                 ("messages[0].content[0]", None), ("top_logprobs", 21), ("top_logprobs", 2), ("logprobs", 1),
                 ("response_format", {"type": "xml"}), ("tool_choice", "perhaps"), ("max_completion_tokens", 0),
                 ("audio", {"voice": "x"}), ("functions", [{"name": "f"}]), ("function_call", {"name": "f"}),
                 ("documents[0]", ["x"]), ("chat_template_kwargs", {"x": "y" * (256 << 10)}),
                 ("tools", [{"type": "function", "function": {"name": "f", "description": "y" * (2 << 20)}}]), ("chat_template_kwargs.messages", {"messages": []}),
                 ("chat_template_kwargs.tools", {"tools": None}), ("tools[0]", [nested(101)]),
                 ("chat_template_kwargs", nested(200)), ("messages[0]", [{"role": "user", "content": "x", "more": nested(300)}])]
        content = {"messages[0].role": [{"content": "x"}], "messages[0].content": [{"role": "user", "content": 5}],
                   "messages[0].content[0]": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}
        for name, value in both + completions:
            with self.subTest(name=name, value=str(value)[:40]):
                body = {"model": NAME, "prompt": "x", "max_tokens": 1} | {name.split("[")[0].split(".")[0]: value}
                self.refused(openai.BadRequestError, lambda: client.post("/completions", body=body, cast_to=object), name)
        for name, value in both + chats:
            with self.subTest(name=name, value=str(value)[:40]):
                more = {"messages": content[name]} if name in content else {name.split("[")[0].split(".")[0]: value}
                body = {"model": NAME, "messages": HELLO, "max_tokens": 1} | more
                self.refused(openai.BadRequestError, lambda: client.post("/chat/completions", body=body, cast_to=object), name)

    def test_what_does_not_go_with_beams_is_refused_by_name(self):
        vllm = {"use_beam_search": True, "n": 2}
        rows = [("n", {"use_beam_search": True}), ("n", {"use_beam_search": True, "n": 1}), ("n", {"beam_width": 2, "n": 3}),
                ("beam_width", {"use_beam_search": True, "beam_width": 1}), ("use_beam_search", {"use_beam_search": False, "beam_width": 2}),
                ("temperature", vllm | {"temperature": 0.5}), ("stop", vllm | {"stop": ["x"] * 17}), ("prompt_logprobs", vllm | {"prompt_logprobs": 1}),
                ("reply_window", vllm | {"reply_window": 64}), ("guided_regex", vllm | {"guided_regex": "a"}), ("best_of", vllm | {"best_of": 4})]
        for name, members in rows:
            with self.subTest(members=members):
                body = {"model": NAME, "prompt": "x", "max_tokens": 1} | members
                self.refused(openai.BadRequestError, lambda: client.post("/completions", body=body, cast_to=object), name)
                body = {"model": NAME, "messages": HELLO, "max_tokens": 1} | members
                self.refused(openai.BadRequestError, lambda: client.post("/chat/completions", body=body, cast_to=object), name)
        error = self.refused(openai.BadRequestError, lambda: client.post(
            "/completions", body={"prompt": "x", "temperature": 1} | vllm, cast_to=object), "temperature")
        self.assertIn("it must be 0 with use_beam_search", error.message)

    def test_documents_reach_the_template(self):
        documents = {"extra_body": {"documents": [{"title": "T", "text": "Let there be light"}]}}
        text = complete("T: Let there be light\nuser: In the beginning\nassistant:", **PLAIN).choices[0].text
        self.assertEqual(chat(**documents).choices[0].message.content, text)
        self.assertNotEqual(chat().usage.prompt_tokens, chat(**documents).usage.prompt_tokens)

    def test_an_unknown_model(self):
        for name in ("gpt-4", "ä" * 300, "x" * 5000):
            error = self.refused(openai.NotFoundError, lambda: complete(model=name), code="model_not_found")
            self.assertEqual(error.param, "model")
            self.refused(openai.NotFoundError, lambda: chat(model=name), code="model_not_found")

    def test_a_name_with_a_nul_is_another_name(self):
        self.refused((openai.NotFoundError, openai.BadRequestError), lambda: complete(model=NAME + "\0x"))
        self.refused(openai.BadRequestError, lambda: chat([{"role": "user\0x", "content": "x"}]), "messages[0].role")

    def test_a_prompt_that_is_too_long(self):
        for stream in (False, True):
            error = self.refused(openai.BadRequestError, lambda: complete(LONG * 40, stream=stream),
                                 code="context_length_exceeded")
            self.assertEqual((error.param, error.type), ("prompt", "invalid_request_error"))
            self.assertIn("prompt is too long", error.message)
        for name, call in (("max_tokens", complete), ("max_tokens", chat), ("max_completion_tokens", chat)):
            self.refused(openai.BadRequestError, lambda: call(**{name: 5000}), name, "context_length_exceeded")
        error = self.refused(openai.BadRequestError, lambda: chat([{"role": "user", "content": LONG * 40}]),
                             code="context_length_exceeded")
        self.assertEqual(error.param, "messages")

    def test_constraints_that_cannot_be_are_refused_by_name(self):
        tools = [{"type": "function", "function": {"name": "f"}}]
        schema = {"name": "x", "schema": {"type": "nothing"}}
        for param, more in (("response_format", {"response_format": {"type": "json_schema"}}),
                            ("response_format", {"response_format": {"type": "json_schema", "json_schema": schema}}),
                            ("guided_regex", {"guided_regex": "a("}), ("guided_choice", {"guided_choice": []}),
                            ("guided_grammar", {"guided_grammar": "start: missing"}),
                            ("guided_json", {"guided_json": "{"}), ("guided_regex", {"guided_regex": "x" * 300_000}),
                            ("structured_outputs.regexp", {"structured_outputs": {"regexp": "a"}}),
                            ("guided_regex", {"guided_regex": "a", "response_format": {"type": "json_object"}}),
                            ("tools", {"tool_choice": "required"}),
                            ("tool_choice", {"tools": tools, "tool_choice": {"type": "function", "function": {"name": "g"}}}),
                            ("tool_choice", {"tools": tools, "tool_choice": "required", "guided_regex": "a"})):
            for stream in (False, True):
                with self.subTest(param=param, more=str(more)[:80], stream=stream):
                    self.refused(openai.BadRequestError, lambda: chat(stream=stream, extra_body=more), param)
        error = self.refused(openai.BadRequestError,
                             lambda: chat(extra_body={"guided_choice": ["aaa"], "allowed_token_ids": [5]}), code="constraint_unmet")
        self.assertIn("leaves no token to draw", error.message)
        for more in ({}, {"logprobs": True, "top_logprobs": 1}):  # drawn, or without a draw because it alone can come
            error = self.refused(openai.BadRequestError, lambda m=more: chat(
                max_tokens=60, extra_body={"guided_regex": "(one two ){6}", "no_repeat_ngram_size": 2}, **m), code="constraint_unmet")
            self.assertIn("no_repeat_ngram_size", error.message)

    def test_bodies_that_are_no_request(self):
        for content in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"prompt": "\\ud800"}', b'{"a":' * 5000, b'{"seed": 1e999}'):
            reply = raw("POST", "/completions", content=content, headers={"content-type": "application/json"})
            self.assertEqual(reply.status_code, 400, content[:20])
            self.assertEqual(reply.json()["error"]["type"], "invalid_request_error")

    def test_paths_and_methods(self):
        for method, path, code in (("GET", "/completions", 405), ("POST", "/models", 405), ("POST", "/embeddings", 404),
                                   ("GET", "/nothing", 404), ("DELETE", "/models/x", 405)):
            reply = raw(method, path, headers={"x-request-id": "mine"})
            self.assertEqual(reply.status_code, code, (method, path))
            self.assertTrue(reply.json()["error"]["message"])
            self.assertEqual(reply.headers["x-request-id"], "mine")
        with self.assertRaises(openai.NotFoundError):
            client.embeddings.create(model=NAME, input="x")

    def test_what_cannot_help_is_not_sent_again(self):
        careful, sent = counting_client(cluster, max_retries=2)
        with self.assertRaises(openai.BadRequestError):
            careful.completions.create(model=NAME, prompt="x", temperature=9)
        with self.assertRaises(openai.NotFoundError):
            careful.completions.create(model="other", prompt="x")
        self.assertEqual(len(sent), 2)

    def test_a_request_keeps_the_id_that_it_came_with(self):
        for call in (complete, chat):
            reply = call(extra_headers={"x-request-id": f"mine-{call.__name__}"})
            self.assertEqual(reply._request_id, f"mine-{call.__name__}")
        drawn = {complete(max_tokens=1)._request_id for _ in range(3)}
        self.assertEqual(len(drawn), 3)
        with client.completions.with_streaming_response.create(model=NAME, prompt="x", max_tokens=1, stream=True,
                                                               extra_headers={"x-request-id": "streamed"}) as reply:
            self.assertEqual(reply.headers["x-request-id"], "streamed")
            self.assertIn("text/event-stream", reply.headers["content-type"])
            self.assertEqual(reply.headers["cache-control"], "no-cache")


class Models(unittest.TestCase):
    def test_the_list_has_the_one(self):
        (model,) = client.models.list().data
        self.assertEqual((model.id, model.object, model.owned_by, model.max_model_len), (NAME, "model", "kvferry", 2048))

    def test_a_name_with_a_slash_is_found(self):
        self.assertEqual(client.models.retrieve(NAME).id, NAME)
        self.assertEqual(raw("GET", "/models/acme/demo").json()["id"], NAME)
        for name in ("other", "ä" * 200, "acme"):
            with self.assertRaises(openai.NotFoundError) as caught:
                client.models.retrieve(name, extra_headers={"x-request-id": "mine"})
            self.assertEqual(caught.exception.request_id, "mine")

    def test_health(self):
        reply = httpx.get(url_of(cluster).removesuffix("/v1") + "/health")
        self.assertEqual((reply.status_code, reply.json()), (200, {"status": "ok"}))

    def test_curl_reads_a_stream(self):
        body = json.dumps({"prompt": LONG, "max_tokens": 6, "temperature": 0, "stream": True})
        done = subprocess.run(["curl", "-sSN", f"{url_of(cluster)}/completions", "-H", "Content-Type: application/json", "-d",
                               body], capture_output=True, text=True, timeout=LIMIT_S, check=True)
        events = done.stdout.split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        text = "".join(json.loads(e.removeprefix("data: "))["choices"][0]["text"] for e in events[:-2])
        self.assertEqual(text, complete(max_tokens=6).choices[0].text)


class Crowds(unittest.TestCase):
    def test_thirty_two_at_once(self):
        expected = {i: complete(f"{i}: {LONG}").choices[0].text for i in range(4)}

        def ask(i):
            if i % 2:
                return text_of(complete(f"{i % 4}: {LONG}", stream=True, extra_body={"cache_salt": str(i)}))
            return complete(f"{i % 4}: {LONG}", extra_body={"cache_salt": str(i)}).choices[0].text

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            self.assertEqual(list(pool.map(ask, range(32))), [expected[i % 4] for i in range(32)])

    def leave(self, call):
        """A stream of many tokens is left after its first events."""
        def cancelled():
            return cluster.router.metric("kvferry_requests_total", 'code="CANCELLED"')

        n_before = cancelled()
        stream = call(max_tokens=1500, stream=True, extra_body={"ignore_eos": True})
        for _ in range(3):
            next(stream)
        stream.close()
        within(10, "the request is cancelled", lambda: cancelled() > n_before)
        within(10, "no block is owned", lambda: owned_blocks(cluster) == 0)

    def test_a_client_that_leaves_leaves_nothing(self):
        self.leave(lambda **more: complete(**more))
        self.leave(lambda **more: chat(**more))
        self.leave(lambda **more: complete(n=3, temperature=0.5, **more))
        self.leave(lambda **more: complete(["a b c", LONG], **more))

    def test_a_client_that_leaves_a_whole_reply(self):
        impatient = make_client(cluster).with_options(timeout=0.3)
        with self.assertRaises(openai.APITimeoutError):
            impatient.completions.create(model=NAME, prompt=LONG, max_tokens=1800, n=4, extra_body={"ignore_eos": True})
        within(20, "no block is owned", lambda: owned_blocks(cluster) == 0)


class Tenants(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.TemporaryDirectory()
        self.tokens = tokens = Tokens(BINARY, f"{self.home.name}/tokens.yaml")
        self.keys = {"acme": tokens.add("acme"), "slow": tokens.add("slow", "--requests-per-second", "0.5"),
                     "reader": tokens.add("reader", "--methods", "ListModels"),
                     "small": tokens.add("small", "--tokens-per-minute", "2000")}
        self.certificates = certificates = Folder(self.home.name)
        certificates.make_cluster("acme")
        flags = [str(f) for f in ("--tokens-file", tokens.file)]
        self.cluster = start_cluster(*flags, role_arguments=certificates.role_arguments)
        self.ca = str(certificates.file("ca"))

    def tearDown(self):
        self.cluster.stop()
        self.home.cleanup()

    def client(self, key, **more):
        return make_client(self.cluster, key, "https", http_client=httpx.Client(verify=ssl.create_default_context(cafile=self.ca)), **more)

    def ask(self, key, **more):
        return self.client(key, **more).completions.create(model=NAME, prompt=LONG, max_tokens=2)

    def test_a_preflight_needs_no_token(self):
        headers = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
        web = httpx.Client(verify=ssl.create_default_context(cafile=self.ca), base_url=url_of(self.cluster, "https"))
        reply = web.options("/completions", headers=headers)
        self.assertEqual((reply.status_code, cors(reply)["access-control-allow-origin"]), (204, headers["Origin"]))
        reply = web.post("/completions", headers=headers, json={"prompt": "x"})
        self.assertEqual((reply.status_code, cors(reply)["access-control-allow-origin"]), (401, headers["Origin"]))
        headers["Origin"] = "http://evil.example"  # its browser shows it no answer
        for reply in (web.options("/completions", headers=headers), web.post("/completions", headers=headers, json={"prompt": "x"})):
            self.assertEqual((reply.status_code, cors(reply)), (401, {}))

    def test_bearer_tokens_under_tls(self):
        self.assertEqual(self.ask(self.keys["acme"]).usage.completion_tokens, 2)
        self.assertGreaterEqual(self.cluster.router.metric("kvferry_tenant_requests_total", 'tenant="acme"'), 1)
        with self.assertRaises(openai.AuthenticationError) as caught:
            self.ask("kvf_" + "0" * 64)
        self.assertEqual(caught.exception.code, "invalid_api_key")
        with self.assertRaises(openai.AuthenticationError):
            self.ask("nonsense")
        with self.assertRaises(openai.PermissionDeniedError):
            self.ask(self.keys["reader"])
        self.assertEqual(len(self.client(self.keys["reader"]).models.list().data), 1)
        with self.assertRaises(openai.PermissionDeniedError):
            self.client(self.keys["reader"]).models.retrieve(NAME)
        with self.assertRaises(openai.APIConnectionError):
            make_client(self.cluster, self.keys["acme"], "https").models.list()  # does not know the CA

    def test_chat_without_max_tokens_needs_no_quota_of_a_whole_context(self):
        client = self.client(self.keys["small"], max_retries=0)
        for _ in range(4):
            reply = client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": "x"}], stop=["e", "a", "o", " "])
            self.assertEqual(reply.choices[0].finish_reason, "stop")

    def test_a_refusal_has_the_id_of_the_request_or_a_drawn_one(self):
        refused = [(self.client("nonsense").models.list, 401), (self.client("nonsense").models.retrieve, 401),
                   (self.client(self.keys["reader"]).models.retrieve, 403), (self.client(self.keys["acme"]).models.retrieve, 404)]
        for call, code in refused:
            name = {} if call.__name__ == "list" else {"model": "other"}
            with self.assertRaises(openai.APIStatusError) as caught:
                call(**name, extra_headers={"x-request-id": "mine"})
            self.assertEqual((caught.exception.status_code, caught.exception.request_id), (code, "mine"))
            with self.assertRaises(openai.APIStatusError) as caught:
                call(**name)
            self.assertEqual(len(caught.exception.request_id), 32)

    def test_a_certificate_does_not_serve_pages_of_others(self):
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.certificates.file("acme"), self.certificates.file("acme", "key"))
        local = start_cluster("--tokens-file", str(self.tokens.file), "--tls-client-ca", self.ca,
                              role_arguments=self.certificates.role_arguments)
        try:
            web = httpx.Client(verify=context, base_url=url_of(local, "https"), timeout=LIMIT_S)
            ask = lambda **headers: web.post("/completions", headers=headers, json={"prompt": "x", "max_tokens": 1})
            self.assertEqual(ask().status_code, 200)
            reply = ask(Origin="https://evil.example")
            self.assertEqual((reply.status_code, reply.json()["error"]["code"]), (403, "foreign_origin"))
            self.assertEqual(ask(Origin="http://localhost:3000").status_code, 200)
            self.assertEqual(ask(Origin="https://evil.example", Authorization=f"Bearer {self.keys['acme']}").status_code, 200)
        finally:
            local.stop()

    def test_a_quota_says_when_to_come_again(self):
        refused = None
        for _ in range(4):
            try:
                self.ask(self.keys["slow"])
            except openai.RateLimitError as error:
                refused = error
        self.assertIsNotNone(refused, "nothing was refused")
        self.assertGreaterEqual(int(refused.response.headers["retry-after"]), 1)
        self.assertTrue(refused.request_id)
        self.assertNotIn("x-should-retry", refused.response.headers)
        self.assertEqual((refused.code, refused.type), ("rate_limit_exceeded", "rate_limit_error"))
        self.assertEqual(self.ask(self.keys["slow"], max_retries=5).usage.completion_tokens, 2)


class Workers(unittest.TestCase):
    def test_comments_keep_a_stream_open_before_its_first_token(self):
        local = start_cluster("--http-comment-ms", "200ms")
        worker = local.generation.child
        try:
            worker.send_signal(signal.SIGSTOP)
            body = {"prompt": LONG, "max_tokens": 3, "temperature": 0, "stream": True}
            with httpx.stream("POST", url_of(local) + "/completions", json=body, timeout=LIMIT_S) as reply:
                self.assertEqual(reply.status_code, 200)
                lines = reply.iter_lines()
                self.assertEqual([next(lines) for _ in range(4)], [": ", "", ": ", ""])
                worker.send_signal(signal.SIGCONT)
                rest = [line for line in lines if line and line != ": "]
            self.assertEqual(rest[-1], "data: [DONE]")
            text = "".join(json.loads(line.removeprefix("data: "))["choices"][0]["text"] for line in rest[:-1])
            self.assertEqual(text, complete(max_tokens=3).choices[0].text)
            worker.send_signal(signal.SIGSTOP)
            with make_client(local).completions.create(model=NAME, prompt=LONG, stream=True, max_tokens=3) as stream:
                worker.send_signal(signal.SIGCONT)
                self.assertEqual(list(stream)[-1].choices[0].finish_reason, "length")
        finally:
            worker.send_signal(signal.SIGCONT)
            local.stop()

    def test_a_killed_worker_comes_again(self):
        local = start_cluster("--wait-limit-ms", "1s")
        try:
            careful, sent = counting_client(local, max_retries=1)
            ask = lambda who: who.completions.create(model=NAME, prompt=LONG, max_tokens=600, extra_body={"ignore_eos": True},
                                                     stream=True)
            stream = ask(careful)
            next(stream)
            worker = local.generation
            worker.child.send_signal(signal.SIGKILL)
            worker.child.wait()
            with self.assertRaises(openai.APIError):  # told in the stream, or cut: never a silent end
                for _ in stream:
                    pass
            del sent[:]
            with self.assertRaises(openai.InternalServerError) as caught:
                ask(careful)
            self.assertEqual(caught.exception.status_code, 503)
            self.assertEqual(len(sent), 2, "503 is to be tried again")
            health = lambda: httpx.get(url_of(local).removesuffix("/v1") + "/health", headers={"x-request-id": "mine"})
            within(30, "it says so", lambda: health().status_code == 503)
            self.assertEqual(health().headers["x-request-id"], "mine")
            with tempfile.TemporaryDirectory() as folder:
                again = Process(BINARY, MODEL, folder, "gen-worker", "--local-prefill-max-tokens", "8", "--control-address",
                                worker.ports["control"])
                local.processes[local.processes.index(worker)] = again
                within(30, "the router sees it", lambda: local.router.metric("kvferry_peers", 'state="ready"') == 2)
                reply = careful.completions.create(model=NAME, prompt=LONG, max_tokens=3, temperature=0)
                self.assertEqual(reply.choices[0].text, complete(max_tokens=3).choices[0].text)
                local.generation = again
                local.stop()
        except BaseException:
            for process in local.processes:
                process.child.kill()
            raise


class Drain(unittest.TestCase):
    def setUp(self):
        self.local = start_cluster("--drain-delay-ms", "0")
        self.router = self.local.router
        self.client = make_client(self.local)
        body = {"extra_body": {"ignore_eos": True}, "max_tokens": 1500, "temperature": 0}
        self.stream = self.client.completions.create(model=NAME, prompt=LONG, stream=True, **body)
        next(self.stream)
        self.worker = self.local.generation.child
        self.worker.send_signal(signal.SIGSTOP)  # so the stream lasts
        self.router.child.send_signal(signal.SIGTERM)
        within(30, "it says that it drains", self.not_ready)

    def tearDown(self):
        self.client.close()
        self.worker.send_signal(signal.SIGCONT)
        self.local.processes.remove(self.router)
        stop_cluster(self.local)

    def not_ready(self):
        return httpx.get(f"http://{self.router.ports['metrics']}/readyz").status_code == 503

    def test_a_stream_ends_well_and_nobody_else_begins(self):
        late = subprocess.run([BINARY, "generate", "--server", self.router.ports["grpc"], "In"],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertNotEqual(late.returncode, 0)
        self.assertIn("DRAINING", late.stderr)
        with self.assertRaises(openai.APIConnectionError):
            self.client.completions.create(model=NAME, prompt="In", max_tokens=1)
        self.worker.send_signal(signal.SIGCONT)
        self.assertEqual(list(self.stream)[-1].choices[0].finish_reason, "length")
        self.assertEqual(self.router.child.wait(LIMIT_S), 0)

    def test_a_second_signal_ends_it_at_once(self):
        self.router.child.send_signal(signal.SIGTERM)
        with self.assertRaises((openai.APIError, httpx.RemoteProtocolError)):  # told, or cut: never a silent end
            list(self.stream)
        self.router.child.wait(20)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
