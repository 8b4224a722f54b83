"""The events of a router's page show what its cluster does: workers, requests, progress, KV; within their bounds.

    page_test.py KVFERRY MODEL_FOLDER
"""

import http.client
import json
import os
import signal
import socket
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

from cluster import Cluster

BINARY, MODEL = sys.argv[1:3]
LIMIT_S = 120
SLOW = ["--prefill-chunk-tokens", "32"]  # a prompt has many steps, and its progress many events
LONG_PROMPT = "In the beginning God created the heaven and the earth. " * 100
LONG_REPLY = 640  # tokens: they fill the context, so that they take longer than the page needs to see them


class Feed:
    """A reader of /events."""

    def __init__(self, process, host=None, path="/events"):
        address, port = process.ports["metrics"].rsplit(":", 1)
        self.connection = http.client.HTTPConnection(address, int(port), timeout=LIMIT_S)
        self.connection.request("GET", path, headers={"Host": host} if host else {})
        self.reply = self.connection.getresponse()

    def next(self):
        line = self.reply.readline()
        while not line.startswith(b"data: "):
            if not line:
                raise RuntimeError("the feed has ended")
            line = self.reply.readline()
        return json.loads(line[len(b"data: "):])

    def wait(self, is_so):
        """The first event of which that is true."""
        until = time.monotonic() + LIMIT_S
        while time.monotonic() < until:
            event = self.next()
            if is_so(event):
                return event
        raise RuntimeError(f"never so; the last event:\n{json.dumps(event, indent=1)}")

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def complete(cluster, prompt, max_tokens, request_id):
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"http://{cluster.router.ports['http']}/v1/completions", body,
                                     {"Content-Type": "application/json", "X-Request-Id": request_id})
    with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
        return json.load(reply)


def start(cluster, prompt, max_tokens, request_id):
    thread = threading.Thread(target=complete, args=(cluster, prompt, max_tokens, request_id))
    thread.start()
    return thread


def by_id(event, where, request_id):
    return next((one for one in event[where] if one["id"] == request_id), None)


class Page(unittest.TestCase):
    def cluster(self, *router_arguments):
        cluster = Cluster(BINARY, MODEL, True, *SLOW,
                          router_arguments=["--page-interval-ms", "100", *router_arguments])
        self.addCleanup(self.end, cluster)
        return cluster

    @staticmethod
    def end(cluster):
        for process in cluster.processes:
            if process.child.poll() is None:
                process.child.kill()
            process.child.wait()

    def test_a_request_is_seen_from_its_prompt_to_its_timeline(self):
        cluster = self.cluster()
        with Feed(cluster.router) as feed:
            first = feed.wait(lambda event: event["router"]["state"] == "ready")
            self.assertEqual([(w["role"], w["state"], w["used"]) for w in sorted(first["workers"], key=lambda w: w["role"])],
                             [("context", "ready", True), ("generation", "ready", True)])
            self.assertEqual(first["live"], [])
            threads = [start(cluster, f"{i} {LONG_PROMPT}", 8, f"other-{i}") for i in range(3)]
            threads.append(start(cluster, LONG_PROMPT, LONG_REPLY, "mine"))
            done = []
            while True:
                event = feed.next()
                live = by_id(event, "live", "mine")
                if live and live["phase"] == "prefill" and (not done or live["done"] != done[-1]):
                    done.append(live["done"])
                if live and live["phase"] == "decode":
                    break
                self.assertIsNone(by_id(event, "ended", "mine"), "it was seen in decode first")
            self.assertGreater(len(done), 1, "progress moves")
            self.assertEqual(done, sorted(done))
            self.assertLessEqual(done[-1], live["prompt"])
            self.assertEqual(live["context"], cluster.context.ports["control"])
            ended = by_id(feed.wait(lambda event: by_id(event, "ended", "mine")), "ended", "mine")
            for thread in threads:
                thread.join()
            self.assertEqual((ended["status"], ended["generated"], ended["place"]), ("OK", LONG_REPLY, "CONTEXT_WORKER"))
            self.assertGreater(ended["kv_bytes"], 0)
            parts = ended["parts"]
            for name in ("prefill", "transfer", "decode"):
                self.assertGreater(parts[name][1], 0, name)
            self.assertEqual(sum(parts["prefill"]), parts["decode"][0])
            self.assertLessEqual(sum(parts["decode"]), ended["total"])
            event = feed.wait(lambda event: len(event["ended"]) == 4)
            moved = sum(one["kv_bytes"] for one in event["ended"])
            self.assertEqual(event["flows"], [{"from": cluster.context.ports["control"],
                                               "to": cluster.generation.ports["control"],
                                               "bytes": moved, "transfers": 4}])
            feed.wait(lambda event: any(w["role"] == "generation" and w.get("kv_in") == moved for w in event["workers"]))

    def test_a_killed_worker_shows(self):
        cluster = self.cluster("--poll-limit-ms", "200")
        with Feed(cluster.router) as feed:
            feed.wait(lambda event: event["router"]["state"] == "ready")
            cluster.context.child.send_signal(signal.SIGKILL)
            event = feed.wait(lambda event: any(w["state"] == "no answer" for w in event["workers"]))
            (gone,) = [w for w in event["workers"] if w["state"] == "no answer"]
            self.assertEqual((gone["role"], gone["used"]), ("context", False))
            self.assertNotEqual(gone["reason"], "")
            self.assertNotIn("blocks", gone)
            cluster.generation.child.send_signal(signal.SIGKILL)
            event = feed.wait(lambda event: event["router"]["state"] == "not ready")
            self.assertIn("generation worker", event["router"]["reason"])

    def test_readers_have_a_bound_and_none_keeps_another_out(self):
        cluster = self.cluster("--page-readers-max", "100")
        feeds = [Feed(cluster.router) for _ in range(100)]
        self.assertEqual({feed.reply.status for feed in feeds}, {200})
        for feed in feeds:
            self.assertEqual(feed.next()["router"]["state"], "ready")
        more = Feed(cluster.router)
        self.assertEqual(more.reply.status, 503)
        more.close()
        self.assertGreater(cluster.router.metric("kvferry_ready"), 0)
        complete(cluster, "In the beginning", 4, "beside")
        for feed in feeds:
            feed.wait(lambda event: by_id(event, "ended", "beside"))
            feed.close()
        with Feed(cluster.router) as feed:  # their places are free when the router has seen that they left
            while feed.reply.status == 503:
                feed.__init__(cluster.router)
            self.assertEqual(feed.reply.status, 200)
        cluster.stop()

    def test_a_slow_reader_is_cut_off_and_others_go_on(self):
        cluster = self.cluster("--page-behind-ms", "1s", "--page-ended-max", "400")
        api = http.client.HTTPConnection(*cluster.router.ports["http"].split(":"), timeout=LIMIT_S)
        for i in range(400):  # each event is long
            api.request("POST", "/v1/completions", json.dumps({"prompt": "In", "max_tokens": 1}),
                        {"Content-Type": "application/json", "X-Request-Id": f"{i}-" + "x" * 110})
            api.getresponse().read()
        api.close()
        address, port = cluster.router.ports["metrics"].rsplit(":", 1)
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((address, int(port)))
        slow.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with Feed(cluster.router) as quick:
            while b"is cut off" not in open(cluster.router.log.name, "rb").read():
                quick.next()
            quick.next()
        slow.settimeout(LIMIT_S)
        try:
            while slow.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        slow.close()
        cluster.stop()

    def test_names_are_for_loopback_alone_unless_a_row_allows_them(self):
        for arguments, is_shown in (([], True), (["--page-names", "off"], False),
                                    (["--metrics-address", "0.0.0.0:0", "--insecure"], False),
                                    (["--metrics-address", "0.0.0.0:0", "--insecure", "--page-names", "on"], True)):
            with self.subTest(arguments):
                cluster = self.cluster(*arguments)
                complete(cluster, "In the beginning", 2, "a-secret-name")
                with Feed(cluster.router) as feed:
                    event = feed.wait(lambda event: event["ended"])
                    self.assertEqual(event["names"], is_shown)
                    self.assertEqual("a-secret-name" in json.dumps(event), is_shown)
                if "0.0.0.0:0" not in arguments:
                    with Feed(cluster.router, host="evil.example") as feed:
                        self.assertEqual(feed.reply.status, 421)
                cluster.stop()

    def test_no_text_of_a_request_is_in_an_event(self):
        cluster = self.cluster()
        with Feed(cluster.router) as feed:
            reply = complete(cluster, "Zerubbabel begat Abiud " * 20, 40, "quiet")
            event = feed.wait(lambda event: by_id(event, "ended", "quiet"))
            self.assertNotIn("Zerubbabel", json.dumps(event))
            self.assertNotIn(reply["choices"][0]["text"][:20], json.dumps(event))

    def test_pages_and_what_is_there_without_one(self):
        cluster = self.cluster()
        for path, kind in (("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")):
            with urllib.request.urlopen(f"http://{cluster.router.ports['metrics']}{path}", timeout=LIMIT_S) as reply:
                self.assertTrue(reply.headers["Content-Type"].startswith(kind))
                self.assertIn("script-src 'self'", reply.headers["Content-Security-Policy"])
                self.assertNotIn("unsafe", reply.headers["Content-Security-Policy"])
        with urllib.request.urlopen(f"http://{cluster.context.ports['metrics']}/", timeout=LIMIT_S) as reply:
            self.assertIn(b"router's metrics port", reply.read())
        cluster.stop()
        cluster = self.cluster("--page=no")
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"http://{cluster.router.ports['metrics']}/events", timeout=LIMIT_S)
        self.assertEqual(refused.exception.code, 404)
        refused.exception.close()
        cluster.stop()

    def test_a_router_with_a_reader_stops(self):
        cluster = self.cluster()
        with Feed(cluster.router) as feed:
            feed.next()
            cluster.router.child.send_signal(signal.SIGTERM)
            while feed.reply.readline():
                pass
        self.assertEqual(cluster.router.stop(), 0)


if __name__ == "__main__":
    del sys.argv[1:3]
    os.environ.pop("KVFERRY_TOKEN", None)
    unittest.main()
