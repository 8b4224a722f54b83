"""Replies drawn under generated JSON schemas, by constraint_pipe, are JSON that meets its schema, and none is stuck:
constraint_schemas.py PIPE N_SCHEMAS own|jsonschema FOLDER... (each with a tokenizer.json). own: a validator for what is generated here;
jsonschema: the package of that name."""
import json
import math
import random
import re
import subprocess
import sys

DRAWS = 6
TOKENS_MAX = 400
NAMES = ["a", "b", "name", "id", "x y", "ü", "q\"", "list", "0"]
PATTERNS = ["^[a-z]{2,5}$", "^(ab|c)+$", "^\\d{3}-\\d{2}$", "^[A-Z][a-z]*$", "^$|^x{3}$", "^[^a-f]{1,4}$"]
TYPES = {"string": str, "boolean": bool, "object": dict, "array": list, "null": type(None)}


# ---- schemas ----

def string(r: random.Random, _depth: int) -> dict:
    if r.random() < 0.4:
        return {"type": "string", "pattern": r.choice(PATTERNS)}
    low = r.randint(0, 3)
    schema = {"type": "string"}
    if r.random() < 0.5:
        schema["minLength"] = low
    if r.random() < 0.7:
        schema["maxLength"] = low + r.randint(0, 12)
    return schema


def integer(r: random.Random, _depth: int) -> dict:
    low = r.randint(-200, 200)
    schema = {"type": "integer"}
    if r.random() < 0.7:
        schema[r.choice(["minimum", "exclusiveMinimum"])] = low
    if r.random() < 0.7:
        schema[r.choice(["maximum", "exclusiveMaximum"])] = low + r.randint(2, 1000)
    if r.random() < 0.3 and schema.keys() & {"minimum", "exclusiveMinimum"} == set():
        schema["multipleOf"] = r.choice([2, 3, 7, 10])
    return schema


def number(r: random.Random, _depth: int) -> dict:
    low = r.choice([-3.5, 0, 0.25, 10])
    schema = {"type": "number"}
    if r.random() < 0.6:
        schema["minimum"] = low
    if r.random() < 0.6:
        schema["maximum"] = low + r.choice([0.5, 3, 100])
    return schema


def fixed(r: random.Random, _depth: int) -> dict:
    values = [1, -2.5, "x", "ä\n", True, None, [1, 2], {"k": "v"}, ""]
    if r.random() < 0.4:
        return {"const": r.choice(values)}
    return {"enum": r.sample(values, r.randint(1, 5))}


def simple(r: random.Random, _depth: int) -> dict:
    return r.choice([{"type": "boolean"}, {"type": "null"}, {"type": ["integer", "null"]}, {"type": ["string", "boolean"]}])


def array(r: random.Random, depth: int) -> dict:
    schema: dict = {"type": "array", "items": generate(r, depth - 1)}
    low = r.randint(0, 2)
    if r.random() < 0.3:
        schema["prefixItems"] = [generate(r, depth - 1) for _ in range(r.randint(1, 2))]
    if r.random() < 0.6:
        schema["minItems"] = low
    schema["maxItems"] = low + r.randint(1, 3)
    return schema


def object_of(r: random.Random, depth: int) -> dict:
    names = r.sample(NAMES, r.randint(0, 4))
    schema: dict = {"type": "object", "properties": {name: generate(r, depth - 1) for name in names}}
    schema["required"] = [name for name in names if r.random() < 0.6]
    more = r.random()
    if more < 0.6:
        schema["additionalProperties"] = False
    elif more < 0.8:
        schema["additionalProperties"] = generate(r, 0)
    return schema


def any_of(r: random.Random, depth: int) -> dict:
    return {"anyOf": [generate(r, depth - 1) for _ in range(r.randint(1, 3))]}


def all_of(r: random.Random, depth: int) -> dict:
    parts = []
    for name in r.sample(NAMES, 2):
        parts.append({"type": "object", "properties": {name: generate(r, depth - 1)}, "required": [name]})
    return {"allOf": parts}


def generate(r: random.Random, depth: int) -> dict:
    leaves = [string, integer, number, fixed, simple]
    return r.choice(leaves if depth <= 0 else leaves + [array, object_of, object_of, any_of, all_of])(r, depth)


def with_references(r: random.Random, schema: dict) -> dict:
    tree = {"type": "object", "properties": {"value": schema, "next": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
            "required": ["value", "next"], "additionalProperties": False}
    return {"$defs": {"tree": tree}, "$ref": "#/$defs/tree"}


def schema_of(seed: int) -> dict:
    r = random.Random(seed)
    schema = generate(r, r.randint(0, 3))
    return with_references(r, schema) if r.random() < 0.15 else schema


# ---- the validator for what is generated above ----

def is_type(value: object, name: str) -> bool:
    if name in ("integer", "number"):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and (name == "number" or float(value).is_integer())
    return isinstance(value, TYPES[name])


def same(a: object, b: object) -> bool:
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True) or \
        (isinstance(a, (int, float)) and isinstance(b, (int, float)) and isinstance(a, bool) == isinstance(b, bool) and a == b)


def number_fits(s: dict, v: float) -> bool:
    return (v >= s.get("minimum", -math.inf) and v <= s.get("maximum", math.inf) and v > s.get("exclusiveMinimum", -math.inf)
            and v < s.get("exclusiveMaximum", math.inf) and ("multipleOf" not in s or v % s["multipleOf"] == 0))


def array_fits(root: dict, s: dict, v: list) -> bool:
    first = s.get("prefixItems", [])
    return (s.get("minItems", 0) <= len(v) <= s.get("maxItems", math.inf) and all(fits(root, p, x) for p, x in zip(first, v))
            and all(fits(root, s.get("items", {}), x) for x in v[len(first):]))


def object_fits(root: dict, s: dict, v: dict) -> bool:
    known, more = s.get("properties", {}), s.get("additionalProperties", True)
    return (all(name in v for name in s.get("required", [])) and all(fits(root, known[n], x) for n, x in v.items() if n in known)
            and all(more is not False and (more is True or fits(root, more, x)) for n, x in v.items() if n not in known))


def fits(root: dict, s: dict, v: object) -> bool:
    if "$ref" in s and not fits(root, root["$defs"][s["$ref"].rsplit("/", 1)[1]], v):
        return False
    names = s.get("type", [])
    if names and not any(is_type(v, name) for name in ([names] if isinstance(names, str) else names)):
        return False
    if "const" in s and not same(s["const"], v) or "enum" in s and not any(same(x, v) for x in s["enum"]):
        return False
    if not all(fits(root, x, v) for x in s.get("allOf", [])) or "anyOf" in s and not any(fits(root, x, v) for x in s["anyOf"]):
        return False
    if isinstance(v, str):
        return s.get("minLength", 0) <= len(v) <= s.get("maxLength", math.inf) and bool(re.search(s.get("pattern", ""), v))
    if isinstance(v, (int, float)) and not isinstance(v, bool):
        return number_fits(s, v)
    return array_fits(root, s, v) if isinstance(v, list) else object_fits(root, s, v) if isinstance(v, dict) else True


def own(schema: dict, value: object) -> bool:
    return fits(schema, schema, value)


def published(schema: dict, value: object) -> bool:
    import jsonschema
    return jsonschema.Draft202012Validator(schema).is_valid(value)


# ---- replies ----

def no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def check(schema: dict, answer: dict, is_valid) -> tuple[int, list[str]]:
    """How many replies came to their end; what is wrong."""
    wrong, n_done = [], 0
    if answer["status"] != "OK":
        return 0, [f"{answer['status']}: {answer['error']}: {json.dumps(schema)}"]
    for output in answer["outputs"]:
        if not output["is_done"]:
            continue
        n_done += 1
        try:
            is_good = is_valid(schema, json.loads(output["text"], parse_constant=no_constant))
        except (ValueError, TypeError):
            is_good = False
        if not is_good:
            wrong.append(f"{output['text']!r} does not meet {json.dumps(schema)}")
    return n_done, wrong


def main() -> None:
    pipe, n_schemas, validator, folders = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    is_valid = {"own": own, "jsonschema": published}[validator]
    n_all, n_done, wrong = 0, 0, []
    for folder_index, folder in enumerate(folders):
        process = subprocess.Popen([pipe, folder, "29"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in range(folder_index, n_schemas, len(folders)):
            schema = schema_of(seed)
            question = {"kind": "schema", "text": json.dumps(schema), "draws": DRAWS, "tokens_max": TOKENS_MAX, "seed": seed}
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            n, more = check(schema, json.loads(process.stdout.readline()), is_valid)
            n_all, n_done, wrong = n_all + DRAWS, n_done + n, wrong + [f"schema {seed}, {folder}: {text}" for text in more]
        process.stdin.close()
        if process.wait(60) != 0:
            wrong.append(f"{folder}: the pipe failed")
    for text in wrong[:40]:
        print(text)
    print(f"{n_schemas} schemas, {n_done} of {n_all} replies complete, {len(wrong)} wrong")
    sys.exit(1 if wrong or n_done < n_all // 2 else 0)


if __name__ == "__main__":
    main()
