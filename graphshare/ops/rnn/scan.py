"""Recurrent layers in ONNX step by step: ``Scan`` with a cell of matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphshare.ops.rnn.kernel import directions
from graphshare.ops.rnn.onnx_weights import CellParts, split_weights
from graphshare.ops.translation import Translation, Value

Step = Callable[[str, Sequence[Value]], list[str]]
"""Emits a step from the products of the input and the states; returns the new states."""


def translate_by_steps(t: Translation) -> list[str]:
    """Emit for each layer and direction a ``Scan`` over its steps."""
    x, _, *states = map(t.widen, t.inputs[: 4 if t.attrs["mode"] == "lstm" else 3])
    sides, weights = directions(t.attrs), split_weights(t)
    source = x.name
    ends: list[list[str]] = []
    for first in range(0, len(weights), sides):
        results = []
        for number in range(first, first + sides):
            begins = [
                Value(t.emit("Gather", state, t.constant(number, "int64"), axis=0), state.shape[1:], x.dtype)
                for state in states
            ]
            *last, out = _scan(t, source, x.shape[0], weights[number], begins, backwards=int(number > first))
            ends.append(last)
            results.append(out)
        source = results[0] if sides == 1 else t.emit("Concat", *results, axis=2)
    outputs = [source]
    if t.attrs["state_outputs"]:
        for parts in zip(*ends, strict=True):
            outputs.append(t.emit("Concat", *(t.emit("Unsqueeze", part, t.integers([0])) for part in parts), axis=0))
    return [t.cast(output, t.outputs[0].dtype, x.dtype) for output in outputs]


def _scan(t: Translation, x: str, steps: int, cell: CellParts, begins: Sequence[Value], *, backwards: int) -> list[str]:
    """Return the last states and the results (steps, batch, width) of one direction of a layer."""
    step = _STEPS[t.attrs["mode"]](t, cell)
    products = t.emit("Add", t.emit("MatMul", x, cell.w_input.transpose().name), cell.b_input.name)
    if t.attrs["mode"] != "gru":
        products = t.emit("Add", products, cell.b_state.name)
    dtype = begins[0].dtype

    def emit_step(inputs: Sequence[Value]) -> list[Value]:
        made = step(inputs[-1].name, inputs[:-1])
        ends = [Value(name, x.shape, dtype) for name, x in zip(made, begins, strict=True)]
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
    """Return the step ``h = act(W x + b + U h + c)``."""
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
    """Return the step with ``n = tanh(W x + b + r * (U h + c))`` and ``h = (1 - z) * n + z * h``."""
    w_state, b_state = cell.w_state.transpose().name, cell.b_state.name

    def step(x: str, states: Sequence[Value]) -> list[str]:
        h = states[0]
        sizes = t.integers([h.shape[1]] * 3)
        ours = t.emit_several("Split", 3, x, sizes, axis=1)
        others = t.emit_several("Split", 3, t.emit("Add", t.emit("MatMul", h, w_state), b_state), sizes, axis=1)
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
