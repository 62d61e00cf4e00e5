"""How a file was written is recognised by its text."""

from __future__ import annotations

import json

import pytest

from graphshare.errors import InputError
from graphshare.formats.mxnet.format import recognize_generation
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.source import recognize_style
from graphshare.formats.mxnet.symbol import building_order, read_symbol
from tests.symbols import LAYOUTS, document, mxnet_text, operator, siamese, two_layers, variable

QUOTED = document([variable("x", attrs={"__init__": '["one", {"a": 1}]'})], [0])


@pytest.mark.parametrize("found", [siamese(), two_layers(), QUOTED, {"nodes": [], "arg_nodes": [], "heads": []}])
@pytest.mark.parametrize(
    ("layout", "kind", "indent"),
    [
        ("mxnet", "mxnet", 2),
        ("compact", "compact", 2),
        ("spaced", "spaced", 2),
        ("indent:0", "indent", 0),
        ("indent:2", "indent", 2),
    ],
)
def test_layouts(layout: str, kind: str, indent: int, found: dict[str, object]) -> None:
    style = recognize_style(LAYOUTS[layout](found).encode())
    assert (style.layout, style.indent) == (kind, indent)


@pytest.mark.parametrize("count", [1, 5, 40, 3000])
def test_a_layout_without_its_blanks_at_line_ends(count: int) -> None:
    """An editor strips them; long lists of ids make it look like an indented file."""
    nodes = [variable(f"v{i}") for i in range(count)] + [operator("add_n", "sum", range(count), attrs={"num_args": str(count)})]
    text = mxnet_text(document(nodes, [count])).replace(", \n", ",\n")
    assert recognize_style(text.encode()).layout == "trimmed"
    assert b"".join(write_symbol(read_symbol(text.encode()))) == text.encode()


@pytest.mark.parametrize(
    ("name", "escapes"),
    [
        ('"a"', "mxnet"),
        (r'"a\"\\\n"', "mxnet"),
        (r'"\u0001"', "ascii"),
        (r'"\u00e9"', "ascii"),
        ('"\\u0001é"', "json"),
        ('"\\b\x7f"', "json"),
    ],
)
def test_escapes(name: str, escapes: str) -> None:
    text = json.dumps(siamese()).replace('"data"', name)
    assert recognize_style(text.encode()).escapes == escapes
    assert b"".join(write_symbol(read_symbol(text.encode()))) == text.encode()


def test_what_a_graph_becomes_is_written_for_mxnet() -> None:
    graph = read_symbol(json.dumps(siamese()).replace("data", "d\\u00e9\\b").encode())
    assert graph.source.after_rewrite().style.escapes == "mxnet"


def test_an_order_to_build_in() -> None:
    records = [operator("relu", "a", [2]), variable("x"), operator("relu", "b", [1])]
    assert building_order(records) == [1, 2, 0]
    with pytest.raises(InputError, match=r"a \(node 0\) <- b \(node 1\) <- a \(node 0\)"):
        building_order([operator("relu", "a", [1]), operator("relu", "b", [0])])


@pytest.mark.parametrize(
    ("keys", "version", "generation"),
    [
        (("param", "attr"), 10901, "2015"),
        (("attr", "attrs"), 10901, "0.9 (NNVM"),
        (("attrs",), 800, "1.0"),
        ((), None, "2015"),
        ((), 905, "0.9 (NNVM"),
        ((), 9999, "0.9 (NNVM"),
        ((), 10000, "1.0"),
        ((), 10901, "1.0"),
    ],
)
def test_the_generation_is_that_of_the_attributes_and_else_of_the_version(
    keys: tuple[str, ...], version: int | None, generation: str
) -> None:
    texts = document([variable("x", **{key: {"a": "b"} for key in keys})], [0], version=version)
    assert recognize_generation(read_symbol(json.dumps(texts).encode())).startswith(generation)
