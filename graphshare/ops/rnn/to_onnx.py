"""Sequences in ONNX: recurrent layers, and operators on padded sequences.

Layers are nodes ``RNN``, ``LSTM`` and ``GRU``. LSTMs with a projection (ONNX has none) and float64
layers (onnxruntime has no kernel) are a ``Scan`` over steps. Weights are parts of the parameter
vector, constants if it can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array
from graphshare.ops.rnn.kernel import GATES, cells, directions, output_width
from graphshare.ops.translation import Translation, Translator, Value


class WeightPart:
    """Weights: an array if known, else an ONNX value."""

    def __init__(
        self, t: Translation, content: Array | str, shape: Sequence[int], dtype: str
    ) -> None:
        self.t = t
        self.content = content
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def name(self) -> str:
        """The value's name; an array becomes a constant."""
        return (
            self.content
            if isinstance(self.content, str)
            else self.t.constant(self.content, self.dtype)
        )

    def reshape(self, *shape: int) -> WeightPart:
        if isinstance(self.content, str):
            return self._with(self.t.reshape(self.content, shape), shape)
        return self._with(self.content.reshape(shape), shape)

    def transpose(self) -> WeightPart:
        shape = self.shape[::-1]
        if isinstance(self.content, str):
            return self._with(self.t.transpose(self.content, (1, 0)), shape)
        return self._with(self.content.T, shape)

    def reorder(self, order: Sequence[int]) -> WeightPart:
        """Reorder the blocks of rows, as many as ``order`` names."""
        blocks = self.reshape(len(order), self.shape[0] // len(order), *self.shape[1:])
        if isinstance(blocks.content, str):
            ordered: Array | str = self.t.emit(
                "Gather", blocks.content, self.t.integers(order), axis=0
            )
        else:
            ordered = blocks.content[list(order)]
        return self._with(ordered, blocks.shape).reshape(*self.shape)

    def _with(self, content: Array | str, shape: Sequence[int]) -> WeightPart:
        return WeightPart(self.t, content, shape, self.dtype)


def concatenate(parts: Sequence[WeightPart]) -> WeightPart:
    """Stack the parts."""
    first = parts[0]
    shape = (sum(part.shape[0] for part in parts), *first.shape[1:])
    arrays = [part.content for part in parts if not isinstance(part.content, str)]
    if len(arrays) == len(parts):
        return WeightPart(first.t, np.concatenate(arrays), shape, first.dtype)
    return WeightPart(
        first.t, first.t.emit("Concat", *(part.name for part in parts), axis=0), shape, first.dtype
    )


class CellParts(NamedTuple):
    """Weights of one layer and direction, like :class:`graphshare.ops.rnn.kernel.Cell`."""

    w_input: WeightPart
    w_state: WeightPart
    w_projection: WeightPart | None
    b_input: WeightPart
    b_state: WeightPart


def split_weights(t: Translation) -> list[CellParts]:
    """Return the cells by layer, then by direction."""
    vector, width = t.widen(t.inputs[1]), t.inputs[0].shape[2]
    if vector.read is None:
        return _slice_vector(t, vector, width)
    split = []
    for cell in cells(t.attrs, width, vector.read()):
        parts = [None if x is None else WeightPart(t, x, x.shape, vector.dtype) for x in cell]
        split.append(CellParts(*parts))  # type: ignore[arg-type]
    return split


def _slice_vector(t: Translation, vector: Value, width: int) -> list[CellParts]:
    hidden, sides, out = t.attrs["state_size"], directions(t.attrs), output_width(t.attrs)
    rows, at = GATES[t.attrs["mode"]] * hidden, 0

    def take(*shape: int) -> WeightPart:
        nonlocal at
        piece = t.emit("Slice", vector, t.integers([at]), t.integers([at + prod(shape)]))
        at += prod(shape)
        return WeightPart(t, piece, (prod(shape),), vector.dtype).reshape(*shape)

    weights = []
    for number in range(t.attrs["num_layers"] * sides):
        columns = width if number < sides else out * sides
        weights.append(
            (
                take(rows, columns),
                take(rows, out),
                take(out, hidden) if t.attrs["projection_size"] else None,
            )
        )
    return [CellParts(*three, take(rows), take(rows)) for three in weights]


_OPERATORS = {"rnn_relu": "RNN", "rnn_tanh": "RNN", "lstm": "LSTM", "gru": "GRU"}

_GATE_ORDER = {"rnn_relu": (0,), "rnn_tanh": (0,), "lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""Where MXNet has ONNX's gates: i, o, f, c of an LSTM and z, r, n of a GRU."""


def translate_rnn(t: Translation) -> list[str]:
    """Emit the layers, with both directions' results side by side between them."""
    t.require_floats()
    mode, layers, sides = t.attrs["mode"], t.attrs["num_layers"], directions(t.attrs)
    x, _, *states = map(t.widen, t.inputs[: 4 if mode == "lstm" else 3])
    if t.attrs["projection_size"] or x.dtype == "float64":
        return translate_by_steps(t)
    begins = [_split(t, state, layers, sides) for state in states]
    weights = split_weights(t)
    steps, batch, _ = x.shape
    source, ends = x.name, []
    for number in range(layers):
        outputs = _layer(
            t,
            source,
            weights[number * sides : (number + 1) * sides],
            [state[number] for state in begins],
        )
        ends.append(outputs[1:])
        if sides == 1:
            # ONNX keeps the axis of directions even for one.
            source = t.emit("Squeeze", outputs[0], t.integers([1]))
        else:
            # MXNet joins directions on the channel axis: (T, D, N, C) becomes (T, N, D * C).
            both = t.transpose(outputs[0], (0, 2, 1, 3))
            source = t.reshape(both, (steps, batch, sides * output_width(t.attrs)))
    results = [source]
    if t.attrs["state_outputs"]:
        results += [
            state[0] if layers == 1 else t.emit("Concat", *state, axis=0)
            for state in zip(*ends, strict=True)
        ]
    return [t.cast(result, t.outputs[0].dtype, x.dtype) for result in results]


def _split(t: Translation, state: Value, layers: int, sides: int) -> list[str]:
    """Return each layer's state (directions, batch, width)."""
    return (
        [state.name]
        if layers == 1
        else t.emit_several("Split", layers, state, t.integers([sides] * layers), axis=0)
    )


def _layer(t: Translation, x: str, cells: Sequence[CellParts], states: Sequence[str]) -> list[str]:
    """Return results (steps, directions, batch, width) and last states."""
    mode, hidden, sides = t.attrs["mode"], t.attrs["state_size"], len(cells)
    rows, order = GATES[mode] * hidden, _GATE_ORDER[mode]
    w_input = concatenate([cell.w_input.reorder(order) for cell in cells]).reshape(
        sides, rows, cells[0].w_input.shape[1]
    )
    w_state = concatenate([cell.w_state.reorder(order) for cell in cells]).reshape(
        sides, rows, cells[0].w_state.shape[1]
    )
    biases = [part.reorder(order) for cell in cells for part in (cell.b_input, cell.b_state)]
    bias = concatenate(biases).reshape(sides, 2 * rows)
    attributes: dict[str, Any] = {"direction": "bidirectional" if sides == 2 else "forward"}
    if mode == "gru":
        # MXNet's reset gate multiplies the product with the state; ONNX's default, the state.
        attributes["linear_before_reset"] = 1
    if mode == "rnn_relu":
        attributes["activations"] = ["Relu"] * sides
    # No sequence_lens: MXNet's CPU kernels ignore it.
    inputs = (x, w_input.name, w_state.name, bias.name, "", *states)
    return t.emit_several(
        _OPERATORS[mode], 1 + len(states), *inputs, hidden_size=hidden, **attributes
    )


Step = Callable[[str, Sequence[Value]], list[str]]
"""Emits a step from the inputs' products and the states; returns new states."""


def translate_by_steps(t: Translation) -> list[str]:
    """Emit a ``Scan`` over steps per layer and direction."""
    x, _, *states = map(t.widen, t.inputs[: 4 if t.attrs["mode"] == "lstm" else 3])
    sides, weights = directions(t.attrs), split_weights(t)
    source = x.name
    ends: list[list[str]] = []
    for first in range(0, len(weights), sides):
        results = []
        for number in range(first, first + sides):
            begins = [
                Value(
                    t.emit("Gather", state, t.constant(number, "int64"), axis=0),
                    state.shape[1:],
                    x.dtype,
                )
                for state in states
            ]
            *last, out = _scan(
                t, source, x.shape[0], weights[number], begins, backwards=int(number > first)
            )
            ends.append(last)
            results.append(out)
        source = results[0] if sides == 1 else t.emit("Concat", *results, axis=2)
    outputs = [source]
    if t.attrs["state_outputs"]:
        for parts in zip(*ends, strict=True):
            outputs.append(
                t.emit(
                    "Concat",
                    *(t.emit("Unsqueeze", part, t.integers([0])) for part in parts),
                    axis=0,
                )
            )
    return [t.cast(output, t.outputs[0].dtype, x.dtype) for output in outputs]


def _scan(
    t: Translation, x: str, steps: int, cell: CellParts, begins: Sequence[Value], *, backwards: int
) -> list[str]:
    """Return last states and results (steps, batch, width)."""
    step = _STEPS[t.attrs["mode"]](t, cell)
    # Independent of the state, so computed before the loop.
    products = t.emit("Add", t.emit("MatMul", x, cell.w_input.transpose().name), cell.b_input.name)
    if t.attrs["mode"] != "gru":
        products = t.emit("Add", products, cell.b_state.name)
    dtype = begins[0].dtype

    def emit_step(inputs: Sequence[Value]) -> list[Value]:
        new_states = step(inputs[-1].name, inputs[:-1])
        ends = [Value(name, x.shape, dtype) for name, x in zip(new_states, begins, strict=True)]
        return [*ends, ends[0]]

    rows = Value("products", (begins[0].shape[0], cell.b_input.shape[0]), dtype)
    states = [Value("state", x.shape, dtype) for x in begins]
    return t.emit_several(
        "Scan",
        len(begins) + 1,
        *begins,
        products,
        body=t.body([*states, rows], emit_step),
        num_scan_inputs=1,
        scan_input_directions=[backwards],
        scan_output_directions=[backwards],
    )


def _plain(t: Translation, cell: CellParts) -> Step:
    """Return the kernel's step ``_plain``."""
    w_state = cell.w_state.transpose().name
    act = "Relu" if t.attrs["mode"] == "rnn_relu" else "Tanh"
    return lambda x, states: [t.emit(act, t.emit("Add", x, t.emit("MatMul", states[0], w_state)))]


def _lstm(t: Translation, cell: CellParts) -> Step:
    w_state = cell.w_state.transpose().name
    w_projection = None if cell.w_projection is None else cell.w_projection.transpose().name

    def step(x: str, states: Sequence[Value]) -> list[str]:
        h, c = states
        total = t.emit("Add", x, t.emit("MatMul", h, w_state))
        i, f, new, o = t.emit_several("Split", 4, total, t.integers([c.shape[1]] * 4), axis=1)
        i, f, o = (t.emit("Sigmoid", gate) for gate in (i, f, o))
        cell_state = t.emit("Add", t.emit("Mul", f, c), t.emit("Mul", i, t.emit("Tanh", new)))
        out = t.emit("Mul", o, t.emit("Tanh", cell_state))
        return [out if w_projection is None else t.emit("MatMul", out, w_projection), cell_state]

    return step


def _gru(t: Translation, cell: CellParts) -> Step:
    """Return the kernel's step ``_gru``."""
    w_state, b_state = cell.w_state.transpose().name, cell.b_state.name

    def step(x: str, states: Sequence[Value]) -> list[str]:
        h = states[0]
        sizes = t.integers([h.shape[1]] * 3)
        ours = t.emit_several("Split", 3, x, sizes, axis=1)
        others = t.emit_several(
            "Split", 3, t.emit("Add", t.emit("MatMul", h, w_state), b_state), sizes, axis=1
        )
        reset, update = (t.emit("Sigmoid", t.emit("Add", ours[i], others[i])) for i in (0, 1))
        new = t.emit("Tanh", t.emit("Add", ours[2], t.emit("Mul", reset, others[2])))
        rest = t.emit("Sub", t.number(1, h.dtype), update)
        return [t.emit("Add", t.emit("Mul", rest, new), t.emit("Mul", update, h))]

    return step


_STEPS: dict[str, Callable[[Translation, CellParts], Step]] = {
    "rnn_relu": _plain,
    "rnn_tanh": _plain,
    "lstm": _lstm,
    "gru": _gru,
}


def translate_mask(t: Translation) -> str:
    """Emit ``Where`` comparing steps and lengths."""
    if len(t.inputs) == 1:
        return t.emit("Identity", t.inputs[0])
    data, length = t.widen(t.inputs[0]), t.inputs[1]
    axis, narrow = t.attrs["axis"], t.outputs[0].dtype
    ones = (1,) * (data.rank - 2)
    steps, samples = data.shape[axis], data.shape[1 - axis]
    numbers = np.arange(steps).reshape((steps, 1, *ones) if axis == 0 else (1, steps, *ones))
    counts = t.reshape(
        t.cast(length, "int64"), (1, samples, *ones) if axis == 0 else (samples, 1, *ones)
    )
    inside = t.emit("Less", t.constant(numbers, "int64"), counts)
    value = t.constant(convert(np.asarray(t.attrs["value"]), np.dtype(narrow)), data.dtype)
    return t.cast(t.emit("Where", inside, data, value), narrow, data.dtype)


def translate_last(t: Translation) -> str:
    """Emit ``Gather`` of the last step, or ``GatherND`` of each sample's."""
    data, axis = t.inputs[0], t.attrs["axis"]
    if len(t.inputs) == 1:
        return t.emit("Gather", data, t.constant(-1, "int64"), axis=axis)
    last = t.emit("Sub", t.cast(t.inputs[1], "int64"), t.constant(1, "int64"))
    by_sample = t.transpose(data, (1, 0, *range(2, data.rank)) if axis == 0 else range(data.rank))
    return t.emit("GatherND", by_sample, t.emit("Unsqueeze", last, t.integers([1])), batch_dims=1)


def translate_reverse(t: Translation) -> str:
    """Emit ``ReverseSequence``, or a backward slice where all steps count."""
    if len(t.inputs) == 1:
        return t.emit("Slice", t.inputs[0], *map(t.integers, ([-1], [-(1 << 63)], [0], [-1])))
    lengths = t.cast(t.inputs[1], "int64")
    return t.emit("ReverseSequence", t.inputs[0], lengths, time_axis=0, batch_axis=1)


TRANSLATIONS = (
    Translator("RNN", translate_rnn),
    Translator("SequenceMask", translate_mask),
    Translator("SequenceLast", translate_last),
    Translator("SequenceReverse", translate_reverse),
)
