"""Translate a graph whose shapes and dtypes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.shapes import Inference
from graphshare.errors import RefusedError
from graphshare.export_onnx.names import UniqueNames
from graphshare.export_onnx.refusals import add_hint
from graphshare.export_onnx.scope import Scope
from graphshare.export_onnx.writer import GraphWriter, select_nodes
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.onnx import DTYPE_CODES, OnnxGraph, Tensor, ValueInfo
from graphshare.ops.translation import Value


class UntranslatedError(RefusedError):
    """Nodes that have no translation; ``reasons`` has the reason of each in a graph as a clause."""

    reasons: Mapping[Node, str]


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
        UntranslatedError: nodes cannot be translated; all are listed, with the part that can be.
    """
    work = _Work(part, inference, parameters, tensors, opset, domain)
    work.translate()
    if work.faults:
        error = UntranslatedError(add_hint(part, work.refused, work.faults))
        error.reasons = work.refused
        raise error
    return work.finish(name)


class _Work(Scope):
    """The translation of a whole graph, whose variables are its inputs and initializers."""

    def __init__(
        self,
        part: Graph,
        inference: Inference,
        parameters: Mapping[Node, Value],
        tensors: Mapping[Node, Tensor],
        opset: int,
        domain: str,
    ) -> None:
        names = UniqueNames()
        super().__init__(part, inference, parameters, GraphWriter(opset, names), domain)
        self.tensors = tensors
        self.stored = {node: names.claim(node.name) for node in inference.nodes if node.is_variable}
        for node, name in self.stored.items():
            self.values[node, 0] = self._widen(name) if node in tensors and tensors[node].dtype == "bfloat16" else name

    def _widen(self, name: str) -> str:
        """Return the float32 of a parameter that is stored as bfloat16, as which it is computed with."""
        self.writer.begin(f"{name}/float32")
        made = self.writer.add_node("Cast", [name], 1, {"to": DTYPE_CODES["float32"]}, "")
        return self.writer.end(made, [f"{name}/float32"])[0]

    def finish(self, name: str) -> Translated:
        """Return the graph with its inputs, outputs and initializers."""
        outputs, renamed = self._heads()
        nodes = tuple(select_nodes(self.writer.nodes, {value.name for value in outputs}))
        read = {x for node in nodes for x in node.reads()}
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
        """Return the outputs; a head that a node does not compute, or that is there twice, gets a node of its own."""
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
