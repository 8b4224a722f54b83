#!/usr/bin/env python3
"""Renders published chat templates as jinja2 does: published.py PIPE KEEPER FOLDER [PIPE'S REPORT]

The templates are those in the source package of llama-cpp-python, which is fetched into FOLDER and kept there; nothing of it is in
the tree. Each is rendered with 19 conversations (tests/golden/chat), by jinja2 as Transformers does and by the product. What jinja2 renders is to be
the same text, what it refuses is to be refused; but for what the two tables below explain. Ends with 77 (skipped) where nothing can be
fetched.
"""

import collections
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/golden/chat"))
PACKAGE = "llama-cpp-python==0.3.36"
SKIPPED = 77
SAFE = "text marked safe makes jinja2 escape what is added to it, with autoescape off, too; here nothing is escaped"
# Template, conversation -> why the text differs.
DIFFERENT = {("meetkai-functionary-medium-v3.1.jinja", conversation): SAFE
             for conversation in ("tools", "tools_nosys", "tool_call", "tool_call_text_args", "two_calls")}
# Python's refusal -> why it is rendered here.
RENDERED = {
    "'NoneType' object is not iterable": "a loop over none is empty here (templates for tools, without tools)",
    "Object of type generator is not JSON serializable": "tojson takes what map() makes for a list",
}


def fetch(folder):
    """The templates; None: they cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.tar.gz")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", folder,
                        PACKAGE], timeout=600, check=False)
    archives = list(folder.glob("*.tar.gz"))
    if not archives:
        return None
    templates = {}
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            if member.isfile() and "/models/templates/" in member.name and member.name.endswith(".jinja"):
                templates[pathlib.Path(member.name).name] = archive.extractfile(member).read().decode()
    return templates


class Pipe:
    def __init__(self, program, keeper, folder):
        self.folder = pathlib.Path(folder)
        self.process = subprocess.Popen([program, keeper, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def take(self, source):
        path = self.folder / "one.jinja"
        path.write_bytes(source.encode())
        self.process.stdin.write(f"T {path}\n".encode())

    def render(self, request):
        body = json.dumps(request, ensure_ascii=False).encode()
        self.process.stdin.write(b"R %d\n" % len(body) + body)
        self.process.stdin.flush()
        status, n_bytes, us = self.process.stdout.readline().split()
        return status.decode(), self.process.stdout.read(int(n_bytes)).decode(), int(us)


def expected(template, request, tokens):
    import rendering
    try:
        return rendering.render(template, request, tokens)
    except Exception as error:  # whatever Python says, the product is to refuse
        return error


def compare(pipe, name, source, tally):
    import conversations
    import rendering
    try:
        template = rendering.ENVIRONMENT.from_string(source)
    except Exception as error:
        template = error
    pipe.take(source)
    for conversation, request in conversations.CONVERSATIONS.items():
        wanted = template if isinstance(template, Exception) else expected(template, request, conversations.TOKENS)
        status, text, us = pipe.render(request)
        tally["n"] += 1
        tally["us"].append(us)
        if isinstance(wanted, Exception):
            is_equal = status in ("INVALID_ARGUMENT", "CORRUPT")
        else:
            is_equal = status == "OK" and text == wanted
        tally["n_rendered"] += not isinstance(wanted, Exception)
        if not is_equal:
            tally["different"][name, conversation] = (status, text, wanted)


def reason(key, status, text, wanted):
    if isinstance(wanted, Exception):
        return RENDERED.get(str(wanted)) if status == "OK" else None
    return DIFFERENT.get(key) if status == "OK" else None


def explain(key, status, text, wanted):
    if isinstance(wanted, Exception):
        return f"{key}: Python refuses ({wanted!r:.150}), here {status}: {text[:80]!r}"
    if status != "OK":
        return f"{key}: {status}: {text[:200]}"
    at = next((i for i, (a, b) in enumerate(zip(text, wanted)) if a != b), min(len(text), len(wanted)))
    return f"{key}: at {at}: here {text[max(0, at - 30):at + 50]!r}, Python {wanted[max(0, at - 30):at + 50]!r}"


def main():
    program, keeper, folder = sys.argv[1:4]
    try:
        import jinja2
    except ImportError:
        sys.exit("published.py: jinja2 is missing")
    templates = fetch(pathlib.Path(folder) / "llama_cpp_python")
    if not templates:
        print(f"SKIPPED: {PACKAGE} cannot be fetched, so no published template was compared")
        sys.exit(SKIPPED)
    tally = {"n": 0, "n_rendered": 0, "us": [], "different": {}}
    with tempfile.TemporaryDirectory() as work:
        (pathlib.Path(work) / "tokenizer_config.json").write_text(json.dumps(
            {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}))
        pipe = Pipe(program, keeper, work)
        for name, source in sorted(templates.items()):
            compare(pipe, name, source, tally)
        pipe.process.stdin.close()
        assert pipe.process.wait(60) == 0
    unknown, why, n_different = 0, collections.Counter(), 0
    for key, found in tally["different"].items():
        cause = reason(key, *found)
        n_different += not isinstance(found[2], Exception)
        why[cause] += 1
        if cause is None:
            unknown += 1
            print(explain(key, *found))
    times = sorted(tally["us"])
    print(f"{len(templates)} templates of {PACKAGE}, jinja2 {jinja2.__version__}: {tally['n_rendered'] - n_different} of "
          f"{tally['n_rendered']} prompts equal, {tally['n'] - len(tally['different'])} of {tally['n']} with what both refuse")
    for cause, n in why.items():
        print(f"  {n}: {cause}")
    print(f"us a rendering, with the hop: p50 {times[len(times) // 2]}, p99 {times[len(times) * 99 // 100]}")
    if unknown:
        sys.exit(f"FAILED: {unknown} differ for no known reason")


if __name__ == "__main__":
    main()
