"""The tables as a whole: names, aliases, foreign operators, the corpus."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from graphshare.ir.graph import Entry, Node
from graphshare.ops.attributes import KINDS
from graphshare.ops.index import ALIASES, FAMILY_OF
from graphshare.ops.registry import (
    auxiliary_slots,
    canonical,
    foreign_signatures,
    load_registered_signatures,
    lookup,
    name_inputs,
    visible_outputs,
)
from graphshare.ops.signature import MAX_COUNT, define

CORPUS = (
    Path(
        os.environ.get("GRAPHSHARE_CORPUS")
        or Path(__file__).resolve().parents[4] / "shared" / "corpus"
    )
    / "graphs"
)


def test_counts() -> None:
    assert len(load_registered_signatures()) == 611
    assert len(ALIASES) == 281
    assert sum(row.parameters is None for row in load_registered_signatures().values()) == 200


def find_repeats(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def test_no_name_is_given_twice() -> None:
    rows = [
        row
        for family in set(FAMILY_OF.values())
        for row in import_module(f"graphshare.ops.{family}.signature").OPERATORS
    ]
    assert len(rows) == len(FAMILY_OF)
    assert find_repeats(name for row in rows for name in (row.name, *row.aliases)) == []


def test_a_name_given_twice_is_found() -> None:
    rows = [*define("a(b) c", "data"), *define("b", "data")]
    assert find_repeats(name for row in rows for name in (row.name, *row.aliases)) == ["b"]


def test_aliases_lead_to_operators() -> None:
    assert set(ALIASES.values()) <= set(load_registered_signatures())
    assert not set(ALIASES) & set(load_registered_signatures())


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("Softmax", "SoftmaxOutput"),
        ("_Plus", "elemwise_add"),
        ("_sub", "elemwise_sub"),
        ("ElementWiseSum", "add_n"),
        ("_sparse_ElementWiseSum", "add_n"),
        ("crop", "slice"),
        ("_npx_relu", "_npx_relu"),
        ("_npi_absolute", "_npi_absolute"),
        ("_npi_abs", "_npi_absolute"),
        ("_npx_reshape", "_npx_reshape"),
        ("_npi_split", "_split_v2"),
        ("random_normal", "_random_normal"),
        ("normal", "_random_normal"),
        ("linalg_gemm2", "_linalg_gemm2"),
        ("_npx__image_resize", "_image_resize"),
        ("nobody_knows_this", "nobody_knows_this"),
    ],
)
def test_canonical(alias: str, name: str) -> None:
    assert canonical(alias) == name


def test_lookup() -> None:
    assert lookup("Softmax") is lookup("SoftmaxOutput") is not None
    assert lookup("null") is None
    assert lookup("nobody_knows_this") is None


def test_a_node_knows_its_inputs_and_those_that_it_mutates_unless_its_operator_is_unknown() -> None:
    inputs = tuple(Entry(Node("", name), 0) for name in "abcde")
    known, unknown = Node("BatchNorm", "bn", inputs=inputs), Node("Mine", "m", inputs=inputs)
    assert (name_inputs(known), auxiliary_slots(known)) == (
        ("data", "gamma", "beta", "moving_mean", "moving_var"),
        (3, 4),
    )
    assert (name_inputs(unknown), auxiliary_slots(unknown)) == (None, ())


def test_foreign_operators_are_known_but_not_registered() -> None:
    assert not set(foreign_signatures()) & (set(load_registered_signatures()) | set(ALIASES))
    for name in foreign_signatures():
        row = lookup(name)
        assert row is not None
        assert not row.registered
        assert row.outputs({}) is not None
        assert (
            row.parse({"anything": "goes", "num_filter": "x", "kernel": "(1,)", "num_hidden": "1"})[
                1
            ]
            == []
        )
    assert all(row.registered for row in load_registered_signatures().values())


def test_every_row_can_be_read() -> None:
    for row in (*load_registered_signatures().values(), *foreign_signatures().values()):
        parameters = row.parameters or ()
        assert all(parameter.kind in KINDS for parameter in parameters)
        assert len({parameter.name for parameter in parameters}) == len(parameters)
        assert row.couples_batch in (
            "elementwise",
            "never",
            "training",
            "axis",
            "shape",
            "always",
            None,
        )
        required = {parameter.name for parameter in parameters if parameter.required}
        assert {fault.key for fault in row.parse({})[1] if fault.kind == "missing"} <= required
        row.formal_inputs({})
        row.outputs({})
        row.auxiliary_slots({}, 9)


def test_every_default_is_itself_accepted() -> None:
    for row in load_registered_signatures().values():
        for parameter in row.parameters or ():
            if parameter.default is not None:
                faults = row.parse({parameter.name: parameter.default})[1]
                assert not [fault for fault in faults if fault.kind == "unreadable"], row.name


def test_import_needs_nothing_heavy() -> None:
    heavy = ("numpy", "click", "dataclasses", "rich")
    code = f"import sys, graphshare.ops.registry; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def operators_of(graph: dict[str, Any]) -> Iterator[str]:
    """Every operator of a graph and of what is inside it."""
    pending = [graph]
    while pending:
        for node in pending.pop()["nodes"]:
            yield node["op"]
            pending.extend(node.get("subgraphs", ()))


@pytest.mark.corpus
@pytest.mark.skipif(
    not CORPUS.is_dir(), reason="no corpus: GRAPHSHARE_CORPUS does not name its directory"
)
def test_every_operator_of_the_corpus_has_a_signature() -> None:
    unknown: dict[str, str] = {}
    for path in sorted(CORPUS.glob("*.json")):
        try:
            graph = json.loads(
                path.read_text(encoding="utf-8", errors="surrogateescape"), strict=False
            )
        except ValueError:
            continue  # broken on purpose, or by its author
        unknown.update(
            {
                name: path.name
                for name in operators_of(graph)
                if name != "null" and lookup(name) is None
            }
        )
    assert not unknown


def test_counts_of_outputs_have_a_limit() -> None:
    signature = lookup("SliceChannel")
    assert signature is not None
    for count, expected in ((1, 1), (MAX_COUNT, MAX_COUNT), (MAX_COUNT + 1, 0), (-1, 0)):
        outputs = signature.outputs({"num_outputs": str(count)})
        assert (outputs.total if outputs is not None else 0) == expected


def test_an_unknown_operator_has_the_outputs_that_its_file_counts() -> None:
    for count, expected in ((None, 1), (1, 1), (3, 3)):
        node = Node("Unknown", "u", num_outputs=count)
        assert [entry.index for entry in visible_outputs(node)] == list(range(expected))
