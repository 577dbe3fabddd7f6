#!/usr/bin/env python3
"""Makes tests/weights/transformers_fields.json: every field of transformers' configuration classes for the families that
Plimsoll reads, with its default. A test compares the fields with the table of src/weights/config_facts.h, and the
defaults with those that Plimsoll uses for keys that a config.json leaves out. Run it with a Python that has the newest
transformers:

    python3 scripts/make-config-fields.py

No libtorch is needed: the classes of configurations are read alone.
"""

import dataclasses
import json
import pathlib

import transformers as hf

OUT = pathlib.Path(__file__).resolve().parent.parent / "tests" / "weights" / "transformers_fields.json"

CLASSES = {
    "llama": hf.LlamaConfig,
    "mistral": hf.MistralConfig,
    "qwen2": hf.Qwen2Config,
    "qwen3": hf.Qwen3Config,
    "gemma2": hf.Gemma2Config,
    "gpt2": hf.GPT2Config,
    "mamba2": hf.Mamba2Config,
    "vit": hf.ViTConfig,
    "clip": hf.CLIPConfig,
    "clip_vision_model": hf.CLIPVisionConfig,
    "siglip": hf.SiglipConfig,
    "siglip_vision_model": hf.SiglipVisionConfig,
}


def fields_of(config_class):
    """Returns the fields and their defaults: those that the class declares, those that it writes, and other names of them."""
    written = json.loads(config_class().to_json_string(use_diff=False))
    defaults = {each.name: each.default for each in dataclasses.fields(config_class)}
    names = set(written) | set(defaults) | set(config_class.attribute_map)
    fields = {}
    for name in sorted(names):
        # What the class declares, before it is derived from other fields: null for "as num_attention_heads".
        value = defaults.get(name, written.get(config_class.attribute_map.get(name, name)))
        if name in defaults and not isinstance(value, (type(None), bool, int, float, str, list, tuple, dict)):
            value = written.get(name)
        fields[name] = list(value) if isinstance(value, tuple) else value
    return fields


def main():
    classes = {name: {"class": each.__name__, "fields": fields_of(each)} for name, each in CLASSES.items()}
    for each in classes.values():
        each["fields"].pop("transformers_version", None)  # the version is that of the file
    text = json.dumps({"transformers": hf.__version__, "families": classes}, indent=1, sort_keys=True)
    OUT.write_text(text.replace("Infinity", '{"__float__": "Infinity"}') + "\n")


main()
