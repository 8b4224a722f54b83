"""Attacks on ports with TLS: handshakes of every broken kind, and certificates that are not good enough."""

import contextlib
import os
import socket
import ssl
import tempfile
import threading
import time

import grpc
import inner_calls
from attack import attack
from certificates import Folder
from cluster import Cluster
from kvferry.internal.v1 import admin_pb2, admin_pb2_grpc, context_worker_pb2, context_worker_pb2_grpc
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2
from tokens import Tokens, bearer

RESIDENT_MIB_MAX = 1000 if os.environ.get("ABUSE_SANITIZED") else 100
LEFT_S_MAX = 10
CROWD = 8
PROMPT = "In the beginning God created the heaven and the earth. " * 4
OK = grpc.StatusCode.OK
DENIED = grpc.StatusCode.PERMISSION_DENIED
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


class Secure:
    """A cluster under TLS and mTLS that knows the tenant acme."""

    def __init__(self, binary, model):
        self.binary, self.model = binary, model
        self.home = tempfile.TemporaryDirectory()
        self.folder = Folder(self.home.name)
        self.folder.make_cluster("acme", ",DNS:localhost")
        self.folder.ca("stranger")

    @contextlib.contextmanager
    def run(self, *router_arguments):
        tokens = Tokens(self.binary, f"{self.home.name}/tokens.yaml")
        self.token = tokens.add("acme")
        self.cluster = Cluster(self.binary, self.model, True, role_arguments=self.folder.role_arguments,
                               router_arguments=("--tokens-file", str(tokens.file), *router_arguments))
        try:
            yield self
        finally:
            self.cluster.stop()

    def asks_clients(self):
        return self.run("--tls-client-ca", str(self.folder.file("ca")))

    def channel(self, address, name=None):
        files = [self.folder.file("ca")]
        files += [self.folder.file(name, "key"), self.folder.file(name)] if name else []
        options = [("grpc.ssl_target_name_override", "localhost"), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(*(file.read_bytes() for file in files)),
                                   options=options)

    def complete(self, channel, salt, token=None):
        request = generation_pb2.CompleteRequest(
            text=PROMPT, cache_salt=salt, return_timing=True,
            sampling=sampling_pb2.SamplingParams(max_tokens=4, temperature=0))
        return generation_pb2_grpc.GenerationServiceStub(channel).Complete(request, metadata=bearer(token), timeout=60)

    def code(self, name, token=None):
        with self.channel(self.cluster.router.ports["grpc"], name) as channel:
            return inner_calls.code_of(lambda: self.complete(channel, "code", token))


def until(over, connect, do, counts, index):
    while not over.is_set():
        try:
            with connect() as plain:
                do(plain)
        except OSError:  # closed: that is what it may be
            pass
        counts[index] += 1


def whole_handshake(plain):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(plain):
        pass


def half_hello(plain):
    plain.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(32))


def rubbish(plain):
    plain.sendall(os.urandom(4096))


@attack("whole handshakes, half handshakes and random bytes as fast as possible, at a port with TLS", "no such port", is_short=True,
        is_about_memory=True)
def crowd_of_handshakes(binary, model, seconds):
    secure = Secure(binary, model)
    with secure.run():
        host, port = secure.cluster.router.ports["grpc"].rsplit(":", 1)

        def connect():
            return socket.create_connection((host, int(port)), timeout=10)

        ends, over, counts = time.monotonic() + seconds, threading.Event(), [0] * CROWD
        kinds = (whole_handshake, half_hello, rubbish, whole_handshake)
        threads = [threading.Thread(target=until, args=(over, connect, kinds[i % len(kinds)], counts, i))
                   for i in range(CROWD)]
        n = 0
        with secure.channel(secure.cluster.router.ports["grpc"]) as channel:
            secure.complete(channel, "before", secure.token)
            for thread in threads:
                thread.start()
            try:
                while time.monotonic() < ends or n < 3:  # over one connection that is there: it never waits for a handshake
                    if secure.complete(channel, str(n), secure.token).timing.kv_bytes_received == 0:
                        raise RuntimeError("no KV crossed")
                    n += 1
            finally:
                over.set()
            for thread in threads:
                thread.join()
        peak = secure.cluster.router.resident_mib()
        begin = time.monotonic()
        while secure.cluster.router.metric("kvferry_relay_connections"):
            if time.monotonic() - begin > LEFT_S_MAX:
                raise RuntimeError("connections are left")
            time.sleep(0.05)
        if peak > RESIDENT_MIB_MAX:
            raise RuntimeError(f"the router has {peak:.0f} MiB")
    return f"{sum(counts)} connections; {n} KV transfers at the same time; router at {peak:.0f} MiB, no connection left"


@attack("expired, self-signed, foreign, another tenant's and no certificate, at a port that asks for one", "served",
        is_short=True)
def certificates_of_clients(binary, model, seconds):
    secure = Secure(binary, model)
    folder = secure.folder
    folder.make("old", "URI:kvferry://lab/tenant/acme", days=0)
    folder.make("forged", "URI:kvferry://lab/tenant/acme", issuer="stranger")
    folder.make("elsewhere", "URI:kvferry://other/tenant/acme")
    folder.make_tenant("other")
    time.sleep(1.1)  # until `old` is
    expected = {
        (None, True): UNAVAILABLE, ("old", True): UNAVAILABLE, ("forged", True): UNAVAILABLE,
        ("stranger", True): UNAVAILABLE, ("elsewhere", False): UNAUTHENTICATED, ("router", False): UNAUTHENTICATED,
        ("other", False): UNAUTHENTICATED, ("other", True): DENIED, ("acme", False): OK, ("acme", True): OK,
    }
    with secure.asks_clients():
        for (name, has_token), code in expected.items():
            found = secure.code(name, secure.token if has_token else None)
            assert found == code, (name, has_token, found)
    return "no handshake; a tenant's certificate opens what its tokens do, and no other tenant's"


@attack("with the cluster key: a role's certificate for another role's methods", "done", is_short=True)
def certificates_of_roles(binary, model, seconds):
    secure = Secure(binary, model)
    owners = {"Describe": "generation", "Abort": "generation", "SetLogLevel": "operator"}
    with secure.run():
        for name in ("router", "context", "generation", "operator"):
            channel = grpc.intercept_channel(secure.channel(secure.cluster.context.ports["control"], name),
                                             inner_calls.Signer(inner_calls.user_key()))
            context = context_worker_pb2_grpc.ContextWorkerServiceStub(channel)
            admin = admin_pb2_grpc.AdminServiceStub(channel)
            calls = {
                "Describe": lambda: context.Describe(context_worker_pb2.DescribeRequest(), timeout=10),
                "Abort": lambda: context.Abort(context_worker_pb2.AbortRequest(), timeout=10),
                "SetLogLevel": lambda: admin.SetLogLevel(admin_pb2.SetLogLevelRequest(), timeout=10),
            }
            assert inner_calls.code_of(lambda: admin.GetState(admin_pb2.GetStateRequest(), timeout=10)) == OK, name
            for method, call in calls.items():
                assert (inner_calls.code_of(call) == DENIED) == (name != owners[method]), (name, method)
    return "PERMISSION_DENIED"
