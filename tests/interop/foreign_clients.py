"""Foreign clients of the public API: grpcio and Go from proto/, grpcurl through reflection.

    foreign_clients.py KVFERRY_BINARY MODEL_FOLDER GRPCURL GO_CLIENT

Starts a router, a context worker and a generation worker as real processes. Every check asserts;
at the end KV must have crossed, no block may be owned, and every process must exit with 0.
"""

import json
import pathlib
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

import grpc
import inner_calls
from cluster import Cluster, Process
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from kvferry.internal.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    context_worker_pb2,
    context_worker_pb2_grpc,
)
from kvferry.v1 import (
    generation_pb2,
    generation_pb2_grpc,
    model_pb2,
    model_pb2_grpc,
    sampling_pb2,
)

BINARY, MODEL, GRPCURL, GO_CLIENT = sys.argv[1:5]
PROMPT = "In the beginning God created the heaven and the earth. " * 12


def setUpModule():
    global cluster, address, channel
    cluster = Cluster(BINARY, MODEL, True, local_prefill_max_tokens=8)
    address = cluster.router.ports["grpc"]
    channel = grpc.insecure_channel(address)


def tearDownModule():
    channel.close()
    for worker in (cluster.context, cluster.generation):
        until = time.monotonic() + 30
        for state in ("active", "pinned", "inbound", "quarantined"):
            while worker.metric("kvferry_kv_blocks", f'state="{state}"') != 0:
                assert time.monotonic() < until, f"blocks stay {state}"
                time.sleep(0.02)
    assert cluster.generation.metric("kvferry_kv_transfer_bytes_total") > 0
    cluster.stop()


def request(kind=generation_pb2.GenerateRequest, **fields):
    sampling = fields.pop("sampling", {})
    sampling = {"max_tokens": 12, "temperature": 0.7, "seed": 5} | sampling
    return kind(
        **({"text": PROMPT} | fields),
        sampling=sampling_pb2.SamplingParams(**sampling),
        return_timing=True,
    )


def complete_request(**fields):
    return request(generation_pb2.CompleteRequest, **fields)


def error_info(error):
    """The ErrorInfo and the RetryInfo (None when there is none) of an error."""
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    unpacked = [d.Unpack(info) or d.Unpack(retry) and "retry"
                for d in status_pb2.Status.FromString(details).details]
    return info, retry if "retry" in unpacked else None


def peak_mib(process):
    status = pathlib.Path(f"/proc/{process.child.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024


class Grpcio(unittest.TestCase):
    def setUp(self):
        self.stub = generation_pb2_grpc.GenerationServiceStub(channel)

    def test_unary_and_streamed_generation_agree(self):
        # Another salt: the second one must not find the first one's prefix, so that KV crosses.
        whole = self.stub.Complete(complete_request(cache_salt="a"), timeout=60)
        messages = list(self.stub.Generate(request(cache_salt="b"), timeout=60))
        ids = [i for message in messages for i in message.token_ids]
        self.assertEqual(ids, list(whole.token_ids))
        self.assertEqual("".join(message.text for message in messages), whole.text)
        last = messages[-1]
        self.assertEqual(last.finish_reason, whole.finish_reason)
        self.assertEqual(last.usage.generated_tokens, len(ids))
        self.assertTrue(all(not message.HasField("usage") for message in messages[:-1]))
        for timing in (whole.timing, last.timing):
            self.assertGreater(timing.kv_bytes_received, 0)
            self.assertNotEqual(timing.context_worker, "")

    def test_log_probabilities_of_a_prompt_come_in_both_kinds(self):
        asks = {"prompt_logprobs": 3, "n": 2, "logprobs": 1}
        whole = self.stub.Complete(complete_request(sampling=asks), timeout=60)
        messages = list(self.stub.Generate(request(sampling=asks), timeout=60))
        told = [row for message in messages for row in message.prompt_logprobs]
        self.assertEqual([r.SerializeToString() for r in told], [r.SerializeToString() for r in whole.prompt_logprobs])
        self.assertEqual([row.token_id for row in told][1:], list(self.tokens(PROMPT)))  # the first one is before any text
        self.assertEqual(len(told), whole.usage.prompt_tokens)
        self.assertEqual((told[0].logprob, len(told[0].top)), (0, 0))
        self.assertTrue(all(row.logprob < 0 and len(row.top) == 3 for row in told[1:]))
        self.assertTrue(all(top.bytes for row in told[1:] for top in row.top))
        first = next(i for i, message in enumerate(messages) if message.token_ids)
        self.assertFalse(any(message.prompt_logprobs for message in messages[first:]))
        self.assertEqual(len(self.complete(sampling=asks | {"prompt_logprobs": 0}).prompt_logprobs[1].top), 0)
        self.assertEqual(len(self.complete().prompt_logprobs), 0)

    def test_tokenize_and_back(self):
        text = "And God said, Let there be light: äöü 光 🙂"
        ids = self.stub.Tokenize(generation_pb2.TokenizeRequest(text=text), timeout=10).token_ids
        reply = self.stub.Detokenize(
            generation_pb2.DetokenizeRequest(token_ids=ids), timeout=10
        )
        self.assertEqual(reply.text, text)

    def tokens(self, text):
        return self.stub.Tokenize(generation_pb2.TokenizeRequest(text=text), timeout=10).token_ids

    def complete(self, **fields):
        return self.stub.Complete(complete_request(**fields), timeout=60)

    def test_text_holds_nul(self):
        text = "a\0\0b\0"
        ids = self.tokens(text)
        message = generation_pb2.DetokenizeRequest(token_ids=ids)
        self.assertEqual(self.stub.Detokenize(message, timeout=10).text, text)
        reply = self.complete(text=text)
        self.assertGreaterEqual(reply.usage.prompt_tokens, len(ids))

        # Nearly even draws, until the token of that byte is among them.
        (nul,) = self.tokens("\0")
        sampling = {"max_tokens": 1000, "temperature": 100, "ignore_eos": True}
        for seed in range(40):
            sampling["seed"] = seed
            whole = self.complete(sampling=sampling)
            if nul in whole.token_ids:
                break
        self.assertIn(nul, whole.token_ids)
        self.assertIn("\0", whole.text)
        message = generation_pb2.DetokenizeRequest(
            token_ids=whole.token_ids, skip_special_tokens=True)
        self.assertEqual(self.stub.Detokenize(message, timeout=10).text, whole.text)
        messages = list(self.stub.Generate(request(sampling=sampling), timeout=60))
        self.assertEqual("".join(message.text for message in messages), whole.text)
        cut = self.complete(sampling=sampling | {"stop": ["\0"]})
        self.assertEqual(cut.text, whole.text.split("\0")[0])
        self.assertEqual(cut.finish_reason, sampling_pb2.FINISH_REASON_STOP)
        self.assertEqual(cut.stop_string, "\0")

    def test_a_stop_string_in_what_is_left_at_the_end(self):
        # The first byte of a character alone: its text comes when the reply ends.
        sampling = {"max_tokens": 1, "temperature": 100, "ignore_eos": True}
        for seed in range(400):
            sampling["seed"] = seed
            if self.complete(sampling=sampling).text == "\ufffd":
                break
        sampling["stop"] = ["\ufffd"]
        whole = self.complete(sampling=sampling)
        *_, last = self.stub.Generate(request(sampling=sampling), timeout=60)
        for reply in (whole, last):
            self.assertEqual(reply.text, "")
            self.assertEqual(reply.finish_reason, sampling_pb2.FINISH_REASON_STOP)
            self.assertEqual(reply.stop_string, "\ufffd")

    def test_a_text_that_is_longer_once_normalized(self):
        golden = pathlib.Path(__file__).parents[1] / "golden" / "tokenizer" / "qwen2"
        with tempfile.TemporaryDirectory() as folder:
            router = Process(BINARY, str(golden), folder, "router",
                             "--generation-workers", "127.0.0.1:9", wants_ready=False)
            with grpc.insecure_channel(router.ports["grpc"]) as only:
                stub = generation_pb2_grpc.GenerationServiceStub(only)
                message = generation_pb2.TokenizeRequest(text="\U0001d160" * 100)
                until = time.monotonic() + 30
                ids = []
                while not ids:
                    try:
                        ids = stub.Tokenize(message, timeout=10).token_ids
                    except grpc.RpcError as error:  # it loads
                        self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                        self.assertLess(time.monotonic(), until)
                        time.sleep(0.02)
                self.assertGreater(len(ids), 464)
            self.assertEqual(router.stop(), 0)

    def test_a_name_holds_no_nul(self):
        for field in ("model", "request_id", "cache_salt"):
            with self.assertRaises(grpc.RpcError) as caught:
                self.complete(**{field: "a\0b"})
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(field, caught.exception.details())

    def test_model(self):
        stub = model_pb2_grpc.ModelServiceStub(channel)
        (card,) = stub.ListModels(model_pb2.ListModelsRequest(), timeout=10).models
        model = stub.GetModel(model_pb2.GetModelRequest(name=card.name), timeout=10).model
        self.assertEqual(model, card)
        self.assertEqual((model.vocabulary, model.context_tokens), (2048, 2048))
        with self.assertRaises(grpc.RpcError) as caught:
            stub.GetModel(model_pb2.GetModelRequest(name="another"), timeout=10)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_an_error_has_details(self):
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.stub.Generate(request(sampling={"top_p": 1.5}), timeout=10))
        error = caught.exception
        self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("top_p", error.details())
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        status = status_pb2.Status.FromString(details)
        info, violation = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        for detail in status.details:
            detail.Unpack(info) or detail.Unpack(violation)
        self.assertEqual((info.domain, info.reason), ("kvferry", "BAD_FIELD"))
        self.assertEqual(info.metadata["field"], "sampling.top_p")
        self.assertEqual(violation.field_violations[0].field, "sampling.top_p")

    def test_priority(self):
        whole = self.stub.Complete(complete_request(), timeout=60)
        for priority in (-100, 0):
            ids = self.stub.Complete(complete_request(priority=priority), timeout=60).token_ids
            self.assertEqual(ids, whole.token_ids)
        for priority, code in ((1, grpc.StatusCode.PERMISSION_DENIED),
                               (101, grpc.StatusCode.INVALID_ARGUMENT)):
            with self.assertRaises(grpc.RpcError) as caught:
                list(self.stub.Generate(request(priority=priority), timeout=10))
            self.assertEqual(caught.exception.code(), code)
            info, _ = error_info(caught.exception)
            self.assertEqual((info.metadata["field"], info.metadata["value"]),
                             ("priority", str(priority)))

    def test_what_stopped_a_reply(self):
        def replies(**sampling):
            fields = {"sampling": {"max_tokens": 8, "temperature": 0} | sampling}
            last = list(self.stub.Generate(request(**fields), timeout=60))[-1]
            return self.complete(**fields), last

        whole, last = replies()
        for reply in (whole, last):
            self.assertEqual(reply.finish_reason, sampling_pb2.FINISH_REASON_LENGTH)
            self.assertIsNone(reply.WhichOneof("matched_stop"))
            self.assertEqual(reply.index, 0)
        stop = whole.text[2:5]
        for reply in replies(stop=["nowhere to be found", stop]):
            self.assertEqual(reply.finish_reason, sampling_pb2.FINISH_REASON_STOP)
            self.assertEqual(reply.stop_string, stop)
        for reply in replies(stop_token_ids=[2047, whole.token_ids[3]]):
            self.assertEqual(reply.finish_reason, sampling_pb2.FINISH_REASON_STOP)
            self.assertEqual(reply.stop_token_id, whole.token_ids[3])
            self.assertTrue(reply.HasField("stop_token_id"))

    def test_absent_is_not_zero(self):
        """generation_config.json of the demo model leaves the temperature to the API: 1."""
        drawn = {tuple(self.complete(sampling={"temperature": 1, "seed": seed}).token_ids)
                 for seed in range(3)}
        greedy = {tuple(self.complete(sampling={"temperature": 0, "seed": seed}).token_ids)
                  for seed in range(3)}
        self.assertEqual((len(drawn), len(greedy)), (3, 1))
        message = complete_request(sampling={"seed": 1})
        message.sampling.ClearField("temperature")
        absent = self.stub.Complete(message, timeout=60).token_ids
        self.assertEqual(
            list(absent), list(self.complete(sampling={"temperature": 1, "seed": 1}).token_ids))

    def test_request_id(self):
        def call(message, *metadata):
            reply, call = self.stub.Complete.with_call(message, timeout=60, metadata=metadata)
            (header,) = [v for k, v in call.initial_metadata() if k == "x-request-id"]
            self.assertEqual(header, reply.request_id)
            return header

        self.assertRegex(call(complete_request()), "^[0-9a-f]{32}$")
        self.assertEqual(call(complete_request(), ("x-request-id", "from outside")), "from outside")
        both = call(complete_request(request_id="mine"), ("x-request-id", "from outside"))
        self.assertEqual(both, "mine")

        long = request(sampling={"max_tokens": 1500, "ignore_eos": True})
        metadata = (("x-request-id", "of a proxy"),)
        first = self.stub.Generate(long, timeout=60, metadata=metadata)
        self.assertIn(("x-request-id", "of a proxy"), first.initial_metadata())
        self.assertRegex(call(complete_request(), *metadata), "^of a proxy~[0-9a-f]{16}$")
        with self.assertRaises(grpc.RpcError) as caught:
            self.complete(request_id="of a proxy")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.ALREADY_EXISTS)
        first.cancel()

    def test_every_error_names_its_request(self):
        def fails(call, message, request_id, **metadata):
            with self.assertRaises(grpc.RpcError) as caught:
                call(message, timeout=10, metadata=(("x-request-id", request_id),))
            error = caught.exception
            info, retry = error_info(error)
            self.assertEqual(list(error.initial_metadata()), [], "a retry needs Trailers-Only")
            self.assertIn(("x-request-id", info.metadata["request_id"]), error.trailing_metadata())
            self.assertEqual((info.metadata["retryable"], retry), ("false", None))
            return info.metadata

        bad = complete_request(sampling={"top_p": 1.5})
        self.assertEqual(fails(self.stub.Complete, bad, "a")["request_id"], "a")
        self.assertEqual(fails(
            self.stub.Complete, complete_request(request_id="b", model="another"), "a")["request_id"], "b")
        model = model_pb2_grpc.ModelServiceStub(channel)
        self.assertEqual(fails(
            model.GetModel, model_pb2.GetModelRequest(name="another"), "c")["request_id"], "c")
        unknown = channel.unary_unary(
            "/kvferry.v1.GenerationService/Nothing",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=lambda bytes: bytes)
        self.assertEqual(fails(unknown, bad, "d")["request_id"], "d")
        named = fails(self.stub.Complete, complete_request(), "x" * 129)
        self.assertEqual(named["field"], "x-request-id")
        self.assertRegex(named["request_id"], "^[0-9a-f]{32}$")

    def test_gzip(self):
        gzipped = grpc.insecure_channel(address, compression=grpc.Compression.Gzip)
        stub = generation_pb2_grpc.GenerationServiceStub(gzipped)
        plain = self.complete()
        self.assertEqual(
            list(stub.Complete(complete_request(), timeout=60).token_ids), list(plain.token_ids))
        streamed = [i for m in stub.Generate(request(), timeout=60) for i in m.token_ids]
        self.assertEqual(streamed, list(plain.token_ids))
        # 200 MB of which 200 KB travel.
        before = peak_mib(cluster.router)
        with self.assertRaises(grpc.RpcError) as caught:
            stub.Complete(complete_request(text="x" * 200_000_000), timeout=60)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("when decompressed", caught.exception.details())
        self.assertLess(peak_mib(cluster.router) - before, 100)
        gzipped.close()
        deflated = grpc.insecure_channel(address, compression=grpc.Compression.Deflate)
        with self.assertRaises(grpc.RpcError) as caught:
            generation_pb2_grpc.GenerationServiceStub(deflated).Complete(
                complete_request(), timeout=60)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        deflated.close()

    def test_cancel_and_deadline(self):
        stream = self.stub.Generate(
            request(sampling={"max_tokens": 1000, "ignore_eos": True}), timeout=60
        )
        next(stream)
        stream.cancel()
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.stub.Generate(
                request(sampling={"max_tokens": 1500, "ignore_eos": True}), timeout=0.05))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_health_check_and_watch(self):
        health_channel = grpc.insecure_channel(cluster.router.ports["health"])
        for each in (channel, health_channel):
            stub = health_pb2_grpc.HealthStub(each)
            for service in ("", "readiness", "kvferry.v1.GenerationService"):
                reply = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
                self.assertEqual(reply.status, health_pb2.HealthCheckResponse.SERVING, service)
            with self.assertRaises(grpc.RpcError) as caught:
                stub.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=10)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            watch = stub.Watch(health_pb2.HealthCheckRequest(service=""), timeout=10)
            self.assertEqual(next(watch).status, health_pb2.HealthCheckResponse.SERVING)
            watch.cancel()
        health_channel.close()

    def test_reflection_v1alpha(self):
        database = ProtoReflectionDescriptorDatabase(channel)
        self.assertIn("kvferry.v1.GenerationService", database.get_services())
        file = database.FindFileContainingSymbol("kvferry.v1.SamplingParams")
        self.assertEqual(file.name, "kvferry/v1/sampling.proto")


class HostilePeer(unittest.TestCase):
    """Speaks to the context worker as a generation worker would, and takes nothing of what it asked for."""

    N_PREFILLS = 400
    INCARNATION = 4711

    def setUp(self):
        self.channel = inner_calls.channel(
            cluster.context.ports["control"], inner_calls.user_key())
        state = admin_pb2_grpc.AdminServiceStub(self.channel).GetState(
            admin_pb2.GetStateRequest(), timeout=10
        )
        self.callee_incarnation = state.incarnation
        self.stub = context_worker_pb2_grpc.ContextWorkerServiceStub(self.channel)
        self.stub.Describe(
            context_worker_pb2.DescribeRequest(
                caller=context_worker_pb2.WorkerIdentity(
                    name="hostile",
                    incarnation=self.INCARNATION,
                    geometry=state.model.geometry,
                    transport="am-tcp",
                    transport_address=b"never used: nothing is pulled",
                    protocol_revision=2,
                    host_addresses=[bytes([127, 0, 0, 1])],
                )
            ),
            timeout=10,
        )

    def tearDown(self):
        self.channel.close()

    def prefill(self, number):
        return self.stub.Prefill(
            context_worker_pb2.PrefillRequest(
                request_id=f"hostile {number}",
                transfer_id=number.to_bytes(16, "little"),
                token_ids=[1 + (number * 7 + i) % 1000 for i in range(200)],
                sampling=sampling_pb2.SamplingParams(
                    max_tokens=4, temperature=0, top_k=0, top_p=1, min_p=0, repetition_penalty=1,
                    presence_penalty=0, frequency_penalty=0, seed=1
                ),
                caller_incarnation=self.INCARNATION,
                callee_incarnation=self.callee_incarnation,
            ),
            timeout=120,
        )

    def test_prefills_that_nobody_pulls_keep_nobody_waiting(self):
        streams = [self.prefill(number) for number in range(1, self.N_PREFILLS + 1)]
        until = time.monotonic() + 60
        # They have taken all that they are given; a connection has 256 streams.
        while cluster.context.metric("kvferry_prefills_waiting") < 150:
            self.assertLess(time.monotonic(), until, "the prefills do not queue")
            time.sleep(0.02)
        for salt in ("hostile a", "hostile b"):
            reply = generation_pb2_grpc.GenerationServiceStub(channel).Complete(
                complete_request(cache_salt=salt), timeout=60
            )
            self.assertGreater(reply.timing.kv_bytes_received, 0, "computed elsewhere")
            self.assertEqual(reply.timing.kv_tokens_recomputed, 0)
        self.assertTrue(all(stream.is_active() for stream in streams), "they had to end first")
        for stream in streams:
            stream.cancel()


class Go(unittest.TestCase):
    """Code of protoc-gen-go, made of the published files."""

    def test_calls(self):
        ran = subprocess.run(
            [GO_CLIENT, address, PROMPT], capture_output=True, text=True, timeout=120)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        report = json.loads(ran.stdout)
        reply = generation_pb2_grpc.GenerationServiceStub(channel).Complete(
            complete_request(sampling={"max_tokens": 8, "temperature": 0}), timeout=60)
        self.assertEqual(report["Ids"], list(reply.token_ids))
        self.assertEqual(report["Streamed"], list(reply.token_ids))
        self.assertEqual(report["Model"], "demo")
        self.assertEqual(report["RequestId"], ["named in Go"])
        self.assertEqual((report["Reason"], report["FieldAtBad"]), ("BAD_FIELD", "sampling.top_p"))
        self.assertEqual(report["Metadata"]["retryable"], "false")


class Grpcurl(unittest.TestCase):
    """Knows nothing of proto/: everything comes through reflection."""

    def grpcurl(self, *arguments):
        return subprocess.run(
            [GRPCURL, "-plaintext", *arguments], capture_output=True, text=True, timeout=60
        )

    def test_list_and_describe(self):
        listed = self.grpcurl(address, "list")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        for service in ("kvferry.v1.GenerationService", "grpc.health.v1.Health"):
            self.assertIn(service, listed.stdout.split())
        described = self.grpcurl(address, "describe", "kvferry.v1.GenerateRequest")
        self.assertIn("cache_salt", described.stdout)
        described = self.grpcurl(address, "describe", "kvferry.v1.SamplingParams")
        self.assertIn("optional float temperature = 2;", described.stdout)
        self.assertIn("repeated string stop = 10;", described.stdout)

    def test_unary_and_streamed_generation(self):
        sampling = {"max_tokens": 5, "temperature": 0}
        body = {"text": PROMPT, "sampling": sampling, "cache_salt": "grpcurl"}
        unary = self.grpcurl(
            "-d", json.dumps(body), address,
            "kvferry.v1.GenerationService/Complete")
        self.assertEqual(unary.returncode, 0, unary.stderr)
        reply = json.loads(unary.stdout)
        streamed = self.grpcurl(
            "-d", json.dumps(body), address, "kvferry.v1.GenerationService/Generate")
        self.assertEqual(streamed.returncode, 0, streamed.stderr)
        decoder, text, ids = json.JSONDecoder(), streamed.stdout.strip(), []
        while text:
            message, end = decoder.raw_decode(text)
            ids += message.get("tokenIds", [])
            text = text[end:].lstrip()
        self.assertEqual(ids, reply["tokenIds"])

    def test_health_and_error(self):
        health = self.grpcurl(address, "grpc.health.v1.Health/Check")
        self.assertIn("SERVING", health.stdout)
        failed = self.grpcurl(
            "-d", '{"text": "x", "sampling": {"temperature": -1}}', address,
            "kvferry.v1.GenerationService/Generate")
        self.assertNotEqual(failed.returncode, 0)
        self.assertIn("InvalidArgument", failed.stderr)
        self.assertIn("sampling.temperature", failed.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
