"""Clients that retry nothing lose no call when one of two routers is restarted: in the last second of its drain delay it
sends them to the other one.

    rolling_restart.py KVFERRY_BINARY MODEL_FOLDER
"""

import signal
import sys
import tempfile
import threading
import unittest

import grpc
from cluster import Process
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

BINARY, MODEL = sys.argv[1:3]
POLICIES = ("pick_first", "round_robin")
N_CLIENTS_EACH = 4
N_BEFORE, N_AFTER = 20, 20  # calls of each client
REQUEST = generation_pb2.CompleteRequest(
    text="In the beginning", sampling=sampling_pb2.SamplingParams(max_tokens=4, temperature=0))


class Client(threading.Thread):
    def __init__(self, target, policy):
        super().__init__()
        self.channel = grpc.insecure_channel(target, [
            ("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1),
            ("grpc.service_config", '{"loadBalancingConfig": [{"%s": {}}]}' % policy)])
        self.n_answered = 0
        self.failure = None
        self.is_over = False

    def run(self):
        stub = generation_pb2_grpc.GenerationServiceStub(self.channel)
        try:
            while not self.is_over:
                stub.Complete(REQUEST, timeout=60)
                self.n_answered += 1
        except grpc.RpcError as error:
            self.failure = f"call {self.n_answered}: {error.code().name}: {error.details()}"


def wait_for_calls(clients, n):
    """Each answers n more, or has failed."""
    wanted = [client.n_answered + n for client in clients]
    while any(client.n_answered < n and not client.failure for client, n in zip(clients, wanted)):
        clients[0].join(0.02)


class RollingRestart(unittest.TestCase):
    def test_no_call_is_lost(self):
        with tempfile.TemporaryDirectory() as folder:
            generation = Process(BINARY, MODEL, folder, "gen-worker")
            routers = []
            for name in ("one", "two"):
                own = tempfile.TemporaryDirectory(dir=folder)
                self.addCleanup(own.cleanup)
                routers.append(Process(BINARY, MODEL, own.name, "router", "--drain-delay-ms", "2s", "--generation-workers",
                                       generation.ports["control"], "--name", name))
            for router in routers:
                while router.metric("kvferry_peers", 'state="ready"') < 1:
                    pass
            addresses = ",".join(router.ports["grpc"] for router in routers)
            clients = [Client(f"ipv4:{addresses}", policy) for policy in POLICIES for _ in range(N_CLIENTS_EACH)]
            for client in clients:
                client.start()
            wait_for_calls(clients, N_BEFORE)
            routers[0].child.send_signal(signal.SIGTERM)  # where all of pick_first's are
            self.assertEqual(routers[0].child.wait(60), 0)
            wait_for_calls(clients, N_AFTER)
            for client in clients:
                client.is_over = True
            for client in clients:
                client.join()
                client.channel.close()
            self.assertEqual([client.failure for client in clients if client.failure], [])
            self.assertEqual([routers[1].stop(), generation.stop()], [0, 0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
