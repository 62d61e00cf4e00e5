"""Shapes and dtypes of control flow: rules independent of the bodies, and inference through the bodies.

States keep their shape and dtype; loops are as long as their data or their limit. Variables of a body correspond to inputs of
the node without the axis that a loop runs along, heads of a body to outputs; facts pass in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphshare.ops.kernel import Attrs, Bodies, Dim, KernelError, Shape, Shapes, Types
from graphshare.ops.unification import same_dtypes, unify
from graphshare.text.format import format_count


def foreach_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer one length for data and stacked outputs, and one shape for each state."""
    operands, results = list(inputs), list(outputs)
    _places(attrs, len(operands))
    data, count = len(attrs["in_data_locs"]), attrs["num_out_data"]
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
    """Infer one dtype for each state."""
    _places(attrs, len(inputs))
    pairs = enumerate(range(len(attrs["in_data_locs"]), len(attrs["in_data_locs"]) + len(attrs["in_state_locs"])))
    return _state_dtypes([(place, attrs["num_out_data"] + i) for i, place in pairs], inputs, outputs)


def _variables(attrs: Attrs, inputs: Sequence[Any]) -> list[tuple[int, int]]:
    """Return for each loop variable the input that it starts from and its output."""
    fed, variables = _inputs(attrs, "func_input_locs", inputs), attrs["func_var_locs"]
    if any(not 0 <= place < len(fed) for place in variables):
        raise KernelError(f"func_var_locs {tuple(variables)} names positions beyond those of func_input_locs {tuple(fed)}")
    places = [fed[place] for place in variables]
    return [(place, attrs["num_out_data"] + i) for i, place in enumerate(places)]


def while_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer one shape for each loop variable, and the length ``max_iterations`` of stacked outputs."""
    operands, results = list(inputs), list(outputs)
    for place, output in _variables(attrs, operands):
        if output < len(results):
            operands[place] = results[output] = unify(operands[place], results[output])
    for i in range(min(attrs["num_out_data"], len(results))):
        results[i] = _with_length(results[i], attrs["max_iterations"])
    return operands, results


def while_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for each loop variable."""
    return _state_dtypes(_variables(attrs, inputs), inputs, outputs)


def _state_dtypes(pairs: Sequence[tuple[int, int]], inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for each pair of an input and an output of a state."""
    operands, results = list(inputs), list(outputs)
    for place, output in pairs:
        if output < len(results):
            (operands[place],), (results[output],) = same_dtypes({}, [operands[place]], [results[output]])
    return operands, results


def foreach_body_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """Infer as :func:`foreach_shapes`, and through a step of the body."""
    operands, results = map(list, foreach_shapes(attrs, inputs, outputs))
    places, data, count = _places(attrs, len(inputs)), len(attrs["in_data_locs"]), attrs["num_out_data"]
    steps = [_step_of(x) for x in operands[:data]]
    heads = [*(None if x is None else x[1:] for x in results[:count]), *results[count:]]
    variables, heads = map(list, _infer_body(bodies.shapes, 0, places, [*steps, *operands[data:]], heads))
    for i, place in enumerate(places):
        if i >= data:
            operands[i] = unify(operands[i], variables[place])
        elif operands[i] is not None and len(operands[i] or ()) > 1:
            step = variables[place]
            operands[i] = unify(operands[i], None if step is None else ((operands[i] or (None,))[0], *step))
    length: Dim = next((x[0] for x in operands[:data] if x), None)
    _unify_heads(results, heads, count, length)
    return foreach_shapes(attrs, operands, results)


def _step_of(shape: Shape) -> Shape:
    """Return the shape of one step of the data; data with a single axis keep it with size 1."""
    return None if not shape else shape[1:] if len(shape) > 1 else (1,)


def foreach_body_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """Infer as :func:`foreach_types`, and through a step of the body."""
    operands, results = map(list, foreach_types(attrs, inputs, outputs))
    places = _places(attrs, len(inputs))
    variables, heads = _infer_body(bodies.types, 0, places, operands, results)
    operands = [variables[place] or x for place, x in zip(places, operands, strict=True)]
    return foreach_types(attrs, operands, _fill_dtypes(results, heads))


def _places(attrs: Attrs, count: int) -> tuple[int, ...]:
    """Return for each input of a ``_foreach`` the position of its variable in the body.

    Raises:
        KernelError: the attributes do not map the inputs to distinct variables.
    """
    places = (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])
    if sorted(places) != list(range(count)):
        raise KernelError(
            f"in_data_locs, in_state_locs and remain_locs map {format_count(len(places), 'input')}, but there are {count}"
            if len(places) != count
            else f"in_data_locs, in_state_locs and remain_locs do not name each of the {format_count(count, 'variable')} once"
        )
    return places


def _infer_body(infer: Any, number: int, places: Sequence[int], values: Sequence[Any], heads: Sequence[Any]) -> Any:
    variables: list[Any] = [None] * len(places)
    for place, value in zip(places, values, strict=True):
        variables[place] = value
    return infer(number, variables, heads)


def _unify_heads(results: list[Shape], heads: Shapes, count: int, length: Dim) -> None:
    """Unify the outputs with the heads of a body, of which the first ``count`` are stacked."""
    for i, head in enumerate(heads[: len(results)]):
        if i >= count:
            results[i] = unify(results[i], head)
        elif head is not None:
            results[i] = unify(results[i], (length, *head))


def while_body_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """Infer as :func:`while_shapes`, and through the condition and a step of the body."""
    operands, results = map(list, while_shapes(attrs, inputs, outputs))
    count = attrs["num_out_data"]
    variables, _ = bodies.shapes(0, [operands[i] for i in _inputs(attrs, "cond_input_locs", operands)], [])
    _unify_variables(operands, attrs["cond_input_locs"], variables)
    heads: list[Shape] = [*(None if x is None else x[1:] for x in results[:count]), *results[count:]]
    variables, step_heads = bodies.shapes(1, [operands[i] for i in _inputs(attrs, "func_input_locs", operands)], heads)
    _unify_variables(operands, attrs["func_input_locs"], variables)
    _unify_heads(results, step_heads, count, attrs["max_iterations"])
    return while_shapes(attrs, operands, results)


def while_body_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """Infer as :func:`while_types`, and through the condition and a step of the body."""
    operands, results = map(list, while_types(attrs, inputs, outputs))
    for number, key, heads in ((0, "cond_input_locs", []), (1, "func_input_locs", results)):
        variables, step_heads = bodies.types(number, [operands[i] for i in _inputs(attrs, key, operands)], heads)
        for i, dtype in zip(attrs[key], variables, strict=True):
            operands[i] = operands[i] or dtype
        results = _fill_dtypes(results, step_heads) if number else results
    return while_types(attrs, operands, results)


def cond_body_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """Infer through the condition and both branches, whose heads have the shapes of the outputs."""
    operands, results = list(inputs), list(outputs)
    for number, key in enumerate(("cond_input_locs", "then_input_locs", "else_input_locs")):
        of = [operands[i] for i in _inputs(attrs, key, operands)]
        variables, heads = bodies.shapes(number, of, results if number else [])
        _unify_variables(operands, attrs[key], variables)
        if number:
            _unify_heads(results, heads, 0, None)
    return operands, results


def cond_body_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """Infer dtypes as :func:`cond_body_shapes` infers shapes."""
    operands, results = list(inputs), list(outputs)
    for number, key in enumerate(("cond_input_locs", "then_input_locs", "else_input_locs")):
        of = [operands[i] for i in _inputs(attrs, key, operands)]
        variables, heads = bodies.types(number, of, results if number else [])
        for i, dtype in zip(attrs[key], variables, strict=True):
            operands[i] = operands[i] or dtype
        results = _fill_dtypes(results, heads) if number else results
    return operands, results


def _inputs(attrs: Attrs, key: str, operands: Sequence[Any]) -> Sequence[int]:
    places: Sequence[int] = attrs[key]
    if any(not 0 <= place < len(operands) for place in places):
        raise KernelError(f"{key} {tuple(places)} names inputs beyond the {len(operands)} of the node")
    return places


def _unify_variables(operands: list[Shape], places: Sequence[int], variables: Shapes) -> None:
    for place, shape in zip(places, variables, strict=True):
        operands[place] = unify(operands[place], shape)


def _fill_dtypes(results: Types, heads: Types) -> list[str | None]:
    return [x or (heads[i] if i < len(heads) else None) for i, x in enumerate(results)]
