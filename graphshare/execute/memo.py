"""What kernels compute from parameters alone, kept from one call of a bound graph to the next."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from graphshare.execute.step import Step
from graphshare.ops.kernel import Once


class Memo:
    """The last such result of each step. ``constant`` are the slots whose values never change."""

    def __init__(self, constant: Collection[int]) -> None:
        self._constant = constant
        self._results: dict[Step, tuple[Any, Any]] = {}
        self._once: dict[Step, Once] = {}

    def of(self, step: Step) -> Once:
        """Return the :class:`~graphshare.ops.kernel.Context`'s ``once`` for the kernel of ``step``."""
        if step not in self._once:
            self._once[step] = self._keep_results_of(step)
        return self._once[step]

    def _keep_results_of(self, step: Step) -> Once:
        def once(positions: Sequence[int], key: Any, compute: Callable[[], Any]) -> Any:
            if not all(step.inputs[position] in self._constant for position in positions):
                return compute()
            if step not in self._results or self._results[step][0] != key:
                self._results[step] = key, compute()
            return self._results[step][1]

        return once
