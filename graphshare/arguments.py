"""Arguments of public functions, checked against their annotations: only the signature says which
values are allowed.

Options of the command line take their choices from the same types.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from itertools import chain, cycle
from math import inf
from numbers import Integral, Real
from reprlib import repr as shorten
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from graphshare.errors import Fault, UsageError
from graphshare.text.names import did_you_mean
from graphshare.text.urls import localize

F = TypeVar("F", bound=Callable[..., Any])

Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
NotNegative = Annotated[float, msgspec.Meta(ge=0)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]
Text = Annotated[str, msgspec.Meta(min_length=1)]

# The text of others, such as arrays, is long
_PRINTED = (str, int, float, list, tuple, dict, set, NoneType)
_ONCE = "each name once, and none empty"
Misfit = tuple[Any, Any]
"""A value, the argument or one inside it, and the type that it does not have."""


class Options(msgspec.Struct, frozen=True):
    """Arguments that several functions take as one object; its fields are checked as arguments are."""


def check_arguments(function: F) -> F:
    """Check the arguments of ``function`` against its annotations: UsageError lists all that do not
    fit.

    A name or path is not empty, unless that is the default, and a list of names has no repetition.
    An iterator becomes a list, a path a text, and a ``file://`` URL the path that it means. Missing
    and unknown arguments stay a TypeError. Each field of :class:`Options` is an argument.
    """

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        signature, hints = _inspect(function)
        try:
            bound = signature.bind(*args, **named)
        except TypeError:
            _refuse_unknown(function.__name__, signature.parameters, len(args), named)
            return function(*args, **named)
        faults = []
        for name, value in bound.arguments.items():
            hint, is_default = hints.get(name, Any), value is signature.parameters[name].default
            if isinstance(value, Iterator):
                value = list(value)
            # Paths first: an empty one is refused however it is written.
            value = bound.arguments[name] = _localize(value, hint)
            misfit = None if is_default else _find_misfit(value, hint)
            if misfit is not None:
                faults.append(_describe(name, value, *misfit))
            elif isinstance(value, Options):
                faults += _check_fields(value)
        if faults:
            raise UsageError(faults)
        return function(*bound.args, **bound.kwargs)

    return call  # type: ignore[return-value]


def _refuse_unknown(
    function: str, parameters: Mapping[str, inspect.Parameter], count: int, named: Iterable[str]
) -> None:
    """Raise TypeError for a keyword that resembles a parameter, and for too many positional
    arguments.
    """
    for name in named:
        if name not in parameters and (hint := did_you_mean(name, list(parameters))):
            raise TypeError(f"{function}() has no argument {name!r}: {hint}")
    keywords = [
        name for name, parameter in parameters.items() if parameter.kind is parameter.KEYWORD_ONLY
    ]
    if keywords and count > len(parameters) - len(keywords):
        first = ", ".join(f"{name}=" for name in keywords[:3])
        most = len(parameters) - len(keywords)
        raise TypeError(
            f"{function}() takes {most} by position, all other arguments by name: {first} ..."
        )


@cache
def _inspect(function: Callable[..., Any]) -> tuple[Any, dict[str, Any]]:
    """Return a function's signature and the types of its arguments; its result's type may not be
    importable.
    """
    own = SimpleNamespace(__annotations__={**function.__annotations__, "return": None})
    return inspect.signature(function), get_type_hints(
        own, inspect.unwrap(function).__globals__, include_extras=True
    )


def _check_fields(options: Options) -> Iterator[Fault]:
    hints = _list_fields(type(options))
    for field in msgspec.structs.fields(options):
        value = getattr(options, field.name)
        misfit = None if value is field.default else _find_misfit(value, hints[field.name])
        if misfit is not None:
            yield _describe(field.name, value, *misfit)


def _localize(value: Any, hint: Any) -> Any:
    """Return an argument with its paths as text; names in its place stay as they are."""
    if isinstance(value, Options):
        fields = _list_fields(type(value)).items()
        paths = {
            name: _localize(getattr(value, name), kind) for name, kind in fields if _is_path(kind)
        }
        return msgspec.structs.replace(value, **paths) if paths else value
    kinds = get_args(hint)
    is_one = isinstance(value, str | os.PathLike)
    if not is_one:  # its items
        kinds = tuple(chain.from_iterable(map(get_args, kinds)))
    if not any(map(_is_path, kinds)):
        return value
    # Other values, such as bytes or an array without axes, are refused as they are.
    is_kept = is_one or isinstance(value, tuple) or not _is_list(value)
    return localize(value if is_kept else list(value))


def _is_path(hint: Any) -> bool:
    """Return whether a type is a path, or has paths."""
    return get_origin(hint) is os.PathLike or any(map(_is_path, get_args(hint)))


@cache
def _list_fields(kind: type[Options]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _find_misfit(value: Any, hint: Any) -> Misfit | None:
    origin, options = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType):
        return _find_in_union(value, hint)
    if origin in _TESTS:
        return None if _TESTS[origin](value, options) else (value, hint)
    if origin is Any or not isinstance(origin, type):
        return None
    is_list = bool(options) and issubclass(origin, Iterable)
    if not (_is_list(value) if is_list and origin is not Mapping else isinstance(value, origin)):
        return value, hint
    return _find_in_items(value, origin, options) if is_list else None


def _find_in_union(value: Any, hint: Any) -> Misfit | None:
    options = get_args(hint)
    misfits = [_find_misfit(value, option) for option in options]
    # Where names or paths are allowed, one text is a name or a path itself: not empty, and without
    # null characters.
    is_name = isinstance(value, str) and any(
        get_origin(option) in (os.PathLike, Iterable) for option in options
    )
    if None in misfits and not (is_name and (not value or "\0" in value)):
        return None
    return next(
        (misfit for misfit in misfits if misfit is not None and misfit[0] is not value),
        (value, hint),
    )


def _is_within_bounds(value: Any, options: tuple[Any, ...]) -> bool:
    least, above = options[1].ge, options[1].gt
    if _find_misfit(value, options[0]) is not None:
        return False
    # Text has neither bound; it must not be empty.
    return bool(value if least is above else value >= least if above is None else value > above)


def _is_number(value: Any, kind: type) -> bool:
    # True is an int in Python, but a caller who passes it means something else.
    return isinstance(value, kind) and not isinstance(value, bool)


_TESTS: dict[object, Callable[[Any, tuple[Any, ...]], bool]] = {
    Annotated: _is_within_bounds,
    # Only a text can be a choice; `in` would compare an array element by element.
    Literal: lambda value, options: isinstance(value, str) and value in options,
    bool: lambda value, _: type(value).__name__ in ("bool", "bool_"),  # numpy's has either name
    int: lambda value, _: _is_number(value, Integral),
    # A tolerance, a time or a rate is finite; with NaN every comparison would be false.
    float: lambda value, _: _is_number(value, Real) and -inf < value < inf,
}


def _is_list(value: Any) -> bool:
    # An array without axes has the method __iter__, but cannot be iterated over.
    return (
        isinstance(value, Iterable)
        and not isinstance(value, str | bytes | Mapping)
        and getattr(value, "shape", None) != ()
    )


def _find_in_items(value: Any, origin: type, options: tuple[Any, ...]) -> Misfit | None:
    """Return the item of a list or mapping that does not fit, or a name that is empty or repeated."""
    has_fixed_length = origin is tuple and options[-1] is not Ellipsis
    if has_fixed_length and len(value) != len(options):
        return value, tuple[options]  # type: ignore[valid-type]
    items = chain.from_iterable(value.items()) if origin is Mapping else value
    kinds = options if has_fixed_length else cycle(options if origin is Mapping else options[:1])
    misfit = next(filter(None, map(_find_misfit, items, kinds)), None)
    if misfit is None and origin is Iterable and options[0] is str:
        misfit = next(
            ((name, _ONCE) for name, count in Counter(value).items() if not name or count > 1), None
        )
    return misfit


def _describe(name: str, value: Any, wrong: Any, hint: Any) -> Fault:
    near = did_you_mean(wrong, list(_list_literals(hint))) if isinstance(wrong, str) else ""
    text = shorten(wrong) if isinstance(wrong, _PRINTED) else f"a {type(wrong).__name__}"
    message = f"`{name}` cannot {'be' if wrong is value else 'hold'} {text}"
    finite = "finite " if isinstance(wrong, float) and abs(wrong) == inf else ""
    return Fault(message, hint=f"{near}{' ' if near else ''}expected {finite}{_format(hint)}")


def _list_literals(hint: Any) -> Iterator[str]:
    for option in get_args(hint):
        yield from (option,) if get_origin(hint) is Literal else _list_literals(option)


def _format(hint: Any) -> str:
    origin, options = get_origin(hint) or hint, get_args(hint)
    if origin in (Union, UnionType, Literal):
        *parts, last = dict.fromkeys(
            repr(each) if origin is Literal else _format(each) for each in options
        )
        return f"{', '.join(parts)} or {last}" if parts else last
    if origin is Annotated:
        least, above = options[1].ge, options[1].gt
        limit = (
            "that is not empty"
            if least is above
            else f"from {least} on"
            if above is None
            else f"above {above}"
        )
        return f"{_format(options[0])} {limit}"
    if origin is Mapping:
        return f"a mapping of {_format(options[0])} to {_format(options[1])}"
    if options and isinstance(origin, type) and issubclass(origin, Iterable):
        return (
            f"a {'tuple' if origin is tuple else 'list'} of {' and '.join(map(_format, options))}"
        )
    return "None" if origin is NoneType else str(getattr(origin, "__name__", origin))
