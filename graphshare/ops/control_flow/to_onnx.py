"""Control flow in ONNX: ``Scan``, ``Loop`` and ``If``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from graphshare.ops.control_flow.kernel import foreach_places
from graphshare.ops.translation import Translation, Translator, Value

if TYPE_CHECKING:
    from graphshare.ir.graph import Graph


def translate_foreach(t: Translation) -> list[str]:
    """Emit ``Scan``; steps of single-axis data keep the axis, with size 1."""
    data_count, out_count = len(t.attrs["in_data_locs"]), t.attrs["num_out_data"]
    state_count = len(t.attrs["in_state_locs"])
    places = foreach_places(t.attrs)
    if not data_count:
        t.refuse("it has no data to run along")
    data, states = (
        [_with_steps(t, x) for x in t.inputs[:data_count]],
        t.inputs[data_count : data_count + state_count],
    )
    rest = t.inputs[data_count + state_count :]
    if not data[0].shape[0]:  # onnxruntime lacks a Scan without steps
        return [
            *(t.constant(np.zeros(x.shape), x.dtype) for x in t.outputs[:out_count]),
            *(x.name for x in states),
        ]

    def step(inputs: Sequence[Value]) -> list[Value]:
        # Scan passes states first; MXNet's attributes number data first.
        operands = (*inputs[state_count:], *inputs[:state_count], *rest)
        heads = t.inline(
            0, [x for _, x in sorted(zip(places, operands, strict=True), key=lambda pair: pair[0])]
        )
        return [*heads[out_count:], *heads[:out_count]]

    steps = [msgspec.structs.replace(x, name="step", shape=x.shape[1:]) for x in data]
    body = t.body([*(_make_state(x) for x in states), *steps], step)
    outputs = t.emit_several(
        "Scan", len(body.heads), *states, *data, body=body, num_scan_inputs=data_count
    )
    # Scan returns final states first, MXNet last.
    return [*outputs[state_count:], *outputs[:state_count]]


def _with_steps(t: Translation, x: Value) -> Value:
    if x.rank > 1:
        return x
    shape = (*x.shape, 1)
    return Value(t.reshape(x, shape), shape, x.dtype)


def _make_state(x: Value) -> Value:
    return Value("state", x.shape, x.dtype)


def translate_while(t: Translation) -> list[str]:
    """Emit ``Loop``; zeros fill its step outputs up to ``max_iterations``."""
    limit, out_count = t.attrs["max_iterations"], t.attrs["num_out_data"]
    places, positions = t.attrs["func_input_locs"], t.attrs["func_var_locs"]

    def is_true(values: Sequence[Value]) -> Value:
        return _condition(t, t.inline(0, [values[place] for place in t.attrs["cond_input_locs"]]))

    def step(inputs: Sequence[Value]) -> list[Value]:
        # A Loop body's first two inputs are iteration and condition; MXNet's lacks these.
        values, fed = list(t.inputs), [t.inputs[place] for place in places]
        for position, x in zip(positions, inputs[2:], strict=True):
            fed[position] = x
        heads = t.inline(1, fed)
        for position, head in zip(positions, heads[out_count:], strict=True):
            fed[position] = values[places[position]] = head
        return [is_true(values), *(fed[position] for position in positions), *heads[:out_count]]

    begins = [t.inputs[places[position]] for position in positions]
    counter = [Value("iteration", (), "int64"), Value("condition", (), "bool")]
    body = t.body([*counter, *map(_make_state, begins)], step)
    count = len(body.heads) - 1
    outputs = t.emit_several(
        "Loop", count, t.number(limit, "int64"), is_true(t.inputs), *begins, body=body
    )
    # Loop returns final states first, MXNet last.
    collected = zip(outputs[len(begins) :], t.outputs, strict=False)
    return [*(_fill_up(t, x, out) for x, out in collected), *outputs[: len(begins)]]


def _condition(t: Translation, heads: Sequence[Value]) -> Value:
    if len(heads) != 1 or any(size != 1 for size in heads[0].shape):
        t.refuse("its condition is not one number")
    truth = Value(t.cast(heads[0], "bool"), heads[0].shape, "bool")
    return Value(t.reshape(truth, ()), (), "bool")


def _fill_up(t: Translation, x: str, like: Value) -> str:
    done = t.emit("Gather", t.emit("Shape", x), t.integers([0]))
    missing = t.emit("Sub", t.integers(like.shape[:1]), done)
    shape = t.emit("Concat", missing, t.integers(like.shape[1:]), axis=0)
    zeros = t.emit("Expand", t.number(0, like.dtype), shape)
    return t.reshape(t.emit("Concat", x, zeros, axis=0), like.shape)


def translate_cond(t: Translation) -> list[str]:
    """Emit ``If`` with both branches."""
    holds = _condition(t, t.inline(0, [t.inputs[place] for place in t.attrs["cond_input_locs"]]))

    def branch(number: int, places: Sequence[int]) -> Graph:
        return t.body([], lambda _: t.inline(number, [t.inputs[place] for place in places]))

    then, other = branch(1, t.attrs["then_input_locs"]), branch(2, t.attrs["else_input_locs"])
    return t.emit_several("If", len(then.heads), holds, then_branch=then, else_branch=other)


TRANSLATIONS = (
    Translator("_foreach", translate_foreach, "without data it is refused"),
    Translator("_while_loop", translate_while, "a condition of several numbers is refused"),
    Translator("_cond", translate_cond, "a condition of several numbers is refused"),
)
