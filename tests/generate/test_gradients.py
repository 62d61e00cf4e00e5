"""A gradient that differs by rounding is excused, one that differs otherwise is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.generate.gradients import compare_gradients
from tests.generate.grow import Model
from tests.oracle.known_inputs import differs_where
from tests.symbols import document, operator, variable


def _model(op: str, attrs: dict[str, str], feeds: dict[str, Any]) -> Model:
    nodes = [*map(variable, feeds), operator(op, "node", range(len(feeds)), attrs=attrs)]
    values = {(number, 0): x for number, x in enumerate(feeds.values())}
    return Model(0, document(nodes, [len(feeds)], row_ptr=False), feeds, {}, values, None, ())


def _answer(**gradients: Any) -> dict[str, Any]:
    return {name: (str(x.dtype), x.shape, x.tobytes()) for name, x in gradients.items()}


def test_a_wrong_gradient_is_found() -> None:
    model = _model("_mul_scalar", {"scalar": "2"}, {"x": np.ones(3, np.float32)})
    head = np.random.RandomState(0).standard_normal(3).astype(np.float32)
    assert compare_gradients(model, _answer(x=2 * head)) == ("gradients compared", [])
    word, found = compare_gradients(model, _answer(x=2.01 * head))
    assert word == "gradients compared"
    assert [(each.node, each.what) for each in found] == [("x", "gradient")]


def test_what_rounding_leaves_of_a_gradient_is_excused() -> None:
    model = _model("radians", {}, {"x": np.array([1.0, 2.0, 3.0])})
    # The same for all x: both gradients cancel
    model.document["nodes"].append(operator("broadcast_div", "ratio", [0, 1]))
    model.document["heads"] = [[2, 0, 0]]
    assert compare_gradients(model, _answer(x=np.full(3, 1e-6))) == (
        "gradients that differ by rounding",
        [],
    )
    assert len(compare_gradients(model, _answer(x=np.full(3, 1e-3)))[1]) == 1


@pytest.mark.parametrize(
    ("is_listed", "rows"),
    [
        # The first row leaves (0, 1, 0) of the second, which needs no reflection
        (True, [[1, 0, 1], [3, 1, 3]]),
        # Here a rounding is reflected on every processor
        (True, [[1, 0, 1], [3, 1, np.nextafter(3, 4)]]),
        (True, [[1, 2, 2], [1, 3, 4]]),  # the number that decides the sign is 0 but for rounding
        (False, [[1, 0, 2], [3, 1, 3]]),
        # Zeros that no arithmetic touches are zeros on every processor
        (False, [[1, 0, 0], [3, 1, 0]]),
        (False, [[0, 1, 1], [3, 1, 2]]),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_factor_whose_sign_is_a_rounding_is_not_compared(
    is_listed: bool, rows: list[list[float]], dtype: str
) -> None:
    """Each processor's LAPACK, and MXNet's in float32, then has its own sign for a row of Q, and so
    its own gradient.
    """
    case = {"op": "_linalg_gelqf", "attrs": {}}
    assert (
        differs_where(case, [np.array(rows, dtype)], "in graphs: gradient 0: values") == is_listed
    )
