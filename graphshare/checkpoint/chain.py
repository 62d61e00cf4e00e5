"""A model followed through a rewrite: its graph, its parameters under their new names, and the branches since it was loaded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from msgspec.structs import replace

from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameter_plan import Plan, plan_records
from graphshare.checkpoint.parameters import list_under
from graphshare.errors import Fault, RefusedError
from graphshare.formats.model_format import find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Branch, Graph, Node, Rewrite
from graphshare.ir.rebuild import rebuild_graph
from graphshare.text.names import split_key


def follow_rewrite(
    model: Checkpoint,
    rewrite: Rewrite,
    *,
    report: object = None,
    notes: Iterable[str] = (),
    needs_params: bool = False,
    drop_unused: bool = False,
) -> Checkpoint:
    """Return ``model`` after a rewrite of its graph.

    ``needs_params`` says that the new graph uses names which the old parameter file does not hold. With ``drop_unused`` records
    that no variable of the new graph needs are left out.

    Raises:
        RefusedError: two records would get one name; all such names are listed.
    """
    rewrite = _settle_names(rewrite)
    file = model.parameter_file
    if file is not None:
        file = list_under(file, plan_records(file, rewrite, drop_unused=drop_unused))
    return replace(
        model,
        graph=rewrite.graph,
        parameter_file=file,
        data=b"",
        rewrite=rewrite if model.rewrite is None else model.rewrite.then(rewrite),
        sources=model.sources or (model,),
        report=report,
        notes=(*notes, *_note_untyped(rewrite.graph)),
        needs_params=model.needs_params or needs_params,
    )


def follow_group(
    models: Sequence[Checkpoint], rewrite: Rewrite, *, report: object = None, notes: Iterable[str] = ()
) -> Checkpoint:
    """Return the one model that a rewrite made of several, a branch of each, with the records that its variables need.

    Raises:
        RefusedError: two records of a model would get one name; all such names are listed.
    """
    lists = [list_under(file, plan) for file, plan in _plan_records(models, rewrite)]
    rewrite = _settle_names(rewrite)
    records = tuple(record for part in lists for record in part.records)
    namesake = next((model for model in models if model.parameter_file is not None), models[0])
    for model in models:
        if model.rewrite is not None:
            rewrite = model.rewrite.then(rewrite)
    return Checkpoint(
        rewrite.graph,
        replace(lists[0], records=records) if lists else None,
        namesake.where,
        epoch=namesake.epoch,
        rewrite=rewrite,
        sources=tuple(source for model in models for source in model.sources or (model,)),
        report=report,
        notes=(*notes, *_note_untyped(rewrite.graph)),
        needs_params=True,
    )


def _plan_records(models: Sequence[Checkpoint], rewrite: Rewrite) -> Iterator[tuple[ParameterFile, Plan]]:
    """Yield which records of each model's file the result has; one that models share is that of the first."""
    placed: set[Node] = set()
    written: set[str | None] = set()
    for model, branch in zip(models, rewrite.branches, strict=True):
        if model.parameter_file is not None:
            renames = tuple(rename for rename in rewrite.renames if rename.branch == branch.label)
            plan = plan_records(model.parameter_file, Rewrite(rewrite.graph, (branch,), renames), drop_unused=True)
            shared = {image.name for image in branch.images.values() if image in placed}
            own = [(record, key) for record, key in plan if key not in written or split_key(key or "")[1] not in shared]
            written.update(key for _, key in own)
            yield model.parameter_file, own
        placed.update(branch.images.values())


def _note_untyped(graph: Graph) -> list[str]:
    """Return a note on outputs that are written without a type, if there are some."""
    if not graph.source.states_types:
        return []
    format_ = find_format(graph)
    names = format_.list_untyped_outputs(graph)
    return [f"outputs are written without a type: {format_.explain_unknown_types(names)}"] if names else []


def _settle_names(rewrite: Rewrite) -> Rewrite:
    """Return a rewrite in which no two nodes have one label where this is so before it.

    Raises:
        RefusedError: there are names that the format of the graph forbids; all are listed.
    """
    graph = rewrite.graph
    faults = [Fault(what, node=node.name, hint=hint) for what, hint, node in graph.source.name_faults(graph)]
    if faults:
        raise RefusedError(faults)
    labels = _find_free_labels(graph)
    if not labels or any(_find_free_labels(branch.source) for branch in rewrite.branches):
        return rewrite

    def relabel(node: Node) -> Node:
        return replace(node, details=replace(node.details, label=labels[node])) if node in labels else node

    relabelled, images = rebuild_graph(graph, relabel)
    return rewrite.then(Rewrite(relabelled, (Branch("", graph, images),)))


def _find_free_labels(graph: Graph) -> dict[Node, str]:
    """Return free labels for the nodes that have the label of an earlier one."""
    labels = graph.source.list_labels(graph)
    taken = set(labels.values())
    if len(taken) == len(labels):
        return {}
    seen: set[str] = set()
    free: dict[Node, str] = {}
    for node, label in labels.items():
        if label in seen:
            free[node] = next(name for i in count(1) if (name := f"{label}_{i}") not in taken)
            taken.add(free[node])
        seen.add(label)
    return free
