"""Values for the variables of a run: parameters from a file, feeds, and seeded values for the rest.

First values of parameters follow from ``__init__`` or the name's ending, as in MXNet's Module.
Random ones have a stream per seed and name, so the order of draws does not matter.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import zip_longest
from math import prod, sqrt
from typing import Any

import msgspec
import numpy as np

from graphshare.analysis.roles import LABEL_FORMALS, Role
from graphshare.errors import Fault, RefusedError
from graphshare.execute.prepare.feeds import GivenShape
from graphshare.formats.params.array_files import ValueFile
from graphshare.formats.params.narrow_dtypes import is_floating, is_number, name_dtype, widen
from graphshare.ir.graph import EMPTY, Graph, Node
from graphshare.ir.walk import consumers
from graphshare.ops.conversion import draw_in_blocks
from graphshare.ops.gradient import Gradient
from graphshare.ops.inference import Inference, choose_sizes, infer
from graphshare.ops.kernel import Array, KernelError
from graphshare.ops.registry import find_gradient, lookup, name_inputs
from graphshare.ops.unification import is_known, unify
from graphshare.text.format import format_names, format_shape


def draw_input(
    node: Node, shape: Sequence[int], dtype: str, *, seed: int, limit: int | None = None
) -> Array:
    """Draw from the stream of ``seed`` and the node's name: standard normal, or integers below ``limit``."""
    stream = _open_stream(node, seed)
    if limit is not None or np.dtype(dtype).kind in "iub":
        return draw_in_blocks(
            lambda count: stream.integers(0, limit or 2, size=count), shape, dtype
        )
    return draw_in_blocks(stream.standard_normal, shape, dtype)


def draw_parameter(node: Node, shape: Sequence[int], dtype: str, *, seed: int) -> Array:
    """Draw values that keep a deep network in range: by fan-in, variances and scales around 1."""
    if np.dtype(dtype).kind in "iub":
        return draw_input(node, shape, dtype, seed=seed)
    stream = _open_stream(node, seed)
    if node.name.endswith(("gamma", "var")):
        return draw_in_blocks(
            lambda count: 1 + 0.1 * np.abs(stream.standard_normal(count)), shape, dtype
        )
    # He's initialization keeps the variance through layers with relu.
    scale = np.sqrt(2.0 / max(1, int(np.prod(shape[1:])))) if len(shape) > 1 else 0.1
    return draw_in_blocks(lambda count: stream.standard_normal(count) * scale, shape, dtype)


def _open_stream(node: Node, seed: int) -> np.random.Generator:
    # crc32, because hash() differs from process to process.
    return np.random.default_rng([seed, zlib.crc32(node.name.encode("utf-8", "surrogateescape"))])


def index_limits(nodes: Iterable[Node]) -> dict[Node, int]:
    """Return the variables used as indices, with the number of rows to select from."""
    limits = {}
    for node, uses in consumers(nodes).items():
        if not node.is_variable:
            continue
        for user, position in uses:
            signature = lookup(user.op)
            if signature is not None and position in signature.index_bounds:
                limits[node] = int(user.attrs.get(signature.index_bounds[position], "1"))
    return limits


def largest_integer(dtype: str) -> int:
    """Return the number up to which a dtype has every integer."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return 1
    if kind in "iu":
        return int(np.iinfo(dtype).max)
    # A float's mantissa has one bit more than it stores.
    return 2 << int(np.finfo(dtype).nmant)


def find_idle_labels(part: Graph, roles: Mapping[Node, Role]) -> list[Node]:
    """Return labels that only losses need: inference ignores them, so any size will do."""
    labels = [node for node, role in roles.items() if role.is_label]
    if not labels:
        return labels
    needed: set[Node] = set()
    pending = [entry.node for entry in part.heads]
    while pending:
        node = pending.pop()
        if node in needed:
            continue
        needed.add(node)
        formals: Sequence[str] = ()
        if not node.is_variable:
            gradient = find_gradient(node.op)
            if isinstance(gradient, Gradient) and gradient.is_loss:
                formals = name_inputs(node) or ()
        named = zip_longest(node.inputs, formals[: len(node.inputs)])
        pending += [entry.node for entry, formal in named if formal not in LABEL_FORMALS]
    return [node for node in labels if node not in needed]


def unknown_shapes(
    inference: Inference, nodes: Iterable[Node], examples: Mapping[Node, Sequence[int]] = EMPTY
) -> list[Fault]:
    """Return a fault for each unknown shape, with an option to give it."""
    faults = []
    for node in nodes:
        shape = inference.shapes[node][0]
        if is_known(shape):
            continue
        sizes = "(?, ...)"
        if shape is not None:
            sizes = str(tuple("?" if n is None else n for n in shape)).replace("'", "")
        hint = f"`shapes={{{node.name!r}: {sizes}}}` with a size that you choose for each ?, as in 1,3,224,224"
        if node in examples:
            hint = f"choose its sizes, as in `shapes={{{node.name!r}: {tuple(examples[node])}}}`"
        message = f"the shape of {node.name!r} cannot be inferred"
        faults.append(Fault(message, node=node.name, hint=hint))
    return faults


def refuse_unknown_shapes(
    inference: Inference,
    nodes: Sequence[Node],
    roles: Mapping[Node, Role],
    examples: Mapping[Node, Sequence[int]],
) -> None:
    """Raise RefusedError for the faults of :func:`unknown_shapes`."""
    # Labels' shapes follow from inputs, so they are listed only if all else is known.
    faults = unknown_shapes(
        inference, [node for node in nodes if not roles[node].is_label], examples
    )
    faults = faults or unknown_shapes(inference, nodes, examples)
    if faults:
        raise RefusedError(faults)


def check_shapes(shapes: Mapping[Node, GivenShape], inference: Inference) -> None:
    """Compare shapes with the known parts of inferred ones.

    Raises:
        RefusedError: shapes that do not fit; all are listed.
    """
    if faults := _find_misfits(shapes, inference):
        raise RefusedError(faults)


def _find_misfits(shapes: Mapping[Node, GivenShape], inference: Inference) -> list[Fault]:
    faults = []
    for node, shape in shapes.items():
        wanted = inference.shapes.get(node, [None])[0]
        try:
            unify(wanted, shape)
        except KernelError:
            message = f"{node.name!r} has the shape {format_shape(shape)}, which does not fit {format_shape(wanted)}"
            faults.append(Fault(message, node=node.name))
    return faults


def infer_given(
    part: Graph,
    held: Mapping[Node, GivenShape],
    stated: Mapping[Node, GivenShape],
    types: Mapping[Node, str],
    *,
    nodes: Sequence[Node],
    yielding: Mapping[Node, str] = EMPTY,
) -> Inference:
    """Infer from shapes ``held`` in files and ``stated`` by the user.

    Raises:
        RefusedError: shapes contradict each other; if those in files do not, the user's are named,
            with shapes that fit.
    """
    try:
        return infer(part, {**held, **stated}, types, nodes=nodes, yielding=yielding, held=held)
    except RefusedError as error:
        if not stated:
            raise
        # Inference without the user's shapes gives fitting sizes.
        free = infer(part, held, types, nodes=nodes, yielding=None, held=held)
        _, fitting = choose_sizes(free)
        options = [
            f"`shapes={{{node.name!r}: {tuple(fitting[node])}}}`"
            for node in stated
            if node in fitting
        ]
        hint = f"sizes that fit: {' '.join(options)}" if options else ""
        cause = "; ".join(fault.message for fault in _find_misfits(stated, free))
        if not cause:
            sizes = (f"{node.name!r} {format_shape(shape)}" for node, shape in stated.items())
            cause = f"at {format_names(sizes, 4)}"
        faults = [
            msgspec.structs.replace(f, message=f"{cause}: {f.message}", hint=f.hint or hint)
            for f in error.faults
        ]
        raise RefusedError(faults) from None


def convert_feed(name: str, array: Array, dtype: str | None) -> Array:
    """Return ``array`` in its variable's dtype; unchanged if that is the same or unknown.

    Raises:
        RefusedError: some numbers cannot be represented in an integer dtype.
    """
    if dtype is None or str(array.dtype) == dtype:
        return array
    result = array.astype(dtype)
    is_whole = is_number(result.dtype) and not is_floating(result.dtype)
    if is_whole and not np.array_equal(widen(result), widen(array)):
        wanted = name_dtype(result.dtype)
        message = (
            f"{name!r} is {name_dtype(array.dtype)}, and not all of its values fit into {wanted}"
        )
        raise RefusedError(Fault(message, node=name, hint=f"give it as {wanted}"))
    return result


_ARRAYS = "give an array of numbers, or nested lists of one length"


def as_array(value: Any) -> Array:
    """Return ``value`` as an array: an array unchanged, numbers and nested lists as a new one.

    Raises:
        RefusedError: numpy cannot make an array of numbers of it.
    """
    if isinstance(value, ValueFile):
        value = value.read()
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise RefusedError(
            Fault(f"a {type(value).__name__} is not an array: {error}", hint=_ARRAYS)
        ) from None
    # Some packages' own types look like numpy's floats of 8 bits.
    if array.dtype.kind not in "fiub" or array.dtype.isbuiltin == 2:
        raise RefusedError(
            Fault(
                f"a {type(value).__name__} of {array.dtype} is not an array of numbers",
                hint=_ARRAYS,
            )
        )
    return array


def as_arrays(feeds: Mapping[str, Any] | None) -> dict[str, Array]:
    """Return fed values as arrays, with images decoded. Raises RefusedError as :func:`as_array`."""
    return {name: as_array(value) for name, value in (feeds or {}).items()}


def random_stream(seed: int) -> np.random.Generator:
    """Return the random stream of operators."""
    return np.random.default_rng(seed)


def draw_parameters(nodes: Iterable[Node], inference: Inference, *, seed: int) -> dict[Node, Array]:
    """Draw values of parameters with known shapes."""
    return {
        node: draw_parameter(node, *_shape_and_dtype(node, inference), seed=seed) for node in nodes
    }


def draw_inputs(
    nodes: Sequence[Node],
    values: Container[Node],
    inference: Inference,
    roles: Mapping[Node, Role],
    *,
    seed: int,
) -> dict[Node, Array]:
    """Draw the variables without a value in ``values``; labels and RNN states are zeros."""
    limits = index_limits(nodes)
    drawn = {}
    for node in nodes:
        if not node.is_variable or node in values:
            continue
        shape, dtype = _shape_and_dtype(node, inference)
        role = roles.get(node)
        if role is not None and role.is_optional:
            drawn[node] = np.zeros(shape, dtype)
        else:
            drawn[node] = draw_input(node, shape, dtype, seed=seed, limit=limits.get(node))
    return drawn


def _shape_and_dtype(node: Node, inference: Inference) -> tuple[tuple[int, ...], str]:
    shape, dtype = inference.shapes[node][0], inference.types[node][0]
    return tuple(size or 0 for size in shape or ()), dtype or "float32"


_Make = Callable[[Mapping[str, Any], "tuple[int, ...]", np.random.Generator], Any]


def _uniform(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.uniform(-scale, scale, shape)


def _xavier(options: Mapping[str, Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if len(shape) < 2:
        raise ValueError(f"xavier needs two axes or more, and the shape is {shape}")
    window = prod(shape[2:])
    fan_in, fan_out = shape[1] * window, shape[0] * window
    factor = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}[
        options.get("factor_type", "avg")
    ]
    scale = sqrt(options.get("magnitude", 3) / factor)
    if options.get("rnd_type", "uniform") == "gaussian":
        return rng.normal(0, scale, shape)
    return _uniform(scale, shape, rng)


def _msra(options: Mapping[str, Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    slope, kind = options.get("slope", 0.25), options.get("factor_type", "avg")
    return _xavier(
        {"rnd_type": "gaussian", "factor_type": kind, "magnitude": 2 / (1 + slope**2)}, shape, rng
    )


def _bilinear(
    options: Mapping[str, Any], shape: tuple[int, ...], rng: np.random.Generator
) -> Array:
    """Return the weights with which a deconvolution enlarges an image."""
    # MXNet takes half of the width for the rows, too.
    half = -(-shape[3] // 2)
    centre = (2 * half - 1 - half % 2) / (2.0 * half)
    columns = 1 - np.abs(np.arange(shape[3]) / half - centre)
    rows = 1 - np.abs(np.arange(shape[2]) / half - centre)
    weights: Array = np.broadcast_to(np.outer(rows, columns), shape).copy()
    return weights


_MAKERS: dict[str, _Make] = {
    "zero": lambda options, shape, rng: np.zeros(shape),
    "zeros": lambda options, shape, rng: np.zeros(shape),
    "one": lambda options, shape, rng: np.ones(shape),
    "ones": lambda options, shape, rng: np.ones(shape),
    "constant": lambda options, shape, rng: np.full(shape, options.get("value", 0.0)),
    "uniform": lambda options, shape, rng: _uniform(options.get("scale", 0.07), shape, rng),
    "normal": lambda options, shape, rng: rng.normal(0, options.get("sigma", 0.01), shape),
    "xavier": _xavier,
    "msraprelu": _msra,
    "bilinear": _bilinear,
}

# The endings in mxnet.initializer.Initializer, including names in old files.
_BY_ENDING = (
    (("gamma", "moving_var", "running_var", "max"), _MAKERS["one"]),
    (
        ("bias", "beta", "moving_mean", "running_mean", "moving_inv_var", "moving_avg", "min"),
        _MAKERS["zero"],
    ),
)


def initial_value(node: Node, shape: Sequence[int], dtype: str, *, seed: int) -> Array:
    """Return the first value of a parameter: by ``__init__``, its name's ending, or uniform within
    0.01.

    Raises:
        RefusedError: the initializer is unknown, or cannot fill this shape.
    """
    stream = _open_stream(node, seed)
    text = node.attrs.get("__init__")
    if text is None:
        make = next((make for endings, make in _BY_ENDING if node.name.endswith(endings)), None)
        values = make({}, tuple(shape), stream) if make else _uniform(0.01, tuple(shape), stream)
        return np.asarray(values).astype(dtype)
    try:
        name, options = json.loads(text)
        values = _MAKERS[name.lower()](options, tuple(shape), stream)
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        ZeroDivisionError,
        MemoryError,
    ) as error:
        known = ", ".join(_MAKERS)
        hint = f"initializers are {known}; or give the value itself with Session.set_value"
        raise RefusedError(
            Fault(
                f"the initializer {text} cannot fill {tuple(shape)}: {error}",
                node=node.name,
                hint=hint,
            )
        ) from error
    return np.asarray(values).astype(dtype)
