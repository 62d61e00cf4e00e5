"""Read ONNX operators that multiply by constants or add them as :class:`AffineStep`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from graphshare.formats.onnx.constants import read_value
from graphshare.formats.onnx.values import StoredValue
from graphshare.ir.affine import AffineStep, Constant, FindConstant, read_arithmetic
from graphshare.ir.graph import Node
from graphshare.ir.terms import NormalForm
from graphshare.onnx_ops.operators import find_meaning

_LEAST_AXES = 3
"""The least rank of a convolution's weights: output channels, input channels, and one axis of the window."""
_FIRST_INFERENCE = 7
"""The first version of BatchNormalization that uses stored statistics by default."""


class _Operator:
    def __init__(
        self,
        form: NormalForm,
        opset: int,
        node: Node,
        operands: Sequence[int | None],
        find: FindConstant,
    ) -> None:
        self.form, self.opset, self.find = form, opset, find
        self.node, self.operands = node, operands

    def read_number(self, name: str, default: float) -> float:
        value = self.node.details.values.get(name)
        if not isinstance(value, StoredValue):
            return default
        number = read_value(value.content)
        return float(number) if isinstance(number, int | float) else default


def read_step(
    form: NormalForm, opset: int, node: Node, operands: Sequence[int | None], find: FindConstant
) -> AffineStep | None:
    """Return the constant factors and addends of an operator; None for other forms."""
    rule = None if node.details.domain or len(operands) < 1 else _RULES.get(node.op)
    return None if rule is None else rule(_Operator(form, opset, node, operands, find))


def _read_conv(operator: _Operator) -> AffineStep | None:
    """Read a convolution: its core is the term without bias and weight values."""
    node, operands = operator.node, operator.operands
    stated, bias = operator.find(1), operator.find(2)
    source = operands[0]
    if stated is None or len(stated.shape) < _LEAST_AXES or source is None:
        return None
    if bias is None and len(operands) > 2:
        return None
    weight: Constant | None = stated
    if node.op == "ConvTranspose":
        weight = stated.put_outputs_first(int(operator.read_number("group", 1)))
    if weight is None:
        return None
    unnamed = operator.form.table.number("weights", stated.shape)
    plain = replace(node, inputs=node.inputs[:2])
    core = operator.form.make_terms(plain, [source, unnamed], ())[0]
    rank = len(weight.shape)
    return AffineStep(0, core=core, kernel=weight, shift=bias, axis=1 - rank, rank=rank)


def _read_matmul(operator: _Operator) -> AffineStep | None:
    weight = operator.find(1)
    if weight is None or len(weight.shape) != 2:
        return None
    return AffineStep(0, core=("dot", operator.operands[0]), kernel=weight, out_axis=1, axis=-1)


def _read_gemm(operator: _Operator) -> AffineStep | None:
    weight, bias = operator.find(1), operator.find(2)
    if weight is None or operator.read_number("transA", 0):
        return None
    if bias is None and len(operator.operands) > 2:
        return None
    alpha, beta = operator.read_number("alpha", 1), operator.read_number("beta", 1)
    out_axis = 0 if operator.read_number("transB", 0) else 1
    core = ("dot", operator.operands[0])
    return AffineStep(
        0,
        core=core,
        kernel=weight,
        out_axis=out_axis,
        axis=-1,
        rank=2,
        factor=alpha,
        shift=bias,
        shift_factor=beta,
    )


def _read_norm(operator: _Operator) -> AffineStep | None:
    node = operator.node
    version, _ = find_meaning(node.op, operator.opset)
    if version < _FIRST_INFERENCE or len(node.details.outputs) > 1:
        return None
    if operator.read_number("training_mode", 0):
        return None
    gamma, beta, mean, variance = map(operator.find, (1, 2, 3, 4))
    if gamma is None or beta is None or mean is None or variance is None:
        return None
    norm, epsilon = (gamma, beta, mean, variance), operator.read_number("epsilon", 1e-5)
    return AffineStep(0, norm=norm, epsilon=epsilon)


def _read_elementwise(operator: _Operator) -> AffineStep | None:
    if len(operator.operands) != 2:
        return None
    return read_arithmetic(operator.node.op, operator.find(0), operator.find(1))


def _read_pool(operator: _Operator) -> AffineStep | None:
    """Read a mean, unless version 19's attributes extend windows beyond the padding: those sum in
    another order.
    """
    table, source = operator.form.table, operator.operands[0]
    if source is None:
        return None
    _, op, _, count, attributes, *rest = table.keys[
        operator.form.make_terms(operator.node, [source], ())[0]
    ]
    is_new = any(name in _OF_LATER_POOLS for name, _ in attributes)
    return None if is_new else AffineStep(0, core=table.number(op, count, attributes, *rest))


def _read_reshape(operator: _Operator) -> AffineStep:
    return AffineStep(0, is_reshape=True)


_OF_LATER_POOLS = {"ceil_mode", "dilations"}
_RULES: Mapping[str, Callable[[_Operator], AffineStep | None]] = {
    **dict.fromkeys(("Conv", "ConvTranspose"), _read_conv),
    "MatMul": _read_matmul,
    "Gemm": _read_gemm,
    "BatchNormalization": _read_norm,
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _read_elementwise),
    "AveragePool": _read_pool,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _read_reshape),
}
