"""Translate a graph whose shapes and dtypes are known, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name, total_outputs
from graphshare.analysis.shapes import Inference
from graphshare.errors import Fault
from graphshare.export_onnx.names import UniqueNames
from graphshare.export_onnx.writer import GraphWriter
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import OnnxGraph, OnnxNode, Tensor, ValueInfo
from graphshare.ops.kernel import KernelError
from graphshare.ops.registry import find_translation, lookup
from graphshare.ops.translation import NoTranslation, Translation, TranslationError, Value


class Translated(msgspec.Struct, frozen=True, eq=False):
    """An ONNX graph and what became of which output.

    ``faults`` are the nodes that cannot be exported, ``graph`` is None if there are any. ``names`` are the ONNX names of the
    graph's variables and outputs of nodes; ``renamed`` those of inputs, parameters and heads that could not keep MXNet's.
    ``dropped`` are variables that nothing needs any more: labels.
    """

    graph: OnnxGraph | None
    names: Mapping[tuple[Node, int], str]
    renamed: Mapping[str, str]
    dropped: Sequence[str]
    faults: Sequence[Fault]


def translate_graph(
    part: Graph,
    inference: Inference,
    parameters: Mapping[Node, Value],
    tensors: Mapping[Node, Tensor],
    *,
    opset: int,
    name: str,
) -> Translated:
    """Translate what the heads of ``part`` need.

    ``parameters`` are the variables that become initializers, with their arrays; ``tensors`` are those initializers, whose
    names are set here. All other variables become inputs.
    """
    work = _Work(part, inference, parameters, opset)
    for node in inference.nodes:
        work.translate(node)
    if work.faults:
        return Translated(None, {}, {}, (), work.faults)
    return work.finish(tensors, name)


class _Work:
    """One translation of a graph: the values so far, and the faults."""

    def __init__(self, part: Graph, inference: Inference, parameters: Mapping[Node, Value], opset: int) -> None:
        self.part = part
        self.inference = inference
        self.parameters = parameters
        self.names = UniqueNames()
        self.writer = GraphWriter(opset, self.names)
        self.values: dict[tuple[Node, int], str] = {}
        self.faults: list[Fault] = []
        self.used = _used_outputs(inference.nodes, part.heads)
        self.variables = [node for node in inference.nodes if node.is_variable]
        for node in self.variables:
            self.values[node, 0] = self.names.claim(node.name)

    def translate(self, node: Node) -> None:
        """Translate one node, or add the fault for which it cannot be."""
        if node.is_variable:
            return
        translator, signature = find_translation(node.op), lookup(node.op)
        if translator is None or isinstance(translator, NoTranslation) or signature is None:
            reason = translator.reason if isinstance(translator, NoTranslation) else "it has no translation"
            self._refuse(node, f"operator {node.op} cannot be exported: {reason}")
            return
        attrs, attribute_faults = signature.parse(node.attrs)
        if attribute_faults:
            self.faults += [Fault(fault.message, node=node.name) for fault in attribute_faults]
            return
        if not all((entry.node, entry.index) in self.values for entry in node.inputs):
            return  # what it needs was refused
        self.writer.begin(node.name)
        inputs = [self.value(entry) for entry in node.inputs]
        count = total_outputs(node) or 1
        outputs = [self.value(Entry(node, index)) for index in range(min(count, len(self.inference.shapes[node])))]
        translation = Translation(node.op, attrs, inputs, outputs, self.writer, used=self.used[node])
        try:
            made = translator.translate(translation)
        except (TranslationError, KernelError) as error:
            self._refuse(node, f"operator {node.op} cannot be exported: {error}")
            return
        results = [made] if isinstance(made, str) else list(made)
        wanted = [output_name(Entry(node, index)) for index in range(len(results))]
        for index, final in enumerate(self.writer.end(results, wanted)):
            self.values[node, index] = final

    def value(self, entry: Entry) -> Value:
        """Return the value of an entry with its shape and dtype; the name is empty while it has none."""
        name = self.values.get((entry.node, entry.index), "")
        if entry.node in self.parameters:
            return msgspec.structs.replace(self.parameters[entry.node], name=name)
        shape, dtype = self._known(entry)
        return Value(name, tuple(size or 0 for size in shape or ()), dtype or "float32")

    def _known(self, entry: Entry) -> tuple[Sequence[int | None] | None, str | None]:
        shapes, types = self.inference.shapes[entry.node], self.inference.types[entry.node]
        shape = shapes[entry.index] if entry.index < len(shapes) else None
        return shape, types[entry.index] if entry.index < len(types) else None

    def _refuse(self, node: Node, message: str) -> None:
        self.faults.append(Fault(message, node=node.name))

    def finish(self, tensors: Mapping[Node, Tensor], name: str) -> Translated:
        """Return the graph with its inputs, outputs and initializers."""
        outputs, renamed = self._heads()
        nodes = tuple(_needed_nodes(self.writer.nodes, {value.name for value in outputs}))
        read = {x for node in nodes for x in node.inputs}
        inputs, initializers, dropped = [], [], []
        for node in self.variables:
            value = self.value(Entry(node, 0))
            if value.name != node.name:
                renamed[node.name] = value.name
            if value.name not in read:
                dropped.append(node.name)
            elif node in tensors:
                initializers.append(msgspec.structs.replace(tensors[node], name=value.name))
            else:
                inputs.append(ValueInfo(value.name, value.dtype, value.shape))
        initializers += [tensor for constant, tensor in self.writer.constants.items() if constant in read]
        graph = OnnxGraph(name, nodes, tuple(inputs), tuple(outputs), tuple(initializers))
        return Translated(graph, self.values, renamed, dropped, ())

    def _heads(self) -> tuple[list[ValueInfo], dict[str, str]]:
        """Return the outputs; a head that is no node's result, or is one twice, gets a node of its own."""
        made = {output for node in self.writer.nodes for output in node.outputs}
        outputs: list[ValueInfo] = []
        renamed: dict[str, str] = {}
        for entry in self.part.heads:
            value, wanted = self.value(entry), output_name(entry)
            final = value.name
            if final not in made or any(final == output.name for output in outputs):
                self.writer.begin(wanted)
                identity = self.writer.add_node("Identity", [final], 1, {}, "")
                (final,) = self.writer.end(identity, [wanted])
            if final != wanted:
                renamed[wanted] = final
            outputs.append(ValueInfo(final, value.dtype, value.shape))
        return outputs, renamed


def _used_outputs(nodes: Sequence[Node], heads: Sequence[Entry]) -> dict[Node, frozenset[int]]:
    """Return the positions of the outputs of each node that other nodes or heads read."""
    used: dict[Node, set[int]] = {node: set() for node in nodes}
    for entry in (*heads, *(entry for node in nodes for entry in node.inputs)):
        used[entry.node].add(entry.index)
    return {node: frozenset(indices) for node, indices in used.items()}


def _needed_nodes(nodes: Sequence[OnnxNode], wanted: set[str]) -> list[OnnxNode]:
    """Return the nodes that ``wanted`` values need, in their order."""
    needed, kept = set(wanted), []
    for node in reversed(nodes):
        if needed.intersection(node.outputs):
            needed.update(node.inputs)
            kept.append(node)
    return kept[::-1]
