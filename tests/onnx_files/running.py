"""Models in onnxruntime, each in a session of its own, on inputs that come with a model or are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, numpy_helper

DTYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_, "string": np.str_,
    **{name: np.dtype(name).type for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip
SIZES = (8, 64, 224)
"""What open sizes are tried at, but for batches, which are 1: the first of an input, and what has the name of one."""


class Unrunnable(Exception):
    """onnxruntime does not run the model as it came, or it gives other numbers each time."""


class Session:
    """A session on one thread, which computes equal nodes each for itself; without ``optimize``
    just as the file has them.
    """

    def __init__(self, data: bytes, folder: str = "", *, optimize: bool = True) -> None:
        options = onnxruntime.SessionOptions()
        if not optimize:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        if folder:
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", folder
            )
        try:
            self.session = onnxruntime.InferenceSession(
                data, options, providers=["CPUExecutionProvider"],
                disabled_optimizers=["CommonSubexpressionElimination", "EliminateDuplicateNodes"],
            )  # fmt: skip
        except Exception as error:  # its exceptions have no class of their own
            raise Unrunnable(f"onnxruntime refuses the model: {error}") from error
        self.inputs = self.session.get_inputs()
        self.outputs = [value.name for value in self.session.get_outputs()]

    def run(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name."""
        wanted = {
            value.name: as_value(feeds[value.name]) for value in self.inputs if value.name in feeds
        }
        try:
            return dict(
                zip(self.outputs, map(_list_parts, self.session.run(None, wanted)), strict=True)
            )
        except Exception as error:
            raise Unrunnable(f"onnxruntime fails: {error}") from error

    def draw(self, size: int) -> dict[str, Any]:
        """Draw inputs of the declared dtypes and shapes; raises Unrunnable for what is not a tensor."""
        rng = np.random.default_rng(0)
        batches = {value.shape[0] for value in self.inputs if value.shape}
        feeds = {}
        for value in self.inputs:
            open_sizes = [1 if n in batches else size for n in value.shape]
            sizes = [
                n if isinstance(n, int) and n > 0 else m
                for n, m in zip(value.shape, open_sizes, strict=True)
            ]
            feeds[value.name] = _draw(rng, value.name, value.type, sizes)
        return feeds


def _list_parts(value: Any) -> Any:
    """Return an output; the shape, values and places of a sparse one."""
    if not hasattr(value, "dense_shape"):
        return value
    return [np.array(value.dense_shape()), value.values(), value.get_coo_data().indices()]


def as_value(value: Any) -> Any:
    """Return an input as onnxruntime takes it: arrays, lists of them, or None."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, list):
        return [as_value(each) for each in value]
    return value if value is None else np.asarray(value)


def _draw(rng: np.random.Generator, name: str, kind: str, sizes: Sequence[int]) -> Any:
    dtype = DTYPES.get(kind.removeprefix("tensor(").removesuffix(")"))
    if dtype is None:
        raise Unrunnable(f"{name} is a {kind}")
    if dtype is np.str_:
        return np.full(sizes, "a")
    if np.issubdtype(dtype, np.floating):
        return rng.standard_normal(sizes).astype(dtype)
    return rng.integers(0, 2, sizes).astype(dtype)


def run_somehow(session: Session) -> dict[str, Any]:
    """Return inputs that the model runs on: drawn, at the first of ``SIZES`` that works."""
    for size in SIZES:
        feeds = session.draw(size)
        try:
            session.run(feeds)
        except Unrunnable as error:
            reason = error
            continue
        return feeds
    raise reason


def are_same(a: Any, b: Any, *, exact: bool = True) -> bool:
    """Whether two outputs are equal, bit for bit or nearly: arrays, lists of them, or nothing."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(
            are_same(x, y, exact=exact) for x, y in zip(a, b, strict=True)
        )
    if a is None or b is None:
        return a is b
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "fc":
        if exact:
            return a.tobytes() == b.tobytes() or np.array_equal(a, b, equal_nan=True)
        return np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
    return bool(np.array_equal(a, b))
