"""Forty planted faults of twenty kinds in a tree of a thousand files: the command, the hook and the
action find them alike.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from graphshare.checks.rule import DENSE_RECORDS, Example, ExampleRecord, dense
from tests.meta.test_ci_use import steps
from tests.processes import ROOT, graphshare, in_process
from tests.seam.placed import apply_add, place, tensor
from tests.unit.checks.examples import params_file

FILES = 1000
GRAPH = dense().encode()
PAGE = b"<!DOCTYPE html>\n<html><body>404: Not Found</body></html>\n"
Files = dict[str, bytes]
"""What is written, by the part of the name behind the stem; of a fault, the first file is the one that is found."""


def params(*records: ExampleRecord) -> bytes:
    return params_file(Example(GRAPH, records or DENSE_RECORDS))


@cache
def model(broken: str = "") -> bytes:
    proto = place("graph", apply_add(), [tensor("weight", 1, 2)])
    proto.graph.node[0].input[1] = broken or "weight"
    return proto.SerializeToString()


@cache
def outside() -> bytes:
    """Return a model whose weight is in a file beside it."""
    proto = place("graph", apply_add(), [tensor("weight", 1, 2)])
    (weight,) = proto.graph.initializer
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "STEM.onnx.data"), ("offset", "0"), ("length", "8")):
        weight.external_data.add(key=key, value=value)
    return proto.SerializeToString()


@cache
def npz() -> bytes:
    file = io.BytesIO()
    np.savez(
        file, **{"arg:fc_weight": np.ones((2, 3), "float32"), "arg:fc_bias": np.ones(2, "float32")}
    )
    return file.getvalue()


@cache
def safetensors() -> bytes:
    shapes = {"arg:fc_weight": [2, 3], "arg:fc_bias": [2]}
    header, at = {}, 0
    for key, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + np.ones(at // 4, "float32").tobytes()


SOUND: list[Callable[[], Files]] = [
    lambda: {"-symbol.json": GRAPH, "-0000.params": params()},
    lambda: {
        "-symbol.json": GRAPH,
        "-0003.params": params(),
        "-0010.params": params(),
        "-symbol.json.bak": b"{",
    },
    lambda: {"-symbol.json": GRAPH, "-0000.npz": npz()},
    lambda: {"-symbol.json": GRAPH, "-0000.safetensors": safetensors()},
    lambda: {"-symbol.json.gz": gzip.compress(GRAPH), "-0000.params": params()},
    lambda: {".onnx": model()},
    lambda: {".onnx.gz": gzip.compress(model())},
    lambda: {".onnx": outside(), ".onnx.data": bytes(8)},
    # Of no graph: it may be data
    lambda: {".params": params(ExampleRecord("w", value=float("nan")))},
    lambda: {".npz": npz()},
    lambda: {".md": PAGE, ".json": b"{}", ".py": b"raise SystemExit(1)\n"},
]
FAULTS: dict[str, Callable[[], Files]] = {
    "parameters cut": lambda: {"-0000.params": params()[:-60], "-symbol.json": GRAPH},
    "parameters are text": lambda: {"-0000.params": b"see the wiki\n", "-symbol.json": GRAPH},
    "parameter missing": lambda: {"-symbol.json": GRAPH, "-0000.params": params(DENSE_RECORDS[0])},
    "parameter under aux:": lambda: {"-0000.params": params(DENSE_RECORDS[0], ExampleRecord("aux:fc_bias")),
                                     "-symbol.json": GRAPH},
    "parameter not finite": lambda: {"-0000.params": params(DENSE_RECORDS[0], ExampleRecord("arg:fc_bias", value=np.inf)),
                                     "-symbol.json": GRAPH},
    "older epoch cut": lambda: {"-0000.params": params()[:-60], "-symbol.json": GRAPH, "-0001.params": params()},
    "older epoch of another graph": lambda: {"-0000.params": params(*DENSE_RECORDS, ExampleRecord("arg:fc2_bias")),
                                             "-symbol.json": GRAPH, "-0001.params": params()},
    "npz cut": lambda: {"-0000.npz": npz()[:-30], "-symbol.json": GRAPH},
    "safetensors cut": lambda: {"-0000.safetensors": safetensors()[:-4], "-symbol.json": GRAPH},
    "parameters of no graph are a page": lambda: {".params": PAGE},
    "external data missing": lambda: {".onnx": outside()},
    "external data cut": lambda: {".onnx": outside(), ".onnx.data": bytes(7)},
    "ONNX cut": lambda: {".onnx": model()[:-20]},
    "ONNX reads nothing": lambda: {".onnx": model("nowhere")},
    "ONNX is text": lambda: {".onnx": b"version 2 of the model is on the share\n"},
    "ONNX is a symbol": lambda: {".onnx": GRAPH},
    "packed symbol cut": lambda: {"-symbol.json.gz": gzip.compress(GRAPH)[:-40]},
    "packed ONNX cut": lambda: {".onnx.gz": gzip.compress(model())[:-40]},
    "symbol is a page": lambda: {"-symbol.json": PAGE},
    "symbol is ONNX": lambda: {"-symbol.json": model()},
}  # fmt: skip
Tree = tuple[Path, list[str]]


def write(folder: Path, stem: str, files: Files) -> list[str]:
    assert len(stem) == len("STEM")  # the name of the data is in a field of that length
    for end, data in files.items():
        (folder / f"{stem}{end}").write_bytes(data.replace(b"STEM.onnx.data", f"{stem}.onnx.data".encode()) if end == ".onnx"
                                              and b"STEM" in data else data)  # fmt: skip
    return [f"{folder.name}/{stem}{end}" for end in files]


def plant(root: Path) -> list[str]:
    """Write the tree; return the paths of the forty files with faults."""
    chance = random.Random(26)
    folders = [root / f"f{number}" for number in range(20)]
    for path in folders:
        path.mkdir()
    stems = (f"m{number:03}" for number in range(FILES))
    planted, count = [], 0
    for make in [*FAULTS.values()] * 2:
        paths = write(chance.choice(folders), next(stems), make())
        planted.append(paths[0])
        count += len(paths)
    while count < FILES:
        files = dict(list(chance.choice(SOUND)().items())[: FILES - count])
        if ".onnx" in files and b"STEM" in files[".onnx"] and len(files) == 1:
            continue  # its data would be the file too many
        count += len(write(chance.choice(folders), next(stems), files))
    return sorted(planted)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    root = tmp_path_factory.mktemp("tree")
    planted = plant(root)
    assert len({*planted}) == 40
    assert sum(len(files) for _, _, files in os.walk(root)) == FILES
    return root, planted


def find_files(text: str) -> list[str]:
    """Return the files of the findings of a report as text or as annotations."""
    places = re.findall(
        r"^(?:::\w+ file=([^,]+),|(\S+?)(?::\d+:\d+)?: (?:error|warning|note) GS\d+)", text, re.M
    )
    return sorted({os.path.normpath(one or other) for one, other in places})


def test_there_are_twenty_kinds() -> None:
    assert len(FAULTS) == 20


def test_the_command_finds_them(tree: Tree) -> None:
    root, planted = tree
    run = in_process("check", ".", cwd=root)
    assert (run.returncode, find_files(run.stdout.decode())) == (1, planted)


def test_the_hook_finds_them(tree: Tree) -> None:
    """As pre-commit does: the files that match, in the order of git, as arguments."""
    root, planted = tree
    (entry, *_) = re.findall(
        r"^  entry: graphshare (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.M
    )
    (pattern, *_) = re.findall(
        r"^  files: (.*)$", (ROOT / ".pre-commit-hooks.yaml").read_text(), re.M
    )
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    run = graphshare(
        *entry.split(), *(path for path in files if re.search(pattern, path)), cwd=root
    )
    assert (run.returncode, find_files(run.stdout.decode())) == (1, planted)


def test_the_action_finds_them(tree: Tree, tmp_path: Path) -> None:
    root, planted = tree
    names, script = steps()[-1]
    (default,) = re.findall(
        r"^  paths:\n(?:    .*\n)*?    default: (.*)$", (ROOT / "action.yml").read_text(), re.M
    )
    program = tmp_path / "graphshare" / "bin" / "graphshare"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m graphshare "$@"\n')
    program.chmod(0o755)
    values = {
        name: default if expression == "inputs.paths" else "" for name, expression in names.items()
    }
    given = os.environ | values | {"RUNNER_TEMP": str(tmp_path), "GITHUB_ACTIONS": "true"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    run = subprocess.run(
        command, cwd=root, env=given, capture_output=True, text=True, check=False, timeout=100
    )
    assert (run.returncode, find_files(run.stdout)) == (1, planted)
