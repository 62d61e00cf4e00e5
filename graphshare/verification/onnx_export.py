"""Prove an exported model where it is staged, before it is put in place.

A siamese network's branches must be equal bit for bit in onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.branches import HeadPairs, find_prefixes, pair_by_prefix
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import find_auxiliary
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Computation, Look, open_computation
from graphshare.execute.prepare.assignment import DrawOptions
from graphshare.execute.prepare.declared_inputs import draw_as
from graphshare.execute.prepare.prepare import Prepared, Request, prepare
from graphshare.execute.prepare.shape_report import StaticPart
from graphshare.execute.prepare.variable_values import convert_feed
from graphshare.formats.model_format import find_format
from graphshare.formats.params.lookup import RecordsByName, compare_parameters
from graphshare.ir.compare import Pairing, compare_structure
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.terms import Place
from graphshare.ir.walk import list_output_names
from graphshare.ops.kernel import Array
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.ops.registry import canonical
from graphshare.text.format import format_count, format_names
from graphshare.verification.comparison import (
    EXACT,
    OutputComparison,
    Tolerance,
    Values,
    compare_runs,
)
from graphshare.verification.flow import WITHOUT_PROOF, ProofOptions
from graphshare.verification.onnx_checker import check_model
from graphshare.verification.report import BranchReport, Report, explain_blanks, value_stage
from graphshare.verification.runners import ComputationRunner, PartRunner, RecordRunner, Runner

Names = Mapping[Place, str]
"""The model's names of a graph's variables and outputs."""
_ORDERING = frozenset(
    """MultiBoxDetection MultiBoxTarget _contrib_MultiBoxDetection _contrib_MultiBoxTarget
    _contrib_MultiProposal _contrib_Proposal _contrib_bipartite_matching _contrib_box_nms
    _npi_argmax _npi_argmin argmax argmax_channel argmin argsort topk""".split()
)
"""Operators that put scores in order."""


class ExportReport(Report, frozen=True, kw_only=True):
    """The proof of an export: ``model`` against the graph at each size, and its ``branches``.

    ``runtime`` is onnxruntime's version. ``by_inputs`` are operators that sort scores, judged on
    the model's own (:func:`judge_by_inputs`).
    """

    model: BranchReport
    runtime: str
    by_inputs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.model) and all(self.branches)

    @property
    def outputs(self) -> tuple[OutputComparison, ...]:
        return self.model.outputs

    @property
    def first(self) -> str:
        """MXNet's name and operator of the first differing inner output; empty if none differs."""
        inner = next(
            (values.first for values in self.model.rounds if values.first is not None), None
        )
        return "" if inner is None else f"{inner.reference} ({inner.op})"

    @property
    def verdict(self) -> str:
        outputs = self.outputs
        if not self:
            wrong = [output.reference for output in outputs if not output.comparison]
            for branch in self.branches:
                wrong += _list_differing(branch)
            first = f"; the first value that differs is {self.first}" if self.first else ""
            return f"NOT EQUAL in onnxruntime: {format_names(wrong)}{first}"
        largest = max(output.comparison.max_abs for output in outputs)
        worst = max(output.of_largest or 0.0 for output in outputs)
        rounds = self.model.rounds
        count = format_count(len(rounds[0].outputs), "output")
        if len(rounds) > 1:
            count += f" at {len(rounds)} sizes"
        text = f"EQUAL in onnxruntime: {count}, max abs {largest:.3g}, {worst:.3g} of the largest value"
        branches = ", ".join(branch.branch for branch in self.branches)
        if branches:
            text += f"; bit for bit in the branches {branches}"
        if self.by_inputs:
            text += f"; {format_names(self.by_inputs)} on the model's own inputs"
        return text

    def describe(self) -> dict[str, Any]:
        """Return an object for the JSON of ``export``."""
        return {
            "runtime": self.runtime,
            "outputs": [
                {
                    "name": output.reference,
                    "shape": output.shape,
                    "dtype": output.dtype,
                    "max_abs": output.comparison.max_abs,
                    "max_rel": output.comparison.max_rel,
                    "tolerance": output.of_largest,
                    "holds": output.comparison.equal,
                    "reason": output.comparison.reason,
                }
                for output in self.outputs
            ],
            "branches": [
                {
                    "reference": branch.reference,
                    "branch": branch.branch,
                    "outputs": max(len(values.outputs) for values in branch.rounds),
                    "differ": _list_differing(branch),
                }
                for branch in self.branches
            ],
            "first": self.first,
            "by_inputs": list(self.by_inputs),
        }


def _list_differing(branch: BranchReport) -> list[str]:
    return [output.output for output in branch.outputs if not output.comparison]


def prove_export(
    source: Checkpoint,
    parts: Sequence[tuple[StaticPart, Names]],
    graph: Graph,
    encode: Callable[[Graph], tuple[bytes, str]],
    options: ProofOptions,
) -> ExportReport:
    """Compare a translated ``graph`` in onnxruntime with its source in the executor.

    ``encode`` returns the file of the graph, or of a graph with other outputs, and the folder of
    its external data. ``parts`` have the shapes to run at, and the model's names of variables and
    outputs; the feeds of ``options`` fit the first part. Other inputs are drawn with the seed;
    labels and states are zeros. If all outputs are right, a siamese network's branches are
    compared; otherwise the first different inner value is searched for.

    Raises RefusedError for outputs that show nothing, and as
    :func:`graphshare.verification.onnx_checker.check_model`.
    """
    rounds: list[Values] = []
    by_inputs: dict[str, None] = {}
    branches: tuple[BranchReport, ...] = ()
    whole = encode(graph)
    operators = {node.name for node in parts[0][0].part.nodes if not node.is_variable}
    check_model(whole[0], operators, whole[1])

    def encode_part(part: Graph) -> tuple[bytes, str]:
        return whole if part.heads == graph.heads else encode(part)

    model = open_computation(Checkpoint(graph), encode=encode_part, own=True, whole=True)
    for static, names in parts:
        part = _StagedPart(model, static, names)
        # Feeds fit only the first part.
        ready = _prepare(source, part, {} if rounds else options.feeds, options)
        inputs = {
            node: value
            for node, value in ready.values.items()
            if not static.roles[node].is_parameter
        }
        runner = part.open(inputs)
        values = _compare_with_graph(static, ready, runner, options.tolerance)
        if not values:
            values, ordering = judge_by_inputs(source, ready, runner, values, options)
            by_inputs |= dict.fromkeys(ordering)
        rounds.append(values)
        if len(rounds) == 1 and rounds[0]:
            branches = tuple(
                _prove_branches(list(_find_branches(source, static, inputs)), part, inputs)
            )
    if all(rounds):
        RefusedError.raise_any(Fault(text, hint=WITHOUT_PROOF) for text in explain_blanks(rounds))
    report = BranchReport(
        "the graph",
        "the model",
        (value_stage(rounds),),
        tuple(rounds),
        tolerance=options.tolerance,
    )
    return ExportReport(branches, model=report, runtime=model.version, by_inputs=tuple(by_inputs))


def _prepare(
    source: Checkpoint, part: _StagedPart, feeds: Mapping[str, Array], options: ProofOptions
) -> Prepared:
    static, variables = part.static, list(part.static.part.variables())
    types = {node.name: static.inference.types[node][0] for node in variables}
    own: dict[str, Array] = {}
    for name, array in feeds.items():
        if name in types:
            own[name] = convert_feed(name, array, types[name])
    sizes: dict[str, set[tuple[int | None, ...]]] = {}
    for node in variables:
        is_drawn = not static.roles[node].is_parameter and node.name not in own
        if is_drawn:
            shape = static.inference.shapes[node][0]
            sizes.setdefault(node.name, set()).add(tuple(shape or ()))
    # Labels of one name may differ in shape; these shapes follow from the inputs.
    shapes = {name: shape for name, (shape, *others) in sizes.items() if not others}
    draw = DrawOptions(options.inputs.seed)
    request = Request(draw=draw, params=source.parameter_file, as_input=options.as_input)
    ready = prepare(static.part, request, own, shapes)
    for node in ready.values:
        stated = part.stated.get(part.names.get((node, 0), ""))
        if stated is not None and node.name not in feeds:
            ready.values[node] = draw_as(ready.values[node], stated.parts[0] or "")
    return ready


def _compare_with_graph(
    static: StaticPart, ready: Prepared, runner: Runner, tolerance: Tolerance
) -> Values:
    graph = ComputationRunner(ready.computation, ready.values, by_output=True)
    names = [(name, name) for name in map(output_name, static.part.heads)]
    return compare_runs(
        names, graph, runner, tolerance, nodes=[(node, node) for node in ready.part.nodes]
    )


class _StagedPart:
    """A staged model; ``names`` has its names for the graph's values."""

    def __init__(self, model: Computation, static: StaticPart, names: Names) -> None:
        self.model, self.static, self.names = model, static, names
        self.stated = find_format(model.graph).types.list_input_types(model.graph)
        self.places = {name: place for place, name in names.items() if not place[0].is_variable}
        self._variables = {node.name: node for node in model.graph.variables()}

    def open(self, values: Mapping[Node, Array]) -> _StagedRunner:
        """Run the model on the graph's inputs, in the model's dtypes."""
        own: dict[Node, Array] = {}
        for node, value in values.items():
            name = self.names[node, 0]
            if name in self.stated:
                own[self._variables[name]] = value.astype(self.stated[name].parts[0])
        return _StagedRunner(self, own)


class _StagedRunner(ComputationRunner):
    """Gives outputs the graph's dtypes, and inner outputs its nodes' names."""

    def __init__(self, part: _StagedPart, values: Mapping[Node, Array]) -> None:
        super().__init__(part.model, values)
        self._part = part

    def run(self) -> Sequence[Any]:
        static = self._part.static
        types = [static.inference.types[entry.node][entry.index] for entry in static.part.heads]
        return [convert_feed("", x, dtype) for x, dtype in zip(super().run(), types, strict=True)]

    def watch(self, look: Look) -> None:
        def pass_on(node: Node, index: int, value: Any) -> None:
            place = self._part.places.get(list_output_names(node)[index])
            if place is not None:
                look(*place, value)

        super().watch(pass_on)


def judge_by_inputs(
    source: Checkpoint, ready: Prepared, runner: Runner, values: Values, options: ProofOptions
) -> tuple[Values, list[str]]:
    """Compare again with the model's inputs for ordering operators; describe these, too.

    Rounding may swap nearly equal scores: rows move, and boxes suppress others. So the inputs of
    such an operator must match the graph's within the tolerance, and the graph's operator must
    compute the model's outputs from the model's inputs. Everything after it follows.

    Returns ``values`` if there is no such operator, or if this comparison fails, too.
    """
    part = ready.part
    ordering = [node for node in part.nodes if canonical(node.op) in _ORDERING]
    operands = chain(*(node.inputs for node in ordering))
    read = {(entry.node, entry.index) for entry in operands if not entry.node.is_variable}
    inner: dict[Place, Any] = {}

    def keep(node: Node, index: int, value: Any) -> None:
        if (node, index) in read:
            inner[node, index] = convert_feed(
                "", np.array(value), ready.inference.types[node][index]
            )

    if read:
        runner.watch(keep)
    if not inner:
        return values, []
    names = {place: f"input {number}" for number, place in enumerate(inner)}
    variables = find_format(part).editing.make_inputs(part, names)

    def redirect(entry: Entry, user: Node) -> Entry | None:
        place = entry.node, entry.index
        if user in ordering and place in variables:
            return Entry(variables[place])
        return None

    images = rebuild(part.nodes, redirect=redirect)
    entries = (*part.heads, *(Entry(*place) for place in inner))
    graph = msgspec.structs.replace(
        part,
        nodes=(*variables.values(), *images.values()),
        heads=relink_all(entries, images),
        source=part.source.after_rewrite(),
    )
    computation = open_computation(
        msgspec.structs.replace(source, graph=graph), as_input=[*options.as_input, *names.values()]
    )
    fed = {variables[place]: value for place, value in inner.items()}
    reference = ComputationRunner(computation, {**ready.values, **fed})
    record = RecordRunner("the model", [*runner.run(), *inner.values()])
    pairs = [(output.reference, output.output) for output in values.outputs]
    pairs += [(node.name, node.name) for node, _ in inner]
    judged = compare_runs(pairs, reference, record, options.tolerance)
    if not judged:
        return values, []
    judged = msgspec.structs.replace(judged, outputs=judged.outputs[: len(values.outputs)])
    return judged, [f"{node.name} ({node.operator_text})" for node in ordering]


def _prove_branches(
    pairs: Sequence[tuple[HeadPairs, Pairing]], part: _StagedPart, inputs: Mapping[Node, Array]
) -> Iterator[BranchReport]:
    names = part.names
    places = {
        (entry.node, entry.index): place for place, entry in enumerate(part.static.part.heads)
    }
    for pair, pairing in pairs:
        equal = {b: inputs[a] for a, b in _list_fed(pairing, inputs)}
        whole = part.open({**inputs, **equal})
        left, right = (
            PartRunner(whole, [places[entry.node, entry.index] for entry in heads])
            for heads in (pair.left, pair.right)
        )
        outputs = [
            (names[a.node, a.index], names[b.node, b.index])
            for a, b in zip(pair.left, pair.right, strict=True)
        ]
        values = compare_runs(outputs, left, right, EXACT)
        reference, stages = pair.reference or "(original)", (value_stage([values], is_proved=True),)
        yield BranchReport(reference, pair.label, stages, (values,), tolerance=EXACT)


def _find_branches(
    source: Checkpoint, static: StaticPart, inputs: Mapping[Node, Array]
) -> Iterator[tuple[HeadPairs, Pairing]]:
    """Yield branches that must compute the same, found by output names.

    They are one graph except for names, with equal parameters and input shapes.
    """
    try:
        pairs = pair_by_prefix(static.part, find_prefixes(static.part))
    except RefusedError:
        return
    records = RecordsByName(source.parameter_file) if source.parameter_file is not None else None
    auxiliary = find_auxiliary(static.roles)
    for pair in pairs:
        pairing = compare_structure(pair.left, pair.right, exempt=BARRIER_KEYS)
        owned = [(a, b) for a, b in pairing.pairs if a.is_variable and static.roles[a].is_parameter]
        compared = compare_parameters(owned, auxiliary, records, records)
        is_twin = pairing and all(parameter.how in ("tied", "equal") for parameter in compared)
        fed = _list_fed(pairing, inputs)
        if is_twin and all(inputs[a].shape == inputs[b].shape for a, b in fed):
            yield pair, pairing


def _list_fed(pairing: Pairing, inputs: Mapping[Node, Array]) -> list[tuple[Node, Node]]:
    return [(a, b) for a, b in pairing.pairs if a in inputs and b in inputs]
