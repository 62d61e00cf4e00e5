"""ONNX's inference of types and its checker, in a process of their own: a few bytes of a model can keep them busy for ever."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from graphshare.errors import Fault, InputError, RefusedError
from graphshare.resources import find_memory_limit, find_time_left

SECONDS = 30.0
"""How long they may take for a file, unless the user has set a limit of time."""
_IDLE = 60.0  # seconds until their process ends in a program that goes on
_NAME = "ONNX's inference"
_MODEL = "model.onnx"
_INVENTED = "unk__"  # how ONNX's inference begins the names of sizes that it does not know


def is_installed() -> bool:
    """Return whether the package is there that checks models and infers types."""
    return find_spec("onnx") is not None


def print_model(data: bytes) -> str:
    """Return a model of ours in ONNX's own text, which its parser reads; a literal of bytes where that cannot be done."""
    try:
        from onnx import load_model_from_string, printer  # optional, and slow to import

        return str(printer.to_text(load_model_from_string(data)))
    except Exception:  # it is not installed, or protobuf does not decode the file
        return repr(data)


class _Memory:
    """The last question and its answer: several parts of a command ask about one model, which may take all of its time."""

    last: tuple[object, Mapping[str, bytes] | RefusedError] = None, MappingProxyType({})


def infer_types(model: bytes) -> Mapping[str, bytes]:
    """Return the TypeProtos that ONNX infers by name; of their sizes only those have names that the model states.

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


def find_refusal(model: bytes, location: str) -> str:
    """Return why ONNX's checker, its inference included, refuses a model; empty if it does not.

    ``location`` is the name of a file that the model says its data is in; it is not read.

    Raises:
        RefusedError: as for :func:`infer_types`.
    """
    from tempfile import TemporaryDirectory  # start-up: few models are checked

    with TemporaryDirectory(prefix="graphshare-") as folder:
        path = os.path.join(folder, _MODEL)
        # The checker wants the file of external data to be there, of whatever size.
        with open(path, "wb") as file, open(os.path.join(folder, location), "wb"):
            file.write(model)
        try:
            _ask("check", path)
        except InputError as error:
            return error.faults[0].message
    return ""


def _ask(kind: str, *values: Any, beside: Collection[bytes] = ()) -> tuple[Any, list[bytes]]:
    from graphshare.confined_process import ask_process  # start-up: few models are inferred

    _, value, data = ask_process(__name__, _NAME, kind, *values, seconds=SECONDS, idle=_IDLE, beside=[*beside])
    return value, data


def serve(model: str) -> None:
    """Infer types and check models as the messages say; ``model`` is not needed."""
    from graphshare.confined_process import serve as answer_messages  # start-up: as above

    answer_messages({"infer": _infer, "check": _check}, _load)


def _load() -> object:
    from onnx import checker, shape_inference  # optional, and slow to import

    return checker, shape_inference


def _infer(data: list[bytes]) -> tuple[list[str], list[bytes]]:
    from onnx import ModelProto, shape_inference

    try:
        proto = ModelProto.FromString(data.pop())
        _open_sizes((*proto.graph.input, *proto.graph.value_info, *proto.graph.output))
        inferred = shape_inference.infer_shapes(proto.SerializeToString(), data_prop=True).graph
    except MemoryError:
        raise
    except Exception as error:  # it raises errors of inference and of protobuf
        raise InputError(Fault(str(error))) from error
    own = {size.dim_param for info in inferred.input for size in info.type.tensor_type.shape.dim}
    infos = {info.name: info.type for info in (*inferred.input, *inferred.value_info, *inferred.output)}
    types = {name: _encode_type(kind, own) for name, kind in infos.items() if kind.ByteSize()}
    return [*types], [*types.values()]


def _check(data: list[bytes], path: str) -> tuple[None, list[bytes]]:
    from onnx import checker

    try:
        checker.check_model(path, full_check=True)
    except MemoryError:
        raise
    except Exception as error:  # it raises errors of the checker, of inference and of protobuf
        raise InputError(Fault(str(error))) from error
    return None, []


def _open_sizes(infos: Iterable[Any]) -> None:
    """Take out sizes below 0, with which ONNX would calculate."""
    for info in infos:
        for size in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if size.dim_value < 0:
                size.ClearField("dim_value")


def _encode_type(kind: Any, own: Collection[str]) -> bytes:
    """Return the bytes of a TypeProto, of whose sizes only those have names that the model states."""
    for size in kind.tensor_type.shape.dim if kind.HasField("tensor_type") else ():
        if size.dim_param.startswith(_INVENTED) and size.dim_param not in own:
            size.ClearField("dim_param")
    data: bytes = kind.SerializeToString()
    return data
