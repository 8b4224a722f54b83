#!/usr/bin/env python3
"""Writes renderings.json: what Transformers makes of each template with each conversation. rendering.py, which needs jinja2 alone and
which tests run, must say the same. Run in an environment with requirements.txt: python make.py"""

import json
import pathlib

import conversations
import rendering
from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).resolve().parent


class Clock:
    """datetime.datetime for strftime_now."""

    @staticmethod
    def now():
        return rendering.NOW


def transformers_render(source, request, tokens):
    """apply_chat_template of a tokenizer that has these tokens, without a tokenizer."""
    messages = chat_template_utils._normalize_chat_messages(request["messages"])
    prompts, _ = chat_template_utils.render_jinja_template(
        conversations=[messages], tools=request.get("tools"), documents=request.get("documents"), chat_template=source,
        continue_final_message=request.get("continue_final_message", False),
        add_generation_prompt=request.get("add_generation_prompt", False),
        **{**tokens, **request.get("chat_template_kwargs", {})})
    return prompts[0]


def outcome(render):
    try:
        return {"text": render()}
    except Exception as error:
        return {"error": str(error).splitlines()[0]}


def main():
    chat_template_utils.datetime = Clock
    made = {}
    for path in sorted((HERE / "templates").glob("*.jinja")):
        source = path.read_text()
        template = rendering.ENVIRONMENT.from_string(source)
        made[path.name] = {}
        for name, request in conversations.CONVERSATIONS.items():
            theirs = outcome(lambda: transformers_render(source, request, conversations.TOKENS))
            ours = outcome(lambda: rendering.render(template, request, conversations.TOKENS))
            assert theirs == ours or ("error" in theirs and "error" in ours), (path.name, name, theirs, ours)
            made[path.name][name] = theirs
    document = {"requests": conversations.CONVERSATIONS, "tokens": conversations.TOKENS, "renderings": made}
    (HERE / "renderings.json").write_text(json.dumps(document, ensure_ascii=False, indent=0) + "\n")
    n_errors = sum("error" in one for of_template in made.values() for one in of_template.values())
    print(f"{len(made)} templates, {sum(map(len, made.values()))} renderings, {n_errors} of them refused")


if __name__ == "__main__":
    main()
