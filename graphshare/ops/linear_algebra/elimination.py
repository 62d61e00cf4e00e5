"""Equations, determinants and Cholesky factors in ONNX, which has no operator for them: ``Scan`` over columns, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from graphshare.ops.onnx_terms import Term
from graphshare.ops.translation import Translation, Value


class Matrices(NamedTuple):
    """Matrices (batch, rows, columns) of float64."""

    term: Term
    shape: tuple[int, int, int]

    @property
    def value(self) -> Value:
        """The value that holds them."""
        return Value(self.term.name, self.shape, "float64")


def matrices(t: Translation, x: Value, shape: Sequence[int] = ()) -> Matrices:
    """Return ``x``, read as if it had another ``shape``, as a batch of matrices of float64."""
    *lead, rows, columns = shape or x.shape
    whole = (prod(lead), rows, columns)
    wide = Term(t, t.cast(x, "float64"), "float64")
    return Matrices(wide if x.shape == whole else wide.reshape(whole), whole)


def unit_matrices(t: Translation, like: Matrices) -> Matrices:
    """Return a unit matrix for each of the matrices."""
    one = Term(t, t.constant(np.eye(like.shape[1]), "float64"), "float64")
    return Matrices(one.expand(like.shape), like.shape)


def solve(t: Translation, a: Matrices, b: Matrices) -> Term:
    """Return X of A X = B (batch, rows, columns of b), by elimination with pivots; NaN or infinities where A is singular."""
    (batch, n, _), columns = a.shape, b.shape[2]
    both = Value(t.emit("Concat", a.term.name, b.term.name, axis=2), (batch, n, n + columns), "float64")

    def step(inputs: Sequence[Value]) -> list[Value]:
        state, number = inputs
        rows, _ = _eliminate(t, state, number, stop_at_zero=False)
        return [rows]

    (reduced,) = _scan(t, n, [both], step)
    return Term(t, t.emit("Slice", reduced, *map(t.integers, ([n], [n + columns], [2]))), "float64")


def pivots(t: Translation, a: Matrices) -> Term:
    """Return the pivots of an elimination (rows, batch, 1), of which each exchange of rows turns the sign.

    Their product is the determinant.
    """

    def step(inputs: Sequence[Value]) -> list[Value]:
        return list(_eliminate(t, *inputs, stop_at_zero=True))

    return Term(t, _scan(t, a.shape[1], [a.value], step)[1], "float64")


def cholesky(t: Translation, a: Matrices) -> Term:
    """Return L of A = L L^T, from the lower triangle of A; NaN where A is not positive definite."""
    batch, n, _ = a.shape
    rows = Term(t, t.integers(range(n)), "int64")

    def step(inputs: Sequence[Value]) -> list[Value]:
        factor, k = Term(t, inputs[0].name, "float64"), Term(t, inputs[1].name, "int64")
        done = factor.apply("MatMul", factor.apply("Gather", k, axis=1).reshape((batch, n, 1))).reshape((batch, n))
        column = a.term.apply("Gather", k, axis=2) - done
        corner = column.apply("Gather", k, axis=1).apply("Sqrt").reshape((batch, 1))
        lower = (rows < k).choose(0.0, column / corner).reshape((batch, n, 1))
        return [Value(rows.equals(k).choose(lower, factor).name, a.shape, "float64")]

    begin = Term(t, t.number(0, "float64"), "float64").expand(a.shape)
    return Term(t, _scan(t, n, [Value(begin.name, a.shape, "float64")], step)[0], "float64")


def _scan(t: Translation, count: int, states: Sequence[Value], step: Callable[[Sequence[Value]], Sequence[Value]]) -> list[str]:
    """Return the last states of a loop over the numbers below ``count``, and what its steps give beside them."""
    body = t.body([*(Value("state", x.shape, x.dtype) for x in states), Value("number", (), "int64")], step)
    return t.emit_several("Scan", len(body.heads), *states, t.integers(range(count)), body=body, num_scan_inputs=1)


def _eliminate(t: Translation, state: Value, number: Value, *, stop_at_zero: bool) -> tuple[Value, Value]:
    """Return the rows with column ``number`` eliminated, and the pivot (batch, 1).

    The row with the largest number becomes the pivot's. With ``stop_at_zero`` a column of zeros stays as it is.
    """
    batch, n, width = state.shape
    rows = Term(t, t.integers(range(n)), "int64")
    k = Term(t, number.name, "int64")

    def take(x: Term, axis: int) -> Term:
        return x.apply("Gather", k, axis=axis)

    column = take(Term(t, state.name, "float64"), 2)
    best = (rows < k).choose(-1.0, column.apply("Abs")).apply("ArgMax", dtype="int64", axis=1, keepdims=1)
    order = rows.equals(k).choose(best, rows.equals(best).choose(k, rows))
    places = t.emit("Unsqueeze", order.name, t.integers([2]))
    swapped = Term(t, t.emit("GatherND", state.name, places, batch_dims=1), "float64")
    top = take(swapped, 1)
    pivot = take(top, 1).reshape((batch, 1))
    line = top / (pivot.equals(0).choose(1.0, pivot) if stop_at_zero else pivot)
    line = line.reshape((batch, 1, width))
    reduced = swapped - take(swapped, 2).reshape((batch, n, 1)) * line
    rest = rows.reshape((n, 1)).equals(k).choose(line, reduced)
    signed = best.equals(k).choose(pivot, -pivot)
    return Value(rest.name, state.shape, "float64"), Value(signed.name, (batch, 1), "float64")
