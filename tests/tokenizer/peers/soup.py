"""Unicode soup from a seed: words, spaces and specials of tokenizers, and characters of all planes. Only what
Unicode 3.2 has already, in the category that it still has, and the emoji, for the tables of two libraries need not be equally new."""
import random
import unicodedata

ASSIGNED = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000
            and unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Co")
            and unicodedata.ucd_3_2_0.category(chr(c)) == unicodedata.category(chr(c))]
RANGES = [(0x20, 0x5f), (0x61, 26), (0x30, 10), (0xc0, 320), (0x300, 112), (0x370, 256), (0x5d0, 27), (0x905, 53),
          (0x2010, 24), (0x3041, 86), (0x4e00, 2000), (0xac00, 11172), (0x1f600, 80), (0x10d0, 33)]
FRAGMENTS = [
    "the", " the", " quick", "'s", "'ll", "'RE", "don't", " a", "ing", "1984", "3.14", "\r\n", "\n\n", "\t", "   ", "     ",
    " \n ", "\u00a0", "\u3000", "\u2028", "e\u0301", "a\u0323\u0302", "\u1112\u1161\u11ab", "\u2581", "\u2581\u2581", " \u2581 ",
    "<s>", "</s>", "<unk>", "<0x0A>", "<0x", "<|im_start|>", "<lstrip>", " <rstrip> ", "<word>", "a<word>", "The", "it", "xyz",
    "\u4e2d\u6587", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469", "\ufe0f", "\u200d", "\u0e01\u0e33", "XMLHttp", "/", "...",
    "?!", "\x00", "def f(x):\n    return x\n", "the quick brown fox", "begin", "beginning", "h", "hh", "t",
]


def part(chance):
    which = chance.randrange(6)
    if which < 2:
        return chance.choice(FRAGMENTS)
    if which == 2:
        return "".join(chance.choice(ASSIGNED) for _ in range(chance.randint(1, 3)))
    first, n = chance.choice(RANGES[:2] if which == 3 else RANGES)
    return "".join(chr(first + chance.randrange(n)) for _ in range(chance.randint(1, 6)))


def strings(n, seed):
    chance = random.Random(seed)
    return ["".join(part(chance) for _ in range(chance.randint(0, 14))) for _ in range(n)]
