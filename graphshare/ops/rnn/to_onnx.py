"""Recurrent layers in ONNX: ``RNN``, ``LSTM`` and ``GRU``, one node for each layer.

An LSTM with a projection, which ONNX does not have, and layers in float64, for which onnxruntime has no kernel, are written as
``Scan`` (:mod:`graphshare.ops.rnn.scan`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphshare.ops.rnn.kernel import GATES, directions, output_width
from graphshare.ops.rnn.onnx_weights import CellParts, concatenate, split_weights
from graphshare.ops.rnn.scan import translate_by_steps
from graphshare.ops.translation import Translation, Translator, Value

_OPERATORS = {"rnn_relu": "RNN", "rnn_tanh": "RNN", "lstm": "LSTM", "gru": "GRU"}
_GATE_ORDER = {"rnn_relu": (0,), "rnn_tanh": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""The places in MXNet's order of the gates that ONNX has first, second...: i, o, f, c of an LSTM and z, r, n of a GRU."""


def translate_rnn(t: Translation) -> list[str]:
    """Emit the layers, and between them the results of both directions side by side."""
    mode, layers, sides = t.attrs["mode"], t.attrs["num_layers"], directions(t.attrs)
    x, _, *states = map(t.widen, t.inputs[: 4 if mode == "lstm" else 3])
    if t.attrs["projection_size"] or x.dtype == "float64":
        return translate_by_steps(t)
    begins = [_split(t, state, layers, sides) for state in states]
    weights = split_weights(t)
    steps, batch, _ = x.shape
    source, ends = x.name, []
    for number in range(layers):
        made = _layer(t, source, weights[number * sides : (number + 1) * sides], [state[number] for state in begins])
        ends.append(made[1:])
        if sides == 1:
            source = t.emit("Squeeze", made[0], t.integers([1]))
        else:
            both = t.transpose(made[0], (0, 2, 1, 3))
            source = t.reshape(both, (steps, batch, sides * output_width(t.attrs)))
    results = [source]
    if t.attrs["state_outputs"]:
        results += [state[0] if layers == 1 else t.emit("Concat", *state, axis=0) for state in zip(*ends, strict=True)]
    return [t.cast(result, t.outputs[0].dtype, x.dtype) for result in results]


def _split(t: Translation, state: Value, layers: int, sides: int) -> list[str]:
    """Return the state of each layer (directions, batch, width)."""
    return [state.name] if layers == 1 else t.emit_several("Split", layers, state, t.integers([sides] * layers), axis=0)


def _layer(t: Translation, x: str, cells: Sequence[CellParts], states: Sequence[str]) -> list[str]:
    """Return the results (steps, directions, batch, width) and last states of a layer."""
    mode, hidden, sides = t.attrs["mode"], t.attrs["state_size"], len(cells)
    rows, order = GATES[mode] * hidden, _GATE_ORDER[mode]
    w_input = concatenate([cell.w_input.reorder(order) for cell in cells]).reshape(sides, rows, cells[0].w_input.shape[1])
    w_state = concatenate([cell.w_state.reorder(order) for cell in cells]).reshape(sides, rows, cells[0].w_state.shape[1])
    biases = [part.reorder(order) for cell in cells for part in (cell.b_input, cell.b_state)]
    bias = concatenate(biases).reshape(sides, 2 * rows)
    attributes: dict[str, Any] = {"direction": "bidirectional" if sides == 2 else "forward"}
    if mode == "gru":
        attributes["linear_before_reset"] = 1
    if mode == "rnn_relu":
        attributes["activations"] = ["Relu"] * sides
    inputs = (x, w_input.name, w_state.name, bias.name, "", *states)
    return t.emit_several(_OPERATORS[mode], 1 + len(states), *inputs, hidden_size=hidden, **attributes)


TRANSLATIONS = (Translator("RNN", translate_rnn),)
