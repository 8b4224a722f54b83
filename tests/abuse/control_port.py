"""What somebody without the cluster key tries on control ports, and what a member that misbehaves does."""

import concurrent.futures
import os
import secrets
import subprocess
import time

import grpc
import inner_calls
from attack import attack
from cluster import Cluster
from google.rpc import error_details_pb2, status_pb2
from kvferry.internal.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    context_worker_pb2,
    context_worker_pb2_grpc,
    generation_worker_pb2,
    generation_worker_pb2_grpc,
)
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2

CALL_LIMIT_S = 60
PROMPT = "In the beginning God created the heaven and the earth. " * 12
NOBODY = 65534
JUNK = b"\xfe\xca\xbe\xba" * 20


def expect(is_so, sentence):
    if not is_so:
        raise AssertionError(sentence)


def reason_of(error):
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    info = error_details_pb2.ErrorInfo()
    for detail in status_pb2.Status.FromString(details).details:
        if detail.Unpack(info):
            return info.reason
    return ""


def error_of(call, *arguments, **more):
    """What a call ends with; raises when it is done."""
    try:
        answer = call(*arguments, timeout=CALL_LIMIT_S, **more)
        for _ in answer if hasattr(answer, "__next__") else ():
            break
    except grpc.RpcError as error:
        return error
    raise AssertionError("it was done")


def refusal(call, *arguments, **more):
    """The reason that a call is refused for; raises when it is not."""
    error = error_of(call, *arguments, **more)
    expect(error.code() == grpc.StatusCode.UNAUTHENTICATED, f"{error.code()}: {error.details()}")
    return reason_of(error)


def sampling(**more):
    return sampling_pb2.SamplingParams(
        max_tokens=12, temperature=0.7, top_k=0, top_p=1, min_p=0, repetition_penalty=1,
        presence_penalty=0, frequency_penalty=0, seed=5, **more)


def complete(cluster, salt):
    with grpc.insecure_channel(cluster.router.ports["grpc"]) as channel:
        return generation_pb2_grpc.GenerationServiceStub(channel).Complete(
            generation_pb2.CompleteRequest(
                text=PROMPT, cache_salt=salt, sampling=sampling(), return_timing=True
            ),
            timeout=CALL_LIMIT_S,
        )


def expect_honest(cluster, salt, token_ids=None):
    """A request whose KV crosses, with the right tokens."""
    reply = complete(cluster, salt)
    expect(reply.timing.kv_tokens_received > 0 and reply.timing.kv_tokens_recomputed == 0,
           f"no KV crossed: {reply.timing}")
    expect(token_ids is None or list(reply.token_ids) == token_ids, "other tokens")
    return list(reply.token_ids)


class Stubs:
    def __init__(self, channel):
        self.admin = admin_pb2_grpc.AdminServiceStub(channel)
        self.context = context_worker_pb2_grpc.ContextWorkerServiceStub(channel)
        self.generation = generation_worker_pb2_grpc.GenerationWorkerServiceStub(channel)


def prefill_request():
    return context_worker_pb2.PrefillRequest(
        request_id="stolen", transfer_id=bytes(16), token_ids=range(1, 200), sampling=sampling())


def decode_request(**more):
    return generation_worker_pb2.DecodeRequest(
        request_id=secrets.token_hex(8), token_ids=range(1, 200), sampling=sampling(), **more)


def every_call(context, generation):
    """Each inner method and a request for it."""
    admin = context.admin
    return [
        (admin.GetState, admin_pb2.GetStateRequest()),
        (admin.Drain, admin_pb2.DrainRequest()),
        (admin.SetLogLevel, admin_pb2.SetLogLevelRequest(level="debug")),
        (admin.FlushPrefixCache, admin_pb2.FlushPrefixCacheRequest()),
        (context.context.Describe, context_worker_pb2.DescribeRequest()),
        (context.context.Prefill, prefill_request()),
        (context.context.Commit, context_worker_pb2.CommitRequest(transfer_id=bytes(16))),
        (context.context.Abort, context_worker_pb2.AbortRequest(request_id="honest")),
        (generation.admin.Drain, admin_pb2.DrainRequest()),
        (generation.admin.FlushPrefixCache, admin_pb2.FlushPrefixCacheRequest()),
        (generation.generation.Decode, decode_request()),
    ]


@attack(
    "Drain, FlushPrefixCache, SetLogLevel, Abort, Describe, Prefill, Commit, Decode without the key",
    "done",
    is_short=True,
)
def without_the_key(binary, model, seconds):
    cluster = Cluster(binary, model, True)
    tokens = expect_honest(cluster, "before")
    with grpc.insecure_channel(cluster.context.ports["control"]) as context, grpc.insecure_channel(
        cluster.generation.ports["control"]
    ) as generation, grpc.insecure_channel(cluster.router.ports["grpc"]) as router:
        n = 0
        until = time.monotonic() + seconds
        while n == 0 or time.monotonic() < until:
            for call, request in every_call(Stubs(context), Stubs(generation)):
                expect(refusal(call, request) == "AUTH", "refused for something else")
                n += 1
            refusal(Stubs(router).admin.GetState, admin_pb2.GetStateRequest())
    expect(cluster.context.metric("kvferry_auth_failures_total", 'reason="unproven"') > 0, "not counted")
    expect(expect_honest(cluster, "after") == tokens, "other tokens")
    cluster.stop()
    return f"{n} calls: each AUTH; honest requests as before"


def metadata_of(key, method, request, callee, **more):
    value, _ = inner_calls.sign(key, method, callee, request.SerializeToString(), **more)
    return value


@attack("calls that were replayed, cut, altered, or made for another minute, method, message, key or run of the process", "done",
        is_short=True)
def forged(binary, model, seconds):
    cluster = Cluster(binary, model, True)
    key, life = inner_calls.user_key(), cluster.context.ports["incarnation"]
    flush = "/kvferry.internal.v1.AdminService/FlushPrefixCache"
    drain = "/kvferry.internal.v1.AdminService/Drain"
    request, now_ms = admin_pb2.FlushPrefixCacheRequest(), int(time.time() * 1000)
    good = metadata_of(key, flush, request, life)
    forgeries = {
        "recorded": good,
        "cut": metadata_of(key, flush, request, life)[:-1],
        "altered": metadata_of(key, flush, request, life)[:-1] + "g",
        "old": metadata_of(key, flush, request, life, at_ms=now_ms - 31000),
        "of the future": metadata_of(key, flush, request, life, at_ms=now_ms + 45000),
        "another method's": metadata_of(key, drain, request, life),
        "another message's": metadata_of(
            key, flush, admin_pb2.SetLogLevelRequest(level="debug"), life),
        "another key's": metadata_of(bytes(32), flush, request, life),
        "empty": "",
    }
    other_life = inner_calls.life_text(int(life, 16) ^ 1)
    with grpc.insecure_channel(cluster.context.ports["control"]) as channel:
        call = Stubs(channel).admin.FlushPrefixCache
        call(request, timeout=CALL_LIMIT_S, metadata=[(inner_calls.CALL, good)])
        for name, value in forgeries.items():
            expect(refusal(call, request, metadata=[(inner_calls.CALL, value)]) == "AUTH", name)
        for callee in (other_life, inner_calls.ANY_LIFE):
            value = metadata_of(key, flush, request, callee)
            error = error_of(call, request, metadata=[(inner_calls.CALL, value)])
            expect(reason_of(error) == "STALE_PEER", error.details())
    expect_honest(cluster, "after")
    cluster.stop()
    return f"{len(forgeries)} kinds: each AUTH; for another run STALE_PEER"


class FalseContextWorker(
    context_worker_pb2_grpc.ContextWorkerServiceServicer, admin_pb2_grpc.AdminServiceServicer
):
    """Says ready, sealed and committed, and describes itself with junk; knows no key."""

    def __init__(self, geometry):
        self.geometry = geometry
        self.described_to = []
        self.n_met = 0
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        context_worker_pb2_grpc.add_ContextWorkerServiceServicer_to_server(self, self.server)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self, self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def GetState(self, request, context):
        self.n_met += 1
        context.send_initial_metadata([(inner_calls.PROOF, f"1 {4711:016x} {'0' * 64}")])
        return admin_pb2.GetStateResponse(incarnation=4711, is_ready=True)

    def Describe(self, request, context):
        self.described_to.append(request.caller)
        return context_worker_pb2.DescribeResponse(
            callee=context_worker_pb2.WorkerIdentity(
                name="false", incarnation=4711, geometry=self.geometry, transport="am-tcp",
                transport_address=JUNK, pool_key=JUNK, pool_base=8, protocol_revision=2))

    def Prefill(self, request, context):
        n = len(request.token_ids) // 16 + 1
        for event in (
            {"accepted": context_worker_pb2.PrefillAccepted(n_blocks=n, block_tokens=16)},
            {"ready": context_worker_pb2.PrefillReady(first_block=0, block_ids=range(n))},
            {"first_token": context_worker_pb2.PrefillFirstToken(token_id=7)},
            {"sealed": context_worker_pb2.PrefillSealed(n_tokens=len(request.token_ids))},
        ):
            yield context_worker_pb2.PrefillResponse(**event)

    def Commit(self, request, context):
        return context_worker_pb2.CommitResponse()


def decode(stubs, **more):
    tokens = []
    for response in stubs.generation.Decode(decode_request(**more), timeout=CALL_LIMIT_S):
        tokens += response.token_ids
    return tokens


@attack(
    "Decode naming a false context worker with random bytes for address, pool_key and pool_base",
    "its KV entered the prefix cache: wrong tokens for a later request; UCX aborts",
    is_short=True,
)
def false_context_worker(binary, model, seconds):
    cluster = Cluster(binary, model, True)
    channel = inner_calls.channel(cluster.generation.ports["control"], inner_calls.user_key())
    stubs = Stubs(channel)
    geometry = stubs.admin.GetState(admin_pb2.GetStateRequest(), timeout=10).model.geometry
    false = FalseContextWorker(geometry)
    right = decode(stubs, cache_salt="right")
    n, until = 0, time.monotonic() + seconds
    while n == 0 or time.monotonic() < until:
        expect(decode(stubs, cache_salt=f"{n}", context_worker=false.address) == right, "other tokens")
        expect(decode(stubs, cache_salt=f"{n}") == right, "a later request has other tokens")
        n += 1
    false.server.stop(None).wait()
    expect(false.n_met > 0, "it was never asked who it is")
    expect(not false.described_to, "told who we are to somebody who has proved nothing")
    expect_honest(cluster, "after")
    channel.close()
    cluster.stop()
    return f"{n} requests: computed locally, right tokens; the attacker learns nothing about the worker"


@attack(
    "81 Describes, the last with an honest reader's number and another address",
    "KV bytes of the next requests went to that address",
    is_short=True,
)
def another_address(binary, model, seconds):
    cluster = Cluster(binary, model, True)
    tokens = expect_honest(cluster, "before")
    honest = int(cluster.generation.ports["incarnation"], 16)
    channel = inner_calls.channel(cluster.context.ports["control"], inner_calls.user_key())
    stubs = Stubs(channel)
    geometry = stubs.admin.GetState(admin_pb2.GetStateRequest(), timeout=10).model.geometry

    def from_thief(incarnation):
        return context_worker_pb2.DescribeRequest(caller=context_worker_pb2.WorkerIdentity(
            name="thief", incarnation=incarnation, geometry=geometry, transport="am-tcp",
            transport_address=JUNK, protocol_revision=2,
            host_addresses=[bytes([127, 0, 0, 1])]))

    for incarnation in range(1, 81):
        stubs.context.Describe(from_thief(incarnation), timeout=CALL_LIMIT_S)
    error = error_of(stubs.context.Describe, from_thief(honest))
    expect(reason_of(error) == "NOT_ALLOWED", error.details())
    for i in range(3):
        expect_honest(cluster, f"after {i}", tokens)
    channel.close()
    cluster.stop()
    return "even with the key: NOT_ALLOWED; KV still goes to the honest reader, right tokens"


@attack("`kvferry ps`, and the key's folder, by another user of the host", "state of every process",
        is_short=True)
def another_user(binary, model, seconds):
    cluster = Cluster(binary, model, False)
    folder = inner_calls.run_folder()
    expect(folder.stat().st_mode & 0o077 == 0, "others can look into the run folder")
    expect(all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir()), "or read a key")
    ps = [binary, "ps", "--server", cluster.router.ports["grpc"]]
    own = subprocess.run(ps, capture_output=True, text=True, timeout=60)
    expect(own.returncode == 0 and "gen-worker" in own.stdout, f"not found: {own.stderr}")
    # Who is not root cannot become another user: another folder of keys is the same for `ps`.
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    if os.geteuid() == 0:
        become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    else:
        become, environment["XDG_RUNTIME_DIR"] = [], cluster.folder.name
        os.chmod(cluster.folder.name, 0o700)
    other = subprocess.run(become + ps, capture_output=True, text=True, timeout=60, env=environment)
    expect(other.returncode == 1 and not other.stdout, f"told: {other.stdout}{other.stderr}")
    cluster.stop()
    return "no key, no state"
