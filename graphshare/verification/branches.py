"""``verify`` for branches with paired nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec

from graphshare.analysis.branches import Counterparts, HeadPairs, NodePair
from graphshare.analysis.name_lists import list_implied_variables, number_variables, output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, InputError, MemoryLimitError, RefusedError
from graphshare.execute.backends.backend import ChosenEngines, Computation, open_computation
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.lookup import ParameterPair, compare_parameters
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import Graph, Node
from graphshare.ops.kernel import Array
from graphshare.text.format import format_bytes, format_count, format_shape
from graphshare.text.names import did_you_mean
from graphshare.verification.comparison import EngineComparison, Values
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.flow import (
    ProofOptions,
    compare_round,
    describe_engines,
    find_drawing,
    find_obstacles,
    join_rounds,
    leave_drawn,
    make_round,
)
from graphshare.verification.inputs import Draw, Drawer, Setup, name_branch, read_bits
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
from graphshare.verification.runners import Round
from graphshare.verification.training import Training, train_branches


def check_names(
    parts: Sequence[Graph], graphs: Sequence[Graph], options: ProofOptions, notes: dict[str, None]
) -> None:
    """Reject options that name no variable; note variables that the compared ``parts`` do not need.

    Raises RefusedError with all such names.
    """
    needed = {node.name for part in parts for node in part.variables()}
    known = set(needed)
    for graph in graphs:
        numbered, _ = number_variables(graph, options.names)
        known.update(node.name for node in numbered.variables())
        known.update(implied.name for implied in list_implied_variables(graph))
    named = (
        ("`feeds`", options.feeds),
        ("`shapes`", options.shapes),
        ("`as_input`", options.as_input),
    )
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=did_you_mean(name, known))
        for option, names in named
        for name in names
        if name not in known
    ]
    if faults:
        raise RefusedError(faults)
    for option, names in named:
        idle = [name for name in names if name not in needed]
        if idle:
            notes[f"{option}: nothing that is compared needs {', '.join(idle)}"] = None


def open_in_engines(
    graphs: Sequence[Graph], side: Side, executors: ChosenEngines
) -> list[list[Computation]]:
    """Open a model's graphs in each engine."""
    models = [msgspec.structs.replace(side.model, graph=graph) for graph in graphs]
    return [
        [open_computation(model, each, as_input=side.as_input) for model in models]
        for each in executors.values()
    ]


def verify_pairs(heads: Sequence[HeadPairs], model: Checkpoint, options: ProofOptions) -> Report:
    """Compare branches of a model with their references: structure, parameters, values, training.

    Raises:
        RefusedError: names belong to no variable; shapes, values or parameters are missing.
        UnsupportedError: operators without a kernel, unless that is allowed.
    """
    notes: dict[str, None] = {}
    source = model.graph
    wanted = [entry for pair in heads for entry in (*pair.left, *pair.right)]
    model, images = upgrade_model(model, wanted, notes, options.names)
    heads = [
        msgspec.structs.replace(
            pair,
            left=tuple(images[e] for e in pair.left),
            right=tuple(images[e] for e in pair.right),
        )
        for pair in heads
    ]
    check_names([model.graph], [source], options, notes)
    executors = options.choose_executors(model.graph, model.where)
    pairings = [pair_nodes(pair) for pair in heads]
    twins = Counterparts(
        (pair, pairing.pairs) for pair, pairing in zip(heads, pairings, strict=True)
    )
    side = Side(model, twins.expand(options.as_input))
    proof = _Proof(side, twins, options, executors, notes)
    reports = [
        _Branch(proof, pair, pairing).verify()
        for pair, pairing in zip(heads, pairings, strict=True)
    ]
    notes.update(describe_engines(executors))
    return Report(tuple(reports), (*notes, *proof.coverage.describe()))


class _Proof(msgspec.Struct, eq=False):
    """State common to all branches; ``notes`` and ``coverage`` collect findings."""

    side: Side
    twins: Counterparts
    options: ProofOptions
    executors: ChosenEngines
    notes: dict[str, None]
    coverage: BodyCoverage = msgspec.field(default_factory=BodyCoverage)


class _Branch:
    def __init__(self, proof: _Proof, pair: HeadPairs, pairing: Pairing) -> None:
        self._proof, self.pair, self.pairing = proof, pair, pairing
        self.side, self.twins, self.options = proof.side, proof.twins, proof.options
        self.parameters: list[ParameterPair] = []
        self._setups: list[list[Setup]] = []
        self._computations: list[tuple[Computation, Computation]] = []
        self._firsts: list[Draw] = []

    def verify(self) -> BranchReport:
        pair, options = self.pair, self.options
        structure = structure_stage(self.pairing)
        if not self.pairing:
            return BranchReport(pair.reference, pair.label, (structure,))
        self._setups = [
            self._plan_setups(feeds) for feeds in options.list_feeds(self.side.model.graph)
        ]
        self.parameters = self._compare_parameters()
        stages = [
            structure,
            parameter_stage(self.parameters, self.side.records is None, self._describe_tied()),
        ]
        parameters = tuple(
            ParameterResult(p.left.name, p.right.name, p.how, p.detail) for p in self.parameters
        )
        rounds, engines, reasons = self._compare_values(is_needed=stages[-1].verdict != "fails")
        if reasons:
            stages.append(Stage("values", "skipped", "not run", reasons))
            return BranchReport(pair.reference, pair.label, tuple(stages), parameters=parameters)
        # Equal graphs and parameters prove it, also where all numbers are NaN.
        is_proved = all(stage.verdict == "holds" for stage in stages)
        stages.append(value_stage(rounds, is_proved=is_proved))
        if options.layers:
            stages.append(layer_stage(rounds))
        if engines:
            stages.append(engine_stage(engines))
        training = None
        if options.train_step:
            if any(stage.verdict == "fails" for stage in stages):
                summary = "the branches differ before they are trained"
                stages.append(Stage("training", "skipped", summary))
            else:
                training = self._train()
                stages.append(training_stage(training, expect_tied=options.expect_tied))
        return BranchReport(
            pair.reference,
            pair.label,
            tuple(stages),
            rounds,
            training,
            parameters,
            engines,
            self.options.tolerance,
        )

    def _compare_parameters(self) -> list[ParameterPair]:
        """A fed parameter is not missing."""
        owned = [(a, b) for a, b in self.pairing.variables if self.side.is_parameter(a, b)]
        records = self.side.records
        compared = compare_parameters(owned, self.side.auxiliary, records, records)
        fed = {a for setup in chain(*self._setups) for a in setup.feeds}
        for place, parameter in enumerate(compared):
            if parameter.how == "missing" and parameter.left in fed:
                compared[place] = msgspec.structs.replace(parameter, how="fed", detail="")
        return compared

    def _compare_values(
        self, *, is_needed: bool
    ) -> tuple[tuple[Values, ...], tuple[EngineComparison, ...], tuple[str, ...]]:
        pair, options = self.pair, self.options
        nodes = [a for a, _ in self.pairing.pairs]
        parts = [(self.side.model.graph, nodes)]
        reasons = find_obstacles(parts, is_allowed=options.allow_unsupported, is_needed=is_needed)
        if reasons:
            return (), (), reasons
        names = [
            (output_name(a), output_name(b)) for a, b in zip(pair.left, pair.right, strict=True)
        ]
        heads = (pair.left, pair.right)
        try:
            self._computations = self._open()
            rounds, engines = join_rounds(
                compare_round(
                    each,
                    names,
                    self.options.tolerance,
                    nodes=self.pairing.pairs,
                    heads=heads,
                    layers=options.layers,
                )
                for each in self._plan_rounds()
            )
        # An answer without values stays valid if a run fails.
        except (RefusedError, InputError) as error:
            if is_needed and not self._is_allowed(error):
                raise
            return (), (), tuple(str(fault) for fault in error.faults)
        left, right = self._computations[0]
        drawing = find_drawing(left.graph) | find_drawing(right.graph)
        return tuple(leave_drawn(values, drawing) for values in rounds), engines, ()

    def _is_allowed(self, error: RefusedError | InputError) -> bool:
        """Numbers that were only drawn may be invalid for a model."""
        if self.options.allow_unsupported and isinstance(error, InputError):
            return True
        is_drawn = bool(self._firsts) and self.options.draws_all
        return is_drawn and not isinstance(error, MemoryLimitError)

    def _plan_setups(self, feeds_of_set: Mapping[str, Array]) -> list[Setup]:
        """Return feeds and shapes of reference and branch, once if equal."""
        feeds_by_name, shapes_by_name = self.twins.spread(feeds_of_set, self.options.shapes)
        variables = [a for a, _ in self.pairing.variables]
        setups = []
        for label in (self.pair.reference, self.pair.label):
            feeds: dict[Node, Array] = {}
            shapes: dict[Node, GivenShape] = {}
            for a in variables:
                name = self.twins.names(a)[label]
                if name in feeds_by_name:
                    feeds[a] = feeds_by_name[name]
                if name in shapes_by_name:
                    shapes[a] = shapes_by_name[name]
            setups.append(Setup(feeds, shapes, label))
        first, second = setups
        if first.shapes != second.shapes:
            return setups
        for a in variables:
            if read_bits(first.feeds.get(a)) != read_bits(second.feeds.get(a)):
                return setups
        return [msgspec.structs.replace(first, branch=None)]

    def _describe_tied(self) -> tuple[str, ...]:
        graph, records = self.side.model.graph, self.side.records
        format_ = find_format(graph)
        if records is None or format_.supports(Operation.PARAMETER_FILE):
            return ()
        inside = format_.bodies.index_functions(graph, [node for node, _ in self.pairing.pairs])
        own = (records.of(pair.left) for pair in self.parameters if pair.how == "tied")
        tied = [*inside, *filter(None, own)]
        size, whole = sum(record.data_size for record in tied), records.file.whole_size
        sizes = f"{format_bytes(size)} of {format_bytes(max(size, whole))}"
        more = f" ({len(inside)} of them in functions)" if inside else ""
        count = format_count(len(self.parameters) + len(inside), "parameter")
        return (f"tied: {len(tied)} of {count}{more}, {sizes}",)

    def _open(self) -> list[tuple[Computation, Computation]]:
        graph = self.side.model.graph
        graphs = [
            msgspec.structs.replace(graph, heads=heads)
            for heads in (self.pair.left, self.pair.right)
        ]
        return [
            (left, right)
            for left, right in open_in_engines(graphs, self.side, self._proof.executors)
        ]

    def _plan_rounds(self) -> Iterator[Round]:
        sides = self._computations[0]
        for setups in self._setups:
            drawer = Drawer(
                sides,
                self._list_shared(),
                self.options.inputs,
                training=self.options.train_step,
                describe=self.twins.describe,
                notes=self._proof.notes,
            )
            if len(setups) > 1:
                self._check_sizes(setups)
            count = 1 if self.options.inputs.sets is not None else None
            for setup in setups:
                for number, draw in enumerate(drawer.draw(setup, count=count)):
                    if number == 0:
                        self._firsts.append(draw)
                    self._proof.coverage.look(sides[0], draw.values[0])
                    yield make_round(self._computations, draw, draw.outputs)

    def _list_shared(self) -> list[NodePair]:
        """Pair inputs, and parameters not known to differ."""
        inputs = [(a, b) for a, b in self.pairing.variables if not self.side.is_parameter(a, b)]
        equal: list[NodePair] = []
        missing: list[NodePair] = []
        for parameter in self.parameters:
            both = parameter.left, parameter.right
            if parameter.how in ("tied", "equal", "fed"):
                equal.append(both)
            elif parameter.how == "missing" and not self._has_record(parameter.right):
                missing.append(both)
        return [*inputs, *equal, *missing]

    def _has_record(self, node: Node) -> bool:
        return self.side.records is not None and self.side.records.of(node) is not None

    def _check_sizes(self, setups: Sequence[Setup]) -> None:
        """Raise RefusedError with all sizes that a branch rejects."""
        faults: list[Fault] = []
        inputs, variables = self.options.inputs, self.pairing.variables
        twins: list[Mapping[Node, Node]] = [{a: a for a, _ in variables}, dict(variables)]
        labels = (self.pair.reference, self.pair.label)
        draw_options = DrawOptions(inputs.seed, inputs.params_seed)
        weights: dict[Node, GivenShape] = {}  # drawn weights have one shape for all sizes
        for owner, setup in enumerate(setups):
            sizes = _format_sizes(setup, self.twins)
            # The owner first: a branch that rejects its own sizes is the reason.
            for side in (owner, 1 - owner):
                unfed = {a: shape for a, shape in weights.items() if a not in setup.feeds}
                known = {**unfed, **setup.shapes}
                feeds = {twins[side][a]: array for a, array in setup.feeds.items()}
                shapes = {twins[side][a]: shape for a, shape in known.items()}
                computation = self._computations[0][side]
                try:
                    drawn = computation.draw(feeds, shapes, draw_options)
                    if owner == side == 0:
                        weights = {node: drawn.values[node].shape for node in drawn.parameters}
                except RefusedError as error:
                    whose = "" if side == owner else f" the sizes of {name_branch(labels[owner])},"
                    start = f"{name_branch(labels[side])} cannot run at{whose} {sizes}"
                    faults += [
                        msgspec.structs.replace(fault, message=f"{start}: {fault.message}")
                        for fault in error.faults
                    ]
                    break
        if faults:
            raise RefusedError(faults)

    def _train(self) -> Training:
        first = self._firsts[: len(self._setups[0])]
        chosen = filter(None, self._proof.executors.values())
        if any(executor.engine is not None for executor in chosen):
            self._proof.notes["training is computed with numpy"] = None
        return train_branches(
            self.pair,
            self.pairing,
            self.side,
            self.parameters,
            first,
            self._computations[0],
            self.options,
        )


def _format_sizes(setup: Setup, twins: Counterparts) -> str:
    fed = {node: array.shape for node, array in setup.feeds.items() if hasattr(array, "shape")}
    shapes = {**setup.shapes, **fed}
    label = setup.branch or ""
    return ", ".join(
        f"{twins.names(node).get(label, node.name)} {format_shape(shape)}"
        for node, shape in shapes.items()
    )
