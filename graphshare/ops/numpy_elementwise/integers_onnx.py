"""Bitwise functions and the least common multiple in ONNX: a loop over the bits, and Euclid's algorithm.

ONNX has operators for bits from opset 18 on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import Value

Function = Callable[[Term, Term], Term]

_WIDTHS = {"int8": 8, "uint8": 8, "int32": 32, "int64": 64}
_STEPS_OF_EUCLID = 93
"""As many as the numbers below 2**63 need: consecutive Fibonacci numbers need most."""


def _bitwise(x: Term, y: Term, *, op_type: str) -> Term:
    """Return a bitwise function, ``And``, ``Or`` or ``Xor`` of the bits."""
    if x.dtype == "bool":
        return x.apply(op_type, y)
    if x.t.opset >= 18:
        return x.apply(f"Bitwise{op_type}", y)
    return _loop_over_bits(x.cast("int64"), y.cast("int64"), op_type, _WIDTHS[x.dtype]).cast(x.dtype)


def _loop_over_bits(x: Term, y: Term, op_type: str, width: int) -> Term:
    """Return the sum of the results' bits times their weights, from the lowest bit on."""

    def step(states: Sequence[Term]) -> list[Term]:
        a, b, total, weight = states
        low, other = a.apply("Mod", 2), b.apply("Mod", 2)
        bit = low.is_true().apply(op_type, other.is_true()).cast("int64")
        return [(a - low) / 2, (b - other) / 2, total + bit * weight, weight * 2]

    both = x + y * 0, y + x * 0
    return _repeat(width, [*both, both[0] * 0, both[0] * 0 + 1], step)[2]


def _repeat(count: int, states: Sequence[Term], step: Callable[[Sequence[Term]], Sequence[Term]]) -> list[Term]:
    """Emit ``Loop``: apply ``step`` to states of the output's shape so many times."""
    t, shape = states[0].t, states[0].t.outputs[0].shape

    def build(inputs: Sequence[Value]) -> list[Value]:
        results = step([term(t, x) for x in inputs[2:]])
        going_on = Term(t, t.emit("Identity", inputs[1]), "bool")
        return [Value(going_on.name, (), "bool"), *(Value(x.name, shape, x.dtype) for x in results)]

    counter = [Value("iteration", (), "int64"), Value("condition", (), "bool")]
    body = t.body([*counter, *(Value("state", shape, x.dtype) for x in states)], build)
    names = [x.name for x in states]
    made = t.emit_several("Loop", len(states), t.number(count, "int64"), t.number(True, "bool"), *names, body=body)
    return [Term(t, name, x.dtype) for name, x in zip(made, states, strict=True)]


def least_common_multiple(x: Term, y: Term) -> Term:
    """Return the least common multiple without a sign; 0 where one number is 0."""
    a, b = x.cast("int64").apply("Abs"), y.cast("int64").apply("Abs")

    def step(states: Sequence[Term]) -> list[Term]:
        large, small = states
        is_done = small.equals(0)
        rest = large.apply("Mod", is_done.choose(1, small))
        return [is_done.choose(large, small), rest]

    divisor, _ = _repeat(_STEPS_OF_EUCLID, [a + b * 0, b + a * 0], step)
    return (a / divisor.equals(0).choose(1, divisor) * b).cast(x.dtype)


INTEGER_FUNCTIONS: dict[str, Function] = {
    "bitwise_and": partial(_bitwise, op_type="And"),
    "bitwise_or": partial(_bitwise, op_type="Or"),
    "bitwise_xor": partial(_bitwise, op_type="Xor"),
    "lcm": least_common_multiple,
}
