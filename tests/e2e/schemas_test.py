"""Replies under generated JSON schemas, of running workers with models of random weights: each that is complete meets its schema, and
one computed in one process and decoded in another, among many at once, is that of a single process alone.

    schemas_test.py KVFERRY_BINARY REPOSITORY N_SCHEMAS

The models are made here, one for each tokenizer of TOKENIZERS. The pool of the pair's generation worker holds less than what runs at once
may come to, so that some are paused.
"""

import concurrent.futures
import json
import pathlib
import random
import struct
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

BINARY, REPOSITORY, N_SCHEMAS = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
sys.path[:0] = [str(REPOSITORY / "tests/roles"), str(REPOSITORY / "tests/text/peers")]
from cluster import Cluster  # noqa: E402
from constraint_schemas import no_constant, own, schema_of  # noqa: E402

TOKENIZERS = ["model/demo"] + [f"tests/golden/tokenizer/{name}" for name in ("gpt2", "llama2", "gemma", "tekken", "qwen2", "mistral")]
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, LAYERS, CONTEXT = 64, 4, 2, 32, 128, 2, 512
BLOCK_TOKENS, PROMPT_TOKENS, REPLY_TOKENS, AT_ONCE = 16, 70, 160, 16
COMPANY_TOKENS = 300  # of replies without a schema, which run beside the others and grow longer
POOL_BLOCKS = 80
LIMIT_S = 180
HIGH = bytes((0x3C, 0x3D, 0x3E, 0xBC, 0xBD, 0xBE, 0x3D, 0xBD)[i % 8] for i in range(256))


def small_pool(role):
    small = ["--kv-blocks", str(POOL_BLOCKS), "--capacity-policy", "max-utilization", "--capacity-headroom-blocks", "1"]
    return small if role == "gen-worker" else []


def bf16(r, n):
    """n numbers of either sign, from 2^-7 to 2^-1."""
    both = bytearray(2 * n)
    both[0::2], both[1::2] = r.randbytes(n), r.randbytes(n).translate(HIGH)
    return bytes(both)


def shapes(vocabulary):
    yield "model.embed_tokens.weight", (vocabulary, HIDDEN)
    for i in range(LAYERS):
        for name, shape in (("input_layernorm", (HIDDEN,)), ("self_attn.q_proj", (HEADS * HEAD_DIM, HIDDEN)),
                            ("self_attn.k_proj", (KV_HEADS * HEAD_DIM, HIDDEN)), ("self_attn.v_proj", (KV_HEADS * HEAD_DIM, HIDDEN)),
                            ("self_attn.o_proj", (HIDDEN, HEADS * HEAD_DIM)), ("post_attention_layernorm", (HIDDEN,)),
                            ("mlp.gate_proj", (FFN, HIDDEN)), ("mlp.up_proj", (FFN, HIDDEN)), ("mlp.down_proj", (HIDDEN, FFN))):
            yield f"model.layers.{i}.{name}.weight", shape
    yield "model.norm.weight", (HIDDEN,)


def make_model(folder, tokenizer, seed):
    """The number of the tokenizer's ids."""
    text = (REPOSITORY / tokenizer / "tokenizer.json").read_text(encoding="utf-8")
    table = json.loads(text)
    vocab = table["model"]["vocab"]
    ids = list(vocab.values() if isinstance(vocab, dict) else range(len(vocab))) + [t["id"] for t in table["added_tokens"]]
    n_ids = max(ids) + 1
    ends = [t["id"] for t in table["added_tokens"] if t["content"] in ("</s>", "<|endoftext|>", "<eos>", "<|end_of_text|>")]
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": FFN,
              "vocab_size": n_ids + 1, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "hidden_act": "silu", "tie_word_embeddings": True, "eos_token_id": ends[0] if ends else n_ids, "torch_dtype": "bfloat16"}
    r, header, weights = random.Random(seed), {}, bytearray()
    for name, shape in shapes(n_ids + 1):
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": (len(weights), len(weights) + 2 * n)}
        weights += bf16(r, n) if len(shape) > 1 else b"\x80\x3f" * n
    head = json.dumps(header).encode()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(text, encoding="utf-8")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + weights)
    return n_ids


def ask(cluster, seed, n_ids, has_schema=True):
    """(status, the reply's choice or the error)."""
    r = random.Random(seed)
    body = {"prompt": [r.randrange(n_ids) for _ in range(PROMPT_TOKENS)], "temperature": 1, "seed": seed, "return_token_ids": True}
    body |= {"max_tokens": REPLY_TOKENS, "guided_json": schema_of(seed)} if has_schema else {"max_tokens": COMPANY_TOKENS, "ignore_eos": True}
    request = urllib.request.Request(f"http://{cluster.router.ports['http']}/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=LIMIT_S) as reply:
            return reply.status, json.load(reply)["choices"][0]
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class Schemas(unittest.TestCase):
    n_complete = n_paused = 0

    def check(self, seed, status, choice):
        self.assertEqual(status, 200, choice)
        if choice["finish_reason"] == "length":
            return
        self.assertEqual(choice["finish_reason"], "stop")
        value = json.loads(choice["text"], parse_constant=no_constant)
        self.assertTrue(own(schema_of(seed), value), f"{choice['text']!r} does not meet {json.dumps(schema_of(seed))}")
        Schemas.n_complete += 1

    def replies(self, folder, seeds, n_ids, is_split):
        """Of a pair all at once, of a single process one after the other."""
        more = ("--kv-block-tokens", str(BLOCK_TOKENS))
        cluster = Cluster(BINARY, str(folder), is_split, *more, router_arguments=more, role_arguments=small_pool if is_split else lambda _: [],
                          local_prefill_max_tokens=8 if is_split else CONTEXT)
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE if is_split else 1) as crowd:
            company = [crowd.submit(ask, cluster, -1 - i, n_ids, False) for i in range(AT_ONCE // 2 if is_split else 0)]
            found = list(crowd.map(lambda seed: ask(cluster, seed, n_ids), seeds))
        self.assertEqual([one.result()[0] for one in company], [200] * len(company))
        if is_split:
            self.assertGreater(cluster.generation.metric("kvferry_kv_transfer_bytes_total"), 0, "no KV has crossed")
            Schemas.n_paused += cluster.generation.metric("kvferry_decode_pauses_total")
        cluster.stop()
        return found

    def test_replies_meet_their_schemas_and_are_those_of_a_single_process(self):
        for k, tokenizer in enumerate(TOKENIZERS):
            seeds = list(range(k, N_SCHEMAS, len(TOKENIZERS)))
            with tempfile.TemporaryDirectory() as folder:
                n_ids = make_model(pathlib.Path(folder), tokenizer, k)
                pair = self.replies(folder, seeds, n_ids, True)
                single = self.replies(folder, seeds, n_ids, False)
            for seed, (status, choice), one in zip(seeds, pair, single, strict=True):
                with self.subTest(tokenizer=tokenizer, seed=seed):
                    self.check(seed, status, choice)
                    self.assertEqual((status, choice), one, "a pair and a single process")
        print(f"{N_SCHEMAS} schemas, {Schemas.n_complete} replies complete, {Schemas.n_paused:.0f} pauses")
        self.assertGreater(Schemas.n_complete, N_SCHEMAS // 2)
        self.assertGreater(Schemas.n_paused, 0, "no request was paused")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
