"""Renders chat requests by jinja2 as Transformers 5.24 does, without Transformers: what apply_chat_template does to messages before and
after, and the environment of its templates. make.py asserts that Transformers itself says the same."""

import copy
import datetime
import json

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 3, 7, 14, 5, 9)
REASONING = ("reasoning_content", "thinking", "reasoning")
TAG = "CONTINUE_FINAL_MESSAGE_TAG "


class Refused(Exception):
    """What the request is refused for, by us or by the template."""


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    return made


ENVIRONMENT = environment()


def normalized(message):
    message = {key: value for key, value in message.items() if value is not None}
    reasoning = next((message[key] for key in REASONING if message.get(key) is not None), None)
    if reasoning is not None:
        message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
    return message


def tag(messages):
    content = messages[-1]["content"]
    if isinstance(content, str):
        messages[-1]["content"] = content + TAG
        return content
    for block in reversed(content):
        if "text" in block:
            text = block["text"]
            block["text"] = text + TAG
            return text
    raise Refused("no text to continue")


def render(template, request, tokens):
    """template: compiled. Raises what it cannot render."""
    request = copy.deepcopy(request)
    messages = [normalized(message) for message in request["messages"]]
    continued = tag(messages) if request.get("continue_final_message") else None
    variables = {**tokens, **request.get("chat_template_kwargs", {})}
    prompt = template.render(messages=messages, tools=request.get("tools"), documents=request.get("documents"),
                             add_generation_prompt=request.get("add_generation_prompt", False), **variables)
    if continued is None:
        return prompt
    if continued.strip() not in prompt or TAG.strip() not in prompt:
        raise Refused("the last message is not written as it is")
    at = prompt.rindex(TAG.strip())
    return prompt[:at] if prompt[at:at + len(TAG)] == TAG else prompt[:at].rstrip()
