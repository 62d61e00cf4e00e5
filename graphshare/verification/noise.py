"""Measure how far a model differs from itself under reordered sums or tiny input changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec
import numpy as np

from graphshare.checkpoint.model import Checkpoint
from graphshare.execute.backends.backend import Computation
from graphshare.formats.params.narrow_dtypes import is_floating, name_dtype, widen
from graphshare.formats.params.records import STEPS
from graphshare.ir.graph import Entry, Node
from graphshare.ops.kernel import Array
from graphshare.verification.comparison import (
    EXACT,
    DtypeTolerance,
    Tolerance,
    Values,
    compare_values,
)
from graphshare.verification.runners import has_refused

_BELOW_ONE = ("Sigmoid", "Softmax")
"""Operators that compute fractions of 1, with errors relative to 1 even if all their results are almost 0."""
_PASSING = ("Cast", "Identity")
_SHARE = 2 * float(np.finfo(np.float32).eps)
"""The largest difference of two Sigmoids of one operand: kernels add a quotient to 0.5."""
_SHAKES = 3
Key = TypeVar("Key")


def allow_share(tolerance: Tolerance, end: Iterable[Entry]) -> Tolerance:
    """Widen the tolerance for a Sigmoid: it has no more digits near 0 than near 1."""
    if "Sigmoid" not in map(find_operator, end):
        return tolerance
    return msgspec.structs.replace(tolerance, atol=max(tolerance.atol, _SHARE))


def find_operator(entry: Entry) -> str:
    """Find the operator that computes a value, before any that pass it on."""
    while entry.node.op in _PASSING:
        entry = entry.node.inputs[0]
    return entry.node.op


def allow_noise(
    sides: tuple[Computation, Computation],
    inputs: Sequence[tuple[Mapping[Node, Array], Mapping[Node, Array]]],
    outputs: Sequence[tuple[Any, Any]],
    rounds: Sequence[Values],
    tolerance: Tolerance,
    open_moved: Callable[[int], Iterable[Computation]],
) -> tuple[tuple[Values, ...], list[str]]:
    """Allow outputs to differ as much as a model differs from itself; return comparisons and notes.

    A rewrite, or a new session, may change a backend's order of sums. ``inputs`` and ``outputs``
    are both models', by round; rounds of further engines follow and stay unchanged. ``open_moved``
    opens a side's model with other weights that round to the same values, if its dtype has rounded
    them.
    """
    allowed, notes = list(rounds), list[str]()
    for number, own in enumerate(outputs):
        if rounds[number] or has_refused(own):
            continue
        noise = [
            _measure_noise(
                side, inputs[number][place], own[place], chain(side.vary(), open_moved(place))
            )
            for place, side in enumerate(sides)
        ]
        allowed[number] = _excuse(
            sides, rounds[number], own, list(map(max, *noise)), tolerance, notes
        )
    return tuple(allowed), notes


def _excuse(
    sides: tuple[Computation, Computation],
    values: Values,
    own: tuple[Any, Any],
    noise: Sequence[float],
    tolerance: Tolerance,
    notes: list[str],
) -> Values:
    """Outputs beyond the cap of noise stay unjudged."""
    compared = list(values.outputs)
    heads = [side.graph.heads for side in sides]
    for place, (output, each) in enumerate(zip(values.outputs, noise, strict=True)):
        if output.comparison:
            continue
        cap = max(
            _cap_noise(each, side[place], own_heads[place].node.op)
            for side, own_heads in zip(own, heads, strict=True)
        )
        wider = msgspec.structs.replace(tolerance, atol=max(tolerance.atol, cap))
        # Kernels round differently: onnxruntime's Sigmoid is 0 below -18.
        if isinstance(tolerance, DtypeTolerance) or sides[0].engine != sides[1].engine:
            wider = allow_share(wider, [own_heads[place] for own_heads in heads])
        comparison = compare_values(own[1][place], own[0][place], wider)
        text = f"{output.reference!r} is {comparison.max_abs:.3g} apart, and a model from itself {each:.3g}"
        if comparison:
            compared[place] = msgspec.structs.replace(output, comparison=comparison)
            notes.append(f"{text}, which is allowed")
        elif output.comparison.max_abs <= each:
            reason = f"{text}, where its inputs or the order of sums change a little: values show nothing"
            compared[place] = msgspec.structs.replace(output, unjudged=reason)
    return values.with_outputs(compared)


def move_weights(model: Checkpoint, dtype: str) -> Checkpoint:
    """Move each weight of a dtype one step: more than the conversion to it did."""
    rng = np.random.default_rng(0)
    moved: dict[str, Array] = {}
    for name, array in model.params.items():
        if name_dtype(array.dtype) == dtype:
            moved[name] = _shake(rng, array)
    return model.with_params(moved)


def _measure_noise(
    computation: Computation,
    values: Mapping[Node, Array],
    wanted: Sequence[Any],
    others: Iterable[Computation],
) -> list[float]:
    """Run each of ``others``, and inputs moved by one step of their dtype."""
    shaken = shake(values)
    runs = chain(
        (again.run(values).outputs for again in others),
        (computation.run(each).outputs for each in shaken),
    )
    return measure_spread(runs, wanted)


def measure_spread(runs: Iterable[Sequence[Any]], wanted: Sequence[Any]) -> list[float]:
    """Return each output's largest distance from ``wanted`` over all runs; 0 without floats."""
    spread = [0.0] * len(wanted)
    for outputs in runs:
        for number, (value, first) in enumerate(zip(outputs, wanted, strict=False)):
            if isinstance(first, np.ndarray) and is_floating(first.dtype) and first.size:
                spread[number] = max(spread[number], compare_values(value, first, EXACT).max_abs)
    return spread


def shake(values: Mapping[Key, Array]) -> Iterator[dict[Key, Array]]:
    """Yield values with each float moved one step of its dtype, drawn three times."""
    rng = np.random.default_rng(0)
    for _ in range(_SHAKES):
        yield {key: _shake(rng, array) for key, array in values.items()}


def _shake(rng: np.random.Generator, array: Array) -> Array:
    if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
        return array
    shaken: Array = np.nextafter(
        array, np.where(rng.integers(0, 2, array.shape), np.inf, -np.inf).astype(array.dtype)
    )
    return np.where(np.isfinite(shaken), shaken, array)


def _cap_noise(noise: float, wanted: Any, op: str) -> float:
    """Return the noise allowed in an output: at most 1e-5 of the range of its numbers.

    A fraction of 1, such as a Sigmoid's, may be off by two steps of a float at 1.
    """
    if not isinstance(wanted, np.ndarray) or not is_floating(wanted.dtype):
        return 0.0
    numbers = wanted.astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]
    most = 1e-5 * float(np.ptp(numbers)) if numbers.size else 0.0
    if op in _BELOW_ONE:
        dtype = name_dtype(wanted.dtype)
        step = STEPS[dtype][1] if dtype in STEPS else np.finfo(widen(wanted).dtype).eps
        most = max(most, 2 * float(step))
    return min(noise, most)
