"""The public port of a router with tenants: no token, a wrong one, one for something else, more than its quota."""

import concurrent.futures
import contextlib
import math
import pathlib
import random
import tempfile
import threading
import time

import grpc
import http2
from attack import attack
from cluster import Cluster
from inner_calls import code_of
from kvferry.internal.v1 import admin_pb2, admin_pb2_grpc
from kvferry.v1 import generation_pb2, generation_pb2_grpc, model_pb2, model_pb2_grpc, sampling_pb2
from tokens import Tokens, bearer

CLIENTS = 64
PROMPT = list(range(1, 97))
CROWD, CROWD_CLIENTS = 480, 4  # calls: many more than the 256 that a worker takes at once, the others wait in the router
CROWD_TOKENS = 16 if http2.IS_SANITIZED else 64  # each: what asks must not be slower than what answers
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED
DENIED = grpc.StatusCode.PERMISSION_DENIED
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


class Tenants:
    """A cluster whose router knows the tenants that add() makes, before start()."""

    def __init__(self, binary, model, *router_arguments):
        self.binary, self.model, self.router_arguments = binary, model, router_arguments
        self.folder = tempfile.TemporaryDirectory()
        self.tokens = Tokens(binary, f"{self.folder.name}/tokens.yaml")
        self.add = self.tokens.add
        self.cluster = None

    @contextlib.contextmanager
    def run(self):
        self.cluster = Cluster(self.binary, self.model, False,
                               router_arguments=("--tokens-file", str(self.tokens.file), *self.router_arguments))
        try:
            yield self
        finally:
            self.cluster.stop()

    def channel(self):
        """A connection of its own."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(self.cluster.router.ports["grpc"], options=options)

    def log(self):
        return pathlib.Path(self.cluster.router.log.name).read_text()


def complete(channel, metadata, max_tokens=4, **fields):
    request = generation_pb2.CompleteRequest(
        token_ids=generation_pb2.TokenIds(ids=PROMPT),
        sampling=sampling_pb2.SamplingParams(max_tokens=max_tokens, temperature=0, ignore_eos=True),
        **fields,
    )
    return generation_pb2_grpc.GenerationServiceStub(channel).Complete(request, metadata=metadata, timeout=60)


def every_method(channel, metadata):
    """The codes of one call of each method that a token can open."""
    generation = generation_pb2_grpc.GenerationServiceStub(channel)
    models = model_pb2_grpc.ModelServiceStub(channel)
    arguments = {"metadata": metadata, "timeout": 60}
    return {
        "Generate": code_of(lambda: list(generation.Generate(generation_pb2.GenerateRequest(text="a"), **arguments))),
        "Complete": code_of(lambda: complete(channel, metadata)),
        "Tokenize": code_of(lambda: generation.Tokenize(generation_pb2.TokenizeRequest(text="a"), **arguments)),
        "Detokenize": code_of(
            lambda: generation.Detokenize(generation_pb2.DetokenizeRequest(token_ids=[1]), **arguments)
        ),
        "ListModels": code_of(lambda: models.ListModels(model_pb2.ListModelsRequest(), **arguments)),
        "GetModel": code_of(lambda: models.GetModel(model_pb2.GetModelRequest(), **arguments)),
    }


@attack("public calls without a token, with a wrong one, or with several", "served", is_short=True)
def no_token(binary, model, seconds):
    tenants = Tenants(binary, model)
    token = tenants.add("acme")
    with tenants.run():
        channel = tenants.channel()
        for metadata in (
            [],
            bearer(""),
            bearer("kvf_" + "0" * 64),
            bearer(token + "0"),
            bearer(token[:-1]),
            bearer(token.upper()),
            bearer("x" * 4096),
            [("authorization", token)],
            [("authorization", f"Basic {token}")],
            [("authorization-bin", f"Bearer {token}".encode())],
            bearer(token) + bearer("other"),
        ):
            codes = every_method(channel, metadata)
            assert set(codes.values()) == {UNAUTHENTICATED}, (metadata, codes)
        assert complete(channel, bearer(token)).usage.generated_tokens == 4
        assert token not in tenants.log()
    return "UNAUTHENTICATED, each method"


@attack("a valid token, for methods that its row does not list", "served", is_short=True)
def wrong_method(binary, model, seconds):
    tenants = Tenants(binary, model)
    token = tenants.add("acme", "--methods", "Tokenize", "--methods", "ListModels")
    public = tenants.add("other")
    with tenants.run():
        codes = every_method(tenants.channel(), bearer(token))
        allowed = {"Tokenize", "ListModels"}
        assert all((code == DENIED) == (name not in allowed) for name, code in codes.items()), codes
        codes = every_method(tenants.channel(), bearer(public))
        assert DENIED not in codes.values(), codes
        state = admin_pb2_grpc.AdminServiceStub(tenants.channel()).GetState
        code = code_of(lambda: state(admin_pb2.GetStateRequest(), metadata=bearer(public), timeout=60))
        assert code == UNAUTHENTICATED, code
    return "PERMISSION_DENIED"


@attack("64 clients that guess tokens as fast as possible", "served", is_short=True)
def guesses(binary, model, seconds):
    tenants = Tenants(binary, model)
    token = tenants.add("acme")
    with tenants.run():
        until = time.monotonic() + seconds

        def guess(number):
            channel, n = tenants.channel(), 0
            while time.monotonic() < until:
                assert code_of(lambda: complete(channel, bearer(f"kvf_{number:08x}{n:056x}"))) == UNAUTHENTICATED
                n += 1
            return n

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            guesses = [pool.submit(guess, number) for number in range(CLIENTS)]
            channel, n_honest = tenants.channel(), 0
            while time.monotonic() < until:
                complete(channel, bearer(token))
                n_honest += 1
            n_guessed = sum(future.result() for future in guesses)
        lines = tenants.log().count("call refused")
        assert n_honest > 0 and n_guessed > CLIENTS and lines <= seconds + 5, (n_honest, n_guessed, lines)
        assert tenants.cluster.router.metric("kvferry_token_failures_total", "unknown_token") == n_guessed
    return "all UNAUTHENTICATED; one log line a second; honest calls are answered"


@attack("64 clients of one tenant past its quotas", "all served, other tenants wait", is_short=True)
def overrun(binary, model, seconds):
    tenants = Tenants(binary, model)
    greedy = tenants.add(
        "greedy", "--requests-at-once", "8", "--requests-per-second", "50", "--tokens-per-minute", "6000"
    )
    honest = tenants.add("honest")
    with tenants.run():
        began = time.monotonic()
        until = began + seconds
        lock, counts = threading.Lock(), {"served": 0, "refused": 0, "tokens": 0}

        def ask():
            channel = tenants.channel()
            while time.monotonic() < until:
                try:
                    usage = complete(channel, bearer(greedy), max_tokens=16).usage
                    with lock:
                        counts["served"] += 1
                        counts["tokens"] += usage.prompt_tokens + usage.generated_tokens
                except grpc.RpcError as error:
                    assert error.code() == EXHAUSTED, error
                    assert b"QUOTA" in dict(error.trailing_metadata())["grpc-status-details-bin"]
                    with lock:
                        counts["refused"] += 1

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            futures = [pool.submit(ask) for _ in range(CLIENTS)]
            channel, n_honest = tenants.channel(), 0
            while time.monotonic() < until:
                assert complete(channel, bearer(honest)).usage.generated_tokens == 4
                n_honest += 1
            for future in futures:
                future.result()
        passed = time.monotonic() - began
        assert counts["served"] > 0 and counts["refused"] > 0 and n_honest > 0, (counts, n_honest)
        assert counts["tokens"] <= 6000 + 100 * passed, (counts, passed)
        let_in = tenants.cluster.router.metric("kvferry_tenant_requests_total", 'tenant="greedy"')
        assert let_in <= 50 + 50 * passed, (let_in, passed)
    return "RESOURCE_EXHAUSTED (QUOTA) past the quota, to the token; the other tenant is served"


@attack("480 calls of one tenant at once, each asked again when it is answered, and small calls of an equal tenant",
        "the small one UNAVAILABLE after 10 s, 3 times of 3: no generation worker is ready", is_short=True)
def crowd(binary, model, seconds):
    tenants = Tenants(binary, model, "--wait-limit-ms", "60s")
    many, small = tenants.add("many"), tenants.add("small")
    with tenants.run():
        lock, is_over, n_served = threading.Lock(), threading.Event(), 0

        def ask(channel):
            nonlocal n_served
            while not is_over.is_set():
                usage = complete(channel, bearer(many), max_tokens=CROWD_TOKENS).usage
                assert usage.generated_tokens == CROWD_TOKENS
                with lock:
                    n_served += 1

        with concurrent.futures.ThreadPoolExecutor(CROWD) as pool:
            channels = [tenants.channel() for _ in range(CROWD_CLIENTS)]
            calls = [pool.submit(ask, channels[number % CROWD_CLIENTS]) for number in range(CROWD)]
            try:
                channel, overtaken_by = tenants.channel(), []
                began = time.monotonic()
                while tenants.cluster.router.metric("kvferry_requests_waiting") < CROWD // 4:
                    assert time.monotonic() < began + 60, "they do not wait in the router"
                    time.sleep(0.02)
                until = time.monotonic() + seconds
                while not overtaken_by or time.monotonic() < until:
                    before = n_served
                    assert complete(channel, bearer(small), max_tokens=2).usage.generated_tokens == 2
                    overtaken_by.append(n_served - before)
            finally:
                is_over.set()
            for call in calls:
                call.result()
    most = max(overtaken_by)
    assert most < CROWD // 2, f"{most} of the others were answered while one of {len(overtaken_by)} small calls waited"
    return (f"{len(overtaken_by)} small calls served, each behind at most {most} of the others; those {n_served} times, "
            "none refused")


@attack("does a tenant see from cache hits that another tenant has sent the same prompt?", "told by usage", is_short=True)
def whose_prompt(binary, model, seconds):
    tenants = Tenants(binary, model)
    victim, spy = tenants.add("victim"), tenants.add("spy")
    with tenants.run():
        channel = tenants.channel()
        assert complete(channel, bearer(victim)).usage.cached_tokens == 0
        assert complete(channel, bearer(victim)).usage.cached_tokens > 0
        for salt in ("", "victim", "tenant:victim", "group:victim"):
            assert complete(channel, bearer(spy), cache_salt=salt).usage.cached_tokens == 0, salt
    return "as many cache hits as for a new prompt: none"


def first_token_s(channel, token, ids):
    request = generation_pb2.GenerateRequest(
        token_ids=generation_pb2.TokenIds(ids=ids), sampling=sampling_pb2.SamplingParams(max_tokens=1, temperature=0)
    )
    began = time.perf_counter()
    next(generation_pb2_grpc.GenerationServiceStub(channel).Generate(request, metadata=bearer(token), timeout=60))
    return time.perf_counter() - began


def p_value(a, b):
    """Two-sided, of Wilcoxon's rank sum: how likely samples of one distribution differ as much."""
    ranked = sorted((value, index) for index, value in enumerate(a + b))
    ranks = sum(rank for rank, (_, index) in enumerate(ranked, 1) if index < len(a))
    mean = len(a) * (len(a) + len(b) + 1) / 2
    deviation = math.sqrt(len(a) * len(b) * (len(a) + len(b) + 1) / 12)
    return math.erfc(abs(ranks - mean) / deviation / math.sqrt(2))


@attack("the same question, from the time to the first token, 300 prompts", "p < 1e-6: visible")
def whose_prompt_by_time(binary, model, seconds):
    tenants = Tenants(binary, model)
    victim, spy = tenants.add("victim"), tenants.add("spy")
    draw = random.Random(5)
    with tenants.run():
        channel = tenants.channel()
        asked, fresh, own = [], [], []
        for turn in range(150):
            known, unknown = ([draw.randrange(256) for _ in range(384)] for _ in range(2))
            first_token_s(channel, victim, known)
            order = [(known, asked), (unknown, fresh)]
            for ids, times in order if turn % 2 else reversed(order):
                times.append(first_token_s(channel, spy, ids))
            own.append(first_token_s(channel, spy, known))
        p_other, p_own = p_value(asked, fresh), p_value(own, fresh)
        assert p_own < 1e-6, f"the measurement sees no difference where there is one: p {p_own}"
        assert p_other > 1e-4, f"p {p_other}"
    return "not visible (p > 1e-4); a tenant's own prompts are (p < 1e-6)"
