"""Initializers as MXNet writes them into ``__init__``: a name and its arguments in JSON.

``Session`` computes them (:mod:`graphshare.execute.initial`), and MXNet's Module does when it trains the written file.
"""

from __future__ import annotations

import json


def _text(name: str, **arguments: object) -> str:
    return json.dumps([name, arguments])


def zeros() -> str:
    """All 0."""
    return _text("zero")


def ones() -> str:
    """All 1."""
    return _text("one")


def constant(value: float) -> str:
    """All ``value``."""
    return _text("constant", value=value)


def normal(sigma: float = 0.01) -> str:
    """Normal around 0 with standard deviation ``sigma``."""
    return _text("normal", sigma=sigma)


def uniform(scale: float = 0.07) -> str:
    """Uniform from ``-scale`` to ``scale``."""
    return _text("uniform", scale=scale)


def xavier(rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> str:
    """Scaled by the units that go in (``in``), come out (``out``) or their mean (``avg``); for two axes or more.

    ``rnd_type`` is ``uniform`` or ``gaussian``.
    """
    return _text("xavier", rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude)
