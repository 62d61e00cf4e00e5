"""Limits of kernels: the dtypes, ranks, sizes, numbers and attributes that they support.

Within the limits any exception but :class:`KernelError` is a bug; outside of them the inputs are
refused. Limits are checked only after a failure, so a kernel may compute some of the inputs that
they exclude.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from graphshare.ops.arrays import Array, Attrs, KernelError, Shape, Shapes, Types
from graphshare.resources import describe_excess
from graphshare.text.format import format_bytes, format_count, format_shape

FLOATS = ("float16", "float32", "float64")
LAPACK = ("float32", "float64")
SIGNED = (*FLOATS, "int8", "int32", "int64")
NUMBERS = (*SIGNED, "uint8")
MAX_RANK = 32
"""The largest number of axes, in MXNet as in numpy 1."""
QUANTIZED = ("int8", "uint8")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs and attributes that a kernel supports.

    ``dtypes`` apply to all inputs, ``first`` to the first one (empty: all dtypes). ``rank`` is the
    least rank of inputs, ``ranks`` the allowed ones for the first. ``elements``: inputs must have
    elements; ``finite``: no NaN or infinity. ``positive`` attributes (all members of a tuple) must
    be at least 1, ``not_negative`` ones at least 0, ``above`` ones above 0. Results must have no
    negative size.
    """

    dtypes: Sequence[str] = ()
    first: Sequence[str] = ()
    rank: int = 0
    ranks: Sequence[int] = ()
    elements: bool = False
    finite: bool = False
    positive: Sequence[str] = ()
    not_negative: Sequence[str] = ()
    above: Sequence[str] = ()

    def violation(
        self, attrs: Attrs, shapes: Shapes, dtypes: Types, arrays: Sequence[Array] = ()
    ) -> str | None:
        """Describe the first violation, or return None. Unknown shapes and dtypes pass."""
        violation = (
            self._attribute_violation(attrs)
            or self._dtype_violation(dtypes)
            or self._shape_violation(shapes)
        )
        if violation is None and self.finite and not all(map(_is_finite, arrays)):
            return "expected finite numbers"
        return violation

    def _attribute_violation(self, attrs: Attrs) -> str | None:
        for keys, least in ((self.positive, 1), (self.not_negative, 0)):
            for key in keys:
                if any(number < least for number in _numbers(attrs.get(key))):
                    return f"{key} is {attrs[key]}, expected at least {least}"
        for key in self.above:
            if any(number <= 0 for number in _numbers(attrs.get(key))):
                return f"{key} is {attrs[key]}, expected more than 0"
        return None

    def _dtype_violation(self, dtypes: Types) -> str | None:
        for allowed, those in ((self.first, dtypes[:1]), (self.dtypes, dtypes)):
            if not allowed:
                continue
            for dtype in those:
                if dtype is not None and dtype not in allowed:
                    return f"{dtype} is not supported, expected {', '.join(allowed)}"
        return None

    def _shape_violation(self, shapes: Shapes) -> str | None:
        known = [shape for shape in shapes if shape is not None]
        for shape in known:
            if len(shape) < self.rank:
                return f"{format_shape(shape)} has {format_count(len(shape), 'axis')}, expected at least {self.rank}"
            if self.elements and 0 in shape:
                return f"{format_shape(shape)} has no elements"
        first = shapes[0] if shapes else None
        if self.ranks and first is not None and len(first) not in self.ranks:
            return (
                f"{format_shape(first)} has {format_count(len(first), 'axis')}, "
                f"expected {' or '.join(map(str, self.ranks))}"
            )
        return None


class _Limited(Protocol):
    """A kernel; its module imports this one."""

    @property
    def limits(self) -> Limits | None: ...


T = TypeVar("T", bound=_Limited)


def with_limits(limits: Limits, *kernels: T) -> tuple[T, ...]:
    """Return ``kernels`` with ``limits``, except those with their own."""
    return tuple(
        k if k.limits is not None else msgspec.structs.replace(k, limits=limits)  # type: ignore[type-var]
        for k in kernels
    )


def impossible_shape(shapes: Iterable[Shape]) -> str | None:
    """Describe the first of ``shapes`` that no array can have."""
    for shape in shapes:
        if shape is None:
            continue
        if len(shape) > MAX_RANK:
            return f"an array would have {format_count(len(shape), 'axis')}, more than {MAX_RANK}"
        for size in shape:
            # numpy's sizes have 63 bits; its error would lack the node's name.
            if size is not None and not 0 <= size < 1 << 63:
                return f"an array would have the shape {format_shape(shape)}"
    return None


def check_filters(filters: int, groups: int) -> None:
    """Refuse a number of filters that is negative or not divisible by ``groups``.

    Raises:
        KernelError: with the attribute's name.
    """
    require(filters < 1 << 31, f"num_filter is {filters}, which is a negative number modulo 2**32")
    require(groups, "num_group is 0")
    require(filters % groups == 0, f"num_filter {filters} is not a multiple of num_group {groups}")


def negative_size(shapes: Sequence[Shape]) -> str | None:
    """Describe the first of ``shapes`` with a negative size, if any."""
    for shape in shapes:
        if any(size is not None and size < 0 for size in shape or ()):
            return f"the result would have the shape {format_shape(shape)}"
    return None


def lie_within(numbers: Array, least: int, greatest: int) -> bool:
    """Return whether all whole ``numbers`` are from ``least`` to ``greatest``."""
    if not numbers.size:
        return True
    return bool(numbers.min() >= least and numbers.max() <= greatest)


def _is_finite(array: Array) -> bool:
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


def _numbers(value: Any) -> list[Any]:
    members = value if isinstance(value, (tuple, list)) else [value]
    return [member for member in members if isinstance(member, (int, float))]


@contextmanager
def refuse_invalid_call() -> Iterator[None]:
    """Turn an error of one enclosed numpy call on users' values into a KernelError."""
    try:
        yield
    except (ValueError, IndexError, TypeError) as error:
        raise KernelError(str(error)) from None


def require_memory(count: int) -> None:
    """Refuse ``count`` bytes of scratch (not in inferred shapes) beyond the memory limit.

    Raises:
        KernelError: with the bytes, the limit and the option that sets it.
    """
    excess = describe_excess(count)
    if excess:
        raise KernelError(
            f"it needs {format_bytes(count)} beside its results, {excess} (`max_memory`)"
        )


def require(condition: object, message: str) -> None:
    """Raise unless ``condition`` holds.

    Raises:
        KernelError: with ``message``.
    """
    if not condition:
        raise KernelError(message)
