"""The nodes of a graph, or of a subgraph, on their way into one ONNX graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import msgspec
import numpy as np

from graphshare.analysis.bodies import inner_operators, inner_variables
from graphshare.analysis.name_lists import output_name, total_outputs
from graphshare.analysis.shapes import Inference, infer
from graphshare.errors import Fault
from graphshare.export_onnx.writer import GraphWriter
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.kernel import Attrs, KernelError, Shape
from graphshare.ops.registry import canonical, find_translation, lookup
from graphshare.ops.translation import NoTranslation, Translation, TranslationError, Value
from graphshare.ops.unification import is_known
from graphshare.text.format import format_count


class GraphTranslation:
    """The translation of a graph: the values so far, and the faults. ``parameters`` are variables that can be read.

    ``values`` are the ONNX names of variables and outputs of nodes; those of the variables must be there before the nodes are
    translated. ``refused`` are nodes that cannot be, with the reason as a clause, ``custom`` those that were written in
    ``domain``.
    """

    def __init__(
        self, part: Graph, inference: Inference, parameters: Mapping[Node, Value], writer: GraphWriter, domain: str
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
        self.used = _used_outputs(inference.nodes, part.heads)

    def translate(self) -> None:
        """Translate all nodes that the heads need, as far as it can be done."""
        for node in self.inference.nodes:
            self._translate_node(node)

    def _translate_node(self, node: Node) -> None:
        """Translate one node, or add the faults for which it cannot be."""
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
            if not self.domain or node.subgraphs:  # a node of another domain would lose them
                self._refuse(node, f"operator {node.op} cannot be exported: {error}", reason=str(error))
                return
            results = self._custom(node)
        wanted = [self.name_result(Entry(node, index)) for index in range(len(results))]
        for index, final in enumerate(self.writer.end(results, wanted)):
            self.values[node, index] = final

    def name_result(self, entry: Entry) -> str:
        """Return the name that the output of a node gets."""
        return output_name(entry)

    def _results(self, node: Node, attrs: Attrs) -> list[str]:
        """Return the values of a node's outputs, by its operator's translation. Raises TranslationError.

        Outputs without elements are constants: runtimes differ in what they make of them.
        """
        translator = find_translation(node.op)
        if translator is None or isinstance(translator, NoTranslation):
            raise TranslationError(translator.reason if translator is not None else "it has no translation")
        inputs = [self.value(entry) for entry in node.inputs]
        count = min(total_outputs(node) or 1, len(self.inference.shapes[node]))
        outputs = [self.value(Entry(node, index)) for index in range(count)]
        if not all(is_known(self._known(entry)[0]) for entry in (*node.inputs, *(Entry(node, i) for i in self.used[node]))):
            raise TranslationError("its shapes do not follow from those of the graph's inputs")
        if all(0 in outputs[index].shape for index in self.used[node]):
            return [self.writer.add_constant(np.zeros(output.shape), output.dtype) for output in outputs]
        translation = Translation(
            node.op,
            attrs,
            inputs,
            outputs,
            self.writer,
            used=self.used[node],
            inline=partial(self._inline, node) if node.subgraphs else None,
            inner=inner_operators(node.subgraphs[0]) if node.subgraphs else (),
        )
        made = translator.translate(translation)
        return [made] if isinstance(made, str) else list(made)

    def _inline(self, node: Node, number: int, inputs: Sequence[Value]) -> list[Value]:
        """Translate subgraph ``number`` of ``node`` on ``inputs`` for its variables, and return its heads."""
        if number >= len(node.subgraphs):
            raise TranslationError(f"it has {format_count(len(node.subgraphs), 'subgraph')}, expected more")
        graph = node.subgraphs[number]
        known = dict(zip(inner_variables(graph), inputs, strict=True))
        shapes, types = {n: x.shape for n, x in known.items()}, {n: x.dtype for n, x in known.items()}
        inference = infer(graph, shapes, types, np_shape=getattr(self.inference.shapes, "np_shape", False))
        parameters = {n: x for n, x in known.items() if x.read is not None}
        scope = GraphTranslation(graph, inference, parameters, self.writer, self.domain)
        scope.values = {(n, 0): x.name for n, x in known.items()}
        with self.writer.inner_nodes():
            scope.translate()
        if scope.faults:
            raise TranslationError("in its subgraph, " + "; ".join(fault.message for fault in scope.faults))
        self.custom += scope.custom
        return [scope.value(entry) for entry in graph.heads]

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

    def _known(self, entry: Entry) -> tuple[Shape, str | None]:
        shapes, types = self.inference.shapes[entry.node], self.inference.types[entry.node]
        shape = shapes[entry.index] if entry.index < len(shapes) else None
        return shape, types[entry.index] if entry.index < len(types) else None

    def _refuse(self, node: Node, *messages: str, reason: str = "") -> None:
        """Note why a node cannot be exported; its outputs get names, so that what needs them is looked at too."""
        self.refused[node] = reason or "; ".join(messages)
        self.values.update(((node, index), node.name) for index in range(len(self.inference.shapes[node])))
        self.writer.stand_in(node)
        self.faults += [Fault(message, node=node.name) for message in messages]


def _used_outputs(nodes: Sequence[Node], heads: Sequence[Entry]) -> dict[Node, frozenset[int]]:
    """Return the positions of the outputs of each node that other nodes or heads read."""
    used: dict[Node, set[int]] = {node: set() for node in nodes}
    for entry in (*heads, *(entry for node in nodes for entry in node.inputs)):
        used[entry.node].add(entry.index)
    return {node: frozenset(indices) for node, indices in used.items()}
