"""Build six small language models with random weights, and print the logits of a folder, in a
Python that has transformers.

``compare_logits.py make FOLDER`` writes a folder of each, sharded; ``compare_logits.py logits
FOLDER...`` prints for each the SHA-256 of the logits on a fixed input, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
)

SMALL = {
    "vocab_size": 96,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
MODELS = {
    "llama": (AutoModelForCausalLM, {**SMALL, "num_key_value_heads": 2}),
    "qwen2": (AutoModelForCausalLM, {**SMALL, "num_key_value_heads": 2}),
    "gpt2": (
        AutoModelForCausalLM,
        {"vocab_size": 96, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    ),
    "opt": (
        AutoModelForCausalLM,
        {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    ),
    "bert": (AutoModelForMaskedLM, {**SMALL, "max_position_embeddings": 64}),
    "t5": (
        AutoModelForSeq2SeqLM,
        {"vocab_size": 96, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4},
    ),
}


def make(folder: Path) -> None:
    """Write each model, with its words tied."""
    for name, (kind, settings) in MODELS.items():
        torch.manual_seed(5)
        config = AutoConfig.for_model(name, tie_word_embeddings=True, **settings)
        kind.from_config(config).save_pretrained(folder / name, max_shard_size="40KB")


def hash_logits(folder: Path) -> str:
    """Return the SHA-256 of the logits of a model on a fixed input."""
    kind = MODELS[json.loads((folder / "config.json").read_text())["model_type"]][0]
    model = kind.from_pretrained(folder).eval()
    words = torch.arange(3, 19).reshape(2, 8)
    more = {"decoder_input_ids": words} if kind is AutoModelForSeq2SeqLM else {}
    with torch.no_grad():
        logits = model(input_ids=words, **more).logits
    return hashlib.sha256(logits.contiguous().numpy().tobytes()).hexdigest()


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]))
    else:
        print(json.dumps({folder: hash_logits(Path(folder)) for folder in sys.argv[2:]}))
