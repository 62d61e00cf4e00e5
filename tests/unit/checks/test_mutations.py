"""Seeded corruptions of real graphs and parameter files: each is reported, or shown to be none.

A corruption is reported when ``check`` finds something that it does not find in the sound files. It
is harmless when the graph that is read is the same: structure, attributes as operators read them,
and the names of arguments and states (an operator's name is a label); and the parameter file holds
the same records (changed weights are a sound file of another model, and nothing could tell).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from graphshare.analysis.name_lists import NameLists
from graphshare.checks.context import CheckContext
from graphshare.checks.engine import run_rules
from graphshare.errors import InputError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.formats.params.format import read_index
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import topological
from graphshare.ops.registry import lookup
from graphshare.ops.signature import is_free_key
from graphshare.reports.model import Level
from tests import params_bytes
from tests.surroundings import NONE, corpus_stems, pick_everyday, recorded, size_of_day
from tests.unit.checks.mutations import GRAPH_KINDS, mutated

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

COUNT = size_of_day(60, 500)
LEAST = 0.99
KINDS = (*GRAPH_KINDS, "bytes", "params")


def _is_usable(meta: dict[str, Any]) -> bool:
    """Graphs that MXNet runs, small enough for many rounds."""
    shapes = {**meta.get("arg_shapes", {}), **meta.get("aux_shapes", {})}
    usable = (
        bool(meta.get("forward"))
        and 4 <= meta["nodes"] <= 400
        and bool(meta.get("input_names"))
        and bool(shapes)
    )
    return (
        usable
        and not meta["is_np_shape"]
        and all(all(shape) for shape in shapes.values())
        and "Custom" not in meta["op_hist"]
    )


STEMS = pick_everyday(corpus_stems(_is_usable), 8)


class Case:
    """One graph with a parameter file of the recorded shapes, and what ``check`` says of the two as they are."""

    def __init__(self, corpus: Path, stem: str, folder: Path) -> None:
        meta = recorded(corpus, stem)
        self.graph = (corpus / "graphs" / f"{stem}.json").read_bytes()
        self.given_shapes = {
            name: tuple(meta["arg_shapes"][name])
            for name in meta["input_names"]
            if name in meta["arg_shapes"]
        }
        sides = (("arg", meta["arg_shapes"]), ("aux", meta["aux_shapes"]))
        shapes = {
            f"{kind}:{n}": s
            for kind, of in sides
            for n, s in of.items()
            if n not in meta["input_names"]
        }
        types = meta.get("arg_types") or {}
        # No row is stored: the shapes are all that these files are for, and so they stay small.
        records = [
            params_bytes.row_sparse(s, [], b"", types.get(k.partition(":")[2], "float32"))
            for k, s in shapes.items()
        ]
        self.params = params_bytes.container(records, list(shapes))
        self.folder = folder
        self.known = self.findings(self.graph, self.params)

    def findings(self, graph: bytes, params: bytes) -> Counter[tuple[str, str, str | None]]:
        path = self.folder / "a.params"
        path.write_bytes(params)
        context = CheckContext("a.json", graph, params=str(path), given_shapes=self.given_shapes)
        found, _ = run_rules(context)
        self.errors = [finding for finding in found if finding.level is Level.ERROR]
        return Counter((finding.code, finding.message, finding.node) for finding in found)


def is_harmless(case: Case, graph: bytes, params: bytes) -> bool:
    """Whether both files say what the sound ones say."""
    try:
        before, after = read_symbol(case.graph), read_symbol(graph)
    except InputError:
        return False
    return _is_same_graph(before, after) and _has_same_records(case, params)


def _is_same_graph(a: Graph, b: Graph) -> bool:
    if len(a.heads) != len(b.heads) or a.version != b.version:
        return False
    x, y = NameLists(a), NameLists(b)
    named = (x.arguments, x.auxiliary_states) == (y.arguments, y.auxiliary_states)
    return named and bool(
        compare_structure(normalize_attributes(a).heads, normalize_attributes(b).heads)
    )


# What changes how fast or where a graph runs, and not what it computes.
_INERT = {"workspace", "cudnn_tune", "cudnn_off"}
_TRAINING = ("lr_mult", "wd_mult", "init")


def normalize_attributes(graph: Graph) -> Graph:
    """The graph with attributes as their operators read them, and of annotations those that change training."""
    images: dict[Node, Node] = {}
    for node in topological(graph):
        signature = lookup(node.op)
        values = signature.parse(node.attrs)[0] if signature is not None else {}
        attrs = {
            key: repr(value)
            for key, value in values.items()
            if key not in _INERT and not is_free_key(key)
        }
        attrs |= {
            key: value for key, value in node.attrs.items() if key.strip("_").endswith(_TRAINING)
        }
        inputs = tuple(Entry(images[e.node], e.index) for e in node.inputs)
        deps = tuple(images[dep] for dep in node.control_deps)
        images[node] = Node(node.op, node.name, attrs, inputs, None, deps, node.subgraphs)
    heads = tuple(Entry(images[e.node], e.index) for e in graph.heads)
    return Graph(tuple(images.values()), heads)


def _has_same_records(case: Case, params: bytes) -> bool:
    path = case.folder / "b.params"
    path.write_bytes(case.params)
    before = read_index(path)
    path.write_bytes(params)
    try:
        after = read_index(path)
    except InputError:
        return False
    return [(r.key, r.shape, r.dtype) for r in before.records] == [
        (r.key, r.shape, r.dtype) for r in after.records
    ]


def test_corruptions_are_reported(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert STEMS != [NONE]
    cases: dict[str, Case] = {}
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    missed = []
    for seed in range(COUNT):
        rng = Random(seed)
        stem, kind = rng.choice(STEMS), KINDS[seed % len(KINDS)]
        if stem not in cases:
            cases[stem] = Case(corpus, stem, tmp_path)
            assert cases[stem].errors == []
        case = cases[stem]
        what, graph, params = mutated(rng, kind, case.graph, case.params)
        if case.findings(graph, params) - case.known:
            counts[kind]["reported"] += 1
        elif is_harmless(case, graph, params):
            counts[kind]["harmless"] += 1
        else:
            counts[kind]["missed"] += 1
            missed.append(f"seed {seed}: {kind}, {what}, {stem}")
    rate = 1 - len(missed) / COUNT
    with capsys.disabled():
        table = "; ".join(f"{kind} {dict(count)}" for kind, count in counts.items())
        print(
            f"\n{rate:.1%} of {COUNT} corruptions reported or harmless ({table}); missed: {missed or 'none'}"
        )
    assert sum(count["reported"] for count in counts.values()) > COUNT * 0.7  # most of them do harm
    assert rate >= LEAST


def test_a_corruption_without_a_finding_counts_as_missed(corpus: Path, tmp_path: Path) -> None:
    """The measure itself: another value, everywhere, of an attribute that no shape depends on is
    not reported, nor harmless.
    """
    case = Case(corpus, "zoo_vgg11_bn", tmp_path)
    graph = case.graph.replace(b'"eps": "1e-05"', b'"eps": "1e-06"')
    assert graph != case.graph
    assert not case.findings(graph, case.params) - case.known
    assert not is_harmless(case, graph, case.params)
