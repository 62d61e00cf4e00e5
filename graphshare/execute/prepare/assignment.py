"""The values of a graph's variables before it computes: parameters, feeds, and generated values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.roles import Role
from graphshare.errors import Fault, RefusedError
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.execute.prepare.memory import check_memory
from graphshare.execute.prepare.variable_values import (
    check_shapes,
    convert_feed,
    draw_inputs,
    draw_parameters,
    find_idle_labels,
    infer_given,
    refuse_unknown_shapes,
)
from graphshare.formats.facets import Integers
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference, choose_sizes, infer
from graphshare.ops.kernel import Array, Shape
from graphshare.text.format import format_count, format_names

Attempt = Callable[[Mapping[Node, Array]], None]
"""Computes values; raises InputError if that fails."""


class DrawOptions(msgspec.Struct, frozen=True):
    """Options of drawing: ``seed`` draws inputs, ``params_seed`` parameters; None draws nothing.

    An open batch size becomes ``batch``. Without ``training``, labels that only training reads get
    any size. ``attempt`` tries values at open sizes and raises InputError if it fails; by default
    the backend runs them. ``wishes`` are more integers that inputs need. Inputs in ``order`` are
    drawn first, in that order, if it matters.
    """

    seed: int | None = 0
    params_seed: int | None = None
    training: bool = False
    batch: int = 1
    attempt: Attempt | None = None
    wishes: Mapping[str, Sequence[Integers]] = EMPTY
    order: Sequence[str] = ()


DEFAULT = DrawOptions()


class Assignment(msgspec.Struct, eq=False):
    """A value for each variable of a graph, and the inference from them.

    ``parameters``, ``inputs`` and ``zeros`` (labels and states) were chosen here, also the shapes
    of ``sized``; ``converted`` maps fed arrays to their original dtype. ``outputs`` are set if
    already computed; ``notes`` tell the user why values were chosen.
    """

    values: dict[Node, Array]
    inference: Inference
    parameters: list[Node] = []
    inputs: list[Node] = []
    zeros: list[Node] = []
    sized: list[Node] = []
    converted: dict[Node, Any] = {}
    outputs: list[Any] | None = None
    notes: list[str] = []


def _list_inputs(
    nodes: Iterable[Node], idle: Collection[Node], roles: Mapping[Node, Role]
) -> list[Node]:
    """Return the inputs among ``nodes``: weights' sizes follow from theirs."""
    return [node for node in nodes if node not in idle and not roles[node].is_parameter]


def assign_values(
    part: Graph,
    roles: Mapping[Node, Role],
    parameters: Mapping[Node, Array],
    *,
    feeds: Mapping[Node, Array],
    shapes: Mapping[Node, GivenShape],
    options: DrawOptions,
    params: ParameterFile | None = None,
) -> Assignment:
    """Assign a value to each variable that the heads of ``part`` need: a parameter, a feed, or a
    drawn value.

    The seed of inputs also chooses undetermined sizes. Labels and states are zeros. ``params`` is
    the file of ``parameters``, for messages.

    Raises:
        RefusedError: shapes contradict each other or do not follow, or values are missing; all of a
            kind are listed. The run would exceed the memory limit.
    """
    nodes = post_order(entry.node for entry in part.heads)
    assigned = Assignment(dict(parameters), infer_variables(part, nodes, parameters, feeds, shapes))
    _add_feeds(assigned, feeds)
    missing = [node for node in nodes if node.is_variable and node not in assigned.values]
    refuse_missing(missing, roles, options.seed, options.params_seed, params)
    idle = [] if options.training else find_idle_labels(part, roles)
    chosen, examples = choose_sizes(assigned.inference, idle)
    # Without a seed not even sizes are chosen.
    if examples and (options.seed is not None or examples.keys() <= set(idle)):
        assigned.inference, assigned.sized = chosen, _list_inputs(examples, idle, roles)
    refuse_unknown_shapes(assigned.inference, missing, roles, examples)
    check_memory(nodes, part.heads, assigned.inference, assigned.values)
    for node in missing:
        if roles[node].is_parameter:
            assigned.parameters.append(node)
        elif roles[node].is_optional:
            assigned.zeros.append(node)
        else:
            assigned.inputs.append(node)
    assigned.values.update(
        draw_parameters(assigned.parameters, assigned.inference, seed=options.params_seed or 0)
    )
    assigned.values.update(
        draw_inputs(nodes, assigned.values, assigned.inference, roles, seed=options.seed or 0)
    )
    return assigned


def _add_feeds(assigned: Assignment, feeds: Mapping[Node, Array]) -> None:
    for node, array in feeds.items():
        assigned.values[node] = convert_feed(node.name, array, assigned.inference.types[node][0])
        if assigned.values[node] is not array:
            assigned.converted[node] = array.dtype


def infer_variables(
    part: Graph,
    nodes: Sequence[Node],
    parameters: Mapping[Node, Array],
    feeds: Mapping[Node, Array],
    shapes: Mapping[Node, GivenShape],
) -> Inference:
    """Infer shapes and dtypes from arrays and ``shapes``; a feed's dtype counts if nothing else
    decides.

    Raises:
        RefusedError: shapes contradict each other; feeds and ``shapes`` that cause it are named.
    """
    held = {node: array.shape for node, array in parameters.items()}
    fed = {node: array.shape for node, array in feeds.items()}
    types = {node: str(array.dtype) for node, array in parameters.items()}
    known_shapes = {**held, **shapes}
    stated: dict[Node, list[Shape]] = {node: [tuple(shape)] for node, shape in known_shapes.items()}
    yielding = {node: str(array.dtype) for node, array in feeds.items()}
    check_shapes({**held, **fed}, Inference(list(stated), stated, {}))
    try:
        return infer(
            part, {**known_shapes, **fed}, types, nodes=nodes, yielding=yielding, held=held
        )
    except RefusedError:
        # Inference without feeds shows which one does not fit; else the first error stands.
        check_shapes(fed, infer_given(part, held, shapes, types, nodes=nodes))
        raise


def refuse_missing(
    missing: Sequence[Node],
    roles: Mapping[Node, Role],
    seed: int | None,
    params_seed: int | None,
    params: ParameterFile | None,
    *,
    hint: str = (
        "name a parameter file with `params=FILE`, give values with `feeds={NAME: array}`, or draw "
        "values with "
        "`params_seed=SEED`"
    ),
) -> None:
    """Refuse variables without a value or a seed. ``hint`` is for parameters, which are one fault:
    a forgotten file leaves hundreds without a value.
    """
    parameters = [node for node in missing if roles[node].is_parameter]
    faults: list[Fault] = []
    if parameters and params_seed is None:
        faults.append(Fault(_describe_missing(parameters, params), hint=hint))
    hint = "give it with `feeds={NAME: array}`, or draw missing inputs with `seed=SEED`"
    if seed is None:
        for node in missing:
            if not roles[node].is_parameter and not roles[node].is_optional:
                faults.append(Fault(f"input {node.name!r} has no value", hint=hint))
    if faults:
        raise RefusedError(faults)


_NAMED = 4  # names of a parameter file that is not there at all: which ones hardly matters


def _describe_missing(parameters: Sequence[Node], params: ParameterFile | None) -> str:
    names = [repr(node.name) for node in parameters]
    if len(names) == 1:
        subject, they = f"parameter {names[0]} has", "it"
    else:
        subject, they = f"{format_count(len(names), 'parameter')} have", "them"
    where = f"{params.path} does not contain {they}" if params else "no parameter file is given"
    message = f"{subject} no value: {where}"
    if len(names) == 1:
        return message
    return f"{message} ({format_names(names) if params else format_names(names, _NAMED)})"
