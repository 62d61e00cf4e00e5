"""The flow of every proof: run both sides on the same inputs, and compare."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, TypeVar

import msgspec

from graphshare.analysis.name_lists import number_variables
from graphshare.checkpoint.load import Names, Shapes, as_names, as_shapes
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, UsageError, locate_refusals
from graphshare.execute.backends.backend import (
    ChosenEngine,
    ChosenEngines,
    Computation,
    EngineOptions,
    choose_executor,
    find_obstacle,
    list_unsupported,
    warm_up,
)
from graphshare.execute.plan import UnsupportedError
from graphshare.execute.prepare.fed_values import as_values
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.resources import Resources
from graphshare.verification.comparison import (
    BY_ELEMENT,
    EngineComparison,
    Tolerance,
    Values,
    compare_engines,
    compare_runs,
    tolerate_other_program,
)
from graphshare.verification.input_sets import read_sets
from graphshare.verification.inputs import Draw, Inputs
from graphshare.verification.region import Region, RegionReport
from graphshare.verification.runners import ComputationRunner, Outputs, Round, Runner

Value = TypeVar("Value")


class ProofOptions(msgspec.Struct, frozen=True):
    """A user's choices for a proof, as in :func:`graphshare.verify`; the default engine is None."""

    inputs: Inputs
    tolerance: Tolerance
    feeds: Mapping[str, Array] = EMPTY
    shapes: Mapping[str, GivenShape] = EMPTY
    targets: tuple[str, ...] = ()
    as_input: tuple[str, ...] = ()
    layers: bool = False
    train_step: bool = False
    expect_tied: bool = False
    allow_unsupported: bool = False
    engines: tuple[str | None, ...] = (None,)
    strict_engine: bool = False

    @property
    def draws_all(self) -> bool:
        """Whether all inputs and sizes are drawn; a model may not accept such numbers."""
        return not (self.feeds or self.shapes or self.train_step) and self.inputs.sets is None

    def with_values(
        self, feeds: Mapping[str, Any] | None, shapes: Shapes | None, *graphs: Graph
    ) -> ProofOptions:
        """Add values and shapes for inputs of graphs. Raises as :func:`as_values`.

        An option also applies to a variable of its name that another one selects by number.
        """
        own = msgspec.structs.replace(
            self, feeds=as_values(feeds, *graphs), shapes=as_shapes(shapes, *graphs)
        )
        if not any("#" in name for name in own.names):
            return own
        numbered: dict[str, str] = {}
        for graph in graphs:
            _, images = number_variables(graph, own.names)
            for node, image in images.items():
                if image is not node and node.is_variable:
                    numbered[image.name] = node.name

        def spread(values: Mapping[str, Value]) -> dict[str, Value]:
            added = {name: values[old] for name, old in numbered.items() if old in values}
            return {**added, **values}

        as_input = tuple(spread(dict.fromkeys(own.as_input)))
        spread_shapes = {
            name: shape
            for name, shape in spread(own.shapes).items()
            if name in own.shapes or name not in own.feeds
        }
        return msgspec.structs.replace(
            own, feeds=spread(own.feeds), shapes=spread_shapes, as_input=as_input
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of variables among the options."""
        return (*self.feeds, *self.shapes, *self.as_input)

    def choose_executors(self, graph: Graph, where: str) -> dict[str | None, ChosenEngine]:
        """Return a graph's executor for each engine.

        Raises UsageError or RefusedError as :func:`choose_executor`.
        """
        # Not alone: branches and engines take turns, and waiting threads would block cores.
        options = EngineOptions(self.strict_engine, self.inputs.rounds, alone=False)
        return {
            name: choose_executor(graph, name, where=where, options=options)
            for name in self.engines
        }

    def list_feeds(self, graph: Graph) -> list[Mapping[str, Array]]:
        """Return the feeds of each set, plus ``feeds``. Raises InputError for faulty sets."""
        sets = self.inputs.sets
        if sets is None:
            return [self.feeds]
        is_folder = isinstance(sets, str | os.PathLike)
        read = read_sets(os.fspath(sets), graph) if is_folder else sets  # type: ignore[arg-type]
        return [{**as_values(each, graph), **self.feeds} for each in read]  # type: ignore[union-attr,arg-type]


def make_options(
    inputs: Inputs | None, tolerance: Tolerance | None, engine: Names, **others: Any
) -> ProofOptions:
    """Return options; a None argument selects its default."""
    own = inputs or Inputs()
    engines = tuple(name for text in as_names(engine) for name in text.split(",")) or (None,)
    return ProofOptions(
        own,
        tolerance or BY_ELEMENT,
        as_input=tuple(as_names(own.as_input)),
        engines=engines,
        **others,
    )


@contextmanager
def limit_proof(resources: Resources | None, *models: Checkpoint) -> Iterator[None]:
    """Limit the block's resources, and prepare the models' backends. Errors name the first model.

    Raises:
        RefusedError: records of a model have no names.
    """
    with locate_refusals(models[0]), (resources or Resources()).limit():
        for model in models:
            model.held  # noqa: B018  (refuses records without names)
            warm_up(find_format(model.graph).backends)
        yield


def check_options(options: ProofOptions) -> list[Fault]:
    """Return a fault for each pair of incompatible options."""
    faults: list[Fault] = []
    sets = options.inputs.sets
    has_rounds = options.inputs.rounds > 1 or options.train_step
    if sets is not None and has_rounds:
        message = (
            "each set of `sets` is a round: `rounds` and `train_step` cannot be combined with it"
        )
        faults.append(Fault(message))
    if isinstance(sets, Sequence) and not isinstance(sets, str) and not len(sets):
        faults.append(Fault("`sets` contains no set", hint="leave `sets` out to draw inputs"))
    if options.expect_tied and not options.train_step:
        faults.append(Fault("`expect_tied` needs `train_step`"))
    return faults


def find_obstacles(
    parts: Sequence[tuple[Graph, Sequence[Node]]], *, is_allowed: bool, is_needed: bool = True
) -> tuple[str, ...]:
    """List reasons why nodes cannot be computed here.

    Raises:
        UnsupportedError: operators without a kernel, unless that is allowed.
        UsageError: a needed backend is not installed, unless that is allowed.
    """
    obstacles = [obstacle for graph, _ in parts if (obstacle := find_obstacle(graph))]
    if obstacles and is_needed and not is_allowed:
        message, _, hint = obstacles[0].partition(": ")
        hints = filter(None, (hint, WITHOUT_VALUES))
        raise UsageError(Fault(message, hint="; ".join(hints)))
    faults = [fault for graph, nodes in parts for fault in list_unsupported(graph, nodes)]
    if faults and not is_allowed:
        raise UnsupportedError(faults)
    return tuple(sorted({*obstacles, *(fault.message for fault in faults)}))


WITHOUT_VALUES = "`allow_unsupported` accepts structure and parameters alone"
"""The hint for models that cannot be computed here."""
WITHOUT_PROOF = "write it without a proof with `verify=False`"
"""The hint for rewrites whose proof shows nothing."""
RoundComparisons = tuple[list[Values], list[EngineComparison]]
"""The comparisons of both sides in each engine, and of each other engine with the first."""


def make_round(
    engines: Iterable[tuple[Computation, Computation]],
    draw: Draw,
    known: tuple[Outputs | None, Outputs | None],
    *,
    by_output: bool = False,
) -> Round:
    """Return both sides in each engine on a set of inputs.

    ``known`` are the first engine's outputs, if computed; ``by_output`` names its inner outputs
    separately.
    """
    runners: dict[str, tuple[Runner, Runner]] = {}
    for both in engines:
        is_first = not runners
        outputs = known if is_first else (None, None)
        is_named = by_output and is_first
        left, right = (
            ComputationRunner(side, values, own, seed=draw.seed, by_output=is_named)
            for side, values, own in zip(both, draw.values, outputs, strict=True)
        )
        runners[both[0].engine] = left, right
    return Round(runners, draw.sizes_of)


def compare_round(
    each: Round,
    names: Sequence[tuple[str, str]],
    tolerance: Tolerance,
    *,
    nodes: Sequence[tuple[Node, Node]] = (),
    heads: tuple[Sequence[Entry] | None, Sequence[Entry]] = ((), ()),
    layers: bool = False,
) -> RoundComparisons:
    """Compare both sides in each engine on one set of inputs, and each engine with the first.

    ``names`` are the outputs' on both sides, ``nodes`` pairs that compute the same; a side whose
    ``heads`` are None is not compared across engines.
    """
    values = [
        compare_runs(
            names, left, right, tolerance, nodes=nodes, layers=layers, sizes_of=each.sizes_of
        )
        for left, right in each.runners.values()
    ]
    across = tolerate_other_program(tolerance)
    first, *others = each.runners.values()
    engines = []
    for other in others:
        sides = [
            (a, b, own) for a, b, own in zip(first, other, heads, strict=True) if own is not None
        ]
        engines.append(compare_engines(sides, across, sizes_of=each.sizes_of))
    return values, engines


def join_rounds(
    rounds: Iterable[RoundComparisons],
) -> tuple[tuple[Values, ...], tuple[EngineComparison, ...]]:
    """Join all rounds' comparisons: the first engine's, the others', and across engines."""
    by_round, across = [], []
    for values, engines in rounds:
        by_round.append(values)
        across += engines
    by_engine = zip(*by_round, strict=True)
    return tuple(chain(*by_engine)), tuple(across)


def find_drawing(graph: Graph) -> dict[int, Node]:
    """Find outputs, by index, that depend on unseeded random numbers, each with a drawing operator."""
    drawing = find_format(graph).meaning.list_drawing(graph)
    drawn: dict[int, Node] = {}
    if not drawing:
        return drawn
    for place, head in enumerate(graph.heads):
        needed = set(post_order([head.node]))
        first = next((node for node in drawing if node in needed), None)
        if first is not None:
            drawn[place] = first
    return drawn


def describe_drawing(node: Node) -> str:
    """Explain why a value that depends on random numbers is not judged."""
    return f"it depends on random numbers without a seed, which {node.op} {node.shown_name!r} draws"


def leave_drawn_regions(report: RegionReport, drawing: Collection[Node]) -> RegionReport:
    """Mark regions that draw random numbers as not judged."""
    reasons = {(node.op, node.shown_name): describe_drawing(node) for node in drawing}
    regions = []
    for region in report.regions:
        operators = [(each.op, each.name) for each in (*region.nodes, *region.other_nodes)]
        reason = next((reasons[each] for each in operators if each in reasons), "")
        if reason:
            region = Region(
                region.ends, region.nodes, region.other_nodes, reason=reason, place=region.place
            )
        regions.append(region)
    return msgspec.structs.replace(report, regions=tuple(regions))


def leave_drawn(values: Values, drawing: Mapping[int, Node]) -> Values:
    """Mark outputs that depend on random numbers as not judged."""
    if not drawing:
        return values
    outputs = list(values.outputs)
    for place, node in drawing.items():
        outputs[place] = msgspec.structs.replace(outputs[place], unjudged=describe_drawing(node))
    return msgspec.structs.replace(values, outputs=tuple(outputs))


def describe_engines(executors: ChosenEngines) -> dict[str, None]:
    """Return the notes of engines, each once."""
    notes: dict[str, None] = {}
    for executor in executors.values():
        if executor is not None:
            notes |= dict.fromkeys(executor.notes)
    return notes
