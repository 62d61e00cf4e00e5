"""What every function takes for a model, for a list of names, and for shapes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence

from graphshare.analysis.roles import Role, assign_roles
from graphshare.arguments import Natural
from graphshare.checkpoint.load import StrPath, load
from graphshare.checkpoint.model import Checkpoint
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.text.names import suggest
from graphshare.text.patterns import expand_patterns

Model = Checkpoint | Graph | str | os.PathLike[str]
"""A model, a graph without parameters, or what :func:`graphshare.load` takes: a path or a stem."""

Names = str | Iterable[str]
"""One name or pattern, or several."""

Shape = tuple[int | None, ...]
Shapes = Mapping[str, Sequence[Natural | None]]
"""Shapes by variable name or pattern; None is a size to be inferred."""


def as_checkpoint(model: Model) -> Checkpoint:
    """Return ``model`` as a checkpoint; a path or stem is loaded. Raises as :func:`graphshare.load`."""
    if isinstance(model, Checkpoint):
        return model
    return Checkpoint(model) if isinstance(model, Graph) else load(model)


def as_names(names: Names) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def check_roles(variables: Iterable[Node], as_input: Names, as_parameter: Names = ()) -> None:
    """Check that the names of inputs and parameters are those of variables. Raises RefusedError with all that are not."""
    check_variable_names(variables, {"`as_input`": as_names(as_input), "`as_parameter`": as_names(as_parameter)})


def find_roles(
    model: Checkpoint, as_input: Names = (), as_parameter: Names = (), others: Mapping[str, Collection[str]] = EMPTY
) -> dict[Node, Role]:
    """Return the roles of a model's variables; ``others`` are options that name variables too.

    Raises:
        RefusedError: names that are not those of variables; all are listed.
    """
    inputs, parameters = as_names(as_input), as_names(as_parameter)
    check_variable_names(model.graph.variables(), {"`as_input`": inputs, "`as_parameter`": parameters, **others})
    return assign_roles(model.graph, held=model.held, as_input=inputs, as_parameter=parameters)


def check_variable_names(variables: Iterable[Node], options: Mapping[str, Collection[str]]) -> None:
    """Check that every name in ``options`` is that of a variable.

    Raises:
        RefusedError: every name that is not.
    """
    names = {node.name: None for node in variables} if any(options.values()) else {}
    faults = [
        Fault(f"{option} {name!r} names no variable", hint=suggest(name, names, "variables"))
        for option, texts in options.items()
        for name in texts
        if name not in names
    ]
    if faults:
        raise RefusedError(faults)


def as_shapes(shapes: Shapes | None, *graphs: Graph) -> dict[str, Shape]:
    """Return shapes by name as tuples; those of patterns hold for the variables of ``graphs`` that they match."""
    tuples = {name: tuple(shape) for name, shape in (shapes or {}).items()}
    return expand_patterns(tuples, dict.fromkeys(node.name for graph in graphs for node in graph.variables()))


def as_path(path: StrPath | None) -> str | None:
    """Return a path as text; None stays None."""
    return None if path is None else os.fspath(path)
