"""The gradient of a whole graph against a central difference, where no corpus is needed: the
corpus's graphs have more.
"""

from __future__ import annotations

import pytest

from tests.gradients.checker import check, slightly_wrong
from tests.training.ours import filled

LIMIT = 1e-6
STEP = 1e-7


def worst() -> float:
    """How far the gradient of lenet, before its loss, is from the difference, in some directions."""
    heads, values, trained, shapes = filled("lenet", None, "float64")
    targets = [entry.node.inputs[0] for entry in heads]
    checks = [
        check(targets, values, trained, step=STEP, shapes=shapes, seed=seed) for seed in range(3)
    ]
    return max(found.apart for found in checks if found is not None)


def test_the_gradient_of_a_graph_is_its_derivative() -> None:
    assert worst() <= LIMIT


@pytest.mark.parametrize(
    "op", ["Convolution", "FullyConnected", "BatchNorm", "Pooling", "Activation"]
)
def test_a_gradient_that_is_slightly_wrong_is_found(op: str) -> None:
    with slightly_wrong(op):
        assert worst() > 50 * LIMIT
