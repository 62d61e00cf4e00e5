"""Gradients of whole graphs against a central difference, in float64: all parameters at once, in one random direction.

Every graph with a recorded, deterministic forward is checked, or it is said why not. Loss heads
follow rules of their own and BlockGrad has none, so the data that they are given stands for them.
Large pictures are cut smaller where the graph takes that: the operators and the parameters stay. Of
graphs that are alike the first is checked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from graphshare.analysis.cost import totals
from graphshare.analysis.roles import Kind, assign_roles
from graphshare.errors import RefusedError
from graphshare.execute.prepare.prepare import runnable_part
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order
from graphshare.ops.gradient import Gradient
from graphshare.ops.inference import Inference, infer
from graphshare.ops.registry import canonical, find_gradient
from tests.corpus.alike import first_alike
from tests.corpus.test_forward import STEMS, graph_of
from tests.corpus.values import parameter, repeated_parameter
from tests.gradients.checker import Check, check, slightly_wrong
from tests.surroundings import NONE, is_required, mark_everyday, recorded

pytestmark = pytest.mark.corpus

LIMIT = 1e-4
STEPS = (1e-10, 1e-11)
"""So small that of many thousands of activations hardly one crosses its kink; in float64 enough of
the difference is left.
"""
ENOUGH = 14 * 10**8
"""Multiply-adds of a forward pass above which a smaller picture is tried."""
EVERYDAY = (5 * 10**8, 15 * 10**6)
"""Multiply-adds and parameters above which a graph is checked only where ``GRAPHSHARE_REQUIRE`` lists ``large``."""
LARGEST = 6 * 10**9
"""Multiply-adds above which a graph is left out: that takes minutes."""
NOT_SMOOTH = {
    "nlp_textcnn": "a word that occurs twice ties for the largest value, and MXNet gives both all of the gradient",
    "rnn_cells_unrolled": "its first states are constants of float32, and what is computed from them is too",
}
INTEGER = ("_contrib_quant", "_sg_mkldnn", "_contrib_dequantize", "_contrib_requantize")


class Sized(NamedTuple):
    """The part of a graph that can be run, on inputs of a size that is quick: what follows, and
    what a forward pass costs.
    """

    graph: Graph
    given: dict[Node, Any]
    found: Inference
    cost: int
    parameters: int


def sized(corpus: Path, stem: str) -> Sized:
    graph, _ = runnable_part(*((g := graph_of(corpus, stem)), list(g.heads)))
    with np.load(corpus / "oracle" / f"{stem}.io.npz") as arrays:
        fed = {
            key.removeprefix("in__"): arrays[key] for key in arrays.files if key.startswith("in__")
        }
    best = _on(graph, fed)
    while best.cost > ENOUGH and (smaller := halved(fed)) is not None:
        try:
            best, fed = _on(graph, smaller), smaller
        except RefusedError:  # a pooling window of a fixed size, a label that goes with the size
            break
    return best


def _on(graph: Graph, fed: Mapping[str, Any]) -> Sized:
    nodes = post_order(entry.node for entry in graph.heads)
    given = {n: fed[n.name] for n in nodes if n.is_variable and n.name in fed}
    found = infer(
        graph,
        {n: x.shape for n, x in given.items()},
        {n: str(x.dtype) for n, x in given.items()},
        nodes=nodes,
    )
    known = totals(found, assign_roles(graph))
    return Sized(graph, given, found, known.multiply_adds or 0, known.parameters or 0)


def halved(fed: Mapping[str, Any]) -> dict[str, Any] | None:
    """The upper left quarter of each picture; of a film half of the time too. None where there is no picture."""
    pictures = {
        name: x
        for name, x in fed.items()
        if x.ndim > 3 and x.shape[1] in (1, 3) and min(x.shape[-2:]) > 15
    }
    pictures = {name: x for name, x in pictures.items() if x.shape[-1] == x.shape[-2]}
    cut = {
        n: x[(..., *(slice((size + 1) // 2) for size in x.shape[2:]))] for n, x in pictures.items()
    }
    return {**fed, **cut} if cut else None


@cache
def alike(corpus: Path) -> dict[str, str]:
    return first_alike(corpus, STEMS)


@cache
def reason_against(corpus: Path, stem: str) -> str:
    """Why a graph is not checked, or an empty text. Graphs like another are told apart by ``as``."""
    operators = json.dumps(recorded(corpus, stem)["op_hist"])
    if stem in NOT_SMOOTH:
        return NOT_SMOOTH[stem]
    if any(name in operators for name in INTEGER):
        return "integers have no gradients"
    if alike(corpus)[stem] != stem:
        return f"as {alike(corpus)[stem]}"
    _, _, _, cost, parameters = sized(corpus, stem)
    if cost > LARGEST:
        return f"{cost:,} multiply-adds on the smallest picture that it takes"
    if (cost > EVERYDAY[0] or parameters > EVERYDAY[1]) and not is_required("large"):
        return f"large, {cost:,} multiply-adds and {parameters:,} parameters: set GRAPHSHARE_REQUIRE=large"
    return ""


def checked(corpus: Path, stem: str, seed: int = 0) -> Check | None:
    """The gradient of a graph beside its difference, by the first step at which they agree, else by the last."""
    graph, given, found, *_ = sized(corpus, stem)
    states, roles, values = recorded(corpus, stem)["aux_shapes"], assign_roles(graph), dict(given)
    variables = [node for node in found.nodes if node.is_variable]
    for node in variables:
        if node not in given:
            shape, dtype = (
                tuple(d or 0 for d in found.shapes[node][0] or ()),
                found.types[node][0] or "float32",
            )
            whole = np.dtype(dtype).kind in "iu"
            drawn = parameter(node.name, shape, dtype, False) if whole else None
            values[node] = (
                repeated_parameter(node.name, shape, node.name in states)
                if drawn is None
                else drawn
            )
    trained = [n for n in variables if n not in given and roles[n].kind is not Kind.AUXILIARY]
    targets = [e.node.inputs[0] if _stops(e.node) else e for e in graph.heads]
    for step in STEPS:
        result = check(targets, values, trained, step=step, shapes=found.shapes, seed=seed)
        if result is None or result.apart <= LIMIT:
            break
    return result


def _stops(node: Node) -> bool:
    gradient = find_gradient(node.op) if not node.is_variable else None
    return canonical(node.op) == "BlockGrad" or (
        isinstance(gradient, Gradient) and gradient.is_loss
    )


@pytest.mark.slow
@pytest.mark.parametrize("stem", mark_everyday(STEMS, 10))
def test_the_gradient_of_a_graph_is_its_derivative(stem: str, corpus: Path) -> None:
    assert stem != NONE
    if reason := reason_against(corpus, stem):
        pytest.skip(reason)
    result = checked(corpus, stem)
    assert result is not None, "its outputs are not finite"
    assert result.apart <= LIMIT, f"{result.gradient} where {result.difference} is right"


@pytest.mark.slow
@pytest.mark.large
def test_counts(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """How many graphs are checked, and why the others are not."""
    kinds = {"as": "alike", "large,": "large"}
    reasons = {stem: reason for stem in STEMS if (reason := reason_against(corpus, stem))}
    left = Counter(kinds.get(reason.split()[0], "left out") for reason in reasons.values())
    lines = [f"{len(STEMS):5} graphs with a recorded, deterministic forward"]
    lines += [
        f"{len(STEMS) - left.total():5} whose gradient is checked",
        f"{left['alike']:5} like one of them",
    ]
    lines += [f"{left['large']:5} large, for another day", f"{left['left out']:5} left out"]
    lines += [f"      {stem}: {reason}" for stem, reason in reasons.items()]
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    # What another graph stands for must not be left out itself.
    firsts = [reason.removeprefix("as ") for reason in reasons.values() if reason.startswith("as ")]
    assert all(reasons.get(first, "large,").startswith("large,") for first in firsts)
    assert len(STEMS) - left["left out"] >= 145


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stem", "op"),
    [
        pytest.param("cv_cifar_resnet20_v1", "Convolution", marks=pytest.mark.large),
        pytest.param("cv_cifar_resnet20_v1", "BatchNorm", marks=pytest.mark.large),
        pytest.param("nlp_bert_small", "FullyConnected", marks=pytest.mark.large),
        pytest.param("nlp_bert_small", "softmax", marks=pytest.mark.large),
        ("rnn_lstm", "RNN"),
        pytest.param("small_densenet", "Concat", marks=pytest.mark.large),
        ("small_densenet", "Pooling"),
        ("hand_tied_fc", "FullyConnected"),
    ],
)
def test_a_gradient_that_is_slightly_wrong_is_found_in_a_graph(
    stem: str, op: str, corpus: Path
) -> None:
    def worst() -> float:
        return max(
            result.apart
            for result in (checked(corpus, stem, seed) for seed in range(3))
            if result is not None
        )

    with slightly_wrong(op):
        assert worst() > LIMIT
    assert worst() <= LIMIT
