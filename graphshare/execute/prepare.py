"""What a graph needs before it can compute: the part that is wanted, upgraded, and a value for each of its variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.implied import implied_variables
from graphshare.analysis.name_lists import output_name
from graphshare.analysis.roles import Kind, Role, assign_roles
from graphshare.analysis.shapes import Inference, infer
from graphshare.analysis.sizes import settle_sizes
from graphshare.analysis.targets import resolve_targets
from graphshare.checkpoint.parameter_plan import check_belongs, held_names
from graphshare.errors import Fault, RefusedError
from graphshare.execute.feeds import GivenShape, for_variables, parameter_values
from graphshare.execute.plan import UnsupportedError, make_plan, unsupported, without_kernel
from graphshare.execute.values import check_shapes, converted, fill_inputs, seeded_parameter, unknown_shapes
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.rewrite.upgrade import upgrade
from graphshare.text.format import format_names

UPGRADED_BEFORE = 905  # up to here MXNet's loader gave operators another meaning than the file's text has today


class Prepared(msgspec.Struct, eq=False):
    """A graph ready to compute: the part that is needed, and a value for each of its variables.

    ``names`` are MXNet's names of the part's heads, each once. ``notes`` say in words what was decided for the user.
    """

    part: Graph
    names: list[str]
    values: dict[Node, Any]
    found: Inference
    roles: dict[Node, Role]
    notes: list[str]

    @property
    def variable_bytes(self) -> int:
        """The size of all that goes in."""
        return sum(array.nbytes for array in self.values.values())


def prepare(
    graph: Graph,
    *,
    params: ParameterFile | None,
    feeds: Mapping[str, Any],
    shapes: Mapping[str, GivenShape],
    targets: Sequence[str],
    seed: int | None,
    params_seed: int | None,
) -> Prepared:
    """Everything that :func:`graphshare.execute.run.run` does before it computes; its arguments, and what it raises."""
    check_belongs(params, graph)
    wanted = resolve_targets(targets, graph.nodes, option="--target") if targets else list(graph.heads)
    names = {node.name for node in graph.variables()}
    names |= {found.name for found in implied_variables(graph)}
    part, notes = runnable_part(graph, wanted)
    nodes = post_order(entry.node for entry in part.heads)
    variables = [node for node in nodes if node.is_variable]
    fed = _given(feeds, variables, graph, names, "--feed", notes)
    shaped = _given(shapes, variables, graph, names, "--shape", notes)
    roles = assign_roles(part, held=held_names(params))
    values = parameter_values([n for n in variables if n not in fed], params, lambda n: roles[n].kind is Kind.AUXILIARY)
    make_plan(part.heads)
    found = _inferred(part, nodes, values, fed, shaped)
    for node, array in fed.items():
        values[node] = converted(node, array, found.types[node][0])
        if values[node] is not array:
            notes.append(f"{node.name!r} is fed as {array.dtype} and was converted to {values[node].dtype}")
    refuse_missing([n for n in variables if n not in values], roles, seed, params_seed, params)
    if seed is not None:
        found = _sized(part, nodes, values, shaped, found, notes)
    _fill(values, variables, nodes, found, roles, (seed or 0, params_seed), notes)
    return Prepared(part, unique_names([output_name(entry) for entry in wanted]), values, found, roles, notes)


def runnable_part(graph: Graph, wanted: Sequence[Entry]) -> tuple[Graph, list[str]]:
    """What ``wanted`` needs, as a graph of its own, upgraded where the file's generation asks for it; and what to say of it.

    Raises:
        UnsupportedError: operators that nothing here can compute; all are listed.
        RefusedError: the file needs an upgrade, and MXNet would refuse it.
    """
    nodes = post_order(entry.node for entry in wanted)
    faults = without_kernel(nodes)
    if faults:
        raise UnsupportedError(faults)
    part = Graph(tuple(nodes), tuple(wanted), graph.attrs, graph.source.after_rewrite())
    implied = sum(1 for _ in implied_variables(part))
    version = graph.version or 0
    if not implied and version >= UPGRADED_BEFORE and not unsupported(nodes):
        return part, []
    try:
        newer = upgrade(part, keep_amp_cast=True).graph
    except RefusedError:
        if implied or unsupported(nodes):
            raise
        return part, []  # operators that only a registered kernel knows: nothing to upgrade in them
    said = f"; {implied} variables that it implies were added" if implied else ""
    return newer, [f"the graph is of an older generation and was upgraded in memory{said}"] if implied else []


def unique_names(names: Sequence[str]) -> list[str]:
    """``names`` with ``#1``, ``#2``... behind those that an earlier one bears already."""
    found: dict[str, None] = {}
    for name in names:
        number, unique = 0, name
        while unique in found or (number and unique in names):
            number += 1
            unique = f"{name}#{number}"
        found[unique] = None
    return list(found)


def _given(
    given: Mapping[str, Any], variables: Sequence[Node], graph: Graph, names: set[str], option: str, notes: list[str]
) -> dict[Node, Any]:
    """What is given by name for the variables that are needed; the others are mentioned."""
    needed = {node.name for node in variables}
    idle = [name for name in given if name in names and name not in needed]
    if idle:
        notes.append(f"{option}: nothing that is computed needs {', '.join(idle)}")
    rest = {name: value for name, value in given.items() if name not in idle}
    unknown = [name for name in rest if name not in needed]
    for_variables(dict.fromkeys(unknown), [*graph.variables(), *variables], option=option)
    return for_variables(rest, variables, option=option)


def _inferred(
    part: Graph,
    nodes: Sequence[Node],
    values: Mapping[Node, Any],
    fed: Mapping[Node, Any],
    shaped: Mapping[Node, GivenShape],
) -> Inference:
    """What follows from all that is given; the types of what is fed count where no others settle them.

    Raises:
        RefusedError: shapes contradict each other; what is fed and does not fit is listed where that is the reason.
    """
    known = {**shaped, **{node: array.shape for node, array in values.items()}}
    types = {node: str(array.dtype) for node, array in values.items()}
    said = {node: known[node] for node in fed if node in known}
    try:
        _check_given(fed, said)
        fed_shapes = {node: array.shape for node, array in fed.items()}
        return infer(
            part, {**known, **fed_shapes}, types, nodes=nodes, yielding={n: str(array.dtype) for n, array in fed.items()}
        )
    except RefusedError:
        check_shapes(fed, infer(part, known, types, nodes=nodes, default_type=None))
        raise


def _check_given(fed: Mapping[Node, Any], said: Mapping[Node, GivenShape]) -> None:
    """Holds arrays against shapes given for the same variables."""
    check_shapes(fed, Inference(list(said), {node: [tuple(shape)] for node, shape in said.items()}, {}))


def _sized(
    part: Graph,
    nodes: Sequence[Node],
    values: Mapping[Node, Any],
    shaped: Mapping[Node, GivenShape],
    found: Inference,
    notes: list[str],
) -> Inference:
    """The inference with sizes chosen for inputs that nothing determines, and words about them."""
    known = {**shaped, **{node: array.shape for node, array in values.items()}}
    settled = settle_sizes(part, known, {node: str(array.dtype) for node, array in values.items()}, nodes, found)
    if settled is None:
        return found
    notes += [f"{node.name!r} could have other sizes; --shape {node.name}=... sets them" for node in settled[1]]
    return settled[0]


def refuse_missing(
    missing: Sequence[Node],
    roles: Mapping[Node, Role],
    seed: int | None,
    params_seed: int | None,
    params: ParameterFile | None,
) -> None:
    """Lists every variable that has no value and none to be made up."""
    faults = []
    for node in missing:
        role = roles[node]
        if role.is_parameter and params_seed is None:
            where = f"{params.path} does not hold it" if params else "no parameter file is given"
            hint = "give it with --params FILE or --feed NAME=FILE, or make up what is missing with --random-params SEED"
            faults.append(Fault(f"parameter {node.name!r} has no value: {where}", hint=hint))
    for node in missing:
        role = roles[node]
        if not (role.is_parameter or role.is_label or role.is_state) and seed is None:
            hint = "give it with --feed NAME=FILE, or make up what is missing with --random SEED"
            faults.append(Fault(f"input {node.name!r} has no value", hint=hint))
    if faults:
        raise RefusedError(faults)


def _fill(
    values: dict[Node, Any],
    variables: Sequence[Node],
    nodes: Sequence[Node],
    found: Inference,
    roles: Mapping[Node, Role],
    seeds: tuple[int, int | None],
    notes: list[str],
) -> None:
    """Values for the variables that have none, and words about them."""
    missing = [node for node in variables if node not in values]
    faults = unknown_shapes(found, [n for n in missing if not roles[n].is_label]) or unknown_shapes(found, missing)
    if faults:
        raise RefusedError(faults)
    made = [node for node in missing if roles[node].is_parameter]
    for node in made:
        shape = tuple(d or 0 for d in found.shapes[node][0] or ())
        values[node] = seeded_parameter(node, shape, found.types[node][0] or "float32", seed=seeds[1] or 0)
    values.update(fill_inputs(nodes, values, found, roles, seed=seeds[0]))
    zeros = [node for node in missing if node not in made and (roles[node].is_label or roles[node].is_state)]
    drawn = [node for node in missing if node not in made and node not in zeros]
    for text, of in (
        (f"parameters drawn from seed {seeds[1]}", made),
        (f"inputs drawn from seed {seeds[0]}", drawn),
        ("labels and states that are not fed are zeros", zeros),
    ):
        if of:
            sizes = (f"{n.name} {tuple(values[n].shape)}" for n in of)
            notes.append(f"{text}: {format_names(sizes, 6)}")
