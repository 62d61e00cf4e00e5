"""Recurrent layers in four modes, operators on padded sequences, and gradients.

The parameter vector holds, by layer and then by direction, the weights of the input ``(gates*H,
in)``, of the state ``(gates*H, R)`` and, if any, of the projection ``(R, H)``; after all weights,
in the same order, the two biases ``(gates*H,)``. ``H`` is ``state_size`` and ``R`` the output size:
``projection_size``, else ``H``. Gates are i, f, c, o in an LSTM and r, z, n in a GRU. Like MXNet's
CPU kernels, this one ignores ``lstm_state_clip_*`` and ``use_sequence_length``.

Padded sequences have time along one of the first two axes, samples along the other; lengths have no
gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dim,
    Kernel,
    KernelError,
    Shape,
    Shapes,
    Sizes,
    Types,
    reuse_buffer,
)
from graphshare.ops.limits import FLOATS, Limits, lie_within, require, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.text.format import format_count, format_shape


def _lengths(length: Array, steps: int, least: int) -> Array:
    counts = convert(length, np.int64)
    if not lie_within(counts, least, steps):
        raise KernelError(
            f"lengths are {counts.min()} to {counts.max()}, but sequences have {format_count(steps, 'step')}"
        )
    return counts


def sequence_mask(
    context: Context, attrs: Attrs, data: Array, length: Array | None = None
) -> Array:
    """Write ``value`` from each sample's length on."""
    if length is None:
        return data
    axis = attrs["axis"]
    steps = np.arange(data.shape[axis])
    counts = convert(length, np.int64)
    over = steps[:, None] >= counts if axis == 0 else steps >= counts[:, None]
    out = reuse_buffer(context, data)
    result = data.copy() if out is None else out
    result[over] = convert(np.asarray(attrs["value"]), data.dtype)
    return result


def sequence_last(
    context: Context, attrs: Attrs, data: Array, length: Array | None = None
) -> Array:
    """Return each sample's last step."""
    axis = attrs["axis"]
    if length is None:
        return np.asarray(np.take(data, -1, axis))
    last = _lengths(length, data.shape[axis], 1) - 1
    samples = np.arange(len(last))
    return np.asarray(data[last, samples] if axis == 0 else data[samples, last])


def sequence_reverse(
    context: Context, attrs: Attrs, data: Array, length: Array | None = None
) -> Array:
    """Reverse each sample's steps; those after its length stay."""
    if length is None:
        return np.asarray(data[::-1].copy())
    counts = _lengths(length, data.shape[0], 0)
    steps = np.arange(data.shape[0])[:, None]
    order = np.where(steps < counts, counts - 1 - steps, steps)
    return np.asarray(data[order, np.arange(len(counts))])


def _mask_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data = unify(inputs[0], outputs[0])
    return _with_lengths(attrs, [data, *inputs[1:]]), [data]


def _last_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    known = _with_lengths(attrs, inputs)
    data = known[0]
    if data is None:
        return known, outputs
    return known, [unify(data[1:] if attrs["axis"] == 0 else (data[0], *data[2:]), outputs[0])]


def _reverse_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    require(
        attrs["axis"] == 0,
        f"SequenceReverse along axis {attrs['axis']}; MXNet supports only axis 0",
    )
    return _mask_shapes(attrs, inputs, outputs)


def _with_lengths(attrs: Attrs, inputs: Shapes) -> Shapes:
    data = inputs[0]
    require(attrs["axis"] in (0, 1), f"time is along axis {attrs['axis']}, expected 0 or 1")
    if data is None:
        return [None, *(unify(length, (None,)) for length in inputs[1:])]
    if len(data) < 2:
        raise KernelError(f"{format_shape(data)} has no axes for time and samples")
    samples: Shape = (data[1 - attrs["axis"]],)
    try:
        return [data, *(unify(length, samples) for length in inputs[1:])]
    except KernelError:
        raise KernelError(
            f"sequence_length is {format_shape(inputs[1])}, expected {format_shape(samples)}"
        ) from None


def _sequence_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    dtype = inputs[0] or outputs[0]
    return [dtype, *(length or dtype for length in inputs[1:])], [dtype]


def sequence_mask_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` before each sample's length, then zeros."""
    if len(entry.inputs) == 1:
        return dy
    axis = entry.attrs["axis"]
    steps, counts = np.arange(dy.shape[axis]), convert(entry.inputs[1], np.int64)
    within = steps[:, None] < counts if axis == 0 else steps < counts[:, None]
    return np.asarray(dy * within.reshape(*within.shape, *(1,) * (dy.ndim - 2)))


GRADIENTS = (
    Gradient("SequenceMask", sequence_mask_gradient, reads_outputs=False),
    *(
        Gradient(name, permutation_vjp(name), reads_outputs=False)
        for name in ("SequenceLast", "SequenceReverse")
    ),
)


_BLOCK = 1 << 28
"""Multiply-adds in one product: signals, such as a time limit's, wait until it ends."""
GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


class Cell(NamedTuple):
    """Weights of one layer and direction: views of the parameter vector."""

    w_input: Array
    w_state: Array
    w_projection: Array | None
    b_input: Array
    b_state: Array


def directions(attrs: Attrs) -> int:
    """Return 2 if bidirectional, else 1."""
    return 2 if attrs["bidirectional"] else 1


def output_width(attrs: Attrs) -> int:
    """Return the size of one direction's result."""
    size: int = attrs["projection_size"] or attrs["state_size"]
    return size


def parameter_size(attrs: Attrs, inputs: int) -> int:
    """Return the parameter vector's length for this input size."""
    hidden, layers = attrs["state_size"], attrs["num_layers"]
    sides, out = directions(attrs), output_width(attrs)
    rows = GATES[attrs["mode"]] * hidden * sides
    size: int = rows * (inputs + out + 2) + (layers - 1) * rows * (sides * out + out + 2)
    return size + layers * sides * out * hidden if attrs["projection_size"] else size


def input_size(attrs: Attrs, size: int) -> int:
    """Return the input size for a vector of ``size`` parameters.

    Raises:
        KernelError: there is none.
    """
    # Each input adds the same length.
    least = parameter_size(attrs, 1)
    step = least - parameter_size(attrs, 0)
    require(step, "state_size must not be 0")
    more, rest = divmod(size - least, step)
    if rest or more < 0:
        raise KernelError(
            f"{format_count(size, 'parameter')} do not fit any input size; size 1 needs {least}, "
            f"each further size {step} more"
        )
    return more + 1


def cells(attrs: Attrs, inputs: int, vector: Array) -> list[Cell]:
    """Return the cells by layer, then by direction."""
    if vector.shape != (parameter_size(attrs, inputs),):
        raise KernelError(
            f"{format_count(vector.size, 'parameter')}, expected {parameter_size(attrs, inputs)} "
            f"for inputs of size {inputs}"
        )
    hidden, sides, out = attrs["state_size"], directions(attrs), output_width(attrs)
    rows, at = GATES[attrs["mode"]] * hidden, 0

    def take(*shape: int) -> Array:
        nonlocal at
        size = int(np.prod(shape))
        part: Array = vector[at : at + size].reshape(shape)
        at += size
        return part

    weights = []
    for number in range(attrs["num_layers"] * sides):
        width = inputs if number < sides else out * sides
        weights.append(
            (
                take(rows, width),
                take(rows, out),
                take(out, hidden) if attrs["projection_size"] else None,
            )
        )
    return [Cell(*three, take(rows), take(rows)) for three in weights]


def sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + exp(-x)) in place."""
    # numpy 2.4's negative is wrong in place on columns that are 16 bytes apart
    np.multiply(x, x.dtype.type(-1), out=x)
    np.exp(x, out=x)
    x += 1
    return np.asarray(np.reciprocal(x, out=x))


def project_inputs(x: Array, cell: Cell, bias: Array) -> Array:
    """Return the inputs ``(T, N, in)`` times the weights, plus ``bias``: a few steps at a time."""
    out: Array = np.empty((*x.shape[:2], len(bias)), np.result_type(x, cell.w_input))
    count = max(1, _BLOCK // max(1, out[:1].size * x.shape[2]))
    for first in range(0, len(x), count):
        block = out[first : first + count]
        np.matmul(x[first : first + count], cell.w_input.T, out=block)
        block += bias
    return out


Layer = Callable[[Cell, Array, Array, Array], tuple[Array, Array]]


def _plain(act: Callable[[Array], Array]) -> Layer:
    """Return the layer ``h = act(W x + b + U h + c)``."""

    def run(cell: Cell, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        # Both biases can be added for all steps at once.
        steps = project_inputs(x, cell, cell.b_input + cell.b_state)
        u = cell.w_state.T
        for step in steps:
            step += h @ u
            h = step[...] = act(step)
        return steps, c

    return run


def _lstm(cell: Cell, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    steps = project_inputs(x, cell, cell.b_input + cell.b_state)
    u, size = cell.w_state.T, c.shape[1]
    out: Array = np.empty((*x.shape[:2], h.shape[1]), x.dtype)
    for t, step in enumerate(steps):
        step += h @ u
        i, f = np.split(sigmoid(step[:, : 2 * size]), 2, axis=1)
        c = f * c + i * np.tanh(step[:, 2 * size : 3 * size])
        h = sigmoid(step[:, 3 * size :]) * np.tanh(c)
        if cell.w_projection is not None:
            h = h @ cell.w_projection.T
        out[t] = h
    return out, c


def _gru(cell: Cell, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    """Compute ``n = tanh(W x + b + r * (U h + c))`` and ``h = (1 - z) * n + z * h``."""
    steps = project_inputs(x, cell, cell.b_input)
    u, size = cell.w_state.T, h.shape[1]
    out: Array = np.empty((*x.shape[:2], size), x.dtype)
    for t, step in enumerate(steps):
        # The reset gate multiplies this bias too.
        state = h @ u + cell.b_state
        reset, update = np.split(sigmoid(step[:, : 2 * size] + state[:, : 2 * size]), 2, axis=1)
        new = np.tanh(step[:, 2 * size :] + reset * state[:, 2 * size :])
        h = out[t] = (1 - update) * new + update * h
    return out, c


_LAYERS: dict[str, Layer] = {
    "rnn_relu": _plain(lambda x: np.maximum(x, x.dtype.type(0))),
    "rnn_tanh": _plain(np.tanh),
    "lstm": _lstm,
    "gru": _gru,
}


def rnn(
    context: Context, attrs: Attrs, x: Array, parameters: Array, state: Array, *more: Array
) -> Array | tuple[Array, ...]:
    """Run all layers over ``(T, N, in)``: ``(T, N, directions*R)`` and, on request, last states.

    In training, ``p`` is the share dropped between layers by ``context.rng``, not MXNet's stream.
    """
    run, sides = _LAYERS[attrs["mode"]], directions(attrs)
    # Other modes ignore the cell state.
    c_state = more[0] if attrs["mode"] == "lstm" else state
    last: list[Array] = []
    last_c: list[Array] = []
    layers = cells(attrs, x.shape[2], parameters)
    # exp of a very negative gate overflows in the sigmoid; 0 is correct then.
    with np.errstate(over="ignore"):
        for first in range(0, len(layers), sides):
            source = _drop_out(context, attrs["p"], x) if first else x
            results = []
            for side in range(sides):
                number = first + side
                steps = source[::-1] if side else source
                out, c = run(layers[number], steps, state[number], c_state[number])
                last.append(out[-1])
                last_c.append(c)
                results.append(out[::-1] if side else out)
            x = np.concatenate(results, axis=2) if sides == 2 else results[0]
    if not attrs["state_outputs"]:
        return x
    states = (np.stack(last), np.stack(last_c)) if attrs["mode"] == "lstm" else (np.stack(last),)
    return (x, *states)


def _drop_out(context: Context, p: float, x: Array) -> Array:
    if not context.training or p == 0:
        return x
    rng = context.rng or np.random.default_rng()
    return np.asarray(x * ((rng.random(x.shape) >= p) / (1 - p)).astype(x.dtype))


def rnn_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer data, parameters, states, results and lengths from each other."""
    lstm, sides, out = attrs["mode"] == "lstm", directions(attrs), output_width(attrs)
    require(
        lstm or not attrs["projection_size"],
        f"projection_size is for mode lstm only, not for {attrs['mode']}",
    )
    stacked, hidden = attrs["num_layers"] * sides, attrs["state_size"]
    steps, batch, width = dims_of_rank(inputs[0], 3)
    (size,) = dims_of_rank(inputs[1], 1)
    if size is not None:
        (width,) = dims_of_rank(unify((width,), (input_size(attrs, size),)), 1)
    result = dims_of_rank(unify((steps, batch, out * sides), outputs[0]), 3)
    steps, batch = result[:2]
    batches = [
        shape[1]
        for shape in (*inputs[2 : 3 + lstm], *outputs[1:])
        if shape is not None and len(shape) == 3
    ]
    for other in batches:
        (batch,) = dims_of_rank(unify((batch,), (other,)), 1)
    state, cell = (stacked, batch, out), (stacked, batch, hidden)
    known: list[tuple[Dim, ...]] = [
        (steps, batch, width),
        (None if width is None else parameter_size(attrs, width),),
        state,
        *[cell] * lstm,
        *[(batch,)] * attrs["use_sequence_length"],
    ]
    require(
        len(known) == len(inputs), f"{format_count(len(inputs), 'input')}, expected {len(known)}"
    )
    results = [(steps, batch, out * sides), state, cell][: len(outputs)]
    return (
        [unify(a, b) for a, b in zip(known, inputs, strict=True)],
        [unify(a, b) for a, b in zip(results, outputs, strict=True)],
    )


def _types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    count = len(inputs) - attrs["use_sequence_length"]
    known, results = same_dtypes(attrs, inputs[:count], outputs)
    return [*known, *inputs[count:]], results


def rnn_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count each weight once per step and sample; the vector's biases are two rows a gate."""
    steps, batch = inputs[0][:2]
    biases: int = (
        attrs["num_layers"] * directions(attrs) * 2 * GATES[attrs["mode"]] * attrs["state_size"]
    )
    return steps * batch * (prod(inputs[1]) - biases)


KERNELS = (
    *with_limits(
        Limits(elements=True),
        Kernel("SequenceMask", sequence_mask, _mask_shapes, _sequence_types),
        Kernel("SequenceLast", sequence_last, _last_shapes, _sequence_types),
        Kernel("SequenceReverse", sequence_reverse, _reverse_shapes, _sequence_types),
    ),
    *with_limits(
        Limits(dtypes=FLOATS, elements=True, positive=("state_size",)),
        Kernel("RNN", rnn, rnn_shapes, _types, cost=rnn_cost),
    ),
)
