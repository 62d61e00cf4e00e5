"""Control flow: ``_foreach``, ``_while_loop`` and ``_cond``, whose bodies are subgraphs of the node, and their gradients.

The attributes say which input of the node feeds which variable of a subgraph.

Gradients are backward passes through the runs of the subgraphs, the last one first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphshare.ops.control_flow.body_shapes import (
    cond_body_shapes,
    cond_body_types,
    foreach_body_shapes,
    foreach_body_types,
    foreach_shapes,
    foreach_types,
    while_body_shapes,
    while_body_types,
    while_shapes,
    while_types,
)
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes
from graphshare.ops.unification import infer_nothing
from graphshare.text.format import format_count


def _run(context: Context, number: int, arrays: Sequence[Array | None]) -> list[Array]:
    if context.run_subgraph is None:
        raise KernelError("the node has no subgraph to run")
    variables = [x for x in arrays if x is not None]
    if len(variables) != len(arrays):
        raise KernelError(f"subgraph {number} has variables that no input feeds")
    return context.run_subgraph(number, variables)


def _is_true(heads: Sequence[Array]) -> bool:
    if len(heads) != 1 or heads[0].size != 1:
        raise KernelError("the condition must be one number, not " + ", ".join(str(x.shape) for x in heads))
    return bool(heads[0].reshape(-1)[0])


def foreach(context: Context, attrs: Attrs, *inputs: Array) -> tuple[Array, ...]:
    """Run subgraph 0 for each step along axis 0 of the data, passing states on; inputs are data, states, and all others.

    Return the first ``num_out_data`` heads of the body, stacked, then the last states.
    """
    places = (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])
    if len(places) != len(inputs):
        raise KernelError(
            f"in_data_locs, in_state_locs and remain_locs map {format_count(len(places), 'input')}, but there are {len(inputs)}"
        )
    data, states = len(attrs["in_data_locs"]), len(attrs["in_state_locs"])
    lengths = {x.shape[0] for x in inputs[:data]}
    if len(lengths) != 1:
        raise KernelError("the data inputs must have the same size along axis 0")
    count: int = attrs["num_out_data"]
    current = list(inputs)
    collected: list[list[Array]] = [[] for _ in range(count)]
    for step in range(lengths.pop()):
        current[:data] = [x[step] if x.ndim > 1 else x[step : step + 1] for x in inputs[:data]]
        heads = _run(context, 0, _order_inputs(places, current))
        for kept, head in zip(collected, heads[:count], strict=True):
            kept.append(head)
        current[data : data + states] = heads[count:]
    return (*map(np.stack, collected), *current[data : data + states])


def _order_inputs(places: Sequence[int], arrays: Sequence[Array]) -> list[Array | None]:
    placed: list[Array | None] = [None] * (max(places) + 1)
    for place, array in zip(places, arrays, strict=True):
        placed[place] = array
    return placed


def while_loop(context: Context, attrs: Attrs, *inputs: Array) -> tuple[Array, ...]:
    """Run subgraph 1 while subgraph 0 is true, at most ``max_iterations`` times.

    Return the first ``num_out_data`` heads of the body, stacked to ``max_iterations`` (zeros after the last step, where MXNet
    leaves memory uninitialised), then the loop variables.
    """
    values = list(inputs)  # loop variables replace the inputs that they start from
    variables = [attrs["func_input_locs"][place] for place in attrs["func_var_locs"]]
    count: int = attrs["num_out_data"]
    collected: list[list[Array]] = [[] for _ in range(count)]
    steps = 0
    while steps < attrs["max_iterations"]:
        if not _is_true(_run(context, 0, [values[place] for place in attrs["cond_input_locs"]])):
            break
        heads = _run(context, 1, [values[place] for place in attrs["func_input_locs"]])
        for kept, head in zip(collected, heads[:count], strict=True):
            kept.append(head)
        for place, head in zip(variables, heads[count:], strict=True):
            if head.shape != values[place].shape:
                raise KernelError(f"the shape of a loop variable changed from {values[place].shape} to {head.shape}")
            values[place] = head
        steps += 1
    if count and not steps:  # only the body itself gives the shapes
        collected = [[head] for head in _run(context, 1, [values[place] for place in attrs["func_input_locs"]])[:count]]
    return (*(_pad_steps(kept, steps, attrs["max_iterations"]) for kept in collected), *(values[place] for place in variables))


def _pad_steps(heads: Sequence[Array], steps: int, length: int) -> Array:
    out: Array = np.zeros((length, *heads[0].shape), heads[0].dtype)
    for step in range(steps):
        out[step] = heads[step]
    return out


def cond(context: Context, attrs: Attrs, *inputs: Array) -> tuple[Array, ...]:
    """Run subgraph 1 if subgraph 0 is true, otherwise subgraph 2."""
    holds = _is_true(_run(context, 0, [inputs[place] for place in attrs["cond_input_locs"]]))
    places = attrs["then_input_locs"] if holds else attrs["else_input_locs"]
    return tuple(_run(context, 1 if holds else 2, [inputs[place] for place in places]))


CostOf = Callable[[int, Shapes], "int | None"]


def _foreach_cost(attrs: Attrs, inputs: Shapes, cost_of: CostOf) -> int | None:
    """Count the body once for each step."""
    data, places = len(attrs["in_data_locs"]), (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])
    length = inputs[0][0] if inputs and inputs[0] else None
    step = [x if i >= data or not x else x[1:] or (1,) for i, x in enumerate(inputs)]
    body = cost_of(0, [shape for _, shape in sorted(zip(places, step, strict=True), key=lambda pair: pair[0])])
    return None if length is None or body is None else length * body


def _while_cost(attrs: Attrs, inputs: Shapes, cost_of: CostOf) -> int | None:
    """Count condition and body ``max_iterations`` times."""
    costs = [cost_of(i, [inputs[p] for p in attrs[key]]) for i, key in enumerate(("cond_input_locs", "func_input_locs"))]
    return None if None in costs else int(attrs["max_iterations"]) * sum(cost for cost in costs if cost is not None)


def _cond_cost(attrs: Attrs, inputs: Shapes, cost_of: CostOf) -> int | None:
    """Count the condition and the more expensive branch."""
    keys = ("cond_input_locs", "then_input_locs", "else_input_locs")
    condition, then, other = (cost_of(i, [inputs[p] for p in attrs[key]]) for i, key in enumerate(keys))
    return None if condition is None or then is None or other is None else condition + max(then, other)


KERNELS = (
    Kernel(
        "_foreach",
        foreach,
        foreach_shapes,
        foreach_types,
        body_shapes=foreach_body_shapes,
        body_types=foreach_body_types,
        body_cost=_foreach_cost,
    ),
    Kernel(
        "_while_loop",
        while_loop,
        while_shapes,
        while_types,
        body_shapes=while_body_shapes,
        body_types=while_body_types,
        body_cost=_while_cost,
    ),
    Kernel(
        "_cond",
        cond,
        infer_nothing,
        infer_nothing,
        body_shapes=cond_body_shapes,
        body_types=cond_body_types,
        body_cost=_cond_cost,
    ),
)


def _add(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return np.asarray(a + b)


def _step_of(dys: Sequence[Array | None], step: int) -> list[Array | None]:
    return [None if dy is None else dy[step] for dy in dys]


def foreach_gradient(entry: TapeEntry, *dys: Array | None) -> Gradients:
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


def while_loop_gradient(entry: TapeEntry, *dys: Array | None) -> Gradients:
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


def cond_gradient(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return the gradients of the branch that ran."""
    number, backward = entry.subruns[-1]
    places = entry.attrs["then_input_locs" if number == 1 else "else_input_locs"]
    totals: list[Array | None] = [None] * len(entry.requested)
    for place, gradient in zip(places, backward(dys), strict=True):
        totals[place] = _add(totals[place], gradient)
    return totals


GRADIENTS = (
    Gradient("_foreach", foreach_gradient, reads_outputs=False),
    Gradient("_while_loop", while_loop_gradient),
    Gradient("_cond", cond_gradient, reads_inputs=False, reads_outputs=False),
)
