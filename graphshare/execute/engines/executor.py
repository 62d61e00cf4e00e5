"""Executors of ``run``, ``bind`` and ``verify``: numpy's plans, or an engine's programs, compiled
once.

An engine computes a graph as a whole, or in a few convex parts with numpy between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Role
from graphshare.errors import Fault, RefusedError
from graphshare.execute.engines.engine import (
    Compiled,
    Engine,
    GraphPart,
    NodesRefusedError,
    Selective,
)
from graphshare.execute.interpreter import Run, run_plan
from graphshare.execute.plan import ExecutionPlan, make_plan
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.rebuild import rebuild
from graphshare.ir.walk import list_value_places, post_order
from graphshare.ops.bodies import draws_numbers
from graphshare.ops.inference import Inference, ShapeTable
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs
from graphshare.text.format import format_count, format_names

_MANY = 6
"""The number of forward passes from which on an engine's work at compilation pays."""
_KEPT = 16
"""The number of cached plans, and of cached programs."""
Watch = Callable[[Node, Sequence[Array]], None]
_Output = tuple[Node, int]
_NAMED = 6
_RANDOM = "it draws random numbers, which must be the same in every engine"


class Executor:
    """Computes heads of graphs with ``engine`` (None is numpy), named ``title`` for users.

    ``notes`` name the nodes left to numpy; with ``strict`` they are refused instead. ``forwards``
    is the expected number of passes; ``alone`` is as in
    :class:`~graphshare.execute.engines.engine.GraphPart`. With ``fixed`` parameters never change, else a
    graph is compiled again for other arrays.
    """

    def __init__(
        self,
        engine: Engine | None = None,
        *,
        strict: bool = False,
        forwards: int = 1,
        alone: bool = True,
        fixed: bool = False,
        title: str = "numpy",
    ) -> None:
        self.engine, self.title = engine, title
        self.notes: dict[str, None] = {}
        self._strict, self._forwards, self._alone, self._fixed = strict, forwards, alone, fixed
        self._plans: dict[tuple[_Output, ...], ExecutionPlan] = {}
        self._programs: dict[Any, tuple[Program | None, Mapping[Node, Array]]] = {}

    def run(
        self,
        heads: Sequence[Entry],
        values: Mapping[Node, Array],
        inference: Inference,
        roles: Mapping[Node, Role],
        *,
        rng: np.random.Generator | None = None,
        watch: Watch | None = None,
    ) -> Run:
        """Return ``heads`` for values of the variables, whose shapes and dtypes led to
        ``inference``.

        ``watch`` is called with each operator and its outputs, in topological order.

        Raises:
            RefusedError: with ``strict``, nodes that the engine cannot take; a kernel refuses its
                inputs.
        """
        inner: list[list[Entry]] = []
        if self.engine is not None and watch is not None:
            nodes = post_order(entry.node for entry in heads)
            inner = [list(visible_outputs(node)) for node in nodes if not node.is_variable]
        # As a head, a watched output is neither fused nor dropped.
        wanted = [*heads, *chain.from_iterable(inner)]
        program = self.find_program(wanted, values, inference, roles)
        if program is None:
            plan = self.find_plan(heads)
            return run_plan(plan, values, shapes=inference.shapes, rng=rng, watch=watch)
        done = program.run(values, rng)
        if watch is not None:
            rest = iter(done.outputs[len(heads) :])
            for outputs in inner:
                watch(outputs[0].node, [next(rest) for _ in outputs])
        return Run(done.outputs[: len(heads)], done.peak_bytes)

    def find_plan(self, heads: Sequence[Entry]) -> ExecutionPlan:
        """Return the steps of numpy for these heads; cached. Raises as :func:`make_plan`.

        A kernel that is registered later does not change a cached plan.
        """
        key = tuple(list_value_places(heads))
        if key not in self._plans:
            if len(self._plans) >= _KEPT:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = make_plan(heads)
        return self._plans[key]

    def find_program(
        self,
        heads: Sequence[Entry],
        values: Mapping[Node, Array],
        inference: Inference,
        roles: Mapping[Node, Role],
    ) -> Program | None:
        """Return the program for these heads and shapes, None if numpy computes; cached."""
        if self.engine is None:
            return None
        nodes = post_order(entry.node for entry in heads)
        constants: dict[Node, Array] = {}
        kinds: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        for node in nodes:
            if not node.is_variable:
                continue
            if node in roles and roles[node].is_parameter:
                constants[node] = values[node]
            else:
                kinds.append((values[node].shape, values[node].dtype))
        outputs = tuple(list_value_places(heads))
        # By identity: comparing values would take longer than a pass.
        identities = () if self._fixed else tuple(map(id, constants.values()))
        key = (outputs, tuple(kinds), identities)
        if key not in self._programs:
            if len(self._programs) >= _KEPT:
                del self._programs[next(iter(self._programs))]
            part = GraphPart(
                Graph(tuple(nodes), tuple(heads)),
                Inference(nodes, inference.shapes, inference.types),
                constants,
                repeated=self._forwards >= _MANY,
                alone=self._alone,
            )
            # With the constants: the ids in the key stay theirs while they live.
            self._programs[key] = (self._compile(part), constants)
        return self._programs[key][0]

    def _compile(self, part: GraphPart) -> Program | None:
        """Return a part compiled by the engine; None if left to numpy."""
        assert self.engine is not None
        if isinstance(self.engine, Selective) and not self.engine.takes(part, self._forwards):
            self.notes[
                f"auto: numpy computes; {self.engine.name} would take longer to open than it saves"
            ] = None
            return None
        program = compile_program(self.engine, part, strict=self._strict)
        if isinstance(self.engine, Selective):
            self.notes[f"auto: {self.engine.name} computes"] = None
        self.notes.update(dict.fromkeys(filter(None, [program.note()])))
        return program


class _Step(msgspec.Struct, frozen=True, eq=False):
    cut: _Cut
    run: Compiled | ExecutionPlan
    last: Sequence[_Output]


class Segment(msgspec.Struct, frozen=True, eq=False):
    """Operators that are computed together, in topological order; ``apart`` with numpy, else by the engine."""

    nodes: tuple[Node, ...]
    apart: bool


class _Cut(msgspec.Struct, frozen=True, eq=False):
    """A segment as a graph: ``inputs`` maps its variables to outputs of other segments.

    ``outputs`` are the heads' values, ``images`` maps old nodes to new ones.
    """

    segment: Segment
    graph: Graph
    inference: Inference
    inputs: Mapping[Node, _Output]
    outputs: tuple[_Output, ...]
    images: Mapping[Node, Node]


_CompiledCuts = dict[
    tuple[tuple[Node, ...], tuple[_Output, ...]], tuple[_Cut, Compiled | ExecutionPlan]
]
"""The computations by nodes and outputs, each with its cut: every cut has new variables."""


class Program:
    """The heads of a graph, compiled for an engine. ``in_numpy`` maps nodes left to numpy to reasons."""

    def __init__(
        self, engine: Engine, part: GraphPart, steps: Sequence[_Step], in_numpy: Mapping[Node, str]
    ) -> None:
        self.engine, self.in_numpy = engine, in_numpy
        self._part, self._steps = part, steps
        self.parts = sum(1 for step in steps if not isinstance(step.run, ExecutionPlan))

    def note(self) -> str:
        """Return the nodes computed with numpy, in one line; empty if none."""
        if not self.in_numpy:
            return ""
        names = format_names([f"{node.name} ({node.op})" for node in self.in_numpy], _NAMED)
        reason = next(iter(self.in_numpy.values()))
        count = format_count(len(self.in_numpy), "node")
        note = (
            f"numpy computes {count} that {self.engine.name} cannot compute: {names} (reason for "
            f"the first: {reason})"
        )
        if self.parts:
            parts = format_count(self.parts, "part")
            note += f"; {self.engine.name} computes the rest in {parts}"
        return note

    def run(self, values: Mapping[Node, Array], rng: np.random.Generator | None = None) -> Run:
        """Return the heads for values of the variables. Engines' memory is unknown: the peak counts
        numpy's arrays.
        """
        known: dict[_Output, Array] = {}
        peak = 0
        for step in self._steps:
            feeds = dict(values)
            for variable, output in step.cut.inputs.items():
                feeds[variable] = known[output]
            before = sum(array.nbytes for array in known.values())
            if isinstance(step.run, ExecutionPlan):
                done = run_plan(step.run, feeds, shapes=step.cut.inference.shapes, rng=rng)
                outputs: Sequence[Array] = done.outputs
                peak = max(peak, before + done.peak_bytes)
            else:
                outputs = step.run(feeds)
                peak = max(peak, before + sum(array.nbytes for array in outputs))
            known.update(zip(step.cut.outputs, outputs, strict=True))
            for output in step.last:
                del known[output]
        heads: list[Array] = []
        for entry in self._part.graph.heads:
            node = entry.node
            heads.append(values[node] if node.is_variable else known[node, entry.index])
        return Run(heads, peak)


def compile_program(engine: Engine, part: GraphPart, *, strict: bool = False) -> Program:
    """Compile a graph in as few parts as its engine allows; with ``strict`` there is one.

    Raises:
        RefusedError: with ``strict`` nodes that the engine cannot take; all known ones are listed.
    """
    operators = [node for node in part.inference.nodes if not node.is_variable]
    random = {node for node in operators if draws_numbers(node)}
    refused = dict.fromkeys(random, _RANDOM)
    compiled: _CompiledCuts = {}
    while True:
        # A refusal may split a segment into parts that are new to the engine.
        cuts = _cut_all(partition(operators, refused, random), part)
        reasons = _compile_cuts(engine, cuts, part, compiled)
        refused.update(reasons)
        if strict and refused:
            in_order = [node for node in operators if node in refused]
            raise RefusedError([_make_refusal(engine, node, refused[node]) for node in in_order])
        if not reasons:
            break
    last_uses = zip(cuts, _last_uses(cuts, part), strict=True)
    steps = [_Step(*compiled[each.segment.nodes, each.outputs], last) for each, last in last_uses]
    in_numpy = {node: refused[node] for node in operators if node in refused}
    return Program(engine, part, steps, in_numpy)


def _compile_cuts(
    engine: Engine, cuts: Sequence[_Cut], part: GraphPart, compiled: _CompiledCuts
) -> dict[Node, str]:
    """Add missing cuts to ``compiled``; return refused nodes with reasons."""
    reasons: dict[Node, str] = {}
    # Several parts wait for each other and for numpy.
    alone = part.alone and len(cuts) == 1
    for each in cuts:
        key = each.segment.nodes, each.outputs
        if key in compiled:
            continue
        if each.segment.apart:
            compiled[key] = each, make_plan(each.graph.heads)
            continue
        own = GraphPart(
            each.graph, each.inference, part.constants, repeated=part.repeated, alone=alone
        )
        try:
            compiled[key] = each, engine.compile(own)
        except NodesRefusedError as error:
            sources = {image: node for node, image in each.images.items()}
            reasons.update((sources[image], reason) for image, reason in error.reasons.items())
    return reasons


def _make_refusal(engine: Engine, node: Node, reason: str) -> Fault:
    message = f"{engine.name} cannot compute operator {node.op}: {reason}"
    hint = "leave `strict_engine` out: numpy computes it then"
    return Fault(message, node=node.name, hint=hint)


def _cut_all(segments: Sequence[Segment], part: GraphPart) -> list[_Cut]:
    """Return each segment as a graph; its heads are values that later segments or the part's heads read."""
    owner: dict[Node, int] = {}
    reads: list[tuple[int, Entry]] = []
    for number, segment in enumerate(segments):
        owner.update(dict.fromkeys(segment.nodes, number))
        for node in segment.nodes:
            reads += [(number, entry) for entry in node.inputs]
    reads += [(len(segments), head) for head in part.graph.heads]
    wanted: list[dict[_Output, None]] = [{} for _ in segments]
    for reader, entry in reads:
        writer = owner.get(entry.node, reader)  # each segment reads variables itself
        if writer != reader:
            wanted[writer][entry.node, entry.index] = None
    return [
        cut(segment, tuple(outputs), part.inference, part.graph)
        for segment, outputs in zip(segments, wanted, strict=True)
    ]


def _last_uses(cuts: Sequence[_Cut], part: GraphPart) -> list[list[_Output]]:
    kept = set(list_value_places(part.graph.heads))
    last: list[list[_Output]] = []
    # From the end, the first reader of a value is its last use.
    for part_cut in reversed(cuts):
        last.append([output for output in part_cut.inputs.values() if output not in kept])
        kept.update(part_cut.inputs.values())
    return last[::-1]


def partition(
    nodes: Sequence[Node], apart: Collection[Node], in_turn: Collection[Node] = ()
) -> list[Segment]:
    """Return the segments of topologically sorted ``nodes`` in the order of computation.

    A node joins the first possible segment of its kind: the engine computes all nodes that need
    nothing of ``apart``, then numpy the nodes of ``apart`` that follow, and so on. So no two
    segments wait for each other, and no division has fewer segments. Nodes of ``in_turn`` (which
    draw random numbers) keep their order.
    """
    levels: dict[Node, int] = {}  # even: the engine, odd: numpy
    turn = 0
    members: dict[int, list[Node]] = {}
    for node in nodes:
        if node.is_variable:
            continue
        needed = [*(entry.node for entry in node.inputs), *node.control_deps]
        level = max((levels[other] for other in needed if not other.is_variable), default=0)
        if node in in_turn:
            level = max(level, turn)
        # Even levels are the engine's, odd ones numpy's.
        level += level % 2 != (node in apart)
        levels[node] = level
        if node in in_turn:
            turn = level
        members.setdefault(level, []).append(node)
    return [Segment(tuple(members[level]), level % 2 == 1) for level in sorted(members)]


def cut(segment: Segment, outputs: Sequence[_Output], inference: Inference, graph: Graph) -> _Cut:
    """Return ``segment`` as a graph with the heads ``outputs``; it keeps the variables of ``graph``."""
    members = set(segment.nodes)
    stand_ins: dict[_Output, Node] = {}
    images: dict[Node, Node] = {}
    for node in segment.nodes:
        for entry in node.inputs:
            if entry.node.is_variable:
                images[entry.node] = entry.node
            elif entry.node not in members:
                key = (entry.node, entry.index)
                stand_ins.setdefault(key, Node("", output_name(entry)))

    def redirect(entry: Entry, _: Node) -> Entry | None:
        variable = stand_ins.get((entry.node, entry.index))
        return Entry(variable) if variable is not None else None

    # A control dependency may lead to an earlier segment.
    def detach(node: Node) -> Node:
        return msgspec.structs.replace(node, control_deps=()) if node.control_deps else node

    variables = [*images]
    rebuild(segment.nodes, detach, redirect=redirect, images=images)
    heads = tuple(Entry(images[node], index) for node, index in outputs)
    nodes = (*variables, *stand_ins.values(), *(images[node] for node in segment.nodes))
    own = Inference(list(nodes), ShapeTable(inference.np_shape), {})
    for node in (*variables, *segment.nodes):
        own.shapes[images[node]], own.types[images[node]] = (
            inference.shapes[node],
            inference.types[node],
        )
    for (node, index), variable in stand_ins.items():
        own.shapes[variable], own.types[variable] = (
            [inference.shapes[node][index]],
            [inference.types[node][index]],
        )
    inputs = {variable: key for key, variable in stand_ins.items()}
    return _Cut(
        segment,
        msgspec.structs.replace(graph, nodes=nodes, heads=heads),
        own,
        inputs,
        tuple(outputs),
        images,
    )
