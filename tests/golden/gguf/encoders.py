#!/usr/bin/env python3
"""GGUF files of models with an encoder, laid out as the converter of llama.cpp does it, by the names that the gguf package gives to
tensors of Transformers.

    pip install -r requirements.txt && python encoders.py      writes beside itself

t5_far, t5_far_gated, umt5_far   the weights of ../encoders with that name: the same logits and replies
t5_blocks                        t5_far_gated, its matrices in blocks of five types; t5_blocks.f32: logits of Transformers for their values, of
                                 the second pair of ../encoders/t5_far_gated
t5_tokens, t5_byte_tokens        vocabularies of models of SentencePiece that are trained here, without tensors: Unigram with a
                                 charsmap and tokens that fill up behind; and ../tokenizer/spm_unigram. t5_tokens.json: ids of strings
"""
import io
import json
import os
import re
import tempfile

import numpy as np
import sentencepiece
import torch
import transformers
from gguf import GGMLQuantizationType as Type
from gguf import MODEL_ARCH, GGUFWriter, TokenType, get_tensor_name_map
from gguf.quants import dequantize, quantize
from safetensors import safe_open
from safetensors.torch import save_file
from sentencepiece import sentencepiece_model_pb2

from make import HERE, STRINGS, TOKENIZERS, add_tensor, finish

ENCODERS = HERE.parent / "encoders"
FILES = ("t5_far", "t5_far_gated", "umt5_far")
KINDS = {"attn_q": Type.Q8_0, "attn_k": Type.Q5_1, "attn_v": Type.Q5_0, "attn_o": Type.Q8_0, "ffn_gate": Type.Q4_1, "ffn_up": Type.Q8_0,
         "ffn_down": Type.Q5_0, "token_embd": Type.Q8_0, "output": Type.Q4_0}
FILLED = 110  # unused tokens behind those of a model
CORPUS = ["The quick brown fox jumps over the lazy dog.", "In the beginning God created the heaven and the earth.",
          "Größe und Maß, naïveté, caf\u00e9.", "ﬁne ﬂour, Ⅳ ½ ①, full-width ＡＢＣ", "太初有道 道與神同在", "В начале было Слово",
          "It's 1984, isn't it? 3.14159", "Hello, world! hello world"]


def config_of(name):
    return json.loads((ENCODERS / name / "config.json").read_text())


def tensors_of(name):
    with safe_open(ENCODERS / name / "model.safetensors", "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}


def write_keys(writer, config):
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["d_model"])
    writer.add_feed_forward_length(config["d_ff"])
    writer.add_block_count(config["num_layers"])
    writer.add_decoder_block_count(config["num_decoder_layers"])
    writer.add_head_count(config["num_heads"])
    writer.add_key_length(config["d_kv"])
    writer.add_value_length(config["d_kv"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_relative_attn_buckets_count(config["relative_attention_num_buckets"])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    writer.add_decoder_start_token_id(config["decoder_start_token_id"])


def write_tokens(writer, pieces, eos=1, unk=2, **ids):
    """pieces: (text, score, type)"""
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text for text, _, _ in pieces])
    writer.add_token_scores([score for _, score, _ in pieces])
    writer.add_token_types([kind for _, _, kind in pieces])
    writer.add_eos_token_id(eos)
    writer.add_unk_token_id(unk)
    for key, value in ids.items():
        getattr(writer, f"add_{key}")(value)


def write_numbered(writer, n):
    pieces = [("<pad>", 0.0, TokenType.CONTROL), ("</s>", 0.0, TokenType.CONTROL), ("<unk>", 0.0, TokenType.UNKNOWN)]
    write_tokens(writer, pieces + [(f"\u2581t{i}", -float(i), TokenType.NORMAL) for i in range(3, n)], pad_token_id=0)
    writer.add_add_space_prefix(True)
    writer.add_remove_extra_whitespaces(True)


def begin(name, config):
    writer = GGUFWriter(HERE / f"{name}.gguf", "t5")
    write_keys(writer, config)
    write_numbered(writer, config["vocab_size"])
    names = get_tensor_name_map(MODEL_ARCH.T5, max(config["num_layers"], config["num_decoder_layers"]))
    return writer, lambda key: names.get_name(key, try_suffixes=(".weight",))


def write_model(name):
    writer, name_of = begin(name, config_of(name))
    for key, tensor in tensors_of(name).items():
        add_tensor(writer, name_of(key), tensor.float() if "relative_attention_bias" in key else tensor)
    finish(writer)


def logits_of(config, tensors, pair):
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        with torch.no_grad():
            return model(input_ids=torch.tensor([pair["source"]]), decoder_input_ids=torch.tensor([pair["decoder"]])).logits[0].numpy()


def write_blocks():
    source = "t5_far_gated"
    config = config_of(source)
    writer, name_of = begin("t5_blocks", config)
    wide = {}
    for key, tensor in tensors_of(source).items():
        name = name_of(key)
        kind = KINDS.get(re.sub(r"^(enc|dec)\.blk\.\d+\.(cross_)?|\.weight$", "", name))
        if not kind:
            add_tensor(writer, name, tensor.float())
            wide[key] = tensor.float()
            continue
        blocks = quantize(tensor.float().numpy(), kind)
        writer.add_tensor(name, blocks, raw_dtype=kind)
        wide[key] = torch.from_numpy(np.ascontiguousarray(dequantize(blocks, kind).reshape(tensor.shape)))
    finish(writer)
    pair = json.loads((ENCODERS / source / "golden.json").read_text())["pairs"][1]
    logits = logits_of({**config, "torch_dtype": "float32"}, wide, pair)
    print("t5_blocks: largest logit", np.abs(logits).max())
    logits.astype("<f4").tofile(HERE / "t5_blocks.f32")


def type_of(model, i):
    if model.is_unknown(i):
        return TokenType.UNKNOWN
    if model.is_control(i):
        return TokenType.CONTROL
    return TokenType.BYTE if model.is_byte(i) else TokenType.UNUSED if model.is_unused(i) else TokenType.NORMAL


def write_pieces(name, serialized, n_unused, is_umt5=False, **ids):
    """As the converter does it. Returns the ids that SentencePiece gives, with what ends a text."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(serialized)
    model = sentencepiece.SentencePieceProcessor(model_proto=serialized)
    pieces = [(model.id_to_piece(i), model.get_score(i), type_of(model, i)) for i in range(len(model))]
    pieces += [(f"[PAD{i}]", -10000.0, TokenType.UNUSED) for i in range(len(pieces), len(pieces) + n_unused)]
    writer = GGUFWriter(HERE / f"{name}.gguf", "t5")
    write_tokens(writer, pieces, **ids)
    writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    if proto.normalizer_spec.precompiled_charsmap:
        writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    if is_umt5:  # it shows by this alone
        writer.add_tensor("enc.blk.1.attn_rel_b.weight", np.zeros((1, 32), np.float32))
    finish(writer)
    return model


def trained():
    """Unigram with T5's ids of special tokens."""
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules.tsv")
        with open(rules, "w", encoding="utf-8") as file:
            file.write("FB01\t66 69\nFB02\t66 6C\n2163\t49 56\nFF21\t41\nFF22\t42\nFF23\t43\n3000\t20\nA0\t20\n9\t20\nA\t20\n65 301\tE9\n")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS * 3), model_writer=out, vocab_size=150, model_type="unigram", minloglevel=2, hard_vocab_limit=False,
            num_threads=1, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, normalization_rule_tsv=rules)
    return out.getvalue()


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name in FILES:
        write_model(name)
    write_blocks()
    strings = [text for text in STRINGS if "\0" not in text] + ["ﬁne ＡＢＣ", " a  b ", "quick[PAD160] fox", "<extra_id_0> x <extra_id_99>"]
    plain = write_pieces("t5_tokens", trained(), FILLED, pad_token_id=0)
    n = len(plain)
    gaps = [[*plain.encode(""), n + 99, *plain.encode(" x "), n, 1]]  # the first one is the last of a hundred
    bytes_ = write_pieces("t5_byte_tokens", (TOKENIZERS / "spm_unigram" / "tokenizer.model").read_bytes(), 12, unk=0, eos=2, bos_token_id=1,
                          add_eos_token=False)
    write_pieces("umt5_tokens", trained(), 3 * FILLED, is_umt5=True, pad_token_id=0)
    umt5 = [[*plain.encode(text), 1] for text in strings[:-1]] + [[*plain.encode(""), n + 299, *plain.encode(" x "), n + 200, 1]]
    ids = {"t5_tokens": [[*plain.encode(text), 1] for text in strings[:-1]] + gaps,
           "umt5_tokens": umt5,
           "t5_byte_tokens": [bytes_.encode(text) for text in strings]}
    (HERE / "t5_tokens.json").write_text(json.dumps({"strings": strings, "ids": ids}) + "\n")


if __name__ == "__main__":
    main()
