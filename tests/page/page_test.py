"""In a browser the page of a router shows what its cluster does, and the browser has nothing to complain about.

    page_test.py KVFERRY MODEL_FOLDER

It exits with 77 where there is no Chromium. PICTURES: the folder that gets the pictures.
"""

import http.client
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import threading
import unittest
import urllib.request

import chromium
from cluster import Process

BINARY, MODEL = sys.argv[1:3]
PICTURES = os.environ.get("PICTURES")
LIMIT_S = 120
SIZES = ((400, 860), (1280, 900), (1600, 1000))
WORDS = (pathlib.Path(MODEL).parents[1] / "cli" / "demo_prompt.txt").read_text()
HOSTILE = '<script>alert(1)</script><img/src=x/onerror=alert(2)>"&amp;'

# A moment for the picture in docs: prompts are half done, replies are written, the last request's KV moved during its prefill. The page stops.
TELLING = ("document.querySelectorAll('#live .p-decode').length >= 2 && "
           "[...document.querySelectorAll('#live .bar:not([hidden]) i')].some(bar => parseFloat(bar.style.width) > 30) && "
           "[...document.querySelectorAll('.context .prefill')].some(gauge => parseFloat(gauge.querySelector('i').style.width) > 30 &&"
           " !gauge.textContent.includes('no prompt')) && "
           "[...document.querySelectorAll('#ended li:first-child button .s-transfer')].some(part => parseFloat(part.style.width) > 15) && "
           "(source.close(), true)")


class Load(threading.Thread):
    """Asks again and again, from long prompts to short ones, until it is told to stop."""

    def __init__(self, address, number):
        super().__init__(daemon=True)
        self.address, self.number, self.random, self.goes_on, self.n = address, number, random.Random(number), True, 0
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(*self.address.split(":"), timeout=LIMIT_S)
        while self.goes_on:
            prompt = f"{self.random.random()} " + WORDS[:self.random.choice((80, 1200, 3600, 5600))]
            body = json.dumps({"prompt": prompt, "max_tokens": self.random.choice((16, 120, 400)), "ignore_eos": True})
            connection.request("POST", "/v1/completions", body,
                               {"Content-Type": "application/json", "X-Request-Id": f"user-{self.number}.{self.n}"})
            reply = connection.getresponse()
            reply.read()
            if reply.status != 200:
                raise RuntimeError(f"HTTP {reply.status}")
            self.n += 1
        connection.close()


def ask(address, request_id, prompt, max_tokens):
    connection = http.client.HTTPConnection(*address.split(":"), timeout=LIMIT_S)
    connection.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}),
                       {"Content-Type": "application/json", "X-Request-Id": request_id})
    connection.getresponse().read()
    connection.close()


def in_bytes(n):
    unit = next(unit for unit in (0, 1, 2, 3) if n < 1024 ** (unit + 1))
    n /= 1024 ** unit
    return (f"{n:.1f}" if n < 10 and unit else f"{n:,.0f}") + " " + ("B", "KiB", "MiB", "GiB")[unit]


def picture(page, name):
    if PICTURES:
        page.picture(pathlib.Path(PICTURES) / f"{name}.png", whole=False)


class PageTest(unittest.TestCase):
    def setUp(self):
        self.folder, self.processes = tempfile.TemporaryDirectory(), []
        self.addCleanup(self.end)

    def start(self, name, role, *arguments):
        os.mkdir(f"{self.folder.name}/{len(self.processes)}")
        process = Process(BINARY, MODEL, f"{self.folder.name}/{len(self.processes)}", role, "--name", name, *arguments)
        self.processes.append(process)
        return process

    def start_all(self, last_name="decode-2"):
        """Two workers of each role, and a router that has seen them."""
        generation = ("gen-worker", "--local-prefill-max-tokens", "0")
        self.contexts = [self.start(name, "ctx-worker") for name in ("prefill-1", "prefill-2")]
        self.generations = [self.start(name, *generation) for name in ("decode-1", last_name)]
        self.router = self.start(
            "router", "router", "--page-interval-ms", "100", "--poll-limit-ms", "500",
            "--context-workers", ",".join(worker.ports["control"] for worker in self.contexts),
            "--generation-workers", ",".join(worker.ports["control"] for worker in self.generations))
        self.url = f"http://{self.router.ports['metrics']}/"

    def end(self):
        for process in reversed(self.processes):
            if process.child.poll() is None:
                process.child.kill()
            process.child.wait()
            process.log.close()
        self.folder.cleanup()

    def expect_content(self, page):
        page.ask("document.fonts.ready.then(() => true)")
        self.assertEqual(page.complaints, [])

    def expect_workers(self, page):
        """Each card says of its worker what the feed says."""
        with urllib.request.urlopen(self.url + "events", timeout=LIMIT_S) as feed:
            workers = json.loads(feed.readline()[len("data: "):])["workers"]
        self.assertEqual(len(workers), 4)
        self.assertEqual(sum(worker["kv_in"] > 0 for worker in workers), 1)
        for worker in workers:
            blocks = worker["blocks"]
            shown = page.ask("(card => ({ name: card.querySelector('h4').textContent, role: card.className, "
                             "blocks: card.querySelector('.pool .text').textContent, "
                             "cached: parseFloat(card.querySelector('.k-cached').style.width), "
                             "figures: [...card.querySelectorAll('dd')].map(node => node.textContent) }))"
                             f"(document.querySelector('.card[data-address=\"{worker['address']}\"]'))")
            self.assertEqual(shown["name"], worker["name"])
            self.assertEqual(shown["role"], f"card {worker['role']} good")
            used = blocks["all"] - blocks["free"] - blocks["cached"]
            self.assertEqual(shown["blocks"], f"{used:,} used · {blocks['cached']:,} cached of {blocks['all']:,}")
            self.assertAlmostEqual(shown["cached"], 100 * blocks["cached"] / blocks["all"], places=2)
            moved = worker["kv_out"] if worker["role"] == "context" else worker["kv_in"]
            self.assertEqual(shown["figures"], ["0", "0", "0 B", in_bytes(moved)])

    def test_an_idle_cluster(self):
        self.start_all(HOSTILE)
        with chromium.Page(self.url) as page:
            page.wait("document.querySelectorAll('.card.good').length === 5")
            self.assertEqual(page.ask("[...document.querySelectorAll('.card h4')].map(node => node.textContent).sort()"),
                             sorted(["router", "prefill-1", "prefill-2", "decode-1", HOSTILE]))
            self.assertEqual(page.ask("document.querySelectorAll('main script, main img').length"), 0, "names stay text")
            self.assertEqual(page.ask("document.querySelectorAll('#links path.moved').length"), 4, "each pair has a line")
            self.assertEqual(page.ask("document.getElementById('running').textContent"), "0")
            self.assertFalse(page.ask("document.getElementById('live-none').hidden"))
            self.assertTrue(page.ask("document.getElementById('moves').hidden"))
            text = page.ask("document.querySelector('.card.context .pool .text').textContent")
            self.assertRegex(text, r"^0 used · 0 cached of [\d,]+$")
            self.expect_content(page)
            page.ask("setTimeout('window.broken = 1'), document.body.insertAdjacentHTML('beforeend', '<b onclick=x() style=color:red>')")
            page.wait("true")
            self.assertTrue(any("Content Security Policy" in text for text in page.complaints),
                            "the policy is there, and complaints are heard")
            self.assertIsNone(page.ask("window.broken"))

    def test_a_cluster_at_work(self):
        self.start_all()
        loads = [Load(self.router.ports["http"], number) for number in range(6)]
        for width, height in SIZES:
            with chromium.Page(self.url, width, height, dark=width == 1600) as page:
                page.wait("document.querySelectorAll('#live li').length >= 3")
                page.wait("document.querySelectorAll('#flows tbody tr').length === 4")
                page.wait("document.querySelectorAll('#ended li').length === 32")
                page.wait("[...document.querySelectorAll('#live .bar:not([hidden]) i')].some(bar => parseFloat(bar.style.width) > 0)")
                page.wait("[...document.querySelectorAll('.card .k-cached')].every(bar => parseFloat(bar.style.width) > 0)")
                page.wait("document.querySelectorAll('#links path.moved.flowing').length > 0")
                page.wait("parseFloat(document.getElementById('tokens').textContent.replace(',', '')) > 0")
                page.wait("/^[\\d.,]+ [KM]iB$/.test(document.getElementById('moved').textContent)")
                page.ask("document.querySelector('#ended li button').click()")
                page.wait("document.querySelectorAll('#ended .more:not([hidden]) .lanes').length >= 2")
                lanes = page.ask("[...document.querySelectorAll('#ended .more:not([hidden]) .lane b')].map(node => node.textContent)")
                self.assertIn(lanes, (["router", "context worker", "KV transfer", "generation worker"], ["router", "generation worker"]))
                self.assertEqual(page.ask("document.documentElement.scrollWidth"), width, "nothing is beside the window")
                self.assertEqual(page.ask("[...document.querySelectorAll('[role=img], [role=progressbar], button')]"
                                          ".filter(node => !node.getAttribute('aria-label') && !node.textContent).length"), 0)
                self.expect_content(page)
                picture(page, f"watch-{width}")
                if width == 1280 and PICTURES:
                    page.resize(1200, 1240)
                    page.wait(TELLING)
                    page.ask("document.querySelector('#ended li button').click()")
                    picture(page, "watch")
        for load in loads:
            load.goes_on = False
        for load in loads:
            load.join()
            self.assertGreater(load.n, 0)

    def test_one_request_and_its_figures(self):
        self.start_all()
        with chromium.Page(self.url) as page:
            page.wait("document.querySelectorAll('.card.good').length === 5")
            identity = "a<b>bold</b>"
            ask(self.router.ports["http"], identity, WORDS[:4000], 50)
            row = "document.querySelector('#ended li')"
            page.wait(f"{row} && {row}.dataset.id === {json.dumps(identity)}")
            self.assertIn(identity, page.ask(f"{row}.querySelector('.who').textContent"))
            self.assertEqual(page.ask(f"{row}.querySelectorAll('.who b').length"), 0)
            self.assertEqual(page.ask(f"{row}.querySelector('.phase').textContent"), "transferred")
            prompt, generated = re.match(r"([\d,]+) \+ (\d+) tokens", page.ask(f"{row}.querySelector('.sum').textContent")).groups()
            self.assertGreater(int(prompt.replace(",", "")), 500)
            self.assertEqual(generated, "50")
            page.ask(f"{row}.querySelector('button').click()")
            strips = page.wait(f"[...{row}.querySelectorAll('.lanes')].map(lane => [...lane.querySelectorAll('.strip i')]"
                               ".map(part => [part.className, parseFloat(part.style.left), parseFloat(part.style.width)]))")
            parts = {name: (left, width) for lane in strips for name, left, width in lane}
            self.assertAlmostEqual(sum(parts["s-prefill"]), parts["s-decode"][0], delta=0.1)
            self.assertLessEqual(sum(parts["s-decode"]), 100.1)
            self.assertGreater(parts["s-transfer"][1], 0)
            cells = page.ask("[...document.querySelectorAll('#flows tbody td')].map(node => node.textContent)")
            self.assertEqual(len(cells), 5)
            self.assertRegex(cells[2], r"^[1-9][\d.,]* [KM]?i?B/s$")
            self.assertRegex(cells[3], r"^[\d.]+ [KM]iB$")
            self.assertEqual(cells[4], "1")
            page.wait("[...document.querySelectorAll('.card.generation .k-cached')].some(bar => parseFloat(bar.style.width) > 0)")
            page.wait("document.getElementById('moved').textContent === '0 B'")  # nothing changes any more
            self.expect_workers(page)
            self.expect_content(page)

    def test_a_killed_worker_and_a_router_that_goes(self):
        self.start_all()
        with chromium.Page(self.url) as page:
            page.wait("document.querySelectorAll('.card.good').length === 5")
            self.contexts[0].child.kill()
            page.wait("document.querySelectorAll('.card.context.bad').length === 1")
            self.assertEqual(page.ask("document.querySelector('.card.context.bad .word').textContent"), "no answer")
            self.assertNotEqual(page.ask("document.querySelector('.card.context.bad .reason').textContent"), "")
            page.wait("document.querySelectorAll('#links path.moved').length === 2")
            self.expect_content(page)
            self.router.stop()
            page.wait("document.getElementById('state').textContent === 'no connection to the router'")


if __name__ == "__main__":
    if not chromium.find():
        print("skipped: there is no Chromium (apt-get install chromium)")
        sys.exit(77)
    del sys.argv[1:3]
    unittest.main()
