"""Translate a graph whose shapes and dtypes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.shapes import Inference
from graphshare.errors import RefusedError
from graphshare.export_onnx.opsets import IR_VERSIONS, list_versions
from graphshare.export_onnx.refusals import add_hint
from graphshare.export_onnx.scope import GraphTranslation
from graphshare.export_onnx.writer import GraphWriter, UniqueNames
from graphshare.formats.onnx.compose import declare_outputs, make_input, make_source
from graphshare.formats.onnx.messages import Dimensions
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.onnx import Tensor
from graphshare.ir.walk import post_order
from graphshare.ops.translation import Value


class UntranslatedError(RefusedError):
    """Nodes that have no translation; ``reasons`` has the reason of each in a graph as a clause."""

    reasons: Mapping[Node, str]


class Translated(msgspec.Struct, frozen=True, eq=False):
    """A graph of ONNX's operators and what became of which output.

    ``names`` are the ONNX names of variables and of the values of nodes, ``variables`` those of inputs and initializers;
    ``renamed`` are inputs, parameters and heads that could not keep MXNet's name. ``dropped`` are variables that nothing needs
    any more: labels. ``custom`` are the nodes that were written in a domain of their own.
    """

    graph: Graph
    names: Mapping[tuple[Node, int], str]
    variables: Mapping[Node, str]
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
    version: str = "",
    metadata: Mapping[str, str] = EMPTY,
    input_dtypes: Mapping[str, str] = EMPTY,
    keep_io: bool = False,
) -> Translated:
    """Translate what the heads of ``part`` need.

    ``parameters`` are the variables that become initializers, with their arrays; ``tensors`` are those initializers. All
    other variables become inputs. Nodes without a translation are written in ``domain``, if there is one, with the texts of
    their attributes. ``version`` and ``metadata`` are what the model says of its making. Inputs have the dtypes in
    ``input_dtypes`` by variable name, with ``keep_io`` inputs and outputs float32 where the graph has float16, and are cast.

    Raises:
        UntranslatedError: nodes cannot be translated; all are listed, with the part that can be.
    """
    work = _Work(part, inference, parameters, tensors, opset, domain, input_dtypes, keep_io)
    work.translate()
    if work.faults:
        error = UntranslatedError(add_hint(part, work.refused, work.faults))
        error.reasons = work.refused
        raise error
    graph, renamed, dropped = work.finish()
    source = make_source(name, list_versions(graph, opset), IR_VERSIONS[opset], version=version, metadata=metadata)
    names = {**work.values, **{(node, 0): name for node, name in work.variables.items()}}
    return Translated(msgspec.structs.replace(graph, source=source), names, work.variables, renamed, dropped, work.custom)


class _Work(GraphTranslation):
    """The translation of a whole graph, whose variables are its inputs and initializers."""

    def __init__(
        self,
        part: Graph,
        inference: Inference,
        parameters: Mapping[Node, Value],
        tensors: Mapping[Node, Tensor],
        opset: int,
        domain: str,
        input_dtypes: Mapping[str, str],
        keep_io: bool,
    ) -> None:
        names = UniqueNames()
        super().__init__(part, inference, parameters, GraphWriter(opset, names), domain)
        self.variables = {node: names.claim(node.name) for node in inference.nodes if node.is_variable}
        self.inputs: list[Node] = []
        self.widened = {(e.node, e.index) for e in part.heads if keep_io and self.value(e).dtype == "float16"}
        for node, name in self.variables.items():
            self.values[node, 0] = name
            if node in tensors:
                self.writer.add_initializer(name, tensors[node])
                if tensors[node].dtype == "bfloat16":
                    self.values[node, 0] = self.writer.convert(name, "bfloat16", "float32")
            else:
                value = self.value(Entry(node, 0))
                dtype = input_dtypes.get(node.name, "float32" if keep_io and value.dtype == "float16" else value.dtype)
                self.inputs.append(self.writer.scope.define(make_input(name, dtype, value.shape)))
                if dtype != value.dtype:
                    self.values[node, 0] = self.writer.convert(name, dtype, value.dtype)

    def name_result(self, entry: Entry) -> str:
        name = output_name(entry)
        return f"{name}/float16" if (entry.node, entry.index) in self.widened else name

    def finish(self) -> tuple[Graph, dict[str, str], list[str]]:
        """Return the graph with its inputs, outputs and initializers, the names that changed, and unused variables."""
        outputs, renamed = self._heads()
        needed = set(post_order(entry.node for entry, _, _ in outputs))
        nodes = [node for node in (*self.inputs, *self.writer.initializers, *self.writer.nodes) if node in needed]
        dropped = []
        for node, name in self.variables.items():
            if self.writer.scope.find(name).node not in needed:
                dropped.append(node.name)
            elif name != node.name:
                renamed[node.name] = name
        return Graph(*declare_outputs(nodes, outputs)), renamed, dropped

    def _heads(self) -> tuple[list[tuple[Entry, str, Dimensions]], dict[str, str]]:
        """Return the outputs; a head that a node does not compute, or that is there twice, gets a node of its own."""
        outputs: dict[str, tuple[Entry, str, Dimensions]] = {}
        renamed: dict[str, str] = {}
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
                renamed[wanted] = final
            outputs[final] = self.writer.scope.find(final), dtype, value.shape
        return list(outputs.values()), renamed
