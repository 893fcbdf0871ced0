#!/usr/bin/env python3
"""Writes texts and the ids that Hugging Face's tokenizers gives them.

    golden.py commit golden.json.gz          the file of the tests: seed 7, a small alphabet
    golden.py live golden.json.gz SEED SHARE 100,000 texts and every code point, or one in SHARE of them
    golden.py bert bert.json.gz vocab.txt golden.json
        the part of a vocabulary that texts with known ids can meet, checked
"""
import gzip
import json
import random
import sys
import tempfile
import unicodedata

from tokenizers import AddedToken, Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing, TemplateProcessing

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = "the quick Brown fox jumps OVER lazy Dogs unaffable naïve café Straße İstanbul ΣΊΣΥΦΟΣ हिन्दी 漢字 한국어 don't 3.14 a_b @x".split()
EVERY = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
MARKS = [c for c in EVERY if unicodedata.category(c) in ("Mn", "Mc", "Me")]
ODD = [c for c in EVERY if unicodedata.category(c) in ("Cf", "Zs", "Cc", "Pd", "Po", "Lm", "Sk", "Lt") or len(c.lower()) > 1]
SORTED = "\u08d4\u08e0\u1b44\u302e\u302f\ua953\U0001d165\U0001d16d\U0001d15e\U0001e000\U0001e94a\u0301\u0345\u034f\u0e31\ufe0f"


def alphabet(random, some):
    marks, odd = (random.sample(chars, min(len(chars), some // 4)) for chars in (MARKS, ODD))
    return sorted({*random.sample(EVERY, some), *marks, *odd, *SORTED})


def text(random, chars):
    parts = []
    for _ in range(random.randint(0, 12)):
        kind = random.random()
        if kind < 0.4:
            parts.append(random.choice(WORDS))
        elif kind < 0.6:
            parts.append("".join(random.choices(chars, k=random.randint(1, 5))))
        elif kind < 0.75:
            parts.append(random.choice("aé漢Σ") + "".join(random.choices(SORTED, k=random.randint(1, 6))))
        elif kind < 0.8:
            parts.append(random.choice("aé\u0301漢") * random.randint(90, 110))
        elif kind < 0.9:
            parts.append(random.choice(SPECIALS + ["[cls]", "[[SEP]", "[SEP]]", "[SEP", "[", "]"]))
        else:
            parts.append(chr(random.randint(0, 0x2FF)))
    return random.choice(["", " ", " ", "\t\n"]).join(parts)


def tokenizer(chars, longest=100, template=True, **options):
    """A tokenizer whose ids show each character of a normalized text."""
    pieces = SPECIALS + ["the", "##ing", "jump", "un", "##aff", "##able", "##s", "quick", "##漢", "caf", "##e"]
    seen = dict.fromkeys(pieces)
    for c in chars:
        for form in (c, c.lower(), unicodedata.normalize("NFD", c), unicodedata.normalize("NFD", c).lower()):
            for part in form:
                seen.setdefault(part)
                seen.setdefault("##" + part)
    vocabulary = {piece: i for i, piece in enumerate(seen)}
    t = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=longest))
    t.normalizer = BertNormalizer(**options)
    t.pre_tokenizer = BertPreTokenizer()
    t.add_special_tokens([AddedToken(s, normalized=False, special=True) for s in [*SPECIALS, "[SEP]]", "[SEP", "@"]])
    if template:
        t.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    else:
        t.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def golden(t, texts, limit):
    file = t.to_str()
    if limit:
        t.enable_truncation(limit)
    ids = []
    for i in range(0, len(texts), 500):  # encodings take much memory
        ids += [e.ids for e in t.encode_batch(texts[i:i + 500])]
    return {"tokenizer": file, "limit": limit, "texts": texts, "ids": ids}


def write(path, sets):
    with gzip.GzipFile(path, "w", 1 if len(sets) > 9 else 9, mtime=0) as out:
        out.write(json.dumps({"sets": sets}, ensure_ascii=False, separators=(",", ":")).encode())


def made(r, some, count):
    ascii = [chr(c) for c in range(128)]
    for options, limit in (({}, 32), ({"lowercase": False}, 0), ({"lowercase": False, "strip_accents": True}, 64),
                           ({"strip_accents": False}, 0), ({"clean_text": False}, 16), ({"handle_chinese_chars": False}, 0)):
        chars = alphabet(r, some)
        texts = ["", " ", *SPECIALS] + [text(r, chars) for _ in range(count)]
        known = ascii + chars + list("".join(WORDS))
        yield golden(tokenizer(known, template=bool(limit), longest=r.choice([100, 100, 5]), **options), texts, limit)


def every(share, turn, **options):
    """Each code point alone, inside of a word, and between marks that are sorted; of empty planes a part. Of a share those whose turn it is."""
    assigned = [c for c in EVERY if ord(c) < 0x40000 or 0xE0000 <= ord(c) < 0xF0000 or 0x100 > ord(c) % 0x10000][turn % share::share]
    for first in range(0, len(assigned), 0x4000):
        chars, texts = assigned[first:first + 0x4000], []
        for i in range(0, len(chars), 128):
            some = chars[i:i + 128]
            texts.append(" ".join(some))
            texts.append(" ".join("a" + c + "b" for c in some))
            texts.append(" ".join("a\U0001d16d" + c + "\U0001d165b" for c in some))
        yield golden(tokenizer(chars + list("ab" + SORTED), **options), texts, 0)


def bert(path, vocabulary, known):
    """A vocab.txt whose ids are kept; what no text can meet is a placeholder."""
    lines = open(vocabulary, encoding="utf-8").read().split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    cases = json.load(open(known, encoding="utf-8"))
    normalize = BertNormalizer().normalize_str
    words = {w for case in cases for w, _ in BertPreTokenizer().pre_tokenize_str(normalize(case["t"]))}
    parts = {w[i:j] for w in words for i in range(len(w)) for j in range(i + 1, min(len(w), i + 20) + 1)}
    kept = [line if line.removeprefix("##") in parts or line in SPECIALS else "" for line in lines]
    kept = [line or f"[unused {i}]" for i, line in enumerate(kept)]
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/vocab.txt", "w", encoding="utf-8") as out:
            out.write("\n".join(kept) + "\n")
        t = Tokenizer(WordPiece.from_file(folder + "/vocab.txt", unk_token="[UNK]", max_input_chars_per_word=100))
        t.normalizer, t.pre_tokenizer = BertNormalizer(), BertPreTokenizer()
        t.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)])
        t.add_special_tokens(SPECIALS)
        t.enable_truncation(256)
        for case in cases:
            assert t.encode(case["t"]).ids == case["ids"], case
    file = "\n".join(kept) + "\n"
    write(path, [{"tokenizer": file, "limit": 256, "texts": [c["t"] for c in cases], "ids": [c["ids"] for c in cases]}])


def main(mode, path, *rest):
    if mode == "commit":
        write(path, list(made(random.Random(7), 300, 60)))
    elif mode == "live":
        seed, share = map(int, rest)
        plain = {"lowercase": False, "strip_accents": False}
        write(path, [*made(random.Random(seed), 5000 // share, 16700 // share), *every(share, seed), *every(share, seed, **plain), *every(share, seed, clean_text=False)])
    else:
        bert(path, *rest)


if __name__ == "__main__":
    main(*sys.argv[1:])
