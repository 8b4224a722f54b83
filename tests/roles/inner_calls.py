"""The proofs of the cluster key, for grpcio: what rpc/auth/call_auth.h says, written a second time.

    key = inner_calls.user_key()                   that of roles started without --cluster-key
    channel = inner_calls.channel(address, key)    signs calls, and refuses answers without a proof
    inner_calls.Gate(life, key)                    a server's interceptor: checks calls, proves answers
    inner_calls.code_of(call)                      what a call comes to
"""

import base64
import hashlib
import hmac
import os
import pathlib
import secrets
import time

import grpc

CALL, PROOF = "kvferry-auth", "kvferry-proof"
DETAILS = "grpc-status-details-bin"
ANY_LIFE = "-"
SKEW_S = 30


class NotProven(Exception):
    """An answer that nobody who knows the key has given."""


def run_folder():
    session = os.environ.get("XDG_RUNTIME_DIR", "")
    choices = [f"{session}/kvferry"] if session.startswith("/") else []
    choices += ["/run/kvferry"] if os.geteuid() == 0 else []
    choices += [f"/tmp/kvferry-{os.geteuid()}"]
    return next((path for path in map(pathlib.Path, choices) if path.is_dir()), None)


def read_key(path):
    return base64.b64decode(pathlib.Path(path).read_text().splitlines()[0], validate=True)


def user_key():
    return read_key(run_folder() / "user.key")


def serve_key(pid):
    return read_key(run_folder() / f"serve-{pid}.key")


def mac(key, *lines):
    text = "".join(f"{line}\n" for line in lines)
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def digest(data):
    return hashlib.sha256(data).hexdigest()


def sign(key, method, callee, data, at_ms=None, nonce=None):
    """The value of kvferry-auth, and the MAC in it."""
    at_ms = int(time.time() * 1000) if at_ms is None else at_ms
    nonce = nonce or secrets.token_hex(16)
    proof = mac(key, "kvferry call 2", method, callee, at_ms, nonce, digest(data))
    return f"2 {callee} {at_ms} {nonce} {digest(data)} {proof}", proof


def life_text(life):
    return f"{life:016x}"


def check_answer(key, kind, call_mac, value, data):
    """The life that answered."""
    version, life, proof = (value or "1 - -").split(" ")
    expected = mac(key, "kvferry reply 1", kind, call_mac, life, digest(data))
    if version != "1" or not hmac.compare_digest(proof, expected):
        raise NotProven(f"{kind} answer with {value!r}")
    return int(life, 16)


class Signer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Learns the life of who answers by a GetState, for whichever answers, as kvferry itself does."""

    def __init__(self, key):
        self.key = key
        self.life = None

    def callee(self, method):
        if method.endswith("/GetState") or self.life is None:
            return ANY_LIFE
        return life_text(self.life)

    def signed(self, details, request):
        value, call_mac = sign(self.key, details.method, self.callee(details.method),
                               request.SerializeToString())
        metadata = list(details.metadata or []) + [(CALL, value)]
        return Details(details, metadata), call_mac

    def check_error(self, call, call_mac):
        trailers = dict(call.trailing_metadata() or ())
        if call.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED,
                           grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAUTHENTICATED):
            return
        self.life = check_answer(self.key, "error", call_mac, trailers.get(PROOF),
                                 trailers.get(DETAILS, b""))

    def intercept_unary_unary(self, continuation, details, request):
        signed, call_mac = self.signed(details, request)
        call = continuation(signed, request)
        if call.code() != grpc.StatusCode.OK:
            self.check_error(call, call_mac)
            return call
        value = dict(call.initial_metadata()).get(PROOF)
        self.life = check_answer(self.key, "unary", call_mac, value,
                                 call.result().SerializeToString())
        return call

    def intercept_unary_stream(self, continuation, details, request):
        signed, call_mac = self.signed(details, request)
        return ProvenStream(self, continuation(signed, request), call_mac)


class Details(grpc.ClientCallDetails):
    def __init__(self, of, metadata):
        self.method, self.timeout, self.metadata = of.method, of.timeout, metadata
        self.credentials, self.wait_for_ready, self.compression = None, None, None


class ProvenStream:
    """A stream's call, whose first message waits for the proof."""

    def __init__(self, signer, call, call_mac):
        self.signer, self.call, self.call_mac = signer, call, call_mac
        self.is_proven = False

    def __getattr__(self, name):
        return getattr(self.call, name)

    def __iter__(self):
        return self

    def __next__(self):
        message = next(self.call)
        if not self.is_proven:
            value = dict(self.call.initial_metadata()).get(PROOF)
            self.signer.life = check_answer(self.signer.key, "stream", self.call_mac, value, b"")
            self.is_proven = True
        return message


def channel(address, key):
    return grpc.intercept_channel(grpc.insecure_channel(address), Signer(key))


class Gate:
    """What a server in Python does with the proofs: begins every handler of an inner service."""

    def __init__(self, life, key):
        self.life, self.key = life, key

    def check(self, context, method, request):
        """Ends the call unless it is proven; else its MAC, for the answer."""
        value = dict(context.invocation_metadata()).get(CALL, "")
        words = value.split(" ")
        if len(words) == 6:
            _, callee, at_ms, nonce, _, _ = words
            expected, call_mac = sign(self.key, method, callee, request.SerializeToString(),
                                      at_ms=at_ms, nonce=nonce)
            is_now = abs(time.time() - int(at_ms) / 1000) <= SKEW_S
            if hmac.compare_digest(value, expected) and is_now:
                return call_mac
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "no proof")

    def prove(self, call_mac, kind, data):
        life = life_text(self.life)
        proof = mac(self.key, "kvferry reply 1", kind, call_mac, life, digest(data))
        return (PROOF, f"1 {life} {proof}")

    def answer(self, context, call_mac, response):
        """Of a unary method; returns the response."""
        context.send_initial_metadata([self.prove(call_mac, "unary", response.SerializeToString())])
        return response

    def begin_stream(self, context, call_mac):
        context.send_initial_metadata([self.prove(call_mac, "stream", b"")])

    def fail(self, context, call_mac, code, sentence, details=b""):
        context.set_trailing_metadata(
            [(DETAILS, details), self.prove(call_mac, "error", details)])
        context.abort(code, sentence)


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK
