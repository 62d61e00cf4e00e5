"""ONNX as a model format: a model holds its parameters, and onnxruntime computes it.

This is loaded when a model is at hand, and code that few commands need when they do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from graphshare.errors import InputError
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.content_tests import is_onnx
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_format import Capability, Integers, ModelFormat, SaveOptions, StaticType
from graphshare.formats.onnx.compose import (
    declare_outputs,
    find_switch,
    make_input,
    make_parameter,
    make_switch,
    open_input,
    start_body,
    take_outputs,
)
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.external import find_missing_data
from graphshare.formats.onnx.facts import describe_constant, describe_operator, name_operand
from graphshare.formats.onnx.integer_inputs import find_integers
from graphshare.formats.onnx.parameters import index_functions, index_parameters
from graphshare.formats.onnx.statements import find_calls, find_changes, separate_functions
from graphshare.formats.onnx.stored import OnnxFile, OnnxSource, source_of
from graphshare.formats.onnx.types import list_replaceable, list_types
from graphshare.formats.onnx.value_types import explain_unknown, find_types, list_untyped_outputs, make_inputs
from graphshare.formats.onnx.write import encode_graph_file, list_as_read
from graphshare.formats.params.records import ParameterFile, Record
from graphshare.ir.compare import Change
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.terms import Facts, NormalForm, Place, TermTable
from graphshare.ir.walk import Body


class OnnxFormat(ModelFormat):
    """ONNX models."""

    name = "onnx"
    title = "an ONNX model"
    plural = "ONNX models"
    file = "an ONNX model"
    holds_parameters = True
    missing: ClassVar[Mapping[Capability, str]] = {
        Capability.COSTS: "`graphshare inspect --shape` shows the shapes of its values",
        Capability.KERNELS: "leave it out: onnxruntime computes an ONNX model, as a whole",
        Capability.TRAINING: "train the MXNet model that it was exported from",
        Capability.BATCH: "`mode='tie'` runs every branch by itself, on the same weights",
        Capability.UPGRADE: "onnx.version_converter changes the operator set of an ONNX model",
        Capability.LAYOUT: "an ONNX model is not a text",
        Capability.EXPORT: "it is an ONNX model already",
        Capability.PARAMETER_FILE: "it holds its parameters itself; `graphshare params convert` copies them to a file",
    }

    def fits(self, start: bytes) -> bool:
        return is_onnx(start)

    def read(self, file: ModelFile, *, complete: bool = True) -> Graph:
        with file.open() as source:
            return decode_model(OnnxFile(source, seeks_data=complete))

    def index_parameters(self, graph: Graph, *, complete: bool = True) -> ParameterFile | None:
        if complete:
            return index_parameters(graph)
        try:
            return None if any(True for _ in find_missing_data(graph)) else index_parameters(graph)
        except InputError:
            return None

    def index_functions(self, graph: Graph, nodes: Iterable[Node] | None = None) -> Sequence[Record]:
        return index_functions(graph, nodes)

    def encode(self, graph: Graph) -> Iterable[bytes | memoryview]:
        return encode_graph_file(graph).pieces()

    def stage(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        target: str,
        stage: OutputTransaction,
        options: SaveOptions,
    ) -> list[bytes]:
        from graphshare.formats.onnx.staging import stage_onnx

        return stage_onnx(graph, parameters, target, stage, options).to_stdout

    def list_as_read(self, graph: Graph) -> Sequence[Node]:
        return list_as_read(graph)

    def make_inputs(self, graph: Graph, cuts: Mapping[tuple[Node, int], str]) -> Mapping[tuple[Node, int], Node]:
        return make_inputs(graph, cuts)

    def make_input(self, name: str, dtype: str, shape: Sequence[int | str | None] | None) -> Node:
        return make_input(name, dtype, shape)

    def declare_output(self, graph: Graph, dtype: str, shape: tuple[int, ...]) -> Graph:
        nodes, heads = declare_outputs(graph.nodes, [(graph.heads[0], dtype, shape)])
        return replace(graph, nodes=nodes, heads=heads)

    def make_parameter(self, graph: Graph, name: str, dtype: str, shape: tuple[int, ...]) -> Node:
        return make_parameter(graph, name, dtype, shape)

    def take_outputs(self, node: Node, other: Node) -> Node:
        return take_outputs(node, other)

    def make_switch(
        self, name: str, bodies: tuple[Graph, Graph], outputs: Sequence[tuple[str, Sequence[StaticType | None]]]
    ) -> tuple[Node, Node]:
        return make_switch(name, bodies, outputs)

    def open_input(self, node: Node, types: Sequence[StaticType | None]) -> Node:
        return open_input(node, types)

    def find_switch(self, node: Node) -> tuple[Entry, tuple[Body, Body]] | None:
        return find_switch(node)

    def start_body(self, node: Node, operands: Sequence[Any], counters: Sequence[Any]) -> list[Any] | None:
        return start_body(node, operands, counters)

    def list_replaceable(self, graph: Graph) -> Iterator[Node]:
        return list_replaceable(graph)

    def list_nodes(self, graph: Graph) -> Sequence[Node]:
        return [node for node in graph.nodes if not node.op]

    def describe(self, graph: Graph) -> str:
        return graph.source.describe() if isinstance(graph.source, OnnxSource) else ""

    def describe_operator(self, node: Node) -> list[str]:
        return describe_operator(node)

    def describe_constant(self, node: Node) -> str:
        return describe_constant(node)

    def name_operand(self, node: Node, position: int) -> str:
        return name_operand(node, position)

    def find_calls(self, graph: Graph) -> Callable[[Node], Body | None]:
        return find_calls(graph)

    def operator_set(self, graph: Graph) -> int | None:
        return source_of(graph).opsets.get("")

    def list_types(self, graph: Graph) -> Mapping[str, object]:
        return list_types(graph)

    def find_types(
        self,
        graph: Graph,
        entries: Iterable[Entry],
        *,
        shapes: Mapping[str, Sequence[int | None]] = EMPTY,
        independent: bool = False,
    ) -> Mapping[tuple[Node, int], StaticType]:
        return find_types(graph, list(entries), shapes=shapes, independent=independent)

    def list_untyped_outputs(self, graph: Graph) -> Sequence[str]:
        return list_untyped_outputs(graph)

    def explain_unknown_types(self, names: Collection[str]) -> str:
        return explain_unknown(names)

    def separate(self, graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Mapping[str, str]]]:
        return separate_functions(graphs)

    def find_integers(self, graph: Graph) -> Mapping[str, Sequence[Integers]]:
        return find_integers(graph)

    def make_normal_form(self, graph: Graph, table: TermTable, facts: Facts) -> NormalForm:
        from graphshare.formats.onnx.identities import OnnxForm  # start-up: only models that are not alike need it

        return OnnxForm(graph, table, facts)

    def find_computable(
        self, graph: Graph, types: Mapping[Place, StaticType]
    ) -> tuple[list[Entry], dict[Place, int | tuple[int, ...]]]:
        from graphshare.formats.onnx.identities import find_computable  # start-up: as above

        return find_computable(graph, types)

    def find_changes(
        self, left: Graph, right: Graph, pairs: Iterable[tuple[Node, Node]], *, computed: bool = False
    ) -> Iterator[Change]:
        return find_changes(left, right, pairs, computed=computed)


FORMAT = OnnxFormat()
