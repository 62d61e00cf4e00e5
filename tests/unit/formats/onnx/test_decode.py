"""Models of the onnx package read as graphs and written back."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from graphshare.errors import InputError
from graphshare.formats.onnx.decode import read_model
from graphshare.formats.onnx.write import encode_graph_file, encode_model

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
LIGHT = DATA / "light" / "light_squeezenet.onnx"


@pytest.mark.parametrize(
    "path", [LIGHT, *sorted(DATA.glob("simple/*/model.onnx"))], ids=lambda path: path.parent.name
)
def test_every_message_comes_back_as_it_was(path: Path) -> None:
    graph = read_model(str(path))
    assert b"".join(encode_graph_file(graph).pieces()) == path.read_bytes()
    message = encode_model(graph)  # without the copy of the file
    written = b"".join(message.pieces())
    assert (len(written), written) == (message.size, path.read_bytes())


def test_values_are_edges_and_initializers_hold_values() -> None:
    graph = read_model(str(LIGHT))
    model = onnx.load(LIGHT)
    assert [node.op for node in graph.nodes if node.op] == [
        node.op_type for node in model.graph.node
    ]
    held = {
        node.name
        for node in graph.variables()
        if node.details is not None and node.details.holds_value
    }
    assert held == {tensor.name for tensor in model.graph.initializer}
    assert [head.node.name for head in graph.heads] == [
        output.name for output in model.graph.output
    ]


def test_a_model_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    whole = LIGHT.read_bytes()
    path = tmp_path / "cut.onnx"
    for size in (1, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError):
            read_model(str(path))
