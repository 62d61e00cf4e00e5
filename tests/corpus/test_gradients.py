"""Gradients of whole graphs against a central difference, in float64: all parameters at once, in one random direction.

Loss heads follow rules of their own, so the data that they are given stands for them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.execute.cost import totals
from graphshare.execute.inference import Inference, infer
from graphshare.gradients.gradient import Gradient
from graphshare.gradients.registry import find_gradient
from graphshare.ir.graph import VARIABLE, Entry, Node
from graphshare.ir.walk import post_order
from graphshare.rules.roles import Kind, assign_roles
from graphshare.workflows.prepare import runnable_part
from tests.corpus.test_forward import STEMS, graph_of
from tests.corpus.values import parameter
from tests.gradients.checker import check, slightly_wrong
from tests.surroundings import NONE, recorded

pytestmark = pytest.mark.corpus

LIMIT = 1e-4
STEP = 1e-8
"""So small that of many thousands of activations none crosses its kink; in float64 enough of the difference is left."""
LARGEST = 4e7
"""Multiply-adds of a forward pass; larger graphs say nothing new."""
NOT_SMOOTH = {
    "nlp_textcnn": "a word that occurs twice ties for the largest value, and MXNet gives both all of the gradient",
    "rnn_cells_unrolled": "its first states are constants of float32, and what is computed from them is too",
}
INTEGER = ("_contrib_quant", "_sg_mkldnn", "_contrib_dequantize", "_contrib_requantize")


def numbers(corpus: Path, stem: str) -> tuple[list[Entry], dict[Node, Any], list[Node], Inference, int]:
    """Targets, values, what is trained, shapes, and what a forward pass costs."""
    graph, _ = runnable_part(*((g := graph_of(corpus, stem)), list(g.heads)))
    meta = recorded(corpus, stem)
    arrays = np.load(corpus / "oracle" / f"{stem}.io.npz")
    fed = {key.removeprefix("in__"): arrays[key] for key in arrays.files if key.startswith("in__")}
    nodes = post_order(entry.node for entry in graph.heads)
    variables = [node for node in nodes if node.op == VARIABLE]
    given = {n: fed[n.name] for n in variables if n.name in fed}
    found = infer(graph, {n: x.shape for n, x in given.items()}, {n: str(x.dtype) for n, x in given.items()}, nodes=nodes)
    roles = assign_roles(graph)
    values = dict(given)
    for node in variables:
        if node not in given:
            shape = tuple(d or 0 for d in found.shapes[node][0] or ())
            values[node] = parameter(node.name, shape, found.types[node][0] or "float32", node.name in meta["aux_shapes"])
    trained = [n for n in variables if n not in given and roles[n].kind is not Kind.AUXILIARY]
    targets = [e.node.inputs[0] if _is_loss(e.node) else e for e in graph.heads]
    return targets, values, trained, found, totals(found, roles).multiply_adds or 0


def _is_loss(node: Node) -> bool:
    gradient = find_gradient(node.op) if node.op != VARIABLE else None
    return isinstance(gradient, Gradient) and gradient.is_loss


@pytest.mark.slow
@pytest.mark.parametrize("stem", STEMS)
def test_the_gradient_of_a_graph_is_its_derivative(stem: str, corpus: Path) -> None:
    assert stem != NONE
    if stem in NOT_SMOOTH:
        pytest.skip(NOT_SMOOTH[stem])
    text = json.dumps(recorded(corpus, stem)["op_hist"])
    if any(name in text for name in INTEGER):
        pytest.skip("integers have no gradients")
    targets, values, trained, found, cost = numbers(corpus, stem)
    if cost > LARGEST:
        pytest.skip(f"{cost:,} multiply-adds")
    result = check(targets, values, trained, step=STEP, shapes=found.shapes)
    if result is None:
        pytest.skip("its outputs are not finite")
    assert result.apart <= LIMIT, f"{result.gradient} where {result.difference} is right"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stem", "op"),
    [
        ("cv_cifar_resnet20_v1", "Convolution"),
        ("cv_cifar_resnet20_v1", "BatchNorm"),
        ("nlp_bert_small", "FullyConnected"),
        ("nlp_bert_small", "softmax"),
        ("rnn_lstm", "RNN"),
        ("small_densenet", "Concat"),
        ("small_densenet", "Pooling"),
        ("hand_tied_fc", "FullyConnected"),
    ],
)
def test_a_gradient_that_is_slightly_wrong_is_found_in_a_graph(stem: str, op: str, corpus: Path) -> None:
    targets, values, trained, found, _ = numbers(corpus, stem)

    def worst() -> float:
        checks = [check(targets, values, trained, step=STEP, shapes=found.shapes, seed=seed) for seed in range(3)]
        return max(result.apart for result in checks if result is not None)

    with slightly_wrong(op):
        assert worst() > LIMIT
    assert worst() <= LIMIT
