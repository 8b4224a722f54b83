"""Texts that a split pattern of the model's tokenizer looks through to the end at each match."""

import concurrent.futures
import contextlib
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import grpc
from attack import attack
from cluster import Cluster
from crowds import Streams
from kvferry.v1 import generation_pb2, generation_pb2_grpc

# Thousands, counted from the end of a number: whether a match is one depends on all digits that follow.
PATTERN = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
# The first is tokenized where requests are read, the others on the thread for long texts, as the honest one is.
DIGITS = (16_000, 40_000, 80_000)
LONG_TEXT = "In the beginning there were 1234567 words. " * 500
CLIENTS = 9  # of which every third does not wait for its answer
HASTY_S = 0.1
DRAIN_LIMIT_S = 10
REFUSED, HASTE, GONE = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DEADLINE_EXCEEDED,
                        grpc.StatusCode.UNAVAILABLE)


def slow_model(model, folder):
    """A copy of the model whose tokenizer has the pattern."""
    copy = pathlib.Path(shutil.copytree(model, f"{folder}/model"))
    file = copy / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    (split,) = (part for part in tokenizer["pre_tokenizer"]["pretokenizers"] if part["type"] == "Split")
    split["pattern"] = {"Regex": PATTERN}
    file.write_text(json.dumps(tokenizer))
    return str(copy)


def service(channel):
    return generation_pb2_grpc.GenerationServiceStub(channel)


def connection(router):
    return grpc.insecure_channel(router.ports["grpc"], options=[("grpc.use_local_subchannel_pool", 1)])


class Digits:
    """Clients that ask for the tokens of digits, or for what follows them, again and again until the router is gone."""

    def __init__(self, router):
        self.router, self.is_over, self.lock = router, threading.Event(), threading.Lock()
        self.n_refused, self.n_hasty = 0, 0
        self.pool = concurrent.futures.ThreadPoolExecutor(CLIENTS)
        self.clients = [self.pool.submit(self._ask, number) for number in range(CLIENTS)]

    def _call(self, stub, number, n):
        text, timeout = "7" * DIGITS[n % len(DIGITS)], HASTY_S if number % 3 == 0 else 60
        if number % 2:
            stub.Tokenize(generation_pb2.TokenizeRequest(text=text), timeout=timeout)
        else:
            list(stub.Generate(generation_pb2.GenerateRequest(text=text), timeout=timeout))

    def _ask(self, number):
        with connection(self.router) as channel:
            stub, n = service(channel), number
            while True:
                try:
                    self._call(stub, number, n)
                    raise RuntimeError(f"{DIGITS[n % len(DIGITS)]} digits were taken")
                except grpc.RpcError as error:
                    code, words = error.code(), error.details()
                if code == GONE and self.is_over.is_set():
                    return
                if code != REFUSED and (code != HASTE or number % 3):
                    raise RuntimeError(f"{code}: {words}")
                if code == REFUSED and not words.startswith("text: a split pattern reaches its limit after byte "):
                    raise RuntimeError(words)
                with self.lock:
                    self.n_refused += code == REFUSED
                    self.n_hasty += code == HASTE
                n += 1

    def check(self):
        """Raises what a client has raised."""
        for client in self.clients:
            if client.done():
                client.result()

    def join(self):
        for client in self.clients:
            client.result()


def long_texts(router, digits, seconds):
    """One honest long text after the other: how long each took, in seconds."""
    with connection(router) as channel:
        stub, times, until = service(channel), [], time.monotonic() + seconds
        while not times or digits.n_refused < CLIENTS or time.monotonic() < until:
            digits.check()
            began = time.monotonic()
            if not stub.Tokenize(generation_pb2.TokenizeRequest(text=LONG_TEXT), timeout=60).token_ids:
                raise RuntimeError("no tokens")
            times.append(time.monotonic() - began)
    return times


def end(router):
    """How long the router took to end, told to."""
    began = time.monotonic()
    router.child.send_signal(signal.SIGTERM)
    try:
        code = router.child.wait(DRAIN_LIMIT_S)
    except subprocess.TimeoutExpired:
        router.child.kill()
        raise RuntimeError(f"the router did not end within its drain limit of {DRAIN_LIMIT_S} s") from None
    if code:
        raise RuntimeError(f"the router ended with {code}")
    return time.monotonic() - began


@attack("9 clients with 16,000 to 80,000 digits for a split pattern that looks ahead to the end of a number, and SIGTERM",
        "10,000 digits 0.03 s of the text thread, 20,000 0.48 s, 40,000 2.58 s; deadlines, cancels and SIGTERM without effect "
        "for 45 s", is_short=True)
def looks_ahead(binary, model, seconds):
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        limit = ("--drain-limit-ms", f"{DRAIN_LIMIT_S}s")
        cluster = Cluster(binary, slow_model(model, folder), False, router_arguments=limit)
        stack.callback(cluster.stop)
        digits = Digits(cluster.router)
        stack.callback(digits.pool.shutdown)
        stack.callback(digits.is_over.set)
        stack.callback(cluster.router.child.terminate)  # what ends the clients, should anything be wrong
        streams = Streams(cluster)
        try:
            times = long_texts(cluster.router, digits, seconds)
        finally:
            streams.stop()
        digits.is_over.set()
        n_refused, n_hasty = digits.n_refused, digits.n_hasty
        end_s = end(cluster.router)
        digits.join()
        if digits.n_refused + digits.n_hasty == n_refused + n_hasty:
            raise RuntimeError("no text was under way at SIGTERM")
    return (f"{n_refused} times INVALID_ARGUMENT, {n_hasty} ends by a deadline of {HASTY_S} s; {streams.n_whole} honest "
            f"streams whole and {len(times)} long texts answered, in {max(times):.1f} s at most; ended {end_s:.1f} s "
            "after SIGTERM")
