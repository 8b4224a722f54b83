"""HTTP/2 at its worst against the router's public port, from raw sockets.

As a program, what the attacks run in processes of their own: http2.py FUNCTION PORT SECONDS prints what it
did as JSON.
"""

import atexit
import contextlib
import json
import os
import pathlib
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PATH = "/kvferry.v1.ModelService/ListModels"
IS_SANITIZED = bool(os.environ.get("ABUSE_SANITIZED"))
RESIDENT_MIB_MAX = 1000 if IS_SANITIZED else 100
LEFT_S_MAX = 10
HONEST_SECONDS_MAX = 2.0  # of any one of its calls


# ---- frames ----


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(**values):
    numbers = {"streams": 3, "window": 4, "frame": 5}
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", numbers[k], v) for k, v in values.items()))


def text(value):
    value = value.encode() if isinstance(value, str) else value
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, out = len(value) - 127, bytes([127])
    while rest >= 128:
        out += bytes([rest % 128 + 128])
        rest //= 128
    return out + bytes([rest]) + value


def header(name, value):
    return b"\x00" + text(name) + text(value)  # never indexed: the same bytes in every block


def block(path, *more):
    pairs = [(":path", path), (":authority", "x"), ("content-type", "application/grpc"), ("te", "trailers"), *more]
    return b"\x83\x86" + b"".join(header(*pair) for pair in pairs)


BLOCK = block(PATH)
MESSAGE = b"\0\0\0\0\0"
HELLO = PREFACE + settings()


def request(stream):
    return frame(HEADERS, END_HEADERS, stream, BLOCK) + frame(DATA, END_STREAM, stream, MESSAGE)


# ---- clients ----


SOURCE = "127.0.0.2"  # each attack has its own: its debts are not the next one's


def receive(client, n):
    """So many bytes, or fewer at the end."""
    out = b""
    while len(out) < n and (part := client.recv(n - len(out))):
        out += part
    return out


def connect(port, source=None, hello=HELLO, acknowledges=True):
    client = socket.create_connection(("127.0.0.1", port), 5, source_address=(source or SOURCE, 0))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client.sendall(hello)
    if acknowledges and hello.startswith(PREFACE):
        size = int.from_bytes(receive(client, 9)[:3], "big")  # the server's own
        receive(client, size)
        client.sendall(frame(SETTINGS, ACK, 0))
    return client


def read_some(client, seconds=0.0):
    """What has come, and whether the connection has ended."""
    client.settimeout(seconds or 0.0001)
    out = b""
    try:
        while len(out) < 1 << 20:
            part = client.recv(65536)
            if not part:
                return out, True
            out += part
    except TimeoutError:
        return out, False
    except OSError:
        return out, True
    return out, False


def honest(port, seconds):
    """Calls one after the other until told to stop; their times in ms."""
    client, rest, stream = None, b"", 1
    times, n_failed, why = [], 0, ""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        begin = time.monotonic()
        try:
            if client is None:
                client, rest, stream = connect(port, "127.0.0.1", acknowledges=False), b"", 1
                client.settimeout(5)
            client.sendall(request(stream))
            is_over = False
            while not is_over:
                while len(rest) >= 9 and len(rest) >= 9 + int.from_bytes(rest[:3], "big"):
                    size, kind, flags = int.from_bytes(rest[:3], "big"), rest[3], rest[4]
                    found = int.from_bytes(rest[5:9], "big")
                    payload, rest = rest[9 : 9 + size], rest[9 + size :]
                    if kind == SETTINGS and not flags & ACK:
                        client.sendall(frame(SETTINGS, ACK, 0))
                    elif kind == PING and not flags & ACK:
                        client.sendall(frame(PING, ACK, 0, payload))
                    elif kind == DATA and size:
                        client.sendall(frame(WINDOW, 0, 0, struct.pack(">I", size)))
                    elif kind in (RESET, GOAWAY):
                        raise OSError("cut off")
                    is_over = is_over or (kind == HEADERS and found == stream and flags & END_STREAM)
                if not is_over:
                    part = client.recv(65536)
                    if not part:
                        raise OSError("ended")
                    rest += part
            stream += 2
            times.append((time.monotonic() - begin) * 1000)
            time.sleep(0.002)
        except OSError as error:
            n_failed += 1
            why = repr(error)
            client = None
            time.sleep(0.02)
    times.sort()
    if not times:
        return {"calls": 0, "failed": n_failed, "why": why, "p50": 0, "p99": 0, "max": 0}
    return {
        "calls": len(times),
        "failed": n_failed,
        "why": why,
        "p50": times[len(times) // 2],
        "p99": times[len(times) * 99 // 100],
        "max": times[-1],
    }


# ---- floods: connections that say the same again and again, and reconnect when cut off ----


def flood(port, seconds, make, hello=HELLO, sources=(None,)):
    """make(n) are the bytes of the n-th piece of a connection."""
    until, n_sent, n_connections, n_refused = time.monotonic() + seconds, 0, 0, 0
    while time.monotonic() < until:
        try:
            client = connect(port, sources[n_connections % len(sources)], hello)
            n_connections += 1
        except OSError:
            n_refused += 1
            time.sleep(0.01)
            continue
        n = 0
        with contextlib.suppress(OSError):
            while time.monotonic() < until:
                client.settimeout(until - time.monotonic() + 0.01)
                client.sendall(make(n))
                n += 1
                if read_some(client)[1]:
                    break
        n_sent += n
        client.close()
    return {"pieces": n_sent, "connections": n_connections, "refused": n_refused}


def pieces(one, count=100):
    """Of a function of a stream's id: pieces of so many in a row."""
    return lambda n: b"".join(one(2 * (n * count + i) + 1) for i in range(count))


def reset_streams(port, seconds):
    return flood(
        port, seconds, pieces(lambda s: frame(HEADERS, END_HEADERS, s, BLOCK) + frame(RESET, 0, s, b"\0\0\0\x08"))
    )


def reset_requests(port, seconds):
    sources = [f"127.0.{i // 250 + 3}.{i % 250 + 1}" for i in range(250)]
    return flood(port, seconds, pieces(lambda s: request(s) + frame(RESET, 0, s, b"\0\0\0\x08")), sources=sources)


def provoke_resets(port, seconds):
    """A window that overflows makes the server reset the stream."""
    return flood(port, seconds, pieces(lambda s: request(s) + frame(WINDOW, 0, s, b"\x7f\xff\xff\xff") * 2))


def repeat(bytes_, count=500):
    return lambda port, seconds: flood(port, seconds, lambda n: bytes_ * count)


pings = repeat(frame(PING, 0, 0, b"12345678"))
ping_answers = repeat(frame(PING, ACK, 0, b"12345678"))
empty_settings = repeat(frame(SETTINGS, 0, 0))
many_settings = repeat(settings(window=65535) + settings(window=1))
settings_answers = repeat(frame(SETTINGS, ACK, 0))
windows = repeat(frame(WINDOW, 0, 0, b"\0\0\0\1"))
priorities = repeat(frame(PRIORITY, 0, 1, b"\0\0\0\0\x10"))
unknown_frames = repeat(frame(77, 0, 0, b"x" * 100))
goaways = repeat(frame(GOAWAY, 0, 0, b"\0" * 8))
resets_of_nothing = repeat(frame(RESET, 0, 1, b"\0\0\0\x08"))
push_promises = repeat(frame(PUSH, END_HEADERS, 1, b"\0\0\0\2" + BLOCK))


def empty_data(port, seconds):
    begin = frame(HEADERS, END_HEADERS, 1, BLOCK)
    return flood(port, seconds, lambda n: (begin if n == 0 else b"") + frame(DATA, 0, 1) * 500)


def tiny_data(port, seconds):
    begin = frame(HEADERS, END_HEADERS, 1, BLOCK)
    return flood(port, seconds, lambda n: (begin if n == 0 else b"") + frame(DATA, 0, 1, b"\0") * 500)


def late_headers(port, seconds):
    return flood(port, seconds, lambda n: frame(HEADERS, END_HEADERS, 1, BLOCK) * 100)


def endless_headers(port, seconds):
    more = frame(CONTINUATION, 0, 1, header("x-a", "b" * 16000)) * 20
    return flood(port, seconds, lambda n: (frame(HEADERS, 0, 1, BLOCK) if n == 0 else b"") + more)


def empty_continuations(port, seconds):
    more = frame(CONTINUATION, 0, 1) * 1000
    return flood(port, seconds, lambda n: (frame(HEADERS, 0, 1, BLOCK) if n == 0 else b"") + more)


def long_headers(port, seconds):
    """A list of 1 MB that ends: is it answered?"""
    n_answered, n_tried, until = 0, 0, time.monotonic() + seconds
    while time.monotonic() < until:
        n_tried += 1
        with contextlib.suppress(OSError):
            client = connect(port)
            parts = [frame(CONTINUATION, 0, 1, header("x-a", "b" * 16000)) for _ in range(64)]
            parts.append(frame(CONTINUATION, END_HEADERS, 1) + frame(DATA, END_STREAM, 1, MESSAGE))
            client.sendall(frame(HEADERS, 0, 1, BLOCK) + b"".join(parts))
            out, _ = read_some(client, 0.3)
            n_answered += b"grpc-status" in out
            client.close()
    return {"tried": n_tried, "answered": n_answered}


def indexed_bomb(port, seconds):
    """One large entry of the table, named again and again in each list."""
    first = BLOCK + b"\x40" + text("x-a") + text("b" * 3900)
    again = BLOCK + b"\xbe" * 4000
    return flood(port, seconds, lambda n: frame(HEADERS, 5, 2 * n + 1, first if n == 0 else again))


def random_frames(port, seconds):
    draw = random.Random(1)

    def make(_):
        kinds = [draw.randrange(12) for _ in range(20)]
        return b"".join(
            frame(k, draw.randrange(256), draw.randrange(20), draw.randbytes(draw.randrange(60))) for k in kinds
        )

    return flood(port, seconds, make)


def random_bytes(port, seconds):
    draw = random.Random(2)
    return flood(port, seconds, lambda n: draw.randbytes(1000))


def huge_frames(port, seconds):
    return flood(port, seconds, lambda n: b"\xff\xff\xff" + bytes([SETTINGS, 0, 0, 0, 0, 0]) + b"\0" * 60000)


def no_preface(port, seconds):
    return flood(port, seconds, lambda n: b"GET / HTTP/1.1\r\n\r\n" * 100, hello=b"")


# ---- holders: connections that keep what they have got ----


def hold(clients, seconds):
    """Reads until the end; how many connections were still there, and the streams that were reset."""
    until, n_resets = time.monotonic() + seconds, 0
    rest = {client: b"" for client in clients}  # of those that are open
    while time.monotonic() < until and rest:
        for client in list(rest):
            out, is_over = read_some(client)
            out = rest[client] + out
            while len(out) >= 9 and len(out) >= 9 + int.from_bytes(out[:3], "big"):
                n_resets += out[3] == RESET
                out = out[9 + int.from_bytes(out[:3], "big") :]
            rest[client] = out
            if is_over:
                del rest[client]
        time.sleep(0.02)
    return {"open": len(rest), "resets": n_resets}


def open_many(port, count, hello, source=None):
    clients = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            clients.append(connect(port, source, hello))
    return clients


def unacknowledged(port, seconds):
    """99,500 HEADERS on one connection that never acknowledges SETTINGS."""
    n_opened = 0
    client = connect(port, acknowledges=False)
    with contextlib.suppress(OSError):
        for n in range(0, 99500, 500):
            client.settimeout(seconds)
            client.sendall(b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, BLOCK) for i in range(n, n + 500)))
            n_opened = n + 500
            if read_some(client)[1]:
                break
    return {"opened": n_opened} | hold([client], seconds)


def no_window(port, seconds):
    """1,100 calls whose answers may not be sent."""
    clients = open_many(port, 5, PREFACE + settings(window=0))
    for client in clients:
        with contextlib.suppress(OSError):
            client.sendall(b"".join(request(2 * i + 1) for i in range(220)))
    return hold(clients, seconds)


def half_open(port, seconds):
    """1,000 streams without their request."""
    clients = open_many(port, 10, HELLO)
    for client in clients:
        with contextlib.suppress(OSError):
            client.sendall(b"".join(frame(HEADERS, END_HEADERS, 2 * i + 1, BLOCK) for i in range(100)))
    return {"streams": 1000} | hold(clients, seconds)


def half_open_again(port, seconds):
    return flood(port, seconds, pieces(lambda s: frame(HEADERS, END_HEADERS, s, BLOCK)))


def half_open_everywhere(port, seconds):
    sources = [f"127.0.{i // 250 + 5}.{i % 250 + 1}" for i in range(250)]
    return flood(port, seconds, pieces(lambda s: frame(HEADERS, END_HEADERS, s, BLOCK)), sources=sources)


def trickle(port, seconds):
    """Requests that come a byte at a time."""
    clients = open_many(port, 20, HELLO)
    for client in clients:
        with contextlib.suppress(OSError):
            client.sendall(frame(HEADERS, END_HEADERS, 1, BLOCK) + frame(DATA, 0, 1, b"\0\0\0\1\0"))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for client in clients:
            with contextlib.suppress(OSError):
                client.sendall(frame(DATA, 0, 1, b"\0"))
        time.sleep(0.2)
    return hold(clients, 0.1)


def silent(port, seconds):
    return hold(open_many(port, 2000, b""), seconds)


def silent_after_settings(port, seconds):
    return hold(open_many(port, 2000, HELLO), seconds)


def half_a_frame(port, seconds):
    clients = open_many(port, 200, HELLO)
    for client in clients:
        with contextlib.suppress(OSError):
            client.sendall(frame(HEADERS, END_HEADERS, 1, BLOCK)[:20])
    return hold(clients, seconds)


def half_a_preface(port, seconds):
    return hold(open_many(port, 200, PREFACE[:10]), seconds)


def reads_nothing(port, seconds):
    """Calls whose answers stay in the sockets."""
    clients = open_many(port, 50, HELLO)
    until, n = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for client in clients:
            client.settimeout(0.01)
            with contextlib.suppress(OSError):
                client.sendall(request(2 * n + 1))
        n += 1
    return {"calls": n * len(clients)}


def connections(port, seconds):
    """As many as go, ended at once."""
    until, n = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.setblocking(False)
        with contextlib.suppress(OSError):
            client.bind((SOURCE, 0))
            client.connect_ex(("127.0.0.1", port))
            if n % 2:
                client.send(HELLO)
        client.close()
        n += 1
    return {"connections": n}


# ---- what the attacks share ----


class Target:
    """One router for all attacks here, so that what one leaves behind meets the next."""

    def __init__(self, binary, model):
        import cluster

        self.folder = tempfile.TemporaryDirectory()
        self.router = cluster.Process(
            binary,
            model,
            self.folder.name,
            "router",
            *("--generation-workers", "127.0.0.1:1", "--relay-half-open-ms", "1s", "--relay-request-ms", "1500ms"),
            *("--relay-handshake-ms", "1s", "--relay-settings-ms", "1s", "--relay-frame-ms", "1s"),
            *("--slow-reader-ms", "2s", "--relay-behind-ms", "1s"),
            wants_ready=False,
        )
        atexit.register(self.stop)
        self.port = int(self.router.port("grpc"))

    def stop(self):
        if self.router.child.poll() is None:
            self.router.child.terminate()
            self.router.child.wait(60)
        self.router.log.close()
        self.folder.cleanup()

    def struck(self, limit):
        return self.router.metric("kvferry_relay_struck_total", f'limit="{limit}"')


TARGETS = []


def target(binary, model):
    if not TARGETS:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
        TARGETS.append(Target(binary, model))
    return TARGETS[0]


def start(name, port, seconds, program=__file__):
    command = [sys.executable, "-B", program, name, str(port), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result_of(child, seconds):
    out, _ = child.communicate(timeout=seconds + 60)
    if child.returncode:
        raise RuntimeError(f"{child.args[3]} ended with {child.returncode}")
    return json.loads(out)


class Watch:
    """The most memory that a process had."""

    def __init__(self, process):
        self.process, self.peak_mib, self.is_over = process, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self):
        while not self.is_over.wait(0.01):
            self.peak_mib = max(self.peak_mib, self.process.resident_mib())

    def stop(self):
        self.is_over.set()
        self.thread.join()
        return self.peak_mib


def wait_nothing_left(there):
    begin = time.monotonic()
    while there.router.metric("kvferry_relay_connections"):
        if time.monotonic() - begin > LEFT_S_MAX:
            raise RuntimeError(f"{there.router.metric('kvferry_relay_connections')} connections are left")
        time.sleep(0.05)


def beside_honest(binary, model, name, seconds):
    """Runs one beside an honest client. Its result, and the outcome in words."""
    there = target(binary, model)
    watch = Watch(there.router)
    client = start("honest", there.port, seconds + 0.5)
    time.sleep(0.2)
    attacker = start(name, there.port, seconds)
    result = result_of(attacker, seconds)
    seen = result_of(client, seconds)
    wait_nothing_left(there)
    peak_mib = watch.stop()
    print(f"    {name}: {result} honest {seen} peak {peak_mib:.0f} MiB", file=sys.stderr)
    if peak_mib > RESIDENT_MIB_MAX:
        raise RuntimeError(f"{name}: the router had {peak_mib:.0f} MiB")
    if seen["failed"] or seen["calls"] < 10 or seen["max"] > HONEST_SECONDS_MAX * 1000:
        raise RuntimeError(f"{name}: the honest client had {seen}")
    return result, f"router at most {peak_mib:.0f} MiB; honest p99 {seen['p99']:.1f} ms, none failed"


def check(is_right, result):
    if not is_right:
        raise RuntimeError(f"wrong: {result}")


def beside_honest_alone(name):
    def run(binary, model, seconds):
        return beside_honest(binary, model, name, seconds)[1]

    return run


# Those of which nothing more is asked than that an honest client does not notice: name, what is done, what came of it.
FLOODS = [
    ("provoke_resets", "resets that the client makes the server send", "1.0 GiB"),
    ("half_open_again", "half-open streams, on new connections again and again", "12 KiB each, held"),
    ("half_open_everywhere", "the same, from 250 addresses", "12 KiB each, held"),
    ("ping_answers", "answers to PINGs that were never sent", "served"),
    ("empty_settings", "empty SETTINGS without end", "served"),
    ("settings_answers", "acknowledgements without end", "served"),
    ("windows", "WINDOW_UPDATE without end", "served"),
    ("priorities", "PRIORITY without end", "served"),
    ("unknown_frames", "unknown frames without end", "served"),
    ("goaways", "GOAWAY without end", "served"),
    ("resets_of_nothing", "RST_STREAM for a stream that does not exist", "served"),
    ("push_promises", "PUSH_PROMISE from a client", "closed"),
    ("empty_data", "empty DATA without end", "served"),
    ("tiny_data", "DATA of one byte without end", "served"),
    ("late_headers", "HEADERS for one stream again and again", "served"),
    ("empty_continuations", "empty CONTINUATION without end", "served"),
    ("indexed_bomb", "a large indexed header 4,000 times in each list", "refused"),
    ("random_frames", "random frames", "no crash"),
    ("random_bytes", "random bytes", "no crash"),
    ("huge_frames", "frames of 16 MB other than DATA", "closed"),
    ("no_preface", "HTTP/1.1", "closed"),
    ("silent_after_settings", "2,000 connections without a request", "held without limit"),
    ("half_a_frame", "half a frame", "held without limit"),
    ("half_a_preface", "half a preface", "held without limit"),
    ("reads_nothing", "answers that are not read", "served"),
    ("connections", "connections as fast as possible", "descriptors run out"),
]


def add_attacks():
    from attack import attack

    @attack(
        "one connection, 99,500 HEADERS, no SETTINGS acknowledgement",
        "1.5 GiB; honest clients refused for 15 s",
        is_short=True,
        is_about_memory=True,
    )
    def _(binary, model, seconds):
        result, words = beside_honest(binary, model, "unacknowledged", seconds)
        check(result["open"] == 0, result)
        return f"connection ended; {words}"

    @attack("1,100 streams with window 0 from one client", "used all of calls_max for 16 s", is_short=True)
    def _(binary, model, seconds):
        before = target(binary, model).struck("address_streams")
        result, words = beside_honest(binary, model, "no_window", seconds)
        check(result["resets"] >= 100 and target(binary, model).struck("address_streams") > before, result)
        return f"those beyond 768 reset; {words}"

    @attack("1,000 half-open streams", "held 35 s past deadline and connection age", is_short=True)
    def _(binary, model, seconds):
        before = target(binary, model).struck("half_open_time")
        result, words = beside_honest(binary, model, "half_open", seconds)
        check(target(binary, model).struck("half_open_time") >= before + 256, result)
        return f"256 of them accepted, and reset in time; {words}"

    @attack("resets as fast as possible", "27,000 a second; 1.8 GiB, not returned", is_short=True, is_about_memory=True)
    def _(binary, model, seconds):
        return beside_honest(binary, model, "reset_streams", seconds)[1]

    @attack("whole requests reset, from 250 addresses", "2.8 GiB")
    def _(binary, model, seconds):
        return beside_honest(binary, model, "reset_requests", seconds)[1]

    @attack("1 MB of headers in CONTINUATION", "passes the 16 KiB limit", is_short=True)
    def _(binary, model, seconds):
        result, words = beside_honest(binary, model, "long_headers", seconds)
        check(result["tried"] and not result["answered"], result)
        return f"none answered; {words}"

    @attack("CONTINUATION without end", "1.2 GiB")
    def _(binary, model, seconds):
        return beside_honest(binary, model, "endless_headers", seconds)[1]

    @attack("more connections than descriptors", "never accepts again", is_short=True)
    def _(binary, model, seconds):
        there = target(binary, model)
        pid = there.router.child.pid
        n_open = len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        before = there.struck("descriptors")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (n_open + 40, hard))
        clients = [socket.socket() for _ in range(150)]
        for client in clients:
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", there.port))
        time.sleep(seconds / 2)
        for client in clients:
            client.close()
        time.sleep(0.2)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
        seen = honest(there.port, seconds / 2)
        check(seen["calls"] > 10 and there.struck("descriptors") > before, seen)
        wait_nothing_left(there)
        return f"refused meanwhile, {seen['calls']} calls served afterwards"

    @attack("2,000 connections that send nothing", "held without limit", is_short=True)
    def _(binary, model, seconds):
        result, words = beside_honest(binary, model, "silent", max(seconds, 2))
        check(result["open"] == 0, result)
        return f"none left; {words}"

    @attack("PING without end", "146 MiB")
    def _(binary, model, seconds):
        return beside_honest(binary, model, "pings", seconds)[1]

    @attack("SETTINGS without end", "197 MiB")
    def _(binary, model, seconds):
        return beside_honest(binary, model, "many_settings", seconds)[1]

    @attack("requests that arrive one byte at a time", "held without limit")
    def _(binary, model, seconds):
        before = target(binary, model).struck("request_time")
        words = beside_honest(binary, model, "trickle", seconds)[1]
        check(target(binary, model).struck("request_time") > before, words)
        return f"reset; {words}"

    for name, tried, before in FLOODS:
        attack(tried, before)(beside_honest_alone(name))


if __name__ == "__main__":
    SOURCE = f"127.9.{zlib.crc32(sys.argv[1].encode()) % 250 + 1}.1"
    print(json.dumps(globals()[sys.argv[1]](int(sys.argv[2]), float(sys.argv[3]))))
else:
    add_attacks()
