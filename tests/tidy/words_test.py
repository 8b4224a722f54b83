"""What the program and its documents say to a user has no word that only this project's developers know.

    words_test.py KVFERRY SOURCE_FOLDER

Read are `kvferry help`, `--help` of every command, docs/reference, the pages of PAGES, the texts of the status table, and each
sentence in the C code: errors, log lines, output. Names (of rows, flags, variables, metrics, labels, reasons) are not prose: `...`, "...",
--x-y, x_y, x.y and X_Y are left out, and so are the targets of links.
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Iterator

import tidy

KVFERRY, SOURCE = sys.argv[1], Path(sys.argv[2])

# A word, as a pattern -> what to write instead, and an example that must be found. Most words are of docs/glossary.md, which is
# for those who change the code.
WORDS = {
    r"incarnations?": ("run of a process", "the incarnation of a worker"),
    r"(another|this|earlier|its) li(fe|ves)": ("run of a process", "a call for another life"),
    r"hand-?overs?|hand(s|ed)? over": ("KV transfer", "Hand-overs that failed, by why."),
    r"seal(s|ed)?": ("complete", "a prompt is sealed"),
    r"leases?": ("reservation", "longest wait for the lease"),
    r"tickets?": ("id of a KV transfer", "the ticket of a prefill"),
    r"quarantined?": ("in use by a KV transfer", "blocks in quarantine"),
    r"fence[sd]?": ("in use by a KV transfer", "a fence of the block"),
    r"pinned": ("reserved", "the blocks are pinned"),
    r"inbound": ("being fetched", "inbound blocks"),
    r"holders?": ("user of a block", "a block without a holder"),
    r"origins?": ("source", "the origin of a block"),
    r"uproot(s|ed)?": ("evict", "a block is uprooted"),
    r"attach(es|ed)?": ("connect", "attach to a transfer"),
    r"pieces?": ("part of KV", "| `kv_pieces_max` | pieces under way |"),
    r"geometr(y|ies)": ("KV layout", "KV geometries differ"),
    r"numerics": ("id that `kvferry version` shows", "KV of other numerics"),
    r"inner (calls?|services?|requests?)": ("between processes, internal", "Inner calls refused"),
    r"relay": ("port", "connections of the relay"),
    r"gates?|guards?": ("check", "the gate before the data port"),
    r"strangers?": ("unknown client", "what a stranger sends"),
    r"unproven|unheard": ("not authenticated", "an unproven connection"),
    r"prove[sdn]? (who|that)": ("authenticate", "those that have not proved who they are"),
    r"misfits?|unfit": ("not compatible", "an unfit pair"),
    r"(a|its) places?": ("slot", "requests that wait for a place"),
    r"placements?": ("choice of workers", "Placements by what decided."),
    r"backlogs?": ("waiting work", "the backlog of a worker"),
    r"whoever|nobody|somebody|anybody": ("the client or process meant", "nobody listens"),
    r"of (its|their|his) own": ("own, separate", "a thread of its own"),
    r"(is|are|was) told": ("gets, is set to", "a process that is told to stop"),
    r"goes on|go on": ("continues", "what the model goes on with"),
    r"in vain": ("without success", "a name is looked up in vain"),
}

# Pages for those who use, run or secure it, read as a whole.
FOR_DEVELOPERS = {"glossary.md", "new-backend.md", "new-kv-manager.md", "one-request.md"}
PAGES = ["README.md", "SECURITY.md", "docs/examples/README.md", "deploy/README.md", "deploy/image/README.md",
         *(f"docs/{page.name}" for page in sorted((SOURCE / "docs").glob("*.md")) if page.name not in FOR_DEVELOPERS)]

# A file with C code, a word of its sentences -> why the word is right there.
ALLOWED = {
    ("api/openai/openai_pages.c", "origin"): "a header of HTTP",
    ("base/http/http_server.c", "origin"): "a header of HTTP",
    ("cli/print/version.c", "numerics"): "the name of a row",
    ("device/cuda_ring.c", "pinned"): "CUDA's word for memory of the host",
    ("kernels/moe.c", "gate"): "a weight's name",
    ("kvcache/geometry.c", "numerics"): "a field's name",
    ("model/forward/forward_layout.c", "pinned"): "CUDA's word for memory of the host",
    ("process/geometry_codec.c", "geometry"): "a field's name",
    ("rpc/auth/sealed_secret.c", "seal"): "bytes of a derived key, never shown",
    ("worker_common/identity_codec.c", "incarnation"): "a field's name",
    ("worker_common/worker.c", "numerics"): "the name of a row of `kvferry version`",
    ("worker_common/worker_plan.c", "numerics"): "the name of a row",
}

NAMES = re.compile(r"`[^`]*`|\]\([^)]*\)|\"[^\"]*\"|\b\w+(\.\w+)+\b|--[a-z0-9]+(-[a-z0-9]+)*|\b\w*_\w*\b|\b[A-Z][A-Z0-9]+\b(?!s)")
FOUND = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.I)


def find(text: str, where: str, first: int = 1, allowed: set[str] = frozenset()) -> list[str]:
    """A sentence for each word of the list that a line of text has."""
    found = []
    for number, line in enumerate(text.split("\n"), first):
        for match in FOUND.finditer(NAMES.sub(" ", line)):
            if match.group().lower() in allowed:
                continue
            usual = next(usual for word, (usual, _) in WORDS.items() if re.fullmatch(word, match.group(), re.I))
            found.append(f'{where}:{number}: "{match.group()}": write "{usual}": {line.strip()}')
    return found


def say(*arguments: str) -> str:
    done = subprocess.run([KVFERRY, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def commands() -> list[str]:
    return re.findall(r"^  ([a-z-]+) +\w", say("help").split("Examples")[0], re.M)


def status_texts() -> str:
    """The last text of each row of STATUS_TABLE, a row a line."""
    table = (SOURCE / "base/status.h").read_text().split("#define STATUS_TABLE(X)")[1].split("enum status")[0]
    return "\n".join(re.findall(r'X\(\w+, \d+, "\w*",[\s\\]*"([^"]*)"\)', table))


LITERAL = r'"(?:\\.|[^"\\\n])*"'


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """(line, sentence): each string of C code that has a space, its parts joined; without those of asserts, which no user sees."""
    text = tidy.without_comments(text, keep_strings=True)
    bare = tidy.without_comments(text)
    asserts = [range(m.end(), m.end() + len(tidy.arguments_at(bare, m.end()))) for m in re.finditer(r"assert\(", bare)]
    for match in re.finditer(rf"{LITERAL}(?:\s*(?:PRI\w+\s*)?{LITERAL})*", text):
        sentence = re.sub(r'(?<!\\)"\s*(?:PRI\w+\s*)?"', "", match.group())[1:-1].replace('\\"', '"').replace("\\n", " ")
        if " " in sentence.strip() and not any(match.start() in place for place in asserts):
            yield tidy.line_of(text, match.start()), sentence


def find_in_code(path: str, text: str, allowed: set[str] = frozenset()) -> list[str]:
    return [finding for line, sentence in sentences(text) for finding in find(sentence, path, line, allowed)]


class Words(unittest.TestCase):
    def test_help_has_none(self):
        self.assertEqual(find(say("help"), "kvferry help"), [])

    def test_help_of_every_command_has_none(self):
        self.assertGreaterEqual(len(commands()), 12)
        for command in commands():
            text = say(command, "--help")
            self.assertGreater(len(text), 100, command)
            self.assertEqual(find(text, f"kvferry {command} --help"), [])

    def test_reference_has_none(self):
        pages = sorted((SOURCE / "docs/reference").glob("*.md"))
        self.assertGreaterEqual(len(pages), 4)
        for page in pages:
            self.assertEqual(find(page.read_text(), f"docs/reference/{page.name}"), [])

    def test_texts_of_statuses_have_none(self):
        n_rows = (SOURCE / "docs/reference/errors.md").read_text().count("\n| `")
        self.assertEqual(len(status_texts().split("\n")), n_rows + 1, "every row, and OK")
        self.assertEqual(find(status_texts(), "base/status.h"), [])

    def test_pages_have_none(self):
        for page in PAGES:
            self.assertEqual(find((SOURCE / page).read_text(), page), [])

    def test_sentences_in_code_have_none(self):
        tree = tidy.Tree(SOURCE)
        folders = set(tree.depends())
        paths = [p for p in tree.paths if p.endswith((".c", ".h", ".cu", ".cuh")) and p.split("/")[0] in folders]
        n_sentences = sum(len(list(sentences(tree.text(path)))) for path in paths)
        self.assertGreater(n_sentences, 2000)
        for path in paths:
            self.assertEqual(find_in_code(path, tree.text(path), {word for where, word in ALLOWED if where == path}), [])

    def test_each_allowed_word_is_there(self):
        for path, word in ALLOWED:
            self.assertIn(f'"{word}"', str(find_in_code(path, (SOURCE / path).read_text())).lower(), path)

    def test_a_sentence_in_code_is_found(self):
        for code in ('error_set(error, STATUS_BUG, "geometry: %s");', 'x = "not " "sealed";', 'log_info("a \\"b\\" of a\\nlease");',
                     'rpc_call_fail_status(call, STATUS_BUG,\n    "run %" PRIu64 " is another incarnation");'):
            self.assertEqual(len(find_in_code("x.c", code)), 1, code)
        self.assertRegex(find_in_code("x.c", '\n\nlog_warn("no lease");')[0], "^x.c:3: ")
        for code in ("/* \"the lease ends\" */", '#include "kvcache/geometry.h"', 'LOG_HEX("incarnation", 1)', 'assert(x && "the lease ends");',
                     'error_set(error, STATUS_BUG, "geometry.dtype is 0, pool_lease is 0");'):
            self.assertEqual(find_in_code("x.c", code), [], code)
        self.assertEqual(find_in_code("x.c", 'f("a gate");', {"gate"}), [])

    def test_what_is_planted_is_found(self):
        for word, (usual, example) in WORDS.items():
            found = find(example, "planted")
            self.assertEqual(len(found), 1, (example, found))
            self.assertIn(f': write "{usual}": {example}', found[0])
            self.assertRegex(found[0].split('"')[1], f"(?i)^(?:{word})$")
        self.assertEqual(len(find("one\nthe holder\nof a sealed block", "planted")), 2)

    def test_names_are_not_prose(self):
        for text in ("lease_limit_ms is added", "`kvferry_kv_leases_expired_total`", "--pieces-max 4", "KVFERRY_PIECES_MAX",
                     'by reason: "stranger" or "proof"', "GEOMETRY_MISMATCH", "[why](a-hand-over.md)", "geometry.dtype", "the release of a piecewise sealant"):
            self.assertEqual(find(text, "planted"), [], text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
