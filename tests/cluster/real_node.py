"""real_node.py KVFERRY SOURCE TOOLS CLUSTER [defaults|secure|document]... - the image and the chart on a real kubelet.

The cluster of cluster.sh is up, with the image loaded twice: as registry.example/kvferry:VERSION, and as VERSION-next a build
of the next protocol revision. Namespaces enforce the restricted profile. Once with the chart's defaults and once with
TLS, mTLS, tokens and KV over TLS: 3 context and 2 generation workers behind 2 routers, clients that always ask, and
everything that a cluster does to pods meanwhile. No request without a token may be lost, none may get other tokens than one
that was asked in peace, and at rest no block may be owned. Prints `N passed, N failed`.
"""

import base64
import pathlib
import re
import sys
import tempfile
import time

import grpc
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

import document
import pods
from certificates import CLUSTER, Folder
from checks import check, close, until
from clients import Clients, text_by_http
from cluster import Process
from kubernetes import Kubernetes
from tokens import Tokens

KVFERRY, SOURCE, TOOLS, CACHE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:5])
CHART = SOURCE / "deploy/chart/kvferry"
REGISTRY = "registry.example"
VERSION = re.search(r"^appVersion: \"?([^\"\n]+)", (CHART / "Chart.yaml").read_text(), re.MULTILINE)[1]
DNS = "10.200.0.2"
N_AT_ONCE = 200
ROLES = {"router": 2, "context": 3, "generation": 2}
N_QUESTIONS = 40


def values():
    """Small enough for seven pods and their successors on two cores."""
    def of(replicas, **more):
        return {"replicas": replicas, "resources": {"requests": {"cpu": "20m", "memory": "64Mi"},
                                                    "limits": {"memory": "512Mi"}}, **more}
    context = {"kvMemory": "64Mi", "config": {"threads": "1"}}
    generation = {"kvMemory": "64Mi", "config": {"threads": "1", "local_prefill_max_tokens": "16"}}
    return {"image": {"registry": REGISTRY, "tag": VERSION, "pullPolicy": "Never"},
            "http": {"enabled": True}, "drain": {"delaySeconds": 5, "limitSeconds": 60},
            "router": of(ROLES["router"]), "context": of(ROLES["context"], **context),
            "generation": of(ROLES["generation"], **generation)}


def questions():
    """(text, max_tokens, expected): what one process answers, asked one after the other."""
    text = (SOURCE / "cli/demo_prompt.txt").read_text()
    with tempfile.TemporaryDirectory() as folder:
        process = Process(str(KVFERRY), str(SOURCE / "model/demo"), folder, "serve")
        try:
            with grpc.insecure_channel(process.ports["grpc"]) as channel:
                stub = generation_pb2_grpc.GenerationServiceStub(channel)
                found = []
                for i in range(N_QUESTIONS):
                    part, max_tokens = text[37 * i:][:100 + 31 * i], 12 + i
                    sampling = sampling_pb2.SamplingParams(max_tokens=max_tokens, temperature=0)
                    reply = stub.Complete(generation_pb2.CompleteRequest(text=part, sampling=sampling), timeout=60)
                    found.append((part, max_tokens, list(reply.token_ids)))
                return found
        finally:
            process.stop()


class Release:
    """An installed chart, and the clients that ask it."""

    def __init__(self, kubernetes, namespace, more_values, client, operator_flags=()):
        """client: what Clients wants beside its targets; operator_flags: what `kvferry drain` wants beside the key."""
        self.kubernetes, self.namespace, self.client = kubernetes, namespace, client
        self.operator_flags = operator_flags
        self.values = {**values(), **more_values}

    def kubectl(self, *words, **more):
        return self.kubernetes.kubectl("-n", self.namespace, *words, **more)

    def helm(self, command):
        return self.kubernetes.install(self.namespace, "kvferry", CHART, self.values, command=command, limit="8m")

    def operator(self, *words):
        """kvferry with the cluster's key."""
        key = self.kubernetes.get("-n", self.namespace, "secret", "kvferry-cluster-key")["data"]["cluster.key"]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "cluster.key")
            file.touch(0o600)
            file.write_bytes(base64.b64decode(key))
            return self.kubernetes.run(KVFERRY, *words, "--cluster-key", file, *self.operator_flags, succeeds=False)

    def pods(self, role):
        return pods.of_role(self.kubernetes, self.namespace, role)

    def all_pods(self):
        return [pod for role in ROLES for pod in self.pods(role)]

    def rolled_out(self, role):
        self.kubectl("rollout", "status", f"deployment/kvferry-{role}", "--timeout=300s")
        until(90, lambda: not [pod for pod in self.pods(role) if pod.is_ending])

    def targets(self):
        """Two ways that clients have: the service's own address, and the address of every router by name."""
        service = self.kubernetes.get("-n", self.namespace, "service", "kvferry")
        own = f"{service['spec']['clusterIP']}:50051"
        by_name = f"dns://{DNS}:53/kvferry-router.{self.namespace}.svc.cluster.local:50051"
        return [own] * 4 + [by_name] * 4


def judge(release, clients, what, may_cut=False, n_least=50):
    """What the clients saw since the last judgement."""
    counts, reasons, stories = clients.take()
    print(f"  {what}: {dict(counts)}; sent again: {dict(reasons)}", flush=True)
    for outcome in ("lost", "wrong") + (() if may_cut else ("cut",)):
        check(f"{release.namespace}: {what}: no request is {outcome}", counts[outcome] == 0,
              [story for story in stories if story.startswith(outcome)][:3])
    check(f"{release.namespace}: {what}: requests are answered", counts["answered"] >= n_least, counts)


def at_rest(release):
    """No block is owned, none is lost, and KV crossed."""
    def owned():
        return {f"{pod.name} {state}": n for role in ("context", "generation") for pod in release.pods(role)
                for state in ("active", "pinned", "inbound", "quarantined")
                if (n := pod.metric("kvferry_kv_blocks", f'state="{state}"'))}
    until(60, lambda: not owned())
    check(f"{release.namespace}: at rest no block is owned", not owned(), owned())
    for role in ("context", "generation"):
        for pod in release.pods(role):
            check(f"{release.namespace}: {pod.name} lost no block", pod.metric("kvferry_kv_blocks_unowned") == 0)
    crossed = {pod.name: pod.metric("kvferry_kv_transfer_bytes_total") for pod in release.pods("generation")}
    check(f"{release.namespace}: KV crossed into each generation worker", all(crossed.values()), crossed)


def helm_test(release, when):
    """Without the pod that needs an image with curl, which is not here: by_http asks what it would."""
    done = release.kubernetes.helm("test", "kvferry", "-n", release.namespace, "--timeout", "5m", "--filter",
                                   "!name=kvferry-test-http", succeeds=False)
    check(f"{release.namespace}: helm test passes {when}", done.returncode == 0, done.stderr[-1000:])


def by_http(release, asked):
    """The HTTP port of the service's own address answers with the tokens that one process gives in peace."""
    service = release.kubernetes.get("-n", release.namespace, "service", "kvferry")
    for text, max_tokens, expected in asked[:2]:
        found = text_by_http(f"{service['spec']['clusterIP']}:8000", text, max_tokens, **release.client)
        check(f"{release.namespace}: tokens by HTTP", found == expected, f"{found} for {expected}")


def restart_rolling(release, clients):
    for role in ROLES:
        before = {pod.name for pod in release.pods(role)}
        release.kubectl("rollout", "restart", f"deployment/kvferry-{role}")
        release.rolled_out(role)
        after = {pod.name for pod in release.pods(role) if not pod.is_ending}
        check(f"{release.namespace}: {role}s were replaced", not before & after and len(after) == ROLES[role], after)
        judge(release, clients, f"{role}s restarted rolling")


def kill(release, clients):
    for role in ROLES:
        pod = release.pods(role)[0]
        n_restarts = pod.n_restarts()
        pod.kill()
        back = until(120, lambda pod=pod, n=n_restarts: pod.n_restarts() > n and pod.is_ready())
        check(f"{release.namespace}: the {role} that was killed is back", back)
        judge(release, clients, f"a {role} killed -9", may_cut=True)


def evict(release, clients):
    """What `kubectl drain` of a node does to each of its pods."""
    for role in ROLES:
        pod = release.pods(role)[0]
        pod.evict()
        until(120, lambda pod=pod: not pod.exists())
        release.rolled_out(role)
        judge(release, clients, f"a {role} evicted")


def scale(release, clients):
    for role, numbers in (("context", (1, 3)), ("generation", (1, 3, 2))):
        for n in numbers:
            release.kubectl("scale", f"deployment/kvferry-{role}", f"--replicas={n}")
            release.rolled_out(role)
            check(f"{release.namespace}: {n} {role} pods", len([pod for pod in release.pods(role) if pod.is_ready()]) == n)
            judge(release, clients, f"{role}s scaled to {n}")


def out_of_memory(release, clients):
    for role in ("generation", "context"):
        restarts = {pod.name: pod.n_restarts() for pod in release.all_pods()}
        pod = release.pods(role)[0]
        said = pod.use_up_memory()
        check(f"{release.namespace}: the {role} is ended for its memory", said, pod.name)
        check(f"{release.namespace}: and started again", until(60, lambda pod=pod: pod.n_restarts() > restarts[pod.name]))
        print(f"  its end as the runtime says it: {pod.last_end()}", flush=True)
        check(f"{release.namespace}: and comes back", until(120, pod.is_ready))
        others = {other.name: other.n_restarts() for other in release.all_pods() if other.name != pod.name}
        check(f"{release.namespace}: no other pod was harmed", all(restarts[name] == n for name, n in others.items()), others)
        judge(release, clients, f"a {role} out of memory", may_cut=True)


def drain(release, clients):
    """What an operator does before a pod is taken out: `kvferry drain`, by the pod's address, with the cluster's key."""
    for role in ROLES:
        pod = release.pods(role)[0]
        done = release.operator("drain", "--server", f"{pod.ip}:50052", "--wait-ms", "60s")
        check(f"{release.namespace}: kvferry drain of a {role}", done.returncode == 0, done.stderr)
        check(f"{release.namespace}: it is not ready any more", until(30, lambda pod=pod: not pod.is_ready()))
        release.kubectl("delete", "pod", pod.name, "--wait=false")
        until(120, lambda pod=pod: not pod.exists())
        release.rolled_out(role)
        judge(release, clients, f"a {role} drained")


def upgrade(release, clients):
    """To a build of the next protocol revision and back, roles and pods mixed meanwhile."""
    key = release.kubectl("get", "secret", "-o", "jsonpath={.items[*].data.cluster\\.key}").stdout
    for tag in (f"{VERSION}-next", VERSION):
        release.values["image"] = {**release.values["image"], "tag": tag}
        release.helm("upgrade")
        for role in ROLES:
            release.rolled_out(role)
        images = {pod.image() for pod in release.all_pods()}
        check(f"{release.namespace}: every pod is of {tag}", images == {f"{REGISTRY}/kvferry:{tag}"}, images)
        judge(release, clients, f"upgraded to {tag}")
    check(f"{release.namespace}: the cluster key is the same",
          key == release.kubectl("get", "secret", "-o", "jsonpath={.items[*].data.cluster\\.key}").stdout)


def disturb(release, asked):
    with Clients(release.targets(), asked, N_AT_ONCE, **release.client) as clients:
        try:
            check(f"{release.namespace}: {N_AT_ONCE} requests are in flight",
                  until(30, lambda: clients.n_in_flight == N_AT_ONCE), clients.n_in_flight)
            until(60, lambda: clients.counts["answered"] >= 2 * N_AT_ONCE)
            judge(release, clients, "in peace")
            for step in (restart_rolling, kill, evict, drain, scale, out_of_memory, upgrade):
                started = time.monotonic()
                step(release, clients)
                print(f"  {step.__name__}: {time.monotonic() - started:.0f} s", flush=True)
        finally:
            clients.is_over = True
    judge(release, clients, "in the end", n_least=1)
    at_rest(release)


def try_release(release, asked):
    namespace = release.namespace
    print(f"{namespace}:", flush=True)
    started = time.monotonic()
    release.helm("install")
    print(f"  ready after {time.monotonic() - started:.1f} s", flush=True)
    helm_test(release, "after the install")
    by_http(release, asked)
    for pod in release.all_pods():
        pods.check_confinement(pod)
    disturb(release, asked)
    helm_test(release, "in the end")
    release.kubernetes.helm("uninstall", "kvferry", "-n", namespace, "--wait", "--timeout", "5m")
    check(f"{namespace}: no pod is left", until(90, lambda: not release.all_pods()))


def defaults(kubernetes, asked):
    kubernetes.namespace("defaults")
    try_release(Release(kubernetes, "defaults", {}, {}), asked)


def secure(kubernetes, asked):
    """TLS outside, mTLS by role inside, tokens, KV over TLS; workers by the API server's EndpointSlices."""
    host = "kvferry.secure.svc.cluster.local"
    kubernetes.namespace("secure")
    with tempfile.TemporaryDirectory() as folder:
        made = Folder(folder)
        made.make_cluster("tenant")
        made.make("public", f"DNS:{host},DNS:kvferry.secure.svc")
        for name in ("public", *ROLES):
            kubernetes.secret_of_files("secure", f"{name}-tls", tls_crt=made.file(name), tls_key=made.file(name, "key"),
                                       ca_crt=made.file("ca"))
        tokens = Tokens(str(KVFERRY), pathlib.Path(folder, "tokens.yaml"))
        token = tokens.add("tenant")
        kubernetes.secret_of_files("secure", "tokens", tokens_yaml=tokens.file)
        kubernetes.secret_of_files("secure", "test-token", token=token.encode())
        values = {"kv": {"network": "untrusted", "transport": "tls", "digest": True},
                  "tls": {"mode": "secret", "existingSecret": "public-tls"},
                  "mtls": {"mode": "secret", "clusterName": CLUSTER,
                           "existingSecrets": {role: f"{role}-tls" for role in ROLES}},
                  "auth": {"tokens": {"existingSecret": "tokens"}}, "tests": {"token": {"existingSecret": "test-token"}},
                  "discovery": {"type": "kubernetes"}}
        client = {"token": token, "ca": made.file("ca").read_bytes(), "server_name": host}
        try_release(Release(kubernetes, "secure", values, client, made.peer_arguments("operator")), asked)


def main(wanted):
    kubernetes = Kubernetes(TOOLS, CACHE)
    asked = questions()
    for part in wanted:
        started = time.monotonic()
        {"defaults": lambda: defaults(kubernetes, asked), "secure": lambda: secure(kubernetes, asked),
         "document": lambda: document.type_all(kubernetes, SOURCE, KVFERRY, REGISTRY)}[part]()
        print(f"{part}: {time.monotonic() - started:.0f} s", flush=True)
    close()


main(sys.argv[5:] or ["document", "defaults", "secure"])
