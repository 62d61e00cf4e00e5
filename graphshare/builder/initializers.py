"""Initializers as MXNet's ``__init__`` attribute: a name and its arguments in JSON.

``Session`` (:mod:`graphshare.execute.prepare.variable_values`) and MXNet's Module evaluate them.
"""

from __future__ import annotations

import json


def _encode(name: str, **arguments: object) -> str:
    return json.dumps([name, arguments])


def zeros() -> str:
    """Fill with 0."""
    return _encode("zero")


def ones() -> str:
    """Fill with 1."""
    return _encode("one")


def constant(value: float) -> str:
    """Fill with ``value``."""
    return _encode("constant", value=value)


def normal(sigma: float = 0.01) -> str:
    """Draw from a normal distribution with mean 0 and standard deviation ``sigma``."""
    return _encode("normal", sigma=sigma)


def uniform(scale: float = 0.07) -> str:
    """Draw uniformly from ``-scale`` to ``scale``."""
    return _encode("uniform", scale=scale)


def xavier(rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> str:
    """Draw for two axes or more, scaled by fan-in (``in``), fan-out (``out``) or their mean
    (``avg``), as Xavier Glorot proposes.

    ``rnd_type`` is ``uniform`` or ``gaussian``.
    """
    return _encode("xavier", rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
