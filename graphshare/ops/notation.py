"""The notation of the operator tables, read when an operator is first looked up.

Parameters: ``name:kind=default`` joined by semicolons, ``!`` for a required one, an
enumeration in braces, bounds in brackets: ``kernel:shape=!; num_filter:uint[1:]=!; p:float[0:1]=0.5; mode:{clip/wrap}=clip``.
An enumeration that lists None is an optional one.

Inputs and output labels: names in order. A name may depend on attributes: ``bias[!no_bias]``,
``gamma[act_type=prelu]``, ``a[flag&key=value]``; ``arg*num_args`` is ``arg0``, ``arg1``, ... up to the attribute's count.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import msgspec

_PARAMETER = r"(\w+):(?:\{([^}]*)\}|(\w+\??))(?:\[([^:\]]*):([^\]]*)\])?=(.*)"
_TERM = r"(\w+)(?:\*(\w+))?(?:\[([^\]]+)\])?"


class Parameter(msgspec.Struct, frozen=True):
    """One typed attribute of an operator.

    ``kind`` is one of :data:`graphshare.ops.attributes.KINDS`. ``default`` is the text that means the default, None where
    the attribute is required. ``choices`` are the spellings of an enumeration, ``bounds`` the least and greatest number.
    """

    name: str
    kind: str
    default: str | None
    required: bool
    choices: tuple[str, ...] = ()
    bounds: tuple[float | None, float | None] = (None, None)


class Condition(NamedTuple):
    """``key`` has the value ``expected`` (True for a plain flag), or another one if ``negated``."""

    key: str
    expected: str | bool
    negated: bool


class FormalName(NamedTuple):
    """One name, or as many numbered names as the attribute ``counted_by`` says, if all conditions hold."""

    name: str
    counted_by: str
    conditions: tuple[Condition, ...]


@cache
def read_parameters(text: str) -> tuple[Parameter, ...]:
    """Return the parameters that a table row declares, in order."""
    return tuple(_parameter(part.strip()) for part in text.split(";") if part.strip())


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(_PARAMETER, text, re.DOTALL)
    if match is None:
        raise AssertionError(f"not a parameter: {text!r}")
    name, choices, kind, low, high, default = match.groups()
    members = tuple(choices.split("/")) if choices is not None else ()
    if members:
        kind = "enum?" if members[0] == "None" else "enum"
        members = members[1:] if kind == "enum?" else tuple(member.strip("'") for member in members)
    required = default == "!"
    bounds = (float(low) if low else None, float(high) if high else None)
    return Parameter(name, kind, None if required else default, required, members, bounds)


@cache
def read_terms(text: str) -> tuple[FormalName, ...]:
    """Return the inputs or labels that a table row declares, in order."""
    return tuple(_term(part) for part in text.split())


def _term(text: str) -> FormalName:
    match = re.fullmatch(_TERM, text)
    if match is None:
        raise AssertionError(f"not a name: {text!r}")
    name, count, conditions = match.groups()
    return FormalName(name, count or "", tuple(map(_condition, conditions.split("&"))) if conditions else ())


def _condition(text: str) -> Condition:
    key, equals, value = text.lstrip("!").partition("=")
    return Condition(key, value if equals else True, text.startswith("!"))
