"""The benchmark of readers: what is right, what is not, why, and what is read again; ties behind onnx2torch."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from benchmarks import readers
from benchmarks.reader_side import tie_again
from benchmarks.readers import Cell, Reader, format_table, run_cell
from tests.surroundings import ROOT

DOUBLE = """<ir_version: 8, opset_import: ["" : 17]>
double (float[2] x) => (float[2] y) { y = Add (x, x) }"""
SAVED = """<ir_version: 8, opset_import: ["" : 17, "far" : 1]>
double (float[2] x) => (float[2] y) { y = far.Away (x) }"""


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Reader]:
    """onnx's evaluator, in the environment of the tests."""
    monkeypatch.setattr(readers, "install_reader", lambda cache, name: sys.executable)
    side = Reader(tmp_path, "reference", 60)
    yield side
    side.end()


def write(folder: Path, text: str) -> Path:
    model = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), model)
    np.savez(folder / "inputs.npz", x=np.array([1, 2], np.float32))
    return model


def test_what_a_reader_computes_is_compared_and_kept(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "graph_of", lambda corpus, stem: SimpleNamespace(nodes=()))
    wanted = [np.array([2, 4], np.float32)]
    monkeypatch.setattr(readers, "recorded_outputs", lambda corpus, stem: wanted)
    model = write(tmp_path, DOUBLE)
    assert run_cell(reader, tmp_path, "double", model, ()) == Cell("right", 0.0, "in place")
    wanted[0] = np.array([2, 5], np.float32)
    assert run_cell(reader, tmp_path, "double", model, ()).kind == "right"
    assert run_cell(reader, tmp_path, "double", model, ["right"]) == Cell(
        "differs", 0.2, "in place"
    )
    wanted[0] = np.array([[2, 4]], np.float32)
    assert "shapes" in run_cell(reader, tmp_path, "double", model, ["differs"]).note
    write(tmp_path, SAVED)
    assert run_cell(reader, tmp_path, "double", model, ()).kind == "stops"


def test_a_reader_that_stops_goes_on_with_the_next_model(reader: Reader, tmp_path: Path) -> None:
    outputs, cell = reader.read(write(tmp_path, SAVED))
    assert (outputs, cell.kind) == ([], "stops")
    assert "Away" in cell.note
    outputs, cell = reader.read(write(tmp_path, DOUBLE))
    assert cell == Cell("right")
    assert outputs[0].tolist() == [2, 4]


def test_a_reader_that_takes_too_long_is_stopped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(readers, "install_reader", lambda cache, name: sys.executable)
    side = Reader(tmp_path, "reference", 0)
    assert side.read(write(tmp_path, DOUBLE))[1] == Cell("too slow", note="takes more than 0 s")
    side.end()


def test_reasons_are_counted_and_a_miss_without_one_is_shown() -> None:
    message = (
        "NotImplementedError: Converter is not implemented (OperationDescription(domain='', "
        "operation_type='{}', version=14))"
    )
    table = {
        "one": {
            "onnx2torch": Cell("stops", note=message.format("LSTM")),
            "openvino": Cell("right", 0.0),
        },
        "two": {
            "onnx2torch": Cell("stops", note=message.format("LSTM")),
            "openvino": Cell("too slow", note="takes long"),
        },
        "three": {
            "onnx2torch": Cell("stops", note="nobody | knows"),
            "openvino": Cell("right", 1e-6),
        },
    }
    lines = format_table(table, ["onnx2torch", "openvino"]).splitlines()
    assert lines[2:6] == [
        "| right | 0 | 2 |",
        "| differs | 0 | 0 |",
        "| stops | 3 | 0 |",
        "| too slow | 0 | 1 |",
    ]
    assert lines[9:] == [
        "| onnx2torch | stops | no converter for LSTM 14 | 2 |",
        "| openvino | too slow | takes long | 1 |",
        "| onnx2torch | stops | UNEXPLAINED: nobody \\| knows | 1 |",
    ]


class Layer:
    """Stands for a module of PyTorch."""

    def __init__(self, **arrays: Any) -> None:
        self.__dict__.update(arrays)

    def state_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


def test_weights_that_are_one_initializer_are_tied_again() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] z) => (float[2] y) <float[2] w, float[2] b, float[2] c>
    { p = Op (x, w, b) q = Op (z, w, c) y = Add (p, q) }"""
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.zeros(2, np.float32), name) for name in "wbc"
    )
    layers = [Layer(weight=[number], bias=[number]) for number in range(2)] + [Layer()]
    children = [
        ("initializers", Layer()),
        *((str(number), layer) for number, layer in enumerate(layers)),
    ]
    tie_again(model.graph, SimpleNamespace(named_children=lambda: children))
    assert layers[0].weight is layers[1].weight
    assert layers[0].bias is not layers[1].bias


def test_the_page_shows_how_weights_are_tied_again() -> None:
    source = (ROOT / "benchmarks" / "reader_side.py").read_text()
    body = source.partition('one initializer of the ONNX graph."""\n')[2].partition("\n\n")[0]
    assert textwrap.dedent(body) in (ROOT / "docs" / "onnx-tools.md").read_text()


def test_onnx2torch_unties_and_they_are_tied_again(tmp_path: Path) -> None:
    onnx2torch, torch = pytest.importorskip("onnx2torch"), pytest.importorskip("torch")
    import graphshare as gs

    model = gs.duplicate(ROOT / "fixtures" / "lenet", prefixes=["b_"], mode="tie")
    path = tmp_path / "siamese.onnx"
    gs.export(model, path, shapes={"data": (1, 1, 28, 28), "b_data": (1, 1, 28, 28)})
    net = onnx2torch.convert(str(path)).eval()
    untied = sum(weight.numel() for weight in net.parameters())
    tie_again(onnx.load(path).graph, net)
    assert sum(weight.numel() for weight in net.parameters()) == untied / 2
    first, second = net(*[torch.ones(1, 1, 28, 28)] * 2)
    assert torch.equal(first, second)
