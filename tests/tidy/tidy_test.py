"""tidy: each rule finds the example planted for it, and nothing in a tree that is right."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import tidy

README = "# x - what it is\n\na\nb\nc\n"

# A small tree that breaks no rule.
RIGHT = {
    "CMakeLists.txt": "folder(base LINK m)\nfolder(rpc DEPENDS base)\nfolder(kvtransfer DEPENDS base)\n"
                      "folder(schedule DEPENDS base)\nfolder(model DEPENDS base)\n"
                      "folder(router DEPENDS rpc base LINK x)\n"
                      "room(rpc)\nroom(rpc/server DEPENDS rpc)\n"
                      "room(kvtransfer/drivers/ucx)\nroom(kvtransfer DEPENDS kvtransfer/drivers/ucx)\n",
    "base/README.md": README + "Circle: yang, yin: neither is without the other\n",
    "rpc/README.md": README,
    "router/README.md": README,
    "rpc/server/README.md": README,
    "kvtransfer/README.md": README,
    "kvtransfer/drivers/ucx/README.md": README,
    "schedule/README.md": README,
    "model/README.md": README,
    "schedule/schedule.c": '#include "base/status.h"\n#include <assert.h>\n'
                           "void *schedule_create(void)\n{\n    return calloc(1, 8);\n}\n",
    "tests/README.md": README,
    "tests/sim/README.md": README,
    "tests/sim/sim_test.c": "int main(void)\n{\n    return 0;\n}\n",
    "base/status.h": '#define STATUS_TABLE(X) \\\n    X(OK, 0, "", "ok") \\\n    X(BUG, 13, "BUG", "x")\n',
    "base/status.c": "STATUS_OK STATUS_BUG\n",
    "base/ring.c": '#include "base/status.h"\nint f(void)\n{\n    return STATUS_OK + STATUS_BUG;\n}\n',
    "rpc/server/server.c": '#include <grpc/grpc.h>\n#include "base/status.h"\n',
    "kvtransfer/drivers/ucx/ucx_transport.c": "#include <ucp/api/ucp.h>\n",
    "router/router_config.h": '#define ROUTER_CONFIG(X) \\\n    X(port, U32(0, 1), "1", "", "h") \\\n'
                              '    X(name, STRING, "", "", "h")\n',
    "router/router.c": '#include "rpc/server/server.h"\nint g(struct c *c)\n{\n    return c->port + c->name[0];\n}\n',
    "kernels/README.md": README,
    "kernels/cuda/hardware.cuh": "DEVICE int f(int v)\n{\n}\ntemplate <int N> DEVICE void g()\n{\n}\n",
    "tests/simt/README.md": README,
    "tests/simt/harness/hardware_host.h": "DEVICE int f(int v)\n{\n}\ntemplate <int N> DEVICE void g()\n{\n}\n",
    "kernels/cuda/conform/conform.cuh": "DEVICE void body()\n{\n    f(1);\n    g<2>();\n}\n",
    "base/loop.c": '#include "base/ring.h"\n',
    "base/loop_turn.c": '#include "base/loop.h"\n',
    "base/turn.h": '#include "base/turn_state.h"\n',
    "base/turn_state.h": '#include "base/turn.h"\n',
    "base/turn_parts.c": '#include "base/turn_state.h"\n',
    "model/tile.cuh": '#include "model/sums.cuh"\n',
    "model/tile.cu": '#include "model/tile.cuh"\n',
    "model/sums.cuh": "DEVICE int sum(int v);\n",
    "model/sums.cu": '#include "model/tile.cuh"\n',
    "base/yin.h": '#include "base/yang.h"\n',
    "base/yang.h": '#include "base/yin.h"\n',
    "rpc/server/call.c": '#include "rpc/port.h"\n',
    "router/generation_service.c": '#include "proto/x.pb-c.h"\n'.replace("proto/", "rpc/"),
}

LONG = "int f(void)\n{\n" + "    g();\n" * 60 + "}\n"

# rule -> (path, text, part of the finding); the text replaces the file of the right tree.
PLANTED = {
    "upwards": ("base/clock.c", '#include "rpc/server/server.h"\n', "base/clock.c:1: include: base/ may not include rpc/"),
    "sideways": ("rpc/x.c", '\n#include "router/router.h"\n', "rpc/x.c:2: include: rpc/ may not include router/"),
    "no folder": ("rpc/x.c", '#include "server.h"\n', 'include: "server.h" names no folder'),
    "a room nobody declared": ("rpc/x/x.c", "\n", "rpc/x/x.c:0: include: rpc/x/ is no room of CMakeLists.txt"),
    "a room upwards": ("rpc/x.c", '#include "rpc/server/server.h"\n', "rpc/x.c:1: include: rpc/ may not include rpc/server/"),
    "a room of a later one": ("CMakeLists.txt", RIGHT["CMakeLists.txt"] + "room(rpc/tls DEPENDS rpc/auth)\nroom(rpc/auth)\n",
                              "CMakeLists.txt:0: room: rpc/tls depends on rpc/auth, which does not come before it"),
    "readme of a room": ("CMakeLists.txt", RIGHT["CMakeLists.txt"] + "room(rpc/tls)\n", "rpc/tls:0: readme"),
    "a circle": ("base/ring.h", '#include "base/loop.h"\n', "base:0: circle: loop, ring include each other"),
    "a circle of two folders": ("rpc/port.h", '#include "rpc/server/call.h"\n',
                                "rpc:0: circle: rpc/port, rpc/server/call include each other"),
    "a circle of two names alike": ("base/loop.h", '#include "base/loop_turn.h"\n',
                                   "base:0: circle: loop, loop_turn include each other"),
    "a circle that is gone": ("base/yang.h", "\n", "base/README.md:6: circle: yang, yin are no circle: delete the line"),
    "a circle with one more": ("base/README.md", README + "Circle: ring, yang, yin: none is without the others\n",
                               "base/README.md:6: circle: ring, yang, yin are no circle"),
    "ucx": ("kvtransfer/sender.c", "#include <uct/api/uct.h>\n", "kvtransfer/sender.c:1: foreign header"),
    "grpc": ("router/router.h", "#include <grpc/grpc.h>\n", "router/router.h:1: foreign header"),
    "protobuf": ("router/place.c", '#include "rpc/a.pb-c.h"\n', "router/place.c:1: foreign header"),
    "protobuf-c": ("base/x.c", "#include <protobuf-c/protobuf-c.h>\n", "base/x.c:1: foreign header"),
    "policy with a clock": ("schedule/x.c", '#include "base/clock.h"\n', "schedule/x.c:1: policy: \"base/clock.h\""),
    "policy with I/O": ("schedule/x.c", "\n#include <stdio.h>\n", "schedule/x.c:2: policy: <stdio.h>"),
    "a block summed": ("router/x.c", "x = crc32c(0, block_pool_data(pool, ids[i]),\n block_bytes);\n",
                       "router/x.c:1: device: crc32c touches"),
    "a block copied": ("router/x.c", "\nmemcpy(to,\n  options.pool_base + (a * (b)), n);\n", "router/x.c:2: device: memcpy"),
    "a block looked at": ("router/x.c", "if (block_pool_base(f(pool))[3] == 0)\n", "router/x.c:1: device: block_pool_base[...]"),
    "memory of a device looked at": ("router/x.c", "pool_memory.base [i] = 0;\n", "router/x.c:1: device: pool_memory[...]"),
    "activations moved": ("model/forward/forward.c", "memmove(a, b, n);\n", "model/forward/forward.c:1: device: memmove"),
    "memory": ("schedule/schedule.c", "\nvoid *grow(void *a)\n{\n    return realloc(a, 8);\n}\n",
               "schedule/schedule.c:4: memory: realloc in grow"),
    "a wrapper nobody compares": ("kernels/cuda/conform/conform.cuh", "DEVICE void body()\n{\n    f(1);\n}\n",
                                  "kernels/cuda/hardware.cuh:4: wrapper: g has 1 bodies and 0 calls in"),
    "a wrapper without a host": ("tests/simt/harness/hardware_host.h", "DEVICE int f(int v)\n{\n}\n",
                                 "kernels/cuda/hardware.cuh:4: wrapper: g has 1 bodies here and 0 in"),
    "a wrapper of two types": ("tests/simt/harness/hardware_host.h", "DEVICE int f(int v)\n{\n}\nDEVICE float f(float v)\n{\n}\n",
                               "kernels/cuda/hardware.cuh:1: wrapper: f has 1 bodies here and 2 in"),
    "a wrapper without a device": ("kernels/cuda/hardware.cuh", "DEVICE int f(int v)\n{\n}\n",
                                   "tests/simt/harness/hardware_host.h:0: wrapper: g has no body in"),
    "readme": ("trace/x.c", "\n", "trace:0: readme: the folder has no README.md"),
    "readme of tests": ("tests/e2e/x.c", "\n", "tests/e2e:0: readme"),
    "readme length": ("base/README.md", README + "x\n" * 60, "base/README.md:0: readme: 65 lines"),
    "readme title": ("base/README.md", "x\n" * 10, "base/README.md:1: readme"),
    "long function": ("base/ring.c", LONG + "/* STATUS_BUG */", "base/ring.c:1: length: base/ring.c:f has 63 lines"),
    "long file": ("base/x.c", "\n" * 601, "base/x.c:1: length: base/x.c has 601 lines, 600 are allowed"),
    "grown": ("tests/tidy/lengths.txt", "base/gone.c 700\n", "base/gone.c is short enough now"),
    "strcpy": ("base/x.c", "\nstrcpy(a, b);\n", "base/x.c:2: call: strcpy"),
    "system": ("router/x.c", "if (system (a))\n", "router/x.c:1: call: system"),
    "sleep": ("tests/sim/x.c", "usleep(10);\n", "tests/sim/x.c:1: call: usleep"),
    "nanosleep": ("tests/sim/x.c", "nanosleep(&t, 0);\n", "tests/sim/x.c:1: call: nanosleep"),
    "fork": ("router/x.c", "pid = fork();\n", "router/x.c:1: call: fork"),
    "getenv": ("router/x.c", 'x = getenv("A");\n', "router/x.c:1: call: getenv"),
    "time": ("kvtransfer/x.c", "now = clock_now_ns();\n", "kvtransfer/x.c:1: call: clock_now_ns"),
    "time of a core": ("router/router_core.c", "now = clock_now_ns();\n", "router/router_core.c:1: call: clock_now_ns"),
    "time of a parser": ("rpc/relay/frame.c", "now = clock_now_ns();\n", "rpc/relay/frame.c:1: call: clock_now_ns"),
    "clock": ("router/x.c", "now = time(NULL);\n", "router/x.c:1: call: time"),
    "config": ("router/router.c", "int g(struct c *c)\n{\n    return c->port; /* c->name */\n}\n",
               "router/router_config.h:3: config: nobody reads name"),
    "config handed on": ("router/router.c", "int g(struct c *c)\n{\n    h(c->port, (struct o){.name = c->name});\n}\n",
                         "router/router_config.h:3: config: nobody reads name"),
    "status": ("base/ring.c", "int x = STATUS_OK; /* STATUS_BUG */\n", "base/status.h:3: status: STATUS_BUG"),
    "machine": ("docs.md", "see /ro" + "ot/x\n", "docs.md:1: place"),
    "registry": ("docs.md", "pypi." + "org\n", "docs.md:1: place"),
    "outside": ("docs.md", "see ../sha" + "red/design\n", "docs.md:1: place"),
    "mistakes": ("tests/simt/driver/mutants.tsv", "cuda.c\twrong\tright();\t\n",
                 "tests/simt/driver/mutants.tsv:1: mistake: device/cuda.c has its text 0 times"),
    "a page in capitals that is not there": ("base/README.md", README + "see docs/GONE.md\n", "base/README.md:6: path: there is no docs/GONE.md"),
    "a circle without a reason": ("base/README.md", README + "Circle: yin with yang\n",
                                  "base/README.md:6: circle: a line that begins with Circle: has names, a colon and why"),
    "a path that is not there": ("base/README.md", README + "see `base/ring.c`, base/gone.c\n", "base/README.md:6: path: there is no base/gone.c"),
    "a file that is not there": ("CONTRIBUTING.md", "\n| row | `f` in `ring.c`, `rong.c` beside it |\n", "CONTRIBUTING.md:2: path: there is no rong.c"),
    "a folder that is not there": ("docs/one-request.md", "base/ and `rpc/servers/` and either/or\n",
                                   "docs/one-request.md:1: path: there is no rpc/servers"),
    "unfinished": ("base/x.c", "/* TO" + "DO */\n", "base/x.c:1: unfinished"),
    "in no list": ("kernels/cpu/rows.c", "\n", "kernels/cpu/rows.c:0: list: in none of the lists"),
    "listed twice": ("kernels/CMakeLists.txt", "set(a cpu/x.c)\nset(b cpu/x.c)\n",
                     "kernels/CMakeLists.txt:0: list: cpu/x.c is listed twice"),
    "test hook": ("base/x.h", "void reset_for_test(void);\n", "base/x.h:1: test hook"),
}


def findings_in(files: dict[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run(["git", "init", "-q", folder], check=True)
        for path, text in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        tree = tidy.Tree(root)
        return [str(finding) for rule in tidy.RULES for finding in rule(tree)]


class TidyTest(unittest.TestCase):
    def test_a_right_tree_has_no_findings(self):
        self.assertEqual(findings_in(RIGHT), [])

    def test_each_planted_example_is_found(self):
        for name, (path, text, expected) in PLANTED.items():
            with self.subTest(name):
                found = findings_in({**RIGHT, path: text})
                self.assertTrue(any(expected in finding for finding in found), found)

    def test_comments_and_strings_are_no_calls(self):
        text = '/* strcpy(a, b) */\n// system(x)\nchar *s = "gets(x)";\nx.system(1);\nmy_strcpy(a);\n'
        self.assertEqual(findings_in({**RIGHT, "base/x.c": text}), [])

    def test_an_address_of_a_block_may_be_handed_on(self):
        text = ("device_read(device, block_pool_data(pool, ids[i]), n, &view);\nmemcpy(to, view, n);\n"
                "hash128_chain(key, hash, &address->pool_base, sizeof address->pool_base);\n")
        self.assertEqual(findings_in({**RIGHT, "kvtransfer/x.c": text}), [])

    def test_a_path_may_be_named_by_a_part_or_for_many(self):
        text = ("base/ring.c ring.c ../rpc/server/call.c rpc/server/{call,server}.c `base/r*.c` base/ring server/ X_service.c FOLDER/ring.c "
                "docs/decisions/0001 build/debug/x prefill/decode https://x.org/base/no.c rpc/a.pb-c.h e.g. 1.5 i.e. x.y\n")
        self.assertEqual(findings_in({**RIGHT, "base/ring.h": "\n", "docs/decisions/0001-x.md": "\n", "docs/README.md": README,
                                      "base/README.md": README + "Circle: yang, yin: so\n" + text}), [])

    def test_a_length_may_stay_but_not_grow(self):
        files = {**RIGHT, "base/x.c": LONG}
        self.assertEqual(findings_in({**files, tidy.LENGTHS: "base/x.c:f 63\n", "tests/tidy/README.md": README}), [])
        for n, expected in ((62, "has 63 lines, 62 are allowed"), (64, "is 63 now: lower its row")):
            found = findings_in({**files, tidy.LENGTHS: f"base/x.c:f {n}\n"})
            self.assertTrue(any(expected in finding for finding in found), found)

    def test_every_rule_has_a_planted_example(self):
        found = {f.split(": ")[1] for path, text, _ in PLANTED.values()
                 for f in findings_in({**RIGHT, path: text})}
        self.assertEqual(len(found), len(tidy.RULES), found)

    def test_functions_are_told_from_structs(self):
        text = ("struct a {\n    int x;\n};\n\nstatic int\nlong_name(int a,\n          int b)\n{\n    return 1;\n}\n"
                "static const int t[] = {\n    1,\n};\nvoid g(void)\n{\n}\n")
        self.assertEqual(list(tidy.functions(text)), [("long_name", 5, 6), ("g", 14, 3)])


if __name__ == "__main__":
    unittest.main()
