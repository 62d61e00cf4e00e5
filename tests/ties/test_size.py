"""Large folders: headers alone are read where no bytes are compared, and bytes are compared about
as fast as by ``cmp``.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from benchmarks.measure import run_once
from tests.processes import COMMAND
from tests.shard_folders import INDEX


def measure(command: list[str]) -> tuple[float, int]:
    """Return the least processor time of three runs in seconds, and the largest memory in bytes.

    Other programs of the machine hardly change it, as they do the time by the clock; the files are in memory.
    """
    runs = [run_once(command) for _ in range(3)]
    return min(run.processor for run in runs), max(run.peak for run in runs) << 10


def write_header(path: Path, shapes: dict[str, list[int]]) -> int:
    """Write a sparse shard in bfloat16 and return its size."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text)
    os.truncate(path, 8 + len(text) + end)
    return 8 + len(text) + end


@pytest.mark.large
def test_twenty_gigabytes_take_their_headers(tmp_path: Path) -> None:
    names: dict[str, str] = {}
    size = 0
    for shard in range(16):
        file = f"model-{shard + 1:05}-of-00016.safetensors"
        shapes = {f"model.layers.{shard}.{i}.weight": [8192, 4096] for i in range(19)}
        shapes |= {f"model.layers.{shard}.norm{i}.weight": [4096] for i in range(40)}
        shapes |= {} if shard else {"model.embed_tokens.weight": [32000, 4096]}
        size += write_header(tmp_path / file, shapes)
        names |= dict.fromkeys(shapes, file)
    assert size > 20e9
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": names}))
    (tmp_path / "config.json").write_text(
        '{"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": true}'
    )
    for command in (["check"], ["params", "list"]):
        seconds, memory = measure([*COMMAND, *command, str(tmp_path)])
        assert seconds < 2
        assert memory < 100 << 20


@pytest.mark.large
def test_a_gigabyte_is_compared_about_as_fast_as_by_cmp(tmp_path: Path) -> None:
    folder = tmp_path / "pair"
    folder.mkdir()
    block = os.urandom(1 << 24)
    for name in ("one", "two"):
        with (tmp_path / name).open("wb") as file:
            for _ in range(64):
                file.write(block)
    write_header(
        folder / "model.safetensors",
        {name: [131072, 4096] for name in ("lm_head.weight", "model.embed_tokens.weight")},
    )
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(8 + int.from_bytes(file.read(8), "little"))
        for _ in range(128):
            file.write(block)
    (folder / "config.json").write_text('{"tie_word_embeddings": true}')
    start, _ = measure([*COMMAND, "--version"])
    reference, _ = measure(["cmp", str(tmp_path / "one"), str(tmp_path / "two")])
    seconds, memory = measure([*COMMAND, "check", str(folder)])
    assert seconds - start < 1.5 * reference
    assert memory < 100 << 20
