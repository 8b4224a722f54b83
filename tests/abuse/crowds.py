"""What many do to what all share: gRPC's memory, the places of a port, a connection behind a proxy.

As a program, what the attacks run in processes of their own: crowds.py FUNCTION PORT SECONDS prints what it did as JSON.
"""

import contextlib
import json
import struct
import sys
import threading
import time

import http2

GENERATE = "/kvferry.v1.GenerationService/Complete"
LARGE = 8 << 20  # the longest message of a port
SENT = LARGE - (64 << 10)  # of it, the end never
ZEROS = bytes(16384)
TOLD_S = 2  # that the halves are left there
RESIDENT_LEFT_MIB = 60  # of the router, once those who sent halves are gone
LEFT_LIMIT_S = 30


# ---- half-sent requests ----


class Sender:
    """A connection that keeps to the windows it is given, and so may send for long."""

    def __init__(self, port, source, n_streams):
        self.client = http2.connect(port, source, acknowledges=False)
        self.window, self.rest = 65535, b""
        self.streams = {2 * i + 1: [65535, 0] for i in range(n_streams)}  # window, sent
        block = http2.block(GENERATE)
        for stream in self.streams:
            self.client.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block))

    def hear(self):
        out, is_over = http2.read_some(self.client)
        self.rest += out
        while len(self.rest) >= 9 and len(self.rest) >= 9 + int.from_bytes(self.rest[:3], "big"):
            size, kind, flags = int.from_bytes(self.rest[:3], "big"), self.rest[3], self.rest[4]
            stream, payload = int.from_bytes(self.rest[5:9], "big"), self.rest[9 : 9 + size]
            self.rest = self.rest[9 + size :]
            if kind == http2.SETTINGS and not flags & http2.ACK:
                self.client.sendall(http2.frame(http2.SETTINGS, http2.ACK, 0))
            elif kind == http2.PING and not flags & http2.ACK:
                self.client.sendall(http2.frame(http2.PING, http2.ACK, 0, payload))
            elif kind == http2.WINDOW and stream == 0:
                self.window += struct.unpack(">I", payload)[0]
            elif kind == http2.WINDOW and stream in self.streams:
                self.streams[stream][0] += struct.unpack(">I", payload)[0]
            elif kind == http2.RESET:
                self.streams.pop(stream, None)
        return is_over

    def speak(self):
        """What may be said to each stream; how many bytes that was."""
        n_said = 0
        for stream, state in self.streams.items():
            out = []
            while (n := min(16384, state[0], self.window, SENT - state[1])) >= 16:
                data = ZEROS[:n] if state[1] else struct.pack(">BI", 0, LARGE) + ZEROS[: n - 5]
                out.append(http2.frame(http2.DATA, 0, stream, data))
                self.window, state[0], state[1] = self.window - n, state[0] - n, state[1] + n
                n_said += n
            self.client.sendall(b"".join(out))
        return n_said


def half_sent(port, seconds):
    """4 connections of 16 streams, all but the end of a message on each; reset after a while, and again."""
    until, n_bytes, n_connections, most = time.monotonic() + seconds, 0, 0, 0
    while time.monotonic() < until:
        senders = []
        with contextlib.suppress(OSError):
            senders = [Sender(port, f"127.0.0.{2 + i}", 16) for i in range(4)]
        n_connections += len(senders)
        end = min(until, time.monotonic() + TOLD_S)
        sent = 0
        while senders and time.monotonic() < end:
            n_said = 0
            with contextlib.suppress(OSError):
                for sender in senders:
                    sender.client.settimeout(1)
                    n_said += sender.speak()
                    sender.hear()
            sent += n_said
            if n_said == 0:
                time.sleep(0.01)
        n_bytes, most = n_bytes + sent, max(most, sent)
        for sender in senders:
            sender.client.close()
    return {"connections": n_connections, "sent_mib": n_bytes >> 20, "at_once_mib": most >> 20}


class Streams(threading.Thread):
    """One honest stream after the other: how many were whole."""

    def __init__(self, cluster, metadata=()):
        super().__init__()
        self.address, self.metadata = cluster.router.ports["grpc"], metadata
        self.n_whole, self.failures, self.is_over = 0, [], False
        self.start()

    def run(self):
        import grpc
        from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

        request = generation_pb2.GenerateRequest(
            text="In the beginning",
            sampling=sampling_pb2.SamplingParams(max_tokens=64, temperature=0, ignore_eos=True))
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(self.address, options=options) as channel:
            stub = generation_pb2_grpc.GenerationServiceStub(channel)
            while not self.is_over:
                try:
                    n = sum(len(reply.token_ids) for reply in
                            stub.Generate(request, timeout=60, metadata=self.metadata))
                    self.n_whole += n == 64
                except grpc.RpcError as error:
                    self.failures.append(f"{error.code()}: {error.details()}")

    def stop(self):
        self.is_over = True
        self.join()
        if self.failures or self.n_whole == 0:
            raise RuntimeError(f"{self.n_whole} streams were whole, {len(self.failures)} not: {self.failures[:3]}")


def wait_small(router):
    until = time.monotonic() + LEFT_LIMIT_S
    while router.resident_mib() > RESIDENT_LEFT_MIB and not http2.IS_SANITIZED:
        if time.monotonic() > until:
            raise RuntimeError(f"{router.resident_mib():.0f} MiB are left")
        time.sleep(0.1)
    return router.resident_mib()


def beside_streams(cluster, name, seconds, metadata=()):
    """Runs it beside honest streams: its result, and the outcome in words."""
    honest = [Streams(cluster, metadata) for _ in range(2)]
    watch = http2.Watch(cluster.router)
    try:
        result = http2.result_of(start(name, cluster.router.port("grpc"), seconds), seconds)
    finally:
        for streams in honest:
            streams.stop()
    peak_mib = watch.stop()
    left_mib = wait_small(cluster.router)
    n_whole = sum(streams.n_whole for streams in honest)
    print(f"    {name}: {result} {n_whole} whole, peak {peak_mib:.0f} MiB, left {left_mib:.0f}", file=sys.stderr)
    return result, f"{n_whole} honest streams whole, none cut; router at most {peak_mib:.0f} MiB, {left_mib:.0f} after"


# ---- places ----


PLACES = 24  # of the port; four addresses take them all


def four_addresses(port, seconds):
    """Connections that each made one refused call, from four addresses; kept, and made again where one was lost."""
    clients, n_made = [], 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        clients = [client for client in clients if not http2.read_some(client)[1]]
        for i in range(PLACES - len(clients)):
            with contextlib.suppress(OSError):
                client = http2.connect(port, f"127.0.0.{2 + i % 4}")
                block = http2.block("/kvferry.v1.GenerationService/NoSuchMethod")
                client.sendall(http2.frame(http2.HEADERS, 5, 1, block))
                clients.append(client)
                n_made += 1
        time.sleep(0.05)
    return {"made": n_made, "kept": len(clients)}


def probe(address, seconds):
    """Probes as kubelet makes them, each over a connection of its own: how many; raises when one fails."""
    import grpc
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    n, until = 0, time.monotonic() + seconds
    while n == 0 or time.monotonic() < until:
        with grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service="liveness"), timeout=10)
        n += 1
        time.sleep(0.02)  # an address has so many connections a second
    return n


def newcomers(port, seconds):
    """One honest connection after the other, each with one call."""
    return [http2.honest(port, 0.001) for _ in range(int(seconds * 10))]


# ---- a connection that others share ----


def headers(*more):
    return lambda stream: http2.frame(http2.HEADERS, 5, stream, http2.block(http2.PATH, *more))


def long_headers(stream):
    payload = http2.block(http2.PATH, *((f"x-a{i}", "b" * 1000) for i in range(17)))
    return http2.frame(http2.HEADERS, 1, stream, payload[:16384]) + http2.frame(
        http2.CONTINUATION, http2.END_HEADERS, stream, payload[16384:])


def update_of_nothing(stream):
    return http2.frame(http2.HEADERS, http2.END_HEADERS, stream, http2.BLOCK) + http2.frame(
        http2.WINDOW, 0, stream, bytes(4))


SPOILERS = {
    "17 KB of headers": long_headers,
    "600 headers": headers(*((f"x-{i}", "y") for i in range(600))),
    "900 headers": headers(*((f"x-{i}", "y") for i in range(900))),
    "a window update of 0": update_of_nothing,
}


def is_served_beside(port, spoiler):
    """Whether a call that was open before it, and one that comes after it, on the same connection, have an answer."""
    client = http2.connect(port)
    client.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.BLOCK))
    client.sendall(spoiler(3))
    client.sendall(http2.frame(http2.DATA, http2.END_STREAM, 1, http2.MESSAGE) + http2.request(5))
    answered, rest, until = set(), b"", time.monotonic() + LEFT_LIMIT_S
    is_over = False
    while answered < {1, 5} and not is_over and time.monotonic() < until:
        out, is_over = http2.read_some(client, 0.05)
        rest += out
        while len(rest) >= 9 and len(rest) >= 9 + int.from_bytes(rest[:3], "big"):
            if rest[3] == http2.DATA and int.from_bytes(rest[:3], "big"):
                answered.add(int.from_bytes(rest[5:9], "big"))
            rest = rest[9 + int.from_bytes(rest[:3], "big") :]
    client.close()
    return answered >= {1, 5}


# ---- the attacks ----


def start(name, port, seconds):
    return http2.start(name, port, seconds, __file__)


def add_attacks():
    import tempfile

    from attack import attack
    from cluster import Cluster, Process

    @attack("64 streams with an 8 MiB message without its end, from 4 addresses, again and again",
            "honest streams reset: 6 of 131 whole; 300 MiB stay", is_short=True, is_about_memory=True)
    def _(binary, model, seconds):
        cluster = Cluster(binary, model, False)
        _, words = beside_streams(cluster, "half_sent", seconds)
        cluster.stop()
        return words

    @attack("all connections of a port used from four addresses, each after one refused call",
            "59 of 59 newcomers refused; the health port, too", is_short=True)
    def _(binary, model, seconds):
        limit = ("--relay-connections-max", str(PLACES))
        with tempfile.TemporaryDirectory() as folder:
            router = Process(binary, model, folder, "router", "--generation-workers", "127.0.0.1:1", *limit,
                             wants_ready=False)
            attackers = [start("four_addresses", router.port(port), seconds) for port in ("grpc", "health")]
            until = time.monotonic() + LEFT_LIMIT_S
            while router.metric("kvferry_relay_connections") < 2 * PLACES and time.monotonic() < until:
                time.sleep(0.02)
            seen = newcomers(int(router.port("grpc")), seconds / 2)
            n_probed = probe(router.ports["health"], seconds / 2)
            for attacker in attackers:
                http2.result_of(attacker, seconds)
            router.stop()
        http2.check(all(one["calls"] and not one["failed"] for one in seen), seen)
        return f"{len(seen)} of {len(seen)} newcomers served, {n_probed} probes of the health port"

    @attack("17 KB of headers, 600 and 900 small ones, a window update of 0, on a connection with calls of others",
            "the connection ends for all", is_short=True)
    def _(binary, model, seconds):
        there = http2.target(binary, model)
        lost = [name for name, spoiler in SPOILERS.items() if not is_served_beside(there.port, spoiler)]
        http2.check(not lost, lost)
        http2.wait_nothing_left(there)
        return "only their call is refused"

    @attack("the same half requests without a token, at a port that needs one", "6 of 106 whole")
    def _(binary, model, seconds):
        from tenants import Tenants
        from tokens import bearer

        tenants = Tenants(binary, model)
        token = tenants.add("honest")
        with tenants.run():
            result, words = beside_streams(tenants.cluster, "half_sent", seconds, bearer(token))
        http2.check(result["at_once_mib"] <= 8, result)  # first windows, and what was on its way when they were refused
        return words


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]), float(sys.argv[3]))))
else:
    add_attacks()
