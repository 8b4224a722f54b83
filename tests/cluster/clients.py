"""Clients that go on asking, as many at once as are wanted, and keep the retry contract.

Each asks one question after the other and compares the tokens that come with those that should. A call that fails is sent
again when no token of it had come and its ErrorInfo says `retryable` (after `retry_after_ms`), or when the
connection ended (UNAVAILABLE without ErrorInfo); that is all that docs/reference/errors.md asks of a client.
"""

import asyncio
import collections
import http.client
import json
import random
import ssl
import threading
import time

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

ATTEMPT_LIMIT_S = 90
PATIENCE_S = 180  # after it a request without a token is lost
CONNECTION_PAUSE_S = 0.2
CHANNEL_OPTIONS = [
    ("grpc.enable_retries", 0),  # our own are counted
    ("grpc.dns_min_time_between_resolutions_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),  # a channel is a client's, with a connection of its own
]
ROUND_ROBIN = '{"loadBalancingConfig": [{"round_robin": {}}]}'


def may_be_sent_again(error):
    """(whether, seconds to wait, why) of a call that failed before its first token."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            for detail in status.details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    wait_s = int(info.metadata.get("retry_after_ms", "0")) / 1000
                    return info.metadata.get("retryable") == "true", wait_s, info.reason
    code = error.code()
    return code == grpc.StatusCode.UNAVAILABLE, CONNECTION_PAUSE_S, f"{code.name} ({error.details()[:120]})"


def text_by_http(address, text, max_tokens, token=None, ca=None, server_name=None):
    """The ids of the completion, greedy; what was answered in their place. The arguments are those of Clients."""
    context = ssl.create_default_context(cadata=ca.decode()) if ca else None
    body = {"prompt": text, "max_tokens": max_tokens, "temperature": 0, "return_token_ids": True}
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    connection = http.client.HTTPConnection(address, timeout=ATTEMPT_LIMIT_S)
    try:
        connection.connect()
        if context:
            connection.sock = context.wrap_socket(connection.sock, server_hostname=server_name)
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read()
    finally:
        connection.close()
    return json.loads(said)["choices"][0]["token_ids"] if answer.status == 200 else f"{answer.status} {said[:300]}"


class Clients:
    """with Clients(targets, questions, 200) as clients: ...; clients.take() says what happened since the last time."""

    def __init__(self, targets, questions, n_at_once, token=None, ca=None, server_name=None):
        """targets: addresses of routers' services; questions: (text, max_tokens, expected ids)."""
        self.targets, self.questions, self.n_at_once = targets, questions, n_at_once
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        self.ca, self.server_name = ca, server_name
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.reasons = collections.Counter()
        self.stories = []  # of what should not have been
        self.n_in_flight = 0
        self.is_over = False
        self.thread = threading.Thread(target=lambda: asyncio.run(self._all()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.is_over = True
        self.thread.join()

    def take(self):
        """(counts, reasons of retries, stories) since the last call."""
        with self.lock:
            taken = self.counts, self.reasons, self.stories
            self.counts, self.reasons, self.stories = collections.Counter(), collections.Counter(), []
        return taken

    def _channel(self, target):
        options = list(CHANNEL_OPTIONS)
        if target.startswith("dns:"):
            options.append(("grpc.service_config", ROUND_ROBIN))
        if not self.ca:
            return grpc.aio.insecure_channel(target, options)
        options.append(("grpc.ssl_target_name_override", self.server_name))
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(self.ca), options)

    async def _all(self):
        channels = [self._channel(target) for target in self.targets]
        try:
            stubs = [generation_pb2_grpc.GenerationServiceStub(channel) for channel in channels]
            await asyncio.gather(*(self._client(stubs[i % len(stubs)], random.Random(i)) for i in range(self.n_at_once)))
        finally:
            for channel in channels:
                await channel.close()

    async def _client(self, stub, dice):
        while not self.is_over:
            text, max_tokens, expected = dice.choice(self.questions)
            request = generation_pb2.GenerateRequest(
                text=text, sampling=sampling_pb2.SamplingParams(max_tokens=max_tokens, temperature=0))
            if dice.random() < 0.7:
                request.cache_salt = f"{dice.getrandbits(64):x}"  # nothing is found in a prefix cache: KV must cross
            self.n_in_flight += 1
            outcome, story = await self._ask(stub, request, expected)
            self.n_in_flight -= 1
            with self.lock:
                self.counts[outcome] += 1
                if story:
                    self.stories.append(f"{outcome}: {story}")

    async def _ask(self, stub, request, expected):
        started = time.monotonic()
        while True:
            ids = []
            try:
                async for reply in stub.Generate(request, timeout=ATTEMPT_LIMIT_S, metadata=self.metadata):
                    ids.extend(reply.token_ids)
            except grpc.aio.AioRpcError as error:
                is_again, wait_s, reason = may_be_sent_again(error)
                if ids != expected[:len(ids)]:
                    return "wrong", f"{ids} for {expected}, then {reason}"
                if ids:
                    return "cut", f"after {len(ids)} of {len(expected)} tokens: {reason}: {error.details()[:200]}"
                if not is_again or time.monotonic() - started > PATIENCE_S:
                    return "lost", f"{reason}: {error.details()[:200]}, after {time.monotonic() - started:.1f} s"
                with self.lock:
                    self.reasons[reason] += 1
                await asyncio.sleep(wait_s)
                continue
            return ("answered", None) if ids == expected else ("wrong", f"{ids} for {expected}")
