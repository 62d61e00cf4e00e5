"""Inputs of ONNX models: those that are fed, and others drawn by their declared dtypes and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from graphshare.analysis.twins import NodePair
from graphshare.errors import Fault, InputError, RefusedError
from graphshare.execute.engines.onnx_session import Session
from graphshare.execute.engines.registry import ONNXRUNTIME
from graphshare.execute.feeds import GivenShape
from graphshare.execute.variable_values import convert_feed
from graphshare.ops.kernel import Array
from graphshare.text.format import format_shape
from graphshare.verification.inputs import BranchInputs, add_notes, describe_input, describe_seed
from graphshare.verification.runners import Round, SessionPart, SessionRunner

OPEN_SIZES = (8, 64, 224)
"""What sizes that a model leaves open are tried at in turn; that of a batch is 1."""
_DTYPES = {"float": "float32", "double": "float64", "float16": "float16", "bool": "bool", "string": "object"}
_DTYPES |= {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def draw_rounds(inputs: BranchInputs, variables: Sequence[NodePair], notes: dict[str, None]) -> Iterator[Round]:
    """Yield both branches in sessions of their own for all rounds and sizes; add to ``notes`` what was drawn.

    Raises:
        RefusedError: inputs cannot be drawn.
        InputError: onnxruntime refuses a branch.
    """
    pair, sides, options = inputs.pair, inputs.sides, inputs.options
    left, right = (SessionPart(side, heads) for side, heads in zip(sides.members, (pair.left, pair.right), strict=True))
    twins = {a.name: b.name for a, b in variables}
    labels = {a.name: inputs.twins.describe(a) for a, _ in variables}
    for number in range(options.rounds):
        for setup in inputs.setups:
            feeds = {node.name: array for node, array in setup.feeds.items()}
            shapes = {node.name: shape for node, shape in setup.shapes.items()}
            values, runner = run_drawn(left, feeds, shapes, options.seed + number)
            if not number:
                drawn = {name: value for name, value in values.items() if name not in feeds}
                source = describe_seed(options.seed)
                lines = (describe_input(labels.get(name, [repr(name)]), source, value) for name, value in drawn.items())
                add_notes(notes, lines, setup.branch)
            others = {twins.get(name, name): value for name, value in values.items()}
            yield Round({ONNXRUNTIME: (runner, SessionRunner(right, others))}, setup.branch)


def run_drawn(
    part: SessionPart, feeds: Mapping[str, Array], shapes: Mapping[str, GivenShape], seed: int
) -> tuple[dict[str, Array], SessionRunner]:
    """Return a value for each input, and the run on them: at the first of ``OPEN_SIZES`` that onnxruntime computes.

    Raises:
        RefusedError: as :class:`InputDrawer`.
    """
    drawer = InputDrawer(part.session, feeds, shapes, seed)
    *smaller, last = OPEN_SIZES if drawer.has_open_sizes else OPEN_SIZES[:1]
    for size in smaller:
        values = drawer.draw(size)
        try:
            return values, SessionRunner(part, values, part.session.run(values))
        except InputError:
            continue
    values = drawer.draw(last)
    return values, SessionRunner(part, values)


class InputDrawer:
    """Draws inputs for a session. ``feeds`` and ``shapes`` are by the names of its inputs.

    Raises:
        RefusedError: a name is not that of an input; an input has no dtype that can be drawn, or a shape that does not fit what
            the model declares; all are listed.
    """

    def __init__(self, session: Session, feeds: Mapping[str, Array], shapes: Mapping[str, GivenShape], seed: int) -> None:
        self._session, self._feeds, self._shapes, self._seed = session, feeds, shapes, seed
        faults = [
            Fault(f"{option} {name!r} is not an input of the model, which holds its value")
            for option, names in (("`feeds`", feeds), ("`shapes`", shapes))
            for name in names
            if name not in session.inputs
        ]
        faults += [fault for name in session.inputs for fault in self._find_faults(name)]
        if faults:
            raise RefusedError(faults)

    @property
    def has_open_sizes(self) -> bool:
        """Whether a size is left to be chosen."""
        return any(None in self._sizes(name) for name in self._session.inputs if name not in self._feeds)

    def draw(self, size: int) -> dict[str, Array]:
        """Return a value for each input, with ``size`` for what is open: batches of one sample."""
        drawn: dict[str, Array] = {}
        rng = np.random.default_rng(self._seed)
        for name in self._session.inputs:
            dtype = _DTYPES.get(self._session.dtypes[name], "")
            if name in self._feeds:
                array = self._feeds[name]
                drawn[name] = array if array.dtype.kind == "O" else convert_feed(name, array, dtype or None)
            else:
                sizes = (self._choose(name, place, size) for place in range(len(self._sizes(name))))
                drawn[name] = _draw(rng, tuple(sizes), dtype)
        return drawn

    def _find_faults(self, name: str) -> list[Fault]:
        dtype, declared = self._session.dtypes[name], self._session.inputs[name]
        if name in self._feeds:
            return []
        if dtype not in _DTYPES:
            return [
                Fault(f"input {name!r} is a {dtype}, which is not drawn", hint="compare a part without it (extract `cuts`)")
            ]
        chosen = self._shapes.get(name)
        if chosen is None:
            return []
        fits = len(chosen) == len(declared) and all(
            n is None or not isinstance(m, int) or n == m for n, m in zip(chosen, declared, strict=True)
        )
        if fits:
            return []
        return [Fault(f"`shapes` {name!r} is {format_shape(chosen)}, and the model declares {_format_declared(declared)}")]

    def _sizes(self, name: str) -> Sequence[int | None]:
        """Return the sizes of an input; None for what is open."""
        declared = [n if isinstance(n, int) and n >= 0 else None for n in self._session.inputs[name]]
        chosen = self._shapes.get(name, (None,) * len(declared))
        return [m if n is None else n for n, m in zip(chosen, declared, strict=True)]

    def _choose(self, name: str, place: int, size: int) -> int:
        """Return a size: what is given, else what the input of the same dimension has, else 1 for a batch and ``size``."""
        known = self._sizes(name)[place]
        if known is not None:
            return known
        symbol = self._session.inputs[name][place]
        for other, shape in self._session.inputs.items():
            sizes = self._feeds[other].shape if other in self._feeds else self._sizes(other)
            for dimension, n in zip(shape, sizes, strict=False):
                if isinstance(symbol, str) and dimension == symbol and n is not None:
                    return int(n)
        batches = {shape[0] for shape in self._session.inputs.values() if shape}
        return 1 if place == 0 or (isinstance(symbol, str) and symbol in batches) else size


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Array:
    if dtype == "object":
        return np.full(shape, "a", dtype)
    if dtype.startswith("float"):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 2, shape).astype(dtype)  # indices of any table, and both values of a condition


def _format_declared(shape: Sequence[object]) -> str:
    return "x".join(str(n) if isinstance(n, int) else str(n or "?") for n in shape) or "()"
