"""LSTM layers of 8-bit integers as oneDNN computes them: uint8 data and states, int8 weights.

An integer of data or hidden state represents ``(q - shift) / scale``; layers pass integers on, and
only the results are floats. Cell states, biases and gates are float32. Integers are rounded half to
even and clipped. Each row of each gate has its own steps per 1.0, the same in all layers and
directions.

MXNet 1.9.1 refuses to run it on processors with VNNI, unless ``DNNL_MAX_CPU_ISA=AVX2``. This kernel
computes MXNet's results without VNNI.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.formulas import ARRAYS, Functions
from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.rnn.kernel import Cell, cells, directions, rnn_cost, rnn_shapes, sigmoid
from graphshare.ops.unification import demand_dtypes, unify

_ONE = (1,)


PAIR_ENDS = (-(1 << 15), (1 << 15) - 1)


_BLOCK = 1 << 20
"""Sums of two products in memory at a time."""


class Steps(NamedTuple):
    """Steps per 1.0 and zero point of uint8, in arrays or ONNX terms."""

    f: Functions
    scale: Any
    shift: Any

    def whole(self, x: Any) -> Any:
        """Return integers from 0 to 255, in float32."""
        return self.f.clip(self.f.round(x * self.scale + self.shift), 0, 255)

    def floats(self, whole: Any) -> Any:
        return (whole - self.shift) / self.scale


def rnn_int8(
    context: Context,
    attrs: Attrs,
    x: Array,
    parameters: Array,
    state: Array,
    cell: Array,
    scale: Array,
    shift: Array,
) -> Array | tuple[Array, ...]:
    """Run all layers over uint8 ``(T, N, in)``: float32 ``(T, N, directions*H)``, and last states.

    Raises:
        KernelError: MXNet would read beyond the parameters.
    """
    steps, sides = Steps(ARRAYS, scale.ravel()[0], shift.ravel()[0]), directions(attrs)
    layers = cells(attrs, x.shape[2], parameters)
    units = row_units(attrs, x.shape[2], parameters)
    last: list[Array] = []
    last_c: list[Array] = []
    with np.errstate(all="ignore"):
        whole, hidden = x.astype(np.float32), steps.whole(state)
        for first in range(0, len(layers), sides):
            results = []
            for number in range(first, first + sides):
                order = slice(None, None, -1 if number > first else 1)
                out, c = _run(
                    layers[number], units, steps, whole[order], hidden[number], cell[number]
                )
                last.append(out[-1])
                last_c.append(c)
                results.append(out[order])
            whole = np.concatenate(results, axis=2)
    y = steps.floats(whole)
    return (y, steps.floats(np.stack(last)), np.stack(last_c)) if attrs["state_outputs"] else y


def _run(
    cell: Cell, units: Array, steps: Steps, x: Array, h: Array, c: Array
) -> tuple[Array, Array]:
    """Run one layer and direction: integer states ``(T, N, H)`` and the last cell state."""
    w, u = (whole_weights(weight, units) for weight in (cell.w_input, cell.w_state))
    # The bias subtracts the shift's share of every sum.
    shifted = (w.whole.sum(axis=1) + u.whole.sum(axis=1)).astype(np.float32) * steps.shift
    product = units * steps.scale
    bias = (cell.b_input + cell.b_state) - shifted / product
    out: Array = np.empty((*x.shape[:2], h.shape[1]), np.float32)
    for t, step in enumerate(x):
        sums = (w.times(step) + u.times(h)).astype(np.float32)
        input_gate, forget_gate, new, output_gate = np.split(sums / product + bias, 4, axis=1)
        c = sigmoid(forget_gate) * c + sigmoid(input_gate) * np.tanh(new)
        h = out[t] = steps.whole(sigmoid(output_gate) * np.tanh(c))
    return out, c


class Weights(NamedTuple):
    """Integer rows in float64, and neighbouring pairs whose sum may overflow 16 bits."""

    whole: Array
    rows: Array
    pairs: Array

    def times(self, x: Array) -> Array:
        """Multiply ``x`` ``(N, in)`` by the rows in float64.

        Like processors without VNNI, add products in pairs in 16 bits and clip each sum.
        """
        x = x.astype(np.float64)
        # Exact sums; the loop subtracts what clipping cuts.
        sums: Array = x @ self.whole.T
        block = max(1, _BLOCK // max(1, len(x)))
        for first in range(0, len(self.rows), block):
            rows, pairs = (a[first : first + block] for a in (self.rows, self.pairs))
            both = (
                x[:, 2 * pairs] * self.whole[rows, 2 * pairs]
                + x[:, 2 * pairs + 1] * self.whole[rows, 2 * pairs + 1]
            )
            both -= np.clip(both, *PAIR_ENDS)
            # nonzero lists pairs row by row: a row's pairs are one run.
            starts = np.flatnonzero(np.diff(rows, prepend=-1))
            sums[:, rows[starts]] -= np.add.reduceat(both, starts, axis=1)
        return sums


def whole_weights(weight: Array, units: Array) -> Weights:
    """Round the weights; rows of zeros have no steps and stay zeros."""
    whole = np.nan_to_num(np.clip(np.rint(weight * units[:, None]), -128, 127)).astype(np.float64)
    # A last column has no neighbour, and fits: 255 * 128 < 2**15.
    even = whole.shape[1] // 2 * 2
    left, right = whole[:, :even:2], whole[:, 1:even:2]
    most, least = (255 * (end(left, 0) + end(right, 0)) for end in (np.maximum, np.minimum))
    rows, pairs = np.nonzero((most > PAIR_ENDS[1]) | (least < PAIR_ENDS[0]))
    return Weights(whole, rows, pairs)


def row_units(attrs: Attrs, inputs: int, vector: Array) -> Array:
    """Return each row's steps per 1.0 ``(4*H,)``: the largest weight becomes 127."""
    size = attrs["state_size"]
    largest = np.zeros(4 * size, np.float32)
    for part in _weights_in_range(attrs, inputs, vector):
        largest = np.maximum(largest, np.abs(part).max(axis=1, initial=0))
    with np.errstate(divide="ignore"):
        return np.asarray(np.float32(127) / largest)


def _weights_in_range(attrs: Attrs, inputs: int, vector: Array) -> Iterator[Array]:
    """Yield for each row the numbers among which MXNet searches the largest weight.

    In the first layer these are its weights. In later layers MXNet reads as many numbers as the
    state has weights, from the computed start of each matrix; of layers that run as one only the
    first counts.
    """
    size, sides = attrs["state_size"], directions(attrs)
    rows, width = 4 * size, size * size * 4
    each, later = rows * (inputs + size), rows * (sides * size + size)
    for first in range(0, each * sides, each):
        yield vector[first : first + rows * inputs].reshape(rows, inputs)
        yield vector[first + rows * inputs : first + each].reshape(rows, size)
    rest = attrs["num_layers"] - 1
    # Unidirectional layers of equal input size run as one: all, or all but the first.
    if sides == 1:
        rest = min(rest, int(inputs != size))
    for layer in range(rest):
        first = each * sides + layer * later * sides
        second = first + (rows * inputs if layer == 0 else width)
        if second + width > vector.size:
            raise KernelError(
                f"with inputs of {inputs} and states of {size} MXNet reads beyond the parameters of this layer"
            )
        yield vector[first : first + width].reshape(rows, size)
        yield vector[second : second + width].reshape(rows, size)


def _shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    known, results = rnn_shapes(attrs, inputs[:4], outputs)
    return [*known, *(unify(_ONE, x) for x in inputs[4:])], results


def _types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return ["uint8", *["float32"] * (len(inputs) - 1)], ["float32"] * len(outputs)


def _refuses(attrs: Attrs, bodies: Bodies) -> str | None:
    if (
        attrs["mode"] == "lstm"
        and not attrs["projection_size"]
        and not attrs["use_sequence_length"]
    ):
        return None
    return "MXNet computes it only for an LSTM without projection and sequence lengths"


KERNELS = with_limits(
    Limits(positive=("state_size",), elements=True),
    Kernel(
        "_contrib_quantized_rnn",
        rnn_int8,
        _shapes,
        demand_dtypes(_types),
        refuses=_refuses,
        cost=rnn_cost,
    ),
)
