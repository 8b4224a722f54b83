"""A collector of OTLP that shares no code with us (grpcio, the opentelemetry-proto package) gets the spans of three
processes as one trace; one that is down, hangs, is slow or refuses costs no request.

    traces.py KVFERRY_BINARY MODEL_FOLDER
"""

import json
import socket
import sys
import tempfile
import threading
import time
import unittest

import certificates
import grpc
from cluster import Cluster
from collector import LIMIT_S, Collector, values_of
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

BINARY, MODEL = sys.argv[1:3]
PROMPT = "In the beginning God created the heaven and the earth. " * 12
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
EXPORTED, DROPPED = "kvferry_trace_spans_exported_total", "kvferry_trace_spans_dropped_total"
DECODE = "kvferry.internal.v1.GenerationWorkerService/Decode"
PREFILL = "kvferry.internal.v1.ContextWorkerService/Prefill"


def start(endpoint, *arguments, is_split=True):
    words = ("--otlp-endpoint", endpoint, *arguments) if endpoint else arguments
    return Cluster(BINARY, MODEL, is_split, *words, router_arguments=words)


def complete(cluster, request_id, temperature=0, **metadata):
    with grpc.insecure_channel(cluster.router.ports["grpc"]) as channel:
        sampling = sampling_pb2.SamplingParams(max_tokens=5, temperature=temperature, ignore_eos=True)
        request = generation_pb2.CompleteRequest(
            text=PROMPT, sampling=sampling, request_id=request_id, cache_salt=request_id, return_timing=True)
        return generation_pb2_grpc.GenerationServiceStub(channel).Complete(
            request, timeout=60, metadata=list(metadata.items()))


def traceparent(flags="01", trace=TRACE):
    return f"00-{trace}-{PARENT}-{flags}"


def lines_of(cluster):
    """Of all logs, when the processes have ended."""
    lines = []
    for process in cluster.processes:
        process.log.seek(0)
        lines += [json.loads(line) for line in process.log.read().splitlines()]
    return lines


def wait_for(what, is_so):
    until = time.monotonic() + LIMIT_S
    while not is_so():
        if time.monotonic() > until:
            raise AssertionError(what)
        time.sleep(0.05)


def have_told(spans):
    """Each role has sent the span that it ends a request with."""
    return {"request", DECODE, PREFILL} <= {span.name for _, span in spans}


def counted(cluster, name):
    """By the processes, which count a batch when it is answered: a little after the collector has it."""
    return sum(process.metric(name) for process in cluster.processes)


class Traces(unittest.TestCase):
    def test_one_request_is_one_trace_of_three_processes(self):
        collector = Collector()
        cluster = start(collector.address, "--trace-ratio", "0")
        reply = complete(cluster, "mine", traceparent=traceparent())
        self.assertGreater(reply.timing.kv_bytes_received, 0, "KV crossed")
        collector.wait(have_told)
        wait_for("all are counted", lambda: counted(cluster, EXPORTED) == len(collector.spans))
        cluster.stop()  # sends what there is
        collector.stop()
        spans = collector.spans
        self.assertEqual({span.trace_id.hex() for _, span in spans}, {TRACE})
        self.assertEqual(len({span.span_id for _, span in spans}), len(spans), "ids differ")
        by_role = {}
        for resource, span in spans:
            self.assertEqual(resource["service.name"], "kvferry")
            self.assertTrue(resource["service.instance.id"] and resource["service.version"])
            by_role.setdefault(resource["kvferry.role"], {}).setdefault(span.name, []).append(span)
        self.check_names(by_role)
        self.check_parents(by_role)
        self.check_facts(by_role, reply)
        names = {line["msg"] for line in lines_of(cluster) if line.get("trace_id") == TRACE}
        self.assertEqual(names, {"request done", "decode done", "prefill done"})

    def check_names(self, by_role):
        self.assertEqual(set(by_role["router"]), {"request", "route", "queue"})
        self.assertEqual(set(by_role["gen-worker"]), {DECODE, "queue", "reserve", "transfer", "decode"})
        self.assertEqual(set(by_role["ctx-worker"]), {PREFILL, "queue", "prefill", "chunk"})

    def check_parents(self, by_role):
        def only(role, name):
            spans = by_role[role][name]
            self.assertEqual(len(spans), 1, (role, name))
            return spans[0]

        request, decode, prefill = (only("router", "request"), only("gen-worker", DECODE), only("ctx-worker", PREFILL))
        self.assertEqual(request.parent_span_id.hex(), PARENT)
        self.assertEqual(decode.parent_span_id, request.span_id)
        self.assertEqual(prefill.parent_span_id, decode.span_id)
        for server in request, decode, prefill:
            self.assertEqual(server.kind, trace_pb2.Span.SPAN_KIND_SERVER)
        parents = {"router": request, "gen-worker": decode, "ctx-worker": prefill}
        for role, parent in parents.items():
            for name, spans in by_role[role].items():
                for span in spans if spans[0] is not parent else []:
                    expected = only("ctx-worker", "prefill") if name == "chunk" else parent
                    self.assertEqual(span.parent_span_id, expected.span_id, (role, name))
                    self.assertEqual(span.kind, trace_pb2.Span.SPAN_KIND_INTERNAL)

    def check_facts(self, by_role, reply):
        now_ns = time.time_ns()
        for role, names in by_role.items():
            for name, spans in names.items():
                for span in spans:
                    self.assertLessEqual(span.start_time_unix_nano, span.end_time_unix_nano, (role, name))
                    self.assertLess(abs(now_ns - span.end_time_unix_nano), 120e9, "the time of this machine")
                    self.assertEqual(span.status.code, trace_pb2.Status.STATUS_CODE_UNSET)
                    self.assertEqual(values_of(span)["kvferry.status"], "OK")
        request = values_of(by_role["router"]["request"][0])
        self.assertEqual(request["kvferry.request_id"], "mine")
        self.assertEqual(request["kvferry.finish_reason"], "length")
        self.assertEqual(request["kvferry.generated_tokens"], 5)
        self.assertEqual(request["kvferry.prompt_tokens"], reply.usage.prompt_tokens)
        transfer = values_of(by_role["gen-worker"]["transfer"][0])
        self.assertEqual(transfer["kvferry.kv_bytes"], reply.timing.kv_bytes_received)
        self.assertEqual(transfer["kvferry.transport"], reply.timing.transport)

    def test_the_callers_flag_decides_both_ways(self):
        collector = Collector()
        for ratio, flags, expected in ("1", "00", None), ("0", "01", TRACE), ("0", None, None):
            cluster = start(collector.address, "--trace-ratio", ratio)
            before = len(collector.spans)
            metadata = {"traceparent": traceparent(flags)} if flags else {}
            complete(cluster, f"{ratio} {flags}", **metadata)
            cluster.stop()  # sends what there is
            spans = collector.spans[before:]
            self.assertEqual({span.trace_id.hex() for _, span in spans}, {expected} - {None})
            lines = [line for line in lines_of(cluster) if line["msg"].endswith(" done")]
            self.assertEqual(len(lines), 3)
            self.assertEqual({line.get("trace_id") for line in lines}, {TRACE if flags else None})
        collector.stop()

    def test_without_a_caller_the_router_draws_a_trace(self):
        collector = Collector()
        cluster = start(collector.address, "--trace-ratio", "1")
        complete(cluster, "one")
        complete(cluster, "two", traceparent="00-" + "0" * 32 + f"-{PARENT}-01")  # as none
        cluster.stop()
        collector.stop()
        roots = [span for _, span in collector.spans if not span.parent_span_id]
        self.assertEqual([span.name for span in roots], ["request"] * 2)
        traces = {span.trace_id for _, span in collector.spans}
        self.assertEqual(traces, {span.trace_id for span in roots})
        self.assertEqual(len(traces), 2)
        for trace in traces:
            roles = {resource["kvferry.role"] for resource, span in collector.spans if span.trace_id == trace}
            self.assertEqual(roles, {"router", "gen-worker", "ctx-worker"})

    def test_a_prompt_computed_where_it_is_decoded_and_a_refused_request(self):
        collector = Collector()
        cluster = start(collector.address, is_split=False)
        complete(cluster, "local", traceparent=traceparent())
        with self.assertRaises(grpc.RpcError):
            complete(cluster, "bad", temperature=-3, traceparent=traceparent(trace="b" * 32))
        cluster.stop()
        collector.stop()
        names = {span.name: span for resource, span in collector.spans if resource["kvferry.role"] == "gen-worker"}
        self.assertEqual(set(names), {DECODE, "queue", "prefill", "decode"})
        self.assertGreater(values_of(names["prefill"])["kvferry.computed_tokens"], 0)
        bad = {span.name: span for _, span in collector.spans if span.trace_id.hex() == "b" * 32}
        self.assertEqual(set(bad), {"request", "route"})
        self.assertEqual(bad["request"].status.code, trace_pb2.Status.STATUS_CODE_ERROR)
        self.assertEqual(values_of(bad["request"])["kvferry.status"], "INVALID_ARGUMENT")
        refused = [line for line in lines_of(cluster) if line["msg"] == "request refused"]
        self.assertEqual([(line["status"], line["trace_id"]) for line in refused], [("INVALID_ARGUMENT", "b" * 32)])
        self.assertIn("-3", refused[0]["why"])

    def test_no_more_than_the_rate_are_recorded(self):
        collector = Collector()
        cluster = start(collector.address, "--trace-rate-max", "2")
        began = time.monotonic()
        for i in range(12):
            complete(cluster, f"r{i}", traceparent=traceparent())
        seconds = time.monotonic() - began
        cluster.stop()
        collector.stop()
        n = sum(span.name == "request" for _, span in collector.spans)
        self.assertGreaterEqual(n, 2)
        self.assertLessEqual(n, 2 * (int(seconds) + 1))

    def lose(self, endpoint, *arguments, n_requests=6):
        """Requests while the collector is no use: all are served; the cluster, with its spans dropped."""
        cluster = start(endpoint, "--trace-ratio", "1", *arguments)
        for i in range(n_requests):
            self.assertEqual(len(complete(cluster, f"r{i}").token_ids), 5)
        wait_for("drops are counted", lambda: all(
            process.metric(DROPPED, "export_failed") > 0 for process in cluster.processes))
        self.assertEqual(counted(cluster, EXPORTED), 0)
        for process in cluster.processes:
            self.assertEqual(process.stop(), 0)
        warned = [line for line in lines_of(cluster) if "does not accept spans" in line["msg"]]
        self.assertEqual(len(warned), 3, "once in each process")
        self.assertTrue(all(line["level"] == "warn" and line["peer"] == endpoint for line in warned))

    def test_a_collector_that_is_down_costs_spans_alone(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # listens to nobody
            self.lose(f"127.0.0.1:{taken.getsockname()[1]}")

    def test_a_collector_that_hangs_costs_spans_alone(self):
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(64)  # takes connections and says nothing
            self.lose(f"127.0.0.1:{silent.getsockname()[1]}")

    def test_a_collector_that_refuses_costs_spans_alone(self):
        collector = Collector(lambda _, context: context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no\nmore"))
        self.lose(collector.address)
        collector.stop()

    def test_a_collector_that_never_answers_costs_spans_alone(self):
        is_over = threading.Event()
        collector = Collector(lambda *_: is_over.wait(LIMIT_S) and trace_service_pb2.ExportTraceServiceResponse())
        self.lose(collector.address)
        is_over.set()
        collector.stop()

    def test_a_collector_may_want_tls(self):
        with tempfile.TemporaryDirectory() as path:
            folder = certificates.Folder(path)
            for name in "ca", "stranger":
                folder.ca(name)
            folder.make_server()
            pair = tuple(folder.file("server", suffix).read_bytes() for suffix in ("key", "pem"))
            collector = Collector(credentials=grpc.ssl_server_credentials([pair]))
            cluster = start(collector.address, "--trace-ratio", "1", "--otlp-tls-ca", str(folder.file("ca")))
            complete(cluster, "mine")
            collector.wait(have_told)
            cluster.stop()
            n = len(collector.spans)
            for arguments in ("--otlp-tls-ca", str(folder.file("stranger"))), ():  # another's CA, clear text
                self.lose(collector.address, *arguments)
            self.assertEqual(len(collector.spans), n)
            collector.stop()

    def test_what_a_collector_rejects_of_a_batch_is_counted(self):
        partial = trace_service_pb2.ExportTracePartialSuccess(rejected_spans=1, error_message="one of them")
        collector = Collector(lambda *_: trace_service_pb2.ExportTraceServiceResponse(partial_success=partial))
        cluster = start(collector.address, "--trace-ratio", "1")
        complete(cluster, "mine")
        collector.wait(have_told)
        wait_for("all are counted", lambda: counted(cluster, EXPORTED) + counted(cluster, DROPPED) == len(collector.spans))
        self.assertGreaterEqual(counted(cluster, DROPPED), 3, "one of each process's batch")
        cluster.stop()
        collector.stop()

    def test_switched_off_nothing_is_recorded_but_the_trace_is_handed_on(self):
        cluster = start(None)
        complete(cluster, "mine", traceparent=traceparent())
        for process in cluster.processes:
            self.assertEqual(process.metric(EXPORTED) + process.metric(DROPPED), 0)
        cluster.stop()
        lines = [line for line in lines_of(cluster) if line.get("trace_id") == TRACE]
        self.assertEqual({line["role"] for line in lines}, {"router", "gen-worker", "ctx-worker"})

    def test_an_endpoint_that_is_none_stops_the_start(self):
        with self.assertRaisesRegex(RuntimeError, "otlp_endpoint"):
            start("no port")
        with self.assertRaisesRegex(RuntimeError, "otlp_tls_ca.*missing.pem"):
            start("127.0.0.1:4317", "--otlp-tls-ca", "missing.pem")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
