#!/usr/bin/env python3
"""Every key that Transformers can write into a model folder's configuration is judged by kvferry.

    keys.py KVFERRY WORK    installs each version below into WORK, with what transformers-VERSION.txt beside this file pins, and
                            asks KVFERRY check-model; fails with the unknown ones
    keys.py --write WORK    writes keys.json beside this file, which tests/model/config/config_keys_test.c reads on every run
    keys.py --list          what the Transformers that runs this has (how the others call it)

Keys are what the classes of a family have as fields, parameters and in to_dict(), and for tokenizers also what the
source takes out of its keyword arguments, into which tokenizer_config.json is read.
"""
import filecmp
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import venv

HERE = os.path.dirname(os.path.abspath(__file__))
VERSIONS = ("4.36.2", "4.57.6", "5.23.0")
CONFIGS = ("PretrainedConfig", "PreTrainedConfig", "LlamaConfig", "MistralConfig", "Qwen2Config", "Qwen3Config")
TOKENIZERS = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "LlamaTokenizer", "LlamaTokenizerFast", "GPT2Tokenizer",
              "GPT2TokenizerFast", "Qwen2Tokenizer", "Qwen2TokenizerFast", "CodeLlamaTokenizer", "CodeLlamaTokenizerFast")
TOKENIZER_SOURCES = ("tokenization_utils_base", "tokenization_utils", "tokenization_utils_fast",
                     "tokenization_utils_tokenizers")
NO_KEYS = {"self", "args", "kwargs"}
FILES = {"config": "config.json", "generation": "generation_config.json", "tokenizer": "tokenizer_config.json",
         "special_tokens": "special_tokens_map.json"}


def class_of(name):
    import transformers
    try:
        return getattr(transformers, name)
    except (AttributeError, ImportError):
        return None  # not in this version


def parameters(cls):
    keys = set()
    for base in cls.__mro__:
        keys |= set(getattr(base, "__annotations__", {}))
        try:
            keys |= set(inspect.signature(base.__init__).parameters)
        except ValueError:
            pass  # a built-in
    return keys


def fields(name):
    cls = class_of(name)
    return parameters(cls) | set(cls().to_dict()) | set(vars(cls())) if cls else set()


def tokenizer_keys():
    keys = set()
    for name in TOKENIZERS:
        cls = class_of(name)
        for base in cls.__mro__ if cls else ():
            try:
                keys |= set(inspect.signature(base.__init__).parameters)
            except ValueError:
                pass
    for module in TOKENIZER_SOURCES:
        try:
            source = inspect.getsource(__import__("transformers." + module, fromlist=["x"]))
        except (ImportError, TypeError):  # not in this version, or a name for another module
            continue
        keys |= set(re.findall(r'kwargs\.(?:pop|get|setdefault)\(\s*"(\w+)"', source))
        keys |= set(re.findall(r'tokenizer_config(?:\.pop\(|\[)"(\w+)"', source))
    return keys


def special_token_names():
    names = class_of("PreTrainedTokenizerBase").SPECIAL_TOKENS_ATTRIBUTES
    return set(names) | {"additional_special_tokens", "extra_special_tokens"}


def list_keys():
    keys = {"config": set().union(*(fields(name) for name in CONFIGS)), "generation": fields("GenerationConfig"),
            "tokenizer": tokenizer_keys() | special_token_names(), "special_tokens": special_token_names()}
    assert min(len(keys[file]) for file in ("config", "generation", "tokenizer")) > 35  # the classes were found
    return {file: sorted(found - NO_KEYS) for file, found in keys.items()}


def keys_of_version(work, version):
    home = os.path.join(work, "transformers-" + version)
    python = os.path.join(home, "bin", "python")
    pins, installed = os.path.join(HERE, f"transformers-{version}.txt"), os.path.join(home, "installed.txt")
    if not os.path.exists(installed) or not filecmp.cmp(pins, installed, shallow=False):
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "-r", pins], check=True)
        subprocess.run([python, "-m", "pip", "check", "-q"], check=True)  # every dependency has its pin
        shutil.copyfile(pins, installed)
    out = subprocess.run([python, "-B", __file__, "--list"], check=True, stdout=subprocess.PIPE).stdout
    return json.loads(out.splitlines()[-1])


def keys_of_all(work):
    keys = {file: set() for file in FILES}
    for version in VERSIONS:
        for file, found in keys_of_version(work, version).items():
            keys[file] |= set(found)
    return {file: sorted(found) for file, found in keys.items()}


def write(work):
    with open(os.path.join(HERE, "keys.json"), "w") as out:
        json.dump({"versions": VERSIONS, **keys_of_all(work)}, out, indent=0)
        out.write("\n")


def check(kvferry, work):
    keys = keys_of_all(work)
    folder = os.path.join(work, "every_key")
    os.makedirs(folder, exist_ok=True)
    for file, name in FILES.items():
        with open(os.path.join(folder, name), "w") as out:
            json.dump({key: None for key in keys[file]}, out)
    out = subprocess.run([kvferry, "check-model", folder, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    report = json.loads(out.stdout)
    unknown = [f"{name}: {key}" for name in FILES.values() for key in report["files"][name]["unknown"]]
    for sentence in unknown:
        print("not judged:", sentence, file=sys.stderr)
    print(sum(map(len, keys.values())), "keys of Transformers", ", ".join(VERSIONS), f"{len(unknown)} not judged")
    return 1 if unknown else 0


def main():
    if sys.argv[1:] == ["--list"]:
        print(json.dumps(list_keys()))
        return 0
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if sys.argv[1] == "--write":
        return write(sys.argv[2])
    return check(*sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
