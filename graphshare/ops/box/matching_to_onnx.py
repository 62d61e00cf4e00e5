"""Greedy matching of rows and columns in ONNX, by a ``Loop`` that takes the best free pair of each sample."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from graphshare.ops.translation import Translation, Value


def emit_matches(t: Translation, scores: Value, limit: float, most: int) -> tuple[str, str]:
    """Match rows and columns of scores ``(B, R, C)`` above ``limit``, best first, at most ``most`` pairs.

    Return the partner of each row ``(B, R)`` and of each column ``(B, C)`` as int64, or -1.
    """
    batch, rows, columns = scores.shape
    states = [
        msgspec.structs.replace(scores, name="free", read=None),
        Value("of_rows", (batch, rows), "int64"),
        Value("of_columns", (batch, columns), "int64"),
    ]
    unmatched = [t.emit("Expand", t.number(-1, "int64"), t.integers(state.shape)) for state in states[1:]]

    def build(inputs: Sequence[Value]) -> list[Value]:
        _, going, free, of_rows, of_columns = inputs
        flat = t.reshape(free, (batch, rows * columns))
        at = t.emit("ArgMax", flat, axis=1, keepdims=1)
        good = t.emit("Greater", t.reduce("ReduceMax", flat, (1,), keepdims=True), t.number(limit, scores.dtype))
        row, column = (t.emit(op, at, t.number(columns, "int64")) for op in ("Div", "Mod"))
        in_row = t.emit("And", good, t.emit("Equal", t.integers(range(rows)), row))
        in_column = t.emit("And", good, t.emit("Equal", t.integers(range(columns)), column))
        gone = t.emit("Or", t.reshape(in_row, (batch, rows, 1)), t.reshape(in_column, (batch, 1, columns)))
        names = (
            t.emit("Where", gone, t.number(-np.inf, free.dtype), free),
            t.emit("Where", in_row, column, of_rows),
            t.emit("Where", in_column, row, of_columns),
        )
        return [going, *(msgspec.structs.replace(x, name=name) for x, name in zip(inputs[2:], names, strict=True))]

    body = t.body([Value("step", (), "int64"), Value("going", (), "bool"), *states], build)
    _, of_rows, of_columns = t.emit_several(
        "Loop", 3, t.number(most, "int64"), t.number(True, "bool"), scores, *unmatched, body=body
    )
    return of_rows, of_columns
