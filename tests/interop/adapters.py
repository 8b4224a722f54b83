"""Adapters through every door of a real router: OpenAI's port, kvferry.v1, and vllm.Inference give the same tokens, name what they
computed with, list what there is, and refuse what there is not.

    adapters.py KVFERRY_BINARY MODEL_FOLDER

At the end KV must have crossed, no block may be owned, and every process must exit with 0.
"""

import json
import pathlib
import sys
import unittest
import urllib.error
import urllib.parse
import urllib.request

import grpc
from kvferry.v1 import generation_pb2, generation_pb2_grpc, model_pb2, model_pb2_grpc, sampling_pb2
from openai_case import LIMIT_S, LONG, NAME, start_cluster, stop_cluster, url_of
from vllm import inference_pb2, inference_pb2_grpc

ADAPTERS = pathlib.Path(__file__).parents[1] / "golden" / "adapters"
FOLDERS = {"acme/law": ADAPTERS / "demo", "b": ADAPTERS / "demo_other"}  # a slash must survive a path
N_TOKENS = 12


def setUpModule():
    global cluster, v1, models, inference
    given = [word for name, folder in FOLDERS.items() for word in ("--adapter", f"{name}={folder}")]
    cluster = start_cluster("--engine-address", "127.0.0.1:0", role_arguments=lambda role: [] if role == "router" else given)
    public, engine = (grpc.insecure_channel(cluster.router.ports[port]) for port in ("grpc", "engine"))
    v1 = generation_pb2_grpc.GenerationServiceStub(public)
    models = model_pb2_grpc.ModelServiceStub(public)
    inference = inference_pb2_grpc.InferenceStub(engine)


def tearDownModule():
    stop_cluster(cluster)


def http(path, body=None):
    """The status, and the JSON or the events' JSON."""
    request = urllib.request.Request(url_of(cluster) + path, json.dumps(body).encode() if body else None, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
            text, code = reply.read().decode(), reply.status
    except urllib.error.HTTPError as error:
        text, code = error.read().decode(), error.code
    if text.startswith("data: "):
        return code, [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    return code, json.loads(text)


def completed(model, **more):
    code, reply = http("/completions", {"model": model, "prompt": LONG, "max_tokens": N_TOKENS, "temperature": 0} | more)
    assert code == 200, reply
    return reply


def ids_of(model, **sampling):
    params = sampling_pb2.SamplingParams(**({"temperature": 0, "max_tokens": N_TOKENS} | sampling))
    return v1.Complete(generation_pb2.CompleteRequest(text=LONG.encode(), model=model, sampling=params), timeout=LIMIT_S)


class Doors(unittest.TestCase):
    def assert_code(self, code, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def test_all_doors_have_the_same_tokens(self):
        texts = {}
        for name in (NAME, *FOLDERS):
            whole = completed(name)
            events = completed(name, stream=True)
            self.assertEqual(whole["model"], name)
            self.assertEqual({event["model"] for event in events}, {name})
            texts[name] = whole["choices"][0]["text"]
            self.assertEqual("".join(choice["text"] for event in events for choice in event["choices"]), texts[name])
            mine = ids_of(name)
            self.assertEqual(mine.text, texts[name])
            request = inference_pb2.GenerateRequest(
                text=LONG.encode(), lora_name="" if name == NAME else name, temperature=0,
                stopping=inference_pb2.StoppingCriteria(max_new_tokens=N_TOKENS), response=inference_pb2.ResponseOptions(output_token_ids=True))
            theirs = [i for message in inference.GenerateStream(request, timeout=LIMIT_S) for i in message.outputs.token_ids]
            self.assertEqual(theirs, list(mine.token_ids))
        self.assertEqual(len(set(texts.values())), 3, "each has its own reply")
        self.assertEqual(completed("")["model"], NAME)
        self.assertEqual(completed("")["choices"][0]["text"], texts[NAME])

    def test_choices_and_beams_have_the_adapter_each(self):
        for name in FOLDERS:
            code, chat = http("/chat/completions", {"model": name, "messages": [{"role": "user", "content": LONG}], "max_tokens": N_TOKENS, "n": 3,
                                                    "temperature": 0})
            self.assertEqual((code, chat["model"]), (200, name))
            self.assertEqual(len({choice["message"]["content"] for choice in chat["choices"]}), 1, "greedy ones are the same")
            drawn = ids_of(name, n=3)
            greedy = list(ids_of(name).token_ids)
            for reply in (drawn, *drawn.more_choices):
                self.assertEqual(list(reply.token_ids), greedy)
            searched, again = (ids_of(name, beam_width=3, n=2) for _ in range(2))
            self.assertEqual(len(searched.more_choices), 1)
            self.assertEqual(searched.token_ids, again.token_ids)
            self.assertNotEqual(searched.token_ids, ids_of(NAME, beam_width=3, n=2).token_ids)

    def test_they_are_listed_beside_their_model(self):
        code, listed = http("/models")
        self.assertEqual([(m["id"], m.get("parent")) for m in listed["data"]], [(NAME, None), *((name, NAME) for name in FOLDERS)])
        for entry in listed["data"]:
            for path in (entry["id"], urllib.parse.quote(entry["id"], safe="")):
                self.assertEqual(http("/models/" + path), (200, entry))
        cards = models.ListModels(model_pb2.ListModelsRequest(), timeout=LIMIT_S).models
        self.assertEqual([(card.name, card.base_model) for card in cards], [(NAME, ""), *((name, NAME) for name in FOLDERS)])
        self.assertEqual([adapter.name for adapter in cards[0].adapters], list(FOLDERS))
        for card in cards:
            self.assertEqual(models.GetModel(model_pb2.GetModelRequest(name=card.name), timeout=LIMIT_S).model, card)
            self.assertEqual(card.context_tokens, cards[0].context_tokens)
        self.assertEqual([card.adapters[0] for card in cards[1:]], list(cards[0].adapters))

    def test_text_is_the_models_whatever_the_adapter(self):
        ids = [list(v1.Tokenize(generation_pb2.TokenizeRequest(text=LONG, model=name), timeout=LIMIT_S).token_ids) for name in ("", NAME, *FOLDERS)]
        self.assertTrue(all(each == ids[0] for each in ids))

    def test_what_is_not_there_is_refused_by_name(self):
        for name in ("c", "acme/LAW", "acme", "law", "b ", "a" * 65, "=", "acme/law/b"):
            for path, prompt in (("/completions", {"prompt": "x"}), ("/chat/completions", {"messages": [{"role": "user", "content": "x"}]})):
                code, reply = http(path, prompt | {"model": name, "max_tokens": 1})
                self.assertEqual((code, reply["error"]["code"], reply["error"]["param"]), (404, "model_not_found", "model"), reply)
                self.assertIn("is not served here", reply["error"]["message"])
            self.assertEqual(http("/models/" + urllib.parse.quote(name, safe=""))[0], 404, name)
            sentence = self.assert_code(grpc.StatusCode.NOT_FOUND, lambda: ids_of(name))
            self.assertIn("ListModels", sentence)
            self.assert_code(grpc.StatusCode.NOT_FOUND, lambda: models.GetModel(model_pb2.GetModelRequest(name=name), timeout=LIMIT_S))
            self.assert_code(grpc.StatusCode.NOT_FOUND,
                             lambda: v1.Tokenize(generation_pb2.TokenizeRequest(text="x", model=name), timeout=LIMIT_S))
            request = inference_pb2.GenerateRequest(text=b"x", lora_name=name)
            self.assertIn("lora_name", self.assert_code(grpc.StatusCode.NOT_FOUND, lambda: list(inference.GenerateStream(request, timeout=LIMIT_S))))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
