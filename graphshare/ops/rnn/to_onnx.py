"""Recurrent layers in ONNX: ``RNN``, ``LSTM`` and ``GRU``, one node for each layer.

The flat parameter vector is split into W, R and B, and the gates are put in ONNX's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from graphshare.ops.rnn.kernel import cells, directions, output_width, parameter_size
from graphshare.ops.translation import Translation, Translator, Value

_OPERATORS = {"rnn_relu": "RNN", "rnn_tanh": "RNN", "lstm": "LSTM", "gru": "GRU"}
_GATE_ORDER = {"rnn_relu": (0,), "rnn_tanh": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""The places in MXNet's order of the gates that ONNX has first, second...: i, o, f, c of an LSTM and z, r, n of a GRU."""


class Weights(NamedTuple):
    """The names of a layer's weights, with the directions on axis 0."""

    w: str
    r: str
    b: str


def translate_rnn(t: Translation) -> list[str]:
    """Emit the layers, and between them the results of both directions side by side."""
    mode, layers, sides = t.attrs["mode"], t.attrs["num_layers"], directions(t.attrs)
    x, _, *states = map(t.widen, t.inputs[: 4 if mode == "lstm" else 3])
    begins = [_split(t, state, layers, sides) for state in states]
    weights = _constant_weights(t) if t.inputs[1].read else _sliced_weights(t)
    steps, batch, _ = x.shape
    source, ends = x.name, []
    for number in range(layers):
        made = _layer(t, source, weights[number], [parts[number] for parts in begins])
        ends.append(made[1:])
        if sides == 1:
            source = t.emit("Squeeze", made[0], t.integers([1]))
        else:
            both = t.transpose(made[0], (0, 2, 1, 3))
            source = t.reshape(both, (steps, batch, sides * output_width(t.attrs)))
    results = [source]
    if t.attrs["state_outputs"]:
        results += [_join(t, parts) for parts in zip(*ends, strict=True)]
    return [t.cast(result, t.outputs[0].dtype, x.dtype) for result in results]


def _layer(t: Translation, x: str, weights: Weights, states: Sequence[str]) -> list[str]:
    mode = t.attrs["mode"]
    sides = directions(t.attrs)
    attributes = {"linear_before_reset": 1} if mode == "gru" else {}
    if mode == "rnn_relu":
        attributes["activations"] = ["Relu"] * sides
    return t.emit_several(
        _OPERATORS[mode],
        1 + len(states),
        x,
        *weights,
        "",
        *states,
        hidden_size=t.attrs["state_size"],
        direction="bidirectional" if sides == 2 else "forward",
        **attributes,
    )


def _split(t: Translation, state: Value, layers: int, sides: int) -> list[str]:
    """Return the state of each layer (directions, batch, width)."""
    if layers == 1:
        return [state.name]
    return t.emit_several("Split", layers, state, t.integers([sides] * layers), axis=0)


def _join(t: Translation, parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else t.emit("Concat", *parts, axis=0)


def _constant_weights(t: Translation) -> list[Weights]:
    """Return the weights of each layer as constants."""
    read = t.inputs[1].read
    assert read is not None
    dtype, order = t.widen(t.inputs[0]).dtype, list(_GATE_ORDER[t.attrs["mode"]])
    every, sides, hidden = cells(t.attrs, t.inputs[0].shape[2], read()), directions(t.attrs), t.attrs["state_size"]

    def put_in_order(rows: np.ndarray) -> np.ndarray:
        return rows.reshape(len(order), hidden, -1)[order].reshape(rows.shape)

    found = []
    for first in range(0, len(every), sides):
        layer = every[first : first + sides]
        w, r = (
            np.stack([put_in_order(x) for x in rows]) for rows in zip(*((c.w_input, c.w_state) for c in layer), strict=True)
        )
        b = np.stack([np.concatenate([put_in_order(c.b_input), put_in_order(c.b_state)]) for c in layer])
        found.append(Weights(*(t.constant(x, dtype) for x in (w, r, b))))
    return found


def _sliced_weights(t: Translation) -> list[Weights]:
    """Return the weights of each layer as slices of a parameter vector that only a run knows."""
    vector, sides, layers = t.widen(t.inputs[1]), directions(t.attrs), t.attrs["num_layers"]
    hidden, width, order = t.attrs["state_size"], t.inputs[0].shape[2], _GATE_ORDER[t.attrs["mode"]]
    out = output_width(t.attrs)
    at = 0

    def take(columns: int) -> str:
        nonlocal at
        shape = (len(order), hidden, columns)
        part = t.emit("Slice", vector, t.integers([at]), t.integers([at + prod(shape)]))
        at += prod(shape)
        gates = t.emit("Gather", t.reshape(part, shape), t.integers(order), axis=0)
        return t.reshape(gates, (1, len(order) * hidden, columns))

    parts = []
    for number in range(layers * sides):
        parts.append((take(width if number < sides else out * sides), take(out)))
    flat = (1, len(order) * hidden)
    biases = [t.emit("Concat", *(t.reshape(take(1), flat) for _ in range(2)), axis=1) for _ in parts]
    rows = [(*two, b) for two, b in zip(parts, biases, strict=True)]
    assert at == parameter_size(t.attrs, width)
    layer_rows = [rows[first : first + sides] for first in range(0, len(rows), sides)]
    return [Weights(*(_join(t, side) for side in zip(*layer, strict=True))) for layer in layer_rows]


TRANSLATIONS = (Translator("RNN", translate_rnn),)
