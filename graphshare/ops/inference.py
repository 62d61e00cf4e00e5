"""Inference of shapes and dtypes in a graph, in both directions.

As in MXNet, rules are applied forwards and backwards until nothing changes. Known shapes and dtypes
come from the caller and from ``__shape__`` and ``__dtype__`` of variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.attributes import TYPE_FLAGS, has_np_shape, read_declared_shape
from graphshare.ops.bodies import NodeBodies, What, inner_variables
from graphshare.ops.kernel import NP_SHAPE, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.limits import impossible_shape
from graphshare.ops.node_errors import KernelCall, explain_failure, refuse_inputs
from graphshare.ops.registry import find_node_kernel, find_signature, visible_outputs
from graphshare.ops.signature import MAX_COUNT
from graphshare.ops.unification import is_known, unify
from graphshare.text.format import format_count, format_shape

# Every round adds facts, so inference ends; this bounds its time.
_MAX_ROUNDS = 64
_COUNTS = (
    "num_outputs",
    "sections",
    "num_args",
    "num_weights",
    "num_tensors",
    "num_arrays",
    "num_layers",
)
# Sizes that trained models were made for; small ones follow.
_USUAL = (224, 28, 32, 112, 299, 48, 24, 12, 64, 96, 128, 160, 256, 300, 320, 416, 512)
_SMALL = range(1, 65)


class ShapeTable(dict[Node, list[Shape]]):
    """Each node's output shapes; with ``np_shape``, 0 and () are sizes, also in subgraphs."""

    def __init__(self, np_shape: bool = False) -> None:
        super().__init__()
        self.np_shape = np_shape


class Inference(msgspec.Struct):
    """Known shapes and dtypes of output ``i``: ``shapes[node][i]`` and ``types[node][i]``."""

    nodes: list[Node]
    shapes: dict[Node, list[Shape]]
    types: dict[Node, list[str | None]]

    @property
    def np_shape(self) -> bool:
        """Return whether 0 and () are sizes."""
        return getattr(self.shapes, "np_shape", False)

    def table(self, what: What) -> dict[Node, list[Any]]:
        return self.shapes if what == "shapes" else self.types


def infer(
    graph: Graph,
    shapes: Mapping[Node, Sequence[int | None]],
    types: Mapping[Node, str] | None,
    *,
    nodes: Sequence[Node] | None = None,
    yielding: Mapping[Node, str] | None = EMPTY,
    held: Collection[Node] = (),
    np_shape: bool = False,
) -> Inference:
    """Infer shapes and dtypes of ``nodes`` (all that the heads need) from some variables.

    As in MXNet, a shape in ``shapes`` replaces a variable's declared one (``__shape__``); for
    variables ``held`` in a parameter file the two must agree.

    Nothing is inferred across operators without a kernel. A variable whose dtype nothing determines
    gets the one in ``yielding``, then float32, or none if ``yielding`` is None. With ``types`` None
    only shapes are inferred. ``np_shape`` states that a subgraph's outer graph has NumPy shapes;
    other graphs state it in their attributes.

    Raises:
        RefusedError: shapes or dtypes contradict each other; names the node, with its shapes and
            those that would fit.
        BugError: a rule failed.
    """
    order = list(nodes) if nodes is not None else post_order(entry.node for entry in graph.heads)
    np_shape = np_shape or has_np_shape(graph.attrs)
    inference = _start(order, shapes, types or {}, held, np_shape=np_shape)
    propagation = _Propagation(inference, _bind_rules(order, np_shape=np_shape))
    propagation.run("shapes")
    if types is None:
        return inference
    propagation.run("types")
    if yielding is None:
        return inference
    # float32 is MXNet's own default.
    for fallback in (yielding, dict.fromkeys(order, "float32")):
        # A dtype from the first source may determine more before the default does.
        untyped = [node for node in order if node.is_variable and inference.types[node][0] is None]
        inference.types.update((node, [fallback.get(node)]) for node in untyped)
        if untyped:
            propagation.run("types")
    return inference


def _start(
    order: list[Node],
    shapes: Mapping[Node, Sequence[int | None]],
    types: Mapping[Node, str],
    held: Collection[Node],
    *,
    np_shape: bool,
) -> Inference:
    inference = Inference(order, ShapeTable(np_shape), {})
    for node in order:
        count = max(1, len(list(visible_outputs(node))))
        inference.shapes[node] = [None] * count
        inference.types[node] = [None] * count
        if node.is_variable:
            declared = read_declared_shape(node.attrs.get("__shape__", ""), np_shape=np_shape)
            shape = _join_declared(node, declared, shapes.get(node), must_agree=node in held)
            dtype = types.get(node) or TYPE_FLAGS.get(node.attrs.get("__dtype__", ""))
            inference.shapes[node], inference.types[node] = [shape], [dtype]
    return inference


def _join_declared(
    node: Node, declared: Shape, stated: Sequence[int | None] | None, *, must_agree: bool
) -> Shape:
    if declared is None and stated is None:
        return None
    shape = None if stated is None else tuple(stated)
    if impossible := impossible_shape([declared, shape]):
        raise RefusedError(Fault(f"has an impossible shape: {impossible}", node=node.name))
    if not must_agree and shape is not None and declared is not None:
        if len(declared) != len(shape):
            return shape
        pairs = zip(shape, declared, strict=True)
        return tuple(own if size is None else size for size, own in pairs)
    try:
        return unify(declared, shape)
    except KernelError as error:
        message = f"is given the shape {format_shape(shape)}, but its __shape__ is {format_shape(declared)}: {error}"
        raise RefusedError(
            Fault(
                message,
                node=node.name,
                hint="use the parameter file of this graph, or correct __shape__",
            )
        ) from None


class _Rule(msgspec.Struct, frozen=True, eq=False):
    """A node's rules, attributes and subgraphs; ``excess`` reports a count too large for rules."""

    node: Node
    kernel: Kernel
    attrs: dict[str, Any]
    bodies: NodeBodies | None
    excess: str

    def infer_shapes(self, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        if self.excess:
            raise KernelError(self.excess)
        if self.kernel.body_shapes is None or self.bodies is None:
            new_inputs, new_outputs = self.kernel.shapes(self.attrs, inputs, outputs)
        else:
            new_inputs, new_outputs = self.kernel.body_shapes(
                self.attrs, inputs, outputs, self.bodies
            )
        merged_in = [a if a == b else unify(a, b) for a, b in zip(inputs, new_inputs, strict=True)]
        merged_out = [
            a if a == b else unify(a, b) for a, b in zip(outputs, new_outputs, strict=False)
        ]
        return merged_in, [*merged_out, *outputs[len(merged_out) :]]

    def infer_types(self, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        if self.kernel.body_types is None or self.bodies is None:
            new_inputs, new_outputs = self.kernel.types(self.attrs, inputs, outputs)
        else:
            new_inputs, new_outputs = self.kernel.body_types(
                self.attrs, inputs, outputs, self.bodies
            )
        # A known dtype stays: rules raise errors for contradictions.
        merged_in = [a or b for a, b in zip(inputs, new_inputs, strict=True)]
        merged_out = [a or b for a, b in zip(outputs, new_outputs, strict=False)]
        return merged_in, [*merged_out, *outputs[len(merged_out) :]]


def _bind_rules(order: Sequence[Node], *, np_shape: bool) -> list[_Rule]:
    semantics = {NP_SHAPE: True} if np_shape else {}
    rules = []
    for node in order:
        if node.is_variable:
            continue
        kernel = find_node_kernel(node)
        if kernel is None:
            continue
        signature = find_signature(node)
        attrs = signature.parse(node.attrs)[0] if signature is not None else dict(node.attrs)
        bodies = bind_bodies(node, np_shape=np_shape) if node.subgraphs else None
        rules.append(_Rule(node, kernel, attrs | semantics, bodies, _find_excess(attrs)))
    return rules


class _Propagation:
    def __init__(self, inference: Inference, rules: Sequence[_Rule]) -> None:
        self._inference, self._rules = inference, rules
        self._settled: dict[tuple[Node, What], tuple[list[Any], list[Any]]] = {}

    def run(self, what: What) -> None:
        for _ in range(_MAX_ROUNDS):
            forward = [self._apply(rule, what) for rule in self._rules]
            backward = [self._apply(rule, what) for rule in reversed(self._rules)]
            if not any(forward) and not any(backward):
                return

    def _apply(self, rule: _Rule, what: What) -> bool:
        """Never apply a rule to the same facts twice; return whether anything changed."""
        node = rule.node
        table = self._inference.table(what)
        inputs = [_slot(table, entry) for entry in node.inputs]
        # Inference from consumers changes a row of outputs in place
        facts = (inputs, list(table[node]))
        if self._settled.get((node, what)) == facts:
            return False
        self._settled[node, what] = facts
        try:
            merged = (rule.infer_shapes if what == "shapes" else rule.infer_types)(
                inputs, table[node]
            )
        except Exception as error:
            raise self._explain(rule, what, error) from error
        changed = _store(table, node, *merged)
        if changed and what == "shapes":
            impossible = impossible_shape([*merged[0], *merged[1]])
            if impossible:
                raise refuse_inputs(node, [format_shape(shape) for shape in inputs], impossible)
        return changed

    def _explain(self, rule: _Rule, what: What, error: Exception) -> Exception:
        """Return a refusal (contradiction or malformed node) or a bug."""
        node = rule.node
        shapes = [_slot(self._inference.shapes, entry) for entry in node.inputs]
        dtypes = [_slot(self._inference.types, entry) for entry in node.inputs]
        if what == "shapes":
            part, texts = "shape rule", [format_shape(shape) for shape in shapes]
        else:
            part, texts = "dtype rule", [str(dtype) for dtype in dtypes]
        if isinstance(error, KernelError):
            return refuse_inputs(node, texts, error)
        call = KernelCall(node, rule.kernel, rule.attrs, shapes, dtypes)
        return explain_failure(call, part, error)


def _find_excess(attrs: Mapping[str, Any]) -> str:
    for key in _COUNTS:
        value = attrs.get(key)
        if isinstance(value, int) and value > MAX_COUNT:
            return f"{key} is {value}, and at most {format_count(MAX_COUNT)} are supported"
    return ""


def bind_bodies(node: Node, *, np_shape: bool = False) -> NodeBodies:
    """Return a node's subgraphs as kernels see them; ``np_shape``: the graph has NumPy shapes."""
    return NodeBodies(node, partial(_infer_body, np_shape))


def _infer_body(
    np_shape: bool, graph: Graph, what: What, variables: Sequence[Any], heads: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Infer inside a subgraph.

    Raises:
        KernelError: a contradiction; the inner node is named.
    """
    order = post_order(entry.node for entry in graph.heads)
    inner = inner_variables(graph)
    try:
        if len(inner) != len(variables):
            raise KernelError(
                f"a subgraph with {format_count(len(inner), 'variable')} gets {format_count(len(variables), 'input')}"
            )
        shapes = dict(zip(inner, variables, strict=True)) if what == "shapes" else {}
        inference = _start(order, shapes, {}, (), np_shape=np_shape)
        table = inference.table(what)
        stated = [*zip(map(Entry, inner), variables, strict=True)]
        stated += zip(graph.heads, heads, strict=False)
        for entry, value in stated:
            row = table[entry.node]
            if entry.index >= len(row):
                continue
            known = row[entry.index]
            row[entry.index] = unify(known, value) if what == "shapes" else known or value
        _Propagation(inference, _bind_rules(order, np_shape=np_shape)).run(what)
    except RefusedError as error:
        raise KernelError(
            "in its subgraph, " + "; ".join(fault.message for fault in error.faults)
        ) from None
    return [table[n][0] for n in inner], [_slot(table, entry) for entry in graph.heads]


def _slot(table: Mapping[Node, list[Any]], entry: Entry) -> Any:
    # A file may name an output that the operator lacks.
    row = table[entry.node]
    return row[entry.index] if entry.index < len(row) else None


def _store(
    table: dict[Node, list[Any]], node: Node, inputs: Sequence[Any], outputs: Sequence[Any]
) -> bool:
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


def choose_sizes(
    inference: Inference, lists: Collection[Node] = ()
) -> tuple[Inference, dict[Node, tuple[int, ...]]]:
    """Choose sizes for variables of known rank; return inference and shapes, if any fit.

    Axis 0 becomes 1, an image's channels 3, all other unknown sizes one number. Dtypes stay.
    Variables in ``lists`` get as few axes as fit if nothing determines their rank.
    """
    choice = _SizeChoice(inference)
    for start, sizes in choice.list_starts(lists):
        partly: dict[Node, tuple[int | None, ...]] = {}
        for node in choice.unknown:
            shape = start.shapes[node][0]
            if shape is not None:
                partly[node] = shape
        if not partly:
            continue
        for size in sizes:
            filled = {node: _fill_shape(shape, size) for node, shape in partly.items()}
            trial = choice.infer_with(start, filled)
            if trial is not None and _all_positive(trial.shapes[node] for node in trial.nodes):
                shapes = {node: trial.shapes[node][0] or () for node in partly}
                return trial, {node: tuple(d or 0 for d in dims) for node, dims in shapes.items()}
    return inference, {}


class _SizeChoice:
    def __init__(self, inference: Inference) -> None:
        self._inference, self._rules = (
            inference,
            _bind_rules(inference.nodes, np_shape=inference.np_shape),
        )
        self.unknown = [
            node
            for node in inference.nodes
            if node.is_variable and not is_known(inference.shapes[node][0])
        ]

    def infer_with(self, known: Inference, shapes: Mapping[Node, Shape]) -> Inference | None:
        """Return the inference with these shapes; None for a contradiction."""
        trial = Inference(known.nodes, ShapeTable(self._inference.np_shape), known.types)
        trial.shapes.update((node, list(row)) for node, row in known.shapes.items())
        trial.shapes.update((node, [shape]) for node, shape in shapes.items())
        try:
            _Propagation(trial, self._rules).run("shapes")
        except RefusedError:
            return None
        return trial

    def list_starts(self, lists: Collection[Node]) -> Iterator[tuple[Inference, Iterable[int]]]:
        """Yield inferences in which ``lists`` have a rank, each with the sizes to try."""
        inference, usual = self._inference, dict.fromkeys((*_USUAL, *_SMALL))
        unranked = [
            node for node in self.unknown if node in lists and inference.shapes[node][0] is None
        ]
        if not unranked:
            yield inference, usual
            return
        yield self.infer_with(inference, dict.fromkeys(unranked, (None,))) or inference, usual
        # Reshape(-1) of an RNN's labels: as many elements as the rest, on any number of axes.
        rows = [row[0] or () for node, row in inference.shapes.items() if node.op and row]
        start = self.infer_with(inference, dict.fromkeys(unranked, (None, None)))
        if start is not None:
            yield start, dict.fromkeys(row[0] for row in rows if len(row) == 1 and row[0])


def _fill_shape(shape: tuple[int | None, ...], size: int) -> tuple[int, ...]:
    fixed = {0: 1, 1: 3} if len(shape) == 4 else {0: 1}
    return tuple(fixed.get(axis, size) if d is None else d for axis, d in enumerate(shape))


def _all_positive(rows: Iterable[Sequence[tuple[int | None, ...] | None]]) -> bool:
    for row in rows:
        shape = row[0]
        if shape is None or any(size is None or size <= 0 for size in shape):
            return False
    return True
