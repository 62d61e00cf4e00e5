"""The proof of a model that is being exported: it is run from where it is staged, before it is in place."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.checkpoint.model import Checkpoint
from graphshare.execute.engines.onnx_session import Session
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.prepare import Prepared, prepare
from graphshare.execute.static_shapes import StaticPart
from graphshare.formats.onnx.staging import ModelBytes
from graphshare.formats.onnx.stored import outputs_of
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.kernel import Array
from graphshare.verification.onnx_branches import find_branches, prove_branches
from graphshare.verification.onnx_checker import check_model
from graphshare.verification.onnx_proof import Proof, compare_outputs


def prove_export(
    source: Checkpoint,
    static: StaticPart,
    names: Mapping[tuple[Node, int], str],
    staged: ModelBytes,
    feeds: Mapping[str, Array],
    as_input: Collection[str],
    seed: int,
    tolerance: float | None,
) -> Proof:
    """Run the staged model in onnxruntime and the graph in the executor, on equal inputs, and compare every output.

    ``static`` has the shapes to run at, ``names`` the model's names of variables and outputs.
    Inputs that are not fed are drawn with ``seed``; labels and states are zeros. The branches of a siamese network must be
    equal bit for bit. Where an output differs the first inner value that does is looked for.

    Raises:
        RefusedError: ONNX's checker refuses a dtype.
        BugError: ONNX's checker refuses the model.
    """
    part = static.part
    ready = _prepare(source, static, feeds, as_input, seed)
    inputs = {n: x for n, x in ready.values.items() if not (n in static.roles and static.roles[n].is_parameter)}
    fed = {names[node, 0]: array for node, array in inputs.items()}
    data = staged.read()
    check_model(data, {node.name for node in part.nodes if not node.is_variable}, staged.folder if staged.has_external else "")
    runtime = Session(data, staged.folder)
    wanted = run_plan(make_plan(ready.part.heads), ready.values, shapes=ready.inference.shapes).outputs
    outputs = compare_outputs([output_name(entry) for entry in part.heads], runtime.run(fed), wanted, tolerance)
    first = "" if all(output.holds for output in outputs) else _find_first(static, names, staged, ready, fed, tolerance)
    proof = Proof(runtime.version, outputs, (), first)
    pairs = find_branches(part, static.roles, source.parameter_file)
    if not proof or not pairs:
        return proof
    apart = Session(data, staged.folder, merge_equal=False)
    places = {(entry.node, entry.index): position for position, entry in enumerate(part.heads)}
    return msgspec.structs.replace(proof, branches=prove_branches(pairs, apart, places, names, inputs))


def _prepare(
    source: Checkpoint, static: StaticPart, feeds: Mapping[str, Array], as_input: Collection[str], seed: int
) -> Prepared:
    """Return the part with a value for each of its variables, at the shapes of ``static``."""
    variables = {node.name for node in static.part.variables()}
    given = {name: array for name, array in feeds.items() if name in variables}
    shapes = {
        node.name: tuple(static.inference.shapes[node][0] or ())
        for node in static.part.variables()
        if not static.roles[node].is_parameter and node.name not in given
    }
    return prepare(
        static.part,
        params=source.parameter_file,
        feeds=given,
        shapes=shapes,
        targets=(),
        seed=seed,
        params_seed=None,
        as_input=as_input,
    )


def _find_first(
    static: StaticPart,
    names: Mapping[tuple[Node, int], str],
    staged: ModelBytes,
    ready: Prepared,
    feeds: Mapping[str, Array],
    tolerance: float | None,
) -> str:
    """Return MXNet's name of the first inner output, in topological order, that differs; empty where none does."""
    inner = _list_inner(static, names, staged.graph)
    graph = msgspec.structs.replace(staged.graph, heads=tuple(inner.values()))
    runtime = Session(staged.read(graph), staged.folder)
    found = dict(zip(inner, runtime.run(feeds), strict=True))
    first: list[str] = []

    def look(node: Node, outputs: Sequence[Array]) -> None:
        for index, wanted in enumerate(outputs):
            if (node, index) in found and not first:
                name = output_name(Entry(node, index))
                (proof,) = compare_outputs([name], [np.asarray(found[node, index])], [wanted], tolerance)
                first.extend(() if proof.holds else [f"{name} ({node.op})"])

    run_plan(make_plan(ready.part.heads), ready.values, shapes=ready.inference.shapes, watch=look)
    return first[0] if first else ""


def _list_inner(static: StaticPart, names: Mapping[tuple[Node, int], str], model: Graph) -> dict[tuple[Node, int], Entry]:
    """Return the outputs of operators that the model has as values, each once."""
    computed = {name: Entry(node, i) for node in model.nodes if node.op for i, name in enumerate(outputs_of(node))}
    inner: dict[tuple[Node, int], Entry] = {}
    for (node, index), name in names.items():
        if not node.is_variable and index < len(static.inference.shapes[node]) and name in computed:
            inner[node, index] = computed.pop(name)
    return inner
