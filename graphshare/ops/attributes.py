"""Attribute texts: the spellings that MXNet 1.9.1 accepts for each kind of parameter.

A kind names the C++ type that the text is read into; a question mark means ``dmlc::optional``:

==========================  ========================================================================
``bool`` ``bool?``          True, False, 1 or 0 in any case
``int`` ``uint`` ``int64``  whole numbers of 32 or 64 bits; unsigned ones wrap (also ``uint64``,
                            ``int?`` and ``int64?``)
``float`` ``double``        numbers as ``dmlc::stof`` and ``stod`` read them; ``float``
                            is rounded to single precision
``float?`` ``double?``      numbers as a C++ stream reads them: neither ``inf`` nor ``nan``
``shape`` ``shape?``        tuples of 64-bit numbers, ``None`` for an unknown rank
``slice``                   tuples whose members may be ``None``
``tuple64`` ``tuple_uint``  as ``shape``, members of 64 bits and of 32 unsigned bits
``tuple32`` ``tuple32?``    as ``shape``, members of 32 bits (the axes of most reductions)
``floats`` ``doubles``      tuples of numbers; ``doubles?`` may be ``None``
``shapes``                  tuples of tuples
``enum`` ``enum?``          one of the declared spellings; ``enum?`` also ``None``
``string`` ``char``         any text; one character
``ptr``                     nothing (files cannot hold it)
==========================  ========================================================================

Streams and ``dmlc::stof`` accept different texts; both are followed character by character.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Reading = tuple[Any, int]
    Member = Callable[[str, int], Reading]

# MXNet's dtype numbers; ``__dtype__`` of a variable is one of them, as text.
_DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
TYPE_FLAGS = {str(number): dtype for number, dtype in enumerate(_DTYPES)}
_SPACE = " \t\n\v\f\r"
_TRAILING = (
    " \t\n\f\r"  # dmlc does not skip a vertical tab after a value; a stream skips one before it
)
_BLANKS = r"[ \t\n\v\f\r]*"
_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_INTEGER = re.compile(_BLANKS + r"([+-]?)([0-9]+)")
_STREAM_REAL = re.compile(_BLANKS + rf"([+-]?{_DIGITS}(?:[eE][+-]?[0-9]*)?)")
_REAL = re.compile(rf"[+-]?{_DIGITS}(?:[eE][+-]?[0-9]+)?")
_STOF = re.compile(
    r"[ \t\n\f\r]*(?P<sign>[+-]?)(?:(?P<inf>inf(?:inity)?)|(?P<nan>nan(?:\([0-9a-z_]*\))?)"
    r"|(?P<digits>[0-9]*(?:\.[0-9]*)?)(?:e(?P<exponent>[+-]?[0-9]*))?f?)",
    re.IGNORECASE | re.ASCII,
)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
# The largest power of ten, with the extreme digits that dmlc accepts.
_LIMITS = {
    "float": (38, 3.402823466, 1.175494351),
    "double": (308, 1.79769313486231570, 2.22507385850720138),
}
_DECIMALS = 19  # digits after the point that dmlc's reader takes; it passes over the others
_BITS = {
    "int": (-(2**31), 2**31 - 1),
    "uint": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}


def _after_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _integer(kind: str) -> Member:
    """Return a C++ stream reader; unsigned kinds accept a minus and wrap."""
    low, high = _BITS[kind]

    def read(text: str, position: int) -> Reading:
        match = _INTEGER.match(text, position)
        if match is None:
            raise ValueError(text)
        value = int(match[2])
        if low == 0 and value > high:
            raise ValueError(text)
        if match[1] == "-":
            value = -value
        if low == 0:
            value %= high + 1
        if not low <= value <= high:
            raise ValueError(text)
        return value, match.end()

    return read


def _real(kind: str) -> Member:
    """Return a C++ stream reader, without ``inf``, ``nan`` and suffix.

    Too large a number fails, too small a one is 0.
    """

    def read(text: str, position: int) -> Reading:
        match = _STREAM_REAL.match(text, position)
        # A stream consumes the e of "1e", misses the exponent and fails: not 1.
        if match is None or _REAL.fullmatch(match[1]) is None:
            raise ValueError(text)
        value = _round_to_kind(float(match[1]), kind)
        if math.isinf(value):
            raise ValueError(text)
        return value, match.end()

    return read


def _optional(member: Member, *, long_suffix: bool = False) -> Member:
    """Read a ``dmlc::optional``; ``long_suffix`` allows an ``L`` after a number."""

    def read(text: str, position: int) -> Reading:
        # dmlc::optional does not skip white space here.
        if text.startswith("None", position):
            return None, position + 4
        value, position = member(text, position)
        return value, position + (long_suffix and text.startswith("L", position))

    return read


def _members(member: Member, *, long_suffix: bool) -> Member:
    """Return the reader of an ``mxnet::Tuple``: (a, b), [a, b], a number, or None."""

    def read(text: str, position: int) -> Reading:
        position = _after_blanks(text, position)
        first = text[position : position + 1]
        # mxnet::Tuple accepts only these as the start of a bare number: no plus.
        if first and first in "-0123456789":
            value, position = member(text, position)
            return (value,), position
        end = position + 4
        if text[position:end] == "None" and (len(text) == end or text[end] in _SPACE):
            return None, end
        if not first or first not in "([":
            raise ValueError(text)
        position = _after_blanks(text, position + 1)
        if text[position : position + 1] in (")", "]"):
            return (), position + 1
        values = []
        while True:
            value, position = member(text, position)
            values.append(value)
            position = _after_blanks(text, position)
            # Python 2 wrote long integers as 3L; old files have shapes such as (3L, 3L).
            position += long_suffix and text.startswith("L", position)
            closing = text[position : position + 1]
            position += 1
            if closing == ",":
                position = _after_blanks(text, position)
                if text[position : position + 1] in (")", "]"):
                    return tuple(values), position + 1
            elif closing and closing in ")]":
                return tuple(values), position
            else:
                raise ValueError(text)

    return read


def _whole(member: Member) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value, position = member(text, 0)
        if text[position:].strip(_TRAILING):
            raise ValueError(text)
        return value

    return read


def _boolean(text: str) -> bool:
    return _BOOLEANS[text.lower()]


def _optional_boolean(text: str) -> bool | None:
    word = text.lstrip(_SPACE).rstrip(_TRAILING).lower()
    return None if word == "none" else _BOOLEANS[word]


def _round_to_kind(value: float, kind: str) -> float:
    if kind == "double":
        return value
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return single


def _stof(kind: str) -> Callable[[str], float]:
    """Return dmlc's ``stof`` or ``stod``: missing digits pass; range and trailing text are checked.

    It computes as dmlc does, so the last bit may differ from the nearest number's.
    """
    highest, *bounds = _LIMITS[kind]
    # dmlc compares in the precision of the kind.
    largest, smallest = (_round_to_kind(bound, kind) for bound in bounds)

    def read(text: str) -> float:
        match = _STOF.fullmatch(text)
        if match is None or not text:
            raise ValueError(text)
        sign = -1.0 if match["sign"] == "-" else 1.0
        if match["inf"]:
            return sign * math.inf
        if match["nan"]:
            return math.nan
        # dmlc reads a number without digits, even a lone dot, as 0.
        whole, _, decimals = match["digits"].partition(".")
        value = _round_to_kind(float(_read_uint64(whole)), kind)
        decimals = decimals[:_DECIMALS]
        value = _round_to_kind(
            value + _round_to_kind(float(_read_uint64(decimals)) / 10.0 ** len(decimals), kind),
            kind,
        )
        exponent = match["exponent"] or "0"
        power = abs(int(exponent)) if exponent not in "+-" else 0
        negative = exponent.startswith("-")
        is_beyond = value < smallest if negative else value > largest
        if (power, is_beyond) > (highest, False):
            raise ValueError(text)
        scale = 1.0
        for factor in (*[1e8] * (power // 8), *[10.0] * (power % 8)):
            scale = _round_to_kind(scale * factor, kind)
        value = _round_to_kind(value / scale if negative else value * scale, kind)
        # dmlc refuses numbers too large for the kind only if they come out as +inf: not -35e37, nor
        # 34.028235e37.
        if sign * value == math.inf and math.isinf(
            _round_to_kind(float(f"{match['digits']}e{power}"), kind)
        ):
            raise ValueError(text)
        return sign * value

    return read


def _read_uint64(digits: str) -> int:
    """Return the number modulo 2**64, so the last 64 digits suffice; 0 without digits."""
    return int(digits[-64:] or "0") % 2**64


def _character(text: str) -> str:
    stripped = text.lstrip(_SPACE).rstrip(_TRAILING)
    if len(stripped) != 1:
        raise ValueError(text)
    return stripped


def _nothing(text: str) -> Any:
    raise ValueError(text)


_DIMENSIONS = _members(_integer("int64"), long_suffix=True)
_MEMBERS_32 = _members(_integer("int"), long_suffix=True)
_READERS: dict[str, Callable[[str], Any]] = {
    "bool": _boolean,
    "bool?": _optional_boolean,
    **{kind: _whole(_integer(kind)) for kind in _BITS},
    **{
        f"{kind}?": _whole(_optional(_integer(kind), long_suffix=True)) for kind in ("int", "int64")
    },
    "float": _stof("float"),
    "double": _stof("double"),
    "float?": _whole(_optional(_real("float"))),
    "double?": _whole(_optional(_real("double"))),
    "shape": _whole(_DIMENSIONS),
    "shape?": _whole(_optional(_DIMENSIONS)),
    "slice": _whole(_members(_optional(_integer("int"), long_suffix=True), long_suffix=False)),
    "tuple64": _whole(_DIMENSIONS),
    "tuple_uint": _whole(_members(_integer("uint"), long_suffix=True)),
    "floats": _whole(_members(_real("float"), long_suffix=False)),
    "doubles": _whole(_members(_real("double"), long_suffix=False)),
    "doubles?": _whole(_optional(_members(_real("double"), long_suffix=False))),
    "tuple32": _whole(_MEMBERS_32),
    "tuple32?": _whole(_optional(_MEMBERS_32)),
    "shapes": _whole(_members(_MEMBERS_32, long_suffix=False)),
    "string": str,
    "char": _character,
    "ptr": _nothing,
}
KINDS = (*_READERS, "enum", "enum?")

_SPELLINGS = {
    "bool": "True, False, 1 or 0",
    "int": "a whole number such as 3 or -1",
    "uint": "a whole number such as 3",
    "float": "a number such as 0.5 or 1e-05",
    "shape": "a tuple such as (3, 3), (3,) or ()",
    "slice": "a tuple such as (0, None)",
    "floats": "a tuple of numbers such as (0.5, 1)",
    "shapes": "a tuple of tuples such as ((0, 0), (1, 1))",
    "string": "any text",
    "char": "one character",
    "ptr": "a pointer, which no file can contain",
}
_LIKE = {
    "int64": "int",
    "uint64": "uint",
    "double": "float",
    "tuple64": "shape",
    "tuple_uint": "shape",
    "tuple32": "shape",
    "doubles": "floats",
}


@lru_cache(maxsize=65536)
def read_value(kind: str, text: str) -> Any:
    """Return the value of ``text`` for a ``kind`` (not an enum); ValueError if MXNet refuses it."""
    try:
        return _READERS[kind](text)
    except KeyError:
        # _BOOLEANS raises KeyError for bad text; an unknown kind is a bug.
        if kind not in _READERS:
            raise
        raise ValueError(text) from None


def describe_spellings(kind: str, choices: tuple[str, ...] = ()) -> str:
    """Describe the texts that this kind accepts."""
    base = kind.removesuffix("?")
    words = "one of " + ", ".join(choices) if base == "enum" else _SPELLINGS[_LIKE.get(base, base)]
    return f"{words}, or None" if kind.endswith("?") else words


def has_np_shape(attrs: Mapping[str, Any]) -> bool:
    """Whether a graph with these attributes has NumPy shapes."""
    value = attrs.get("is_np_shape")
    return isinstance(value, (list, tuple)) and len(value) == 2 and value[1] == 1


def read_declared_shape(text: str, *, np_shape: bool) -> tuple[int | None, ...] | None:
    """Return ``__shape__`` of a variable; 0 and ``()`` are unknown.

    Under NumPy shapes only -1 and ``None`` are.
    """
    # Not read as an attribute: beyond 64 bits, this is an impossible size to report.
    numbers = [part for part in text.strip("()[] ").replace("L", "").split(",") if part.strip()]
    try:
        values = [int(part) for part in numbers]
    except ValueError:
        return None
    if not values:
        is_empty = text.strip() in ("()", "[]")
        return () if np_shape and is_empty else None
    unknown = (-1,) if np_shape else (0, -1)
    return tuple(None if value in unknown else value for value in values)
