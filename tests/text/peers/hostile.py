#!/usr/bin/env python3
"""Hostile chat templates: hostile.py PIPE KEEPER. Each is refused, or stopped at a limit, or rendered, within the time it has; and the
same renderer then answers a request that does not reach the hostile part. A template that cannot be compiled gives a sentence."""

import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from published import Pipe  # noqa: E402

US_MAX = 2 * 3000000 + 2000000  # chat_pipe gives a rendering 3 s, and another try
ANSWERS = {"OK", "INVALID_ARGUMENT", "TEMPLATE_LIMIT", "PROMPT_TOO_LONG", "CORRUPT"}

HOSTILE = {
    "loops": (
        '{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% e'
        'ndfor %}{% endfor %}'),
    "range_huge": '{% for a in range(10**15) %}{% endfor %}',
    "range_list": '{{ range(100000000)|list|length }}',
    "str_double": (
        "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{%"
        ' endfor %}{{ ns.s|length }}'),
    "str_double_plus": (
        "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{%"
        ' endfor %}{{ ns.s|length }}'),
    "str_mul": "{{ ('x' * 2000000000)|length }}",
    "str_mul2": "{% set a = 'x' * 90000000 %}{{ a * 50 }}",
    "list_double": (
        '{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns'
        '.s|length }}'),
    "list_nest": '{% set ns = namespace(s=[1]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}',
    "list_nest_json": (
        '{% set ns = namespace(s=[1]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.'
        's|tojson }}'),
    "list_nest_eq": (
        '{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(100000) %}{% set ns.s = [ns.s] %}{% set ns.t'
        ' = [ns.t] %}{% endfor %}{{ ns.s == ns.t }}'),
    "dag": '{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}',
    "dag_json": '{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|tojson }}',
    "dag_eq": (
        '{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% set ns'
        '.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}'),
    "dag_sort": (
        '{% set ns = namespace(s=[1], t=[1]) %}{% for i in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% set ns'
        '.t = [ns.t, ns.t] %}{% endfor %}{{ [ns.s, ns.t]|sort|length }}'),
    "cycle": '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}',
    "cycle_json": '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns|tojson }}',
    "macro": '{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}',
    "macro2": '{% macro f(x) %}{{ f(x) }}{{ f(x) }}{% endmacro %}{{ f(1) }}',
    "loop_rec": '{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}',
    "call": '{% macro m() %}{{ caller() }}{% endmacro %}' + '{% call m() %}' * 3000 + '{% endcall %}' * 3000,
    "parens": '{{ ' + '(' * 200000 + '1' + ')' * 200000 + ' }}',
    "brackets": '{{ ' + '[' * 200000 + ']' * 200000 + ' }}',
    "nots": '{{ ' + 'not ' * 200000 + '1 }}',
    "minus": '{{ ' + '-' * 200000 + '1 }}',
    "ifs": '{% if 1 %}' * 50000 + '{% endif %}' * 50000,
    "fors": '{% for i in [1] %}' * 5000 + '{% endfor %}' * 5000,
    "adds": '{{ 1' + '+1' * 200000 + ' }}',
    "filters": "{{ 'a'" + '|trim' * 200000 + ' }}',
    "dots": '{{ a' + '.a' * 200000 + ' }}',
    "ternary": '{{ ' + '1 if 1 else ' * 100000 + '2 }}',
    "elifs": '{% if 0 %}' + '{% elif 0 %}' * 50000 + '{% endif %}',
    "format": "{{ '%1000000000d' % 1 }}",
    "format2": "{{ '%1000000000d'|format(1) }}",
    "format3": "{{ '{:>1000000000}'.format('x') }}",
    "indent": "{{ ('a\\nb' * 100000)|indent(100000) }}",
    "center": "{{ 'a'|center(2000000000) }}",
    "replace": "{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}",
    "replace_m": "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
    "join": "{{ (range(100000)|list)|join('x' * 100000) }}",
    "join_m": "{{ ('x' * 100000).join(['a'] * 100000) }}",
    "batch": '{{ [1]|batch(1000000000, 0)|list|length }}',
    "slice": '{{ [1]|slice(1000000000)|list|length }}',
    "split": "{{ ('a ' * 1000000).split()|length }}",
    "pow": '{{ 10 ** 1000000000 }}',
    "pow2": '{{ 2 ** 127 * 4 }}',
    "div0": '{{ 1 // 0 }}{{ 1 % 0 }}',
    "intmin": '{{ (-9223372036854775807 - 1) // -1 }}{{ -170141183460469231731687303715884105728 // -1 }}',
    "slice_big": (
        "{{ 'abc'[::-9223372036854775808] }}{{ 'abc'[9223372036854775807:] }}{{ [1,2][-9223372036854775808:92"
        '23372036854775807:9223372036854775807] }}'),
    "out_huge": "{% for a in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
    "include": "{% include 'chat' %}",
    "extends": "{% extends 'chat' %}",
    "import": "{% import 'chat' as x %}{{ x }}",
    "include_etc": "{% include '/etc/passwd' %}",
    "self": '{% block a %}{{ self.a() }}{% endblock %}',
    "dunder": "{{ ''.__class__.__mro__ }}{{ messages.__init__ }}",
    "nul": "a\x00{{ '\\0' }}b",
    "bad_esc": "{{ '\\ud800' }}{{ '\\x' }}",
    "unterminated": "{{ 'abc",
    "unclosed": '{% if x %}',
    "sort_big": '{{ range(100000)|list|sort(reverse=true)|length }}',
    "groupby": "{{ range(100000)|list|groupby('x')|list|length }}",
    "urlize": "{{ ('http://a.b ' * 100000)|urlize|length }}",
    "wordwrap": "{{ ('a ' * 1000000)|wordwrap(1) }}",
    "tojson_indent": '{{ [[1]]|tojson(indent=1000000000) }}',
    "strftime": "{{ strftime_now('%' ~ 'Y%' * 1000) }}{{ strftime_now('') }}",
    "random": '{{ range(10)|random }}',
    "debug": '{{ debug() }}',
    "lipsum": '{{ lipsum(n=100000000) }}',
    "cycler": '{{ cycler }}',
    "dictbomb": (
        '{% set ns = namespace(d={}) %}{% for i in range(100000) %}{% set ns.d = dict(ns.d, a=ns.d) %}{% endf'
        'or %}{{ ns.d|tojson }}'),
    "dict_update": "{% set d = {} %}{{ d.update({'a': 1}) }}",
}


def request(content):
    return {"messages": [{"role": "user", "content": content}]}


def attack(pipe, name, source):
    """None, or what is wrong."""
    pipe.take("{% if messages[0].content == 'attack' %}" + source + "{% else %}fine{% endif %}")
    status, text, us = pipe.render(request("attack"))
    if status not in ANSWERS:
        return f"{name}: {status}: {text[:100]}"
    if us > US_MAX:
        return f"{name}: took {us} us"
    if status not in ("OK",) and not text:
        return f"{name}: {status} without a sentence"
    calm, text, us = pipe.render(request("calm"))
    if status == "CORRUPT":
        return None if calm == "CORRUPT" else f"{name}: {calm} after CORRUPT"
    if (calm, text) != ("OK", "fine"):
        return f"{name}: {status}, and then {calm}: {text[:100]}"
    return None


def main():
    program, keeper = sys.argv[1:3]
    wrong, counts = [], {}
    with tempfile.TemporaryDirectory() as work:
        (pathlib.Path(work) / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>"}))
        pipe = Pipe(program, keeper, work)
        for name, source in HOSTILE.items():
            found = attack(pipe, name, source)
            counts[found is None] = counts.get(found is None, 0) + 1
            if found:
                wrong.append(found)
                print(found, flush=True)
        pipe.process.stdin.close()
        if pipe.process.wait(60) != 0:
            wrong.append("the pipe failed")
    print(f"{len(HOSTILE)} hostile templates, {len(wrong)} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
