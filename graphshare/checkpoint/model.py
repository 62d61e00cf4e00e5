"""A model: a graph with its parameters, the files that they came from, and its rewrites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from graphshare.analysis.name_lists import list_implied_variables, output_name
from graphshare.analysis.roles import Kind, assign_roles
from graphshare.arguments import check_arguments
from graphshare.checkpoint.parameters import (
    Parameters,
    Plan,
    check_unchanged,
    list_parameter_names,
    list_under,
    plan_records,
    replace_arrays,
)
from graphshare.errors import BUG, Fault, RefusedError, SelfCheckError
from graphshare.formats.model_format import ModelFormat, RemovedMessage, find_format
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Branch, Graph, Node, Rewrite
from graphshare.ir.rebuild import rebuild_graph
from graphshare.text.format import format_count, format_names
from graphshare.text.names import TakenNames, did_you_mean, split_key
from graphshare.text.summary import ShortRepr, format_html, quote_name


class Checkpoint(ShortRepr, msgspec.Struct, frozen=True, eq=False):
    """A graph with its parameters, as it was loaded or as a rewrite made it.

    ``parameter_file`` is the index of the parameters: names, shapes, dtypes and places of the
    bytes; None without any. ``where`` names the graph's file in messages, ``data`` are its bytes,
    ``stem`` is empty unless the model was loaded by its stem. A rewritten model has the ``rewrite``
    from its ``sources`` (the loaded models), the ``report`` of the last rewrite if it has one, and
    ``notes`` for its users. With ``needs_params`` the graph needs a different parameter file from
    its source's. ``removed`` are the parts of its sources' files that belong to removed nodes.

    A pickled or deep-copied model includes its graph and the arrays in memory; others stay in their
    files. It is refused (InputError) when one of these files is gone, or has another size or time
    of change: every read of an array compares these, too, and a digest would take a read of all
    parameters.
    """

    graph: Graph
    parameter_file: ParameterFile | None = None
    where: str = ""
    data: bytes = b""
    stem: str = ""
    epoch: int = 0
    rewrite: Rewrite | None = None
    sources: tuple[Checkpoint, ...] = ()
    report: Any = None
    notes: tuple[str, ...] = ()
    needs_params: bool = False
    removed: tuple[RemovedMessage, ...] = ()

    def _summary(self) -> str:
        parts = [quote_name(self.stem or self.where), self.graph._summary()]
        if self.parameter_file is not None:
            parts.append(format_count(len(self.parameter_file.records), "array"))
        if self.rewrite is not None:
            count = len(self.rewrite.branches)
            parts.append(f"{count} branch{'' if count == 1 else 'es'}")
        return ", ".join(parts)

    def _repr_html_(self) -> str:
        """Only the files' indices are read."""
        return format_html(
            self._summary(), facts=self._list_facts(), tables=[self.graph.make_table()]
        )

    def _list_facts(self) -> list[tuple[str, str]]:
        inputs: list[str] = []
        parameters: set[str] = set()
        for node, role in assign_roles(self.graph, held=self._find_names()).items():
            if role.is_parameter:
                parameters.add(node.name)
            else:
                inputs.append(node.name)
        facts = [
            ("file", self.where),
            ("inputs", format_names(inputs)),
            ("parameters", f"{len(parameters):,}"),
            ("outputs", format_names(map(output_name, self.graph.heads))),
        ]
        if self.parameter_file is not None:
            size = self.parameter_file.describe_size()
            facts.append(("parameter file", f"{self.parameter_file.shown_path}: {size}"))
        if self.rewrite is not None:
            labels = [branch.label or "(original)" for branch in self.rewrite.branches]
            facts.append(("branches", format_names(labels)))
        return [*facts, *(("note", note) for note in self.notes)]

    def _find_names(self) -> frozenset[str] | None:
        try:
            return self.held
        except RefusedError:
            return None  # the records have no names; a summary does without them

    @property
    def params(self) -> Parameters:
        """The parameters as a mapping from names to numpy arrays, each read on access."""
        return Parameters(self.parameter_file)

    @property
    def held(self) -> frozenset[str] | None:
        """The names in the parameter file; None without one.

        Raises RefusedError if its records have no names.
        """
        return list_parameter_names(self.parameter_file)

    @property
    def loaded_models(self) -> tuple[Checkpoint, ...]:
        """The models that were loaded: the sources of a rewrite, else this one."""
        return self.sources or (self,)

    @check_arguments
    def with_params(self, arrays: Mapping[str, Any]) -> Checkpoint:
        """Return this model with ``arrays`` (anything that numpy takes) for the parameters of these names.

        Raises:
            RefusedError: a name is not a variable of the graph, an array has another shape or dtype
                than the parameter, or no format has a place for it; all are listed.
        """
        if not arrays:
            return self
        held = self.held
        known = set(held or ())
        auxiliary: set[str] = set()
        for node, role in assign_roles(self.graph, held=held).items():
            known.add(node.name)
            if role.kind is Kind.AUXILIARY:
                auxiliary.add(node.name)
        for variable in list_implied_variables(self.graph):
            known.add(variable.name)
            if variable.auxiliary:
                auxiliary.add(variable.name)
        faults = []
        for name in arrays:
            if split_key(name)[1] not in known:
                hint = did_you_mean(name, known)
                faults.append(Fault(f"the graph has no variable named {name!r}", hint=hint))
        RefusedError.raise_any(faults)
        in_model = find_format(self.graph).holds_parameters
        file = replace_arrays(self.parameter_file, arrays, None if in_model else auxiliary)
        return msgspec.structs.replace(self, parameter_file=file, needs_params=True)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_checkpoint, tuple(getattr(self, name) for name in self.__struct_fields__)


def _restore_checkpoint(*fields: Any) -> Checkpoint:
    model = Checkpoint(*fields)
    if model.parameter_file is not None:
        check_unchanged(model.parameter_file)
    return model


def follow_rewrite(
    model: Checkpoint,
    rewrite: Rewrite,
    *,
    report: object = None,
    notes: Iterable[str] = (),
    needs_params: bool = False,
    drop_unused: bool = False,
    needs_types: bool = False,
) -> Checkpoint:
    """Return ``model`` after a rewrite of its graph.

    With ``needs_params`` the new graph uses names that the old parameter file lacks.
    ``drop_unused`` omits unused records. ``needs_types`` refuses new outputs without a type.

    Raises:
        RefusedError: two records would get one name, or a type is missing.
    """
    rewrite = _settle_names(rewrite)
    format_ = find_format(rewrite.graph)
    removed, more = _account(rewrite, format_)
    file = model.parameter_file
    if file is not None:
        file = list_under(file, plan_records(file, rewrite, drop_unused=drop_unused))
    return replace(
        model,
        graph=rewrite.graph,
        parameter_file=file,
        data=b"",
        rewrite=rewrite if model.rewrite is None else model.rewrite.then(rewrite),
        sources=model.loaded_models,
        report=report,
        notes=(*notes, *_note_untyped(rewrite.graph, format_, needs_types), *more),
        needs_params=model.needs_params or needs_params,
        removed=_join_removed(model.removed, removed),
    )


def follow_group(
    models: Sequence[Checkpoint],
    rewrite: Rewrite,
    *,
    report: object = None,
    notes: Iterable[str] = (),
) -> Checkpoint:
    """Return the model that a rewrite made of several, a branch of each, with the needed records.

    Raises:
        RefusedError: two records of a model would get one name, or an output has no type.
    """
    # Before labels change: records have the names of variables.
    lists = [list_under(file, plan) for file, plan in _plan_records(models, rewrite)]
    rewrite = _settle_names(rewrite)
    format_ = find_format(rewrite.graph)
    removed, more = _account(rewrite, format_)
    records = tuple(chain.from_iterable(part.records for part in lists))
    # Outputs in a folder get the name and epoch of the first model with parameters.
    namesake = next((model for model in models if model.parameter_file is not None), models[0])
    sources: list[Checkpoint] = []
    earlier: list[RemovedMessage] = []
    for model in models:
        sources += model.loaded_models
        earlier += model.removed
        if model.rewrite is not None:
            rewrite = model.rewrite.then(rewrite)
    return Checkpoint(
        rewrite.graph,
        replace(lists[0], records=records) if lists else None,
        namesake.where,
        epoch=namesake.epoch,
        rewrite=rewrite,
        sources=tuple(sources),
        report=report,
        notes=(*notes, *_note_untyped(rewrite.graph, format_, needs_types=True), *more),
        needs_params=True,
        removed=_join_removed(earlier, removed),
    )


def _plan_records(
    models: Sequence[Checkpoint], rewrite: Rewrite
) -> Iterator[tuple[ParameterFile, Plan]]:
    """Yield the records of each file that the result needs; models share the first one's."""
    placed: set[Node] = set()
    written: set[str | None] = set()
    for model, branch in zip(models, rewrite.branches, strict=True):
        images = branch.images.values()
        if model.parameter_file is not None:
            renames = tuple(rename for rename in rewrite.renames if rename.branch == branch.label)
            part = Rewrite(rewrite.graph, (branch,), renames)
            shared = {image.name for image in images if image in placed}
            own: Plan = []
            for record, key in plan_records(model.parameter_file, part, drop_unused=True):
                is_shared = split_key(key or "")[1] in shared
                if not (is_shared and key in written):
                    own.append((record, key))
            written.update(key for _, key in own)
            yield model.parameter_file, own
        placed.update(images)


def _note_untyped(graph: Graph, format_: ModelFormat, needs_types: bool) -> list[str]:
    if not format_.types.are_stated:
        return []
    names = format_.types.list_untyped_outputs(graph)
    if not names:
        return []
    what = format_.types.explain_unknown_types(names)
    if needs_types:
        hint = "state them with `types={'gelu': 'float32[n,3]'}`"
        raise RefusedError(Fault(f"outputs would be written without a type: {what}", hint=hint))
    return [f"outputs are written without a type: {what}"]


def _join_removed(
    earlier: Sequence[RemovedMessage], later: Sequence[RemovedMessage]
) -> tuple[RemovedMessage, ...]:
    if not earlier:
        return tuple(later)
    return tuple(dict.fromkeys((*earlier, *later)))


def _account(rewrite: Rewrite, format_: ModelFormat) -> tuple[list[RemovedMessage], list[str]]:
    """Raise SelfCheckError for a removed part of a kept owner."""
    branches = [(branch.source, branch.images) for branch in rewrite.branches]
    removed: list[RemovedMessage] = []
    notes: list[str] = []
    faults: list[Fault] = []
    for part in format_.account(rewrite.graph, branches):
        if isinstance(part, Fault):
            faults.append(replace(part, hint=BUG))
        elif isinstance(part, RemovedMessage):
            removed.append(part)
        else:
            notes.append(part)
    SelfCheckError.raise_any(faults)
    return removed, notes


def _settle_names(rewrite: Rewrite) -> Rewrite:
    """Labels that were different must stay so; RefusedError for forbidden names."""
    graph = rewrite.graph
    faults = [
        Fault(what, node=node.name, hint=hint)
        for what, hint, node in graph.source.name_faults(graph)
    ]
    RefusedError.raise_any(faults)
    labels = _find_free_labels(graph)
    if not labels or any(_find_free_labels(branch.source) for branch in rewrite.branches):
        return rewrite

    def relabel(node: Node) -> Node:
        if node not in labels:
            return node
        return replace(node, details=replace(node.details, label=labels[node]))

    relabelled, images = rebuild_graph(graph, relabel)
    return rewrite.then(Rewrite(relabelled, (Branch("", graph, images),)))


def _find_free_labels(graph: Graph) -> dict[Node, str]:
    labels = graph.source.list_labels(graph)
    first = {label: node for node, label in reversed([*labels.items()])}
    taken = TakenNames(first)
    return {node: taken.take(label) for node, label in labels.items() if first[label] is not node}
