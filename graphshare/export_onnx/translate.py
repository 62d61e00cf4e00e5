"""Translate a graph whose shapes and dtypes are known, node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name, total_outputs
from graphshare.analysis.shapes import Inference
from graphshare.errors import Fault, RefusedError
from graphshare.export_onnx.names import UniqueNames
from graphshare.export_onnx.refusals import add_hint
from graphshare.export_onnx.writer import GraphWriter
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import DTYPE_CODES, OnnxGraph, OnnxNode, Tensor, ValueInfo
from graphshare.ops.kernel import Attrs, KernelError
from graphshare.ops.registry import canonical, find_translation, lookup
from graphshare.ops.translation import NoTranslation, Translation, TranslationError, Value


class Translated(msgspec.Struct, frozen=True, eq=False):
    """An ONNX graph and what became of which output.

    ``names`` are the ONNX names of the variables and of outputs of nodes; ``renamed`` those of inputs, parameters and heads
    that could not keep MXNet's. ``dropped`` are variables that nothing needs any more: labels. ``custom`` are the nodes that
    were written in a domain of their own.
    """

    graph: OnnxGraph
    names: Mapping[tuple[Node, int], str]
    renamed: Mapping[str, str]
    dropped: Sequence[str]
    custom: Sequence[str]


def translate_graph(
    part: Graph,
    inference: Inference,
    parameters: Mapping[Node, Value],
    tensors: Mapping[Node, Tensor],
    *,
    opset: int,
    name: str,
    domain: str = "",
) -> Translated:
    """Translate what the heads of ``part`` need.

    ``parameters`` are the variables that become initializers, with their arrays; ``tensors`` are those initializers, whose
    names are set here. All other variables become inputs. Nodes without a translation are written in ``domain``, if there is
    one, with the texts of their attributes.

    Raises:
        RefusedError: nodes cannot be translated; all are listed, with the part that can be.
    """
    work = _Work(part, inference, parameters, tensors, opset, domain)
    for node in inference.nodes:
        work.translate(node)
    if work.faults:
        raise RefusedError(add_hint(part, work.refused, work.faults))
    return work.finish(name)


class _Work:
    """One translation of a graph: the values so far, and the faults."""

    def __init__(
        self,
        part: Graph,
        inference: Inference,
        parameters: Mapping[Node, Value],
        tensors: Mapping[Node, Tensor],
        opset: int,
        domain: str,
    ) -> None:
        self.part = part
        self.domain = domain
        self.inference = inference
        self.parameters = parameters
        self.tensors = tensors
        self.names = UniqueNames()
        self.writer = GraphWriter(opset, self.names)
        self.values: dict[tuple[Node, int], str] = {}
        self.faults: list[Fault] = []
        self.refused: set[Node] = set()
        self.custom: list[str] = []
        self.used = _used_outputs(inference.nodes, part.heads)
        self.variables = [node for node in inference.nodes if node.is_variable]
        self.stored = {node: self.names.claim(node.name) for node in self.variables}
        for node, name in self.stored.items():
            self.values[node, 0] = self._widen(name) if node in tensors and tensors[node].dtype == "bfloat16" else name

    def _widen(self, name: str) -> str:
        """Return the float32 of a parameter that is stored as bfloat16, as which it is computed with."""
        self.writer.begin(f"{name}/float32")
        made = self.writer.add_node("Cast", [name], 1, {"to": DTYPE_CODES["float32"]}, "")
        return self.writer.end(made, [f"{name}/float32"])[0]

    def translate(self, node: Node) -> None:
        """Translate one node, or add the faults for which it cannot be."""
        if node.is_variable or not all((entry.node, entry.index) in self.values for entry in node.inputs):
            return  # what it needs was refused
        signature = lookup(node.op)
        attrs, faults = signature.parse(node.attrs) if signature is not None else ({}, [])
        if faults:
            self._refuse(node, *(fault.message for fault in faults))
            return
        self.writer.begin(node.name)
        try:
            results = self._results(node, attrs)
        except (TranslationError, KernelError) as error:
            if not self.domain:
                self._refuse(node, f"operator {node.op} cannot be exported: {error}")
                return
            results = self._custom(node)
        wanted = [output_name(Entry(node, index)) for index in range(len(results))]
        for index, final in enumerate(self.writer.end(results, wanted)):
            self.values[node, index] = final

    def _results(self, node: Node, attrs: Attrs) -> list[str]:
        """Return the values of a node's outputs, by its operator's translation. Raises TranslationError."""
        translator = find_translation(node.op)
        if translator is None or isinstance(translator, NoTranslation):
            raise TranslationError(translator.reason if translator is not None else "it has no translation")
        inputs = [self.value(entry) for entry in node.inputs]
        count = min(total_outputs(node) or 1, len(self.inference.shapes[node]))
        outputs = [self.value(Entry(node, index)) for index in range(count)]
        made = translator.translate(Translation(node.op, attrs, inputs, outputs, self.writer, used=self.used[node]))
        return [made] if isinstance(made, str) else list(made)

    def _custom(self, node: Node) -> list[str]:
        """Return the outputs of a node in the custom domain, with all inputs and the texts of its attributes."""
        self.custom.append(node.name)
        self.writer.begin(node.name)
        names = [self.value(entry).name for entry in node.inputs]
        return self.writer.add_node(canonical(node.op), names, len(self.inference.shapes[node]), dict(node.attrs), self.domain)

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

    def _refuse(self, node: Node, *messages: str) -> None:
        self.refused.add(node)
        self.faults += [Fault(message, node=node.name) for message in messages]

    def finish(self, name: str) -> Translated:
        """Return the graph with its inputs, outputs and initializers."""
        outputs, renamed = self._heads()
        nodes = tuple(_needed_nodes(self.writer.nodes, {value.name for value in outputs}))
        read = {x for node in nodes for x in node.inputs}
        inputs, initializers, dropped = [], [], []
        for node, stored in self.stored.items():
            if stored not in read:
                dropped.append(node.name)
                continue
            if stored != node.name:
                renamed[node.name] = stored
            if node in self.tensors:
                initializers.append(msgspec.structs.replace(self.tensors[node], name=stored))
            else:
                value = self.value(Entry(node, 0))
                inputs.append(ValueInfo(stored, value.dtype, value.shape))
        initializers += [tensor for constant, tensor in self.writer.constants.items() if constant in read]
        graph = OnnxGraph(name, nodes, tuple(inputs), tuple(outputs), tuple(initializers))
        return Translated(graph, self.values, renamed, dropped, self.custom)

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
