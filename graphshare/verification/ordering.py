"""Judge operators of an exported graph that sort scores, on the inputs that they get in the model.

Two programs round differently, so nearly equal scores may swap places: indices change by whole numbers, and different
boxes are suppressed. So the inputs of such an operator must match the graph's, up to the tolerance, and on the model's
inputs the graph's operator must compute the model's outputs. Everything after it follows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import numpy as np

from graphshare.checkpoint.model import Checkpoint
from graphshare.execute.backends.backend import open_computation
from graphshare.execute.prepare.prepare import Prepared
from graphshare.execute.prepare.variable_values import convert_feed
from graphshare.formats.model_format import find_format
from graphshare.ir.graph import Entry, Node
from graphshare.ir.rebuild import rebuild, relink_all
from graphshare.ir.terms import Place
from graphshare.ops.registry import canonical
from graphshare.verification.comparison import Tolerance, Values, compare_runs
from graphshare.verification.runners import ComputationRunner, RecordRunner, Runner

_ORDERING = frozenset(
    """MultiBoxDetection MultiBoxTarget _contrib_MultiBoxDetection _contrib_MultiBoxTarget _contrib_MultiProposal
    _contrib_Proposal _contrib_bipartite_matching _contrib_box_nms _npi_argmax _npi_argmin argmax argmax_channel argmin argsort
    topk""".split()
)


def judge_by_inputs(
    source: Checkpoint, ready: Prepared, runner: Runner, values: Values, tolerance: Tolerance, as_input: Collection[str]
) -> tuple[Values, list[str]]:
    """Compare again with the model's inputs for ordering operators; return that and descriptions of the operators.

    Returns the plain comparison ``values`` if there is no such operator, or if the new one does not hold either.
    """
    part = ready.part
    ordering = [node for node in part.nodes if canonical(node.op) in _ORDERING]
    read = {(entry.node, entry.index) for node in ordering for entry in node.inputs if not entry.node.is_variable}
    inner: dict[Place, Any] = {}

    def keep(node: Node, index: int, value: Any) -> None:
        if (node, index) in read:
            inner[node, index] = convert_feed("", np.array(value), ready.inference.types[node][index])

    if read:
        runner.watch(keep)
    if not inner:
        return values, []
    names = {place: f"input {number}" for number, place in enumerate(inner)}
    variables = find_format(part).editing.make_inputs(part, names)

    def redirect(entry: Entry, user: Node) -> Entry | None:
        variable = variables.get((entry.node, entry.index)) if user in ordering else None
        return None if variable is None else Entry(variable)

    images = rebuild(part.nodes, redirect=redirect)
    entries = (*part.heads, *(Entry(*place) for place in inner))
    graph = msgspec.structs.replace(
        part,
        nodes=(*variables.values(), *images.values()),
        heads=relink_all(entries, images),
        source=part.source.after_rewrite(),
    )
    computation = open_computation(graph, source.parameter_file, source.where, as_input=[*as_input, *names.values()])
    reference = ComputationRunner(computation, {**ready.values, **{variables[place]: inner[place] for place in inner}})
    pairs = [(output.reference, output.output) for output in values.outputs]
    pairs += [(place[0].name, place[0].name) for place in inner]
    judged = compare_runs(pairs, reference, RecordRunner("the model", [*runner.run(), *inner.values()]), tolerance)
    if not judged:
        return values, []
    judged = msgspec.structs.replace(judged, outputs=judged.outputs[: len(values.outputs)])
    return judged, [f"{node.name} ({node.operator_text})" for node in ordering]
