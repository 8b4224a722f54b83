"""The demo model as a GGUF file, written here, gives through a whole cluster the text that its folder gives.

    gguf_test.py KVFERRY MODEL_FOLDER
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster

BINARY, MODEL = sys.argv[1:3]
U32, F32, TEXT, ARRAY, I32 = 4, 6, 8, 9, 5
TYPES = {"F32": 0, "F16": 1, "BF16": 30}
NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}
LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
PROMPTS = ("In the beginning", "And the king said unto", "The words of " * 40)


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def key(name, kind, value):
    forms = {U32: lambda v: struct.pack("<I", v), F32: lambda v: struct.pack("<f", v), TEXT: text}
    return text(name) + struct.pack("<I", kind) + forms[kind](value)


def array(name, kind, values):
    raw = b"".join(text(v) if kind == TEXT else struct.pack("<i", v) for v in values)
    return text(name) + struct.pack("<IIQ", ARRAY, kind, len(values)) + raw


def tokenizer_keys(folder):
    root = json.loads((folder / "tokenizer.json").read_text())
    added = {token["id"]: token["content"] for token in root["added_tokens"]}
    by_id = {index: token for token, index in root["model"]["vocab"].items()} | added
    tokens = [by_id[i] for i in range(len(by_id))]
    return [key("tokenizer.ggml.model", TEXT, "gpt2"), key("tokenizer.ggml.pre", TEXT, "llama-bpe"),
            array("tokenizer.ggml.tokens", TEXT, tokens),
            array("tokenizer.ggml.token_type", I32, [3 if i in added else 1 for i in range(len(tokens))]),
            array("tokenizer.ggml.merges", TEXT, [" ".join(merge) for merge in root["model"]["merges"]]),
            key("tokenizer.ggml.bos_token_id", U32, tokens.index("<|begin_of_text|>")),
            key("tokenizer.ggml.eos_token_id", U32, tokens.index("<|end_of_text|>"))]


def model_keys(config):
    return [key("general.architecture", TEXT, "llama"), key("llama.context_length", U32, config["max_position_embeddings"]),
            key("llama.embedding_length", U32, config["hidden_size"]),
            key("llama.block_count", U32, config["num_hidden_layers"]),
            key("llama.feed_forward_length", U32, config["intermediate_size"]),
            key("llama.attention.head_count", U32, config["num_attention_heads"]),
            key("llama.attention.head_count_kv", U32, config["num_key_value_heads"]),
            key("llama.attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"]),
            key("llama.rope.freq_base", F32, config.get("rope_theta", 10000.0))]


def permute(data, n_rows, n_heads):
    """Rows of halves become neighbours, head by head."""
    size, half = len(data) // n_rows, n_rows // n_heads // 2
    rows = [data[i * size:(i + 1) * size] for i in range(n_rows)]
    order = [head * 2 * half + side * half + i for head in range(n_heads) for i in range(half) for side in range(2)]
    return b"".join(rows[i] for i in order)


def tensors(folder, config):
    data = (folder / "model.safetensors").read_bytes()
    n = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8:8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[8 + n + begin:8 + n + end]
        heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
        for part, n_heads in heads.items():
            if part in name:
                raw = permute(raw, entry["shape"][0], n_heads)
        if name not in NAMES:
            _, _, layer, rest = name.split(".", 3)
            name = f"blk.{layer}.{LAYER[rest.rsplit('.', 1)[0]]}.weight"
        yield NAMES.get(name, name), entry["shape"][::-1], TYPES[entry["dtype"]], raw


def write(folder, path):
    config = json.loads((folder / "config.json").read_text())
    keys = model_keys(config) + tokenizer_keys(folder)
    heads, body = [], b""
    for name, dims, kind, raw in tensors(folder, config):
        heads.append(text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(body)))
        body += raw + b"\0" * (-len(raw) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(heads), len(keys)) + b"".join(keys) + b"".join(heads)
    path.write_bytes(head + b"\0" * (-len(head) % 32) + body)


def texts(model):
    cluster = Cluster(BINARY, model, True)
    try:
        return [subprocess.run([BINARY, "generate", "--server", cluster.router.ports["grpc"], "--max-tokens", "24",
                                "--temperature", "0", prompt], capture_output=True, text=True, timeout=120, check=True).stdout
                for prompt in PROMPTS]
    finally:
        cluster.stop()


class Gguf(unittest.TestCase):
    def test_a_cluster_gives_the_folders_text(self):
        with tempfile.TemporaryDirectory() as work:
            path = pathlib.Path(work, "demo.gguf")
            write(pathlib.Path(MODEL), path)
            self.assertEqual(texts(str(path)), texts(MODEL))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
