"""``repr`` is one short line for every public object, however large or deep the graph is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from rich.pretty import pretty_repr

import graphshare as gs
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.reports.model import FindingsReport
from graphshare.text.summary import ShortRepr
from graphshare.verification.report import Report
from tests.effort import effort
from tests.surroundings import NONE, ROOT, corpus_directory, corpus_names
from tests.symbols import document, mxnet_text, operator, variable

LONGEST = 200
LENET = ROOT / "fixtures" / "lenet"


def residual_chain(blocks: int) -> gs.Graph:
    """A chain in which every node uses the one before it twice: 2**blocks paths lead through it."""
    nodes = [variable("x")]
    nodes += [operator("elemwise_add", f"add{i}", [i, i]) for i in range(blocks)]
    return read_symbol(mxnet_text(document(nodes, [blocks])).encode())


def objects_of(model: gs.Checkpoint) -> Iterator[Any]:
    """A model and what can be reached from it."""
    graph = model.graph
    yield from (model, model.params, model.parameter_file, graph, graph.source)
    yield from graph.nodes[-1:]
    yield from graph.heads[:1]
    if model.rewrite is not None:
        yield from (model.rewrite, model.rewrite.branches[-1], model.report)


def check_short(thing: Any) -> None:
    # print() shows what their commands print
    prints_text = isinstance(thing, Report | FindingsReport)
    for text in (
        repr(thing),
        repr(thing) if prints_text else str(thing),
        pretty_repr(thing, max_width=10_000),
    ):
        assert len(text) <= LONGEST, text[:1000]
        assert "\n" not in text
    assert effort(lambda: repr(thing)) < 1000


def test_repr_of_a_deep_residual_chain_is_one_line() -> None:
    graph = residual_chain(3000)
    for thing in objects_of(gs.duplicate(graph, "sha-")):
        check_short(thing)


def test_repr_of_long_names_is_cut() -> None:
    name = "n" * 100_000
    graph = read_symbol(
        mxnet_text(document([variable(name), operator("relu", f"{name}r", [0])], [1])).encode()
    )
    for thing in objects_of(gs.rename(graph, prefix=name)):
        check_short(thing)


class Noted(ShortRepr, msgspec.Struct):
    name: str
    notes: list[str]
    ties: dict[str, int]


def test_repr_of_one_thing_is_singular() -> None:
    one, two = (Noted("x", ["why"] * count, {"a": 1}) for count in (1, 2))
    assert (repr(one), repr(two)) == (
        "<Noted: name='x', 1 note, 1 tie>",
        "<Noted: name='x', 2 notes, 1 tie>",
    )


def test_repr_of_every_report_is_one_line(tmp_path: Any) -> None:
    model = gs.load(LENET)
    siamese = gs.duplicate(model, "sha-")
    feeds = {"data": np.zeros((1, 1, 28, 28), "float32")}
    file = f"{LENET}-0000.params"
    reports = [
        *(
            siamese.report,
            gs.share(siamese, aliases={"sha-*": "*"}).report,
            gs.group([model, siamese], prefixes=["a", "b"]).report,
        ),
        *(
            gs.verify(siamese),
            gs.check(model),
            gs.diff(model, siamese),
            gs.inspect(siamese),
            gs.draw(siamese),
        ),
        *(
            gs.run(model, feeds=feeds),
            gs.bind(model),
            gs.train(model, steps=1, feeds=feeds),
            gs.infer_shapes(model, {}),
        ),
        *(
            gs.list_params(file),
            gs.show_params(file),
            gs.measure_params(file),
            gs.diff_params(file, file),
        ),
        *(
            gs.convert(file, tmp_path / "x.npz"),
            gs.detect(siamese)[0],
            gs.explain("w", gs.Ruleset()),
        ),
    ]
    for report in reports:
        check_short(report)


@pytest.mark.corpus
@pytest.mark.parametrize("name", corpus_names("graphs/*.json", ".json"))
def test_repr_of_corpus_graphs_is_one_line(name: str) -> None:
    directory = corpus_directory()
    if name == NONE or directory is None:
        pytest.skip("no corpus")
    try:
        model = gs.load(directory / "graphs" / f"{name}.json")
    except gs.GraphshareError:
        return
    for thing in objects_of(model):
        check_short(thing)
