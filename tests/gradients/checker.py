"""The product of a gradient with a random direction against a central difference, in float64."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from graphshare.ir.graph import Entry, Node
from graphshare.ops.gradient import Gradient
from graphshare.ops.kernel import Array, Shape
from graphshare.ops.registry import find_gradient, register_gradient
from tests.corpus.values import PERIOD

STEP = 1e-6
LEAST = 1e-4
"""Of the whole gradient: small entries are compared as if they were at least that."""


class Check(NamedTuple):
    """Both numbers, and how far apart they are relative to the sizes that were summed."""

    gradient: float
    difference: float
    apart: float


def check(
    targets: Sequence[Entry],
    values: Mapping[Node, Array],
    wanted: Sequence[Node],
    *,
    seed: int = 0,
    training: bool = True,
    step: float = STEP,
    shapes: Mapping[Node, Sequence[Shape]] | None = None,
    small: bool = False,
) -> Check | None:
    """<vjp(w), v> and <(f(x + h v) - f(x - h v)) / 2h, w> for random v and w; None where the outputs are not finite.

    With ``small`` v is 0 but for the smaller half of each gradient's entries, which larger ones would hide.
    """
    stream = np.random.default_rng(seed)
    plan = make_plan(targets)
    values = {
        node: x.astype(np.float64, copy=False) if x.dtype.kind == "f" else x
        for node, x in values.items()
    }
    wanted = [node for node in wanted if node in plan.variables and values[node].dtype.kind == "f"]
    direction = {node: stream.standard_normal(min(PERIOD, values[node].size)) for node in wanted}
    # One memory for both sides: new memory takes long
    shifted = {node: np.empty(values[node].shape) for node in wanted}

    def run(shift: float) -> Tape:
        for node, v in direction.items() if shift else ():
            _shift(values[node], shift * v, shifted[node])
        moved = {**values, **{node: shifted[node] for node in direction}} if shift else values
        drawn = lambda node: np.random.default_rng(7)  # noqa: E731
        kept = () if shift else wanted
        return Tape(plan, moved, kept, streams=drawn, shapes=shapes, training=training)

    tape = run(0.0)
    heads = [
        stream.standard_normal(out.shape) if out.dtype.kind == "f" else None for out in tape.outputs
    ]
    found = tape.backward(heads).gradients
    products = [_product(found[node], v) for node, v in direction.items() if node in found]
    least = 1e-12
    if small:
        least = LEAST * float(np.sqrt(sum(squares for _, squares in products)))
        direction = {
            node: _on_small_entries(v, found[node])
            for node, v in direction.items()
            if node in found
        }
        products = [_product(found[node], v) for node, v in direction.items()]
    after = [out.copy() for out in run(step).outputs]  # which may be a variable itself
    before = run(-step).outputs
    if not all(np.isfinite(out).all() for out in (*tape.outputs, *after, *before)):
        return None
    terms = [
        (a - b) / (2 * step) * w
        for a, b, w in zip(after, before, heads, strict=True)
        if w is not None
    ]
    gradient, difference = (
        float(sum(total for total, _ in products)),
        float(sum(t.sum() for t in terms)),
    )
    size = float(
        np.sqrt(max(sum(squares for _, squares in products), sum(np.vdot(t, t) for t in terms)))
    )
    return Check(gradient, difference, abs(gradient - difference) / max(size, least, 1e-12))


def _on_small_entries(v: Array, gradient: Array) -> Array:
    """Return ``v`` with zeros where an entry of the gradient is larger than half of them."""
    sizes = np.abs(gradient.reshape(-1)[: v.size])
    return np.where(sizes <= np.median(sizes), v, 0.0) if sizes.size > 1 else v


def _parts(size: int) -> Iterator[slice]:
    return (slice(first, min(first + PERIOD, size)) for first in range(0, size, PERIOD))


def _shift(x: Array, v: Array, out: Array) -> None:
    """``x`` with ``v`` added to it, over and over, into ``out``."""
    source, goal = x.reshape(-1), out.reshape(-1)
    for part in _parts(x.size):
        np.add(source[part], v[: part.stop - part.start], out=goal[part])


def _product(x: Array, v: Array) -> tuple[float, float]:
    """The sum of the elements of ``x`` times those of ``v``, over and over, and the sum of the
    squares of these products.
    """
    flat, total, squares = x.reshape(-1), 0.0, 0.0
    for part in _parts(x.size):
        term = flat[part] * v[: part.stop - part.start]
        total += float(term.sum())
        squares += float(np.vdot(term, term))
    return total, squares


def names(values: Mapping[Any, Array]) -> list[Any]:
    """The variables of floating point."""
    return [node for node, x in values.items() if x.dtype.kind == "f"]


@contextmanager
def slightly_wrong(op: str, share: float = 1.0) -> Iterator[None]:
    """Every gradient of an operator is 0.05 % too large, or this share of its entries, the smallest."""
    right = find_gradient(op)
    assert isinstance(right, Gradient)

    def scale(gradient: Array) -> Array:
        small = np.abs(gradient) <= np.quantile(np.abs(gradient), share)
        return np.where(small, gradient * 1.0005, gradient)

    def wrong(record: Any, *dys: Any) -> Any:
        result = right.vjp(record, *dys)
        if isinstance(result, np.ndarray):
            return scale(result)
        return [None if g is None else scale(g) for g in result]

    register_gradient(
        Gradient(
            op, wrong, right.reads_inputs, right.reads_outputs, right.is_loss, right.overwrites
        )
    )
    try:
        yield
    finally:
        register_gradient(right)
