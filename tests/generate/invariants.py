"""What must hold of any valid graph, whatever MXNet says: each function returns how it fails, or None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.api.duplicate import duplicate
from graphshare.errors import RefusedError
from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Graph
from graphshare.ops.inference import infer
from graphshare.ops.normalization.signature import BARRIER_KEYS
from graphshare.rewrite.extract_graph import extract_entries
from graphshare.rewrite.rename_nodes import plan_rename
from graphshare.rewrite.upgrade_graph import upgrade_graph
from tests.generate.grow import Model
from tests.validate import validate

PREFIX = "x-"


def check_file(model: Model) -> str | None:
    """A file that is read and written has equal bytes; an upgrade of an upgrade changes nothing."""
    first = _text(upgrade_graph(model.graph).graph)
    again = read_symbol(first)
    if _text(again) != first:
        return "reading and writing changes the file"
    return (
        None if _text(upgrade_graph(again).graph) == first else "a second upgrade changes the file"
    )


def check_rename(model: Model) -> str | None:
    """A prefix that is added and removed again leaves the file as it was, and the values as they were."""
    graph = upgrade_graph(
        model.graph, keep_amp_cast=True
    ).graph  # without its casts a graph computes something else
    renamed = plan_rename(graph, prefix=PREFIX).graph
    if _text(plan_rename(renamed, strip_prefix=PREFIX).graph) != _text(graph):
        return "a prefix added and removed changes the file"
    return _differ(_run(renamed, model, prefixes=(PREFIX,)), _run(graph, model))


def check_copy(model: Model) -> str | None:
    """A copied branch has the structure of the original and its values; so has a tied one, whose
    parameters are shared.
    """
    for mode in ("copy", "tie"):
        try:
            graph = duplicate(model.graph, [PREFIX], mode=mode).graph  # type: ignore[arg-type]
        except RefusedError as error:
            if mode == "tie":
                continue  # whether a variable is a parameter cannot be told
            return f"{mode}: {error}"
        faults = validate(graph)
        if faults:
            return f"{mode}: {faults[0]}"
        half = len(graph.heads) // 2
        if not compare_structure(graph.heads[:half], graph.heads[half:], exempt=BARRIER_KEYS):
            return f"{mode}: the branches differ in structure"
        values = _run(graph, model, prefixes=(PREFIX,))
        how = _differ(values[half:], values[:half]) or _differ(
            values[:half], _run(model.graph, model)
        )
        if how is not None:
            return f"{mode}: {how}"
    return None


def check_extract(model: Model) -> str | None:
    """Each head alone, extracted, has the value that it has among the others, which is what its kernel computes alone.

    Up to rounding: an array of another layout in memory, such as a transposed one, is summed in another order.
    """
    graph = model.graph
    for head, together in zip(graph.heads, _run(graph, model), strict=True):
        part = extract_entries(graph, [head]).graph
        alone = _run(part, model)
        grown = model.values[_numbers(model)[head.node.name], head.index]
        how = _differ(alone, [together]) or _differ(
            alone, [grown], rtol=1e-5 if grown.dtype.kind == "f" else 0.0
        )
        if how is not None:
            return f"{head.node.name}: {how}"
    return None


def check_batch(model: Model) -> str | None:
    """A batch of equal inputs computes what the original does, wherever it is not refused."""
    try:
        graph = duplicate(model.graph, [PREFIX], mode="batch").graph
    except RefusedError:
        return None
    joined = {node.name.removesuffix("_batch") for node in graph.nodes if node.op == "Concat"}
    shapes = [
        model.feeds[node.name].shape for node in model.graph.variables() if node.name in joined
    ]
    if len({(len(shape), shape[:1]) for shape in shapes}) > 1:
        return None  # inputs of other ranks or numbers of samples are not one batch
    half = len(graph.heads) // 2
    try:
        values = _run(graph, model, prefixes=(PREFIX,))
    except RefusedError as error:
        return f"the batch does not run: {error}"
    for number in range(2):
        how = _differ(
            values[number * half : (number + 1) * half], _run(model.graph, model), rtol=1e-3
        )
        if how is not None:
            return f"branch {number}: {how}"
    return None


INVARIANTS: dict[str, Callable[[Model], str | None]] = {
    "file": check_file,
    "rename": check_rename,
    "copy": check_copy,
    "extract": check_extract,
    "batch": check_batch,
}


def _numbers(model: Model) -> dict[str, int]:
    return {record["name"]: number for number, record in enumerate(model.document["nodes"])}


def _text(graph: Graph) -> bytes:
    return b"".join(write_symbol(graph))


def _run(graph: Graph, model: Model, *, prefixes: tuple[str, ...] = ()) -> list[Any]:
    """Return the heads; a variable of a copy has the value of its original."""
    values = {}
    for node in graph.nodes:
        if node.is_variable:
            name = node.name
            for prefix in prefixes:
                name = name.removeprefix(prefix)
            values[node] = model.feeds[name].copy()
    types = {node: str(x.dtype) for node, x in values.items()}
    shapes = infer(graph, {node: x.shape for node, x in values.items()}, types).shapes
    with np.errstate(all="ignore"):
        return run_plan(make_plan(graph.heads), values, shapes=shapes).outputs


def _differ(got: list[Any], expected: list[Any], *, rtol: float = 0.0) -> str | None:
    if len(got) != len(expected):
        return f"{len(got)} outputs instead of {len(expected)}"
    for i, (a, b) in enumerate(zip(got, expected, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {i} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        same = (
            np.allclose(a, b, rtol, rtol, equal_nan=True)
            if rtol
            else np.array_equal(a, b, equal_nan=b.dtype.kind == "f")
        )
        if not same:
            return f"output {i} has other values"
    return None
