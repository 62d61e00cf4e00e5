"""0 is not -0, and not every NaN is the same: files are compared in bits, as 1 / x tells them apart."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.verification.inputs import read_bits
from tests.onnx_files.mutable import build, declare, node
from tests.processes import graphshare

Floats = NDArray[np.float32]
PLUS, MINUS = np.zeros(1, np.float32), -np.zeros(1, np.float32)
NAN = np.array([np.nan], np.float32)
OTHER_NAN = (NAN.view(np.uint32) + 1).view(np.float32)


def write(path: Path, *nodes: NodeProto, weights: tuple[TensorProto, ...] = ()) -> Path:
    path.write_bytes(
        build(nodes, [declare("x", (4,))], [declare("y", (4,))], weights).SerializeToString()
    )
    return path


def attribute(number: Floats, kind: int = onnx.AttributeProto.FLOAT) -> NodeProto:
    step = node("LeakyRelu", "x", "y")
    stated = step.attribute.add(name="alpha", type=kind)
    if kind == onnx.AttributeProto.FLOAT:
        stated.f = float(number[0])
    else:
        stated.floats.extend(map(float, number))
    # Bits, which a number of Python need not keep.
    bits = stated.SerializeToString().replace(
        np.float32(float(number[0])).tobytes(), number.tobytes()
    )
    step.attribute[0].CopyFrom(onnx.AttributeProto.FromString(bits))
    return step


def pad(number: Floats, size: int = 16) -> TensorProto:
    values = np.arange(size, dtype=np.float32)
    values.view(np.uint32)[0] = number.view(np.uint32)[0]
    return numpy_helper.from_array(values.reshape(-1, 4), "w")


def sparse(number: Floats) -> ModelProto:
    values, places = (
        numpy_helper.from_array(number, "w"),
        numpy_helper.from_array(np.array([1]), ""),
    )
    model = build([node("Div", "x w", "y")], [declare("x", (4,))], [declare("y", (4,))])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4]))
    return model


PLACES: dict[str, Callable[[Path, Floats], Path]] = {
    "float": lambda path, number: write(path, attribute(number)),
    "floats": lambda path, number: write(path, attribute(number, onnx.AttributeProto.FLOATS)),
    "small Constant": lambda path, number: write(
        path,
        node("Constant", "", "k", value=numpy_helper.from_array(number)),
        node("Div", "x k", "y"),
    ),
    "Constant": lambda path, number: write(
        path, node("Constant", "", "k", value=pad(number)), node("Div", "x k", "y")
    ),
    "initializer": lambda path, number: write(
        path, node("Div", "x w", "y"), weights=(pad(number),)
    ),
    "sparse initializer": lambda path, number: (
        path.write_bytes(sparse(number).SerializeToString()),
        path,
    )[1],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    ("first", "second"), [(PLUS, MINUS), (NAN, OTHER_NAN)], ids=["zero", "NaN"]
)
def test_diff_compares_bits(place: str, first: Floats, second: Floats, tmp_path: Path) -> None:
    paths = [
        PLACES[place](tmp_path / f"{i}.onnx", number)
        for i, number in enumerate((first, second, first))
    ]
    assert gs.diff(paths[0], paths[1])
    assert not gs.diff(paths[0], paths[2])


def test_the_reports_say_that_bits_alone_differ(tmp_path: Path) -> None:
    paths = [
        PLACES["initializer"](tmp_path / f"{i}.onnx", number)
        for i, number in enumerate((PLUS, MINUS))
    ]
    assert gs.diff(*paths).verdict == "DIFFERENT: 1 parameter (bits)"
    assert [line.text for line in gs.diff(*paths).summary] == ["1 parameter changed: bits of 1"]
    for command in (["diff"], ["params", "diff"]):
        run = graphshare(*command, *paths, "--format", "json")
        report = json.loads(run.stdout)
        (change,) = report.get("parameters", report)["changes"]
        assert (run.returncode, report["version"], report["different"], change["how"]) == (
            1,
            2,
            True,
            "bits",
        )
        assert (change["distance"]["differing"], change["distance"]["bits"]) == (1, 1)
        assert graphshare(*command, *paths, "--atol", "1e-9").returncode == 0


@pytest.mark.parametrize(
    ("first", "second"), [(PLUS, MINUS), (NAN, OTHER_NAN)], ids=["zero", "NaN"]
)
def test_nothing_is_shared_that_differs_in_bits(
    first: Floats, second: Floats, tmp_path: Path
) -> None:
    one, other = pad(first, 512), pad(second, 512)
    other.name = "v"
    both = write(
        tmp_path / "both.onnx",
        node("Div", "x w", "h"),
        node("Div", "h v", "y"),
        weights=(one, other),
    )
    assert not gs.detect(both)
    assert gs.pool([both], tmp_path / "pool").distinct == 2 * 512 * 4
    left, right = (
        write(tmp_path / f"{i}.onnx", node("Div", "x w", "y"), weights=(pad(n),))
        for i, n in enumerate((first, second))
    )
    with pytest.raises(gs.GraphshareError, match="'w'"):
        gs.group([left, right], share_inputs=["x"], on_collision="tie-if-equal")
    report = gs.compare(left, right)
    assert report.rung != "exact"
    (change,) = report.branches[0].stages[0].details
    assert change.startswith("'w' and 'w': ")


def test_inputs_of_other_bits_are_not_one_input() -> None:
    assert read_bits(PLUS) == read_bits(PLUS.copy())
    assert read_bits(NAN) == read_bits(NAN.copy())
    assert read_bits(PLUS) != read_bits(MINUS)
    assert read_bits(PLUS) != read_bits(None)
