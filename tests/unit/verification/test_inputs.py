"""The parameters that branches are computed with: equal arrays are read once, others each for itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.formats.params.arrays import ArrayReader
from graphshare.verification import inputs
from graphshare.verification.draws import draw_other_inputs

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


@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_inputs_that_are_equal_are_looked_for_among_inputs_alone(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Parameters may be large, and equal ones are no inputs that could be exchanged."""
    shapes: set[tuple[int, ...]] = set()
    read_bits = inputs.read_bits

    def note(value: Any) -> Any:
        shapes.add(np.shape(value))
        return read_bits(value)

    monkeypatch.setattr(inputs, "read_bits", note)
    assert gs.verify(gs.duplicate(LENET, "sha-", mode=mode), shapes={"data": (1, 1, 28, 28)})
    assert shapes == {(1, 1, 28, 28)}


def test_other_inputs_have_one_more_of_each_size_that_is_free() -> None:
    values = {0: np.ones((2, 3), np.float32), 1: np.ones((3, 5), np.float32)}
    *same, first, second = draw_other_inputs(values, {1: (None, 5)})
    assert [[array.shape for array in each.values()] for each in same] == [[(2, 3), (3, 5)]] * 3
    assert [array.shape for array in first.values()] == [(3, 3), (3, 5)]
    assert [array.shape for array in second.values()] == [(2, 4), (4, 5)]


def test_other_inputs_are_the_same_numbers_in_other_places_larger_ones_and_any() -> None:
    values = {
        0: np.array([1.0, 2.0, 3.0, 4.0], np.float32),
        1: np.array([1, 2, 3]),
        2: np.array([[True, False]]),
    }
    moved, large, any_, *longer = draw_other_inputs(values, {2: (1, 2)})
    assert sorted(np.abs(moved[0])) == [1, 2, 3, 4]
    assert sorted(np.abs(large[0])) == [1000, 2000, 3000, 4000]
    assert all(1e-30 <= abs(number) <= 1e30 for number in any_[0].tolist())
    assert max(np.abs(np.log10(np.abs(any_[0])))) > 4
    assert any((each[0] < 0).any() for each in (moved, large, any_))
    assert [sorted(each[1].tolist()) for each in (moved, large, any_)] == [
        [1, 2, 3],
        [2, 3, 4],
        [0, 0, 0],
    ]
    assert [sorted(each[2].tolist()[0]) for each in (moved, large, any_)] == [
        [False, True],
        [False, True],
        [False, False],
    ]
    assert all(
        each[key].dtype == values[key].dtype
        for each in (moved, large, any_, *longer)
        for key in values
    )
    # Sizes of 3 and 4 are free, not those of 1 and 2; what is longer begins again.
    assert [[array.tolist() for array in each.values()] for each in longer] == [
        [[1, 2, 3, 4], [1, 2, 3, 1], [[True, False]]],
        [[1, 2, 3, 4, 1], [1, 2, 3], [[True, False]]],
    ]
    again = list(draw_other_inputs(values, {2: (1, 2)}))
    assert all((a[0] == b[0]).all() for a, b in zip([moved, large, any_], again, strict=False)), (
        "both sides get the same"
    )


def test_four_sizes_are_lengthened_at_most() -> None:
    values = {0: np.ones((2, 3, 4, 5, 6, 0), np.float32)}
    assert [each[0].shape for each in draw_other_inputs(values, {})][3:] == [
        (3, 3, 4, 5, 6, 0),
        (2, 4, 4, 5, 6, 0),
        (2, 3, 5, 5, 6, 0),
        (2, 3, 4, 6, 6, 0),
    ]
