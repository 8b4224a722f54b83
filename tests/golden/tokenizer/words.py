"""Tokenizers that are not BPE over bytes or SentencePiece's characters: Unigram, WordPiece, WordLevel, BPE of words with a
suffix or a prefix, and the normalizers, pre-tokenizers, post-processors and decoders that come with them.

make.py writes them beside its own. The package's trainers number some characters of WordPiece and of BPE of words anew in each
run, so a new run gives another tokenizer and its own results.
"""
import io
import json
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

import make

WORD_SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


# Punctuation since Unicode 14, which the package's older tables do not have: out of the way of the comparison.
NEWER = normalizers.Replace("\u061d", "")


def corpus():
    return [line for line in (make.CORPUS * 3).split("\n") if line]


def trained(state, trainer, **parts):
    """A tokenizer of these parts; vocabularies of trainers are ordered, so that each run gives the same."""
    tokenizer = Tokenizer(state)
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def charsmap(rules=None):
    """SentencePiece's table for a normalization: of rules (text, what becomes of it), or the one of NFKC that most models have."""
    out = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        how = {"normalization_rule_name": "nmt_nfkc"}
        if rules:
            file = Path(folder) / "rules.tsv"
            file.write_text("".join(" ".join(f"{ord(c):X}" for c in text) + "\t" + " ".join(f"{ord(c):X}" for c in by) + "\n"
                                    for text, by in rules), encoding="utf-8")
            how = {"normalization_rule_tsv": str(file)}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=out, vocab_size=200,
                                                 hard_vocab_limit=False, minloglevel=2, num_threads=1, **how)
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


RULES = [("\ufb01", "fi"), ("e\u0301", "\u00e9"), ("\u212b", "\u00c5"), ("\u00a0", " "), ("\u3000", " "), ("\t", " "), ("\n", " "),
         ("\r", " "), ("\u200b", ""), ("\u200d", ""), ("\ufe0f", ""), ("\u2126", "\u03a9"), ("...", "\u2026"), ("A", "a")]


def unigram_pieces(size, **how):
    """[text, score] of SentencePiece's own training, the first three <unk>, <s>, </s>."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus()), model_writer=out, vocab_size=size, minloglevel=2,
                                             hard_vocab_limit=False, num_threads=1, **how)
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return [(piece.piece, piece.score) for piece in model.pieces]


def t5(table=None):
    """In the manner of T5: the table of characters, words that begin with U+2581, </s> behind a text."""
    tokenizer = Tokenizer(models.Unigram(unigram_pieces(320), 0, False))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Precompiled(table or charsmap(RULES)), normalizers.Strip(left=False, right=True),
        normalizers.Replace(Regex(" {2,}"), make.SPACE)])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    make.special(tokenizer, "<unk>", "<s>", "</s>")
    tokenizer.add_tokens(make.flagged())
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return tokenizer


def t5_published():
    """As google-t5's tokenizer.json: <pad> and </s> first, words split at spaces, tokens for gaps behind the pieces, the first one last."""
    gaps = [f"<extra_id_{i}>" for i in range(99, -1, -1)]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *unigram_pieces(320)[3:], *((gap, 0.0) for gap in gaps)]
    tokenizer = Tokenizer(models.Unigram(pieces, 2, False))
    tokenizer.normalizer = normalizers.Precompiled(charsmap(RULES))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    make.special(tokenizer, "<pad>", "</s>", "<unk>", *reversed(gaps))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def t5_nfkc():
    return t5(charsmap())


def xlnet():
    """In the manner of XLNet and ALBERT: accents and case go; bytes for what has no token."""
    pieces = unigram_pieces(560, byte_fallback=True)
    tokenizer = Tokenizer(models.Unigram(pieces, 0, True))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Replace("``", '"'), normalizers.Replace("''", '"'), normalizers.NFKD(), normalizers.StripAccents(),
        normalizers.Lowercase(), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tokenizer.decoder = decoders.Sequence([
        decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")])
    make.special(tokenizer, "<unk>", "<s>", "</s>", "<|im_start|>")
    return tokenizer


def unigram_bytes():
    """Unigram over the byte alphabet."""
    return trained(models.Unigram(), trainers.UnigramTrainer(
        vocab_size=360, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), unk_token="<unk>",
        special_tokens=["<unk>", "<s>"]),
        pre_tokenizer=make.byte_level(regex=True), decoder=decoders.ByteLevel())


def bert():
    tokenizer = trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=420, show_progress=False, special_tokens=WORD_SPECIALS),
        normalizer=normalizers.Sequence([NEWER, normalizers.BertNormalizer()]), pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece())
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_tokens([token for token in make.flagged() if not token.normalized])
    return tokenizer


def bert_cased():
    """Accents and case stay, words of over 9 characters are unknown, and so is a prefix of one character."""
    tokenizer = trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer(vocab_size=420, show_progress=False, special_tokens=WORD_SPECIALS,
                                  continuing_subword_prefix="@"),
        normalizer=normalizers.Sequence([NEWER, normalizers.BertNormalizer(
            clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)]),
        pre_tokenizer=pre_tokenizers.Sequence([
            pre_tokenizers.CharDelimiterSplit(" "), pre_tokenizers.Punctuation("merged_with_previous"),
            pre_tokenizers.FixedLength(12)]),
        decoder=decoders.WordPiece(prefix="@", cleanup=False))
    state = json.loads(tokenizer.to_str())
    state["model"].update(max_input_chars_per_word=9, continuing_subword_prefix="@")
    return Tokenizer.from_str(json.dumps(state))


def words():
    """Whole words, and no decoder."""
    tokenizer = trained(
        models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer(show_progress=False, special_tokens=["[UNK]", "[EOS]"]),
        normalizer=normalizers.Sequence([
            normalizers.Nmt(), normalizers.NFKC(), normalizers.Strip(), normalizers.Lowercase()]),
        pre_tokenizer=pre_tokenizers.Whitespace())
    tokenizer.post_processor = processors.TemplateProcessing(single="$A [EOS]", special_tokens=[("[EOS]", 1)])
    return tokenizer


def openai_gpt():
    """BPE of words whose last token has a suffix."""
    return trained(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(vocab_size=400, show_progress=False, special_tokens=["<unk>"], end_of_word_suffix="</w>"),
        normalizer=normalizers.Sequence([NEWER, normalizers.BertNormalizer(lowercase=True)]), pre_tokenizer=pre_tokenizers.BertPreTokenizer(),
        decoder=decoders.BPEDecoder())


def clip():
    """The same over bytes."""
    tokenizer = trained(
        models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=["<|bos|>", "<|endoftext|>"],
                            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), end_of_word_suffix="</w>"),
        normalizer=normalizers.Sequence([
            normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
        pre_tokenizer=pre_tokenizers.Sequence([
            make.split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True), make.byte_level()]),
        decoder=decoders.ByteLevel())
    tokenizer.post_processor = processors.RobertaProcessing(("<|endoftext|>", 1), ("<|bos|>", 0), trim_offsets=False,
                                                            add_prefix_space=False)
    return tokenizer


def prefixed():
    """BPE whose tokens within a word have a prefix."""
    return trained(
        models.BPE(unk_token="[UNK]", fuse_unk=True, continuing_subword_prefix="##"),
        trainers.BpeTrainer(vocab_size=500, show_progress=False, special_tokens=["[UNK]"], continuing_subword_prefix="##"),
        normalizer=normalizers.NFKC(), pre_tokenizer=pre_tokenizers.WhitespaceSplit(), decoder=decoders.WordPiece())


def falcon():
    """Stages behind ByteLevel, which see bytes as characters: some of them are digits."""
    return make.build(pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), make.byte_level(regex=True), pre_tokenizers.Digits(individual_digits=False),
        make.split("[0-9][0-9][0-9]")]))


def byte_normalizer():
    return trained(models.BPE(), trainers.BpeTrainer(
        vocab_size=380, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())),
        normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.ByteLevel()]),
        pre_tokenizer=make.split("\u0120|\u010a", "merged_with_next"), decoder=decoders.ByteLevel())


def scripts():
    """Words of one script, or of more with a space between."""
    return trained(models.BPE(), trainers.BpeTrainer(
        vocab_size=420, show_progress=False, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet())),
        normalizer=normalizers.Replace(Regex("[\u0589\u05ef\u061c\u0953\u0954\u061d]"), ""), pre_tokenizer=pre_tokenizers.Sequence([
            pre_tokenizers.UnicodeScripts(), make.byte_level()]), decoder=decoders.ByteLevel())


def letters():
    """In the manner of wav2vec: a token a letter, of which repeats are left out."""
    known = ["<pad>", "<unk>", "|", "[EOS]", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ'.,", "<pad>|"]
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate(known)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "|")
    tokenizer.pre_tokenizer = pre_tokenizers.FixedLength(1)
    tokenizer.decoder = decoders.CTC(pad_token="<pad>", word_delimiter_token="|", cleanup=True)
    return tokenizer


KINDS = (t5, t5_published, xlnet, unigram_bytes, bert, bert_cased, words, openai_gpt, clip, prefixed, falcon, byte_normalizer,
         scripts, letters)
LARGE = (t5_nfkc,)
