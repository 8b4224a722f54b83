"""Attacks on the ports that KV crosses: nobody but a described worker's process gets a byte parsed."""

import os
import pathlib
import random
import socket
import struct
import threading
import time

import grpc
from attack import attack
from cluster import Cluster
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

MAGIC = struct.pack("<Q", 0xCAFEBABE12345678)
KILLER = MAGIC + struct.pack("<BI", 0, 0xFFFFFFFF)
NOBODY = 65534
PROMPT = "In the beginning God created the heaven and the earth. " * 12


# ---- the honest client ----

def hand_over(cluster, salt):
    """One prompt whose KV must cross."""
    with grpc.insecure_channel(cluster.router.ports["grpc"]) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        reply = stub.Complete(
            generation_pb2.CompleteRequest(
                text=PROMPT,
                cache_salt=salt,
                return_timing=True,
                sampling=sampling_pb2.SamplingParams(max_tokens=4, temperature=0),
            ),
            timeout=60,
        )
    if reply.timing.kv_bytes_received == 0:
        raise RuntimeError("no KV crossed")
    return list(reply.token_ids)


class Honest(threading.Thread):
    """Hands over until it is told to stop."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster, self.stopping, self.n, self.failure = cluster, False, 0, None
        self.expected = hand_over(cluster, "first")
        self.start()

    def run(self):
        try:
            while not self.stopping:
                self.n += 1
                if hand_over(self.cluster, f"salt {self.n}") != self.expected:
                    raise RuntimeError("other tokens")
        except Exception as failure:
            self.failure = failure

    def stop(self):
        self.stopping = True
        self.join()
        if self.failure:
            raise self.failure


# ---- strangers ----

def ports_of(pid):
    """The TCP ports at which a process listens."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(os.readlink(link).removeprefix("socket:[").removesuffix("]"))
        except OSError:
            continue
    rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes}


def data_port(worker):
    """That which it tells nobody but other workers."""
    told = {int(worker.port(name)) for name in ("control", "health", "metrics")}
    (port,) = ports_of(worker.child.pid) - told
    return port


def unix_place(worker):
    """The path of its socket."""
    mine = f"/proc/{worker.child.pid}/fd"
    inodes = {os.readlink(f"{mine}/{fd}")[8:-1] for fd in os.listdir(mine)}
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[6] in inodes and words[7].startswith("/dev/shm/kvferry-"):
            return words[7]
    raise RuntimeError("the worker has no socket")


def junk(draw, n):
    """For UCX's port the thirteen bytes and frames of sane lengths; for others other rubbish."""
    kind = n % 6
    if kind == 0:
        return KILLER
    if kind in (1, 2, 3):
        length = draw.choice([1, 4, 16, 64, 200, 1000])
        return MAGIC + struct.pack("<BI", draw.randrange(256), length) + draw.randbytes(length)
    if kind == 4:
        return b"KVF1" + draw.randbytes(200)
    return bytes([0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3]) + draw.randbytes(506)


def throw(place, source, seconds):
    """Junk until the time is over, some of it left silent: how many connections were made."""
    draw, until, made, silent = random.Random(1), time.monotonic() + seconds, 0, []
    family = socket.AF_UNIX if isinstance(place, str) else socket.AF_INET
    while time.monotonic() < until:
        s = socket.socket(family)
        try:
            if source:
                s.bind((source, 0))
            s.settimeout(5)
            s.connect(place)
            made += 1
            if made % 7:
                s.sendall(junk(draw, made))
        except OSError:
            pass  # closed at once
        if made % 7 or len(silent) >= 200:
            s.close()
        else:
            silent.append(s)
    for s in silent:
        s.close()
    return made


class OtherUser:
    """A process of another user, who has the host but nothing else; None of it without root."""

    def __init__(self):
        self.child = 0
        if os.geteuid() != 0:
            return
        self.word_r, self.word_w = os.pipe()
        self.count_r, self.count_w = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            try:
                self.obey()
            finally:
                os._exit(1)  # the attacks are the parent's
        os.close(self.word_r)  # each reads an end where the other has ended without a word
        os.close(self.count_w)

    def obey(self):
        os.close(self.word_w)
        os.close(self.count_r)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        port, seconds = struct.unpack("<IB", os.read(self.word_r, 5))
        os.write(self.count_w, struct.pack("<I", throw(("127.0.0.1", port), None, seconds)))
        os._exit(0)

    def throw(self, port, seconds):
        if self.child == 0:
            return 0
        os.write(self.word_w, struct.pack("<IB", port, seconds))
        (made,) = struct.unpack("<I", os.read(self.count_r, 4))
        os.waitpid(self.child, 0)
        return made


def fallen(cluster):
    return [p.ports_file.stem for p in cluster.processes if p.child.poll() is not None]


def stop(cluster, honest):
    honest.stop()
    if fallen(cluster):
        raise RuntimeError(f"ended: {fallen(cluster)}")
    hand_over(cluster, "last")
    cluster.stop()


# ---- what the workers count of them ----

REFUSED = "kvferry_data_port_refused_total"
CONNECTIONS = "kvferry_data_port_connections"
COUNTED_LIMIT_S = 30


def wait_until(is_so, what):
    until = time.monotonic() + COUNTED_LIMIT_S
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(what)
        time.sleep(0.05)


def check_counted(worker, made, *reasons):
    """At least nearly all (what overflows the backlog never arrives), and for no other reason."""

    def counted():
        return sum(worker.metric(REFUSED, f'reason="{reason}"') for reason in reasons)

    wait_until(
        lambda: counted() >= made * 0.9 and worker.metric(CONNECTIONS, 'state="unproven"') == 0,
        f"{made} connections, {counted()} counted",
    )
    if worker.metric(REFUSED) != counted():
        raise RuntimeError(f"refused for a reason that is none of {reasons}")
    if worker.metric("kvferry_data_port_bad_messages_total"):
        raise RuntimeError("what a stranger has sent was taken for a message")
    return int(counted())


# ---- the attacks ----

@attack(
    "13 bytes to a worker's UCX data port (magic, a 0, length 0xffffffff), and junk frames",
    "abort inside UCX; `serve` ends",
    is_short=True,
)
def ucx_port(binary, model, seconds):
    other = OtherUser()  # forked before anything has threads
    cluster = Cluster(binary, model, True, "--kv-transport", "am-tcp")
    honest = Honest(cluster)
    half = max(1, seconds // 2)
    made = {
        worker: throw(("127.0.0.1", data_port(worker)), "127.0.0.2", half)
        for worker in (cluster.context, cluster.generation)
    }
    made[cluster.context] += other.throw(data_port(cluster.context), half)
    for worker, n in made.items():
        check_counted(worker, n, "stranger")
    made = sum(made.values())
    stop(cluster, honest)
    return f"{made} connections closed unread, {honest.n} KV transfers at the same time"


@attack(
    "random bytes, half a handshake and silence to the port of `--kv-transport tls`",
    "no such port",
    is_short=True,
)
def tls_port(binary, model, seconds):
    cluster = Cluster(binary, model, True, "--kv-transport", "tls")
    honest = Honest(cluster)
    made = throw(("127.0.0.1", data_port(cluster.context)), None, seconds)
    check_counted(cluster.context, made, "proof", "proof_time", "unproven_limit")
    stop(cluster, honest)
    return f"{made} connections dropped, {honest.n} KV transfers at the same time"


@attack("the same to the socket of `--kv-transport unix`, by the same user", "no such socket")
def unix_socket(binary, model, seconds):
    cluster = Cluster(binary, model, True, "--kv-transport", "unix")
    honest = Honest(cluster)
    made = throw(unix_place(cluster.context), None, seconds)
    check_counted(cluster.context, made, "proof", "proof_time", "unproven_limit")
    stop(cluster, honest)
    return f"{made} connections dropped, {honest.n} KV transfers at the same time"


@attack(
    "more silent connections than it allows to the port of `--kv-transport tls`",
    "no such port",
    is_short=True,
)
def silent_at_tls_port(binary, model, seconds):
    bounds = ("--kv-unproven-max", "4", "--kv-proof-ms", "300ms")
    cluster = Cluster(binary, model, True, "--kv-transport", "tls", *bounds)
    honest = Honest(cluster)
    worker, made, until = cluster.context, 0, time.monotonic() + seconds
    place = ("127.0.0.1", data_port(worker))
    pushed, late = 'reason="unproven_limit"', 'reason="proof_time"'
    while time.monotonic() < until or worker.metric(REFUSED, late) == 0:
        silent = [socket.create_connection(place) for _ in range(12)]
        if worker.metric(CONNECTIONS, 'state="unproven"') > 4:
            raise RuntimeError("more than --kv-unproven-max allows")
        for s in silent:  # each is closed by the worker, and not by us
            s.settimeout(COUNTED_LIMIT_S)
            if s.recv(1):
                raise RuntimeError("a stranger was answered")
            s.close()
        made += len(silent)
    n = check_counted(worker, made, "proof_time", "unproven_limit")
    if n < made or worker.metric(REFUSED, pushed) == 0:
        raise RuntimeError(f"{made} connections, {n} counted")
    stop(cluster, honest)
    return f"4 at a time, for 0.3 s; {made} closed, {honest.n} KV transfers at the same time"
