"""What one client can do to an HTTP port (api/http) beside another one. The port is tests/api/http_echo, which is built
beside the program.

As a program, what the attacks run in processes of their own: http1.py FUNCTION PORT SECONDS prints what it did as JSON.
"""

import atexit
import contextlib
import http.client
import json
import os
import pathlib
import random
import resource
import select
import socket
import struct
import subprocess
import sys
import time

import http2
from attack import attack
from http2 import Watch, check, result_of

HOST = b"Host: x\r\n"
GET = b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n"
TIMES_MS = 1000  # of every limit in time of the port
LEFT_S_MAX = 10
HONEST = "127.0.0.1"


# ---- what is done ----


def connect(port, source="127.0.0.2"):
    client = socket.socket()
    client.bind((source, 0))
    client.settimeout(5)
    client.connect(("127.0.0.1", port))
    client.setblocking(False)
    return client


def say(client, data):
    """How much of it the socket takes; -1: it has ended."""
    try:
        return client.send(data)
    except BlockingIOError:
        return 0
    except OSError:
        return -1


def open_many(port, count, sources=("127.0.0.2",)):
    clients = []
    for i in range(count):
        with contextlib.suppress(OSError):
            clients.append(connect(port, sources[i % len(sources)]))
    return clients


def reset(client):
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def many_sources(count=100):
    return [f"127.0.1.{1 + i}" for i in range(count)]


def drip(port, seconds, hello, drop, sources):
    """Connections that say a beginning and then a drop now and then; those that ended are opened again."""
    until, n_opened, n_ended, clients = time.monotonic() + seconds, 0, 0, []
    while time.monotonic() < until:
        for client in open_many(port, 600 - len(clients), sources):
            say(client, hello)
            clients.append(client)
            n_opened += 1
        still = [client for client in clients if say(client, drop) >= 0]
        n_ended += len(clients) - len(still)
        for client in set(clients) - set(still):
            client.close()
        clients = still
        time.sleep(0.1)
    for client in clients:
        client.close()
    return {"opened": n_opened, "ended": n_ended}


def half_heads(port, seconds):
    return drip(port, seconds, b"GET /hello HTTP/1.1\r\nX: ", b"a", many_sources())


def half_bodies(port, seconds):
    return drip(port, seconds, b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 60000\r\n\r\n", b"a", many_sources())


def silent(port, seconds):
    return drip(port, seconds, b"", b"", many_sources())


def large_halves(port, seconds):
    """All but the end of 8 MiB, from 4 addresses, again and again."""
    until, n, n_bytes, zeros = time.monotonic() + seconds, 0, 0, bytes(1 << 16)
    head = b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 8388608\r\n\r\n"
    while time.monotonic() < until:
        clients = open_many(port, 32, [f"127.0.0.{2 + i}" for i in range(4)])
        left = {client: (8 << 20) - 10 for client in clients}
        for client in clients:
            say(client, head)
        end = min(until, time.monotonic() + 2)
        while left and time.monotonic() < end:
            for client in list(left):
                sent = say(client, zeros[: left[client]])
                left[client] -= max(sent, 0)
                n_bytes += max(sent, 0)
                if sent < 0 or left[client] <= 0:
                    left.pop(client)
            time.sleep(0.001)
        n += len(clients)
        for client in clients:
            reset(client)
    return {"connections": n, "sent_mib": n_bytes >> 20}


def repeat(port, seconds, data, count=64, reads=True):
    """Says data again and again on many connections, and opens those again that ended."""
    until, n_bytes, n_opened, clients = time.monotonic() + seconds, 0, 0, {}
    while time.monotonic() < until:
        for client in open_many(port, count - len(clients)):
            clients[client] = b""
            n_opened += 1
        for client in list(clients):
            rest = clients[client] or data
            sent = say(client, rest)
            n_bytes += max(sent, 0)
            clients[client] = rest[max(sent, 0) :]
            if sent < 0:
                clients.pop(client)
                client.close()
        if reads and clients:
            for client in select.select(list(clients), [], [], 0)[0]:
                with contextlib.suppress(OSError):
                    if client.recv(1 << 16):
                        continue
                clients.pop(client)
                client.close()
        time.sleep(0.001)
    for client in clients:
        client.close()
    return {"sent_mib": n_bytes >> 20, "opened": n_opened}


CHUNKED = b"POST /echo HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


def huge_chunks(port, seconds):
    return repeat(port, seconds, CHUNKED + b"fffffffffffffff\r\n" + bytes(10000))


def tiny_chunks(port, seconds):
    return repeat(port, seconds, CHUNKED + b"1\r\na\r\n" * 60000 + b"0\r\n\r\n")


def long_extensions(port, seconds):
    return repeat(port, seconds, CHUNKED + (b"1;" + b"x" * 200 + b"\r\na\r\n") * 1000)


def many_fields(port, seconds):
    return repeat(port, seconds, b"GET /hello HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 10000 + b"\r\n")


def long_heads(port, seconds):
    return repeat(port, seconds, b"GET /hello HTTP/1.1\r\n" + HOST + b"a: " + b"b" * 1000000)


def requests_ahead(port, seconds):
    return repeat(port, seconds, GET * 200, reads=False)


def requests_ahead_read(port, seconds):
    return repeat(port, seconds, GET * 200, count=8)


def reads_nothing(port, seconds):
    return repeat(port, seconds, b"GET /flood HTTP/1.1\r\n" + HOST + b"\r\n", reads=False)


def large_answers_unread(port, seconds):
    body = b"POST /echo HTTP/1.1\r\n" + HOST + b"Content-Length: 4194304\r\n\r\n" + bytes(4 << 20)
    return repeat(port, seconds, body, count=6, reads=False)


def random_bytes(port, seconds):
    return repeat(port, seconds, random.Random(1).randbytes(2000))


def tls_hellos(port, seconds):
    return repeat(port, seconds, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500))


def preface_of_http2(port, seconds):
    return repeat(port, seconds, http2.PREFACE + bytes(1000))


def again_and_again(port, seconds, data, end):
    until, n = time.monotonic() + seconds, 0
    sources = many_sources(250)
    while time.monotonic() < until:
        for client in open_many(port, 50, [sources[(n + i) % 250] for i in range(50)]):
            say(client, data)
            end(client)
            n += 1
    return {"connections": n}


def connections(port, seconds):
    return again_and_again(port, seconds, b"", lambda client: client.close())


def resets(port, seconds):
    return again_and_again(port, seconds, b"GET /stream?n=100 HTTP/1.1\r\n" + HOST + b"\r\n", reset)


def honest(port, seconds):
    """A call on a connection that is kept, and one on a new connection, in turn. As clients do, it opens the kept one anew
    when that was idle for about as long as the port allows: a call may take longer on a slow machine."""
    until, times, failures, answered = time.monotonic() + seconds, [], [], time.monotonic()
    kept = http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=(HONEST, 0))
    while time.monotonic() < until:
        new = http.client.HTTPConnection("127.0.0.1", port, timeout=20, source_address=(HONEST, 0))
        for connection in kept, new:
            begin = time.monotonic()
            if connection is kept and begin - answered > TIMES_MS / 2000:
                kept.close()
            try:
                connection.request("GET", "/hello")
                text = connection.getresponse().read()
                failures += [] if text == b"hello" else [text]
            except (OSError, http.client.HTTPException) as error:
                failures.append(error)
            times.append(time.monotonic() - begin)
            if connection is kept:
                answered = time.monotonic()
        new.close()
        time.sleep(0.02)
    times.sort()
    return {"calls": len(times), "failed": len(failures), "why": repr(failures[:3]),
            "p99": times[len(times) * 99 // 100] * 1000, "max": times[-1] * 1000}


# ---- what comes of it ----


class Port:
    """One port for all attacks here, so that what one leaves behind meets the next."""

    def __init__(self, binary):
        program = pathlib.Path(binary).parent / "tests" / "api" / "http_echo"
        self.child = subprocess.Popen([program, "--times-ms", str(TIMES_MS)], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.number = int(self.child.stdout.readline())
        atexit.register(self.child.kill)

    def resident_mib(self):
        status = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def metric(self, line):
        connection = http.client.HTTPConnection("127.0.0.1", self.number, timeout=20)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return float(text.split(f"\n{line} ")[1].split("\n")[0])

    def wait_nothing_left(self):
        begin = time.monotonic()
        while self.metric("kvferry_http_connections") > 1 or self.metric("kvferry_http_requests_running") > 1:
            if time.monotonic() - begin > LEFT_S_MAX:
                raise RuntimeError(f"{self.metric('kvferry_http_connections')} connections are left")
            time.sleep(0.05)


PORTS = []


def target(binary):
    if not PORTS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
        PORTS.append(Port(binary))
    return PORTS[0]


def beside_honest(binary, name, seconds, resident_mib_max):
    there = target(binary)
    watch = Watch(there)
    try:
        client = http2.start("honest", there.number, seconds + 0.5, __file__)
        time.sleep(0.2)
        result = result_of(http2.start(name, there.number, seconds, __file__), seconds)
        seen = result_of(client, seconds)
        there.wait_nothing_left()
    finally:
        peak_mib = watch.stop()
    print(f"    {name}: {result} honest {seen} peak {peak_mib:.0f} MiB", file=sys.stderr)
    if peak_mib > resident_mib_max and not http2.IS_SANITIZED:
        raise RuntimeError(f"{name}: the port had {peak_mib:.0f} MiB")
    if seen["failed"] or seen["calls"] < 10 or seen["max"] > http2.HONEST_SECONDS_MAX * 1000:
        raise RuntimeError(f"{name}: the honest client had {seen}")
    return result, f"port at most {peak_mib:.0f} MiB; honest p99 {seen['p99']:.1f} ms, none failed"


# name, what is tried, what evhttp (docs/decisions/0039) did or "-", most MiB.
FLOODS = [
    ("half_heads", "600 connections from 100 addresses that send a head a byte at a time", "held for ever", 60),
    ("half_bodies", "the same with a body of 60,000 bytes", "held for ever", 60),
    ("silent", "600 connections that say nothing", "held for ever", 60),
    ("huge_chunks", "chunks that say that they have 2^60 bytes", "413", 60),
    ("tiny_chunks", "bodies of 60,000 chunks of a byte", "served", 100),
    ("long_extensions", "chunks of a byte with extensions of 200", "413", 60),
    ("many_fields", "heads of 10,000 fields", "400", 60),
    ("long_heads", "heads of 1 MB", "400", 60),
    ("requests_ahead", "requests one behind the other without end, answers unread", "1.3 GiB in 5 s", 60),
    ("requests_ahead_read", "the same, answers read", "served", 60),
    ("reads_nothing", "64 streams that are never read", "no bound", 160),
    ("large_answers_unread", "answers of 4 MiB that are never read", "no bound", 160),
    ("random_bytes", "random bytes", "400", 60),
    ("tls_hellos", "TLS to the port of clear text", "400", 60),
    ("preface_of_http2", "HTTP/2 to the port", "400", 60),
    ("connections", "connections as fast as they go, from 250 addresses", "-", 60),
    ("resets", "streams that are asked for and reset, as fast as they go, from 250 addresses", "-", 200),
]
SHORT = {"half_heads", "half_bodies", "tiny_chunks", "many_fields", "requests_ahead", "reads_nothing", "large_answers_unread",
         "resets"}
ABOUT_MEMORY = {"requests_ahead", "reads_nothing", "large_answers_unread"}


def add(name, tried, before, resident_mib_max):
    def run(binary, _model, seconds):
        return beside_honest(binary, name, seconds, resident_mib_max)[1]

    attack(f"HTTP/1.1: {tried}", before, is_short=name in SHORT, is_about_memory=name in ABOUT_MEMORY)(run)


for row in FLOODS:
    add(*row)


@attack("HTTP/1.1: 32 bodies of 8 MiB without their end from 4 addresses, again and again", "no bound for all together",
        is_short=True, is_about_memory=True)
def large_bodies(binary, _model, seconds):
    result, words = beside_honest(binary, "large_halves", seconds, 200)
    check(result["connections"] >= 32, result)
    return words


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]), float(sys.argv[3]))))
