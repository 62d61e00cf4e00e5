"""Gradients of control flow: backward passes through the runs of the subgraphs, the last one first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array


def _add(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return np.asarray(a + b)


def _step_of(dys: Sequence[Array | None], step: int) -> list[Array | None]:
    return [None if dy is None else dy[step] for dy in dys]


def foreach(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return the gradients of data by step, of states passed back from step to step, and of all others summed over steps."""
    attrs = entry.attrs
    places = (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])
    data, states, count = len(attrs["in_data_locs"]), len(attrs["in_state_locs"]), attrs["num_out_data"]
    totals: list[Array | None] = [np.zeros_like(x) for x in entry.inputs[:data]]
    totals += [None] * (len(entry.inputs) - data)
    current = [*dys[count:], *[None] * states][:states]
    for step in reversed(range(len(entry.subruns))):
        gradients = entry.subruns[step][1]([*_step_of(dys[:count], step), *current])
        here = [gradients[place] for place in places]
        for dx, gradient in zip(totals[:data], here, strict=False):
            if dx is not None and gradient is not None:
                dx[step] = gradient.reshape(dx[step].shape)
        current = here[data : data + states]
        for i in range(data + states, len(here)):
            totals[i] = _add(totals[i], here[i])
    totals[data : data + states] = current
    return totals


def while_loop(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return the gradients of loop variables, passed back from step to step, and of all others summed over steps."""
    attrs, inputs = entry.attrs, entry.inputs
    count = attrs["num_out_data"]
    variables = [attrs["func_input_locs"][place] for place in attrs["func_var_locs"]]
    runs = [backward for number, backward in entry.subruns if number == 1]
    if len(runs) == 1 and all(out is inputs[place] for out, place in zip(entry.outputs[count:], variables, strict=True)):
        runs = []  # the body ran only to give the shapes
    totals: list[Array | None] = [None] * len(inputs)
    current = [*dys[count:], *[None] * len(variables)][: len(variables)]
    for step in reversed(range(len(runs))):
        gradients = runs[step]([*_step_of(dys[:count], step), *current])
        here: dict[int, Array | None] = {}
        for place, gradient in zip(attrs["func_input_locs"], gradients, strict=True):
            here[place] = _add(here.get(place), gradient)
        current = [here.pop(place, None) for place in variables]
        for place, gradient in here.items():
            totals[place] = _add(totals[place], gradient)
    for place, gradient in zip(variables, current, strict=True):
        totals[place] = _add(totals[place], gradient)
    return totals


def cond(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return the gradients of the branch that ran."""
    number, backward = entry.subruns[-1]
    places = entry.attrs["then_input_locs" if number == 1 else "else_input_locs"]
    totals: list[Array | None] = [None] * len(entry.requested)
    for place, gradient in zip(places, backward(dys), strict=True):
        totals[place] = _add(totals[place], gradient)
    return totals


GRADIENTS = (
    Gradient("_foreach", foreach, reads_outputs=False),
    Gradient("_while_loop", while_loop),
    Gradient("_cond", cond, reads_inputs=False, reads_outputs=False),
)
