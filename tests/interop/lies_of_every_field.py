"""A generation worker and a router against a context worker that lies in every field, with valid proofs.

    lies_of_every_field.py KVFERRY_BINARY MODEL_FOLDER [--whole] [--turn N] [--only WORDS] ...

A lie is told to one request, beside others. It ends in time, with the tokens of an honest cluster; nobody
dies; whoever asks next, of the same salt or another, gets the honest tokens, to the last bit of their
log-probabilities, and KV crosses again. Without --whole every TURNS-th lie is told: which, --turn says.
"""

import argparse
import collections
import concurrent.futures
import sys
import tempfile
import threading
import time
import unittest

import grpc
import inner_calls
import told_lies
from cluster import Process
from google.rpc import error_details_pb2, status_pb2
from kvferry.internal.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    context_worker_pb2,
    generation_worker_pb2,
    generation_worker_pb2_grpc,
)
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2
from lying_proxy import Proxy

TURNS = 12
CALL_LIMIT_S = 30  # of a request that is lied to: far beyond the workers' own limits, which are seconds
HEAL_LIMIT_S = 30
MAX_TOKENS = 6
FORGET = "forget"
TEXT = "In the beginning God created the heaven and the earth. "
OWNED = ("active", "pinned", "inbound", "quarantined")

SERVICES = (
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
    context_worker_pb2.DESCRIPTOR.services_by_name["ContextWorkerService"],
)


class Liar(Proxy):
    """Tells one lie, to whom it is meant for, until it is taken back."""

    def __init__(self, context_worker):
        self.told, self.salt, self.held = None, "", None
        self.takes_for_itself = None  # a life: what is meant for the one it pretends to be
        self.forgotten_at = 0  # events of a prefill that is there to be forgotten by
        self.asked = collections.Counter()
        self.salts = {}  # of the transfers
        super().__init__(context_worker, *SERVICES)

    def answer(self, name, request, ask):
        self.asked[name] += 1
        is_meant = name != "Commit" or self.salts.get(request.transfer_id) == self.salt
        if self.told and self.told.lie.method == name and is_meant:
            return self.told.answer(request, ask)
        return ask(request)

    def events(self, name, request, ask):
        self.asked[name] += 1
        self.salts[request.transfer_id] = request.cache_salt
        request.callee_incarnation = self.takes_for_itself or request.callee_incarnation
        if request.cache_salt == self.salt or self.held and request.cache_salt == self.held.salt:
            request.takes_end = bool(self.told and self.told.lie.takes_end)  # else each event comes by itself
        if request.cache_salt.startswith(FORGET):
            if self.forgotten_at:
                yield next(ask(request))
            request.callee_incarnation ^= 1
            yield from ask(request)  # the real worker's own refusal: "that was another life"
        elif self.held and request.cache_salt == self.held.salt:
            yield from self.held.events(request, ask)
        elif self.told and self.told.lie.method == name and request.cache_salt == self.salt:
            yield from self.told.events(request, ask)
        else:
            yield from ask(request)


class LiesOfEveryField(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        worker_flags = ["--kv-transport", OPTIONS.transport, "--threads", "1"]
        # Digests are told, so that they can be lied about, and are not insisted on, so that one who
        # tells none is not refused for that alone.
        cls.context = Process(BINARY, MODEL, cls.folder.name, "ctx-worker", "--kv-digest",
                              "--prefill-chunk-tokens", "64", "--lease-limit-ms", "3s", *worker_flags)
        cls.liar = Liar(cls.context)
        cls.generation = Process(
            BINARY, MODEL, cls.folder.name, "gen-worker", *worker_flags,
            "--local-prefill-max-tokens", "8", "--context-limit-ms", "1500ms",
            "--context-limit-tokens", "16", "--commit-limit-ms", "1500ms",
            "--describe-limit-ms", "1500ms", "--transfer-limit-ms", "1500ms",
        )
        cls.router = Process(
            BINARY, MODEL, cls.folder.name, "router", "--poll-ms", "50ms",
            "--generation-workers", cls.generation.ports["control"],
            "--context-workers", cls.liar.address,
        )
        cls.processes = (cls.router, cls.generation, cls.context)
        cls.channel = grpc.insecure_channel(cls.router.ports["grpc"])
        cls.stub = generation_pb2_grpc.GenerationServiceStub(cls.channel)
        cls.inner = inner_calls.channel(cls.generation.ports["control"], cls.liar.gate.key)
        admin_pb2_grpc.AdminServiceStub(cls.inner).GetState(admin_pb2.GetStateRequest())
        cls.decoder = generation_worker_pb2_grpc.GenerationWorkerServiceStub(cls.inner)
        cls.beside = concurrent.futures.ThreadPoolExecutor(4)
        cls.n_salts, cls.n_told, cls.n_true = 0, 0, 0
        wait_until(cls.all_ready)
        cls.learn()

    @classmethod
    def learn(cls):
        """The honest replies."""
        def ids(text):
            request = generation_pb2.TokenizeRequest(text=text, add_special_tokens=True)
            return list(cls.stub.Tokenize(request).token_ids)

        cls.prompt = ids(TEXT * 12)
        cls.longer = ids(TEXT * 12 + "And the earth was without form, and void; and darkness was " * 3)
        cls.other = cls.prompt[:1] + cls.prompt[:0:-1]
        cls.short = cls.prompt[:8]
        cls.honest = {}
        for prompt in (cls.prompt, cls.longer, cls.other, cls.short):
            reply = cls.complete(prompt, cls.salt("honest"))
            cls.honest[tuple(prompt)] = content(reply)
            if prompt is not cls.short and not reply.timing.kv_tokens_received:
                raise RuntimeError("no KV crosses between honest workers")

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        cls.inner.close()
        dead = [process.child.args[1] for process in cls.processes if process.child.poll() is not None]
        if dead:
            for process in cls.processes:
                process.log.seek(0)
                sys.stderr.write(process.log.read()[-5000:] if process.child.poll() is not None else "")
                process.stop()
            cls.liar.stop()
            raise RuntimeError(f"processes died: {dead}")
        for worker in (cls.context, cls.generation):
            for state in OWNED:
                wait_until(lambda w=worker, s=state: w.metric("kvferry_kv_blocks", f'state="{s}"') == 0)
        codes = [process.stop() for process in cls.processes]
        cls.liar.stop()
        cls.beside.shutdown()
        cls.folder.cleanup()
        print(f"{cls.n_told} lies were told, of which {cls.n_true} came out as the truth")
        if any(codes):
            raise RuntimeError(f"the processes ended with {codes}")

    # ---- requests ----

    @classmethod
    def salt(cls, what):
        cls.n_salts += 1
        return f"{what} {cls.n_salts}"

    @classmethod
    def all_ready(cls):
        return cls.router.metric("kvferry_peers", 'state="ready"') == 2

    @classmethod
    def complete(cls, prompt, salt, max_tokens=MAX_TOKENS):
        return cls.stub.Complete(
            generation_pb2.CompleteRequest(
                token_ids=generation_pb2.TokenIds(ids=prompt), cache_salt=salt, return_timing=True,
                sampling=sampling_pb2.SamplingParams(max_tokens=max_tokens, temperature=0, logprobs=2)),
            timeout=CALL_LIMIT_S)

    @classmethod
    def search(cls, salt):
        """A beam search: the ids and the score of each reply, best first."""
        reply = cls.stub.Complete(
            generation_pb2.CompleteRequest(
                token_ids=generation_pb2.TokenIds(ids=cls.prompt), cache_salt=salt, return_timing=True,
                sampling=sampling_pb2.SamplingParams(max_tokens=MAX_TOKENS, temperature=0, beam_width=4, n=2)),
            timeout=CALL_LIMIT_S)
        return [(list(one.token_ids), one.beam_score) for one in (reply, *reply.more_choices)], reply.timing

    def forget(self, after_events):
        """The generation worker knows no description of the liar; after an event, no connection to its worker."""
        self.liar.forgotten_at = after_events
        self.decode(self.prompt[:40], FORGET, self.liar.address)

    def decode(self, prompt, what, context_worker):
        """Past the router, which chooses the context worker: the first token, and the timing."""
        request = generation_worker_pb2.DecodeRequest(
            request_id=self.salt(what), cache_salt=self.salt(what), token_ids=prompt,
            context_worker=context_worker,
            sampling=sampling_pb2.SamplingParams(
                max_tokens=2, temperature=0, top_k=0, top_p=1, min_p=0, repetition_penalty=1,
                presence_penalty=0, frequency_penalty=0, seed=1))
        responses = list(self.decoder.Decode(request, timeout=CALL_LIMIT_S))
        return [token for one in responses for token in one.token_ids], responses[-1].timing

    # ---- one lie ----

    def begin(self, lie, salt):
        told = told_lies.Told(lie)
        if lie.method == "Describe":
            self.forget(after_events=1)
        self.liar.told, self.liar.salt = told, salt
        if lie.method == "GetState":
            wait_until(lambda: told.n_asked >= 2)  # the first one has been answered, and been judged
        return told

    def take_back(self, lie):
        self.liar.told = None
        if lie.method == "Describe":
            self.forget(after_events=0)  # with the lie there is no event, if it makes no connection
        if lie.method in ("Describe", "GetState"):
            wait_until(self.all_ready)

    def tell(self, lie):
        salt = self.salt("lie")
        told = self.begin(lie, salt)
        neighbour = self.beside.submit(self.complete, self.short, self.salt("neighbour"))
        reply, error = None, None
        try:
            reply = self.complete(self.prompt, salt)
        except grpc.RpcError as caught:
            error = caught
        self.assertEqual(content(neighbour.result()), self.honest[tuple(self.short)])
        self.take_back(lie)
        type(self).n_told += 1
        type(self).n_true += not told.is_untrue
        self.assertGreater(told.n_asked, 0, "nobody asked for the lie")
        self.expect_alive()
        self.expect_own(reply, error, told)
        self.expect_honest(salt)
        return reply

    def expect_alive(self):
        for process in self.processes:
            self.assertIsNone(process.child.poll(), "a process died")

    def expect_own(self, reply, error, told):
        """Of the request that was lied to.

        A context worker draws the first token of a prompt that is given to it, and tells its
        log-probabilities: first_token, with all in it, is what it may decide, of that request alone. All
        else that it says may change figures of the reply (of time, of its cache) and never a token: a
        reply whose first token is the liar's goes on as the model does after that one, or fails when the
        prompt is computed again and the true first token, which the client has not, comes of it.
        """
        honest_ids, honest_logprobs = self.honest[tuple(self.prompt)]
        decided = [token for token in told.first_tokens if token != honest_ids[0]]
        if error is not None:
            self.assertTrue(decided, f"{error.code()}: {error.details()}")
            self.assertEqual(reason(error), "KV_TRANSFER_FAILED")
            return
        ids, logprobs = content(reply)
        if ids[:1] == honest_ids[:1]:
            self.assertEqual(ids, honest_ids)
            self.assertEqual(logprobs[1:], honest_logprobs[1:])
            if not told.first_tokens:
                self.assertEqual(logprobs, honest_logprobs)
            return
        self.assertIn(ids[0], decided)
        if reply.finish_reason == sampling_pb2.FINISH_REASON_LENGTH:  # else that token is an end
            after = content(self.complete(self.prompt + ids[:1], self.salt("after"), MAX_TOKENS - 1))
            self.assertEqual((ids[1:], logprobs[1:]), after)

    def expect_honest(self, salt):
        """Of who comes next: the salt that was lied to, then another."""
        reply = self.complete(self.longer, salt)
        self.assertEqual(content(reply), self.honest[tuple(self.longer)])
        until = time.monotonic() + HEAL_LIMIT_S
        while True:
            reply = self.complete(self.prompt, self.salt("after"))
            self.assertEqual(content(reply), self.honest[tuple(self.prompt)])
            if reply.timing.kv_tokens_received:
                return
            self.assertLess(time.monotonic(), until, f"no KV crosses: {reply.timing.prefill_reason}")

    def tell_all(self, lies):
        for lie in lies:
            if OPTIONS.only not in str(lie):
                continue
            self.expect_alive()
            began = time.monotonic()
            with self.subTest(lie=str(lie)):
                self.tell(lie)
            if OPTIONS.times:
                print(f"{time.monotonic() - began:6.2f} s  {lie}", flush=True)

    # ---- the lies ----

    def test_describe(self):
        self.tell_all(chosen(told_lies.of_method("Describe")))

    def test_prefill_fields(self):
        self.tell_all(chosen(told_lies.of_events()))

    def test_prefill_order(self):
        self.tell_all(chosen(told_lies.of_order()))

    def test_ranked_first_tokens(self):
        """A worker decides with which tokens a search begins, as it decides the first token of others: of that search alone.
        Ranked tokens that cannot be are refused, and the prompt is computed here."""
        honest, timing = self.search(self.salt("honest search"))
        self.assertGreater(timing.kv_tokens_received, 0)
        n_refused = n_taken = 0
        for lie in chosen(told_lies.of_ranked()):
            if OPTIONS.only not in str(lie):
                continue
            with self.subTest(lie=str(lie)):
                salt = self.salt("lie")
                told = self.begin(lie, salt)
                replies, timing = self.search(salt)
                self.take_back(lie)
                self.assertGreater(told.n_asked, 0, "nobody asked for the lie")
                self.expect_alive()
                if timing.kv_tokens_received:
                    n_taken += 1
                    self.assertTrue(told.is_untrue or replies == honest)
                    self.assertGreaterEqual(replies[0][1], replies[1][1])
                else:
                    n_refused += 1
                    self.assertEqual(replies, honest, timing.prefill_reason)
                self.expect_honest(salt)
                self.assertEqual(self.search(self.salt("after"))[0], honest)
        type(self).n_told += n_refused + n_taken
        print(f"of lies about ranked first tokens {n_refused} were refused, {n_taken} were taken")
        self.assertTrue(n_refused or not OPTIONS.whole or OPTIONS.only)

    def test_commit(self):
        self.tell_all(chosen(told_lies.of_method("Commit")))
        self.tell_all([told_lies.granted_unasked()])

    def test_state(self):
        self.tell_all(chosen(told_lies.of_method("GetState")))

    def test_nobody_asks_for_more(self):
        """AbortResponse and all of which no lies are told: a worker that begins to ask needs them told here."""
        self.complete(self.prompt, self.salt("no more"))
        self.assertLessEqual(set(self.liar.asked), set(told_lies.RESPONSES) | {"Prefill"})

    def test_another_requests_transfer(self):
        """The lie names what is another request's, whose transfer is open meanwhile."""
        n_crossed = 0
        for lie in told_lies.of_another(lambda: self.liar.held, self.liar.asks):
            if OPTIONS.only not in str(lie):
                continue
            with self.subTest(lie=str(lie)):
                held = self.liar.held = told_lies.Held(self.salt("held"))
                other = self.beside.submit(self.complete, self.other, held.salt)
                self.assertTrue(held.is_open.wait(CALL_LIMIT_S))
                threading.Timer(1, held.release.set).start()
                reply = self.tell(lie)
                held.release.set()
                theirs = other.result()
                self.liar.held = None
                self.assertEqual(content(theirs), self.honest[tuple(self.other)])
                n_crossed += theirs.timing.kv_tokens_received > 0
                if lie.is_refused:
                    self.assertIn("NOT_HELD", reply.timing.prefill_reason)
                    self.assertEqual(reply.timing.kv_tokens_received, 0)
        if not OPTIONS.only:
            self.assertGreater(n_crossed, 0)

    def test_the_life_of_another_worker(self):
        """It is proven under the cluster key, as anything that it says: the other's blocks still cross."""
        with tempfile.TemporaryDirectory() as folder:
            other = Process(BINARY, MODEL, folder, "ctx-worker", "--kv-digest", "--kv-transport",
                            OPTIONS.transport, "--threads", "1")
            own_life, their_life = self.liar.gate.life, int(other.ports["incarnation"], 16)
            honest, _ = self.decode(self.prompt, "local", "")
            self.forget(after_events=1)
            try:
                self.liar.gate.life = their_life
                self.liar.told = told_lies.Told(told_lies.of_another_life(their_life))
                self.liar.takes_for_itself = own_life
                ids, timing = self.decode(self.prompt, "lie", self.liar.address)
                self.assertEqual(ids, honest)
                self.assertEqual(timing.kv_tokens_received, 0)
                ids, timing = self.decode(self.prompt, "other", other.ports["control"])
                self.assertEqual(ids, honest)
                self.assertGreater(timing.kv_tokens_received, 0, timing.prefill_reason)
            finally:
                self.liar.gate.life = own_life
                self.liar.told = self.liar.takes_for_itself = None
                self.forget(after_events=0)
                self.assertEqual(other.stop(), 0)
        self.expect_honest(self.salt("life"))


def wait_until(is_so):
    until = time.monotonic() + HEAL_LIMIT_S
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError("it does not come to that")
        time.sleep(0.01)


def content(reply):
    """Of a reply: the token ids, and what was said of each."""
    return list(reply.token_ids), [one.SerializeToString(deterministic=True) for one in reply.logprobs]


def reason(error):
    details = dict(error.trailing_metadata() or ()).get(inner_calls.DETAILS, b"")
    info = error_details_pb2.ErrorInfo()
    for detail in status_pb2.Status.FromString(details).details:
        if detail.Unpack(info):
            return info.reason
    return ""


def chosen(lies):
    lies = list(lies)
    return lies if OPTIONS.whole or OPTIONS.only else lies[OPTIONS.turn % TURNS::TURNS]


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("--whole", action="store_true", help="all lies")
    parser.add_argument("--turn", type=int, default=0, help="which part of them, without --whole")
    parser.add_argument("--only", default="", help="lies with these words, whatever their turn")
    parser.add_argument("--times", action="store_true", help="print what each took")
    parser.add_argument("--transport", default="auto", help="kv_transport of the workers")
    return parser.parse_args(words)


if __name__ == "__main__":
    OPTIONS = parse(sys.argv[1:])
    BINARY, MODEL = OPTIONS.binary, OPTIONS.model
    print("all lies" if OPTIONS.whole else f"lies of --turn {OPTIONS.turn % TURNS} of {TURNS}")
    unittest.main(argv=sys.argv[:1], verbosity=2)
