"""A request leaves one line of log in each process it went through, under one name, and each line of each log is JSON.

    access_log_test.py KVFERRY MODEL_FOLDER
"""

import json
import subprocess
import sys
import unittest

from cluster import Cluster

BINARY, MODEL = sys.argv[1:3]
PROMPT = "In the beginning God created the heaven and the earth. " * 12
LINES = {"router": "request done", "gen-worker": "decode done", "ctx-worker": "prefill done"}
KEYS = {"ts", "level", "role", "name", "msg", "request_id", "status", "code", "prompt_tokens", "cached_tokens",
        "total_ms", "queue_ms", "prefill_ms", "kv_bytes"}


def generate(cluster, request_id, prompt=PROMPT):
    return subprocess.run(
        [BINARY, "generate", "--server", cluster.router.ports["grpc"], "--max-tokens", "5", "--temperature", "0",
         "--request-id", request_id, prompt],
        capture_output=True, text=True, timeout=120)


def run(request_ids, *arguments):
    """The lines of all three, parsed."""
    cluster = Cluster(BINARY, MODEL, True, *arguments, router_arguments=arguments)
    results = [generate(cluster, request_id) for request_id in request_ids]
    cluster.stop()
    lines = []
    for process in cluster.processes:
        process.log.seek(0)
        lines += [json.loads(line) for line in process.log.read().splitlines()]
    return results, lines


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

    def test_they_can_be_switched_off(self):
        results, lines = run(["mine"], "--no-access-log")
        self.assertEqual(results[0].returncode, 0, results[0].stderr)
        self.assertEqual([line for line in lines if line["msg"] in LINES.values()], [])
        self.assertTrue(any(line["msg"].startswith("ready in") for line in lines), "the rest is there")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
