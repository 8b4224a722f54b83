"""A member of the cluster that lies: a proxy before a worker's control port that knows the cluster key.

    class Liar(lying_proxy.Proxy):
        def answer(self, name, request, ask):          of a unary method
        def events(self, name, request, ask):          of a stream

Both may change the request, ask for it or not, change what came, send bytes in place of a message, and
raise Refusal: whatever they come to is proven as the worker's own. KV still crosses between real workers.
"""

import concurrent.futures

import grpc
import inner_calls
from google.protobuf import message_factory

CALL_LIMIT_S = 60
THREADS = 32


class Refusal(Exception):
    """The liar's own error in place of an answer."""

    def __init__(self, code, sentence="it is refused"):
        super().__init__(sentence)
        self.code = code


def serialized(message):
    return message if isinstance(message, bytes) else message.SerializeToString()


class Proxy:
    """Serves the methods of the services in front of a worker, under that worker's life."""

    def __init__(self, worker, *services):
        key = inner_calls.user_key()
        self.gate = inner_calls.Gate(int(worker.ports["incarnation"], 16), key)
        self.channel = inner_calls.channel(worker.ports["control"], key)
        self.asks = {}
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(THREADS))
        for service in services:
            self._serve(service)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def _serve(self, service):
        handlers = {}
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            request, response = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
            kind = "unary_stream" if method.server_streaming else "unary_unary"
            self.asks[method.name] = getattr(self.channel, kind)(
                path, request_serializer=serialized, response_deserializer=response.FromString)
            serve = self._stream if method.server_streaming else self._unary
            handlers[method.name] = getattr(grpc, f"{kind}_rpc_method_handler")(
                lambda request, context, serve=serve, name=method.name, path=path: serve(
                    name, path, request, context),
                request_deserializer=request.FromString, response_serializer=serialized)
        self.server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service.full_name, handlers)])

    def stop(self):
        self.server.stop(None).wait()
        self.channel.close()

    def answer(self, name, request, ask):
        return ask(request)

    def events(self, name, request, ask):
        yield from ask(request)

    def _pass_on(self, error, context, call_mac):
        if isinstance(error, Refusal):
            self.gate.fail(context, call_mac, error.code, str(error))
        details = dict(error.trailing_metadata() or ()).get(inner_calls.DETAILS, b"")
        self.gate.fail(context, call_mac, error.code(), error.details(), details)

    def _unary(self, name, path, request, context):
        call_mac = self.gate.check(context, path, request)
        try:
            response = self.answer(
                name, request, lambda asked: self.asks[name](asked, timeout=CALL_LIMIT_S))
        except (grpc.RpcError, Refusal) as error:
            return self._pass_on(error, context, call_mac)
        context.send_initial_metadata(
            [self.gate.prove(call_mac, "unary", serialized(response))])
        return response

    def _stream(self, name, path, request, context):
        call_mac = self.gate.check(context, path, request)
        is_begun = False

        def ask(asked):
            stream = self.asks[name](asked, timeout=CALL_LIMIT_S)
            context.add_callback(stream.cancel)
            return stream

        try:
            for event in self.events(name, request, ask):
                if not is_begun:
                    self.gate.begin_stream(context, call_mac)
                is_begun = True
                yield event
        except (grpc.RpcError, Refusal) as error:
            self._pass_on(error, context, call_mac)
        if not is_begun:
            self.gate.begin_stream(context, call_mac)
