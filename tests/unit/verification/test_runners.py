"""A side that rejects its inputs gives a value that says why, and nothing that it computed stays in memory."""

from __future__ import annotations

import weakref
from typing import Any, cast

import numpy as np
import pytest

from graphshare.errors import Fault, InputError, MemoryLimitError
from graphshare.verification.runners import Refused, has_refused, try_run

KEPT: list[weakref.ref[Any]] = []


class Rejecting:
    """A computation that fails with an error after it has computed an array."""

    def __init__(self, error: type[InputError]) -> None:
        self._error = error

    def run(self, values: object, *, seed: int | None = None) -> None:
        array = np.zeros(3)
        KEPT.append(weakref.ref(array))
        try:
            raise ValueError(array.sum())
        except ValueError as error:
            raise self._error(Fault("is not computed")) from error


def test_a_refusal_says_why_and_keeps_no_values() -> None:
    outputs = try_run(cast(Any, Rejecting(InputError)), {})
    assert isinstance(outputs, Refused)
    assert outputs.reason == "is not computed"
    assert has_refused([[], outputs])
    assert KEPT.pop()() is None


def test_a_limit_of_memory_is_no_refusal() -> None:
    with pytest.raises(MemoryLimitError):
        try_run(cast(Any, Rejecting(MemoryLimitError)), {})
    assert not has_refused([[], []])
