"""How a file was written is recognised by its text."""

from __future__ import annotations

import json

import pytest

from graphshare.errors import InputError, RefusedError
from graphshare.formats.mxnet.format import recognize_generation
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.source import JsonStyle, JsonWriter, can_copy_text, recognize_style
from graphshare.formats.mxnet.symbol import building_order, read_symbol
from tests.symbols import LAYOUTS, document, mxnet_text, operator, siamese, two_layers, variable

QUOTED = document([variable("x", attrs={"__init__": '["one", {"a": 1}]'})], [0])


@pytest.mark.parametrize(
    "found", [siamese(), two_layers(), QUOTED, {"nodes": [], "arg_nodes": [], "heads": []}]
)
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
    nodes = [variable(f"v{i}") for i in range(count)] + [
        operator("add_n", "sum", range(count), attrs={"num_args": str(count)})
    ]
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


@pytest.mark.parametrize(
    ("layout", "indent", "expected"),
    [
        (
            "mxnet",
            2,
            ("[a, b]", "[\n    a, \n    b\n  ]", '{"k": 1}', '{\n    "k": 1, \n    "l": 2\n  }'),
        ),
        (
            "trimmed",
            2,
            ("[a, b]", "[\n    a,\n    b\n  ]", '{"k": 1}', '{\n    "k": 1,\n    "l": 2\n  }'),
        ),
        ("compact", 2, ("[a,b]", "[a,b]", '{"k":1}', '{"k":1,"l":2}')),
        ("spaced", 2, ("[a, b]", "[a, b]", '{"k": 1}', '{"k": 1, "l": 2}')),
        (
            "indent",
            1,
            (
                "[\n  a,\n  b\n ]",
                "[\n  a,\n  b\n ]",
                '{\n  "k": 1\n }',
                '{\n  "k": 1,\n  "l": 2\n }',
            ),
        ),
    ],
)
def test_arrays_and_objects_are_broken_into_lines_as_the_layout_has_it(
    layout: str, indent: int, expected: tuple[str, ...]
) -> None:
    texts = JsonWriter(JsonStyle(layout=layout, indent=indent))
    pairs = [("k", "1"), ("l", "2")]
    least = min(texts.break_list, 2) if layout in ("mxnet", "trimmed") else texts.break_list
    assert (
        texts.array(["a", "b"], 1, texts.break_list),
        texts.array(["a", "b"], 1, least),
        texts.object(pairs[:1], 1, texts.break_map),
        texts.object(pairs, 1, texts.break_map),
    ) == expected


@pytest.mark.parametrize(
    ("layout", "count", "expected"),
    [
        ("mxnet", 0, "[]"),
        ("mxnet", 10, "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"),
        ("mxnet", 11, "[\n    " + ", \n    ".join(map(str, range(11))) + "\n  ]"),
        ("mxnet", 513, "[\n    " + ", \n    ".join(map(str, range(513))) + "\n  ]"),
        ("trimmed", 11, "[\n    " + ",\n    ".join(map(str, range(11))) + "\n  ]"),
        ("compact", 1025, "[" + ",".join(map(str, range(1025))) + "]"),
        ("spaced", 3, "[0, 1, 2]"),
        ("indent", 1, "[\n    0\n  ]"),
    ],
)
def test_lists_of_ids_are_written_in_pieces(layout: str, count: int, expected: str) -> None:
    texts = JsonWriter(JsonStyle(layout=layout))
    assert "".join(texts.id_pieces(range(count), count, 1)) == expected


@pytest.mark.parametrize(
    ("escapes", "expected"),
    [
        ("mxnet", '"a\\"\\\\\\n\\r\\té\x01/"'),
        ("json", '"a\\"\\\\\\n\\r\\té\\u0001/"'),
        ("ascii", '"a\\"\\\\\\n\\r\\t\\u00e9\\u0001/"'),
    ],
)
def test_strings_are_escaped_as_the_style_has_it(escapes: str, expected: str) -> None:
    texts = JsonWriter(JsonStyle(escapes=escapes))
    assert texts.quote('a"\\\n\r\té\x01/') == expected
    assert texts.quote(" !~[]") == '" !~[]"'
    if escapes == "mxnet":
        with pytest.raises(RefusedError, match="holds a NUL character, which MXNet cannot read"):
            texts.quote("a\0")
    else:
        assert texts.quote("a\0") == '"a\\u0000"'


def test_values_of_unknown_keys_are_json() -> None:
    texts = JsonWriter(JsonStyle())
    values = [None, True, False, 1, -2, 1.5, "a\n", [], {}, [1, [True]], (1, "b"), {"a": [None]}]
    expected = [
        "null",
        "true",
        "false",
        "1",
        "-2",
        "1.5",
        '"a\\n"',
        "[]",
        "{}",
        "[1, [true]]",
        '[1, "b"]',
        '{"a": [null]}',
    ]
    assert [texts.value(value, 1) for value in values] == expected
    assert texts.value({"a": 1, "b": {"c": 2, "d": 3}}, 0) == (
        '{\n  "a": 1, \n  "b": {\n    "c": 2, \n    "d": 3\n  }\n}'
    )  # fmt: skip
    assert texts.map({"a": "b"}, 1) == '{"a": "b"}'
    assert JsonWriter(JsonStyle(newline="\r\n")).end_lines("a\nb") == "a\r\nb"


@pytest.mark.parametrize(
    ("text", "layout", "newline", "expected"),
    [
        (b'{"a"}', "mxnet", "\n", True),
        (b'{"a\\n\\""}', "mxnet", "\n", True),
        (b'{"a\\u0041"}', "mxnet", "\n", False),
        (b'{"a\\/"}', "mxnet", "\n", False),
        (b'{"a"}', "mxnet", "\r\n", False),
        (b'{"a"}', "trimmed", "\n", False),
    ],
)
def test_only_text_that_mxnet_reads_is_copied(
    text: bytes, layout: str, newline: str, expected: bool
) -> None:
    assert can_copy_text(text, JsonStyle(layout=layout, newline=newline)) is expected


@pytest.mark.parametrize("tail", ["", "\n", "\r\n", " \n\t\n"])
def test_the_white_space_behind_the_last_brace_is_kept(tail: str) -> None:
    for layout in LAYOUTS.values():
        text = (layout(siamese()).rstrip() + tail).encode()
        assert recognize_style(text).tail == tail
        assert b"".join(write_symbol(read_symbol(text))) == text
