"""A collector of OTLP over gRPC that shares no code with us: grpcio, the opentelemetry-proto package.

    collector.py    prints `ready ADDRESS`; when its standard input ends, the number of spans that it took
"""

import concurrent.futures
import sys
import threading

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

LIMIT_S = 30


def values_of(message):
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in message.attributes}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps what it gets as (resource attributes, span); answer: what becomes of a batch."""

    def __init__(self, answer=lambda request, context: trace_service_pb2.ExportTraceServiceResponse(),
                 credentials=None):
        self.answer = answer
        self.spans, self.changed = [], threading.Condition()
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        port = (self.server.add_secure_port("127.0.0.1:0", credentials) if credentials
                else self.server.add_insecure_port("127.0.0.1:0"))
        self.address = f"127.0.0.1:{port}"
        self.server.start()

    def Export(self, request, context):
        with self.changed:
            for resource in request.resource_spans:
                attributes = values_of(resource.resource)
                for scope in resource.scope_spans:
                    self.spans += [(attributes, span) for span in scope.spans]
            self.changed.notify_all()
        return self.answer(request, context)

    def wait(self, is_there):
        """The spans, once is_there(spans)."""
        with self.changed:
            if not self.changed.wait_for(lambda: is_there(self.spans), LIMIT_S):
                raise AssertionError(f"did not come: {[span.name for _, span in self.spans]}")
            return list(self.spans)

    def stop(self):
        self.server.stop(None)


if __name__ == "__main__":
    collector = Collector()
    print("ready", collector.address, flush=True)
    sys.stdin.read()
    collector.stop()
    print(len(collector.spans), flush=True)
