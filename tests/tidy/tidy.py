#!/usr/bin/env python3
"""tidy - the project's own rules that no compiler checks. Python 3, standard library only.

    tidy.py [--root FOLDER]    prints `path:line: rule: sentence` for each finding; exit code 1 with any
    tidy.py --lengths          prints lengths.txt as it should be, never longer than it is

Each rule is a function from a Tree to findings, and tidy_test.py plants an example for each.
"""

import argparse
import posixpath
import re
import subprocess
import sys
from pathlib import Path
from typing import Iterator, NamedTuple

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 60
README_LINES = range(4, 41)
PRINTED = r"<!-- \w+: begin(.|\n)*?<!-- \w+: end -->\n"  # by a test, from the code's tables
LENGTHS = "tests/tidy/lengths.txt"

# Folders whose files translate between the wire and our structs.
PROCESS_FOLDERS = {"trace", "process", "worker_common", "sampling_params", "ctx_worker", "gen_worker", "router", "cli"}

# Header of a library -> the files that may include it: foreign types stop there.
FOREIGN_HEADERS = [
    (r"<uc[tpsm]/", r"kvtransfer/drivers/ucx/.*"),
    (r"<grpc/", r"rpc/.*"),
    (r"<cuda|<nccl", r"kernels/cuda/.*"),
    (r"<event2/", r"base/http/http_(feed|server)\.c|api/http/http_(answer_head|connection\w*|exchange|port)\.c"),
    (r"<yaml\.h>", r"base/config/config_yaml\.c|router/admission/tenant_file\.c"),
    (r"<zlib\.h>", r"rpc/gzip\.c"),
    (r"<seccomp\.h>", r"process/syscall_filter\.c|text/template_filter\.c"),
    (r"<xxhash\.h>", r"model/weights/weight_digest\.c"),
    (r"<openssl/",
     r"base/(sha256|secret|base64)\.c|kvtransfer/drivers/stream/stream_tls\.c|rpc/auth/(key_file|sealed_secret)\.c|rpc/tls/tls_\w+\.[ch]"
     r"|discovery/k8s/https_stream\.c"),
    # Also what a request looks like while it is being answered; never the cores (engines, placement).
    (r'<protobuf-c/|["<].*\.pb-c\.h', r"(rpc|proto)/.*|(%s)/\w*(_service|_client|_codec|codec)\.[ch]"
     r"|process/process_state\.h|router/requests/(beam_replies|door|generation|sampling_choice)\.h|cli/client/(generation_call|reply|sampling_fields)\.[ch]|cli/chat/conversation\.h"
     r"|api/(vllm_engine|vllm_inference)/\w+\.[ch]"
     % "|".join(sorted(PROCESS_FOLDERS))),
]

# Call -> why not, and where it is right all the same.
BANNED_CALLS = [
    (r"strcpy|strcat|sprintf|vsprintf|gets", "writes without a bound", None),
    (r"strtok", "keeps hidden state", None),
    (r"atoi|atol|atoll|atof", "cannot tell an error from 0", None),
    (r"alloca", "no bound and no error", None),
    (r"system|popen", "a shell and a fork, which gRPC and UCX do not survive", None),
    (r"sleep|usleep", "wait for a condition with a bound", None),
    (r"nanosleep|clock_nanosleep", "wait for a condition, or move the time", r"(?!tests/).*"),
    (r"fork|vfork", "gRPC and UCX do not survive it; only before the first use of either",
     r"cli/\w+\.c|tests/.*|text/template_keeper\.c"),
    (r"getenv|secure_getenv", "configuration comes from the process's table",
     r"base/(config/config|crc32c)\.c|cli/.*|tests/.*|process/(process|run_folder)\.c|kernels/(kernels|attention_backends)\.c"
     r"|discovery/k8s/k8s_endpoints\.c|worker_common/worker_kernels\.c"),
    (r"rand|srand|random|srandom", "base/random.h is seeded and the same everywhere", r"tests/runner/.*"),
    # Only what no simulation runs looks at a clock: commands, what joins a process, threads, real transports, gRPC.
    (r"clock_now_ns", "time is an argument (now_ns) of everything that can be simulated",
     r"(tests|cli|process)/.*|base/(clock|thread_pool)\.[ch]|engine/engine_thread\.c|worker_common/worker(_kernels)?\.c|model/forward/kernel_trial_time\.c"
     r"|device/device\.c|kvtier/kv_tier_open\.c"    # a wait that has a bound, for what no simulation runs
     r"|text/(render_frame|template_renderer|constraint/constraint_(compiler|store))\.c"
     r"|kvtransfer/(drivers/(ucx|stream|shm|ipc)/\w+|transfer_thread)\.c"
     r"|ctx_worker/ctx_(service|worker)\.c|gen_worker/(context_client|context_description|gen_service|gen_worker)\.c"
     r"|api/openai/openai(_call)?\.c|api/vllm_engine/vllm_engine\.c"
     r"|router/(admission/admission|dispatch/dispatch|intake|router|router_watch|workers/worker_(client|judge|sources))\.c"
     r"|discovery/(name_lookup|k8s/(fd_wait|https_stream|k8s_endpoints))\.c"
     r"|api/http/http_(connection\w*|port)\.c"
     r"|rpc/(server/(call|call_send|server)|client/client_call|runtime/runtime|relay/(relay|handshakes))\.c"),
    (r"clock_gettime|gettimeofday|time", "base/clock.h has the clocks",
     r"tests/.*|base/(clock|log/log_line)\.c"
     r"|router/admission/tenants\.c"    # a file's time of change is of the machine's clock
     r"|rpc/runtime/runtime\.c"),     # what a thread has computed
]

# Nothing of the machine that a file was written on, no registry by name, no folder outside the tree.
# The brackets keep this file from matching itself.
FOREIGN_PLACES = [
    (r"/(w[o]rk|f[a]rm|r[o]ot|h[o]me/\w+)/\w", "a path of one machine"),
    (r"/t[m]p/[a-z]+[0-9]{3,}", "a path of one machine"),
    (r"\b(pypi\.o[r]g|pythonhosted\.o[r]g|npmjs\.o[r]g|proxy\.golang\.o[r]g|deb\.debian\.o[r]g"
     r"|archive\.ubuntu\.c[o]m|crates\.i[o])\b", "the host of a package registry"),
    (r"(?<![\w-])sh[a]red/(design|prototypes|models|tools|hooks)\b", "a folder outside the repository"),
]

# Policy decides from what it is given: no clock, no I/O, no engine, nothing that another machine would answer otherwise.
POLICY = r"schedule/.*"
POLICY_INCLUDES = r'"(schedule/\w+|base/(standing|status))\.h"|<(assert|stdbool|stddef|stdint|stdlib|string)\.h>'

# Bytes of a device are touched by kernels and through the device; everybody else hands addresses on. What a model's files hold is
# the host's until it is placed, and model/ reads it there; of what forward*.c has, only the logits are.
DEVICE_FOLDERS = r"(device|kernels)/.*"
DEVICE_ADDRESS = r"block_pool_(?:data|base)\s*\(|\b(?:pool_base|pool_memory|activations)\b"
DEVICE_ONLY = r"model/forward/forward\w*\.c"  # where every address but those of the host's own structs is the device's
TOUCHES = r"\b(mem(?:cpy|move|set|cmp|chr)|crc32c(?:_copy)?|p?read|p?write|sha256\w*|hash128\w*)\s*\("
# Sized when it is made, as its README says: memory is taken in what makes, and nowhere else.
SIZED = (r"(kvcache|schedule|engine|trace)/.*|base/(ring|metrics/metrics|thread_pool)\.c|model/(forward|sampler)\w*\.c"
         r"|kernels/(moe|rope)\.c|kernels/(cpu|reference)/.*")
MAKES = r"(\w+_)?(create|init|start|make|new)(_\w+)?"
MEMORY_CALLS = r"(?<![\w.>])(malloc|calloc|realloc|aligned_alloc|posix_memalign|strn?dup|v?asprintf)\s*\("

# Bodies of the wrappers for the device, those of the same for the host, and kernels that call each to compare the two.
WRAPPERS = [("kernels/cuda/hardware.cuh", "tests/simt/harness/hardware_host.h"),
            ("kernels/cuda/hardware_sm90.cuh", "tests/simt/harness/hardware_sm90_host.h")]
CONFORMS = "kernels/cuda/conform/"

# Lists of planted mistakes, the folder of the files in the first column, and the column of the text that is there.
MISTAKES = [("tests/simt/mutants.tsv", "kernels/cuda/", 3), ("tests/simt/driver/mutants.tsv", "device/", 2)]

# Pages that say where things are, what looks like the name of a file in them, and files that a build makes.
PLACES_PAGES = r"CONTRIBUTING\.md|docs/one-request\.md|(?!deploy/chart/)(?:.*/)?README\.md"
FILE_NAME = r"[\w.*-]*\w\.(?:c|h|cu|cuh|rs|py|sh|md|tsv|txt|proto|cmake|S|js|css|html|yaml)"
MADE_FILES = r".*\.pb-c\.[ch]|crates\.tsv"

UNFINISHED = r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK|not implem[e]nted|placeh[o]lder)\b"
TEST_HOOK = r"\w+_for_test\b|#\s*if(def)?\s+.*\b(TEST|TESTING|UNIT_TEST)\b"


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}: {self.sentence}"


class Tree:
    """The files of a repository that git knows or would add."""

    def __init__(self, root: Path):
        self.root = root
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True).stdout.decode()
        self.paths = sorted({p for p in listed.split("\0") if p and (root / p).is_file()})
        self._texts: dict[str, str] = {}

    def text(self, path: str) -> str:
        if path not in self._texts:
            data = (self.root / path).read_bytes()
            self._texts[path] = "" if b"\0" in data[:8000] else data.decode("utf-8", "replace")
        return self._texts[path]

    def has(self, path: str) -> bool:
        return (self.root / path).is_file()

    def code(self, *, tests: bool) -> list[str]:
        """C files and headers; without tests only those of the table of folders."""
        folders = set(self.depends())
        return [p for p in self.paths if p.endswith((".c", ".h"))
                and (p.split("/")[0] in folders or (tests and p.startswith("tests/")))]

    def depends(self) -> dict[str, set[str]]:
        """The table of folders in CMakeLists.txt: folder -> what it may include."""
        return self._table("folder")

    def rooms(self) -> dict[str, set[str]]:
        """Its table of rooms: a folder that has others in it, or one of those -> rooms of the same folder that it may include."""
        return self._table("room")

    def _table(self, command: str) -> dict[str, set[str]]:
        table = {}
        for name, arguments in re.findall(rf"^{command}\(([\w/]+)([^)]*)\)", self.text("CMakeLists.txt"), re.M):
            listed = re.search(r"DEPENDS\s+(.*?)(?:\bLINK\b|$)", arguments, re.S)
            table[name] = set(listed.group(1).split()) if listed else set()
        return table


def without_comments(text: str, *, keep_strings: bool = False) -> str:
    """Same lines and columns; comments, and what is in quotes, are blanks."""
    def blank(match: re.Match) -> str:
        token = match.group(0)
        if token[0] in "\"'":
            return token if keep_strings else token[0] + " " * (len(token) - 2) + token[-1]
        return re.sub(r"[^\n]", " ", token)
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


# ---- rules ----

def include_arrows(tree: Tree) -> Iterator[Finding]:
    depends, rooms = tree.depends(), tree.rooms()
    for path in tree.code(tests=False):
        folder, room = path.split("/")[0], path.rpartition("/")[0]
        if room != folder and room not in rooms:
            yield Finding(path, 0, "include", f"{room}/ is no room of CMakeLists.txt")
        text = without_comments(tree.text(path), keep_strings=True)
        for match in re.finditer(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            target = match.group(1)
            line = line_of(text, match.start(1))
            other = target.split("/")[0]
            if target.endswith(".pb-c.h"):
                continue  # generated; foreign_headers says who may
            if other not in depends:
                yield Finding(path, line, "include", f'"{target}" names no folder of CMakeLists.txt')
            elif other != folder and other not in depends[folder]:
                yield Finding(path, line, "include", f"{folder}/ may not include {other}/")
            elif other == folder and target.rpartition("/")[0] not in {room, *rooms.get(room, ())}:
                yield Finding(path, line, "include", f"{room}/ may not include {target.rpartition('/')[0]}/")


def room_order(tree: Tree) -> Iterator[Finding]:
    """A room includes those above it in the table. Only a folder and what is in it may include each other: it has the interface."""
    rooms = tree.rooms()
    for place, (room, others) in enumerate(rooms.items()):
        for other in sorted(others - set(list(rooms)[:place])):
            if not room.startswith(f"{other}/") and not (other in rooms and other.startswith(f"{room}/")):
                yield Finding("CMakeLists.txt", 0, "room", f"{room} depends on {other}, which does not come before it")


def strongly_connected(arrows: dict[str, set[str]]) -> Iterator[list[str]]:
    """Of more than one node each: Tarjan's, without recursion."""
    number, low, open_nodes = {}, {}, []
    for start in sorted(arrows):
        path = [] if start in number else [(start, iter(sorted(arrows[start])))]
        while path:
            node, rest = path[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                open_nodes.append(node)
            for other in rest:
                if other not in number:
                    path.append((other, iter(sorted(arrows.get(other, ())))))
                    break
                if other in open_nodes:
                    low[node] = min(low[node], number[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[node])
                if low[node] == number[node]:
                    place = open_nodes.index(node)
                    found, open_nodes[place:] = sorted(open_nodes[place:]), []
                    if len(found) > 1:
                        yield found


def circles(tree: Tree) -> Iterator[Finding]:
    """x.c and x.h are one module; a .cu, which is a unit of kernels, is one of its own. Modules that include each other in a
    circle are x and what it is made of (x_parts, x_state), or their folder's README says why: `Circle: a, b: why`."""
    depends = tree.depends()
    code = [p for p in tree.paths if p.endswith((".c", ".h", ".cu", ".cuh")) and p.split("/")[0] in depends]

    def module_of(path: str) -> str:
        return path if path.endswith(".cu") else path.rsplit(".", 1)[0]

    modules = {module_of(p) for p in code}
    reasons = {}  # a circle -> where it is explained
    for readme in tree.paths:
        folder, _, name = readme.rpartition("/")
        if name == "README.md" and folder.split("/")[0] in depends:
            for line in re.finditer(r"^Circle: (?:([\w, ]+): \S)?", tree.text(readme), re.M):
                number = line_of(tree.text(readme), line.start())
                if not line.group(1):
                    yield Finding(readme, number, "circle", "a line that begins with Circle: has names, a colon and why")
                    continue
                circle = frozenset(f"{folder}/{one.strip()}" for one in line.group(1).split(","))
                reasons[circle] = readme, number

    arrows: dict[str, set[str]] = {module: set() for module in modules}
    for path in code:
        module = module_of(path)
        text = without_comments(tree.text(path), keep_strings=True)
        for target in re.findall(r'^\s*#\s*include\s+"([^"]+)\.\w+"', text, re.M):
            if target in modules and target != module:
                arrows[module].add(target)
    for circle in strongly_connected(arrows):
        folders = {module.rpartition("/")[0] for module in circle}
        is_one = len({re.sub(r"_(parts|state)$", "", module) for module in circle}) == 1
        if not is_one and not reasons.pop(frozenset(circle), None):
            names = ", ".join(m.removeprefix(f"{min(folders)}/") if len(folders) == 1 else m for m in circle)
            yield Finding(min(folders), 0, "circle", f"{names} include each other")
    for circle, (readme, line) in reasons.items():
        names = ", ".join(sorted(module.rpartition("/")[2] for module in circle))
        yield Finding(readme, line, "circle", f"{names} are no circle: delete the line")


def foreign_headers(tree: Tree) -> Iterator[Finding]:
    for path in tree.code(tests=False):
        text = without_comments(tree.text(path), keep_strings=True)
        for match in re.finditer(r'^\s*#\s*include\s+(["<][^">]+[">])', text, re.M):
            for header, allowed in FOREIGN_HEADERS:
                if re.match(header, match.group(1)) and not re.fullmatch(allowed, path):
                    yield Finding(path, line_of(text, match.start(1)), "foreign header",
                                  f"{match.group(1)} belongs in {allowed}")


def pure_policy(tree: Tree) -> Iterator[Finding]:
    for path in tree.code(tests=False):
        text = without_comments(tree.text(path), keep_strings=True)
        for match in re.finditer(r'^\s*#\s*include\s+(["<][^">]+[">])', text, re.M):
            if re.fullmatch(POLICY, path) and not re.fullmatch(POLICY_INCLUDES, match.group(1)):
                yield Finding(path, line_of(text, match.start(1)), "policy",
                              f"{match.group(1)}: a decision has no clock, no I/O and no engine")


def arguments_at(text: str, start: int) -> str:
    """From behind a call's opening bracket to its closing one."""
    depth, at = 1, start
    while at < len(text) and depth > 0:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return text[start:at - 1]


def device_bytes(tree: Tree) -> Iterator[Finding]:
    for path in tree.code(tests=False):
        if re.fullmatch(DEVICE_FOLDERS, path):
            continue
        text = without_comments(tree.text(path))
        for match in re.finditer(TOUCHES, text):
            arguments = re.sub(r"(&|\bsizeof )[\w.>-]+", "", arguments_at(text, match.end()))  # of the address itself
            if re.search(DEVICE_ADDRESS, arguments) or (
                    re.fullmatch(DEVICE_ONLY, path) and match.group(1).startswith("mem")):
                yield Finding(path, line_of(text, match.start()), "device",
                              f"{match.group(1)} touches what is the device's: device/device.h")
        for match in re.finditer(rf"(?:{DEVICE_ADDRESS})", text):
            end = match.end()
            if match.group(0).endswith("("):
                end += len(arguments_at(text, end)) + 1
            if re.match(r"\s*(?:\.base\s*)?\[", text[end:]):
                yield Finding(path, line_of(text, match.start()), "device",
                              f"{match.group(0).rstrip('(')}[...] touches what is the device's: device/device.h")


def readmes(tree: Tree) -> Iterator[Finding]:
    product = set(tree.depends())
    folders = {p.split("/")[0] for p in tree.paths if "/" in p}
    folders |= set(tree.rooms())
    folders |= {"/".join(p.split("/")[:2]) for p in tree.paths
                if p.startswith("tests/") and p.count("/") > 1 and p.split("/")[1] not in product}
    for folder in sorted(folders):
        if folder.startswith("."):
            continue
        path = f"{folder}/README.md"
        if not tree.has(path):
            yield Finding(folder, 0, "readme", "the folder has no README.md")
            continue
        lines = re.sub(PRINTED, "", tree.text(path)).splitlines()
        if len(lines) not in README_LINES:
            yield Finding(path, 0, "readme", f"{len(lines)} lines; about 15 are wanted")
        if not lines or not lines[0].startswith("# "):
            yield Finding(path, 1, "readme", "starts with no `# folder - what it is`")


def functions(text: str) -> Iterator[tuple[str, int, int]]:
    """(name, first line, lines) of each function; clang-format puts its braces into column 0."""
    lines = without_comments(text).splitlines()
    start = None
    for number, line in enumerate(lines):
        if line == "{":
            start = number
        elif line.startswith("}") and start is not None:
            head = start
            while head > 0 and lines[head - 1].strip() and not re.match(r"[}#]|.*;$", lines[head - 1]):
                head -= 1
            name = re.search(r"(\w+)\s*\(", " ".join(
                l for l in lines[head:start] if not l.startswith("__attribute__")))
            yield (name.group(1) if name else "?", head + 1, number - head + 1)
            start = None


def measured_lengths(tree: Tree) -> dict[str, tuple[int, int]]:
    """What is too long: key -> (lines, line it starts in)."""
    found = {}
    for path in tree.code(tests=True):
        text = tree.text(path)
        if (n := len(text.splitlines())) > FILE_LINES_MAX:
            found[path] = (n, 1)
        for name, line, n in functions(text):
            if n > FUNCTION_LINES_MAX:
                found[f"{path}:{name}"] = (n, line)
    return found


def allowed_lengths(tree: Tree) -> dict[str, int]:
    rows = [line.split() for line in tree.text(LENGTHS).splitlines()
            if line.strip() and not line.startswith("#")] if tree.has(LENGTHS) else []
    return {key: int(n) for key, n in rows}


def lengths(tree: Tree) -> Iterator[Finding]:
    found, allowed = measured_lengths(tree), allowed_lengths(tree)
    for key, (n, line) in found.items():
        path = key.split(":")[0]
        most = FUNCTION_LINES_MAX if ":" in key else FILE_LINES_MAX
        if n > allowed.get(key, most):
            yield Finding(path, line, "length", f"{key} has {n} lines, {allowed.get(key, most)} are allowed")
    for key, n in allowed.items():
        if key not in found or found[key][0] < n:
            now = found[key][0] if key in found else "short enough"
            yield Finding(LENGTHS, 0, "length", f"{key} is {now} now: lower its row (tidy.py --lengths)")


def banned_calls(tree: Tree) -> Iterator[Finding]:
    for path in tree.code(tests=True):
        text = without_comments(tree.text(path))
        for calls, why, allowed in BANNED_CALLS:
            if allowed and re.fullmatch(allowed, path):
                continue
            for match in re.finditer(rf"(?<![\w.>])({calls})\s*\(", text):
                yield Finding(path, line_of(text, match.start()), "call", f"{match.group(1)}: {why}")


def sized_once(tree: Tree) -> Iterator[Finding]:
    for path in tree.code(tests=False):
        if not re.fullmatch(SIZED, path):
            continue
        text = without_comments(tree.text(path))
        for match in re.finditer(MEMORY_CALLS, text):
            line = line_of(text, match.start())
            name = next((n for n, first, n_lines in functions(text) if first <= line < first + n_lines), "no function")
            if not re.fullmatch(MAKES, name):
                yield Finding(path, line, "memory", f"{match.group(1)} in {name}, which makes nothing")


def config_rows(tree: Tree) -> Iterator[Finding]:
    code = tree.code(tests=False)
    bodies = {path: without_comments(tree.text(path)) for path in code}
    # Handing a value on under the same name reads nothing yet.
    reading = [re.sub(r"\.(\w+)\s*=\s*\(?\w+\)?(->|\.)\1\b", "", body) for body in bodies.values()]
    for path in code:
        for table in re.finditer(r"#\s*define\s+(\w*CONFIG\w*)\(X\)((?:.*\\\n)*.*)", bodies[path]):
            for row in re.finditer(r"\bX\(\s*(\w+)\s*,", table.group(2)):
                use = re.compile(rf"(->|\.)\s*{row.group(1)}\b")
                if not any(use.search(body) for body in reading):
                    line = line_of(bodies[path], table.start(2) + row.start())
                    yield Finding(path, line, "config", f"nobody reads {row.group(1)}")


def status_rows(tree: Tree) -> Iterator[Finding]:
    header = "base/status.h"
    if not tree.has(header):
        return
    text = without_comments(tree.text(header))
    used = set()
    for path in tree.code(tests=False):
        if path.endswith(".c") and path != "base/status.c":
            used |= set(re.findall(r"\bSTATUS_(\w+)", without_comments(tree.text(path))))
    for row in re.finditer(r"^\s*X\((\w+),", text, re.M):
        if row.group(1) not in used:
            yield Finding(header, line_of(text, row.start(1)), "status",
                          f"STATUS_{row.group(1)} is never returned")


def foreign_places(tree: Tree) -> Iterator[Finding]:
    for path in tree.paths:
        text = tree.text(path)
        if path.endswith((".json", ".jsonl")) and len(text) > 200_000:
            continue  # goldens and vocabularies
        for pattern, what in FOREIGN_PLACES:
            for match in re.finditer(pattern, text):
                yield Finding(path, line_of(text, match.start()), "place", f"{match.group(0)}: {what}")


def unfinished(tree: Tree) -> Iterator[Finding]:
    for path in tree.code(tests=True):
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if match := re.search(UNFINISHED, line):
                yield Finding(path, number, "unfinished", match.group(0))


def test_hooks(tree: Tree) -> Iterator[Finding]:
    for path in tree.code(tests=False):
        for number, line in enumerate(without_comments(tree.text(path)).splitlines(), 1):
            if match := re.search(TEST_HOOK, line):
                yield Finding(path, number, "test hook", f"{match.group(0)} in the product")


def listed_sources(tree: Tree) -> Iterator[Finding]:
    """Files of kernels/ are compiled by explicit lists, each for some sets of instructions: one that is in none is
    compiled for none, and nobody would notice."""
    lists = "kernels/CMakeLists.txt"
    listed = re.findall(r"[\w/]+\.c\b", re.sub(r"#.*", "", tree.text(lists))) if tree.has(lists) else []
    sources = {p.removeprefix("kernels/") for p in tree.paths if p.startswith("kernels/") and p.endswith(".c")}
    for source in sorted(sources - set(listed)):
        yield Finding(f"kernels/{source}", 0, "list", f"in none of the lists of {lists}")
    for source in sorted({s for s in listed if listed.count(s) > 1}):
        yield Finding(lists, 0, "list", f"{source} is listed twice")


def bodies(text: str) -> dict[str, int]:
    """Name of a wrapper -> how many bodies there are, for arguments of different types."""
    names = re.findall(r"^(?:template <[^>\n]*>\s+)?DEVICE [\w ]+?[ *](\w+)\(", without_comments(text), re.M)
    return {name: names.count(name) for name in names}


def conformed(tree: Tree) -> Iterator[Finding]:
    """A wrapper has a body for the device and one for the host, and a kernel that shows that they do the same."""
    kernels = "\n".join(without_comments(tree.text(p)) for p in tree.paths
                        if p.startswith(CONFORMS) and p.endswith(".cuh"))
    others = "\n".join(without_comments(tree.text(p)) for p in tree.paths
                       if p.endswith(".cuh") and p not in {device for device, _ in WRAPPERS})
    for device, host in WRAPPERS:
        if not tree.has(device):
            continue
        of_device, of_host = bodies(tree.text(device)), bodies(tree.text(host)) if tree.has(host) else {}
        for name, n in of_device.items():
            line = line_of(tree.text(device), tree.text(device).find(f" {name}("))
            is_used = re.search(rf"\b{name}\b", others) is not None
            if of_host.get(name, 0) != n and (name in of_host or is_used):
                yield Finding(device, line, "wrapper", f"{name} has {n} bodies here and {of_host.get(name, 0)} in {host}")
            calls = len(re.findall(rf"\b{name}(?:<[^>\n]*>)?\(", kernels))
            if name in of_host and calls < n:
                yield Finding(device, line, "wrapper", f"{name} has {n} bodies and {calls} calls in {CONFORMS}")
        for name in sorted(of_host.keys() - of_device.keys()):
            if not name.startswith("simt_"):
                yield Finding(host, 0, "wrapper", f"{name} has no body in {device}")


def named_paths(tree: Tree) -> Iterator[Finding]:
    """A path is named from the root, from the page's folder or by its end; a module without .c, a decision by its number. In a name
    `*` and words in capitals stand for any text, `{a,b}` for either."""
    folders = {"/".join(p.split("/")[:n]) for p in tree.paths for n in range(1, p.count("/") + 1)}
    modules = {p.rsplit(".", 1)[0] for p in tree.paths if p.endswith((".c", ".h"))}
    decisions = {p[:len("docs/decisions/0000")] for p in tree.paths if p.startswith("docs/decisions/")}
    places = [f"/{place}" for place in sorted({*tree.paths, *folders, *modules, *decisions})]
    known = set(places)
    ends = {place[at + 1:] for place in places for at in range(len(place)) if place[at] == "/"}

    def is_there(name: str, folder: str) -> bool:
        if name in ends or f"/{posixpath.normpath(f'{folder}/{name}')}" in known or re.fullmatch(MADE_FILES, name):
            return True
        pattern = re.sub(r"\{.*?\}", lambda m: f"({m.group()[1:-1].replace(',', '|')})", name.replace(".", r"\."))
        pattern = re.sub(r"\*|(?<![A-Za-z0-9])[A-Z]+(?![A-Za-z0-9]|\\\.md$)", "[^/]*", pattern)
        return pattern != name.replace(".", r"\.") and any(re.search(f"/{pattern}$", place) for place in places)

    for path in tree.paths:
        if not re.fullmatch(PLACES_PAGES, path):
            continue
        folder, text = path.rpartition("/")[0], tree.text(path)
        roots = {place.split("/")[1] for place in places} | {p[len(folder) + 1:].split("/")[0] for p in folders if p.startswith(f"{folder}/")}
        for match in re.finditer(r"(?<![\w/.:@$~<-])[\w.{*][\w.*{},-]*(?:/[\w.*{},-]*)*", text):
            name = match.group().rstrip(".,/")
            is_path = "/" in name and name.split("/")[0] in roots
            if (is_path or re.fullmatch(f"(?:[^/]+/)*{FILE_NAME}", name)) and not is_there(name, folder):
                yield Finding(path, line_of(text, match.start()), "path", f"there is no {name}")


def mistakes_fit(tree: Tree) -> Iterator[Finding]:
    """A planted mistake is a text of the product that stands there once; only nightly runs plant all of them."""
    for path, folder, old in MISTAKES:
        lines = tree.text(path).splitlines() if tree.has(path) else []
        for number, fields in enumerate((line.split("\t") for line in lines), 1):
            source = fields[0] if fields[0].startswith("tests/") else folder + fields[0]
            if fields[0] == "file":
                continue
            n = tree.text(source).count(fields[old].replace("\\n", "\n")) if tree.has(source) else 0
            if n != 1:
                yield Finding(path, number, "mistake", f"{source} has its text {n} times")


RULES = [include_arrows, room_order, circles, foreign_headers, pure_policy, device_bytes, readmes, lengths, banned_calls, sized_once, config_rows,
         status_rows, foreign_places, unfinished, test_hooks, listed_sources, conformed,
         mistakes_fit, named_paths]


def print_lengths(tree: Tree) -> None:
    """The table with each row lowered to what is there; new rows are for a person to add."""
    found, allowed = measured_lengths(tree), allowed_lengths(tree)
    for line in tree.text(LENGTHS).splitlines():
        if line.startswith("#"):
            print(line)
    for key in sorted(allowed):
        if key in found:
            print(key, min(found[key][0], allowed[key]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--lengths", action="store_true")
    options = parser.parse_args()

    tree = Tree(options.root)
    if options.lengths:
        print_lengths(tree)
        return 0
    findings = [finding for rule in RULES for finding in rule(tree)]
    for finding in findings:
        print(finding)
    print(f"tidy: {len(RULES)} rules, {len(tree.paths)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
