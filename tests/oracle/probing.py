"""Probes: recorded cases with other attributes, shapes, types and values, drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.ops.registry import lookup
from graphshare.ops.signature import Parameter
from tests.kernels.recordings import FAMILIES, cases_of, recorded_inputs

DTYPES = ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool")
ODD = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0, 1.0, -1.0)
FEW_NUMBERS = (-3, -2, -1, 0, 0, 1, 1, 2, 3, 4)

Probe = tuple[dict[str, Any], list[Any]]


@cache
def recorded_cases() -> dict[str, list[Probe]]:
    """All recorded cases by operator, with their inputs."""
    found: dict[str, list[Probe]] = {}
    for family in FAMILIES:
        for number, case in enumerate(cases_of(family)):
            one = {"op": case["op"], "attrs": case["attrs"], "family": family}
            found.setdefault(case["op"], []).append((one, recorded_inputs(family, number)))
    return found


def cases_with_bodies() -> dict[str, list[Probe]]:
    """The recorded cases of control flow by operator: cases with ``subgraphs``."""
    found: dict[str, list[Probe]] = {}
    for number, case in enumerate(cases_of("flow")):
        one = {key: case[key] for key in ("op", "attrs", "subgraphs")}
        found.setdefault(case["op"], []).append(
            ({**one, "family": "flow"}, recorded_inputs("flow", number))
        )
    return found


def probes(op: str, known: list[Probe], count: int, seed: int) -> Iterator[Probe]:
    """``count`` probes of one operator, each a recorded case changed once or twice."""
    stream = np.random.default_rng([seed, *op.encode()])
    for _ in range(count):
        case, inputs = known[stream.integers(len(known))]
        attrs, inputs = dict(case["attrs"]), [x.copy() for x in inputs]
        for _ in range(int(stream.choice((1, 1, 1, 2, 2, 3)))):
            way = stream.choice(("attrs", "attrs", "attrs", "shape", "shape", "dtype", "values"))
            if way == "attrs":
                change_attribute(stream, op, attrs, inputs)
            elif inputs:
                {"shape": change_shape, "dtype": change_dtype, "values": change_values}[str(way)](
                    stream, inputs
                )
        if sum(x.size for x in inputs) > 1 << 20:
            continue
        np_shape = any(0 in x.shape or not x.ndim for x in inputs) or bool(stream.integers(4) == 0)
        yield (
            {
                "op": op,
                "attrs": attrs,
                "family": case["family"],
                "np_shape": np_shape,
                "count": len(inputs),
            },
            inputs,
        )


def change_attribute(
    stream: np.random.Generator, op: str, attrs: dict[str, str], inputs: list[Any]
) -> None:
    """Gives one attribute another value, or its default."""
    signature = lookup(op)
    parameters = signature.parameters if signature is not None else None
    if not parameters:
        return
    parameter = parameters[stream.integers(len(parameters))]
    if parameter.name in attrs and not parameter.required and stream.integers(6) == 0:
        del attrs[parameter.name]
        return
    text = attribute_text(stream, parameter, attrs.get(parameter.name, parameter.default), inputs)
    if text is not None:
        attrs[parameter.name] = text


def attribute_text(
    stream: np.random.Generator, parameter: Parameter, now: str | None, inputs: list[Any]
) -> str | None:
    """Another value of the kind that the attribute has; None where none is known."""
    kind = parameter.kind
    if kind.endswith("?") and stream.integers(5) == 0:
        return "None"
    base = kind.removesuffix("?")
    if base == "enum":
        return str(stream.choice(parameter.choices))
    if base == "bool":
        return str(bool(stream.integers(2)))
    if base in ("int", "int64", "uint", "uint64"):
        return str(stream.choice(FEW_NUMBERS if base[0] == "i" else (0, 1, 2, 3, 4)))
    if base in ("float", "double"):
        return str(stream.choice((-1.5, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0)))
    if base in ("shape", "tuple32", "tuple64"):
        return tuple_text(stream, now, max((x.ndim for x in inputs), default=2))
    return None


def tuple_text(stream: np.random.Generator, now: str | None, rank: int) -> str:
    """A tuple: none, the present one with a member changed or in another order, or a new one."""
    digits = [
        int(part)
        for part in (now or "").strip("()[] ").split(",")
        if part.strip().lstrip("-").isdigit()
    ]
    way = stream.integers(5)
    if way == 0:
        return "()"
    if digits and way in (1, 2):
        digits[stream.integers(len(digits))] = int(stream.choice(FEW_NUMBERS))
    elif digits and way == 3:
        digits = [digits[i] for i in stream.permutation(len(digits))]
    else:
        digits = [int(stream.choice(FEW_NUMBERS)) for _ in range(stream.integers(1, rank + 2))]
    return f"({', '.join(map(str, digits))}{',' if len(digits) == 1 else ''})"


def change_shape(stream: np.random.Generator, inputs: list[Any]) -> None:
    """Another shape for one input, or for all of its shape, filled with the same numbers over again."""
    which = int(stream.integers(len(inputs)))
    old = inputs[which].shape
    shape = list(old)
    way = stream.integers(8)
    if way == 0:
        shape.insert(int(stream.integers(len(shape) + 1)), int(stream.integers(1, 4)))
    elif way == 1 and shape:
        shape.pop(int(stream.integers(len(shape))))
    elif way == 2:
        shape = [] if stream.integers(2) else [1]
    elif way == 3 and shape:
        shape[stream.integers(len(shape))] = 0
    elif way == 4:
        shape = [shape[i] for i in stream.permutation(len(shape))]
    elif shape:
        shape[stream.integers(len(shape))] = int(stream.integers(1, 8))
    together = bool(stream.integers(2))
    for i, x in enumerate(inputs):
        if i == which or (together and x.shape == old):
            inputs[i] = np.resize(x, shape) if x.size else np.zeros(shape, x.dtype)


def change_dtype(stream: np.random.Generator, inputs: list[Any]) -> None:
    """Another type for one input, for all of its type, or for all."""
    which, dtype, how = (
        int(stream.integers(len(inputs))),
        str(stream.choice(DTYPES)),
        stream.integers(3),
    )
    old = inputs[which].dtype
    for i, x in enumerate(inputs):
        if i == which or how == 2 or (how == 1 and x.dtype == old):
            with np.errstate(all="ignore"):
                inputs[i] = np.nan_to_num(x).astype(dtype) if dtype[0] != "f" else x.astype(dtype)


def change_values(stream: np.random.Generator, inputs: list[Any]) -> None:
    """Some numbers of one input that are none, infinite or zeros with a sign; equal ones in whole numbers."""
    which = int(stream.integers(len(inputs)))
    x = inputs[which] = np.array(inputs[which])
    if not x.size:
        return
    flat = x.reshape(-1)
    places = stream.integers(x.size, size=max(1, x.size // 5))
    flat[places] = stream.choice(ODD, size=len(places)) if x.dtype.kind == "f" else flat[places[0]]
    inputs[which] = flat.reshape(x.shape)


def written(made: list[Probe], path: Path) -> None:
    """The file that the other process reads."""
    arrays = {f"{n}_in{i}": x for n, (_, inputs) in enumerate(made) for i, x in enumerate(inputs)}
    np.savez(path, cases=np.array(json.dumps([case for case, _ in made])), **arrays)
