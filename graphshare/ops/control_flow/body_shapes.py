"""Shapes and types around control flow: what holds whatever the bodies compute, and what follows inside of them.

States keep their shape and type, loops are as long as their data or their limit. With the bodies at hand, their variables know
what the node's inputs know, less the axis a loop runs along, and the outputs what their heads know; and the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphshare.ops.kernel import Attrs, Bodies, Dim, KernelError, Shape, Shapes, Types
from graphshare.ops.unification import same_dtypes, unify


def foreach_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Data and stacked outputs are equally long; states keep their shape."""
    found, results = list(inputs), list(outputs)
    _places(attrs, len(found))
    data, count = len(attrs["in_data_locs"]), attrs["num_out_data"]
    length: Dim = None
    for shape in (*found[:data], *results[:count]):
        if shape:
            length = length if shape[0] is None else shape[0]
    for i in range(data):
        found[i] = _with_length(found[i], length)
    for i in range(min(count, len(results))):
        results[i] = _with_length(results[i], length)
    for i in range(len(attrs["in_state_locs"])):
        if count + i < len(results):
            found[data + i] = results[count + i] = unify(found[data + i], results[count + i])
    return found, results


def _with_length(shape: Shape, length: Dim) -> Shape:
    if not shape:
        return shape
    return unify(shape, (length, *(None,) * (len(shape) - 1)))


def foreach_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """States keep their type."""
    _places(attrs, len(inputs))
    pairs = enumerate(range(len(attrs["in_data_locs"]), len(attrs["in_data_locs"]) + len(attrs["in_state_locs"])))
    return _state_dtypes([(place, attrs["num_out_data"] + i) for i, place in pairs], inputs, outputs)


def _variables(attrs: Attrs, inputs: Sequence[Any]) -> list[tuple[int, int]]:
    """The inputs that loop variables begin as, and the outputs that they end as."""
    fed, variables = _inputs(attrs, "func_input_locs", inputs), attrs["func_var_locs"]
    if any(not 0 <= place < len(fed) for place in variables):
        raise KernelError(f"func_var_locs {tuple(variables)} names places of func_input_locs {tuple(fed)} that are not there")
    places = [fed[place] for place in variables]
    return [(place, attrs["num_out_data"] + i) for i, place in enumerate(places)]


def while_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Loop variables keep their shape; stacked outputs are ``max_iterations`` long."""
    found, results = list(inputs), list(outputs)
    for place, output in _variables(attrs, found):
        if output < len(results):
            found[place] = results[output] = unify(found[place], results[output])
    for i in range(min(attrs["num_out_data"], len(results))):
        results[i] = _with_length(results[i], attrs["max_iterations"])
    return found, results


def while_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Loop variables keep their type."""
    return _state_dtypes(_variables(attrs, inputs), inputs, outputs)


def _state_dtypes(pairs: Sequence[tuple[int, int]], inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Inputs and outputs that stand for one state have one type."""
    found, results = list(inputs), list(outputs)
    for place, output in pairs:
        if output < len(results):
            (found[place],), (results[output],) = same_dtypes({}, [found[place]], [results[output]])
    return found, results


def cond_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Nothing follows without the branches."""
    return inputs, outputs


def cond_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Nothing follows without the branches."""
    return inputs, outputs


def foreach_body_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """As :func:`foreach_shapes`, and what follows inside of a step."""
    found, results = map(list, foreach_shapes(attrs, inputs, outputs))
    places, data, count = _places(attrs, len(inputs)), len(attrs["in_data_locs"]), attrs["num_out_data"]
    steps = [_step_of(x) for x in found[:data]]
    heads = [*(None if x is None else x[1:] for x in results[:count]), *results[count:]]
    variables, heads = map(list, _infer_body(bodies.shapes, 0, places, [*steps, *found[data:]], heads))
    for i, place in enumerate(places):
        if i >= data:
            found[i] = unify(found[i], variables[place])
        elif found[i] is not None and len(found[i] or ()) > 1:
            step = variables[place]
            found[i] = unify(found[i], None if step is None else ((found[i] or (None,))[0], *step))
    length: Dim = next((x[0] for x in found[:data] if x), None)
    for i, head in enumerate(heads[: len(results)]):
        results[i] = unify(results[i], (length, *head) if i < count and head is not None else None if i < count else head)
    return foreach_shapes(attrs, found, results)


def _step_of(shape: Shape) -> Shape:
    """What a step sees of data: of a single axis, one number with its axis."""
    return None if not shape else shape[1:] if len(shape) > 1 else (1,)


def foreach_body_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """As :func:`foreach_types`, and what follows inside of a step."""
    found, results = map(list, foreach_types(attrs, inputs, outputs))
    places = _places(attrs, len(inputs))
    variables, heads = _infer_body(bodies.types, 0, places, found, results)
    found = [variables[place] or x for place, x in zip(places, found, strict=True)]
    return foreach_types(attrs, found, _with_types(results, heads))


def _places(attrs: Attrs, count: int) -> tuple[int, ...]:
    """For each input of a ``_foreach`` the place of the variable it feeds.

    Raises:
        KernelError: the attributes do not place every input once.
    """
    places = (*attrs["in_data_locs"], *attrs["in_state_locs"], *attrs["remain_locs"])
    if sorted(places) != list(range(count)):
        raise KernelError(
            f"in_data_locs, in_state_locs and remain_locs place {len(places)} inputs, but there are {count}"
            if len(places) != count
            else f"in_data_locs, in_state_locs and remain_locs do not name each of the {count} variables once"
        )
    return places


def _infer_body(ask: Any, number: int, places: Sequence[int], values: Sequence[Any], heads: Sequence[Any]) -> Any:
    placed: list[Any] = [None] * len(places)
    for place, value in zip(places, values, strict=True):
        placed[place] = value
    return ask(number, placed, heads)


def while_body_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """As :func:`while_shapes`, and what follows inside of the condition and of a step."""
    found, results = map(list, while_shapes(attrs, inputs, outputs))
    count, limit = attrs["num_out_data"], attrs["max_iterations"]
    _unify_variables(
        found, attrs["cond_input_locs"], bodies.shapes(0, [found[i] for i in _inputs(attrs, "cond_input_locs", found)], [])[0]
    )
    heads: list[Shape] = [*(None if x is None else x[1:] for x in results[:count]), *results[count:]]
    variables, told = bodies.shapes(1, [found[i] for i in _inputs(attrs, "func_input_locs", found)], heads)
    _unify_variables(found, attrs["func_input_locs"], variables)
    for i, head in enumerate(told[: len(results)]):
        results[i] = unify(results[i], (limit, *head) if i < count and head is not None else None if i < count else head)
    return while_shapes(attrs, found, results)


def while_body_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """As :func:`while_types`, and what follows inside of the condition and of a step."""
    found, results = map(list, while_types(attrs, inputs, outputs))
    for number, key, heads in ((0, "cond_input_locs", []), (1, "func_input_locs", results)):
        variables, told = bodies.types(number, [found[i] for i in _inputs(attrs, key, found)], heads)
        for i, dtype in zip(attrs[key], variables, strict=True):
            found[i] = found[i] or dtype
        results = _with_types(results, told) if number else results
    return while_types(attrs, found, results)


def cond_body_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes, bodies: Bodies) -> tuple[Shapes, Shapes]:
    """What follows inside of the condition and of both branches, whose heads have one shape each."""
    found, results = list(inputs), list(outputs)
    for number, key in enumerate(("cond_input_locs", "then_input_locs", "else_input_locs")):
        of = [found[i] for i in _inputs(attrs, key, found)]
        variables, heads = bodies.shapes(number, of, results if number else [])
        _unify_variables(found, attrs[key], variables)
        for i, head in enumerate(heads[: len(results)] if number else ()):
            results[i] = unify(results[i], head)
    return found, results


def cond_body_types(attrs: Attrs, inputs: Types, outputs: Types, bodies: Bodies) -> tuple[Types, Types]:
    """As :func:`cond_body_shapes`, of types."""
    found, results = list(inputs), list(outputs)
    for number, key in enumerate(("cond_input_locs", "then_input_locs", "else_input_locs")):
        of = [found[i] for i in _inputs(attrs, key, found)]
        variables, heads = bodies.types(number, of, results if number else [])
        for i, dtype in zip(attrs[key], variables, strict=True):
            found[i] = found[i] or dtype
        results = _with_types(results, heads) if number else results
    return found, results


def _inputs(attrs: Attrs, key: str, found: Sequence[Any]) -> Sequence[int]:
    places: Sequence[int] = attrs[key]
    if any(not 0 <= place < len(found) for place in places):
        raise KernelError(f"{key} {tuple(places)} names inputs that are not there; there are {len(found)}")
    return places


def _unify_variables(found: list[Shape], places: Sequence[int], variables: Shapes) -> None:
    for place, shape in zip(places, variables, strict=True):
        found[place] = unify(found[place], shape)


def _with_types(results: Types, heads: Types) -> list[str | None]:
    return [x or (heads[i] if i < len(heads) else None) for i, x in enumerate(results)]
