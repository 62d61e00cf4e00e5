"""The definition of a kernel. Kernels do not know graphs: they take attributes typed by
:meth:`graphshare.ops.signature.Signature.parse`, shapes, arrays and a context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np

from graphshare.ops.arrays import NP_SHAPE as NP_SHAPE
from graphshare.ops.arrays import Array as Array
from graphshare.ops.arrays import Attrs as Attrs
from graphshare.ops.arrays import Dim as Dim
from graphshare.ops.arrays import Dims as Dims
from graphshare.ops.arrays import KernelError as KernelError
from graphshare.ops.arrays import Shape as Shape
from graphshare.ops.arrays import Shapes as Shapes
from graphshare.ops.arrays import Types as Types
from graphshare.ops.folding import ChannelScaling, LinearLayer
from graphshare.ops.limits import Limits

RunSubgraph = Callable[[int, Sequence[Array]], list[Array]]
Once = Callable[[Sequence[int], Any, Callable[[], Any]], Any]


def compute_now(positions: Sequence[int], key: Any, compute: Callable[[], Any]) -> Any:
    """Return ``compute()`` without keeping it."""
    return compute()


class Context(msgspec.Struct):
    """The context that a run provides to a kernel.

    ``reusable[i]``: the result may overwrite input ``i``, which has its last use here.
    ``num_outputs`` counts the requested outputs. ``run_subgraph(i, arrays)`` runs subgraph ``i`` on
    arrays for its variables, in their own order, and returns its heads. ``shapes`` are inferred
    output shapes (empty without inference), for operators whose shape only inference knows
    (``_zeros`` of ``(2, 0, 200)``, or without axes under NumPy shapes). ``empty(shape, dtype)``
    allocates large results and scratch in reused buffers. ``inner`` are the first subgraph's
    operators with attributes, inputs before users. ``once(positions, key, compute)`` is
    ``compute()``, which must depend only on ``key`` and the inputs at ``positions``: for parameters
    of a bound graph only the first call computes it.
    """

    training: bool = False
    rng: np.random.Generator | None = None
    reusable: tuple[bool, ...] = ()
    num_outputs: int = 1
    run_subgraph: RunSubgraph | None = None
    shapes: Shapes = ()
    empty: Callable[[Sequence[int], Any], Array] = np.empty
    inner: Sequence[tuple[str, Attrs]] = ()
    once: Once = compute_now


class Bodies(Protocol):
    """A node's subgraphs: operators, and inference in both directions.

    ``variables`` are in the order in which ``run_subgraph`` takes arrays.
    """

    def operators(self, number: int) -> Sequence[tuple[str, Attrs]]: ...
    def shapes(self, number: int, variables: Shapes, heads: Shapes) -> tuple[Shapes, Shapes]: ...
    def types(self, number: int, variables: Types, heads: Types) -> tuple[Types, Types]: ...


class KernelResult(NamedTuple):
    """The result of a forward pass that returns more than outputs.

    ``updates`` are new values of mutated inputs, by position; ``residuals`` serve a backward pass.
    """

    outputs: tuple[Array, ...]
    updates: Mapping[int, Array] = {}
    residuals: Any = None


Forward = Callable[..., "Array | tuple[Array, ...] | KernelResult"]
ShapeRule = Callable[[Attrs, Shapes, Shapes], "tuple[Shapes, Shapes]"]

Sizes = Sequence[tuple[int, ...]]
"""Fully known shapes."""
Cost = Callable[[Attrs, Sizes, Sizes], int]
BodyCost = Callable[[Attrs, Shapes, Callable[[int, Shapes], "int | None"]], "int | None"]
TypeRule = Callable[[Attrs, Types, Types], "tuple[Types, Types]"]
BodyShapeRule = Callable[[Attrs, Shapes, Shapes, Bodies], "tuple[Shapes, Shapes]"]
Direct = Callable[[Attrs, Sequence[str]], "Callable[..., Array] | None"]
BodyTypeRule = Callable[[Attrs, Types, Types, Bodies], "tuple[Types, Types]"]


class Normalize(msgspec.Struct, frozen=True):
    """BatchNorm with these attributes; the chain gets its other inputs too."""

    attrs: Attrs


class Add(msgspec.Struct, frozen=True):
    """Add an array of the same shape; the chain gets it as an input."""


class Clip(msgspec.Struct, frozen=True):
    """Clipping to bounds; None for no bound."""

    low: float | None = None
    high: float | None = None


RELU = Clip(low=0.0)

Operation = Normalize | Add | Clip
Epilogue = Callable[[Attrs], Operation | None]
Extend = Callable[[Attrs, Operation, int], "tuple[Kernel, Attrs] | None"]


class Kernel(msgspec.Struct, frozen=True):
    """How one operator computes.

    ``forward(context, attrs, *inputs)`` returns an array, several, or a :class:`KernelResult`.
    ``shapes(attrs, inputs, outputs)`` and ``types`` take the known facts about inputs and visible
    outputs and return all that follow, in both directions, or raise :class:`KernelError` for a
    contradiction. They are called again when more is known. ``body_shapes`` and ``body_types``
    replace them for nodes with subgraphs. ``refuses(attrs, bodies)`` returns, before anything runs,
    why a node cannot be run although it has a kernel, else None.

    ``cost(attrs, inputs, outputs)`` counts multiply-adds (one product added to a sum) from known
    shapes, for operators that multiply matrices or windows. ``body_cost(attrs, inputs, cost_of)``
    does so for subgraphs; ``cost_of(i, shapes)`` is the cost of subgraph ``i`` for its variables'
    shapes, in their own order. None is a cost that a missing shape leaves unknown.

    ``limits`` state which inputs the kernel does not compute; see :mod:`graphshare.ops.limits`.

    ``direct(attrs, dtypes)`` returns a function of the arrays alone, or None. For these dtypes it
    returns the bits of ``forward``, and a result with axes as a new array in C order; numpy's
    warnings are off. It serves results so small that finding a buffer takes longer than computing.

    For ``linear`` and ``scaling`` see :mod:`graphshare.ops.folding`.

    The rest is for fusion; each returns None where it is not possible. ``epilogue(attrs)`` is the
    operation applied to a preceding operator's result; ``begin(attrs)`` is the operator as a chain
    of one; ``extend(attrs, operation, place)`` is the kernel, with attributes, for this chain and
    then ``operation``, whose input ``place`` is the chain's result. Its inputs are the chain's,
    then the operation's others.
    """

    operator: str
    forward: Forward
    shapes: ShapeRule
    types: TypeRule
    body_shapes: BodyShapeRule | None = None
    body_types: BodyTypeRule | None = None
    refuses: Callable[[Attrs, Bodies], str | None] | None = None
    cost: Cost | None = None
    body_cost: BodyCost | None = None
    limits: Limits | None = None
    direct: Direct | None = None
    linear: LinearLayer | None = None
    scaling: ChannelScaling | None = None
    epilogue: Epilogue | None = None
    begin: Callable[[Attrs], tuple[Kernel, Attrs] | None] | None = None
    extend: Extend | None = None


def reuse_buffer(context: Context, *inputs: Array, dtype: Any = None) -> Array | None:
    """Return the first reusable buffer that fits an elementwise result, or None."""
    shape, result_dtype = _shape_and_dtype(inputs, dtype)
    for x, reusable in zip(inputs, context.reusable, strict=False):
        # Parameters from a file and broadcast views are not writeable.
        if reusable and x.shape == shape and x.dtype == result_dtype and x.flags.writeable:
            return x
    return None


def result_buffer(context: Context, *inputs: Array, dtype: Any = None) -> Array:
    """Return a reusable input's buffer for an elementwise result, or a new array."""
    over = reuse_buffer(context, *inputs, dtype=dtype)
    return context.empty(*_shape_and_dtype(inputs, dtype)) if over is None else over


def _shape_and_dtype(inputs: tuple[Array, ...], dtype: Any) -> tuple[tuple[int, ...], Any]:
    first, last = inputs[0], inputs[-1]
    if (
        dtype is None
        and first.dtype == last.dtype
        and last.shape in (first.shape, ())
        and len(inputs) <= 2
    ):
        return first.shape, first.dtype  # the usual case, at a tenth of the time
    shape = np.broadcast_shapes(*(x.shape for x in inputs)) if len(inputs) > 1 else inputs[0].shape
    return shape, np.result_type(*inputs) if dtype is None else np.dtype(dtype)
