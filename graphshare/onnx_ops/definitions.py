"""Definitions of fused operators, of onnxruntime and of later operator sets, by older ONNX
operators.

Approximations have none: FastGelu is not Gelu. An operator with attributes that its definition does
not cover stays.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from graphshare.formats.onnx.constants import read_value
from graphshare.formats.onnx.values import StoredValue
from graphshare.ir.graph import EMPTY, Node
from graphshare.ir.onnx import Attributes, Tensor
from graphshare.ir.walk import find_operand

FUSED = "com.microsoft"
"""The namespace of the fused operators."""
STANDARD = frozenset(
    """AffineGrid Attention CausalConvWithState Celu CenterCropPad Clip Elu Gelu GroupNormalization
    HardSigmoid HardSwish LayerNormalization LeakyRelu LinearAttention LogSoftmax
    MeanVarianceNormalization Mish NegativeLogLikelihoodLoss PRelu RMSNormalization ReduceL1
    ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare RotaryEmbedding Selu Shrink Softmax
    SoftmaxCrossEntropyLoss Softplus Softsign SwiGLU Swish ThresholdedRelu""".split()
)
"""Operators that ONNX defines by others, except those that draw random numbers, quantize or compare."""
_AXES_AS_INPUT = 18
_SUM = 3
"""The output of a SkipLayerNormalization with the sum that it normalizes."""
_EMPTY: Mapping[object, object] = {1: 0.0, 2: 0, 3: "", 6: (), 7: ()}
"""Values of empty attributes, by ONNX's number of their type."""
_WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
}
"""Activations of a fused operator, with the order of ``activation_params``."""
Input = int | str
"""An operand of the fused operator by its position, or a value of the definition by name."""


class DefinitionStep(Struct, frozen=True):
    """An operator of a definition, and its output's name; the last one gives the fused operator's
    output.

    ``place`` is the position of an optional output of the fused operator; 0 for none.
    """

    op: str
    inputs: tuple[Input, ...]
    output: str = ""
    values: Attributes = EMPTY
    place: int = 0


def find_definition(node: Node, opset: int, *, has_numbers: bool) -> list[DefinitionStep] | None:
    """Return the operators that a fused one stands for; None if it has no definition.

    Constants are allowed only if all floats of the model are float32 (``has_numbers``).
    """
    rule = _DEFINITIONS.get((node.details.domain, node.op))
    outputs = node.details.outputs
    if rule is None or not outputs or not outputs[0]:
        return None
    fused = _Fused(node, opset)
    if None in fused.values.values():  # an attribute that is not a number, a text or a short list
        return None
    steps = rule(fused)
    if not steps:
        return None
    has_constants = any(step.op == "Constant" for step in steps)
    if has_constants and not has_numbers:
        return None
    defined = {0, *(step.place for step in steps)}
    used = {place for place, name in enumerate(outputs) if name}
    return steps if used <= defined else None


class _Fused:
    def __init__(self, node: Node, opset: int) -> None:
        self.opset, self._node = opset, node
        self.values = {
            name: read_value(value.content)
            for name, value in node.details.values.items()
            if isinstance(value, StoredValue)
        }

    def has(self, place: int) -> bool:
        return find_operand(self._node, place) is not None

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    @property
    def is_plain_norm(self) -> bool:
        """Whether it normalizes over the last axis, in float32."""
        return self.number("axis", -1) == -1 and self.number("stash_type", 1) == 1

    def activate(self, name: str) -> list[DefinitionStep] | None:
        activation = str(self.values.get("activation"))
        names, numbers = _ACTIVATIONS.get(activation), self.values.get("activation_params", ())
        if names is None or not isinstance(numbers, tuple) or len(numbers) != len(names):
            return None
        values = dict(zip(names, numbers, strict=True))
        return [DefinitionStep(activation, (name,), values=values)]


def _define_layer(op: str, names: Sequence[str], fused: _Fused) -> list[DefinitionStep] | None:
    """Define an operator, an optional sum with the fourth operand, and an activation."""
    values = {name: fused.values[name] for name in names if name in fused.values}
    steps = [DefinitionStep(op, (0, 1, 2) if fused.has(2) else (0, 1), op, values)]
    if fused.has(3):
        steps.append(DefinitionStep("Add", (op, 3), "sum"))
    activation = fused.activate(steps[-1].output)
    return None if activation is None else [*steps, *activation]


def _define_matmul(fused: _Fused) -> list[DefinitionStep] | None:
    if any(fused.number(name, 0) for name in ("transA", "transB", "transBatchA", "transBatchB")):
        return None
    return [
        DefinitionStep("MatMul", (0, 1), "product"),
        _make_number("alpha", fused.number("alpha", 1)),
        DefinitionStep("Mul", ("product", "alpha")),
    ]


def _define_quick_gelu(fused: _Fused) -> list[DefinitionStep]:
    alpha = _make_number("alpha", fused.number("alpha", 1.702))
    return [
        alpha,
        DefinitionStep("Mul", (0, "alpha"), "scaled"),
        DefinitionStep("Sigmoid", ("scaled",), "share"),
        DefinitionStep("Mul", (0, "share")),
    ]


def _define_gelu(fused: _Fused) -> list[DefinitionStep]:
    return list(_list_gelu(0))


def _define_bias_gelu(fused: _Fused) -> list[DefinitionStep]:
    return [DefinitionStep("Add", (0, 1), "sum"), *_list_gelu("sum")]


def _list_gelu(value: Input) -> Iterator[DefinitionStep]:
    yield from (_make_number("root", 2**0.5), _make_number("one", 1), _make_number("half", 0.5))
    yield DefinitionStep("Div", (value, "root"), "scaled")
    yield DefinitionStep("Erf", ("scaled",), "erf")
    yield DefinitionStep("Add", ("erf", "one"), "share")
    yield DefinitionStep("Mul", (value, "share"), "twice")
    yield DefinitionStep("Mul", ("twice", "half"))


def _define_skip(fused: _Fused) -> list[DefinitionStep]:
    steps = _add_skip(fused, 4)
    values = {"axis": -1, "epsilon": fused.number("epsilon", 1e-12)}
    inputs: tuple[Input, ...] = (steps[-1].output, 2, 3) if fused.has(3) else (steps[-1].output, 2)
    return [*steps, DefinitionStep("LayerNormalization", inputs, values=values)]


def _define_simplified_skip(fused: _Fused) -> list[DefinitionStep]:
    steps = _add_skip(fused, 3)
    return [*_choose_axes(fused)[0], *steps, *_list_scaling(fused, steps[-1].output, 2, 1e-12)]


def _add_skip(fused: _Fused, bias: int) -> list[DefinitionStep]:
    """Return the sums before a normalization; the last one is an output."""
    steps = [DefinitionStep("Add", (0, 1), "sum")]
    if fused.has(bias):
        steps.append(DefinitionStep("Add", ("sum", bias), "biased"))
    return [*steps[:-1], replace(steps[-1], place=_SUM)]


def _define_layer_norm(fused: _Fused) -> list[DefinitionStep] | None:
    if not fused.is_plain_norm:
        return None
    axes, more, values = _choose_axes(fused)
    steps = [
        *axes,
        DefinitionStep("ReduceMean", (0, *more), "mean", values),
        DefinitionStep("Sub", (0, "mean"), "distance"),
        *_list_scaling(fused, "distance", 1, 1e-5),
    ]
    if fused.has(2):
        steps[-1] = replace(steps[-1], output="scaled")
        steps.append(DefinitionStep("Add", ("scaled", 2)))
    return steps


def _define_simplified_norm(fused: _Fused) -> list[DefinitionStep] | None:
    if not fused.is_plain_norm:
        return None
    return [*_choose_axes(fused)[0], *_list_scaling(fused, 0, 1, 1e-5)]


def _choose_axes(fused: _Fused) -> tuple[list[DefinitionStep], tuple[Input, ...], Attributes]:
    """Return the last axis as a constant and an operand or, in older sets, as attributes."""
    if fused.opset < _AXES_AS_INPUT:
        return [], (), {"axes": (-1,)}
    last = Tensor("int64", (1,), struct.pack("<q", -1))
    return [DefinitionStep("Constant", (), "axes", {"value": last})], ("axes",), {}


def _list_scaling(
    fused: _Fused, value: Input, scale: Input, epsilon: float
) -> Iterator[DefinitionStep]:
    """Divide a value by its root mean square, then scale it."""
    _, more, values = _choose_axes(fused)
    yield _make_number("two", 2)
    yield DefinitionStep("Pow", (value, "two"), "square")
    yield DefinitionStep("ReduceMean", ("square", *more), "variance", values)
    yield _make_number("epsilon", fused.number("epsilon", epsilon))
    yield DefinitionStep("Add", ("variance", "epsilon"), "spread")
    yield DefinitionStep("Sqrt", ("spread",), "deviation")
    yield DefinitionStep("Div", (value, "deviation"), "normal")
    yield DefinitionStep("Mul", ("normal", scale))


def _make_number(name: str, value: float) -> DefinitionStep:
    """Return a float32 constant."""
    number = Tensor("float32", (), struct.pack("<f", value))
    return DefinitionStep("Constant", (), name, {"value": number})


_DEFINITIONS: Mapping[tuple[str, str], Callable[[_Fused], list[DefinitionStep] | None]] = {
    (FUSED, "FusedConv"): partial(_define_layer, "Conv", _WINDOW),
    (FUSED, "FusedGemm"): partial(_define_layer, "Gemm", ("alpha", "beta", "transA", "transB")),
    (FUSED, "FusedMatMul"): _define_matmul,
    (FUSED, "QuickGelu"): _define_quick_gelu,
    (FUSED, "Gelu"): _define_gelu,
    (FUSED, "BiasGelu"): _define_bias_gelu,
    (FUSED, "SkipLayerNormalization"): _define_skip,
    (FUSED, "SkipSimplifiedLayerNormalization"): _define_simplified_skip,
    ("", "LayerNormalization"): _define_layer_norm,
    ("", "SimplifiedLayerNormalization"): _define_simplified_norm,
}
