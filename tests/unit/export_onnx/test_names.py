"""The names of an operator's values and constants in ONNX, and their order: they are part of the
file's bytes.

``python -m tests.unit.export_onnx.test_names`` writes ``names.txt``, a checksum for each operator.
The texts of ``test_translations.py`` number the values instead.
"""

from __future__ import annotations

import zlib
from functools import cache
from pathlib import Path

import pytest

from graphshare.errors import RefusedError
from graphshare.ir.walk import iter_graphs
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import Translation, Translator
from tests.export.judge import translate
from tests.unit.export_onnx.questions import build
from tests.unit.export_onnx.test_translations import list_operators, read_recorded

RECORDED = Path(__file__).with_name("names.txt")


@cache
def read_names() -> dict[str, str]:
    """Return the recorded checksum of each operator."""
    lines = RECORDED.read_text(encoding="utf-8").splitlines()
    return dict(line.rsplit(" ", 1) for line in lines)


def sum_names(op: str) -> str:
    """Return a checksum of names, their order and where they are read, for an operator's questions."""
    names: list[str] = []
    for question, _ in read_recorded()[op]:
        translated = translate(*build(question), opset=question.opset)
        if isinstance(translated, RefusedError):
            names.append("refused")
            continue
        for graph in iter_graphs(translated):
            for node in graph.nodes:
                inputs = [entry.node.name for entry in node.inputs]
                names += [node.name, *inputs, *node.details.outputs]
    text = "\n".join(names)
    return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


@pytest.mark.parametrize("op", list_operators())
def test_names_and_their_order_are_as_recorded(op: str) -> None:
    assert sum_names(op) == read_names()[op]


def test_constants_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def translate_in(order: int) -> Translator:
        def emit(t: Translation) -> str:
            limits = [t.number(limit, t.inputs[0].dtype) for limit in (-1.0, 1.0)[::order]]
            return t.emit("Clip", t.inputs[0], *limits[::order])

        return Translator("softsign", emit)

    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    sums = []
    for order in (1, -1):
        register_translation(translate_in(order))
        sums.append(sum_names("softsign"))
    assert sums[0] != sums[1]


def _write() -> None:
    lines = [f"{op} {sum_names(op)}\n" for op in list_operators()]
    RECORDED.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    _write()
