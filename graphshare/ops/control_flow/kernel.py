"""Control flow: ``_foreach``, ``_while_loop`` and ``_cond``, and gradients.

Attributes map inputs to the variables of bodies, the node's subgraphs. Variables correspond to
inputs without the loop axis, heads to outputs; facts pass in both directions. States keep shape and
dtype; loops are as long as their data or their limit.

Gradients are backward passes through the subgraph runs, the last one first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import Any

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Bodies,
    Context,
    Dim,
    Kernel,
    KernelError,
    KernelResult,
    Shape,
    Shapes,
    Types,
)
from graphshare.ops.limits import require
from graphshare.ops.unification import infer_nothing, same_dtypes, unify
from graphshare.text.format import format_count


def foreach_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer one length for data and stacked outputs, and one shape per state."""
    operands, results = list(inputs), list(outputs)
    _places(attrs, len(operands))
    data, count = len(attrs["in_data_locs"]), attrs["num_out_data"]
    # MXNet's signature has no lower bound; a negative number crashes it.
    require(count >= 0, f"num_out_data is {count}, expected at least 0")
    require(() not in operands[:data], "data without axes has no steps")
    length: Dim = None
    for shape in (*operands[:data], *results[:count]):
        if shape:
            length = length if shape[0] is None else shape[0]
    for i in range(data):
        operands[i] = _with_length(operands[i], length)
    for i in range(min(count, len(results))):
        results[i] = _with_length(results[i], length)
    for i in range(len(attrs["in_state_locs"])):
        if count + i < len(results):
            operands[data + i] = results[count + i] = unify(operands[data + i], results[count + i])
    return operands, results


def _with_length(shape: Shape, length: Dim) -> Shape:
    if not shape:
        return shape
    return unify(shape, (length, *(None,) * (len(shape) - 1)))


def foreach_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype per state."""
    _places(attrs, len(inputs))
    data, count = len(attrs["in_data_locs"]), attrs["num_out_data"]
    pairs = [(data + i, count + i) for i in range(len(attrs["in_state_locs"]))]
    return _state_dtypes(pairs, inputs, outputs)


def _variables(attrs: Attrs, inputs: Sequence[Any]) -> list[tuple[int, int]]:
    """Return (initial input, output) per loop variable."""
    fed, variables = _inputs(attrs, "func_input_locs", inputs), attrs["func_var_locs"]
    if any(not 0 <= place < len(fed) for place in variables):
        raise KernelError(
            f"func_var_locs {tuple(variables)} names positions beyond those of func_input_locs {tuple(fed)}"
        )
    places = [fed[place] for place in variables]
    return [(place, attrs["num_out_data"] + i) for i, place in enumerate(places)]


def while_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer one shape per loop variable, and length ``max_iterations`` of stacked outputs."""
    operands, results = list(inputs), list(outputs)
    for place, output in _variables(attrs, operands):
        if output < len(results):
            operands[place] = results[output] = unify(operands[place], results[output])
    for i in range(min(attrs["num_out_data"], len(results))):
        results[i] = _with_length(results[i], attrs["max_iterations"])
    return operands, results


def while_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype per loop variable."""
    return _state_dtypes(_variables(attrs, inputs), inputs, outputs)


def _state_dtypes(
    pairs: Sequence[tuple[int, int]], inputs: Types, outputs: Types
) -> tuple[Types, Types]:
    operands, results = list(inputs), list(outputs)
    for place, output in pairs:
        if output < len(results):
            (operands[place],), (results[output],) = same_dtypes(
                {}, [operands[place]], [results[output]]
            )
    return operands, results


def foreach_body_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies
) -> tuple[Shapes, Shapes]:
    """Infer as :func:`foreach_shapes`, and through the body."""
    operands, results = map(list, foreach_shapes(attrs, inputs, outputs))
    places = _places(attrs, len(inputs))
    data, count = len(attrs["in_data_locs"]), attrs["num_out_data"]
    steps = [_infer_step_shape(x) for x in operands[:data]]
    heads = _infer_head_shapes(results, count)
    variables, heads = map(
        list, _infer_body(bodies.shapes, 0, places, [*steps, *operands[data:]], heads)
    )
    _split_heads(heads, count, len(attrs["in_state_locs"]))
    for i, place in enumerate(places):
        if i >= data:
            operands[i] = unify(operands[i], variables[place])
        # A step of data with one axis is a number, and determines no shape.
        elif (shape := operands[i]) is not None and len(shape) > 1:
            step = variables[place]
            operands[i] = unify(shape, None if step is None else (shape[0], *step))
    length: Dim = next((x[0] for x in operands[:data] if x), None)
    _unify_heads(results, heads, count, length)
    # The body's facts about a state or output hold for its counterpart.
    return foreach_shapes(attrs, operands, results)


def _infer_step_shape(shape: Shape) -> Shape:
    """A single axis remains, with size 1."""
    if not shape:
        return None
    return shape[1:] if len(shape) > 1 else (1,)


def _infer_head_shapes(results: Shapes, count: int) -> list[Shape]:
    """Return the shapes of a body's heads; the first ``count`` outputs are stacked heads."""
    stacked = [None if shape is None else shape[1:] for shape in results[:count]]
    return [*stacked, *results[count:]]


def foreach_body_types(
    attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies
) -> tuple[Types, Types]:
    """Infer as :func:`foreach_types`, and through the body."""
    operands, results = map(list, foreach_types(attrs, inputs, outputs))
    places = _places(attrs, len(inputs))
    variables, heads = _infer_body(bodies.types, 0, places, operands, results)
    operands = [variables[place] or x for place, x in zip(places, operands, strict=True)]
    _check_states(bodies, 0, variables, attrs["in_state_locs"], attrs["num_out_data"])
    return foreach_types(attrs, operands, _fill_dtypes(results, heads))


def _check_states(
    bodies: Bodies, number: int, variables: Types, positions: Sequence[int], count: int
) -> None:
    """Refuse states (at ``positions``) whose dtype a step changes; ``count`` heads precede them."""
    if None in variables:
        return
    # Known heads would keep their dtypes even if the body computes others
    _, heads = bodies.types(number, variables, [])
    for position, dtype in zip(positions, heads[count:], strict=False):
        if dtype not in (None, variables[position]):
            raise KernelError(f"a step turns a state of {variables[position]} into {dtype}")


def foreach_places(attrs: Attrs) -> tuple[int, ...]:
    """Return each ``_foreach`` input's position among the body's variables."""
    return (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])


def _places(attrs: Attrs, count: int) -> tuple[int, ...]:
    """Return :func:`foreach_places`.

    Raises:
        KernelError: the attributes do not map the inputs to distinct variables.
    """
    places = foreach_places(attrs)
    _check_input_count(places, count)
    if sorted(places) != list(range(count)):
        raise KernelError(
            "in_data_locs, in_state_locs and remain_locs do not name "
            f"each of the {format_count(count, 'variable')} once"
        )
    return places


def _check_input_count(places: Sequence[int], count: int) -> None:
    require(
        len(places) == count,
        f"in_data_locs, in_state_locs and remain_locs map "
        f"{format_count(len(places), 'input')}, but there are {count}",
    )


def _infer_body(
    infer: Any, number: int, places: Sequence[int], values: Sequence[Any], heads: Sequence[Any]
) -> Any:
    variables: list[Any] = [None] * len(places)
    for place, value in zip(places, values, strict=True):
        variables[place] = value
    return infer(number, variables, heads)


def _split_heads(
    heads: Sequence[Any], count: int, states: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    if len(heads) != count + states:
        raise KernelError(
            f"the body has {format_count(len(heads), 'head')}, expected {count + states}: num_out_data is {count}, and "
            f"{format_count(states, 'state')} follow"
        )
    return heads[:count], heads[count:]


def _unify_heads(results: list[Shape], heads: Shapes, count: int, length: Dim) -> None:
    """The first ``count`` are stacked."""
    for i, head in enumerate(heads[: len(results)]):
        if i >= count:
            results[i] = unify(results[i], head)
        elif head is not None:
            results[i] = unify(results[i], (length, *head))


def while_body_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies
) -> tuple[Shapes, Shapes]:
    """Infer as :func:`while_shapes`, and through condition and body."""
    operands, results = map(list, while_shapes(attrs, inputs, outputs))
    count = attrs["num_out_data"]
    variables, _ = bodies.shapes(0, _select_inputs(attrs, "cond_input_locs", operands), [])
    _unify_variables(operands, attrs["cond_input_locs"], variables)
    heads = _infer_head_shapes(results, count)
    arguments = _select_inputs(attrs, "func_input_locs", operands)
    variables, step_heads = bodies.shapes(1, arguments, heads)
    _unify_variables(operands, attrs["func_input_locs"], variables)
    _split_heads(step_heads, count, len(attrs["func_var_locs"]))
    _unify_heads(results, step_heads, count, attrs["max_iterations"])
    return while_shapes(attrs, operands, results)


def while_body_types(
    attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies
) -> tuple[Types, Types]:
    """Infer as :func:`while_types`, and through condition and body."""
    operands, results = map(list, while_types(attrs, inputs, outputs))
    for number, key, heads in ((0, "cond_input_locs", []), (1, "func_input_locs", results)):
        arguments = _select_inputs(attrs, key, operands)
        variables, step_heads = bodies.types(number, arguments, heads)
        for i, dtype in zip(attrs[key], variables, strict=True):
            operands[i] = operands[i] or dtype
        if number:
            _check_states(bodies, 1, variables, attrs["func_var_locs"], attrs["num_out_data"])
            results = _fill_dtypes(results, step_heads)
    return while_types(attrs, operands, results)


def _infer_cond(
    attrs: Attrs, inputs: Sequence[Any], outputs: Sequence[Any], infer: Any, merge: Any
) -> tuple[Any, Any]:
    """Infer through condition and branches, whose heads are the outputs."""
    operands, results = list(inputs), list(outputs)
    for number, key in enumerate(("cond_input_locs", "then_input_locs", "else_input_locs")):
        arguments = _select_inputs(attrs, key, operands)
        # The condition's head is not an output.
        variables, heads = infer(number, arguments, results if number else [])
        for place, value in zip(attrs[key], variables, strict=True):
            operands[place] = merge(operands[place], value)
        if number:
            results[: len(heads)] = map(merge, results, heads)
    return operands, results


def _inputs(attrs: Attrs, key: str, operands: Sequence[Any]) -> Sequence[int]:
    places: Sequence[int] = attrs[key]
    if any(not 0 <= place < len(operands) for place in places):
        raise KernelError(
            f"{key} {tuple(places)} names inputs beyond the {len(operands)} of the node"
        )
    return places


def _select_inputs(attrs: Attrs, key: str, operands: Sequence[Any]) -> list[Any]:
    return [operands[place] for place in _inputs(attrs, key, operands)]


def _unify_variables(operands: list[Shape], places: Sequence[int], variables: Shapes) -> None:
    for place, shape in zip(places, variables, strict=True):
        operands[place] = unify(operands[place], shape)


def _fill_dtypes(results: Types, heads: Types) -> list[str | None]:
    return [known or head for known, head in zip_longest(results, heads[: len(results)])]


def _run(context: Context, number: int, arrays: Sequence[Array | None]) -> list[Array]:
    if context.run_subgraph is None:
        raise KernelError("the node has no subgraph to run")
    variables = [x for x in arrays if x is not None]
    require(len(variables) == len(arrays), f"subgraph {number} has variables that no input feeds")
    return context.run_subgraph(number, variables)


def _is_true(heads: Sequence[Array]) -> bool:
    if len(heads) != 1 or heads[0].size != 1:
        raise KernelError(
            "the condition must be one number, not " + ", ".join(str(x.shape) for x in heads)
        )
    return bool(heads[0].reshape(-1)[0])


def foreach(context: Context, attrs: Attrs, *inputs: Array) -> tuple[Array, ...]:
    """Run subgraph 0 per step along axis 0 of the data; inputs are data, states, others.

    Return the first ``num_out_data`` heads, stacked, then the last states.
    """
    places = foreach_places(attrs)
    _check_input_count(places, len(inputs))
    data, states = len(attrs["in_data_locs"]), len(attrs["in_state_locs"])
    lengths = {x.shape[0] for x in inputs[:data]}
    require(len(lengths) == 1, "the data inputs must have the same size along axis 0")
    count: int = attrs["num_out_data"]
    current = list(inputs)
    collected: list[list[Array]] = [[] for _ in range(count)]
    length = lengths.pop()
    # Without steps, only running the body, here on zeros, gives its output shapes.
    if not length:
        current[:data] = [np.zeros(x.shape[1:] or (1,), x.dtype) for x in inputs[:data]]
        heads, _ = _split_heads(_run(context, 0, _order_inputs(places, current)), count, states)
        return (*(_pad_steps([head], 0, 0) for head in heads), *inputs[data : data + states])
    for step in range(length):
        # As in MXNet without NumPy shapes, a step keeps a single axis.
        current[:data] = [x[step] if x.ndim > 1 else x[step : step + 1] for x in inputs[:data]]
        heads, current[data : data + states] = _split_heads(
            _run(context, 0, _order_inputs(places, current)), count, states
        )
        for kept, head in zip(collected, heads, strict=True):
            kept.append(head)
    return (*map(np.stack, collected), *current[data : data + states])


def _order_inputs(places: Sequence[int], arrays: Sequence[Array]) -> list[Array | None]:
    placed: list[Array | None] = [None] * (max(places) + 1)
    for place, array in zip(places, arrays, strict=True):
        placed[place] = array
    return placed


def while_loop(context: Context, attrs: Attrs, *inputs: Array) -> KernelResult:
    """Run subgraph 1 while subgraph 0 is true, at most ``max_iterations`` times.

    Return the first ``num_out_data`` heads, stacked to ``max_iterations`` (then zeros,
    uninitialised in MXNet), then the loop variables. The residual is the number of steps.
    """
    values = list(inputs)  # for the condition, loop variables replace their initial inputs
    # Variables with a common initial input differ after the first step
    fed = [inputs[place] for place in attrs["func_input_locs"]]
    count: int = attrs["num_out_data"]
    collected: list[list[Array]] = [[] for _ in range(count)]
    steps = 0
    while steps < attrs["max_iterations"]:
        if not _is_true(_run(context, 0, [values[place] for place in attrs["cond_input_locs"]])):
            break
        stacked, states = _split_heads(_run(context, 1, fed), count, len(attrs["func_var_locs"]))
        for kept, head in zip(collected, stacked, strict=True):
            kept.append(head)
        for position, head in zip(attrs["func_var_locs"], states, strict=True):
            if head.shape != fed[position].shape:
                raise KernelError(
                    f"the shape of a loop variable changed from {fed[position].shape} to {head.shape}"
                )
            fed[position] = values[attrs["func_input_locs"][position]] = head
        steps += 1
    # As in :func:`foreach`, only running the body gives the shapes.
    if count and not steps:
        collected = [[head] for head in _run(context, 1, fed)[:count]]
    filled = (_pad_steps(kept, steps, attrs["max_iterations"]) for kept in collected)
    return KernelResult(
        (*filled, *(fed[position] for position in attrs["func_var_locs"])), residuals=steps
    )


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
    data, places = len(attrs["in_data_locs"]), foreach_places(attrs)
    length = inputs[0][0] if inputs and inputs[0] else None
    steps = [x[1:] or (1,) if x else x for x in inputs[:data]]
    pairs = zip(places, [*steps, *inputs[data:]], strict=True)
    body = cost_of(0, [shape for _, shape in sorted(pairs, key=itemgetter(0))])
    return None if length is None or body is None else length * body


def _while_cost(attrs: Attrs, inputs: Shapes, cost_of: CostOf) -> int | None:
    condition = cost_of(0, [inputs[place] for place in attrs["cond_input_locs"]])
    body = cost_of(1, [inputs[place] for place in attrs["func_input_locs"]])
    if condition is None or body is None:
        return None
    return int(attrs["max_iterations"]) * (condition + body)


def _cond_cost(attrs: Attrs, inputs: Shapes, cost_of: CostOf) -> int | None:
    condition = cost_of(0, [inputs[place] for place in attrs["cond_input_locs"]])
    then = cost_of(1, [inputs[place] for place in attrs["then_input_locs"]])
    other = cost_of(2, [inputs[place] for place in attrs["else_input_locs"]])
    if condition is None or then is None or other is None:
        return None
    return condition + max(then, other)


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
        body_shapes=lambda attrs, inputs, outputs, bodies: _infer_cond(
            attrs, inputs, outputs, bodies.shapes, unify
        ),
        body_types=lambda attrs, inputs, outputs, bodies: _infer_cond(
            attrs, inputs, outputs, bodies.types, lambda a, b: a or b
        ),
        body_cost=_cond_cost,
    ),
)


def _add(a: Array | None, b: Array | None) -> Array | None:
    if a is None:
        return b
    return a if b is None else np.asarray(a + b)


def _slice_step(dys: Sequence[Array | None], step: int) -> list[Array | None]:
    return [None if dy is None else dy[step] for dy in dys]


def foreach_gradient(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return gradients of data per step, of states passed back, and sums of the rest."""
    attrs = entry.attrs
    places, count = foreach_places(attrs), attrs["num_out_data"]
    data, states = len(attrs["in_data_locs"]), len(attrs["in_state_locs"])
    totals: list[Array | None] = [np.zeros_like(x) for x in entry.inputs[:data]]
    totals += [None] * (len(entry.inputs) - data)
    current = [*dys[count:], *[None] * states][:states]
    for step in reversed(range(len(entry.inputs[0]))):
        gradients = entry.subruns[step][1]([*_slice_step(dys[:count], step), *current])
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
    """Return gradients of loop variables passed back through the steps, and sums of the rest."""
    attrs, inputs = entry.attrs, entry.inputs
    count = attrs["num_out_data"]
    places, variables = attrs["func_input_locs"], attrs["func_var_locs"]
    runs = [backward for number, backward in entry.subruns if number == 1]
    if not entry.residuals:
        runs = []  # the body ran only to give shapes
    totals: list[Array | None] = [None] * len(inputs)
    current = [*dys[count:], *[None] * len(variables)][: len(variables)]
    for step in reversed(range(len(runs))):
        gradients = runs[step]([*_slice_step(dys[:count], step), *current])
        current = [gradients[position] for position in variables]
        for position, gradient in enumerate(gradients):
            if position not in variables:
                totals[places[position]] = _add(totals[places[position]], gradient)
    for position, gradient in zip(variables, current, strict=True):
        totals[places[position]] = _add(totals[places[position]], gradient)
    return totals


def cond_gradient(entry: TapeEntry, *dys: Array | None) -> Gradients:
    """Return gradients of the branch that ran."""
    # The condition ran first, the branch last.
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
