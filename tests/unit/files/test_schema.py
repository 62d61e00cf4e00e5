"""The faults of a document by its schema: what is wrong, where, and in which node."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from graphshare.files import schema
from graphshare.files.schema import find_violations
from tests.symbols import document, operator, siamese, variable


@pytest.mark.parametrize(
    ("change", "message", "path", "node"),
    [
        (lambda g: g.pop("heads"), "has no 'heads'", "$", None),
        (lambda g: (g.pop("heads"), g.pop("nodes")), "has no 'nodes' and no 'heads'", "$", None),
        (lambda g: g["nodes"][2].pop("name"), "has no 'name'", "$.nodes[2]", None),
        (lambda g: g["nodes"][2].pop("op"), "has no 'op'", "$.nodes[2]", "conv"),
        (lambda g: g["nodes"][1].update(op=5), "is an integer (5), not a string", "$.nodes[1].op", "conv_weight"),
        (lambda g: g["nodes"][1].update(op=""), "is empty", "$.nodes[1].op", "conv_weight"),
        (lambda g: g["nodes"][2]["inputs"][0].__setitem__(0, -1), "-1: -1 is less than the minimum of 0",
         "$.nodes[2].inputs[0][0]", "conv"),
        (lambda g: g["nodes"][2].update(inputs=[[0]]), "has 1 element ([0]), which is too few", "$.nodes[2].inputs[0]", "conv"),
        (lambda g: g["nodes"][2].update(inputs=[[0, 0, 0, 0]]), "has 4 elements ([0, 0, 0, 0]), which is too many",
         "$.nodes[2].inputs[0]", "conv"),
        (lambda g: g.update(heads={"a": None}), 'is an object ({"a": null}), not an array', "$.heads", None),
        (lambda g: g.update(heads=[[1.0, 0, 0]]), "is a number (1.0), not an integer", "$.heads[0][0]", None),
        (lambda g: g.update(heads=[[True, 0, 0]]), "is a boolean (true), not an integer", "$.heads[0][0]", None),
        (lambda g: g["nodes"].__setitem__(0, None), "is null (null), not an object", "$.nodes[0]", None),
    ],
)  # fmt: skip
def test_the_schema_explains_each_fault(
    change: Any, message: str, path: str, node: str | None
) -> None:
    found = siamese()
    change(found)
    (fault,) = find_violations(found, "symbol")
    assert (fault.message, fault.path, fault.node) == (message, path, node)
    assert find_violations(siamese(), "symbol") == []


@pytest.mark.parametrize(("count", "listed"), [(99, 99), (100, 100), (101, 101), (150, 101)])
def test_so_many_faults_are_listed(count: int, listed: int) -> None:
    found = document([variable("x"), *(operator("", f"r{i}", [0]) for i in range(count))], [0])
    faults = find_violations(found, "symbol")
    assert len(faults) == listed
    assert (faults[-1].message == "and more: only the first 100 faults are listed") is (count > 100)


@pytest.mark.parametrize(("size", "text"), [(199, f"5: {'x' * 199}"), (200, "5 does not fit")])
def test_a_long_text_of_the_schema_is_left_out(size: int, text: str) -> None:
    error = SimpleNamespace(instance=5, validator="enum", message="x" * size)
    assert schema._message(error) == text


@pytest.mark.parametrize(
    ("path", "node"),
    [
        (["nodes", 1], "w"),
        (["nodes", 1, "op"], "w"),
        (["nodes", 0, "op"], None),
        (["nodes", 2], None),
        (["nodes"], None),
        (["heads", 1], None),
        (["nodes", "x"], None),
    ],
)
def test_a_fault_in_a_node_names_it(path: list[Any], node: str | None) -> None:
    found = {"nodes": [{"name": 5}, {"name": "w"}, 7], "heads": [1, 2]}
    assert schema._node_name(found, SimpleNamespace(absolute_path=path)) == node


def test_kinds_of_values_have_articles() -> None:
    assert [schema._article(kind) for kind in ("string", "object", ["integer", "null"])] == [
        "a string", "an object", "an integer or a null"
    ]  # fmt: skip
    assert [schema._kind(value) for value in (None, {}, [], "", True, 1, 1.5)] == [
        "null", "an object", "an array", "a string", "a boolean", "an integer", "a number"
    ]  # fmt: skip
