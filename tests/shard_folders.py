"""Checkpoint folders as people publish them: shards of safetensors, an index, and a configuration."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INDEX = "model.safetensors.index.json"
Tensors = Mapping[str, bytes] | Sequence[str]


def make_values(name: str, count: int = 80) -> bytes:
    """Return float32 numbers that depend on the name, those of an output layer on the name of its embedding."""
    seed = zlib.crc32(
        b"words"
        if any(part in name for part in ("embed", "wte", "head", "shared"))
        else name.encode()
    )
    return b"".join(struct.pack("<f", ((seed * (i + 1)) % 1009) / 1009) for i in range(count))


def encode_shard(
    tensors: Tensors, *, forms: Mapping[str, tuple[str, list[int]]] | None = None, **metadata: str
) -> bytes:
    """Return a shard of (20, 4) tensors in float32, or of other forms (dtype and shape)."""
    named = (
        tensors if isinstance(tensors, Mapping) else {name: make_values(name) for name in tensors}
    )
    header: dict[str, Any] = {"__metadata__": metadata or {"format": "pt"}}
    data = b""
    for name, content in named.items():
        dtype, shape = (forms or {}).get(name, ("F32", [len(content) // 16, 4]))
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_shards(
    folder: Path,
    shards: Mapping[str, Tensors],
    *,
    tied: bool | None = None,
    indexed: bool = True,
    **config: object,
) -> Path:
    """Write shards, the index that fits them, and a configuration; ``tied`` None leaves its word out."""
    folder.mkdir(parents=True)
    for file, tensors in shards.items():
        (folder / file).write_bytes(encode_shard(tensors))
    names = {name: file for file, tensors in shards.items() for name in tensors}
    size = sum((folder / file).stat().st_size for file in shards)
    if indexed:
        index = {"metadata": {"total_size": size}, "weight_map": names}
        (folder / INDEX).write_text(json.dumps(index, indent=2))
    config.update({} if tied is None else {"tie_word_embeddings": tied})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    return folder
