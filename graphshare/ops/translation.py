"""Translations of operators to ONNX; families keep them in ``to_onnx.py``.

A translation emits the ONNX nodes of one node and returns the names of its outputs. It knows the
typed attributes, and shape and dtype of every input and output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec
import numpy as np

from graphshare.ir.onnx import DTYPE_CODES
from graphshare.ops.kernel import Array, Attrs

if TYPE_CHECKING:
    from graphshare.ir.graph import Graph
    from graphshare.ir.onnx import Attributes, AttributeValue


FAR = (1 << 63) - 1
"""Beyond any axis, as the end of a slice; ``-FAR`` is before any."""


_REAL = ("float16", "float32", "float64")
_SUMMED = (*_REAL, "int32", "int64")
_NUMBERS = (*_SUMMED, "int8", "uint8")
_TAKES: dict[tuple[str, ...], str] = {
    _REAL: "Acos Acosh Asin Asinh Atan Atanh AveragePool BatchNormalization Ceil Conv ConvTranspose Cos "
    "Cosh Dropout Elu Erf "
    "Exp Floor GRU GlobalAveragePool GlobalMaxPool HardSigmoid InstanceNormalization IsInf IsNaN "
    "LRN LSTM LayerNormalization "
    "LeakyRelu Log LogSoftmax MaxRoiPool Multinomial RNN Reciprocal RoiAlign Round Selu Sigmoid "
    "Sin Sinh Softmax Softplus "
    "Softsign Sqrt Tan Tanh",
    _SUMMED: "CumSum Gemm MatMul PRelu Pow ReduceL2 ReduceLogSumExp ReduceMean ReduceProd ReduceSum ReduceSumSquare",
    (*_SUMMED, "int8"): "Neg Relu",
    (*_REAL, "int8", "uint8"): "MaxPool",
    _NUMBERS: "Abs Add ArgMax ArgMin Clip Div Einsum Greater GreaterOrEqual Less LessOrEqual Max Min "
    "Mod Mul Sign Sub TopK",
}
TAKES = {op_type: dtypes for dtypes, names in _TAKES.items() for op_type in names.split()}
"""First-input dtypes of operators that do not take all, in the latest opset."""
TAKES_LATER = {
    ("CumSum", "float16"): 14,
    ("IsInf", "float16"): 20,
    **{("Relu", dtype): 14 for dtype in ("int8", "int32", "int64")},
    **{
        (op_type, dtype): 14
        for op_type in ("Add", "Div", "Mul", "Sub")
        for dtype in ("int8", "uint8")
    },
}
"""The first opset in which an operator takes a dtype, if later than 13."""


class TranslationError(Exception):
    """The node has no translation; the message is the end of a sentence."""


class Value(msgspec.Struct, frozen=True, eq=False):
    """A value of the ONNX graph; ``read`` gives a parameter's array, else None."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Array] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)


BuildBody = Callable[[Sequence[Value]], Sequence[Value]]
"""Emits a body's nodes for its inputs and returns its outputs."""
Inline = Callable[[int, Sequence[Value]], Sequence[Value]]
"""Emits the nodes of a subgraph, given values for its variables, and returns its heads."""


class Subgraphs(msgspec.Struct, frozen=True):
    """A node's subgraphs; ``inner`` are the first one's operators, inputs before users."""

    inline: Inline
    inner: Sequence[tuple[str, Attrs]]


class Writer(Protocol):
    """The target of nodes and constants: the graph or a loop body in it."""

    opset: int
    is_open: bool

    def add_node(
        self, op_type: str, inputs: Sequence[str], outputs: int, attributes: Attributes, domain: str
    ) -> list[str]: ...
    def add_constant(self, array: Array, dtype: str) -> str: ...
    def add_body(self, inputs: Sequence[Value], build: BuildBody) -> Graph: ...


class Translation:
    """One node on its way to ONNX.

    ``outputs`` include hidden ones; their names mean nothing. ``used`` are the positions of outputs
    that something reads. ``opset`` is the version that is written.
    """

    def __init__(
        self,
        op: str,
        attrs: Attrs,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        writer: Writer,
        *,
        used: frozenset[int] = frozenset({0}),
        subgraphs: Subgraphs | None = None,
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.used = used
        self._subgraphs = subgraphs
        self._writer = writer

    @property
    def inner(self) -> Sequence[tuple[str, Attrs]]:
        return self._subgraphs.inner if self._subgraphs is not None else ()

    @property
    def opset(self) -> int:
        return self._writer.opset

    @property
    def is_open(self) -> bool:
        """Whether sizes are free: emit the same nodes at all sizes."""
        return self._writer.is_open

    def derive(
        self, attrs: Attrs, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> Translation:
        """Return a part of this node with other attributes and values, for another operator."""
        return Translation(self.op, attrs, inputs, outputs, self._writer)

    def refuse(self, reason: str) -> NoReturn:
        """Raise TranslationError with ``reason``, a verb phrase (``"has the mode bicubic"``)."""
        raise TranslationError(reason)

    def require_floats(self) -> None:
        """Refuse data that is not floating point: ONNX lacks the operators."""
        if not self.inputs[0].dtype.startswith("float"):
            self.refuse(f"its data is {self.inputs[0].dtype}")

    def refuse_booleans(self) -> None:
        """Refuse bool data: ONNX has the operators only for numbers."""
        if self.inputs[0].dtype == "bool":
            self.refuse("its data is bool")

    def emit(
        self, op_type: str, *inputs: Value | str, domain: str = "", **attributes: AttributeValue
    ) -> str:
        """Emit a node with one output and return its name; empty inputs are left out."""
        return self.emit_several(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def emit_several(
        self,
        op_type: str,
        count: int,
        *inputs: Value | str,
        domain: str = "",
        **attributes: AttributeValue,
    ) -> list[str]:
        """Emit a node with ``count`` outputs and return their names."""
        if inputs and isinstance(inputs[0], Value) and not domain:
            self._check_dtype(op_type, inputs[0].dtype)
        names = [x.name if isinstance(x, Value) else x for x in inputs]
        # An absent input keeps its place only before others.
        while names and not names[-1]:
            names.pop()
        return self._writer.add_node(op_type, names, count, attributes, domain)

    def _check_dtype(self, op_type: str, dtype: str) -> None:
        """Refuse a first input's dtype that checkers would refuse."""
        if dtype not in TAKES.get(op_type, (dtype,)) or self.opset < TAKES_LATER.get(
            (op_type, dtype), 0
        ):
            self.refuse(f"ONNX's {op_type} takes no {dtype}")

    def body(self, inputs: Sequence[Value], build: BuildBody) -> Graph:
        """Return a loop or branch body that ``build`` emits, for a node's attribute.

        ``inputs`` have the shapes and dtypes of the body's inputs; ``build`` gets them with names,
        and may read outer values.
        """
        return self._writer.add_body(inputs, build)

    def inline(self, number: int, inputs: Sequence[Value]) -> Sequence[Value]:
        """Emit subgraph ``number`` on ``inputs`` for its variables; return its heads."""
        if self._subgraphs is None:
            self.refuse("it has no subgraph")
        return self._subgraphs.inline(number, inputs)

    def constant(self, value: Any, dtype: str) -> str:
        """Return the name of a constant; equal ones share a name."""
        return self._writer.add_constant(np.asarray(value), dtype)

    def integers(self, values: Sequence[int]) -> str:
        """Return the name of a constant row of int64."""
        return self.constant(np.asarray(values, np.int64), "int64")

    def number(self, value: float, dtype: str) -> str:
        """Return the name of a constant without axes."""
        return self.constant(np.asarray(value), dtype)

    def cast(self, x: Value | str, to: str, dtype: str = "") -> str:
        """Cast ``x`` unless dtypes are equal; a name needs its ``dtype``."""
        have = x.dtype if isinstance(x, Value) else dtype
        return _name(x) if have == to else self.emit("Cast", x, to=DTYPE_CODES[to])

    def widen(self, x: Value) -> Value:
        """Return ``x`` in :func:`wide_dtype`."""
        return (
            msgspec.structs.replace(x, name=self.cast(x, "float32"), dtype="float32")
            if x.dtype == "float16"
            else x
        )

    def reshape(self, x: Value | str, shape: Sequence[int]) -> str:
        if isinstance(x, Value) and x.shape == tuple(shape):
            return x.name
        target = self.integers(shape)
        # Without allowzero, 0 copies the input's size.
        return (
            self.emit("Reshape", x, target, allowzero=1)
            if 0 in shape
            else self.emit("Reshape", x, target)
        )

    def transpose(self, x: Value | str, axes: Sequence[int]) -> str:
        return (
            _name(x)
            if list(axes) == list(range(len(axes)))
            else self.emit("Transpose", x, perm=list(axes))
        )

    def slice(
        self,
        x: Value | str,
        axes: Sequence[int],
        starts: Sequence[int],
        ends: Sequence[int],
        steps: Sequence[int] = (),
    ) -> str:
        """Slice ``x`` along ``axes`` in ONNX's terms; ``FAR`` is beyond any axis."""
        if not axes:
            return _name(x)
        more = [self.integers(steps)] if steps and set(steps) != {1} else []
        return self.emit(
            "Slice", x, self.integers(starts), self.integers(ends), self.integers(axes), *more
        )

    def reduce(
        self, op_type: str, x: Value | str, axes: Sequence[int], *, keepdims: bool = False
    ) -> str:
        """Emit ``ReduceSum``, ``ReduceMean`` and the like."""
        if not axes:  # a single number each
            if op_type == "ReduceSumSquare":
                return self.emit("Mul", x, x)
            return self.emit("Abs" if op_type in ("ReduceL1", "ReduceL2") else "Identity", x)
        # Axes are an input of ReduceSum since opset 13, of other reductions since 18.
        if op_type == "ReduceSum" or self.opset >= 18:
            return self.emit(op_type, x, self.integers(axes), keepdims=int(keepdims))
        return self.emit(op_type, x, axes=list(axes), keepdims=int(keepdims))

    def pad(
        self, x: Value | str, before: Sequence[int], after: Sequence[int], value: float, dtype: str
    ) -> str:
        """``dtype`` is the dtype of ``x``."""
        if not any((*before, *after)):
            return _name(x)
        return self.emit("Pad", x, self.integers((*before, *after)), self.number(value, dtype))


def wide_dtype(dtype: str) -> str:
    """Return the dtype in which MXNet sums products: float32 for float16, else the same."""
    return "float32" if dtype == "float16" else dtype


Outputs = str | Sequence[str]
Translate = Callable[[Translation], Outputs]
"""Emits an operator's nodes; returns the name or names of its outputs, in order."""


def keep_input(t: Translation) -> str:
    """Return the first input: no effect at inference."""
    return t.inputs[0].name


def copy_input(t: Translation) -> str:
    """Emit ``Identity``."""
    return t.emit("Identity", t.inputs[0])


class Translator(msgspec.Struct, frozen=True):
    """One operator's translation.

    ``condition`` says in words which nodes are refused, if any.
    """

    operator: str
    translate: Translate
    condition: str = ""


class NoTranslation(msgspec.Struct, frozen=True):
    """An operator that is not exported; ``reason`` is a clause (``ONNX has no such FFT``)."""

    operator: str
    reason: str


def _name(x: Value | str) -> str:
    return x.name if isinstance(x, Value) else x
