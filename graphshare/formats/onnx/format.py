"""ONNX as a model format: a model contains its parameters, and onnxruntime computes it.

This module is loaded for any ONNX model; it loads code for few commands only on use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from msgspec.structs import replace

from graphshare.errors import Fault, InputError
from graphshare.files.atomic import OutputTransaction
from graphshare.formats.content_tests import is_onnx
from graphshare.formats.facets import (
    Bodies,
    Description,
    Editing,
    Inlined,
    Meaning,
    ModelPooling,
    OperatorSets,
    StaticType,
    Switches,
    Types,
)
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_format import (
    ModelFormat,
    Operation,
    Origins,
    RemovedMessage,
    SaveOptions,
)
from graphshare.formats.onnx.compose import (
    declare_outputs,
    find_switch,
    find_switch_version,
    make_constant,
    make_input,
    make_parameter,
    make_switch,
    open_input,
    restate_shapes,
    start_body,
    state_type,
    take_outputs,
)
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.external import find_missing_data
from graphshare.formats.onnx.facts import (
    describe_constant,
    describe_operator,
    measure_attributes,
    name_operand,
)
from graphshare.formats.onnx.parameters import index_functions, index_parameters
from graphshare.formats.onnx.statements import find_calls, find_changes, separate_functions
from graphshare.formats.onnx.stored import OnnxFile, OnnxSource, get_source
from graphshare.formats.onnx.types import input_types, list_replaceable, list_types
from graphshare.formats.onnx.value_types import (
    explain_unknown,
    find_types,
    list_untyped,
    list_untyped_outputs,
    make_inputs,
)
from graphshare.formats.onnx.write import encode_graph_file, list_as_read
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.terms import Facts, NormalForm, Place, ReadContent, TermTable
from graphshare.onnx_ops.integer_inputs import find_integers


class OnnxTypes(Types):
    """The types that ONNX files state, and those that ONNX infers."""

    are_stated = True
    are_inferred = True
    can_change = True
    list_replaceable = staticmethod(list_replaceable)
    list_types = staticmethod(list_types)
    list_input_types = staticmethod(input_types)
    list_untyped = staticmethod(list_untyped)
    list_untyped_outputs = staticmethod(list_untyped_outputs)
    explain_unknown_types = staticmethod(explain_unknown)
    find_integers = staticmethod(find_integers)

    def find_types(
        self,
        graph: Graph,
        entries: Iterable[Entry],
        *,
        shapes: Mapping[str, Sequence[int | None]] = EMPTY,
        independent: bool = False,
    ) -> Mapping[tuple[Node, int], StaticType]:
        return find_types(graph, list(entries), shapes=shapes, independent=independent)


class OnnxEditing(Editing):
    """Makes nodes with the types that ONNX requires."""

    make_inputs = staticmethod(make_inputs)
    make_input = staticmethod(make_input)
    make_parameter = staticmethod(make_parameter)
    take_outputs = staticmethod(take_outputs)
    open_input = staticmethod(open_input)
    make_constant = staticmethod(make_constant)
    state_type = staticmethod(state_type)
    restate_shapes = staticmethod(restate_shapes)

    def declare_output(self, graph: Graph, dtype: str, shape: tuple[int, ...]) -> Graph:
        nodes, heads = declare_outputs(graph.nodes, [(graph.heads[0], dtype, shape)])
        return replace(graph, nodes=nodes, heads=heads)


class OnnxBodies(Bodies):
    """Ifs, Loops, Scans and functions."""

    find_calls = staticmethod(find_calls)
    index_functions = staticmethod(index_functions)
    find_switch = staticmethod(find_switch)
    start_body = staticmethod(start_body)


class OnnxSwitches(Switches):
    """Ifs that choose between models."""

    make_switch = staticmethod(make_switch)
    find_switch_version = staticmethod(find_switch_version)


class OnnxMeaning(Meaning):
    """The meaning of ONNX's operators, loaded when models are compared."""

    is_known = True

    def make_normal_form(
        self, graph: Graph, table: TermTable, facts: Facts, read: ReadContent
    ) -> NormalForm:
        # Start-up: only models that are not alike need it
        from graphshare.onnx_ops.identities import OnnxForm

        return OnnxForm(graph, table, facts, read)

    def draws_numbers(self, node: Node) -> bool:
        from graphshare.onnx_ops.random_operators import draws_numbers  # start-up: as above

        return draws_numbers(node)

    def inline_calls(
        self,
        graph: Graph,
        heads: Sequence[Entry],
        fused: Collection[str] = (),
        known: Collection[str] = (),
    ) -> Inlined:
        from graphshare.formats.onnx.inline import inline_calls  # start-up: as above

        return inline_calls(graph, heads, fused, known)

    def find_computable(
        self, graph: Graph, types: Mapping[Place, StaticType]
    ) -> tuple[list[Entry], dict[Place, int | tuple[int, ...]]]:
        from graphshare.onnx_ops.computable import find_computable  # start-up: as above

        return find_computable(graph, types)


class OnnxDescription(Description):
    """Describes ONNX's operators in pictures, and prints files as ONNX does."""

    def print_file(self, data: bytes) -> str:
        from graphshare.formats.onnx.inference import print_model  # start-up: as above

        return print_model(data)

    describe_operator = staticmethod(describe_operator)
    describe_constant = staticmethod(describe_constant)
    measure_attributes = staticmethod(measure_attributes)
    name_operand = staticmethod(name_operand)


class OnnxFormat(ModelFormat):
    """ONNX models."""

    name = "onnx"
    title = "an ONNX model"
    plural = "ONNX models"
    file = "an ONNX model"
    backends = ("graphshare.execute.backends.onnxruntime_backend",)
    shares_data = True
    types = OnnxTypes()
    editing = OnnxEditing()
    bodies = OnnxBodies()
    switches = OnnxSwitches()
    meaning = OnnxMeaning()
    description = OnnxDescription()
    alternatives: ClassVar[Mapping[Operation, str]] = {
        Operation.NUMPY: "leave it out: onnxruntime computes an ONNX model, as a whole",
        Operation.TRAINING: "train the MXNet model that it was exported from",
        Operation.BATCH: "`mode='tie'` runs every branch by itself, on the same weights",
        Operation.DOWNGRADE: "onnx.version_converter changes the operator set of an ONNX model",
        Operation.UPGRADE: "onnx.version_converter changes the operator set of an ONNX model",
        Operation.LAYOUT: "an ONNX model is not a text",
        Operation.EXPORT: "it is an ONNX model already",
        Operation.PARAMETER_FILE: "it holds its parameters itself; `gs.convert` copies them to a file",
    }

    @property
    def operator_sets(self) -> OperatorSets:
        # Start-up: few models are joined
        from graphshare.formats.onnx.opset import OnnxOperatorSets

        return OnnxOperatorSets()

    @property
    def pooling(self) -> ModelPooling:
        # Start-up: few commands read all weights
        from graphshare.formats.onnx.pool import OnnxPooling

        return OnnxPooling()

    def fits(self, start: bytes) -> bool:
        return is_onnx(start)

    # Implementations in other modules
    list_as_read = staticmethod(list_as_read)
    separate = staticmethod(separate_functions)
    find_changes = staticmethod(find_changes)

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

    def account(self, graph: Graph, origins: Origins) -> Iterator[RemovedMessage | Fault | str]:
        # Start-up: only what rewrites needs it
        from graphshare.formats.onnx.accounts import account

        return account(graph, origins)

    def list_nodes(self, graph: Graph) -> Sequence[Node]:
        return [node for node in graph.nodes if not node.op]

    def describe(self, graph: Graph) -> str:
        return graph.source.describe() if isinstance(graph.source, OnnxSource) else ""

    def operator_set(self, graph: Graph) -> int | None:
        return get_source(graph).opsets.get("")


FORMAT = OnnxFormat()
