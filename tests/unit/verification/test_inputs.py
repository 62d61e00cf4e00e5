"""The parameters that branches are computed with: equal arrays are read once, others each for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.formats.params.arrays import ArrayReader
from graphshare.verification.other_inputs import draw_other_inputs

LENET = Path(__file__).parents[3] / "fixtures/lenet"


@pytest.mark.parametrize("mode", ["copy", "tie"])
@pytest.mark.parametrize("changed", ["", "fc1_weight"])
def test_a_parameter_is_read_once_for_both_branches_where_it_is_equal(
    monkeypatch: pytest.MonkeyPatch, mode: str, changed: str
) -> None:
    model = gs.load(LENET)
    count = len(model.params)
    siamese = gs.duplicate(model, "sha-", mode=mode)
    differs = bool(changed) and mode == "copy"
    if differs:
        siamese = siamese.with_params({f"sha-{changed}": model.params[changed] + 1})
    read: list[str] = []
    plain = ArrayReader.read

    def note(self: ArrayReader, record: Any) -> Any:
        read.append(record.key)
        return plain(self, record)

    monkeypatch.setattr(ArrayReader, "read", note)
    assert bool(gs.verify(siamese, shapes={"data": (1, 1, 28, 28)})) is not differs
    assert len(read) == len(set(read)) == count + differs


def test_other_inputs_have_one_more_of_each_size_that_is_free() -> None:
    values = {0: np.ones((2, 3), np.float32), 1: np.ones((3, 5), np.float32)}
    *same, first, second = draw_other_inputs(values, {1: (None, 5)})
    assert [[array.shape for array in each.values()] for each in same] == [[(2, 3), (3, 5)]] * 3
    assert [array.shape for array in first.values()] == [(3, 3), (3, 5)]
    assert [array.shape for array in second.values()] == [(2, 4), (4, 5)]
