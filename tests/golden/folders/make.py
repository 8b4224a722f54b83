#!/usr/bin/env python3
"""Edits tiny models as published folders differ, and writes what Transformers computes from each.

    v/bin/python make.py            # writes cases.json beside this file; v as for ../models (requirements.txt there)
    v/bin/python make.py --check    # compares instead: 1e-5 of a logit

cases.json: {"prompt": [ids], "cases": [case, ...]}; a case is a copy of ../models/BASE after

    "write": {name: text}    "delete": [name]    "folders": [name]    "link": {name: target}
    "strip": prefix          what the names of tensors that begin with it lose
    "shards": n              model.safetensors as n files and an index
    "hub": true              the folder becomes CACHE/snapshots/0123abcd of links to ../../blobs/N

and what is expected of it is either

    "logits": [...], "eos": [...]   of the last position, and the ids that end a text, from Transformers;
                                    "of": "unedited" where Transformers 5 refuses the spelling, 4 or nobody minds it
    "refused": "part of the sentence"
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "models")
PROMPT = np.random.Generator(np.random.Philox(17)).integers(0, 96, 40).tolist()
NO_LIMIT = 1000000000000000019884624838656

LLAMA, LLAMA3, LINEAR, YARN = "llama_t4", "llama_t4_llama3", "llama_t4_linear", "llama_t5_yarn"
BARE, MISTRAL, QWEN2, LAYERS, QWEN3 = ("llama_t4_bare", "mistral_t4_window", "qwen2_t4_window", "qwen2_t5_layer_types",
                                       "qwen3_t4")

V4_GENERATION = {
    "max_length": 20, "min_length": 0, "do_sample": False, "early_stopping": False, "num_beams": 1, "num_beam_groups": 1,
    "diversity_penalty": 0.0, "temperature": 1.0, "top_k": 50, "top_p": 1.0, "typical_p": 1.0, "repetition_penalty": 1.0,
    "length_penalty": 1.0, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "bad_words_ids": None,
    "num_return_sequences": 1, "chunk_size_feed_forward": 0, "output_scores": False, "return_dict_in_generate": False,
    "forced_bos_token_id": None, "forced_eos_token_id": None, "remove_invalid_values": False,
    "exponential_decay_length_penalty": None, "suppress_tokens": None, "begin_suppress_tokens": None,
    "torchscript": False, "pruned_heads": {}, "is_decoder": False, "cross_attention_hidden_size": None,
    "add_cross_attention": False, "tie_encoder_decoder": False, "finetuning_task": None, "task_specific_params": None,
    "problem_type": None, "tokenizer_class": None, "prefix": None, "sep_token_id": None, "decoder_start_token_id": None,
    "is_encoder_decoder": False, "tf_legacy_loss": False, "use_bfloat16": False}


def case(base, name, config=None, without=(), text=None, **rest):
    """config: keys set in config.json, without: keys that go; text: the whole new text."""
    return {"base": base, "name": name, "config": config or {}, "without": without, "text": text, **rest}


CASES = [
    # ---- spellings, old and new ----
    case(LLAMA, "dtype instead of torch_dtype", {"dtype": "bfloat16"}, ["torch_dtype"]),
    case(LLAMA, "torch_dtype and dtype", {"dtype": "bfloat16"}),
    case(LLAMA, "no dtype at all", {}, ["torch_dtype"]),
    case(LLAMA, "dtype null", {"dtype": None}, ["torch_dtype"]),
    case(LLAMA, "rope_theta as an integer", {"rope_theta": 10000}),
    case(LLAMA, "rope_theta is not said", {}, ["rope_theta", "rope_scaling"]),
    case(LLAMA, "rope_parameters of version 5", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}},
         ["rope_theta", "rope_scaling"]),
    case(LLAMA, "rope_parameters with rope_theta beside it",
         {"rope_parameters": {"rope_type": "default"}, "rope_theta": 700.0}, ["rope_scaling"]),
    case(LLAMA, "rope_scaling empty", {"rope_scaling": {}}),
    case(LLAMA, "rope_scaling default", {"rope_scaling": {"rope_type": "default"}}),
    case(LLAMA, "linear as type", {"rope_scaling": {"type": "linear", "factor": 2.0}}),
    case(LLAMA, "linear as rope_type", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}),
    case(LLAMA, "linear as both", {"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2.0}}),
    case(LLAMA, "linear with an integer", {"rope_scaling": {"type": "linear", "factor": 4}}),
    case(LLAMA, "dynamic as type", {"rope_scaling": {"type": "dynamic", "factor": 2.0}}),
    case(LLAMA, "yarn as type",
         {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}),
    case(LLAMA, "llama3 in rope_parameters",
         {"rope_parameters": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                              "high_freq_factor": 4.0, "original_max_position_embeddings": 32}},
         ["rope_theta", "rope_scaling"]),
    case(LLAMA3, "llama3 with integers",
         {"rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                           "original_max_position_embeddings": 32}}),
    case(LLAMA, "yarn with max_position_embeddings left at the original",
         {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}}),
    case(LLAMA, "rope_scaling beside the same in rope_parameters",
         {"rope_scaling": {"type": "linear", "factor": 2},
          "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}),
    case(LLAMA, "rope_scaling empty beside rope_parameters",
         {"rope_scaling": {}, "rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}, ["rope_theta"]),
    case(LLAMA, "rope_scaling beside another in rope_parameters",
         {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "linear", "factor": 4.0}},
         refused="rope_scaling and rope_parameters differ in factor"),
    case(LLAMA, "rope_theta in rope_parameters, which rope_scaling hides",
         {"rope_scaling": {"type": "linear", "factor": 2.0},
          "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}}, ["rope_theta"],
         refused="rope_parameters has rope_theta 500"),
    case(LLAMA, "su, LongRoPE's first name", {"rope_scaling": {"type": "su", "factor": 2.0}},
         refused='rope_type "su" is not supported'),
    case(LLAMA, "longrope", {"rope_scaling": {"type": "longrope", "factor": 2.0, "short_factor": [1.0] * 4,
                                              "long_factor": [2.0] * 4}}),
    case(LLAMA, "longrope of another head", {"rope_scaling": {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}},
         refused="rope_scaling.short_factor is not a list of 4 numbers"),
    case(LLAMA, "LLaMAForCausalLM", {"architectures": ["LLaMAForCausalLM"]}),
    case(LLAMA, "architectures null", {"architectures": None}),
    case(LLAMA, "no architectures", {}, ["architectures"]),
    case(LLAMA, "no model_type", {}, ["model_type"], of="unedited"),
    case(LLAMA, "two architectures", {"architectures": ["MyLlama", "LlamaForCausalLM"]}),
    case(LLAMA, "architectures with a number", {"architectures": [1]}, refused="architectures is not a list of strings"),
    case(LLAMA, "another task's class", {"architectures": ["LlamaForSequenceClassification"]},
         refused="LlamaForSequenceClassification"),
    case(BARE, "num_key_value_heads null", {"num_key_value_heads": None}),
    case(LLAMA, "head_dim null", {"head_dim": None}),
    case(LLAMA, "head_dim said", {"head_dim": 8}),
    case(QWEN3, "head_dim is not said", {}, ["head_dim"], refused="tensor model.layers.0.self_attn.q_proj.weight"),
    case(LLAMA, "max_position_embeddings is not said", {}, ["max_position_embeddings"]),
    case(BARE, "rms_norm_eps is not said", {}, ["rms_norm_eps"]),
    case(MISTRAL, "sliding_window null", {"sliding_window": None}),
    case(MISTRAL, "sliding_window is not said", {}, ["sliding_window"]),
    case(QWEN2, "use_sliding_window false", {"use_sliding_window": False}),
    case(LAYERS, "no layer_types, max_window_layers has the word", {"max_window_layers": 1}, ["layer_types"]),
    case(LAYERS, "layer_types all full", {"layer_types": ["full_attention"] * 3}),
    case(LLAMA, "layer_types of Llama", {"layer_types": ["full_attention"] * 2}),
    case(LLAMA, "sliding_window of Llama", {"sliding_window": 8}),
    case(LLAMA3, "tie_word_embeddings is not said", {}, ["tie_word_embeddings"]),
    case(LLAMA3, "tied, but the head is there", {"tie_word_embeddings": True}),
    # ---- ends of text ----
    case(LLAMA, "eos_token_id is a list", {"eos_token_id": [2, 5, 7]}),
    case(LLAMA, "eos_token_id is a list of 40", {"eos_token_id": list(range(2, 42))}),
    case(LLAMA, "eos_token_id is not said", {}, ["eos_token_id"]),
    case(LLAMA, "eos_token_id null", {"eos_token_id": None}),
    case(LLAMA, "eos_token_id in generation_config.json alone", {"eos_token_id": None},
         write={"generation_config.json": '{"eos_token_id": [3, 4], "_from_model_config": true}'}),
    case(QWEN2, "eos_token_id is not said, Qwen2", {}, ["eos_token_id"]),
    case(LLAMA, "eos_token_id -1", {"eos_token_id": -1}, refused="config.json: eos_token_id"),
    case(LLAMA, "bos_token_id beyond the vocabulary", {"bos_token_id": 128000, "pad_token_id": -1}),
    # ---- absurd numbers ----
    case(LLAMA, "hidden_size 32.0", {"hidden_size": 32.0, "vocab_size": 96.0}, of="unedited"),
    case(LLAMA, "hidden_size 32.5", {"hidden_size": 32.5}, refused="hidden_size is 32.5"),
    case(LLAMA, "max_position_embeddings without limit", {"max_position_embeddings": NO_LIMIT},
         refused="max_position_embeddings is 1e+30"),
    case(LLAMA, "num_hidden_layers a string", {"num_hidden_layers": "2"}, refused="num_hidden_layers is a string"),
    case(LLAMA, "num_hidden_layers missing", {}, ["num_hidden_layers"], refused="num_hidden_layers is missing"),
    case(LLAMA, "rms_norm_eps a string", {"rms_norm_eps": "1e-5"}, refused="rms_norm_eps is a string"),
    case(LLAMA, "model_max_length as it is written by default",
         write={"tokenizer_config.json": '{"model_max_length": %d}' % NO_LIMIT}),
    case(LLAMA, "max_length without limit",
         write={"generation_config.json": '{"max_length": %d, "eos_token_id": 2}' % NO_LIMIT}),
    case(LLAMA, "total_size without limit", shards=2, total_size=NO_LIMIT),
    case(LLAMA, "infinity as version 5 writes it", {"time_step_limit": {"__float__": "Infinity"}}),
    case(LLAMA, "NaN where nobody looks", {"classifier_dropout": float("nan"), "limits": [float("inf"), -float("inf")]}),
    case(LLAMA, "NaN", {"rms_norm_eps": float("nan")}, refused="rms_norm_eps is NaN or Infinity"),
    case(LLAMA, "the same key twice", text='{"vocab_size": 96, "vocab_size": 96}', refused='near \'"vocab_size"\''),
    case(LLAMA, "a byte order mark", text='\ufeff{"vocab_size": 96}', refused="byte order mark"),
    case(LLAMA, "vocab_size is another", {"vocab_size": 128}, refused="model.embed_tokens.weight has shape [96, 32]"),
    # ---- keys that ask for something ----
    case(LLAMA, "keys that nobody knows", {"foo": {"a": [1, 2]}, "neftune": 5, "": 0}),
    case(LLAMA, "all that version 4 could write", dict(V4_GENERATION)),
    case(LLAMA, "pretraining_tp", {"pretraining_tp": 2}),
    case(LLAMA, "code of its own beside a known type", {"auto_map": {"AutoModelForCausalLM": "modeling_x.X"}},
         write={"modeling_x.py": "raise SystemExit"}),
    case(LLAMA, "attention as it was run", {"_attn_implementation": "flash_attention_2"}, of="unedited"),
    case(LLAMA, "flags null", {"attention_bias": None, "mlp_bias": None, "use_cache": None}, of="unedited"),
    case(LLAMA, "other tasks' labels", {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}}),
    case(LLAMA, "quantization_config null", {"quantization_config": None}),
    case(LLAMA, "quantization_config", {"quantization_config": {"quant_method": "gptq", "bits": 4}},
         refused="no matrix of the files is quantized"),
    case(LLAMA, "MLX's quantization", {"quantization": {"group_size": 64, "bits": 4}}, refused="MLX wrote it"),
    case(LLAMA, "experts", {"num_local_experts": 8}, refused="num_local_experts is 8"),
    case(LLAMA, "half of a head is rotated", {"partial_rotary_factor": 0.5}, refused="partial_rotary_factor is 0.5"),
    case(LLAMA, "all of a head is rotated", {"partial_rotary_factor": 1.0}),
    case(LLAMA, "another activation", {"hidden_act": "gelu"}),
    case(LLAMA, "an activation of other models", {"hidden_act": "quick_gelu"}, refused='hidden_act "quick_gelu"'),
    case(LLAMA, "silu by its other name", {"hidden_act": "swish"}),
    case(LLAMA, "beams in config.json", {"num_beams": 4, "early_stopping": True}),
    case(LLAMA, "beams in config.json, which has no say", {"num_beams": 4},
         write={"generation_config.json": '{"eos_token_id": 2}'}),
    case(LLAMA, "generation_config.json of a chat model",
         write={"generation_config.json": json.dumps({
             "bos_token_id": 1, "do_sample": True, "eos_token_id": [2, 9], "pad_token_id": 0, "temperature": 0.6,
             "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05, "max_new_tokens": 2048,
             "transformers_version": "4.40.1"})}),
    case(LLAMA, "beams", write={"generation_config.json": '{"num_beams": 2, "eos_token_id": 2}'}),
    case(LLAMA, "beams without a number", {"num_beams": "many"}, refused="config.json: num_beams is a string"),
    case(LLAMA, "tokens that may not come", write={"generation_config.json": '{"eos_token_id": 2, "suppress_tokens": [5, 6]}'}),
    case(LLAMA, "tokens that may not come first", write={"generation_config.json": '{"begin_suppress_tokens": [5, 6]}'},
         refused="generation_config.json: begin_suppress_tokens is [5,6]"),
    case(LLAMA, "strings that end a text", write={"generation_config.json": '{"stop_strings": ["<|im_end|>"]}'},
         refused="generation_config.json: stop_strings"),
    case(LLAMA, "no n-gram twice",
         write={"generation_config.json": '{"no_repeat_ngram_size": 3, "min_new_tokens": 5, "eos_token_id": 2}'}),
    case(LLAMA, "other filters",
         write={"generation_config.json": '{"typical_p": 0.9, "epsilon_cutoff": 0.0003, "eta_cutoff": 0.002, "eos_token_id": 2}'}),
    case(LLAMA, "another way to draw", write={"generation_config.json": '{"top_h": 0.4}'},
         refused="generation_config.json: top_h is 0.4"),
    case(LLAMA, "a cache that rounds",
         write={"generation_config.json": '{"cache_implementation": "quantized", "eos_token_id": 2}'},
         refused='cache_implementation is "quantized"'),
    case(LLAMA, "a cache that does not",
         write={"generation_config.json": '{"cache_implementation": "static", "eos_token_id": 2}'}),
    # ---- files ----
    case(LLAMA, "tensors without the prefix", strip="model."),
    case(LLAMA, "files that are for others",
         write={"README.md": "---\nlicense: mit\n---\n# Tiny\n", ".gitattributes": "*.bin filter=lfs\n",
                "USE_POLICY.md": "no", "pytorch_model.bin.index.json": '{"weight_map": {"a": "pytorch_model.bin"}}',
                "special_tokens_map.json": '{"bos_token": "<s>"}', "added_tokens.json": '{"<x>": 95}',
                "original/params.json": '{"dim": 32}', "onnx/model.onnx": "x"}, folders=["original", "onnx"]),
    case(LLAMA, "an index beside the one file",
         write={"model.safetensors.index.json": '{"metadata": {}, "weight_map": {"a": "no.safetensors"}}'}),
    case(LLAMA, "five shards", shards=5),
    case(LLAMA, "shards without an index", shards=2, delete=["model.safetensors.index.json"],
         refused="neither model.safetensors nor model.safetensors.index.json"),
    case(LLAMA3, "a shard is missing", delete=["model-00002-of-00003.safetensors"],
         refused="model-00002-of-00003.safetensors"),
    case(LLAMA, "Mistral's own file beside it", write={"consolidated.safetensors": "x", "params.json": "{}"}),
    case(LLAMA, "pickled weights alone", delete=["model.safetensors"], write={"pytorch_model.bin": "x"},
         refused="pytorch_model.bin"),
    case(LLAMA, "an adapter alone", delete=["model.safetensors", "config.json"],
         write={"adapter_config.json": '{"peft_type": "LORA"}', "adapter_model.safetensors": "x"},
         refused="it is an adapter (PEFT), no model"),
    case(LLAMA, "GGUF in a folder", delete=["model.safetensors", "config.json"], write={"model-q4.gguf": "GGUF"},
         refused="has no config.json; it has a GGUF file"),
    case(LLAMA, "GGUF beside config.json", delete=["model.safetensors"], write={"model-q4.gguf": "GGUF"},
         refused="it has a GGUF file"),
    case(LLAMA, "Mistral's own files alone", delete=["model.safetensors", "config.json"],
         write={"consolidated.safetensors": "x", "params.json": "{}"}, refused="the makers' own files"),
    case(LLAMA, "no config.json", delete=["config.json"], refused="config.json"),
    case(LLAMA, "a snapshot in the hub's cache", hub=True),
    case(LLAMA3, "a sharded snapshot in the hub's cache", hub=True),
    case(LLAMA, "a link out of the folder", delete=["config.json"], link={"config.json": "/etc/hostname"},
         refused="config.json is a link out of the model's folder"),
]


def config_text(row):
    if row["text"] is not None:
        return row["text"]
    with open(os.path.join(MODELS, row["base"], "config.json")) as file:
        config = json.load(file)
    for key in row["without"]:
        del config[key]
    config.update(row["config"])
    return json.dumps(config)


def prepared(row):
    """The case as it stands in cases.json, but for what is expected."""
    write = dict(row.get("write", {}))
    if row["text"] is not None or row["config"] or row["without"]:
        write["config.json"] = config_text(row)
    out = {"name": row["name"], "base": row["base"], "write": write}
    out.update({key: row[key] for key in ("delete", "folders", "link", "strip", "shards", "hub", "of", "refused") if key in row})
    if "total_size" in row:
        index = shard_index(row["base"], row["shards"])
        index["metadata"] = {"total_size": row["total_size"]}
        write["model.safetensors.index.json"] = json.dumps(index)
    return out


def shard_names(base, n):
    tensors = load_file(os.path.join(MODELS, base, "model.safetensors"))
    names = sorted(tensors)
    return tensors, [(f"model-{i + 1:05d}-of-{n:05d}.safetensors", names[::-1][i::n]) for i in range(n)]


def shard_index(base, n):
    return {"metadata": {}, "weight_map": {name: file for file, names in shard_names(base, n)[1] for name in names}}


def strip_tensors(folder, prefix):
    path = os.path.join(folder, "model.safetensors")
    tensors = load_file(path)
    save_file({name.removeprefix(prefix): tensor for name, tensor in tensors.items()}, path, metadata={"format": "pt"})


def cut_into_shards(folder, base, n):
    tensors, files = shard_names(base, n)
    for file, names in files:
        save_file({name: tensors[name] for name in names}, os.path.join(folder, file), metadata={"format": "pt"})
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump(shard_index(base, n), file)
    os.remove(os.path.join(folder, "model.safetensors"))


def into_hub(cache, folder):
    snapshot = os.path.join(cache, "snapshots", "0123abcd")
    os.makedirs(snapshot)
    os.makedirs(os.path.join(cache, "blobs"))
    for i, name in enumerate(sorted(os.listdir(folder))):
        os.rename(os.path.join(folder, name), os.path.join(cache, "blobs", str(i)))
        os.symlink(f"../../blobs/{i}", os.path.join(snapshot, name))
    return snapshot


def build(root, edits):
    folder = os.path.join(root, "model")
    shutil.copytree(os.path.join(MODELS, edits["base"]), folder, ignore=shutil.ignore_patterns("golden*"))
    if "strip" in edits:
        strip_tensors(folder, edits["strip"])
    if "shards" in edits:
        cut_into_shards(folder, edits["base"], edits["shards"])
    for name in edits.get("delete", []):
        os.remove(os.path.join(folder, name))
    for name in edits.get("folders", []):
        os.mkdir(os.path.join(folder, name))
    for name, text in edits["write"].items():
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    for name, target in edits.get("link", {}).items():
        os.symlink(target, os.path.join(folder, name))
    return into_hub(os.path.join(root, "cache"), folder) if edits.get("hub") else folder


def result_of(folder):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[key], (folder, key, info[key])
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT])).logits[0, -1].numpy()
    eos = model.generation_config.eos_token_id
    return {"logits": [round(float(x), 6) for x in logits],
            "eos": sorted(eos) if isinstance(eos, list) else [] if eos is None else [eos]}


def expectation(edits):
    """Adds what Transformers makes of it; a case that is refused here may well load there."""
    if "refused" in edits:
        return
    with tempfile.TemporaryDirectory() as root:
        unedited = {"base": edits["base"], "write": {}}
        edits.update(result_of(build(root, unedited if edits.get("of") else edits)))


def make():
    names = [row["name"] for row in CASES]
    assert len(set(names)) == len(names)
    cases = []
    for row in CASES:
        edits = prepared(row)
        try:
            expectation(edits)
        except Exception as error:
            sys.exit(f"{row['name']}: {type(error).__name__}: {str(error)[:300]}")
        cases.append(edits)
    return {"transformers": transformers.__version__, "prompt": PROMPT, "cases": cases}


def differences(made, committed):
    for ours, theirs in zip(made["cases"], committed["cases"]):
        rest = [{k: v for k, v in side.items() if k != "logits"} for side in (ours, theirs)]
        logits = [np.array(side.get("logits", [])) for side in (ours, theirs)]
        if rest[0] != rest[1] or logits[0].shape != logits[1].shape or np.abs(logits[0] - logits[1]).max(initial=0) > 1e-5:
            yield ours["name"]


def check(path):
    made = make()
    with open(path) as file:
        committed = json.load(file)
    found = list(differences(made, committed))
    if len(made["cases"]) != len(committed["cases"]):
        found.append("not as many cases")
    for name in found:
        print(f"differs: {name}", file=sys.stderr)
    return 1 if found else 0


def write(path):
    made = make()
    with open(path, "w") as file:
        file.write('{"transformers": %s, "prompt": %s, "cases": [\n' % (json.dumps(made["transformers"]),
                                                                       json.dumps(made["prompt"])))
        file.write(",\n".join(json.dumps(row, ensure_ascii=True) for row in made["cases"]))
        file.write("\n]}\n")
    loads = sum("refused" not in row for row in made["cases"])
    print(f"{len(made['cases'])} folders, {loads} load, {os.path.getsize(path)} bytes")
    return 0


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    path = os.path.join(HERE, "cases.json")
    return check(path) if "--check" in sys.argv else write(path)


if __name__ == "__main__":
    sys.exit(main())
