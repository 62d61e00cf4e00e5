"""Stochastic gradient descent as in MXNet's Module.

The gradient is rescaled (by 1 / batch, by default), clipped, and the weight decay added; then ``m =
momentum * m - rate * g`` and ``w = w + m``. Only names that end in ``_weight`` or ``_gamma`` decay.
A variable's ``__lr_mult__`` and ``__wd_mult__`` multiply its rate and decay; the latter overrides
the ending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array

DECAYED = ("_weight", "_gamma")
"""Endings of the names of variables with weight decay."""
_BLOCK = 1 << 15
"""The number of elements updated at a time."""


class Sgd(msgspec.Struct, frozen=True):
    """The settings; Module's own by default.

    ``rescale`` multiplies gradients, ``clip`` bounds their absolute values; 0 means no bound, as in
    Module.
    """

    learning_rate: float = 0.01
    momentum: float = 0.0
    wd: float = 0.0
    rescale: float = 1.0
    clip: float | None = None


class Multipliers(msgspec.Struct, frozen=True):
    """The factors of a variable's learning rate and weight decay."""

    learning_rate: float
    wd: float


def multipliers(variables: Sequence[Node]) -> dict[Node, Multipliers]:
    """Return the multipliers by variable.

    Raises:
        RefusedError: attributes that are not numbers; all are listed.
    """
    by_node, faults = {}, []
    for node in variables:
        numbers = {"__lr_mult__": 1.0, "__wd_mult__": 1.0 if node.name.endswith(DECAYED) else 0.0}
        for key in numbers:
            text = node.attrs.get(key)
            if text is not None:
                try:
                    numbers[key] = float(text)
                except ValueError:
                    faults.append(
                        Fault(f"{key} is {text!r}, which is not a number", node=node.name)
                    )
        by_node[node] = Multipliers(*numbers.values())
    if faults:
        raise RefusedError(faults)
    return by_node


class Momentum:
    """SGD updates of some variables, with the momentum of earlier steps."""

    def __init__(
        self, settings: Sgd, variables: Sequence[Node], memory: dict[Node, Array] | None = None
    ) -> None:
        """Begin without momentum, or with ``memory``; it is written to and outlives this object."""
        self._settings = settings
        self._multipliers = multipliers(variables)
        self._memory = {} if memory is None else memory

    def update(
        self, values: Mapping[Node, Array], gradients: Mapping[Node, Array]
    ) -> dict[Node, Array]:
        """Return the values after one step; a missing gradient is zero, and decay still applies."""
        updated = {}
        for node, multiplier in self._multipliers.items():
            value, gradient = values[node], gradients.get(node)
            result = np.empty(value.shape, value.dtype)
            if self._settings.momentum and node not in self._memory:
                wide = np.float32 if value.dtype == np.float16 else value.dtype
                self._memory[node] = np.zeros(value.shape, wide)
            old, out = np.ravel(value), result.reshape(-1)
            slopes, memory = (
                None if x is None else np.ravel(x) for x in (gradient, self._memory.get(node))
            )
            for first in range(0, max(1, out.size), _BLOCK):
                part = slice(first, first + _BLOCK)
                slope, kept = (None if x is None else x[part] for x in (slopes, memory))
                self._update_block(old[part], slope, kept, out[part], multiplier)
            updated[node] = result
        return updated

    def _update_block(
        self,
        value: Array,
        gradient: Array | None,
        memory: Array | None,
        out: Array,
        multiplier: Multipliers,
    ) -> None:
        """Update a block of one variable that fits into the cache; write to ``memory`` and ``out``."""
        settings = self._settings
        wide = np.float32 if value.dtype == np.float16 else value.dtype.type
        change = (
            np.zeros(value.shape, wide)
            if gradient is None
            else np.multiply(gradient, wide(settings.rescale))
        )
        # Clipped after rescaling and before the decay is added, as in MXNet's sgd_update.
        if settings.clip is not None and settings.clip > 0:
            np.clip(change, -wide(settings.clip), wide(settings.clip), out=change)
        if settings.wd * multiplier.wd:
            change += value * wide(settings.wd * multiplier.wd)
        change *= -wide(settings.learning_rate * multiplier.learning_rate)
        if memory is not None:
            memory *= wide(settings.momentum)
            memory += change
            change = memory
        out[...] = value + change
