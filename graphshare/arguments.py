"""Arguments of public functions, checked against their annotations: a signature is the one home of what is allowed.

The options of the command line take their choices from the same types.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from numbers import Integral, Real
from reprlib import repr as shorten
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from graphshare.errors import Fault, UsageError
from graphshare.text.names import did_you_mean

F = TypeVar("F", bound=Callable[..., Any])

Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]

_NUMBERS: dict[object, type] = {int: Integral, float: Real}
_PRINTED = (str, int, float, list, tuple, dict, set, NoneType)  # the text of others, such as arrays, is long


class _Misfit(msgspec.Struct, frozen=True):
    """A value, the argument or one inside it, and the type that it does not have; None where it is repeated or empty."""

    value: Any
    hint: Any


def checked(function: F) -> F:
    """Return ``function`` with a check of its arguments against its annotations.

    Where a name or path is expected, an empty text fits only as the default, and a list of names has each of them once. An
    iterator becomes a list. Missing and unknown arguments stay Python's own TypeError. The check raises UsageError with all
    arguments that do not fit.
    """

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        signature, hints = _inspect(function)
        try:
            bound = signature.bind(*args, **named)
        except TypeError:
            return function(*args, **named)
        faults = []
        for name, value in bound.arguments.items():
            if isinstance(value, Iterator):
                value = bound.arguments[name] = list(value)
            misfit = _find_misfit(value, hints.get(name, Any))
            if misfit is None and isinstance(value, str) and not value and signature.parameters[name].default != "":
                misfit = _Misfit(value, None)
            if misfit is not None:
                faults.append(_describe(name, value, misfit, hints[name]))
        if faults:
            raise UsageError(faults)
        return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


@cache
def _inspect(function: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """Return a function's signature and the types of its arguments; that of its result may not be importable."""
    import inspect  # start-up: a command that fails early needs none

    own = SimpleNamespace(__annotations__={**function.__annotations__, "return": None})
    return inspect.signature(function), get_type_hints(own, getattr(function, "__globals__", {}), include_extras=True)


def _find_misfit(value: Any, hint: Any) -> _Misfit | None:
    """Return the innermost value that does not fit its type; None where all fit."""
    origin, options = get_origin(hint) or hint, get_args(hint)
    wrong = _Misfit(value, hint)
    if origin is Any:
        return None
    if origin in (Union, UnionType):
        misfits = [_find_misfit(value, option) for option in options]
        if isinstance(value, str) and "\0" in value and any(get_origin(option) is os.PathLike for option in options):
            return wrong  # no path has such a character
        inner = [misfit for misfit in misfits if misfit is not None and misfit.value is not value]
        return None if None in misfits else inner[0] if inner else wrong
    if origin is Annotated:
        return _find_misfit(value, options[0]) or (None if _is_within(value, options[1]) else wrong)
    if origin is Literal:
        return None if isinstance(value, str) and value in options else wrong
    if origin is bool:
        return None if type(value).__name__ in ("bool", "bool_") else wrong  # numpy's has either name
    if origin in _NUMBERS:
        return None if isinstance(value, _NUMBERS[origin]) and not isinstance(value, bool) else wrong
    if not isinstance(origin, type) or not options:
        return None if not isinstance(origin, type) or isinstance(value, origin) else wrong
    if origin is Mapping:
        if not isinstance(value, Mapping):
            return wrong
        return _find_first((each, option) for item in value.items() for each, option in zip(item, options, strict=True))
    return _find_in_items(value, origin, options, wrong) if issubclass(origin, Iterable) else _find_misfit(value, origin)


def _find_first(pairs: Iterable[tuple[Any, Any]]) -> _Misfit | None:
    return next((misfit for value, hint in pairs if (misfit := _find_misfit(value, hint)) is not None), None)


def _find_in_items(value: Any, origin: type, options: tuple[Any, ...], wrong: _Misfit) -> _Misfit | None:
    """Return what does not fit among the items of a list; in a list of names also an empty name and a repeated one."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable) or getattr(value, "shape", None) == ():
        return wrong
    items = list(value)
    if origin is tuple and options[-1] is not Ellipsis:
        return _find_first(zip(items, options, strict=True)) if len(items) == len(options) else wrong
    misfit = _find_first((item, options[0]) for item in items)
    if misfit is None and origin is Iterable and options[0] is str:
        misfit = next((_Misfit(name, None) for name, count in Counter(items).items() if not name or count > 1), None)
    return misfit


def _is_within(value: Any, bounds: msgspec.Meta) -> bool:
    return bool(value >= bounds.ge if bounds.gt is None else value > bounds.gt)


def _describe(name: str, value: Any, misfit: _Misfit, hint: Any) -> Fault:
    """Return what is wrong with an argument, with what is allowed and what may be meant."""
    wrong = shorten(misfit.value) if isinstance(misfit.value, _PRINTED) else f"a {type(misfit.value).__name__}"
    if misfit.hint is None:
        repeats = misfit.value != ""
        return Fault(
            f"`{name}` {'repeats' if repeats else 'cannot be' if value == '' else 'cannot hold'} {wrong}",
            hint="give it once" if repeats else f"expected {_format(hint)}, and not empty",
        )
    allowed = [text for text in _list_literals(misfit.hint) if isinstance(misfit.value, str)]
    near = did_you_mean(misfit.value, allowed) if allowed else ""
    message = f"`{name}` cannot {'be' if misfit.value is value else 'hold'} {wrong}"
    return Fault(message, hint=f"{near}{' ' if near else ''}expected {_format(misfit.hint)}")


def _list_literals(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [text for option in get_args(hint) for text in _list_literals(option)]


def _format(hint: Any) -> str:
    """Return a type in words."""
    origin, options = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType, Literal):
        parts = list(dict.fromkeys(repr(each) if origin is Literal else _format(each) for each in options))
        return " or ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    if origin is Annotated:
        bounds = options[1]
        return f"{_format(options[0])} {f'from {bounds.ge} on' if bounds.gt is None else f'above {bounds.gt}'}"
    if origin is tuple and options[-1] is not Ellipsis:
        return f"a tuple of {' and '.join(map(_format, options))}"
    if origin is Mapping:
        return f"a mapping of {_format(options[0])} to {_format(options[1])}"
    if options and isinstance(origin, type) and issubclass(origin, Iterable):
        return f"a list of {_format(options[0])}"
    return "None" if origin is NoneType else "any" if origin is Any else str(getattr(origin, "__name__", origin))
