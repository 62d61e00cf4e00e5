"""``export`` in float16 with float32 ends, and with inputs of other dtypes than the graph's, as
onnxruntime runs them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto

import graphshare as gs
from graphshare.api.export import export
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import DisprovedError, RefusedError, UsageError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import Translation, Translator
from tests.processes import ROOT, done, graphshare, refused
from tests.symbols import document, mxnet_text, operator, variable

LENET = ROOT / "fixtures" / "lenet"
DATA = np.random.default_rng(0).standard_normal((3, 1, 28, 28)).astype("f4")
SHAPE = {"data": (3, 1, 28, 28)}
FLOAT, HALF, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


def read(path: Path) -> onnx.ModelProto:
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return model


def run(path: Path, **feeds: Any) -> list[np.ndarray]:
    return list(
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feeds)
    )


def list_ends(model: onnx.ModelProto) -> dict[str, int]:
    return {
        value.name: value.type.tensor_type.elem_type
        for value in (*model.graph.input, *model.graph.output)
    }


def list_ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    "more", [{}, {"fold": True}, {"dynamic_batch": True}, {"shapes": {"data": ("n:2", 1, 28, 28)}}]
)
@pytest.mark.parametrize("keep_io", [False, True])
def test_a_float16_model_has_the_ends_that_are_asked_for(
    tmp_path: Path, keep_io: bool, more: dict[str, Any]
) -> None:
    facts = export(
        LENET, tmp_path / "x.onnx", dtype="float16", keep_io=keep_io, **{"shapes": SHAPE} | more
    ).report
    assert facts.proof
    model = read(tmp_path / "x.onnx")
    assert list_ends(model) == dict.fromkeys(("data", "softmax_output"), FLOAT if keep_io else HALF)
    weights = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    assert {
        weights[name]
        for name in weights
        if name.startswith(("conv", "fc")) and "constant" not in name
    } == {HALF}
    assert [note for note in facts.notes if "stay float32" in note] == (
        []
        if "fold" in more
        else [
            "8 arrays of BatchNorm stay float32: bn1_gamma, bn1_beta, bn2_gamma, bn2_beta and 4 more"
        ]
    )
    (got,) = run(tmp_path / "x.onnx", data=DATA if keep_io else DATA.astype("f2"))
    (wanted,) = gs.run(LENET, feeds={"data": DATA}).outputs.values()
    assert got.dtype == ("f4" if keep_io else "f2")
    assert np.abs(got - wanted).max() < 5e-3
    assert not np.array_equal(got, wanted)
    if "fold" not in more and more:
        (one,) = run(tmp_path / "x.onnx", data=(DATA if keep_io else DATA.astype("f2"))[:1])
        assert np.abs(one - got[:1]).max() < 1e-3


def test_ties_and_branches_stay_in_float16(tmp_path: Path) -> None:
    siamese = gs.duplicate(LENET, prefixes="b-", mode="tie")
    facts = export(
        siamese, tmp_path / "x.onnx", shapes={"data": (1, 1, 28, 28)}, dtype="float16", keep_io=True
    ).report
    assert "bit for bit in the branches" in facts.proof.verdict
    model = read(tmp_path / "x.onnx")
    assert {*list_ends(model).values()} == {FLOAT}
    assert (
        len(
            [
                tensor.name
                for tensor in model.graph.initializer
                if tensor.name.endswith("conv1_weight")
            ]
        )
        == 1
    )
    assert list_ops(model).count("Conv") == 4


def test_a_model_of_float16_records_keeps_its_ends_too_and_stays_in_memory(tmp_path: Path) -> None:
    gs.convert(f"{LENET}-0000.params", tmp_path / "half.params", dtype="float16")
    half = gs.load(f"{LENET}-symbol.json", params=tmp_path / "half.params")
    exported = export(half, shapes=SHAPE, keep_io=True)
    assert exported.report.proof
    assert gs.compare(exported, half, shapes=SHAPE)
    assert gs.compare(exported, LENET, shapes=SHAPE)
    gs.save(exported, tmp_path / "x.onnx")
    export(LENET, tmp_path / "y.onnx", shapes=SHAPE, keep_io=True, dtype="float16")
    assert read(tmp_path / "x.onnx").graph.node == read(tmp_path / "y.onnx").graph.node
    export(half, tmp_path / "back.onnx", shapes=SHAPE, dtype="float32")
    assert {*list_ends(read(tmp_path / "back.onnx")).values()} == {FLOAT}


@pytest.mark.parametrize("weights", ["external", "params"])
def test_float16_weights_go_where_they_can(tmp_path: Path, weights: Any) -> None:
    gs.save(gs.load(LENET), tmp_path / "lenet")
    facts = export(
        tmp_path / "lenet", tmp_path / "x.onnx", shapes=SHAPE, dtype="float16", weights=weights
    ).report
    assert facts.proof
    read(tmp_path / "x.onnx")
    assert ("fc1_weight" in facts.embedded) == (weights == "params")


def test_numbers_that_float16_cannot_hold_are_named(tmp_path: Path) -> None:
    model = gs.load(LENET)
    bias = np.array(model.params["fc2_bias"])
    bias[0] = 1e6
    facts = export(
        model.with_params({"fc2_bias": bias}), shapes=SHAPE, dtype="float16", verify=False
    ).report
    assert "1 number of 'arg:fc2_bias' became infinite in float16" in facts.notes


def tokens() -> Checkpoint:
    """An embedding, a gathered table, one-hot rows and a sum, all of ``data0``; ``data1`` is only an index."""
    nodes = [
        variable("data0"),
        variable("data1"),
        variable("table"),
        operator("Embedding", "embedded", [0, 2], attrs={"input_dim": "300", "output_dim": "4"}),
        operator("take", "taken", [2, 1]),
        operator("one_hot", "hot", [1], attrs={"depth": "4"}),
        operator("_mul_scalar", "halved", [0], attrs={"scalar": "0.5"}),
    ]
    graph = read_symbol(mxnet_text(document(nodes, [3, 4, 5, 6])).encode())
    return Checkpoint(graph).with_params(
        {"table": np.random.default_rng(1).normal(size=(300, 4)).astype("f4")}
    )


TOKENS = {"data0": (2, 3), "data1": (5,)}


@pytest.mark.parametrize("dtype", [None, "float16"])
@pytest.mark.parametrize(
    "more", [{}, {"shapes": TOKENS | {"data0": ("n:2", 3)}}, {"keep_io": True}]
)
def test_tokens_are_int64_and_cast_where_the_graph_needs_floats(
    tmp_path: Path, dtype: str | None, more: Any
) -> None:
    if more == {"keep_io": True} and dtype is None:
        return
    stated = {"data0": "int64", "data1": "int64"}
    proof = export(
        tokens(), tmp_path / "x.onnx", input_dtypes=stated, dtype=dtype, **{"shapes": TOKENS} | more
    ).report.proof
    assert proof
    model = read(tmp_path / "x.onnx")
    assert {name: list_ends(model)[name] for name in stated} == {"data0": INT64, "data1": INT64}
    feeds = {"data0": np.array([[0, 299, 7], [257, 3, 1]]), "data1": np.array([0, 3, 2, 299, 1])}
    got = run(tmp_path / "x.onnx", **feeds)
    wanted = gs.run(
        tokens(), feeds={name: array.astype("f4") for name, array in feeds.items()}
    ).outputs.values()
    for have, want in zip(got, wanted, strict=True):
        assert np.allclose(have, want, rtol=1e-3, atol=1e-3)
    assert gs.compare(tmp_path / "x.onnx", tokens(), shapes=TOKENS)
    if dtype is None:
        assert gs.compare(tokens(), tmp_path / "x.onnx", shapes=TOKENS)
    casts = [
        node for node in model.graph.node if node.op_type == "Cast" and node.input[0] in stated
    ]
    # Of which a half is taken; what is only an index needs none
    assert [node.input[0] for node in casts] == ["data0"]


def test_indices_are_exact_where_floats_end() -> None:
    graph = read_symbol(
        mxnet_text(
            document(
                [variable("data"), operator("Cast", "cast", [0], attrs={"dtype": "int64"})], [1]
            )
        ).encode()
    )
    exported = export(Checkpoint(graph), shapes={"data": (2,)}, input_dtypes={"data": "int32"})
    assert exported.report.proof
    got = gs.run(exported, feeds={"data": np.array([2**24 + 1, -(2**31)], "i4")}).outputs[
        "cast_output"
    ]
    assert got.tolist() == [2**24 + 1, -(2**31)]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool", "float16", "float64"])
def test_an_image_may_have_any_dtype(tmp_path: Path, dtype: str) -> None:
    assert export(
        LENET, tmp_path / "x.onnx", shapes=SHAPE, input_dtypes={"data": dtype}
    ).report.proof
    read(tmp_path / "x.onnx")
    image = np.abs(DATA * 9).astype(dtype)
    (got,) = run(tmp_path / "x.onnx", data=image)
    (wanted,) = gs.run(LENET, feeds={"data": image.astype("f4")}).outputs.values()
    assert np.allclose(got, wanted, atol=1e-5)


def test_feeds_are_numbers_of_the_dtype_that_the_model_states() -> None:
    feeds = {"data0": np.array([[1, 2, 299]]), "data1": np.array([3])}
    assert export(tokens(), feeds=feeds, input_dtypes={"data0": "int64"}).report.proof
    with pytest.raises(
        RefusedError, match="'data0' is float64, and not all of its values fit into int64"
    ):
        export(
            tokens(), feeds={**feeds, "data0": np.array([[0.5]])}, input_dtypes={"data0": "int64"}
        )


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"input_dtypes": {"date0": "int64"}},
            "`input_dtypes` 'date0' is not an input of the model",
            "did you mean 'data0'",
        ),
        (
            {"input_dtypes": {"table": "int64"}},
            "`input_dtypes` 'table' is not an input of the model",
            "",
        ),
        (
            {"input_dtypes": {"data0": "int4"}},
            "`input_dtypes` has the dtype 'int4', which no input can have",
            "the dtypes are",
        ),
        (
            {"input_dtypes": {"data0": "uint8"}},
            "'data0' is an index up to 299, and uint8 holds integers up to 255",
            "int64",
        ),
        (
            {"input_dtypes": {"data0": "bool"}},
            "'data0' is an index up to 299, and bool holds integers up to 1",
            "int64",
        ),
        (
            {"keep_io": True},
            "`keep_io` keeps nothing: no input or output is float16",
            "`dtype='float16'` makes them",
        ),
        ({"dtype": "int8"}, "cannot convert to int8", "the dtypes are float16, float32, float64"),
    ],
)
def test_what_cannot_be_is_refused_with_a_hint(
    tmp_path: Path, options: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as error:
        export(tokens(), tmp_path / "x.onnx", shapes=TOKENS, **options)
    (fault,) = error.value.faults
    assert fault.message == message
    assert hint in (fault.hint or "")
    assert not [*tmp_path.iterdir()]


def test_a_wrong_translation_is_found_behind_the_casts(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(t: Translation) -> str:
        return t.emit("Neg", t.inputs[0])

    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(Translator("Activation", wrong))
    with pytest.raises(DisprovedError, match="softmax_output; the first value that differs is"):
        export(LENET, shapes=SHAPE, dtype="float16", keep_io=True)
    with pytest.raises(DisprovedError, match="softmax_output; the first value that differs is"):
        export(LENET, shapes=SHAPE, input_dtypes={"data": "uint8"})


def test_the_command_has_the_options(tmp_path: Path) -> None:
    base = ("export", str(LENET), "--shape", "data=1,1,28,28", "-o", "x.onnx")
    ran = done(
        graphshare(
            *base, "--dtype", "float16", "--keep-io", "--input-dtype", "data=uint8", cwd=tmp_path
        )
    )
    assert b"8 arrays of BatchNorm stay float32" in ran.stderr
    assert list_ends(read(tmp_path / "x.onnx")) == {
        "data": TensorProto.UINT8,
        "softmax_output": FLOAT,
    }
    message = refused(graphshare(*base, "--input-dtype", "int64", cwd=tmp_path))
    assert "--input-dtype 'int64' names no input and type" in message
    message = refused(graphshare(*base, "--input-dtype", "date=int64", cwd=tmp_path))
    assert "--input-dtype 'date' is not an input of the model" in message
