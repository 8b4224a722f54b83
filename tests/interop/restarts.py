"""Every call ends, by an answer or an error, when the only router is told to stop and started again, twelve times, at the
default drain delay: none waits past its deadline.

    restarts.py KVFERRY_BINARY MODEL_FOLDER
"""

import contextlib
import random
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

import grpc
from cluster import Process
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

BINARY, MODEL = sys.argv[1:3]
N_RESTARTS = 12
N_CLIENTS = 10
N_CALLS = 4  # answered by all together before each restart
CALL_LIMIT_S = 30
HANG_S = 30  # beyond its deadline: no call is late so long for the machine's sake
REQUEST = generation_pb2.GenerateRequest(
    text="In the beginning",
    sampling=sampling_pb2.SamplingParams(max_tokens=8, temperature=0, ignore_eos=True))


class Client(threading.Thread):
    """One call after the other, as an application does that knows nothing of restarts."""

    def __init__(self, address):
        super().__init__(daemon=True)
        self.channel = grpc.insecure_channel(address, [
            ("grpc.use_local_subchannel_pool", 1), ("grpc.initial_reconnect_backoff_ms", 100)])
        self.n_answered, self.ends, self.began_s, self.is_over = 0, set(), time.monotonic(), False

    def run(self):
        stub = generation_pb2_grpc.GenerationServiceStub(self.channel)
        waits = False  # for the connection: who has seen that there is none
        while not self.is_over:
            self.began_s = time.monotonic()
            try:
                for _ in stub.Generate(REQUEST, timeout=CALL_LIMIT_S, wait_for_ready=waits):
                    pass
                self.n_answered += 1
                waits = False
            except grpc.RpcError as error:
                self.ends.add(f"{error.code().name}: {error.details()}")
                waits = True

    def hangs(self):
        return time.monotonic() - self.began_s > CALL_LIMIT_S + HANG_S


def free_port():
    """One that the kernel gives nobody who connects: it has to be free after each restart, too."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = int(file.read().split()[0])
    ports = range(end // 2, end) if end > 4096 else range(4096, 65536)
    while True:
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", random.choice(ports)))
            return s.getsockname()[1]


class Restarts(unittest.TestCase):
    def start_router(self, folder, generation, address):
        router = Process(BINARY, MODEL, folder, "router", "--generation-workers", generation.ports["control"],
                         "--grpc-address", address)
        self.addCleanup(router.stop)
        while router.metric("kvferry_peers", 'state="ready"') < 1:
            pass
        return router

    def wait_until(self, is_so, clients):
        while not is_so():
            self.assertFalse([client.name for client in clients if client.hangs()], "wait past their deadline")
            time.sleep(0.01)

    def test_no_call_hangs(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        generation = Process(BINARY, MODEL, folder.name, "gen-worker")
        self.addCleanup(generation.stop)
        address = f"127.0.0.1:{free_port()}"
        router = self.start_router(folder.name, generation, address)
        clients = [Client(address) for _ in range(N_CLIENTS)]
        for client in clients:
            client.start()
        for _ in range(N_RESTARTS):
            wanted = [client.n_answered + N_CALLS for client in clients]
            self.wait_until(lambda: all(c.n_answered >= n for c, n in zip(clients, wanted)), clients)
            router.child.send_signal(signal.SIGTERM)
            self.assertEqual(router.child.wait(60), 0)
            router = self.start_router(folder.name, generation, address)
        for client in clients:
            client.is_over = True
        self.wait_until(lambda: not any(client.is_alive() for client in clients), clients)
        ends = set().union(*(client.ends for client in clients))
        self.assertFalse([end for end in ends if not end.startswith("UNAVAILABLE")], ends)
        for client in clients:
            client.channel.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
