"""PaddlePaddle 3's graph JSON as a model format, with nameless parameters in a file beside it.

Only Paddle knows the operators; their names are unrelated to :mod:`graphshare.ops`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from graphshare.files.atomic import OutputTransaction
from graphshare.formats.facets import Description
from graphshare.formats.model_file import ModelFile
from graphshare.formats.model_format import ModelFormat, NamedModel, Operation, SaveOptions
from graphshare.formats.model_names import PACKED
from graphshare.formats.paddle.edit import PaddleEditing, settle_outputs
from graphshare.formats.paddle.meaning import PaddleMeaning
from graphshare.formats.paddle.read import begins_like_program, read_program
from graphshare.formats.paddle.records import get_source
from graphshare.formats.paddle.types import PaddleTypes
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph, Node

_CONVERT = (
    "`paddle2onnx --model_dir DIR --model_filename NAME.json --params_filename NAME.pdiparams "
    "--save_file NAME.onnx`"
)
_FIRST = "convert it with paddle2onnx, and"


class PaddleDescription(Description):
    """Texts about Paddle's operators in pictures."""

    def describe_operator(self, node: Node) -> list[str]:
        values = node.details.values
        parts = [
            str(values[key])
            for key in ("pooling_type", "act_type", "axis", "mode")
            if key in values
        ]
        strides = {part for part in str(values.get("strides", "")).strip("[]").split(", ") if part}
        if len(strides) == 1 and strides != {"1"}:
            parts.append(f"/{strides.pop()}")
        return [part for part in parts if part and len(part) <= 20]

    def describe_constant(self, node: Node) -> str:
        value = node.details.values.get("value") if node.op in ("full", "full_int_array") else None
        text = str(value) if value is not None else ""
        return text if len(text) <= 20 else ""


class PaddleFormat(ModelFormat):
    """Paddle's graphs."""

    name = "paddle"
    title = "a Paddle graph"
    plural = "Paddle graphs"
    file = "a Paddle graph"
    backends = ("graphshare.execute.backends.paddle_backend",)
    types = PaddleTypes()
    editing = PaddleEditing()
    meaning = PaddleMeaning()
    description = PaddleDescription()
    alternatives: ClassVar[Mapping[Operation, str]] = {
        Operation.EXPORT: f"{_CONVERT} writes an ONNX model of it",
        Operation.FOLD: f"{_FIRST} `gs.fold` the ONNX model",
        Operation.RESHAPE: f"{_FIRST} `gs.reshape` the ONNX model; or save it with another paddle.static.InputSpec",
        Operation.POOL: f"{_FIRST} `gs.pool` the ONNX models",
        Operation.SWITCH: f"{_FIRST} `gs.group(switch=NAME)` the ONNX models",
        Operation.FINGERPRINT: "`gs.diff` compares two of them",
        Operation.TRAINING: "train the module itself in Paddle, and save it again with paddle.jit.save",
        Operation.BATCH: "`mode='tie'` runs every branch by itself, on the same weights",
        Operation.UPGRADE: "Paddle converts older versions when it loads a file: load it, and save it again",
        Operation.DOWNGRADE: "save the module again with the Paddle that is to load it",
        Operation.LAYOUT: "Paddle's files have one layout, without whitespace, in which every rewrite is written",
    }

    def fits(self, start: bytes) -> bool:
        return begins_like_program(start)

    def read(self, file: ModelFile, *, complete: bool = True) -> Graph:
        return read_program(file.read(), file.where)

    def encode(self, graph: Graph) -> Iterable[bytes | memoryview]:
        # Start-up: what only reads needs no writer
        from graphshare.formats.paddle.write import encode_program

        yield encode_program(settle_outputs(graph))

    def name_records(self, graph: Graph, file: ParameterFile) -> ParameterFile:
        # Start-up: a graph alone needs no parameters
        from graphshare.formats.paddle.parameters import name_records

        return name_records(graph, file)

    def list_models(self, names: Collection[str]) -> Iterator[NamedModel]:
        """Yield the texts with parameters beside them: most ``.json`` files are something else."""
        for name in names:
            stem = name.removesuffix(PACKED).removesuffix(self.names.suffix)
            params = self.names.params_path(stem, 0)
            if stem != name and params in names:
                yield NamedModel(name, {0: params})

    def stage(
        self,
        graph: Graph,
        parameters: ParameterFile | None,
        target: str,
        stage: OutputTransaction,
        options: SaveOptions,
    ) -> list[bytes]:
        from graphshare.formats.paddle.write import encode_program  # start-up: as above
        from graphshare.formats.read_back import stage_file

        settled = settle_outputs(graph)  # the file belongs to this graph
        return stage_file(encode_program(settled), self.read, settled, target, stage)

    def list_nodes(self, graph: Graph) -> Sequence[Node]:
        return graph.nodes

    def describe(self, graph: Graph) -> str:
        return f"PIR version {get_source(graph).base_version}"


FORMAT = PaddleFormat()
