"""The whole SVG text of small pictures: where each box, line and scope is.

``python -m tests.unit.drawing.test_recorded`` records it in ``recorded.txt``, without the head and
the style, which are the same in all of them. Look at the pictures that changed before you commit
it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.drawing.layout.arrange import _WIDEST_ROW
from tests.processes import ROOT, write_json
from tests.symbols import Document, document, operator, variable
from tests.unit.drawing.test_drawing import scoped
from tests.unit.drawing.test_onnx_pictures import draw_nodes, flag, make_branches, value

RECORDED = Path(__file__).with_name("recorded.txt")


def draw_document(found: Document, **settings: Any) -> Callable[[Path], str]:
    return lambda folder: (
        gs.draw(gs.load(write_json(folder / "g.json", found)), to="svg", **settings).text
    )


def draw_siamese(_: Path) -> str:
    model = gs.duplicate(gs.load(ROOT / "fixtures" / "lenet"), "sha-", mode="tie")
    return gs.draw(
        gs.extract(model, ["pool1", "sha-pool1"]), to="svg", shapes={"data": (1, 1, 28, 28)}
    ).text


def draw_branches(folder: Path) -> str:
    draw_nodes(make_branches(), folder, inputs=(value("x"), flag()))
    return gs.draw(gs.load(folder / "m.onnx"), to="svg").text


def ladder() -> Document:
    """Lines that cross, skip rows and bend around boxes of other widths; a control dependency."""
    nodes = [variable(f"in{i}") for i in range(3)]
    nodes += [operator("add_n", f"sum{i}", [2 - i, i % 2, 1]) for i in range(3)]
    nodes += [
        operator("relu", f"a_relu_with_{'very_' * 100}long_name", [3]),
        operator("tanh", "t", [5]),
    ]
    nodes += [
        operator("add_n", "all", [0, 4, 6, 7], control_deps=[3]),
        operator("slice", "part", [8], attrs={"begin": "(0,)"}),
    ]
    return document(nodes, [9, 6])


def islands() -> Document:
    """Operators without lines beside a short chain."""
    count = 2 * _WIDEST_ROW + 1
    nodes = [
        operator("_zeros", f"zero{i}", [], attrs={"shape": f"({i + 1}, 2)"}) for i in range(count)
    ]
    return document(
        [*nodes, variable("x"), operator("relu", "y", [count])], [*range(count), count + 1]
    )


def web() -> Document:
    """Many lines across three scopes that need each other."""
    nodes = [variable("x"), variable("y")]
    for i in range(2, 20):
        inputs = dict.fromkeys((i * 7 % i, (i * 5 + 3) % i, i * i // 3 % i))
        nodes.append(
            operator(
                "add_n",
                f"{'abc'[i % 3]}/{'dense' * (i % 4)}{i}",
                list(inputs),
                attrs={"num_args": str(len(inputs))},
            )
        )
    return document(nodes, [19, 18, 17])


def unrolled() -> Document:
    """Three layers in a row with one weight and one bias, and another one of two of them."""
    nodes = [variable("x"), variable("weight"), variable("bias"), variable("scale")]
    for i in range(3):
        nodes.append(
            operator(
                "FullyConnected",
                f"fc{i}",
                [len(nodes) - 1 if i else 0, 1, 2],
                attrs={"num_hidden": "4"},
            )
        )
    nodes.append(operator("broadcast_mul", "m0", [4, 3]))
    nodes.append(operator("broadcast_mul", "m1", [6, 3]))
    return document(nodes, [7, 8])


PICTURES: dict[str, Callable[[Path], str]] = {
    "branches that share weights": draw_siamese,
    "open scopes": draw_document(scoped("/"), all_parameters=True),
    "scopes of one level, from left to right": draw_document(
        scoped("_"), depth=1, direction="LR", theme="dark"
    ),
    "crossing lines": draw_document(ladder(), theme="light"),
    "crossing lines, from right to left": draw_document(ladder(), direction="RL"),
    "operators without lines": draw_document(islands()),
    "scopes that need each other": draw_document(web()),
    "weights of several layers in a row": draw_document(unrolled()),
    "bodies of an If": draw_branches,
}


def list_elements(name: str, folder: Path) -> list[str]:
    return [
        line
        for line in PICTURES[name](folder).splitlines()
        if not line.startswith(("<?xml", "<style", "</svg"))
    ]


def read_recorded() -> dict[str, list[str]]:
    blocks = RECORDED.read_text(encoding="utf-8").rstrip("\n").split("\n\n")
    return {
        lines[0].removeprefix("= "): lines[1:] for lines in (block.split("\n") for block in blocks)
    }


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_as_recorded(name: str, tmp_path: Path) -> None:
    assert list_elements(name, tmp_path) == read_recorded()[name]


def test_every_record_is_of_a_picture() -> None:
    assert list(read_recorded()) == list(PICTURES)


def main() -> None:
    blocks = []
    for name in PICTURES:
        with tempfile.TemporaryDirectory() as folder:
            blocks.append("\n".join([f"= {name}", *list_elements(name, Path(folder))]) + "\n")
    RECORDED.write_text("\n".join(blocks), encoding="utf-8")


if __name__ == "__main__":
    main()
