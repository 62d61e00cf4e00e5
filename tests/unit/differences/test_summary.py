"""The summary of a difference: what the changes of a kind have in common."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import graphshare as gs
from tests.processes import ROOT


@pytest.fixture
def lenet(tmp_path: Path) -> gs.Checkpoint:
    for name in ("lenet-symbol.json", "lenet-0000.params"):
        shutil.copy(ROOT / "fixtures" / name, tmp_path)
    return gs.load(tmp_path / "lenet")


def summary(left: gs.Checkpoint, right: gs.Checkpoint) -> list[str]:
    return [part.text for part in gs.diff(left, right).summary]


def renamed(model: gs.Checkpoint, folder: Path, names: dict[str, str]) -> gs.Checkpoint:
    (folder / "names.json").write_text(json.dumps(names))
    return gs.rename(model, map=folder / "names.json")


def test_renamed_nodes_are_described_by_what_became_of_their_names(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    prefixed = gs.rename(lenet, prefix="net1_")
    assert summary(lenet, prefixed) == ["31 nodes renamed: all have the prefix net1_"]
    assert summary(prefixed, lenet) == ["31 nodes renamed: all lost the prefix net1_"]
    assert summary(prefixed, gs.rename(lenet, prefix="net2_")) == ["31 nodes renamed: all have the prefix net2 instead of net1"]
    names = {node.name: f"{node.name}_b" for node in lenet.graph.nodes}
    suffixed = renamed(lenet, tmp_path, names)
    assert summary(lenet, suffixed) == ["31 nodes renamed: all have the suffix _b"]
    assert summary(suffixed, lenet) == ["31 nodes renamed: all lost the suffix _b"]
    mixed = renamed(lenet, tmp_path, {**dict(list(names.items())[:20]), "softmax": "out"})
    assert summary(lenet, mixed) == ["21 nodes renamed: 20 have the suffix _b, 1 otherwise"]


def test_added_and_removed_nodes_are_described_by_prefix_or_operator(lenet: gs.Checkpoint) -> None:
    siamese = gs.duplicate(lenet, "sha-", mode="tie")
    assert summary(lenet, siamese) == ["15 nodes added: all have the prefix sha-", "1 output changed"]
    assert summary(siamese, lenet)[0] == "15 nodes removed: all have the prefix sha-"
    three = gs.duplicate(lenet, ["a-", "b-"], mode="copy")
    assert summary(lenet, three) == [
        "62 nodes added: 31 have the prefix a-, 31 have the prefix b-",
        "2 outputs changed",
        "32 parameters added",
    ]
    cut = gs.extract(lenet, "pool2")
    assert summary(lenet, cut)[0] == "10 nodes removed: variable 5, FullyConnected 2, Flatten 1 and 2 more"


def test_changed_nodes_and_parameters_are_described_by_what_changed(lenet: gs.Checkpoint, tmp_path: Path) -> None:
    text = (tmp_path / "lenet-symbol.json").read_text()
    (tmp_path / "b-symbol.json").write_text(text.replace('"act_type": "tanh"', '"act_type": "relu"'))
    moved = {name: np.array(array) for name, array in lenet.params.items()}
    moved["fc2_bias"][3] += 0.25
    moved["fc1_bias"][0] += 0.125
    other = gs.load(tmp_path / "b-symbol.json").with_params(moved)
    assert summary(lenet, other) == [
        "3 nodes changed: attribute act_type of 3 (tanh -> relu)",
        "2 parameters changed: values of 2; max abs 0.25",
    ]
    assert summary(lenet, lenet) == []


def test_long_names_are_compared_in_linear_time(tmp_path: Path) -> None:
    """The prefixes of a name of a million characters would be a terabyte of text."""
    text = (ROOT / "fixtures" / "lenet-symbol.json").read_text()
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(
            text.replace('"flatten"', f'"{name * 1_000_000}"').replace('"name": "tanh', f'"name": "{name}tanh')
        )
    assert gs.diff(tmp_path / "a.json", tmp_path / "b.json", renames=False).summary[0].what == "removed"
    found = gs.diff(tmp_path / "a.json", tmp_path / "b.json").summary
    assert [part.text for part in found] == ["4 nodes renamed: 3 have the prefix b instead of a, 1 otherwise"]
