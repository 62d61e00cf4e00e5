"""Inputs that both models of a proof accept: fixed sizes of either, sets from files, and bodies that were computed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import helper

import graphshare as gs
from tests.onnx_files.test_run import build
from tests.onnx_files.test_verify import write

FLOAT = onnx.TensorProto.FLOAT
Sizes = list[int | str]


def negate(folder: Path, name: str, sizes: Sizes, op: str = "Neg") -> Path:
    """Write a model whose input has these sizes."""
    return write(folder, name, build([helper.make_node(op, ["x"], ["y"])], {"x": (FLOAT, sizes)}, {"y": FLOAT}))


@pytest.mark.parametrize("options", [{}, {"values_only": True}, {"values_only": True, "layers": True}])
@pytest.mark.parametrize("is_turned", [False, True])
def test_sizes_that_either_model_fixes_are_drawn(options: dict[str, bool], is_turned: bool, tmp_path: Path) -> None:
    pair = negate(tmp_path, "open", ["N", 3, "H", 5]), negate(tmp_path, "fixed", [4, 3, 7, "W"])
    path, other = reversed(pair) if is_turned else pair
    report = gs.verify(path, against=other, **options)
    assert report
    assert {output.shape for output in report.branches[0].rounds[0].outputs} == {(4, 3, 7, 5)}


@pytest.mark.parametrize("options", [{}, {"values_only": True}, {"values_only": True, "layers": True}])
@pytest.mark.parametrize("sizes", [[1, 3, 256], [1, 3, 224, 224]])
def test_sizes_that_contradict_each_other_are_named(options: dict[str, bool], sizes: Sizes, tmp_path: Path) -> None:
    path, other = negate(tmp_path, "small", [1, 3, 224]), negate(tmp_path, "large", sizes)
    with pytest.raises(gs.GraphshareError, match=r"input 'x' is 1x3x[0-9x]+ in .*\.onnx, and 1x3x[0-9x]+ in ") as raised:
        gs.verify(path, against=other, **options)
    assert all(name in str(raised.value) for name in ("small.onnx", "large.onnx", "1x3x224 ", "x".join(map(str, sizes))))


def test_sizes_that_are_given_fit_both_models(tmp_path: Path) -> None:
    path, other = negate(tmp_path, "open", ["N", 3]), negate(tmp_path, "fixed", [4, 3])
    assert gs.verify(path, against=other, shapes={"x": (4, None)}, values_only=True)
    with pytest.raises(gs.GraphshareError, match=r"input 'x' is 2x3 as it was given, and 4x3 in .*fixed\.onnx"):
        gs.verify(path, against=other, shapes={"x": (2, 3)}, values_only=True)
