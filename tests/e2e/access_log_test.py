"""A request leaves one line of log in each process it went through, under one name, and each line of each log is JSON.

    access_log_test.py KVFERRY MODEL_FOLDER
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster
from tokens import Tokens

BINARY, MODEL = sys.argv[1:3]
PROMPT = "In the beginning God created the heaven and the earth. " * 12
LINES = {"router": "request done", "gen-worker": "decode done", "ctx-worker": "prefill done"}
KEYS = {"ts", "level", "role", "name", "msg", "request_id", "status", "code", "prompt_tokens", "cached_tokens",
        "total_ms", "queue_ms", "prefill_ms", "kv_bytes"}


def generate(cluster, request_id, *flags):
    return subprocess.run(
        [BINARY, "generate", "--server", cluster.router.ports["grpc"], "--max-tokens", "5", "--temperature", "0",
         "--request-id", request_id, *flags, PROMPT],
        capture_output=True, text=True, timeout=120)


def run(request_ids, *arguments):
    cluster = Cluster(BINARY, MODEL, True, *arguments, router_arguments=arguments)
    results = [generate(cluster, request_id) for request_id in request_ids]
    return results, lines_of(cluster)


def lines_of(cluster):
    """The lines of all three, parsed, once they have ended."""
    cluster.stop()
    lines = []
    for process in cluster.processes:
        process.log.seek(0)
        lines += [json.loads(line) for line in process.log.read().splitlines()]
    return lines


def drain(process):
    subprocess.run([BINARY, "drain", "--server", process.ports["control"], "--wait-ms", "60s"], check=True,
                   capture_output=True)


class AccessLog(unittest.TestCase):
    def test_one_line_in_each_process_under_one_name(self):
        request_ids = ["mine", 'a "quoted" \\ name=with spaces']
        results, lines = run(request_ids)
        for request_id, result in zip(request_ids, results):
            self.assertEqual(result.returncode, 0, result.stderr)
            found = {line["role"]: line for line in lines
                     if line.get("request_id") == request_id and line["msg"] in LINES.values()}
            self.assertEqual({role: line["msg"] for role, line in found.items()}, LINES)
            for line in found.values():
                self.assertLessEqual(KEYS, set(line), line)
                self.assertEqual((line["status"], line["code"]), ("OK", 0))
                self.assertNotIn("trace_id", line)
            self.assertEqual(len({line["prompt_tokens"] for line in found.values()}), 1)
            self.assertEqual(found["router"]["generated_tokens"], 5)
            self.assertEqual(found["gen-worker"]["generated_tokens"], 5)
            self.assertNotIn("beginning", json.dumps(lines), "nothing of a prompt is logged")
        first = [line for line in lines if line.get("request_id") == "mine" and line["msg"] in LINES.values()]
        self.assertEqual(len(first), 3)
        self.assertTrue(all(line["kv_bytes"] > 0 for line in first))

    def test_a_worker_that_refuses_says_so(self):
        """The router does not hear that they drain before a minute is over."""
        cluster = Cluster(BINARY, MODEL, True, router_arguments=("--poll-ms", "1m"))
        self.assertEqual(generate(cluster, "before").returncode, 0)  # now the workers know each other
        drain(cluster.context)
        self.assertEqual(generate(cluster, "first").returncode, 0, "it is computed where it is decoded")
        drain(cluster.generation)
        self.assertNotEqual(generate(cluster, "second", "--deadline-ms", "2s").returncode, 0)
        refused = [line for line in lines_of(cluster)
                   if line["msg"] in ("prefill done", "decode done") and line["status"] == "DRAINING"]
        self.assertIn(("ctx-worker", "prefill done", "first"), {tuple(
            line[key] for key in ("role", "msg", "request_id")) for line in refused})
        self.assertIn(("gen-worker", "decode done", "second"), {tuple(
            line[key] for key in ("role", "msg", "request_id")) for line in refused})
        self.assertTrue(all(line["code"] == 14 and line["total_ms"] >= 0 for line in refused), refused)

    def test_a_tenant_that_is_refused_at_the_door_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Tokens(BINARY, f"{folder}/tokens.yaml")
            files = {}
            for tenant, flags in (("acme", ("--requests-per-second", "1")), ("reader", ("--methods", "ListModels"))):
                files[tenant] = pathlib.Path(folder, tenant)
                files[tenant].write_text(tokens.add(tenant, *flags))
            files["nobody"] = pathlib.Path(folder, "nobody")
            files["nobody"].write_text("x" * 43)
            cluster = Cluster(BINARY, MODEL, True, router_arguments=("--tokens-file", str(tokens.file)))
            results = {name: generate(cluster, name, "--token-file", str(file)) for name, file in files.items()}
            again = [generate(cluster, f"again{i}", "--token-file", str(files["acme"])) for i in range(3)]
            lines = lines_of(cluster)
        self.assertEqual(results["acme"].returncode, 0, results["acme"].stderr)
        self.assertTrue(any(result.returncode for result in again), "a second has one request")
        refused = [line for line in lines if line["msg"] == "request refused"]
        self.assertEqual({(line["tenant"], line["status"]) for line in refused},
                         {("acme", "QUOTA"), ("reader", "NOT_ALLOWED")})
        self.assertTrue(all(line["request_id"] and line["peer"] and line["why"] for line in refused), refused)
        self.assertEqual(len(refused), 1 + sum(result.returncode != 0 for result in again))
        self.assertNotIn("nobody", [line.get("request_id") for line in lines], "a stranger has no line of its own")
        self.assertTrue(any(line["msg"] == "call refused" for line in lines), "but is counted")

    def test_they_can_be_switched_off(self):
        results, lines = run(["mine"], "--no-access-log")
        self.assertEqual(results[0].returncode, 0, results[0].stderr)
        self.assertEqual([line for line in lines if line["msg"] in LINES.values()], [])
        self.assertTrue(any(line["msg"].startswith("ready in") for line in lines), "the rest is there")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
