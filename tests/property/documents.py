"""Random symbol documents: every generation's keys, odd names, unknown keys, any order of nodes, unreachable nodes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.symbols import Document, Record

# NUL ends a string for MXNet and halves of surrogate pairs are no characters; both are refused elsewhere.
CHARACTERS = st.one_of(
    st.sampled_from("ab_-/.:0 \"\\'\n\r\t\x01\x0b\x1b\x7f\x80é日\u2028\U0001f600{}[],"),
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
)
TEXTS = st.text(CHARACTERS, max_size=6)
NAMES = st.one_of(st.sampled_from(["", "a", "a_weight", "b", "fc1", "fc1_output", "x-a"]), TEXTS)
ATTRS = st.dictionaries(TEXTS, TEXTS, max_size=3)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=12), st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=6,
)
UNKNOWN = st.sampled_from(["_comment", "workspace", "Name", "é", "attrs2"])
OPERATORS = st.sampled_from(
    [
        "relu",
        "FullyConnected",
        "BatchNorm",
        "Concat",
        "SoftmaxOutput",
        "SliceChannel",
        "no_such",
        "é op",
    ]
)


@st.composite
def documents(draw: st.DrawFn, *, depth: int = 1, plain: bool = False, most: int = 7) -> Document:
    """A graph object.

    ``plain`` leaves out what no transform is promised to keep: unknown keys and lists that do not
    fit.
    """
    count = draw(st.integers(0, most))
    # The id of the i-th node in an order that can be built
    place = draw(st.permutations(range(count)))
    nodes: list[Record] = [{}] * count
    for i in range(count):
        nodes[place[i]] = draw(_records(place[:i], depth, plain))
    variables = [i for i, node in enumerate(nodes) if node["op"] == "null"]
    found: Document = {"nodes": nodes, "arg_nodes": variables}
    if draw(st.booleans()):
        steps = draw(st.lists(st.integers(1, 3), min_size=count, max_size=count))
        found["node_row_ptr"] = [sum(steps[:i]) for i in range(count + 1)]
    found["heads"] = draw(st.lists(_entries(list(range(count))), max_size=12)) if count else []
    if draw(st.booleans()):
        found["attrs"] = {
            "mxnet_version": ["int", draw(st.sampled_from([801, 904, 10300, 10901, 20000]))]
        }
    if plain:
        return found
    if draw(st.booleans()):
        found["arg_nodes"] = draw(st.permutations(variables))[: draw(st.integers(0, 7))]
    if draw(st.booleans()):
        found["node_row_ptr"] = draw(st.lists(st.integers(0, 40), max_size=12))
    if draw(st.booleans()):
        found["attrs"] = draw(st.dictionaries(TEXTS, VALUES, max_size=3))
    if draw(st.booleans()):
        found[draw(UNKNOWN)] = draw(VALUES)
    return _shuffled(draw, found)


def _entries(ids: list[int]) -> st.SearchStrategy[list[int]]:
    numbers = st.one_of(
        st.just([0, 0]), st.just([0]), st.lists(st.integers(0, 3), min_size=1, max_size=2)
    )
    return st.builds(lambda i, rest: [i, *rest], st.sampled_from(ids), numbers)


@st.composite
def _records(draw: st.DrawFn, earlier: list[int], depth: int, plain: bool) -> Record:
    is_variable = not earlier or draw(st.booleans())
    record: Record = {"op": "null" if is_variable else draw(OPERATORS), "name": draw(NAMES)}
    for key in draw(
        st.sampled_from(
            [("attrs",), ("attr",), ("param",), ("param", "attr"), ("attrs", "attr"), ()]
        )
    ):
        record[key] = draw(ATTRS)
    if {"param", "attr"} <= record.keys() and draw(st.booleans()):
        record["attr"].update(dict.fromkeys(list(record["param"])[:1], "hides"))
    record["inputs"] = [] if is_variable else draw(st.lists(_entries(earlier), max_size=12))
    if earlier and draw(st.integers(0, 4)) == 0:
        record["control_deps"] = draw(st.lists(st.sampled_from(earlier), max_size=3))
    if depth and draw(st.integers(0, 6)) == 0:
        record["subgraphs"] = draw(
            st.lists(documents(depth=depth - 1, plain=plain, most=3), max_size=2)
        )
    if draw(st.integers(0, 3)) == 0:
        record["backward_source_id"] = draw(st.integers(-1, 5))
    if plain:
        return record
    if draw(st.integers(0, 4)) == 0:
        record[draw(UNKNOWN)] = draw(VALUES)
    return _shuffled(draw, record)


def _shuffled(draw: st.DrawFn, found: dict[str, Any]) -> dict[str, Any]:
    if draw(st.booleans()):
        return found
    return {key: found[key] for key in draw(st.permutations(list(found)))}
