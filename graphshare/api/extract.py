"""``extract``: cut out the minimal graph for some outputs."""

from __future__ import annotations

from collections.abc import Mapping

from graphshare.api.stated_types import state_types
from graphshare.checkpoint.load import Model, Names, as_checkpoint, as_names
from graphshare.checkpoint.model import Checkpoint, follow_rewrite
from graphshare.checkpoint.parameters import check_belongs, notes_on
from graphshare.errors import locate_refusals
from graphshare.rewrite.extract_graph import extract_graph
from graphshare.rewrite.grouping.switch import take_branch


def extract(
    model: Model,
    targets: Names = (),
    *,
    cuts: Names = (),
    branch: tuple[str, bool] | None = None,
    types: Mapping[str, str] | None = None,
) -> Checkpoint:
    """Cut out the minimal graph that computes ``targets``, with the parameters that it needs.

    A target is an output (``conv1_output``), a node (``conv1``: all its outputs) or a pattern
    (``conv*``). The outputs ``cuts`` become inputs of the same names, and nodes that only they need
    are left out. ``branch`` is a boolean input and its value: the branch that it selects replaces
    each If on this input, and ``targets`` defaults to all outputs.

    A target or cut of an ONNX model needs a type. If neither the file nor ONNX's inference gives
    it, it is taken from ``types`` (``{"gelu": "float32[n,3]"}``), else it is the dtype and rank
    that onnxruntime computes for drawn inputs.

    Raises:
        UsageError: a type is malformed, or given for a value whose type is known; all are listed.
        RefusedError: a name is not in the graph, no target needs a cut, or the type of a target or
            cut is unknown; all of a kind are listed.
    """
    source = as_checkpoint(model)
    with locate_refusals(source):
        check_belongs(source.parameter_file, source.graph)
        rewrite = None if branch is None else take_branch(source.graph, *branch)
        if rewrite is None or as_names(targets) or as_names(cuts):
            graph = source.graph if rewrite is None else rewrite.graph
            stated = state_types(source, graph, [*as_names(targets), *as_names(cuts)], types or {})
            if stated is not None:
                rewrite, graph = stated if rewrite is None else rewrite.then(stated), stated.graph
            minimal = extract_graph(graph, as_names(targets), cuts=as_names(cuts))
            rewrite = minimal if rewrite is None else rewrite.then(minimal)
    notes = notes_on(source.parameter_file, rewrite.graph, unused=False)
    return follow_rewrite(source, rewrite, notes=notes, drop_unused=True, needs_types=True)
