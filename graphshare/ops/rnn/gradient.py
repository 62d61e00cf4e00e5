"""Gradients of recurrent layers: back through time, from states that are computed once more.

The parameters' gradient has the layout of the vector itself; see :mod:`graphshare.ops.rnn.kernel`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.rnn.kernel import Cell, cells, directions, sigmoid


class Kept(NamedTuple):
    """What the way back needs of one layer in one direction: its inputs, the states before each step, and the gates."""

    x: Array
    h: Array
    c: Array
    gates: Array
    out: Array
    more: Array


Forward = Callable[[Cell, Array, Array, Array], Kept]


Backward = Callable[[Cell, Cell, Kept, Array, Array, Array], "tuple[Array, Array, Array]"]


def _plain_forward(act: Callable[[Array], Array]) -> Forward:
    def run(cell: Cell, x: Array, h: Array, c: Array) -> Kept:
        out = x @ cell.w_input.T + (cell.b_input + cell.b_state)
        before = np.empty((len(x), *h.shape), x.dtype)
        for t, step in enumerate(out):
            before[t] = h
            step += h @ cell.w_state.T
            h = step[...] = act(step)
        return Kept(x, before, c, out, out, c)

    return run


def _plain_backward(slope: Callable[[Array], Array]) -> Backward:
    def run(cell: Cell, into: Cell, kept: Kept, dout: Array, dh: Array, dc: Array) -> tuple[Array, Array, Array]:
        dgates = np.empty_like(kept.gates)
        for t in reversed(range(len(kept.x))):
            dgates[t] = (dout[t] + dh) * slope(kept.out[t])
            dh = dgates[t] @ cell.w_state
        return _weights(cell, into, kept, dgates, dgates), dh, dc

    return run


def _weights(cell: Cell, into: Cell, kept: Kept, dgates: Array, dstate: Array) -> Array:
    """Writes the gradients of weights and biases, and gives that of the inputs.

    ``dgates`` are those of the gates' input side, ``dstate`` those of their state side.
    """
    flat, state = dgates.reshape(-1, dgates.shape[2]), dstate.reshape(-1, dstate.shape[2])
    into.w_input[...] = flat.T @ kept.x.reshape(len(flat), -1)
    into.w_state[...] = state.T @ kept.h.reshape(len(state), -1)
    into.b_input[...] = flat.sum(axis=0)
    into.b_state[...] = state.sum(axis=0)
    dx: Array = dgates @ cell.w_input
    return dx


def _lstm_forward(cell: Cell, x: Array, h: Array, c: Array) -> Kept:
    gates = x @ cell.w_input.T + (cell.b_input + cell.b_state)
    size = c.shape[1]
    before = np.empty((len(x), *h.shape), x.dtype)
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
    return Kept(x, before, cells_before, gates, out, c)


def _lstm_backward(cell: Cell, into: Cell, kept: Kept, dout: Array, dh: Array, dc: Array) -> tuple[Array, Array, Array]:
    size = kept.c.shape[2]
    dgates = np.empty_like(kept.gates)
    for t in reversed(range(len(kept.x))):
        taken, forgot, new, shown = (kept.gates[t][:, i * size : (i + 1) * size] for i in range(4))
        spread = np.tanh(kept.c[t + 1])
        total = dout[t] + dh
        if cell.w_projection is not None and into.w_projection is not None:
            into.w_projection[...] += total.T @ (shown * spread)
            total = total @ cell.w_projection
        dc = dc + total * shown * (1 - spread * spread)
        dgates[t][:, :size] = dc * new * taken * (1 - taken)
        dgates[t][:, size : 2 * size] = dc * kept.c[t] * forgot * (1 - forgot)
        dgates[t][:, 2 * size : 3 * size] = dc * taken * (1 - new * new)
        dgates[t][:, 3 * size :] = total * spread * shown * (1 - shown)
        dc = dc * forgot
        dh = dgates[t] @ cell.w_state
    return _weights(cell, into, kept, dgates, dgates), dh, dc


def _gru_forward(cell: Cell, x: Array, h: Array, c: Array) -> Kept:
    gates = x @ cell.w_input.T + cell.b_input
    size = h.shape[1]
    before, out, inner = (np.empty((len(x), *h.shape), x.dtype) for _ in range(3))
    for t, step in enumerate(gates):
        before[t] = h
        state = h @ cell.w_state.T + cell.b_state
        step[:, : 2 * size] += state[:, : 2 * size]
        sigmoid(step[:, : 2 * size])
        inner[t] = state[:, 2 * size :]
        step[:, 2 * size :] = np.tanh(step[:, 2 * size :] + step[:, :size] * inner[t])
        h = out[t] = (1 - step[:, size : 2 * size]) * step[:, 2 * size :] + step[:, size : 2 * size] * h
    return Kept(x, before, c, gates, out, inner)


def _gru_backward(cell: Cell, into: Cell, kept: Kept, dout: Array, dh: Array, dc: Array) -> tuple[Array, Array, Array]:
    size = kept.h.shape[2]
    dgates, dstate = np.empty_like(kept.gates), np.empty_like(kept.gates)
    for t in reversed(range(len(kept.x))):
        reset, update, new = (kept.gates[t][:, i * size : (i + 1) * size] for i in range(3))
        total = dout[t] + dh
        dnew = total * (1 - update) * (1 - new * new)
        dgates[t][:, :size] = dnew * kept.more[t] * reset * (1 - reset)
        dgates[t][:, size : 2 * size] = total * (kept.h[t] - new) * update * (1 - update)
        dgates[t][:, 2 * size :] = dnew
        dstate[t] = dgates[t]
        dstate[t][:, 2 * size :] = dnew * reset
        dh = total * update + dstate[t] @ cell.w_state
    return _weights(cell, into, kept, dgates, dstate), dh, dc


_LAYERS: dict[str, tuple[Forward, Backward]] = {
    "rnn_relu": (_plain_forward(lambda x: np.maximum(x, 0)), _plain_backward(lambda y: (y > 0).astype(y.dtype))),
    "rnn_tanh": (_plain_forward(np.tanh), _plain_backward(lambda y: 1 - y * y)),
    "lstm": (_lstm_forward, _lstm_backward),
    "gru": (_gru_forward, _gru_backward),
}


def rnn(entry: TapeEntry, dy: Array, *dstates: Array | None) -> Gradients:
    """Of data, parameters and first states."""
    attrs, (x, vector, state, *more) = entry.attrs, entry.inputs
    lstm, sides = attrs["mode"] == "lstm", directions(attrs)
    forward, backward = _LAYERS[attrs["mode"]]
    layers, masks, kept = cells(attrs, x.shape[2], vector), _masks(entry), []
    source, c_state = x, more[0] if lstm else state
    for first in range(0, len(layers), sides):
        if first and masks:
            masks[first] = masks[0](source)
            source = source * masks[first]
        for side in range(sides):
            number = first + side
            steps = source[::-1] if side else source
            kept.append(forward(layers[number], np.ascontiguousarray(steps), state[number], c_state[number]))
        source = _beside([k.out for k in kept[first:]])
    flat = np.zeros_like(vector)
    into = cells(attrs, x.shape[2], flat)
    dh, dc = _last(state, dstates, 0), _last(c_state, dstates, 1)
    gradient = dy
    for first in reversed(range(0, len(layers), sides)):
        below = np.zeros(kept[first].x.shape, x.dtype)
        width = gradient.shape[2] // sides
        for side in range(sides):
            number = first + side
            part = np.ascontiguousarray(gradient[:, :, side * width : (side + 1) * width][:: -1 if side else 1])
            dx, dh[number], dc[number] = backward(layers[number], into[number], kept[number], part, dh[number], dc[number])
            below += dx[::-1] if side else dx
        gradient = below * masks[first] if first and masks else below
    return [gradient, flat, dh, *([dc] if lstm else [])]


def _beside(outputs: list[Array]) -> Array:
    """Both directions' outputs, in the order of time, side by side."""
    return outputs[0] if len(outputs) == 1 else np.concatenate((outputs[0], outputs[1][::-1]), axis=2)


def _last(state: Array, dstates: tuple[Array | None, ...], number: int) -> Array:
    given = dstates[number] if number < len(dstates) else None
    return np.zeros_like(state) if given is None else given.copy()


def _masks(entry: TapeEntry) -> dict[int, Any]:
    """What draws the masks between layers, at 0, as the forward pass drew them; empty where there are none."""
    p = entry.attrs["p"]
    if not entry.training or p == 0 or entry.attrs["num_layers"] == 1:
        return {}
    if entry.stream is None:
        raise GradientError("dropout between layers needs the random numbers of the forward pass")
    rng = entry.stream()
    return {0: lambda x: ((rng.random(x.shape) >= p) / (1 - p)).astype(x.dtype)}


GRADIENTS = (Gradient("RNN", rnn, reads_outputs=False),)
