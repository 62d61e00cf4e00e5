"""Sizes of inputs that the caller of a model chooses: their names and places, and the sizes at which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from graphshare.errors import Fault, UsageError
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean

BATCH = "batch"
_BATCHES = (3, 5, 7)  # never 1, which broadcasting and squeezing treat in their own way
_STEPS = (64, 192, 33)  # added to other sizes: networks that halve them take these; the last is odd
DynamicShapes = Mapping[str, Sequence[int | str | None]]
"""Shapes of inputs by name, in which a text is a size that the caller of the model chooses."""


class Symbol(msgspec.Struct, frozen=True):
    """A size by name: axis ``axis`` of the input ``input`` has it, and ``others`` as (input, axis)."""

    name: str
    input: str
    axis: int
    others: tuple[tuple[str, int], ...] = ()

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """Return all inputs that have it, each with the axis."""
        return (self.input, self.axis), *self.others


def join_places(name: str, axes: Mapping[str, int]) -> Symbol:
    """Return the size ``name`` that each of these inputs has on its axis."""
    first, *others = axes.items()
    return Symbol(name, *first, tuple(others))


def choose_symbols(
    dynamic: DynamicShapes,
    dynamic_batch: bool,
    inputs: Mapping[str, Sequence[int | str | None]],
    find_batch: Callable[[], Symbol],
) -> list[Symbol]:
    """Return the sizes that ``dynamic`` names, each with all its places, or that of the batch.

    ``inputs`` are the shapes of a model's inputs.

    Raises:
        UsageError: both are wanted; an input is not there or has another number of axes, or a size contradicts the shape; all
            are listed.
    """
    symbols = _list_symbols(dynamic, inputs)
    if dynamic_batch and symbols:
        raise UsageError(Fault("`dynamic_batch` and `dynamic` cannot be combined", hint="name the batch in `dynamic`"))
    return [find_batch()] if dynamic_batch else symbols


def _list_symbols(dynamic: DynamicShapes, inputs: Mapping[str, Sequence[int | str | None]]) -> list[Symbol]:
    places: dict[str, dict[tuple[str, int], None]] = {}
    faults = []
    for name, shape in dynamic.items():
        if name not in inputs:
            faults.append(Fault(f"`dynamic` {name!r} is not an input of the model", hint=did_you_mean(name, inputs)))
        elif len(shape) != len(inputs[name]):
            message = f"`dynamic` lists {format_count(len(shape), 'axis')} for {name!r}, which has {len(inputs[name])}"
            faults.append(Fault(message, hint="name each of its axes, or give its size"))
        else:
            for axis, size in enumerate(shape):
                if isinstance(size, str):
                    places.setdefault(size, {})[name, axis] = None
                elif size is not None and size != inputs[name][axis]:
                    message = f"`dynamic` sets axis {axis} of {name!r} to {size}, but its size is {inputs[name][axis]}"
                    faults.append(Fault(message, hint="give its own size, or a name to free it"))
    if faults:
        raise UsageError(faults)
    return [Symbol(size, *first, tuple(others)) for size, (first, *others) in places.items()]


def list_trials(symbols: Sequence[Symbol], base: Mapping[str, int]) -> list[dict[str, int]]:
    """Return sizes to try beside ``base``: each symbol by itself at another one, then all at a third, last all at odd ones."""
    trials = [{**base, symbol.name: _pick_other(symbol, base, 0)} for symbol in symbols]
    return trials + [{**base, **{each.name: _pick_other(each, base, number) for each in symbols}} for number in (1, 2)]


def _pick_other(symbol: Symbol, base: Mapping[str, int], number: int) -> int:
    # The first axis is most often the batch, which takes any size; other sizes grow from one that works.
    return _BATCHES[number] if symbol.axis == 0 else base[symbol.name] + _STEPS[number]
