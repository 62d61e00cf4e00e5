"""The rules of ONNX's operators for free sizes: axes of outputs, operands that follow, and what is refused.

Axes are written by their factors: ``n*4`` is a product, the free size ``n`` outermost. In the file,
``n`` is a batch of 2, ``t`` is another size of 5, ``u`` one of 1, and ``T`` was free before, with
7. ``[1 4]`` is a row that the file states (``(1 4)`` one of int32), ``#n,4`` one that is computed
from sizes, ``~2`` one of 2 numbers that depends on sizes in an unknown way, ``i4`` are integers,
``-`` is an absent operand, ``?`` one whose shape is not known. A result is the axes of each output,
then the edits: ``1=n,4`` is a row in place of operand 1, ``1+n,1`` one that operand 1 is expanded
to, then the row that the output is. Behind it are the version of the operator set and the shapes in
the file, where onnx does not infer them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser, shape_inference

from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.stored import MemoryFile
from graphshare.onnx_ops import axis_rules, free_axes
from graphshare.onnx_ops.free_axes import (
    Axes,
    Axis,
    Call,
    Operand,
    SizeRefusal,
    SizeTable,
    fix,
    regroup,
)

NUMBERS = {"n": 2, "t": 5, "u": 1, "T": 7}


class Case(NamedTuple):
    """An operator, its operands, and ``shapes`` of outputs in the file where onnx does not infer them."""

    text: str
    operands: list[str]
    shapes: str
    version: int


def read_axis(text: str) -> Axis:
    factors = [int(part) if part.lstrip("-").isdecimal() else part for part in text.split("*")]
    return () if factors == [1] else tuple(factors)


def read_axes(text: str) -> Axes:
    return tuple(read_axis(part) for part in text.split(",") if part)


def show_axes(axes: Axes | None) -> str:
    return "-" if axes is None else ",".join("*".join(map(str, axis)) or "1" for axis in axes)


def count(axes: Axes, numbers: Mapping[str, int]) -> list[int]:
    return [
        prod(numbers[factor] if isinstance(factor, str) else factor for factor in axis)
        for axis in axes
    ]


def make_model(case: Case, numbers: Mapping[str, int]) -> onnx.ModelProto:
    """Return a model of one operator with operands ``a``, ``b`` and so on of these sizes."""
    inputs, tensors = [], []
    for name, operand in zip("abcdefgh", case.operands, strict=False):
        if operand[:1] in ("[", "("):
            array = np.array(operand[1:-1].split(), "i8" if operand[0] == "[" else "i4")
            tensors.append(numpy_helper.from_array(array, name))
        elif operand != "-":
            dtype = TensorProto.INT64 if operand[:1] in ("#", "~", "i") else TensorProto.FLOAT
            inputs.append(helper.make_tensor_value_info(name, dtype, find_shape(operand, numbers)))
    node = parser.parse_node(case.text)
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
        for name in node.output
        if name
    ]
    graph = helper.make_graph([node], "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", case.version), helper.make_opsetid("ai.other", 1)]
    return helper.make_model(graph, opset_imports=opsets)


def find_shape(operand: str, numbers: Mapping[str, int]) -> list[int] | None:
    if operand[:1] in ("[", "("):
        return [len(operand[1:-1].split())]
    if operand[:1] == "#":
        return [len(read_axes(operand[1:]))]
    return None if operand in ("?", "-") else count(read_axes(operand.lstrip("~i ")), numbers)


def find_row(operand: str) -> Axes | None:
    if operand[:1] in ("[", "("):
        return tuple(fix(int(number)) for number in operand[1:-1].split())
    return read_axes(operand[1:]) if operand[:1] == "#" else None


def find_operand_axes(operand: str) -> Axes | None:
    if operand[:1] in ("[", "(", "#"):
        return (fix(len(find_row(operand) or ())),)
    return None if operand in ("?", "-") else read_axes(operand.lstrip("~i "))


def describe_operand(text: str) -> Operand:
    dtype = "int32" if text[:1] == "(" else "int64"
    return Operand(find_operand_axes(text), text[:1] in ("~", "#"), find_row(text), dtype)


def infer(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Return the shapes of outputs by onnx, where it finds them."""
    shapes = {}
    for value in shape_inference.infer_shapes(model, data_prop=True).graph.output:
        if value.type.tensor_type.HasField("shape"):
            sizes = value.type.tensor_type.shape.dim
            if all(size.HasField("dim_value") for size in sizes):
                shapes[value.name] = [size.dim_value for size in sizes]
    return shapes


def find(case: Case) -> str:
    """Return the axes of the outputs, the edits and the row of an operator, or the reason of its refusal."""
    table = SizeTable(NUMBERS, ["n"], ["T"])
    model = make_model(case, NUMBERS)
    node = next(
        node for node in decode_model(MemoryFile(model.SerializeToString())).nodes if node.op
    )
    inferred = infer(model)
    stated = (
        [count(read_axes(part), NUMBERS) for part in case.shapes.split("|")] if case.shapes else []
    )
    shapes = [*stated, *(inferred.get(name) for name in node.details.outputs)][
        : len(node.details.outputs)
    ]
    call = Call(
        node,
        case.version,
        table,
        [describe_operand(operand) for operand in case.operands],
        shapes,
    )
    try:
        outputs = axis_rules.find_axes(call)
    except SizeRefusal as refusal:
        return f"refused: {refusal}"
    parts = [" | ".join(map(show_axes, outputs))]
    for place, edit in call.edits.items():
        dtype = "" if edit.dtype == "int64" else f":{edit.dtype}"
        parts.append(f"{place}{'+' if edit.expands else '='}{show_axes(edit.row)}{dtype}")
    row = free_axes.find_row(call)
    return " / ".join([*parts, *([] if row is None else [f"row {show_axes(row)}"])]).strip()


BODIES = """<then_branch = t () => (float[1] s) { s = Constant<value_floats = [1.0]>() },
else_branch = e () => (float[1] t) { t = Constant<value_floats = [1.0]>() }>"""
FOLLOWED = """
y = Relu(a)                                 : 4,6                       : 4,6
y = Relu(a)                                 : n,4                       : n,4
y = ScatterND(a, b, c)                      : 4,6 | i1,1 | 1,6          : 4,6
y = Add(a, b)                               : n,4,6 | 6                 : n,4,6
y = Add(a, b)                               : 4,6 | n,1,1               : n,4,6
y = Clip(a, , c)                            : n,4 | - |                 : n,4
y = Add(a, b)                               : t,4 | 1,4                 : t,4
y = Add(a, b)                               : T,4 | 7,4                 : T,4
y = Add(a, b)                               : T,1 | u,4                 : T,4
y = Add(a, b)                               : u | t                     : t
y = Softmax<axis = -1>(a)                   : n,4                       : n,4
y = Softmax(a)                              : n,4                       : n,4
y = Softmax<axis = 0>(a)                    : 4,n,6                     : 4,n,6
y = Softmax(a)                              : n,4,6                     : n,4,6               : 11
y = Softmax<axis = 2>(a)                    : 4,n,6                     : 4,n,6               : 12
y = Softmax<axis = 0>(a)                    : 4,n,6                     : 4,n,6               : 13
y = MeanVarianceNormalization(a)            : 4,n,6                     : 4,n,6               : 17 : 4,2,6
y = MeanVarianceNormalization(a)            : 4,n,6,6                   : 4,n,6,6             : 17 : 4,2,6,6
y = MeanVarianceNormalization<axes = [1]>(a) : n,4,6                    : n,4,6
y = LayerNormalization(a, b)                : n,4,6 | 6                 : n,4,6
y = LayerNormalization(a, b)                : 4,n,6 | 6                 : 4,n,6
y = LayerNormalization<axis = 1>(a, b)      : n,4,t | ?                 : n,4,t
y = InstanceNormalization(a, b, c)          : n,3,t | 3 | 3             : n,3,t
y = Conv(a, b)                              : n,3,8,8 | 4,3,3,3         : n,4,6,6
y = Conv(a, b)                              : n,3,t,t | 4,3,3,3         : n,4,size 4,size 4
y = Conv<pads = [1, 0, 1, 0]>(a, b)         : n,3,t,8 | 4,3,3,3         : n,4,t,6
y = Pad(a, b)                               : n,4 | [0 1 0 1]           : n,6
, z = TopK(a, b)                            : n,4 | [3]                 : - | n,3
y, z = TopK<axis = 0>(a, b)                 : 4,n | [3]                 : 3,n | 3,n
y = CumSum(a, b)                            : n,4 | [1]                 : n,4
y = CumSum(a, b)                            : 4,n | [-2]                : 4,n
y = CumSum(a, b)                            : t,4 | i1                  : t,4
y = BatchNormalization(a, b, c, d, e)       : n,3,4 | 3 | 3 | 3 | 3     : n,3,4
y = BatchNormalization(a, b, c, d, e)       : n,3,4 | 3 | 3 | 3 | 3     : n,3,4               : 7
y = BatchNormalization<is_test = 1>(a, b, c, d, e) : n,3,4 | 3 | 3 | 3 | 3 : n,3,4            : 6
y, v, w = BatchNormalization<training_mode = 1>(a, b, c, d, e) : 4,3,t | 3 | 3 | 3 | 3 : 4,3,t | 3 | 3
y = MaxPool<kernel_shape = [3, 3]>(a)       : n,3,t,8                   : n,3,size 4,6
y, z = MaxPool<kernel_shape = [3, 3]>(a)    : 4,3,t,8                   : 4,3,size 4,6 | 4,3,size 4,6
y, z, w = DynamicQuantizeLinear(a)          : t,4                       : t,4 |  |
y = ReduceMean<axes = [1]>(a)               : n,4,6                     : n,1,6
y = ReduceMean<axes = [-1], keepdims = 0>(a) : n,4,6                    : n,4
y = ReduceMean(a)                           : t,4                       : 1,1
y = ReduceMean<keepdims = 0>(a)             : t,4                       :
y = ReduceSum(a, b)                         : n,4,6 | [2]               : n,4,1
y = ReduceSum<noop_with_empty_axes = 1>(a)  : n,4                       : n,4
y = ReduceSum<noop_with_empty_axes = 1>(a, b) : n,4 | [1]               : n,1
y = ReduceMax(a, b)                         : n,4,6 | [1 2]             : n,1,1               : 18
y = ArgMax(a)                               : 4,n                       : 1,n
y = ArgMin<axis = -1, keepdims = 0>(a)      : n,4                       : n
y = GlobalAveragePool(a)                    : n,3,8,t                   : n,3,1,1
y = GlobalMaxPool(a)                        : 4,n,8,8                   : 4,n,1,1
y = MatMul(a, b)                            : n,4,6 | 6,5               : n,4,5
y = MatMul(a, b)                            : n,3,4,6 | n,3,6,5         : n,3,4,5
y = MatMul(a, b)                            : 3,4,6 | n,1,6,5           : n,3,4,5
y = MatMul(a, b)                            : n,1,1,4,6 | 3,6,5         : n,1,3,4,5
y = MatMul(a, b)                            : 6 | n,6,5                 : n,5
y = MatMul(a, b)                            : n,4,6 | 6                 : n,4
y = MatMul(a, b)                            : n,6 | 6                   : n
y = MatMul(a, b)                            : 6 | 6,t                   : t
y = MatMul(a, b)                            : t | t                     :
y = MatMul(a, b)                            : n,t | t,6                 : n,6
y = MatMul(a, b)                            : n,T | 7,6                 : n,6
y = QLinearMatMul(a, b, c, d, e, f, g, h)   : n,4 |  |  | 4,6 |  |  |  |  : n,6
y = Gemm(a, b)                              : n,4 | 4,6                 : n,6
y = Gemm<transA = 1>(a, b)                  : 4,n | 4,6                 : n,6
y = Gemm<transB = 1>(a, b, c)               : n,4 | 6,4 | 6             : n,6
y = Gemm(a, b, c)                           : n,4 | 4,6 |               : n,6
y = Gemm(a, b, c)                           : n,4 | 4,6 | n,1           : n,6
y = Gemm<transB = 1>(a, b, c)               : 3,4 | t,4 | 1,1           : 3,t
y = Gemm<transB = 1>(a, b)                  : t,4 | t,4                 : t,t
y = Einsum<equation = "bij, jk -> bik">(a, b) : n,4,6 | 6,5             : n,4,5
y = Einsum<equation = "ij->ji">(a)          : n,4                       : 4,n
y = Einsum<equation = "ij->i">(a)           : n,t                       : n
y = Transpose(a)                            : n,4,6                     : 6,4,n
y = Transpose<perm = [1, 0, 2]>(a)          : n,4,6                     : 4,n,6
y = Flatten(a)                              : n,4,t                     : n,4*t
y = Flatten<axis = 2>(a)                    : n,4,6                     : n*4,6
y = Flatten<axis = 0>(a)                    : n,4,6                     : 1,n*24
y = Flatten<axis = -1>(a)                   : n,4,6                     : n*4,6
y = Squeeze(a, b)                           : n,1,4 | [1]               : n,4
y = Squeeze(a, b)                           : n,1,4,1 | [-3]            : n,4,1
y = Squeeze(a)                              : n,1,4,1                   : n,4
y = Squeeze<axes = [2]>(a)                  : n,1,1,4                   : n,1,4               : 11
y = Unsqueeze(a, b)                         : n,4 | [1]                 : n,1,4
y = Unsqueeze(a, b)                         : n,4 | [-1 0]              : 1,n,4,1
y = Unsqueeze<axes = [0, 3]>(a)             : n,4                       : 1,n,4,1             : 11
y = Reshape(a, b)                           : n,4,6 | [2 24]            : n,24 / 1=0,24
y = Reshape(a, b)                           : n,4,6 | [0 24]            : n,24
y = Reshape(a, b)                           : n,4,6 | [-1 24]           : n,24
y = Reshape(a, b)                           : n,4,6 | [2 -1]            : n,24 / 1=0,24
y = Reshape(a, b)                           : n,4,6 | [8 6]             : n*4,6 / 1=-1,6
y = Reshape(a, b)                           : n,4,6 | [-1 6]            : n*4,6
y = Reshape(a, b)                           : 4,n,6 | [4 2 2 3]         : 4,n,2,3 / 1=4,0,2,3
y = Reshape(a, b)                           : n,24 | [2 4 6]            : n,4,6 / 1=0,4,6
y = Reshape<allowzero = 1>(a, b)            : n,4,6 | [2 24]            : n,24 / 1=-1,24      : 17 : 2,24
y = Reshape(a, b)                           : n,t,4,6 | [2 20 6]        : n,t*4,6 / 1=0,-1,6
y = Reshape(a, b)                           : n,4,t,6 | [8 30]          : n*4,t*6 / 1=-1,t*6
y = Reshape(a, b)                           : n,4,t,T | [8 35]          : n*4,t*T / 1=n*4,-1
y = Reshape(a, b)                           : n,4,t,T | [8 5 7]         : n*4,t,T / 1=-1,t,T
y = Reshape(a, b)                           : n,4,6 | #n,24             : n,24                : 17 : 2,24
y = Reshape(a, b)                           : T,4,6 | ~2                : T,24                : 17 : 7,24
y = Reshape(a, b)                           : n,4,6 | ~2                : n,24 / 1=0,24       : 17 : 2,24
y = Reshape(a, b)                           : T,4,6 | i2                : T,24 / 1=0,24       : 17 : 7,24
y = Reshape(a, b)                           : u,4,6 | [4 6]             : u*4,6 / 1=-1,6
y = Expand(a, b)                            : 4,6 | [2 4 6]             : 2,4,6
y = Expand(a, b)                            : n,1,6 | [1 4 1]           : n,4,6
y = Expand(a, b)                            : n,1,6 | [2 4 6]           : n,4,6 / 1=1,4,6
y = Expand(a, b)                            : n,1,6 | [4 6]             : n,4,6
y = Expand(a, b)                            : n,1,t | [4 5]             : n,4,t / 1=1,4,1
y = Expand(a, b)                            : 1,4,6 | #n,1,1            : n,4,6
y = Expand(a, b)                            : n,4 | #n,4                : n,4
y = Expand(a, b)                            : n,4 | [3 1 1]             : 3,n,4
y = Expand(a, b)                            : n,1,6 | ~3                : n,4,6               : 17 : 2,4,6
y = Expand(a, b)                            : 1,6 | ~3                  : 2,4,6               : 17 : 2,4,6
y = Tile(a, b)                              : n,4 | [1 3]               : n,12
y = Tile(a, b)                              : n,4 | [2 1]               : 2*n,4
y = Tile(a, b)                              : 3,4 | #n,1                : n*3,4
y = ConstantOfShape(a)                      : [2 3]                     : 2,3
y = ConstantOfShape(a)                      : #n,4                      : n,4
y = ConstantOfShape(a)                      : ~2                        : 2,4                 : 17 : 2,4
y = Range(a, b, c)                          : [0] | #n | [1]            : n                   : 17 : 2
y = Range(a, b, c)                          : [1] | #t | [1]            : 4                   : 17 : 4
y = Range(a, b, c)                          : [0] | #t | [2]            : 3                   : 17 : 3
y = Concat<axis = 1>(a, b)                  : n,4 | n,6                 : n,10
y = Concat(a, b)                            : n,4 | n,6                 : n,10                : 3 : 2,10
y = Concat<axis = 0>(a, b)                  : t,4 | 3,4                 : size 4,4
y = Concat<axis = 0>(a, b)                  : 3,4 | t,4                 : size 4,4
y = Concat<axis = -2>(a, b, c)              : n,4,6 | u,1,6 | 1,1,6 \
    : refused: has the samples on different axes of its inputs
y = Concat<axis = 1>(a, b, c)               : u,4,6 | 1,1,6 | u,2,6     : u,7,6 / 1+u,1,1
y, z = Split<axis = 1>(a)                   : n,4                       : n,2 | n,2
y, z = Split<axis = 1>(a, b)                : n,4 | [1 3]               : n,1 | n,3
y, z = Split<axis = 1, split = [1, 3]>(a)   : n,4                       : n,1 | n,3           : 11
y = Split<axis = 1>(a)                      : n,t                       : n,t
x, y, z, v, w = Split(a)                    : t,4                       : size 4,4 | size 4,4 | size 4,4 | size 4,4 | size 4,4
y = Slice(a, b, c, d)                       : n,4,6 | [0] | [3] | [2]   : n,4,3
y = Slice(a, b, c)                          : n,4 | [0] | [2]           : n,4 / 2=9223372036854775807
y = Slice(a, b, c)                          : n,4 | (0) | (2)           : n,4 / 2=2147483647:int32
y = Slice(a, b, c)                          : n,4 | [0 0] | [2 3]       : n,3 / 2=9223372036854775807,3
y = Slice(a, b, c)                          : n,4 | [0 1] | [9 3]       : n,2 / 2=9223372036854775807,3
y = Slice(a, b, c)                          : n,4 | [0] | [2147483646]  : n,4 / 2=9223372036854775807
y = Slice(a, b, c)                          : n,4 | [0] | [2147483647]  : n,4
y = Slice(a, b, c)                          : t,4 | [0] | [3]           : size 4,4
y = Slice(a, b, c)                          : t,4 | [1] | [5]           : size 4,4 / 2=9223372036854775807
y = Slice(a, b, c, d)                       : 4,n | [0] | [2] | [-1]    : 4,n / 2=9223372036854775807
y = Slice(a, b, c, d, e)                    : n,6 | [0] | [6] | [1] | [2] : n,3
y = Slice(a, b, c, d, e)                    : n,t | [0] | [5] | [1] | [1] : n,t / 2=9223372036854775807
y = Slice(a, b, c, d)                       : n,4 | i1 | [2] | [1]      : n,2                 : 17 : 2,2
y = Slice(a, b, c, d)                       : n,4 | [0] | i1 | [1]      : n,2                 : 17 : 2,2
y = Slice<starts = [0], ends = [2], axes = [1]>(a) : n,4                : n,2                 : 9
y = Slice<starts = [0], ends = [9223372036854775807]>(a) : n,4          : n,4                 : 9
y = Gather(a, b)                            : 9,6 | in,4                : n,4,6
y = Gather<axis = 1>(a, b)                  : n,4 | i                   : n
y = Gather<axis = 1>(a, b)                  : n,4,6 | it                : n,t,6
y = Gather<axis = -1>(a, b)                 : n,4,6 | [1 2]             : n,4,2
y = GatherElements<axis = 1>(a, b)          : n,4 | in,3                : n,3
y = GatherElements<axis = 1>(a, b)          : u,4 | i1,3                : u,3 / 1+u,1
y = GatherElements(a, b)                    : 4,n | i3,n                : 3,n
y = ScatterElements<axis = 1>(a, b, c)      : n,4 | in,3 | n,3          : n,4
y = Resize(a, , , d)                        : n,2,4,4 | - | - | [2 2 8 8] : n,2,8,8 / 3=n,2,8,8
y = Resize(a, , , d)                        : n,2,t,4 | - | - | [2 2 10 8] : n,2,t*2,8 / 3=n,2,t*2,8
y = Resize(a, , , d)                        : 4,2,t,4 | - | - | [4 2 10 6] : 4,2,t*2,6 / 3=4,2,t*2,6
y = Resize<axes = [3, 2]>(a, , , d)         : n,2,t,4 | - | - | [8 10]  : n,2,t*2,8 / 3=8,t*2 : 18
y = Resize<axes = [3]>(a, , , d)            : n,2,4,4 | - | - | [8]     : n,2,4,8             : 18
y = Resize(a, , c)                          : n,2,4,4 | - | 4           : n,2,8,8             : 17 : n,2,8,8
y = Resize(a, , , d)                        : n,2,4,4 | - | - | ~4      : n,2,8,8             : 17 : n,2,8,8
y = Shape(a)                                : n,4,6                     : 3 / row n,4,6
y = Shape(a)                                : 4,6                       : 2 / row 4,6
y = Shape<start = 1>(a)                     : n,4,6                     : 2 / row 4,6
y = Shape<start = -3, end = -1>(a)          : n,4,6                     : 2 / row n,4
y, h, s = LSTM<hidden_size = 5>(a, b, c)    : 4,n,6 | 1,20,6 | 1,20,5   : 4,1,n,5 | 1,n,5 | 1,n,5
y = GRU<hidden_size = 5, direction = "bidirectional">(a, b, c) : t,n,6 | 2,15,6 | 2,15,5 : t,2,n,5
y, h = RNN<hidden_size = 5>(a, b, c, , , f) : 4,n,6 | 1,5,6 | 1,5,5 | - | - | 1,n,5 : 4,1,n,5 | 1,n,5
y, h = GRU<hidden_size = 5, layout = 1>(a, b, c) : n,4,6 | 1,15,6 | 1,15,5 : n,4,1,5 | n,1,5
y, h = GRU<hidden_size = 5>(a, b, c, , e, f) : 4,u,6 | 1,15,6 | 1,15,5 | - | i1 | 1,1,5 : 4,1,u,5 | 1,u,5 / 4+u / 5+1,u,1
y, h = GRU<hidden_size = 5, layout = 1>(a, b, c, , e, f) : u,4,6 | 1,15,6 | 1,15,5 | - | i1 | 1,1,5 \
    : u,4,1,5 | u,1,5 / 4+u / 5+u,1,1
y = LSTM<hidden_size = 5>(a, b, c, , , f, g) : 4,u,6 | 1,20,6 | 1,20,5 | - | - | 1,u,5 | 1,1,5 : 4,1,u,5 / 6+1,u,1
y = Cast<to = 7>(a)                         : #n,4                      : 2 / row n,4
y = Identity(a)                             : #n,4                      : 2 / row n,4
y = ai.other.Identity(a)                    : #n,4                      : 2                   : 17 : 2
y = Unsqueeze(a, b)                         : #n | [0]                  : 1,1 / row n
y = Squeeze(a, b)                           : #n | [0]                  :  / row n
y = Concat<axis = 0>(a, b)                  : #n | [4]                  : 2 / row n,4
y = Concat<axis = 0>(a, b)                  : #n | i1                   : 2
y = Gather(a, b)                            : #n,4,6 | [0]              : 1 / row n
y = Gather(a, b)                            : #n,4,6 | [-3 -1 2]        : 3 / row n,6,6
y = Gather(a, b)                            : #n,4,6 | [3 -4 1]         : 3 / row 4
y = Gather(a, b)                            : #n,4,6 | i1               : 1
y = Slice(a, b, c)                          : #n,4,6 | [1] | [3]        : 2 / row 4,6
y = Slice(a, b, c, d)                       : #n,4,6 | [0] | [-1] | [0] : 2 / row n,4
y = Slice(a, b, c, d, e)                    : #n,4,6 | [0] | [3] | [0] | [2] : 2
y = Slice(a, b, c)                          : #n,4,6 | i1 | [3]         : 2                   : 17 : 2
y = Slice(a, b, c)                          : #n,4,6 | [1] | i1         : 2                   : 17 : 2
y = Mul(a, b)                               : #n,4 | [2 3]              : 2 / row n*2,12
y = Mul(a, b)                               : #n,4 | [3]                : 2
y = Mul(a, b)                               : #n,4 | i2                 : 2
y = Add(a, b)                               : #n,4 | [2 3]              : 2
"""

REFUSED = """
y = ai.other.Relu(a)                        : n,4                       :                     : 17 : 2,4
y = ScatterND(a, b, c)                      : n,6 | i1,1 | 1,6          :
y = If(a) BODIES : n : has a condition that depends on the samples
y = If(a) BODIES : 1 : has a body, and free sizes are not followed into bodies
y = Relu(a)                                 : n,4 \
    : has an output whose shape does not follow from its inputs : 17 : 2,5
y = Relu(a)                                 : ?                         : has an output whose shape is not known
y = Add(a, b)                               : n,4 | ?                   : has an operand 1 whose shape is not known
y = MatMul(a)                               : n,4                       : has an operand 1 whose shape is not known : 17 : 2,4
y = Expand(a, b)                            : 4 | n                     : uses values of samples as sizes
y = ConstantOfShape(a)                      : n                         : uses values of samples as sizes
y = Tile(a, b)                              : 4 | t                     : uses values of samples as sizes
y = Reshape(a, b)                           : n,4 | t                   : uses values of samples as sizes : 17 : 2,2,2,1,1
y = Transpose<perm = [0, 7]>(a)             : n,4                       : has operands or attributes that do not fit each other
y = Add(a, b)                               : n*t | t*n                 : has the samples on different axes of its inputs
y = Add(a, b)                               : n,4 | u,4                 : has the samples on different axes of its inputs
y = Add(a, b)                               : n,4 | 2,4                 : has a fixed size of 2 on an axis whose size is free
y = Add(a, b)                               : u,4 | 7,4                 : has a fixed size of 7 on an axis whose size is free
y = Softmax<axis = 0>(a)                    : n,4                       : works along the samples
y = Softmax(a)                              : 4,n                       : works along the samples
y = Softmax(a)                              : 4,n,6                     : works along the samples : 11
y = LogSoftmax<axis = 0>(a)                 : 4,n,6                     : works along the samples : 12
y = MeanVarianceNormalization(a)            : n,4,6,6                   : works along the samples
y = MeanVarianceNormalization(a)            : 4,6,n,6                   : works along the samples
y = MeanVarianceNormalization(a)            : 4,6,6,n                   : works along the samples
y = LayerNormalization(a, b)                : 4,6,n | 2                 : works along the samples
y = LayerNormalization<axis = 1>(a, b)      : 4,6,n | 6,2               : works along the samples
y = LayerNormalization(a, b)                : n,4,t | t                 : has a parameter that depends on free sizes
y = Conv(a, b)                              : 4,n,8,8 | 4,2,3,3         : works along the samples
y = Conv(a, b)                              : 4,3,8,n | 4,3,1,1         : works along the samples
y = Pad(a, b)                               : n,4 | [1 0 0 0]           : changes the number of samples
y, z = TopK(a, b)                           : 4,n | [1]                 : works along the samples
y, z = TopK<axis = 0>(a, b)                 : n,4 | [1]                 : works along the samples
y = CumSum(a, b)                            : 4,n | [-1]                : works along the samples
y = CumSum(a, b)                            : n,4 | [0]                 : works along the samples
y = CumSum(a, b)                            : n,4 | i1                  : works along the samples
y = BatchNormalization<training_mode = 1>(a, b, c, d, e) : n,3,4 | 3 | 3 | 3 | 3 \
    : takes its statistics from the samples of a batch
y = BatchNormalization(a, b, c, d, e)       : n,3,4 | 3 | 3 | 3 | 3     : takes its statistics from the samples of a batch : 6
y = BatchNormalization(a, b, c, d, e)       : 3,n,4 | 2 | 2 | 2 | 2     : works along the samples
y, z = MaxPool<kernel_shape = [3, 3]>(a)    : n,3,8,8                   : returns indices that count through all samples
y = MaxPool<kernel_shape = [1, 1]>(a)       : 3,n,8,8                   : works along the samples
y, z, w = DynamicQuantizeLinear(a)          : n,4                       : takes its scale from all samples of a batch
y = ReduceMean(a)                           : 4,n                       : reduces the samples of a batch
y = ReduceMean<axes = [-2]>(a)              : n,4                       : reduces the samples of a batch
y = ReduceSum(a, b)                         : n,4 | i1                  : reduces the samples of a batch
y = ArgMax(a)                               : n,4                       : reduces the samples of a batch
y = GlobalAveragePool(a)                    : 4,3,n,8                   : reduces the samples of a batch
y = GlobalLpPool(a)                         : 4,3,8,n                   : reduces the samples of a batch
y = MatMul(a, b)                            : 4,n | n,6                 : sums over the samples of a batch
y = MatMul(a, b)                            : n,t | 5,6                 : sums over a fixed size of 5 and a free size
y = MatMul(a, b)                            : n,4,6 | n,6               : sums over the samples of a batch
y = MatMul(a, b)                            : n,4 | 4,n                 : relates samples to each other
y = Gemm(a, b, c)                           : n,4 | 4,6 | 2,6           : has a fixed size of 2 on an axis whose size is free
y = Gemm<transA = 1>(a, b)                  : n,4 | n,6                 : sums over the samples of a batch
y = Einsum<equation = "ij,jk">(a, b)        : n,4 | 4,6                 :
y = Einsum<equation = "...j->...j">(a)      : n,4,6                     :
y = Squeeze(a)                              : u,1,4                     : removes an axis whose size is free
y = Squeeze(a, b)                           : 4,u | [-1]                : removes an axis whose size is free
y = Unsqueeze(a, b)                         : n,4 | i1                  : has axes that are not stated : 17 : 1,n,4
y = Reshape<shape = [2, 24]>(a)             : n,4,6                     : states its sizes as an attribute : 4 : 2,24
y = Reshape(a, b)                           : 2,t | [5 2]               : splits an axis whose size is free
y = Tile(a, b)                              : n,4 | i2                  : has repeats that are not stated : 17 : 2,12
y = Tile(a, b)                              : n,4 | [3]                 : has repeats that are not stated : 17 : 2,12
y = Concat<axis = 0>(a, b)                  : n,4 | 1,4                 : joins values along the samples
y = Concat<axis = 0>(a, b)                  : 1,4 | n,4                 : joins values along the samples
y = Concat<axis = 1>(a, b)                  : t,4 | 5,6                 : has a fixed size of 5 on an axis whose size is free
y, z = Split(a)                             : n,4                       : splits the samples
y, z = Split<axis = 1>(a, b)                : 4,t | [2 3] \
    : splits an axis whose size is free into parts of fixed sizes
y, z = Split<axis = 1, split = [2, 3]>(a)   : 4,t \
    : splits an axis whose size is free into parts of fixed sizes : 11
y = Slice(a, b, c)                          : n,4 | [0] | [1]           : takes some of the samples
y = Slice(a, b, c)                          : n,4 | [1] | [2]           : takes some of the samples
y = Slice(a, b, c, d, e)                    : n,4 | [0] | [2] | [0] | [2] : takes some of the samples
y = Slice(a, b, c)                          : n,4 | i1 | [2]            : has a start or end that is not stated
y = Slice(a, b, c, d)                       : 4,n | [0] | i1 | [1]      : has a start or end that is not stated
y = Slice<starts = [0], ends = [2], axes = [0]>(a) : n,4                : states its sizes as an attribute : 9
y = Gather(a, b)                            : n,4 | i3                  : selects samples by index
y = Gather<axis = -1>(a, b)                 : 4,n | i3                  : selects samples by index
y = GatherElements(a, b)                    : n,4 | in,4                : selects samples by index
y = GatherElements(a, b)                    : 3,4 | in,4                : selects samples by index
y = GatherElements<axis = 1>(a, b)          : n,4 | i2,3                : has a fixed size of 2 on an axis whose size is free
y = Resize(a, , , d)                        : n,2,t,4 | - | - | [2 2 12 8] \
    : has a fixed size of 12 on an axis whose size is free
y = Resize(a, , , d)                        : 4,n,4,4 | - | - | [4 2 8 8] : works along the samples
y = Resize(a, , , d)                        : 4,2,4,n | - | - | [4 2 8 4] : works along the samples
y = LSTM<hidden_size = 5>(a, b, c)          : n,4,6 | 1,20,6 | 1,20,5   : works along the samples
y = LSTM<hidden_size = 5>(a, b, c)          : 4,3,n | 1,20,2 | 1,20,5   : works along the samples
y = GRU<hidden_size = 5, layout = 1>(a, b, c) : 4,n,6 | 1,15,6 | 1,15,5 : works along the samples
y = GRU<hidden_size = 5>(a, b, c, , , f)    : 4,n,6 | 1,15,6 | 1,15,5 | - | - | 1,2,5 \
    : has different samples in its states and its sequence
y = GRU<hidden_size = 5>(a, b, c, , , f)    : 4,u,6 | 1,15,6 | 1,15,5 | - | - | n,1,5 \
    : has different samples in its states and its sequence
"""


def read_cases(table: str) -> list[tuple[Case, str]]:
    cases = []
    for line in table.strip().splitlines():
        text, operands, result, *more = [part.strip() for part in re.split(" :(?: |$)", line)]
        version, shapes = int(more[0]) if more else 17, more[1] if len(more) > 1 else ""
        parts = [part.strip() for part in operands.split("|")]
        cases.append((Case(text.replace("BODIES", BODIES), parts, shapes, version), result))
    return cases


@pytest.mark.parametrize(
    ("case", "result"),
    read_cases(FOLLOWED),
    ids=lambda each: "" if isinstance(each, str) else each.text,
)
def test_axes_rows_and_edits_of_an_operator(case: Case, result: str) -> None:
    assert find(case) == result


@pytest.mark.parametrize(
    ("case", "reason"),
    read_cases(REFUSED),
    ids=lambda each: "" if isinstance(each, str) else each.text,
)
def test_an_operator_without_a_rule_for_its_axes_is_refused(case: Case, reason: str) -> None:
    assert find(case) == f"refused: {reason}"


REGROUPED = """
n,4,6   : 2,24     : n,24
n,4,6   : 8,6      : n*4,6
n,4,6   : 48       : n*24
n,24    : 2,2,12   : n,2,12
2*n,6   : 2,2,3,2  : 2,n,3,2
4*t     : 2,10     : 2,2*t
4,n     : 8        : 4*n
u,4,6   : 1,24     : u,24
u,4,6   : 4,6      : u*4,6
4,u,6   : 4,6      : 4*u,6
4,u,6   : 4,1,6    : 4,u,6
4,u,6   : 4,2,3    : 4,u*2,3
4,u,6   : 24       : 4*u*6
4,u,3,2 : 4,3,2    : 4,u*3,2
4,u     : 4        : 4*u
4,u     : 4,1      : 4,u
u,4     : 1,4      : u,4
u,4     : 1,2,2    : u,2,2
u,u     : 1        : u*u
4,u,u   : 4,1      : 4,u*u
2,u,n   : 2,2      : 2*u,n
2,u,n   : 2,1,2    : 2,u,n
u       :          :
n,4,6   : 3,16     : splits an axis whose size is free
t,4     : 4,5      : splits an axis whose size is free
n       : 2,3      : splits an axis whose size is free
n,0,4   : 1,8      : splits an axis whose size is free
n,4     : 0,8      : splits an axis whose size is free
6       : 4        : splits an axis whose size is free
"""


@pytest.mark.parametrize("line", REGROUPED.strip().splitlines())
def test_a_reshape_keeps_the_factors_in_order(line: str) -> None:
    data, shape, result = (part.strip() for part in line.split(":"))
    sizes = [int(part) for part in shape.split(",") if part]
    try:
        found = show_axes(regroup(SizeTable(NUMBERS, ["n"], ["T"]), read_axes(data), sizes))
    except SizeRefusal as refusal:
        found = str(refusal)
    assert found == result


def test_a_size_that_follows_from_others_is_free_before_where_they_were() -> None:
    table = SizeTable(NUMBERS, ["n"], ["T"])
    assert table.derive(("T",), 7) == ("T",)
    assert table.derive((12,), 6) == (6,)
    assert table.derive((12,), 1) == ()
    before, new = table.derive(("T",), 3), table.derive(("t",), 3)
    assert (before, new, table.derive(("T",), 3)) == (("size 4",), ("size 5",), ("size 4",))
    assert (table.is_new(before), table.is_new(new)) == (False, True)
    assert (table.count(before), table.count((2, "t", 3))) == (3, 30)
    with pytest.raises(SizeRefusal, match=r"^changes the number of samples$"):
        table.derive((4, "n"), 3)


def test_samples_are_behind_the_same_factors_of_all_operands() -> None:
    table = SizeTable(NUMBERS, ["n"], ["T"])
    assert table.merge([(4, "n"), (4, "n", 3), ()]) == (4, "n", 3)
    assert table.merge([(), (3,), ()]) == (3,)
    rows: list[list[Axis]] = [[(4, "n"), (2, "n")], [("n", 4), (4, "n")], [("n",), ("t",)]]
    for row in rows:
        with pytest.raises(SizeRefusal, match=r"^has the samples on different axes of its inputs$"):
            table.merge(row)
