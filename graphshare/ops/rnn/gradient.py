"""Gradients of recurrent layers: backpropagation through time, from recomputed states.

The parameters' gradient has the vector's layout; see :mod:`graphshare.ops.rnn.kernel`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.rnn.kernel import GRADIENTS as SEQUENCE_GRADIENTS
from graphshare.ops.rnn.kernel import Cell, cells, directions, project_inputs, sigmoid


class Trace(NamedTuple):
    """Values of one layer and direction: inputs, states before each step, gates, outputs."""

    x: Array
    h: Array
    c: Array
    gates: Array
    out: Array
    more: Array


Forward = Callable[[Cell, Array, Array, Array], Trace]
Backward = Callable[[Cell, Cell, Trace, Array, Array, Array], "tuple[Array, Array, Array]"]


def _plain_forward(act: Callable[[Array], Array]) -> Forward:
    def run(cell: Cell, x: Array, h: Array, c: Array) -> Trace:
        out = project_inputs(x, cell, cell.b_input + cell.b_state)
        before = np.empty((len(x), *h.shape), x.dtype)
        for t, step in enumerate(out):
            before[t] = h
            step += h @ cell.w_state.T
            h = step[...] = act(step)
        return Trace(x, before, c, out, out, c)

    return run


def _plain_backward(slope: Callable[[Array], Array]) -> Backward:
    def run(
        cell: Cell, into: Cell, trace: Trace, dout: Array, dh: Array, dc: Array
    ) -> tuple[Array, Array, Array]:
        dgates = np.empty_like(trace.gates)
        for t in reversed(range(len(trace.x))):
            dgates[t] = (dout[t] + dh) * slope(trace.out[t])
            dh = dgates[t] @ cell.w_state
        return _weight_gradients(cell, into, trace, dgates, dgates), dh, dc

    return run


def _weight_gradients(cell: Cell, into: Cell, trace: Trace, dgates: Array, dstate: Array) -> Array:
    """Write gradients of weights and biases; return the inputs' gradient.

    ``dgates`` are gradients of the gates' input side, ``dstate`` of their state side.
    """
    flat, state = dgates.reshape(-1, dgates.shape[2]), dstate.reshape(-1, dstate.shape[2])
    into.w_input[...] = flat.T @ trace.x.reshape(len(flat), -1)
    into.w_state[...] = state.T @ trace.h.reshape(len(state), -1)
    into.b_input[...] = flat.sum(axis=0)
    into.b_state[...] = state.sum(axis=0)
    return np.asarray(dgates @ cell.w_input)


def _lstm_forward(cell: Cell, x: Array, h: Array, c: Array) -> Trace:
    gates = project_inputs(x, cell, cell.b_input + cell.b_state)
    size = c.shape[1]
    before = np.empty((len(x), *h.shape), x.dtype)
    # One more than steps: cell states before and after each.
    cells_before = np.empty((len(x) + 1, *c.shape), x.dtype)
    out = np.empty((len(x), *h.shape), x.dtype)
    for t, step in enumerate(gates):
        before[t], cells_before[t] = h, c
        step += h @ cell.w_state.T
        sigmoid(step[:, : 2 * size])
        np.tanh(step[:, 2 * size : 3 * size], out=step[:, 2 * size : 3 * size])
        sigmoid(step[:, 3 * size :])
        c = step[:, size : 2 * size] * c + step[:, :size] * step[:, 2 * size : 3 * size]
        h = step[:, 3 * size :] * np.tanh(c)
        if cell.w_projection is not None:
            h = h @ cell.w_projection.T
        out[t] = h
    cells_before[len(x)] = c
    return Trace(x, before, cells_before, gates, out, c)


def _lstm_backward(
    cell: Cell, into: Cell, trace: Trace, dout: Array, dh: Array, dc: Array
) -> tuple[Array, Array, Array]:
    size = trace.c.shape[2]
    dgates = np.empty_like(trace.gates)
    for t in reversed(range(len(trace.x))):
        i, f, new, o = (trace.gates[t][:, gate * size : (gate + 1) * size] for gate in range(4))
        squashed = np.tanh(trace.c[t + 1])
        total = dout[t] + dh
        if cell.w_projection is not None and into.w_projection is not None:
            into.w_projection[...] += total.T @ (o * squashed)
            total = total @ cell.w_projection
        dc = dc + total * o * (1 - squashed * squashed)
        dgates[t][:, :size] = dc * new * i * (1 - i)
        dgates[t][:, size : 2 * size] = dc * trace.c[t] * f * (1 - f)
        dgates[t][:, 2 * size : 3 * size] = dc * i * (1 - new * new)
        dgates[t][:, 3 * size :] = total * squashed * o * (1 - o)
        dc = dc * f
        dh = dgates[t] @ cell.w_state
    return _weight_gradients(cell, into, trace, dgates, dgates), dh, dc


def _gru_forward(cell: Cell, x: Array, h: Array, c: Array) -> Trace:
    gates = project_inputs(x, cell, cell.b_input)
    size = h.shape[1]
    before, out, inner = (np.empty((len(x), *h.shape), x.dtype) for _ in range(3))
    for t, step in enumerate(gates):
        before[t] = h
        state = h @ cell.w_state.T + cell.b_state
        step[:, : 2 * size] += state[:, : 2 * size]
        sigmoid(step[:, : 2 * size])
        inner[t] = state[:, 2 * size :]
        step[:, 2 * size :] = np.tanh(step[:, 2 * size :] + step[:, :size] * inner[t])
        h = out[t] = (1 - step[:, size : 2 * size]) * step[:, 2 * size :] + step[
            :, size : 2 * size
        ] * h
    return Trace(x, before, c, gates, out, inner)


def _gru_backward(
    cell: Cell, into: Cell, trace: Trace, dout: Array, dh: Array, dc: Array
) -> tuple[Array, Array, Array]:
    size = trace.h.shape[2]
    dgates, dstate = np.empty_like(trace.gates), np.empty_like(trace.gates)
    for t in reversed(range(len(trace.x))):
        reset, update, new = (trace.gates[t][:, i * size : (i + 1) * size] for i in range(3))
        total = dout[t] + dh
        dnew = total * (1 - update) * (1 - new * new)
        dgates[t][:, :size] = dnew * trace.more[t] * reset * (1 - reset)
        dgates[t][:, size : 2 * size] = total * (trace.h[t] - new) * update * (1 - update)
        dgates[t][:, 2 * size :] = dnew
        dstate[t] = dgates[t]
        # Only the state reaches n through the reset gate.
        dstate[t][:, 2 * size :] = dnew * reset
        dh = total * update + dstate[t] @ cell.w_state
    return _weight_gradients(cell, into, trace, dgates, dstate), dh, dc


_LAYERS: dict[str, tuple[Forward, Backward]] = {
    "rnn_relu": (
        _plain_forward(lambda x: np.maximum(x, 0)),
        _plain_backward(lambda y: (y > 0).astype(y.dtype)),
    ),
    "rnn_tanh": (_plain_forward(np.tanh), _plain_backward(lambda y: 1 - y * y)),
    "lstm": (_lstm_forward, _lstm_backward),
    "gru": (_gru_forward, _gru_backward),
}


def rnn(entry: TapeEntry, dy: Array, *dstates: Array | None) -> Gradients:
    """Return gradients of data, parameters and initial states."""
    attrs, (x, vector, state, *more) = entry.attrs, entry.inputs
    lstm, sides = attrs["mode"] == "lstm", directions(attrs)
    forward, backward = _LAYERS[attrs["mode"]]
    layers, masks, traces = cells(attrs, x.shape[2], vector), _masks(entry), []
    source, c_state = x, more[0] if lstm else state
    for first in range(0, len(layers), sides):
        if first and masks:
            masks[first] = masks[0](source)
            source = source * masks[first]
        for side in range(sides):
            number = first + side
            steps = source[::-1] if side else source
            traces.append(
                forward(layers[number], np.ascontiguousarray(steps), state[number], c_state[number])
            )
        source = _concatenate_directions([k.out for k in traces[first:]])
    flat = np.zeros_like(vector)
    # Views for the backward pass to fill.
    into = cells(attrs, x.shape[2], flat)
    dh, dc = _last_state_gradient(state, dstates, 0), _last_state_gradient(c_state, dstates, 1)
    gradient = dy
    for first in reversed(range(0, len(layers), sides)):
        below = np.zeros(traces[first].x.shape, x.dtype)
        width = gradient.shape[2] // sides
        for side in range(sides):
            number = first + side
            part = np.ascontiguousarray(
                gradient[:, :, side * width : (side + 1) * width][:: -1 if side else 1]
            )
            dx, dh[number], dc[number] = backward(
                layers[number], into[number], traces[number], part, dh[number], dc[number]
            )
            below += dx[::-1] if side else dx
        gradient = below * masks[first] if first and masks else below
    return [gradient, flat, dh, *([dc] if lstm else [])]


def _concatenate_directions(outputs: list[Array]) -> Array:
    return (
        outputs[0] if len(outputs) == 1 else np.concatenate((outputs[0], outputs[1][::-1]), axis=2)
    )


def _last_state_gradient(state: Array, dstates: tuple[Array | None, ...], number: int) -> Array:
    dstate = dstates[number] if number < len(dstates) else None
    return np.zeros_like(state) if dstate is None else dstate.copy()


def _masks(entry: TapeEntry) -> dict[int, Any]:
    """Return at 0 the function that repeats the forward pass's dropout masks, if any."""
    p = entry.attrs["p"]
    if not entry.training or p == 0 or entry.attrs["num_layers"] == 1:
        return {}
    if entry.stream is None:
        raise GradientError("dropout between layers needs the random numbers of the forward pass")
    rng = entry.stream()
    return {0: lambda x: ((rng.random(x.shape) >= p) / (1 - p)).astype(x.dtype)}


GRADIENTS = (*SEQUENCE_GRADIENTS, Gradient("RNN", rnn, reads_outputs=False))
