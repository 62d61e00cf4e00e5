"""What duplicates must not break: barriers, auxiliary states that a branch shares, names that need care."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from graphshare.analysis.name_lists import NameLists
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.attributes import read_value
from tests.oracle.commands import in_process
from tests.oracle.conversation import Oracle

pytestmark = pytest.mark.oracle


def mxnet_text(graph: dict[str, Any]) -> str:
    """JSON with the escapes that MXNet reads: no others."""
    text = json.dumps(graph, ensure_ascii=False)
    return re.sub(r"\\u00([01].)", lambda match: chr(int(match[1], 16)), text)


def variable(name: str, **attrs: str) -> dict[str, Any]:
    return {"op": "null", "name": name, "attrs": attrs, "inputs": []}


def norm_graph(op: str, **attrs: str) -> dict[str, Any]:
    """data -> normalisation, with states of its own."""
    names = ["data", "bn_gamma", "bn_beta", "bn_moving_mean", "bn_moving_var"]
    node = {
        "op": op,
        "name": "bn",
        "attrs": attrs,
        "inputs": [[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 1], [4, 0, 1]],
    }
    return {
        "nodes": [*map(variable, names), node],
        "arg_nodes": [0, 1, 2, 3, 4],
        "node_row_ptr": [0, 1, 2, 3, 4, 5, 8],
        "heads": [[5, 0, 0]],
        "attrs": {"mxnet_version": ["int", 10901]},
    }


def values_of(directory: Path, names: dict[str, Any]) -> str:
    path = directory / "values.npz"
    np.savez(path, **{name: np.asarray(value, "float32") for name, value in names.items()})
    return str(path)


@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_the_key_of_a_barrier_is_one_for_each_branch(
    oracle: Oracle, tmp_path: Path, mode: str
) -> None:
    source, out = tmp_path / "one.json", tmp_path / "twin.json"
    source.write_text(
        mxnet_text(norm_graph("_contrib_SyncBatchNorm", key="bn_key", ndev="1", fix_gamma="False"))
    )
    in_process("duplicate", source, "--prefix", "sha-", "--prefix", "b-", "--mode", mode, "-o", out)
    attributes = oracle.known("attributes", path=str(out))
    found = {name: attrs["key"] for name, attrs in attributes.items() if "key" in attrs}
    assert found == {"bn": "bn_key", "sha-bn": "sha-bn_key", "b-bn": "b-bn_key"}
    single = {
        "data": np.arange(24).reshape(2, 3, 4, 1),
        "bn_gamma": [1, 2, 3],
        "bn_beta": [0, 1, 0],
        "bn_moving_mean": [5, 6, 7],
        "bn_moving_var": [1, 4, 9],
    }
    alone = oracle.known("forward", path=str(source), values=[values_of(tmp_path, single)])
    everything = {
        prefix + name: value for prefix in ("", "sha-", "b-") for name, value in single.items()
    }
    together = oracle.known("forward", path=str(out), values=[values_of(tmp_path, everything)])
    assert together["outputs"] == alone["outputs"] * 3
    shared = ["bn_moving_mean", "bn_moving_var"]
    lists = oracle.known("lists", path=str(out))
    assert lists["auxiliary_states"] == (
        shared if mode == "tie" else [p + n for p in ("", "sha-", "b-") for n in shared]
    )


NAMES = [
    "层/é:å",
    'a"quote',
    "back\\slash",
    "tab\there",
    "line\nfeed",
    "ret\rurn",
    "ctrl\x01\x1f\x7f",
    "/",
    " blank ",
    "%s{0}",
]


@pytest.mark.parametrize("prefix", ["sha-", "层é/", 'q"', "t\t", "\\n"])
def test_names_that_need_care(oracle: Oracle, tmp_path: Path, prefix: str) -> None:
    source, out = tmp_path / "one.json", tmp_path / "twin.json"
    count = len(NAMES)
    nodes = [variable(name, __note__=name) for name in NAMES]
    for i, name in enumerate(NAMES):
        before = count + i - 1 if i else 0
        nodes.append(
            {
                "op": "elemwise_add",
                "name": f"{name}+",
                "attrs": {},
                "inputs": [[before, 0, 0], [i, 0, 0]],
            }
        )
    graph = {"nodes": nodes, "arg_nodes": list(range(count)), "heads": [[2 * count - 1, 0, 0]]}
    source.write_text(
        mxnet_text(graph | {"attrs": {"mxnet_version": ["int", 10901]}}),
        encoding="utf-8",
        newline="",
    )
    in_process("duplicate", source, "--prefix", prefix, "-o", out)
    single, twin = (oracle.known("lists", path=str(path)) for path in (source, out))
    # A variable that nothing but its own sum uses is listed where MXNet first meets it.
    assert sorted(single["arguments"]) == sorted(NAMES)
    assert twin["arguments"] == single["arguments"] + [
        prefix + name for name in single["arguments"]
    ]
    assert twin["outputs"] == single["outputs"] + [prefix + name for name in single["outputs"]]
    assert NameLists(read_symbol(out.read_bytes())).arguments == twin["arguments"]
    notes = oracle.known("attributes", path=str(out))
    assert all(
        notes[name]["__note__"] == notes[prefix + name]["__note__"] == name for name in NAMES
    )


@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_names_that_need_care_keep_their_values(oracle: Oracle, tmp_path: Path, mode: str) -> None:
    """Through a parameter file too."""
    source, out = tmp_path / "one.json", tmp_path / "twin.json"
    weight, prefix = 'w"层\tweight', "é/"
    node = {"op": "FullyConnected", "name": "层", "attrs": {"num_hidden": "2", "no_bias": "True"}}
    node["inputs"] = [[0, 0, 0], [1, 0, 0]]
    graph = {
        "nodes": [variable("data"), variable(weight), node],
        "arg_nodes": [0, 1],
        "heads": [[2, 0, 0]],
    }
    source.write_text(
        mxnet_text(graph | {"attrs": {"mxnet_version": ["int", 10901]}}), encoding="utf-8"
    )
    params = tmp_path / "p.npz"
    np.savez(params, **{f"arg:{weight}": np.float32([[1, 2, 3], [4, 5, 6]])})
    made = tmp_path / "made.params"
    in_process(
        "duplicate", source, "--params", params, "--prefix", prefix, "--mode", mode, "-o", out, "--params-out", made
    )  # fmt: skip
    data = np.float32([[1, 1, 1]])
    feed = values_of(tmp_path, {"data": data, f"{prefix}data": data})
    answer = oracle.known("forward", path=str(out), values=[str(made), feed])
    alone = oracle.known("forward", path=str(source), values=[str(params), feed])
    assert answer["outputs"] == alone["outputs"] * 2
    assert len(oracle.known("nd_load", path=str(made))) == (2 if mode == "copy" else 1)


READING = """
def read(kind, text):
    try:
        if kind == "double":
            return float(mx.nd._internal._plus_scalar(mx.nd.zeros((1,), dtype="float64"), scalar=text).asscalar()).hex()
        return (-float(mx.nd.LeakyReLU(mx.nd.array([-1.0]), act_type="leaky", slope=text).asscalar())).hex()
    except mx.base.MXNetError:
        return None
"""


def make_number(random: Random, kind: str) -> str:
    """The text of a number, of up to 22 digits with a point somewhere, and an exponent up to that of the kind."""
    if random.random() < 0.2:
        return repr(random.gauss(0, 1) * 10.0 ** random.randint(-12, 12))
    digits = "".join(random.choices("0123456789", k=random.choice([1, 3, 7, 8, 9, 12, 17, 22])))
    point = random.randint(0, len(digits))
    highest = 310 if kind == "double" else 39
    exponent = random.choice(
        [
            "",
            f"e{random.randint(-8, 8)}",
            f"e{random.randint(-highest, highest)}",
            f"E+{highest - 2}",
        ]
    )
    return random.choice(["", "-"]) + digits[:point] + "." + digits[point:] + exponent


@pytest.mark.parametrize("kind", ["float", "double"])
def test_numbers_have_the_bits_that_mxnet_reads(oracle: Oracle, kind: str) -> None:
    random = Random(7)
    texts = sorted({make_number(random, kind) for _ in range(600)})
    code = f"{READING}\nresult = [read({kind!r}, text) for text in {texts!r}]"
    wrong = []
    for text, real in zip(texts, oracle.known("author", code=code)["result"], strict=True):
        try:
            ours = float(read_value(kind, text)).hex()
        except ValueError:
            ours = None
        # The sign of a zero is lost where MXNet computes with it.
        if ours != real and not (
            ours is not None
            and real is not None
            and float.fromhex(ours) == float.fromhex(real) == 0
        ):
            wrong.append((text, ours, real))
    assert not wrong
