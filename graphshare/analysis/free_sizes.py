"""Input sizes that the caller of a model chooses: names, places, and the sizes to try."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from graphshare.errors import Fault, GraphshareError, UsageError
from graphshare.text.format import format_count
from graphshare.text.names import did_you_mean

BATCH = "batch"
_BATCHES = (3, 5, 7)  # never 1: broadcasting and squeezing treat it differently
# For sizes without a number: one sample, and a common image size
_ASSUMED = (1, 224)
_STEPS = (2, 4, 8, 16, 32, 64, 128)
NamedShapes = Mapping[str, Sequence[int | str | None]]
"""Shapes of inputs by name; a text such as ``n``, ``h:480`` or ``32*h`` names a size."""
_NAMED = re.compile(r"(?P<name>(?:(?P<step>[1-9]\d*)\*)?[^\W\d]\w*)(?::(?P<number>\d+))?")


class Symbol(msgspec.Struct, frozen=True):
    """A size by name: axis ``axis`` of the input ``input`` has it, and ``others`` as (input, axis)."""

    name: str
    input: str
    axis: int
    others: tuple[tuple[str, int], ...] = ()

    @property
    def places(self) -> tuple[tuple[str, int], ...]:
        """All (input, axis) pairs of this size."""
        return (self.input, self.axis), *self.others

    @property
    def step(self) -> int:
        """The factor that divides the size: 32 for ``32*h``."""
        return int(self.name.partition("*")[0]) if "*" in self.name else 1


def join_places(name: str, places: Iterable[tuple[str, int]]) -> Symbol:
    """Return the size ``name`` of these (input, axis) places."""
    first, *others = places
    return Symbol(name, *first, tuple(others))


def is_size_name(text: str) -> bool:
    """Whether a text names a size, perhaps with a multiple or a number."""
    return _NAMED.fullmatch(text) is not None


def refuse_empty(shapes: NamedShapes) -> None:
    """Raise UsageError for shapes without elements: a proof on them compares nothing."""
    hint = "give a number above 0, or a name such as n for a size that stays open"
    faults = [
        Fault(f"`shapes` {name!r} has the size 0, so there is nothing to compute", hint=hint)
        for name, shape in shapes.items()
        if 0 in shape
    ]
    if faults:
        raise UsageError(faults)


def split_names(
    shapes: NamedShapes, known: NamedShapes
) -> tuple[dict[str, tuple[int | None, ...]], NamedShapes]:
    """Return the shapes with a number for each named size, and the shapes with named sizes.

    The number comes after the name (``h:480``), else from ``known``; the default is 1 for a first
    axis and 224 for others.
    """
    numbers: dict[str, int] = {}
    for name, axis, match in _list_named(shapes):
        own = known.get(name, ())
        number = (
            match["number"]
            or (own[axis] if axis < len(own) else None)
            or _assume(axis, match["step"])
        )
        if match["number"] or match["name"] not in numbers:
            numbers[match["name"]] = int(number)
    fixed: dict[str, list[Any]] = {name: list(shape) for name, shape in shapes.items()}
    named = {}
    for name, axis, match in _list_named(shapes):
        fixed[name][axis] = numbers[match["name"]]
        named[name] = shapes[name]
    return {name: tuple(shape) for name, shape in fixed.items()}, named


def _list_named(shapes: NamedShapes) -> Iterator[tuple[str, int, re.Match[str]]]:
    for name, shape in shapes.items():
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                yield name, axis, _match(name, size)


def _match(name: str, size: str) -> re.Match[str]:
    match = _NAMED.fullmatch(size)
    if match is None:
        raise UsageError(
            Fault(
                f"`shapes` names a size of {name!r} {size!r}",
                hint="write `shapes={'data': ('n', 3, 'h', 'w')}`",
            )
        )
    return match


def _assume(axis: int, step: str | None) -> int:
    number = _ASSUMED[min(axis, 1)]
    return number if step is None else max(number // int(step), 1) * int(step)


def choose_symbols(
    shapes: NamedShapes,
    dynamic_batch: bool,
    inputs: Mapping[str, Sequence[object]],
    find_batch: Callable[[], Symbol],
) -> list[Symbol]:
    """Return the sizes that ``shapes`` names, each with all its places, or the batch size.

    ``inputs`` are the shapes of a model's inputs.

    Raises:
        UsageError: both are wanted; an input is missing or has another number of axes.
    """
    faults = []
    for name, shape in shapes.items():
        if name not in inputs:
            faults.append(
                Fault(
                    f"`shapes` {name!r} is not an input of the model",
                    hint=did_you_mean(name, inputs),
                )
            )
        elif len(shape) != len(inputs[name]):
            message = f"`shapes` lists {format_count(len(shape), 'axis')} for {name!r}, which has {len(inputs[name])}"
            faults.append(Fault(message, hint="name each of its axes, or give its size"))
    UsageError.raise_any(faults)
    places: dict[str, list[tuple[str, int]]] = {}
    for name, axis, match in _list_named(shapes):
        places.setdefault(match["name"], []).append((name, axis))
    if dynamic_batch and places:
        raise UsageError(
            Fault(
                "`dynamic_batch` and names in `shapes` cannot be combined",
                hint="name the batch in `shapes` as well",
            )
        )
    return (
        [find_batch()]
        if dynamic_batch
        else [join_places(size, own) for size, own in places.items()]
    )


def list_trials(symbols: Sequence[Symbol], base: Mapping[str, int]) -> list[dict[str, int]]:
    """Return sizes to try besides ``base``: each symbol alone at a second size, then all at a third
    and a fourth.

    No size is a multiple of its ``base``, or of a power of 2 that a network may need.
    """
    trials = [{**base, symbol.name: _pick_other(symbol, base, 0)} for symbol in symbols]
    return trials + [
        {**base, **{each.name: _pick_other(each, base, number) for each in symbols}}
        for number in (1, 2)
    ]


def _pick_other(symbol: Symbol, base: Mapping[str, int], number: int, step: int = 0) -> int:
    # Most often the batch: any size is valid
    if symbol.axis == 0 and symbol.step == 1 and not step:
        return _BATCHES[number]
    own, step = base[symbol.name], step or symbol.step
    # One size is smaller, to avoid a position table much longer than in the file.
    steps = own // step
    other = (
        steps + (33, -(steps // 4) if steps >= 64 else 69, 101)[number]
        if step == 1
        else steps + (3, 5, 9)[number]
    )
    while other % 2 == 0 or (own > step and other * step % own == 0):
        other += 1
    return other * step


def pick_small(symbols: Sequence[Symbol], base: Mapping[str, int]) -> dict[str, int]:
    """Return a quarter of the ``base`` sizes except batches: odd multiples of the step."""
    return {
        s.name: max(base[s.name] // s.step // 4, 1) // 2 * 2 * s.step + s.step
        for s in symbols
        if s.axis
    }


def suggest_steps(
    symbols: Sequence[Symbol], base: Mapping[str, int], compute: Callable[[dict[str, int]], object]
) -> str:
    """Return a hint if a model only takes multiples of a power of 2, else nothing.

    ``compute`` raises GraphshareError for rejected sizes.
    """
    steps = {symbol.name: _find_step(symbol, base, compute) for symbol in symbols}
    multiples = [f"{step}*{name.rpartition('*')[2]}" for name, step in steps.items() if step]
    return (
        f"name it {' and '.join(multiples)} in `shapes`: only multiples can be computed"
        if multiples
        else ""
    )


def _find_step(
    symbol: Symbol, base: Mapping[str, int], compute: Callable[[dict[str, int]], object]
) -> int | None:
    for step in _STEPS:
        if step % symbol.step == 0 and step > symbol.step:
            with suppress(GraphshareError):
                compute({**base, symbol.name: _pick_other(symbol, base, 0, step)})
                return step
    return None
