"""The preparation of a graph for ``run``, training, ``verify`` and ``bind``: the needed part,
upgraded, and values.

Shapes in ``inspect`` and ``draw`` use the same upgrade.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.name_lists import (
    list_implied_variables,
    name_outputs,
    output_name,
    resolve_targets,
)
from graphshare.analysis.roles import Role, assign_roles
from graphshare.checkpoint.model import Checkpoint
from graphshare.checkpoint.parameters import check_belongs, list_parameter_names
from graphshare.errors import Fault, RefusedError
from graphshare.execute.backends.backend import Computation, open_computation
from graphshare.execute.engines.executor import Executor
from graphshare.execute.plan import UnsupportedError, find_unsupported_operators, missing_kernels
from graphshare.execute.prepare.assignment import Assignment, DrawOptions
from graphshare.execute.prepare.fed_values import describe_size, find_dtypes, list_arrays
from graphshare.execute.prepare.feeds import GivenShape, for_variables
from graphshare.formats.model_format import Operation, find_format
from graphshare.formats.params.narrow_dtypes import name_dtype
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import list_value_places, post_order
from graphshare.ops.inference import Inference
from graphshare.ops.kernel import Array
from graphshare.ops.registry import visible_outputs
from graphshare.rewrite.upgrade_graph import upgrade_graph
from graphshare.text.format import format_count, format_names
from graphshare.text.names import unique_names as unique_names

# MXNet's loader gave operators of older files another meaning than their text has.
UPGRADED_BEFORE = 905


class Prepared(msgspec.Struct, eq=False):
    """A graph ready to compute: the needed part, and a value for each of its variables.

    ``names`` are MXNet's names of the part's heads, each once; ``wanted`` names the graph's heads
    or targets if the part has all outputs as heads. ``notes`` list decisions for the user.
    ``computation`` runs the part for ``values``: inputs, and parameters for kernels.
    """

    part: Graph
    names: list[str]
    values: dict[Node, Array]
    inference: Inference
    roles: dict[Node, Role]
    notes: list[str]
    wanted: frozenset[str]
    computation: Computation

    @property
    def variable_bytes(self) -> int:
        """Return the size of all variables' values in bytes."""
        return sum(array.nbytes for value in self.values.values() for array in list_arrays(value))


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to compute a graph; the fields are arguments of :func:`graphshare.run`.

    ``draw`` states how to generate missing values. ``as_input`` names inputs that may look like
    parameters; ``where`` names the graph in messages, ``executor`` is from :func:`choose_executor`.
    """

    draw: DrawOptions
    params: ParameterFile | None = None
    targets: Sequence[str] = ()
    all_outputs: bool = False
    as_input: Collection[str] = ()
    where: str = ""
    executor: Executor | None = None

    def assign_roles(self, graph: Graph) -> dict[Node, Role]:
        """Return the role of every variable of ``graph``."""
        return assign_roles(graph, held=list_parameter_names(self.params), as_input=self.as_input)


def prepare(
    graph: Graph, request: Request, feeds: Mapping[str, Any], shapes: Mapping[str, GivenShape]
) -> Prepared:
    """Prepare ``graph`` for :func:`graphshare.run`, with its arguments and errors."""
    check_belongs(request.params, graph)
    heads = list(graph.heads)
    if request.targets:
        heads = resolve_targets(request.targets, graph.nodes, option="`targets`", heads=graph.heads)
    wanted = set(list_value_places(heads))
    if request.all_outputs:
        inputs: set[Node] = set()
        for node, role in request.assign_roles(graph).items():
            if node.name in feeds or not role.is_parameter:
                inputs.add(node)
        heads = _list_all_outputs(heads, inputs)
    part, notes = runnable_part(graph, heads)
    names = _VariableNames(graph, part, notes)
    fed = names.resolve(feeds, "`feeds`")
    shaped = names.resolve(shapes, "`shapes`")
    output_names = name_outputs(graph, heads)
    pairs = zip(output_names, heads, strict=True)
    own = frozenset(name for name, entry in pairs if (entry.node, entry.index) in wanted)
    model = Checkpoint(part, request.params, request.where)
    computation = open_computation(model, request.executor, as_input=request.as_input)
    if request.all_outputs and (left_out := set(computation.unreadable).difference(own)):
        notes.append(f"left out, as numpy has no such dtypes: {format_names(sorted(left_out), 6)}")
        part = msgspec.structs.replace(
            part, heads=tuple(e for e in part.heads if output_name(e) not in left_out)
        )
        output_names = [name for name in output_names if name not in left_out]
        computation = computation.select(part.heads)
    assigned = computation.draw(fed, shaped, request.draw)
    notes += [*assigned.notes, *_describe(assigned, request.draw)]
    roles = request.assign_roles(part)
    return Prepared(
        part, output_names, assigned.values, assigned.inference, roles, notes, own, computation
    )


def _list_all_outputs(heads: Sequence[Entry], inputs: Collection[Node]) -> list[Entry]:
    """Return the visible outputs for ``heads``, with ``inputs``, in topological order; other heads come last."""
    entries: list[Entry] = []
    for node in post_order(entry.node for entry in heads):
        if not node.is_variable or node in inputs:
            entries += visible_outputs(node)
    listed = set(list_value_places(entries))
    return entries + [entry for entry in heads if (entry.node, entry.index) not in listed]


def runnable_part(graph: Graph, wanted: Sequence[Entry]) -> tuple[Graph, list[str]]:
    """Return the part for ``wanted``, upgraded if its generation requires it, and notes.

    Raises:
        UnsupportedError: operators without a kernel; all are listed.
        RefusedError: nothing is wanted, or the file needs an upgrade that MXNet would refuse.
    """
    if not wanted:
        hint = "add outputs to the file, or name what to compute"
        raise RefusedError(
            Fault("the graph has no outputs, so there is nothing to compute", hint=hint)
        )
    if find_format(graph).knows_operators:
        faults = missing_kernels(post_order(entry.node for entry in wanted))
        if faults:
            raise UnsupportedError(faults)
    part, _, implied = upgrade_part(graph, wanted)
    return part, describe_upgrade(implied)


def describe_upgrade(implied: int) -> list[str]:
    """Return a note on the variables that an upgrade added, if any."""
    if not implied:
        return []
    variables = f"{format_count(implied, 'variable')} that it implies"
    return [f"the graph is of an older generation and was upgraded in memory; added: {variables}"]


def upgrade_part(graph: Graph, wanted: Sequence[Entry]) -> tuple[Graph, Mapping[Node, Node], int]:
    """Return the part for ``wanted``, upgraded if necessary, its nodes' images, and the number of
    added variables.

    Graphs with operators without a built-in kernel are not upgraded.
    """
    nodes = post_order(entry.node for entry in wanted)
    part = msgspec.structs.replace(
        graph, nodes=tuple(nodes), heads=tuple(wanted), source=graph.source.after_rewrite()
    )
    if not find_format(graph).supports(Operation.UPGRADE):
        return part, {}, 0
    implied = sum(1 for _ in list_implied_variables(part))
    if missing_kernels(nodes):
        return part, {}, 0
    lacks_something = implied > 0 or bool(find_unsupported_operators(nodes))
    if not lacks_something and (graph.version or 0) >= UPGRADED_BEFORE:
        return part, {}, 0
    try:
        # MXNet drops amp_cast only when it saves; a run computes it.
        rewrite = upgrade_graph(part, keep_amp_cast=True)
    except RefusedError:
        # A graph that lacks nothing runs unchanged, even if MXNet would refuse it.
        if lacks_something:
            raise
        return part, {}, 0
    return rewrite.graph, rewrite.branches[0].images, implied


def describe_conversions(assigned: Assignment) -> list[str]:
    """Return a note for each feed that was converted to its variable's dtype."""
    notes = []
    for node, dtype in assigned.converted.items():
        (taken, *_) = find_dtypes(assigned.values[node])
        notes.append(
            f"{node.name!r} is fed as {name_dtype(dtype)} and was converted to {name_dtype(taken)}"
        )
    return notes


def describe_sizes(sized: Iterable[Node]) -> list[str]:
    """Return a note for each input whose size was chosen."""
    return [
        f"{node.name!r} could have other sizes; `shapes={{{node.name!r}: ...}}` sets them"
        for node in sized
    ]


class _VariableNames:
    def __init__(self, graph: Graph, part: Graph, notes: list[str]) -> None:
        nodes = post_order(entry.node for entry in part.heads)
        self._needed = [node for node in nodes if node.is_variable]
        self._variables, self._notes = [*graph.variables(), *self._needed], notes
        self._names = {node.name for node in graph.variables()}
        # Implied variables can be fed: the upgrade makes nodes of them.
        self._names.update(implied.name for implied in list_implied_variables(graph))

    def resolve(self, by_name: Mapping[str, Any], option: str) -> dict[Node, Any]:
        """Return the values of needed variables; note names that are not needed."""
        needed = {node.name for node in self._needed}
        idle = [name for name in by_name if name in self._names and name not in needed]
        if idle:
            self._notes.append(f"{option}: the outputs do not need {', '.join(idle)}")
        rest = {name: value for name, value in by_name.items() if name not in idle}
        unknown = [name for name in rest if name not in needed]
        for_variables(dict.fromkeys(unknown), self._variables, option=option)
        return for_variables(rest, self._needed, option=option)


def _describe(assigned: Assignment, draw: DrawOptions) -> list[str]:
    values = assigned.values
    notes = [*describe_conversions(assigned), *describe_sizes(assigned.sized)]
    for text, nodes in (
        (f"parameters drawn from seed {draw.params_seed}", assigned.parameters),
        (f"inputs drawn from seed {draw.seed or 0}", assigned.inputs),
        ("labels and states that are not fed are zeros", assigned.zeros),
    ):
        if nodes:
            sizes = (f"{node.name} {describe_size(values[node])}" for node in nodes)
            notes.append(f"{text}: {format_names(sizes, 6)}")
    return notes
