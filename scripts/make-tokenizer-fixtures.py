#!/usr/bin/env python3
"""Makes tests/data/tokenizers: a small tokenizer.json of each kind that Plimsoll reads, as the `tokenizers` package
writes it, and the ids that the package gives for strings that are easy to get wrong. The tests read these files; only
making them anew takes the package:

    python3 -m venv .venv-tokenizers && .venv-tokenizers/bin/pip install --only-binary=:all: tokenizers==0.23.3
    .venv-tokenizers/bin/python scripts/make-tokenizer-fixtures.py
"""

import json
import pathlib
import shutil

import tokenizers as tk
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "tokenizers"

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

TEXT = [
    "A ship's Plimsoll line marks how far she may be loaded; the loader goes to the line and never over it.",
    "You state the bytes. It plans where every byte goes, and what to recompute, move or shrink: 12 of 345, 6789.",
    "We'll load what they've measured, I'm sure it's there - don't you? THE LINE, The Line, the line.",
    "def load(line):\n    if line > 10:\n        return line\n\n    return {'bytes': 4096}\n",
    "Grüße aus München; déjà vu, naïve café. Привет, мир! 日本語のテキスト と 中文。",
    "tabs\tand  two   three    spaces, new\nlines\r\nand more\n\n\nlines 3.14 2026-11-22",
] * 3

# What is easy to get wrong.
STRINGS = [
    "",
    " ",
    "   ",
    "line",
    " the line",
    "the line ",
    "  The  loader's   load  ",
    "don't I'LL they'VE we're'd",
    "1234567 3.14 a1b2 ١٢٣ ½ ²",
    "\n",
    "a\n\n  b\r\n\tc \n ",
    "new\nlines\r\n\r\nand \n more",
    "café cafe\u0301 Å A\u030a ﬁ ﬀ Ǆ",
    "İstanbul ΑΣ ß ẞ straße",
    "日本語のテキスト中文。、 𠀀",
    "Привет, мир! ёж",
    "🚢 👨‍👩‍👧‍👦 🇩🇪 ☸️",
    "<|endoftext|>the<|endoftext|> line<|endoftext|>",
    "</s> the </s><s>line",
    "[MASK] the [MASK], x[MASK]y [SEP]",
    "the<eos>\n\n\nline",
    "a\u00a0b\u2003c\u3000d\u200be\ufeff\u180ef\u0085g",
    "\u0000\u0001\x7f",
    "▁the▁line ▁",
    "snake_case CamelCase x=(y+z)*[3]; // end",
    "......!!!??? --- ___ ~~~",
    "'s 't''ll \"quoted\"",
    "word" * 40,
    "   leading and trailing   ",
    "\ufffd \u0301a \u0301",
]


def byte_level(pre, normalizer=None, special=("<|endoftext|>",), **model):
    tokenizer = tk.Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def byte_fallback(normalizer=None, pre=None, special=("<unk>", "<s>", "</s>"), size=480):
    tokenizer = tk.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    # As SentencePiece trains: words begin with their space.
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special) + [f"<0x{byte:02X}>" for byte in range(256)],
        limit_alphabet=60,
        initial_alphabet=["▁"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([line.replace("日本語", "") for line in TEXT], trainer)
    tokenizer.pre_tokenizer = pre
    # Bytes are ordinary tokens, which no text has.
    config = json.loads(tokenizer.to_str())
    config["added_tokens"] = [t for t in config["added_tokens"] if not t["content"].startswith("<0x")]
    return tk.Tokenizer.from_str(json.dumps(config))


def make():
    smollm = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    isolated = lambda pattern: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(tk.Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    yield "gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "gpt2-prefix", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "llama3", byte_level(isolated(LLAMA3), special=["<|begin_of_text|>", "<|end_of_text|>"], ignore_merges=True)
    yield "qwen2", byte_level(isolated(QWEN2), normalizers.NFC())
    yield "smollm", byte_level(smollm)
    legacy = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    yield "mistral", byte_fallback(legacy)
    yield "mistral-metaspace", byte_fallback(pre=pre_tokenizers.Metaspace(prepend_scheme="first", split=False))
    gemma = byte_fallback(
        normalizers.Replace(" ", "▁"),
        pre_tokenizers.Split(" ", "merged_with_previous"),
        special=["<pad>", "<eos>", "<bos>", "<unk>"],
    )
    gemma.add_tokens([tk.AddedToken(each, normalized=False) for each in ("\n\n", "\n\n\n", "▁▁", "▁▁▁")])
    yield "gemma", gemma
    for name, lowercase in (("bert", True), ("bert-cased", False)):
        bert = tk.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=30))
        bert.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
        bert.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        bert.decoder = decoders.WordPiece()
        trainer = trainers.WordPieceTrainer(
            vocab_size=300, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]"], show_progress=False
        )
        bert.train_from_iterator(TEXT, trainer)
        bert.add_special_tokens([tk.AddedToken("[MASK]", lstrip=True, special=True)])
        yield name, bert
    words = tk.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    words.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Lowercase(), normalizers.NFD(), normalizers.StripAccents()]
    )
    words.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()])
    words.train_from_iterator(
        TEXT,
        trainers.BpeTrainer(
            vocab_size=200, special_tokens=["<unk>", "</s>"], end_of_word_suffix="</w>", show_progress=False
        ),
    )
    words.add_tokens(
        [tk.AddedToken("line", single_word=True, normalized=True), tk.AddedToken("<eos>", rstrip=True, special=True)]
    )
    yield "words", words


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    expected = {"made_by": f"tokenizers {tk.__version__}", "strings": STRINGS, "ids": {}}
    for name, tokenizer in make():
        config = json.loads(tokenizer.to_str())
        if name in ("gpt2", "mistral"):  # as older versions write them
            config["model"]["merges"] = [" ".join(pair) for pair in config["model"]["merges"]]
        text = json.dumps(config, ensure_ascii=False, separators=(",", ":"))
        same = tk.Tokenizer.from_str(text)
        (OUT / f"{name}.json").write_text(text + "\n")
        expected["ids"][name] = [same.encode(each, add_special_tokens=False).ids for each in STRINGS]
        print(name, same.get_vocab_size(), sum(map(len, expected["ids"][name])))
    (OUT / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
