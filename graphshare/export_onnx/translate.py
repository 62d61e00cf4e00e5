"""The translation of a graph with known shapes and dtypes, node by node.

Faults of nodes without a translation name the part of the graph that can be exported.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import chain

import msgspec
import numpy as np

from graphshare.analysis.name_lists import output_name
from graphshare.errors import Fault, RefusedError
from graphshare.export_onnx.opsets import IR_VERSIONS, list_versions
from graphshare.export_onnx.writer import GraphWriter, UniqueNames
from graphshare.formats.onnx.compose import declare_outputs, make_input, make_source
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.onnx import Dimensions, Tensor
from graphshare.ir.walk import find_dependents, post_order
from graphshare.ops.bodies import inner_operators, inner_variables
from graphshare.ops.inference import Inference, infer
from graphshare.ops.kernel import Attrs, KernelError, Shape
from graphshare.ops.node_errors import KernelCall, explain_failure
from graphshare.ops.registry import canonical, find_kernel, find_translation, lookup, total_outputs
from graphshare.ops.translation import (
    NoTranslation,
    Subgraphs,
    Translation,
    TranslationError,
    Value,
)
from graphshare.ops.unification import is_known
from graphshare.text.format import format_count


class UntranslatedError(RefusedError):
    """Nodes without a translation; ``reasons`` has a clause for each."""

    reasons: Mapping[Node, str]


class OnnxTarget(msgspec.Struct, frozen=True, kw_only=True):
    """How a graph is written as an ONNX model.

    ``domain``, if any, takes nodes without a translation, with the texts of their attributes.
    ``version`` and ``metadata`` are the model's producer version and properties. Inputs in
    ``input_dtypes``, by variable name, are cast from these dtypes; with ``keep_io`` float16 inputs
    and outputs are float32 outside. With ``is_open`` translations at different sizes have the same
    nodes, where possible.
    """

    opset: int
    name: str
    domain: str = ""
    version: str = ""
    metadata: Mapping[str, str] = EMPTY
    input_dtypes: Mapping[str, str] = EMPTY
    keep_io: bool = False
    is_open: bool = False


class Translated(msgspec.Struct, frozen=True, eq=False):
    """A graph of ONNX operators, and the new names of variables and outputs.

    ``names`` are the ONNX names of variables and nodes' values, ``variables`` only of inputs and
    initializers; ``owners`` maps an ONNX node to the node that it is a part of. ``renamed`` pairs
    MXNet's with ONNX's name of inputs, parameters and heads that changed. ``dropped`` are unused
    variables such as labels, ``custom`` nodes in a custom domain.
    """

    graph: Graph
    names: Mapping[tuple[Node, int], str]
    variables: Mapping[Node, str]
    owners: Mapping[str, str]
    renamed: Sequence[tuple[str, str]]
    dropped: Sequence[str]
    custom: Sequence[str]


def translate_graph(
    part: Graph,
    inference: Inference,
    parameters: Mapping[Node, Value],
    tensors: Mapping[Node, Tensor],
    target: OnnxTarget,
) -> Translated:
    """Translate the nodes that the heads of ``part`` need.

    ``parameters`` are the arrays of variables that become initializers, ``tensors`` these
    initializers. All other variables become inputs.

    Raises:
        UntranslatedError: nodes cannot be translated; all are listed, with the part that can be.
    """
    work = _Work(part, inference, parameters, tensors, target)
    work.translate()
    if work.faults:
        error = UntranslatedError(add_hint(part, work.refused, work.faults))
        error.reasons = work.refused
        raise error
    graph, renamed, dropped = work.finish()
    opset, version, metadata = target.opset, target.version, target.metadata
    source = make_source(
        target.name,
        list_versions(graph, opset),
        IR_VERSIONS[opset],
        version=version,
        metadata=metadata,
    )
    names = {**work.values, **{(node, 0): name for node, name in work.variables.items()}}
    graph, owners = msgspec.structs.replace(graph, source=source), work.writer.owners
    return Translated(graph, names, work.variables, owners, renamed, dropped, work.custom)


class GraphTranslation:
    """The translation of a graph: its values and faults so far. ``parameters`` are variables with
    known values.

    ``values`` are ONNX names; variables need theirs before nodes are translated. ``refused`` maps
    untranslatable nodes to the reason, a clause. ``custom`` lists nodes written in ``domain``.
    """

    def __init__(
        self,
        part: Graph,
        inference: Inference,
        parameters: Mapping[Node, Value],
        writer: GraphWriter,
        domain: str,
    ) -> None:
        self.part = part
        self.inference = inference
        self.parameters = parameters
        self.writer = writer
        self.domain = domain
        self.values: dict[tuple[Node, int], str] = {}
        self.faults: list[Fault] = []
        self.refused: dict[Node, str] = {}
        self.custom: list[str] = []
        self.used = _find_used_outputs(inference.nodes, part.heads)

    def translate(self) -> None:
        """Translate all nodes that the heads need, as far as possible."""
        for node in self.inference.nodes:
            self._translate_node(node)

    def _translate_node(self, node: Node) -> None:
        if node.is_variable:
            return
        signature = lookup(node.op)
        attrs, faults = signature.parse(node.attrs) if signature is not None else ({}, [])
        if faults:
            self._refuse(node, *(fault.message for fault in faults))
            return
        self.writer.begin(node.name)
        try:
            results = self._results(node, attrs)
        except (TranslationError, KernelError) as error:
            if not self.domain or node.subgraphs:  # a custom node loses subgraphs
                self._refuse(
                    node, f"operator {node.op} cannot be exported: {error}", reason=str(error)
                )
                return
            # _custom begins the node anew, without the nodes of the failed translation.
            results = self._custom(node)
        except (
            Exception
        ) as error:  # a translation relies on inputs and attributes that a kernel may refuse
            cause = self._explain(node, attrs, error)
            if not isinstance(cause, RefusedError):
                raise cause from error
            self._refuse(node, *(fault.message for fault in cause.faults))
            return
        wanted = [self.name_result(Entry(node, index)) for index in range(len(results))]
        for index, final in enumerate(self.writer.end(results, wanted)):
            self.values[node, index] = final

    def _explain(self, node: Node, attrs: Attrs, error: Exception) -> Exception:
        """Return a refusal if the kernel refuses the node, too, else the error to raise."""
        kernel = find_kernel(node.op)
        if kernel is None:
            raise error
        types = [self._find_type(entry) for entry in node.inputs]
        call = KernelCall(
            node, kernel, attrs, [shape for shape, _ in types], [dtype for _, dtype in types]
        )
        return explain_failure(call, "translation", error)

    def name_result(self, entry: Entry) -> str:
        """Return the name for an output of a node."""
        return output_name(entry)

    def _results(self, node: Node, attrs: Attrs) -> list[str]:
        """Return the values of a node's outputs. Raises TranslationError.

        Outputs without elements become constants, because runtimes compute them differently.
        """
        translator, used = find_translation(node.op), self.used[node]
        if translator is None:
            raise TranslationError("it has no translation")
        if isinstance(translator, NoTranslation):
            raise TranslationError(translator.reason)
        inputs = [self.value(entry) for entry in node.inputs]
        count = min(total_outputs(node) or 1, len(self.inference.shapes[node]))
        outputs = [self.value(Entry(node, index)) for index in range(count)]
        # Unread outputs, such as training masks, may have no shape.
        entries = (*node.inputs, *(Entry(node, index) for index in used))
        if not all(is_known(self._find_type(entry)[0]) for entry in entries):
            raise TranslationError("its shapes do not follow from those of the graph's inputs")
        if all(0 in outputs[index].shape for index in used):
            return [
                self.writer.add_constant(np.zeros(output.shape), output.dtype) for output in outputs
            ]
        subgraphs = None
        if node.subgraphs:
            inner = inner_operators(node.subgraphs[0])
            subgraphs = Subgraphs(partial(self._inline, node), inner)
        translation = Translation(
            node.op, attrs, inputs, outputs, self.writer, used=used, subgraphs=subgraphs
        )
        results = translator.translate(translation)
        # Most translations have one output and return its name alone.
        return [results] if isinstance(results, str) else list(results)

    def _inline(self, node: Node, number: int, inputs: Sequence[Value]) -> list[Value]:
        if number >= len(node.subgraphs):
            count = format_count(len(node.subgraphs), "subgraph")
            raise TranslationError(f"it has {count}, expected more")
        graph = node.subgraphs[number]
        known = dict(zip(inner_variables(graph), inputs, strict=True))
        shapes = {n: x.shape for n, x in known.items()}
        types = {n: x.dtype for n, x in known.items()}
        inference = infer(graph, shapes, types, np_shape=self.inference.np_shape)
        parameters = {n: x for n, x in known.items() if x.read is not None}
        scope = GraphTranslation(graph, inference, parameters, self.writer, self.domain)
        scope.values = {(n, 0): x.name for n, x in known.items()}
        with self.writer.inner_nodes():
            scope.translate()
        if scope.faults:
            reasons = "; ".join(fault.message for fault in scope.faults)
            raise TranslationError(f"in its subgraph, {reasons}")
        self.custom += scope.custom
        return [scope.value(entry) for entry in graph.heads]

    def _custom(self, node: Node) -> list[str]:
        self.custom.append(node.name)
        self.writer.begin(node.name)
        names = [self.value(entry).name for entry in node.inputs]
        return self.writer.add_node(
            canonical(node.op),
            names,
            len(self.inference.shapes[node]),
            dict(node.attrs),
            self.domain,
        )

    def value(self, entry: Entry) -> Value:
        """Return an entry's value; the name is empty while it has none."""
        name = self.values.get((entry.node, entry.index), "")
        if entry.node in self.parameters:
            return msgspec.structs.replace(self.parameters[entry.node], name=name)
        shape, dtype = self._find_type(entry)
        return Value(name, tuple(size or 0 for size in shape or ()), dtype or "float32")

    def _find_type(self, entry: Entry) -> tuple[Shape, str | None]:
        shapes, types = self.inference.shapes[entry.node], self.inference.types[entry.node]
        shape = shapes[entry.index] if entry.index < len(shapes) else None
        dtype = types[entry.index] if entry.index < len(types) else None
        return shape, dtype

    def _refuse(self, node: Node, *messages: str, reason: str = "") -> None:
        """Note why a node cannot be exported. Its outputs get names, so that its consumers are checked, too."""
        self.refused[node] = reason or "; ".join(messages)
        self.values.update(
            ((node, index), node.name) for index in range(len(self.inference.shapes[node]))
        )
        self.writer.stand_in(node)
        self.faults += [Fault(message, node=node.name) for message in messages]


class _Work(GraphTranslation):
    def __init__(
        self,
        part: Graph,
        inference: Inference,
        parameters: Mapping[Node, Value],
        tensors: Mapping[Node, Tensor],
        target: OnnxTarget,
    ) -> None:
        names, keep_io = UniqueNames(separator="#"), target.keep_io
        writer = GraphWriter(target.opset, names, is_open=target.is_open)
        super().__init__(part, inference, parameters, writer, target.domain)
        self.variables = {
            node: names.take(node.name) for node in inference.nodes if node.is_variable
        }
        self.inputs: list[Node] = []
        self.widened: set[tuple[Node, int]] = set()
        for head in part.heads if keep_io else ():
            if self.value(head).dtype == "float16":
                self.widened.add((head.node, head.index))
        for node, name in self.variables.items():
            self.values[node, 0] = name
            if node in tensors:
                self.writer.add_initializer(name, tensors[node])
                if tensors[node].dtype == "bfloat16":
                    # As in `run`, bfloat16 is computed as float32; the initializer stays narrow.
                    self.values[node, 0] = self.writer.convert(name, "bfloat16", "float32")
            else:
                value = self.value(Entry(node, 0))
                is_widened = keep_io and value.dtype == "float16"
                outside = "float32" if is_widened else value.dtype
                dtype = target.input_dtypes.get(node.name, outside)
                self.inputs.append(self.writer.scope.define(make_input(name, dtype, value.shape)))
                if dtype != value.dtype:
                    self.values[node, 0] = self.writer.convert(name, dtype, value.dtype)

    def name_result(self, entry: Entry) -> str:
        name = output_name(entry)
        return f"{name}/float16" if (entry.node, entry.index) in self.widened else name

    def finish(self) -> tuple[Graph, list[tuple[str, str]], list[str]]:
        """Return the graph, the changed names, and unused variables."""
        outputs, renamed = self._heads()
        needed = set(post_order(entry.node for entry, _, _ in outputs))
        nodes = (*self.inputs, *self.writer.initializers, *self.writer.nodes)
        kept = [node for node in nodes if node in needed]
        dropped = []
        for node, name in self.variables.items():
            if self.writer.scope.find(name).node not in needed:
                dropped.append(node.name)
            elif name != node.name:
                renamed.append((node.name, name))
        return Graph(*declare_outputs(kept, outputs)), renamed, dropped

    def _heads(self) -> tuple[list[tuple[Entry, str, Dimensions]], list[tuple[str, str]]]:
        outputs: dict[str, tuple[Entry, str, Dimensions]] = {}
        renamed: list[tuple[str, str]] = []  # no dict: MXNet's output names may repeat
        for head in self.part.heads:
            value, wanted = self.value(head), output_name(head)
            final, dtype = value.name, value.dtype
            if (head.node, head.index) in self.widened:
                dtype = "float32"
                final = self.writer.convert(final, "float16", dtype, wanted)
            elif not self.writer.scope.find(final).node.op or final in outputs:
                self.writer.begin(wanted)
                identity = self.writer.add_node("Identity", [final], 1, {}, "")
                (final,) = self.writer.end(identity, [wanted])
            if final != wanted:
                renamed.append((wanted, final))
            outputs[final] = self.writer.scope.find(final), dtype, value.shape
        return list(outputs.values()), renamed


def _find_used_outputs(nodes: Sequence[Node], heads: Sequence[Entry]) -> dict[Node, frozenset[int]]:
    used: dict[Node, set[int]] = {node: set() for node in nodes}
    for entry in chain(heads, *(node.inputs for node in nodes)):
        used[entry.node].add(entry.index)
    return {node: frozenset(indices) for node, indices in used.items()}


_NAMED = 6


def add_hint(part: Graph, refused: Collection[Node], faults: Sequence[Fault]) -> list[Fault]:
    """Add a hint to the last fault: the ``extract`` that leaves the larger exportable part.

    That is the part before the refused nodes, or the part after them, cut at their outputs.
    """
    before, targets = _count_before(part, refused)
    behind, cuts = _count_behind(part, refused)
    largest = max(before, behind)
    if not faults or not largest:
        return list(faults)
    settings = f"targets={targets[:_NAMED]}"
    if before < behind:
        settings = f"cuts={cuts[:_NAMED]}, targets={[output_name(head) for head in part.heads]}"
    hint = f"{largest} operators can be exported: `gs.extract(GRAPH, {settings})`"
    return [*faults[:-1], msgspec.structs.replace(faults[-1], hint=hint)]


def _count_before(part: Graph, refused: Collection[Node]) -> tuple[int, list[str]]:
    """Count the operators before refused nodes; return the last outputs, too."""
    nodes = post_order(entry.node for entry in part.heads)
    spoiled = find_dependents(nodes, refused)
    exportable = {node for node in nodes if node not in spoiled and not node.is_variable}
    ends = [entry for node in nodes if node in spoiled for entry in node.inputs]
    targets: dict[str, None] = {}
    for entry in (*ends, *part.heads):
        if entry.node in exportable:
            targets[output_name(entry)] = None
    return len(exportable), list(targets)


def _count_behind(part: Graph, refused: Collection[Node]) -> tuple[int, list[str]]:
    """Count the operators after refused nodes; return the outputs to cut, too."""
    if any(entry.node in refused for entry in part.heads):
        return 0, []
    seen: set[Node] = set()
    cuts: dict[str, None] = {}
    stack: list[Entry] = list(part.heads)
    while stack:
        entry = stack.pop()
        if entry.node in refused:
            cuts[output_name(entry)] = None
        elif entry.node not in seen:
            seen.add(entry.node)
            stack += entry.node.inputs
    return sum(1 for node in seen if not node.is_variable), list(cuts)
