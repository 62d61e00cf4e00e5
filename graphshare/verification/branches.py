"""``verify`` of branches whose nodes belong together: structure, parameters, values, training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.branches import Counterparts, HeadPairs, NodePair
from graphshare.analysis.name_lists import list_implied_variables, output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.execute.backends.backend import Computation, open_computation
from graphshare.execute.engines.executor import Executor
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.formats.model_format import Capability, find_format
from graphshare.formats.params.lookup import ParameterPair, compare_parameters
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Graph, Node
from graphshare.ops.kernel import Array
from graphshare.text.format import format_bytes, format_count, format_shape
from graphshare.text.names import did_you_mean
from graphshare.verification.comparison import Tolerance
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.flow import (
    ProofOptions,
    compare_rounds,
    describe_engines,
    find_drawing,
    find_obstacles,
    leave_drawn,
)
from graphshare.verification.inputs import Draw, Drawer, name_branch
from graphshare.verification.pairing import Side, pair_nodes, upgrade_model
from graphshare.verification.report import (
    BranchReport,
    ParameterResult,
    Report,
    Stage,
    engine_stage,
    layer_stage,
    parameter_stage,
    structure_stage,
    training_stage,
    value_stage,
)
from graphshare.verification.runners import ComputationRunner, Round, Runner
from graphshare.verification.training import Training, train_branches

Executors = Mapping[str | None, Executor | None]


class Setup(msgspec.Struct, frozen=True, eq=False):
    """The feeds and shapes of one branch, by variables of the reference; ``branch`` is None if both branches have the same."""

    branch: str | None
    feeds: Mapping[Node, Array]
    shapes: Mapping[Node, GivenShape]


def check_names(parts: Sequence[Graph], graphs: Sequence[Graph], options: ProofOptions, notes: dict[str, None]) -> None:
    """Refuse options with a name that belongs to no variable; add a note on variables that nothing compared needs.

    ``parts`` are what is compared of ``graphs``. Raises RefusedError with all such names.
    """
    needed = {node.name for part in parts for node in part.variables()}
    known = {node.name for graph in graphs for node in graph.variables()}
    known |= {implied.name for graph in graphs for implied in list_implied_variables(graph)} | needed
    named = (("`feeds`", options.feeds), ("`shapes`", options.shapes), ("`as_input`", options.as_input))
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=did_you_mean(name, known))
        for option, names in named
        for name in names
        if name not in known
    ]
    if faults:
        raise RefusedError(faults)
    for option, names in named:
        if idle := [name for name in names if name not in needed]:
            notes[f"{option}: nothing that is compared needs {', '.join(idle)}"] = None


def verify_pairs(heads: Sequence[HeadPairs], model: Checkpoint, options: ProofOptions) -> Report:
    """Compare branches of a model with their references: structure, parameters, values, training.

    Raises:
        RefusedError: names that belong to no variable; shapes, values or parameters are missing.
        UnsupportedError: operators without a kernel, unless that is allowed; all are listed.
    """
    notes: dict[str, None] = {}
    source = model.graph
    wanted = [entry for pair in heads for entry in (*pair.left, *pair.right)]
    model, images = upgrade_model(model, wanted, notes)
    heads = [
        msgspec.structs.replace(pair, left=tuple(images[e] for e in pair.left), right=tuple(images[e] for e in pair.right))
        for pair in heads
    ]
    check_names([model.graph], [source], options, notes)
    executors = options.choose_executors(model.graph, model.where)
    pairings = [pair_nodes(pair) for pair in heads]
    twins = Counterparts((pair, pairing.pairs) for pair, pairing in zip(heads, pairings, strict=True))
    side = Side(model, twins.expand(options.as_input))
    coverage = BodyCoverage()
    reports = [
        _Branch(pair, pairing, side, twins, options, executors, notes, coverage).verify()
        for pair, pairing in zip(heads, pairings, strict=True)
    ]
    notes.update(describe_engines(executors))
    return Report(tuple(reports), (*notes, *coverage.describe()))


class _Branch:
    """The proof of one branch and its reference."""

    def __init__(
        self,
        pair: HeadPairs,
        pairing: Pairing,
        side: Side,
        twins: Counterparts,
        options: ProofOptions,
        executors: Executors,
        notes: dict[str, None],
        coverage: BodyCoverage,
    ) -> None:
        self.pair, self.pairing, self.side, self.twins, self.options = pair, pairing, side, twins, options
        self._executors, self._notes, self._coverage = executors, notes, coverage
        self.parameters: list[ParameterPair] = []
        self._setups: list[list[Setup]] = []
        self._firsts: list[Draw] = []

    def verify(self) -> BranchReport:
        """Return the report of all stages."""
        pair, options = self.pair, self.options
        structure = structure_stage(self.pairing)
        if not self.pairing:
            return BranchReport(pair.reference, pair.label, (structure,))
        owned = [(a, b) for a, b in self.pairing.variables if self.side.is_parameter(a, b)]
        compared = compare_parameters(owned, self.side.is_auxiliary, self.side.records, self.side.records)
        self._setups = [self._plan_setups(feeds) for feeds in options.list_feeds(self.side.model.graph)]
        fed = {a for setups in self._setups for setup in setups for a in setup.feeds}
        self.parameters = [
            msgspec.structs.replace(p, how="fed", detail="") if p.how == "missing" and p.left in fed else p for p in compared
        ]
        stages = [structure, parameter_stage(self.parameters, self.side.records is None, self._describe_tied())]
        parameters = tuple(ParameterResult(p.left.name, p.right.name, p.how, p.detail) for p in self.parameters)
        differs = stages[-1].verdict == "fails"
        tolerance = Tolerance(options.tolerance.atol, options.tolerance.rtol)
        # Parameters that differ are an answer without values.
        allowed, nodes = options.allow_unsupported, [a for a, _ in self.pairing.pairs]
        reasons = find_obstacles([(self.side.model.graph, nodes)], is_allowed=allowed, is_needed=not differs)
        try:
            computations = [] if reasons else self._open()
            names = [(output_name(a), output_name(b)) for a, b in zip(pair.left, pair.right, strict=True)]
            rounds, engines = compare_rounds(
                names,
                self._plan_rounds(computations),
                tolerance,
                nodes=self.pairing.pairs,
                heads=(pair.left, pair.right),
                layers=options.layers,
            )
        # Parameters that differ are an answer already, so a run that fails besides must not hide it.
        except (RefusedError, InputError) as error:
            if not differs and not (options.allow_unsupported and isinstance(error, InputError)):
                raise
            reasons = tuple(str(fault) for fault in error.faults)
        if reasons:
            stages.append(Stage("values", "skipped", "not run", reasons))
            return BranchReport(pair.reference, pair.label, tuple(stages), parameters=parameters)
        drawing = find_drawing(computations[0][0]) | find_drawing(computations[0][1])
        rounds = tuple(leave_drawn(values, drawing) for values in rounds)
        stages.append(value_stage(rounds))
        stages += [layer_stage(rounds)] if options.layers else []
        stages += [engine_stage(engines)] if engines else []
        training = None
        if options.train_step and any(stage.verdict == "fails" for stage in stages):
            stages.append(Stage("training", "skipped", "the branches differ before they are trained"))
        elif options.train_step:
            training = self._train(computations[0])
            stages.append(training_stage(training, expect_tied=options.expect_tied))
        return BranchReport(pair.reference, pair.label, tuple(stages), rounds, training, parameters, engines, tolerance)

    def _plan_setups(self, feeds_of_set: Mapping[str, Array]) -> list[Setup]:
        """Return the feeds and shapes of the reference and of the branch; one where they are the same."""
        feeds_by_name, shapes_by_name = self.twins.spread(feeds_of_set, self.options.shapes)
        setups = []
        for label in (self.pair.reference, self.pair.label):
            names = {a: self.twins.names(a)[label] for a, _ in self.pairing.variables}
            feeds = {a: feeds_by_name[name] for a, name in names.items() if name in feeds_by_name}
            shapes = {a: shapes_by_name[name] for a, name in names.items() if name in shapes_by_name}
            setups.append(Setup(label, feeds, shapes))
        first, second = setups
        variables = [a for a, _ in self.pairing.variables]
        if first.shapes == second.shapes and all(_is_same(first.feeds.get(a), second.feeds.get(a)) for a in variables):
            return [msgspec.structs.replace(first, branch=None)]
        return setups

    def _describe_tied(self) -> tuple[str, ...]:
        """Return how many parameters of both, and how much of a model that holds them, are tied; nothing for other models."""
        graph, records = self.side.model.graph, self.side.records
        format_ = find_format(graph)
        if records is None or format_.supports(Capability.PARAMETER_FILE):
            return ()
        inside = format_.index_functions(graph, [node for node, _ in self.pairing.pairs])
        tied = [*inside, *filter(None, (records.of(pair.left) for pair in self.parameters if pair.how == "tied"))]
        size, whole = sum(record.data_size for record in tied), records.file.whole_size
        sizes = f"{format_bytes(size)} of {format_bytes(max(size, whole))}"
        more = f" ({len(inside)} of them in functions)" if inside else ""
        return (f"tied: {len(tied)} of {format_count(len(self.parameters) + len(inside), 'parameter')}{more}, {sizes}",)

    def _open(self) -> list[tuple[Computation, Computation]]:
        """Return the reference and the branch, opened in each engine."""
        model = self.side.model
        return [
            tuple(  # type: ignore[misc]
                open_computation(
                    msgspec.structs.replace(model.graph, heads=heads),
                    model.parameter_file,
                    model.where,
                    executor,
                    as_input=self.side.as_input,
                )
                for heads in (self.pair.left, self.pair.right)
            )
            for executor in self._executors.values()
        ]

    def _plan_rounds(self, computations: Sequence[tuple[Computation, Computation]]) -> Iterator[Round]:
        """Yield both branches in each engine, for all sets of inputs and sizes."""
        for setups in self._setups if computations else ():
            drawer = Drawer(
                computations[0],
                self._list_shared(),
                self.options.inputs,
                training=self.options.train_step,
                describe=self.twins.describe,
                notes=self._notes,
            )
            if len(setups) > 1:
                self._check_sizes(setups, computations[0])
            count = 1 if self.options.inputs.sets is not None else None
            for setup in setups:
                for number, draw in enumerate(drawer.draw(setup.feeds, setup.shapes, setup.branch, count=count)):
                    self._firsts += [draw] if number == 0 else []
                    self._coverage.look(computations[0][0], draw.values[0])
                    yield Round(self._make_runners(computations, draw), draw.sizes_of)

    def _list_shared(self) -> list[NodePair]:
        """Return the variables of both branches that get one value: inputs, and parameters that are not known to differ."""
        inputs = [(a, b) for a, b in self.pairing.variables if not self.side.is_parameter(a, b)]
        records = self.side.records
        missing = [p for p in self.parameters if p.how == "missing" and (records is None or records.of(p.right) is None)]
        shared = [p for p in self.parameters if p.how in ("tied", "equal", "fed")]
        return [*inputs, *((p.left, p.right) for p in (*shared, *missing))]

    def _make_runners(
        self, computations: Sequence[tuple[Computation, Computation]], draw: Draw
    ) -> dict[str, tuple[Runner, Runner]]:
        runners: dict[str, tuple[Runner, Runner]] = {}
        for number, both in enumerate(computations):
            outputs = (None, None) if number else draw.outputs  # which are those of the first engine
            left, right = (
                ComputationRunner(side, values, known, seed=draw.seed)
                for side, values, known in zip(both, draw.values, outputs, strict=True)
            )
            runners[both[0].engine] = left, right
        return runners

    def _check_sizes(self, setups: Sequence[Setup], computations: tuple[Computation, Computation]) -> None:
        """Refuse sizes that a branch cannot take. Raises RefusedError; every branch is named with the sizes."""
        faults: list[Fault] = []
        to_right, inputs = dict(self.pairing.variables), self.options.inputs
        labels = (self.pair.reference, self.pair.label)
        weights: dict[Node, GivenShape] = {}  # those that are drawn have one shape for all sizes
        for owner, setup in enumerate(setups):
            sizes = _format_sizes(setup, self.twins)
            for side in (owner, 1 - owner):  # its own sizes first: a branch that cannot take those is the reason
                feeds = {to_right[a] if side else a: array for a, array in setup.feeds.items()}
                own = {**{a: shape for a, shape in weights.items() if a not in setup.feeds}, **setup.shapes}
                shapes = {to_right[a] if side else a: shape for a, shape in own.items()}
                try:
                    drawn = computations[side].draw(feeds, shapes, seed=inputs.seed, params_seed=inputs.params_seed)
                    if not owner and not side:
                        weights = {node: drawn.values[node].shape for node in drawn.parameters}
                except RefusedError as error:
                    whose = "" if side == owner else f" the sizes of {name_branch(labels[owner])},"
                    start = f"{name_branch(labels[side])} cannot run at{whose} {sizes}"
                    faults += [msgspec.structs.replace(fault, message=f"{start}: {fault.message}") for fault in error.faults]
                    break
        if faults:
            raise RefusedError(faults)

    def _train(self, computations: tuple[Computation, Computation]) -> Training:
        """Return what one step of training did to both branches."""
        inputs = [(a, b) for a, b in self.pairing.variables if not self.side.is_parameter(a, b)]
        first = self._firsts[: len(self._setups[0])]
        if any(each is not None and each.engine is not None for each in self._executors.values()):
            self._notes["training is computed with numpy"] = None
        return train_branches(
            self.pair, self.pairing, inputs, self.parameters, first, computations, self.side.roles, self.options
        )


def _is_same(a: Any, b: Any) -> bool:
    """Return whether two values that are fed are the same; None is one that is not."""
    if a is None or b is None:
        return a is b
    if isinstance(a, list) and isinstance(b, list):  # sequences
        return len(a) == len(b) and all(map(_is_same, a, b))
    if not (hasattr(a, "dtype") and hasattr(b, "dtype")):
        return False
    if a.dtype.kind == b.dtype.kind == "O":  # texts
        return a.shape == b.shape and bool((a == b).all())
    return bool((a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes()))  # in bits: 1 / x tells 0 from -0


def _format_sizes(setup: Setup, twins: Counterparts) -> str:
    """Return the sizes that were given for a branch, by the names of its own variables."""
    shapes = {**setup.shapes, **{node: array.shape for node, array in setup.feeds.items() if hasattr(array, "shape")}}
    label = setup.branch or ""
    return ", ".join(f"{twins.names(node).get(label, node.name)} {format_shape(shape)}" for node, shape in shapes.items())
