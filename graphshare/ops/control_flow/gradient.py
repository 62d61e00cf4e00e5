"""Gradients of control flow: back through the runs of the subgraphs, the last one first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array


def _plus(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return np.asarray(a + b)


def _step_of(dys: Sequence[Array | None], step: int) -> list[Array | None]:
    return [None if dy is None else dy[step] for dy in dys]


def foreach(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Each step's gradients of data in their places, those of states handed back from step to step, the rest's added up."""
    attrs = entry.attrs
    places = (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])
    data, states, count = len(attrs["in_data_locs"]), len(attrs["in_state_locs"]), attrs["num_out_data"]
    found: list[Array | None] = [np.zeros_like(x) for x in entry.inputs[:data]]
    found += [None] * (len(entry.inputs) - data)
    current = [*dys[count:], *[None] * states][:states]
    for step in reversed(range(len(entry.subruns))):
        gradients = entry.subruns[step][1]([*_step_of(dys[:count], step), *current])
        here = [gradients[place] for place in places]
        for dx, gradient in zip(found[:data], here, strict=False):
            if dx is not None and gradient is not None:
                dx[step] = gradient.reshape(dx[step].shape)
        current = here[data : data + states]
        for i in range(data + states, len(here)):
            found[i] = _plus(found[i], here[i])
    found[data : data + states] = current
    return found


def while_loop(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Those of the loop's variables handed back from step to step, the rest's added up."""
    attrs, inputs = entry.attrs, entry.inputs
    count = attrs["num_out_data"]
    variables = [attrs["func_input_locs"][place] for place in attrs["func_var_locs"]]
    runs = [backward for number, backward in entry.subruns if number == 1]
    if len(runs) == 1 and all(out is inputs[place] for out, place in zip(entry.outputs[count:], variables, strict=True)):
        runs = []  # it ran for the shapes alone
    found: list[Array | None] = [None] * len(inputs)
    current = [*dys[count:], *[None] * len(variables)][: len(variables)]
    for step in reversed(range(len(runs))):
        gradients = runs[step]([*_step_of(dys[:count], step), *current])
        here: dict[int, Array | None] = {}
        for place, gradient in zip(attrs["func_input_locs"], gradients, strict=True):
            here[place] = _plus(here.get(place), gradient)
        current = [here.pop(place, None) for place in variables]
        for place, gradient in here.items():
            found[place] = _plus(found[place], gradient)
    for place, gradient in zip(variables, current, strict=True):
        found[place] = _plus(found[place], gradient)
    return found


def cond(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Those of the subgraph that ran."""
    number, backward = entry.subruns[-1]
    places = entry.attrs["then_input_locs" if number == 1 else "else_input_locs"]
    found: list[Array | None] = [None] * len(entry.requested)
    for place, gradient in zip(places, backward(dys), strict=True):
        found[place] = _plus(found[place], gradient)
    return found


GRADIENTS = (
    Gradient("_foreach", foreach, reads_outputs=False),
    Gradient("_while_loop", while_loop),
    Gradient("_cond", cond, reads_inputs=False, reads_outputs=False),
)
