"""Bodies of If, Loop and Scan as separate models, compared on the values of a first pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Entry, Node
from graphshare.ir.rebuild import keep, rebuild, relink
from graphshare.ir.terms import GraphTerms, Place
from graphshare.ir.walk import Body, list_bodies, list_operands, own_inputs, post_order
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import Tolerate
from graphshare.verification.parts import is_array, name_dtype
from graphshare.verification.region import BodyJudge, Region, RegionReport
from graphshare.verification.region_plan import (
    AnalyzedModel,
    Cone,
    Pair,
    RegionPlan,
    find_term,
    get_place,
)

Read = Callable[[Entry], Any]
"""Returns a value of the original."""
# The number of a Loop's pass, and its condition
_COUNTERS = (np.array(0, np.int64), np.array(True))
_UNKNOWN = Fault("a value that a body is given is not known, or not an array")


Owners = tuple[Node, Node, tuple[tuple[int, int], ...]]
"""An operator with bodies on each side, and the pairs of their outputs."""


class BodyPair(msgspec.Struct, eq=False):
    """The same body of two operators as models with equal input names.

    ``place`` names body and operator.
    """

    place: str
    models: tuple[Checkpoint, Checkpoint]
    heads: list[Pair]
    feeds: dict[str, Array]


def find_decided(side: AnalyzedModel, terms: GraphTerms) -> dict[Node, Body]:
    """Return each If on a constant with the body that it computes."""
    format_, decided = find_format(side.model.graph), dict[Node, Body]()
    for node in side.nodes:
        switch = format_.bodies.find_switch(node)
        if switch is None:
            continue
        condition, bodies = switch
        truth = terms.form.find_truth(terms.of(condition))
        if truth is not None:
            decided[node] = bodies[0 if truth else 1]
    return decided


def choose_bodies(
    side: AnalyzedModel, decided: Mapping[Node, Body]
) -> tuple[Checkpoint, tuple[Entry, ...]]:
    """Replace Ifs by bodies; return model and heads, unchanged if names would clash."""
    links: dict[Place, Entry] = {}
    order: list[Node] = []
    for node in side.nodes:
        if node not in decided:
            order.append(node)
            continue
        body = decided[node]
        links.update({(variable, 0): entry for variable, entry in body.captured.items()})
        links.update({(node, index): head for index, head in enumerate(body.graph.heads)})
        order += _list_unlinked(body, links)
    names = [name for name in chain(*(node.details.outputs for node in order)) if name]
    if not links or len(set(names)) < len(names):
        return side.model, side.heads
    model = _substitute(side.model, order, side.heads, links, {})
    return model, model.graph.heads


def _list_unlinked(body: Body, links: Mapping[Place, Entry]) -> list[Node]:
    nodes = post_order(head.node for head in body.graph.heads)
    return [node for node in nodes if (node, 0) not in links]


def _substitute(
    model: Checkpoint,
    order: Sequence[Node],
    heads: Sequence[Entry],
    links: Mapping[Place, Entry],
    images: dict[Node, Node],
) -> Checkpoint:
    """``images`` has nodes outside ``order`` that stay unchanged."""

    def redirect(entry: Entry, _: Node | None = None) -> Entry:
        # A body may return a captured output of a replaced If.
        while get_place(entry) in links:
            entry = links[get_place(entry)]
        return relink(entry, images)

    rebuild(order, keep, redirect=redirect, images=images)
    graph, heads = model.graph, tuple(map(redirect, heads))
    nodes = tuple(post_order(head.node for head in heads))
    return msgspec.structs.replace(
        model, graph=msgspec.structs.replace(graph, nodes=nodes, heads=heads)
    )


def pair_owners(plan: RegionPlan, cone: Cone) -> Iterator[Owners]:
    """Yield operators whose bodies can be compared one by one, with paired outputs."""
    lefts, rights = ([node for node in side if node.subgraphs] for side in cone.sides)
    if len(lefts) != len(rights):
        return
    for a, b in zip(lefts, rights, strict=True):
        # Otherwise their bodies may get different arguments.
        if not _are_alike(plan, a, b):
            continue
        outputs = _pair_outputs(plan, a, b)
        if outputs:
            yield a, b, tuple(sorted(outputs.items()))


def _are_alike(plan: RegionPlan, a: Node, b: Node) -> bool:
    """Bodies and captured values may differ."""
    if a.op != b.op or a.details.values != b.details.values:
        return False
    if list_bodies(a).keys() != list_bodies(b).keys():
        return False
    operands = [find_term(plan.left, entry) for entry in own_inputs(a)]
    return operands == [find_term(plan.right, entry) for entry in own_inputs(b)]


def _pair_outputs(plan: RegionPlan, a: Node, b: Node) -> dict[int, int]:
    """Pair an If's outputs at ends of regions; other operators' in order."""
    pairs: dict[int, int] = {}
    if a.op != "If":
        if a.num_outputs == b.num_outputs:
            pairs = {index: index for index in range(a.num_outputs or 0)}
        return pairs
    for x, y in chain(*(cone.ends for cone in plan.cones)):
        i, j = _find_output(plan, plan.left, a, x), _find_output(plan, plan.right, b, y)
        if i is not None and j is not None:
            pairs[i] = j
    return pairs


def _find_output(plan: RegionPlan, terms: GraphTerms, node: Node, end: Entry) -> int | None:
    """Find which output equals ``end``, even behind operators that change nothing."""
    if end.node is node:
        return end.index
    term = plan.uncut.get(get_place(end), terms.of(end))
    for index in range(node.num_outputs or 0):
        own = plan.uncut.get((node, index), terms.terms[node, index])
        if own == term:
            return index
    return None


def open_bodies(
    sides: Sequence[AnalyzedModel], plan: RegionPlan, owners: Owners, read: Read
) -> list[BodyPair]:
    """Return the bodies of two operators as models.

    Raises:
        RefusedError: an argument of a body is unknown, or not an array.
    """

    def read_source(entry: Entry) -> Any:
        source = plan.sources.get(find_term(plan.right, entry))
        return None if source is None else read(source)

    *nodes, outputs = owners
    node = nodes[0]
    operands = [None if entry is None else read(entry) for entry in list_operands(node)]
    values = find_format(sides[0].model.graph).bodies.start_body(node, operands, _COUNTERS)
    if values is None or not all(map(is_array, values)):
        raise RefusedError(_UNKNOWN)
    scalars = len(_COUNTERS) if node.op == "Loop" else 0
    # The sizes of later arguments may change between passes.
    arguments = [
        (f"argument {i}", value, () if i < scalars else None) for i, value in enumerate(values)
    ]
    lefts, rights = map(list_bodies, nodes)
    pairs = []
    for key in lefts:
        feeds: dict[str, Array] = {name: value for name, value, _ in arguments}
        left = _open_body(sides[0], plan.left, lefts[key], arguments, feeds, read)
        right = _open_body(sides[1], plan.right, rights[key], arguments, feeds, read_source)
        matched: Iterable[tuple[int, int]] = outputs
        if node.op != "If":
            # A Loop's body also returns the condition.
            matched = [(number, number) for number in range(len(left.graph.heads))]
        heads = [(left.graph.heads[i], right.graph.heads[j]) for i, j in matched]
        place = f"{key} of {output_name(Entry(node, 0))!r}"
        pairs.append(BodyPair(place, (left, right), heads, feeds))
    return pairs


class BodyJudges:
    """Judges bodies as separate models. ``reports`` belong to one walk."""

    def __init__(
        self, judges: dict[Owners, list[BodyJudge]], open_judge: Callable[..., BodyJudge]
    ) -> None:
        """``judges`` are from earlier walks; ``open_judge`` judges two bodies."""
        self._judges, self._open_judge = judges, open_judge
        self.reports: dict[Owners, list[RegionReport]] = {}

    def clear(self) -> None:
        """Discard judges and reports: the pairs behind them have changed."""
        self._judges.clear()
        self.reports.clear()

    def judge(self, owners: Owners, pairs: Sequence[BodyPair], tolerate: Tolerate) -> None:
        """Regions may share bodies: judge them once per walk."""
        if owners not in self._judges:
            self._judges[owners] = [
                self._open_judge(*pair.models, pair.heads, {name: name for name in pair.feeds})
                for pair in pairs
            ]
        reports = self.reports.setdefault(owners, [])
        if reports:
            return
        for judge, pair in zip(self._judges[owners], pairs, strict=True):
            report = judge.judge([(pair.feeds, pair.feeds)], tolerate)
            assert report is not None
            regions: list[Region] = []
            for region in report.regions:
                place = f"{region.place} in {pair.place}" if region.place else pair.place
                regions.append(msgspec.structs.replace(region, place=place))
            reports.append(msgspec.structs.replace(report, regions=tuple(regions)))

    def are_exact(self, owners: Owners) -> bool:
        return all(judge.find_exact() for judge in self._judges[owners])


def _open_body(
    side: AnalyzedModel,
    terms: GraphTerms,
    body: Body,
    arguments: Sequence[tuple[str, Array, tuple[()] | None]],
    feeds: dict[str, Array],
    read: Read,
) -> Checkpoint:
    """Return a body as a model, and add its captured values to ``feeds``.

    ``arguments`` are its inputs: names, values and known shapes. Raises as :func:`open_bodies`.
    """
    inputs: list[Node] = []
    for node in body.graph.nodes:
        is_input = node.details.holds_value is False
        if is_input and node not in body.captured:
            inputs.append(node)
    if len(inputs) != len(arguments):
        raise RefusedError(_UNKNOWN)
    links: dict[Place, Entry] = {}
    images: dict[Node, Node] = {}

    def link_input(variable: Node, name: str, dtype: str, shape: Sequence[Any] | None) -> None:
        node = find_format(side.model.graph).editing.make_input(name, dtype, shape)
        links[variable, 0], images[node] = Entry(node), node

    for variable, entry in body.captured.items():
        # Captured constants stay constants: identities and axes need their values.
        needed = _list_constants(terms, entry)
        if needed:
            images.update(zip(needed, needed, strict=True))
            links[variable, 0] = entry
            continue
        name = f"captured {find_term(terms, entry)}"
        if name not in feeds:
            feeds[name] = read(entry)
        value = feeds[name]
        if not is_array(value):
            raise RefusedError(_UNKNOWN)
        dtype, shape = side.find_parts(entry)
        link_input(variable, name, dtype or name_dtype(value), shape)
    inputs.sort(key=lambda node: node.details.values["position"])
    for node, (name, value, shape) in zip(inputs, arguments, strict=True):
        link_input(node, name, name_dtype(value), shape)
    order = _list_unlinked(body, links)
    return _substitute(side.model, order, body.graph.heads, links, images)


def _list_constants(terms: GraphTerms, entry: Entry) -> list[Node]:
    """Return the nodes behind a constant; none if the value needs an input."""
    if terms.key(entry)[0] != "constant":
        return []
    nodes = post_order([entry.node])
    return nodes if all(node.op or node.details.holds_value for node in nodes) else []


def chooses_bodies(node: Node) -> bool:
    """Whether an operator, or one inside it, computes only one of its bodies."""
    if node.op == "If":
        return True
    nodes = chain(*(body.graph.nodes for body in list_bodies(node).values()))
    return any(chooses_bodies(inner) for inner in nodes if inner.subgraphs)
