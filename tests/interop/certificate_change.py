"""A cluster under TLS and mTLS, with certificates that the openssl command made, called by grpcio; they are
replaced under load. Who does not get in: tests/abuse/certificates_port.py.

    certificate_change.py KVFERRY_BINARY MODEL_FOLDER
"""

import concurrent.futures
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import grpc
from certificates import Folder
from cluster import Cluster, Process
from grpc_health.v1 import health_pb2, health_pb2_grpc
from inner_calls import code_of
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2
from tokens import Tokens, bearer

BINARY, MODEL = sys.argv[1:3]
PROMPT = "In the beginning God created the heaven and the earth. " * 4
CLIENTS = 8
LOAD_S = 2
DENIED, NOT_REACHED = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE


class Certificates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory()
        cls.folder = Folder(cls.home.name)
        cls.folder.make_cluster("acme")
        tokens = Tokens(BINARY, f"{cls.home.name}/tokens.yaml")
        cls.tokens = {tenant: tokens.add(tenant) for tenant in ("acme", "other")}
        public = ("--tokens-file", str(tokens.file), "--tls-client-ca", str(cls.folder.file("ca")),
                  "--relay-address-connections-per-s", "10000")  # a connection a request
        cls.cluster = Cluster(BINARY, MODEL, True, router_arguments=public, role_arguments=cls.folder.role_arguments)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()
        cls.home.cleanup()

    def public(self, name):
        files = (self.folder.file("ca"), self.folder.file(name, "key"), self.folder.file(name))
        credentials = grpc.ssl_channel_credentials(*(file.read_bytes() for file in files))
        return grpc.secure_channel(self.cluster.router.ports["grpc"], credentials,
                                   options=[("grpc.use_local_subchannel_pool", 1)])

    def complete(self, channel, token=None, salt=""):
        request = generation_pb2.CompleteRequest(
            text=PROMPT, cache_salt=salt, return_timing=True,
            sampling=sampling_pb2.SamplingParams(max_tokens=4, temperature=0))
        return generation_pb2_grpc.GenerationServiceStub(channel).Complete(request, metadata=bearer(token), timeout=60)

    def test_a_tenants_certificate_lets_it_in_and_kv_crosses(self):
        with self.public("acme") as channel:
            reply = self.complete(channel)
            self.assertEqual(reply.usage.generated_tokens, 4)
            self.assertGreater(reply.timing.kv_bytes_received, 0)
            self.assertEqual(code_of(lambda: self.complete(channel, self.tokens["acme"])), grpc.StatusCode.OK)
            self.assertEqual(code_of(lambda: self.complete(channel, self.tokens["other"])), DENIED)
        self.assertGreaterEqual(self.cluster.router.metric("kvferry_tenant_requests_total", 'tenant="acme"'), 2)

    def ps(self, name):
        command = [BINARY, "ps", "--server", self.cluster.context.ports["control"], "--cluster-name", "lab"]
        if name:
            command += ["--peer-certificate", str(self.folder.file(name)), "--peer-key",
                        str(self.folder.file(name, "key")), "--peer-ca", str(self.folder.file("ca"))]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).returncode

    def test_ps_needs_a_role_of_the_cluster(self):
        self.assertEqual(self.ps("operator"), 0)
        self.assertNotEqual(self.ps("acme"), 0)
        self.assertNotEqual(self.ps(None), 0)

    def test_a_process_with_another_roles_certificate_does_not_start(self):
        flags = [word.replace("/router.", "/context.") for word in self.folder.role_arguments("router")]
        ended = subprocess.run([BINARY, "router", MODEL, "--check-config", *flags], capture_output=True, text=True)
        self.assertNotEqual(ended.returncode, 0)
        self.assertIn("must have the URI kvferry://lab/role/router", ended.stderr)

    def health(self, channel):
        request = health_pb2.HealthCheckRequest(service="liveness")
        return code_of(lambda: health_pb2_grpc.HealthStub(channel).Check(request, timeout=20))

    def test_probes_that_speak_no_tls_reach_a_health_port_that_is_to_be_clear(self):
        ca = grpc.ssl_channel_credentials(self.folder.file("ca").read_bytes())
        with grpc.insecure_channel(self.cluster.router.ports["health"]) as clear:
            self.assertEqual(self.health(clear), NOT_REACHED)
        with grpc.secure_channel(self.cluster.router.ports["health"], ca) as tls:
            self.assertEqual(self.health(tls), grpc.StatusCode.OK)
        with tempfile.TemporaryDirectory() as folder:
            router = Process(BINARY, MODEL, folder, "router", "--generation-workers", "127.0.0.1:1", "--no-health-tls",
                             *self.folder.role_arguments("router"), wants_ready=False)
            with grpc.insecure_channel(router.ports["health"]) as clear, grpc.insecure_channel(router.ports["grpc"]) as public:
                self.assertEqual(self.health(clear), grpc.StatusCode.OK)
                self.assertEqual(self.health(public), NOT_REACHED)
            self.assertEqual(router.stop(), 0)

    def load(self, number, is_over):
        n = 0
        while not is_over.is_set():  # a new connection each time: a new handshake
            with self.public("acme") as channel:
                reply = self.complete(channel, salt=f"{number} {n}")
            if reply.timing.kv_tokens_recomputed:
                raise AssertionError(f"a hand-over failed: {reply.timing}")
            n += 1
        return n

    def served_certificate(self):
        host, port = self.cluster.router.ports["grpc"].rsplit(":", 1)
        context = ssl.create_default_context(cafile=str(self.folder.file("ca")))
        context.load_cert_chain(self.folder.file("acme"), self.folder.file("acme", "key"))
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((host, int(port))) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as link:
                return link.getpeercert()["serialNumber"]

    def test_certificates_are_replaced_under_load(self):
        before, is_over = self.served_certificate(), threading.Event()
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            loads = [clients.submit(self.load, i, is_over) for i in range(CLIENTS)]
            try:
                time.sleep(LOAD_S)
                for role in ("router", "context", "generation"):
                    self.folder.make_role(role)
                self.folder.make_server()
                until = time.monotonic() + 30
                for process in self.cluster.processes:
                    while process.metric("kvferry_tls_reloads_total", 'result="ok"') < 1:
                        self.assertLess(time.monotonic(), until, "the files are not read again")
                        time.sleep(0.05)
                time.sleep(LOAD_S)
            finally:
                is_over.set()
            served = [load.result() for load in loads]
        self.assertTrue(all(served), served)
        self.assertNotEqual(self.served_certificate(), before)
        print(f"{sum(served)} requests served, each over a connection of its own")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
