"""Unification of partly known shapes and dtypes, and shared inference rules."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

from graphshare.ops.kernel import (
    Attrs,
    Dim,
    Dims,
    KernelError,
    Shape,
    ShapeRule,
    Shapes,
    TypeRule,
    Types,
)
from graphshare.text.format import format_count, format_shape


def unify(a: Shape, b: Shape) -> Shape:
    """Unify two partial shapes.

    Raises:
        KernelError: they contradict each other.
    """
    if a is None or b is None:
        return b if a is None else a
    if a == b:
        return a
    if len(a) == len(b):
        unified = tuple([y if x is None else x for x, y in zip(a, b, strict=True)])
        if all(y is None or x == y for x, y in zip(unified, b, strict=True)):
            return unified
    raise KernelError(f"{format_shape(a)} does not fit {format_shape(b)}")


def contradict(one: object, other: object) -> bool:
    """Return whether two sizes, or dtypes, are known and differ."""
    return one is not None and other is not None and one != other


def exceeds(size: Dim, limit: Dim) -> bool:
    """Return whether both sizes are known, and the first is larger."""
    return size is not None and limit is not None and size > limit


def is_known(shape: Shape) -> bool:
    """Whether every dimension is known."""
    return shape is not None and None not in shape


def dims_of_rank(shape: Shape, rank: int, what: str = "") -> Dims:
    """Return a shape's dimensions; ``what`` names the array in the error.

    Raises:
        KernelError: its rank is not ``rank``.
    """
    if shape is None:
        return (None,) * rank
    if len(shape) != rank:
        raise KernelError(
            f"{what or format_shape(shape)} has {format_count(len(shape), 'axis')}, expected {rank}"
        )
    return shape


def count_elements(shape: Shape) -> Dim:
    """Count elements; None for unknown and named dimensions (ONNX)."""
    if shape is None or any(d is None or isinstance(d, str) for d in shape):
        return None
    return prod(d for d in shape if d is not None)


def normalize_axis(axis: int, rank: int) -> int:
    """Return ``axis`` counted from the front.

    Raises:
        KernelError: there is no such axis.
    """
    if not -rank <= axis < rank:
        raise KernelError(f"axis {axis} of an array with {format_count(rank, 'axis')}")
    return axis % rank


def with_dim(shape: Dims, axis: int, size: Dim) -> Dims:
    """Replace the size along ``axis``, counted from the front."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def without_axes(shape: Dims, axes: Collection[int]) -> Dims:
    """Remove these axes, counted from the front."""
    return tuple([size for axis, size in enumerate(shape) if axis not in axes])


def sum_if_known(numbers: Sequence[int | None]) -> int | None:
    """Return the sum; None unless all are known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


def output_rule(shape_of: Callable[..., Shape]) -> ShapeRule:
    """Return a rule for the only output, ``shape_of(attrs, *shapes)`` of known ranks."""

    def infer(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        return inputs, outputs if None in inputs else [unify(shape_of(attrs, *inputs), outputs[0])]

    return infer


def attribute_rule(shape_of: Callable[[Attrs], Shape]) -> ShapeRule:
    """Return a rule for the only output: ``shape_of(attrs)``."""
    return lambda attrs, inputs, outputs: (inputs, [unify(shape_of(attrs), outputs[0])])


def infer_nothing(attrs: Attrs, inputs: Any, outputs: Any) -> tuple[Any, Any]:
    """Return shapes or dtypes unchanged."""
    return inputs, outputs


def same_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer one shape for all inputs and outputs."""
    shape: Shape = None
    for other in (*inputs, *outputs):
        shape = unify(shape, other)
    return [shape] * len(inputs), [shape] * len(outputs)


def broadcast_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output of broadcast inputs, aligned at the last axis."""
    known = [shape for shape in inputs if shape is not None]
    if len(known) < len(inputs):
        return inputs, outputs
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    broadcast = tuple(_broadcast_dim(column) for column in zip(*padded, strict=True))
    return inputs, [unify(broadcast, outputs[0])]


def _broadcast_dim(column: Sequence[Dim]) -> Dim:
    wide = {d for d in column if d is not None and d != 1}
    if len(wide) > 1:
        raise KernelError(
            f"sizes {' and '.join(map(str, sorted(wide)))} cannot be broadcast together"
        )
    if wide:
        return wide.pop()
    # Beside 1 an unknown size is not determined.
    return None if None in column else 1


def same_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for all inputs and outputs.

    Raises:
        KernelError: they differ.
    """
    known = {dtype for dtype in (*inputs, *outputs) if dtype is not None}
    if len(known) > 1:
        raise KernelError(f"dtypes {' and '.join(sorted(known))} do not fit")
    dtype = known.pop() if known else None
    return [dtype] * len(inputs), [dtype] * len(outputs)


def same_floating_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one floating-point dtype for all inputs and outputs.

    Raises:
        KernelError: they differ, or are not floating point.
    """
    inputs, outputs = same_dtypes(attrs, inputs, outputs)
    if inputs[0] is not None and not inputs[0].startswith("float"):
        raise KernelError(f"the inputs are {inputs[0]}, expected floating point")
    return inputs, outputs


def demand_dtypes(rule: TypeRule) -> TypeRule:
    """Return ``rule`` with :func:`require_dtypes` for all inputs."""

    def infer(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        wanted, results = rule(attrs, inputs, outputs)
        require_dtypes(inputs, wanted)
        return wanted, results

    return infer


def require_dtypes(inputs: Types, wanted: Types) -> None:
    """Refuse inputs whose dtypes differ from the inferred ones, ``wanted``.

    Raises:
        KernelError: for the first such input.
    """
    for number, (dtype, other) in enumerate(zip(inputs, wanted, strict=True)):
        if contradict(dtype, other):
            raise KernelError(f"input {number} is {dtype}, expected {other}")


def dtype_rule(dtype: str) -> TypeRule:
    """Return a rule: the only output has ``dtype``."""
    return lambda attrs, inputs, outputs: (inputs, [dtype])


def compare_dtypes(dtype: str) -> TypeRule:
    """Return a rule: one dtype for all inputs, ``dtype`` for the only output."""
    return lambda attrs, inputs, outputs: (same_dtypes(attrs, inputs, [])[0], [dtype])


def dtype_from_attribute(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the only output's dtype from the attribute ``dtype``."""
    return inputs, [attrs["dtype"]]


def first_dtype(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the first input's dtype for the outputs; other inputs are free.

    Raises:
        KernelError: an output has another dtype.
    """
    (dtype,), results = same_dtypes(attrs, inputs[:1], outputs)
    return [dtype, *inputs[1:]], results
