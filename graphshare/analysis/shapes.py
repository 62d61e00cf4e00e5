"""Shapes and types of everything in a graph, from what is known of some of it, in both directions.

Each operator's rule is asked forwards and backwards until nothing new follows, as MXNet does. Known shapes come from the
caller, and from ``__shape__`` and ``__dtype__`` of variables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from graphshare.analysis.bodies import NodeBodies, What, inner_variables
from graphshare.analysis.name_lists import visible_outputs
from graphshare.analysis.node_errors import explain_failure, refuse_inputs
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.kernel import Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.registry import find_kernel, lookup
from graphshare.ops.unification import is_known, unify
from graphshare.text.format import format_shape

TYPE_FLAGS = {
    "0": "float32",
    "1": "float64",
    "2": "float16",
    "3": "uint8",
    "4": "int32",
    "5": "int8",
    "6": "int64",
    "7": "bool",
}
_MAX_ROUNDS = 64


class Inference(msgspec.Struct):
    """What is known of each node's outputs. Output ``i`` of ``node`` has ``shapes[node][i]`` and ``types[node][i]``."""

    nodes: list[Node]
    shapes: dict[Node, list[Shape]]
    types: dict[Node, list[str | None]]

    def unknown_variables(self) -> list[Node]:
        """The variables whose shape is not fully known."""
        return [node for node in self.nodes if node.is_variable and not is_known(self.shapes[node][0])]


def infer(
    graph: Graph,
    shapes: Mapping[Node, Sequence[int | None]],
    types: Mapping[Node, str] | None,
    *,
    nodes: Sequence[Node] | None = None,
    default_type: str | None = "float32",
    yielding: Mapping[Node, str] | None = None,
) -> Inference:
    """What follows for ``nodes`` (all that the heads need) when the given variables have these shapes and types.

    Operators without a kernel let nothing through and raise nothing. Variables whose type nothing else settles get
    that in ``yielding``, then ``default_type``. With ``types`` None shapes are all that is asked for.

    Raises:
        RefusedError: shapes or types contradict each other; the node is named, with its shapes and what would fit.
    """
    order = list(nodes) if nodes is not None else post_order(entry.node for entry in graph.heads)
    found = _begun(order, shapes, types or {}, np_shape=graph.attrs.get("is_np_shape", ("int", 0))[1] == 1)
    rules = _Rules(order)
    _settle(found, rules.shape_step)
    if types is None:
        return found
    _settle(found, rules.type_step)
    for fallback in (yielding or {}, dict.fromkeys(order, default_type)):  # float32 is MXNet's own default
        open_ = [node for node in order if node.is_variable and found.types[node][0] is None]
        found.types.update((node, [fallback.get(node)]) for node in open_)
        if open_:
            _settle(found, rules.type_step)
    return found


def _begun(
    order: list[Node], shapes: Mapping[Node, Sequence[int | None]], types: Mapping[Node, str], *, np_shape: bool
) -> Inference:
    """What is known before any operator is asked."""
    found = Inference(order, {}, {})
    for node in order:
        count = max(1, len(list(visible_outputs(node))))
        found.shapes[node] = [None] * count
        found.types[node] = [None] * count
        if node.is_variable:
            declared = _declared_shape(node, np_shape)
            given = shapes.get(node)
            found.shapes[node] = [_joined(node, declared, None if given is None else tuple(given))]
            found.types[node] = [types.get(node) or TYPE_FLAGS.get(node.attrs.get("__dtype__", ""))]
    return found


def _declared_shape(node: Node, np_shape: bool) -> Shape:
    """``__shape__`` of a variable; 0 (with np-shape: -1) is a dimension still to be found."""
    text = node.attrs.get("__shape__")
    if text is None:
        return None
    numbers = [part for part in text.strip("()[] ").replace("L", "").split(",") if part.strip()]
    try:
        values = [int(part) for part in numbers]
    except ValueError:
        return None
    unknown = (-1,) if np_shape else (0, -1)
    return tuple(None if value in unknown else value for value in values) if values else None


def _joined(node: Node, declared: Shape, given: Shape) -> Shape:
    try:
        return unify(declared, given)
    except KernelError as error:
        message = f"is given the shape {format_shape(given)}, but its __shape__ says {format_shape(declared)}: {error}"
        raise RefusedError(Fault(message, node=node.name, hint="give the shape that the graph declares")) from None


class _Rules:
    """The kernels of the operators of a graph with their attributes, ready to be asked."""

    def __init__(self, order: Sequence[Node]) -> None:
        self._rules: dict[Node, tuple[Kernel, dict[str, Any]]] = {}
        self._bodies = {node: bodies_of(node) for node in order if node.subgraphs}
        for node in order:
            kernel = find_kernel(node.op) if not node.is_variable else None
            signature = lookup(node.op)
            if kernel is not None:
                self._rules[node] = (kernel, signature.parse(node.attrs)[0] if signature is not None else dict(node.attrs))

    def shape_step(self, found: Inference, node: Node) -> bool:
        """Whether asking the operator's shape rule told something new."""
        rule = self._rules.get(node)
        if rule is None:
            return False
        inputs = [_slot(found.shapes, entry.node, entry.index) for entry in node.inputs]
        outputs = found.shapes[node]
        try:
            new_inputs, new_outputs = self._shapes(node, inputs, outputs)
            merged_in = [unify(a, b) for a, b in zip(inputs, new_inputs, strict=True)]
            merged_out = [unify(a, b) for a, b in zip(outputs, (*new_outputs, *outputs[len(new_outputs) :]), strict=False)]
        except Exception as error:
            raise _rule_error(self, found, node, "shape rule", error, [format_shape(shape) for shape in inputs]) from error
        return _store(found.shapes, node, merged_in, merged_out)

    def type_step(self, found: Inference, node: Node) -> bool:
        """Whether asking the operator's type rule told something new."""
        rule = self._rules.get(node)
        if rule is None:
            return False
        inputs = [_slot(found.types, entry.node, entry.index) for entry in node.inputs]
        outputs = found.types[node]
        try:
            new_inputs, new_outputs = self._types(node, inputs, outputs)
            merged_in = [a or b for a, b in zip(inputs, new_inputs, strict=True)]
            merged_out = [a or b for a, b in zip(outputs, (*new_outputs, *outputs[len(new_outputs) :]), strict=False)]
        except Exception as error:
            raise _rule_error(self, found, node, "dtype rule", error, [str(dtype) for dtype in inputs]) from error
        return _store(found.types, node, merged_in, merged_out)

    def of(self, node: Node) -> tuple[Kernel, dict[str, Any]]:
        """Return the kernel of the node's operator, and the typed attributes."""
        return self._rules[node]

    def _shapes(self, node: Node, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        kernel, attrs = self._rules[node]
        if kernel.body_shapes is None or node not in self._bodies:
            return kernel.shapes(attrs, inputs, outputs)
        return kernel.body_shapes(attrs, inputs, outputs, self._bodies[node])

    def _types(self, node: Node, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        kernel, attrs = self._rules[node]
        if kernel.body_types is None or node not in self._bodies:
            return kernel.types(attrs, inputs, outputs)
        return kernel.body_types(attrs, inputs, outputs, self._bodies[node])


def bodies_of(node: Node) -> NodeBodies:
    """The sub-graphs of ``node`` as kernels see them."""
    return NodeBodies(node, _inside)


def _inside(graph: Graph, what: What, variables: Sequence[Any], heads: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """What follows inside of a sub-graph, of shapes or of types.

    Raises:
        KernelError: a contradiction; the inner node is named.
    """
    order = post_order(entry.node for entry in graph.heads)
    inner = inner_variables(graph)
    try:
        if len(inner) != len(variables):
            raise KernelError(f"{len(variables)} inputs for the {len(inner)} variables of a sub-graph")
        found = _begun(order, {}, {}, np_shape=False)
        table: dict[Node, list[Any]] = found.shapes if what == "shapes" else found.types
        for entry, value in [
            *zip((Entry(n, 0, 0) for n in inner), variables, strict=True),
            *zip(graph.heads, heads, strict=False),
        ]:
            row = table[entry.node]
            row[entry.index] = unify(row[entry.index], value) if what == "shapes" else row[entry.index] or value
        rules = _Rules(order)
        _settle(found, rules.shape_step if what == "shapes" else rules.type_step)
    except RefusedError as error:
        raise KernelError("inside of its sub-graph, " + "; ".join(fault.message for fault in error.faults)) from None
    return [table[n][0] for n in inner], [_slot(table, entry.node, entry.index) for entry in graph.heads]


def _slot(table: Mapping[Node, list[Any]], node: Node, index: int) -> Any:
    row = table[node]
    return row[index] if index < len(row) else None


def _store(table: dict[Node, list[Any]], node: Node, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
    changed = False
    for entry, value in zip(node.inputs, inputs, strict=True):
        row = table[entry.node]
        if entry.index < len(row) and row[entry.index] != value:
            row[entry.index] = value
            changed = True
    if table[node] != list(outputs):
        table[node] = list(outputs)
        changed = True
    return changed


def _settle(found: Inference, step: Any) -> None:
    """Forwards, then backwards, until a round tells nothing new."""
    for _ in range(_MAX_ROUNDS):
        forward = [step(found, node) for node in found.nodes]
        backward = [step(found, node) for node in reversed(found.nodes)]
        if not any(forward) and not any(backward):
            return


def _rule_error(rules: _Rules, found: Inference, node: Node, rule: str, error: Exception, inputs: Sequence[str]) -> Exception:
    """Return what to raise when a rule raised ``error``: a refusal for a contradiction or a malformed node, else a bug."""
    if isinstance(error, KernelError):
        return refuse_inputs(node, inputs, error)
    kernel, attrs = rules.of(node)
    shapes = [_slot(found.shapes, entry.node, entry.index) for entry in node.inputs]
    dtypes = [_slot(found.types, entry.node, entry.index) for entry in node.inputs]
    return explain_failure(node, rule, error, kernel, attrs, shapes, dtypes)
