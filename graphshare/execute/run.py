"""``run``: the outputs of a graph for given inputs and parameters, computed with numpy or another engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import msgspec

from graphshare.execute.engines.executor import Executor
from graphshare.execute.feeds import GivenShape
from graphshare.execute.interpreter import Timing, run_plan
from graphshare.execute.plan import make_plan
from graphshare.execute.prepare import prepare
from graphshare.execute.variable_values import random_stream
from graphshare.formats.params.records import ParameterFile
from graphshare.ir.graph import Graph
from graphshare.text.short_repr import ShortRepr


class Computed(ShortRepr, msgspec.Struct, eq=False):
    """The result of a run. ``outputs`` are arrays by MXNet's output names; equal names get the endings ``#1``, ``#2``...

    ``peak_bytes`` is the most that computed values took at one time, ``variable_bytes`` the size of the variables. ``notes``
    tell the user what was decided for them.
    """

    outputs: dict[str, Any]
    peak_bytes: int
    variable_bytes: int
    seconds: float
    timings: list[Timing]
    notes: list[str]


def run(
    graph: Graph,
    *,
    params: ParameterFile | None = None,
    feeds: Mapping[str, Any] | None = None,
    shapes: Mapping[str, GivenShape] | None = None,
    targets: Sequence[str] = (),
    seed: int | None = None,
    params_seed: int | None = None,
    profile: bool = False,
    all_outputs: bool = False,
    executor: Executor | None = None,
) -> Computed:
    """Computes the heads of ``graph``, or ``targets``, and only what they need.

    ``feeds`` are arrays by variable name, parameters too; an array of another type is converted where the types of the others
    settle its variable's. ``seed`` draws the inputs that are not fed (operators that draw use it too), ``params_seed`` the
    parameters that ``params`` does not hold. Labels and RNN states that are not fed are zeros. ``all_outputs`` returns every
    inner output too, in topological order, and the inputs. ``executor`` computes; without one numpy does.

    Raises:
        UnsupportedError: operators that nothing here can compute; all are listed before anything runs.
        RefusedError: unknown names, shapes that do not fit, values that are missing; all of a kind are listed.
    """
    ready = prepare(
        graph,
        params=params,
        feeds=feeds or {},
        shapes=shapes or {},
        targets=targets,
        seed=seed,
        params_seed=params_seed,
        all_outputs=all_outputs,
    )
    started = perf_counter()
    rng = random_stream(seed or 0)
    if executor is None or executor.engine is None:
        done = run_plan(make_plan(ready.part.heads), ready.values, shapes=ready.inference.shapes, rng=rng, profile=profile)
    else:
        done = executor.run(ready.part.heads, ready.values, ready.inference, ready.roles, rng=rng)
        ready.notes.extend(executor.notes)
    seconds = perf_counter() - started
    outputs = dict(zip(ready.names, done.outputs, strict=True))
    return Computed(outputs, done.peak_bytes, ready.variable_bytes, seconds, done.timings, ready.notes)
