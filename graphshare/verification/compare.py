"""``compare``: what is known of two models, or of a model and recorded outputs: are they the same, and for which inputs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.load import Model, Names, Shapes, StrPath, as_checkpoint, as_names, as_path, as_shapes
from graphshare.checkpoint.map_file import read_map
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import list_parameter_names
from graphshare.errors import Fault, GraphshareError, InputError, MemoryLimitError, RefusedError, UsageError, locate_refusals
from graphshare.execute.backends.backend import Computation, open_computation, warm_up
from graphshare.execute.prepare.fed_values import as_values
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import find_coarsest
from graphshare.ir.compare import Pairing
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Array
from graphshare.resources import Resources
from graphshare.text.format import format_count
from graphshare.text.urls import is_url, local_path
from graphshare.verification.branches import Executors, check_names
from graphshare.verification.comparison import (
    BY_ELEMENT,
    Tolerance,
    Values,
    tolerate_dtype,
    tolerate_other_program,
)
from graphshare.verification.coverage import BodyCoverage
from graphshare.verification.flow import (
    ProofOptions,
    check_options,
    compare_rounds,
    describe_engines,
    find_drawing,
    find_obstacles,
    leave_drawn,
    leave_drawn_regions,
    refuse_options,
)
from graphshare.verification.given_values import pair_parameters
from graphshare.verification.inputs import Draw, Drawer, Inputs, choose_by_name
from graphshare.verification.noise import allow_noise
from graphshare.verification.pairing import ModelPairs, find_changes, pair_models
from graphshare.verification.records import Recording, compare_record, find_record
from graphshare.verification.region import RegionReport
from graphshare.verification.regions import Departure, Judge, tolerate_region
from graphshare.verification.report import (
    OTHER_MODEL,
    BranchReport,
    Report,
    Stage,
    add_regions,
    engine_stage,
    exact_stage,
    layer_stage,
    structure_stage,
    value_stage,
)
from graphshare.verification.runners import ComputationRunner, Refused, Round

_TOGETHER = 4
"""Sets of inputs whose regions are judged in one walk: their values are in memory at once."""


def compare(
    model: Model,
    other: Model | Mapping[str, Any],
    *,
    map: StrPath | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Shapes | None = None,
    inputs: Inputs | None = None,
    tolerance: Tolerance | None = None,
    exact: bool = False,
    layers: bool = False,
    allow_unsupported: bool = False,
    engine: Names = (),
    strict_engine: bool = False,
    reduce: StrPath | None = None,
    resources: Resources | None = None,
) -> Report:
    """Find out whether two models compute the same, whatever their formats, dtypes and operators; or a model and a record.

    Outputs and inputs are paired by their names, in their order where the names differ, or by the ``map`` of a rewrite that
    made ``other`` of ``model``. First the structure is compared, then what is exact by identities, for every input and bit for
    bit. What is left is divided into regions, which are judged on drawn inputs, as the outputs are: each on the values that
    either model has there. The order of the two models does not matter. A record is a file or a mapping of arrays by name, such
    as ``run`` with ``all_outputs`` gives, or a folder of ONNX's test data: its outputs are compared for its inputs.

    The report names the weakest that is known of an output or region: exact, on so many inputs, different, not judged. With
    ``exact`` anything but the first is a failure. Numbers may differ by ``tolerance``, by default 1e-5 of themselves or of the
    largest in their output, and by as much as either model differs from itself when its sums are taken in another order, up to
    1e-5 of the range of an output. Where parameters have unlike dtypes the least precise one decides: of the largest number
    8e-2 for bfloat16, 1e-2 for float16.

    ``feeds``, ``shapes``, ``inputs``, ``layers``, ``engine`` and ``strict_engine`` are those of :func:`verify`; the engine is
    for models whose operators have kernels. With ``allow_unsupported`` one graph with equal parameters is an answer where an
    operator cannot be computed. With ``reduce`` the smallest parts that show the first difference are written to that folder,
    with their inputs, once a run of the files has shown it again; the report has them as ``reduced``. ``resources`` limit
    memory and time.

    Raises:
        UsageError: options that exclude each other, engines that are not installed.
        InputError: a model, record or map cannot be read.
        RefusedError: outputs or inputs cannot be paired; shapes or values are missing; the folder of ``reduce`` has files of
            another origin.
        UnsupportedError: operators without a kernel, unless they are allowed; all are listed.
        OutputError: a file of ``reduce`` could not be written; what it held before is still there.
    """
    own = inputs or Inputs()
    options = ProofOptions(
        inputs=own,
        tolerance=tolerance or BY_ELEMENT,
        feeds=EMPTY,
        shapes=EMPTY,
        as_input=tuple(as_names(own.as_input)),
        layers=layers,
        allow_unsupported=allow_unsupported,
        engines=tuple(name for text in as_names(engine) for name in text.split(",")) or (None,),
        strict_engine=strict_engine,
    )
    faults = check_options(options)
    if reduce is not None and is_url(os.fspath(reduce)):
        faults.append(Fault("`reduce` writes to a folder on this machine", hint="name a folder here"))
    refuse_options(faults)
    record = find_record(other)
    if record is None and (swapped := find_record(model)) is not None:
        record, model = swapped, other  # type: ignore[assignment]
    if record is not None:
        return _compare_record(as_checkpoint(model), record, options, feeds, shapes, tolerance, resources, reduce)
    # A copy: who compares a model with itself compares two models.
    left, right = as_checkpoint(model), msgspec.structs.replace(as_checkpoint(other))  # type: ignore[arg-type]
    graphs = (left.graph, right.graph)
    options = msgspec.structs.replace(options, feeds=as_values(feeds, *graphs), shapes=as_shapes(shapes, *graphs))
    names = _read_names(as_path(map))
    if reduce is not None:
        from graphshare.verification.reduction import refuse_folder  # start-up: few proofs look for parts

        refuse_folder(local_path(os.fspath(reduce)))
    with locate_refusals(left), (resources or Resources()).limit():
        for side in (left, right):
            side.held  # noqa: B018  (refuses records without names)
            warm_up(find_format(side.graph).backends)
        comparison = _ModelComparison(left, right, options, names, exact=exact)
        report = comparison.run()
        if reduce is None:
            return report
        from graphshare.verification.reduction import reduce_difference  # start-up: as above

        return reduce_difference(
            local_path(os.fspath(reduce)), report, comparison.departures, comparison.tolerate, options, _confirm
        )


def _confirm(left: Checkpoint, right: Checkpoint, feeds: Mapping[str, Array], options: ProofOptions) -> Report:
    """Compare two models on inputs by name."""
    own = msgspec.structs.replace(options, feeds=feeds, shapes={}, inputs=Inputs(seed=options.inputs.seed), layers=False)
    return _ModelComparison(left, right, own, {}).run()


def _compare_record(
    model: Checkpoint,
    record: Recording,
    options: ProofOptions,
    feeds: Mapping[str, Any] | None,
    shapes: Shapes | None,
    tolerance: Tolerance | None,
    resources: Resources | None,
    reduce: StrPath | None,
) -> Report:
    faults = []
    if options.inputs.sets is not None or options.inputs.rounds > 1:
        faults.append(Fault("a record has inputs of its own: leave `sets` and `rounds` out"))
    if reduce is not None:
        faults.append(Fault("`reduce` needs two models: a record has no operators"))
    refuse_options(faults)
    options = msgspec.structs.replace(options, feeds=as_values(feeds, model.graph), shapes=as_shapes(shapes, model.graph))
    with locate_refusals(model), (resources or Resources()).limit():
        model.held  # noqa: B018  (refuses records without names)
        warm_up(find_format(model.graph).backends)
        check_names([model.graph], [model.graph], options, {})
        return compare_record(model, record, options, tolerance)


def _read_names(path: str | None) -> dict[str, str]:
    """Return the names that a rewrite gave to the nodes of its source, from its map file."""
    entries = () if path is None else read_map(path).entries
    return {entry.source.name: entry.target.name for entry in entries if entry.target is not None}


class _ModelComparison:
    """The comparison of two models. ``departures`` are the regions that depart, ``tolerate`` the tolerance of regions."""

    def __init__(
        self, left: Checkpoint, right: Checkpoint, options: ProofOptions, names: Mapping[str, str], *, exact: bool = False
    ) -> None:
        self.departures: list[Departure] = []
        self._nodes: list[tuple[Node, Node]] = []
        self._options, self._is_exact_wanted = options, exact
        self._sources = (left, right)
        self._pairs = pair_models(left, right, options.as_input, names)
        self._notes: dict[str, None] = dict.fromkeys(self._pairs.notes)
        graphs = [left.graph, right.graph]
        check_names([self._pairs.left.graph, self._pairs.right.graph], graphs, options, self._notes)
        self._tolerate(_find_dtype(left, right))
        self._pairing: Pairing | None = None
        # The names of the parameters whose values are those of the files.
        self._held: list[Collection[str]] = [list_parameter_names(side.parameter_file) or () for side in self._sources]
        self._unheld: Collection[str] = ()
        self._coverage = BodyCoverage()
        self._judge = _open_judge(self._pairs)

    def run(self) -> Report:
        """Return the report of all stages."""
        structure, is_exact = self._compare_structure()
        graphs = [model.graph for model in (self._pairs.left, self._pairs.right)]
        obstacles = find_obstacles([(graph, graph.nodes) for graph in graphs], is_allowed=self._options.allow_unsupported)
        if obstacles:
            return self._judge_structure(structure, is_exact, obstacles)
        exact = RegionReport(0, 0, {}) if is_exact else self._judge.find_exact()
        if exact is not None and not is_exact:
            structure = exact_stage(exact)
        try:
            sides = self._open()
        except InputError as error:
            if not self._options.allow_unsupported:
                raise
            return self._judge_structure(structure, exact is not None, [fault.message for fault in error.faults])
        draws = self._draw(sides)
        outputs = self._run(sides, draws)
        if not self._dtype and find_format(sides[0].graph) is not find_format(sides[1].graph):
            # A format without types of inputs computes in the types that it is fed.
            self._tolerate(_find_output_dtype(outputs))
        drawing = {**find_drawing(sides[1]), **find_drawing(sides[0])}
        self._drawing = [*drawing.values()]
        rounds = self._compare(sides, draws, outputs)
        regions: list[RegionReport] = [] if is_exact or exact is None else [exact]
        if exact is None:
            for side in sides:
                side.close()
            regions = self._judge_regions(sides, draws, outputs)
            if regions and not any(each.regions for each in regions):  # ranks that a run showed made all of them exact
                exact = regions[0]
                structure = exact_stage(exact)
        if not self._dtype and all(regions):  # no noise excuses a region
            rounds, notes = allow_noise(sides, [draw.values for draw in draws], outputs, rounds, self._tolerance)
            self._notes.update(dict.fromkeys(notes))
        rounds = tuple(leave_drawn(values, drawing) for values in rounds)
        drawn = format_count(len(self._unheld), "parameter")
        unheld = Stage("parameters", "skipped", f"{drawn} not compared: no file has values, so they were made up for both")
        stages = [structure, *([unheld] if self._unheld else ()), value_stage(rounds)]
        stages += [layer_stage(rounds)] if self._options.layers else []
        stages += [engine_stage(self._engines)] if self._engines else []
        branch = BranchReport(
            "",
            OTHER_MODEL,
            add_regions(stages, regions),
            rounds,
            tolerance=self._tolerance,
            regions=tuple(regions),
            is_exact=exact is not None,
        )
        if self._is_exact_wanted and exact is None and branch:
            more = Stage("exact", "fails", "equal on the inputs that were tried, and not exact for every input")
            branch = msgspec.structs.replace(branch, stages=(*branch.stages, more))
        self._notes.update({**describe_engines(self._executors[0]), **describe_engines(self._executors[1])})
        return Report((branch,), (*self._notes, *self._coverage.describe()))

    def _tolerate(self, dtype: str) -> None:
        """Set the tolerances of outputs and of regions: those of a dtype, or of another program where it is empty."""
        atol, rtol = self._options.tolerance.atol, self._options.tolerance.rtol
        self._dtype = dtype
        self._tolerance = tolerate_dtype(dtype, atol, rtol) if dtype else tolerate_other_program(atol, rtol)
        self.tolerate = tolerate_region(dtype, atol, rtol)

    def _judge_structure(self, structure: Stage, is_exact: bool, reasons: Sequence[str]) -> Report:
        """Return the report of models that are not computed: without values, models that are not exact are not proved."""
        stages = [structure, Stage("values", "skipped", "not run", tuple(sorted({*reasons})))]
        if not is_exact:
            stages.append(
                Stage("changes", "fails", "no values were computed, which may show the differences", structure.details)
            )
        return Report((BranchReport("", OTHER_MODEL, tuple(stages), is_exact=is_exact),), tuple(self._notes))

    def _compare_structure(self) -> tuple[Stage, bool]:
        """Return the stage of the structure, and whether both models are one graph with equal parameters."""
        left, right = (find_format(model.graph) for model in self._sources)
        if left is not right:
            return Stage("structure", "skipped", f"{left.title} and {right.title} have other nodes"), False
        pairing, changes = find_changes(self._pairs, across_dtypes=bool(self._dtype))
        self._pairing = pairing
        if not changes and not self._dtype:
            self._nodes = [(a, b) for a, b in pairing.pairs if a.op]
            return structure_stage(pairing), True
        places = format_count(len(changes), "difference") if changes else "parameters of other dtypes"
        summary = f"{places}, so identities and values decide"
        return Stage("structure", "skipped", summary, changes), False

    def _open(self) -> tuple[Computation, Computation]:
        """Open both models, in the first engine where there is a choice of engines."""
        models = (self._pairs.left, self._pairs.right)
        self._executors = self._choose_executors()
        opened = [
            [
                open_computation(model.graph, model.parameter_file, model.where, executor, as_input=self._options.as_input)
                for executor in executors.values()
            ]
            for model, executors in zip(models, self._executors, strict=True)
        ]
        # With several engines both models are computed in each, and engines are compared with the first.
        self._others = list(zip(opened[0][1:], opened[1][1:], strict=True))
        return opened[0][0], opened[1][0]

    def _choose_executors(self) -> list[Executors]:
        """Return what computes each model; an engine is for a model that has a choice of engines."""
        chosen: list[Executors | None] = []
        refusals: list[RefusedError] = []
        models = (self._pairs.left, self._pairs.right)
        for model in models:
            try:
                chosen.append(self._options.choose_executors(model.graph, model.where))
            except RefusedError as error:
                refusals.append(error)
                chosen.append(None)
        if len(refusals) == len(models):
            raise refusals[0]
        if refusals and len(self._options.engines) > 1:
            message = "a graph that is compared with a model of another format is computed by one engine"
            raise UsageError(Fault(message, hint="give `engine` one name"))
        default = msgspec.structs.replace(self._options, engines=(None,), strict_engine=False)
        return [
            default.choose_executors(model.graph, model.where) if own is None else own
            for model, own in zip(models, chosen, strict=True)
        ]

    def _draw(self, sides: tuple[Computation, Computation]) -> list[Draw]:
        """Return the sets of inputs."""
        left = self._pairs.left
        sets = self._options.list_feeds(left.graph)
        seed = self._options.inputs.params_seed
        parameters = pair_parameters(sides, self._pairs, self._pairing, self._held, sets, seed)
        fed = {name for feeds in sets for name in feeds}
        self._unheld = [a.name for a, b in parameters if fed.isdisjoint((a.name, b.name))]
        for side, own in enumerate(zip(*parameters, strict=True)):
            self._held[side] = frozenset(self._held[side]) - {node.name for node in own}
        pairs = [*self._pairs.inputs, *parameters]
        alone = self._pairs.alone
        for name in sorted(fed - {node.name for pair in (*pairs, alone) for node in pair}):
            self._notes[f"the value of {name!r} was not used: neither model reads it"] = None
        titles = (left.where or "the one model", self._pairs.right.where or OTHER_MODEL)
        drawer = Drawer(sides, pairs, self._options.inputs, titles)
        count = 1 if self._options.inputs.sets is not None else None
        shapes = choose_by_name(self._options.shapes, pairs, alone)
        draws = [draw for feeds in sets for draw in drawer.draw(choose_by_name(feeds, pairs, alone), shapes, count=count)]
        self._notes.update(drawer.notes)
        return draws

    def _run(self, sides: tuple[Computation, Computation], draws: Sequence[Draw]) -> list[tuple[Any, Any]]:
        """Return the outputs of both models for each set of inputs. Raises what the first model does where both refuse one."""
        results: list[list[Any]] = []
        errors: dict[tuple[int, int], GraphshareError] = {}
        for side, computation in enumerate(sides):
            own: list[Any] = []
            for number, draw in enumerate(draws):
                try:
                    known = draw.outputs[side]
                    own.append(computation.run(draw.values[side], seed=draw.seed).outputs if known is None else known)
                except MemoryLimitError:
                    raise
                except (InputError, RefusedError) as error:
                    errors[side, number] = error
                    own.append(Refused(str(error.faults[0])))
            results.append(own)
            computation.close()  # one of them is in memory at a time
        for number in range(len(draws)):
            if (0, number) in errors and (1, number) in errors:
                raise errors[0, number]
        return list(zip(*results, strict=True))

    def _compare(
        self, sides: tuple[Computation, Computation], draws: Sequence[Draw], outputs: Sequence[tuple[Any, Any]]
    ) -> tuple[Values, ...]:
        """Return the comparison of all outputs."""
        rounds = []
        for draw, own in zip(draws, outputs, strict=True):
            runners = [
                ComputationRunner(*each, seed=draw.seed, by_output=True) for each in zip(sides, draw.values, own, strict=True)
            ]
            engines = {sides[0].engine: (runners[0], runners[1])}
            for left, right in self._others:
                others = [
                    ComputationRunner(side, values, seed=draw.seed)
                    for side, values in zip((left, right), draw.values, strict=True)
                ]
                engines[left.engine] = (others[0], others[1])
            rounds.append(Round(engines))
        nodes = self._pair_nodes() if self._options.layers else ()
        heads = (self._pairs.left.graph.heads, self._pairs.right.graph.heads)
        values, self._engines = compare_rounds(
            self._pairs.names, rounds, self._tolerance, nodes=nodes, heads=heads, layers=self._options.layers
        )
        return values

    def _pair_nodes(self) -> list[tuple[Node, Node]]:
        """Return the nodes that have one place in graphs of one structure, or else those whose first outputs have one name."""
        if self._pairing:
            return self._pairing.pairs
        named = [_index_names(model.graph) for model in (self._pairs.left, self._pairs.right)]
        return [(node, named[1][name]) for name, node in named[0].items() if name in named[1]]

    def _judge_regions(
        self, sides: tuple[Computation, Computation], draws: Sequence[Draw], outputs: Sequence[tuple[Any, Any]]
    ) -> list[RegionReport]:
        """Return the reports of the regions on the sets of inputs that both models compute, a few sets together."""
        computed = [
            draw for draw, own in zip(draws, outputs, strict=True) if not any(isinstance(each, Refused) for each in own)
        ]
        reports: list[RegionReport] = []
        for start in range(0, len(computed), _TOGETHER):
            together = computed[start : start + _TOGETHER]
            taken = [self._coverage.look(sides[0], draw.values[0]) for draw in together]
            judged = self._judge.judge([_name_values(sides, draw, self._held) for draw in together], self.tolerate)
            if judged is None:
                return []
            self.departures = self.departures or list(self._judge.departures)
            judged = leave_drawn_regions(judged, self._drawing)
            reports += [msgspec.structs.replace(judged, taken=each) for each in taken]
        return reports


def _name_values(
    sides: tuple[Computation, Computation], draw: Draw, held: Sequence[Collection[str]]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the inputs of both models by name, in the dtypes that they have there, and parameters that are not ``held``."""
    left, right = (
        {n.name: array for n, array in side.complete(values)[0].items() if not (side.is_parameter(n) and n.name in own)}
        for side, values, own in zip(sides, draw.values, held, strict=True)
    )
    return left, right


def make_judge(left: Checkpoint, right: Checkpoint) -> Judge:
    """Return what judges the regions of two models, whose outputs and inputs are paired by name or in order."""
    return _open_judge(pair_models(left, right, (), {}))


def _open_judge(pairs: ModelPairs) -> Judge:
    return Judge(pairs.left, pairs.right, pairs.outputs, {a.name: b.name for a, b in pairs.inputs})


def _index_names(graph: Graph) -> dict[str, Node]:
    """Return the operators of a graph by the names of their first outputs, as far as these are unique."""
    names = [(output_name(Entry(node)), node) for node in post_order(head.node for head in graph.heads) if node.op]
    counts = Counter(name for name, _ in names)
    return {name: node for name, node in names if counts[name] == 1}


def _find_dtype(left: Checkpoint, right: Checkpoint) -> str:
    """Return the least precise dtype of parameters where it is another in each model, else an empty text."""
    coarsest = [
        None if model.parameter_file is None else find_coarsest(record.dtype for record in model.parameter_file.records)
        for model in (left, right)
    ]
    known = [dtype for dtype in coarsest if dtype is not None]
    return find_coarsest(known) if len(set(known)) > 1 else ""


def _find_output_dtype(outputs: Sequence[tuple[Any, Any]]) -> str:
    """Return the least precise dtype of outputs that have another one in each model, else an empty text."""
    pairs = [pair for own in outputs if not any(isinstance(each, Refused) for each in own) for pair in zip(*own, strict=False)]
    dtypes = [{str(value.dtype) for value in pair if isinstance(value, np.ndarray)} for pair in pairs]
    return find_coarsest(name for names in dtypes if len(names) > 1 for name in names)
