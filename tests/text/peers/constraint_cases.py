"""Constraints that are written to take much: schemas, regexes, grammars, each with the kind that constraint_pipe knows."""
import json

Case = tuple[str, object]


def nested(depth: int) -> dict:
    schema: dict = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}
    return schema


def one_key(key: str, schema: object) -> dict:
    return {"type": "object", "properties": {key: schema}, "required": [key]}


def schema(value: object) -> Case:
    return "schema", value if isinstance(value, str) else json.dumps(value)


def regex(text: str) -> Case:
    return "regex", text


def grammar(text: str) -> Case:
    return "grammar", text


def chain(last: str) -> str:
    return "start: a0\n" + "".join(f"a{i}: a{i + 1} a{i + 1}\n" for i in range(40)) + f'a40: "{last}"\n'


SCHEMAS: dict[str, object] = {
    "deep_40": nested(40),
    "deep_5000": '{"type":"object","properties":{"a":' * 5000 + "{}" + "}}" * 5000,
    "arrays_100000": '{"type":"array","items":' * 100000 + '{"type":"integer"}' + "}" * 100000,
    "enum_10k": {"enum": [f"value {i * 7919 % 100003}" for i in range(10000)]},
    "enum_200k": {"enum": [f"value {i}" for i in range(200000)]},
    "properties_5k": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(5000)}, "additionalProperties": False},
    "properties_1k": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(1000)}, "additionalProperties": False},
    "anyof_2k": {"anyOf": [one_key(f"k{i}", {"type": "integer"}) for i in range(2000)]},
    "anyof_alike": {"anyOf": [one_key("k", {"type": "array", "items": {"type": "string", "maxLength": i}}) for i in range(1, 400)]},
    "allof_power": {"allOf": [{"anyOf": [{"properties": {f"a{i}": {"type": "string"}}}, {"properties": {f"b{i}": {"type": "integer"}}}]}
                              for i in range(24)]},
    "oneof_power": {"allOf": [{"oneOf": [{"properties": {f"a{i}": {"const": 1}}}, {"properties": {f"b{i}": {"const": 2}}}]}
                              for i in range(30)]},
    "ref_itself": {"$ref": "#"},
    "ref_circle": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    "ref_http": {"$ref": "http://127.0.0.1:1/x"},
    "ref_file": {"$ref": "file:///etc/passwd"},
    "length_1e9": {"type": "string", "maxLength": 10**9},
    "length_from_1e6": {"type": "string", "minLength": 10**6},
    "items_1e6": {"type": "array", "items": {"type": "integer"}, "minItems": 10**6, "maxItems": 2 * 10**6},
    "integer_range": {"type": "integer", "minimum": -(10**300), "maximum": 10**300},
    "multiple_of_prime": {"type": "integer", "multipleOf": 999999937},
    "multiple_of_four": {"allOf": [{"type": "integer", "multipleOf": p} for p in (9973, 9967, 9949, 9941)]},
    "pattern_power": {"type": "string", "pattern": "^(a|b)*a(a|b){25}$"},
    "pattern_repeated": {"type": "string", "pattern": "^((a{1,100}){1,100}){1,100}$"},
    "pattern_ahead": {"type": "string", "pattern": "^(?=a)b(?!c)$"},
    "pattern_back": {"type": "string", "pattern": "^(a)\\1$"},
    "no_json": "{",
    "false": "false",
    "no_integer": {"type": "integer", "minimum": 5, "maximum": 4},
    "nul": {"const": "a\0b"},
}

REGEXES = {
    "power": "(a|b)*a(a|b){30}",
    "repeated": "(((a{1,1000}){1,1000}){1,1000}){1,1000}",
    "dots": "(.*a.*b.*c.*d.*e.*f.*g.*h.*i.*j){20}",
    "letters": "(\\p{L}{1,200}\\s?){1,200}",
    "brackets": "(" * 20000 + "a" + ")" * 20000,
    "open": "(a",
    "nothing": "[^\\s\\S]",
    "words_50k": "|".join(f"w{i}" for i in range(50000)),
}

GRAMMARS = {
    "ambiguous": 'start: e\ne: e e | e "+" e | "a" | ""\n',
    "left": 'start: start start start | "x"\n',
    "no_rule": "start: a\na0: a1\na1: a2\na2: a3\n",
    "chain": chain("x"),
    "chain_of_nothing": chain(""),
    "both": "start: /[ab]*a[ab]{12}/ & /[ab]*b[ab]{13}/ & /[ab]*a[ab]{15}/\n",
    "not": "start: /(?s:.*)/ & ~/(?s:.*)(a|b)[ab]{20}(?s:.*)/\n",
}

CHAIN = 'root ::= "x" a0\n' + "".join(f"a{i} ::= a{i + 1}\n" for i in range(3000))
GBNFS = {
    "optional": "root ::= " + '"a"? ' * 12000,
    "twice": "root ::= a0\n" + "".join(f"a{i} ::= a{i + 1} a{i + 1}\n" for i in range(40)) + 'a40 ::= "x"\n',
    "chain": CHAIN + 'a3000 ::= "y"\n',
    "chain_round": CHAIN + 'a3000 ::= "y" | "(" root ")"\n',
    "itself": "root ::= root\n",
    "ambiguous": 'root ::= e\ne ::= e e | e "+" e | [a-z] | ""\n',
    "characters": 'root ::= "(" c ")"\nc ::= [^()] c | "(" c ")" c | ""\n',
    "dots": "root ::= " + "." * 60000,
    "deep": "root ::= " + "(" * 20000 + '"a"' + ")" * 20000,
    "repeated": 'root ::= (((("a" root | "b"){1,1000}){1,1000}){1,1000}){1,1000}\n',
}

REGEXES |= {
    "optional_8k": ".?" * 8000,
    "optional_900": "\\w?" * 900,
    "starred": "".join(f"{'abcdef'[i % 6]}*" for i in range(32000)),
    "any_power": "(?s)(.*a.{30}|.*b.{31}|.*c.{37}|.*d.{41})x{50}",
    "stars_in_stars": "a" + "*" * 100,
    "words_7k": "|".join(f"w{i}.*" for i in range(7000)),
}
GRAMMARS |= {
    "optional_twice": "start: T\nT: A A\nA: B B\nB: C C\nC: D D\nD: /" + ".?" * 250 + "/\n",
    "optional_and": "start: T\nT: " + " & ".join("/" + part * 300 + "/" for part in (".?", "\\w?", "[a-z]?")) + "\n",
    "terminals_1k": "start: (" + "|".join(f"T{i}" for i in range(1000)) + ")*\n" + "".join(f"T{i}: /[a-z]*x{i}[a-z]*/\n" for i in range(1000)),
    "rules_chain": "start: t0\n" + "".join(f"t{i}: t{i + 1}\n" for i in range(4500)) + "t4500: /[a-c]/\n",
    "terminal_itself": 'start: A\nA: "x" A\n',
    "special": 'start: "a" <|im_end|> "b"\n',
    "stop": 'start: a "z"\na[stop="STOP", max_tokens=10]: /.*/\n',
    "file": '%import "/etc/passwd"\nstart: "a"\n',
}
SCHEMAS |= {
    "pattern_optional": {"type": "string", "pattern": ".?" * 8000},
    "patterns_optional": {"anyOf": [{"type": "string", "pattern": ".?" * 500} for _ in range(16)]},
    "long_const": {"const": "x y " * 50000},
    "required_5k": {"type": "object", "required": [f"r{i}" for i in range(5000)]},
    "items_80k": '{"type":"array","prefixItems":[' + ",".join("{}" for _ in range(80000)) + "]}",
    "ref_chain": {"$defs": {**{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(6000)}, "d6000": {"type": "string"}}, "$ref": "#/$defs/d0"},
}

CASES: dict[str, Case] = {f"schema_{name}": schema(value) for name, value in SCHEMAS.items()}
CASES |= {f"regex_{name}": regex(text) for name, text in REGEXES.items()}
CASES |= {f"grammar_{name}": grammar(text) for name, text in GRAMMARS.items()}
CASES |= {f"gbnf_{name}": grammar(text) for name, text in GBNFS.items()}
