"""grpcio as a gateway before the engine port of a real router with a context and a generation worker: vllm.grpc.engine.VllmEngine,
vllm.Inference and vllm.Control.

    engine_clients.py KVFERRY_BINARY MODEL_FOLDER

At the end KV must have crossed, no block may be owned, and every process must exit with 0.
"""

import concurrent.futures
import hashlib
import io
import json
import pathlib
import signal
import sys
import time
import unittest
import zipfile

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from kvferry.v1 import generation_pb2, generation_pb2_grpc, sampling_pb2
from openai_case import BINARY, LIMIT_S, LONG, MODEL, owned_blocks, start_cluster, stop_cluster, within
from smg.grpc.common import common_pb2
from vllm import control_pb2, control_pb2_grpc, inference_pb2, inference_pb2_grpc
from vllm.grpc.engine import vllm_engine_pb2, vllm_engine_pb2_grpc

NAMES = ("", "vllm.Control", "vllm.Inference", "vllm.grpc.engine.VllmEngine")
CONTEXT = json.loads((pathlib.Path(MODEL) / "config.json").read_text())["max_position_embeddings"]
EOS = json.loads((pathlib.Path(MODEL) / "generation_config.json").read_text())["eos_token_id"]


class Stubs:
    def __init__(self, cluster):
        self.channel = grpc.insecure_channel(cluster.router.ports["engine"])
        self.public = grpc.insecure_channel(cluster.router.ports["grpc"])
        self.engine = vllm_engine_pb2_grpc.VllmEngineStub(self.channel)
        self.inference = inference_pb2_grpc.InferenceStub(self.channel)
        self.control = control_pb2_grpc.ControlStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.v1 = generation_pb2_grpc.GenerationServiceStub(self.public)

    def close(self):
        self.channel.close()
        self.public.close()


def start(*router_arguments, **more):
    return start_cluster("--engine-address", "127.0.0.1:0", *router_arguments, **more)


def setUpModule():
    global cluster, stubs, LONG_IDS
    cluster = start()
    stubs = Stubs(cluster)
    LONG_IDS = ids_of(LONG)


def tearDownModule():
    stubs.close()
    stop_cluster(cluster)


def ids_of(text, of=None):
    request = generation_pb2.TokenizeRequest(text=text, add_special_tokens=True)
    return list((of or stubs).v1.Tokenize(request, timeout=LIMIT_S).token_ids)


def engine_request(ids=None, request_id="", stream=True, **sampling):
    params = vllm_engine_pb2.SamplingParams(**({"temperature": 0, "max_tokens": 12, "skip_special_tokens": True} | sampling))
    tokenized = vllm_engine_pb2.TokenizedInput(input_ids=ids or LONG_IDS)
    return vllm_engine_pb2.GenerateRequest(request_id=request_id, tokenized=tokenized, sampling_params=params, stream=stream)


def engine(ids=None, of=None, **more):
    """The responses."""
    return list((of or stubs).engine.Generate(engine_request(ids, **more), timeout=LIMIT_S))


def parts(responses, index=0):
    """Of a choice: its chunks, and the complete message."""
    chunks = [r.chunk for r in responses if r.HasField("chunk") and r.chunk.index == index]
    (complete,) = [r.complete for r in responses if r.HasField("complete") and r.complete.index == index]
    return chunks, complete


def ids_in(chunks):
    return [i for chunk in chunks for i in chunk.token_ids]


def v1(ids=None, n=1, **sampling):
    params = sampling_pb2.SamplingParams(**({"temperature": 0, "max_tokens": 12, "n": n} | sampling))
    prompt = generation_pb2.TokenIds(ids=ids or LONG_IDS)
    reply = stubs.v1.Complete(generation_pb2.CompleteRequest(token_ids=prompt, sampling=params), timeout=LIMIT_S)
    return [reply, *reply.more_choices]


def inference_request(prompt=None, request_id="", decoding=None, kv=None, sampling=None, stopping=None, response=None, **more):
    more = {"temperature": 0} | more
    if isinstance(prompt, str):
        more["text"] = prompt
    else:
        more["token_ids"] = inference_pb2.TokenIds(ids=prompt or LONG_IDS)
    return inference_pb2.GenerateRequest(
        request_id=request_id, sampling=inference_pb2.RandomSampling(**(sampling or {})),
        decoding=inference_pb2.DecodingParameters(**(decoding or {})), kv=inference_pb2.KVCacheParameters(**(kv or {})),
        stopping=inference_pb2.StoppingCriteria(**({"max_new_tokens": 12} | (stopping or {}))),
        response=inference_pb2.ResponseOptions(**({"output_token_ids": True} | (response or {}))), **more)


def inference(prompt=None, of=None, **more):
    return list((of or stubs).inference.GenerateStream(inference_request(prompt, **more), timeout=LIMIT_S))


def told(responses, index=0):
    """Of a choice: its ids, its text, its end."""
    outputs = [r.outputs for r in responses if r.outputs.index == index]
    (end,) = [o.finish_info for o in outputs if o.HasField("finish_info")]
    return [i for o in outputs for i in o.token_ids], "".join(o.text for o in outputs), end


class Case(unittest.TestCase):
    def assert_refused(self, call, code, *words):
        """Before the first message, so without headers."""
        with self.assertRaises(grpc.RpcError) as raised:
            list(call) if hasattr(call, "__iter__") else call()
        error = raised.exception
        self.assertEqual(error.code(), code, error.details())
        for word in words:
            self.assertIn(word, error.details())
        self.assertNotIn("127.0.0.1", error.details())
        if hasattr(call, "initial_metadata"):
            self.assertFalse([key for key, _ in call.initial_metadata() if key.startswith("x-")])
        return error

    def assert_nothing_owned(self):
        within(10, "no block is owned", lambda: owned_blocks(cluster) == 0)


class EngineGenerate(Case):
    def test_a_stream_has_the_tokens_of_kvferry_v1(self):
        chunks, complete = parts(engine())
        (wanted,) = v1()
        self.assertEqual(ids_in(chunks), list(wanted.token_ids))
        self.assertEqual([c.completion_tokens for c in chunks][-1], 12)
        self.assertEqual({c.prompt_tokens for c in chunks}, {len(LONG_IDS)})
        self.assertEqual((list(complete.output_ids), complete.finish_reason), ([], "length"))
        self.assertEqual((complete.prompt_tokens, complete.completion_tokens), (len(LONG_IDS), 12))

    def test_plain_is_one_message(self):
        responses = engine(stream=False)
        _, complete = parts(responses)
        self.assertEqual(len(responses), 1)
        self.assertEqual(list(complete.output_ids), list(v1()[0].token_ids))

    def test_a_prompt_is_found_in_the_cache(self):
        ids = ids_of("And the LORD said unto Moses, " * 20)
        engine(ids)
        self.assertGreater(parts(engine(ids))[1].cached_tokens, len(ids) // 2)

    def test_choices_are_those_of_kvferry_v1(self):
        for stream in (True, False):
            responses = engine(n=3, seed=7, temperature=1, top_k=50, stream=stream)
            for i, wanted in enumerate(v1(n=3, seed=7, temperature=1, top_k=50)):
                chunks, complete = parts(responses, i)
                self.assertEqual(ids_in(chunks) if stream else list(complete.output_ids), list(wanted.token_ids))

    def test_choices_of_a_plain_call_come_in_order(self):
        """Whichever ends first, with what ended it."""
        for seed in range(6):
            responses = engine(n=4, seed=seed, temperature=1, max_tokens=30, stop=["the", " of "], stream=False)
            self.assertEqual([r.complete.index for r in responses], [0, 1, 2, 3])
            for i, wanted in enumerate(v1(n=4, seed=seed, temperature=1, max_tokens=30, stop=["the", " of "])):
                _, complete = parts(responses, i)
                self.assertEqual((list(complete.output_ids), complete.matched_stop_str), (list(wanted.token_ids), wanted.stop_string))

    def test_every_parameter_is_that_of_kvferry_v1(self):
        for sampling in ({"temperature": 0.7, "top_p": 0.9, "seed": 3}, {"temperature": 1, "min_p": 0.2, "seed": -5},
                         {"temperature": 1, "seed": 2147483647}, {"repetition_penalty": 1.5}, {"presence_penalty": 1.5},
                         {"frequency_penalty": 1.5}, {"max_tokens": 40, "ignore_eos": True}, {"max_tokens": 40, "min_tokens": 30}):
            wanted = dict(sampling)
            if "seed" in wanted:
                wanted["seed"] %= 2**64
            self.assertEqual(ids_in(parts(engine(**sampling))[0]), list(v1(**wanted)[0].token_ids), sampling)

    def test_biases_are_kept(self):
        bias = vllm_engine_pb2.LogitBias(key=LONG_IDS[3], value=100)
        self.assertEqual(set(ids_in(parts(engine(logit_bias=[bias]))[0])), {LONG_IDS[3]})

    def test_log_probabilities_begin_with_the_generated_token(self):
        for n in (0, 1, 5):
            (wanted,) = v1(logprobs=max(1, n), temperature=1, seed=4)
            chunks, _ = parts(engine(logprobs=n, temperature=1, seed=4))
            _, complete = parts(engine(logprobs=n, temperature=1, seed=4, stream=False))
            rows = [row for c in chunks for row in c.output_logprobs.top_logprobs]
            self.assertEqual(rows, list(complete.output_logprobs.top_logprobs))
            self.assertEqual(list(complete.output_logprobs.token_ids), list(wanted.token_ids))
            for row, of, i in zip(rows, wanted.logprobs, wanted.token_ids, strict=True):
                others = [(t.token_id, t.logprob) for t in of.top if t.token_id != i] if n else []
                is_top = len(others) < len(of.top)
                self.assertEqual(list(zip(row.token_ids, row.values)), [(i, of.logprob)] + others)
                self.assertEqual(len(row.token_ids), 1 if n == 0 else n if is_top else n + 1)

    def test_log_probabilities_of_the_prompt_come_first(self):
        for n in (0, 1, 5):
            (wanted,) = v1(prompt_logprobs=max(1, n))
            responses = engine(prompt_logprobs=n)
            chunks, end = parts(responses)
            _, complete = parts(engine(prompt_logprobs=n, stream=False))
            told = responses[0].chunk.input_logprobs
            self.assertEqual(told, complete.input_logprobs)
            self.assertFalse(any(c.HasField("input_logprobs") for c in chunks[1:]) or end.HasField("input_logprobs"))
            self.assertEqual(list(told.token_ids), LONG_IDS)
            values = [t.value if t.HasField("value") else None for t in told.token_logprobs]
            self.assertEqual(values, [None] + [of.logprob for of in wanted.prompt_logprobs[1:]])
            self.assertEqual(len(told.top_logprobs), len(LONG_IDS) if n else 0)
            for i, row, of in zip(LONG_IDS, told.top_logprobs, wanted.prompt_logprobs):
                others = [(t.token_id, t.logprob) for t in of.top if t.token_id != i]
                self.assertEqual(list(zip(row.token_ids, row.values)), [(i, of.logprob)] + others if of.top else [])
            self.assertEqual(ids_in(chunks), list(wanted.token_ids))

    def test_log_probabilities_of_a_prompt_come_once_for_all_choices(self):
        for stream in (True, False):
            responses = engine(n=3, prompt_logprobs=2, stream=stream)
            told = [(r.chunk if r.HasField("chunk") else r.complete).HasField("input_logprobs") for r in responses]
            self.assertEqual(told, [True] + [False] * (len(responses) - 1))

    def test_a_constraint_is_that_of_kvferry_v1(self):
        """With a penalty: the demo model repeats blanks, which JSON may have anywhere, without end."""
        schema = json.dumps({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False})
        texts = ["the king of Egypt", "the king of Babylon"]
        choice, choices = vllm_engine_pb2.ChoiceConstraint(choices=texts), sampling_pb2.ConstraintChoices(texts=texts)
        grammar = 'root ::= "so" | "be it"'
        for theirs, ours, fits in (
            ({"json_schema": schema}, {"json_schema": schema}, lambda text: set(json.loads(text)) == {"a"}),
            ({"regex": "[0-9]{4}"}, {"regex": "[0-9]{4}"}, lambda text: len(text) == 4 and text.isdigit()),
            ({"grammar": grammar}, {"grammar": grammar}, lambda text: text in ("so", "be it")),
            ({"choice": choice}, {"choices": choices}, lambda text: text in texts),
        ):
            brief = {"frequency_penalty": 2}
            (wanted,) = v1(constraint=sampling_pb2.Constraint(**ours), max_tokens=200, **brief)
            self.assertTrue(fits(wanted.text), wanted.text)
            self.assertEqual(ids_in(parts(engine(max_tokens=200, **theirs, **brief))[0]), list(wanted.token_ids))
            decoding = {"json": schema} if "json_schema" in theirs else theirs
            if "choice" in theirs:
                decoding = {"choice": inference_pb2.StringChoices(choices=texts)}
            self.assertEqual(told(inference(decoding=decoding | brief, stopping={"max_new_tokens": 200}))[1], wanted.text)
        (wanted,) = v1(constraint=sampling_pb2.Constraint(json_object=True), max_tokens=10)
        self.assertEqual(ids_in(parts(engine(max_tokens=10, json_object=True))[0]), list(wanted.token_ids))

    def test_what_ended_a_reply_is_told(self):
        (wanted,) = v1(max_tokens=40)
        words = wanted.text.split(" ")
        _, complete = parts(engine(stop=["zzz", words[3]], max_tokens=40))
        self.assertEqual((complete.finish_reason, complete.matched_stop_str), ("stop", words[3]))
        chunks, complete = parts(engine(stop_token_ids=[wanted.token_ids[4]]))
        self.assertEqual((complete.finish_reason, complete.matched_token_id), ("stop", wanted.token_ids[4]))
        self.assertEqual(ids_in(chunks)[-1], wanted.token_ids[4])
        bias = vllm_engine_pb2.LogitBias(key=EOS, value=100)
        chunks, complete = parts(engine(logit_bias=[bias]))
        self.assertEqual((ids_in(chunks), complete.matched_token_id, complete.finish_reason), ([EOS], EOS, "stop"))

    def test_a_reply_goes_to_the_end_of_the_context(self):
        ids = (LONG_IDS * 40)[: CONTEXT - 20]
        for limit in ({"max_tokens": 500}, {}):
            request = engine_request(ids, ignore_eos=True)
            request.sampling_params.ClearField("max_tokens")
            if limit:
                request.sampling_params.max_tokens = limit["max_tokens"]
            chunks, complete = parts(list(stubs.engine.Generate(request, timeout=LIMIT_S)))
            self.assertEqual((len(ids_in(chunks)), complete.finish_reason), (20, "length"))

    def test_without_parameters_temperature_is_1_and_n_is_1(self):
        request = vllm_engine_pb2.GenerateRequest(tokenized=vllm_engine_pb2.TokenizedInput(input_ids=LONG_IDS), stream=False)
        (response,) = stubs.engine.Generate(request, timeout=LIMIT_S)
        self.assertIn(response.complete.finish_reason, ("stop", "length"))

    def test_32_at_once(self):
        prompts = [ids_of(f"And it came to pass in the year {i}, " * 3) for i in range(32)]
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            replies = list(pool.map(engine, prompts))
        for prompt, reply in list(zip(prompts, replies))[::8]:
            self.assertEqual(ids_in(parts(reply)[0]), list(v1(prompt)[0].token_ids))

    def test_what_is_not_served_is_refused_by_name(self):
        pb = vllm_engine_pb2
        bad_params = {
            "sampling_params.json_schema: ": {"json_schema": "{"}, "sampling_params.regex: ": {"regex": "("},
            "sampling_params.grammar: ": {"grammar": "?"}, "structural_tag": {"structural_tag": "a"},
            "sampling_params.choice.choices": {"choice": pb.ChoiceConstraint()},
            "prompt_logprobs is 21": {"prompt_logprobs": 21}, "prompt_logprobs is -1": {"prompt_logprobs": -1},
            "truncate_prompt_tokens": {"truncate_prompt_tokens": 5}, "logprobs is 21": {"logprobs": 21},
            "logprobs is -1": {"logprobs": -1}, "sampling_params.max_tokens is 0": {"max_tokens": 0}, "sampling_params.n is 17": {"n": 17},
            "temperature is -1": {"temperature": -1}, "top_p is 2": {"top_p": 2},
            "logit_bias has 1025": {"logit_bias": [pb.LogitBias(key=i, value=1) for i in range(1025)]},
            "sampling_params.logit_bias[0].key": {"logit_bias": [pb.LogitBias(key=-1, value=1)]},
            "sampling_params.logit_bias[0].value is 101": {"logit_bias": [pb.LogitBias(key=1, value=101)]},
        }
        bad_fields = {
            "tokenized": {"text": "In the"}, "mm_inputs": {"mm_inputs": b"\x0a\x00"}, "media_refs": {"media_refs": b"\x0a\x00"},
            "extra_mm_inputs": {"extra_mm_inputs": [b""]}, "kv_transfer_params_json": {"kv_transfer_params_json": "{}"},
            "kv_transfer_params:": {"kv_transfer_params": b"\x10\x01"}, "data_parallel_rank": {"data_parallel_rank": 1},
            "request_id has 513 bytes": {"request_id": "i" * 513},
        }
        for words, params in bad_params.items():
            self.assert_refused(stubs.engine.Generate(engine_request(**params), timeout=LIMIT_S), grpc.StatusCode.INVALID_ARGUMENT, words)
        for words, fields in bad_fields.items():
            request = engine_request()
            request.MergeFrom(pb.GenerateRequest(**fields))
            self.assert_refused(stubs.engine.Generate(request, timeout=LIMIT_S), grpc.StatusCode.INVALID_ARGUMENT, words)
        for ids, words in (([5000], "tokenized.input_ids[0] is 5000"), (LONG_IDS * 60, "tokenized.input_ids has"), (None, "tokenized.input_ids is empty")):
            request = engine_request(ids or LONG_IDS)
            if not ids:
                request.tokenized.ClearField("input_ids")
            self.assert_refused(stubs.engine.Generate(request, timeout=LIMIT_S), grpc.StatusCode.INVALID_ARGUMENT, words)

    def test_fields_that_we_do_not_know_are_ignored(self):
        request = engine_request()
        request.MergeFromString(b"\xf8\x07\x01\xa2\x1f\x03abc")  # fields 127 and 500
        self.assertEqual(len(ids_in(parts(list(stubs.engine.Generate(request, timeout=LIMIT_S)))[0])), 12)


class EngineEnds(Case):
    def begin(self, request_id, **more):
        """A long stream whose first chunk has come."""
        call = stubs.engine.Generate(engine_request(LONG_IDS[:20], request_id, max_tokens=1900, ignore_eos=True, **more), timeout=LIMIT_S)
        self.assertTrue(next(call).chunk.token_ids)
        return call

    def test_an_abort_ends_a_stream_at_once(self):
        for request_id in ("abort-me", "a" * 512, "with \u00e4 and spaces " * 10):
            call = self.begin(request_id, n=2)
            stubs.engine.Abort(vllm_engine_pb2.AbortRequest(request_ids=["nobody", request_id]), timeout=LIMIT_S)
            rest = list(call)
            self.assertEqual([parts(rest, i)[1].finish_reason for i in (0, 1)], ["abort"] * 2)
            self.assertLess(parts(rest)[1].completion_tokens, 1900)
            self.assertEqual(call.code(), grpc.StatusCode.OK)
        self.assert_nothing_owned()

    def test_an_abort_of_no_name_ends_nobody(self):
        call = self.begin("")
        stubs.engine.Abort(vllm_engine_pb2.AbortRequest(request_ids=[""]), timeout=LIMIT_S)
        self.assertTrue(next(call).chunk.token_ids)
        call.cancel()
        self.assert_nothing_owned()

    def test_an_abort_ends_a_plain_call_with_what_it_has(self):
        call = stubs.engine.Generate(
            engine_request(LONG_IDS[:20], "plain", stream=False, max_tokens=1900, ignore_eos=True), timeout=LIMIT_S)
        within(30, "it computes", lambda: owned_blocks(cluster) > 2)
        stubs.engine.Abort(vllm_engine_pb2.AbortRequest(request_ids=["plain"]), timeout=LIMIT_S)
        _, complete = parts(list(call))
        self.assertEqual(complete.finish_reason, "abort")
        self.assertEqual(len(complete.output_ids), complete.completion_tokens)
        self.assert_nothing_owned()

    def test_an_abort_tells_no_part_of_a_prompts_log_probabilities(self):
        """It comes sooner and later: before, while and after the prompt is computed."""
        ids, reasons = (LONG_IDS * 20)[:1900], set()
        for n_looks in (0, 1, 2, 3, 5, 8, 12, 20):
            call = stubs.engine.Generate(engine_request(ids, "scored", stream=False, max_tokens=100, ignore_eos=True, prompt_logprobs=1),
                                         timeout=LIMIT_S)
            for _ in range(n_looks):
                owned_blocks(cluster)
            stubs.engine.Abort(vllm_engine_pb2.AbortRequest(request_ids=["scored"]), timeout=LIMIT_S)
            _, complete = parts(list(call))
            reasons.add(complete.finish_reason)
            n_whole = len(ids) if complete.completion_tokens else 0
            self.assertIn(len(complete.input_logprobs.token_ids), {n_whole, len(ids)})
        self.assertIn("abort", reasons)
        self.assert_nothing_owned()

    def test_an_abort_ends_all_of_that_name_and_no_other(self):
        calls = [self.begin(name) for name in ("twin", "twin", "other")]
        stubs.control.Abort(control_pb2.AbortRequest(request_ids=["twin"]), timeout=LIMIT_S)  # of the other protocol: nobody's
        stubs.engine.Abort(vllm_engine_pb2.AbortRequest(request_ids=["twin", "twin"]), timeout=LIMIT_S)
        for call in calls[:2]:
            self.assertEqual(parts(list(call))[1].finish_reason, "abort")
        self.assertTrue(next(calls[2]).chunk.token_ids)
        calls[2].cancel()
        self.assert_nothing_owned()

    def test_of_a_client_that_leaves_nothing_stays(self):
        for after in (0, 1):
            call = stubs.engine.Generate(engine_request(max_tokens=500, ignore_eos=True, n=2), timeout=LIMIT_S)
            if after:
                next(call)
            call.cancel()
        self.assert_nothing_owned()


class EngineInfo(Case):
    def test_the_model_is_told(self):
        info = stubs.engine.GetModelInfo(vllm_engine_pb2.GetModelInfoRequest(), timeout=LIMIT_S)
        self.assertEqual(pathlib.Path(info.model_path), pathlib.Path(MODEL).resolve())
        self.assertEqual((info.max_context_length, info.vocab_size, info.served_model_name), (CONTEXT, 2048, "acme/demo"))
        self.assertEqual((info.model_type, list(info.architectures), list(info.eos_token_ids)), ("llama", ["LlamaForCausalLM"], [EOS]))
        self.assertTrue(info.is_generation and not info.supports_vision)

    def test_load_is_told(self):
        call = stubs.engine.Generate(engine_request(LONG_IDS[:20], max_tokens=1900, ignore_eos=True), timeout=LIMIT_S)
        next(call)
        (load,) = stubs.engine.GetLoads(vllm_engine_pb2.GetLoadsRequest(include=["core"]), timeout=LIMIT_S).loads
        self.assertEqual((load.num_running_reqs, load.num_waiting_reqs, load.num_total_reqs), (1, 0, 1))
        self.assertGreater(load.max_total_num_tokens, 0)

        def used():
            return stubs.engine.GetLoads(vllm_engine_pb2.GetLoadsRequest(), timeout=LIMIT_S).loads[0].num_used_tokens

        within(10, "its blocks are reported", lambda: used() > 0)
        info = stubs.engine.GetServerInfo(vllm_engine_pb2.GetServerInfoRequest(), timeout=LIMIT_S)
        self.assertEqual((info.active_requests, info.server_type, info.block_size, info.data_parallel_size), (1, "vllm-grpc", 16, 1))
        self.assertLess(abs(info.last_receive_timestamp - time.time()), 60)
        call.cancel()
        within(10, "nothing runs", lambda: used() == 0)

    def test_the_tokenizer_comes_as_a_zip(self):
        chunks = list(stubs.engine.GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=LIMIT_S))
        data = b"".join(chunk.data for chunk in chunks)
        self.assertEqual([bool(chunk.sha256) for chunk in chunks], [False] * (len(chunks) - 1) + [True])
        self.assertEqual(chunks[-1].sha256, hashlib.sha256(data).hexdigest())
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            self.assertIsNone(archive.testzip())
            for name in ("tokenizer.json", "tokenizer_config.json", "config.json"):
                self.assertEqual(archive.read(name), (pathlib.Path(MODEL) / name).read_bytes())
            self.assertIn("chat_template.jinja", archive.namelist())  # the operator's

    def test_health_is_told_in_both_ways(self):
        self.assertTrue(stubs.engine.HealthCheck(vllm_engine_pb2.HealthCheckRequest(), timeout=LIMIT_S).healthy)
        for name in NAMES:
            status = stubs.health.Check(health_pb2.HealthCheckRequest(service=name), timeout=LIMIT_S).status
            self.assertEqual(status, health_pb2.HealthCheckResponse.SERVING, name)
        with self.assertRaises(grpc.RpcError) as raised:
            stubs.health.Check(health_pb2.HealthCheckRequest(service="sglang.grpc.scheduler.SglangScheduler"), timeout=LIMIT_S)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_a_cache_that_cannot_be_flushed_says_so(self):
        answer = stubs.engine.FlushCache(common_pb2.FlushCacheRequest(), timeout=LIMIT_S)
        self.assertFalse(answer.success)
        self.assertIn("cannot", answer.message)

    def test_each_port_has_its_own_services(self):
        def call(channel, path):
            return lambda: channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)(b"", timeout=LIMIT_S)

        for channel, path in ((stubs.channel, "/vllm.grpc.engine.VllmEngine/StartProfile"), (stubs.channel, "/vllm.Control/Shutdown"),
                              (stubs.channel, "/kvferry.v1.GenerationService/Complete"), (stubs.public, "/vllm.Control/GetModelInfo"),
                              (stubs.public, "/vllm.grpc.engine.VllmEngine/HealthCheck")):
            self.assert_refused(call(channel, path), grpc.StatusCode.UNIMPLEMENTED)


class Inference(Case):
    def test_a_stream_has_tokens_and_text_of_kvferry_v1(self):
        (wanted,) = v1()
        responses = inference()
        ids, text, end = told(responses)
        self.assertEqual((ids, text), (list(wanted.token_ids), wanted.text))
        self.assertEqual([r.HasField("prompt_info") for r in responses], [True] + [False] * (len(responses) - 1))
        self.assertEqual(responses[0].prompt_info.num_prompt_tokens, len(LONG_IDS))
        self.assertEqual((end.num_output_tokens, end.finish_reason), (12, inference_pb2.FinishInfo.LENGTH))
        self.assertEqual(sum(r.outputs.num_tokens for r in responses), 12)

    def test_the_one_message_has_all_of_the_stream(self):
        options = {"prompt_token_ids": True, "output_logprobs": True, "output_candidates": inference_pb2.CandidateTokens(top_n=3)}
        one = stubs.inference.Generate(inference_request(response=options), timeout=LIMIT_S)
        stream = inference(response=options)
        ids, text, _ = told(stream)
        self.assertEqual((list(one.outputs.token_ids), one.outputs.text, one.outputs.num_tokens), (ids, text, 12))
        self.assertEqual(list(one.prompt_info.token_ids), LONG_IDS)
        self.assertEqual(list(stream[0].prompt_info.token_ids), LONG_IDS)
        for name in ("logprobs", "ranks", "candidate_tokens"):
            self.assertEqual(list(getattr(one.outputs, name)), [x for r in stream for x in getattr(r.outputs, name)], name)
        for i, logprob, rank, row in zip(ids, one.outputs.logprobs, one.outputs.ranks, one.outputs.candidate_tokens, strict=True):
            self.assertEqual([t.rank for t in row.tokens], [1, 2, 3])
            self.assertEqual((row.tokens[0].id, row.tokens[0].logprob, 1), (i, logprob, rank))  # it is greedy

    def test_log_probabilities_of_the_prompt_are_in_the_first_message(self):
        (wanted,) = v1(prompt_logprobs=3)
        for more in ({"prompt_logprobs": True}, {"prompt_candidates": inference_pb2.CandidateTokens(top_n=3)}):
            one = stubs.inference.Generate(inference_request(response=more), timeout=LIMIT_S).prompt_info
            first, *others = inference(response=more)
            self.assertEqual(first.prompt_info, one)
            self.assertFalse(any(r.HasField("prompt_info") for r in others))
            self.assertEqual((list(one.logprobs), one.ranks[0]), ([of.logprob for of in wanted.prompt_logprobs], 0))
            self.assertEqual(one.logprobs[0], 0)
            rows = [[(t.id, t.logprob, t.rank) for t in row.tokens] for row in one.candidate_tokens]
            if "prompt_logprobs" in more:
                self.assertEqual(rows, [])
                continue
            self.assertEqual(rows, [[(t.token_id, t.logprob, i + 1) for i, t in enumerate(of.top)] for of in wanted.prompt_logprobs])
            for i, rank, row in zip(LONG_IDS, one.ranks, rows):
                self.assertEqual(rank, next((r for token, _, r in row if token == i), 0))

    def test_text_is_tokenized_as_by_kvferry_v1(self):
        for text in (LONG, "caf\u00e9 \U0001f642 and \u5149: "):
            ids, said, _ = told(inference(text, response={"prompt_token_ids": True}))
            (wanted,) = v1(ids_of(text))
            self.assertEqual((ids, said), (list(wanted.token_ids), wanted.text))

    def test_text_has_whole_characters(self):
        """Hot sampling draws bytes of characters in tokens of their own: each message is valid, and together they are the text."""
        hot = {"seed": 11, "num_sequences": 2}
        responses = inference(sampling=hot, temperature=50, stopping={"max_new_tokens": 200, "ignore_eos": True})
        wanted = v1(n=2, seed=11, temperature=50, max_tokens=200, ignore_eos=True)
        for i in (0, 1):
            self.assertEqual(told(responses, i)[1], wanted[i].text)
        self.assertTrue(any(r.outputs.num_tokens and not r.outputs.text for r in responses), "no character came in parts")

    def test_only_what_is_asked_for_is_told(self):
        responses = inference(response={"output_text": False, "output_token_ids": False})
        ids, text, end = told(responses)
        self.assertEqual((ids, text, end.num_output_tokens), ([], "", 12))

    def test_without_max_new_tokens_20_are_generated(self):
        ids, _, _ = told(inference(stopping={"max_new_tokens": 0, "ignore_eos": True}))
        self.assertEqual(len(ids), 20)

    def test_a_stop_string_is_cut_and_told(self):
        (wanted,) = v1(max_tokens=40)
        word = wanted.text.split(" ")[3]
        before = wanted.text[: wanted.text.index(word)]
        for keep in (False, True):
            _, text, end = told(inference(stopping={"stop_strings": [word], "include_stop_strings": keep, "max_new_tokens": 40}))
            self.assertEqual((text, end.stop_string), (before + word if keep else before, word))
            self.assertEqual(end.finish_reason, inference_pb2.FinishInfo.STOP)

    def test_what_ended_a_reply_is_told(self):
        (wanted,) = v1()
        bias = [inference_pb2.LogitBias(key=EOS, value=100)]
        self.assertEqual(told(inference(stopping={"stop_token_ids": [wanted.token_ids[3]]}))[2].stop_token_id, wanted.token_ids[3])
        self.assertEqual(told(inference(decoding={"logit_bias": bias}, stopping={"stop_token_ids": [EOS]}))[2].eos_token_id, EOS)
        ignored = told(inference(decoding={"logit_bias": bias}, stopping={"stop_token_ids": [EOS], "ignore_eos": True}))[2]
        self.assertEqual(ignored.stop_token_id, EOS)

    def test_choices_and_parameters_are_those_of_kvferry_v1(self):
        responses = inference(sampling={"num_sequences": 2, "seed": 9, "top_k": 40, "top_p": 0.95}, temperature=0.9,
                              decoding={"presence_penalty": 0.5, "repetition_penalty": 1.1})
        wanted = v1(n=2, seed=9, top_k=40, top_p=0.95, temperature=0.9, presence_penalty=0.5, repetition_penalty=1.1)
        for i in (0, 1):
            self.assertEqual(told(responses, i)[:2], (list(wanted[i].token_ids), wanted[i].text))

    def test_a_bypassed_cache_finds_nothing(self):
        prompt = ids_of("And the children of Israel did evil, " * 20)
        inference(prompt)
        self.assertGreater(told(inference(prompt))[2].num_cached_tokens, 0)
        self.assertEqual(told(inference(prompt, kv={"bypass_prefix_cache": True}))[2].num_cached_tokens, 0)

    def test_any_priority_and_model_is_taken(self):
        for priority in (-2**31, -7, 7, 2**31 - 1):
            self.assertEqual(len(told(inference(priority=priority, model="whatever"))[0]), 12)

    def test_what_is_not_served_is_refused_by_name(self):
        pb = inference_pb2
        ids = pb.TokenIds(ids=[1])
        bad = {
            "decoding.json: ": {"decoding": {"json": "{"}}, "decoding.regex: ": {"decoding": {"regex": "("}},
            "decoding.grammar: ": {"decoding": {"grammar": "?"}}, "temperature is -1": {"temperature": -1},
            "decoding.choice.choices": {"decoding": {"choice": pb.StringChoices()}}, "decoding.structural_tag": {"decoding": {"structural_tag": "a"}},
            "bad_words_token_ids": {"decoding": {"bad_words_token_ids": [ids]}},
            "response.prompt_candidates.top_n is 21": {"response": {"prompt_candidates": pb.CandidateTokens(top_n=21)}},
            "response.prompt_candidates: ": {"response": {"prompt_candidates": pb.CandidateTokens(all=True)}},
            "output_candidates": {"response": {"output_candidates": pb.CandidateTokens(token_ids=ids)}},
            "top_n is 21": {"response": {"output_candidates": pb.CandidateTokens(top_n=21)}},
            "kv_transfer_params": {"kv": {"kv_transfer_params": b"\x0a\x00"}}, "ec_transfer_params": {"kv": {"ec_transfer_params": b"\x0a\x00"}},
            "truncate_prompt_tokens": {"truncate_prompt_tokens": 1}, "media": {"media": [b""]},
            "watermarking": {"watermarking": True}, "thinking_token_budget": {"stopping": {"thinking_token_budget": 1}},
            "kv.cache_salt": {"kv": {"cache_salt": "s" * 129}}, "request_id has 513": {"request_id": "i" * 513},
            "sampling.num_sequences is 17": {"sampling": {"num_sequences": 17}},
        }
        bad |= {
            "stopping.min_new_tokens": {"stopping": {"min_new_tokens": 10**6}},
            "stopping.stop_strings[0] is": {"stopping": {"stop_strings": [""]}},
            "stopping.stop_token_ids[0] is": {"stopping": {"stop_token_ids": [5000]}},
            "decoding.presence_penalty is 3": {"decoding": {"presence_penalty": 3}},
            "decoding.allowed_token_ids[0] is": {"decoding": {"allowed_token_ids": [5000]}},
            "token_ids.ids[0] is 5000": {"prompt": [5000]},
        }
        for words, fields in bad.items():
            request = inference_request(**fields)
            self.assert_refused(stubs.inference.GenerateStream(request, timeout=LIMIT_S), grpc.StatusCode.INVALID_ARGUMENT, words)
        adapted = inference_request(lora_name="a")
        self.assert_refused(stubs.inference.GenerateStream(adapted, timeout=LIMIT_S), grpc.StatusCode.NOT_FOUND, '"a" is not served here')
        two = inference_request(sampling={"num_sequences": 2})
        self.assert_refused(lambda: stubs.inference.Generate(two, timeout=LIMIT_S), grpc.StatusCode.INVALID_ARGUMENT, "num_sequences is 2")
        self.assert_refused(stubs.inference.GenerateStream(pb.GenerateRequest(), timeout=LIMIT_S), grpc.StatusCode.INVALID_ARGUMENT, "prompt")

    def test_an_abort_ends_both_kinds_of_call(self):
        long = {"max_new_tokens": 1900, "ignore_eos": True}
        pair_id = "cmpl___prefill_addr_10.0.0.1:50051___decode_addr_10.0.0.2:50051_" + "f" * 100
        call = stubs.inference.GenerateStream(inference_request(LONG_IDS[:20], pair_id, stopping=long), timeout=LIMIT_S)
        whole = stubs.inference.Generate.future(inference_request(LONG_IDS[:20], pair_id, stopping=long), timeout=LIMIT_S)
        next(call)
        within(30, "both run", lambda: stubs.engine.GetServerInfo(vllm_engine_pb2.GetServerInfoRequest()).active_requests == 2)
        stubs.control.Abort(control_pb2.AbortRequest(request_ids=[pair_id]), timeout=LIMIT_S)
        self.assertEqual(told(list(call))[2].finish_reason, inference_pb2.FinishInfo.ABORTED)
        self.assertEqual(whole.result().outputs.finish_info.finish_reason, inference_pb2.FinishInfo.ABORTED)
        self.assert_nothing_owned()

    def test_engine_and_model_are_told(self):
        server = stubs.control.GetServerInfo(control_pb2.GetServerInfoRequest(), timeout=LIMIT_S)
        model = stubs.control.GetModelInfo(control_pb2.GetModelInfoRequest(), timeout=LIMIT_S)
        self.assertEqual((server.api_version, server.parallelism.data_parallel_size, server.parallelism.data_parallel_rank), ("vllm", 1, 0))
        self.assertEqual((server.max_model_len, server.kv_block_size), (CONTEXT, 16))
        self.assertGreater(server.total_kv_blocks, 0)
        self.assertEqual((pathlib.Path(model.model_id), model.served_model_name), (pathlib.Path(MODEL).resolve(), "acme/demo"))
        self.assertTrue(model.supports_token_ids_input and model.supports_text_input)
        stubs.control.GetKvEventSources(control_pb2.GetKvEventSourcesRequest(), timeout=LIMIT_S)


class Full(Case):
    """A router that has room for two requests, one of which may wait, and for 4 KiB that a client has not read."""

    def setUp(self):
        self.cluster = start("--requests-max", "2", "--wait-max", "1", "--stream-buffer-bytes-max", "4K")
        self.stubs = Stubs(self.cluster)

    def tearDown(self):
        self.stubs.close()
        stop_cluster(self.cluster)

    def test_full_is_resource_exhausted_before_the_first_message(self):
        long = {"max_tokens": 1900, "ignore_eos": True}
        calls = [self.stubs.engine.Generate(engine_request(LONG_IDS, **long), timeout=LIMIT_S) for _ in range(2)]
        for call in calls:
            next(call)
        self.assert_refused(self.stubs.engine.Generate(engine_request(), timeout=LIMIT_S), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assert_refused(self.stubs.inference.GenerateStream(inference_request(), timeout=LIMIT_S), grpc.StatusCode.RESOURCE_EXHAUSTED)
        for call in calls:
            call.cancel()

    def test_a_tokenizer_is_sent_as_it_is_read(self):
        inference(of=self.stubs)  # some KV must cross
        call = self.stubs.engine.GetTokenizer(common_pb2.GetTokenizerRequest(), timeout=LIMIT_S)
        chunks = [next(call)]
        self.assertFalse(chunks[0].sha256, "it has several pieces")
        chunks += call
        self.assertEqual(chunks[-1].sha256, hashlib.sha256(b"".join(chunk.data for chunk in chunks)).hexdigest())


class Kept(Case):
    """Plain calls, whose choices come at once when they end, on a router where 4 KiB of a stream may wait."""

    def test_choices_may_be_longer_than_that(self):
        own = start("--stream-buffer-bytes-max", "4K")
        stubs = Stubs(own)
        try:
            request = engine_request(LONG_IDS, stream=False, n=8, max_tokens=100, ignore_eos=True, logprobs=20)
            replies = list(stubs.engine.Generate(request, timeout=LIMIT_S))
            self.assertEqual([len(parts(replies, i)[1].output_ids) for i in range(8)], [100] * 8)
        finally:
            stubs.close()
            stop_cluster(own)


class Busy(Case):
    """Workers with room for one request."""

    def test_a_busy_worker_is_waited_for(self):
        own = start("--wait-limit-ms", "60s", role_arguments=lambda role: ["--sequences-max", "1", "--queue-max", "1"] if role == "gen-worker" else [])
        of = Stubs(own)
        try:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for reply in pool.map(lambda i: inference(LONG_IDS[: 60 + i], of=of), range(8)):
                    self.assertEqual(len(told(reply)[0]), 12)
        finally:
            of.close()
            stop_cluster(own)


class Drain(Case):
    def test_a_drain_says_so_and_lets_streams_end(self):
        own = start("--drain-delay-ms", "3s")
        of = Stubs(own)
        call = of.engine.Generate(engine_request(LONG_IDS, max_tokens=300, ignore_eos=True), timeout=LIMIT_S)
        next(call)
        own.router.child.send_signal(signal.SIGTERM)
        within(3, "it says so", lambda: not of.engine.HealthCheck(vllm_engine_pb2.HealthCheckRequest(), timeout=LIMIT_S).healthy)
        for name in NAMES:
            status = of.health.Check(health_pb2.HealthCheckRequest(service=name), timeout=LIMIT_S).status
            self.assertEqual(status, health_pb2.HealthCheckResponse.NOT_SERVING, name)
        self.assertEqual(parts(list(call))[1].completion_tokens, 300)
        of.close()
        stop_cluster(own)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
