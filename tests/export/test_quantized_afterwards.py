"""What onnxruntime.quantization makes of exported models: the sizes in the cookbook, which ties
stay, and what goes wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.quantization.shape_inference import quant_pre_process

import graphshare as gs
from graphshare.checkpoint.model import Checkpoint
from graphshare.formats.mxnet.symbol import read_symbol
from tests.processes import ROOT
from tests.symbols import document, mxnet_text, operator, variable

LENET = ROOT / "fixtures" / "lenet"
PAGE = ROOT / "docs" / "cookbook" / "smaller.md"
SHAPE = {"data": (1, 1, 28, 28)}
DATA = np.random.default_rng(5).standard_normal((1, 1, 28, 28)).astype("f4")
FORMATS = {"QDQ": QuantFormat.QDQ, "QOperator": QuantFormat.QOperator}


class Samples(CalibrationDataReader):
    """Eight inputs, equal for all branches but for a factor by name."""

    def __init__(self, names: Sequence[str], factors: Mapping[str, float] = {}) -> None:
        random = np.random.default_rng(0)
        drawn = [random.standard_normal((1, 1, 28, 28)) for _ in range(8)]
        self._feeds: Iterator[dict[str, Any]] = iter(
            [{name: (data * factors.get(name, 1)).astype("f4") for name in names} for data in drawn]
        )

    def get_next(self) -> dict[str, Any]:
        return next(self._feeds, {})


def run(path: Path, **feeds: Any) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return list(
        session.run(
            None, {x.name: feeds.get(x.name.replace("-", "_"), DATA) for x in session.get_inputs()}
        )
    )


def quantize(source: Path, target: Path, format_: str, **factors: float) -> None:
    names = [value.name for value in onnx.load(source).graph.input]
    samples = Samples(names, {name.replace("_", "-"): factor for name, factor in factors.items()})
    quantize_static(source, target, samples, quant_format=FORMATS[format_])


def list_weights(path: Path) -> list[str]:
    """Return the initializers of more than 200 bytes."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return sorted(tensor.name for tensor in model.graph.initializer if len(tensor.raw_data) > 200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantized")
    models = {
        "one": gs.load(LENET),
        "tie": gs.duplicate(LENET, prefixes="b-", mode="tie"),
        "copy": gs.duplicate(LENET, prefixes="b-"),
    }
    for name, model in models.items():
        gs.export(model, folder / f"{name}.onnx", shapes=SHAPE)
        gs.export(model, folder / f"{name}.fold.onnx", shapes=SHAPE, fold=True)
        gs.export(model, folder / f"{name}.half.onnx", shapes=SHAPE, dtype="float16", keep_io=True)
    return folder


ROWS: dict[str, Callable[[Path, Path], Any]] = {
    "`quantize_dynamic`": quantize_dynamic,
    "`quantize_static` (QDQ)": lambda source, target: quantize(source, target, "QDQ"),
    "`quantize_static` (QOperator)": lambda source, target: quantize(source, target, "QOperator"),
    "`quant_pre_process`": lambda source, target: quant_pre_process(
        source, target, skip_symbolic_shape=True
    ),
}


def measure(row: str, source: Path, target: Path) -> Path:
    if row in ROWS:
        ROWS[row](source, target)
        return target
    if row == "`quant_pre_process` of a model with `--fold`":
        quant_pre_process(source.with_suffix(".fold.onnx"), target, skip_symbolic_shape=True)
        return target
    return source.with_suffix(".half.onnx") if "float16" in row else source


TABLE = re.findall(
    r"^\| (.*?) \| ([\d.]+) kB \| ([\d.]+) kB \| ([\d.]+) kB \|$",
    PAGE.read_text(encoding="utf-8"),
    re.M,
)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row[0])
def test_the_sizes_of_the_page(folder: Path, tmp_path: Path, row: Sequence[str]) -> None:
    what, *sizes = row
    files = [
        measure(what, folder / f"{name}.onnx", tmp_path / f"{name}.onnx")
        for name in ("one", "tie", "copy")
    ]
    assert [file.stat().st_size / 1000 for file in files] == pytest.approx(
        list(map(float, sizes)), rel=0.03
    )


def test_the_page_has_every_row() -> None:
    assert len(TABLE) == 7
    assert ROWS.keys() < {row[0] for row in TABLE}


@pytest.mark.parametrize("row", [row for row in ROWS if "static" not in row or "QDQ" in row])
def test_tied_weights_are_quantized_once_and_copied_ones_twice(
    folder: Path, tmp_path: Path, row: str
) -> None:
    counts = []
    for name in ("one", "tie", "copy"):
        ROWS[row](folder / f"{name}.fold.onnx", tmp_path / f"{name}.onnx")
        counts.append(len(list_weights(tmp_path / f"{name}.onnx")))
    assert counts == [counts[0], counts[0], 2 * counts[0]]


def test_dynamic_quantization_leaves_branches_equal_and_tied_also_of_a_duplicated_model(
    folder: Path, tmp_path: Path
) -> None:
    gs.save(gs.duplicate(folder / "one.onnx", prefixes="b-", mode="tie"), tmp_path / "tie.onnx")
    for source in (folder / "tie.onnx", tmp_path / "tie.onnx"):
        quantize_dynamic(source, tmp_path / "int8.onnx")
        report = gs.verify(tmp_path / "int8.onnx", prefixes="b-")
        assert "bit for bit" in report.verdict
        assert not [
            pair
            for pair in report.branches[0].parameters
            if pair.reference.endswith("weight_quantized") and pair.how != "tied"
        ]
        assert np.abs(run(tmp_path / "int8.onnx")[0] - run(folder / "one.onnx")[0]).max() < 0.02


def test_preprocessing_unties_convolutions_before_a_batch_norm_unless_it_was_folded(
    folder: Path, tmp_path: Path
) -> None:
    quant_pre_process(folder / "tie.onnx", tmp_path / "pre.onnx", skip_symbolic_shape=True)
    assert len([name for name in list_weights(tmp_path / "pre.onnx") if "conv" in name]) == 4
    quant_pre_process(folder / "tie.fold.onnx", tmp_path / "pre.onnx", skip_symbolic_shape=True)
    assert list_weights(tmp_path / "pre.onnx") == [
        "conv1_weight",
        "conv2_weight",
        "fc1_weight",
        "fc2_weight",
    ]


@pytest.mark.parametrize("format_", FORMATS)
def test_equal_calibration_gives_equal_branches_and_other_does_not(
    folder: Path, tmp_path: Path, format_: str
) -> None:
    quantize(folder / "tie.onnx", tmp_path / "equal.onnx", format_)
    assert np.array_equal(*run(tmp_path / "equal.onnx"))
    assert "bit for bit" in gs.verify(tmp_path / "equal.onnx", prefixes="b-").verdict
    quantize(folder / "tie.onnx", tmp_path / "other.onnx", format_, b_data=2)
    assert not np.array_equal(*run(tmp_path / "other.onnx"))
    report = gs.verify(tmp_path / "other.onnx", prefixes="b-")
    assert not report
    assert {
        pair.reference.rpartition("_")[2]
        for pair in report.branches[0].parameters
        if pair.how == "different"
    } <= {"scale", "point", "quantized"}


def test_a_tied_bias_has_the_scale_of_one_branch_in_qoperator(folder: Path, tmp_path: Path) -> None:
    feeds = {"data": DATA, "b_data": DATA * 40}
    errors = {}
    for name in ("tie", "copy"):
        wanted = run(folder / f"{name}.onnx", **feeds)[1]
        for format_ in FORMATS:
            quantize(folder / f"{name}.onnx", tmp_path / "far.onnx", format_, b_data=40)
            errors[name, format_] = np.abs(run(tmp_path / "far.onnx", **feeds)[1] - wanted).max()
    assert errors["tie", "QOperator"] > 3 * errors["copy", "QOperator"]
    assert errors["tie", "QDQ"] == errors["copy", "QDQ"]


def test_a_table_that_is_read_and_multiplied_with_is_quantized_twice(tmp_path: Path) -> None:
    nodes = [
        variable("data"),
        variable("table"),
        operator("Embedding", "embedded", [0, 1], attrs={"input_dim": "50", "output_dim": "16"}),
        operator(
            "FullyConnected",
            "decoder",
            [2, 1],
            attrs={"num_hidden": "50", "no_bias": "True", "flatten": "False"},
        ),
    ]
    table = np.random.default_rng(0).normal(size=(50, 16)).astype("f4")
    model = Checkpoint(read_symbol(mxnet_text(document(nodes, [3])).encode())).with_params(
        {"table": table}
    )
    gs.export(model, tmp_path / "lm.onnx", shapes={"data": (1, 5)}, input_dtypes={"data": "int64"})
    assert list_weights(tmp_path / "lm.onnx") == ["table"]
    quantize_dynamic(tmp_path / "lm.onnx", tmp_path / "int8.onnx")
    assert len(list_weights(tmp_path / "int8.onnx")) == 2


@pytest.mark.parametrize("row", ["`quantize_dynamic`", "`quantize_static` (QDQ)"])
def test_a_float16_model_is_not_quantized(folder: Path, tmp_path: Path, row: str) -> None:
    ROWS[row](folder / "one.half.onnx", tmp_path / "int8.onnx")
    with pytest.raises(Exception, match=r"INVALID_GRAPH.*float16"):  # its own file
        run(tmp_path / "int8.onnx")
