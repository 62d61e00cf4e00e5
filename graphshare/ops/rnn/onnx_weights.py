"""The weights of recurrent layers in ONNX: parts of the flat parameter vector, constants where the vector can be read."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.rnn.kernel import GATES, cells, directions, output_width
from graphshare.ops.translation import Translation, Value


class Part:
    """A matrix or vector of weights: an array while it is known, else a value of the ONNX graph."""

    def __init__(self, t: Translation, content: Array | str, shape: Sequence[int], dtype: str) -> None:
        self.t = t
        self.content = content
        self.shape = tuple(shape)
        self.dtype = dtype

    @property
    def name(self) -> str:
        """The name of the value; an array becomes a constant."""
        return self.content if isinstance(self.content, str) else self.t.constant(self.content, self.dtype)

    def reshape(self, *shape: int) -> Part:
        """Return it with ``shape``."""
        if isinstance(self.content, str):
            return self._with(self.t.reshape(self.content, shape), shape)
        return self._with(self.content.reshape(shape), shape)

    def transpose(self) -> Part:
        """Return the matrix with rows as columns."""
        shape = self.shape[::-1]
        if isinstance(self.content, str):
            return self._with(self.t.transpose(self.content, (1, 0)), shape)
        return self._with(self.content.T, shape)

    def reorder(self, order: Sequence[int]) -> Part:
        """Return the blocks of rows, as many as ``order`` names, in that order."""
        blocks = self.reshape(len(order), self.shape[0] // len(order), *self.shape[1:])
        if isinstance(blocks.content, str):
            made: Array | str = self.t.emit("Gather", blocks.content, self.t.integers(order), axis=0)
        else:
            made = blocks.content[list(order)]
        return self._with(made, blocks.shape).reshape(*self.shape)

    def _with(self, content: Array | str, shape: Sequence[int]) -> Part:
        return Part(self.t, content, shape, self.dtype)


def concatenate(parts: Sequence[Part]) -> Part:
    """Return the parts below each other."""
    first = parts[0]
    shape = (sum(part.shape[0] for part in parts), *first.shape[1:])
    arrays = [part.content for part in parts if not isinstance(part.content, str)]
    if len(arrays) == len(parts):
        return Part(first.t, np.concatenate(arrays), shape, first.dtype)
    return Part(first.t, first.t.emit("Concat", *(part.name for part in parts), axis=0), shape, first.dtype)


class CellParts(NamedTuple):
    """The weights of one layer in one direction, as :class:`graphshare.ops.rnn.kernel.Cell` has them."""

    w_input: Part
    w_state: Part
    w_projection: Part | None
    b_input: Part
    b_state: Part


def split_weights(t: Translation) -> list[CellParts]:
    """Return the cells by layer, then by direction."""
    vector, width = t.widen(t.inputs[1]), t.inputs[0].shape[2]
    if vector.read is None:
        return _slice_vector(t, vector, width)
    found = []
    for cell in cells(t.attrs, width, vector.read()):
        parts = [None if x is None else Part(t, x, x.shape, vector.dtype) for x in cell]
        found.append(CellParts(*parts))  # type: ignore[arg-type]
    return found


def _slice_vector(t: Translation, vector: Value, width: int) -> list[CellParts]:
    """Return the cells as slices of a vector that only a run knows."""
    hidden, sides, out = t.attrs["state_size"], directions(t.attrs), output_width(t.attrs)
    rows, at = GATES[t.attrs["mode"]] * hidden, 0

    def take(*shape: int) -> Part:
        nonlocal at
        piece = t.emit("Slice", vector, t.integers([at]), t.integers([at + prod(shape)]))
        at += prod(shape)
        return Part(t, piece, (prod(shape),), vector.dtype).reshape(*shape)

    weights = []
    for number in range(t.attrs["num_layers"] * sides):
        columns = width if number < sides else out * sides
        weights.append((take(rows, columns), take(rows, out), take(out, hidden) if t.attrs["projection_size"] else None))
    return [CellParts(*three, take(rows), take(rows)) for three in weights]
