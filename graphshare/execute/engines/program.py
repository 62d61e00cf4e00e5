"""A graph as an engine computes it: as a whole, or in parts between which numpy computes the other nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from graphshare.analysis.bodies import draws_numbers
from graphshare.errors import Fault, RefusedError
from graphshare.execute.engines.engine import Compiled, Engine, NodesRefusedError, Part
from graphshare.execute.engines.partition import Cut, Output, Segment, cut, partition
from graphshare.execute.interpreter import Run, run_plan
from graphshare.execute.plan import Plan, make_plan
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names

_NAMED = 6
_RANDOM = "it draws random numbers, which are to be the same in every engine"


class _Step(msgspec.Struct, frozen=True, eq=False):
    """One part: what computes it, and the values that are not needed after it."""

    cut: Cut
    run: Compiled | Plan
    last: Sequence[Output]


class Program:
    """What computes the heads of a graph with an engine. ``in_numpy`` are the nodes that the engine did not take, by reason."""

    def __init__(self, engine: Engine, part: Part, steps: Sequence[_Step], in_numpy: Mapping[Node, str]) -> None:
        self.engine, self.in_numpy = engine, in_numpy
        self._part, self._steps = part, steps
        self.parts = sum(1 for step in steps if not isinstance(step.run, Plan))

    def note(self) -> str:
        """Return what is computed with numpy, in one line; empty where the engine computes all."""
        if not self.in_numpy:
            return ""
        names = format_names([f"{node.name} ({node.op})" for node in self.in_numpy], _NAMED)
        reason = next(iter(self.in_numpy.values()))
        count = format_count(len(self.in_numpy), "node")
        rest = f"; {self.engine.name} computes the rest in {format_count(self.parts, 'part')}" if self.parts else ""
        return f"numpy computes {count} that {self.engine.name} does not take: {names} (of the first: {reason}){rest}"

    def run(self, values: Mapping[Node, Array], rng: np.random.Generator | None = None) -> Run:
        """Return the heads for values of the variables. The peak is that of arrays of numpy: engines do not tell theirs."""
        known: dict[Output, Array] = {}
        peak = 0
        for step in self._steps:
            feeds = {**values, **{variable: known[output] for variable, output in step.cut.inputs.items()}}
            before = sum(array.nbytes for array in known.values())
            if isinstance(step.run, Plan):
                done = run_plan(step.run, feeds, shapes=step.cut.inference.shapes, rng=rng)
                outputs: Sequence[Array] = done.outputs
                peak = max(peak, before + done.peak_bytes)
            else:
                outputs = step.run(feeds)
                peak = max(peak, before + sum(array.nbytes for array in outputs))
            known.update(zip(step.cut.outputs, outputs, strict=True))
            for output in step.last:
                del known[output]
        heads = [(entry.node, entry.index) for entry in self._part.graph.heads]
        return Run([values[node] if node.is_variable else known[node, index] for node, index in heads], {}, peak, [])


def compile_program(engine: Engine, part: Part, *, strict: bool = False) -> Program:
    """Compile a graph in as few parts as its engine allows. With ``strict`` there is one part only.

    Raises:
        RefusedError: with ``strict`` nodes that the engine cannot take; all that are known are listed.
    """
    operators = [node for node in part.inference.nodes if not node.is_variable]
    random = {node for node in operators if draws_numbers(node)}
    refused = dict.fromkeys(random, _RANDOM)
    made: dict[tuple[tuple[Node, ...], tuple[Output, ...]], Compiled] = {}
    while True:
        segments = partition(operators, refused, random)
        cuts = _cut_all(segments, part)
        reasons: dict[Node, str] = {}
        for segment, of in zip(segments, cuts, strict=True):
            if not segment.apart and (segment.nodes, of.outputs) not in made:
                alone = part.alone and len(segments) == 1
                try:
                    made[segment.nodes, of.outputs] = engine.compile(
                        Part(of.graph, of.inference, part.constants, repeated=part.repeated, alone=alone)
                    )
                except NodesRefusedError as error:
                    sources = {image: node for node, image in of.images.items()}
                    reasons.update((sources[image], reason) for image, reason in error.reasons.items())
        refused.update(reasons)
        if strict and refused:
            raise RefusedError(_list_refusals(engine, refused, operators))
        if not reasons:
            break
    steps = [
        _Step(of, make_plan(of.graph.heads) if segment.apart else made[segment.nodes, of.outputs], last)
        for segment, of, last in zip(segments, cuts, _last_uses(cuts, part), strict=True)
    ]
    return Program(engine, part, steps, {node: refused[node] for node in operators if node in refused})


def _list_refusals(engine: Engine, refused: Mapping[Node, str], operators: Sequence[Node]) -> list[Fault]:
    hint = "leave --strict-engine out: numpy computes it then"
    return [
        Fault(f"{engine.name} does not take operator {node.op}: {refused[node]}", node=node.name, hint=hint)
        for node in operators
        if node in refused
    ]


def _cut_all(segments: Sequence[Segment], part: Part) -> list[Cut]:
    """Return each segment as a graph of its own; its heads are what later segments or the heads of the part read."""
    owner = {node: number for number, segment in enumerate(segments) for node in segment.nodes}
    wanted: list[dict[Output, None]] = [{} for _ in segments]
    for number, segment in enumerate(segments):
        for node in segment.nodes:
            for entry in node.inputs:
                if entry.node in owner and owner[entry.node] != number:
                    wanted[owner[entry.node]][entry.node, entry.index] = None
    for entry in part.graph.heads:
        if entry.node in owner:
            wanted[owner[entry.node]][entry.node, entry.index] = None
    return [cut(segment, tuple(of), part.inference, part.graph) for segment, of in zip(segments, wanted, strict=True)]


def _last_uses(cuts: Sequence[Cut], part: Part) -> list[list[Output]]:
    """Return for each cut the values whose last use it is."""
    kept = {(entry.node, entry.index) for entry in part.graph.heads}
    last: list[list[Output]] = []
    for of in reversed(cuts):
        last.append([output for output in of.inputs.values() if output not in kept])
        kept.update(of.inputs.values())
    return last[::-1]
