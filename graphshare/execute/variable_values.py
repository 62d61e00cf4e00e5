"""Values for the variables of a run: parameters from a file, inputs that were fed, and seeded ones for the rest."""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graphshare.analysis.roles import Role
from graphshare.analysis.shapes import Inference
from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Node
from graphshare.ir.walk import consumers
from graphshare.ops.draws import draw_in_blocks
from graphshare.ops.kernel import Array, KernelError
from graphshare.ops.registry import lookup
from graphshare.ops.unification import is_known, unify
from graphshare.text.format import format_shape


def draw_input(node: Node, shape: Sequence[int], dtype: str, *, seed: int, limit: int | None = None) -> Array:
    """Draw values from a stream of ``seed`` and the variable's name: standard normal, or integers below ``limit``."""
    stream = _stream_of(node, seed)
    if limit is not None or np.dtype(dtype).kind in "iub":
        return draw_in_blocks(lambda count: stream.integers(0, limit or 2, size=count), shape, dtype)
    return draw_in_blocks(stream.standard_normal, shape, dtype)


def draw_parameter(node: Node, shape: Sequence[int], dtype: str, *, seed: int) -> Array:
    """Draw values that keep a deep network in range: scaled by the inputs a unit has, variances and scales around one."""
    if np.dtype(dtype).kind in "iub":
        return draw_input(node, shape, dtype, seed=seed)
    stream = _stream_of(node, seed)
    if node.name.endswith(("gamma", "var")):
        return draw_in_blocks(lambda count: 1 + 0.1 * np.abs(stream.standard_normal(count)), shape, dtype)
    scale = np.sqrt(2.0 / max(1, int(np.prod(shape[1:])))) if len(shape) > 1 else 0.1
    return draw_in_blocks(lambda count: stream.standard_normal(count) * scale, shape, dtype)


def _stream_of(node: Node, seed: int) -> np.random.Generator:
    """Return the stream of a variable, by seed and name."""
    return np.random.default_rng([seed, zlib.crc32(node.name.encode("utf-8", "surrogateescape"))])


def index_limits(nodes: Iterable[Node]) -> dict[Node, int]:
    """Return the variables that are used as indices, with the number of rows that they may point at."""
    limits = {}
    for node, uses in consumers(nodes).items():
        for user, position in uses:
            signature = lookup(user.op) if node.is_variable else None
            if signature is not None and position in signature.index_bounds:
                limits[node] = int(user.attrs.get(signature.index_bounds[position], "1"))
    return limits


def unknown_shapes(inference: Inference, nodes: Iterable[Node]) -> list[Fault]:
    """Return a fault for each variable whose shape is not known, with the option to fill in."""
    faults = []
    for node in nodes:
        shape = inference.shapes[node][0]
        if not is_known(shape):
            hint = f"`shapes={{{node.name!r}: {shape}}}`" + ("" if shape else "  (fill in the whole shape)")
            faults.append(Fault(f"the shape of {node.name!r} does not follow from what is known", node=node.name, hint=hint))
    return faults


def check_shapes(values: Mapping[Node, Array], inference: Inference) -> None:
    """Check arrays against the shapes inferred for their variables, as far as they are known.

    Raises:
        RefusedError: an array has another shape; all are listed.
    """
    faults = []
    for node, array in values.items():
        wanted = inference.shapes.get(node, [None])[0]
        try:
            unify(wanted, array.shape)
        except KernelError:
            faults.append(
                Fault(
                    f"{node.name!r} has the shape {format_shape(array.shape)}, where {format_shape(wanted)} fits",
                    node=node.name,
                )
            )
    if faults:
        raise RefusedError(faults)


def convert_feed(node: Node, array: Array, dtype: str | None) -> Array:
    """Return ``array`` in the dtype of its variable; the array itself where it has that dtype, or where none is known.

    Raises:
        RefusedError: some numbers cannot be represented in an integer dtype.
    """
    if dtype is None or str(array.dtype) == dtype:
        return array
    result = array.astype(dtype)
    if np.dtype(dtype).kind in "iub" and not np.array_equal(result, array):
        message = f"{node.name!r} is {array.dtype}, and not all of its values are {dtype}"
        raise RefusedError(Fault(message, node=node.name, hint=f"give it as {dtype}"))
    return result


_ARRAYS = "give an array of numbers, or nested lists of one length"


def as_array(value: Any) -> Array:
    """Return ``value`` as an array: an array unchanged, numbers and nested lists as a new one.

    Raises:
        RefusedError: numpy cannot make an array of numbers of it.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise RefusedError(Fault(f"a {type(value).__name__} is not an array: {error}", hint=_ARRAYS)) from None
    if array.dtype.kind not in "fiub":
        raise RefusedError(Fault(f"a {type(value).__name__} of {array.dtype} is not an array of numbers", hint=_ARRAYS))
    return array


def as_arrays(feeds: Mapping[str, Any] | None) -> dict[str, Array]:
    """Return what is fed by name as arrays: images are decoded, lists converted. Raises RefusedError as :func:`as_array`."""
    return {name: as_array(value) for name, value in (feeds or {}).items()}


def random_stream(seed: int) -> np.random.Generator:
    """Return the random stream that operators draw from."""
    return np.random.default_rng(seed)


def draw_parameters(nodes: Iterable[Node], inference: Inference, *, seed: int) -> dict[Node, Array]:
    """Draw values of the parameters ``nodes``, whose shapes are known."""
    return {node: draw_parameter(node, *_shape_and_dtype(node, inference), seed=seed) for node in nodes}


def draw_inputs(
    nodes: Sequence[Node], values: Container[Node], inference: Inference, roles: Mapping[Node, Role], *, seed: int
) -> dict[Node, Array]:
    """Draw values of the variables among ``nodes`` that have none in ``values``; labels and RNN states are zeros."""
    limits = index_limits(nodes)
    drawn = {}
    for node in nodes:
        if node.is_variable and node not in values:
            shape, dtype = _shape_and_dtype(node, inference)
            role = roles.get(node)
            if role is not None and (role.is_label or role.is_state):
                drawn[node] = np.zeros(shape, dtype)
            else:
                drawn[node] = draw_input(node, shape, dtype, seed=seed, limit=limits.get(node))
    return drawn


def _shape_and_dtype(node: Node, inference: Inference) -> tuple[tuple[int, ...], str]:
    return tuple(d or 0 for d in inference.shapes[node][0] or ()), inference.types[node][0] or "float32"
