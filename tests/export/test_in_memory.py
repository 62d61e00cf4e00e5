"""An export without an output: an ONNX model in memory that goes on to rewrites, verify and save as
a loaded one does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.api.export import export
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError, RefusedError, UsageError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import Translation, Translator
from tests.export.test_control_flow import a_recurrent_layer
from tests.processes import ROOT, files_in
from tests.symbols import document, mxnet_text, operator, variable

LENET = ROOT / "fixtures" / "lenet"
SHAPE = {"data": (1, 1, 28, 28)}


def lenet(out: Path | None = None, **options: Any) -> Checkpoint:
    return export(LENET, out, shapes=SHAPE, **options)


def recurrent(out: Path | None = None, **options: Any) -> Checkpoint:
    weight = np.random.default_rng(2).normal(size=(3, 3)).astype("float32")
    model = Checkpoint(read_symbol(mxnet_text(a_recurrent_layer()).encode())).with_params(
        {"w": weight}
    )
    return export(
        model, out, **{"shapes": {"x": (4, 2, 3), "s": (2, 3)}, "as_input": ["x", "s"]} | options
    )


def recurrent_with_free_sizes(out: Path | None = None, **options: Any) -> Checkpoint:
    return recurrent(out, shapes={"x": ("steps:4", "batch:2", 3), "s": ("batch", 3)}, **options)


MODELS = [lenet, recurrent, recurrent_with_free_sizes]


@pytest.mark.parametrize("make", MODELS)
def test_it_is_proved_without_a_file_and_saved_as_the_same_bytes(
    make: Callable[..., Checkpoint], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exported = make()
    assert files_in(tmp_path) == []
    assert exported.report.proof
    assert (exported.report.path, exported.report.files) == ("", ())
    written = make(tmp_path / "file.onnx")
    assert written.report.files == (str(tmp_path / "file.onnx"),)
    gs.save(exported, tmp_path / "saved.onnx")
    gs.save(written, tmp_path / "again.onnx")
    wanted = (tmp_path / "file.onnx").read_bytes()
    assert (
        (tmp_path / "saved.onnx").read_bytes() == (tmp_path / "again.onnx").read_bytes() == wanted
    )


REWRITES: dict[str, Callable[[Any], Checkpoint]] = {
    "copy": lambda model: gs.duplicate(model, "a_", mode="copy"),
    "tie": lambda model: gs.duplicate(model, "a_", mode="tie"),
    "rename": lambda model: gs.rename(model, prefix="a_"),
    "twice": lambda model: gs.duplicate(gs.rename(model, prefix="a_"), "b_", mode="copy"),
}


@pytest.mark.parametrize("how", REWRITES)
@pytest.mark.parametrize("make", MODELS)
def test_a_rewrite_is_that_of_the_file(
    make: Callable[..., Checkpoint], how: str, tmp_path: Path
) -> None:
    make(tmp_path / "file.onnx", verify=False)
    gs.save(REWRITES[how](make(verify=False)), tmp_path / "memory.onnx")
    gs.save(REWRITES[how](tmp_path / "file.onnx"), tmp_path / "read.onnx")
    assert (tmp_path / "memory.onnx").read_bytes() == (tmp_path / "read.onnx").read_bytes()


def test_it_is_compared_with_its_source_and_between_branches() -> None:
    exported = lenet(verify=False)
    assert gs.compare(exported, LENET)
    assert gs.compare(LENET, exported)
    siamese = gs.duplicate(exported, "sha-", mode="copy")
    assert gs.verify(siamese)
    other = siamese.with_params({"sha-fc2_bias": exported.params["fc2_bias"] + 1})
    assert not gs.verify(other)


@pytest.mark.parametrize("make", MODELS)
def test_there_is_no_difference_to_the_file(
    make: Callable[..., Checkpoint], tmp_path: Path
) -> None:
    exported = make(tmp_path / "file.onnx", verify=False)
    read = gs.load(tmp_path / "file.onnx")
    assert not gs.diff(make(verify=False), read)
    assert exported.params.keys() == read.params.keys()
    assert all(np.array_equal(exported.params[name], read.params[name]) for name in read.params)


def test_weights_stay_in_their_file() -> None:
    exported = lenet(verify=False)
    assert exported.parameter_file is not None
    origins = {record.key: record.origin for record in exported.parameter_file.records}
    weight = origins["conv1_weight"]
    assert weight is not None
    assert weight.file is not None
    assert weight.array is None
    assert os.path.samefile(weight.file.path, f"{LENET}-0000.params")


def test_it_takes_other_parameters(tmp_path: Path) -> None:
    ones = np.ones(10, "float32")
    gs.save(lenet(verify=False).with_params({"fc2_bias": ones}), tmp_path / "other.onnx")
    assert np.array_equal(gs.load(tmp_path / "other.onnx").params["fc2_bias"], ones)


def test_a_graph_without_its_parameters_is_not_written(tmp_path: Path) -> None:
    alone = Checkpoint(lenet(verify=False).graph)
    with pytest.raises(RefusedError, match="is an initializer without a value"):
        gs.save(alone, tmp_path / "alone.onnx")
    assert files_in(tmp_path) == []


def test_weights_have_a_place_only_beside_a_file() -> None:
    for nowhere in (None, ""):
        with pytest.raises(UsageError, match="none is written"):
            export(LENET, nowhere, shapes=SHAPE, weights="external")


def test_constants_of_a_model_without_a_parameter_file_are_in_memory() -> None:
    graph = read_symbol(
        mxnet_text(
            document(
                [variable("x"), operator("_plus_scalar", "y", [0], attrs={"scalar": "2"})], [1]
            )
        ).encode()
    )
    file = export(Checkpoint(graph), shapes={"x": (2, 3)}).parameter_file
    assert file is not None
    assert (file.path, file.size, [record.key for record in file.records]) == (
        "<memory>",
        0,
        ["y/constant"],
    )


def test_a_note_names_four_arrays_that_keep_their_dtype() -> None:
    note = "8 arrays of BatchNorm stay float32: bn1_gamma, bn1_beta, bn2_gamma, bn2_beta and 4 more"
    assert note in lenet(dtype="float16", verify=False).notes


def test_a_wrong_model_is_disproved(monkeypatch: pytest.MonkeyPatch) -> None:
    def translate(t: Translation) -> str:
        return t.emit("Sigmoid", t.inputs[0])

    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(Translator("Activation", translate))
    with pytest.raises(
        DisprovedError, match=r"first value that differs is \w+_output \(Activation\)"
    ):
        lenet()


def test_names_may_begin_with_nul() -> None:
    nodes = [variable("\0000"), operator("relu", "\0001", [0]), operator("exp", "e", [1])]
    graph = read_symbol(json.dumps(document(nodes, [2])).encode())
    exported = export(Checkpoint(graph), shapes={"\0000": (1, 2)}).graph
    assert [node.op for node in exported.nodes] == ["", "Relu", "Exp"]


def test_a_group_of_both_formats_needs_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lenet(tmp_path / "one.onnx", verify=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", None)
    pair = gs.group([tmp_path / "one.onnx", LENET], prefixes=["a_", "b_"], shapes=SHAPE)
    gs.save(pair, tmp_path / "pair.onnx")
    assert files_in(tmp_path) == ["one.onnx", "pair.onnx"]
    assert gs.verify(tmp_path / "pair.onnx", prefixes=["a_", "b_"])


@pytest.mark.parametrize(
    ("heads", "renamed"),
    [
        ([1], ()),
        ([0], (("x", "x#1"),)),
        ([1, 1], (("y_output", "y_output#1"),)),
        ([1, 1, 1], (("y_output", "y_output#1"), ("y_output", "y_output#2"))),
        ([1, 0], (("x", "x#1"),)),
        ([1, 2], ()),
    ],
)
def test_only_heads_that_get_another_name_are_renamed(
    heads: list[int], renamed: tuple[tuple[str, str], ...]
) -> None:
    nodes = [variable("x"), operator("tanh", "y", [0]), operator("sigmoid", "z", [1])]
    model = Checkpoint(read_symbol(mxnet_text(document(nodes, heads)).encode()))
    report = export(model, shapes={"x": (2, 3)}).report
    assert report.renamed == renamed
    assert {new for _, new in renamed} <= set(report.outputs)


def test_every_rename_of_a_repeated_name_is_reported() -> None:
    nodes = [
        variable("x"),
        variable("x"),
        variable("x"),
        operator("tanh", "y", [0]),
        operator("sin", "y", [1]),
    ]
    model = Checkpoint(
        read_symbol(mxnet_text(document([*nodes, operator("cos", "y", [2])], [3, 4, 5])).encode())
    )
    report = export(model, shapes={"x": (2, 3)}).report
    outputs = (("y_output", "y_output#1"), ("y_output", "y_output#2"))
    assert report.renamed == (*outputs, ("x", "x#1"), ("x", "x#2"))
