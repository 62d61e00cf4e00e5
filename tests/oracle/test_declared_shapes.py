"""The recorded answers of ``tests/unit/ops/test_declared_shapes.py``, asked of MXNet again."""

from __future__ import annotations

import json

import pytest

from tests.oracle.conversation import Oracle
from tests.unit.ops.test_declared_shapes import CASES

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name", CASES)
def test_the_shape_of_the_output(name: str, oracle: Oracle) -> None:
    source, given, expected = CASES[name]
    code = f"result = list(map(list, mx.sym.load_json({json.dumps(source)!r}).infer_shape(**{given!r})[1]))"
    answer = oracle.ask("author", code=code)
    assert answer["result"] == [list(expected)] if expected is not None else "error" in answer
