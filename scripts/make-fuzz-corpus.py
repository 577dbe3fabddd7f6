#!/usr/bin/env python3
"""Writes the first inputs of every fuzz target into tests/fuzz/corpus/TARGET/seed-NAME: small valid files, made here.

Files beside them in those folders are inputs of finds and of earlier fuzzing; they stay. The target media_seeds of
tests/fuzz/CMakeLists.txt makes the videos and sounds that an encoder has to make.
"""
import base64
import ctypes
import ctypes.util
import gzip
import io
import json
import pathlib
import struct
import wave
import zipfile
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "tests/fuzz/corpus"
CUT = b"\n%%%\n"  # between the parts of an input (tests/fuzz/fuzz.h)


def xxh3(data):
    library = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return library.XXH3_64bits(data, len(data))


def put(target, name, *parts):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    parts = [part.encode() if isinstance(part, str) else part for part in parts]
    data = CUT.join(parts)
    assert len(data) <= 8192, (target, name, len(data))
    (folder / f"seed-{name}").write_bytes(data)


# Safetensors.


def safetensors(tensors, metadata=None):
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def make_safetensors():
    weight = floats(1, 2, 3, 4, 5, 6)
    put("safetensors", "plain", safetensors({"weight": ("F32", [2, 3], weight), "bias": ("BF16", [2], b"\0\1\2\3")}))
    put("safetensors", "hashes", safetensors({"weight": ("F32", [2, 3], weight)},
                                             {"step": "3", "hash:weight": f"{xxh3(weight):016x}"}))
    put("safetensors", "empty", safetensors({}))
    info = {"format_version": 2, "step": 3, "position": 12, "epoch": 0, "counters": {"loss_scale": "1"},
            "origin": {"model.type": "decoder", "model.hidden_size": "4"}}
    state = {"weight": ("F32", [2, 3], weight), "optimizer.exp_avg.weight": ("F32", [2, 3], weight),
             "optimizer.step": ("I64", [], struct.pack("<q", 3)), "bias": ("BF16", [3], bytes(6))}
    put("checkpoint", "whole", safetensors(state, {"plimsoll.checkpoint": json.dumps(info)}))
    info["data"] = {"files": [{"key": "data.files", "name": "a.txt", "files": 1, "bytes": 7, "hash": "00000000000000ff"}],
                    "settings": {"data.shuffle": "false"}}
    put("checkpoint", "data", safetensors(state, {"plimsoll.checkpoint": json.dumps(info)}))
    del info["data"]
    info["origin"]["model.hidden_size"] = "8"
    put("checkpoint", "other", safetensors({"weight": ("F16", [2], b"\0\0\0\0")}, {"plimsoll.checkpoint": json.dumps(info)}))


def make_index():
    one, other = floats(1, 2), floats(3, 4)
    index = {"metadata": {"total_size": 16},
             "weight_map": {"one.weight": "a.safetensors", "other.weight": "b.safetensors"}}
    put("weights_index", "two", json.dumps(index), safetensors({"one.weight": ("F32", [2], one)}),
        safetensors({"other.weight": ("F32", [2], other)}))
    index["weight_map"]["other.weight"] = "../a.safetensors"
    put("weights_index", "outside", json.dumps(index), safetensors({"one.weight": ("F32", [2], one)}), b"")


# GGUF.


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


class Gguf:
    def __init__(self):
        self.entries, self.tensors, self.data, self.counts = b"", b"", b"", [0, 0]

    def entry(self, key, kind, value):
        self.entries += gguf_string(key) + struct.pack("<I", kind) + value
        self.counts[1] += 1
        return self

    def whole(self, key, value):
        return self.entry(key, 4, struct.pack("<I", value))

    def number(self, key, value):
        return self.entry(key, 6, struct.pack("<f", value))

    def word(self, key, value):
        return self.entry(key, 8, gguf_string(value))

    def words(self, key, values):
        return self.entry(key, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(gguf_string, values)))

    def tensor(self, name, sizes, kind, data):
        self.tensors += gguf_string(name) + struct.pack("<I", len(sizes))
        self.tensors += b"".join(struct.pack("<Q", size) for size in reversed(sizes))
        self.tensors += struct.pack("<IQ", kind, len(self.data))
        self.data += data + b"\0" * (-len(data) % 32)
        self.counts[0] += 1
        return self

    def bytes(self):
        head = b"GGUF" + struct.pack("<IQQ", 3, *self.counts) + self.entries + self.tensors
        return head + b"\0" * (-len(head) % 32) + self.data


def make_gguf():
    file = Gguf().word("general.architecture", "llama").whole("llama.embedding_length", 32).whole("llama.block_count", 1)
    file.whole("llama.attention.head_count", 2).whole("llama.attention.head_count_kv", 1)
    file.whole("llama.feed_forward_length", 64).number("llama.attention.layer_norm_rms_epsilon", 1e-5)
    file.number("llama.rope.freq_base", 10000).whole("llama.rope.dimension_count", 16)
    file.tensor("token_embd.weight", [4, 32], 8, b"\0\x3c" * 1 + b"\0" * (34 * 4 - 2))
    file.tensor("output_norm.weight", [32], 0, floats(*range(32)))
    put("gguf", "llama", file.bytes())
    blocks = Gguf().words("tokenizer.ggml.tokens", ["a", "b"])
    for name, kind, size in (("f16", 1, 64), ("q4_0", 2, 18), ("q4_1", 3, 20), ("q8_0", 8, 34), ("bf16", 30, 64)):
        blocks.tensor(name, [1, 32], kind, bytes(range(size)))
    blocks.tensor("q6_k", [256], 14, bytes(i % 256 for i in range(210)))
    put("gguf", "blocks", blocks.bytes())
    for pre in ("gpt-2", "smollm"):
        letters = [chr(c) for c in range(ord("!"), ord("~") + 1)] + ["Ġ", "Ċ"]
        made = ["lo", "low", "Ġlow"]
        tokenizer = Gguf().word("tokenizer.ggml.model", "gpt2").word("tokenizer.ggml.pre", pre)
        tokenizer.words("tokenizer.ggml.tokens", ["<|endoftext|>"] + letters + made)
        tokenizer.words("tokenizer.ggml.merges", ["l o", "lo w", "Ġ low"])
        tokenizer.whole("tokenizer.ggml.eos_token_id", 0).whole("tokenizer.ggml.unknown_token_id", 0)
        put("gguf_tokenizer", pre, tokenizer.bytes(), "low lower\n12 it's \xff".encode("latin-1"))


# Tokenizers.


def make_tokenizers():
    for file in sorted((ROOT / "tests/data/tokenizers").glob("*.json")):
        tokenizer = json.loads(file.read_text())
        text = json.dumps(tokenizer, ensure_ascii=False, separators=(",", ":")).encode()
        if "model" in tokenizer and len(text) < 6000:
            put("tokenizer_json", file.stem, text, "Low lower, lowest: it's 12 345 \u00e9\u4e2d\n\n line <eos> x")
    small = {"version": "1.0", "added_tokens": [{"id": 3, "content": "<|endoftext|>", "normalized": False}],
             "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
             "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                 {"type": "Split", "pattern": {"Regex": "\\s+|\\p{L}+|\\p{N}{1,3}"}, "behavior": "Isolated"},
                 {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]},
             "model": {"type": "BPE", "vocab": {"l": 0, "o": 1, "lo": 2}, "merges": ["l o"]}}
    put("tokenizer_json", "small", json.dumps(small), "lo LO lol<|endoftext|>1234")
    replace = dict(small, normalizer={"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
                   pre_tokenizer={"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"},
                   decoder=None)
    replace["model"] = {"type": "BPE", "byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True,
                        "vocab": {"<unk>": 0, "\u2581": 1, "a": 2, "\u2581a": 4, "<0x0A>": 5}, "merges": [["\u2581", "a"]]}
    next_to_it = {"eos_token": "lo", "added_tokens_decoder": {"3": {"content": "<|endoftext|>"}}, "add_prefix_space": False}
    put("tokenizer_json", "folder", json.dumps(small), "lo LO", json.dumps(next_to_it))
    put("tokenizer_json", "metaspace", json.dumps(replace), "a a  a\n\xe9")
    word_piece = {"added_tokens": [], "normalizer": {"type": "BertNormalizer", "lowercase": True},
                  "pre_tokenizer": {"type": "BertPreTokenizer"},
                  "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                            "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "low": 1, "##er": 2, ",": 3}}}
    put("tokenizer_json", "wordpiece", json.dumps(word_piece), "Lower, low\u4e2d")

    tokens = [bytes([i]) for i in range(256)] + [b"lo", b"low", b" low"]
    ranks = "".join(f"{base64.b64encode(token).decode()} {i}\n" for i, token in enumerate(tokens))
    put("bpe_ranks", "words", ranks, b"low lower\xff 12 it's\n\n  x")
    patterns = {
        "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        "llama3": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        "digits": r"[0-9][0-9][0-9]|[^0-9]", "classes": r"[[:alpha:]]+|\S{2,}?|(?<!a)b|\x{e9}"}
    for name, pattern in patterns.items():
        put("split_pattern", name, pattern, "It's 12345 low  lower\n\n\u00e9\u00a0b ab")


def varint(number):
    data = b""
    while number >= 0x80:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def whole(number, value):
    return varint(number << 3) + varint(value)


def make_sentencepiece():
    def piece(text, kind=1, score=0.0):
        return field(1, field(1, text.encode()) + varint(2 << 3 | 5) + struct.pack("<f", score) + whole(3, kind))

    fallback = "".join(f"<0x{i:02X}>\0" for i in range(256)).split("\0")[:-1]
    words = ["\u2581", "l", "o", "w", "lo", "low", "\u2581low", "er"]
    identity = field(3, field(1, b"identity"))
    for name, kind in (("unigram", 1), ("bpe", 2)):
        pieces = piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3)
        pieces += b"".join(piece(word, 1, -1.0 - i) for i, word in enumerate(words)) + piece("<tag>", 4)
        put("sentencepiece", name, pieces + field(2, whole(3, kind)) + identity, "low lower <tag> \u00e9")
        pieces += b"".join(piece(byte, 6) for byte in fallback)
        put("sentencepiece", f"{name}-bytes", pieces + field(2, whole(3, kind) + whole(35, 1)) + identity,
            b"low lower \xff\xc3\xa9")
    units = [1 << 31] * 768
    units[0], units[256 ^ ord("a")] = 256 << 10, ((256 ^ ord("a")) ^ 512) << 10 | 1 << 8 | ord("a")
    units[512] = 1 << 31
    charsmap = struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + b"b\0"
    put("sentencepiece", "charsmap", piece("<unk>", 2) + piece("b") + piece("\u2581") + field(2, whole(3, 1)) +
        field(3, field(2, charsmap)), "a b a")


# Numbers.


def nifti(kind, bits, sizes, data, magic=b"n+1\0", order="<", slope=0.0):
    header = bytearray(352)
    struct.pack_into(order + "i", header, 0, 348)
    struct.pack_into(order + "8h", header, 40, len(sizes), *(list(sizes) + [1] * (7 - len(sizes))))
    struct.pack_into(order + "hh", header, 70, kind, bits)
    struct.pack_into(order + "8f", header, 76, 1, *([1.0] * 3), 2.0, 1, 1, 1)
    struct.pack_into(order + "fff", header, 108, 352, slope, 0)
    struct.pack_into(order + "h", header, 254, 1)
    for i in range(3):
        struct.pack_into(order + "4f", header, 280 + 16 * i, *[float(i == j) for j in range(3)], 0)
    header[344:348] = magic
    return bytes(header) + data


def make_nifti():
    put("nifti", "uint8", nifti(2, 8, (3, 2, 2), bytes(range(12))))
    put("nifti", "float32", nifti(16, 32, (2, 2, 1), floats(1, 2, 3, 4), slope=2.0))
    put("nifti", "int16-swapped", nifti(4, 16, (2, 2, 2), struct.pack(">8h", *range(8)), order=">"))
    put("nifti", "series", nifti(64, 64, (2, 1, 1, 3), struct.pack("<6d", *range(6))))
    put("nifti", "packed", gzip.compress(nifti(2, 8, (3, 2, 2), bytes(range(12))), mtime=0))


def npy(descr, shape, data, fortran=False, version=1):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


def make_numpy():
    put("npy", "float32", npy("<f4", "(2, 3)", floats(1, 2, 3, 4, 5, 6)))
    put("npy", "fortran", npy(">i2", "(2, 3)", struct.pack(">6h", *range(6)), True))
    put("npy", "scalar", npy("|b1", "()", b"\1", version=2))
    put("npy", "float16", npy("<f2", "(2,)", b"\0\x3c\0\x40", version=3))
    arrays = {"vectors": npy("<f4", "(2, 2, 1)", floats(1, 2, 3, 4)), "labels": npy("<i8", "(2,)", struct.pack("<2q", 0, 1))}
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", method) as archive:
            for key, data in arrays.items():
                archive.writestr(zipfile.ZipInfo(f"{key}.npy", (1980, 1, 1, 0, 0, 0)), data, method)
        put("npz", name, stream.getvalue())
    return arrays


def make_tables():
    put("csv", "commas", 'name,value\n"a, ""b""",1\n\n c , 2\n')
    put("csv", "semicolons", "\ufeffname;value\r\na;1,5\r\n")
    put("csv", "tabs", "a\tb\n1\t2\n")
    put("csv", "several", "x, y;z\n1,5;2,5\n")
    put("text_file", "lines", "a\nb\r\nc\rd")
    put("text_file", "marked", "\ufeffcaf\u00e9\n")
    put("text_file", "utf16", "words".encode("utf-16"))
    put("text_file", "packed", gzip.compress(b"a text\n", mtime=0))
    put("text_file", "packed-array", gzip.compress(npy("|u1", "(2,)", b"\1\2"), mtime=0))
    put("ts_file", "classes", "# c\n@problemName P\n@timeStamps false\n@missing true\n@univariate false\n@dimensions 2\n"
        "@equalLength true\n@seriesLength 2\n@classLabel true a b\n@data\n0.1,2:3,?:a\n1e3,-4:NaN,5:b\n")
    put("ts_file", "univariate", "@univariate true\n@classLabel true 1 2\n@data\n1,2,3:1\n4,5:2\n")


# Jobs and architectures.


def make_jobs():
    for file in sorted((ROOT / "examples").glob("*/*.yaml")):
        put("job", f"{file.parent.name}-{file.stem}", file.read_text(), "optimizer.name=sgd\nmax_steps=7")
    put("job", "anchors", "model: &m {type: decoder, hidden_size: 64}\ndata: {type: synthetic}\noptimizer: {betas: [0.9, 0.99]}\n"
        "memory_budget: 1GiB\ngradient_accumulation_steps: {0: 4, 2: 2}\n", "seed=3\ndata.files=[a.txt, b.txt]\nfp16=true")
    put("job", "config", "model: {type: decoder, config: config.json}\ndata: {type: text, files: notes.txt}\n", "")
    put("job", "mistakes", "model: {typ: decoder}\nbatch_sze: 3\n\tseed: 1\n", "nothing")

    llama = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
             "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100, "rms_norm_eps": 1e-5,
             "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "max_position_embeddings": 64}
    put("config", "llama", json.dumps(llama), "")
    for family in ("mistral", "qwen2", "qwen3"):
        put("config", family, json.dumps(dict(llama, model_type=family, head_dim=16)), "")
    put("config", "gemma2", json.dumps(dict(llama, model_type="gemma2", hidden_act="gelu_pytorch_tanh", head_dim=16,
                                            hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=16,
                                            sliding_window=32, attn_logit_softcapping=50.0, tie_word_embeddings=True)), "")
    put("config", "gpt2", json.dumps({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100,
                                      "n_positions": 64, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"}), "")
    put("config", "mamba2", '{"model_type": "mamba2", "hidden_size": 64, "num_hidden_layers": 2, "state_size": 16, "expand": 2, '
        '"head_dim": 16, "num_heads": 8, "n_groups": 1, "conv_kernel": 4, "vocab_size": 100, "time_step_limit": [0.0, Infinity]}', "")
    vision = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
              "patch_size": 8, "layer_norm_eps": 1e-5, "hidden_act": "gelu"}
    prep = json.dumps({"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5], "do_normalize": True})
    put("config", "vit", json.dumps(dict(vision, model_type="vit")), prep)
    put("config", "siglip", json.dumps(dict(vision, model_type="siglip_vision_model", hidden_act="gelu_pytorch_tanh")), prep)
    put("config", "clip", json.dumps({"model_type": "clip", "vision_config": dict(vision, model_type="clip_vision_model",
                                                                                  hidden_act="quick_gelu")}), prep)


# Lists, labels, caches.


def hash_bytes(data):
    """src/base/hash.h"""
    value = 14695981039346656037
    for byte in data:
        value = (value ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
    return value


def make_lists(arrays):
    vectors = safetensors({name: ("F32", [2], floats(1, 2)) for name in ("face", "house")})
    put("labels", "runs", "face 0\nhouse 0\nface 1\n", vectors)
    put("labels", "names", "# a comment\n1 left hippocampus\n37\tright amygdala\n", "left*")
    put("clip_list", "parts", "# videos\na.mp4\ta cat\nb.mp4\ta dog\t1.5\t3\r\nb.mp4\ta dog again\t10\t30\n")
    put("clip_list", "overlap", "a.mp4\ta cat\t0\t3\na.mp4\ta cat\t1\t4\n")
    put("picture_list", "table", "image,mask,structure,value,split\na.png,b.png,nucleus,1,train\nc.png,d.png,,3,test\n",
        "1 nucleus\n2 wall\n")
    put("picture_list", "lines", '{"image": "a.png", "mask": "b.png", "prompt": "find it", "answer": "here"}\n'
        '{"image": "a.png", "mask": "b.png", "value": 2}\n', "1 nucleus\n")
    put("series", "table", "series,label,time,x,y\ntake1,swipe,0.0,0.1,0.2\ntake1,swipe,0.01,0.1,?\ntake2,circle,0,0.4,nan\n")
    put("series", "one", "time;x\n0;1,5\n1;2\n")
    put("labels", "colors", "#No. Label R G B A\n0 Unknown 0 0 0 0\n1 Left-Lump 245 245 245 0\n", b"")
    put("labels", "flags", '1 255 0 0 1 1 1 "lump"\n', b"")
    put("labels", "table", "index\tname\tcolor\n1\tlump\t#fff\n", b"")
    put("series", "array", arrays["vectors"], arrays["labels"])
    for name in ("stored", "deflated"):
        put("series", name, (CORPUS / f"npz/seed-{name}").read_bytes())
    put("fmri", "table", "a,b,c\n1,2,3\n4,5e1,-6\n", b"")
    put("fmri", "index", ",a,b\n0,1.5,2\n1,3,4\n2,5,6\n", b"")
    put("fmri", "decimal-commas", "a;b\n1,5;2,5\n3;4\n", b"")
    put("fmri", "blanks", "1 2\n3 4\n", b"")
    scan = nifti(16, 32, (2, 1, 1, 3), floats(1, 2, 3, 4, 5, 7))
    put("fmri", "scan", scan, b"")
    put("fmri", "masked", scan, nifti(2, 8, (2, 1, 1), b"\1\0"))
    put("fmri", "array", npy("<f4", "(4, 3)", floats(*range(12))), b"")
    put("fmri", "array-masked", npy("<i2", "(1, 2, 1, 3)", struct.pack("<6h", *range(6))), npy("|u1", "(1, 2, 1)", b"\1\0"))


def make_caches():
    for name, vocabulary, tokens in (("narrow", 300, struct.pack("<5H", 1, 2, 299, 0, 7)),
                                     ("wide", 70_000, struct.pack("<3I", 1, 69_999, 5)), ("outside", 3, struct.pack("<2H", 1, 3))):
        width = 2 if vocabulary <= 65536 else 4
        checksums = struct.pack("<Q", xxh3(tokens))
        trailer = struct.pack("<QIIQQQQ", 0x316B6F746D696C70, 2, width, vocabulary, len(tokens) // width, 9, xxh3(checksums))
        put("token_file", name, tokens + checksums + trailer + struct.pack("<Q", hash_bytes(trailer)))
    pixels = bytes(range(96))
    put("frame_cache", "two", b"PLFRAMES" + struct.pack("<QQQQ", 2, 0x0123456789ABCDEF, len(pixels), xxh3(pixels)) + pixels)
    mel, frames = floats(*range(6)), bytes(range(24))
    hashes = struct.pack("<QQ", xxh3(mel), xxh3(frames))
    put("stimulus_cache", "two", safetensors({"mel": ("F32", [2, 3], mel), "frames": ("U8", [2, 2, 2, 3], frames),
                                              "hashes": ("I64", [2], hashes)}, {"plimsoll.seconds": "1"}))


# Pictures, videos, sound.


def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width, height, bits, color, rows, palette=b"", interlaced=0):
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, color, 0, 0, interlaced))
    return (b"\x89PNG\r\n\x1a\n" + header + (png_chunk(b"PLTE", palette) if palette else b"") +
            png_chunk(b"IDAT", zlib.compress(rows)) + png_chunk(b"IEND", b""))


# A gray JPEG of 8 x 8 pixels: one table, one code for each kind of number.
JPEG = (b"\xff\xd8\xff\xdb\0\x43\0" + b"\1" * 64 + b"\xff\xc0\0\x0b\x08\0\x08\0\x08\1\1\x11\0" +
        b"\xff\xc4\0\x14\0\1" + b"\0" * 15 + b"\0" + b"\xff\xc4\0\x14\x10\1" + b"\0" * 15 + b"\0" +
        b"\xff\xda\0\x08\1\1\0\0\x3f\0" + b"\x3f" + b"\xff\xd9")


def make_pictures():
    put("picture", "gray", png(3, 2, 8, 0, b"\0\1\2\3\0\4\5\6"))
    put("picture", "gray16", png(2, 1, 16, 0, b"\0\1\2\3\4"))
    put("picture", "bits", png(9, 2, 2, 0, b"\0\x1b\x1b\x40" * 2))
    put("picture", "palette", png(4, 1, 4, 3, b"\0\x01\x23", bytes(range(12))))
    put("picture", "colors", png(2, 2, 8, 6, b"\0" + bytes(8) + b"\1" + bytes(range(8))))
    put("picture", "interlaced", png(2, 2, 8, 2, b"\0\1\2\3" + b"\0\4\5\6" + b"\0\1\2\3\4\5\6", interlaced=1))
    put("picture", "jpeg", JPEG)
    exif = b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 0x112, 3, 1, 6, 0) + bytes(4)
    xmp = b'<x tiff:Orientation="1"/>'
    profile = bytes(128) + struct.pack(">I4sII", 1, b"desc", 144, 18) + b"desc" + struct.pack(">II", 0, 5) + b"sRGB\0\0"
    segments = [(0xe1, b"Exif\0\0" + exif), (0xe1, b"http://ns.adobe.com/xap/1.0/\0" + xmp), (0xe2, b"ICC_PROFILE\0\1\1" + profile)]
    put("picture", "jpeg-shown", JPEG[:2] + b"".join(struct.pack(">BBH", 0xff, kind, len(body) + 2) + body for kind, body in segments) + JPEG[2:])
    raw = b"\nexif\n%8d\n%s\n" % (len(exif), exif.hex().encode())
    shown = [(b"eXIf", exif.replace(b"II*", b"II+")), (b"zTXt", b"Raw profile type exif\0\0" + zlib.compress(raw)),
             (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp), (b"iCCP", b"p\0\0" + zlib.compress(profile)), (b"gAMA", struct.pack(">I", 45455))]
    palette = png(4, 1, 4, 3, b"\0\x01\x23", bytes(range(12)))
    at = palette.index(b"IDAT") - 4
    put("picture", "png-shown", palette[:33] + b"".join(png_chunk(*each) for each in shown) + palette[33:at] + png_chunk(b"tRNS", b"\0\x80") + palette[at:])

    def y4m(kind, planes):
        return f"YUV4MPEG2 W4 H4 F10:1 Ip A1:1 {kind}\n".encode() + b"".join(
            b"FRAME\n" + bytes(90 + 9 * i for _ in range(planes)) for i in range(6))

    put("media", "y4m", y4m("C420jpeg", 24))
    put("media", "y4m-444", y4m("C444", 48))
    stream = io.BytesIO()
    with wave.open(stream, "wb") as sound:
        sound.setnchannels(2)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(struct.pack("<400h", *(i * 37 % 2000 for i in range(400))))
    put("media", "wav", stream.getvalue())
    put("media", "au", b".snd" + struct.pack(">IIIII", 24, 160, 1, 8000, 1) + bytes(range(160)))
    gif = b"GIF89a\4\0\4\0\x80\0\0\0\0\0\xff\xff\xff"
    for _ in range(6):
        gif += b"\x21\xf9\4\4\x0a\0\0\0\x2c\0\0\0\0\4\0\4\0\0\2\4\x84\x8f\x09\5\0"
    put("media", "gif", gif + b"\x3b")
    put("media", "aiff", b"FORM" + struct.pack(">I", 4 + 26 + 16 + 160) + b"AIFFCOMM" + struct.pack(">IhIh", 18, 1, 80, 16) +
        b"\x40\x0b\xfa\0\0\0\0\0\0\0" + b"SSND" + struct.pack(">III", 168, 0, 0) + bytes(160))


def main():
    make_safetensors()
    make_index()
    make_gguf()
    make_tokenizers()
    make_sentencepiece()
    make_nifti()
    arrays = make_numpy()
    make_tables()
    make_jobs()
    make_lists(arrays)
    make_caches()
    make_pictures()
    count = sum(1 for _ in CORPUS.glob("*/seed-*"))
    print(f"==> {count} inputs in {CORPUS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
