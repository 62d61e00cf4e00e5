"""Translations of operators to ONNX, their inputs and their results. Families state them in ``to_onnx.py``.

A translation is a function of one node: it emits ONNX nodes and returns the names of the values
that are the node's outputs. It knows the typed attributes, and the shape and dtype of every input
and output.
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
"""An end of a slice beyond any axis; ``-FAR`` is before any."""


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
"""The dtypes of the first input of operators that do not take every one, in the latest version of the operator set."""
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
"""The first version in which an operator takes a dtype, where it is later than 13."""


class TranslationError(Exception):
    """A node has no translation with these attributes, shapes or dtypes; the message says why, as
    the end of a sentence.
    """


class Value(msgspec.Struct, frozen=True, eq=False):
    """A value of the ONNX graph: ``shape`` in full, ``dtype`` by name.

    ``read`` gives the array of a parameter, else None.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], Array] | None = None

    @property
    def rank(self) -> int:
        """Return the number of axes."""
        return len(self.shape)


BuildBody = Callable[[Sequence[Value]], Sequence[Value]]
"""Emits the nodes of a body, given its inputs, and returns its outputs."""
Inline = Callable[[int, Sequence[Value]], Sequence[Value]]
"""Emits the nodes of one of the node's subgraphs, given values for its variables, and returns its heads."""


class Subgraphs(msgspec.Struct, frozen=True):
    """The subgraphs of a node; ``inner`` are the operators of the first with their attributes, inputs before users."""

    inline: Inline
    inner: Sequence[tuple[str, Attrs]]


class Writer(Protocol):
    """Where nodes and constants go: the graph that is being made, or the body of a loop in it."""

    opset: int
    is_open: bool

    def add_node(
        self, op_type: str, inputs: Sequence[str], outputs: int, attributes: Attributes, domain: str
    ) -> list[str]: ...
    def add_constant(self, array: Array, dtype: str) -> str: ...
    def add_body(self, inputs: Sequence[Value], build: BuildBody) -> Graph: ...


class Translation:
    """One node on its way to ONNX.

    ``inputs`` and ``outputs`` have the shapes and dtypes; outputs are all that the operator has,
    hidden ones included, and their names mean nothing. ``used`` are the positions of the outputs
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
        """Return the operators of the node's first subgraph; see :class:`Subgraphs`."""
        return self._subgraphs.inner if self._subgraphs is not None else ()

    @property
    def opset(self) -> int:
        """Return the version of ONNX's operator set that is written."""
        return self._writer.opset

    @property
    def is_open(self) -> bool:
        """Return whether sizes are free: nodes must be the same at all sizes, also those that do
        nothing at some of them.
        """
        return self._writer.is_open

    def derive(
        self, attrs: Attrs, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> Translation:
        """Return a node of other attributes and values as a part of this one, for the translation
        of another operator.
        """
        return Translation(self.op, attrs, inputs, outputs, self._writer)

    def refuse(self, reason: str) -> NoReturn:
        """Raise TranslationError: the node cannot be exported because it ``reason`` (``"has the mode bicubic"``)."""
        raise TranslationError(reason)

    def require_floats(self) -> None:
        """Refuse the node unless its data is floating point: ONNX has the operators that it needs only for floats."""
        if not self.inputs[0].dtype.startswith("float"):
            self.refuse(f"its data is {self.inputs[0].dtype}")

    def refuse_booleans(self) -> None:
        """Refuse the node if its data is bool: ONNX has the operators that it needs only for numbers."""
        if self.inputs[0].dtype == "bool":
            self.refuse("its data is bool")

    def emit(
        self, op_type: str, *inputs: Value | str, domain: str = "", **attributes: AttributeValue
    ) -> str:
        """Emit an ONNX node with one output and return the output's name; an empty input is left out."""
        return self.emit_several(op_type, 1, *inputs, domain=domain, **attributes)[0]

    def emit_several(
        self,
        op_type: str,
        count: int,
        *inputs: Value | str,
        domain: str = "",
        **attributes: AttributeValue,
    ) -> list[str]:
        """Emit an ONNX node with ``count`` outputs and return their names."""
        if inputs and isinstance(inputs[0], Value) and not domain:
            self._check_dtype(op_type, inputs[0].dtype)
        names = [x.name if isinstance(x, Value) else x for x in inputs]
        # An absent input keeps its place only in front of others.
        while names and not names[-1]:
            names.pop()
        return self._writer.add_node(op_type, names, count, attributes, domain)

    def _check_dtype(self, op_type: str, dtype: str) -> None:
        """Refuse the node where ONNX's operator does not take a dtype as its first input: checkers
        refuse such a model.
        """
        if dtype not in TAKES.get(op_type, (dtype,)) or self.opset < TAKES_LATER.get(
            (op_type, dtype), 0
        ):
            self.refuse(f"ONNX's {op_type} takes no {dtype}")

    def body(self, inputs: Sequence[Value], build: BuildBody) -> Graph:
        """Return the body of a loop or branch that ``build`` emits, for an attribute of an ONNX node.

        ``inputs`` have the shapes and dtypes of the body's inputs; ``build`` gets them with their
        names and may also read all outer values.
        """
        return self._writer.add_body(inputs, build)

    def inline(self, number: int, inputs: Sequence[Value]) -> Sequence[Value]:
        """Emit the nodes of subgraph ``number`` of the node on ``inputs`` for its variables, and return its heads."""
        if self._subgraphs is None:
            self.refuse("it has no subgraph")
        return self._subgraphs.inline(number, inputs)

    def constant(self, value: Any, dtype: str) -> str:
        """Return the name of a constant, of an array or of anything that numpy converts to one.

        Equal constants are one.
        """
        return self._writer.add_constant(np.asarray(value), dtype)

    def integers(self, values: Sequence[int]) -> str:
        """Return the name of a constant row of int64, as shapes and axes are given."""
        return self.constant(np.asarray(values, np.int64), "int64")

    def number(self, value: float, dtype: str) -> str:
        """Return the name of a constant without axes."""
        return self.constant(np.asarray(value), dtype)

    def cast(self, x: Value | str, to: str, dtype: str = "") -> str:
        """Return ``x`` with the dtype ``to``; ``dtype`` is its own dtype, where ``x`` is a name.

        Equal dtypes need no node.
        """
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
        """Return ``x`` with ``shape``, whose sizes are all known."""
        if isinstance(x, Value) and x.shape == tuple(shape):
            return x.name
        target = self.integers(shape)
        # Without allowzero a 0 copies the size of the input.
        return (
            self.emit("Reshape", x, target, allowzero=1)
            if 0 in shape
            else self.emit("Reshape", x, target)
        )

    def transpose(self, x: Value | str, axes: Sequence[int]) -> str:
        """Return ``x`` with its axes in this order."""
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
        """Return the part of ``x`` from ``starts`` to ``ends`` along ``axes``, in ONNX's terms:
        ``FAR`` is beyond any axis.
        """
        if not axes:
            return _name(x)
        more = [self.integers(steps)] if steps and set(steps) != {1} else []
        return self.emit(
            "Slice", x, self.integers(starts), self.integers(ends), self.integers(axes), *more
        )

    def reduce(
        self, op_type: str, x: Value | str, axes: Sequence[int], *, keepdims: bool = False
    ) -> str:
        """Emit ``ReduceSum``, ``ReduceMean`` and the like over ``axes``; later opsets take these as an input."""
        if not axes:  # a single number each
            if op_type == "ReduceSumSquare":
                return self.emit("Mul", x, x)
            return self.emit("Abs" if op_type in ("ReduceL1", "ReduceL2") else "Identity", x)
        # ReduceSum takes its axes as an input since opset 13, the other reductions since opset 18.
        if op_type == "ReduceSum" or self.opset >= 18:
            return self.emit(op_type, x, self.integers(axes), keepdims=int(keepdims))
        return self.emit(op_type, x, axes=list(axes), keepdims=int(keepdims))

    def pad(
        self, x: Value | str, before: Sequence[int], after: Sequence[int], value: float, dtype: str
    ) -> str:
        """Return ``x`` with this many cells of ``value`` before and after it along each axis; ``dtype`` is its own."""
        if not any((*before, *after)):
            return _name(x)
        return self.emit("Pad", x, self.integers((*before, *after)), self.number(value, dtype))


def wide_dtype(dtype: str) -> str:
    """Return the dtype in which MXNet sums products: float32 for float16, otherwise the same."""
    return "float32" if dtype == "float16" else dtype


Outputs = str | Sequence[str]
Translate = Callable[[Translation], Outputs]
"""Emits the nodes for one operator; returns the name of its output, or the names of its outputs in order."""


def keep_input(t: Translation) -> str:
    """Return the first input: at inference the operator does nothing."""
    return t.inputs[0].name


def copy_input(t: Translation) -> str:
    """Emit ``Identity``."""
    return t.emit("Identity", t.inputs[0])


class Translator(msgspec.Struct, frozen=True):
    """The translation of one operator.

    ``condition`` says in words which of its nodes are refused; empty where none is.
    """

    operator: str
    translate: Translate
    condition: str = ""


class NoTranslation(msgspec.Struct, frozen=True):
    """An operator that is not exported; ``reason`` says why, as a clause (``ONNX has no FFT of this form``)."""

    operator: str
    reason: str


def _name(x: Value | str) -> str:
    return x.name if isinstance(x, Value) else x
