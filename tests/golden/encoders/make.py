#!/usr/bin/env python3
"""Makes tiny random models with an encoder, and what Transformers computes from them.

    python -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python make.py            # writes the folders beside this file
    v/bin/python make.py NAME ...   # only these
    v/bin/python make.py --check    # makes them again, and fails with a line for each file that differs

A folder holds config.json, perhaps generation_config.json, the weights, and

    golden.json    versions; sizes of the arrays below; for each pair the ids of the source and those of the decoder; the ids of
                   GREEDY_STEPS steps of generate for the first two sources; the error of INT8 for the second pair
    golden.f32     float32 little-endian, pair by pair:
                       cross   [layer][K, V][head][n_source][d]  of the decoder
                       logits  [n_decoder][vocabulary]           of every token of the decoder

Weights come from numpy's Philox, keyed by model and tensor name. Transformers reads the very folder, computes in float32 on one
thread with eager attention and without a cache.
"""
import hashlib
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import committed  # noqa: E402

VOCABULARY = 96
PAIRS = ((9, 21), (70, 33), (1, 5))  # tokens of the source, tokens of the decoder
GREEDY_STEPS = 40
TORCH_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
DTYPE_NAMES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}

# Sizes that are all different; distances that leave the last bucket; an epsilon that shows.
T5 = {"d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 3, "vocab_size": VOCABULARY,
      "relative_attention_num_buckets": 12, "relative_attention_max_distance": 24, "layer_norm_epsilon": 1e-2,
      "dropout_rate": 0.1, "initializer_factor": 1.0, "is_encoder_decoder": True, "use_cache": True, "pad_token_id": 0,
      "eos_token_id": 1, "decoder_start_token_id": 0, "n_positions": 512}
# As GGUF files have them: rows that are whole blocks, and distances that no key says.
FAR = {**T5, "d_ff": 64, "num_heads": 4, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
BART = {"d_model": 32, "encoder_layers": 3, "decoder_layers": 2, "encoder_ffn_dim": 40, "decoder_ffn_dim": 56,
        "encoder_attention_heads": 4, "decoder_attention_heads": 2, "vocab_size": VOCABULARY, "max_position_embeddings": 80,
        "activation_function": "gelu", "is_encoder_decoder": True, "use_cache": True, "dropout": 0.1, "attention_dropout": 0.0,
        "activation_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "init_std": 0.02, "pad_token_id": 1,
        "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}

# name: class, model_type, dtype of the weights, keys, generation_config.json or None
MODELS = {
    "t5_v1_0": ("T5ForConditionalGeneration", "t5", "F32", {**T5, "feed_forward_proj": "relu"}, None),
    "t5_v1_1": ("T5ForConditionalGeneration", "t5", "BF16",
                {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
                {"decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}),
    "mt5": ("MT5ForConditionalGeneration", "mt5", "F16",
            {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": None,
             "decoder_start_token_id": None}, None),
    "umt5": ("UMT5ForConditionalGeneration", "umt5", "F32", {**T5, "feed_forward_proj": "gated-silu"}, None),
    "t5_far": ("T5ForConditionalGeneration", "t5", "F16", {**FAR, "feed_forward_proj": "relu"}, None),
    "t5_far_gated": ("T5ForConditionalGeneration", "t5", "BF16",
                     {**FAR, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, None),
    "umt5_far": ("UMT5ForConditionalGeneration", "umt5", "F16", {**FAR, "feed_forward_proj": "gated-gelu"}, None),
    "bart": ("BartForConditionalGeneration", "bart", "F32",
             {**BART, "scale_embedding": False, "forced_bos_token_id": 50, "forced_eos_token_id": 51}, None),
    "bart_scaled": ("BartForConditionalGeneration", "bart", "BF16",
                    {**BART, "scale_embedding": True, "activation_function": "relu", "normalize_before": False,
                     "forced_bos_token_id": 44, "forced_eos_token_id": 45},
                    {"decoder_start_token_id": 7, "bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1,
                     "forced_bos_token_id": 5, "forced_eos_token_id": 3}),
    "mbart": ("MBartForConditionalGeneration", "mbart", "F32",
              {**BART, "scale_embedding": True, "decoder_start_token_id": None, "bos_token_id": 6}, None),
}
# Their files have a head of their own.
UNTIED = ("t5_v1_1", "t5_far_gated", "mt5", "bart")
# Numbers with which greedy tokens vary.
SEEDS = {"t5_v1_0": "22", "t5_far": "27", "umt5": "27", "bart": "2", "bart_scaled": "33", "mbart": "19", "mt5": "6"}
# Files that name the embedding otherwise, or more than once.
OTHER_EMBEDDINGS = {"t5_v1_1": ("decoder.embed_tokens.weight", "encoder.embed_tokens.weight")}
# Files that have no zeros for a bias of the logits.
NO_LOGITS_BIAS = ("mbart",)


def generator(*key):
    digest = hashlib.sha256("/".join(key).encode()).digest()
    return np.random.Generator(np.random.Philox(int.from_bytes(digest[:8], "little")))


def random_tensor(model, name, shape, dtype):
    numbers = generator(model, name, SEEDS.get(model, "0")).standard_normal(shape)
    if len(shape) == 1 and name.endswith(".weight"):  # of a norm
        numbers = 1 + 0.2 * numbers
    elif name.endswith("relative_attention_bias.weight"):
        numbers = 2 * numbers
    elif name.endswith((".bias", "_bias")):
        numbers = 0.3 * numbers
    elif name.endswith("shared.weight"):
        numbers = 0.08 * numbers
    elif name.endswith("embed_positions.weight"):
        numbers = 0.8 * numbers
    elif name.endswith(("Attention.q.weight", "Attention.k.weight")):  # scores of T5 are not scaled
        numbers = numbers * 1.0 / np.sqrt(shape[-1])
    else:
        numbers = numbers * 1.2 / np.sqrt(shape[-1])
    return torch.from_numpy(numbers.astype(np.float32)).to(TORCH_DTYPES[dtype]).contiguous()


def write_json(folder, file_name, value):
    with open(os.path.join(folder, file_name), "w") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.write("\n")


def write_weights(folder, name, architecture, dtype):
    config = transformers.AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = getattr(transformers, architecture)(config)
    shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()
              if not key.endswith("embed_tokens.weight") and (key != "lm_head.weight" or name in UNTIED)}
    tensors = {key: random_tensor(name, key, shape, dtype) for key, shape in sorted(shapes.items())}
    if name in OTHER_EMBEDDINGS:
        shared = tensors.pop("shared.weight")
        for key in OTHER_EMBEDDINGS[name]:
            tensors[key] = shared.clone()
    if name in NO_LOGITS_BIAS:
        del tensors["final_logits_bias"]
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    return tensors


def model_of(folder, name, architecture, tensors):
    """Files that name the embedding otherwise are read as if they said shared.weight."""
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        if name in OTHER_EMBEDDINGS:
            first, *more = OTHER_EMBEDDINGS[name]
            usual = {key: value for key, value in tensors.items() if key not in more and key != first}
            usual["shared.weight"] = tensors[first]
            save_file(usual, os.path.join(copy, "model.safetensors"), metadata={"format": "pt"})
        model, info = getattr(transformers, architecture).from_pretrained(
            copy, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for key in ("unexpected_keys", "mismatched_keys"):
        assert not info[key], (folder, key, info[key])
    assert set(info["missing_keys"]) <= {"final_logits_bias"}, info["missing_keys"]
    if name in UNTIED:
        assert torch.equal(model.lm_head.weight, tensors["lm_head.weight"].float()), name
    return model.eval()


def cross_layers(model):
    """The K and V matrices of each decoder layer's attention to the encoder, and its heads."""
    if hasattr(model, "model"):
        return [(layer.encoder_attn.k_proj, layer.encoder_attn.v_proj, layer.encoder_attn.num_heads)
                for layer in model.model.decoder.layers]
    return [(block.layer[1].EncDecAttention.k, block.layer[1].EncDecAttention.v, block.layer[1].EncDecAttention.n_heads)
            for block in model.decoder.block]


def cross_of(model, rows):
    parts = []
    for k, v, n_heads in cross_layers(model):
        for matrix in (k, v):
            parts.append(matrix(rows).reshape(len(rows), n_heads, -1).transpose(0, 1))
    return torch.stack(parts)


def rounded(x):
    """To INT8, a scale for each row."""
    scales = x.abs().amax(-1, keepdim=True) / 127
    return (x / scales.masked_fill(scales == 0, 1)).round() * scales


def int8_error(model, pair, logits):
    """How far logits go if all matrices and what they multiply are rounded. The model is rounded then."""
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.weight = torch.nn.Parameter(rounded(module.weight.data))
            module.register_forward_pre_hook(lambda _, arguments: (rounded(arguments[0]),))
    ids = torch.tensor([pair["source"]])
    found = model(input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=torch.tensor([pair["decoder"]]),
                  use_cache=False)
    return float((found.logits[0] - logits).abs().max())


def make(root, name):
    architecture, model_type, dtype, keys, generation = MODELS[name]
    folder = os.path.join(root, name)
    os.makedirs(folder)
    config = {"architectures": [architecture], "model_type": model_type, "torch_dtype": DTYPE_NAMES[dtype], **keys}
    write_json(folder, "config.json", {key: value for key, value in config.items() if value is not None})
    if generation:
        write_json(folder, "generation_config.json", generation)
    tensors = write_weights(folder, name, architecture, dtype)
    model = model_of(folder, name, architecture, tensors)
    start = model.generation_config.decoder_start_token_id
    start = model.config.decoder_start_token_id if start is None else start
    start = model.generation_config.bos_token_id if start is None else start
    pairs, greedy, arrays = [], [], []
    with torch.no_grad():
        for n_source, n_decoder in PAIRS:
            random = generator(name, "pair", str(n_source))
            source = random.integers(0, VOCABULARY, n_source).tolist()
            decoder = [start] + random.integers(0, VOCABULARY, n_decoder - 1).tolist()
            ids = torch.tensor([source])
            mask = torch.ones_like(ids)
            out = model(input_ids=ids, attention_mask=mask, decoder_input_ids=torch.tensor([decoder]), use_cache=False)
            rows = out.encoder_last_hidden_state[0]
            arrays += [cross_of(model, rows), out.logits[0]]
            pairs.append({"source": source, "decoder": decoder})
            if len(greedy) < 2:
                made = model.generate(ids, attention_mask=mask, num_beams=1, do_sample=False, use_cache=False,
                                      decoder_start_token_id=start,
                                      max_new_tokens=GREEDY_STEPS, eos_token_id=VOCABULARY)[0].tolist()
                assert made[0] == start and len(made) == GREEDY_STEPS + 1, made
                greedy.append(made[1:])
        error = int8_error(model, pairs[1], arrays[3])
    np.concatenate([array.numpy().astype("<f4").reshape(-1) for array in arrays]).tofile(os.path.join(folder, "golden.f32"))
    layers = cross_layers(model)
    write_json(folder, "golden.json", {
        "transformers": transformers.__version__, "torch": torch.__version__.split("+")[0], "numpy": np.__version__,
        "vocabulary": VOCABULARY, "layers": len(layers), "heads": layers[0][2],
        "head_dim": layers[0][0].out_features // layers[0][2], "start": start, "int8_error": error, "pairs": pairs, "greedy": greedy})
    largest = max(float(array.abs().max()) for array in arrays[1::2])
    print(f"{name:12} {os.path.getsize(os.path.join(folder, 'model.safetensors')):7} bytes of weights, largest logit {largest:.2f}, "
          f"{len(set(greedy[0]))} and {len(set(greedy[1]))} different greedy tokens")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return committed.run(HERE, list(MODELS), make, ("vocabulary", "start", "pairs", "greedy"))


if __name__ == "__main__":
    sys.exit(main())
