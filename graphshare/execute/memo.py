"""What is kept from one call of a bound graph to the next: what follows from parameters alone, and the plans of subgraphs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from graphshare.execute.step import Step
from graphshare.ops.kernel import Once, RunSubgraph


class Memo:
    """The last result of each step from parameters alone. ``constant`` are the slots whose values never change."""

    def __init__(self, constant: Collection[int]) -> None:
        self._constant = constant
        self._results: dict[Step, tuple[Any, Any]] = {}
        self._once: dict[Step, Once] = {}
        self._runners: dict[Step, RunSubgraph] = {}

    def of(self, step: Step) -> Once:
        """Return the :class:`~graphshare.ops.kernel.Context`'s ``once`` for the kernel of ``step``."""
        if step not in self._once:
            self._once[step] = self._keep_results_of(step)
        return self._once[step]

    def runner_of(self, step: Step, make: Callable[[], RunSubgraph]) -> RunSubgraph:
        """Return what runs the subgraphs of ``step``, made once: it keeps their plans and shapes."""
        if step not in self._runners:
            self._runners[step] = make()
        return self._runners[step]

    def _keep_results_of(self, step: Step) -> Once:
        def once(positions: Sequence[int], key: Any, compute: Callable[[], Any]) -> Any:
            if not all(step.inputs[position] in self._constant for position in positions):
                return compute()
            if step not in self._results or self._results[step][0] != key:
                self._results[step] = key, compute()
            return self._results[step][1]

        return once
