#!/usr/bin/env python3
"""Over the driver double: what a GPU's worker fetches for a token, and that it takes nothing more once it is ready.

    double_draws_test.py DOUBLE KVFERRY MODEL FOLDER

As double_calls_test.py, whose processes these are. A GPU as context and as generation worker: requests of all kinds, alone and many at
once. A seed has the same text whether its tokens come from a device's candidates or from whole rows; a row crosses only where it is
wanted; and behind ready not one call allocates, loads, captures or creates. Python 3, standard library only.
"""

import re
import subprocess
import sys
import tempfile
import unittest
import urllib.request

from double_calls_test import DOUBLE_SETTINGS, KVFERRY, LIMIT_S, Worker, reports  # which reads the arguments, too

FLAGS = ["--device", "cuda:0", "--kv-memory", "2M", "--max-context-tokens", "128", "--threads", "1", "--no-prefix-cache"]
CHUNKS, TAKES = ["--prefill-chunk-tokens", "16"], ["--local-prefill-max-tokens", "24"]
VOCABULARY, N_TOKENS = 2048, 3
ROW_BYTES = 4 * VOCABULARY
SHORT, LONG = "In the beginning", "And the LORD spake unto Moses, saying, Speak unto all the children of Israel. " * 2
# What takes memory, or makes an object of the driver's.
TAKES_MORE = re.compile(r"^cuda-double: (cu(?:MemAlloc|MemHostAlloc|MemHostRegister|Module|Library|Graph(?!Launch)"
                        r"|Stream(?:Create|BeginCapture)|EventCreate|Ctx(?!SetCurrent)|DevicePrimary)\w*) -> ", re.M)
# Settings that candidates answer, but for a draw that falls behind them.
SETTINGS = [
    ["--temperature", "0", "--repetition-penalty", "1.8"],
    ["--temperature", "0.7", "--seed", "5"],
    ["--temperature", "1", "--seed", "7", "--repetition-penalty", "1.3", "--presence-penalty", "0.4",
     "--frequency-penalty", "0.2"],
]
# No token is as unlikely, so that it changes no draw; but who filters by it has to look at the row.
WHOLE = ["--min-p", "1e-30"]


class Cluster:
    def __init__(self, folder: str):
        self.context = Worker(folder, "ctx-worker", *FLAGS, *CHUNKS)
        self.generation = Worker(folder, "gen-worker", *FLAGS, *TAKES)
        self.workers = [self.context, self.generation]
        for worker in self.workers:
            if not worker.wait_ready():
                raise RuntimeError(worker.log())
        self.at_ready = [len(worker.log()) for worker in self.workers]
        self.router = Worker(folder, "router", "--generation-workers", self.generation.ports["control"],
                             "--context-workers", self.context.ports["control"], program=KVFERRY)
        if not self.router.wait_ready():
            raise RuntimeError(self.router.log())

    def run(self, *flags: str) -> str:
        return end(start(self.router, *flags))

    def kill(self) -> None:
        for worker in [*self.workers, self.router]:
            worker.kill()


def start(router: Worker, *flags: str) -> subprocess.Popen:
    return subprocess.Popen([KVFERRY, "generate", "--server", router.ports["grpc"], "--max-tokens", str(N_TOKENS), "--ignore-eos",
                             "--deadline-ms", "50s", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def end(client: subprocess.Popen) -> str:
    text, sentence = client.communicate(timeout=LIMIT_S)
    if client.returncode:
        raise RuntimeError(sentence)
    return text


def fetched(worker: Worker, since: int) -> list[int]:
    """Bytes of each copy to the host, in what its log got from there on."""
    return [int(n) for n in re.findall(r"cuMemcpyDtoHAsync of (\d+) bytes", worker.log()[since:])]


def metric(worker: Worker, name: str) -> float:
    with urllib.request.urlopen(f"http://{worker.ports['metrics']}/metrics", timeout=LIMIT_S) as answer:
        return float(re.search(rf"^{name}(?:{{[^}}]*}})? (\S+)$", answer.read().decode(), re.M)[1])


class Draws(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        DOUBLE_SETTINGS["DOUBLE_NOTES"] = "1"  # sizes of copies
        cls.folder = tempfile.TemporaryDirectory()
        cls.cluster = Cluster(cls.folder.name)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.cluster.kill()
        cls.folder.cleanup()

    def copies(self, *flags: str) -> tuple[str, list[int]]:
        """A request's text, and what the generation worker fetched for it."""
        since = len(self.cluster.generation.log())
        return self.cluster.run(*flags, SHORT), fetched(self.cluster.generation, since)

    def test_1_weights_were_loaded_with_progress_to_the_end(self) -> None:
        for worker in self.cluster.workers:
            self.assertEqual(metric(worker, "kvferry_model_load_progress_ratio"), 1)

    def test_2_a_seed_has_the_text_of_whole_rows_and_a_row_stays_where_it_is(self) -> None:
        n_whole = 0
        for settings in SETTINGS:
            text, few = self.copies(*settings)
            same, whole = self.copies(*settings, *WHOLE)
            self.assertEqual(text, same, settings)
            self.assertNotIn(ROW_BYTES, few, settings)
            self.assertEqual(len(few), N_TOKENS, settings)
            self.assertLess(max(few), ROW_BYTES / 2)
            if settings[1] != "0":  # greedy tokens are not filtered
                self.assertEqual(whole.count(ROW_BYTES), N_TOKENS, settings)
                n_whole += N_TOKENS
            print(f"{' '.join(settings)}: {sum(few) // N_TOKENS} bytes a token, with whole rows {sum(whole) // N_TOKENS}")
        self.assertEqual(metric(self.cluster.generation, "kvferry_logit_rows_fetched_total"), n_whole)

    def test_3_a_context_worker_draws_the_first_token_the_same_way(self) -> None:
        settings = ["--temperature", "0.9", "--seed", "11"]
        since = [len(worker.log()) for worker in self.cluster.workers]
        text = self.cluster.run(*settings, "--expect-handover", LONG)
        context = fetched(self.cluster.context, since[0])
        self.assertNotIn(ROW_BYTES, context)
        since = len(self.cluster.context.log())
        self.assertEqual(self.cluster.run(*settings, *WHOLE, "--expect-handover", LONG), text)
        self.assertIn(ROW_BYTES, fetched(self.cluster.context, since))

    def test_4_batches_of_all_sizes(self) -> None:
        for n in (2, 5):
            clients = [start(self.cluster.router, *SETTINGS[i % len(SETTINGS)], *(WHOLE if i == 1 else []),
                             LONG if i == 2 else SHORT) for i in range(n)]
            for client in clients:
                self.assertGreater(len(end(client)), 0)

    def test_5_nothing_was_taken_since_they_were_ready(self) -> None:
        for worker, at_ready in zip(self.cluster.workers, self.cluster.at_ready):
            before, since = worker.log()[:at_ready], worker.log()[at_ready:]
            self.assertIn("cuMemAlloc", set(TAKES_MORE.findall(before)), "what is looked for is found where it is")
            self.assertGreater(len(re.findall(r"^cuda-double: cu(?:GraphLaunch|LaunchKernel) -> 0$", since, re.M)), 20)
            self.assertEqual(TAKES_MORE.findall(since), [])
        for worker in self.cluster.workers:
            self.assertEqual(worker.stop(), 0, reports(worker.log()))

    def test_6_a_row_that_cannot_be_fetched_is_a_lost_device(self) -> None:
        victim = Worker(self.folder.name, "gen-worker", *FLAGS, fail="cuMemcpyDtoHAsync:4:719")  # the second token's
        router = None
        try:
            self.assertTrue(victim.wait_ready(), victim.log())
            router = Worker(self.folder.name, "router", "--generation-workers", victim.ports["control"], program=KVFERRY)
            self.assertTrue(router.wait_ready(), router.log())
            with self.assertRaisesRegex(RuntimeError, "DEVICE_LOST: "):
                end(start(router, *SETTINGS[1], *WHOLE, SHORT))
            self.assertEqual(victim.child.wait(LIMIT_S), 1)
            self.assertEqual([n == ROW_BYTES for n in fetched(victim, 0)], [False, True, False], "then a row")
            self.assertEqual(len(re.findall("device lost", victim.log())), 1)
            self.assertEqual(reports(victim.log()), [])
        finally:
            for worker in filter(None, (victim, router)):
                worker.kill()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2, exit=True)
