"""A context worker that contradicts itself or trickles, against real processes.

    lying_context_worker.py KVFERRY_BINARY MODEL_FOLDER

A proxy in front of a real context worker tells the lies: KV still crosses between the real ones. What a
generation worker got of a life that contradicts itself is gone with it, and so are the sequences that use
it; every reply that ends well has the tokens of an honest cluster.
"""

import itertools
import pathlib
import sys
import tempfile
import threading
import time
import unittest

import grpc
from cluster import Process
from google.rpc import error_details_pb2, status_pb2
from kvferry.internal.v1 import admin_pb2, context_worker_pb2
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2
from lying_proxy import CALL_LIMIT_S, Proxy, Refusal

BINARY, MODEL = sys.argv[1:3]
PROMPT = "In the beginning God created the heaven and the earth. " * 12
TRICKLE_PAUSE_S = 1


class Lies:
    """What the proxy does to the next hand-over; each is told once, the trickle until it is taken back."""

    def __init__(self):
        self.flips_digest = False
        self.refuses_commit = False
        self.breaks_stream = False
        self.changes_model = False
        self.trickles = False
        self.excuses_itself = False

    def take(self, name):
        is_set = getattr(self, name)
        setattr(self, name, False)
        return is_set


SERVICES = (
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
    context_worker_pb2.DESCRIPTOR.services_by_name["ContextWorkerService"],
)


class Liar(Proxy):
    def __init__(self, context_worker):
        self.lies = Lies()
        self.commit_is_answered = threading.Event()
        super().__init__(context_worker, *SERVICES)

    def answer(self, name, request, ask):
        if name == "Commit" and self.lies.take("refuses_commit"):
            try:  # of a transfer that nobody knows: the real worker's own words
                request.transfer_id = bytes(16)
                return ask(request)
            finally:
                threading.Timer(1, self.commit_is_answered.set).start()
        response = ask(request)
        if name == "Describe" and self.lies.take("changes_model"):
            geometry = response.callee.geometry
            geometry.model_digest = geometry.model_digest[::-1]
        return response

    def events(self, name, request, ask):
        holds_open = self.lies.refuses_commit
        request.takes_end = False  # each event by itself, so that it can be lied about
        self.commit_is_answered.clear()
        for response in ask(request):
            if self.lies.take("breaks_stream"):
                raise Refusal(grpc.StatusCode.UNAVAILABLE, "the stream breaks")
            yield from self.told(response)
        if holds_open:
            self.commit_is_answered.wait(CALL_LIMIT_S)

    def told(self, response):
        if response.WhichOneof("event") != "ready":
            yield response
            return
        ready = response.ready
        if ready.digests and self.lies.take("flips_digest"):
            ready.digests[len(ready.digests) // 2] ^= 1 << 17
        if not self.lies.trickles:
            yield response
            return
        for i, block in enumerate(ready.block_ids):
            if not self.lies.trickles:
                return
            if self.lies.excuses_itself:
                yield context_worker_pb2.PrefillResponse(
                    backlog=context_worker_pb2.PrefillBacklog(token_ns=1 << 63, waiting_tokens=1 << 63))
            time.sleep(TRICKLE_PAUSE_S)
            yield context_worker_pb2.PrefillResponse(
                ready=context_worker_pb2.PrefillReady(
                    first_block=ready.first_block + i,
                    block_ids=[block],
                    digests=ready.digests[i:i + 1],
                )
            )


class LyingContextWorker(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.context = Process(BINARY, MODEL, self.folder.name, "ctx-worker", "--kv-digest")
        self.proxy = Liar(self.context)
        self.generation = Process(
            BINARY, MODEL, self.folder.name, "gen-worker", "--kv-digest",
            "--local-prefill-max-tokens", "8",
            "--context-limit-ms", "2s", "--context-limit-tokens", "64", "--context-limit-max-ms", "4s",
        )
        self.router = Process(
            BINARY, MODEL, self.folder.name, "router",
            "--generation-workers", self.generation.ports["control"],
            "--context-workers", self.proxy.address,
        )
        self.wait_until(lambda: self.router.metric("kvferry_peers", 'state="ready"') == 2)
        self.channel = grpc.insecure_channel(self.router.ports["grpc"])
        self.stub = generation_pb2_grpc.GenerationServiceStub(self.channel)
        honest = self.complete("honest")
        self.assertGreater(honest.timing.kv_tokens_received, 0)
        self.honest_ids = list(honest.token_ids)
        again = self.complete("honest")
        self.assertGreater(again.usage.cached_tokens, 0, "what came is not found again")

    def tearDown(self):
        self.channel.close()
        for worker in (self.context, self.generation):
            for state in ("active", "pinned", "inbound", "quarantined"):
                self.wait_until(
                    lambda w=worker, s=state: w.metric("kvferry_kv_blocks", f'state="{s}"') == 0)
        codes = [process.stop() for process in (self.router, self.generation, self.context)]
        self.proxy.stop()
        self.folder.cleanup()
        self.assertEqual(codes, [0, 0, 0])

    def wait_until(self, is_so):
        until = time.monotonic() + 30
        while not is_so():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)

    def request(self, salt, kind=generation_pb2.GenerateRequest, **sampling):
        return kind(
            text=PROMPT,
            cache_salt=salt,
            sampling=sampling_pb2.SamplingParams(
                **({"max_tokens": 12, "temperature": 0.7, "seed": 5} | sampling)),
            return_timing=True,
        )

    def complete(self, salt):
        message = self.request(salt, generation_pb2.CompleteRequest)
        return self.stub.Complete(message, timeout=CALL_LIMIT_S)

    def expect_recomputed(self, reply):
        self.assertEqual(list(reply.token_ids), self.honest_ids)
        self.assertGreater(reply.timing.kv_tokens_recomputed, 0)

    def begin_long(self):
        """A reply under way whose prompt's KV crossed."""
        stream = self.stub.Generate(
            self.request("long", max_tokens=1700, ignore_eos=True), timeout=CALL_LIMIT_S)
        n_tokens = 0
        while n_tokens < 4:  # the first one is the context worker's, and waits for no KV
            n_tokens += len(next(stream).token_ids)
        return stream

    def expect_trust_lost(self, stream):
        """The reply under way is over, and nothing that came is found again."""
        with self.assertRaises(grpc.RpcError) as caught:
            for _ in stream:
                pass
        details = status_pb2.Status.FromString(
            dict(caught.exception.trailing_metadata())["grpc-status-details-bin"])
        info = error_details_pb2.ErrorInfo()
        self.assertTrue(any(detail.Unpack(info) for detail in details.details))
        self.assertEqual(info.reason, "KV_TRANSFER_FAILED")
        log = pathlib.Path(self.generation.log.name).read_text()
        self.assertEqual(log.count("is no longer trusted: cached blocks"), 1)

        after = self.complete("honest")
        self.assertEqual(list(after.token_ids), self.honest_ids)
        n_new = after.timing.kv_tokens_received + after.timing.kv_tokens_recomputed
        self.assertEqual(n_new, after.usage.prompt_tokens)

        # It is asked again, and what it brings now is judged anew.
        salts = itertools.count()
        self.wait_until(lambda: self.complete(f"{next(salts)}").timing.kv_tokens_received > 0)

    def test_a_digest_that_is_not_the_blocks(self):
        stream = self.begin_long()
        self.proxy.lies.flips_digest = True
        self.expect_recomputed(self.complete("lie"))
        self.expect_trust_lost(stream)

    def test_a_commit_refused_while_the_lease_is_open(self):
        stream = self.begin_long()
        self.proxy.lies.refuses_commit = True
        self.expect_recomputed(self.complete("lie"))
        self.expect_trust_lost(stream)

    def test_another_model_in_the_same_life(self):
        stream = self.begin_long()
        self.proxy.lies.changes_model = True
        self.proxy.lies.breaks_stream = True  # so that it is described again
        self.expect_recomputed(self.complete("break"))
        self.expect_recomputed(self.complete("lie"))
        self.expect_trust_lost(stream)

    def test_a_trickle_holds_no_request(self):
        self.proxy.lies.trickles = True
        began = time.monotonic()
        reply = self.complete("trickle")
        took = time.monotonic() - began
        self.proxy.lies.trickles = False
        self.expect_recomputed(reply)
        n_blocks = reply.usage.prompt_tokens // 16
        self.assertLess(took, n_blocks * TRICKLE_PAUSE_S / 2, "it was waited for to the end")
        self.assertGreater(self.complete("after").timing.kv_tokens_received, 0)

    def test_nor_does_one_that_excuses_itself_by_a_backlog_without_end(self):
        self.proxy.lies.trickles = self.proxy.lies.excuses_itself = True
        reply = self.complete("excuses")
        self.proxy.lies.trickles = self.proxy.lies.excuses_itself = False
        self.expect_recomputed(reply)
        self.assertGreater(self.complete("after").timing.kv_tokens_received, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
