"""ONNX's type inference and checker, in their own process: a few bytes can keep them busy for ever."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.resources import find_memory_limit, find_time_left

SECONDS = 30.0
"""Their time per file, unless the user has set a limit of time."""
_IDLE = 60.0  # seconds until their idle process ends
_NAME = "ONNX's inference"
_MODEL = "model.onnx"
_OWN = ("", "ai.onnx")
"""The names of ONNX's own domain."""
_INVENTED = "unk__"  # prefix of the names that ONNX's inference gives to unknown sizes


def is_installed() -> bool:
    """Whether the onnx package is installed."""
    return find_spec("onnx") is not None


def print_model(data: bytes) -> str:
    """Return a model in the text syntax of ONNX's parser, or a bytes literal where that fails."""
    try:
        from onnx import load_model_from_string, printer  # optional, and slow to import

        return str(printer.to_text(load_model_from_string(data)))
    except Exception:  # onnx is not installed, or protobuf does not decode the file
        return repr(data)


class _Memory:
    """The last question and answer: a command may ask repeatedly, and answers take time."""

    last: tuple[object, Mapping[str, bytes] | RefusedError] = None, MappingProxyType({})


def infer_types(model: bytes) -> Mapping[str, bytes]:
    """Return the TypeProtos that ONNX infers by name; only size names that the model states are kept.

    Raises:
        InputError: it refuses the model.
        RefusedError: it takes more time or memory than the limits, or ends its process.
    """
    question = model, find_memory_limit(), find_time_left() is None
    known, answer = _Memory.last
    if known != question:
        try:
            names, data = _ask("infer", beside=[model])
            answer = dict(zip(names, data, strict=True))
        except RefusedError as error:
            answer = error
        _Memory.last = question, answer
    if isinstance(answer, RefusedError):
        raise answer.with_traceback(None)
    return answer


def define_operators(model: bytes, wanted: Collection[str]) -> Mapping[str, bytes]:
    """Return ONNX's own definitions of a model's operators with ``wanted`` names.

    They are FunctionProtos by the operator's first output, made for the model's types if these
    matter.

    Raises:
        InputError: ONNX's inference refuses the model.
        RefusedError: as for :func:`infer_types`.
    """
    names, data = _ask("define", sorted(wanted), beside=[model])
    return dict(zip(names, data, strict=True))


def find_refusal(model: bytes, location: str) -> str:
    """Return why ONNX's checker, with inference, refuses a model; empty if it does not.

    ``location`` names the model's data file; it is not read.

    Raises:
        RefusedError: as for :func:`infer_types`.
    """
    from tempfile import TemporaryDirectory  # start-up: few models are checked

    with TemporaryDirectory(prefix="graphshare-") as folder:
        path = os.path.join(folder, _MODEL)
        # The checker requires the file of external data to exist, at any size.
        with open(path, "wb") as file, open(os.path.join(folder, location), "wb"):
            file.write(model)
        try:
            _ask("check", path)
        except InputError as error:
            return error.faults[0].message
    return ""


def convert_version(model: bytes, version: int) -> bytes:
    """Return a model for another version of ONNX's own operators; bodies and functions are not converted.

    Raises:
        InputError: ONNX's converter refuses the model.
        RefusedError: as for :func:`infer_types`.
    """
    return b"".join(_ask("convert", version, beside=[model])[1])


def _ask(kind: str, *values: Any, beside: Collection[bytes] = ()) -> tuple[Any, list[bytes]]:
    from graphshare.confined_process import ask_process  # start-up: few models are inferred

    _, value, data = ask_process(
        __name__, _NAME, kind, *values, seconds=SECONDS, idle=_IDLE, beside=[*beside]
    )
    return value, data


def serve(model: str) -> None:
    """Answer the messages of :func:`ask_process`; ``model`` is unused."""
    from graphshare.confined_process import serve as answer_messages  # start-up: as above

    answer_messages(
        {"infer": _infer, "check": _check, "define": _define, "convert": _convert}, _load
    )


def _load() -> object:
    from onnx import checker, shape_inference  # optional, and slow to import

    return checker, shape_inference


def _infer(data: list[bytes]) -> tuple[list[str], list[bytes]]:
    inferred = _infer_model(data.pop()).graph
    own = {size.dim_param for info in inferred.input for size in info.type.tensor_type.shape.dim}
    infos = {
        info.name: info.type for info in (*inferred.input, *inferred.value_info, *inferred.output)
    }
    types = {name: _encode_type(kind, own) for name, kind in infos.items() if kind.ByteSize()}
    return [*types], [*types.values()]


def _infer_model(data: bytes) -> Any:
    """Return the ModelProto with the types that ONNX infers. Raises InputError."""
    from onnx import ModelProto, shape_inference

    try:
        proto = ModelProto.FromString(data)
        _open_sizes((*proto.graph.input, *proto.graph.value_info, *proto.graph.output))
        return shape_inference.infer_shapes(proto.SerializeToString(), data_prop=True)
    except MemoryError:
        raise
    except Exception as error:  # errors of inference or protobuf
        raise InputError(Fault(str(error))) from error


def _define(data: list[bytes], wanted: list[str]) -> tuple[list[str], list[bytes]]:
    model = _infer_model(data.pop())
    graph, version = (
        model.graph,
        max((each.version for each in model.opset_import if each.domain in _OWN), default=1),
    )
    types = {
        info.name: info.type.SerializeToString()
        for info in (*graph.input, *graph.value_info, *graph.output)
    }
    definitions = {
        node.output[0]: _define_node(node, version, types)
        for node in graph.node
        if _is_wanted(node, wanted)
    }
    functions = {name: function for name, function in definitions.items() if function}
    return [*functions], [*functions.values()]


def _is_wanted(node: Any, wanted: Collection[str]) -> bool:
    return (
        node.domain in _OWN
        and node.op_type in wanted
        and bool(node.output)
        and bool(node.output[0])
    )


def _define_node(node: Any, version: int, types: Mapping[str, bytes]) -> bytes:
    from onnx import FunctionProto, defs

    try:
        schema: Any = defs.get_schema(node.op_type, version, "")
        function = FunctionProto.FromString(_read_definition(schema, node, version, types))
    except MemoryError:
        raise
    except Exception:  # onnx raises errors of any kind for missing types
        return b""
    # Defaults of attributes are in the schema; a function contains its own.
    defaults = {
        name: each.default_value
        for name, each in schema.attributes.items()
        if each.default_value.name
    }
    function.attribute_proto.extend(
        defaults[name] for name in function.attribute if name in defaults
    )
    function.attribute[:] = [name for name in function.attribute if name not in defaults]
    del function.output[len(node.output) :]  # omitted outputs need no definition
    encoded: bytes = function.SerializeToString()
    return encoded


def _read_definition(schema: Any, node: Any, version: int, types: Mapping[str, bytes]) -> bytes:
    """Return a schema's newest function up to ``version``, general or for the node's types; empty if none."""
    plain = [each for each in schema.function_opset_versions if each <= version]
    by_types = [
        each for each in schema.context_dependent_function_opset_versions if each <= version
    ]
    function = b""
    if plain:
        function = schema.get_function_with_opset_version(max(plain))
    elif by_types:
        stated = [types.get(name, b"") for name in node.input]
        function = schema.get_context_dependent_function_with_opset_version(
            max(by_types), node.SerializeToString(), stated
        )
    return function


def _check(data: list[bytes], path: str) -> tuple[None, list[bytes]]:
    from onnx import checker

    try:
        checker.check_model(path, full_check=True)
    except MemoryError:
        raise
    except Exception as error:  # errors of the checker, inference or protobuf
        raise InputError(Fault(str(error))) from error
    return None, []


def _convert(data: list[bytes], version: int) -> tuple[None, list[bytes]]:
    from onnx import ModelProto, version_converter

    try:
        return None, [
            version_converter.convert_version(
                ModelProto.FromString(data.pop()), version
            ).SerializeToString()
        ]
    except MemoryError:
        raise
    except Exception as error:  # errors of the converter, inference or protobuf
        raise InputError(Fault(str(error))) from error


def _open_sizes(infos: Iterable[Any]) -> None:
    """Remove sizes below 0: ONNX would calculate with them."""
    for info in infos:
        for size in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if size.dim_value < 0:
                size.ClearField("dim_value")


def _encode_type(kind: Any, own: Collection[str]) -> bytes:
    """Return the bytes of a TypeProto; sizes keep only names that the model states."""
    for size in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if size.dim_param.startswith(_INVENTED) and size.dim_param not in own:
            size.ClearField("dim_param")
    data: bytes = kind.SerializeToString()
    return data
