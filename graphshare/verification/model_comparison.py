"""The comparison of two models: structure, identities, outputs and regions on the same inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from functools import cache
from itertools import chain
from typing import Any, Literal

import msgspec
import numpy as np

from graphshare.analysis.name_lists import number_variables, output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import (
    Fault,
    GraphshareError,
    InputError,
    MemoryLimitError,
    RefusedError,
    UsageError,
)
from graphshare.execute.backends.backend import (
    ChosenEngine,
    ChosenEngines,
    Computation,
    open_computation,
)
from graphshare.execute.prepare.declared_inputs import list_declared
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import find_coarsest
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.text.format import format_count, format_names
from graphshare.text.names import index_unique
from graphshare.verification.branches import check_names
from graphshare.verification.comparison import Values, tolerate_dtype, tolerate_other_program
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.flow import (
    WITHOUT_VALUES,
    ProofOptions,
    compare_round,
    describe_engines,
    find_drawing,
    find_obstacles,
    join_rounds,
    leave_drawn,
    leave_drawn_regions,
    make_round,
)
from graphshare.verification.inputs import (
    Draw,
    Drawer,
    NodePair,
    Setup,
    choose_by_name,
    choose_own,
)
from graphshare.verification.noise import allow_noise, move_weights
from graphshare.verification.pairing import ModelPairs, find_changes, pair_models
from graphshare.verification.quantized import allow_steps
from graphshare.verification.region import RegionReport
from graphshare.verification.region_stages import add_regions
from graphshare.verification.regions import Departure, Judge, tolerate_region
from graphshare.verification.report import (
    OTHER_MODEL,
    BranchReport,
    Report,
    Stage,
    are_weighed,
    engine_stage,
    exact_stage,
    layer_stage,
    structure_stage,
    value_stage,
)
from graphshare.verification.runners import Outputs, Refused, has_refused

Rung = Literal["exact", "by weights", "on inputs"]
"""How strongly two models are shown to be equal, strongest first."""
_TOO_WEAK: dict[Rung, Stage] = {
    "exact": Stage(
        "exact", "fails", "equal on the inputs that were tried, and not exact for every input"
    ),
    "by weights": Stage(
        "samples",
        "fails",
        "equal on the inputs that were tried, and not by weights for every input",
    ),
}
_TOGETHER = 4
"""The sets of inputs whose regions are judged in one walk, with all values in memory."""


class _Runs(msgspec.Struct, frozen=True, eq=False):
    sides: tuple[Computation, Computation]
    draws: Sequence[Draw]
    outputs: Sequence[tuple[Any, Any]]

    def list_computed(self) -> list[Draw]:
        """Both models compute these sets."""
        return [
            draw for draw, own in zip(self.draws, self.outputs, strict=True) if not has_refused(own)
        ]


class ModelComparison:
    """Compares two models. ``departures`` are departing regions; ``tolerate`` is for regions."""

    def __init__(
        self,
        left: Checkpoint,
        right: Checkpoint,
        options: ProofOptions,
        names: Mapping[str, str],
        least: Rung = "on inputs",
    ) -> None:
        """``names`` has node names in the right model; a result weaker than ``least`` fails."""
        self.departures: list[Departure] = []
        left, right = (
            msgspec.structs.replace(each, graph=number_variables(each.graph, options.names)[0])
            for each in (left, right)
        )
        self._options, self._least = options, least
        self._sources = (left, right)
        self._pairs = pair_models(left, right, options.as_input, names, options.targets)
        self._sides = (self._pairs.left, self._pairs.right)
        self._notes: dict[str, None] = dict.fromkeys(self._pairs.notes)
        graphs = [left.graph, right.graph]
        check_names([side.graph for side in self._sides], graphs, options, self._notes)
        self._tolerate(_find_dtype(left, right))
        self._pairing: Pairing | None = None
        self._held: list[Collection[str]] = [side.held or () for side in self._sources]
        self._gaps: list[Stage] = []
        if self._pairs.missing:
            self._gaps.append(_state_missing(self._pairs.missing))
        self._is_exact = False
        self._regions: list[RegionReport] = []
        self._coverage = BodyCoverage()
        self._judge = make_judge(self._pairs)

    def run(self) -> Report:
        self._compare_structure()
        graphs = [side.graph for side in self._sides]
        reasons = find_obstacles(
            [(graph, graph.nodes) for graph in graphs], is_allowed=self._options.allow_unsupported
        )
        if reasons:
            return self._judge_structure(reasons)
        if not self._is_exact:
            self._set_exact(self._judge.find_exact())
        try:
            sides = self._open()
        except InputError as error:
            if not self._options.allow_unsupported:
                if self._is_exact:
                    raise _suggest_structure(error) from None
                raise
            return self._judge_structure([fault.message for fault in error.faults])
        drawing = {**find_drawing(sides[1].graph), **find_drawing(sides[0].graph)}
        draws = self._draw(sides)
        try:
            runs = _Runs(sides, draws, self._run(sides, draws))
        except (InputError, RefusedError) as error:
            if drawing or not self._is_answer_without_values(error):
                raise
            return self._judge_structure([fault.message for fault in error.faults])
        self._adapt_tolerance(runs.outputs)
        rounds = self._judge_values(runs, [*drawing.values()])
        return self._report(tuple(leave_drawn(values, drawing) for values in rounds))

    def _judge_values(self, runs: _Runs, drawing: Sequence[Node]) -> tuple[Values, ...]:
        """Judge the regions; return the outputs' comparison, less differences due to noise."""
        rounds = self._compare(runs)
        if not self._is_exact:
            for side in runs.sides:
                side.close()
            self._judge_regions(runs, drawing)
        if all(self._regions):  # no noise excuses a region
            inputs = [draw.values for draw in runs.draws]
            rounds, allowed = allow_steps(self._sides, runs.outputs, rounds)
            rounds, notes = allow_noise(
                runs.sides, inputs, runs.outputs, rounds, self._tolerance, self._open_moved
            )
            self._notes.update(dict.fromkeys((*allowed, *notes)))
        return rounds

    def _is_answer_without_values(self, error: GraphshareError) -> bool:
        """Whether the models are exactly equal and only drawn numbers were rejected."""
        return (
            self._is_exact and self._options.draws_all and not isinstance(error, MemoryLimitError)
        )

    def _report(self, rounds: tuple[Values, ...]) -> Report:
        is_proved = self._is_exact or are_weighed(self._regions)
        stages = [self._structure, *self._gaps, value_stage(rounds, is_proved=is_proved)]
        if self._options.layers:
            stages.append(layer_stage(rounds))
        if self._engines:
            stages.append(engine_stage(self._engines))
        branch = BranchReport(
            "",
            OTHER_MODEL,
            add_regions(stages, self._regions),
            rounds,
            tolerance=self._tolerance,
            regions=tuple(self._regions),
            is_exact=self._is_exact,
        )
        is_enough = self._is_exact or (self._least == "by weights" and branch.is_weighed)
        if self._least in _TOO_WEAK and branch and not is_enough:
            branch = msgspec.structs.replace(
                branch, stages=(*branch.stages, _TOO_WEAK[self._least])
            )
        for executors in self._executors:
            self._notes.update(describe_engines(executors))
        return Report((branch,), (*self._notes, *self._coverage.describe()))

    def _tolerate(self, dtype: str) -> None:
        """Set both tolerances; an empty dtype means another program."""
        chosen = self._options.tolerance
        self._dtype = dtype
        self._tolerance = tolerate_dtype(dtype, chosen) if dtype else tolerate_other_program(chosen)
        self.tolerate = tolerate_region(dtype, chosen)

    def _adapt_tolerance(self, outputs: Sequence[tuple[Any, Any]]) -> None:
        """Across formats, compare output dtypes: without stated input types, fed types decide."""
        left, right = (find_format(side.graph) for side in self._sides)
        if not self._dtype and left is not right:
            self._tolerate(_find_output_dtype(outputs))

    def _judge_structure(self, reasons: Sequence[str]) -> Report:
        """Without values, only exact equality is proved."""
        values = Stage("values", "skipped", "not run", tuple(sorted({*reasons})))
        stages = [self._structure, *self._gaps, values]
        if not self._is_exact:
            summary = "no values were computed, which may show the differences"
            stages.append(Stage("changes", "fails", summary, self._structure.details))
        branch = BranchReport("", OTHER_MODEL, tuple(stages), is_exact=self._is_exact)
        return Report((branch,), tuple(self._notes))

    def _compare_structure(self) -> None:
        left, right = (find_format(model.graph) for model in self._sources)
        if left is not right:
            self._structure = Stage(
                "structure", "skipped", f"{left.title} and {right.title} have different nodes"
            )
            return
        self._pairing, changes = find_changes(self._pairs, across_dtypes=bool(self._dtype))
        self._is_exact = not changes and not self._dtype
        if self._is_exact:
            self._structure = structure_stage(self._pairing)
            return
        places = "parameters of other dtypes"
        if changes:
            places = format_count(len(changes), "difference")
        summary = f"{places}, so identities and values decide"
        self._structure = Stage("structure", "skipped", summary, changes)

    def _set_exact(self, report: RegionReport | None) -> None:
        if report is not None:
            self._is_exact, self._structure = True, exact_stage(report)
            self._regions = self._regions or [report]

    def _open(self) -> tuple[Computation, Computation]:
        self._executors = self._choose_executors()
        opened = [
            [self._open_model(model, executor) for executor in executors.values()]
            for model, executors in zip(self._sides, self._executors, strict=True)
        ]
        self._others = list(zip(opened[0][1:], opened[1][1:], strict=True))
        return opened[0][0], opened[1][0]

    def _open_model(self, model: Checkpoint, executor: ChosenEngine) -> Computation:
        return open_computation(model, executor, as_input=self._options.as_input)

    def _open_moved(self, side: int) -> Iterator[Computation]:
        """Yield a model with weights a step off, if it has the coarser of two dtypes."""
        if self._dtype and _find_coarsest(self._sides[side]) == self._dtype:
            moved = move_weights(self._sides[side], self._dtype)
            executor = next(iter(self._executors[side].values()))
            yield self._open_model(moved, executor)

    def _choose_executors(self) -> list[ChosenEngines]:
        """An engine applies only to a model that has a choice."""
        default = msgspec.structs.replace(self._options, engines=(None,), strict_engine=False)
        chosen: list[ChosenEngines] = []
        refusals: list[RefusedError] = []
        for model in self._sides:
            try:
                chosen.append(self._options.choose_executors(model.graph, model.where))
            except RefusedError as error:
                refusals.append(error)
                chosen.append(default.choose_executors(model.graph, model.where))
        if len(refusals) == len(self._sides):
            raise refusals[0]
        if refusals and len(self._options.engines) > 1:
            message = (
                "a graph that is compared with a model of another format is computed by one engine"
            )
            raise UsageError(Fault(message, hint="give `engine` one name"))
        return chosen

    def _draw(self, sides: tuple[Computation, Computation]) -> list[Draw]:
        sets = self._options.list_feeds(self._sides[0].graph)
        fed: set[str] = set().union(*sets)
        pairs, alone = [*self._pairs.inputs, *self._pair_parameters(sides, fed)], self._pairs.alone
        read = {node.name for node in chain(alone, *pairs)}
        for name in sorted(fed - read):
            self._notes[f"the value of {name!r} was not used: neither model reads it"] = None
        titles = (self._sides[0].where or "the one model", self._sides[1].where or OTHER_MODEL)
        drawer = Drawer(sides, pairs, self._options.inputs, titles)
        count = 1 if self._options.inputs.sets is not None else None
        shapes = choose_by_name(self._options.shapes, pairs, alone)
        draws: list[Draw] = []
        for feeds in sets:
            setup = Setup(choose_by_name(feeds, pairs, alone), shapes)
            draws += drawer.draw(setup, count=count)
        self._notes.update(drawer.notes)
        self._notes.update(dict.fromkeys(self._note_whole_numbers(titles, fed)))
        return draws

    def _note_whole_numbers(self, titles: tuple[str, str], fed: Set[str]) -> Iterator[str]:
        """Yield a note on each drawn input that takes fractions in one model alone: it got none."""
        left, right = (list_declared(side.graph) for side in self._sides)
        for a, b in self._pairs.inputs:
            if not fed.isdisjoint((a.name, b.name)):
                continue
            one, other = (
                types.get(x.name, (None,))[0] or "" for types, x in ((left, a), (right, b))
            )
            if any("float" in dtype for dtype in (one, other)) and "int" in one + other:
                types_of_both = f"{one} in {titles[0]}, and {other} in {titles[1]}"
                yield f"{a.name!r} is {types_of_both}: both got whole numbers"

    def _pair_parameters(
        self, sides: tuple[Computation, Computation], fed: Set[str]
    ) -> list[NodePair]:
        """Parameters from files need no pairs."""
        parameters = self._find_given_parameters(sides, fed)
        drawn = [a for a, b in parameters if fed.isdisjoint((a.name, b.name))]
        if drawn:
            count = format_count(len(drawn), "parameter")
            summary = f"{count} not compared: no file has values, so they were made up for both"
            self._gaps.append(Stage("parameters", "skipped", summary))
        for side, own in enumerate(zip(*parameters, strict=True)):
            self._held[side] = frozenset(self._held[side]) - {node.name for node in own}
        return parameters

    def _find_given_parameters(
        self, sides: tuple[Computation, Computation], fed: Set[str]
    ) -> list[NodePair]:
        """Pair parameters that are ``fed``, or drawn because neither file contains them.

        They have the same place in graphs of one structure, or else the same name. Raises
        RefusedError with all parameters without a value, or with one and fed.
        """
        seed, inputs = self._options.inputs.params_seed, dict(self._pairs.inputs)

        @cache
        def find_defaults() -> set[str]:
            # Defaults need an open session: look them up only if they matter.
            return {name for side in sides for name in side.list_defaults()}

        def takes_value(a: Node, b: Node) -> bool:
            values = {node.name for node in (a, b) if node.details.holds_value}
            if not fed.isdisjoint((a.name, b.name)):
                return not values or values <= find_defaults()
            is_held = a.name in self._held[0] or b.name in self._held[1]
            return seed is not None and not values and not is_held

        variables = self._pairing.variables if self._pairing else _pair_namesakes(sides)
        chosen = [(a, b) for a, b in variables if a not in inputs and takes_value(a, b)]
        faults: list[Fault] = []
        others: set[str] = set()
        for place, side in enumerate(sides):
            faults += side.list_lacks([pair[place].name for pair in chosen], seed)
            others.update(node.name for node in side.graph.variables() if side.is_parameter(node))
        others.difference_update(node.name for node in chain(*chosen, *self._pairs.inputs))
        message = "is not an input of both: a model contains its value"
        faults += [Fault(f"`feeds` {name!r} {message}") for name in sorted(others & fed)]
        RefusedError.raise_any(faults)
        return chosen

    def _run(
        self, sides: tuple[Computation, Computation], draws: Sequence[Draw]
    ) -> list[tuple[Any, Any]]:
        """Return both models' outputs for each set. Raises the first error if both reject a set."""
        results: list[list[Outputs]] = []
        for side, computation in enumerate(sides):
            results.append([draw.compute(side, computation) for draw in draws])
            computation.close()  # one of them is in memory at a time
        outputs = list(zip(*results, strict=True))
        for left, right in outputs:
            if isinstance(left, Refused) and isinstance(right, Refused):
                raise left.error
        return outputs

    def _compare(self, runs: _Runs) -> tuple[Values, ...]:
        engines = [runs.sides, *self._others]
        rounds = [
            make_round(engines, draw, own, by_output=True)
            for draw, own in zip(runs.draws, runs.outputs, strict=True)
        ]
        nodes = self._pair_nodes() if self._options.layers else ()
        heads = (self._sides[0].graph.heads, self._sides[1].graph.heads)
        names, layers = self._pairs.names, self._options.layers
        values, self._engines = join_rounds(
            compare_round(each, names, self._tolerance, nodes=nodes, heads=heads, layers=layers)
            for each in rounds
        )
        return values

    def _pair_nodes(self) -> list[tuple[Node, Node]]:
        """Pair nodes by place in graphs of one structure, else by first outputs' names."""
        if self._pairing:
            return self._pairing.pairs
        named = [_index_names(side.graph) for side in self._sides]
        return [(node, named[1][name]) for name, node in named[0].items() if name in named[1]]

    def _judge_regions(self, runs: _Runs, drawing: Sequence[Node]) -> None:
        """Sets that both models compute are judged a few at a time."""
        (left, right), computed = runs.sides, runs.list_computed()
        for start in range(0, len(computed), _TOGETHER):
            together = computed[start : start + _TOGETHER]
            # Conditions of the left model's Ifs or, without any, of the right one's.
            taken = [
                self._coverage.look(left, d.values[0]) or self._coverage.look(right, d.values[1])
                for d in together
            ]
            named = [_name_values(runs.sides, draw, self._held) for draw in together]
            judged = self._judge.judge(named, self.tolerate)
            if judged is None:
                self._regions = []
                return
            self.departures = self.departures or list(self._judge.departures)
            judged = leave_drawn_regions(judged, drawing)
            self._regions += [msgspec.structs.replace(judged, taken=each) for each in taken]
        is_inexact = any(each.regions or each.defined for each in self._regions)
        if self._regions and not is_inexact:
            self._set_exact(self._regions[0])  # ranks found in a run made all regions exact


def _name_values(
    sides: tuple[Computation, Computation], draw: Draw, held: Sequence[Collection[str]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return both models' inputs by name in their dtypes, without parameters in ``held``."""
    named: tuple[dict[str, Array], dict[str, Array]] = {}, {}
    for own, side, drawn, known in zip(named, sides, draw.values, held, strict=True):
        values, _ = side.complete(drawn)
        for node, array in values.items():
            is_held = side.is_parameter(node) and node.name in known
            if not is_held:
                own[node.name] = array
    return named


def _pair_namesakes(sides: tuple[Computation, Computation]) -> list[NodePair]:
    twins = {node.name: node for node in sides[1].graph.variables()}
    return list(choose_own(sides[0].graph.variables(), twins).items())


def make_judge(pairs: ModelPairs) -> Judge:
    """Return the judge of the regions of two models."""
    names = {a.name: b.name for a, b in pairs.inputs}
    return Judge(pairs.left, pairs.right, pairs.outputs, names, compares_outputs=True)


def weigh_models(left: Checkpoint, right: Checkpoint) -> RegionReport | None:
    """Compare two models by weights, for every input; None if these do not decide every region.

    Raises:
        RefusedError: outputs or inputs cannot be paired.
        MemoryLimitError: the constants would exceed a chosen limit.
    """
    return make_judge(pair_models(left, right, (), {})).weigh()


def _suggest_structure(error: InputError) -> InputError:
    """Add the way out to faults without a hint, of models that no engine takes."""
    faults = [
        msgspec.structs.replace(fault, hint=fault.hint or WITHOUT_VALUES) for fault in error.faults
    ]
    return InputError(faults)


def _state_missing(missing: Mapping[str, Sequence[str]]) -> Stage:
    details: list[str] = []
    for title, names in missing.items():
        outputs = format_names(map(repr, names))
        details.append(
            f"{title} alone has the output {outputs}; `targets` chooses what is compared"
        )
    count = format_count(sum(map(len, missing.values())), "output")
    return Stage("outputs", "unknown", f"{count} of one model alone", tuple(details))


def _index_names(graph: Graph) -> dict[str, Node]:
    nodes = post_order(head.node for head in graph.heads)
    return index_unique((output_name(Entry(node)), node) for node in nodes if node.op)


def _find_dtype(left: Checkpoint, right: Checkpoint) -> str:
    """Return the least precise parameter dtype, empty if the models agree."""
    known = [dtype for dtype in map(_find_coarsest, (left, right)) if dtype is not None]
    return find_coarsest(known) if len(set(known)) > 1 else ""


def _find_coarsest(model: Checkpoint) -> str | None:
    file = model.parameter_file
    return None if file is None else find_coarsest(record.dtype for record in file.records)


def _find_output_dtype(outputs: Sequence[tuple[Any, Any]]) -> str:
    """Return the least precise differing dtype, empty if the models agree."""
    differing: set[str] = set()
    for both in outputs:
        if has_refused(both):
            continue
        for pair in zip(*both, strict=False):
            dtypes = {str(value.dtype) for value in pair if isinstance(value, np.ndarray)}
            if len(dtypes) > 1:
                differing |= dtypes
    return find_coarsest(differing)
