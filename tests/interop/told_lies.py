"""The lies of a context worker, by what it is asked: which there are, and how each is told.

    of_method(name)    in an answer: in its fields, in bytes that are none, errors, silence
    of_events()        in the fields of each kind of event
    of_order()         events that are missing, too many, out of turn; streams that end or do not
    of_another(...)    that name another request's transfer, which is Held open meanwhile
"""

import dataclasses
import threading
import typing

import field_lies
import grpc
from kvferry.internal.v1 import admin_pb2, context_worker_pb2
from lying_proxy import Refusal, serialized

Response = context_worker_pb2.PrefillResponse
KINDS = tuple(field.name for field in Response.DESCRIPTOR.oneofs_by_name["event"].fields)
# What a slow worker would say behind its first event.
BACKLOG = Response(backlog=context_worker_pb2.PrefillBacklog(token_ns=1000000, waiting_tokens=2000))
ENDLESS = Response(backlog=context_worker_pb2.PrefillBacklog(token_ns=(1 << 64) - 1, waiting_tokens=(1 << 64) - 1))
RESPONSES = {
    "Describe": context_worker_pb2.DescribeResponse,
    "Commit": context_worker_pb2.CommitResponse,
    "GetState": admin_pb2.GetStateResponse,
}
ERRORS = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
SILENCE_S = 4  # longer than any limit of the generation worker in the test
MANY = 1000


@dataclasses.dataclass(frozen=True)
class MethodLie:
    method: str
    name: str
    tell: typing.Callable  # (request, ask) -> a response, or events
    is_refused: bool = False  # the real context worker must not give what it asks for
    takes_end: bool = False  # told of a hand-over whose last events are one message

    def __str__(self):
        return f"{self.method} {self.name}"


class Told:
    """A lie while it is told, and what came of it."""

    def __init__(self, lie):
        self.lie = lie
        self.n_asked = 0
        self.is_untrue = False
        self.first_tokens = []

    def answer(self, request, ask):
        true = []
        self.n_asked += 1

        def ask_and_keep(asked):
            true.append(ask(asked))
            return true[-1]

        try:
            response = self.lie.tell(request, ask_and_keep)
            self.is_untrue |= not true or serialized(response) != serialized(true[-1])
            return response
        except Refusal:
            self.is_untrue = True
            raise

    def events(self, request, ask):
        true, said = [], []

        def ask_and_keep(asked):
            for i, event in enumerate(ask(asked)):
                for said_truly in [event] if i else [event, BACKLOG]:
                    true.append(serialized(said_truly))
                    yield said_truly

        self.n_asked += 1
        try:
            for event in self.lie.tell(request, ask_and_keep):
                said.append(serialized(event))
                self.first_tokens += first_token(said[-1])
                yield event
        finally:
            self.is_untrue |= said != true


def first_token(data):
    """As a list of one, if the bytes are such an event, or have one."""
    try:
        event = Response.FromString(data)
    except Exception:  # of whichever kind: no message
        return []
    if event.HasField("end") and event.end.HasField("first_token"):
        return [event.end.first_token.token_id]
    return [event.first_token.token_id] if event.HasField("first_token") else []


def kind_of(event):
    return event.WhichOneof("event")


def is_last(event):
    return kind_of(event) in ("sealed", "end")


# ---- answers ----

def _field(lie):
    return lambda request, ask: lie.tell(ask(request))


def _error(code):
    def tell(request, ask):
        raise Refusal(code, "%s%n\x1b[2J" + "x" * 5000)
    return tell


def _silence(request, ask):
    threading.Event().wait(SILENCE_S)
    return ask(request)


def of_method(method):
    for lie in field_lies.of_message(RESPONSES[method].DESCRIPTOR):
        yield MethodLie(method, str(lie), _field(lie))
    for code in ERRORS:
        yield MethodLie(method, f"fails with {code.name}", _error(code))
    yield MethodLie(method, "is silent", _silence)


def granted_unasked():
    return MethodLie("Commit", "is granted by nobody", lambda request, ask: RESPONSES["Commit"]())


def of_another_life(life):
    def tell(request, ask):
        response = ask(request)
        response.callee.incarnation = life
        return response
    return MethodLie("Describe", "is of another life", tell)


# ---- fields of events ----

def _event_field(kind, nth, lie):
    def tell(request, ask):
        n = 0
        for event in ask(request):
            is_meant = kind_of(event) == kind and n == nth
            n += kind_of(event) == kind
            yield lie.tell(event) if is_meant else event
    return tell


def of_events():
    for kind in KINDS:
        nth = 1 if kind == "ready" else 0  # one of the several, with others before and after it
        for lie in field_lies.of_message(Response.DESCRIPTOR, kind):
            yield MethodLie("Prefill", f"{kind}: {lie}", _event_field(kind, nth, lie), takes_end=kind == "end")


def of_ranked():
    """About the ranked first tokens of a beam search, in a message of their own or in the last one."""
    for kind, path in (("first_token", "first_token.ranked_"), ("end", "end.first_token.ranked_")):
        for lie in field_lies.of_message(Response.DESCRIPTOR, kind):
            if ".".join(lie.path).startswith(path):
                yield MethodLie("Prefill", f"{kind}: {lie}", _event_field(kind, 0, lie), takes_end=kind == "end")


# ---- order ----

def _whole(change, goes_on=True):
    """change: of the list of events up to the sealing; the lease stays open behind it if it goes on."""
    def tell(request, ask):
        stream = ask(request)
        events = []
        for event in stream:
            events.append(event)
            if is_last(event):
                break
        yield from change(events)
        if goes_on:
            yield from stream
    return tell


def _fails_after(n, code):
    def tell(request, ask):
        for i, event in enumerate(ask(request)):
            if i == n:
                break
            yield event
        raise Refusal(code)
    return tell


def _at(events, kind):
    """Where its last one is: one of several for ready events."""
    return max(i for i, event in enumerate(events) if kind_of(event) == kind)


def _placed(kind, put):
    def change(events):
        rest = list(events)
        event = rest.pop(_at(rest, kind))
        return put(rest, event)
    return change


def _in_single_blocks(events):
    for event in events:
        ready = event.ready
        if kind_of(event) != "ready":
            yield event
            continue
        for i, block in enumerate(ready.block_ids):
            yield Response(ready=context_worker_pb2.PrefillReady(
                first_block=ready.first_block + i, block_ids=[block], digests=ready.digests[i:i + 1]))


def _of_order_of(kind):
    def repeated(n):
        def change(events):
            where = _at(events, kind)
            return events[:where] + [events[where]] * n + events[where + 1:]
        return change

    yield f"{kind} missing", _placed(kind, lambda rest, event: rest)
    yield f"{kind} twice", repeated(2)
    yield f"{kind} {MANY} times", repeated(MANY)
    yield f"{kind} first", _placed(kind, lambda rest, event: [event] + rest)
    yield f"{kind} last", _placed(kind, lambda rest, event: rest + [event])
    yield f"{kind} again at the end", lambda events: events + [events[_at(events, kind)]]
    yield f"{kind} alone", lambda events: [events[_at(events, kind)]]


def of_order():
    changes = {name: change for kind in KINDS if kind != "end" for name, change in _of_order_of(kind)}
    of_end = dict(_of_order_of("end"))
    changes |= {
        "reversed": lambda events: events[::-1],
        "all twice": lambda events: events + events,
        "blocks one by one": _in_single_blocks,
        "nothing": lambda events: [],
        "an event of no kind among them": lambda events: events[:2] + [Response()] + events[2:],
        "a backlog without end among them": lambda events: events[:2] + [ENDLESS] + events[2:],
    }
    for name, change in changes.items():
        yield MethodLie("Prefill", f"order: {name}", _whole(change))
    for name, change in of_end.items():
        yield MethodLie("Prefill", f"order: {name}", _whole(change), takes_end=True)
    for name in [name for name in changes if name.endswith(" missing")] + ["reversed", "nothing"]:
        yield MethodLie("Prefill", f"order: {name}, then the end", _whole(changes[name], goes_on=False))
    for n in range(1, 7):
        yield MethodLie("Prefill", f"order: {n} events, then the end",
                        _whole(lambda events, n=n: events[:n], goes_on=False))
    for i, code in enumerate(ERRORS):
        for n in (0, 1 + i % 5, 100):
            yield MethodLie("Prefill", f"fails with {code.name} after {n} events at most", _fails_after(n, code))


# ---- another request's ----

class Held:
    """A hand-over that is stopped before it is sealed: its transfer is open, its blocks may be read."""

    def __init__(self, salt):
        self.salt = salt
        self.is_open, self.release = threading.Event(), threading.Event()
        self.said, self.request = [], None

    def events(self, request, ask):
        self.request = request
        for event in ask(request):
            if kind_of(event) == "sealed":
                self.is_open.set()
                self.release.wait(SILENCE_S)
            else:
                self.said.append(event)
            yield event

    def ready(self):
        """Of all its blocks, by their place in the prompt: id, digest."""
        blocks = {}
        for event in self.said:
            for i, block in enumerate(event.ready.block_ids):
                blocks[event.ready.first_block + i] = (block, event.ready.digests[i])
        return blocks


def _named(held, is_meant, has_digests):
    """Its blocks in the place of one's own."""
    def tell(request, ask):
        theirs = held().ready()
        for event in ask(request):
            ready = event.ready
            if kind_of(event) == "ready":
                for i in range(len(ready.block_ids)):
                    if is_meant(ready.first_block + i):
                        ready.block_ids[i], ready.digests[i] = theirs[ready.first_block + i]
                if not has_digests:
                    del ready.digests[:]
            yield event
    return tell


def _said_again(held):
    def tell(request, ask):
        for event in ask(request):
            if kind_of(event) == "sealed":
                yield from held().said
                yield event
    return tell


def _asked_as(held, *fields):
    def tell(request, ask):
        for field in fields:
            setattr(request, field, getattr(held().request, field))
        yield from ask(request)
    return tell


def _committed(held):
    def tell(request, ask):
        request.transfer_id = held().request.transfer_id
        return ask(request)
    return tell


def _aborted(held, asks):
    def tell(request, ask):
        asks["Abort"](context_worker_pb2.AbortRequest(request_id=held().request.request_id))
        yield from ask(request)
    return tell


def of_another(held, asks):
    refused = {
        "its blocks": _named(held, lambda block: True, False),
        "one of its blocks": _named(held, lambda block: block == 3, False),
        "the last of its blocks": _named(held, lambda block: block == 7, False),
        "its blocks and digests": _named(held, lambda block: True, True),
    }
    for name, tell in refused.items():
        yield MethodLie("Prefill", f"another's: {name}", tell, is_refused=True)
    others = {
        "its events": _said_again(held),
        "its transfer": _asked_as(held, "transfer_id"),
        "its request": _asked_as(held, "request_id"),
        "its request and transfer": _asked_as(held, "request_id", "transfer_id"),
        "its request aborted": _aborted(held, asks),
    }
    for name, tell in others.items():
        yield MethodLie("Prefill", f"another's: {name}", tell)
    yield MethodLie("Commit", "another's: its transfer", _committed(held))
