"""LSTM layers of 8-bit integers: ``Scan`` of integers in floats, pairs clipped to 16 bits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.onnx_terms import TERMS, Term, term
from graphshare.ops.quantization.rnn import PAIR_ENDS, Steps, Weights, row_units, whole_weights
from graphshare.ops.rnn.kernel import Cell, cells, directions
from graphshare.ops.translation import Translation, Translator, Value

_EXACT = 1 << 24


def translate_quantized_rnn(t: Translation) -> list[str]:
    """Emit a ``Scan`` per layer and direction; weights are quantized beforehand."""
    x, read = t.inputs[0], t.inputs[1].read
    if read is None:
        t.refuse("its weights are not among the parameters, so they cannot be quantized")
    vector, sides = read(), directions(t.attrs)
    steps = Steps(TERMS, term(t, 4).reshape(()), term(t, 5).reshape(()))
    with np.errstate(all="ignore"):
        units = row_units(t.attrs, x.shape[2], vector)
        layers = [_Layer(t, cell, units, steps) for cell in cells(t.attrs, x.shape[2], vector)]
    source, states = term(t).cast("float32"), [steps.whole(term(t, 2)), term(t, 3)]
    shape = t.inputs[2].shape[1:]
    ends: list[list[Term]] = []
    for first in range(0, len(layers), sides):
        results = []
        for number in range(first, first + sides):
            place = source.number(number, "int64")
            begins = [
                Value(state.apply("Gather", place, axis=0).name, shape, "float32")
                for state in states
            ]
            *last, out = layers[number].run(source, begins, backwards=int(number > first))
            ends.append(last)
            results.append(out)
        source = results[0] if sides == 1 else results[0].apply("Concat", *results[1:], axis=2)
    outputs = [steps.floats(source).name]
    if t.attrs["state_outputs"]:
        hidden, cell_state = (_stack(t, parts) for parts in zip(*ends, strict=True))
        outputs += [steps.floats(hidden).name, cell_state.name]
    return outputs


def _stack(t: Translation, parts: Sequence[Term]) -> Term:
    rows = [t.emit("Unsqueeze", part.name, t.integers([0])) for part in parts]
    return Term(t, t.emit("Concat", *rows, axis=0), "float32")


class _Layer:
    def __init__(self, t: Translation, cell: Cell, units: Array, steps: Steps) -> None:
        self.t, self.steps, self.size = t, steps, t.attrs["state_size"]
        self.weights = [whole_weights(weight, units) for weight in (cell.w_input, cell.w_state)]
        columns = sum(weight.whole.shape[1] for weight in self.weights)
        self.dtype = "float32" if columns * 255 * 128 < _EXACT else "float64"
        totals = sum(weight.whole.sum(axis=1) for weight in self.weights)
        self.product = self._constant(units) * steps.scale
        self.bias = (
            self._constant(cell.b_input + cell.b_state)
            - self._constant(totals) * steps.shift / self.product
        )
        self.matrices = [self._constant(weight.whole.T, self.dtype) for weight in self.weights]

    def _constant(self, values: object, dtype: str = "float32") -> Term:
        return Term(self.t, self.t.constant(values, dtype), dtype)

    def run(self, x: Term, begins: Sequence[Value], *, backwards: int) -> list[Term]:
        """Return last hidden and cell states, and all hidden states (steps, batch, size)."""
        t = self.t
        step = Value("x", (begins[0].shape[0], self.weights[0].whole.shape[1]), "float32")
        body = t.body([*(Value("state", y.shape, y.dtype) for y in begins), step], self._step)
        outputs = t.emit_several(
            "Scan",
            3,
            *begins,
            x.name,
            body=body,
            num_scan_inputs=1,
            scan_input_directions=[backwards],
            scan_output_directions=[backwards],
        )
        return [Term(t, name, "float32") for name in outputs]

    def _step(self, inputs: Sequence[Value]) -> list[Value]:
        h, c, x = (Term(self.t, value.name, value.dtype) for value in inputs)
        sums = self._multiply(0, x) + self._multiply(1, h)
        gates = sums.cast("float32") / self.product + self.bias
        parts = self.t.emit_several(
            "Split", 4, gates.name, self.t.integers([self.size] * 4), axis=1
        )
        enter, forget, new, leave = (Term(self.t, name, "float32") for name in parts)
        state = forget.apply("Sigmoid") * c + enter.apply("Sigmoid") * new.apply("Tanh")
        hidden = self.steps.whole(leave.apply("Sigmoid") * state.apply("Tanh"))
        ends = [Value(y.name, inputs[0].shape, "float32") for y in (hidden, state)]
        return [*ends, ends[0]]

    def _multiply(self, place: int, x: Term) -> Term:
        """``x`` is (batch, columns); each pair of products is clipped."""
        sums = x.cast(self.dtype).apply("MatMul", self.matrices[place])
        weight: Weights = self.weights[place]
        # All rows share one Gather; pairs that cannot overflow have no excess.
        pairs = np.unique(weight.pairs)
        if not pairs.size:
            return sums
        both = None
        for side in (0, 1):
            columns = 2 * pairs + side
            chosen = x.apply("Gather", self._constant(columns, "int64"), axis=1)
            one_row = Term(
                self.t, self.t.emit("Unsqueeze", chosen.name, self.t.integers([1])), "float32"
            )
            products = one_row * self._constant(weight.whole[:, columns])
            both = products if both is None else both + products
        assert both is not None
        excess = both - both.apply("Clip", *PAIR_ENDS)
        return sums - excess.reduce("ReduceSum", [2]).cast(self.dtype)


TRANSLATIONS = (
    Translator(
        "_contrib_quantized_rnn",
        translate_quantized_rnn,
        "weights that are not among the parameters are refused",
    ),
)
