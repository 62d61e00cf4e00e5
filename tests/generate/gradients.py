"""Compare gradients of a generated graph: those of one random inner product of its heads, by variable."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from graphshare.errors import BugError, GraphshareError
from graphshare.execute.plan import make_plan
from graphshare.execute.train.tape import Tape
from tests.generate.grow import Model
from tests.generate.rounding import rounding_noise
from tests.generate.shrink import cut_all
from tests.generate.verdict import Disagreement
from tests.oracle.known_in_graphs import NO_GRADIENT, NOT_ADDED, WRONG_GRADIENTS
from tests.oracle.known_inputs import differs_where
from tests.oracle.probed import array_of

RTOL = {"float16": 5e-2, "float32": 1e-3, "float64": 1e-6}
DRAWS, TIMES = 4, 8
LEAST = 1e-3
"""Gradients that vanish, as behind a normalization, are differences of numbers of about 1."""


def differentiable(model: Model) -> Model:
    """Return the graph with variables for the operators through which MXNet computes no gradient,
    or a wrong one in graphs.
    """
    nodes = model.document["nodes"]
    uses = Counter((i, k) for record in nodes for i, k, _ in record["inputs"])
    cut = []
    for number, case in model.cases.items():
        sources = [(i, k) for i, k, _ in nodes[number]["inputs"]]
        shared = any(
            uses[sources[slot]] > 1 for slot in NOT_ADDED.get(case["op"], ()) if slot < len(sources)
        )
        arrays = [model.values[source] for source in sources]
        listed = case["op"] in NO_GRADIENT or case["op"] in WRONG_GRADIENTS
        if shared or listed or differs_where(case, arrays, "in graphs: gradient 0: values"):
            cut.append(number)
    return cut_all(model, cut)


def compare_gradients(model: Model, answer: dict[str, Any]) -> tuple[str, list[Disagreement]]:
    """Return a word for what was compared, and the variables whose gradients differ, each relative to its own size."""
    try:
        gradients = _differentiate(model)
    except BugError as error:
        return "", [Disagreement(model.seed, "graph", "internal error", str(error).splitlines()[0])]
    except GraphshareError as error:
        if "error" in answer or "crash" in answer:
            return "gradients refused by both", []
        return f"gradients refused by this package ({_operator_of(error)})", []
    if "error" in answer:
        return f"gradients refused by MXNet ({answer['error'].strip()[-60:]})", []
    if "crash" in answer:
        return "gradients for which MXNet ends", []
    computed = _list_dtypes(model)
    largest = max(
        (float(np.linalg.norm(array_of(r).astype(np.float64))) for r in answer.values()),
        default=0.0,
    )
    least = LEAST + (1e-4 * largest if np.isfinite(largest) else 0.0)
    found, noisy = [], []
    for name, record in answer.items():
        want, got = array_of(record), gradients.get(name)
        rtol = max(RTOL[dtype] for dtype in {str(want.dtype), *computed[name]})
        how = _difference(
            np.zeros_like(want) if got is None else np.asarray(got), want, least, rtol
        )
        if how is None:
            continue
        noisy = noisy or _differentiate_with_noise(model)
        if gradients.get(name) is None or not _is_rounding(
            gradients[name], want, [each.get(name) for each in noisy]
        ):
            found.append(Disagreement(model.seed, name, "gradient", how))
    return (
        "gradients compared" if found or not noisy else "gradients that differ by rounding",
        found,
    )


def _differentiate(model: Model) -> dict[str, Any]:
    graph = model.graph
    values = {node: model.feeds[node.name].copy() for node in graph.nodes if node.is_variable}
    requested = [node for node, x in values.items() if x.dtype.kind == "f"]
    with np.errstate(all="ignore"):
        tape = Tape(
            make_plan(graph.heads), values, requested, streams=lambda node: np.random.default_rng(0)
        )
        stream = np.random.RandomState(model.seed % 2**32)
        heads = [np.asarray(stream.standard_normal(y.shape)).astype(y.dtype) for y in tape.outputs]
        return {node.name: x for node, x in tape.backward(heads).gradients.items()}


def _differentiate_with_noise(model: Model) -> list[dict[str, Any]]:
    found = []
    for seed in range(DRAWS):
        with rounding_noise(seed):
            found.append(_differentiate(model))
    return found


def _is_rounding(got: Any, want: Any, noisy: list[Any]) -> bool:
    """Whether a gradient differs by no more than noise changes it, some times over."""
    error = np.linalg.norm(np.subtract(got, want, dtype=np.float64))
    return any(
        x is not None
        and bool(error <= TIMES * np.linalg.norm(np.subtract(x, got, dtype=np.float64)))
        for x in noisy
    )


def _operator_of(error: GraphshareError) -> str:
    return str(error).splitlines()[0][:80]


def _list_dtypes(model: Model) -> dict[str, set[str]]:
    """Return the dtypes of floating point that what is computed from each variable depends on."""
    nodes = model.document["nodes"]
    needs: list[set[str]] = []
    for number, record in enumerate(nodes):
        own = {str(x.dtype) for (i, _), x in model.values.items() if i == number}
        needs.append((own & set(RTOL)).union(*(needs[entry[0]] for entry in record["inputs"])))
    behind = [set(need) for need in needs]
    for number in reversed(range(len(nodes))):
        for source, _, _ in nodes[number]["inputs"]:
            behind[source] |= behind[number]
    return {record["name"]: behind[number] for number, record in enumerate(nodes)}


def _difference(got: Any, want: Any, least: float, rtol: float) -> str | None:
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype} {got.shape}, MXNet {want.dtype} {want.shape}"
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return None
    a, b = got.astype(np.float64), want.astype(np.float64)
    size = max(np.linalg.norm(b), least)
    error = float(np.linalg.norm(a - b) / size)
    return None if error <= rtol else f"relative difference {error:.2e} of {size:.3g}"
